"""Rows that are read anew on every pass, and the pieces in which their blocks are worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import as_double, is_tensor, placed_like, slices
from angcal.rows.base import Rows, added, own_columns, there_and_back, weighted_images
from angcal.rows.memory import backward_product, forward_product


def _far_product(X: Any, V: Any) -> Any:
    """As `forward_product`, of rows that are in double precision whatever V is."""
    if V.dtype == np.float64 or is_tensor(X):
        return forward_product(X, V)
    found = np.empty((X.shape[0], *V.shape[1:]), dtype=V.dtype)
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, V.dtype, reuse=True):
        found[part] = x @ V
    return found


def _far_curve(intercept: bool, X: Any, V: Any, D: Any) -> Any:
    """As `there_and_back`, piece by piece, into arrays that are used again.

    Workers of a cluster give memory back at once, and taking it anew made this half as long again.
    """
    if is_tensor(X):
        return there_and_back(forward_product, backward_product, intercept, X, V, D)
    d, k = X.shape[1], V.shape[1]
    slopes, last = np.zeros((k, d)), np.zeros((len(V) - d, k))
    back = np.empty((k, d), dtype=V.dtype)
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, V.dtype, reuse=True):
        weighted = weighted_images(np.matmul, intercept, x, V, D[part])
        slopes += np.matmul(weighted.T, x, out=back)
        last += weighted.sum(axis=0)
    return np.vstack([slopes.T, last]).astype(V.dtype, copy=False)


class FarRows(Rows):
    """Rows that are read anew on every pass, so that passes are what a fit costs.

    Everything is asked of `sum` and `map`, by functions that may travel to where the blocks are;
    ``passes`` counts these. Entries are widened to double precision, or narrowed to single by
    products of `single`.

    Attributes
    ----------
    streamed : bool
        Whether blocks come from files each time, rather than from memory somewhere else.
    narrows : bool
        Whether `single` keeps a copy, so that rough products take half the time.
    """

    far = True
    streamed = True
    narrows = False
    _holds_single = True
    _columns: Floats | None = None
    _marks: np.ndarray | None = None
    ahead = staticmethod(_far_product)
    back = staticmethod(backward_product)
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
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> Any:
        self.passes += 1
        found = Stacked(self.shape[0])
        for rows, block in self.blocks():
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
        """The same rows, which are multiplied in single precision where that tells them apart."""
        if self._dtype == np.float32 or not self._origin._holds_single:
            return self
        rows = copy(self)
        rows._counter, rows._dtype = self, np.float32
        return rows

    def refuse_single(self) -> None:
        """From now on `single` leaves rows as they are."""
        self._origin._holds_single = False

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
        for part, rows in dense_parts(X, plan.PIECE_ENTRIES, reuse=True):
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
    parts = ((squares.T @ weights[part], squares.max(axis=0)) for part, squares in _squared(X))
    nothing = np.zeros((X.shape[1], *weights.shape[1:])), np.zeros(X.shape[1])
    return reduce(_totals_and_peaks, parts, nothing)


def _squared(X: Any) -> Iterator[tuple[slice, Floats]]:
    """x_ij² in pieces, each in the place of the last one."""
    if is_tensor(X):
        yield from ((part, x * x) for part, x in dense_parts(X))
        return
    buffer: Any = None
    for part, x in dense_parts(X, plan.CACHE_ENTRIES, reuse=True):
        buffer = np.empty(x.shape) if buffer is None else buffer
        yield part, np.square(x, out=buffer[: len(x)])


def _totals_and_peaks(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return a[0] + b[0], np.maximum(a[1], b[1])


def _sizes_of_block(
    X: Any, slopes: Floats, columns: np.ndarray, diagonal: Floats, weights: Floats
) -> Floats:
    sizes = np.empty((X.shape[0], *slopes.shape[1:]))
    for part, squares in _squared(X):
        sizes[part] = squares @ slopes
        if len(columns):
            sizes[part] += own_columns(squares, columns, diagonal, weights[part])
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
        found = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        for rows, block in self.blocks():
            here = np.flatnonzero((index >= rows.start) & (index < rows.stop))
            found[here] = block[index[here] - rows.start]
        return found
