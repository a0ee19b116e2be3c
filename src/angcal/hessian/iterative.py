r"""Ĥ = (X̃ᵀDX̃ + Q)⁻¹ by products with X alone: no matrix of size n × n or d × d.

Every γ_i = h_i/(1 − h_iD_i) is a quadratic form of row i, and rows of one design have much the same
one, up to their size. So a few sampled rows tell all:

    γ_i = ρ·q_i,   q_i = Σ_j x̃_ij²/m_j,   m_j = Σ_i D_i x̃_ij² + Q_j

q_i, the form with the Hessian's diagonal in place of the Hessian, costs one pass over X and follows
rows of unequal length and rare columns. ρ comes from two sources, weighed by their variances:

- sampled rows, spread evenly over the sizes q_i: Ĥx_i by conjugate gradients gives their γ_i
  exactly. The error is the scatter of γ_i/q_i over √(number of rows).
- where n > d, the identity df = dim − Tr(QĤ) with random signs for the trace, which is small under
  a weak penalty. The error is that of the trace.

All right-hand sides share the passes over X. The quadratic form xᵀĤx that conjugate gradients have
reached grows from below by steps that are known; the rest is extrapolated from the last two.
Products run in single precision: what is wanted is good to 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from angcal._typing import Floats, Matrix

# Eight columns at a time: products with so few cost hardly more than with one.
COLUMNS, SIGN_PROBES, MOST_ROWS = 8, 2, 64
# How far γ may be off: by so much over √n it moves the curve by less than half of its error, which
# adds less than a tenth to it.
STEP_TOLERANCE = 0.7
FORM_TOLERANCE, STEP_FORM_TOLERANCE, MOST_STEPS = 2e-3, 0.01, 150
# Rows whose γ_i/q_i scatter by more than this are not told by their size.
LARGEST_SCATTER = 0.3
MOMENT_ROWS = 512
BLOCK_ENTRIES = 4_000_000
SEED = 20_250_915


class NotConvergedError(RuntimeError):
    """Conjugate gradients did not converge, or row sizes do not explain the leverages."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What the probes found.

    Attributes
    ----------
    ratio : float
        ρ.
    relative_error : float
        Standard error of ρ as a share of it.
    scatter : float
        Standard deviation of γ_i/(ρq_i) over the sampled rows.
    rows : (r,) array of int
        The sampled rows.
    row_leverages : (r,) array
        Their h_i.
    coupling : float
        Mean of Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)² over the sampled rows, per unit of γ_i.
    passes : int
        Passes over X.
    """

    ratio: float
    relative_error: float
    scatter: float
    rows: np.ndarray
    row_leverages: Floats
    coupling: float
    passes: int


class IterativeHessian:
    """Ĥ as an operator: ``solve``, ``leverages`` and ``coupling``, by conjugate gradients.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    D : (n,) array
    Q : (d,) array
        Diagonal of N∇²g, positive.
    fit_intercept : bool
    intercept_curvature : float
        N·q₀.
    """

    def __init__(
        self, X: Matrix, D: Floats, Q: Floats, fit_intercept: bool, intercept_curvature: float
    ) -> None:
        self._n, self._d = X.shape
        self._D = D
        # One copy in single precision serves all passes: half the bytes of X, half the time.
        self._X = X.astype(np.float32)
        self._XT = self._X.T
        self._weights = D.astype(np.float32)[:, None]
        self._intercept = fit_intercept
        self._Q = np.append(Q, intercept_curvature) if fit_intercept else np.asarray(Q)
        self._Q32 = self._Q.astype(np.float32)[:, None]
        self.passes = 0

    # -- products ------------------------------------------------------------------------------

    def _forward(self, V: np.ndarray) -> np.ndarray:
        """X̃V."""
        self.passes += 1
        images = np.asarray(self._X @ V[: self._d])
        return images + V[self._d] if self._intercept else images

    def _backward(self, U: np.ndarray) -> np.ndarray:
        """X̃ᵀU."""
        self.passes += 1
        out = np.asarray(self._XT @ U)
        return np.vstack([out, U.sum(axis=0)]) if self._intercept else out

    def _apply(self, V: np.ndarray) -> np.ndarray:
        return self._backward(self._weights * self._forward(V)) + self._Q32 * V

    @cached_property
    def _diagonal(self) -> Floats:
        """m_j, from a sample of rows where X is dense: a preconditioner need not be exact."""
        if sparse.issparse(self._X):
            moments = np.asarray(self._X.multiply(self._X).T @ self._D, dtype=np.float64)
        else:
            rng = np.random.default_rng(SEED)
            rows = rng.permutation(self._n)[:MOMENT_ROWS]
            share = self._D[rows].sum() / max(self._D.sum(), np.finfo(float).tiny)
            moments = (self._X[rows] ** 2).T @ self._D[rows] / max(share, 1e-30)
        if self._intercept:
            moments = np.append(moments, self._D.sum())
        diagonal = moments + self._Q
        return np.where(diagonal > 0, diagonal, 1.0)

    @cached_property
    def sizes(self) -> Floats:
        """q_i = Σ_j x̃_ij²/m_j."""
        inverse = (1.0 / self._diagonal).astype(np.float32)
        slopes = inverse[: self._d]
        self.passes += 1
        if sparse.issparse(self._X):
            q = np.asarray(self._X.multiply(self._X) @ slopes, dtype=np.float64)
        else:
            q = np.empty(self._n)
            step = max(1, BLOCK_ENTRIES // max(self._d, 1))
            for start in range(0, self._n, step):
                block = self._X[start : start + step]
                q[start : start + step] = np.square(block) @ slopes
        return q + (1.0 / self._diagonal[-1] if self._intercept else 0.0)

    # -- what is asked of it -------------------------------------------------------------------

    @cached_property
    def survey(self) -> Survey:
        """Sampled rows and sign probes."""
        return self._run_survey(None)[0]

    def solve(self, coef_part: Floats, intercept_part: float = 0.0) -> tuple[Floats, float]:
        """Ĥ applied to a gradient, roughly; the first call shares its passes with the survey."""
        rhs = np.append(coef_part, intercept_part) if self._intercept else coef_part
        if "survey" in self.__dict__:
            scale = float(np.abs(rhs).max()) or 1.0
            column = (rhs / scale).astype(np.float32)[:, None]
            W, _ = block_conjugate_gradients(
                self._apply, column, self._diagonal, np.array([STEP_FORM_TOLERANCE])
            )
            step = W[:, 0] * scale
        else:
            self.__dict__["survey"], step = self._run_survey(rhs)
        step = step.astype(np.float64)
        return step[: self._d], float(step[-1]) if self._intercept else 0.0

    def leverages(self) -> Floats:
        """h_i = ρq_i/(1 + ρq_iD_i), exact for the sampled rows."""
        steps = self.survey.ratio * self.sizes
        h = steps / (1.0 + steps * self._D)
        h[self.survey.rows] = self.survey.row_leverages
        return h

    def coupling(self) -> Floats:
        """Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)², proportional to γ_i."""
        return self.survey.coupling * self.survey.ratio * self.sizes

    # -- the survey ----------------------------------------------------------------------------

    def _run_survey(self, rhs: Floats | None) -> tuple[Survey, Floats]:
        rng = np.random.default_rng(SEED)
        order = np.argsort(self.sizes, kind="stable")
        start = self.passes
        rows, forms, solutions = np.empty(0, dtype=np.intp), np.empty(0), []
        trace, step = None, np.zeros(len(self._Q))
        while True:
            first = not len(rows)
            spare = (rhs is not None) + (SIGN_PROBES if self._n > self._d else 0)
            fresh = _spread_rows(order, COLUMNS - spare if first else COLUMNS, rng, taken=rows)
            columns = [self._row_columns(fresh)]
            if first and self._n > self._d:
                signs = rng.choice([-1.0, 1.0], (len(self._Q), SIGN_PROBES))
                columns.append((np.sqrt(self._Q)[:, None] * signs).astype(np.float32))
            if first and rhs is not None:
                scale = float(np.abs(rhs).max()) or 1.0
                columns.append((rhs / scale).astype(np.float32)[:, None])
            tolerances = np.full(sum(part.shape[1] for part in columns), FORM_TOLERANCE)
            if first and rhs is not None:
                tolerances[-1] = STEP_FORM_TOLERANCE
            W, reached = block_conjugate_gradients(
                self._apply, np.concatenate(columns, axis=1), self._diagonal, tolerances
            )
            k = len(fresh)
            rows, forms = np.append(rows, fresh), np.append(forms, reached[:k])
            solutions.append(W[:, :k])
            if first and self._n > self._d:
                trace = reached[k : k + SIGN_PROBES]
            if first and rhs is not None:
                step = W[:, -1].astype(np.float64) * scale
            ratio, error, scatter = self._ratio(rows, forms, trace)
            enough = error <= STEP_TOLERANCE / np.sqrt(self._n)
            if enough or len(rows) >= min(MOST_ROWS, self._n // 2):
                break
        if scatter > LARGEST_SCATTER:
            raise NotConvergedError(
                f"leverages are not told by the size of their rows (they scatter by {scatter:.0%})"
            )
        strength = self._coupling_strength(rows, forms, np.concatenate(solutions, axis=1), ratio)
        passes = self.passes - start
        return Survey(ratio, error, scatter, rows, forms, strength, passes), step

    def _row_columns(self, rows: np.ndarray) -> np.ndarray:
        block = self._X[rows]
        block = block.toarray() if sparse.issparse(block) else block
        columns = np.ascontiguousarray(block.T, dtype=np.float32)
        if self._intercept:
            columns = np.vstack([columns, np.ones((1, len(rows)), dtype=np.float32)])
        return columns

    def _ratio(
        self, rows: np.ndarray, forms: Floats, trace: Floats | None
    ) -> tuple[float, float, float]:
        """ρ, its relative standard error, and the scatter of γ_i/(ρq_i)."""
        curvature, q = self._D[rows], self.sizes[rows]
        steps = forms / np.maximum(1.0 - forms * curvature, np.finfo(float).eps)
        by_rows = float(steps.sum() / q.sum())
        residual = steps - by_rows * q
        error = float(residual.std(ddof=1) / np.sqrt(len(rows)) / (by_rows * q.mean()))
        scatter = float(np.std(steps / (by_rows * q), ddof=1))
        if trace is None:
            return by_rows, error, scatter
        by_trace, trace_error = self._ratio_by_trace(trace, by_rows)
        weights = np.array([1.0 / max(e, 1e-5) ** 2 for e in (error, trace_error)])
        weights /= weights.sum()
        ratio = float(weights @ [by_rows, by_trace])
        return ratio, float(np.sqrt(weights**2 @ [error**2, trace_error**2])), scatter

    def _ratio_by_trace(self, trace: Floats, guess: float) -> tuple[float, float]:
        """ρ with Σ ρq_iD_i/(1 + ρq_iD_i) = dim − Tr(QĤ), and its relative error."""
        reach = self.sizes * self._D
        df = float(np.clip(len(self._Q) - trace.mean(), 1e-9, None))
        spread = float(trace.std(ddof=1)) / np.sqrt(len(trace))

        def excess(log_ratio: float) -> float:
            part = np.exp(log_ratio) * reach
            return float(np.sum(part / (1.0 + part))) - df

        low, high = np.log(guess) - 3.0, np.log(guess) + 3.0
        if excess(low) * excess(high) > 0:
            return guess, np.inf
        ratio = float(np.exp(brentq(excess, low, high, xtol=1e-6)))
        part = ratio * reach
        return ratio, spread / float(np.sum(part / (1.0 + part) ** 2))

    def _coupling_strength(
        self, rows: np.ndarray, forms: Floats, solutions: np.ndarray, ratio: float
    ) -> float:
        """Σ_{j≠i} A_ij²/(r_i r_j)² over γ_i, averaged over the sampled rows, r = 1 − hD."""
        part = ratio * self.sizes * self._D
        remaining = 1.0 / (1.0 + part)
        images = (self._forward(solutions) / remaining[:, None]) ** 2
        own = 1.0 - forms * self._D[rows]
        sums = images.sum(axis=0) - images[rows, np.arange(len(rows))]
        return float((sums / own**2).sum() / (forms / own).sum())


def _spread_rows(
    order: np.ndarray, count: int, rng: np.random.Generator, taken: np.ndarray
) -> np.ndarray:
    """Rows at equal steps along the order, from a random start, none of them twice."""
    n = len(order)
    places = ((np.arange(count) + rng.random()) * n / count).astype(np.intp) % n
    return np.setdiff1d(order[places], taken)


def block_conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    diagonal: Floats,
    tolerances: Floats,
) -> tuple[np.ndarray, Floats]:
    """(W, bᵀM⁻¹b) with MW = B for every column b of B, preconditioned by the diagonal.

    Each column has its own step lengths; they only share products with M. The quadratic form grows
    by α_k·rᵀz in step k. The steps shrink geometrically in the end, which gives an estimate of
    what is missing. The iteration ends when that share is below the columns' tolerances: each
    column's for a tolerance of its own, on average for columns that have the same.
    """
    inverse = (1.0 / diagonal).astype(rhs.dtype)[:, None]
    W, r = np.zeros_like(rhs), rhs.copy()
    z = inverse * r
    p, slope = z.copy(), _columns_dot(r, z)
    active = slope > 0
    form, last = np.zeros(rhs.shape[1]), None
    groups = [(tolerance, tolerances == tolerance) for tolerance in np.unique(tolerances)]
    for _ in range(MOST_STEPS):
        Mp = apply(p)
        curvature = _columns_dot(p, Mp)
        alpha = np.divide(slope, curvature, out=np.zeros_like(slope), where=active)
        W += alpha.astype(rhs.dtype) * p
        r -= alpha.astype(rhs.dtype) * Mp
        gain = alpha * slope
        form += gain
        if last is not None:
            shrink = np.clip(np.divide(gain, last, out=np.zeros_like(gain), where=last > 0), 0, 0.9)
            missing = gain * shrink / (1.0 - shrink)
            share = np.divide(missing, form, out=np.zeros_like(form), where=active)
            if all(share[same].mean() < tolerance for tolerance, same in groups):
                return W, form + missing
        z = inverse * r
        following = _columns_dot(r, z)
        beta = np.divide(following, slope, out=np.zeros_like(slope), where=active)
        p = z + beta.astype(rhs.dtype) * p
        slope, last = following, gain
        active = active & (slope > 0)
    raise NotConvergedError(
        f"conjugate gradients are not done after {MOST_STEPS} steps: the penalty is too weak for "
        "products in single precision"
    )


def _columns_dot(a: np.ndarray, b: np.ndarray) -> Floats:
    return np.einsum("ij,ij->j", a, b, dtype=np.float64)
