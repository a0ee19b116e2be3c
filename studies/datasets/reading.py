"""Files on disk <-> rows and labels: ``.npz`` matrices and ``.csv.gz`` tables."""

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

from angcal._typing import Matrix
from angcal.files import written

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
