r"""Leverages by products with X alone: no matrix of size n × n or d × d.

Every γ_i = h_i/(1 − h_iD_i) is a quadratic form of row i, and rows of one design have much the
same one, up to their size. So a few sampled rows speak for all:

    γ_i = ρ·s_i,   s_i = Σ_j x̃_ij²/(m_j − D_i x̃_ij²),   m_j = Σ_i D_i x̃_ij² + Q_j

s_i, the form with the Hessian's diagonal in place of the Hessian (:meth:`angcal.rows.Rows
.row_sizes`), costs two passes over X and follows rows of unequal length. ρ has two sources, weighed
by their variances:

- sampled rows, spread evenly over the sizes s_i: Ĥx̃_i by conjugate gradients gives their γ_i
  exactly. The error is the scatter of γ_i/s_i over √(number of rows).
- for one problem and n > d, the identity df = dim − Tr(QĤ) with random signs for the trace, which
  is small under a weak penalty. The error is that of the trace.

All right-hand sides share the passes over X, and so do several problems on one design, penalties of
a path or classes of a fit. The same rows are sampled for all of them: their luck of the draw moves
the whole curve of losses and not the place of its minimum. Products run in single precision, where
X is: what is wanted is good to 1e-3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import concatenate, on_host
from angcal.leverages.steps import put_back
from angcal.rows import DenseRows, Rows, SparseRows
from angcal.solvers.conjugate_gradients import (
    FormAccuracy,
    NotConvergedError,
    conjugate_gradients,
)

CLEARLY_BELOW = 0.75
"""Share of the largest eigenvalue that is allowed, below which one random start is enough."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What the probes found, for each of m problems.

    Attributes
    ----------
    ratio : (m,) array
        ρ.
    relative_error : (m,) array
        Standard error of ρ as a share of it.
    scatter : (m,) array
        Standard deviation of γ_i/s_i over the sampled rows, as a share of ρ.
    rows : (r,) array of int
        The sampled rows.
    forms : (r, m) array
        Their leverages.
    coupling : (m,) array
        Mean of Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)² over the sampled rows, per unit of γ_i.
    """

    ratio: Floats
    relative_error: Floats
    scatter: Floats
    rows: np.ndarray
    forms: Floats
    coupling: Floats


class SampledHessian:
    """Ĥ as an operator: ``solve``, ``leverages`` and ``coupling``, by conjugate gradients.

    Parameters
    ----------
    rows : Rows
    D : (n,) or (n, m) array
        Curvatures of one problem, or of m problems.
    Q : (d,) or (d, m) array
        Diagonal of N∇²g, positive.
    intercept_curvature : float
        N·q₀.
    order : (n,) array of int, optional
        Rows by size; by the sizes of the middle problem if not given.
    tolerance : float, optional
        Rows are sampled until the error of ρ is this share over √n; by default that of the plan.
    """

    def __init__(
        self,
        rows: Rows,
        D: Floats,
        Q: Floats,
        intercept_curvature: float = 0.0,
        order: np.ndarray | None = None,
        tolerance: float | None = None,
    ) -> None:
        self._rows = rows.single()
        self._first_pass = self._rows.passes
        self._n, self._d = rows.shape
        self._shape = D.shape
        if D.shape[1:] == (1,):
            D, Q = D.reshape(len(D)), Q.reshape(len(Q))
        self.m = D.shape[1] if D.ndim == 2 else 1
        self._D = D
        if rows.intercept:
            last = np.full((1, *Q.shape[1:]), intercept_curvature)
            Q = np.concatenate([Q, last])
        self._Q = Q
        share = plan.STEP_TOLERANCE if tolerance is None else tolerance
        self._order, self.tolerance = order, share / float(np.sqrt(self._n))
        self._survey: Survey | None = None
        with np.errstate(over="ignore"):  # infinity ends in the exact path
            self._weights = self._rows.place(self._D if self._D.ndim > 1 else self._D[:, None])
            self._strength = self._rows.place(Q if Q.ndim > 1 else Q[:, None])

    @property
    def shape(self) -> tuple[int, int]:
        """That of X."""
        return self._n, self._d

    @property
    def passes(self) -> int:
        """Products with X so far."""
        return self._rows.passes - self._first_pass

    # -- products ----------------------------------------------------------------------------

    def _apply(self, V: Any) -> tuple[Any, None]:
        columns = V.reshape(self._rows.width, -1)
        out = self._rows.curve(columns, self._weights)
        if self.m == 1:
            return (out + self._strength * columns).reshape(V.shape), None
        parts = (len(columns), self.m, -1)
        penalty = self._strength[:, :, None] * columns.reshape(parts)
        return (out.reshape(parts) + penalty).reshape(V.shape), None

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Σ_i D_i x_ij² and max_i x_ij²."""
        moments, peaks = self._rows.column_squares(self._D)
        if not self._rows.has_own_columns:
            moments = np.broadcast_to(moments.mean(axis=0), moments.shape).copy()
        return moments, peaks

    @cached_property
    def _diagonal(self) -> Floats:
        """m_j."""
        moments = self._moments[0]
        if self._rows.intercept:
            moments = np.concatenate([moments, self._D.sum(axis=0, keepdims=True)])
        diagonal = moments + self._Q
        return np.where(diagonal > 0, diagonal, 1.0)

    @cached_property
    def _inverse_diagonal(self) -> Floats:
        """1/m_j, (width, m)."""
        return (1.0 / self._diagonal).reshape(len(self._diagonal), self.m)

    @cached_property
    def sizes(self) -> Floats:
        """s_i, (n,), or (n, m) for m problems."""
        d = self._d
        sizes = self._rows.row_sizes(self._diagonal[:d], self._moments[1], self._D)
        return sizes + (1.0 / self._diagonal[-1] if self._rows.intercept else 0.0)

    @property
    def is_correlated(self) -> bool:
        """Whether columns go together so much that sizes cannot predict the forms of rows.

        Told by the largest eigenvalue of the Hessian with unit diagonal, after four steps of the
        power method; of one problem. Only of dense rows that can be factorized instead.
        """
        dense = isinstance(self._rows, DenseRows) and not isinstance(self._rows, SparseRows)
        if not dense or min(self.shape) > plan.LARGE_SIDE:
            return False
        half = self._rows.place(np.sqrt(self._inverse_diagonal))
        starts = self._rows.place(np.random.default_rng(0).normal(size=(self._rows.width, 2)))
        found = 0.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for column in range(2):
                v = starts[:, column : column + 1]
                for _ in range(4):
                    v = half * self._apply(half * v / np.linalg.norm(v))[0]
                    found = float(np.linalg.norm(v))
                    if not found <= plan.LARGEST_EIGENVALUE:
                        return True  # norms only rise from here
                # Starts differ by a few per cent: what is far from the limit needs no second one.
                if found <= CLEARLY_BELOW * plan.LARGEST_EIGENVALUE:
                    break
        return False

    # -- what is asked of it -----------------------------------------------------------------

    @property
    def is_surveyed(self) -> bool:
        """Whether rows have been sampled."""
        return self._survey is not None

    @property
    def survey(self) -> Survey:
        """Sampled rows and sign probes."""
        if self._survey is None:
            self._survey, _ = self._run_survey(None)
        return self._survey

    @property
    def relative_error(self) -> float:
        """Standard error of ρ as a share of it, the largest over all problems."""
        return float(self.survey.relative_error.max())

    @property
    def remark(self) -> str:
        """Says so where the rows that may be sampled leave more than the tolerance."""
        if not self.is_surveyed or self.relative_error <= self.tolerance:
            return ""
        return f"sampled rows leave the leverages a common error of {self.relative_error:.1%}"

    def solve(self, coef_part: Floats, intercept_part: Any = 0.0) -> tuple[Floats, Any]:
        """Ĥ applied to a gradient, roughly; the first call shares its passes with the survey."""
        rhs = coef_part
        if self._rows.intercept:
            rhs = np.append(rhs, intercept_part)
        if self.is_surveyed:
            scale = float(np.abs(rhs).max()) or 1.0
            column = self._rows.place((rhs / scale)[:, None])
            step = on_host(self._solved(column, np.array([plan.GRADIENT_TOLERANCE])).values) * scale
        else:
            self._survey, step = self._run_survey(rhs)
        step = step.reshape(rhs.shape)
        return step[: self._d], float(step[-1]) if self._rows.intercept else 0.0

    def leverages(self, pulls: Floats | None = None) -> Floats:
        """h_i from γ_i = ρs_i, exact for the sampled rows: of D's shape."""
        found = self.survey
        h = put_back(self._step_sizes(), self._D)
        h[found.rows] = found.forms[:, 0] if h.ndim == 1 else found.forms
        return h.reshape(self._shape)

    def coupling(self) -> Any:
        """Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)², proportional to γ_i."""
        strength = self.survey.coupling
        return (strength[0] if self.m == 1 else strength) * self._step_sizes()

    def _step_sizes(self) -> Floats:
        """γ_i = ρs_i."""
        ratio = self.survey.ratio
        return (ratio[0] if self.m == 1 else ratio) * self.sizes

    # -- the survey --------------------------------------------------------------------------

    def _run_survey(self, rhs: Floats | None) -> tuple[Survey, Floats]:
        # What overflows in single precision ends as NaN, and NaN in the exact path.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._sample(rhs)

    def _sample(self, rhs: Floats | None) -> tuple[Survey, Floats]:
        rng = np.random.default_rng(plan.SEED)
        order = self._sampling_order(rng)
        rows, forms, solutions = np.empty(0, dtype=np.intp), [], []
        scale = 1.0 if rhs is None else float(np.abs(rhs).max()) or 1.0
        most, shape = plan.most_rows(self._n), (self._n, self._d)
        while True:
            first = not len(rows)
            count = plan.rows_at_first(*shape, self.m) if first else plan.rows_at_once(*shape)
            fresh = _spread_rows(order, count, rng, taken=rows)
            if not len(fresh):
                break  # every row that can be sampled has been
            # The row that reaches farthest is no sample: it only shows whether sizes tell.
            farthest = [self._farthest] if first else []
            extra = self._extra_columns(rng, rhs, scale) if first else []
            solved = np.append(fresh, farthest).astype(np.intp)
            W, reached, others = self._solve_rows(solved, extra, first and rhs is not None)
            k = len(fresh)
            rows = np.append(rows, fresh)
            forms.append(reached[:k])
            solutions.append(W[:, :, :k])
            if first:
                far, trace = reached[k:], self._trace(*others)
                step = np.zeros(0) if rhs is None else on_host(others[0][:, -1]) * scale
            ratio, error, scatter = self._ratio(rows, np.concatenate(forms), trace)
            if first:
                # Twice what is allowed: more rows would only confirm it.
                self._require_predicted(0.5 * scatter, far, ratio)
            if error.max() <= self.tolerance or len(rows) >= most:
                break
        self._require_predicted(scatter, far, ratio)
        joined = np.concatenate(forms)
        coupling = self._coupling_strength(rows, joined, solutions, ratio)
        return Survey(ratio, error, scatter, rows, joined, coupling), step

    @property
    def _farthest(self) -> int:
        return int(np.argmax(self._middle_sizes))

    @property
    def _middle_sizes(self) -> Floats:
        return self.sizes if self.sizes.ndim == 1 else self.sizes[:, self.m // 2]

    def _sampling_order(self, rng: np.random.Generator) -> np.ndarray:
        """Rows that may be sampled, from the smallest to the largest."""
        candidates = rng.permutation(self._n)[: plan.SAMPLED_FROM]
        if self._order is not None:
            return self._order
        sizes = self._middle_sizes
        # A row without entries has no form to speak of.
        candidates = candidates[sizes[candidates] > 0]
        if len(candidates) < 4:
            raise NotConvergedError("hardly any row has an entry")
        # In per cent, so that rounding, on whatever device, hardly ever chooses other rows.
        per_cent = np.round(100.0 * np.log(sizes[candidates]))
        return candidates[np.argsort(per_cent, kind="stable")]

    def _solve_rows(
        self, index: np.ndarray, extra: list[Any], has_gradient: bool
    ) -> tuple[Any, Floats, tuple[Any, Floats]]:
        """(Ĥx̃_i, their forms, solutions and forms of the extra columns).

        Solutions have the shape (width, m, rows), forms (rows, m).
        """
        lines = self._rows.lines(index)
        r = len(index)
        right = concatenate([lines.T] * self.m, self._rows.xp, axis=1)
        tolerances = np.repeat(
            plan.FORM_TOLERANCE * (1.0 + 1e-6 * np.arange(self.m)), right.shape[1] // self.m
        )
        tolerances = np.append(
            tolerances, np.full(sum(part.shape[1] for part in extra), plan.FORM_TOLERANCE)
        )
        if has_gradient:
            tolerances[-1] = plan.GRADIENT_TOLERANCE
        block = concatenate([right, *extra], self._rows.xp, axis=1) if extra else right
        found = self._solved(block, tolerances)
        own = right.shape[1]
        others = found.values[:, own:], found.forms[own:]
        W = found.values[:, :own].reshape(-1, self.m, r)
        return W, found.forms[:own].reshape(self.m, r).T, others

    def _solved(self, block: Any, tolerances: Floats) -> Any:
        scaling = self._inverse_diagonal
        if self.m > 1:
            scaling = np.repeat(scaling, block.shape[1] // self.m, axis=1)
        found = conjugate_gradients(
            self._apply, block, self._rows.place(scaling), FormAccuracy(tolerances), most_steps=150
        )
        if not found.converged:
            raise NotConvergedError(
                f"conjugate gradients are not done after {found.steps} steps: the penalty is too "
                "weak for products in single precision"
            )
        return found

    def _require_predicted(self, scatter: Floats, far: Floats, ratio: Floats) -> None:
        """Raise unless the rows' sizes explain their forms; NaN explains nothing."""
        if not np.all(scatter <= plan.LARGEST_SCATTER):
            raise NotConvergedError(
                "row sizes do not predict the leverages, so sampling is unreliable (they scatter "
                f"by {scatter.max():.0%})"
            )
        for c in range(self.m):
            D = self._D if self._D.ndim == 1 else self._D[:, c]
            sizes = self.sizes if self.sizes.ndim == 1 else self.sizes[:, c]
            form, place = float(far[0, c]), self._farthest
            step = form / max(1.0 - form * D[place], np.finfo(float).eps)
            off = abs(step / (ratio[c] * sizes[place]) - 1.0)
            # The row of the largest size may be off by four times that scatter.
            if not off <= 4.0 * plan.LARGEST_SCATTER:
                raise NotConvergedError(
                    f"the row of the largest size has a leverage that is off by {off:.0%}"
                )

    @property
    def _takes_trace(self) -> bool:
        return self.m == 1 and self._n > self._d

    def _trace(self, W: Any, forms: Floats) -> tuple[float, float] | None:
        """Tr(QĤ) by sign probes z, and its standard error.

        With A = Q^½ĤQ^½, Var zᵀAz = 2(‖A‖² − Σ A_jj²) ≤ 2(‖Az‖² − (zᵀAz)²/dim) in expectation, as
        E‖Az‖² = ‖A‖² and Σ A_jj² ≥ (Σ A_jj)²/dim: one probe tells its own error.
        """
        if not self._takes_trace:
            return None
        images = W[:, : plan.SIGN_PROBES]
        lengths = on_host(self._rows.xp.sum(self._strength * images * images, axis=0))
        forms = forms[: plan.SIGN_PROBES]
        variance = 2.0 * np.maximum(lengths - forms**2 / len(self._Q), 0.0)
        sampling = np.sqrt(variance.mean() / plan.SIGN_PROBES)
        # About 2e-3 is left of a form's error after its rest was extrapolated.
        return float(forms.mean()), float(np.hypot(sampling, 2e-3 * forms.mean()))

    def _extra_columns(
        self, rng: np.random.Generator, rhs: Floats | None, scale: float
    ) -> list[Any]:
        """Sign probes of Tr(QĤ), and the gradient where there is one."""
        columns = []
        if self._takes_trace:
            signs = rng.choice([-1.0, 1.0], (len(self._Q), plan.SIGN_PROBES))
            columns.append(self._rows.place(np.sqrt(self._Q)[:, None] * signs))
        if rhs is not None:
            columns.append(self._rows.place((rhs / scale).reshape(-1, 1)))
        return columns

    def _ratio(
        self, rows: np.ndarray, forms: Floats, trace: tuple[float, float] | None
    ) -> tuple[Floats, Floats, Floats]:
        """ρ, its relative standard error, and the scatter of γ_i/s_i, for each problem."""
        r = len(rows)
        curvature = self._D[rows].reshape(r, self.m)
        steps = forms / np.maximum(1.0 - forms * curvature, np.finfo(float).eps)
        s = self.sizes[rows].reshape(r, self.m)
        by_rows = steps.sum(axis=0) / s.sum(axis=0)
        # The variance of so few is itself uncertain: Student's law is that much wider.
        student = np.sqrt((r - 1) / max(r - 3, 1))
        off = (steps - by_rows * s).std(axis=0, ddof=1)
        error = student * off / np.sqrt(r) / (by_rows * s.mean(axis=0))
        scatter = (steps / s).std(axis=0, ddof=1) / by_rows
        if trace is None:
            return by_rows, error, scatter
        return self._weighed(by_rows, error, scatter, trace)

    def _weighed(
        self, by_rows: Floats, error: Floats, scatter: Floats, trace: tuple[float, float]
    ) -> tuple[Floats, Floats, Floats]:
        """The ratio by rows and by the trace, weighed by their variances."""
        by_trace, trace_error = self._ratio_by_trace(*trace, float(by_rows[0]))
        if not np.isfinite(trace_error):
            return by_rows, error, scatter
        trace_error = float(np.hypot(trace_error, self._concavity(by_trace) * scatter[0] ** 2))
        errors = np.array([error[0], trace_error])
        weights = 1.0 / np.maximum(errors, 1e-5) ** 2
        weights /= weights.sum()
        ratio = float(weights @ [by_rows[0], by_trace])
        return np.array([ratio]), np.sqrt(np.array([weights**2 @ errors**2])), scatter

    def _ratio_by_trace(self, trace: float, spread: float, guess: float) -> tuple[float, float]:
        """ρ with Σ ρs_iD_i/(1 + ρs_iD_i) = dim − Tr(QĤ), and its relative error."""
        reach = self.sizes * self._D
        df = max(len(self._Q) - trace, 1e-9)
        log_ratio = np.log(guess)
        for _ in range(20):
            part = np.exp(log_ratio) * reach
            share = part / (1.0 + part)
            slope = float(share @ (1.0 - share))
            step = (float(share.sum()) - df) / max(slope, np.finfo(float).tiny)
            log_ratio -= float(np.clip(step, -1.0, 1.0))
            if abs(log_ratio - np.log(guess)) > 3.0:
                break  # a factor of twenty
            if abs(step) < 1e-6:
                return float(np.exp(log_ratio)), spread / slope
        return guess, np.inf

    def _concavity(self, ratio: float) -> float:
        """By how much of its square the rows' scatter about ρs_i moves the ρ that a trace implies.

        df = Σ t_i with t = x/(1 + x), x = ρs_iD_i(1 + ε_i): E df falls by ½·Var ε·Σ 2t²(1 − t), and
        ∂df/∂log ρ = Σ t(1 − t). Next to nothing where rows are many and their leverages small.
        """
        part = ratio * self.sizes * self._D
        share = part / (1.0 + part)
        free = share * (1.0 - share)
        return float(free @ share) / max(float(free.sum()), np.finfo(float).tiny)

    def _coupling_strength(
        self, rows: np.ndarray, forms: Floats, solutions: list[Any], ratio: Floats
    ) -> Floats:
        """Σ_{j≠i} A_ij²/(r_i r_j)² over γ_i, averaged over the sampled rows, r = 1 − hD."""
        xp, n = self._rows.xp, self._n
        W = concatenate(solutions, xp, axis=2)
        D = self._D.reshape(n, self.m)
        undone = 1.0 + ratio * self.sizes.reshape(n, self.m) * D  # 1/r
        images = self._rows.forward(W.reshape(W.shape[0], -1)).reshape(n, self.m, -1)
        squares = (images * self._rows.place(undone)[:, :, None]) ** 2
        own = 1.0 - forms * D[rows]
        # Row i's own term is h_i/r_i, whose h_i conjugate gradients have given.
        sums = on_host(xp.sum(squares, axis=0)).T - (forms * undone[rows]) ** 2
        return (np.maximum(sums, 0.0) / own**2).sum(axis=0) / (forms / own).sum(axis=0)


def _spread_rows(
    order: np.ndarray, count: int, rng: np.random.Generator, taken: np.ndarray
) -> np.ndarray:
    """Rows at equal steps along the order, from a random start, none of them twice."""
    n = len(order)
    places = ((np.arange(count) + rng.random()) * n / count).astype(np.intp) % n
    return np.setdiff1d(order[places], taken)
