r"""q_i = Σ_j x_ij²/(m_j − D_i x_ij²), m_j = Σ_i D_i x_ij² + Q_j: how far a row reaches.

q_i is row i's quadratic form with the diagonal of the others' Hessian in place of the inverse. Row
i's own share D_i x_ij² of m_j is next to nothing in a column that many rows share, and all but
everything in a column that is zero in most rows: there it has to be left out. Dense rows leave it
out only in the columns where any row's share is sizeable, as elsewhere a product with x_ij² does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from angcal._typing import Floats, Matrix
from angcal.arrays import namespace_of, on_host, placed_like

# A share up to this moves a form by no more than that.
LARGEST_OWN_SHARE = 0.05
# Entries at a time: a block and its squares stay in the cache. A device takes many more.
BLOCK_ENTRIES, DEVICE_BLOCK_ENTRIES = 1 << 18, 1 << 28


def _blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    n, d = X.shape
    entries = BLOCK_ENTRIES if isinstance(X, np.ndarray) else DEVICE_BLOCK_ENTRIES
    step = max(1, entries // max(int(d), 1))
    for start in range(0, int(n), step):
        rows = slice(start, min(start + step, int(n)))
        yield rows, X[rows, :]


def column_squares(X: Matrix, D: Floats) -> tuple[Floats, Floats]:
    """(Σ_i D_i x_ij², max_i x_ij²) of every column, in one pass."""
    if sparse.issparse(X):
        squares = X.multiply(X).tocsc()
        peaks = np.asarray(squares.max(axis=0).toarray(), dtype=np.float64).ravel()
        return np.asarray(squares.T @ D, dtype=np.float64), peaks
    xp, weights = namespace_of(X), placed_like(D, X)
    moments, peaks = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for rows, block in _blocks(X):
        squares = block * block
        moments += on_host(squares.T @ weights[rows])
        peaks = np.maximum(peaks, on_host(xp.max(squares, axis=0)))
    return moments, peaks


def row_sizes(X: Matrix, diagonal: Floats, peaks: Floats, D: Floats) -> Floats:
    """q_i of every row.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or tensor
    diagonal : (d,) array
        m_j.
    peaks : (d,) array
        Largest x_ij² of each column.
    D : (n,) array
    """
    if sparse.issparse(X):
        return sparse_row_sizes(X, diagonal, D)
    own = D.max(initial=0.0) * peaks > LARGEST_OWN_SHARE * diagonal
    slopes = np.where(own, 0.0, 1.0 / diagonal)
    sizes = _plain_sizes(X, slopes)
    if own.any():
        sizes += _sizes_without_own_share(X, np.flatnonzero(own), diagonal, D)
    return sizes


def sparse_row_sizes(X: Matrix, diagonal: Floats, D: Floats) -> Floats:
    """The same for sparse rows, entry by entry."""
    rows = X.tocsr()
    number = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    squares = rows.data.astype(np.float64) ** 2
    others = diagonal[rows.indices] - D[number] * squares
    return np.bincount(number, squares / others, minlength=rows.shape[0]).astype(np.float64)


def _plain_sizes(X: Any, slopes: Floats) -> Floats:
    """Σ_j x_ij²·slopes_j of dense rows."""
    placed = placed_like(slopes, X)
    parts = [on_host((block * block) @ placed) for _, block in _blocks(X)]
    return np.concatenate(parts)


def _sizes_without_own_share(X: Any, columns: np.ndarray, diagonal: Floats, D: Floats) -> Floats:
    xp = namespace_of(X)
    place = columns if xp is np else xp.asarray(columns, device=X.device)
    parts = []
    for rows, block in _blocks(X):
        values = on_host(block[:, place])
        squares = values * values
        parts.append((squares / (diagonal[columns] - D[rows, None] * squares)).sum(axis=1))
    return np.concatenate(parts)
