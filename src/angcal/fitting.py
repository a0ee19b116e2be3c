r"""From (X, y, loss, penalty) to a fit, and how far a given fit is from its optimum.

The objective, with sample weights ω_i and N = Σ ω_i, is the one of :mod:`angcal.penalties`:

    J(w, b) = (1/N) Σ_i ω_i ℓ_{y_i}(x_iᵀw + b) + g(w) + ½ q₀ b²

A :class:`LinearFit` is a point (ŵ, b̂) together with the problem it is meant to solve. It may come
from :func:`minimize` or be read off a model that was trained elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize

from angcal._typing import Floats, Matrix
from angcal.arrays import product, transposed_product
from angcal.hessian import (
    PenalizedHessian,
    SampledHessian,
    SingularHessianError,
    factorize,
)
from angcal.losses import Loss
from angcal.penalties import NoPenalty, Penalty


class SeparableDataError(ValueError):
    """A hyperplane separates the classes and nothing holds the weights back."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A point (ŵ, b̂) and the penalised problem it solves.

    Attributes
    ----------
    X : (n, d) array or sparse matrix
    labels : (n,) array of 0.0 and 1.0
    weights : (n,) array
        Positive sample weights ω; class weights are folded in.
    coef, intercept : ŵ and b̂
    loss, penalty : the problem
    fit_intercept : bool
    intercept_strength : float
        q₀; zero for a free intercept, positive where a solver penalises it (liblinear).
    iterations : int
        Solver iterations that led to this point; 0 for one that was given.
    hessian_method : {"exact", "randomised", "auto"}
        How the Hessian is inverted; see `angcal.hessian.factorize`.
    """

    X: Matrix
    labels: Floats
    weights: Floats
    coef: Floats
    intercept: float
    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    intercept_strength: float = 0.0
    iterations: int = 0
    hessian_method: str = "exact"

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.X.shape[0], self.X.shape[1]

    @cached_property
    def scores(self) -> Floats:
        """u_i = x_iᵀŵ + b̂."""
        return product(self.X, self.coef) + self.intercept

    @cached_property
    def residuals(self) -> Floats:
        """ψ_i = −ω_i ℓ'(u_i)."""
        return -self.weights * self.loss.gradient(self.scores, self.labels)

    @cached_property
    def curvatures(self) -> Floats:
        """D_i = ω_i ℓ''(u_i)."""
        return self.weights * self.loss.hessian(self.scores, self.labels)

    @property
    def total_weight(self) -> float:
        """N = Σ ω_i."""
        return float(self.weights.sum())

    @cached_property
    def objective(self) -> float:
        """J(ŵ, b̂)."""
        loss = float(self.weights @ self.loss.value(self.scores, self.labels)) / self.total_weight
        penalty = self.penalty.value(self.coef) + self.penalty.l1 * float(np.abs(self.coef).sum())
        return loss + penalty + 0.5 * self.intercept_strength * self.intercept**2

    @cached_property
    def kkt_residual(self) -> tuple[Floats, float]:
        """Smallest-norm subgradient of J at (ŵ, b̂): zero exactly at the optimum."""
        N, l1 = self.total_weight, self.penalty.l1
        gradient = -transposed_product(self.X, self.residuals) / N
        gradient = gradient + self.penalty.gradient(self.coef)
        if l1 > 0:
            pinned = self.coef == 0
            gradient = np.where(
                pinned,
                np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0),
                gradient + l1 * np.sign(self.coef),
            )
        intercept = -self.residuals.sum() / N + self.intercept_strength * self.intercept
        return gradient, float(intercept) if self.fit_intercept else 0.0

    @cached_property
    def hessian(self) -> PenalizedHessian | SampledHessian:
        """X̃ᵀDX̃ + N∇²g, factorised on the smaller side and restricted to the active set."""
        N = self.total_weight
        return factorize(
            self.X,
            self.curvatures,
            N * np.asarray(self.penalty.curvature(self.coef)),
            fit_intercept=self.fit_intercept,
            intercept_curvature=N * self.intercept_strength,
            active=self.penalty.active(self.coef),
            method=self.hessian_method,
        )

    def newton_step(self) -> tuple[Floats, float]:
        """−Ĥ·N·∇J: where the quadratic model of J puts the optimum, relative to here."""
        gradient, intercept = self.kkt_residual
        N = self.total_weight
        step, intercept_step = self.hessian.solve(-N * gradient, -N * intercept)
        return step, intercept_step

    @cached_property
    def distance_to_optimum(self) -> float:
        """rms(x_iᵀδ)/sd(u_i) for the Newton step δ: how far the scores still have to move.

        A share of the scores' own spread, so it reads the same for every loss, scaling and
        penalty. Zero at the optimum.
        """
        # Not the plain Newton step: coordinates that an ℓ₁ part pins wrongly count too.
        step, intercept_step = _admissible_step(self)
        shift = product(self.X, step) + intercept_step
        spread = float(np.std(self.scores))
        rms = float(np.sqrt(np.mean(shift**2)))
        return 0.0 if rms == 0 else rms / max(spread, np.finfo(float).tiny)

    def moved_to(self, coef: Floats, intercept: float, iterations: int = 0) -> LinearFit:
        """The same problem at another point."""
        return replace(self, coef=coef, intercept=float(intercept), iterations=iterations)


def check_separable(fit: LinearFit) -> None:
    """Raise if the fit has no finite optimum: perfect separation and no penalty.

    Whatever the loss, a vanishing penalty with all margins positive means that scaling ŵ up keeps
    lowering (or never raises) the loss, so neither ŵ's length nor its curvature carry information.
    """
    if not isinstance(fit.penalty, NoPenalty) and np.any(fit.penalty.curvature(fit.coef)):
        return
    margins = (2.0 * fit.labels - 1.0) * fit.scores
    if margins.min() > 0 and fit.penalty.l1 == 0 and not _has_target(fit):
        raise SeparableDataError(
            "The classes are linearly separable and the fit has no penalty: its weights have no "
            "finite optimum, so there is no angle to estimate. Add a ridge penalty, for example "
            "LogisticRegression(C=1.0)."
        )


def _has_target(fit: LinearFit) -> bool:
    """Whether the loss pulls every score to a finite target, as the squared loss does."""
    return fit.loss.attains_minimum and bool(np.all(fit.curvatures > 0))


def minimize(start: LinearFit, *, tol: float = 1e-9, max_iter: int = 1000) -> LinearFit:
    """Argmin of J: L-BFGS to get near, then Newton on the active set to finish.

    scipy's L-BFGS-B handles every smooth loss, and an ℓ₁ part by splitting w = w⁺ − w⁻ with
    bounds. A field library (skglm, glum) would ask users to compile their own loss and penalty;
    two plain methods are a smaller price. The Newton finish reuses the factorisation that the
    observables need anyway and brings the KKT residual to rounding.

    Parameters
    ----------
    start : LinearFit
        The problem, and the point to start from.
    tol : float, default=1e-9
        Stop when the KKT residual, of weights and of intercept each relative to the size of its
        gradient at w = 0, is below ``tol``. Relative, so that the unit of X does not matter.
    max_iter : int, default=1000
        L-BFGS iterations.

    Returns
    -------
    LinearFit
        The same problem at the best point found; check ``distance_to_optimum``.
    """
    unit = _gradient_unit(start)
    fit = start
    # A line search may probe scores whose loss overflows; it steps back from infinity by itself.
    with np.errstate(over="ignore", invalid="ignore"):
        if _relative_residual(fit, unit) > tol:
            fit = _lbfgs(start, unit, tol, max_iter)
        return _newton(fit, unit, tol)


@dataclass(frozen=True)
class _GradientUnit:
    """Size of ∂J/∂w and ∂J/∂b at w = 0: what a residual is small against."""

    coef: float
    intercept: float


def _gradient_unit(fit: LinearFit) -> _GradientUnit:
    at_zero = fit.moved_to(np.zeros(len(fit.coef)), 0.0)
    slopes = np.abs(np.asarray(fit.X.T @ at_zero.residuals)) / fit.total_weight
    # Balanced classes have no pull on the intercept at zero; the residuals' own size stands in.
    pull = float(np.abs(at_zero.residuals).sum()) / fit.total_weight
    return _GradientUnit(max(float(slopes.max(initial=0.0)), np.finfo(float).tiny), pull)


def relative_residual(fit: LinearFit) -> float:
    """KKT residual of weights and intercept, each relative to its gradient at w = 0."""
    return _relative_residual(fit, _gradient_unit(fit))


def _relative_residual(fit: LinearFit, unit: _GradientUnit) -> float:
    gradient, intercept = fit.kkt_residual
    return max(
        float(np.abs(gradient).max(initial=0.0)) / unit.coef, abs(intercept) / unit.intercept
    )


def _lbfgs(start: LinearFit, unit: _GradientUnit, tol: float, max_iter: int) -> LinearFit:
    d, l1 = len(start.coef), start.penalty.l1
    # Weights are measured in a unit that gives them the intercept's gradient size.
    stretch = unit.intercept / unit.coef

    def unpack(theta: Floats, iterations: int = 0) -> LinearFit:
        coef = theta[:d] - theta[d : 2 * d] if l1 > 0 else theta[:d]
        intercept = theta[-1] if start.fit_intercept else 0.0
        return start.moved_to(stretch * coef, intercept, iterations)

    def value_and_gradient(theta: Floats) -> tuple[float, Floats]:
        fit = unpack(theta)
        N = fit.total_weight
        smooth = -np.asarray(fit.X.T @ fit.residuals) / N + fit.penalty.gradient(fit.coef)
        parts = [smooth + l1, l1 - smooth] if l1 > 0 else [smooth]
        parts = [stretch * part for part in parts]
        if start.fit_intercept:
            slope = -fit.residuals.sum() / N + fit.intercept_strength * fit.intercept
            parts.append(np.array([slope]))
        value = fit.objective
        if l1 > 0:
            # ‖w⁺‖₁ + ‖w⁻‖₁, which equals ‖w‖₁ only where one of the two is zero.
            value += l1 * (stretch * theta[: 2 * d].sum() - np.abs(fit.coef).sum())
        return value, np.concatenate(parts)

    w = start.coef / stretch
    parts = [np.maximum(w, 0.0), np.maximum(-w, 0.0)] if l1 > 0 else [w]
    lower = [0.0] * (2 * d) if l1 > 0 else [-np.inf] * d
    if start.fit_intercept:
        parts.append(np.array([start.intercept]))
        lower.append(-np.inf)
    result = optimize.minimize(
        value_and_gradient,
        np.concatenate(parts),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(lower) if l1 > 0 else None,
        options={
            "gtol": tol * unit.intercept,
            "ftol": 0.0,
            "maxiter": max_iter,
            "maxcor": 20,
            "maxls": 50,
        },
    )
    return unpack(result.x, int(result.nit))


def _newton(fit: LinearFit, unit: _GradientUnit, tol: float, max_iter: int = 50) -> LinearFit:
    """Damped Newton on the active set; gives up quietly where it no longer improves J."""
    for _ in range(max_iter):
        if _relative_residual(fit, unit) <= tol:
            break
        try:
            step, intercept_step = _admissible_step(fit)
        except SingularHessianError:
            break
        moved = _line_search(fit, unit, step, intercept_step)
        if moved is None:
            break
        fit = moved
    return fit


def _admissible_step(fit: LinearFit) -> tuple[Floats, float]:
    """Newton step; with an ℓ₁ part, coordinates that should leave zero take a gradient step."""
    step, intercept_step = fit.newton_step()
    if fit.penalty.l1 > 0:
        gradient, _ = fit.kkt_residual
        entering = (fit.coef == 0) & (gradient != 0)
        if entering.any():
            X = fit.X[:, entering]
            squares = X.multiply(X) if hasattr(X, "multiply") else X * X
            curvature = np.asarray(squares.T @ fit.curvatures).ravel() / fit.total_weight
            curvature = curvature + np.ravel(fit.penalty.curvature(fit.coef)).max()
            step[entering] = -gradient[entering] / np.maximum(curvature, 1e-12)
    return step, intercept_step


def _line_search(
    fit: LinearFit, unit: _GradientUnit, step: Floats, intercept_step: float
) -> LinearFit | None:
    residual = _relative_residual(fit, unit)
    for halving in range(30):
        share = 0.5**halving
        coef = fit.coef + share * step
        if fit.penalty.l1 > 0:
            # A coordinate that would cross zero stops there: the ℓ₁ kink holds it.
            coef = np.where(fit.coef * coef < 0, 0.0, coef)
        intercept = fit.intercept + share * intercept_step
        candidate = fit.moved_to(coef, intercept, fit.iterations + 1)
        rounding = 1e-14 * max(abs(fit.objective), 1.0)
        lower = candidate.objective < fit.objective - rounding
        level = candidate.objective <= fit.objective + rounding
        if lower or (level and _relative_residual(candidate, unit) < residual):
            return candidate
    return None
