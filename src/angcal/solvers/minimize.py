"""Argmin of J for any loss and penalty with one score: L-BFGS to get near, Newton to finish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from angcal._typing import Floats
from angcal.leverages import SingularHessianError
from angcal.problem import LinearFit


def minimize(start: LinearFit, *, tol: float = 1e-9, max_iter: int = 1000) -> LinearFit:
    """Argmin of J: L-BFGS to get near, then Newton on the active set to finish.

    scipy's L-BFGS-B handles every smooth loss, and an ℓ₁ part by splitting w = w⁺ − w⁻ with
    bounds. A field library (skglm, glum) would ask users to compile their own loss and penalty;
    two plain methods are a smaller price. The Newton finish reuses the factorization that the
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
    slopes = np.abs(fit.pull(at_zero.residuals)[0]) / fit.total_weight
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
        pull, level = fit.pull(fit.residuals)
        smooth = -pull / N + fit.penalty.gradient(fit.coef)
        parts = [smooth + l1, l1 - smooth] if l1 > 0 else [smooth]
        parts = [stretch * part for part in parts]
        if start.fit_intercept:
            slope = float(-level / N + fit.intercept_strength * fit.intercept)
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
            step, intercept_step = fit.newton_step()
        except SingularHessianError:
            break
        moved = _line_search(fit, unit, step, intercept_step)
        if moved is None:
            break
        fit = moved
    return fit


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
