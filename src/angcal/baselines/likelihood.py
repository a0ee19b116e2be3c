"""Maximum-likelihood fits of affine maps of scores: σ(columns A + B) and softmax(A u + b)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from angcal._typing import Floats
from angcal.links import Link, Logit, Probit
from angcal.losses import Logistic, Loss, Multinomial, ProbitLikelihood, signed
from angcal.metrics.validation import Codes, indicators, smoothed_targets
from angcal.notices import warn

# --- What every fit shares -------------------------------------------------------------------


def warn_about_fit(message: str) -> None:
    """Issue a ConvergenceWarning."""
    warn(message, ConvergenceWarning)


def warn_smoothed(reason: str) -> None:
    """Warn that the likelihood has no maximum, so that smoothed targets are fitted."""
    warn_about_fit(
        f"{reason}, so the maximum-likelihood parameters are infinite; fitted smoothed targets "
        "instead. Calibrate on more data to avoid this."
    )


def _standardized(columns: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Any]:
    """(columns − mean)/unit, mean, unit, and which columns vary; a constant one becomes zero.

    The solver then sees the same problem in any unit. A constant column says nothing about its
    slope, which is left at 0.
    """
    mean = np.average(columns, axis=0, weights=weight)
    sd = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=weight))
    varies = sd > 1e-12 * np.abs(mean)
    unit = np.where(varies, sd, 1.0)
    return np.where(varies, (columns - mean) / unit, 0.0), mean, unit, varies


def _minimized(
    value: Callable[[Floats], float],
    gradient: Callable[[Floats], Floats],
    start: Floats,
    n_nonnegative: int = 0,
    **solver: Any,
) -> Floats:
    """Return the minimizer, and warn where it is not stationary."""
    found = minimize(value, start, jac=gradient, **solver).x
    # Judged by the gradient: the solvers report failure when the value stops changing in its last
    # digit, which is where a good fit ends.
    slope = gradient(found)
    at_bound = (np.arange(slope.size) < n_nonnegative) & (found <= 0.0) & (slope > 0.0)
    largest = float(np.abs(np.where(at_bound, 0.0, slope)).max())
    if largest > 1e-5:
        warn_about_fit(
            f"the calibration fit stopped at a gradient of {largest:.1e}; "
            "its parameters may be inaccurate.",
        )
    return np.asarray(found, dtype=np.float64)


# --- One score, any link ---------------------------------------------------------------------


@dataclass(frozen=True)
class _LinkLikelihood(Loss):
    """ℓ_1(u) = −log[ε + (1−2ε) σ(u)], ℓ_0 the same of 1 − σ(u); for links without own loss.

    A link that reaches 0 or 1, or whose 1 − σ underflows, makes one stray label cost infinitely
    much. A rate ε of flipped labels bounds the cost.
    """

    link: Link
    flips: float = 1e-12

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return -np.log(self._probability(scores, labels))

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        slope = (1.0 - 2.0 * self.flips) * self.link.derivative(scores)
        return -signed(labels) * slope / self._probability(scores, labels)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        # The squared gradient: it averages to the Fisher information and is never negative,
        # whereas the second derivative is negative in places for links that are not log-concave.
        return self.gradient(scores, labels) ** 2

    def _probability(self, scores: Floats, labels: Floats) -> Floats:
        positive = self.link(scores)
        given = np.where(labels == 1.0, positive, 1.0 - positive)
        return self.flips + (1.0 - 2.0 * self.flips) * given


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


def fit_affine(
    link: Link, columns: Floats, target: Floats, weight: Floats, *, nonnegative: bool = False
) -> tuple[Floats, float]:
    """Return slopes A and intercept B of the most likely base(``columns A + B``)."""
    standard, mean, unit, varies = _standardized(columns, weight)
    features = np.column_stack([standard[:, varies], np.ones(len(columns))])
    family = _LinearFamily(_likelihood(link), features, target, weight)
    # Start from no slope, at a constant that is near the mean target.
    constants = np.linspace(-10.0, 10.0, 401)
    nearest = np.argmin(np.abs(link.base(constants) - np.average(target, weights=weight)))
    start = np.append(np.zeros(features.shape[1] - 1), constants[nearest])
    n_bounded = start.size - 1 if nonnegative else 0
    options: dict[str, Any] = {"gtol": 1e-9}
    solver: dict[str, Any] = {"method": "trust-exact", "hess": family.hessian}
    if n_bounded:
        solver = {"method": "L-BFGS-B", "bounds": [(0.0, None)] * n_bounded + [(None, None)]}
        options |= {"ftol": 1e-15, "maxiter": 2000}
    fitted = _minimized(family.value, family.gradient, start, n_bounded, options=options, **solver)
    slopes = np.zeros(varies.size)
    slopes[varies] = fitted[:-1] / unit[varies]
    return slopes, float(fitted[-1] - slopes @ mean)


# --- One score for each class ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MultinomialFamily:
    """Σ_i w_i [log Σ_k exp z_ik − t_iᵀz_i]/Σ w + ½ Σ_kl ρ_kl (A_kl − C_kl)² + ½ β ‖b‖².

    The logits are z_i = A u_i + b of (n, K) scores u, with targets t, weights w and `center` C,
    where the fit starts. The parameters are the entries of A that `free` marks, row by row, and
    then b; the other entries are zero. With p = softmax(z) and r = w(p − t)/Σw, the gradient is rᵀu
    + ρ(A − C) and Σ_i r_i + βb. The Hessian is applied, never formed: along a change dz it turns r
    into w(p∘dz − p pᵀdz)/Σw.
    """

    scores: Floats
    target: Floats
    weight: Floats
    free: NDArray[np.bool_]
    ridge: Floats
    offset_ridge: float = 0.0
    center: Floats | float = 0.0
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def unpack(self, parameters: Floats) -> tuple[Floats, Floats]:
        """A and b."""
        K = len(self.free)
        matrix = np.zeros((K, K))
        matrix[self.free] = parameters[:-K]
        return matrix, parameters[-K:]

    def value(self, parameters: Floats) -> float:
        """The objective."""
        z, _, log_total = self._at(parameters)
        loss = log_total - np.einsum("ik,ik->i", self.target, z)
        away = parameters - self.start
        return float(self._share @ loss + 0.5 * np.sum(self._strengths * away**2))

    def gradient(self, parameters: Floats) -> Floats:
        """Its gradient."""
        _, p, _ = self._at(parameters)
        return self._pulled_back(p - self.target) + self._strengths * (parameters - self.start)

    def hessian_product(self, parameters: Floats, direction: Floats) -> Floats:
        """Its Hessian times a direction."""
        _, p, _ = self._at(parameters)
        dz = self._logits(direction)
        change = p * (dz - np.einsum("ik,ik->i", p, dz)[:, None])
        return self._pulled_back(change) + self._strengths * direction

    def minimize(self, tol: float = 1e-8) -> tuple[Floats, Floats]:
        """A and b at the minimum, from C and 0: directions without effect stay where they are."""
        options = {"gtol": tol, "maxiter": 500}
        solver: dict[str, Any] = {"method": "trust-ncg", "hessp": self.hessian_product}
        found = _minimized(self.value, self.gradient, self.start, options=options, **solver)
        return self.unpack(found)

    @cached_property
    def start(self) -> Floats:
        """C on the free entries, and 0."""
        K = len(self.free)
        return np.append(np.broadcast_to(self.center, (K, K))[self.free], np.zeros(K))

    @cached_property
    def _strengths(self) -> Floats:
        """ρ on the free entries, and β."""
        return np.append(self.ridge[self.free], np.full(len(self.free), self.offset_ridge))

    @cached_property
    def _share(self) -> Floats:
        return self.weight / self.weight.sum()

    def _logits(self, parameters: Floats) -> Floats:
        matrix, offsets = self.unpack(parameters)
        return self.scores @ matrix.T + offsets

    def _at(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """z, softmax(z) and log Σ_k exp z_k; kept, because a solver asks for one point often."""
        key = parameters.tobytes()
        if self._kept.get("key") != key:
            z = self._logits(parameters)
            top = z.max(axis=1)
            e = np.exp(z - top[:, None])
            total = e.sum(axis=1)
            self._kept.update(key=key, value=(z, e / total[:, None], top + np.log(total)))
        return self._kept["value"]

    def _pulled_back(self, residual: Floats) -> Floats:
        """rᵀu on the free entries, and Σ_i r_i."""
        weighted = self._share[:, None] * residual
        return np.concatenate([(weighted.T @ self.scores)[self.free], weighted.sum(axis=0)])


def fit_multinomial(
    scores: Floats,
    codes: Codes,
    weight: Floats,
    ridge: Floats,
    offset_ridge: float | None = None,
    tol: float = 1e-8,
) -> tuple[Floats, Floats]:
    """A and b under ½ Σ_kl ρ_kl A_kl²; with an offset ridge, ½ Σ_kl ρ_kl (A_kl − δ_kl)² + ½ β ‖b‖².

    An infinite ρ_kl holds A_kl at zero, and b sums to zero. Where the likelihood has no maximum, it
    warns and smooths the targets. Where some classes are separated from the rest but not all,
    nothing warns: the fit ends at the solver's tolerance, with parameters that are large but
    finite.
    """
    if offset_ridge is None:
        standard, mean, unit, _ = _standardized(scores, weight)
        center = np.zeros_like(ridge)
    else:
        # Not centered, because b is penalized at u = 0.
        size = np.sqrt(np.average(scores**2, axis=0, weights=weight))
        mean, unit = np.zeros_like(size), np.where(size > 0.0, size, 1.0)
        standard, center = scores / unit, np.diag(unit)
    free = np.isfinite(ridge)
    strengths = np.where(free, ridge, 0.0) / unit**2

    def fitted(target: Floats, entries: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        data = (standard, target, weight)
        family = MultinomialFamily(*data, entries, strengths, offset_ridge or 0.0, center)
        return family.minimize(tol)

    matrix, offsets = _finite(fitted, standard, codes, weight, free, strengths)
    matrix = matrix / unit
    offsets = offsets - matrix @ mean
    return matrix, offsets - offsets.mean()


def _finite(
    fitted: Callable[[Floats, NDArray[np.bool_]], tuple[Floats, Floats]],
    scores: Floats,
    codes: Codes,
    weight: Floats,
    free: NDArray[np.bool_],
    ridge: Floats,
) -> tuple[Floats, Floats]:
    """A and b fitted to the labels, or to smoothed targets where those would make them infinite."""
    K = scores.shape[1]

    def separates(matrix: Floats, offsets: Floats) -> bool:
        z = scores @ matrix.T + offsets
        return bool(Multinomial(K).margins(z, codes.astype(np.float64)).min() > 0.0)

    labels = indicators(codes, K)
    if not labels.any(axis=0).all():
        reason = f"class {np.argmin(labels.any(axis=0))} has no label"
    else:
        matrix, offsets = fitted(labels, free)
        # A map that gets every label right is likelier the more it is scaled up. A ridge stops
        # that, unless the entries without ridge get every label right by themselves.
        bare = free & (ridge == 0.0)
        if not separates(matrix, offsets) or not (
            np.array_equal(bare, free) or separates(*fitted(labels, bare))
        ):
            return matrix, offsets
        reason = "the scores separate the labels"
    warn_smoothed(reason)
    return fitted(smoothed_targets(codes, weight, K), free)
