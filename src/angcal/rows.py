r"""X̃ = [X 1]: the rows of a design with their intercept column, wherever they are stored.

Every algorithm above this module is written once, for any storage, with two verbs:

    rows.sum(f, shared, vectors)    Σ_b f(X_b, *shared, *v_b): gradients, Gram matrices, moments
    rows.map(f, shared, vectors)    the same, stacked: one value or line per row

over blocks of rows, v_b the block's part of vectors that have an entry or a line for each row; and
the products that follow from them,

    forward(V)     X̃V                (n, k)
    backward(U)    X̃ᵀU               (d + 1, k), its last line that of the intercept
    curve(V, D)    X̃ᵀDX̃V             both in one pass

Storages: :class:`DenseRows` (NumPy), :class:`SparseRows` (SciPy), :class:`TensorRows` (any library
that follows the array API, on any device), :class:`RotatedRows` (the same inner products in fewer
columns, for ridge penalties) and :class:`FarRows`, which are read anew on every pass:
:class:`BlockRows` (memory maps, lists of blocks, callables) and those of :mod:`angcal.dask`.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import linalg, sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import (
    as_double,
    concatenate,
    is_tensor,
    namespace_of,
    on_host,
    placed_like,
    product,
    slices,
    transposed_product,
)


def added(a: Any, b: Any) -> Any:
    """a + b, part by part where they are tuples."""
    return tuple(map(added, a, b)) if isinstance(a, tuple) else a + b


def _as_they_are(values: Any) -> Any:
    return values


class Rows(ABC):
    """X̃ in one storage; see the module.

    Attributes
    ----------
    shape : (int, int)
        (n, d), without the intercept column.
    intercept : bool
        Whether X̃ has a column of ones after those of X.
    has_own_columns : bool
        Whether the columns mean something by themselves, so that scaling steps by their moments
        helps. Those of a Cholesky factor do not.
    far : bool
        Whether every pass reads the rows anew (:class:`FarRows`).
    passes : int
        Products with X so far.
    """

    far = False
    has_own_columns = True
    # Columns that are zero in most rows are those of X itself: a rotation mixes all of them.
    has_rare_columns = True
    # The value of one product in double precision does not depend on the storage's own precision.
    xp: Any = np
    # Weights of X from those of these rows, where these are in other columns, and their center.
    expand: Callable[[Floats], Floats] = staticmethod(_as_they_are)
    center: Floats | None = None

    def __init__(self, shape: tuple[int, int], intercept: bool) -> None:
        self.shape, self.intercept = (int(shape[0]), int(shape[1])), bool(intercept)
        self.passes = 0
        self._peaks: Floats | None = None

    @property
    def in_memory(self) -> Matrix | None:
        """X as one NumPy or sparse matrix, or None where it is not."""
        return None

    @property
    def width(self) -> int:
        """Columns of X̃."""
        return self.shape[1] + self.intercept

    @abstractmethod
    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        """(rows, X_b) in order, each block such that rows × entries_per_row stay bounded."""

    @abstractmethod
    def take(self, index: np.ndarray) -> Any:
        """Dense rows of X by number."""

    @abstractmethod
    def single(self) -> Rows:
        """The same rows in single precision, or as they are where that is not ours to choose."""

    def sum(
        self,
        f: Callable[..., Any],
        shared: Sequence[Any] = (),
        vectors: Sequence[Any] = (),
        *,
        merge: Callable[[Any, Any], Any] = added,
        entries_per_row: int = 0,
    ) -> Any:
        """Σ_b f(X_b, *shared, *v_b), arrays or tuples of them; ``merge`` where they do not add.

        f has to be a function of a module, or a `functools.partial` of one: it may have to travel.
        """
        total = None
        for rows, block in self.blocks(entries_per_row):
            part = f(block, *shared, *(v[rows] for v in vectors))
            total = part if total is None else merge(total, part)
        return total

    def map(
        self,
        f: Callable[..., Any],
        shared: Sequence[Any] = (),
        vectors: Sequence[Any] = (),
        *,
        entries_per_row: int = 0,
    ) -> Any:
        """f(X_b, *shared, *v_b) of all blocks, stacked."""
        parts = [
            f(block, *shared, *(v[rows] for v in vectors))
            for rows, block in self.blocks(entries_per_row)
        ]
        return parts[0] if len(parts) == 1 else concatenate(parts, self.xp)

    def _count(self, products: int) -> None:
        self.passes += products

    # -- products ----------------------------------------------------------------------------

    def ahead(self, X: Any, V: Any) -> Any:
        """X_bV of one block, without the intercept."""
        return X @ V

    def back(self, X: Any, U: Any) -> Any:
        """X_bᵀU of one block, without the intercept."""
        return X.T @ U

    def forward(self, V: Any) -> Any:
        """X̃V for (d + 1, k) columns, or one of them."""
        self._count(1)
        d = self.shape[1]
        images = self.map(self.ahead, (V[:d],))
        return images + V[d:] if self.intercept else images

    def backward(self, U: Any) -> Any:
        """X̃ᵀU for (n, k) columns, or one of them."""
        self._count(1)
        return _with_intercept(self.sum(self.back, (), (U,)), U, self.intercept)

    def image(self, V: Floats) -> Floats:
        """X̃V in double precision on the host."""
        return np.asarray(self.forward(V), dtype=np.float64)

    def pull(self, U: Floats) -> Floats:
        """X̃ᵀU in double precision on the host."""
        return np.asarray(self.backward(U), dtype=np.float64)

    def curve(self, V: Any, D: Any) -> Any:
        """X̃ᵀDX̃V while a block is at hand; D is (n, 1), or (n, m) for m groups of V's columns."""
        self._count(2)
        f = partial(_there_and_back, self.ahead, self.back, self.intercept)
        return self.sum(f, (V,), (D,), entries_per_row=V.shape[1])

    def place(self, values: Any) -> Any:
        """Values as an array of this storage's library, type and device."""
        return np.asarray(values, dtype=self.dtype)

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Type of the entries."""

    def lines(self, index: np.ndarray) -> Any:
        """Rows x̃ by number, (k, d + 1)."""
        block = self.take(index)
        if not self.intercept:
            return block
        return concatenate([block, self.place(np.ones((len(index), 1)))], self.xp, axis=1)

    # -- moments -----------------------------------------------------------------------------

    def column_squares(self, weights: Floats) -> tuple[Floats, Floats]:
        """(Σ_i ω_i x_ij², max_i x_ij²) of every column, in one pass; ω is (n,) or (n, m)."""
        self._count(1)
        moments = np.zeros((self.shape[1], *weights.shape[1:]))
        first = self._peaks is None
        peaks = np.zeros(self.shape[1]) if self._peaks is None else self._peaks
        placed = self.place(weights)
        for rows, squares in self._squares():
            moments += on_host(squares.T @ placed[rows])
            if first:
                peaks = np.maximum(peaks, on_host(self.xp.max(squares, axis=0)))
        self._peaks = peaks
        return moments, peaks

    def row_sizes(self, diagonal: Floats, peaks: Floats, weights: Floats) -> Floats:
        r"""q_i = Σ_j x_ij²/(m_j − ω_i x_ij²): how far a row reaches, with m_j a Hessian's diagonal.

        q_i is the quadratic form of row i with the diagonal of the others' Hessian in place of the
        Hessian. The row's own share ω_i x_ij² of m_j hardly matters in a column that many rows
        share, and is all but everything in a column that is zero in most rows: there it is left
        out. ``diagonal`` is (d,) or (d, m), ``weights`` (n,) or (n, m), the result (n,) or (n, m).
        """
        self._count(1)
        slopes, columns = self._shared_slopes(diagonal, peaks, weights)
        slopes = self.place(slopes)
        sizes = np.empty((self.shape[0], *diagonal.shape[1:]))
        for rows, squares in self._squares():
            sizes[rows] = on_host(squares @ slopes)
            if len(columns):
                sizes[rows] += _own_columns(squares, columns, diagonal[columns], weights[rows])
        return sizes

    def _shared_slopes(
        self, diagonal: Floats, peaks: Floats, weights: Floats
    ) -> tuple[Floats, np.ndarray]:
        """1/m_j, zero in columns that a row may have to itself; and these columns."""
        largest = weights.max(axis=0, initial=0.0)
        expanded = peaks.reshape(-1, *[1] * (diagonal.ndim - 1))
        own = largest * expanded > plan.LARGEST_OWN_SHARE * diagonal
        own = own if own.ndim == 1 else own.any(axis=1)
        own &= self.has_rare_columns
        inverse = 1.0 / diagonal
        inverse[own] = 0.0
        return inverse, np.flatnonzero(own)

    def _squares(self) -> Iterator[tuple[slice, Any]]:
        """x_ij² in blocks that stay in the cache."""
        for rows, X in self.blocks():
            for part in slices(X.shape[0], plan.CACHE_ENTRIES, self.shape[1]):
                block = X[part]
                yield slice(rows.start + part.start, rows.start + part.stop), block * block

    def dense_blocks(self, dtype: Any = np.float64) -> Iterator[tuple[slice, Floats]]:
        """Dense blocks of bounded size as NumPy arrays."""
        for rows, X in self.blocks():
            for part in slices(X.shape[0], plan.BLOCK_ENTRIES, self.shape[1]):
                block = X[part]
                block = block.toarray() if sparse.issparse(block) else block
                yield (
                    slice(rows.start + part.start, rows.start + part.stop),
                    np.asarray(on_host(block) if self.xp is not np else block, dtype=dtype),
                )


def _with_intercept(slopes: Any, U: Any, intercept: bool) -> Any:
    """X̃ᵀU from XᵀU."""
    if not intercept:
        return slopes
    xp = namespace_of(U)
    return concatenate([slopes, xp.sum(U, axis=0)[None, ...]], xp)


def _there_and_back(
    ahead: Callable[[Any, Any], Any],
    back: Callable[[Any, Any], Any],
    intercept: bool,
    X: Any,
    V: Any,
    D: Any,
) -> Any:
    """X̃_bᵀD_bX̃_bV."""
    d, m = X.shape[1], D.shape[1]
    images = ahead(X, V[:d])
    images = images + V[d:] if intercept else images
    if m == 1:
        weighted = D * images
    else:
        weighted = (images.reshape(len(images), m, -1) * D[:, :, None]).reshape(images.shape)
    return _with_intercept(back(X, weighted), weighted, intercept)


def _own_columns(
    all_squares: Any, columns: np.ndarray, diagonal: Floats, weights: Floats
) -> Floats:
    """Σ_j x_ij²/(m_j − ω_i x_ij²) over some columns."""
    xp = namespace_of(all_squares)
    place = columns if xp is np else xp.asarray(columns, device=all_squares.device)
    squares = on_host(all_squares[:, place])
    if diagonal.ndim == 2:
        squares = squares[:, :, None]
    return (squares / (diagonal - weights[:, None] * squares)).sum(axis=1)


def _ahead(X: Any, V: Any) -> Any:
    """XV, in the precision of V."""
    if V.dtype == np.float64:
        return product(X, V)
    return (V.T @ X.T).T if _is_large(X, V) else X @ V


def _back(X: Any, U: Any) -> Any:
    """XᵀU, in the precision of U."""
    if U.dtype == np.float64:
        return transposed_product(X, U)
    return (U.T @ X).T if _is_large(X, U) else X.T @ U


def _is_large(X: Any, V: Any) -> bool:
    """Whether transposed products of a few columns are faster: by a quarter, beyond the cache."""
    return V.ndim == 2 and X.size > plan.BLOCK_ENTRIES


def _far_ahead(X: Any, V: Any) -> Any:
    """As `_ahead`, of rows that are in double precision whatever V is."""
    if V.dtype == np.float64 or is_tensor(X):
        return _ahead(X, V)
    found = np.empty((X.shape[0], *V.shape[1:]), dtype=V.dtype)
    for part, x in dense_parts(X, plan.GRAM_ENTRIES, V.dtype, reuse=True):
        found[part] = x @ V
    return found


def _far_curve(intercept: bool, X: Any, V: Any, D: Any) -> Any:
    """As `_there_and_back`, piece by piece."""
    if is_tensor(X):
        return _there_and_back(_ahead, _back, intercept, X, V, D)
    total = np.zeros(V.shape)
    for part, x in dense_parts(X, plan.GRAM_ENTRIES, V.dtype, reuse=True):
        total += _there_and_back(np.matmul, _transposed, intercept, x, V, D[part])
    return total.astype(V.dtype, copy=False)


def _transposed(X: Any, U: Any) -> Any:
    return X.T @ U


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
        n = self.shape[0]
        if n * entries_per_row <= plan.PRODUCT_ENTRIES:
            yield slice(0, n), self.X
            return
        for rows in slices(n, plan.PRODUCT_ENTRIES, entries_per_row):
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
            self._kept_squares = np.square(self.X)
        yield slice(0, self.shape[0]), self._kept_squares

    def ahead(self, X: Any, V: Any) -> Any:
        return _ahead(X, V)

    def back(self, X: Any, U: Any) -> Any:
        return _back(X, U)


class SparseRows(DenseRows):
    """Rows of a SciPy sparse matrix."""

    def take(self, index: np.ndarray) -> Floats:
        return self.X[index].toarray()

    def ahead(self, X: Any, V: Any) -> Any:
        return np.asarray(X @ V)

    def back(self, X: Any, U: Any) -> Any:
        return np.asarray(X.T @ U)

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


class TensorRows(Rows):
    """Rows of a tensor of a library that follows the array API, on any device."""

    def __init__(self, X: Any, intercept: bool) -> None:
        super().__init__(X.shape, intercept)
        self.X, self.xp = X, namespace_of(X)

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    @property
    def whole(self) -> Any:
        """All rows as one tensor."""
        return self.X

    def place(self, values: Any) -> Any:
        return placed_like(values, self.X)

    def image(self, V: Floats) -> Floats:
        return on_host(self.forward(self.place(V)))

    def pull(self, U: Floats) -> Floats:
        return on_host(self.backward(self.place(U)))

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        yield slice(0, self.shape[0]), self.X

    def take(self, index: np.ndarray) -> Any:
        return self.X[self.xp.asarray(index, device=self.X.device), :]

    def single(self) -> TensorRows:
        return self

    @property
    def marks(self) -> Floats:
        """As those of `FarRows`."""
        directions = np.random.default_rng(0).normal(size=(self.shape[1], 3))
        return on_host(self.ahead(self.X, self.place(directions)))

    def mean(self, axis: int = 0) -> Floats:
        """Means of the columns, as arrays have them."""
        assert axis == 0
        return self.pull(np.ones(self.shape[0]))[: self.shape[1]] / self.shape[0]

    # Which of two equal products is faster on a GPU was measured: the transposed one, except Xᵀ
    # of a wide X.
    def ahead(self, X: Any, V: Any) -> Any:
        return (V.T @ X.T).T if V.ndim == 2 else X @ V

    def back(self, X: Any, U: Any) -> Any:
        narrow = self.shape[1] < plan.WIDE_TENSOR
        return (U.T @ X).T if narrow and U.ndim == 2 else X.T @ U

    def _squares(self) -> Iterator[tuple[slice, Any]]:
        for rows in slices(self.shape[0], plan.DEVICE_ENTRIES, self.shape[1]):
            block = self.X[rows, :]
            yield rows, block * block


class ScaledTensorRows(TensorRows):
    """Columns of a tensor times factors, without a copy of it: products are multiplied instead."""

    def __init__(self, X: Any, intercept: bool, factors: Floats) -> None:
        super().__init__(X, intercept)
        self._plain, self._factors = TensorRows(X, intercept), self.place(factors)

    @property
    def whole(self) -> Any:
        return self.X * self._factors

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        for rows in slices(self.shape[0], plan.PRODUCT_ENTRIES, self.shape[1]):
            yield rows, self.X[rows, :] * self._factors

    def take(self, index: np.ndarray) -> Any:
        return super().take(index) * self._factors

    def forward(self, V: Any) -> Any:
        self._count(1)
        return self._plain.forward(self._lines(V))

    def backward(self, U: Any) -> Any:
        self._count(1)
        return self._lines(self._plain.backward(U))

    def curve(self, V: Any, D: Any) -> Any:
        self._count(2)
        return self._lines(self._plain.curve(self._lines(V), D))

    def _squares(self) -> Iterator[tuple[slice, Any]]:
        for rows, block in self.blocks():
            yield rows, block * block

    def _lines(self, V: Any) -> Any:
        """Lines of columns times the columns' factors; that of the intercept as it is."""
        d, factors = self.shape[1], self._factors
        slopes = V[:d] * (factors if V.ndim == 1 else factors[:, None])
        return concatenate([slopes, V[d:]], self.xp) if self.intercept else slopes


class FarRows(Rows):
    """Rows that are read anew on every pass, so that passes are what a fit costs.

    Everything is asked of `sum` and `map`, by functions that may travel to where the blocks are;
    ``passes`` counts these. Entries are widened to double precision, or narrowed to single by
    products of `single`.

    Attributes
    ----------
    streamed : bool
        Whether blocks come from files each time, rather than from memory somewhere else.
    """

    far = True
    streamed = True
    _columns: Floats | None = None
    _marks: np.ndarray | None = None
    ahead = staticmethod(_far_ahead)
    back = staticmethod(_back)
    _dtype: Any = np.float64
    _passes = 0
    _counter: FarRows | None = None

    @property
    def dtype(self) -> Any:
        return np.dtype(self._dtype)

    @property
    def _origin(self) -> FarRows:
        """The rows as given, of which these are some other form."""
        return self if self._counter is None else self._counter._origin

    @property
    def passes(self) -> int:
        """Passes so far, in whatever precision and columns."""
        return self._origin._passes

    @passes.setter
    def passes(self, count: int) -> None:
        self._origin._passes = count

    def curve(self, V: Any, D: Any) -> Any:
        return self.sum(partial(_far_curve, self.intercept), (V,), (D,))

    def _count(self, products: int) -> None:
        """Passes are counted where they are made."""

    def sum(self, *arguments: Any, **options: Any) -> Any:
        self.passes += 1
        return super().sum(*arguments, **options)

    def map(
        self,
        f: Callable[..., Any],
        shared: Sequence[Any] = (),
        vectors: Sequence[Any] = (),
        *,
        entries_per_row: int = 0,
    ) -> Any:
        self.passes += 1
        found = Stacked(self.shape[0])
        for rows, block in self.blocks(entries_per_row):
            found.put(rows, f(block, *shared, *(v[rows] for v in vectors)))
        return found.values

    def sweep(
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> tuple[Any, Any]:
        """(map, sum) of a function that returns both for its block, in one pass."""
        self.passes += 1
        found, total = Stacked(self.shape[0]), None
        for rows, block in self.blocks():
            lines, part = f(block, *shared, *(v[rows] for v in vectors))
            found.put(rows, lines)
            total = part if total is None else added(total, part)
        return found.values, total

    def forward(self, V: Any) -> Any:
        images = self.map(self.ahead, (V[: self.shape[1]],))
        if self.intercept:
            images += V[self.shape[1] :]
        return images

    def image_and_marks(self, V: Floats) -> Floats:
        """X̃V; the same pass brings `marks`, which would take one of their own."""
        return self.split_marks(self.forward(np.hstack([V, self.directions])))

    def split_marks(self, images: Floats) -> Floats:
        """X̃V of X̃[V, `directions`]; the rest is kept as `marks`."""
        # Only whether they differ is asked: in single precision, from 0 to 1.
        own, marks = images[:, -3:], np.empty((len(images), 3), np.float32)
        low, high = own.min(axis=0), own.max(axis=0)
        unit = np.maximum(high - low, np.finfo(float).tiny)
        for part in slices(len(own), plan.BLOCK_ENTRIES):
            marks[part] = (own[part] - low) / unit
        self._origin._marks = marks  # copies are copies in whatever columns
        return np.ascontiguousarray(images[:, :-3])

    @property
    def marks(self) -> np.ndarray:
        """Rows along three random directions, (n, 3), by which copies of rows are found.

        In units of their range, from 0.
        """
        if self._origin._marks is None:
            self.split_marks(self.forward(self.directions))
        assert self._origin._marks is not None
        return self._origin._marks

    def forget_marks(self) -> None:
        """Give their memory back; they would take a pass of their own if asked for again."""
        self._origin._marks = None

    @property
    def directions(self) -> Floats:
        """Those of `marks`, (d + 1, 3)."""
        directions = np.random.default_rng(0).normal(size=(self.shape[1], 3))
        return np.vstack([directions, np.zeros((int(self.intercept), 3))])

    def in_columns(self, T: Floats) -> FarRows:
        """Rows XT, multiplied as they are read: by (d,) factors, then if at all by a matrix."""
        rows, before = copy(self), self._columns
        rows._counter, rows._columns = self, T if before is None else (before * T.T).T
        if T.ndim == 2:
            rows.expand, rows.has_rare_columns = partial(np.matmul, T), False
        return rows

    def single(self) -> FarRows:
        """The same rows, which are multiplied in single precision."""
        if self._dtype == np.float32:
            return self
        rows = copy(self)
        rows._counter, rows._dtype = self, np.float32
        return rows

    def column_squares(self, weights: Floats) -> tuple[Floats, Floats]:
        return self.sum(_squares_of_block, (), (weights,), merge=_totals_and_peaks)

    def row_sizes(self, diagonal: Floats, peaks: Floats, weights: Floats) -> Floats:
        slopes, columns = self._shared_slopes(diagonal, peaks, weights)
        return self.map(_sizes_of_block, (slopes, columns, diagonal[columns]), (weights,))

    def mean(self, axis: int = 0) -> Floats:
        """Means of the columns, as arrays have them."""
        assert axis == 0
        return self.sum(_total_of_block) / self.shape[0]


class Stacked:
    """Lines of n rows that come block by block; never twice in memory."""

    def __init__(self, n: int) -> None:
        self._n, self.values = n, np.empty(0)

    def put(self, rows: slice, lines: Floats) -> None:
        """Lines of these rows."""
        if rows.start == 0:
            self.values = np.empty((self._n, *lines.shape[1:]), dtype=lines.dtype)
        self.values[rows] = lines


def dense_parts(
    X: Any, entries: int = plan.BLOCK_ENTRIES, dtype: Any = np.float64, reuse: bool = False
) -> Iterator[tuple[slice, Floats]]:
    """Rows of a block in dense pieces of bounded size, where they are, as doubles or as asked.

    With ``reuse`` a piece that had to be converted is overwritten by the next one. Workers of a
    cluster give memory back at once, and taking it anew would cost as much as the work on it.
    """
    tensor = is_tensor(X)
    entries = plan.DEVICE_ENTRIES if tensor else entries
    buffer: Any = None
    for part in slices(X.shape[0], entries, X.shape[1]):
        piece = X[part]
        piece = piece.toarray() if sparse.issparse(piece) else piece
        if tensor:
            yield part, as_double(piece)
        elif not reuse or piece.dtype == dtype:
            with np.errstate(over="ignore"):  # ends as infinity, which is looked for
                yield part, np.asarray(piece, dtype=dtype)
        else:
            buffer = np.empty(piece.shape, dtype=dtype) if buffer is None else buffer
            with np.errstate(over="ignore"):
                buffer[: len(piece)] = piece
            yield part, buffer[: len(piece)]


def times_columns(X: Any, T: Floats) -> Any:
    """XT for (d,) factors, of X's kind, or for a (d, k) matrix, in double precision."""
    if T.ndim == 2:
        found = np.empty((X.shape[0], T.shape[1]))
        for part, rows in dense_parts(X, plan.GRAM_ENTRIES, reuse=True):
            np.matmul(rows, T, out=found[part])
        return found
    if sparse.issparse(X):
        return (X @ sparse.diags_array(T)).tocsr()
    if is_tensor(X):
        return X * placed_like(T, X)
    return np.multiply(X, T.astype(X.dtype) if X.dtype.kind == "f" else T, order="C")


def _total_of_block(X: Any) -> Floats:
    return np.asarray(X.sum(axis=0), dtype=np.float64).ravel()


def _squares_of_block(X: Any, weights: Floats) -> tuple[Floats, Floats]:
    parts = [
        (squares.T @ weights[part], squares.max(axis=0))
        for part, squares in ((p, np.square(x)) for p, x in dense_parts(X, plan.CACHE_ENTRIES))
    ]
    return reduce(_totals_and_peaks, parts)


def _totals_and_peaks(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return a[0] + b[0], np.maximum(a[1], b[1])


def _sizes_of_block(
    X: Any, slopes: Floats, columns: np.ndarray, diagonal: Floats, weights: Floats
) -> Floats:
    sizes = np.empty((X.shape[0], *slopes.shape[1:]))
    for part, rows in dense_parts(X, plan.CACHE_ENTRIES):
        squares = np.square(rows)
        sizes[part] = squares @ slopes
        if len(columns):
            sizes[part] += _own_columns(squares, columns, diagonal, weights[part])
    return sizes


class BlockRows(FarRows):
    """Rows that come in blocks, read anew on every pass: memory maps, lists, callables.

    Parameters
    ----------
    source : callable
        Returns an iterator of (k, d) arrays or sparse matrices, the same ones each time.
    shape : (int, int)
    intercept : bool
    """

    def __init__(
        self, source: Callable[[], Iterable[Matrix]], shape: tuple[int, int], intercept: bool
    ) -> None:
        super().__init__(shape, intercept)
        self._source = source

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        most = max(entries_per_row, self.shape[1], 1)
        start = 0
        for block in self._source():
            block = block if sparse.issparse(block) else np.asarray(block)
            for part, piece in dense_parts(block, plan.BLOCK_ENTRIES * self.shape[1] // most):
                own = piece if self._columns is None else times_columns(piece, self._columns)
                yield slice(start + part.start, start + part.stop), own
            start += block.shape[0]
        if start != self.shape[0]:
            raise ValueError(
                f"the blocks of X hold {start} rows on this pass and {self.shape[0]} before; pass "
                "a callable that returns the same blocks each time."
            )

    def take(self, index: np.ndarray) -> Floats:
        self.passes += 1
        found = np.empty((len(index), self.shape[1]))
        for rows, block in self.blocks():
            here = np.flatnonzero((index >= rows.start) & (index < rows.stop))
            found[here] = block[index[here] - rows.start]
        return found


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


# -- fewer columns ---------------------------------------------------------------------------


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
    rows = rows if center is None else rows - center
    n, d = rows.shape
    side = min(n, d)
    short = side <= plan.LONGEST_EIGENBASIS
    correlated = not short and side <= plan.LONGEST_CORRELATED_BASIS and _is_correlated(rows)
    if d <= n and (short or correlated):
        basis = column_basis(rows)
        turned = rows @ basis
        return RotatedRows(turned, lambda v: basis @ v, intercept, center, correlated=correlated)
    wide = n <= plan.MOST_GRAM_ROWS and d >= plan.FEWEST_COLUMNS_PER_ROW * n
    if n < d and (wide or short or correlated):
        gram = rows @ rows.T
        return rows_of_gram(gram, lambda a: rows.T @ a, intercept, center, correlated)
    return RotatedRows(rows, lambda v: v, intercept, center)


def _about_large_means(X: Any, weights: Floats) -> Rows:
    """Sparse rows whose columns are about their mean where that is large beside their deviation.

    Such a column has few zeros, so that its deviations take at most twice its memory.
    """
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share, dtype=np.float64)
    squares = np.asarray(X.multiply(X).T @ share, dtype=np.float64)
    with np.errstate(over="ignore"):
        large = np.flatnonzero(mean**2 > plan.LARGE_MEAN * squares)
    if not len(large):
        return as_rows(X, True)
    n, center = X.shape[0], np.zeros(X.shape[1])
    center[large] = mean[large]
    entries = (np.tile(mean[large], n), np.tile(large, n), len(large) * np.arange(n + 1))
    rows = as_rows(sparse.csr_array(X - sparse.csr_array(entries, shape=X.shape)), True)
    rows.center = center
    return rows


def _is_correlated(X: Floats) -> bool:
    """Whether XᵀX has a much larger eigenvalue than it would have with independent entries.

    That is (1 + √(short side / long side))² times their mean; by four steps of the power method.
    """
    along: Any = np.random.default_rng(0).normal(size=X.shape[1])
    for _ in range(4):
        along = X.T @ (X @ (along / max(float(np.linalg.norm(along)), np.finfo(float).tiny)))
    short, long = sorted(X.shape)
    usual = float(np.einsum("ij,ij->", X, X)) / short * (1.0 + np.sqrt(short / long)) ** 2
    return float(np.linalg.norm(along)) > plan.CORRELATED * usual


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
    if correlated or n <= plan.LONGEST_EIGENBASIS:
        values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        kept = values > plan.RANK_TOLERANCE * max(float(values[-1]), 1e-300)
        lengths, U = np.sqrt(values[kept]), vectors[:, kept]

        def expand_eigen(v: Floats) -> Floats:
            # X = ZQᵀ, hence Q = XᵀUΛ^-½.
            return back(U @ (v.T / lengths).T)

        return RotatedRows(U * lengths, expand_eigen, intercept, center, correlated=correlated)
    gram[np.diag_indices(n)] += plan.GRAM_JITTER * max(float(np.trace(gram)) / n, 1e-300)
    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)

    def expand(v: Floats) -> Floats:
        # X = LQᵀ, hence Q = XᵀL⁻ᵀ.
        return back(linalg.solve_triangular(factor, v, lower=True, trans=1))

    return RotatedRows(factor, expand, intercept, center, has_own_columns=False)
