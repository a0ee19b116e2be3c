"""From leave-one-out scores of several classes to a predictor and its matrix of angles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from angcal._typing import Floats
from angcal.angle import quantile
from angcal.curve import tail_floor
from angcal.links.multiclass import Softmax
from angcal.losses import index_map
from angcal.multiclass.angles import NEGLIGIBLE_VARIANCE, Whitened, estimate_known, whiten
from angcal.multiclass.choice import Candidate, MapChoice, candidate, choose, simpler_maps
from angcal.multiclass.class_scores import ClassScores
from angcal.multiclass.family import SeveralEstimate, estimate_family
from angcal.multiclass.integration import Noise, noise_of
from angcal.multiclass.predictor import SeveralPredictor
from angcal.notices import AngleWarning, warn

DIFFERENCE = 1e-5
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class AngleMatrix:
    """Cosines between the K true indices and the fitted scores.

    Indices are taken about their mean over the classes, because a softmax cannot see a constant.

    Attributes
    ----------
    cosine : (K, heads) array
        Corr(G_k, S_l).
    standard_error : (K, heads) array
        From the draw of the rows.
    interval : (K, heads, 2) array
        Confidence interval, within [−1, 1].
    covariance : (K, heads) array
        C = Cov(G, S), S in units of its standard deviation.
    score_covariance : (heads, heads) array
        R.
    index_covariance : (K, K) array
        Cov(G).
    method : {"loo", "fallback"}
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
    >>> from angcal.simulation import simulate_several
    >>> data = simulate_several(300, 20, n_indices=3, random_state=0)
    >>> AngularCalibratedClassifier().fit(data.X, data.y).angle_.cosine.shape
    (3, 3)
    """

    cosine: Floats
    standard_error: Floats
    interval: Floats
    covariance: Floats
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
class SeveralCalibration:
    """Angles, link, the predictor that is delivered, and why it is this one."""

    angle: AngleMatrix
    link: Softmax
    predictor: SeveralPredictor
    choice: MapChoice
    left_out: LeftOutClasses


def calibrate_several(
    heads: ClassScores, codes: np.ndarray, weights: Floats, link: Softmax | None, confidence: float
) -> SeveralCalibration:
    """Estimate the cross-index angles, and fall back to the prevalence where there are none.

    Parameters
    ----------
    heads : ClassScores
    codes : (n,) array of int
    weights : (n,) array
        Case weights.
    link : Softmax or None
        With its covariance it is known; otherwise covariance and offset are estimated.
    confidence : float
    """
    weights = weights / np.mean(weights)
    if not np.any(heads.coef):
        return _fallback(heads, codes, weights, confidence, "all fitted weights are zero")
    whitened = whiten(heads.scores, weights, heads.fitted_scores)
    if whitened.values.shape[1] == 0:
        return _fallback(heads, codes, weights, confidence, "the fitted scores do not vary")
    if link is not None and link.covariance is not None:
        if not whitened.trusted.any():
            reason = "leaving a row out moves its scores more than the rows differ"
            return _fallback(heads, codes, weights, confidence, reason)
        return _known(heads, codes, weights, whitened.trusted_part(), link, confidence)
    return _unknown(heads, codes, weights, whitened, confidence)


def _known(
    heads: ClassScores,
    codes: np.ndarray,
    weights: Floats,
    whitened: Whitened,
    link: Softmax,
    confidence: float,
) -> SeveralCalibration:
    A = heads.contrast
    seen = index_map(A)
    whole = np.asarray(link.covariance)
    gamma = seen @ whole @ seen.T
    if np.trace(gamma) <= NEGLIGIBLE_VARIANCE * max(float(np.trace(whole)), TINY):
        raise ValueError(
            "link has a covariance under which all indices move together or not at all, so that no "
            "row says anything about its class; leave covariance None to estimate it."
        )
    offset = np.asarray(link.offset)
    found = estimate_known(codes, weights, whitened, A, offset, gamma)
    rest = gamma - found.covariance @ found.covariance.T
    predictor = _predictor(heads, whitened, found.covariance, np.zeros(len(gamma)), rest, offset)
    reach = _units(heads, whitened)
    lifted = np.kron(A, reach)
    errors = np.sqrt(np.maximum(np.sum((lifted @ found.variance) * lifted, axis=1), 0.0))
    C = A @ found.covariance @ reach.T
    index_covariance = A @ gamma @ A.T
    variances = np.diag(index_covariance)
    # An index that does not vary has no angle; its cosine is 0.
    varies = variances > NEGLIGIBLE_VARIANCE * variances.max()
    deviations = np.where(varies, np.sqrt(np.maximum(variances, 0.0)), np.inf)
    error = errors.reshape(C.shape) / deviations[:, None]
    cosine = np.clip(C / deviations[:, None], -1.0, 1.0)
    half = quantile(confidence) * error
    interval = np.clip(np.stack([cosine - half, cosine + half], axis=-1), -1.0, 1.0)
    angle = AngleMatrix(
        cosine,
        error,
        interval,
        C,
        reach @ reach.T,
        index_covariance,
        "loo",
        "likelihood of the labels at their leave-one-out scores, Cov(G) known",
        confidence,
    )
    choice = MapChoice("angular", "the angular map: the link is known", {})
    left_out = _left_out(heads, predictor.predict(heads.honest_scores @ heads.spread.T))
    return SeveralCalibration(angle, link, predictor, choice, left_out)


def _unknown(
    heads: ClassScores, codes: np.ndarray, weights: Floats, whitened: Whitened, confidence: float
) -> SeveralCalibration:
    inflation = 1.0 + heads.leaning
    found = estimate_family(codes, weights, whitened, heads.contrast, heads.project, inflation)
    if not found.rises:
        return _fallback(
            heads,
            codes,
            weights,
            confidence,
            "leave-one-out scores rank the labels no better than chance",
        )
    A = heads.contrast
    predictor = _predictor(
        heads,
        whitened,
        found.slopes,
        found.offset,
        found.slopes @ found.slopes.T,
        np.zeros(len(A)),
        tuple(
            (part.weight, part.length, part.length * float(np.sqrt(part.noise)))
            for part in found.components
        ),
    )
    covariance = A @ found.index_covariance @ A.T
    link = Softmax(len(A), offset=A @ found.offset, covariance=covariance)
    angle = _family_angles(heads, whitened, found, confidence)
    delivered, choice = _judged(heads, codes, weights, predictor, found)
    if choice.method == "angular":
        bounded = _bounded(predictor, len(codes))
        left_out = _left_out(heads, delivered.left_out)
        return SeveralCalibration(angle, link, bounded, choice, left_out)
    if choice.method == "plain":
        warn(f"Calibration does not pay here: probabilities are {choice.reason}.", AngleWarning)
    reason = f"{angle.reason}; not used for the probabilities: {choice.reason}"
    angle = replace(angle, reason=reason)
    left_out = _left_out(heads, delivered.left_out)
    bounded = _bounded(delivered.predictor, len(codes))
    return SeveralCalibration(angle, link, bounded, choice, left_out)


def _bounded(predictor: SeveralPredictor, n_labels: int) -> SeveralPredictor:
    """The same, its tails within what n labels can know, shared by the unlikely classes."""
    others = max(predictor.link.n_outputs - 1, 1)
    return replace(predictor, floor=tail_floor(n_labels) / others)


def _left_out(heads: ClassScores, calibrated: Floats) -> LeftOutClasses:
    link = Softmax(len(heads.contrast)) if heads.link is None else heads.link
    return LeftOutClasses(calibrated, link(heads.loo_scores @ heads.spread.T))


def _judged(
    heads: ClassScores,
    codes: np.ndarray,
    weights: Floats,
    predictor: SeveralPredictor,
    found: SeveralEstimate,
) -> tuple[Candidate, MapChoice]:
    """The angular map, or a simpler one that clearly beats it on left-out rows."""
    honest = predictor.means(heads.honest_scores @ heads.spread.T)
    angular = candidate(
        "angular",
        predictor,
        predictor.at_means(honest - found.left_out_steps @ heads.contrast.T),
        predictor.predict(heads.fitted_scores @ heads.spread.T),
        codes,
        weights,
    )
    return choose(angular, simpler_maps(heads, codes, weights), weights)


def _units(heads: ClassScores, whitened: Whitened) -> Floats:
    """(heads, m): whitened scores to heads' scores in units of their standard deviation."""
    reach = heads.spread @ whitened.factor
    sizes = np.sqrt(np.sum(reach**2, axis=1))
    return reach / np.where(sizes > 0, sizes, 1.0)[:, None]


def _cosines(A: Floats, M: Floats, reach: Floats, cosine: float) -> Floats:
    """c·Corr(A M s̃, heads' scores)."""
    C = A @ M
    sizes = np.sqrt(np.sum(C**2, axis=1))
    return cosine * (C @ reach.T) / np.where(sizes > 0, sizes, 1.0)[:, None]


def _family_angles(
    heads: ClassScores, whitened: Whitened, found: SeveralEstimate, confidence: float
) -> AngleMatrix:
    A, reach = heads.contrast, _units(heads, whitened)
    M, c = found.slopes, found.cosine
    cosine = _cosines(A, M, reach, c)
    gradient = np.empty((cosine.size, M.size))
    for j in range(M.size):
        move = np.zeros(M.size)
        move[j] = DIFFERENCE
        up, down = (_cosines(A, M + s * move.reshape(M.shape), reach, c) for s in (1.0, -1.0))
        gradient[:, j] = ((up - down) / (2.0 * DIFFERENCE)).ravel()
    variance = np.sum((gradient @ found.slope_variance) * gradient, axis=1)
    error = np.sqrt(np.maximum(variance, 0.0)).reshape(cosine.shape)
    z = quantile(confidence)
    low, high = found.interval(z)
    ends = np.stack([cosine * (low / c), cosine * (high / c)], axis=-1)
    interval = np.stack([ends.min(axis=-1) - z * error, ends.max(axis=-1) + z * error], axis=-1)
    covariance = A @ found.index_covariance @ A.T
    return AngleMatrix(
        np.clip(cosine, -1.0, 1.0),
        error,
        np.clip(interval, -1.0, 1.0),
        A @ M @ reach.T,
        reach @ reach.T,
        covariance,
        "loo",
        "likelihood of the labels at their leave-one-out scores; as Cov(G) is not known, the "
        "angles are not determined by labels alone",
        confidence,
    )


def _predictor(
    heads: ClassScores,
    whitened: Whitened,
    slopes: Floats,
    offset: Floats,
    rest: Floats,
    link_offset: Floats,
    components: tuple[tuple[float, float, float], ...] = ((1.0, 1.0, 1.0),),
) -> SeveralPredictor:
    """Raw scores of the heads to probabilities."""
    A = heads.contrast
    per_score = slopes @ whitened.inverse
    own = np.asarray(offset - per_score @ whitened.center)
    return SeveralPredictor(
        Softmax(len(A), offset=link_offset),
        A @ per_score @ heads.lift,
        A @ own,
        noise_of(A @ rest @ A.T),
        np.zeros(heads.lift.shape[1]),
        components,
    )


def _fallback(
    heads: ClassScores, codes: np.ndarray, weights: Floats, confidence: float, reason: str
) -> SeveralCalibration:
    warn(
        f"No angles can be estimated: {reason}. Every row gets the prevalence of the classes, "
        "which is calibrated but tells rows apart in nothing.",
        AngleWarning,
    )
    K, k = len(heads.contrast), len(heads.coef)
    # One row of each class is added, so that a rare class is not declared impossible.
    counts = np.bincount(codes, weights, minlength=K) + 1.0
    link = Softmax(K, offset=np.log(counts / counts.sum()))
    predictor = SeveralPredictor(
        link, np.zeros((K, k)), np.zeros(K), Noise(np.zeros((K, 0))), np.zeros(k)
    )
    zeros = np.zeros((K, k))
    interval = np.stack([zeros - 1.0, zeros + 1.0], axis=-1)
    angle = AngleMatrix(
        zeros,
        zeros + 1.0,
        interval,
        zeros,
        np.eye(k),
        np.zeros((K, K)),
        "fallback",
        reason,
        confidence,
    )
    choice = MapChoice("prevalence", f"the prevalence of the classes: {reason}", {})
    left_out = _left_out(heads, predictor.predict(heads.honest_scores @ heads.spread.T))
    return SeveralCalibration(angle, link, predictor, choice, left_out)
