"""The report's figures in sentences that ask for no statistics, and what to do about them."""

from __future__ import annotations

from angcal.report.findings import Findings
from angcal.report.performance import Estimate, OperatingPoint, Performance
from angcal.report.verdict import (
    MOST_CLASSES_NAMED,
    SMALL_GAIN,
    Verdict,
    percent,
    shortened,
    signed,
)
from angcal.tables.errors import first_few


def in_plain_words(found: Findings) -> list[str]:
    """How well the classes are separated, how far probabilities hold, what a threshold gives."""
    if found.fit is None:
        return []
    performance = found.fit.performance
    if len(found.classes) > 2:
        return _of_many(performance)
    (one,) = performance.classes
    name, other = shortened(one.name), shortened(found.classes[1 - found.positive])
    return [
        f"Telling apart: a row of “{name}” gets a higher probability than one of “{other}” in "
        f"{percent(one.auc.value)} of all pairs (AUC {between(one.auc)}).",
        f"Believing: on average it says {percent(one.predicted)}, and {percent(one.observed)} of "
        f"the rows are “{name}”. {_spread(one.lines['calibrated'])}",
        at_threshold(one.at(performance.threshold), name),
    ]


def _of_many(performance: Performance) -> list[str]:
    right = performance.accuracy
    worst = min(performance.classes, key=lambda one: one.auc.value)
    off = [
        shortened(one.name)
        for one in performance.classes
        if not _holds(one.lines["calibrated"].slope_interval, 1.0)
    ]
    believed = (
        "Believing: of no class these rows show that its probabilities are too extreme or too "
        "cautious."
        if not off
        else f"Believing: probabilities are too extreme or too cautious for {len(off)} of "
        f"{len(performance.classes)} classes; the table under Calibration names them."
    )
    return [
        f"Telling apart: the likeliest class is right in {percent(right.value)} of the "
        f"rows (95% interval {percent(right.low)} to {percent(right.high)}). Each "
        f"class against all others has an AUC of {performance.mean_auc:.2f} on average, "
        f"“{shortened(worst.name)}” the lowest with {between(worst.auc)}.",
        believed,
    ]


def at_threshold(point: OperatingPoint, name: str) -> str:
    """What acting from a threshold on finds and misses."""
    found, missed = point.counts[0], point.counts[2]
    alarms, calm = point.counts[1], point.counts[3]
    return (
        f"Acting: from a threshold of {100 * point.threshold:.3g}% on, {found} of "
        f"{found + missed} rows of “{name}” are found, and {alarms} of {alarms + calm} others "
        "are false alarms."
    )


def between(estimate: Estimate) -> str:
    """A figure with its interval, in two decimals."""
    if estimate.value != estimate.value:
        return "not determined"
    return f"{estimate.value:.2f}, 95% interval {estimate.low:.2f} to {estimate.high:.2f}"


def _holds(interval: tuple[float, float], value: float) -> bool:
    return interval[0] <= value <= interval[1]


def _spread(line: object) -> str:
    slope, (low, high) = line.slope, line.slope_interval  # type: ignore[attr-defined]
    reach = f"the slope is {signed(slope)}, 95% interval {signed(low)} to {signed(high)}"
    if not high - low < 4.0:
        return "These rows cannot tell whether probabilities are too extreme or too cautious."
    if _holds((low, high), 1.0):
        return f"They are spread as they should be, as far as these rows can tell: {reach}."
    word = "too extreme" if high < 1.0 else "too cautious"
    return f"They are {word}: {reach}."


# -- What to do after reading a report, as a few sentences that follow from its findings --------


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
