"""What to do after reading a report, as a few sentences that follow from its findings."""

from __future__ import annotations

from angcal.report.findings import Findings
from angcal.report.verdict import MOST_CLASSES_NAMED, SMALL_GAIN, Verdict, shortened
from angcal.tables.errors import first_few


def next_steps(found: Findings) -> list[str]:
    """Sentences, the most important first."""
    if found.fit is None:
        return ["Mend what the reason above names, and run angcal report again."]
    verdict = found.fit.verdict
    if not verdict.has_signal:
        return [
            f"Look for columns that say more about {found.target}, or for more rows: as they are, "
            "no row gets more than the shares of the classes.",
            *_about_classes(found),
        ]
    steps = [_which_probabilities(verdict), *_about_classes(found)]
    if found.complaints:
        steps.append("Read the notes below.")
    return steps


def _which_probabilities(verdict: Verdict) -> str:
    keep = "angcal fit --out model.skops keeps the model, and angcal predict applies it."
    best = verdict.plain_at_its_best
    if verdict.effect < 0:
        return f"Use the plain probabilities here: LogisticRegression(C={verdict.C:.3g})."
    if best.log_loss < verdict.calibrated.log_loss - SMALL_GAIN:
        return (
            f"Compare with LogisticRegression(C={best.C:.3g}) as it is: under that penalty the "
            f"plain model has the lower log-loss. For the calibrated one, {keep}"
        )
    if verdict.effect == 0 and verdict.ece_effect < 0:
        return (
            f"Use the plain probabilities, LogisticRegression(C={verdict.C:.3g}), which have the "
            f"smaller calibration error; or, for the calibrated ones, {keep}"
        )
    if verdict.effect == 0:
        return f"Use either; calibrated probabilities cost nothing more: {keep}"
    return f"Use the calibrated probabilities: {keep}"


def _about_classes(found: Findings) -> list[str]:
    """Classes with too few rows, and classes whose probabilities err beyond chance."""
    steps = []
    pairs = zip(found.classes, found.counts, strict=True)
    # With fewer rows than ten, one row moves a class's probability by a tenth or more.
    rare = [name for name, count in pairs if count < 10]
    if rare:
        steps.append(
            f"Collect more rows of {_named(rare)}: with fewer than 10 rows a class's "
            "probabilities are little more than a guess."
        )
    if found.fit is not None and len(found.classes) > 2:
        table = found.fit.class_table
        # Off by less than a tenth of the class's own rows, and nobody would notice.
        off = [
            one.name
            for one in table.worst(len(table.classes))
            if one.outside > 0.1 * one.rows / found.n_rows
        ]
        if off:
            steps.append(
                f"Take the probabilities of {_named(off)} with care: they err by more than chance "
                "explains (see The classes)."
            )
    return steps


def _named(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    *others, last = shown = [shortened(name) for name in names]
    if len(shown) > MOST_CLASSES_NAMED:
        return first_few(shown, MOST_CLASSES_NAMED)
    return f"{', '.join(others)} and {last}" if others else last
