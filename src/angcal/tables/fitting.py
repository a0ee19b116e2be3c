"""Features and labels -> a tuned, calibrated model that takes tables of the same columns.

A Parquet file larger than memory is read in blocks of prepared rows, anew on every pass. What a
column is, its median, scale and levels come from rows spread evenly over the file; labels and
groups are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from angcal._typing import Matrix
from angcal.estimators import AngularLogisticRegressionCV
from angcal.tables.columns import ColumnPlan, aligned, plan_columns, preparation_of
from angcal.tables.errors import TableError, check_names, require_column
from angcal.tables.targets import split_target


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A model of a table, and what became of its columns."""

    model: Pipeline  # ``prepare`` (a ColumnTransformer) and ``classify``, both fitted
    classes: np.ndarray  # In the order of the columns of ``predict_proba``
    dropped: tuple[tuple[str, str], ...]  # Columns that the model does not see
    n: int  # Rows, and columns after preparation
    d: int

    @property
    def columns(self) -> int:
        """Columns of the table, used or not."""
        return len(self.model.steps[0][1].feature_names_in_) + len(self.dropped)

    @property
    def classifier(self) -> Any:
        """The last step of the model."""
        return self.model.steps[-1][1]


def fit_table(
    features: Any, y: np.ndarray, *, pool: Any = None, Cs: Any = 10, groups: Any = None
) -> FittedTable:
    """Prepare, choose the penalty by leave-one-out log-loss, fit and calibrate."""
    plan = plan_columns(features)
    prepare = preparation_of(plan, len(features))
    X = prepare.fit_transform(features[plan.used])
    return _fitted(plan, prepare, X, y, pool, Cs, groups)


def _fitted(
    plan: ColumnPlan, prepare: Any, X: Any, y: np.ndarray, pool: Any, Cs: Any, groups: Any
) -> FittedTable:
    """A path on prepared rows, and the model that prepares rows for it."""
    if pool is not None:
        pool = prepare.transform(aligned(pool, plan.used, "the pool"))
    classify = AngularLogisticRegressionCV(Cs=Cs).fit(X, y, pool=pool, groups=groups)
    model = Pipeline([("prepare", prepare), ("classify", classify)])
    return FittedTable(model, classify.classes_, plan.dropped, len(y), classify.n_features_in_)


# -- files larger than memory --------------------------------------------------------------------


BATCH_CELLS = 1_000_000
SAMPLE_CELLS, MOST_SAMPLED, FEWEST_SAMPLED = 1_000_000, 50_000, 1_000
"""Of the rows that columns are judged by, of which checks and medians make some ten copies: of so
many cells (8 MB) these are less than a fit takes; with 50,000 rows of 200 columns, fits of 300,000
took 1.4 times their size."""


@dataclass(frozen=True, eq=False)
class LargeTable:
    """Rows of a Parquet file that have a label.

    Attributes
    ----------
    path : Path
    kept : (rows of the file,) array of bool
        Those with a label.
    y : ndarray
        Their classes.
    sample : pandas.DataFrame
        Features of some rows.
    sampled : ndarray of int
        Their places among the rows that are kept.
    """

    path: Path
    kept: np.ndarray
    y: np.ndarray
    sample: Any = field(repr=False)
    sampled: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.y)

    def frames(self, columns: list[str]) -> Iterator[Any]:
        """Blocks of rows with a label as data frames of some columns."""
        for start, frame in batches(self.path, columns):
            yield frame[self.kept[start : start + len(frame)]]


def batches(path: Path, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """(number of its first row, data frame) of pieces of a file."""
    for start, batch in _record_batches(path, columns):
        yield start, batch.to_pandas()


def _record_batches(path: Path, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """The same as they are read."""
    from pyarrow.parquet import ParquetFile

    rows, start = max(1, BATCH_CELLS // max(1, len(columns))), 0
    # Buffering ahead would hold all of the file's bytes in the end.
    with ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=rows, columns=columns, use_threads=False):
            yield start, batch
            start += batch.num_rows


def columns_of(path: Path) -> list[str]:
    """Names of a file's columns, checked."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        names = list(file.schema_arrow.names)
    check_names(path, names)
    return names


def open_large(path: Any, target: str, *, positive: str | None = None) -> LargeTable:
    """A large table: its labels, and a sample of its rows.

    Parameters
    ----------
    path : str or Path
    target : str
        Name of the column with the classes.
    positive : str, optional
        As in `split_target`.
    """
    import pandas as pd
    from pyarrow.parquet import ParquetFile

    path = Path(path)
    with ParquetFile(path) as file:
        n = file.metadata.num_rows
    names = columns_of(path)
    require_column(names, target)
    labels = pd.concat([frame for _, frame in batches(path, [target])], ignore_index=True)
    rows, y = split_target(labels.assign(**{_ROW: np.arange(n)}), target, positive=positive)
    kept = np.zeros(n, dtype=bool)
    kept[rows[_ROW].to_numpy()] = True
    features = [name for name in names if name != target]
    step = max(1, -(-len(y) // sampled_rows(len(features))))
    sample = _rows_of(path, features, np.flatnonzero(kept)[::step])
    return LargeTable(path, kept, y, sample, np.arange(0, len(y), step))


def _rows_of(path: Path, columns: list[str], wanted: np.ndarray) -> Any:
    """Rows of these numbers as a data frame; what is not wanted is never made one."""
    import pyarrow as pa

    parts = []
    for start, batch in _record_batches(path, columns):
        first, last = np.searchsorted(wanted, [start, start + batch.num_rows])
        parts.append(batch.take(pa.array(wanted[first:last] - start)))
    found = pa.Table.from_batches(parts).to_pandas(self_destruct=True)
    pa.default_memory_pool().release_unused()
    return found.reset_index(drop=True)


def sampled_rows(columns: int) -> int:
    """Rows that columns are judged by."""
    return int(np.clip(SAMPLE_CELLS // max(columns, 1), FEWEST_SAMPLED, MOST_SAMPLED))


_ROW = "angcal row number"


def fit_large(
    table: LargeTable, features: Any, *, pool: Any = None, Cs: Any = 10, groups: Any = None
) -> FittedTable:
    """As `fit_table`, with bounded memory.

    Parameters
    ----------
    table : LargeTable
    features : pandas.DataFrame
        Its sample, without the columns that are to be left out.
    pool : pandas.DataFrame, optional
        Rows without labels, in memory.
    Cs, groups
        As in `fit_table`.
    """
    plan = plan_columns(features)
    prepare = preparation_of(plan, len(features)).fit(features[plan.used])

    def blocks() -> Iterator[Matrix]:
        for frame in table.frames(plan.used):
            try:
                yield prepare.transform(frame)
            except ValueError as error:
                raise TableError(
                    f"{table.path} has rows that are unlike those that its columns were judged by "
                    f"({error}); write such columns as text, or leave them out with --drop."
                ) from error

    return _fitted(plan, prepare, blocks, table.y, pool, Cs, groups)
