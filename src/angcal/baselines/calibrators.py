"""Calibrators of two classes, and the closed form that Platt's tends to.

They take one score u per row; those of K classes are in :mod:`angcal.baselines.multiclass`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.baselines.likelihood import (
    fit_affine,
    warn_about_fit,
    warn_smoothed,
)
from angcal.links import Link, Logit, Probit, as_link
from angcal.losses import Multinomial
from angcal.metrics import (
    Strategy,
    as_labels,
    as_vector,
    as_weights,
    bin_index,
    interior_edges,
    require_length,
)
from angcal.metrics.line import platt_targets, separates, steps_up
from angcal.metrics.validation import Codes, indicators, smoothed_targets


class ScoreMap(BaseEstimator):
    """A map from scores to probabilities, by the `_fit` and `_predict` of a subclass."""

    def _fit(self, u: Floats, y: Any, weight: Floats) -> None:
        raise NotImplementedError

    def _predict(self, u: Floats) -> Floats:
        raise NotImplementedError


def with_weight(
    scores: Floats, name: str, labels: Any, sample_weight: ArrayLike | None
) -> tuple[Floats, Any, Floats]:
    """Scores, labels and weights of the rows that have a weight, once their lengths agree."""
    require_length(scores, name, labels.size)
    weight = as_weights(sample_weight, labels.size)
    kept = weight > 0.0
    return scores[kept], labels[kept], weight[kept]


class Calibrator(ScoreMap):
    """One score per row."""

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map on scores whose labels the classifier has not seen.

        Parameters
        ----------
        scores, y : array-like of shape (n,)
            Scores u and labels 0/1.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        self : object
            The fitted calibrator. A ConvergenceWarning says where the likelihood has no maximum
            and smoothed targets were fitted.
        """
        labels = as_labels(y, "y")
        self._fit(*with_weight(as_vector(scores, "scores"), "scores", labels, sample_weight))
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """P(y = 1 | u) at every score.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores u.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities.
        """
        check_is_fitted(self)
        return self._predict(as_vector(scores, "scores"))


def _targets(y: Floats, weight: Floats, smoothed: bool, separated: bool) -> Floats:
    """Return y, or Platt's targets where asked for or, with a warning, needed."""
    if separated and not smoothed:
        warn_smoothed("the scores separate the labels")
    if not (smoothed or separated):
        return y
    return platt_targets(y, weight)


class PlattScaling(Calibrator):
    """P(y = 1 | u) = σ(A u + B), A and B by maximum likelihood.

    Parameters
    ----------
    link : Link, optional
        σ; None is the plain sigmoid 1/(1 + e^{−t}). With ``Logit(scale=3, offset=1)`` the
        log-odds are 3(A u + B) + 1.
    smoothed_targets : bool, default=False
        Fit Platt's targets (N₁+1)/(N₁+2) and 1/(N₀+2) in place of 1 and 0.

    Attributes
    ----------
    slope_, intercept_ : float
        A and B.

    See Also
    --------
    VectorScaling, MatrixScaling : For any number of classes.

    Examples
    --------
    >>> calibrator = PlattScaling().fit([-1, -1, -1, 1, 1, 1], [0, 0, 1, 0, 1, 1])
    >>> round(calibrator.slope_, 6), calibrator.predict([1]).round(6)
    (0.693147, array([0.666667]))
    """

    def __init__(self, link: Link | None = None, smoothed_targets: bool = False) -> None:
        self.link = link
        self.smoothed_targets = smoothed_targets

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self.link_ = Logit() if self.link is None else as_link(self.link)
        target = _targets(y, weight, self.smoothed_targets, separates(u, y))
        slopes, intercept = fit_affine(self.link_, u[:, None], target, weight)
        self.slope_ = float(slopes[0]) / self.link_.scale
        self.intercept_ = (intercept - self.link_.offset) / self.link_.scale

    def _predict(self, u: Floats) -> Floats:
        return self.link_(self.slope_ * u + self.intercept_)


def likeliest_temperature(
    logits: Floats, codes: Codes, weight: Floats, unit: float, advice: str
) -> float:
    """T at which the derivative of the loss in 1/T is zero, or a cap and a warning, with `advice`.

    The derivative increases, so it has one root at most. Where every label has the largest of (n,
    K) logits, the targets are smoothed, with a warning. `unit` is the size of the scores, 1 where
    they are zero; T is at most a million of it, at which probabilities are equal to 1e-6.
    """
    target, scaled = indicators(codes, logits.shape[1]), logits / unit
    margins = Multinomial(logits.shape[1]).margins(logits, codes.astype(np.float64))
    if logits.any() and margins.min() >= 0.0:
        warn_smoothed("the scores separate the labels")
        target = smoothed_targets(codes, weight, logits.shape[1])

    def slope(inverse: float) -> float:
        residual = softmax(inverse * scaled, axis=1) - target
        return float(np.average(np.sum(scaled * residual, axis=1), weights=weight))

    if slope(1e-6) >= 0.0:
        warn_about_fit(
            "the scores do not rank the labels better than chance, so T is infinite; "
            f"capped it. {advice}",
        )
        return unit * 1e6
    upper = 1.0
    while slope(upper) < 0.0:
        upper *= 2.0
    return unit / float(brentq(slope, 1e-6, upper, xtol=1e-14))


class TemperatureScaling(Calibrator):
    """P(y = 1 | u) = 1/(1 + e^{−u/T}), T > 0 by maximum likelihood.

    Attributes
    ----------
    temperature_ : float
        T. Where no T > 0 beats the constant ½ it is a cap so large that predictions are ½, with a
        warning.

    See Also
    --------
    SoftmaxTemperature : For any number of classes.

    Examples
    --------
    >>> scores, labels = [2, 2, 2, 2, -2, -2, -2, -2], [1, 1, 1, 0, 0, 0, 0, 1]
    >>> TemperatureScaling().fit(scores, labels).predict([2.0]).round(6)
    array([0.75])
    """

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        logits = np.column_stack([np.zeros_like(u), u])
        unit = float(np.sqrt(np.average(u**2, weights=weight))) or 1.0
        advice = "Check the scores' sign."
        codes = y.astype(np.intp)
        self.temperature_ = likeliest_temperature(logits, codes, weight, unit, advice)

    def _predict(self, u: Floats) -> Floats:
        return expit(u / self.temperature_)


class IsotonicCalibration(Calibrator):
    """P(y = 1 | u) = the non-decreasing function of u nearest to y in squared error.

    Linear between fitted scores, constant outside their range.

    See Also
    --------
    PlattScaling : A sigmoid, for few labels.

    Examples
    --------
    >>> IsotonicCalibration().fit([1, 2, 3, 4], [0, 1, 0, 1]).predict([0, 2.5, 9])
    array([0. , 0.5, 1. ])
    """

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self.isotonic_ = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        self.isotonic_.fit(u, y, sample_weight=weight)

    def _predict(self, u: Floats) -> Floats:
        return np.asarray(self.isotonic_.predict(u))


class HistogramBinning(Calibrator):
    """P(y = 1 | u) = ȳ_b, the label mean of the bin b that holds u.

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, or of equal width between the extreme scores.
    laplace : bool, default=False
        Use (Σ y + 1)/(n + 2) in each bin in place of Σ y/n.

    Attributes
    ----------
    edges_ : ndarray
        Interior edges; bins are open on the left, and the outer two unbounded.
    values_ : ndarray
        Probability in each bin. An empty bin is interpolated between its neighbors.

    See Also
    --------
    IsotonicCalibration : Chooses its bins itself, and keeps the order of the scores.

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

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        span = (float(u.min()), float(u.max()))
        self.edges_ = interior_edges(u, self.n_bins, self.strategy, weight, span)
        index = bin_index(u, self.edges_)
        n_bins = self.edges_.size + 1
        mass = np.bincount(index, weights=weight, minlength=n_bins)
        positive = np.bincount(index, weights=weight * y, minlength=n_bins)
        filled = np.flatnonzero(mass > 0.0)
        prior = 1.0 if self.laplace else 0.0
        means = (positive[filled] + prior) / (mass[filled] + 2.0 * prior)
        self.values_ = np.interp(np.arange(n_bins), filled, np.clip(means, 0.0, 1.0))

    def _predict(self, u: Floats) -> Floats:
        return np.asarray(self.values_[bin_index(u, self.edges_)])


class _TwoSlopes(Calibrator):
    """Log-odds a f(u) + b g(u) + c, with the columns (f, g) by a subclass."""

    def _fit_to(
        self, target: Floats, u: Floats, weight: Floats, *, nonnegative: bool = False
    ) -> None:
        columns = self._columns(u)
        slopes, self.c_ = fit_affine(Logit(), columns, target, weight, nonnegative=nonnegative)
        self.a_, self.b_ = (float(slope) for slope in slopes)

    def _log_odds(self, u: Floats) -> Floats:
        return self._columns(u) @ np.array([self.a_, self.b_]) + self.c_

    def _predict(self, u: Floats) -> Floats:
        return expit(self._log_odds(u))

    def _columns(self, u: Floats) -> Floats:
        raise NotImplementedError


class BetaCalibration(_TwoSlopes):
    """Log-odds of y = 1 given u: a ln p − b ln(1−p) + c with p = 1/(1 + e^{−u}) and a, b >= 0.

    a = b is Platt scaling with the plain sigmoid and a slope >= 0.

    Attributes
    ----------
    a_, b_, c_ : float
        The maximum-likelihood parameters.

    See Also
    --------
    PlattScaling : The case a = b.

    References
    ----------
    Kull, Silva Filho, Flach (2017), Beta calibration, AISTATS.

    Examples
    --------
    >>> BetaCalibration().fit([-1, -1, -1, 1, 1, 1], [0, 0, 1, 0, 1, 1]).predict([1]).round(4)
    array([0.6667])
    """

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self._fit_to(_targets(y, weight, False, steps_up(u, y)), u, weight, nonnegative=True)

    def _columns(self, u: Floats) -> Floats:
        """Return (ln p, −ln(1−p)) from the log-odds u, finite for any u."""
        return np.column_stack([log_expit(u), -log_expit(-u)])


class QuadraticScaling(_TwoSlopes):
    """Log-odds of y = 1 given u: a v² + b v + c with v = (u − m)/s, by maximum likelihood.

    This is the form for scores that are normal in both classes, with two variances. The map need
    not rise: beyond the turning point of the parabola a larger score is less likely to be positive.

    Attributes
    ----------
    a_, b_, c_ : float
        The maximum-likelihood parameters.
    center_, unit_ : float
        m and s, mean and standard deviation of the scores.

    See Also
    --------
    PlattScaling : The case a = 0.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach (2025), Structured matrix scaling for multi-class calibration,
    arXiv:2511.03685.

    Examples
    --------
    >>> scores, labels = [-1, -1, 0, 0, 0, 1, 1], [0, 1, 0, 0, 1, 0, 1]
    >>> QuadraticScaling().fit(scores, labels).predict([-1, 0, 1]).round(4)
    array([0.5   , 0.3333, 0.5   ])
    """

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self.center_ = float(np.average(u, weights=weight))
        spread = float(np.sqrt(np.average((u - self.center_) ** 2, weights=weight)))
        self.unit_ = spread if spread > 1e-12 * abs(self.center_) else 1.0
        target = _targets(y, weight, False, separates(u, y))
        self._fit_to(target, u, weight)
        # Labels that only an interval of scores separates show once the fit has found it.
        right = (self._log_odds(u) > 0.0) == (y == 1.0)
        if target is y and right.all():
            self._fit_to(_targets(y, weight, False, True), u, weight)

    def _columns(self, u: Floats) -> Floats:
        v = (u - self.center_) / self.unit_
        return np.column_stack([v**2, v])


CALIBRATORS: dict[str, type] = {
    "platt": PlattScaling,
    "temperature": TemperatureScaling,
    "isotonic": IsotonicCalibration,
    "histogram": HistogramBinning,
    "beta": BetaCalibration,
    "quadratic": QuadraticScaling,
}
"""Calibrators of two classes by short name."""


def platt_limit(
    cosine: float, norm: float, link: Link, *, approximate: bool = False
) -> tuple[float, float]:
    """A = c/(‖ŵ‖ r), B = (β/α)(1/r − 1), r = (1 + α² sin²θ)^½, for σ(t) = Φ(αt + β).

    With Gaussian features, σ(A u + B) is then E σ(c u/‖ŵ‖ + sin θ Z), the probability of y = 1
    given the score u: the values that Platt scaling tends to with ever more calibration data.

    Parameters
    ----------
    cosine, norm : float
        c = cos θ between fitted and true weights, and ‖ŵ‖, in the feature covariance's geometry;
        the true weights have norm 1 there.
    link : Probit or Logit
        A Probit link; or a Logit link, if `approximate`.
    approximate : bool, default=False
        Accept a Logit link through 1/(1 + e^{−t}) ≈ Φ((π/8)^½ t), which is off by up to 0.02.

    Returns
    -------
    slope, intercept : float
        A and B.

    See Also
    --------
    PlattScaling : Fits A and B.

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
