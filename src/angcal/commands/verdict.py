"""What a fitted table has to say, as numbers and in words.

Everything here is leave-one-out: each row is judged by weights that have not seen it. The plain
model is the logistic regression under the chosen penalty, with p = 1/(1 + exp(−score)), or the
softmax of the scores of several classes; the calibrated one maps the same scores through the
angular curve.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from angcal._typing import Floats
from angcal.baselines import SoftmaxTemperature
from angcal.metrics import classwise_ece, multiclass_log_loss
from angcal.path.confidence import calibration_slope, confidence_word
from angcal.several.multinomial import contrasts
from angcal.tables import FittedTable

WIDTH = 96
# Log-loss below which a gain is not worth a sentence of praise.
SMALL_GAIN = 0.002
FLATTERED = (
    "The calibrated figures flatter: their curve was fitted to the same scores. angcal report "
    "tests it on rows left out."
)
# A slope with a larger standard error says nothing.
VAGUE_SLOPE = 0.5
MOST_CLASSES_NAMED = 6


@dataclass(frozen=True)
class Side:
    """One of the two models, on rows that it has not seen.

    Attributes
    ----------
    ece, log_loss : float
        Expected calibration error in 15 bins, for several classes its mean over them, and mean
        −log P(label).
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
    """The whole of it.

    Two classes have one `angle` and a rival, `plain_at_its_best`. Several have one angle for each
    in `angles`; their penalty is the one that suits the plain model best.
    """

    rows: int
    columns: int
    classes: dict[str, float]
    C: float
    plain: Side
    calibrated: Side
    slope: float
    slope_error: float
    plain_at_its_best: OwnPenalty | None = None
    angle: AngleFound | None = None
    angles: dict[str, AngleFound] | None = None

    @property
    def leaning(self) -> str:
        """Which way the plain model errs, if it errs by more than chance explains."""
        return confidence_word(self.slope, self.slope_error)

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
    if len(fitted.classes) > 2:
        return _judge_several(fitted, y, shares)
    classifier = fitted.classifier
    path, labels = classifier.path_, y == fitted.classes[1]
    at = path.index
    scores = classifier.observables_.calibration_scores
    slope, slope_error = calibration_slope(scores, labels.astype(np.float64))
    return Verdict(
        rows=fitted.n,
        columns=fitted.d,
        classes=shares,
        C=float(classifier.C_),
        plain=_side(
            expit(scores), labels, path.uncalibrated_ece[at], path.uncalibrated_log_loss[at]
        ),
        calibrated=_side(
            classifier.curve_.predict(scores), labels, path.ece[at], path.log_loss[at]
        ),
        slope=slope,
        slope_error=slope_error,
        plain_at_its_best=_own_penalty(path),
        angle=_angle(classifier.angle_),
    )


def _judge_several(fitted: FittedTable, y: np.ndarray, shares: dict[str, float]) -> Verdict:
    """The verdict on three or more classes, from the leave-one-out scores of one joint fit."""
    classifier, codes = fitted.classifier, np.searchsorted(fitted.classes, y)
    directions = classifier.observables_.calibration_scores
    scores = directions @ contrasts(len(fitted.classes)).T
    slope, slope_error = softmax_slope(scores, codes)
    return Verdict(
        rows=fitted.n,
        columns=fitted.d,
        classes=shares,
        C=float(classifier.estimator_.C),
        plain=_several_side(softmax(scores, axis=1), codes),
        calibrated=_several_side(classifier.curve_.predict(scores), codes),
        slope=slope,
        slope_error=slope_error,
        angles=_angles(classifier.angle_, list(shares)),
    )


def softmax_slope(scores: Floats, codes: np.ndarray) -> tuple[float, float]:
    """a ≥ 0 of the likeliest P(y = k) ∝ exp(a·score_k), and its standard error.

    Parameters
    ----------
    scores : (n, K) array
        Of rows that the model has not seen.
    codes : (n,) array of int
        Classes 0, …, K − 1.
    """
    if np.ptp(scores, axis=1).max() == 0:
        return 0.0, float("inf")
    with warnings.catch_warnings():
        # Scores that tell nothing have the slope 0, those that tell all a large one: both are said.
        warnings.simplefilter("ignore", ConvergenceWarning)
        slope = 1.0 / SoftmaxTemperature().fit(scores, codes).temperature_
    p = softmax(slope * scores, axis=1)
    center = np.sum(p * scores, axis=1, keepdims=True)
    information = float(np.sum(p * (scores - center) ** 2))
    return slope, 1.0 / np.sqrt(information) if information > 0 else float("inf")


def _side(p: Floats, labels: np.ndarray, ece: float, log_loss: float) -> Side:
    return Side(
        ece=float(ece),
        log_loss=float(log_loss),
        confidence=float(np.mean(np.maximum(p, 1.0 - p))),
        accuracy=float(np.mean((p > 0.5) == labels)),
    )


def _several_side(p: Floats, codes: np.ndarray) -> Side:
    return Side(
        ece=float(classwise_ece(codes, p)),
        log_loss=multiclass_log_loss(codes, p),
        confidence=float(np.mean(p.max(axis=1))),
        accuracy=float(np.mean(p.argmax(axis=1) == codes)),
    )


def _own_penalty(path: Any) -> OwnPenalty:
    best = int(np.argmin(path.uncalibrated_log_loss))
    return OwnPenalty(
        C=float(path.C[best]),
        ece=float(path.uncalibrated_ece[best]),
        log_loss=float(path.uncalibrated_log_loss[best]),
    )


def _angle(angle: Any) -> AngleFound | None:
    return None if angle.is_fallback else _found(angle, angle.cosine, angle.interval)


def _angles(angle: Any, names: list[str]) -> dict[str, AngleFound] | None:
    """For each class that between its true and its fitted weights."""
    if angle.is_fallback:
        return None
    return {
        name: _found(angle, angle.cosine[k, k], angle.interval[k, k])
        for k, name in enumerate(names)
    }


def _found(angle: Any, cosine: float, interval: Any) -> AngleFound:
    low, high = interval
    return AngleFound(
        cosine=float(cosine),
        cosine_interval=(float(low), float(high)),
        degrees=_degrees(cosine),
        degrees_interval=(_degrees(high), _degrees(low)),
        confidence=float(angle.confidence),
        method=angle.method,
        reason=angle.reason,
    )


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(min(max(cosine, -1.0), 1.0)))


def in_words(verdict: Verdict) -> str:
    """The verdict as a few lines of text."""
    plain, best, calibrated = verdict.plain, verdict.plain_at_its_best, verdict.calibrated
    bought = _bought(plain, calibrated)
    bought += f" {_against_its_best(best, calibrated)}" if best is not None else f" {FLATTERED}"
    several = len(verdict.classes) > 2
    angle = _angles_in_words(verdict.angles) if several else _angle_in_words(verdict.angle)
    ece = "ECE, mean over classes" if several else "calibration error (ECE)"
    return "\n\n".join(
        [
            _wrapped(_about_rows(verdict)),
            _wrapped(_confidence(verdict, plain)),
            _table(plain, calibrated, ece),
            _wrapped(bought),
            _wrapped(angle),
        ]
    )


def _about_rows(verdict: Verdict) -> str:
    shares = [f"{name} ({share:.0%})" for name, share in verdict.classes.items()]
    more = len(shares) - MOST_CLASSES_NAMED
    named = ", ".join(shares[:MOST_CLASSES_NAMED]) + (f" and {more} more" if more > 0 else "")
    columns = "1 column" if verdict.columns == 1 else f"{verdict.columns} columns"
    return f"{verdict.rows} rows, {columns} after preparation; classes {named}."


def _confidence(verdict: Verdict, plain: Side) -> str:
    seen = (
        f"on rows that it has not seen it is {plain.confidence:.0%} sure on average, and right in "
        f"{plain.accuracy:.0%} of them"
    )
    facts = f"{seen}, and its log-odds ought to be {verdict.slope:.2f} times what they are"
    if verdict.leaning != "about right":
        return f"The plain logistic regression, C = {verdict.C:.3g}, is {verdict.leaning}: {facts}."
    if verdict.slope_error > VAGUE_SLOPE:
        return f"These rows cannot tell whether the plain logistic regression is too sure: {seen}."
    return f"The plain logistic regression is neither clearly too sure nor too unsure: {facts}."


def _table(plain: Side, calibrated: Side, ece: str) -> str:
    rows = [
        ("leave-one-out", "plain", "calibrated"),
        (ece, f"{plain.ece:.3f}", f"{calibrated.ece:.3f}"),
        ("log-loss", f"{plain.log_loss:.3f}", f"{calibrated.log_loss:.3f}"),
        ("mean confidence", f"{plain.confidence:.1%}", f"{calibrated.confidence:.1%}"),
        ("accuracy", f"{plain.accuracy:.1%}", f"{calibrated.accuracy:.1%}"),
    ]
    return "\n".join(f"  {name:<24}{left:>10}{right:>12}" for name, left, right in rows)


def _bought(plain: Side, calibrated: Side) -> str:
    gain = plain.log_loss - calibrated.log_loss
    if gain < -SMALL_GAIN:
        return (
            f"Calibration did not pay here: it raised the log-loss by {-gain:.3f}, so the plain "
            "probabilities are the better ones."
        )
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


def _angles_in_words(angles: dict[str, AngleFound] | None) -> str:
    if angles is None:
        return _angle_in_words(None)
    found = list(angles.values())
    shown = ", ".join(f"{angle.degrees:.0f}° ({name})" for name, angle in angles.items())
    if len(found) > MOST_CLASSES_NAMED:
        nearest, farthest = (pick(angle.degrees for angle in found) for pick in (min, max))
        shown = f"{nearest:.0f}° to {farthest:.0f}°"
    low = min(angle.degrees_interval[0] for angle in found)
    high = max(angle.degrees_interval[1] for angle in found)
    return (
        f"The fitted weights of the classes are {shown} from the true ones; their "
        f"{found[0].confidence:.0%} intervals reach from {low:.0f}° to {high:.0f}°. Labels alone "
        "hardly tell an angle from a weak signal, so take these as a rough guide. The "
        "probabilities hardly depend on it."
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
