"""Rows that are one NumPy array or SciPy matrix, or stand in fewer columns for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import product, slices, transposed_product
from angcal.rows.base import Rows


def forward_product(X: Any, V: Any) -> Any:
    """XV, in the precision of V."""
    if _has_few_columns(X, V):
        out = np.empty((V.shape[1], X.shape[0]), dtype=V.dtype)
        for rows in slices(X.shape[0], plan.PIECE_ENTRIES, X.shape[1]):
            for column, image in zip(V.T, out, strict=True):
                np.matmul(X[rows], column, out=image[rows])
        return out.T
    if V.dtype == np.float64:
        return product(X, V)
    return (V.T @ X.T).T if _is_large(X, V) else X @ V


def backward_product(X: Any, U: Any) -> Any:
    """XᵀU, in the precision of U."""
    if _has_few_columns(X, U):
        out = np.zeros((U.shape[1], X.shape[1]), dtype=U.dtype)
        for rows in slices(X.shape[0], plan.PIECE_ENTRIES, X.shape[1]):
            for column, sums in zip(U.T, out, strict=True):
                sums += column[rows] @ X[rows]
        return out.T
    if U.dtype == np.float64:
        return transposed_product(X, U)
    return (U.T @ X).T if _is_large(X, U) else X.T @ U


def _has_few_columns(X: Any, V: Any) -> bool:
    """Whether one product for each column is faster: BLAS copies X before it multiplies several.

    Piece by piece, so that the others find it in the cache.
    """
    few = V.ndim == 2 and 1 < V.shape[1] <= plan.FEW_COLUMNS
    return few and isinstance(X, np.ndarray) and X.dtype == V.dtype


def _is_large(X: Any, V: Any) -> bool:
    """Whether transposed products of a few columns are faster: by a quarter, beyond the cache."""
    return V.ndim == 2 and X.size > plan.BLOCK_ENTRIES


class DenseRows(Rows):
    """Rows of a NumPy array."""

    def __init__(self, X: Matrix, intercept: bool) -> None:
        super().__init__(X.shape, intercept)
        self.X = X
        self._single: DenseRows | None = None
        self._kept_squares: Floats | None = None

    @property
    def in_memory(self) -> Matrix | None:
        return self.X

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        n, d = self.shape
        if not entries_per_row or n * max(d, entries_per_row) <= plan.BLOCK_ENTRIES:
            yield slice(0, n), self.X
            return
        # A piece is still in the cache when the second product asks for it.
        for rows in slices(n, plan.PIECE_ENTRIES, max(d, entries_per_row)):
            yield rows, self.X[rows]

    def take(self, index: np.ndarray) -> Floats:
        return self.X[index]

    def single(self) -> DenseRows:
        # What single precision cannot hold ends as infinity, and that as an exact factorization.
        if self.X.dtype == np.float32:
            return self
        if self._single is None:
            rows = copy(self)
            with np.errstate(over="ignore"):
                rows.X, rows.passes = self.X.astype(np.float32), 0
            self._single = rows
        return self._single

    def _squares(self) -> Iterator[tuple[slice, Any]]:
        if self.X.size > plan.BLOCK_ENTRIES:
            yield from super()._squares()
            return
        # Several penalties ask for the squares of the same few rows.
        if self._kept_squares is None:
            self._kept_squares = squares_of(self.X)
        yield slice(0, self.shape[0]), self._kept_squares

    def ahead(self, X: Any, V: Any) -> Any:
        return forward_product(X, V)

    def back(self, X: Any, U: Any) -> Any:
        return backward_product(X, U)


def squares_of(X: Floats) -> Floats:
    """x² of every entry; in double precision where single has no room for them.

    Examples
    --------
    >>> float(squares_of(np.full((1, 1), 1e30, np.float32))[0, 0]) > 9e59
    True
    """
    with np.errstate(over="ignore"):
        found = np.square(X)
    if X.dtype == np.float32 and not np.isfinite(found.max(initial=0.0)):
        return np.square(X, dtype=np.float64)
    return found


def outer_of_sparse(Y: sparse.csr_array) -> Floats:
    """YYᵀ by products with dense rows, as hardly an entry of it is zero."""
    n, d = Y.shape
    product = np.empty((n, n), dtype=Y.dtype)
    # Never more than a sixteenth of the rows at a time.
    for part in slices(n, min(plan.BLOCK_ENTRIES, n * d // 16), d):
        found = Y[part.start :] @ Y[part].T.toarray(order="C")
        product[part.start :, part] = found
        product[part, part.start :] = found.T
    return product


class SparseRows(DenseRows):
    """Rows of a SciPy sparse matrix."""

    def __init__(self, X: Matrix, intercept: bool) -> None:
        super().__init__(X, intercept)
        self._outer: tuple[Any, Floats] | None = None
        self._transposed: tuple[Any, Any] | None = None

    def outer(self, dtype: Any) -> Floats:
        """XXᵀ in a precision; kept, as every penalty of a path asks for it."""
        if self._outer is None or self._outer[0] != dtype:
            self._outer = dtype, outer_of_sparse(sparse.csr_array(self.X, dtype=dtype))
        return self._outer[1]

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        n = self.shape[0]
        if n * entries_per_row <= plan.PRODUCT_ENTRIES:
            yield slice(0, n), self.X
            return
        for rows in slices(n, plan.PRODUCT_ENTRIES, entries_per_row):
            yield rows, self.X[rows]

    def take(self, index: np.ndarray) -> Floats:
        return self.X[index].toarray()

    def ahead(self, X: Any, V: Any) -> Any:
        return np.asarray(X @ V)

    def back(self, X: Any, U: Any) -> Any:
        # Made once: SciPy checks a new matrix for longer than small products take.
        if self._transposed is None or self._transposed[0] is not X:
            self._transposed = X, X.T
        return np.asarray(self._transposed[1] @ U)

    def column_squares(self, weights: Floats) -> tuple[Floats, Floats]:
        self._count(1)
        squares = self.X.multiply(self.X).tocsc()
        peaks = np.asarray(squares.max(axis=0).toarray(), dtype=np.float64).ravel()
        return np.asarray(squares.T @ weights, dtype=np.float64), peaks

    def row_sizes(self, diagonal: Floats, peaks: Floats, weights: Floats) -> Floats:
        self._count(1)
        X = self.X.tocsr()
        number = np.repeat(np.arange(self.shape[0]), np.diff(X.indptr))
        squares = X.data.astype(np.float64) ** 2

        def sizes(m: Floats, omega: Floats) -> Floats:
            forms = squares / (m[X.indices] - omega[number] * squares)
            return np.bincount(number, forms, minlength=self.shape[0]).astype(np.float64)

        if diagonal.ndim == 1:
            return sizes(diagonal, weights)
        pairs = zip(diagonal.T, weights.T, strict=True)
        return np.column_stack([sizes(m, omega) for m, omega in pairs])


class RotatedRows(DenseRows):
    """Z with ZZᵀ = XXᵀ (rows about their mean): the same ridge fits, in as few columns as X allows.

    Weights w = Qv of X have the scores Zv and the norm of v.

    Parameters
    ----------
    Z : (n, k) array
    expand : callable
        v ↦ Qv.
    intercept : bool
    center : (d,) array or None
        What was subtracted from the rows of X.
    has_own_columns : bool
    correlated : bool
        Whether Z is a long eigenbasis, made because columns of X are correlated.
    """

    def __init__(
        self,
        Z: Floats,
        expand: Callable[[Floats], Floats],
        intercept: bool,
        center: Floats | None = None,
        has_own_columns: bool = True,
        correlated: bool = False,
    ) -> None:
        super().__init__(Z, intercept)
        self.expand, self.center, self.has_own_columns = expand, center, has_own_columns
        self.correlated = correlated
        self.has_rare_columns = False


class TriangularRows(RotatedRows):
    """Rotated rows that are a lower triangle, whose zeros are not multiplied.

    By a few blocks of rows, that takes two thirds of the time.
    """

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        yield slice(0, self.shape[0]), self.X

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        edges = np.linspace(0, self.shape[0], plan.TRIANGLE_BLOCKS + 1).astype(int).tolist()
        return list(pairwise(edges))

    def ahead(self, X: Any, V: Any) -> Any:
        if not self._is_whole(X, V):
            return super().ahead(X, V)
        out = np.empty((len(X), *V.shape[1:]), dtype=V.dtype)
        for start, stop in self._bounds:
            np.matmul(X[start:stop, :stop], V[:stop], out=out[start:stop])
        return out

    def back(self, X: Any, U: Any) -> Any:
        if not self._is_whole(X, U):
            return super().back(X, U)
        out = np.empty((X.shape[1], *U.shape[1:]), dtype=U.dtype)
        for start, stop in self._bounds:
            np.matmul(X[start:, start:stop].T, U[start:], out=out[start:stop])
        return out

    def _is_whole(self, X: Any, V: Any) -> bool:
        """Whether X is the whole triangle, multiplied in its own precision by many columns."""
        many = V.ndim == 2 and V.shape[1] > plan.FEW_COLUMNS
        return many and len(X) == X.shape[1] and X.dtype == V.dtype
