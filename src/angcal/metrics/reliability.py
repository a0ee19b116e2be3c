"""Binned agreement of predictions and labels: bins, expected calibration error, curve."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, ndtri
from scipy.stats import binom

from angcal._typing import Floats
from angcal.metrics.validation import samples

Strategy = Literal["uniform", "quantile"]


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
    bins = _bins(*samples(y_true, y_prob, sample_weight), n_bins, strategy)
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
    y, p, weight = samples(y_true, y_prob, sample_weight)
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
