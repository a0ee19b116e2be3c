"""How well predicted probabilities agree with labels: calibration errors, scores, curves.

Labels ``y`` are 0 or 1, predictions ``p`` estimate P(y = 1). Every weighted average is
normalised by the total weight, so only the ratios of ``sample_weight`` matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import erf, ndtri, xlogy
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from angcal._typing import Floats

__all__ = [
    "BREGMAN_GENERATORS",
    "ReliabilityCurve",
    "ScoreDecomposition",
    "bregman_divergence",
    "brier_decomposition",
    "brier_score",
    "calibration_error_at",
    "expected_calibration_error",
    "log_loss",
    "mean_bregman_divergence",
    "reliability_curve",
    "smooth_ece",
]

Strategy = Literal["uniform", "quantile"]
Scalar = Callable[[Floats], Floats]

SMOOTH_ECE_GRID = 8192
"""Cells of [0, 1] that carry the residuals of `smooth_ece`; predictions move by at most 1/16384."""

KERNEL_REACH = 4.0
"""Bandwidths beyond which `calibration_error_at` counts a prediction as no evidence."""


# --- Arguments -------------------------------------------------------------------------------


def as_vector(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a one-dimensional finite float array, or say what is wrong with it."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; recode it as floats ({error}).") from error
    if vector.ndim != 1:
        raise ValueError(
            f"{name} has shape {vector.shape} but must be one-dimensional; from predict_proba, "
            "pass the positive class's column [:, 1]."
        )
    if vector.size == 0:
        raise ValueError(f"{name} is empty; pass at least one sample.")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(
            f"{name} holds {vector[bad[0]]} at position {bad[0]}; drop or impute such entries."
        )
    return vector


def as_probabilities(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector inside [0, 1], or say which entry is outside."""
    vector = as_vector(values, name)
    bad = np.flatnonzero((vector < 0.0) | (vector > 1.0))
    if bad.size:
        raise ValueError(
            f"{name} holds {vector[bad[0]]} at position {bad[0]}, outside [0, 1]; "
            "pass probabilities, not scores."
        )
    return vector


def as_labels(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector of zeros and ones, or say which label is neither."""
    vector = as_vector(values, name)
    bad = np.flatnonzero((vector != 0.0) & (vector != 1.0))
    if bad.size:
        raise ValueError(
            f"{name} holds the label {vector[bad[0]]}, which is neither 0 nor 1; "
            f"recode it as ({name} == positive_class)."
        )
    return vector


def as_weights(sample_weight: ArrayLike | None, n_samples: int) -> Floats:
    """Return non-negative weights of the given length; ``None`` means all ones."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = as_vector(sample_weight, "sample_weight")
    require_length(weight, "sample_weight", n_samples)
    bad = np.flatnonzero(weight < 0.0)
    if bad.size:
        raise ValueError(
            f"sample_weight holds {weight[bad[0]]} at position {bad[0]}; weights must be >= 0."
        )
    if not weight.any():
        raise ValueError("sample_weight is all zero; give at least one sample a positive weight.")
    return weight


def require_length(vector: Floats, name: str, n_samples: int) -> None:
    """Raise if `vector` does not have one entry per sample."""
    if vector.size != n_samples:
        raise ValueError(
            f"{name} has {vector.size} entries but y has {n_samples}; pass one entry per sample."
        )


def _samples(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    labels = as_labels(y_true, "y_true")
    probabilities = as_probabilities(y_prob, "y_prob")
    require_length(probabilities, "y_prob", labels.size)
    return labels, probabilities, as_weights(sample_weight, labels.size)


# --- Bins ------------------------------------------------------------------------------------


def interior_edges(
    values: Floats, n_bins: int, strategy: Strategy, weight: Floats, span: tuple[float, float]
) -> Floats:
    """Return e_1 < ... < e_{m-1} of the bins (e_{k-1}, e_k] that split `span`.

    The first and last bin are unbounded, so no value falls outside. With quantiles the edges are
    weighted inverse-CDF quantiles; tied values share a bin, so there may be fewer bins than asked.
    """
    if not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins={n_bins!r} must be an integer >= 1.")
    steps = np.arange(1, n_bins)
    if strategy == "uniform":
        return span[0] + (span[1] - span[0]) * steps / n_bins
    if strategy != "quantile":
        raise ValueError(f"strategy={strategy!r} must be 'uniform' or 'quantile'.")
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    # Summed fractional weights round; the slack keeps k/n of the mass in the bin that holds it.
    wanted = mass[-1] * steps / n_bins - 1e-12 * mass[-1]
    return np.unique(values[order][np.searchsorted(mass, wanted)])


def bin_index(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return k with ``values`` in (e_{k-1}, e_k], counting from 0."""
    return np.searchsorted(edges, values, side="left")


@dataclass(frozen=True)
class _Bins:
    mean_predicted: Floats
    observed: Floats
    count: NDArray[np.intp]
    weight: Floats
    effective_count: Floats

    @property
    def share(self) -> Floats:
        return self.weight / self.weight.sum()

    @property
    def gap(self) -> Floats:
        return self.observed - self.mean_predicted


def _bins(y: Floats, p: Floats, weight: Floats, n_bins: int, strategy: Strategy) -> _Bins:
    index = bin_index(p, interior_edges(p, n_bins, strategy, weight, (0.0, 1.0)))

    def total(values: Floats) -> Floats:
        return np.bincount(index, weights=values, minlength=n_bins).astype(np.float64)

    mass = total(weight)
    kept = mass > 0.0
    mass = mass[kept]
    return _Bins(
        mean_predicted=np.clip(total(weight * p)[kept] / mass, 0.0, 1.0),
        observed=np.clip(total(weight * y)[kept] / mass, 0.0, 1.0),
        count=np.bincount(index[weight > 0.0], minlength=n_bins)[kept],
        weight=mass,
        effective_count=mass**2 / total(weight**2)[kept],
    )


# --- Calibration errors ----------------------------------------------------------------------


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Literal["l1", "l2"] = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""ECE = Σ_b (W_b/W) \|ȳ_b − p̄_b\|, or (Σ_b (W_b/W) (ȳ_b − p̄_b)²)^½ for ``norm="l2"``.

    Parameters
    ----------
    y_true, y_prob
        Labels 0/1 and predicted P(y = 1).
    n_bins, strategy
        Bins (e_{k-1}, e_k] of equal width or of equal weight; p = 0 is in the first, p = 1 in the
        last.
    debiased
        Remove the upward bias that sampling noise gives a binned error, and clip at zero.
        For l2, each squared gap loses ȳ_b(1−ȳ_b)/(n_b−1), its unbiased noise variance [1]_;
        a bin of one sample adds nothing. For l1, each gap d_b loses E|d_b + s_b Z| − |d_b| with
        s_b² = ȳ_b(1−ȳ_b)/n_b: the normal resampling of [1]_, in closed form. Where a gap is all
        noise, l2 loses the whole bias on average, l1 the part √2 − 1 of it.
    norm
        Mean absolute or root mean squared gap.
    sample_weight
        Weights; n_b is then the effective count (Σw)²/Σw².

    References
    ----------
    .. [1] Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.

    Examples
    --------
    >>> expected_calibration_error([0, 1], [0.2, 0.7], n_bins=2)
    0.25
    """
    bins = _bins(*_samples(y_true, y_prob, sample_weight), n_bins, strategy)
    noise = bins.observed * (1.0 - bins.observed)
    if norm == "l1":
        size = np.abs(bins.gap)
        if debiased:
            size = 2.0 * size - _folded_normal_mean(bins.gap, np.sqrt(noise / bins.effective_count))
        return max(0.0, float(bins.share @ size))
    if norm != "l2":
        raise ValueError(f"norm={norm!r} must be 'l1' or 'l2'.")
    square = bins.gap**2
    if debiased:
        several = bins.effective_count > 1.0 + 1e-9
        spare = np.where(several, bins.effective_count - 1.0, 1.0)
        square = np.where(several, square - noise / spare, 0.0)
    return float(np.sqrt(max(0.0, float(bins.share @ square))))


def _folded_normal_mean(mean: Floats, sd: Floats) -> Floats:
    """E|mean + sd Z| = mean erf(r/√2) + sd √(2/π) exp(−r²/2), r = mean/sd."""
    ratio = np.divide(mean, sd, out=np.full_like(mean, np.inf), where=sd > 0.0)
    body = np.where(sd > 0.0, mean * erf(ratio / np.sqrt(2.0)), np.abs(mean))
    return body + sd * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2)


def smooth_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    bandwidth: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""smECE_h = ∫₀¹ \|E[(y − p) K_h(t, p)]\| dt, at the h with smECE_h = h unless given.

    K_h is the Gaussian kernel reflected at 0 and 1, that is, the heat kernel of [0, 1] with
    insulated ends. It is diagonal in cosines, K_h(t, p) = 1 + 2 Σ_k exp(−(πkh)²/2) cos πkt cos πkp,
    so one cosine transform of the binned residuals serves every h. smECE_h falls in h, hence the
    fixed point is unique.

    References
    ----------
    Błasiok, Nakkiran (2024), Smooth ECE: principled reliability diagrams via kernel smoothing,
    ICLR.

    Examples
    --------
    >>> round(smooth_ece([1, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]), 3)
    0.25
    """
    y, p, weight = _samples(y_true, y_prob, sample_weight)
    cell = np.minimum((p * SMOOTH_ECE_GRID).astype(np.intp), SMOOTH_ECE_GRID - 1)
    residual = weight / weight.sum() * (y - p)
    modes = dct(np.bincount(cell, weights=residual, minlength=SMOOTH_ECE_GRID))
    frequency = np.pi * np.arange(SMOOTH_ECE_GRID)

    def at(h: float) -> float:
        return float(np.abs(idct(modes * np.exp(-0.5 * (frequency * h) ** 2))).sum())

    if bandwidth is not None:
        if not bandwidth > 0.0:
            raise ValueError(f"bandwidth={bandwidth!r} must be > 0, or None for the fixed point.")
        return at(bandwidth)
    if at(0.0) == 0.0:
        return 0.0
    # smECE_h <= 1 for every h, so h = 2 lies above the fixed point.
    return float(brentq(lambda h: at(h) - h, 0.0, 2.0, xtol=1e-12))


def calibration_error_at(
    levels: ArrayLike,
    y_or_true_prob: ArrayLike,
    y_prob: ArrayLike,
    bandwidth: float = 0.05,
    *,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    """Δ_p = p − E[target | prediction = p] at each level p, by Nadaraya–Watson averaging.

    The residual ``prediction − target`` is averaged with Gaussian weights, rather than the target
    alone, so that a calibrated predictor reads zero up to noise at 0 and 1 too, where all
    neighbours lie on one side.

    Parameters
    ----------
    levels
        Probabilities p at which to evaluate.
    y_or_true_prob
        Labels, or true conditional probabilities when they are known.
    y_prob
        Predictions.
    bandwidth
        Standard deviation of the kernel. A level with no prediction within four of them is NaN.

    Examples
    --------
    >>> calibration_error_at([0.3], [0.2, 0.2], [0.3, 0.3]).round(12)
    array([0.1])
    """
    points = as_probabilities(levels, "levels")
    target = as_probabilities(y_or_true_prob, "y_or_true_prob")
    prediction = as_probabilities(y_prob, "y_prob")
    require_length(prediction, "y_prob", target.size)
    weight = as_weights(sample_weight, target.size)
    if not bandwidth > 0.0:
        raise ValueError(f"bandwidth={bandwidth!r} must be > 0.")

    def error(point: float) -> float:
        distance = (prediction - point) / bandwidth
        kernel = weight * np.exp(-0.5 * distance**2)
        if not np.any(weight[np.abs(distance) <= KERNEL_REACH]):
            return float("nan")
        return float(kernel @ (prediction - target) / kernel.sum())

    return np.array([error(float(point)) for point in points])


# --- Proper scores ---------------------------------------------------------------------------


def brier_score(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """E (p − y)².

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 1.0])
    0.125
    """
    y, p, weight = _samples(y_true, y_prob, sample_weight)
    return float(brier_score_loss(y, p, sample_weight=weight, pos_label=1))


def log_loss(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """−E[y log p + (1−y) log(1−p)], with p clipped to [ε, 1−ε], ε = 2.2e-16 (scikit-learn's).

    A sure prediction that fails thus costs 36 nats rather than infinity.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    y, p, weight = _samples(y_true, y_prob, sample_weight)
    return float(sklearn_log_loss(y, p, sample_weight=weight, labels=[0, 1]))


@dataclass(frozen=True)
class ScoreDecomposition:
    """score = miscalibration − discrimination + uncertainty."""

    miscalibration: float
    discrimination: float
    uncertainty: float

    @property
    def score(self) -> float:
        """The mean score that the three parts add up to."""
        return self.miscalibration - self.discrimination + self.uncertainty


def brier_decomposition(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    score: Literal["brier", "log"] = "brier",
    sample_weight: ArrayLike | None = None,
) -> ScoreDecomposition:
    """S(p) = [S(p) − S(q)] − [S(ȳ) − S(q)] + S(ȳ), q the isotonic recalibration of p (CORP).

    The brackets are miscalibration and discrimination, S(ȳ) is the uncertainty. All are >= 0, as q
    minimises every proper score over non-decreasing functions of p.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), Stable reliability diagrams for probabilistic classifiers,
    PNAS 118.

    Examples
    --------
    >>> brier_decomposition([0, 1], [0.5, 0.5])
    ScoreDecomposition(miscalibration=0.0, discrimination=0.0, uncertainty=0.25)
    """
    scores = {"brier": brier_score, "log": log_loss}
    if score not in scores:
        raise ValueError(f"score={score!r} must be one of {sorted(scores)}.")
    y, p, weight = _samples(y_true, y_prob, sample_weight)
    isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    recalibrated = isotonic.fit(p, y, sample_weight=weight).predict(p)
    base_rate = np.full_like(p, np.clip(np.average(y, weights=weight), 0.0, 1.0))
    of_p, of_q, of_base = (
        scores[score](y, f, sample_weight=weight) for f in (p, recalibrated, base_rate)
    )
    return ScoreDecomposition(of_p - of_q, of_base - of_q, of_base)


# --- Bregman divergences ---------------------------------------------------------------------

BREGMAN_GENERATORS: Mapping[str, tuple[Scalar, Scalar]] = MappingProxyType(
    {
        "squared": (lambda t: 0.5 * t**2, lambda t: t),
        "kl": (lambda t: xlogy(t, t), lambda t: np.log(t) + 1.0),
        "itakura-saito": (lambda t: -np.log(t), lambda t: -1.0 / t),
    }
)
"""Named convex φ with φ′, giving (p−q)², KL(p‖q) and Σ (p/q − log p/q − 1) over both classes."""


def bregman_divergence(
    p_true: ArrayLike, p_pred: ArrayLike, generator: Scalar, generator_gradient: Scalar
) -> Floats:
    """D(p, q) = Σ_{(a,b) ∈ {(p,q), (1−p,1−q)}} φ(a) − φ(b) − φ′(b)(a − b), one per sample.

    This is the Bregman divergence between the vectors (p, 1−p) and (q, 1−q) whose generator sums a
    convex scalar φ over the entries.

    Parameters
    ----------
    p_true, p_pred
        The probabilities p and q.
    generator, generator_gradient
        Vectorised φ and φ′. `BREGMAN_GENERATORS` holds ready pairs.

    Examples
    --------
    >>> bregman_divergence([0.5], [0.25], *BREGMAN_GENERATORS["squared"])
    array([0.0625])
    """
    p = as_probabilities(p_true, "p_true")
    q = as_probabilities(p_pred, "p_pred")
    require_length(q, "p_pred", p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = sum(
            generator(a) - generator(b) - generator_gradient(b) * (a - b)
            for a, b in ((p, q), (1.0 - p, 1.0 - q))
        )
    divergence = np.where(p == q, 0.0, divergence)
    bad = np.flatnonzero(np.isnan(divergence))
    if bad.size:
        raise ValueError(
            f"the divergence of p_true={p[bad[0]]} from p_pred={q[bad[0]]} is undefined for this "
            "generator; keep p_pred strictly inside (0, 1)."
        )
    return np.asarray(divergence, dtype=np.float64)


def mean_bregman_divergence(
    p_true: ArrayLike,
    p_pred: ArrayLike,
    divergence: str = "kl",
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """E D(p_true, p_pred) for a divergence named in `BREGMAN_GENERATORS`.

    Examples
    --------
    >>> round(mean_bregman_divergence([0.5], [0.25], "kl"), 6)
    0.143841
    """
    if divergence not in BREGMAN_GENERATORS:
        raise ValueError(
            f"divergence={divergence!r} must be one of {sorted(BREGMAN_GENERATORS)}; "
            "for another, call bregman_divergence with its generator."
        )
    each = bregman_divergence(p_true, p_pred, *BREGMAN_GENERATORS[divergence])
    return float(np.average(each, weights=as_weights(sample_weight, each.size)))


# --- Reliability curve -----------------------------------------------------------------------


@dataclass(frozen=True)
class ReliabilityCurve:
    """Observed frequency against mean prediction, one entry per non-empty bin.

    Attributes
    ----------
    mean_predicted, observed : ndarray
        Weighted means of predictions and of labels.
    count : ndarray of int
        Samples of positive weight.
    weight : ndarray
        Total weight.
    lower, upper : ndarray
        Consistency band: the range of `observed` if the predictor were calibrated.
    """

    mean_predicted: Floats
    observed: Floats
    count: NDArray[np.intp]
    weight: Floats
    lower: Floats
    upper: Floats


def reliability_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
) -> ReliabilityCurve:
    """(p̄_b, ȳ_b) per bin b, with the range of ȳ_b under n_b ȳ_b ~ Binomial(n_b, p̄_b).

    The bins are those of `expected_calibration_error`. With unequal weights the band is the normal
    p̄ ± z (p̄(1−p̄)/n)^½, clipped to [0, 1], n the effective count (Σw)²/Σw². `confidence` is the
    probability that a calibrated predictor stays inside, for each bin by itself.

    Examples
    --------
    >>> curve = reliability_curve([0, 0, 1, 1], [0.2, 0.2, 0.8, 0.6], n_bins=2)
    >>> curve.mean_predicted, curve.observed, curve.count
    (array([0.2, 0.7]), array([0., 1.]), array([2, 2]))
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r} must be strictly between 0 and 1.")
    y, p, weight = _samples(y_true, y_prob, sample_weight)
    bins = _bins(y, p, weight, n_bins, strategy)
    tail = 0.5 * (1.0 - confidence)
    if np.ptp(weight) == 0.0:
        lower = binom.ppf(tail, bins.count, bins.mean_predicted) / bins.count
        upper = binom.ppf(1.0 - tail, bins.count, bins.mean_predicted) / bins.count
    else:
        sd = np.sqrt(bins.mean_predicted * (1.0 - bins.mean_predicted) / bins.effective_count)
        lower = np.clip(bins.mean_predicted + ndtri(tail) * sd, 0.0, 1.0)
        upper = np.clip(bins.mean_predicted - ndtri(tail) * sd, 0.0, 1.0)
    return ReliabilityCurve(
        bins.mean_predicted, bins.observed, bins.count, bins.weight, lower, upper
    )
