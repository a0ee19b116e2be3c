r"""X̃ in the blocks of a Dask collection: one graph for each pass.

    shared ──┐
    block b ─┼─▶ f(X_b, *shared, *v_b) ─▶ tree of sums, whose shape depends on the number of
    v_b ─────┘                             blocks alone

A pass has all it needs in its graph: the point, and the parts of vectors that belong to a block.
Nothing is scattered and no worker has a state of its own, so that Dask can make anew whatever is
lost with a worker, with the same bits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import dense, is_dask
from angcal.dask.engine import FAN_IN, BlockSizeError, Engine, flat_keys
from angcal.rows import FarRows, Stacked, added, times_columns


@dataclass(frozen=True, eq=False)
class Blocks:
    """Where the blocks of a collection are, and how to make rows of numbers of them.

    Attributes
    ----------
    graph : dict
    keys : list
        Of the blocks, in order.
    prepare : callable or None
        Block -> rows.
    """

    graph: dict[Any, Any]
    keys: list[Any]
    prepare: Callable[[Any], Any] | None = None


@dataclass(frozen=True, eq=False)
class Pass:
    """What all blocks of a pass share; an object, which Dask does not look into for keys."""

    f: Callable[..., Any]
    shared: Sequence[Any]
    prepare: Callable[[Any], Any] | None
    columns: Floats | None


class DaskRows(FarRows):
    """Rows of a Dask collection.

    Parameters
    ----------
    blocks : Blocks
    lengths : sequence of int
        Rows of each block.
    n_features : int
    intercept : bool
    engine : Engine
    streamed : bool
        Whether blocks are made anew for each pass.
    narrows : bool, default=False
        Whether there is memory for a copy in single precision, which the first product in it makes.
    """

    def __init__(
        self,
        blocks: Blocks,
        lengths: Sequence[int],
        n_features: int,
        intercept: bool,
        engine: Engine,
        streamed: bool,
        narrows: bool = False,
    ) -> None:
        self._bounds = np.append(0, np.cumsum(lengths)).astype(np.intp)
        super().__init__((int(self._bounds[-1]), n_features), intercept)
        self._blocks, self._engine, self.streamed = blocks, engine, streamed
        self.narrows = narrows
        self._narrow: Blocks | None = None

    def single(self) -> FarRows:
        rows: Any = super().single()
        if rows is not self and self.narrows:
            rows._blocks = self._origin._narrowed()  # type: ignore[attr-defined]
        return rows

    def _narrowed(self) -> Blocks:
        """Blocks in single precision, kept where these are as long as these rows are."""
        if self._narrow is None:
            self.passes += 1
            name, own = f"angcal-narrow-{uuid.uuid4().hex[:12]}", self._blocks
            graph = {
                (name, b): (partial(_narrow, own.prepare), key) for b, key in enumerate(own.keys)
            }
            keys = list(graph)
            values = self._engine.keep({**own.graph, **graph}, keys)
            self._narrow = Blocks(dict(zip(keys, values, strict=True)), keys)
        return self._narrow

    def _graph(
        self,
        f: Callable[..., Any],
        shared: Sequence[Any],
        vectors: Sequence[Any],
        places: Sequence[int] | None = None,
    ) -> tuple[dict[Any, Any], list[Any]]:
        """A task for each block, and their keys."""
        self.passes += 1
        function = getattr(f, "func", f)
        name = f"angcal-{function.__name__.strip('_')}-{uuid.uuid4().hex[:12]}"
        first: Any = Pass(f, shared, self._blocks.prepare, self._columns)
        graph: dict[Any, Any] = {}
        large = [*shared] if self._columns is None else [*shared, self._columns]
        # What all blocks share is part of every task while it is small.
        if sum(np.asarray(each).nbytes for each in large) > 1 << 16:
            graph, first = {(name, "shared"): first}, (name, "shared")
        used = range(len(self._blocks.keys)) if places is None else places
        keys = [(name, "block", b) for b in used]
        for b, key in zip(used, keys, strict=True):
            part = slice(self._bounds[b], self._bounds[b + 1])
            lines = [np.ascontiguousarray(v[part]) for v in vectors]
            graph[key] = (run_block, first, self._blocks.keys[b], *lines)
        return graph, keys

    def _tree(
        self, graph: dict[Any, Any], keys: list[Any], merge: Callable[[Any, Any], Any]
    ) -> Any:
        """The key of the sum of all, four at a time."""
        name, level = keys[0][0], 0
        while len(keys) > 1 or level == 0:
            level += 1
            groups = [keys[at : at + FAN_IN] for at in range(0, len(keys), FAN_IN)]
            keys = [(name, "sum", level, place) for place in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                graph[key] = (partial(merged, merge), group)
        return keys[0]

    def _run(self, graph: dict[Any, Any], keys: list[Any]) -> list[Any]:
        title = f"pass {self.passes}, {keys[0][0]}"
        return [aligned(v) for v in self._engine.run({**self._blocks.graph, **graph}, keys, title)]

    def sum(
        self,
        f: Callable[..., Any],
        shared: Sequence[Any] = (),
        vectors: Sequence[Any] = (),
        *,
        merge: Callable[[Any, Any], Any] = added,
        entries_per_row: int = 0,
    ) -> Any:
        graph, keys = self._graph(f, shared, vectors)
        return self._run(graph, [self._tree(graph, keys, merge)])[0]

    def map(
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> Any:
        parts, found = self.parts(f, shared, vectors), Stacked(self.shape[0])
        for start, stop in zip(self._bounds[:-1], self._bounds[1:], strict=True):
            found.put(slice(start, stop), parts.pop(0))
        return found.values

    def parts(
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> list[Any]:
        """As `map`, one by one."""
        return self._run(*self._graph(f, shared, vectors))

    def sweep(
        self, f: Callable[..., Any], shared: Sequence[Any] = (), vectors: Sequence[Any] = ()
    ) -> tuple[Any, Any]:
        graph, keys = self._graph(f, shared, vectors)
        lines, total = self._run(graph, [self._tree(graph, keys, _stacked_and_added)])[0]
        return lines, total

    def take(self, index: np.ndarray) -> Floats:
        index = np.asarray(index)
        block = np.searchsorted(self._bounds, index, side="right") - 1
        used = np.unique(block)
        graph, keys = self._graph(_rows_of_block, (), (), used.tolist())
        found = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        for b, key in zip(used, keys, strict=True):
            places = index[block == b] - self._bounds[b]
            graph[key] = (*graph[key], places)
        for b, rows in zip(used, self._run(graph, keys), strict=True):
            found[block == b] = rows
        return found

    def blocks(self, entries_per_row: int = 0) -> Iterator[tuple[slice, Any]]:
        """Blocks one by one, here; nothing that angcal does with a cluster asks for them."""
        for b in range(len(self._blocks.keys)):
            graph, keys = self._graph(_whole_block, (), (), [b])
            yield slice(self._bounds[b], self._bounds[b + 1]), self._run(graph, keys)[0]


# -- tasks -----------------------------------------------------------------------------------


def aligned(values: Any) -> Any:
    """Arrays at whole addresses, rows together; tuples part by part.

    A block that traveled between workers arrives at an odd address, where NumPy goes round BLAS:
    five to twenty times slower, and with other last bits than one that did not travel.
    """
    if isinstance(values, tuple | list):
        return type(values)(aligned(value) for value in values)
    if isinstance(values, np.ndarray):
        return np.require(values, requirements=["C", "A"])
    return values


def run_block(this: Pass, block: Any, *lines: Any) -> Any:
    """f of one block."""
    rows = block if this.prepare is None else this.prepare(block)
    # A product is a copy that is aligned already.
    rows = aligned(rows) if this.columns is None else times_columns(rows, this.columns)
    return this.f(rows, *aligned(tuple(this.shared)), *aligned(lines))


def merged(merge: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Partial results, from the first to the last."""
    return reduce(merge, [aligned(part) for part in parts])


def _stacked_and_added(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """Of two parts of a sweep: lines below each other, and sums."""
    return np.concatenate([a[0], b[0]]), added(a[1], b[1])


def _rows_of_block(X: Any, index: np.ndarray) -> Floats:
    rows = X[index]
    return dense(rows)


def _narrow(prepare: Callable[[Any], Any] | None, block: Any) -> Any:
    """A block in single precision."""
    rows = block if prepare is None else prepare(block)
    with np.errstate(over="ignore"):  # what it cannot hold is solved for in double precision
        return np.asarray(rows, dtype=np.float32)


def _whole_block(X: Any) -> Any:
    return X


def _length_of(block: Any) -> np.ndarray:
    return np.array([len(block)])


def _columns_of(names: list[Any], block: Any) -> np.ndarray:
    """Columns of a frame, as objects, (rows, columns)."""
    return block[names].to_numpy(dtype=object)


def _features_of(names: list[Any], block: Any) -> Floats:
    return block[names].to_numpy(dtype=np.float64)


# -- from collections ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows of a collection, with the columns of a frame that were asked for by name.

    Attributes
    ----------
    rows : DaskRows
    named : dict
        Column name -> its values.
    features : list or None
        Names of the features, where X has names.
    """

    rows: DaskRows
    named: dict[Any, np.ndarray]
    features: list[Any] | None = None


def open_rows(
    X: Any, intercept: bool, engine: Engine, persist: Any, columns: Sequence[Any] = ()
) -> Opened:
    """A Dask array or dataframe as rows.

    Parameters
    ----------
    X : dask array or dataframe
    intercept : bool
    engine : Engine
    persist : bool or "auto"
    columns : sequence of names
        Columns of a dataframe that are not features: target and weights.
    """
    if not is_dask(X):
        raise TypeError(
            f"X is a {type(X).__name__}, and angcal.dask takes Dask arrays and dataframes; use "
            "the class of the same name in angcal, or dask.array.from_array(X, chunks=...)."
        )
    if hasattr(X, "columns"):
        return _open_frame(X, intercept, engine, persist, list(columns))
    if columns:
        raise TypeError(f"{columns[0]!r} names a column, but X is an array; pass its values.")
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    d, lengths = int(X.shape[1]), X.chunks[0]
    size = _Size(engine, persist, d, float(d * X.dtype.itemsize))
    passes, kept = 0, size.decide(lengths)
    X = engine.persist(X) if kept else X
    blocks = _blocks_of(X)
    if np.isnan(np.sum(lengths)):
        counted = DaskRows(blocks, [1] * len(blocks.keys), d, False, engine, not kept)
        lengths, passes = counted.map(_length_of), counted.passes
        if not kept and size.decide(lengths):
            kept, blocks = True, _blocks_of(engine.persist(X))
    # Of arrays in double precision: others take no copy, or one that costs as much as it saves.
    wide = X.dtype == np.float64 and isinstance(X._meta, np.ndarray)
    narrows = kept and wide and size.has_room_for_single(lengths)
    rows = DaskRows(blocks, lengths, d, intercept, engine, not kept, narrows)
    rows.passes = passes
    return Opened(rows, {})


def _open_frame(
    X: Any, intercept: bool, engine: Engine, persist: Any, columns: list[Any]
) -> Opened:
    missing = [name for name in columns if name not in X.columns]
    if missing:
        raise ValueError(f"X has no column {missing[0]!r}; its columns are {list(X.columns)}.")
    features = [name for name in X.columns if name not in columns]
    d = len(features)
    size = _Size(engine, persist, d, 8.0 * d)
    X = X.optimize() if hasattr(X, "optimize") else X
    X = engine.persist(X) if persist is True else X
    blocks = _blocks_of(X)
    # Target and features are split within a partition: by themselves they may be partitioned
    # differently.
    counted = DaskRows(blocks, [1] * len(blocks.keys), d, False, engine, persist is not True)
    parts = counted.parts(partial(_columns_of, columns))
    values, lengths = np.concatenate(parts), [len(part) for part in parts]
    named = {name: _plain(values[:, j]) for j, name in enumerate(columns)}
    kept = size.decide(lengths)
    if kept and persist is not True:
        blocks = _blocks_of(engine.persist(X))
    blocks = replace(blocks, prepare=partial(_features_of, features))
    narrows = kept and size.has_room_for_single(lengths)
    rows = DaskRows(blocks, lengths, d, intercept, engine, not kept, narrows)
    rows.passes = counted.passes
    return Opened(rows, named, features)


def _blocks_of(collection: Any) -> Blocks:
    return Blocks(dict(collection.__dask_graph__()), flat_keys(collection.__dask_keys__()))


@dataclass(frozen=True)
class _Size:
    """Whether blocks fit workers, and all of them the cluster."""

    engine: Engine
    persist: Any
    n_features: int
    row_bytes: float

    def decide(self, lengths: Any) -> bool:
        """Whether to keep blocks in memory; refuses those that do not fit, where it can tell."""
        total = self.row_bytes * float(np.sum(lengths))
        if np.isnan(total):
            return self.persist is True
        kept = self.engine.persists(total, self.persist)
        d = self.n_features
        width = d + 1 if plan.takes_matrices(d, not kept) else 0
        longest = int(np.max(lengths))
        self.engine.check_memory(longest, self.row_bytes, total if kept else 0.0, width)
        return kept

    def has_room_for_single(self, lengths: Any) -> bool:
        """Whether what rows leave has room for half as much again, whatever was asked of rows."""
        total = 1.5 * self.row_bytes * float(np.sum(lengths))
        try:
            self.engine.check_memory(int(np.max(lengths)), self.row_bytes, total, 0)
        except BlockSizeError:
            return False
        return self.engine.persists(total, "auto")


def _plain(values: np.ndarray) -> np.ndarray:
    """Values of a column in the type that they have in common."""
    return np.array(values.tolist())
