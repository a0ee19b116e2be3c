"""From scores of several classes to the map that is delivered, and its matrix of angles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from angcal._typing import Floats
from angcal.angle import Angle, quantile
from angcal.calibrate import NO_BETTER, warn_without_signal
from angcal.covariance import RANK_TOLERANCE
from angcal.curve import tail_floor
from angcal.leverages.groups import prevalence_effect
from angcal.links.multiclass import Softmax, contrasts, index_map
from angcal.multiclass.choice import (
    NAMES,
    Candidate,
    MapChoice,
    choose,
    prevalence,
    simpler_maps,
)
from angcal.multiclass.class_map import ClassMap, floored
from angcal.multiclass.class_scores import ClassScores
from angcal.multiclass.integration import noise_of
from angcal.multiclass.known import CrossAngles, Whitened, estimate_known, of_groups, whiten
from angcal.multiclass.posterior import ClassPosterior, class_posterior, typical_spread
from angcal.multiclass.predictor import MulticlassPredictor
from angcal.notices import AngleWarning, warn


@dataclass(frozen=True, eq=False)
class AngleMatrix:
    """Cosines between the K true indices and the fitted scores.

    Indices are taken about their mean over the classes, because a softmax cannot see a constant.

    Attributes
    ----------
    cosine : (K, K) array
        Corr(G_k, S_l).
    standard_error : (K, K) array
        From the draw of the rows.
    interval : (K, K, 2) array
        Confidence interval, within [−1, 1].
    score_covariance : (K, K) array
        R, of scores in units of their standard deviation.
    index_covariance : (K, K) array
        Cov(G); zero where it is not known.
    method : {"loo", "observable", "fallback"}
        Which estimate it is.
    reason : str
        Why, in a sentence.
    confidence : float
        Level of the intervals.

    See Also
    --------
    Angle : The same for two classes.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier
    >>> from angcal.simulation import simulate_multiclass
    >>> data = simulate_multiclass(300, 20, n_indices=3, random_state=0)
    >>> AngularCalibratedClassifier().fit(data.X, data.y).angle_.cosine.shape
    (3, 3)
    """

    cosine: Floats
    standard_error: Floats
    interval: Floats
    score_covariance: Floats
    index_covariance: Floats
    method: str
    reason: str
    confidence: float

    @property
    def is_fallback(self) -> bool:
        """Whether nothing could be estimated."""
        return self.method == "fallback"


@dataclass(frozen=True, eq=False)
class LeftOutClasses:
    """(n, K) probabilities of the training rows, each without its own label.

    Attributes
    ----------
    calibrated : (n, K) array
        Under the map that is delivered.
    own : (n, K) array
        The base model's own.
    """

    calibrated: Floats
    own: Floats

    def probabilities(self) -> Floats:
        """Under the map that is delivered."""
        return self.calibrated

    def plain(self) -> Floats:
        """The base model's own."""
        return self.own


@dataclass(frozen=True, eq=False)
class ClassCalibration:
    """Angles, link, the map that is delivered, and why it is this one.

    ``posterior`` is what labels say about an unknown link, ``moved`` are predictors of a known one
    whose angles are off by a standard error, one for each axis of their error. Without signal,
    ``effect`` labels say as much as one independent label.
    """

    angle: AngleMatrix
    link: Softmax
    map: ClassMap | MulticlassPredictor
    choice: MapChoice
    left_out: LeftOutClasses
    posterior: ClassPosterior | None = None
    moved: tuple[MulticlassPredictor, ...] = ()
    effect: float = 1.0


def calibrate_classes(
    scores: ClassScores,
    codes: np.ndarray,
    weights: Floats,
    link: Softmax | None,
    confidence: float,
    observable: list[Angle] | str | None = None,
) -> ClassCalibration:
    """Estimate the map and the angles, and fall back to the prevalence where there is no signal.

    A link with its covariance is known; otherwise it is estimated. `observable` is the angle of
    each class where a covariance or a pool tells, or why it does not.
    """
    weights = weights / np.mean(weights)
    if not np.any(scores.coef):
        return _fallback(scores, codes, weights, confidence, "all fitted weights are zero")
    if link is not None and link.covariance is not None:
        whitened = whiten(scores.calibration, weights, scores.fitted)
        if whitened.values.shape[1] == 0:
            reason = "leaving a row out moves its scores more than the rows differ"
            return _fallback(scores, codes, weights, confidence, reason)
        return _known(scores, codes, weights, whitened, link, confidence)
    with np.errstate(over="ignore"):
        width = float(np.ptp(scores.honest, axis=0).max())
    if not 1e-100 < width < 1e100:
        reason = f"scores of the rows differ by {width:.1g}, too little or too much to compute with"
        return _fallback(scores, codes, weights, confidence, reason)
    posterior = class_posterior(
        scores.honest, codes, weights, are_logits=scores.link is not None, groups=scores.groups
    )
    return _unknown(scores, codes, weights, posterior, confidence, observable)


def _unknown(
    scores: ClassScores,
    codes: np.ndarray,
    weights: Floats,
    posterior: ClassPosterior,
    confidence: float,
    observable: list[Angle] | str | None,
) -> ClassCalibration:
    found = posterior.map
    without_own = found.predict(scores.honest, -posterior.left_out_steps(scores.groups))
    angular = Candidate("angular", found, without_own)
    others = simpler_maps(scores, codes, weights)
    delivered, choice = choose(angular, others, codes, weights, scores.groups)
    if isinstance(observable, list):
        angle = _observable_angles(scores, weights, observable, confidence)
    else:
        angle = _label_angles(scores, weights, posterior, confidence, observable)
    warn_without_signal(posterior, "the shares of the classes")
    if not posterior.rises:
        angle = replace(angle, cosine=0.0 * angle.cosine, reason=NO_BETTER)
    elif choice.doubt:
        warn(
            f"Hardly any signal found: {choice.doubt}. More labels, or fewer columns, would tell.",
            AngleWarning,
        )
    elif choice.method != "angular":
        if choice.method != "temperature":
            warn(f"Calibration does not pay here: probabilities are {choice.reason}.", AngleWarning)
        reason = f"{angle.reason}; not used for the probabilities: {choice.reason}"
        angle = replace(angle, reason=reason)
    floor = _floor(posterior.weights.sum(), scores.n_classes)
    bounded = replace(delivered.map, floor=floor)
    link = Softmax(scores.n_classes, offset=found.shares @ found.offsets)
    left_out = _left_out(scores, floored(delivered.left_out, floor))
    return ClassCalibration(angle, link, bounded, choice, left_out, posterior)


def _floor(n_labels: float, n_classes: int) -> float:
    """What n labels cannot rule out, shared by the unlikely classes."""
    return tail_floor(n_labels) / (n_classes - 1)


def _left_out(scores: ClassScores, calibrated: Floats) -> LeftOutClasses:
    link = Softmax(scores.n_classes) if scores.link is None else scores.link
    return LeftOutClasses(calibrated, link(scores.honest))


# -- angles ----------------------------------------------------------------------------------


def _correlations(scores: Floats, weights: Floats) -> Floats:
    """R: correlations of the scores about their mean over the classes."""
    centered = scores - scores.mean(axis=1, keepdims=True)
    away = centered - np.average(centered, axis=0, weights=weights)
    R = (away * weights[:, None]).T @ away / weights.sum()
    sizes = np.sqrt(np.maximum(np.diag(R), np.finfo(float).tiny))
    return np.clip(R / np.outer(sizes, sizes), -1.0, 1.0)


def _matrix(
    R: Floats,
    cosine: Floats,
    error: Floats,
    ends: tuple[Floats, Floats],
    method: str,
    reason: str,
    confidence: float,
) -> AngleMatrix:
    """Corr(G_k, S_l) = c_k·Corr(S_k, S_l), for one cosine of each class."""
    low, high = (end[:, None] * R for end in ends)
    interval = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=-1)
    return AngleMatrix(
        cosine[:, None] * R,
        error[:, None] * np.abs(R),
        interval,
        R,
        np.zeros_like(R),
        method,
        reason,
        confidence,
    )


def _label_angles(
    scores: ClassScores,
    weights: Floats,
    posterior: ClassPosterior,
    confidence: float,
    why_not_observable: str | None,
) -> AngleMatrix:
    R = _correlations(scores.honest, weights)
    nodes, likely = posterior.cosines(typical_spread(scores.honest, weights))
    mean = float(likely @ nodes)
    sd = float(np.sqrt(likely @ (nodes - mean) ** 2))
    order = np.argsort(nodes)
    below = np.cumsum(likely[order]) - 0.5 * likely[order]
    tails = [0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]
    low, high = np.interp(tails, below, nodes[order])
    full = np.ones(len(R))
    reason = "the angles are not determined by labels alone; an unlabeled pool would"
    if why_not_observable is not None:
        reason += f"; no observable angles: {why_not_observable}"
    return _matrix(R, mean * full, sd * full, (low * full, high * full), "loo", reason, confidence)


def _observable_angles(
    scores: ClassScores, weights: Floats, angles: list[Angle], confidence: float
) -> AngleMatrix:
    R = _correlations(scores.honest, weights)
    cosine = np.array([angle.cosine for angle in angles])
    error = np.array([angle.standard_error for angle in angles])
    low, high = (np.array([angle.interval[end] for angle in angles]) for end in (0, 1))
    return _matrix(R, cosine, error, (low, high), "observable", angles[0].reason, confidence)


# -- a link that is known --------------------------------------------------------------------


def _known(
    scores: ClassScores,
    codes: np.ndarray,
    weights: Floats,
    whitened: Whitened,
    link: Softmax,
    confidence: float,
) -> ClassCalibration:
    A = contrasts(scores.n_classes)
    seen = index_map(A)
    whole = np.asarray(link.covariance)
    gamma = seen @ whole @ seen.T
    if np.trace(gamma) <= RANK_TOLERANCE * max(float(np.trace(whole)), np.finfo(float).tiny):
        raise ValueError(
            "link has a covariance under which all indices move together or not at all, so that no "
            "row says anything about its class; leave covariance None to estimate it."
        )
    offset = np.asarray(link.offset)
    found = estimate_known(codes, weights, whitened, A, offset, gamma)
    predictor = _known_predictor(found.covariance, whitened, offset, gamma)
    if scores.groups is not None:
        residuals = np.eye(scores.n_classes)[codes] - predictor.predict(scores.calibration)
        found = of_groups(found, residuals, weights, whitened, scores.groups)
    moved = [
        _known_predictor(found.covariance + step, whitened, offset, gamma)
        for step in _standard_errors(found)
    ]
    reach = whitened.factor / np.maximum(
        np.sqrt(np.sum(whitened.factor**2, axis=1, keepdims=True)), np.finfo(float).tiny
    )
    lifted = np.kron(A, reach)
    errors = np.sqrt(np.maximum(np.sum((lifted @ found.variance) * lifted, axis=1), 0.0))
    C = A @ found.covariance @ reach.T
    index_covariance = A @ gamma @ A.T
    variances = np.diag(index_covariance)
    # An index that does not vary has no angle; its cosine is 0.
    varies = variances > RANK_TOLERANCE * variances.max()
    deviations = np.where(varies, np.sqrt(np.maximum(variances, 0.0)), np.inf)
    error = errors.reshape(C.shape) / deviations[:, None]
    cosine = np.clip(C / deviations[:, None], -1.0, 1.0)
    half = quantile(confidence) * error
    interval = np.clip(np.stack([cosine - half, cosine + half], axis=-1), -1.0, 1.0)
    angle = AngleMatrix(
        cosine,
        error,
        interval,
        reach @ reach.T,
        index_covariance,
        "loo",
        "likelihood of the labels at their leave-one-out scores, Cov(G) known",
        confidence,
    )
    choice = MapChoice("angular", "the angular map: the link is known", {})
    n_labels = len(codes) if scores.groups is None else scores.groups.count
    floor = _floor(n_labels, scores.n_classes)
    predictor, *moved = (replace(each, floor=floor) for each in (predictor, *moved))
    left_out = _left_out(scores, predictor.predict(scores.honest))
    return ClassCalibration(angle, link, predictor, choice, left_out, moved=tuple(moved))


def _known_predictor(
    covariance: Floats, whitened: Whitened, offset: Floats, gamma: Floats
) -> MulticlassPredictor:
    """E_Z softmax(M·S + β + LZ) for C = Cov(h, s̃) and Cov(h)."""
    A = contrasts(len(offset))
    per_score = A @ covariance @ whitened.inverse
    rest = gamma - covariance @ covariance.T
    return MulticlassPredictor(
        Softmax(len(A), offset=offset),
        per_score,
        -per_score @ whitened.center,
        noise_of(A @ rest @ A.T),
        np.zeros(len(A)),
    )


def _standard_errors(found: CrossAngles) -> list[Floats]:
    """Steps of one standard error of C along the axes of its error; the longest stand for all.

    At most 20: each costs intervals another integral.
    """
    values, vectors = np.linalg.eigh(found.variance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    kept = slice(20)
    share = max(float(values[kept].sum()), np.finfo(float).tiny) / max(
        float(values.sum()), np.finfo(float).tiny
    )
    steps = vectors[:, kept] * np.sqrt(values[kept] / share)
    return [step.reshape(found.covariance.shape) for step in steps.T]


# -- no signal -------------------------------------------------------------------------------


def _fallback(
    scores: ClassScores, codes: np.ndarray, weights: Floats, confidence: float, reason: str
) -> ClassCalibration:
    warn(
        f"No angles can be estimated: {reason}. Every row gets the prevalence of the classes, "
        "which is calibrated but the same for every row.",
        AngleWarning,
    )
    K = scores.n_classes
    found = prevalence(codes, weights, K, scores.groups)
    effect = prevalence_effect(np.eye(K)[codes], weights, scores.groups)
    zeros = np.zeros((K, K))
    interval = np.stack([zeros - 1.0, zeros + 1.0], axis=-1)
    angle = AngleMatrix(
        zeros, zeros + 1.0, interval, np.eye(K), zeros, "fallback", reason, confidence
    )
    link = Softmax(K, offset=found.map.offsets[0])
    choice = MapChoice("prevalence", f"{NAMES['prevalence']}: {reason}", {})
    left_out = _left_out(scores, found.left_out)
    return ClassCalibration(angle, link, found.map, choice, left_out, effect=effect)
