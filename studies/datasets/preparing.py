"""Rows of a file -> matrix, by the steps that a `Preparation` declares; labels play no part."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from angcal._typing import Floats, Matrix
from angcal.files import written
from angcal.pools import Moments
from studies.datasets.spec import DatePart, Dates, Preparation

# -- Files on disk <-> rows and labels: ``.npz`` matrices and ``.csv.gz`` tables ----------------


MISSING_CELLS = ["?"]
CSR_PARTS = {"data", "indices", "indptr", "shape"}
UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


class DatasetFileError(ValueError):
    """A file that is there cannot be read; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Raw:
    """What a file holds."""

    rows: Any  # ndarray, CSR matrix or pandas.DataFrame
    labels: NDArray[Any] | None


def read(path: Path, label: str | None) -> Raw:
    """Rows and labels of a file, read as its name says."""
    try:
        return _read_matrix(path) if path.suffix == ".npz" else _read_table(path, label)
    except UNREADABLE as error:
        raise DatasetFileError(
            f"{path} cannot be read ({error}). Delete it to have it downloaded again, or replace "
            "it in the data folder."
        ) from error


def _read_matrix(path: Path) -> Raw:
    # Object arrays would run code of whoever made the file.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as parts:
        if CSR_PARTS <= set(parts.files):
            triple = (parts["data"], parts["indices"], parts["indptr"])
            rows: Matrix = sparse.csr_matrix(triple, shape=tuple(parts["shape"]))
        else:
            rows = parts["X"]
        labels = parts["y"] if "y" in parts.files else None
    _check_length(rows, labels)
    return Raw(rows, labels)


def _read_table(path: Path, label: str | None) -> Raw:
    table = pd.read_csv(path, na_values=MISSING_CELLS, low_memory=False)
    if label is None:
        return Raw(table, None)
    labels = table.pop(label)
    if pd.api.types.is_numeric_dtype(labels):
        return Raw(table, labels.to_numpy())
    return Raw(table, labels.fillna("").to_numpy(dtype=str))


def _check_length(rows: Matrix, labels: NDArray[Any] | None) -> None:
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}, not rows and columns")
    if labels is not None and labels.shape[:1] != (rows.shape[0],):
        raise ValueError(f"{rows.shape[0]} rows, but labels of shape {labels.shape}")


@contextmanager
def zipped(target: Path) -> Iterator[Any]:
    """A file to write to that is never half there, compressed by gzip."""
    with written(target) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        yield compressed


def write_table(target: Path, text: str) -> None:
    """``.csv.gz``."""
    with zipped(target) as file:
        file.write(text.encode("utf-8"))


def write_matrix(target: Path, rows: Any, labels: Any) -> None:
    """``.npz``: X or the parts of a CSR matrix, and y."""
    labels = np.asarray(labels)
    # Object arrays could be read again only by a format that may run code.
    parts = {"y": labels.astype(str) if labels.dtype == object else labels}
    if sparse.issparse(rows):
        rows = sparse.csr_matrix(rows)
        parts |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        parts["shape"] = np.array(rows.shape)
    else:
        parts["X"] = np.asarray(rows, dtype=np.float64)
    with written(target) as file:
        np.savez_compressed(file, **parts)


# What rounding leaves of the deviation of a constant column, as a share of its root mean square. In
# sparse matrices the deviation is a difference of squares, which costs half of the digits.
DENSE_ROUNDING, SPARSE_ROUNDING = 1e-10, 1e-6

PART_FORMATS: dict[DatePart, str] = {
    "year": "%Y",
    "month": "%m",
    "weekday": "%u",
    "hour": "%H",
    "date": "%Y-%m-%d",
    "time": "%H:%M",
}


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of the matrix, dense or sparse, with their names where they have any."""

    values: Matrix
    names: tuple[str, ...] | None

    def __getitem__(self, kept: NDArray[np.bool_]) -> Columns:
        if kept.all():
            return self
        names = self.names and tuple(np.array(self.names)[kept].tolist())
        return Columns(self.values[:, np.flatnonzero(kept)], names)


def prepare(rows: Any, how: Preparation, *, scaled: bool = True) -> Columns:
    """The matrix of a file's rows."""
    columns = _of_table(rows, how) if hasattr(rows, "columns") else _of_matrix(rows, how)
    columns, deviation = _without_constant(columns, how.dead_share)
    if not scaled or how.scaling == "none":
        return columns
    return Columns(standardized(columns.values, deviation), columns.names)


def standardized(values: Matrix, deviation: Floats) -> Matrix:
    """Columns with mean 0 and deviation 1; sparse ones keep their mean, and so their zeros."""
    if sparse.issparse(values):
        return sparse.csr_matrix(values @ sparse.diags(1.0 / deviation))
    return (values - values.mean(axis=0)) / deviation


# -- from tables -----------------------------------------------------------------------------------


def _of_table(table: Any, how: Preparation) -> Columns:
    table = table.drop(columns=[name for name in how.drop if name in table.columns])
    blocks = []
    for name in table.columns:
        column, dates = table[name], next((d for d in how.dates if d.column == name), None)
        if dates is not None:
            blocks += _calendar(column, dates)
        elif name in how.categories or not pd.api.types.is_numeric_dtype(column):
            blocks.append(_levels(name, *pd.factorize(column, sort=True)))
        else:
            blocks += _number(name, column.to_numpy(dtype=np.float64), how)
    names = tuple(name for block in blocks for name in block.names or ())
    values = sparse.hstack([block.values for block in blocks], format="csr")
    return Columns(values if how.sparse else values.toarray(), names)


def _number(name: str, values: Floats, how: Preparation) -> list[Columns]:
    """The column with its missing cells filled in, or nothing where too many are missing."""
    present = np.isfinite(values)
    if present.mean() < 1.0 - how.max_missing or not present.any():
        return []
    levels, codes = np.unique(values[present], return_inverse=True)
    if how.two_valued == "levels" and len(levels) == 2:
        all_codes = np.full(len(values), -1)
        all_codes[present] = codes
        return [_levels(name, all_codes, levels)]
    filled = np.where(present, values, np.median(values[present]))
    return [Columns(sparse.csr_matrix(filled[:, None]), (name,))]


def _levels(name: str, codes: NDArray[np.intp], levels: Any) -> Columns:
    """One column of 0 and 1 per level; a row of zeros where the code is −1, for missing."""
    rows = np.flatnonzero(codes >= 0)
    shape = (len(codes), len(levels))
    values = sparse.csr_matrix((np.ones(len(rows)), (rows, codes[rows])), shape=shape)
    return Columns(values, tuple(f"{name}={_written(level)}" for level in levels))


def _written(level: Any) -> str:
    if isinstance(level, float | np.floating) and float(level).is_integer():
        return str(int(level))
    return str(level)


def _calendar(column: Any, dates: Dates) -> list[Columns]:
    times = pd.to_datetime(column, format=dates.format)
    return [
        _levels(
            f"{dates.column}:{part}",
            *pd.factorize(times.dt.strftime(PART_FORMATS[part]), sort=True),
        )
        for part in dates.parts
    ]


# -- from matrices ---------------------------------------------------------------------------------


def _of_matrix(rows: Matrix, how: Preparation) -> Columns:
    if sparse.issparse(rows):
        values = sparse.csr_matrix(rows, dtype=np.float64)
        if not np.isfinite(values.data).all():
            raise ValueError("a sparse matrix with missing entries cannot be filled in")
        return Columns(values, None)
    values = np.asarray(rows, dtype=np.float64)
    if how.two_valued == "number" and np.isfinite(values).all():
        return Columns(values, None)
    blocks = [block for column in values.T for block in _number("", column, how)]
    return Columns(sparse.hstack([block.values for block in blocks]).toarray(), None)


# -- all matrices ----------------------------------------------------------------------------------


def _without_constant(columns: Columns, dead_share: float) -> tuple[Columns, Floats]:
    """The columns that vary, with their deviations."""
    moments = Moments.of(columns.values)
    deviation = moments.deviation
    size = np.sqrt(deviation**2 + moments.mean**2)
    rounding = SPARSE_ROUNDING if sparse.issparse(columns.values) else DENSE_ROUNDING
    kept = deviation > rounding * size
    if not kept.any():
        raise ValueError("no column of the file varies from row to row")
    kept &= deviation > dead_share * np.median(deviation[kept])
    return columns[kept], deviation[kept]
