"""Rows of a tensor of a library that follows the array API, on any device."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import concatenate, has_room_for_half, namespace_of, on_host, placed_like, slices
from angcal.rows.base import Rows


class TensorRows(Rows):
    """Rows of a tensor of a library that follows the array API, on any device."""

    def __init__(self, X: Any, intercept: bool) -> None:
        super().__init__(X.shape, intercept)
        self.X, self.xp = X, namespace_of(X)
        self._rough: TensorRows | None = None

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
        # One copy serves a fit and its leverages.
        if self._rough is None and has_room_for_half(self.X):
            self._rough = HalfTensorRows(self)
        return self if self._rough is None else self._rough

    def marks(self, rows: np.ndarray | slice = slice(None)) -> Floats:
        """As those of `FarRows`, of some rows."""
        directions = self.place(np.random.default_rng(0).normal(size=(3, self.shape[1])))
        X = self.X if isinstance(rows, slice) else self.take(rows)
        # One by one: a product with three columns takes as long as five with one.
        return on_host(self.xp.stack([X @ each for each in directions], axis=1))

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


class HalfTensorRows(TensorRows):
    """Rows of a tensor of PyTorch whose products come from a copy in bfloat16.

    For Newton's steps, which the gradient in full precision corrects, and for sampled leverages,
    which need to be good to a few per mille. bfloat16 has the range of single precision and three
    digits, so that columns are stored about their means where these are larger than what columns
    vary by. Single rows are those of X, and moments sums of its squares, each to two digits.
    """

    is_rough = True

    def __init__(self, rows: TensorRows) -> None:
        super().__init__(rows.X, rows.intercept)
        # The rows keep this copy, which would keep itself alive if it kept them.
        self._full, self._means = weakref.ref(rows), None
        if self._is_centered():
            self._half = self.X.bfloat16()
            return
        X, n = self.X, self.shape[0]
        self._means = (self.xp.ones(n, dtype=X.dtype, device=X.device) @ X) / n
        self._half = self.xp.empty_like(X, dtype=self.xp.bfloat16)
        for part in slices(n, plan.DEVICE_ENTRIES, self.shape[1]):
            self._half[part] = X[part] - self._means

    def _is_centered(self) -> bool:
        """Whether some of the rows say that no column's mean is larger than its deviation."""
        step = max(1, self.shape[0] // plan.SAMPLED_FROM)
        some = self.X[::step]
        return bool(self.xp.all(abs(self.xp.mean(some, axis=0)) <= self.xp.std(some, axis=0)))

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        yield slice(0, self.shape[0]), self._half

    def single(self) -> TensorRows:
        return self

    def _count(self, products: int) -> None:
        full = self._full()
        if full is not None:
            full._count(products)

    def _squares(self) -> Iterator[tuple[slice, Any]]:
        if self._means is not None:
            yield from super()._squares()
            return
        for rows in slices(self.shape[0], plan.DEVICE_ENTRIES, self.shape[1]):
            block = self._half[rows, :]
            yield rows, block * block

    def column_squares(self, weights: Floats) -> tuple[Floats, Floats]:
        moments, peaks = super().column_squares(weights)
        # Of a column that a row may have to itself, what the others leave is a small difference.
        largest = weights.max(axis=0, initial=0.0) * peaks.reshape(-1, *[1] * (weights.ndim - 1))
        rare = (
            (largest > 0.5 * plan.LARGEST_OWN_SHARE * moments).reshape(len(peaks), -1).any(axis=1)
        )
        if rare.any() and self._means is None:
            columns = self.xp.asarray(np.flatnonzero(rare), device=self.X.device)
            few = TensorRows(self.X[:, columns], False)
            moments[rare], peaks[rare] = few.column_squares(weights)
        return moments, peaks

    def exact_squares(self, rows: slice, squares: Any) -> Any:
        return squares if self._means is not None else self.X[rows, :] ** 2

    def against(self, squares: Any, V: Any) -> Any:
        return squares @ V if squares.dtype == V.dtype else self._product(squares, V)

    def ahead(self, X: Any, V: Any) -> Any:
        found = self._product(X, V)
        return found if self._means is None else found + self._means @ V

    def back(self, X: Any, U: Any) -> Any:
        found = self._product(X.T, U)
        if self._means is None:
            return found
        level = self._means if U.ndim == 1 else self._means[:, None]
        return found + level * U.sum(0)

    def _product(self, half: Any, V: Any) -> Any:
        """Several columns in the order and number that tensor cores take, a third of the time."""
        if V.ndim == 1 or V.shape[1] == 1:
            return (half @ V.bfloat16()).to(V.dtype)
        k = V.shape[1]
        block = V.new_zeros((V.shape[0], -(-k // 8) * 8), dtype=half.dtype)
        block[:, :k] = V
        return (half @ block)[:, :k].to(V.dtype)


class ScaledTensorRows(TensorRows):
    """Columns of a tensor times factors, without a copy of it: products are multiplied instead."""

    def __init__(
        self, X: Any, intercept: bool, factors: Floats, plain: TensorRows | None = None
    ) -> None:
        super().__init__(X, intercept)
        self._plain = TensorRows(X, intercept) if plain is None else plain
        self._factors = self.place(factors)

    @property
    def whole(self) -> Any:
        return self.X * self._factors

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        for rows in slices(self.shape[0], plan.PRODUCT_ENTRIES, self.shape[1]):
            yield rows, self.X[rows, :] * self._factors

    def take(self, index: np.ndarray) -> Any:
        return super().take(index) * self._factors

    def single(self) -> TensorRows:
        plain = self._plain.single()
        if plain is self._plain:
            return self
        return ScaledTensorRows(self.X, self.intercept, self._factors, plain)

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
