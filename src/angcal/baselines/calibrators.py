"""The five calibrators, by class and by short name, and the closed form that Platt's tends to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.baselines.likelihood import fit_affine, targets
from angcal.links import Link, Logit, Probit, as_link
from angcal.losses import signed
from angcal.metrics import (
    Strategy,
    as_labels,
    as_vector,
    as_weights,
    bin_index,
    interior_edges,
    require_length,
)

MAX_TEMPERATURE = 1e6
"""Largest temperature, in units of the scores' root mean square."""


def _samples(
    scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return checked scores, labels and weights of the samples whose weight is positive."""
    labels = as_labels(y, "y")
    values = as_vector(scores, "scores")
    require_length(values, "scores", labels.size)
    weight = as_weights(sample_weight, labels.size)
    kept = weight > 0.0
    return values[kept], labels[kept], weight[kept]


def _separated(scores: Floats, y: Floats) -> bool:
    """Whether a step up at some threshold is a limit of ever likelier slopes.

    Every 0 is then at or below the threshold and every 1 at or above it. Scores that are all equal
    leave the slope open rather than infinite, unless there is one label only.
    """
    lower, upper = scores[y == 0.0], scores[y == 1.0]
    if lower.size == 0 or upper.size == 0:
        return True
    return bool(lower.max() <= upper.min() and scores.min() < scores.max())


class PlattScaling(BaseEstimator):
    """P(y = 1 | u) = σ(A u + B), A and B by maximum likelihood.

    Parameters
    ----------
    link : Link or None
        σ; ``None`` is the plain sigmoid 1/(1 + e^{−t}). With ``Logit(scale=3, offset=1)`` the
        log-odds are 3(A u + B) + 1.
    smoothed_targets : bool
        Fit Platt's targets (N₁+1)/(N₁+2) and 1/(N₀+2) in place of 1 and 0.

    Attributes
    ----------
    slope_, intercept_ : float
        A and B.

    Examples
    --------
    >>> calibrator = PlattScaling().fit([-1, -1, -1, 1, 1, 1], [0, 0, 1, 0, 1, 1])
    >>> round(calibrator.slope_, 6), calibrator.predict([1]).round(6)
    (0.693147, array([0.666667]))
    """

    def __init__(self, link: Link | None = None, smoothed_targets: bool = False) -> None:
        self.link = link
        self.smoothed_targets = smoothed_targets

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit A and B; warn and smooth the targets where the scores separate the labels."""
        u, labels, weight = _samples(scores, y, sample_weight)
        self.link_ = Logit() if self.link is None else as_link(self.link)
        separated = _separated(u, labels) or _separated(-u, labels)
        target = targets(labels, weight, self.smoothed_targets, separated)
        slopes, intercept = fit_affine(self.link_, u[:, None], target, weight)
        self.slope_ = float(slopes[0]) / self.link_.scale
        self.intercept_ = (intercept - self.link_.offset) / self.link_.scale
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """σ(A u + B)."""
        check_is_fitted(self)
        return self.link_(self.slope_ * as_vector(scores, "scores") + self.intercept_)


def best_temperature(slope: Callable[[float], float], advice: str) -> float:
    """T at which the derivative of the loss in 1/T is zero, or a cap and a warning.

    Parameters
    ----------
    slope : callable
        The derivative at 1/T. It increases, so it has one root at most.
    advice : str
        What to check where the scores rank the labels no better than chance.
    """
    if slope(1.0 / MAX_TEMPERATURE) >= 0.0:
        warnings.warn(
            "the scores do not rank the labels better than chance, so T is infinite; "
            f"capped it. {advice}",
            ConvergenceWarning,
            stacklevel=3,
        )
        return MAX_TEMPERATURE
    upper = 1.0
    while slope(upper) < 0.0:
        upper *= 2.0
    return 1.0 / float(brentq(slope, 1.0 / MAX_TEMPERATURE, upper, xtol=1e-14))


class TemperatureScaling(BaseEstimator):
    """P(y = 1 | u) = 1/(1 + e^{−u/T}), T > 0 by maximum likelihood.

    Attributes
    ----------
    temperature_ : float
        T. Where no T > 0 beats the constant ½ it is a cap so large that predictions are ½, with a
        warning.

    Examples
    --------
    >>> scores, labels = [2, 2, 2, 2, -2, -2, -2, -2], [1, 1, 1, 0, 0, 0, 0, 1]
    >>> TemperatureScaling().fit(scores, labels).predict([2.0]).round(6)
    array([0.75])
    """

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit T; warn and smooth the targets where the sign of the scores gives the labels."""
        u, labels, weight = _samples(scores, y, sample_weight)
        margin = signed(labels) * u
        separated = bool(margin.min() >= 0.0 and margin.max() > 0.0)
        target = targets(labels, weight, False, separated)
        unit = float(np.sqrt(np.average(u**2, weights=weight))) or 1.0

        def slope(inverse: float) -> float:
            """Derivative of the mean loss in unit/T; it increases, so it has one root at most."""
            return float(
                np.average(u / unit * (expit(inverse * u / unit) - target), weights=weight)
            )

        self.temperature_ = unit * best_temperature(slope, "Check the scores' sign.")
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """1/(1 + e^{−u/T})."""
        check_is_fitted(self)
        return expit(as_vector(scores, "scores") / self.temperature_)


class IsotonicCalibration(BaseEstimator):
    """P(y = 1 | u) = the non-decreasing function of u nearest to y in squared error.

    Linear between fitted scores, constant outside their range.

    Examples
    --------
    >>> IsotonicCalibration().fit([1, 2, 3, 4], [0, 1, 0, 1]).predict([0, 2.5, 9])
    array([0. , 0.5, 1. ])
    """

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Pool adjacent violators."""
        u, labels, weight = _samples(scores, y, sample_weight)
        self.isotonic_ = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        self.isotonic_.fit(u, labels, sample_weight=weight)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """Evaluate the fitted function."""
        check_is_fitted(self)
        fitted: Floats = self.isotonic_.predict(as_vector(scores, "scores"))
        return fitted


class HistogramBinning(BaseEstimator):
    """P(y = 1 | u) = ȳ_b, the label mean of the bin b that holds u.

    Parameters
    ----------
    n_bins, strategy
        Bins of equal weight (``"quantile"``) or of equal width between the extreme scores
        (``"uniform"``).
    laplace : bool
        Use (Σ y + 1)/(n + 2) in each bin in place of Σ y/n.

    Attributes
    ----------
    edges_ : ndarray
        Interior edges; bins are open on the left, and the outer two unbounded.
    values_ : ndarray
        Probability in each bin. An empty bin is interpolated between its neighbours.

    Examples
    --------
    >>> HistogramBinning(n_bins=2).fit([1, 2, 3, 4], [0, 0, 1, 0]).predict([1.5, 3.5])
    array([0. , 0.5])
    """

    def __init__(
        self, n_bins: int = 10, strategy: Strategy = "quantile", laplace: bool = False
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.laplace = laplace

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Average the labels in each bin."""
        u, labels, weight = _samples(scores, y, sample_weight)
        span = (float(u.min()), float(u.max()))
        self.edges_ = interior_edges(u, self.n_bins, self.strategy, weight, span)
        index = bin_index(u, self.edges_)
        n_bins = self.edges_.size + 1
        mass = np.bincount(index, weights=weight, minlength=n_bins)
        positive = np.bincount(index, weights=weight * labels, minlength=n_bins)
        filled = np.flatnonzero(mass > 0.0)
        prior = 1.0 if self.laplace else 0.0
        means = (positive[filled] + prior) / (mass[filled] + 2.0 * prior)
        self.values_ = np.interp(np.arange(n_bins), filled, np.clip(means, 0.0, 1.0))
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """Look up the bin's value."""
        check_is_fitted(self)
        values: Floats = self.values_[bin_index(as_vector(scores, "scores"), self.edges_)]
        return values


class BetaCalibration(BaseEstimator):
    """Log-odds of y = 1 given u: a ln p − b ln(1−p) + c with p = 1/(1 + e^{−u}) and a, b >= 0.

    a = b is Platt scaling with the plain sigmoid and a slope >= 0.

    Attributes
    ----------
    a_, b_, c_ : float
        The maximum-likelihood parameters.

    References
    ----------
    Kull, Silva Filho, Flach (2017), Beta calibration, AISTATS.

    Examples
    --------
    >>> BetaCalibration().fit([-1, -1, -1, 1, 1, 1], [0, 0, 1, 0, 1, 1]).predict([1]).round(4)
    array([0.6667])
    """

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a, b, c; warn and smooth the targets where the scores separate the labels."""
        u, labels, weight = _samples(scores, y, sample_weight)
        target = targets(labels, weight, False, _separated(u, labels))
        slopes, self.c_ = fit_affine(Logit(), self._columns(u), target, weight, nonnegative=True)
        self.a_, self.b_ = (float(slope) for slope in slopes)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """1/(1 + e^{−(a ln p − b ln(1−p) + c)})."""
        check_is_fitted(self)
        columns = self._columns(as_vector(scores, "scores"))
        return expit(columns @ np.array([self.a_, self.b_]) + self.c_)

    @staticmethod
    def _columns(u: Floats) -> Floats:
        """Return (ln p, −ln(1−p)) from the log-odds u, finite for any u."""
        return np.column_stack([log_expit(u), -log_expit(-u)])


CALIBRATORS: dict[str, type] = {
    "platt": PlattScaling,
    "temperature": TemperatureScaling,
    "isotonic": IsotonicCalibration,
    "histogram": HistogramBinning,
    "beta": BetaCalibration,
}
"""Calibrators by short name."""


def platt_limit(
    cosine: float, norm: float, link: Link, *, approximate: bool = False
) -> tuple[float, float]:
    """A = c/(‖ŵ‖ r), B = (β/α)(1/r − 1), r = (1 + α² sin²θ)^½, for σ(t) = Φ(αt + β).

    With Gaussian features, σ(A u + B) is then E σ(c u/‖ŵ‖ + sin θ Z), the probability of y = 1
    given the score u: the values that Platt scaling tends to with ever more calibration data.

    Parameters
    ----------
    cosine, norm
        c = cos θ between fitted and true weights, and ‖ŵ‖, in the feature covariance's geometry;
        the true weights have norm 1 there.
    link
        A Probit link; or a Logit link, if `approximate`.
    approximate
        Accept a Logit link through 1/(1 + e^{−t}) ≈ Φ((π/8)^½ t), which is off by up to 0.02.

    Examples
    --------
    >>> platt_limit(1.0, 2.0, Probit(scale=3.0, offset=1.0))
    (0.5, 0.0)
    """
    if not -1.0 <= cosine <= 1.0:
        raise ValueError(f"cosine={cosine!r} must lie in [-1, 1].")
    if not (norm > 0.0 and np.isfinite(norm)):
        raise ValueError(f"norm={norm!r} must be positive and finite.")
    if isinstance(link, Logit) and not approximate:
        raise ValueError(
            f"link={link!r} has no exact limit of this form; pass approximate=True for the probit "
            "approximation, or use link.smooth."
        )
    if not isinstance(link, Probit | Logit):
        raise ValueError(f"link={link!r} must be Probit or Logit; for others use link.smooth.")
    unit = 1.0 if isinstance(link, Probit) else np.sqrt(np.pi / 8.0)
    shrink = 1.0 / np.sqrt(1.0 + (unit * link.scale) ** 2 * (1.0 - cosine) * (1.0 + cosine))
    return float(cosine * shrink / norm), float(link.offset / link.scale * (shrink - 1.0))
