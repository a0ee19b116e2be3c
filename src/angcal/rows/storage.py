"""Which storage X has."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal.arrays import is_tensor, slices
from angcal.rows.base import Rows
from angcal.rows.far import BlockRows
from angcal.rows.memory import DenseRows, SparseRows
from angcal.rows.tensors import TensorRows


def _mapped(X: np.memmap) -> Iterator[np.ndarray]:
    """Blocks of a memory map, whose pages are given back after each."""
    for part in slices(len(X), plan.BLOCK_ENTRIES, X.shape[1]):
        yield X[part]
        # Pages of a private copy (mode "c") hold changes that are nowhere else.
        if X.mode in ("r", "r+", "w+") and hasattr(mmap, "MADV_DONTNEED"):
            X._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def as_rows(X: Any, intercept: bool) -> Rows:
    """X as :class:`Rows`.

    Parameters
    ----------
    X : array, sparse matrix, tensor, memory map, list of blocks, callable or Rows
    intercept : bool

    Examples
    --------
    >>> as_rows(np.eye(2), True).forward(np.array([1.0, 2.0, 3.0]))
    array([4., 5.])
    """
    if isinstance(X, Rows):
        if X.intercept != bool(intercept):
            raise ValueError(f"X is stored with intercept={X.intercept}; the fit has another.")
        return X
    if not callable(X) and getattr(getattr(X, "dtype", None), "kind", "f") in "iub":
        X = X.astype(np.float64)  # a storage's type is that of all its products
    if sparse.issparse(X):
        return SparseRows(X, intercept)
    if isinstance(X, np.memmap):
        return BlockRows(lambda: _mapped(X), X.shape, intercept)
    if isinstance(X, np.ndarray):
        return DenseRows(X, intercept)
    if is_tensor(X):
        return TensorRows(X, intercept)
    source = X if callable(X) else lambda: X
    counts = [block.shape for block in source()]
    return BlockRows(source, (sum(n for n, _ in counts), counts[0][1]), intercept)
