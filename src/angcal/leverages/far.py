r"""Ĥ_c = (X̃ᵀD_cX̃ + Q_c)⁻¹ of m problems on rows that are read anew: three passes for all of them.

    1.  X̃ᵀD_cX̃                            (d + 1)² numbers for each problem
    2.  h_ic = ‖W_c x̃_i‖², W_cᵀW_c = Ĥ_c;  and X̃ᵀ(z/r_c), r = 1 − hD, for random signs z
    3.  Σ_j A_ij²/r_j² ≈ mean over z of (X̃Ĥ_c X̃ᵀz/r_c)_i²

Where rows are left out in groups, the second pass has h and the moves of all groups whose rows lie
in one block, and X̃ᵀ(z/r) takes a fourth; rows of other groups are brought here, as many at a time
as memory allows.

The signs are those of :meth:`angcal.leverages.PenalizedHessian.coupling`, so that the answers do
not depend on where the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.leverages.cholesky import penalized_cholesky, row_parts, sum_of_squares
from angcal.leverages.groups import (
    Blocks,
    GroupMoves,
    Groups,
    leave_groups_out,
    whole_groups,
)
from angcal.leverages.steps import remaining_curvature
from angcal.rows import FarRows, dense_parts

PROBES = 32  # as many as for rows in memory


class FarHessian:
    """Ĥ as an operator: ``solve``, ``leverages``, ``coupling`` and ``leave_groups_out``.

    Parameters
    ----------
    rows : FarRows
    D : (n,) or (n, m) array
        Curvatures of one problem, or of m.
    penalties : list of m arrays
        N∇²g of each: a number, a diagonal (d,) or a matrix (d, d).
    intercept_curvature : float, default=0
        N·q₀.
    grams : (m, d + 1, d + 1) array, optional
        X̃ᵀDX̃, where a pass has brought it already.
    with_coupling : bool, default=True
        Whether the pass for leverages prepares the one for couplings.
    single : bool, default=False
        Whether rows are multiplied in single precision.

    Attributes
    ----------
    inflation : float
        Largest diagonal entry of the inverses of matrices with unit diagonal: by how much rounding
        of their entries may grow in Ĥ.
    """

    side: ClassVar[str] = "primal"
    remark: ClassVar[str] = ""
    relative_error: ClassVar[float] = 0.0

    def __init__(
        self,
        rows: FarRows,
        D: Floats,
        penalties: list[Any],
        intercept_curvature: float = 0.0,
        grams: Floats | None = None,
        with_coupling: bool = True,
        single: bool = False,
    ) -> None:
        self._rows, self._shape, self._with_coupling = rows, D.shape, with_coupling
        self._D, self._dtype = D.reshape(len(D), -1), precision(single)
        if grams is None:
            grams = rows.sum(partial(grams_of_block, rows.intercept), (), (self._D,))
        d, pairs = rows.shape[1], zip(grams, penalties, strict=True)
        found = [inverse_root(M, Q, d, intercept_curvature) for M, Q in pairs]
        self._roots = np.stack([root for root, _ in found])
        self.inflation = max(inflation for _, inflation in found)
        self._back: Floats | None = None

    def solve(self, coef_part: Floats, intercept_part: Any = 0.0) -> tuple[Floats, Any]:
        """Ĥ of the first problem applied to a gradient: (weights, intercept)."""
        rhs, d = coef_part, self._rows.shape[1]
        if self._rows.intercept:
            rhs = np.append(rhs, intercept_part)
        step = solved(self._roots[0], rhs)
        return step[:d], float(step[d]) if self._rows.intercept else 0.0

    def leverages(self, pulls: Floats | None = None) -> Floats:
        """h, of D's shape."""
        f = partial(forms_of_block, self._dtype)
        if self._with_coupling:
            signs = packed_signs(self._rows.shape[0])
            h, self._back = self._rows.sweep(f, (self._roots,), (self._D, signs))
        else:
            h = self._rows.map(f, (self._roots,), (self._D,))
        return h.reshape(self._shape)

    def coupling(self, leverages: Floats, remaining: Floats) -> Floats:
        """Σ_{j≠i} A_ij²/(r_i r_j)² with A = X̃ĤX̃ᵀ and r = 1 − hD, by random signs."""
        if self._back is None:
            self.leverages()
        assert self._back is not None
        inner = probes_solved(self._roots, self._back)
        f = partial(images_of_block, self._dtype, self._rows.intercept)
        squares = self._rows.map(f, (inner,))
        sums = squares.reshape(self._shape)
        sums -= (leverages / remaining) ** 2
        np.maximum(sums, 0.0, out=sums)
        sums /= remaining**2
        return sums

    def group_coupling(self, within: Floats, remaining: Floats) -> Floats:
        """The same without the groups of both rows, at the price of another pass."""
        r, signs = remaining.reshape(len(remaining), -1), packed_signs(len(remaining))
        f = partial(back_of_block, self._dtype, self._rows.intercept)
        self._back = self._rows.sum(f, (), (r, signs))
        return self.coupling(within, remaining)

    def leave_groups_out(
        self, groups: Groups, residuals: Floats, levels: Any
    ) -> tuple[GroupMoves, Floats]:
        """Moves and leverages of rows whose groups go; see :mod:`angcal.leverages.groups`."""
        psi, codes = residuals.reshape(len(residuals), -1), groups.codes
        shared = (self._roots, np.atleast_1d(levels))
        vectors = (codes, groups.sizes[codes], self._D, psi)
        found = self._rows.map(_moves_of_block, shared, vectors)
        split = np.flatnonzero(np.isnan(found[:, 0]))
        for rows in whole_groups(codes, split, plan.PRODUCT_ENTRIES // max(self._rows.width, 1)):
            own = [vector[rows] for vector in vectors]
            found[rows] = _moves_of_block(self._rows.take(rows), *shared, *own)
        k, m = psi.shape[1], len(self._roots)
        both = (found[:, part].reshape(residuals.shape) for part in (slice(k), slice(k, 2 * k)))
        starts = range(2 * k, found.shape[1], m)
        h, *rest = (found[:, i : i + m].reshape(self._shape) for i in starts)
        return GroupMoves(groups, *both, *rest), h


class _RowsHere(Blocks):
    """Rows of a block that is at hand, with W of WᵀW = Ĥ."""

    def __init__(self, X: Any, W: Floats) -> None:
        self._X, self._W = X, W

    @property
    def columns(self) -> int:
        return len(self._W)

    def lines(self, rows: np.ndarray) -> Floats:
        x, d = self._X[rows], self._X.shape[1]
        x = np.asarray(x.toarray() if sparse.issparse(x) else x, dtype=np.float64)
        found = x @ self._W[:, :d].T
        return found + self._W[:, d] if d < len(self._W) else found


def _moves_of_block(
    X: Any,
    roots: Floats,
    levels: Floats,
    codes: np.ndarray,
    sizes: np.ndarray,
    D: Floats,
    psi: Floats,
) -> Floats:
    """Moves of all and of weights alone, k each; leverages, within and remaining, m each.

    Each of the m Hessians serves q of the k residuals. NaN where a group has rows elsewhere.
    """
    k, m = psi.shape[1], len(roots)
    q, found = k // m, np.full((len(codes), 2 * k + 3 * m), np.nan)
    _, local, counts = np.unique(codes, return_inverse=True, return_counts=True)
    here = np.flatnonzero(counts[local] == sizes)
    if not len(here):
        return found
    groups = Groups(np.unique(local[here], return_inverse=True)[1])
    for c, W in enumerate(roots):
        own = slice(c * q, (c + 1) * q)
        given = (groups, D[here, c], np.ascontiguousarray(psi[here, own]), levels[own])
        moves, h = leave_groups_out(_RowsHere(X[here], W), *given)
        found[here, own], found[here, own.start + k : own.stop + k] = moves.all, moves.slopes
        found[here, 2 * k + c :: m] = np.column_stack([h, moves.within, moves.remaining])
    return found


def inverse_root(
    gram: Floats, Q: Any, d: int, intercept_curvature: float = 0.0
) -> tuple[Floats, float]:
    """(W, lower triangular, with WᵀW = (gram + Q)⁻¹; largest diagonal of the scaled inverse)."""
    penalty = np.asarray(Q, dtype=np.float64)
    triangle, scale = penalized_cholesky(np.array(gram), penalty, d, intercept_curvature)
    W = np.tril(triangle.inverse)
    return W * scale, float(np.square(W).sum(axis=0).max())


def solved(W: Floats, V: Floats) -> Floats:
    """ĤV = Wᵀ(WV)."""
    return W.T @ (W @ V)


def probes_solved(roots: Floats, back: Floats) -> Floats:
    """Ĥ_c X̃ᵀ(z/r_c) of every problem, (d + 1, m, probes)."""
    return np.stack([solved(W, back[:, c]) for c, W in enumerate(roots)], axis=1)


def packed_signs(n: int) -> np.ndarray:
    """Random signs, one bit each, (n, probes/8)."""
    rng = np.random.default_rng(0)
    found = np.empty((n, PROBES // 8), dtype=np.uint8)
    for rows in slices(n, 100_000):  # 26 MB of signs before they are packed
        signs = rng.choice([-1.0, 1.0], size=(rows.stop - rows.start, PROBES)) > 0
        found[rows] = np.packbits(signs, axis=1)
    return found


def precision(single: bool) -> type:
    """The type that rows are multiplied in."""
    return np.float32 if single else np.float64


def gram_of_block(X: Any, D: Floats, intercept: bool, dtype: Any = np.float64) -> Floats:
    """X̃_bᵀ diag(D) X̃_b, each piece in the precision given and their sum in double."""
    half, d = np.sqrt(D).astype(dtype), X.shape[1]
    most = max(1, min(X.shape[0], plan.PIECE_ENTRIES // max(d, 1)))
    buffer = np.empty((most, d + intercept), dtype=dtype)

    def scaled() -> Iterator[Floats]:
        for part, rows in dense_parts(X, most * d, X.dtype):
            lines = buffer[: len(rows)]
            with np.errstate(over="ignore"):  # ends as infinity, which is looked for
                lines[:, :d] = rows
            lines[:, d:] = 1.0
            lines *= half[part, None]
            yield lines

    if dtype == np.float64:
        return sum_of_squares(scaled(), d + intercept)
    total = np.zeros((d + intercept, d + intercept))
    square = np.empty_like(total, dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for lines in scaled():
            total += np.matmul(lines.T, lines, out=square)
    return total if np.isfinite(total).all() else np.full_like(total, np.nan)


def grams_of_block(intercept: bool, X: Any, D: Floats) -> Floats:
    """X̃_bᵀ diag(D_c) X̃_b for every column of D, (m, d + 1, d + 1)."""
    return np.stack([gram_of_block(X, each, intercept) for each in D.T])


def forms_of_block(
    dtype: Any, X: Any, roots: Floats, D: Floats, packed: np.ndarray | None = None
) -> Any:
    """h of a block, (rows, m); with signs also X̃_bᵀ(z/r), (d + 1, m, probes)."""
    m, width, d = len(roots), roots.shape[1], X.shape[1]
    h, back = np.zeros((X.shape[0], m)), np.zeros((width, m, PROBES))
    # Row j of a lower triangle ends at column j.
    triangles = [
        [np.ascontiguousarray(W[low:high, :high].T, dtype=dtype) for low, high in row_parts(width)]
        for W in roots
    ]
    for part, x in dense_parts(X, plan.CACHE_ENTRIES // 2, dtype, reuse=True):
        for c, triangle in enumerate(triangles):
            for root in triangle:
                half = x[:, : len(root)] @ root[:d]
                if len(root) > d:
                    half += root[d]
                h[part, c] += np.einsum("ij,ij->i", half, half)
        if packed is not None:
            _pull_signs(x, packed[part], remaining_curvature(h[part], D[part]), back)
    return h if packed is None else (h, back)


def back_of_block(
    dtype: Any, intercept: bool, X: Any, remaining: Floats, packed: np.ndarray
) -> Floats:
    """X̃_bᵀ(z/r) of a block, (d + 1, m, probes)."""
    back = np.zeros((X.shape[1] + intercept, remaining.shape[1], PROBES))
    for part, x in dense_parts(X, plan.CACHE_ENTRIES // 2, dtype, reuse=True):
        _pull_signs(x, packed[part], remaining[part], back)
    return back


def _pull_signs(x: Floats, packed: np.ndarray, remaining: Floats, back: Floats) -> None:
    """Add X̃ᵀ(z/r) of some rows."""
    signs, d = np.unpackbits(packed, axis=1).astype(x.dtype) * 2 - 1, x.shape[1]
    rest = remaining.astype(x.dtype)
    for c in range(rest.shape[1]):
        probes = signs / rest[:, c : c + 1]
        back[:d, c] += x.T @ probes
        back[d:, c] += probes.sum(axis=0)


def images_of_block(dtype: Any, intercept: bool, X: Any, inner: Floats) -> Floats:
    """Mean over probes of (x̃_iᵀV)², (rows, m)."""
    d, columns = X.shape[1], inner.reshape(len(inner), -1).astype(dtype, copy=False)
    found = np.empty((X.shape[0], inner.shape[1]))
    # As many rows as leave rows and images in the cache.
    entries = plan.CACHE_ENTRIES * d // max(d, columns.shape[1])
    for part, x in dense_parts(X, entries, dtype, reuse=True):
        images = x @ columns[:d]
        images = images + columns[d:] if intercept else images
        found[part] = np.mean(images.reshape(len(x), *inner.shape[1:]) ** 2, axis=2)
    return found
