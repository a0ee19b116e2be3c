"""Calibrators that learn the map from a score u to P(y = 1 | u) on held-out data.

Each has ``fit(scores, y, sample_weight=None)`` and ``predict(scores)``. They are the methods to
compare with: unlike angular calibration they need labels that the classifier did not train on.

scikit-learn offers these maps only inside ``CalibratedClassifierCV``; as a public part that takes
scores it has ``IsotonicRegression``, used here. Its logistic regression takes neither soft targets
nor other links, hence the likelihood fits below.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.links import Link, Logit, Probit, as_link
from angcal.losses import Logistic, Loss, ProbitLikelihood, signed
from angcal.metrics import (
    Strategy,
    as_labels,
    as_vector,
    as_weights,
    bin_index,
    interior_edges,
    require_length,
)

__all__ = [
    "CALIBRATORS",
    "BetaCalibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "PlattScaling",
    "TemperatureScaling",
    "platt_limit",
]

GRADIENT_TOLERANCE = 1e-9
"""Largest gradient of the mean negative log-likelihood at which a fit stops."""

MAX_TEMPERATURE = 1e6
"""Largest temperature, in units of the scores' root mean square."""

FLIP_RATE = 1e-12
"""Chance of a flipped label granted to links without a loss of their own; see `_LinkLikelihood`."""


# --- Likelihood fits -------------------------------------------------------------------------


@dataclass(frozen=True)
class _LinkLikelihood(Loss):
    """ℓ_1(u) = −log[ε + (1−2ε) σ(u)], ℓ_0 the same of 1 − σ(u); for links without own loss.

    A link that reaches 0 or 1, or whose 1 − σ underflows, makes one stray label cost infinitely
    much. A rate ε of flipped labels bounds the cost.
    """

    link: Link

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return -np.log(self._probability(scores, labels))

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        slope = (1.0 - 2.0 * FLIP_RATE) * self.link.derivative(scores)
        return -signed(labels) * slope / self._probability(scores, labels)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        # The squared gradient: it averages to the Fisher information and is never negative,
        # whereas the second derivative is negative in places for links that are not log-concave.
        return self.gradient(scores, labels) ** 2

    def _probability(self, scores: Floats, labels: Floats) -> Floats:
        positive = self.link(scores)
        given = np.where(labels == 1.0, positive, 1.0 - positive)
        return FLIP_RATE + (1.0 - 2.0 * FLIP_RATE) * given


def _likelihood(link: Link) -> Loss:
    """Return the loss −log P(y) of the link at scale 1 and offset 0, accurate in the tails."""
    if isinstance(link, Logit):
        return Logistic()
    if isinstance(link, Probit):
        return ProbitLikelihood()
    return _LinkLikelihood(link.with_parameters(scale=1.0, offset=0.0))


@dataclass(frozen=True)
class _LinearFamily:
    """Mean loss of targets t at scores s = Fθ: Σ_i w_i [t_i ℓ_1(s_i) + (1−t_i) ℓ_0(s_i)] / Σ w."""

    loss: Loss
    features: Floats
    target: Floats
    weight: Floats

    def _expected(self, part: Any, coefficients: Floats) -> Floats:
        scores = self.features @ coefficients
        ones = np.ones_like(scores)
        mixed = self.target * part(scores, ones) + (1.0 - self.target) * part(scores, 0.0 * ones)
        return self.weight / self.weight.sum() * mixed

    def value(self, coefficients: Floats) -> float:
        return float(self._expected(self.loss.value, coefficients).sum())

    def gradient(self, coefficients: Floats) -> Floats:
        return self.features.T @ self._expected(self.loss.gradient, coefficients)

    def hessian(self, coefficients: Floats) -> Floats:
        curvature = self._expected(self.loss.hessian, coefficients)
        return self.features.T @ (curvature[:, None] * self.features)

    def minimize(self, start: Floats, nonnegative: int = 0) -> Floats:
        """Return the minimiser whose first `nonnegative` coefficients are >= 0."""
        if nonnegative:
            free = start.size - nonnegative
            result = minimize(
                self.value,
                start,
                jac=self.gradient,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * nonnegative + [(None, None)] * free,
                options={"gtol": GRADIENT_TOLERANCE, "ftol": 1e-15, "maxiter": 2000},
            )
        else:
            result = minimize(
                self.value,
                start,
                jac=self.gradient,
                hess=self.hessian,
                method="trust-exact",
                options={"gtol": GRADIENT_TOLERANCE},
            )
        self._warn_unless_stationary(result.x, nonnegative)
        return np.asarray(result.x, dtype=np.float64)

    def _warn_unless_stationary(self, coefficients: Floats, nonnegative: int) -> None:
        # Judged by the gradient: the solvers report failure when the value stops changing in
        # its last digit, which is where a good fit ends.
        slope = self.gradient(coefficients)
        at_bound = (np.arange(slope.size) < nonnegative) & (coefficients <= 0.0) & (slope > 0.0)
        largest = float(np.abs(np.where(at_bound, 0.0, slope)).max())
        if largest > 1e-5:
            warnings.warn(
                f"the calibration fit stopped at a gradient of {largest:.1e}; "
                "its parameters may be inaccurate.",
                ConvergenceWarning,
                stacklevel=5,
            )


def _start(link: Link, target: Floats, weight: Floats) -> float:
    """Return a t in [−10, 10] at which base(t) is near the mean target."""
    candidates = np.linspace(-10.0, 10.0, 401)
    misses = np.abs(link.base(candidates) - np.average(target, weights=weight))
    return float(candidates[np.argmin(misses)])


def _fit_affine(
    link: Link, columns: Floats, target: Floats, weight: Floats, *, nonnegative: bool = False
) -> tuple[Floats, float]:
    """Return slopes A and intercept B of the most likely base(``columns A + B``).

    The columns are standardised first, so that the solver sees the same problem in any unit; a
    constant column says nothing about its slope, which is then 0.
    """
    mean = np.average(columns, axis=0, weights=weight)
    sd = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=weight))
    varies = sd > 1e-12 * np.abs(mean)
    standard = (columns[:, varies] - mean[varies]) / sd[varies]
    features = np.column_stack([standard, np.ones(len(columns))])
    family = _LinearFamily(_likelihood(link), features, target, weight)
    n_slopes = int(varies.sum())
    start = np.append(np.zeros(n_slopes), _start(link, target, weight))
    fitted = family.minimize(start, n_slopes if nonnegative else 0)
    slopes = np.zeros(varies.size)
    slopes[varies] = fitted[:-1] / sd[varies]
    return slopes, float(fitted[-1] - slopes @ mean)


# --- Data ------------------------------------------------------------------------------------


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


def _targets(y: Floats, weight: Floats, smoothed: bool, separated: bool) -> Floats:
    """Return y, or Platt's targets (N₁+1)/(N₁+2) and 1/(N₀+2), N_k the weight of label k.

    On separated samples the likelihood grows without end as the slope does. Platt's targets, which
    are the posterior means under a uniform prior, then give a finite slope, with a warning.
    """
    if separated and not smoothed:
        warnings.warn(
            "the scores separate the labels, so the maximum-likelihood slope is infinite; "
            "fitted Platt's smoothed targets instead. Calibrate on more data to avoid this.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if not (smoothed or separated):
        return y
    positive, negative = float(weight @ y), float(weight @ (1.0 - y))
    return np.where(y == 1.0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))


# --- Calibrators -----------------------------------------------------------------------------


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
        target = _targets(labels, weight, self.smoothed_targets, separated)
        slopes, intercept = _fit_affine(self.link_, u[:, None], target, weight)
        self.slope_ = float(slopes[0]) / self.link_.scale
        self.intercept_ = (intercept - self.link_.offset) / self.link_.scale
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        """σ(A u + B)."""
        check_is_fitted(self)
        return self.link_(self.slope_ * as_vector(scores, "scores") + self.intercept_)


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
        target = _targets(labels, weight, False, separated)
        unit = float(np.sqrt(np.average(u**2, weights=weight))) or 1.0

        def slope(inverse: float) -> float:
            """Derivative of the mean loss in unit/T; it increases, so it has one root at most."""
            return float(
                np.average(u / unit * (expit(inverse * u / unit) - target), weights=weight)
            )

        if slope(1.0 / MAX_TEMPERATURE) >= 0.0:
            warnings.warn(
                "the scores do not rank the labels better than chance, so T is infinite; "
                "capped it. Check the scores' sign.",
                ConvergenceWarning,
                stacklevel=2,
            )
            self.temperature_ = MAX_TEMPERATURE * unit
            return self
        upper = 1.0
        while slope(upper) < 0.0:
            upper *= 2.0
        self.temperature_ = unit / brentq(slope, 1.0 / MAX_TEMPERATURE, upper, xtol=1e-14)
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
        target = _targets(labels, weight, False, _separated(u, labels))
        slopes, self.c_ = _fit_affine(Logit(), self._columns(u), target, weight, nonnegative=True)
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
