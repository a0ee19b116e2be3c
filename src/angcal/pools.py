r"""A pool of unlabeled rows as blocks: mean_j, Σ_i(x_ij − mean_j)² and scores in one pass.

A pool may lie in memory (array, sparse matrix, dataframe), on disk (memory map) or come in blocks
of rows (a list of arrays, any object that can be iterated again, a callable that returns an
iterator). Whoever needs it goes over :meth:`Pool.blocks`, whose blocks are of bounded size, and
every such pass is counted. An iterator that is used up after one pass is welcome where one pass
is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import (
    as_double,
    is_tensor,
    namespace_of,
    on_host,
    placed_like,
    refuse_dask,
    slices,
)
from angcal.rows import Rows, dense_parts

Prepare = Callable[[Any, str], Matrix]
"""(rows, their name for errors) -> rows as the linear model sees them, checked."""

CALLABLE_HINT = (
    "Pass a callable that returns a fresh iterator each time, such as "
    "pool=lambda: read_blocks(path), or a list of blocks."
)


def variance_of_rounding(is_sparse: bool) -> float:
    """What rounding leaves of a constant column's variance, as a share of its squared mean."""
    return 1e-12 if is_sparse else 1e-24


def without_constants(covariance: Floats, mean: Floats, is_sparse: bool) -> Floats:
    """The covariance, changed in place to zeros for constant columns."""
    constant = np.diag(covariance) <= variance_of_rounding(is_sparse) * mean**2
    covariance[constant, :] = 0.0
    covariance[:, constant] = 0.0
    return covariance


class OneShotPoolError(ValueError):
    """A pool that can be gone over once was needed again."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean_j and scatter_j = Σ_i(x_ij − mean_j)² of rows that come in blocks."""

    count: int
    mean: Floats
    scatter: Floats

    @classmethod
    def of(cls, block: Matrix) -> Moments:
        """Moments of one block."""
        rows = block.shape[0]
        if is_tensor(block):
            block = as_double(block)
            xp = namespace_of(block)
            mean = xp.mean(block, axis=0)
            return cls(rows, on_host(mean), on_host(xp.sum((block - mean) ** 2, axis=0)))
        if not sparse.issparse(block):
            mean = np.asarray(np.mean(block, axis=0, dtype=np.float64))
            deviations = block - mean
            return cls(rows, mean, np.einsum("ij,ij->j", deviations, deviations))
        block = block.astype(np.float64)
        mean = np.asarray(block.sum(axis=0)).ravel() / rows
        squares = np.asarray(block.multiply(block).sum(axis=0)).ravel()
        return cls(rows, mean, np.maximum(squares - rows * mean**2, 0.0))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows: scatters add, plus what the means are apart."""
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        apart = gap**2 * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + apart)

    @property
    def deviation(self) -> Floats:
        """√(scatter/count)."""
        return np.sqrt(self.scatter / self.count)


def _moments_of(block: Matrix) -> Moments:
    """Moments of a block of any size, without a copy of it."""
    return reduce(Moments.merge, (Moments.of(block[part]) for part in row_slices(block)))


def row_moments(rows: Rows) -> Moments:
    """Moments of rows, wherever they are, in one pass."""
    return rows.sum(_moments_of, merge=Moments.merge)


def row_slices(rows: Matrix) -> Iterator[slice]:
    """Slices of at most ``plan.BLOCK_ENTRIES`` stored entries, at least one row each."""
    n = rows.shape[0]
    stored = rows.nnz if sparse.issparse(rows) else n * rows.shape[1]
    entries = plan.DEVICE_ENTRIES if is_tensor(rows) else plan.BLOCK_ENTRIES
    return slices(n, entries * n, stored)


class Pool:
    """Unlabeled rows that are gone over block by block.

    Parameters
    ----------
    source : callable
        Returns an iterator of (rows, name) pairs, fresh each time unless ``once``.
    n_features : int
    once : bool, default=False
        Whether the source is used up after one pass.
    resident : matrix, optional
        All rows, where they are in memory anyway.
    min_rows : int, default=1
        Fewer rows are an error.

    Attributes
    ----------
    passes : int
        How often the rows were gone over so far.
    """

    def __init__(
        self,
        source: Callable[[], Iterable[tuple[Matrix, str]]],
        n_features: int,
        *,
        once: bool = False,
        resident: Matrix | None = None,
        min_rows: int = 1,
    ) -> None:
        self.n_features, self.once, self.resident = n_features, once, resident
        self.passes = 0
        self.stored_entries, self.is_sparse = 0, False
        self._source, self._min_rows = source, min_rows
        self._columns: Moments | None = None

    def require_many_passes(self, purpose: str) -> None:
        """Raise an error where the rows can be gone over only once."""
        if self.once:
            raise OneShotPoolError(
                f"pool is an iterator that is used up after one pass, but {purpose} goes over the "
                f"pool several times. {CALLABLE_HINT}"
            )

    def blocks(self) -> Iterator[Matrix]:
        """One pass: dense or sparse blocks of bounded size."""
        if self.passes:
            self.require_many_passes("a second look")
        self.passes += 1
        count = 0
        for rows, name in self._source():
            if rows.ndim != 2 or rows.shape[1] != self.n_features:
                raise ValueError(
                    f"{name} has shape {rows.shape}, but X has {self.n_features} columns. "
                    "Pass rows with the same columns as X."
                )
            count += rows.shape[0]
            for part in row_slices(rows):
                # A slice of a sparse matrix is a copy, which a small block need not pay for.
                yield rows if part == slice(0, rows.shape[0]) else rows[part]
        self._check_count(count)

    def _check_count(self, count: int) -> None:
        if self._columns is not None and count != self._columns.count:
            raise ValueError(
                f"pool gave {self._columns.count} rows at first and {count} on pass "
                f"{self.passes}. {CALLABLE_HINT}"
            )
        if count == 0:
            raise ValueError(f"pool gave no rows; an iterator may be used up. {CALLABLE_HINT}")
        if count < self._min_rows:
            raise ValueError(f"pool has {count} row; a spread needs at least {self._min_rows}.")

    def survey(self, coef: Floats | None = None) -> Moments:
        """One pass that learns the columns' moments and returns those of the scores x_iᵀw."""
        columns = scores = None
        stored, weights = 0, np.zeros(self.n_features) if coef is None else coef
        for block in self.blocks():
            self.is_sparse |= sparse.issparse(block)
            stored += block.nnz if sparse.issparse(block) else block.size
            found = Moments.of(block)
            seen = Moments.of(np.asarray(block @ weights, dtype=np.float64)[:, None])
            columns = found if columns is None else columns.merge(found)
            scores = seen if scores is None else scores.merge(seen)
        self._columns, self.stored_entries = columns, stored
        assert scores is not None  # a pass without rows has raised
        return scores

    @property
    def columns(self) -> Moments:
        """Moments of the columns, by a pass of their own if none has been made."""
        if self._columns is None:
            self.survey()
        assert self._columns is not None
        return self._columns

    @property
    def n_rows(self) -> int:
        """Number of rows; for rows in memory without a pass."""
        return self.columns.count if self.resident is None else self.resident.shape[0]

    def second_moments(self, centered: bool) -> Floats:
        """Diagonal of the covariance (m − 1 in the denominator), zero for constant columns."""
        columns = self.columns
        scatter = columns.scatter.copy()
        if centered:
            square = columns.count * columns.mean**2
            scatter[scatter <= variance_of_rounding(self.is_sparse) * square] = 0.0
        else:
            scatter += columns.count * columns.mean**2
        return scatter / (columns.count - 1)

    def whole(self) -> Floats:
        """All rows as one dense array, for estimators that need them at once."""
        if self.resident is None:
            self.require_many_passes("a covariance estimator")
            parts = [b.toarray() if sparse.issparse(b) else np.array(b) for b in self.blocks()]
            return np.concatenate(parts)
        return self.resident.toarray() if sparse.issparse(self.resident) else self.resident


class RowsPool(Pool):
    """A pool whose blocks stay on a device or on a cluster: rows without intercept."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(
            lambda: ((block, "pool") for _, block in rows.blocks()), rows.shape[1], min_rows=2
        )
        self._rows = rows
        self._check_count(rows.shape[0])

    def survey(self, coef: Floats | None = None) -> Moments:
        self.passes += 1
        weights = np.zeros(self.n_features) if coef is None else coef
        self._columns, scores = self._rows.sum(_survey_of_block, (weights,), merge=_both)
        if not np.all(np.isfinite(self.columns.scatter)):
            raise ValueError("pool contains NaN or infinity; impute or drop those rows first.")
        self.stored_entries = self._rows.shape[0] * self.n_features
        return scores

    def sum(self, f: Callable[..., Any], shared: Sequence[Any]) -> Any:
        """Σ_b f(P_b, *shared) where the blocks are, in one pass."""
        self.passes += 1
        return self._rows.sum(f, shared)

    def covariance(self, centered: bool) -> tuple[Floats, Floats]:
        """Mean and covariance of the rows; see :func:`angcal.covariance.pool_covariance`."""
        m, mean = self.columns.count, self.columns.mean
        mean = mean if centered else np.zeros_like(mean)
        matrix = on_host(self.sum(_scatter_of_block, (mean,))) / (m - 1)
        return mean, without_constants(matrix, mean, False)


def _survey_of_block(X: Any, coef: Floats) -> tuple[Moments, Moments]:
    coef = placed_like(coef, X) if is_tensor(X) else coef
    scores = [on_host(X[part] @ coef) for part in row_slices(X)]
    return _moments_of(X), Moments.of(np.concatenate(scores)[:, None])


def _both(a: tuple[Moments, Moments], b: tuple[Moments, Moments]) -> tuple[Moments, Moments]:
    return a[0].merge(b[0]), a[1].merge(b[1])


def _scatter_of_block(X: Any, mean: Floats) -> Any:
    total = 0.0
    for _, rows in dense_parts(X):
        deviations = rows - placed_like(mean, rows)
        total = total + deviations.T @ deviations
    return total


def open_pool(
    pool: Any, n_features: int, *, prepare: Prepare | None = None, min_rows: int = 1
) -> Pool:
    """Whatever the user calls a pool as a :class:`Pool`.

    Parameters
    ----------
    pool : array, sparse matrix, dataframe, memory map, iterable of blocks or callable
        A callable returns an iterator of (k, d) blocks.
    n_features : int
        Number of columns after ``prepare``.
    prepare : callable, optional
        Checks and transforms rows; applied once to rows in memory, and to a block whenever it
        is read.
    min_rows : int, default=1
    """
    if isinstance(pool, Pool):
        return pool
    refuse_dask(pool, "pool")
    ready = _as_matrix if prepare is None else prepare
    source, resident = partial(_named, pool, ready), None
    if isinstance(pool, np.memmap) and pool.ndim == 2:
        source = partial(_mapped, pool, ready)
    elif _is_rows(pool):
        resident = ready(pool, "pool")
        source = partial(iter, [(resident, "pool")])
    elif not any(hasattr(pool, name) for name in ("__iter__", "__getitem__", "__call__")):
        raise TypeError(
            f"pool={pool!r} is neither rows (array, sparse matrix, dataframe), nor blocks of rows, "
            "nor a callable that returns an iterator of blocks."
        )
    once = isinstance(pool, Iterator)
    return Pool(source, n_features, once=once, resident=resident, min_rows=min_rows)


def _is_rows(pool: Any) -> bool:
    """Whether these are rows rather than blocks; a list is blocks if its items have two axes."""
    if isinstance(pool, list | tuple):
        return not pool or len(getattr(pool[0], "shape", ())) != 2
    return (
        sparse.issparse(pool) or hasattr(pool, "__array__") or isinstance(pool, str | bytes | dict)
    )


def _as_matrix(rows: Any, name: str) -> Matrix:
    return rows.tocsr() if sparse.issparse(rows) else np.asarray(rows)


def _mapped(rows: np.memmap, ready: Prepare) -> Iterator[tuple[Matrix, str]]:
    """Slices of a memory map, so that a conversion never loads all of it."""
    for part in row_slices(rows):
        name = f"rows {part.start} to {part.stop - 1} of pool"
        yield ready(rows[part], name), name


def _named(blocks: Any, ready: Prepare) -> Iterator[tuple[Matrix, str]]:
    blocks = blocks() if callable(blocks) else blocks
    try:
        iterator = iter(blocks)
    except TypeError as error:
        raise TypeError(
            f"the pool's callable returned {type(blocks).__name__}, which is not an iterator of "
            "blocks of rows."
        ) from error
    for number, block in enumerate(iterator):
        # A filtered block may be left without rows.
        if getattr(block, "shape", (1,))[:1] != (0,):
            name = f"block {number} of pool"
            yield ready(block, name), name
