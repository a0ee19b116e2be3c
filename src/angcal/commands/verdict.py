"""What a fitted table has to say, as numbers and in words.

Everything here is leave-one-out: each row is judged by weights that have not seen it. The plain
model is the logistic regression under the chosen penalty, with p = 1/(1 + exp(−score)); the
calibrated one maps the same scores through the angular curve.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from angcal._typing import Floats
from angcal.tables import FittedTable

WIDTH = 96
# Standard errors beyond which confidence and hit rate differ by more than chance.
CERTAIN = 2.0
# Log-loss below which a gain is not worth a sentence of praise.
SMALL_GAIN = 0.002


@dataclass(frozen=True)
class Side:
    """One of the two models, on rows that it has not seen.

    Attributes
    ----------
    ece, log_loss : float
        Expected calibration error in 15 bins, and mean −log P(label).
    confidence : float
        Mean probability of the class that is called.
    accuracy : float
        How often the called class is right.
    """

    ece: float
    log_loss: float
    confidence: float
    accuracy: float


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


@dataclass(frozen=True)
class Verdict:
    """The whole of it; all but the first three are for two classes only."""

    rows: int
    columns: int
    classes: dict[str, float]
    C: float | None = None
    plain: Side | None = None
    plain_at_its_best: OwnPenalty | None = None
    calibrated: Side | None = None
    angle: AngleFound | None = None

    @property
    def leaning(self) -> str:
        """Which way the plain model errs, if it errs by more than chance explains."""
        if self.plain is None:
            return "unknown"
        gap = self.plain.confidence - self.plain.accuracy
        noise = math.sqrt(max(self.plain.accuracy * (1.0 - self.plain.accuracy), 0.0) / self.rows)
        if abs(gap) <= CERTAIN * noise:
            return "about right"
        return "overconfident" if gap > 0 else "underconfident"

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a number is None."""
        return _jsonable({**asdict(self), "plain_model_is": self.leaning})


def judge(fitted: FittedTable, y: np.ndarray) -> Verdict:
    """The verdict on a fitted table.

    Parameters
    ----------
    fitted : FittedTable
    y : ndarray
        The labels it was fitted on.
    """
    shares = {str(label): float(np.mean(y == label)) for label in fitted.classes}
    classifier = fitted.classifier
    path = getattr(classifier, "path_", None)
    if path is None or len(fitted.classes) != 2:
        return Verdict(fitted.n, fitted.d, shares)
    labels, at = y == fitted.classes[1], path.index
    scores = classifier.observables_.calibration_scores
    return Verdict(
        rows=fitted.n,
        columns=fitted.d,
        classes=shares,
        C=float(classifier.C_),
        plain=_side(
            expit(scores), labels, path.uncalibrated_ece[at], path.uncalibrated_log_loss[at]
        ),
        plain_at_its_best=_own_penalty(path),
        calibrated=_side(
            classifier.curve_.predict(scores), labels, path.ece[at], path.log_loss[at]
        ),
        angle=_angle(classifier.angle_),
    )


def _side(p: Floats, labels: np.ndarray, ece: float, log_loss: float) -> Side:
    return Side(
        ece=float(ece),
        log_loss=float(log_loss),
        confidence=float(np.mean(np.maximum(p, 1.0 - p))),
        accuracy=float(np.mean((p > 0.5) == labels)),
    )


def _own_penalty(path: Any) -> OwnPenalty:
    best = int(np.argmin(path.uncalibrated_log_loss))
    return OwnPenalty(
        C=float(path.C[best]),
        ece=float(path.uncalibrated_ece[best]),
        log_loss=float(path.uncalibrated_log_loss[best]),
    )


def _angle(angle: Any) -> AngleFound | None:
    if angle.is_fallback:
        return None
    low, high = angle.interval
    return AngleFound(
        cosine=float(angle.cosine),
        cosine_interval=(float(low), float(high)),
        degrees=_degrees(angle.cosine),
        degrees_interval=(_degrees(high), _degrees(low)),
        confidence=float(angle.confidence),
        method=angle.method,
        reason=angle.reason,
    )


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(min(max(cosine, -1.0), 1.0)))


def in_words(verdict: Verdict) -> str:
    """The verdict as a few lines of text."""
    shares = ", ".join(f"{name} ({share:.0%})" for name, share in verdict.classes.items())
    told = [f"{verdict.rows} rows, {verdict.columns} columns after preparation; classes {shares}."]
    plain, best, calibrated = verdict.plain, verdict.plain_at_its_best, verdict.calibrated
    if plain is None or best is None or calibrated is None:
        told.append("Leave-one-out figures are there for two classes only.")
        return "\n\n".join(map(_wrapped, told))
    told.append(_confidence(verdict, plain))
    return "\n\n".join(
        [
            *map(_wrapped, told),
            _table(plain, calibrated),
            _wrapped(f"{_bought(plain, calibrated)} {_against_its_best(best, calibrated)}"),
            _wrapped(_angle_in_words(verdict.angle)),
        ]
    )


def _confidence(verdict: Verdict, plain: Side) -> str:
    facts = (
        f"on rows that it has not seen it is {plain.confidence:.0%} sure on average, and right in "
        f"{plain.accuracy:.0%} of them"
    )
    if verdict.leaning == "about right":
        return f"The plain logistic regression is neither clearly too sure nor too unsure: {facts}."
    return f"The plain logistic regression, C = {verdict.C:.3g}, is {verdict.leaning}: {facts}."


def _table(plain: Side, calibrated: Side) -> str:
    rows = [
        ("leave-one-out", "plain", "calibrated"),
        ("calibration error (ECE)", f"{plain.ece:.3f}", f"{calibrated.ece:.3f}"),
        ("log-loss", f"{plain.log_loss:.3f}", f"{calibrated.log_loss:.3f}"),
        ("mean confidence", f"{plain.confidence:.1%}", f"{calibrated.confidence:.1%}"),
        ("accuracy", f"{plain.accuracy:.1%}", f"{calibrated.accuracy:.1%}"),
    ]
    return "\n".join(f"  {name:<24}{left:>10}{right:>12}" for name, left, right in rows)


def _bought(plain: Side, calibrated: Side) -> str:
    gain = plain.log_loss - calibrated.log_loss
    if gain < SMALL_GAIN:
        return (
            "Calibration bought next to nothing here: under the chosen penalty the plain model is "
            "calibrated already."
        )
    text = f"Under this penalty calibration lowered the log-loss by {gain:.3f}"
    if calibrated.ece < plain.ece:
        text += f" and took away {1.0 - calibrated.ece / plain.ece:.0%} of the calibration error"
    return f"{text}."


def _against_its_best(best: OwnPenalty, calibrated: Side) -> str:
    """Calibration chooses its own penalty; the plain model may be better off with another."""
    gain = best.log_loss - calibrated.log_loss
    if abs(gain) < SMALL_GAIN:
        beside = "as good as the calibrated one"
    else:
        beside = f"{abs(gain):.3f} {'worse' if gain > 0 else 'better'} than the calibrated one"
    return (
        f"A plain model under the penalty that suits it best (C = {best.C:.3g}) has a log-loss of "
        f"{best.log_loss:.3f}, {beside}, and a calibration error of {best.ece:.3f}."
    )


def _angle_in_words(angle: AngleFound | None) -> str:
    if angle is None:
        return "No angle could be estimated; every row gets the share of its class."
    low, high = angle.degrees_interval
    return (
        f"The fitted weights are {angle.degrees:.0f}° from the true ones ({angle.confidence:.0%} "
        f"interval {low:.0f}° to {high:.0f}°; the cosine is {angle.cosine:.2f}, "
        f"{angle.cosine_interval[0]:.2f} to {angle.cosine_interval[1]:.2f}). How it is known: "
        f"{angle.reason}."
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
