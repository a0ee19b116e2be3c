"""What every storage of X̃ = [X 1] has: blocks, two verbs over them, products and moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import concatenate, namespace_of, on_host, slices


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
    is_rough : bool
        Whether products are good to three digits only.
    passes : int
        Products with X so far.
    """

    far = False
    is_rough = False
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
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> Any:
        """f(X_b, *shared, *v_b) of all blocks, stacked."""
        parts = [f(block, *shared, *(v[rows] for v in vectors)) for rows, block in self.blocks()]
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
        return with_intercept(self.sum(self.back, (), (U,)), U, self.intercept)

    def image(self, V: Floats) -> Floats:
        """X̃V in double precision on the host."""
        return np.asarray(self.forward(V), dtype=np.float64)

    def pull(self, U: Floats) -> Floats:
        """X̃ᵀU in double precision on the host."""
        return np.asarray(self.backward(U), dtype=np.float64)

    def curve(self, V: Any, D: Any) -> Any:
        """X̃ᵀDX̃V while a block is at hand; D is (n, 1), or (n, m) for m groups of V's columns."""
        self._count(2)
        f = partial(there_and_back, self.ahead, self.back, self.intercept)
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
            moments += on_host(self.against(squares.T, placed[rows]))
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
            sizes[rows] = on_host(self.against(squares, slopes))
            if len(columns):
                exact = self.exact_squares(rows, squares)
                sizes[rows] += own_columns(exact, columns, diagonal[columns], weights[rows])
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

    def against(self, squares: Any, V: Any) -> Any:
        """Products of squares, or of their transpose, with one or more columns."""
        return squares @ V

    def exact_squares(self, rows: slice, squares: Any) -> Any:
        """Squares of these rows that differences can be taken of."""
        return squares

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


def with_intercept(slopes: Any, U: Any, intercept: bool) -> Any:
    """X̃ᵀU from XᵀU."""
    if not intercept:
        return slopes
    xp = namespace_of(U)
    return concatenate([slopes, xp.sum(U, axis=0)[None, ...]], xp)


def there_and_back(
    ahead: Callable[[Any, Any], Any],
    back: Callable[[Any, Any], Any],
    intercept: bool,
    X: Any,
    V: Any,
    D: Any,
) -> Any:
    """X̃_bᵀD_bX̃_bV."""
    weighted = weighted_images(ahead, intercept, X, V, D)
    return with_intercept(back(X, weighted), weighted, intercept)


def weighted_images(
    ahead: Callable[[Any, Any], Any], intercept: bool, X: Any, V: Any, D: Any
) -> Any:
    """D_bX̃_bV."""
    d, m = X.shape[1], D.shape[1]
    images = ahead(X, V[:d])
    images = images + V[d:] if intercept else images
    if m == 1:
        return D * images
    return (images.reshape(len(images), m, -1) * D[:, :, None]).reshape(images.shape)


def own_columns(all_squares: Any, columns: np.ndarray, diagonal: Floats, weights: Floats) -> Floats:
    """Σ_j x_ij²/(m_j − ω_i x_ij²) over some columns."""
    xp = namespace_of(all_squares)
    place = columns if xp is np else xp.asarray(columns, device=all_squares.device)
    squares = on_host(all_squares[:, place])
    if diagonal.ndim == 2:
        squares = squares[:, :, None]
    return (squares / (diagonal - weights[:, None] * squares)).sum(axis=1)
