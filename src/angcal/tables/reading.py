"""A file, told by its name -> a pandas DataFrame, or one sentence about what is wrong with it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from angcal.tables.errors import MissingPackageError, TableError, listed, need
from angcal.tables.text import read_text

CSR_PARTS = {"data", "indices", "indptr", "shape"}
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)
# Set on frames whose file does not write zeros down, so that an absent column is one of zeros.
ABSENT_IS_ZERO = "angcal_absent_is_zero"


def read_table(path: Any, *, least_rows: int = 2) -> Any:
    """The table in a file.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv`` (also with ``.gz``), ``.parquet``, ``.feather``, ``.npz`` with X and
        perhaps y and feature_names, or ``.svm``, ``.svmlight``, ``.libsvm``. Labels of the last
        two kinds are in the column "y".
    least_rows : int, default=2
        Fewer rows are an error.

    Returns
    -------
    pandas.DataFrame
        With sparse columns where the file is sparse.

    Raises
    ------
    TableError
        One sentence that names the file, what is wrong, and the way out.
    """
    path = Path(path)
    need("pandas", f"reading {path.name}")
    reader = _reader_of(path)
    _check_file(path)
    try:
        frame = reader(path)
    except (TableError, MissingPackageError):
        raise
    except UNREADABLE as error:
        raise TableError(
            f"{path} cannot be read: it is damaged or not what its name says "
            f"({_first_line(error)}); write it again, or correct its suffix."
        ) from error
    return _checked(frame, path, least_rows)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    found = READERS.get(kind[0]) if kind else None
    if found is None or (zipped and kind[0] not in (".csv", ".tsv")):
        raise TableError(
            f"{path} has a name that does not say what it is; use one of "
            f"{', '.join(READERS)}, or .csv.gz."
        )
    return found


def _check_file(path: Path) -> None:
    if not path.exists():
        raise TableError(f"{path} does not exist; check the name and the folder.")
    if path.is_dir():
        raise TableError(f"{path} is a folder; name one file in it.")
    if path.is_file() and path.stat().st_size == 0:
        raise TableError(f"{path} is empty; write the table again.")


def _checked(frame: Any, path: Path, least_rows: int) -> Any:
    """The frame with text for names, once it has columns that differ and enough rows."""
    frame.columns = [_name(column) for column in frame.columns]
    repeated = frame.columns[frame.columns.duplicated()].unique().tolist()
    if repeated:
        raise TableError(
            f"{path} has several columns called {listed(repeated)}; give each its own name."
        )
    if not len(frame.columns):
        raise TableError(f"{path} has no columns; write the table again.")
    if not len(frame):
        raise TableError(f"{path} has column names but no rows; add the rows.")
    if len(frame) < least_rows:
        raise TableError(f"{path} has one row only; at least {least_rows} are needed.")
    return frame.reset_index(drop=True)


def _name(column: Any) -> str:
    return "_".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _read_csv(path: Path) -> Any:
    return read_text(path, None)


def _read_tsv(path: Path) -> Any:
    return read_text(path, "\t")


def _read_parquet(path: Path) -> Any:
    need("pyarrow", f"reading {path.name}")
    return need("pandas", f"reading {path.name}").read_parquet(path, engine="pyarrow")


def _read_feather(path: Path) -> Any:
    need("pyarrow", f"reading {path.name}")
    return need("pandas", f"reading {path.name}").read_feather(path)


def _read_npz(path: Path) -> Any:
    """X, or the parts of a CSR matrix; y and feature_names where they are there."""
    # Object arrays would run code of whoever made the file.
    with path.open("rb") as file:
        # NumPy would take anything else for a pickle, and say how to open it unsafely.
        if not file.read(6).startswith((b"PK", b"\x93NUMPY")):
            raise TableError(
                f"{path} is no NPZ archive; save one with numpy.savez(path, X=..., y=...)."
            )
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise TableError(f"{path} holds a single array; save it with numpy.savez(path, X=...).")
        parts = {name: archive[name] for name in archive.files}
    if CSR_PARTS <= set(parts):
        triple = (parts["data"], parts["indices"], parts["indptr"])
        X: Any = sparse.csr_matrix(triple, shape=tuple(parts["shape"]))
        X.check_format(full_check=True)
    elif "X" in parts:
        X = parts["X"]
    else:
        raise TableError(
            f"{path} has no array called X, only {listed(list(parts))}; save the rows as X."
        )
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} has an X of shape {X.shape} and type {X.dtype}; it must be numbers in rows "
            "and columns."
        )
    return _frame(X, _feature_names(parts, X.shape[1], path), parts.get("y"), path)


def _feature_names(parts: dict[str, Any], d: int, path: Path) -> list[str]:
    names = parts.get("feature_names")
    if names is None:
        return [f"x{j}" for j in range(d)]
    if names.shape != (d,):
        raise TableError(
            f"{path} has {d} columns in X but feature_names of shape {names.shape}; give one name "
            "for each column."
        )
    return [str(name) for name in names]


def _read_svmlight(path: Path) -> Any:
    """Columns are called by the numbers that the file has, so that two files agree on them."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), zero_based=True)
    names = [f"f{j}" for j in range(X.shape[1])]
    if X.shape[1] and not X[:, 0].nnz:
        X, names = X[:, 1:], names[1:]  # numbers from 1 up, as is usual
    frame = _frame(X, names, y, path)
    frame.attrs[ABSENT_IS_ZERO] = True
    return frame


def _frame(X: Any, names: list[str], y: Any, path: Path) -> Any:
    import pandas as pd

    if sparse.issparse(X):
        frame = pd.DataFrame.sparse.from_spmatrix(X.astype(np.float64), columns=names)
    else:
        frame = pd.DataFrame(X, columns=names)
    if y is None:
        return frame
    if y.shape != (X.shape[0],):
        raise TableError(
            f"{path} has {X.shape[0]} rows in X but a y of shape {y.shape}; give one label each."
        )
    return pd.concat([frame, pd.Series(y, name="y")], axis=1)


READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".feather": _read_feather,
    ".npz": _read_npz,
    ".svm": _read_svmlight,
    ".svmlight": _read_svmlight,
    ".libsvm": _read_svmlight,
}
