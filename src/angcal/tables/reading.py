"""A file, recognized by its suffix -> a pandas DataFrame, or one sentence about what is wrong.

Text is checked before pandas guesses at what it means: encoding, line ends, separator, decimal
mark, equally long rows, a header of distinct names.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from angcal.tables.errors import MissingPackageError, TableError, first_line, listed, need

# Set on frames whose file does not write zeros down, so that an absent column is one of zeros.
ABSENT_IS_ZERO = "angcal_absent_is_zero"
# What readers raise for a file that is not what its suffix says.
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
# A line as long as this is no row of a table, and reading it could take all memory.
LONGEST_LINE = 16 * 2**20
BLOCK = 4 * 2**20


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
            f"({first_line(error)}); write it again, or correct its suffix."
        ) from error
    return _checked(frame, path, least_rows)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    found = READERS.get(kind[0]) if kind else None
    if found is None or (zipped and kind[0] not in (".csv", ".tsv")):
        raise TableError(
            f"{path}: unsupported file type {''.join(suffixes) or 'without a suffix'}; use one of "
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
    _check_names(path, list(frame.columns))
    if not len(frame.columns):
        raise TableError(f"{path} has no columns; write the table again.")
    if not len(frame):
        raise TableError(f"{path} has column names but no rows; add the rows.")
    if len(frame) < least_rows:
        raise TableError(f"{path} has one row only; at least {least_rows} are needed.")
    return frame.reset_index(drop=True)


def _check_names(path: Path, names: list[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise TableError(
            f"{path} has more than one column called {listed(repeated)}; give each its own name."
        )


def _name(column: Any) -> str:
    return "_".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _read_arrow(path: Path) -> Any:
    import pandas as pd

    need("pyarrow", f"reading {path.name}")
    return pd.read_feather(path) if path.suffix.lower() == ".feather" else pd.read_parquet(path)


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
    if {"data", "indices", "indptr", "shape"} <= set(parts):
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
    _check_width(X, path)
    return _frame(X, _feature_names(parts, X.shape[1], path), parts.get("y"), path)


def _check_width(X: Any, path: Path) -> None:
    """A file of a few bytes can claim columns that would take all memory."""
    if X.shape[1] > 1_000_000:
        raise TableError(
            f"{path} has {X.shape[1]} columns, of which at most 1000000 can be read; number the "
            "columns that are used from 1 up."
        )


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
    _check_width(X, path)
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


# -- text -------------------------------------------------------------------------------------


def _read_text(path: Path, separator: str | None) -> Any:
    """The table in a text file; None as separator means comma, or semicolon where none is there."""
    import pandas as pd

    try:
        start = _check_lines(path)
        separator = separator or _separator(start)
        _check_header(path, _check_rows(path, separator))
        return pd.read_csv(
            path,
            sep=separator,
            decimal=_decimal(start, separator),
            encoding="utf-8",
            na_values=["?"],
            low_memory=False,
            index_col=False,
        )
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); convert it, for "
            "example with: iconv -f latin1 -t utf-8."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{path} is not a complete gzip file; compress it again.") from error
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path} is empty; write the table again.") from error
    except pd.errors.ParserError as error:
        raise TableError(
            f"{path} is not a regular table ({first_line(error)}); mend that line."
        ) from error


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _check_lines(path: Path) -> bytes:
    """The first piece of a file, once all pieces are seen to be text in lines."""
    unbroken, start = 0, b""
    with _opened(path) as file:
        while block := file.read(BLOCK):
            if not start:
                _check_start(path, block)
                start = block
            ends = [end for end in (block.find(b"\n"), block.find(b"\r")) if end >= 0]
            unbroken += min(ends, default=len(block))
            if unbroken > LONGEST_LINE:
                raise TableError(
                    f"{path} has a line of more than {LONGEST_LINE // 2**20} MB; a table has one "
                    "row on each line, so check its line ends."
                )
            if ends:
                unbroken = len(block) - max(block.rfind(b"\n"), block.rfind(b"\r")) - 1
    if not start:
        raise TableError(f"{path} is empty; write the table again.")
    return start


def _check_start(path: Path, block: bytes) -> None:
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(
            f"{path} is UTF-16 text; convert it with: iconv -f utf-16 -t utf-8, or save it as "
            "CSV UTF-8."
        )
    if block.startswith(b"PAR1"):
        raise TableError(f"{path} is a Parquet file; call it .parquet.")
    if b"\0" in block:
        raise TableError(f"{path} is not text (it has zero bytes); export the table as CSV.")


def _separator(start: bytes) -> str:
    """A comma, or what else separates the first line where no comma does."""
    line = start.partition(b"\n")[0].decode("latin1")
    return next((mark for mark in ",;\t" if mark in line), ",")


def _decimal(start: bytes, separator: str) -> str:
    """A comma where commas do not separate cells and numbers are written 1,5, else a point.

    1,234 is no evidence, since it may stand for a thousand.
    """
    if separator == ",":
        return "."
    edge = re.escape(separator.encode())
    cell = rb'(?:^|%b)"?[-+]?\d*%b(?:\d\d?|\d{4,})"?(?=%b|\r|\n|\Z)'
    commas, points = (re.search(cell % (edge, mark, edge), start, re.M) for mark in (b",", rb"\."))
    return "," if commas and not points else "."


def _check_rows(path: Path, separator: str) -> list[str]:
    """The header, once all rows are as long as it: pandas would fill up the short ones silently."""
    header: list[str] = []
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=separator)
        try:
            for row in rows:
                if not any(cell.strip() for cell in row) and len(row) < 2:
                    continue  # a blank line
                header = header or row
                if len(row) != len(header):
                    raise TableError(
                        f"{path} has {len(row)} fields on line {rows.line_num} and "
                        f"{len(header)} in its header; every row needs the same number (quote "
                        "text that holds the separator)."
                    )
                # Beyond 64 MB only pandas looks at the lengths of rows.
                if rows.line_num % 1000 == 0 and raw.tell() > 64 * 2**20:
                    break
        except csv.Error as error:
            if not header:
                raise TableError(f"{path} has a header that cannot be read ({error}).") from error
            # A cell too long for this check: pandas reads those.
    return header


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise TableError(f"{path} is empty; write the table again.")
    names = [name.strip() for name in header if name.strip()]
    _check_names(path, names)  # pandas would rename the second one
    if names and all(map(_is_number, names)) and not _counts_up(names):
        raise TableError(
            f"{path} starts with a line of numbers ({listed(names)}); put a line of column names "
            "first."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _counts_up(names: list[str]) -> bool:
    """Whether names are 0, 1, 2, …, which an array without names is often given."""
    return names in ([str(j) for j in range(k, k + len(names))] for k in (0, 1))


READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": partial(_read_text, separator=None),
    ".tsv": partial(_read_text, separator="\t"),
    ".parquet": _read_arrow,
    ".pq": _read_arrow,
    ".feather": _read_arrow,
    ".npz": _read_npz,
    ".svm": _read_svmlight,
    ".svmlight": _read_svmlight,
    ".libsvm": _read_svmlight,
}
