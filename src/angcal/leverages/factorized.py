r"""Ĥ = (X̃ᵀDX̃ + N∇²g)⁻¹ from one factorization, on the smaller side of X̃.

Everything that needs Ĥ exactly (the Newton step, the leverages h_i = x̃_iᵀĤx̃_i and hence every
trace) asks this module.

*Primal*: the Cholesky factor of the matrix itself, of side d + 1.

*Dual*, for d > n. Split the columns of X̃ into penalized ones P, with N∇²g = Q > 0
there, and free ones U (the intercept, and whatever the penalty leaves alone). With S = D^½,
K = P Q⁻¹ Pᵀ and B = I + S K S,

    A   = (K⁻¹ + D)⁻¹ = K S B⁻¹ S⁻¹          smoother of the penalized columns
    G   = (SU)ᵀ B⁻¹ (SU)                      Schur complement of the free ones
    R   = U − K S B⁻¹ S U
    X̃ĤX̃ᵀ = A + R G⁻¹ Rᵀ

and D_i A_ii = 1 − (B⁻¹)_ii: only the diagonal of an inverse is needed, never a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import slices
from angcal.leverages.cholesky import (
    TOO_LARGE,
    SingularHessianError,
    cholesky,
    penalized_cholesky,
    sum_of_squares,
)
from angcal.leverages.groups import WholeBlocks
from angcal.leverages.steps import remaining_curvature
from angcal.rows import Rows, as_rows
from angcal.rows.memory import outer_of_sparse


def weighted_gram(X: Matrix, weights: Floats, dtype: Any = np.float64) -> Floats:
    """Xᵀ diag(weights) X as a dense d × d matrix, one row block at a time; weights may be negative.

    Positive weights take half the time: YᵀY with Y = √ω·X is recognized as symmetric.
    """
    if sparse.issparse(X):
        product = X.T @ sparse.diags_array(weights) @ X
        return np.asarray(product.toarray(), dtype=dtype)
    rows = as_rows(X, False)
    if weights.min(initial=0.0) < 0:
        return rows.sum(lambda block, part: (block * part[:, None]).T @ block, (), (weights,))
    half = np.sqrt(weights).astype(dtype)[:, None]
    scaled = (half[part] * block for part, block in rows.dense_blocks(dtype))
    return sum_of_squares(scaled, X.shape[1], dtype)


def outer_gram(X: Matrix, column_scale: Floats, dtype: Any = np.float64) -> Floats:
    """X diag(column_scale) Xᵀ, scales positive, as a dense n × n matrix, in blocks of columns."""
    n, d = X.shape
    root = np.sqrt(column_scale).astype(dtype)
    if sparse.issparse(X):
        return outer_of_sparse(sparse.csr_array(X @ sparse.diags_array(root), dtype=dtype))
    parts = ((X[:, part] * root[part]).T for part in slices(d, plan.BLOCK_ENTRIES, n))
    return sum_of_squares(parts, n, dtype)


@dataclass(frozen=True, eq=False)
class PenalizedHessian:
    """Ĥ as an operator: ``solve`` and ``leverages``.

    Build it with :func:`angcal.leverages.factorize`; which of the two sides is used is recorded in
    ``side``. The engine is what groups of rows ask (:class:`angcal.leverages.groups.WholeBlocks`).
    """

    side: str
    engine: _Primal | _Dual
    remark: str = ""
    sketches: bool = False

    @property
    def relative_error(self) -> float:
        """Standard error of what all γ have in common, as a share; 0 unless rows were sketched."""
        return self.engine.relative_error

    def solve(self, coef_part: Floats, intercept_part: Any = 0.0) -> tuple[Floats, Any]:
        """Ĥ applied to a gradient: (weights, intercept); inactive coordinates get 0."""
        return self.engine.solve(coef_part, intercept_part)

    def leverages(self, pulls: Floats | None = None) -> Floats:
        """h_i of every row.

        ``pulls``, |ψ_i| in units of the spread of the scores, allow an estimate for rows whose
        scores it moves by next to nothing.
        """
        return self.engine.leverages(pulls if self.sketches else None)

    def smooth(self, V: Floats) -> Floats:
        """X̃ĤX̃ᵀ V for an (n, k) block V, without forming the n × n smoother."""
        return self.engine.smooth(V)

    def coupling(self, leverages: Floats, remaining: Floats) -> Floats:
        """Σ_{j≠i} A_ij²/(r_i r_j)² with A = X̃ĤX̃ᵀ and r = 1 − hD, by random signs.

        E (A z/r)_i² = Σ_j A_ij²/r_j² for random signs z. The sums only ever enter averages over
        rows, where the probes' noise cancels; the seed is fixed so that a fit is a function of its
        data.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(leverages), 32))
        images = self.smooth(signs / remaining[:, None])
        rows = np.mean(images**2, axis=1) - (leverages / remaining) ** 2
        return np.maximum(rows, 0.0) / remaining**2


def factorize_exactly(
    X: Matrix,
    D: Floats,
    Q: Floats,
    fit_intercept: bool,
    intercept_curvature: float,
    columns: np.ndarray,
    d: int,
    single: Callable[[], Rows] | None = None,
    outer: Callable[[Any], Floats] | None = None,
) -> PenalizedHessian:
    """X̃ᵀDX̃ + Q, factorized on its smaller side; ``columns`` are the active ones of d.

    ``single`` gives the rows in single precision, which is followed where the matrix is well enough
    conditioned for it; ``outer`` gives XXᵀ in a precision, where it is kept for many penalties.
    """
    n = X.shape[0]
    common = (X, D, Q, fit_intercept, intercept_curvature, columns, d)
    if isinstance(X, Rows):
        return PenalizedHessian("primal", _Primal(*common))
    fits = plan.fits_single(n, len(columns))
    n_free = fit_intercept + (int(np.sum(Q == 0)) if Q.ndim == 1 else 0)
    # A full penalty matrix is d × d already, so the primal adds no larger object.
    dual_is_smaller = n < len(columns) + fit_intercept and Q.ndim == 1
    if dual_is_smaller and n_free > n:
        raise SingularHessianError(
            f"{n_free} unpenalized coordinates and only {n} rows: the fit is not unique. "
            "Add a ridge penalty."
        )
    side, engine = ("dual", _Dual) if dual_is_smaller else ("primal", _Primal)
    # A sparse Gram matrix is what takes the time of a small one.
    pays = not (dual_is_smaller and sparse.issparse(X) and n <= plan.SMALL_SIDE)
    if single is not None and fits and pays and min(n, len(columns)) >= plan.SMALLEST_SINGLE_SIDE:
        try:
            found = engine(single().in_memory, *common[1:], dtype=np.float32, outer=outer)
            return PenalizedHessian(side, found, "factorized in single precision", True)
        except SingularHessianError:
            pass  # of no concern before double precision says so too
    return PenalizedHessian(side, engine(*common, outer=outer), sketches=single is not None)


def _size_of(gradient: Floats, *more: float) -> float:
    """Largest entry, by which it is divided: single precision may not tell a small one from 0."""
    return float(max(np.abs(gradient).max(initial=0.0), *map(abs, more), 0.0)) or 1.0


def _lengths(lines: Floats) -> Floats:
    """‖x_i‖² of rows."""
    return np.einsum("ij,ij->i", lines, lines).astype(np.float64)


def _outer(lines: Floats) -> Floats:
    """LLᵀ of each of (g, m, k) lines; of one matrix by half of the products."""
    return (lines[0] @ lines[0].T)[None] if len(lines) == 1 else lines @ lines.swapaxes(1, 2)


class _Primal(WholeBlocks):
    """Cholesky of the (d + 1) × (d + 1) matrix itself."""

    relative_error = 0.0

    def __init__(
        self,
        X: Matrix,
        D: Floats,
        Q: Floats,
        fit_intercept: bool,
        intercept_curvature: float,
        columns: np.ndarray,
        d: int,
        dtype: Any = np.float64,
        outer: Callable[[Any], Floats] | None = None,  # of the dual alone
    ) -> None:
        self._D, self._columns, self._d = D, columns, d
        # Small enough for a copy where it is in single precision.
        self._rows = as_rows(
            X.astype(dtype, copy=False) if dtype == np.float32 else X, fit_intercept
        )
        self._fit_intercept = fit_intercept
        M = self._gram(D.astype(dtype))
        self._triangle, self._scale = penalized_cholesky(
            M, Q, self._rows.shape[1], intercept_curvature
        )

    def _gram(self, D: Floats) -> Floats:
        """X̃ᵀ diag(D) X̃."""
        rows, dtype = self._rows, D.dtype
        k, X = rows.shape[1], rows.in_memory
        if not rows.intercept and X is not None:
            return weighted_gram(X, D, dtype)
        if X is not None and sparse.issparse(X):
            M = np.empty((k + 1, k + 1), dtype=dtype)
            M[:k, :k] = weighted_gram(X, D, dtype)
            M[:k, k] = M[k, :k] = X.T @ D
            M[k, k] = D.sum()
            return M
        return sum_of_squares(self._scaled_lines(np.sqrt(D)[:, None]), self._rows.width, dtype)

    def _scaled_lines(self, half: Floats) -> Iterator[Floats]:
        """Blocks of x̃ times factors of rows."""
        k = self._rows.shape[1]
        for part, block in self._rows.dense_blocks(half.dtype):
            lines = np.empty((len(block), self._rows.width), dtype=half.dtype)
            np.multiply(block, half[part], out=lines[:, :k])
            lines[:, k:] = half[part]
            yield lines

    def _solve(self, rhs: Floats) -> Floats:
        scale = self._scale if rhs.ndim == 1 else self._scale[:, None]
        return scale * self._triangle.solve(scale * rhs)

    def solve(self, coef_part: Floats, intercept_part: float) -> tuple[Floats, float]:
        rhs = coef_part[self._columns]
        if self._fit_intercept:
            rhs = np.append(rhs, intercept_part)
        size = _size_of(rhs)
        flat = (rhs / size).astype(self._scale.dtype)
        step = size * np.asarray(self._solve(flat), np.float64)
        full = np.zeros(self._d)
        full[self._columns] = step[: len(self._columns)]
        return full, float(step[-1]) if self._fit_intercept else 0.0

    def leverages(self, pulls: Floats | None = None) -> Floats:
        if self._rows.xp is np and self._all_lines is not None:
            return _lengths(self._all_lines)
        if pulls is not None and self.columns >= plan.SMALLEST_SAMPLED_SIDE:
            sketched = self._sketched(pulls)
            if sketched is not None:
                return sketched
        lines = self._scaled_lines(np.ones((self._rows.shape[0], 1), dtype=self._scale.dtype))
        solved = (self._triangle.half_solved(np.multiply(x, self._scale, out=x)) for x in lines)
        return np.concatenate([_lengths(part) for part in solved])

    def _sketched(self, pulls: Floats) -> Floats | None:
        """‖ΩL⁻¹x̃_i‖² of k random directions, and h_i itself where that would not do.

        The sketch is off by √(2/k) for a row, and by √(2Σ(hD)/k) at most for the sum of hD, which
        is how all rows can be off together. Other directions say which rows need their own h_i:
        the same ones would keep the estimates that are too low. None where more than half of the
        rows need it, or where what rows have in common is left too uncertain.
        """
        n, k = len(pulls), max(plan.FEWEST_DIRECTIONS, self.columns // plan.SKETCH_SHARE)
        directions = np.random.default_rng(plan.SEED).normal(size=(self.columns, k + k // 3))
        spread = self._triangle.half_solve_back(directions.astype(self._scale.dtype))
        images = np.asarray(self._rows.forward(self._scale[:, None] * spread))
        h, apart = _lengths(images[:, :k]) / k, _lengths(images[:, k:]) / (k // 3)
        left = remaining_curvature(apart, self._D)
        off = np.sqrt(2.0 / k) * apart * pulls / left**2
        sure = (off <= plan.SKETCHED_MOVE) & (left >= 1.0 - plan.SKETCHED_SHARE)
        own = np.flatnonzero(~sure)
        if 2 * len(own) > n:
            return None
        for part in slices(len(own), plan.BLOCK_ENTRIES, self.columns):
            h[own[part]] = _lengths(self._lines_of(own[part]))
        shares = h * self._D
        total = float(shares.sum())
        shares[own] = 0.0
        error = float(np.sqrt(2.0 / k * shares.sum()))
        if not 0.0 < error <= total * plan.STEP_TOLERANCE / np.sqrt(n):
            return None
        self.relative_error = error / total
        return h

    @property
    def columns(self) -> int:
        return len(self._scale)

    def lines(self, rows: np.ndarray) -> Any:
        return self._lines_of(rows) if self._all_lines is None else self._all_lines[rows]

    @cached_property
    def _all_lines(self) -> Any:
        """L⁻¹x̃ of all rows where these are few, for all that is asked of them."""
        n = self._rows.shape[0]
        if n * self.columns > plan.BLOCK_ENTRIES:
            return None
        if self._rows.xp is not np:
            return self._lines_of(np.arange(n))
        (lines,) = self._scaled_lines(np.ones((n, 1), dtype=self._scale.dtype))
        return self._triangle.half_solved(np.multiply(lines, self._scale, out=lines))

    def _lines_of(self, rows: np.ndarray) -> Any:
        x = self._rows.lines(rows)
        if self._rows.xp is not np:
            return x @ self._rows.place((self._triangle.inverse * self._scale).T)
        return self._triangle.half_solved(x.astype(self._scale.dtype, copy=False) * self._scale)

    def smooth(self, V: Floats) -> Floats:
        if self._rows.xp is not np:
            return self._rows.image(self._solve(self._rows.pull(V)))
        V = V.astype(self._scale.dtype, copy=False)
        if "_all_lines" in vars(self) and self._all_lines is not None:
            return self._all_lines @ (self._all_lines.T @ V)
        inner = self._solve(self._rows.backward(V))
        return np.asarray(self._rows.forward(inner))


class _Dual(WholeBlocks):
    """Cholesky of B = I + S K S, n × n, with the free columns eliminated by a Schur complement."""

    relative_error = 0.0

    def __init__(
        self,
        X: Matrix,
        D: Floats,
        Q: Floats,
        fit_intercept: bool,
        intercept_curvature: float,
        columns: np.ndarray,
        d: int,
        dtype: Any = np.float64,
        outer: Callable[[Any], Floats] | None = None,
    ) -> None:
        self._D, self._S = D, np.sqrt(D).astype(dtype)
        self._columns, self._d = columns, d
        penalized = Q > 0
        X = X.astype(dtype, copy=False) if dtype == np.float32 else X
        self._penalized = None if penalized.all() else np.flatnonzero(penalized)
        self._free = np.flatnonzero(~penalized)
        self._P = X if self._penalized is None else X[:, self._penalized]
        self._Q = Q[penalized].astype(dtype)
        self._fit_intercept, self._q0 = fit_intercept, intercept_curvature
        self._U = self._free_columns(X)
        # Infinite squares are refused below, and penalties that single precision takes for none.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if outer is not None and self._penalized is None and np.ptp(self._Q) == 0:
                B = outer(dtype) / self._Q[0]
            else:
                B = outer_gram(self._P, 1.0 / self._Q, dtype)
            if fit_intercept and intercept_curvature > 0:
                B += 1.0 / intercept_curvature
            B *= self._S[:, None]
            B *= self._S
        if not np.all(np.isfinite(np.diag(B))):
            raise SingularHessianError(TOO_LARGE)
        B[np.diag_indices_from(B)] += 1.0
        self._triangle = cholesky(B, "the penalized loss")
        self._eliminate_free_columns()
        # Asked for at once, so that whoever asked for single precision hears if it will not do.
        self._diagonal = self._penalized_leverages() if dtype == np.float32 else None

    def _free_columns(self, X: Matrix) -> Floats:
        U = X[:, self._free]
        U = np.asarray(U.toarray() if sparse.issparse(U) else U, dtype=self._S.dtype)
        if self._fit_intercept and self._q0 == 0:
            U = np.column_stack([U, np.ones(X.shape[0], dtype=U.dtype)])
        return U

    def _kernel(self, V: Floats) -> Floats:
        """KV for columns V, by products with X: K itself is not kept."""
        if sparse.issparse(self._P) or self._P.dtype == V.dtype:
            out = self._P @ ((self._P.T @ V) / self._Q[:, None])
        else:
            inner, out = np.zeros((self._P.shape[1], V.shape[1])), np.empty(V.shape)
            penalized = as_rows(self._P, False)
            for rows, block in penalized.dense_blocks():
                inner += block.T @ V[rows]
            inner /= self._Q[:, None]
            for rows, block in penalized.dense_blocks():
                out[rows] = block @ inner
        return out + V.sum(axis=0) / self._q0 if self._fit_intercept and self._q0 > 0 else out

    def _kernel_of(self, rows: np.ndarray) -> Floats:
        """Columns of K."""
        own = self._P[rows]
        if sparse.issparse(own):
            found = np.asarray((self._P @ (own.multiply(1.0 / self._Q)).T.tocsr()).toarray())
        else:
            found = np.asarray(self._P @ (own / self._Q).T)
        return found + 1.0 / self._q0 if self._fit_intercept and self._q0 > 0 else found

    def _solve_B(self, rhs: Floats) -> Floats:
        return self._triangle.solve(rhs)

    def _eliminate_free_columns(self) -> None:
        SU = self._S[:, None] * self._U
        BSU = self._solve_B(SU)
        self._schur = cholesky(SU.T @ BSU, "the unpenalized coordinates")
        self._R = self._U - self._kernel(self._S[:, None] * BSU)

    def leverages(self, pulls: Floats | None = None) -> Floats:
        half = self._schur.half_solve(self._R.T)
        own = self._penalized_leverages() if self._diagonal is None else self._diagonal
        return np.asarray(own + np.einsum("ij,ij->j", half, half), dtype=np.float64)

    @property
    def columns(self) -> int:
        # No group has more rows than there are.
        return len(self._D)

    def lines(self, rows: np.ndarray) -> Any:
        raise NotImplementedError("the dual has no lines, and no group that would need them")

    def halves(self, n: int) -> tuple[Any, Any]:
        found = self._blocks_of(np.arange(n)[None])[0] if self._whole is None else self._whole
        return found.astype(np.float32, copy=False), None

    def blocks(self, rows: np.ndarray) -> Floats:
        if self._whole is None:
            return self._blocks_of(rows)
        return self._whole[rows[:, :, None], rows[:, None, :]]

    @cached_property
    def _whole(self) -> Any:
        """X̃ĤX̃ᵀ where rows are few, as groups and rounds ask for it again and again."""
        n = len(self._D)
        return self._blocks_of(np.arange(n)[None])[0] if n * n <= plan.BLOCK_ENTRIES else None

    def _blocks_of(self, rows: np.ndarray) -> Floats:
        # S(A + RG⁻¹Rᵀ)S = I − B⁻¹ + …, as the leverages have it.
        own = self._triangle.inverse[:, rows.ravel()].T.reshape(*rows.shape, -1)
        shares = np.eye(rows.shape[1]) - _outer(own)
        small = self._small_curvature()
        S = np.where(small, 1.0, self._S)[rows]
        found = shares / (S[:, :, None] * S[:, None, :])
        if small[rows].any():
            self._replace_small(found, rows, small)
        half = self._schur.half_solve(self._R.T)[:, rows.ravel()].T.reshape(*rows.shape, -1)
        return found + _outer(half)

    def _replace_small(self, found: Floats, rows: np.ndarray, small: np.ndarray) -> None:
        """Entries A_ij of rows that have next to no curvature, from K directly."""
        some = np.unique(rows[small[rows]])
        K = self._kernel_of(some)
        images = K - self._kernel(self._S[:, None] * self._solve_B(self._S[:, None] * K))
        place = np.searchsorted(some, rows)
        for g, j in np.argwhere(small[rows]):
            found[g, :, j] = found[g, j, :] = images[rows[g], place[g, j]]

    def smooth(self, V: Floats) -> Floats:
        S, V = self._S[:, None], V.astype(self._S.dtype, copy=False)
        if "_whole" in vars(self) and self._whole is not None:
            return self._whole @ V
        KV = self._kernel(V)
        penalized = KV - self._kernel(S * self._solve_B(S * KV))
        return penalized + self._R @ self._schur.solve(self._R.T @ V)

    def _penalized_leverages(self) -> Floats:
        """diag(A): from diag(B⁻¹) where D_i is sizeable, from K directly where it vanishes."""
        inverse = self._triangle.inverse
        share = 1.0 - np.einsum("ij,ij->j", inverse, inverse)
        small = self._small_curvature()
        if inverse.dtype == np.float32:
            small |= share < 1e-4
            if small.sum() > len(small) // 2:
                raise SingularHessianError("too many rows have next to no curvature")
        h = share / np.where(small, 1.0, self._D)
        if small.any():
            K = self._kernel_of(np.flatnonzero(small))
            half = self._triangle.half_solve(self._S[:, None] * K)
            h[small] = np.diag(K[small]) - np.einsum("ij,ij->j", half, half)
        return np.maximum(h, 0.0)

    def _small_curvature(self) -> np.ndarray:
        """Rows where (1 − (B⁻¹)_ii)/D_i cancels."""
        return self._D <= 1e-5 * max(self._D.max(), np.finfo(float).tiny)

    def _solve_penalized(self, g: Floats, g0: float) -> tuple[Floats, float]:
        """(PᵀDP + Q)⁻¹ on the penalized block, a penalized intercept included, by Woodbury."""
        w, w0 = g / self._Q, (g0 / self._q0 if self._q0 > 0 else 0.0)
        inner = self._S * self._solve_B(self._S * (self._P @ w + w0))
        w = w - (self._P.T @ inner) / self._Q
        if self._q0 > 0:
            w0 -= inner.sum() / self._q0
        return w, w0

    def solve(self, coef_part: Floats, intercept_part: float) -> tuple[Floats, float]:
        size, dtype = _size_of(coef_part, intercept_part), self._S.dtype
        g = (coef_part[self._columns] / size).astype(dtype)
        g_free = g[self._free]
        intercept_is_free = self._fit_intercept and self._q0 == 0
        if intercept_is_free:
            g_free = np.append(g_free, intercept_part / size).astype(dtype)
        g_penalized = g if self._penalized is None else g[self._penalized]
        g0 = 0.0 if intercept_is_free else intercept_part / size
        w, w0 = self._solve_penalized(g_penalized, g0)
        D = self._S**2
        residual = g_free - self._U.T @ (D * (self._P @ w + w0))
        free = self._schur.solve(residual)
        pull = D * (self._U @ free)
        w, w0 = self._solve_penalized(
            g_penalized - self._P.T @ pull, g0 - (pull.sum() if self._q0 > 0 else 0.0)
        )
        step, last = self._assemble(w, free, intercept_is_free, w0)
        return size * step, size * last

    def _assemble(
        self, w: Floats, free: Floats, intercept_is_free: bool, w0: float
    ) -> tuple[Floats, float]:
        active = np.zeros(len(self._columns))
        active[slice(None) if self._penalized is None else self._penalized] = w
        active[self._free] = free[: len(self._free)]
        full = np.zeros(self._d)
        full[self._columns] = active
        return full, float(free[-1]) if intercept_is_free else w0
