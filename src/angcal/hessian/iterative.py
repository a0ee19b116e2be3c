r"""Ĥ = (X̃ᵀDX̃ + Q)⁻¹ by products with X alone: no matrix of size n × n or d × d.

Every γ_i = h_i/(1 − h_iD_i) is a quadratic form of row i, and rows of one design have much the same
one, up to their size. So a few sampled rows tell all:

    γ_i = ρ·q_i,   q_i = Σ_j x̃_ij²/(m_j − D_i x̃_ij²),   m_j = Σ_i D_i x̃_ij² + Q_j

q_i, the form with the Hessian's diagonal in place of the Hessian (:mod:`angcal.hessian.row_sizes`),
costs two passes over X and follows rows of unequal length. ρ has two sources, weighed by their
variances:

- sampled rows, spread evenly over the sizes q_i: Ĥx_i by conjugate gradients gives their γ_i
  exactly. The error is the scatter of γ_i/q_i over √(number of rows).
- where n > d, the identity df = dim − Tr(QĤ) with random signs for the trace, which is small under
  a weak penalty. The error is that of the trace.

All right-hand sides share the passes over X. The quadratic form xᵀĤx that conjugate gradients have
reached grows from below by steps that are known; the rest is extrapolated from the last two.
Products run in single precision: what is wanted is good to 1e-3. They run where X is: X may be a
tensor of an array library that follows the array API, on any device; what leaves the device are
vectors of length n and d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from angcal._typing import Floats, Matrix
from angcal.arrays import concatenate, namespace_of, on_host, placed_like
from angcal.hessian.block_cg import NotConvergedError, block_conjugate_gradients
from angcal.hessian.row_sizes import column_squares, row_sizes

# Columns at a time: products with so few cost hardly more than with one, and a large X, which comes
# from memory, is read for some more at the same price.
COLUMNS, MANY_COLUMNS, LARGE, SIGN_PROBES, MOST_ROWS = 12, 16, 1_000_000, 2, 64
# How far γ may be off: by so much over √n it moves the curve by less than half of its error, which
# makes the answer worse by less than a tenth of a standard error.
STEP_TOLERANCE = 0.6
FORM_TOLERANCE, STEP_FORM_TOLERANCE = 7e-3, 5e-3
# What is left of a form's error after its rest was extrapolated, about.
UNFINISHED = 2e-3
# Rows whose γ_i/q_i scatter by more than this are not told by their size.
LARGEST_SCATTER = 0.15
FEWEST_ROWS, CANDIDATES = 4, 4096
# How many times that scatter the row of the largest size may be off.
FARTHEST_SCATTERS = 4.0
# Newton steps towards the ratio that a trace implies, and how far on a log scale it is looked for.
MOST_ROOT_STEPS, ROOT_TOLERANCE, FARTHEST_RATIO = 20, 1e-6, 3.0
WIDE = 32_768
SEED = 20_250_915


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
        self._xp = namespace_of(X)
        # One copy in single precision serves all passes: half the bytes of X, half the time. X that
        # is in single precision already, or on a device, is taken as it is.
        with np.errstate(over="ignore"):
            self._X = X.astype(np.float32, copy=False) if self._xp is np else X
        self._XT = self._X.T
        # Which of two equal products is faster on a GPU was measured: the transposed one, except
        # Xᵀ of a wide X.
        self._on_device = self._xp is not np
        self._narrow = self._d < WIDE
        self._intercept = fit_intercept
        self._Q = np.append(Q, intercept_curvature) if fit_intercept else np.asarray(Q)
        self._weights = self._placed(D)[:, None]
        self._strength = self._placed(self._Q)[:, None]
        self.passes = 0

    def _placed(self, values: Any) -> Any:
        """The values as an array of X's library, type and device."""
        return placed_like(values, self._X)

    # -- products ------------------------------------------------------------------------------

    def _forward(self, V: Any) -> Any:
        """X̃V."""
        self.passes += 1
        slopes = V[: self._d, :]
        images = (slopes.T @ self._XT).T if self._on_device else self._X @ slopes
        return images + V[self._d :, :] if self._intercept else images

    def _backward(self, U: Any) -> Any:
        """X̃ᵀU."""
        self.passes += 1
        transposed = self._on_device and self._narrow
        out = (U.T @ self._X).T if transposed else self._XT @ U
        if not self._intercept:
            return out
        return concatenate([out, self._xp.sum(U, axis=0)[None, :]], self._xp)

    def _apply(self, V: Any) -> Any:
        return self._backward(self._weights * self._forward(V)) + self._strength * V

    @cached_property
    def _column_squares(self) -> tuple[Floats, Floats]:
        self.passes += 1
        return column_squares(self._X, self._D)

    @cached_property
    def _diagonal(self) -> Floats:
        """m_j."""
        moments, _ = self._column_squares
        if self._intercept:
            moments = np.append(moments, self._D.sum())
        diagonal = moments + self._Q
        return np.where(diagonal > 0, diagonal, 1.0)

    def _rows(self, rows: np.ndarray) -> Any:
        """Dense rows of X."""
        if self._xp is np:
            block = self._X[rows]
            return block.toarray() if sparse.issparse(block) else block
        return self._X[self._xp.asarray(rows, device=self._X.device), :]

    @cached_property
    def sizes(self) -> Floats:
        """q_i = Σ_j x̃_ij²/(m_j − D_i x̃_ij²)."""
        self.passes += 1
        q = row_sizes(self._X, self._diagonal[: self._d], self._column_squares[1], self._D)
        return q + (1.0 / self._diagonal[-1] if self._intercept else 0.0)

    @property
    def shape(self) -> tuple[int, int]:
        """That of X."""
        return self._n, self._d

    @property
    def tolerance(self) -> float:
        """The error of ρ, as a share of it, that rows are sampled for."""
        return STEP_TOLERANCE / float(np.sqrt(self._n))

    @property
    def is_surveyed(self) -> bool:
        """Whether rows have been sampled."""
        return "survey" in self.__dict__

    # -- what is asked of it -------------------------------------------------------------------

    @cached_property
    def survey(self) -> Survey:
        """Sampled rows and sign probes."""
        return self._run_survey(None)[0]

    def solve(self, coef_part: Floats, intercept_part: float = 0.0) -> tuple[Floats, float]:
        """Ĥ applied to a gradient, roughly; the first call shares its passes with the survey."""
        rhs = np.append(coef_part, intercept_part) if self._intercept else coef_part
        if self.is_surveyed:
            scale = float(np.abs(rhs).max()) or 1.0
            column = self._placed(rhs / scale)[:, None]
            W, _ = block_conjugate_gradients(
                self._apply, column, self._inverse_diagonal, np.array([STEP_FORM_TOLERANCE])
            )
            step = on_host(W[:, 0]) * scale
        else:
            self.__dict__["survey"], step = self._run_survey(rhs)
        return step[: self._d], float(step[-1]) if self._intercept else 0.0

    @cached_property
    def _inverse_diagonal(self) -> Any:
        return self._placed(1.0 / self._diagonal)[:, None]

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
        # What overflows in single precision ends as NaN, and NaN in the exact path.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._sample(rhs)

    def _sample(self, rhs: Floats | None) -> tuple[Survey, Floats]:
        rng, start = np.random.default_rng(SEED), self.passes
        candidates = rng.permutation(self._n)[:CANDIDATES]
        # A row without entries has no form to be told.
        candidates = candidates[self.sizes[candidates] > 0]
        if len(candidates) < FEWEST_ROWS:
            raise NotConvergedError("hardly any row has an entry")
        # In per cent, so that rounding, on whatever device, does not choose other rows.
        per_cent = np.round(100.0 * np.log(self.sizes[candidates]))
        order = candidates[np.argsort(per_cent, kind="stable")]
        rows, forms, solutions = np.empty(0, dtype=np.intp), np.empty(0), []
        scale = 1.0 if rhs is None else float(np.abs(rhs).max()) or 1.0
        while True:
            first = not len(rows)
            many = MANY_COLUMNS if self._n * self._d > LARGE else COLUMNS
            # A place is kept for a gradient, so that the rows do not depend on there being one.
            spare = 2 + (SIGN_PROBES if self._n > self._d else 0)
            fresh = _spread_rows(order, many - spare if first else many, rng, taken=rows)
            if not len(fresh):
                continue
            # The row that reaches farthest is no sample: it only shows whether sizes tell.
            farthest = [int(np.argmax(self.sizes))] if first else []
            extra = self._extra_columns(rng, rhs, scale) if first else []
            columns = [self._row_columns(np.append(fresh, farthest).astype(np.intp)), *extra]
            W, reached = self._solve_columns(columns, exact_last=first and rhs is not None)
            k = len(fresh)
            rows, forms = np.append(rows, fresh), np.append(forms, reached[:k])
            solutions.append(W[:, :k])
            if first:
                far = float(reached[k])
                trace = self._trace(W[:, k + 1 :], reached[k + 1 :])
                step = np.zeros(len(self._Q)) if rhs is None else on_host(W[:, -1]) * scale
            ratio, error, scatter = self._ratio(rows, forms, trace)
            # More rows heal no NaN, and there are no more than the candidates.
            most = min(MOST_ROWS, self._n // 2, len(order))
            if error <= self.tolerance or len(rows) >= most or not np.isfinite(error):
                break
        self._require_told(scatter, far, int(np.argmax(self.sizes)), ratio)
        found = concatenate(solutions, self._xp, axis=1)
        strength = self._coupling_strength(rows, forms, found, ratio)
        passes = self.passes - start
        return Survey(ratio, error, scatter, rows, forms, strength, passes), step

    def _solve_columns(self, columns: list[Any], exact_last: bool) -> tuple[Any, Floats]:
        tolerances = np.full(sum(part.shape[1] for part in columns), FORM_TOLERANCE)
        if exact_last:
            tolerances[-1] = STEP_FORM_TOLERANCE
        block = concatenate(columns, self._xp, axis=1)
        return block_conjugate_gradients(self._apply, block, self._inverse_diagonal, tolerances)

    def _require_told(self, scatter: float, far: float, farthest: int, ratio: float) -> None:
        """Raise unless the rows' sizes explain their forms; NaN explains nothing."""
        if not scatter <= LARGEST_SCATTER:
            raise NotConvergedError(
                f"leverages are not told by the size of their rows (they scatter by {scatter:.0%})"
            )
        step = far / max(1.0 - far * self._D[farthest], np.finfo(float).eps)
        off = abs(step / (ratio * self.sizes[farthest]) - 1.0)
        if not off <= FARTHEST_SCATTERS * LARGEST_SCATTER:
            raise NotConvergedError(
                f"the row of the largest size has a leverage that is off by {off:.0%}"
            )

    def _trace(self, W: Any, forms: Floats) -> tuple[float, float] | None:
        """Tr(QĤ) by sign probes z, and its standard error.

        With A = Q^½ĤQ^½, Var zᵀAz = 2(‖A‖² − Σ A_jj²) ≤ 2(‖Az‖² − (zᵀAz)²/dim) in expectation, as
        E‖Az‖² = ‖A‖² and Σ A_jj² ≥ (Σ A_jj)²/dim: one probe tells its own error.
        """
        if self._n <= self._d:
            return None
        images = W[:, :SIGN_PROBES]
        lengths = on_host(self._xp.sum(self._strength * images * images, axis=0))
        forms = forms[:SIGN_PROBES]
        variance = 2.0 * np.maximum(lengths - forms**2 / len(self._Q), 0.0)
        sampling = np.sqrt(variance.mean() / SIGN_PROBES)
        return float(forms.mean()), float(np.hypot(sampling, UNFINISHED * forms.mean()))

    def _extra_columns(
        self, rng: np.random.Generator, rhs: Floats | None, scale: float
    ) -> list[Any]:
        """Sign probes of Tr(QĤ) where n > d, and the gradient where there is one."""
        columns = []
        if self._n > self._d:
            signs = rng.choice([-1.0, 1.0], (len(self._Q), SIGN_PROBES))
            columns.append(self._placed(np.sqrt(self._Q)[:, None] * signs))
        if rhs is not None:
            columns.append(self._placed(rhs / scale)[:, None])
        return columns

    def _row_columns(self, rows: np.ndarray) -> Any:
        columns = self._rows(rows).T
        if self._intercept:
            columns = concatenate([columns, self._placed(np.ones((1, len(rows))))], self._xp)
        return columns

    def _ratio(
        self, rows: np.ndarray, forms: Floats, trace: tuple[float, float] | None
    ) -> tuple[float, float, float]:
        """ρ, its relative standard error, and the scatter of γ_i/(ρq_i)."""
        curvature, q = self._D[rows], self.sizes[rows]
        steps = forms / np.maximum(1.0 - forms * curvature, np.finfo(float).eps)
        by_rows = float(steps.sum() / q.sum())
        residual = steps - by_rows * q
        # The variance of so few is itself uncertain: Student's law is that much wider.
        student = np.sqrt((len(rows) - 1) / max(len(rows) - 3, 1))
        error = float(student * residual.std(ddof=1) / np.sqrt(len(rows)) / (by_rows * q.mean()))
        scatter = float(np.std(steps / (by_rows * q), ddof=1))
        if trace is None:
            return by_rows, error, scatter
        by_trace, trace_error = self._ratio_by_trace(*trace, by_rows)
        if not np.isfinite(trace_error):
            return by_rows, error, scatter
        trace_error = float(np.hypot(trace_error, self._concavity(by_trace) * scatter**2))
        weights = np.array([1.0 / max(e, 1e-5) ** 2 for e in (error, trace_error)])
        weights /= weights.sum()
        ratio = float(weights @ [by_rows, by_trace])
        return ratio, float(np.sqrt(weights**2 @ [error**2, trace_error**2])), scatter

    def _ratio_by_trace(self, trace: float, spread: float, guess: float) -> tuple[float, float]:
        """ρ with Σ ρq_iD_i/(1 + ρq_iD_i) = dim − Tr(QĤ), and its relative error."""
        reach = self.sizes * self._D
        df = max(len(self._Q) - trace, 1e-9)
        log_ratio = np.log(guess)
        for _ in range(MOST_ROOT_STEPS):
            part = np.exp(log_ratio) * reach
            share = part / (1.0 + part)
            slope = float(share @ (1.0 - share))
            step = (float(share.sum()) - df) / max(slope, np.finfo(float).tiny)
            log_ratio -= float(np.clip(step, -1.0, 1.0))
            if abs(log_ratio - np.log(guess)) > FARTHEST_RATIO:
                break
            if abs(step) < ROOT_TOLERANCE:
                return float(np.exp(log_ratio)), spread / slope
        return guess, np.inf

    def _concavity(self, ratio: float) -> float:
        """By how much of its square the rows' scatter about ρq_i moves the ρ that a trace implies.

        df = Σ s_i with s = x/(1 + x), x = ρq_iD_i(1 + ε_i): E df falls by ½·Var ε·Σ 2s²(1 − s), and
        ∂df/∂log ρ = Σ s(1 − s). Next to nothing where rows are many and their leverages small.
        """
        part = ratio * self.sizes * self._D
        share = part / (1.0 + part)
        free = share * (1.0 - share)
        return float(free @ share) / max(float(free.sum()), np.finfo(float).tiny)

    def _coupling_strength(
        self, rows: np.ndarray, forms: Floats, solutions: np.ndarray, ratio: float
    ) -> float:
        """Σ_{j≠i} A_ij²/(r_i r_j)² over γ_i, averaged over the sampled rows, r = 1 − hD."""
        undone = 1.0 + ratio * self.sizes * self._D  # 1/r
        images = (self._forward(solutions) * self._placed(undone)[:, None]) ** 2
        own = 1.0 - forms * self._D[rows]
        # Row i's own term is h_i/r_i, whose h_i conjugate gradients have given.
        sums = on_host(self._xp.sum(images, axis=0)) - (forms * undone[rows]) ** 2
        return float((np.maximum(sums, 0.0) / own**2).sum() / (forms / own).sum())


def _spread_rows(
    order: np.ndarray, count: int, rng: np.random.Generator, taken: np.ndarray
) -> np.ndarray:
    """Rows at equal steps along the order, from a random start, none of them twice."""
    n = len(order)
    places = ((np.arange(count) + rng.random()) * n / count).astype(np.intp) % n
    return np.setdiff1d(order[places], taken)
