r"""All penalties at once: Newton's method with conjugate gradients on a block of columns.

    J_c(v, b) = Σ_i ω_i log(1 + exp(−ỹ_i u_i)) + ½ q_c ‖v‖²,   u = Zv + b,   c = 1 … m

Every column has its own Newton steps, its own step lengths and its own end; they only share
products with Z. A product with twenty columns costs hardly more than one with a single column, so
that the path costs a few fits. That is less than one warm start after the other would cost, where
each fit waits for the one before. Steps are solved for in single precision, which is all that a
rough solution needs; gradients and scores are in double.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from angcal._typing import Floats, Matrix
from angcal.path.design import Design

MOST_NEWTON_STEPS, MOST_CG_STEPS, MOST_HALVINGS = 80, 250, 30
# Share of a Newton step's residual that its solution may leave: loose at first, then tighter.
LARGEST_FORCING, SMALLEST_FORCING = 0.3, 0.03
ROUNDING = 1e-13
# Scores that are moved along with steps in single precision are good enough for tolerances so far.
SINGLE_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class PathSolution:
    """Where each column ended.

    Attributes
    ----------
    coef : (k, m) array
    intercepts : (m,) array
    scores : (n, m) array
    converged : (m,) array of bool
    newton_steps, passes : int
        Rounds of Newton's method, and products with Z or its transpose, of any width.
    """

    coef: Floats
    intercepts: Floats
    scores: Floats
    converged: np.ndarray
    newton_steps: int
    passes: int

    def column(self, index: int) -> PathSolution:
        """One penalty's part."""
        return replace(
            self,
            coef=self.coef[:, [index]],
            intercepts=self.intercepts[[index]],
            scores=self.scores[:, [index]],
            converged=self.converged[[index]],
        )


class PathSolver:
    """The problems J_c of one design."""

    def __init__(self, design: Design, strengths: Floats) -> None:
        self._design, self._Z, self._q = design, design.Z, np.asarray(strengths, dtype=np.float64)
        self._y, self._omega = design.labels[:, None], design.weights[:, None]
        self.passes = 0

    def _products(self, Z: Matrix, V: np.ndarray) -> np.ndarray:
        self.passes += 1
        return np.asarray(Z @ V)

    def solve(self, tol: float) -> PathSolution:
        """Minimise every J_c until its next step, by the Hessian's diagonal, is ``tol``·‖v‖."""
        (n, k), m = self._design.shape, len(self._q)
        prevalence = self._design.prevalence
        start = np.log(prevalence / (1.0 - prevalence)) if self._design.fit_intercept else 0.0
        V, b, U = np.zeros((k, m)), np.full(m, start), np.full((n, m), start)
        return self._descend(V, b, U, tol)

    def continued(self, found: PathSolution, tol: float) -> PathSolution:
        """The same from where another solution ended."""
        V, b = found.coef.copy(), found.intercepts.copy()
        return self._descend(V, b, self._products(self._Z, V) + b, tol)

    def distances(self, found: PathSolution) -> Floats:
        """rms(Zδ)/sd(u) for the Newton step δ of each column: how far scores still have to move.

        As `LinearFit.distance_to_optimum`, which rotations do not change; NaN where every weight
        is zero.
        """
        columns = np.arange(len(self._q))
        state = _Columns(self, columns, expit(found.scores), found.coef)
        image = state.newton_step(np.full(len(columns), SMALLEST_FORCING))[2]
        shift = np.sqrt(np.mean(np.square(image), axis=0))
        spread = np.maximum(np.std(found.scores, axis=0), np.finfo(float).tiny)
        return np.where(np.any(found.coef, axis=0), shift / spread, np.nan)

    def _descend(self, V: Floats, b: Floats, U: Floats, tol: float) -> PathSolution:
        m = len(self._q)
        active, steps, converged = np.arange(m), 0, np.zeros(m, dtype=bool)
        first, value = np.full(m, np.inf), self.objective(np.arange(m), U, V)
        for steps in range(MOST_NEWTON_STEPS + 1):
            P = expit(U[:, active])
            state = _Columns(self, active, P, V[:, active])
            first[active] = np.minimum(first[active], state.size)
            done = state.is_small(tol, U[:, active])
            converged[active[done]] = True
            if done.all() or steps == MOST_NEWTON_STEPS:
                break
            state, active = state.only(~done), active[~done]
            forcing = np.sqrt(state.size / np.maximum(first[active], 1e-300)) * LARGEST_FORCING
            step, step_b, image = state.newton_step(np.maximum(forcing, SMALLEST_FORCING))
            share, value[active] = self._search(active, V, U, step, image, value[active])
            V[:, active] += share * step
            b[active] += share * step_b
            if tol < SINGLE_TOLERANCE:
                U[:, active] = self._products(self._Z, V[:, active]) + b[active]
                value[active] = self.objective(active, U[:, active], V[:, active])
            else:
                U[:, active] += share * image
            active = active[share > 0]  # rounding leaves the others nothing to gain
            if not len(active):
                break
        return PathSolution(V, b, U, converged, steps, self.passes)

    def objective(self, columns: np.ndarray, U: Floats, V: Floats) -> Floats:
        """J_c at scores U."""
        softplus = np.log1p(np.exp(-np.abs(U))) + np.maximum(U, 0.0)
        loss = np.sum(self._omega * (softplus - self._y * U), axis=0)
        return loss + 0.5 * self._q[columns] * np.einsum("ij,ij->j", V, V)

    def _search(
        self,
        columns: np.ndarray,
        V: Floats,
        U: Floats,
        step: Floats,
        image: Floats,
        value: Floats,
    ) -> tuple[Floats, Floats]:
        """For each column the largest share 1, ½, ¼ … of the step that does not raise J, and J."""
        V, U = V[:, columns], U[:, columns]
        share, reached = np.ones(len(columns)), value.copy()
        left = np.arange(len(columns))
        for _ in range(MOST_HALVINGS):
            moved = self.objective(
                columns[left],
                U[:, left] + share[left] * image[:, left],
                V[:, left] + share[left] * step[:, left],
            )
            # Near the optimum J changes by less than the rounding of its sum.
            lower = moved <= value[left] + ROUNDING * np.abs(value[left])
            reached[left[lower]] = moved[lower]
            left = left[~lower]
            if not len(left):
                return share, reached
            share[left] *= 0.5
        share[left] = 0.0
        return share, reached

    def gradient(self, residual: Floats) -> Floats:
        """Zᵀr."""
        return self._products(self._Z.T, residual)

    def curve(self, D: np.ndarray, p: np.ndarray, p_b: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Zp + p_b, ZᵀD(Zp + p_b), Σ_i D_i(Zp + p_b)_i) in single precision."""
        single = self._design.single
        image = self._products(single, p) + p_b
        weighted = D * image
        return image, self._products(single.T, weighted), weighted.sum(axis=0)


class _Columns:
    """Gradient and Hessian of some columns at one point."""

    def __init__(self, solver: PathSolver, columns: np.ndarray, P: Floats, V: Floats) -> None:
        design = solver._design
        self._solver, self._free, self._V = solver, design.fit_intercept, V
        self._q = solver._q[columns]
        residual = solver._omega * (P - solver._y)
        self._D = solver._omega * P * (1.0 - P)
        self._gradient = solver.gradient(residual) + self._q * V
        self._total = np.maximum(self._D.sum(axis=0), 1e-300)
        self._gradient_b = residual.sum(axis=0) if self._free else np.zeros(len(columns))
        # Σ D_i z_ij², taken as the same share of Σ ω_i z_ij² in every column.
        share = self._total / design.weights.sum()
        self._scale = 1.0 / (design.moments[:, None] * share + self._q)

    @property
    def size(self) -> Floats:
        """‖M⁻¹∇J‖ with the Hessian's diagonal M: length of the next step, roughly."""
        return np.linalg.norm(self._scale * self._gradient, axis=0)

    def is_small(self, tol: float, U: Floats) -> np.ndarray:
        level = np.abs(self._gradient_b) / self._total
        small = self.size <= tol * np.linalg.norm(self._V, axis=0)
        return small & (level <= tol * np.maximum(np.std(U, axis=0), tol))

    def only(self, kept: np.ndarray) -> _Columns:
        """The same for fewer columns."""
        if kept.all():
            return self
        part = object.__new__(_Columns)
        part._solver, part._free = self._solver, self._free
        for name in ("_V", "_D", "_gradient", "_scale"):
            setattr(part, name, getattr(self, name)[:, kept])
        for name in ("_q", "_total", "_gradient_b"):
            setattr(part, name, getattr(self, name)[kept])
        return part

    def newton_step(self, forcing: Floats) -> tuple[Floats, Floats, Floats]:
        """(δ, δ_b, Zδ + δ_b): conjugate gradients, scaled by the Hessian's diagonal."""
        scale = self._scale.astype(np.float32)
        scale_b = (self._free / self._total).astype(np.float32)
        D, q = self._D.astype(np.float32), self._q.astype(np.float32)
        # Of unit size, so that single precision has room on both sides.
        unit = np.maximum(np.abs(self._gradient).max(axis=0, initial=0.0), np.abs(self._gradient_b))
        unit = np.where(unit > 0, unit, 1.0)
        r = (-self._gradient / unit).astype(np.float32)
        r_b = (-self._gradient_b / unit).astype(np.float32)
        z, z_b = scale * r, scale_b * r_b
        slope = np.einsum("ij,ij->j", r, z) + r_b * z_b
        enough = forcing**2 * slope
        p, p_b = z, z_b
        step, step_b, image = np.zeros_like(r), np.zeros_like(r_b), np.zeros_like(D)
        for _ in range(MOST_CG_STEPS):
            Zp, Mp, Mp_b = self._solver.curve(D, p, p_b)
            Mp += q * p
            bend = np.einsum("ij,ij->j", p, Mp) + p_b * Mp_b
            length = np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0)
            step, step_b, image = step + length * p, step_b + length * p_b, image + length * Zp
            r, r_b = r - length * Mp, r_b - length * Mp_b
            z, z_b = scale * r, scale_b * r_b
            following = np.einsum("ij,ij->j", r, z) + r_b * z_b
            if np.all(following <= enough):
                break
            turn = np.divide(following, slope, out=np.zeros_like(slope), where=slope > 0)
            p, p_b, slope = z + turn * p, z_b + turn * p_b, following
        return unit * step, unit * step_b, unit * image
