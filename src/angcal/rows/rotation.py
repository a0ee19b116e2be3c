"""The same inner products of rows in fewer columns, for all ridge penalties of a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor
from angcal.rows.base import Rows
from angcal.rows.memory import RotatedRows, TriangularRows
from angcal.rows.storage import as_rows


def rotate(X: Matrix, weights: Floats, intercept: bool) -> Rows:
    """Rows in as few columns as is worth the work, for ridge penalties.

    Under a ridge penalty only inner products of rows matter, so all fits of a path share one Z:

    - where a side of X is short, or correlated columns make it worth more, the eigenbasis of XᵀX
      or of XXᵀ. Z then has orthogonal columns, and a Hessian ZᵀDZ + λI is all but diagonal while
      the D_i do not differ much;
    - with many more columns than rows, the Cholesky factor of XXᵀ, n × n instead of n × d;
    - otherwise, and for sparse X and tensors, X itself.

    Dense rows are centered first where there is an intercept, which is free to make up for it; of
    sparse ones only columns whose mean would make them all but the intercept's.
    """
    if sparse.issparse(X):
        return _about_large_means(X, weights) if intercept else as_rows(X, intercept)
    if is_tensor(X):
        return as_rows(X, intercept)
    rows = np.asarray(X, dtype=np.float64)
    center = weights @ rows / weights.sum() if intercept else None
    if center is not None:
        rows = rows - center
        # Of rows that are all alike a weighted mean leaves rounding, which is no signal. One row
        # tells nearly always that they are not.
        if _is_rounding(rows[:1], center) and _is_rounding(rows, center):
            rows = np.zeros_like(rows)
    n, d = rows.shape
    side = min(n, d)
    short = plan.takes_eigenbasis(side)
    # Where XXᵀ is wanted in any case it tells, too, in a quarter of the products.
    gram = rows @ rows.T if n < d and (plan.takes_gram(n, d) or short) else None
    correlated = not short and plan.takes_eigenbasis(side, True) and _is_correlated(rows, gram)
    if d <= n and (short or correlated):
        basis = column_basis(rows)
        turned = rows @ basis
        return RotatedRows(turned, lambda v: basis @ v, intercept, center, correlated=correlated)
    if n < d and (gram is not None or correlated):
        gram = rows @ rows.T if gram is None else gram
        return rows_of_gram(gram, lambda a: rows.T @ a, intercept, center, correlated)
    return RotatedRows(rows, lambda v: v, intercept, center)


def _about_large_means(X: Any, weights: Floats) -> Rows:
    """Sparse rows whose columns are about their mean where that is half of their mean square.

    Such a column has few zeros, so that its deviations take at most twice its memory. An intercept
    that is free is all but a combination of such columns, and Newton's steps in single precision
    end short: of 30 columns whose mean is 1, 3 and 100 times their deviation, weights were off by
    0.01, 0.1 and 1.4.
    """
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share, dtype=np.float64)
    squares = np.asarray(X.multiply(X).T @ share, dtype=np.float64)
    with np.errstate(over="ignore"):
        large = np.flatnonzero(mean**2 > 0.5 * squares)
    if not len(large):
        return as_rows(X, True)
    n, center = X.shape[0], np.zeros(X.shape[1])
    center[large] = mean[large]
    entries = (np.tile(mean[large], n), np.tile(large, n), len(large) * np.arange(n + 1))
    rows = as_rows(sparse.csr_array(X - sparse.csr_array(entries, shape=X.shape)), True)
    rows.center = center
    return rows


def _is_rounding(rows: Floats, center: Floats) -> bool:
    """Whether centered rows are no more than the rounding of their means."""
    return bool(np.all(np.abs(rows) <= 1e-12 * np.abs(center)))


def _is_correlated(X: Floats, gram: Floats | None = None) -> bool:
    """Whether XᵀX has a much larger eigenvalue than it would have with independent entries.

    That is (1 + √(short side / long side))² times their mean; by four steps of the power method,
    with images u = Xv and G = XXᵀ where that is at hand.
    """
    along: Any = np.random.default_rng(0).normal(size=X.shape[1])
    least = np.finfo(float).tiny
    if gram is None:
        for _ in range(4):
            along = X.T @ (X @ (along / max(float(np.linalg.norm(along)), least)))
        largest, trace = float(np.linalg.norm(along)), float(np.einsum("ij,ij->", X, X))
    else:
        image = X @ along
        for _ in range(2):
            image = gram @ (image / max(float(np.linalg.norm(image)), least))
        following = gram @ image
        # ‖v₄‖²/‖v₃‖² = u₃ᵀGu₃/u₂ᵀu₃ with u₃ = Gu₂.
        squares = float(following @ (gram @ following))
        largest = float(np.sqrt(squares / max(float(image @ following), least)))
        trace = float(np.trace(gram))
    short, long = sorted(X.shape)
    usual = trace / short * (1.0 + np.sqrt(short / long)) ** 2
    return bool(largest > 5.0 * usual)


def column_basis(X: Floats) -> Floats:
    """Q with orthonormal columns, the eigenbasis of XᵀX: X = (XQ)Qᵀ."""
    gram = X.T @ X
    if len(gram) >= plan.SMALLEST_SINGLE_SIDE:
        # Any orthogonal basis would do, and eigenvectors in single precision are orthogonal to
        # 1e-6. Every column is kept, so that nothing of X is lost.
        gram = gram.astype(np.float32)
    values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    basis = vectors.astype(np.float64, copy=False)
    if vectors.dtype == np.float64:
        basis = basis[:, values > plan.RANK_TOLERANCE * max(float(values[-1]), 1e-300)]
    return basis


def rows_of_gram(
    gram: Floats,
    back: Callable[[Floats], Floats],
    intercept: bool,
    center: Floats | None,
    correlated: bool = False,
) -> RotatedRows:
    """Z with ZZᵀ the Gram matrix of rows: UΛ^½ on what is not rounding, or the Cholesky factor.

    Parameters
    ----------
    gram : (n, n) array
        XXᵀ, which is overwritten.
    back : callable
        a ↦ Xᵀa.
    intercept, center
        As in :class:`RotatedRows`.
    correlated : bool, default=False
        Whether columns are correlated, so that the eigenbasis is wanted however many rows there
        are.
    """
    n = len(gram)
    if correlated or plan.takes_eigenbasis(n):
        values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        kept = values > plan.RANK_TOLERANCE * max(float(values[-1]), 1e-300)
        lengths, U = np.sqrt(values[kept]), vectors[:, kept]

        def expand_eigen(v: Floats) -> Floats:
            # X = ZQᵀ, hence Q = XᵀUΛ^-½.
            return back(U @ (v.T / lengths).T)

        return RotatedRows(U * lengths, expand_eigen, intercept, center, correlated=correlated)
    # Rounding may have left less than nothing.
    gram[np.diag_indices(n)] += 1e-11 * max(float(np.trace(gram)) / n, 1e-300)
    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)

    def expand(v: Floats) -> Floats:
        # X = LQᵀ, hence Q = XᵀL⁻ᵀ.
        return back(linalg.solve_triangular(factor, v, lower=True, trans=1, check_finite=False))

    return TriangularRows(factor, expand, intercept, center, has_own_columns=False)
