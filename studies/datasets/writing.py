"""Rows and labels -> a file that is never half there, in the formats that `reading` knows."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from angcal.files import written


@contextmanager
def zipped(target: Path) -> Iterator[Any]:
    """The same, compressed by gzip."""
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
