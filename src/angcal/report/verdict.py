"""One verdict on one model, as numbers and in words; ``angcal fit`` and ``angcal report`` share it.

Whether calibration pays is judged by the leave-one-out log-loss of the delivered curve against that
of the plain model, with the standard error of their difference over rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from angcal import plan
from angcal.displays.angle import degrees_between, degrees_of, is_determined, shared_angle
from angcal.metrics.scores import judged
from angcal.penalty_path.choice import confidence_word
from angcal.report.comparison import ANGCAL, DEFAULT, UNCALIBRATED, Comparison
from angcal.report.figures import LeaveOneOut, Side, leave_one_out_figures
from angcal.tables import FittedTable
from angcal.tables.errors import counted, first_few

# Smaller differences of log-losses do not matter in practice, however certain they are.
SMALL_GAIN = 0.01
MOST_CLASSES_NAMED = 6


@dataclass(frozen=True)
class OwnPenalty:
    """The plain model under the penalty that suits it best: the fairest rival of calibration."""

    C: float
    ece: float
    log_loss: float


@dataclass(frozen=True)
class AngleFound:
    """The angle between fitted and true weights, in degrees and as a cosine."""

    cosine: float
    cosine_interval: tuple[float, float]
    degrees: float
    degrees_interval: tuple[float, float]
    confidence: float
    method: str
    reason: str

    @property
    def is_determined(self) -> bool:
        """Whether it comes from more than labels."""
        return is_determined(self.method)


@dataclass(frozen=True)
class Verdict:
    """All figures of the verdict."""

    rows: int  # Of the table, without the target
    columns: int
    features: int  # Columns after preparation
    classes: dict[str, float]  # Share of the rows of each class
    C: float  # The chosen inverse strength of the penalty
    plain: Side  # Leave-one-out figures
    calibrated: Side
    # Standard errors of plain less calibrated log-loss, and of the same difference of ECEs
    gain_error: float
    ece_gain_error: float
    slope: float  # See `LeaveOneOut`
    slope_error: float
    pool_rows: int  # Rows without labels
    groups: int  # Groups of rows that were left out whole; 0 where each row was left out alone
    plain_at_its_best: OwnPenalty
    # A plain probability, of three and more classes that of the likeliest,
    # and the calibrated one of the same rows
    example: tuple[float, float] | None = None
    # None where nothing could be estimated, or each class has its own
    angle: AngleFound | None = None
    angles: dict[str, AngleFound] | None = None  # Of each class, where they differ
    # Whether three and more classes are predicted clearly better than by their shares
    beats_shares: bool = True
    # For three and more classes: which map from scores to probabilities is used, and why
    map: str = ""
    map_reason: str = ""

    @property
    def gain(self) -> float:
        """Log-loss that calibration saves."""
        return self.plain.log_loss - self.calibrated.log_loss

    @property
    def ece_gain(self) -> float:
        """Calibration error that calibration takes away."""
        return self.plain.ece - self.calibrated.ece

    @property
    def ece_effect(self) -> int:
        """1 where calibration lowers the ECE by more than chance explains, −1 or 0."""
        if not abs(self.ece_gain) > plan.CLEAR * self.ece_gain_error:
            return 0
        return 1 if self.ece_gain > 0 else -1

    @property
    def effect(self) -> int:
        """1 where calibration lowers the log-loss by more than chance explains, −1 or 0."""
        if abs(self.gain) <= max(plan.CLEAR * self.gain_error, SMALL_GAIN):
            return 0
        return 1 if self.gain > 0 else -1

    @property
    def has_signal(self) -> bool:
        """Whether an angle was found that is not a right one, and the scores say something."""
        found = self.angles is not None or (self.angle is not None and self.angle.cosine != 0)
        return found and self.beats_shares

    @property
    def leaning(self) -> str:
        """Which way the plain model errs, if it errs by more than chance explains."""
        if self.plain.accuracy == 1.0:
            return "about right"  # nothing that it was sure of was wrong
        return confidence_word(self.slope, self.slope_error)

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON, the same names in all commands; what is not a number is None."""
        numbers = asdict(self)
        leave_one_out = {kind: numbers.pop(kind) for kind in ("plain", "calibrated")}
        leave_one_out["gain"] = {
            "log_loss": self.gain,
            "log_loss_error": numbers.pop("gain_error"),
            "ece": self.ece_gain,
            "ece_error": numbers.pop("ece_gain_error"),
        }
        return finite(
            {
                **numbers,
                "classes": {name: round(share * self.rows) for name, share in self.classes.items()},
                "leave_one_out": leave_one_out,
                "plain_model_is": self.leaning,
                "headline": headline(self),
            }
        )


def judge(fitted: FittedTable, y: np.ndarray, *, pool_rows: int = 0) -> Verdict:
    """The verdict on a table fitted to the labels y, and to so many rows without labels."""
    figures = leave_one_out_figures(fitted.classifier, np.searchsorted(fitted.classes, y))
    return verdict_of(fitted, figures, pool_rows=pool_rows)


def verdict_of(fitted: FittedTable, figures: LeaveOneOut, *, pool_rows: int = 0) -> Verdict:
    """The verdict from leave-one-out figures that are computed already."""
    model, names = fitted.classifier, [str(label) for label in fitted.classes]
    shares = np.bincount(figures.codes, minlength=len(names)) / len(figures.codes)
    choice = getattr(model, "calibration_", None)
    angle, angles = found_angles(model.angle_, names)
    return Verdict(
        rows=fitted.n,
        columns=fitted.columns,
        features=fitted.d,
        classes=dict(zip(names, shares.tolist(), strict=True)),
        C=float(model.C_),
        plain=figures.side("plain"),
        calibrated=figures.side("calibrated"),
        gain_error=figures.gain[1],
        ece_gain_error=figures.ece_gain[1],
        slope=figures.slope,
        slope_error=figures.slope_error,
        pool_rows=pool_rows,
        groups=0 if figures.groups is None else int(figures.groups.max()) + 1,
        plain_at_its_best=_own_penalty(model.path_),
        example=_example(model, figures),
        angle=angle,
        angles=angles,
        beats_shares=figures.two or figures.beats_shares,
        map="" if choice is None else choice.method,
        map_reason="" if choice is None else choice.reason,
    )


def _own_penalty(path: Any) -> OwnPenalty:
    best = int(np.argmin(path.uncalibrated_log_loss))
    return OwnPenalty(
        C=float(path.C[best]),
        ece=float(path.uncalibrated_ece[best]),
        log_loss=float(path.uncalibrated_log_loss[best]),
    )


def _example(model: Any, figures: LeaveOneOut) -> tuple[float, float]:
    """A high probability that the plain model gives, and what calibration makes of it.

    For two classes by the curve; for more, which have no one curve, by the mean over the rows
    whose likeliest class has about that probability.
    """
    _, plain = judged(figures.plain, figures.codes)
    level = float(np.clip(np.quantile(plain, 0.95), 0.01, 0.9))
    if figures.two:
        return level, float(model.curve_.predict(np.array([logit(level)]))[0])
    near = np.argsort(np.abs(plain - level), kind="stable")[:20]
    likeliest = figures.plain[near].argmax(axis=1)
    return float(plain[near].mean()), float(figures.calibrated[near, likeliest].mean())


def found_angles(
    angle: Any, names: Sequence[str] = ()
) -> tuple[AngleFound | None, dict[str, AngleFound] | None]:
    """(the one angle, those of the classes where each has its own); both None for a fallback."""
    if angle.is_fallback:
        return None, None
    shared = shared_angle(angle)
    if shared is not None:
        return _entry(angle, *shared), None
    return None, {
        name: _entry(angle, angle.cosine[k, k], angle.interval[k, k])
        for k, name in enumerate(names)
    }


def _entry(angle: Any, cosine: Any, interval: Any) -> AngleFound:
    """One angle of those that were found together."""
    low, high = (float(end) for end in interval)
    return AngleFound(
        cosine=float(cosine),
        cosine_interval=(low, high),
        degrees=degrees_of(cosine),
        degrees_interval=degrees_between((low, high)),
        confidence=float(angle.confidence),
        method=angle.method,
        reason=angle.reason,
    )


def finite(value: Any) -> Any:
    """The value with None for what is not a number: JSON has no word for it."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# -- in words ----------------------------------------------------------------------------------


def percent(share: float) -> str:
    """A share in whole percent, or "under 1%" and "over 99%"."""
    if 0.0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 < share < 1.0 else f"{share:.0%}"


def signed(value: float, always: bool = False) -> str:
    """Two decimals, or three with a plus where a difference asks for one, and a proper minus."""
    return (f"{value:+.3f}" if always else f"{value:.2f}").replace("-", "−")


def shortened(name: str) -> str:
    """A name that leaves room for the rest of the sentence."""
    return name if len(name) <= 60 else name[:59] + "…"


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence, which no figure of the table contradicts."""
    if not verdict.has_signal:
        return "These rows show no signal that a linear model could use."
    if verdict.effect >= 0 and verdict.ece_effect < 0:
        change = "lowers the log-loss" if verdict.effect else "hardly changes the log-loss"
        return f"Calibration {change} here, but raises the calibration error."
    if verdict.effect == 0 and verdict.leaning != "about right":
        return (
            f"The plain model looks {verdict.leaning}, but calibration gains no more here than "
            "chance explains."
        )
    return {
        1: "Calibration pays here: use the calibrated probabilities.",
        0: "Plain probabilities are about as good here as calibrated ones.",
        -1: "Plain probabilities did better than calibrated ones here.",
    }[verdict.effect]


def sentences(verdict: Verdict, comparison: Comparison | None = None) -> list[str]:
    """The verdict in paragraphs: headline, rows, confidence, map, angle, gain, cross-validation."""
    parts = [headline(verdict), _about_rows(verdict), _confidence(verdict)]
    if verdict.map_reason:
        parts.append(f"The probabilities come from {verdict.map_reason}.")
    if verdict.angles is not None:
        parts.append(_class_angles_sentence(verdict.angles))
    else:
        parts.append(angle_sentence(verdict.angle, len(verdict.classes)))
    if verdict.has_signal:
        parts.append(_gain(verdict))
    if comparison is not None and comparison.has(ANGCAL, UNCALIBRATED, DEFAULT):
        parts.append(out_of_fold(comparison))
    return parts


def _about_rows(verdict: Verdict) -> str:
    shares = [f"{shortened(name)} ({percent(share)})" for name, share in verdict.classes.items()]
    named = first_few(shares, MOST_CLASSES_NAMED)
    columns = counted(verdict.features, "column")
    pool = f" {verdict.pool_rows} rows without labels help." if verdict.pool_rows else ""
    groups = (
        f" Each of the {verdict.groups} groups of rows was left out whole, so that all figures are "
        "for rows of new groups."
        if verdict.groups
        else ""
    )
    return f"{verdict.rows} rows, {columns} after preparation; classes {named}.{pool}{groups}"


def _confidence(verdict: Verdict) -> str:
    plain = verdict.plain
    seen = (
        f"on rows that it has not seen it is {plain.confidence:.0%} sure on average, and right in "
        f"{plain.accuracy:.0%} of them"
    )
    slope = f"{verdict.slope:.2f} ± {verdict.slope_error:.2f}"
    facts = f"its log-odds ought to be {slope} times what they are; {seen}"
    if verdict.example is not None:
        said, believed = verdict.example
        facts += f"; where it says {percent(said)}, {percent(believed)} is the calibrated answer"
    if verdict.leaning != "about right":
        return f"The plain logistic regression, C = {verdict.C:.3g}, is {verdict.leaning}: {facts}."
    if verdict.slope_error > 0.5 or plain.accuracy == 1.0:  # then the slope says nothing
        return f"These rows cannot tell whether the plain logistic regression is too sure: {seen}."
    return f"The plain logistic regression is neither clearly too sure nor too unsure: {facts}."


def angle_sentence(angle: AngleFound | None, n_classes: int = 2) -> str:
    """The angle with its interval, or the interval alone where labels do not determine it."""
    if angle is None:
        return "No angle could be estimated; every row gets the share of its class."
    low, high = angle.degrees_interval
    lowest, highest = (signed(cosine) for cosine in angle.cosine_interval)
    many = n_classes > 2
    if not angle.is_determined:
        pool = "; an unlabeled pool would determine it, given more rows than columns"
        return (
            f"The angle between fitted and true weights{', one for all classes,' if many else ''} "
            f"is not determined by labels alone{'' if many else pool}. Its "
            f"{percent(angle.confidence)} interval is {low:.0f}° to {high:.0f}° (cosine {lowest} "
            f"to {highest}). The probabilities hardly depend on it."
        )
    return (
        f"The fitted weights are {angle.degrees:.0f}° from the true ones "
        f"({percent(angle.confidence)} interval {low:.0f}° to {high:.0f}°; the cosine is "
        f"{signed(angle.cosine)}, {lowest} to {highest}). How it is known: {angle.reason}."
    )


def _class_angles_sentence(angles: dict[str, AngleFound]) -> str:
    """Angles that differ from class to class."""
    found = list(angles.values())
    low = min(one.degrees_interval[0] for one in found)
    high = max(one.degrees_interval[1] for one in found)
    reach = f"{percent(found[0].confidence)} intervals reach from {low:.0f}° to {high:.0f}°"
    shown = ", ".join(f"{one.degrees:.0f}° ({shortened(name)})" for name, one in angles.items())
    if len(found) > MOST_CLASSES_NAMED:
        nearest, farthest = (pick(one.degrees for one in found) for pick in (min, max))
        shown = f"{nearest:.0f}° to {farthest:.0f}°"
    return f"The fitted weights of the classes are {shown} from the true ones; their {reach}."


def _gain(verdict: Verdict) -> str:
    plain, calibrated = verdict.plain, verdict.calibrated
    size = f"{abs(verdict.gain):.3f} ± {verdict.gain_error:.3f}"
    if verdict.effect == 0:
        by_chance = abs(verdict.gain) <= plan.CLEAR * verdict.gain_error
        why = "within chance" if by_chance else "negligible"
        text = (
            "Calibration changed next to nothing here: leave-one-out log-losses with and without "
            f"it differ by {size}, which is {why}."
        )
    elif verdict.effect < 0:
        text = (
            f"Calibration did not pay here: it raised the log-loss by {size}, so the plain "
            "probabilities are the better ones."
        )
    else:
        text = f"Under this penalty calibration lowered the log-loss by {size}"
        if verdict.ece_effect > 0:
            removed = 1.0 - calibrated.ece / plain.ece
            text += f" and took away {removed:.0%} of the calibration error"
        text += "."
    if verdict.ece_effect <= 0:
        way = "rose" if verdict.ece_gain < 0 else "fell"
        within = "more than chance explains" if verdict.ece_effect else "which is within chance"
        text += (
            f" The calibration error (ECE) {way} by {abs(verdict.ece_gain):.3f} ± "
            f"{verdict.ece_gain_error:.3f}, {within}."
        )
    return f"{text} {_against_its_best(verdict.plain_at_its_best, verdict)}"


def _against_its_best(best: OwnPenalty, verdict: Verdict) -> str:
    """Calibration chooses its own penalty; the plain model may be better off with another."""
    gap = best.log_loss - verdict.calibrated.log_loss
    # The error of the gap is about that of the gain: both are differences over the same rows.
    if abs(gap) <= max(SMALL_GAIN, plan.CLEAR * verdict.gain_error):
        beside = "as good as the calibrated one within chance"
    else:
        beside = f"{abs(gap):.3f} {'worse' if gap > 0 else 'better'} than the calibrated one"
    return (
        f"A plain model under the penalty that suits it best (C = {best.C:.3g}) has a log-loss of "
        f"{best.log_loss:.3f}, {beside}, and a calibration error of {best.ece:.3f}."
    )


def out_of_fold(comparison: Comparison) -> str:
    """What cross-validation adds: the calibrated log-loss against two plain models."""
    loss = dict(zip(comparison.names, comparison.values["log-loss"], strict=True))
    parts, lesson = [], ""
    for name, words in (
        (UNCALIBRATED, "the same model uncalibrated"),
        (DEFAULT, "scikit-learn's default penalty uncalibrated"),
    ):
        gap, error = comparison.difference(ANGCAL, name)
        clear = abs(gap) > plan.CLEAR * error
        outcome = ("better" if gap < 0 else "worse") if clear else "no clear difference"
        parts.append(f"{loss[name]:.3f} for {words} ({signed(gap, True)} ± {error:.3f}: {outcome})")
        if clear and name == DEFAULT:
            better = "Choosing the penalty pays here."
            worse = "scikit-learn's default penalty did better here than the chosen one."
            lesson = f" {better if gap < 0 else worse}"
    return (
        f"On rows left out of the fit, {comparison.folds}-fold cross-validation, the calibrated "
        f"log-loss is {loss[ANGCAL]:.3f}, against {' and '.join(parts)}.{lesson}"
    )


def table_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """Header and rows of a table of the leave-one-out figures."""
    ece = "calibration error (ECE)" if len(verdict.classes) == 2 else "ECE of the likeliest class"
    plain, calibrated = verdict.plain, verdict.calibrated
    gains = ((verdict.ece_gain, verdict.ece_gain_error), (verdict.gain, verdict.gain_error))
    ece_change, loss_change = (_change(gain, error) for gain, error in gains)
    return [
        ("leave-one-out", "plain", "calibrated", "difference"),
        (ece, f"{plain.ece:.3f}", f"{calibrated.ece:.3f}", ece_change),
        ("log-loss", f"{plain.log_loss:.3f}", f"{calibrated.log_loss:.3f}", loss_change),
        ("mean confidence", f"{plain.confidence:.1%}", f"{calibrated.confidence:.1%}", ""),
        ("accuracy", f"{plain.accuracy:.1%}", f"{calibrated.accuracy:.1%}", ""),
    ]


def _change(gain: float, error: float) -> str:
    """A difference with its standard error, and whether chance explains it."""
    chance = "" if abs(gain) > plan.CLEAR * error else ", within chance"
    return f"{signed(-gain, True)} ± {error:.3f}{chance}"
