"""Maximum-likelihood fits of base(columns A + B) to labels or soft targets, for any link."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from angcal._typing import Floats
from angcal.links import Link, Logit, Probit
from angcal.losses import Logistic, Loss, ProbitLikelihood, signed

GRADIENT_TOLERANCE = 1e-9
"""Largest gradient of the mean negative log-likelihood at which a fit stops."""

FLIP_RATE = 1e-12
"""Chance of a flipped label granted to links without a loss of their own; see `_LinkLikelihood`."""


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


def fit_affine(
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


def targets(y: Floats, weight: Floats, smoothed: bool, separated: bool) -> Floats:
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
