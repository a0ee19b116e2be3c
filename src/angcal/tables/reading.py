"""A file, recognized by its suffix -> a pandas DataFrame, or one sentence about what is wrong."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from angcal.notices import warn
from angcal.tables.errors import (
    MissingPackageError,
    TableError,
    TableWarning,
    check_names,
    first_line,
    listed,
    need,
)
from angcal.tables.text import MOST_BYTES, check_growth, check_lines, keep_words, read_text

# Set on frames whose file does not write zeros down, so that an absent column is one of zeros.
ABSENT_IS_ZERO = "angcal_absent_is_zero"
# Of all memory: a data frame takes some times what its numbers do.
LARGEST_SHARE = 0.25
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


@dataclass(frozen=True)
class Reading:
    """How to read a file, where it does not say so itself; see `read_table`."""

    separator: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    needed: Sequence[str] = ()
    target: str | None = None


def read_table(
    path: Any,
    *,
    least_rows: int = 2,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    needed: Sequence[str] = (),
    target: str | None = None,
) -> Any:
    """The table in a file.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.txt`` (also with ``.gz``), ``.xlsx``, ``.parquet``, ``.feather``,
        ``.npz`` with X and perhaps y and feature_names, ``.svm``, ``.svmlight``, ``.libsvm``,
        ``.dta``, ``.sav``, ``.sas7bdat``, ``.xpt`` or ``.h5ad``. Labels of arrays and of SVMlight
        files are in the column "y", those of ``.h5ad`` in a column of ``obs``.
    least_rows : int, default=2
        Fewer rows are an error.
    separator : str, optional
        Of cells in text: one character, or "tab"; found from the first lines by default.
    encoding : str, optional
        Of text; by default UTF-8, UTF-16 or Windows-1252, whichever it is.
    sheet : str, optional
        Of a spreadsheet; the first by default.
    needed : sequence of str, optional
        Columns that must be there; of text this is checked before all else is read.
    target : str, optional
        The column of classes, which text needs to have: words in it that stand for nothing in other
        columns, such as None and NA, are classes where they recur among words.

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
    reader = check_file(path)
    if sheet is not None and reader is not read_sheet:
        raise TableError(f"--sheet {sheet!r} is for spreadsheets, which {path} is none of.")
    try:
        frame = reader(path, Reading(separator, encoding, sheet, needed, target))
    except (TableError, MissingPackageError):
        raise
    except UNREADABLE as error:
        raise TableError(
            f"{path} cannot be read: it is damaged or not what its name says "
            f"({first_line(error)}); write it again, or correct its suffix."
        ) from error
    return _checked(frame, path, least_rows)


def _memory() -> float:
    """Bytes that this process may take."""
    import os

    limits = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    try:
        import resource
    except ImportError:  # pragma: no cover (not on Windows)
        return limits[0]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(kind)[0]
        limits += [float(soft)] if soft != resource.RLIM_INFINITY else []
    return min(limits)


def is_large(path: Any) -> bool:
    """Whether a file is a Parquet table that should not be held whole."""
    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".pq") or not path.is_file():
        return False
    try:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            cells = file.metadata.num_rows * file.metadata.num_columns
    except (ImportError, OSError, ValueError):
        return False  # the ordinary reader says what is wrong
    return 8 * cells > min(LARGEST_SHARE * _memory(), MOST_BYTES)


def _reader_of(path: Path) -> Callable[[Path, Reading], Any]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    zipped = suffixes[-1:] == [".gz"]
    kind = ((suffixes[:-1] if zipped else suffixes)[-1:] or [""])[0]
    found = READERS.get(kind)
    if found is None or (zipped and found is not read_text):
        way_out = WAYS_OUT.get(kind, f"use one of {', '.join(READERS)}, or .csv.gz")
        shown = (kind + ".gz" if zipped else kind) or "without a suffix"
        raise TableError(f"{path}: unsupported file type {shown}; {way_out}.")
    return found


def check_file(path: Path) -> Callable[[Path, Reading], Any]:
    """What reads a file; raise where its kind is not read, or there is no such file."""
    reader = _reader_of(path)
    if not path.exists():
        raise TableError(f"{path} does not exist; check the name and the folder.")
    if path.is_dir():
        raise TableError(f"{path} is a folder; name one file in it.")
    if path.is_file() and path.stat().st_size == 0:
        raise TableError(f"{path} is empty; write the table again.")
    return reader


def _checked(frame: Any, path: Path, least_rows: int) -> Any:
    """The frame with text for names, once it has columns that differ and enough rows."""
    frame.columns = [_name(column) for column in frame.columns]
    check_names(path, list(frame.columns))
    if not len(frame.columns):
        raise TableError(f"{path} has no columns; write the table again.")
    if not len(frame):
        raise TableError(f"{path} has column names but no rows; add the rows.")
    if len(frame) < least_rows:
        raise TableError(f"{path} has one row only; at least {least_rows} are needed.")
    return frame.reset_index(drop=True)


def _name(column: Any) -> str:
    return ("_".join(map(str, column)) if isinstance(column, tuple) else str(column)).strip()


def _read_arrow(path: Path, how: Reading) -> Any:
    import pandas as pd

    need("pyarrow", f"reading {path.name}")
    if path.suffix.lower() == ".feather":
        return _read_feather(path)
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        _check_cells(path, file.metadata.num_rows * file.metadata.num_columns)
    return pd.read_parquet(path)


def _read_feather(path: Path) -> Any:
    """Piece by piece: a file of a few bytes can hold pieces that would take all memory."""
    import pyarrow as pa

    pieces, total = [], 0
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        for i in range(reader.num_record_batches):
            pieces.append(reader.get_batch(i))
            total += pieces[-1].nbytes
            _check_cells(path, total // 8)
        return pa.Table.from_batches(pieces, reader.schema).to_pandas()


def _check_cells(path: Path, cells: int) -> None:
    if cells > MOST_BYTES // 8:
        raise TableError(f"{path} has {cells} cells, too many; take fewer rows or columns.")


def _read_npz(path: Path, how: Reading) -> Any:
    """X, or the parts of a CSR matrix; y and feature_names where they are there."""
    import numpy as np
    from scipy import sparse

    # Object arrays would run code of whoever made the file.
    with path.open("rb") as file:
        # NumPy would take anything else for a pickle, and say how to open it unsafely.
        if not file.read(6).startswith((b"PK", b"\x93NUMPY")):
            raise TableError(
                f"{path} is no NPZ archive; save one with numpy.savez(path, X=..., y=...)."
            )
        file.seek(0)
        if file.read(2) == b"PK":
            check_archive(path, "NPZ archive; it is damaged, so save it again")
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


def _read_svmlight(path: Path, how: Reading) -> Any:
    """Columns are called by the numbers that the file has, so that two files agree on them."""
    check_lines(path, "latin-1")
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
    import numpy as np
    import pandas as pd
    from scipy import sparse

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


# -- spreadsheets and files of statistics programs -----------------------------------------------


# What a sheet holds where a cell has no value.
NOTHING = ("", "?", "NA", "N/A", "n/a", "#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
           "#NULL!", "NaN", "nan", "NULL", "null")  # fmt: skip
MOST_CELLS = 50_000_000
STATISTICS = {".dta": "stata", ".sav": "spss", ".sas7bdat": "sas", ".xpt": "sas"}


def read_sheet(path: Path, how: Any) -> Any:
    """One sheet of an .xlsx file: its first row has the names."""
    openpyxl = need("openpyxl", f"reading {path.name}")
    check_archive(path, "Excel file; save it as .xlsx without a password")
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        names = [sheet.title for sheet in book.worksheets]
        if how.sheet is not None and how.sheet not in names:
            raise TableError(f"{path} has no sheet {how.sheet!r}; it has {listed(names)}.")
        if how.sheet is None and len(names) > 1:
            warn(
                f"{path.name} has {len(names)} sheets, and {names[0]!r}, the first, was read; "
                "--sheet names another.",
                TableWarning,
            )
        return _table(path, book[how.sheet or names[0]], how.target)
    finally:
        book.close()


def check_archive(path: Path, kind: str) -> None:
    """Raise where a file is no zip archive, or one whose parts would take all memory."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise TableError(f"{path} is no {kind}.")
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    check_growth(path, path.stat().st_size, unpacked)


def _table(path: Path, sheet: Any, target: str | None) -> Any:
    import pandas as pd

    rows, cells = [], 0
    for row in sheet.iter_rows(values_only=True):
        cells += len(row)
        if cells > MOST_CELLS:
            raise TableError(f"{path} has more than {MOST_CELLS} cells; save the table as CSV.")
        if any(cell is not None for cell in row):
            rows.append(row)
    if not rows:
        raise TableError(f"{path} has nothing on the sheet {sheet.title!r}; name another.")
    header, *body = rows
    width = max(map(len, rows))
    header = [*header, *[None] * (width - len(header))]
    cells = pd.DataFrame([[*row, *[None] * (width - len(row))] for row in body])
    frame = cells.mask(cells.isin(NOTHING))
    unnamed = [j for j, name in enumerate(header) if name is None or not str(name).strip()]
    full = [j for j in unnamed if len(body) and frame[j].notna().any()]
    if len(full) > 1:
        raise TableError(
            f"{path} has {len(full)} columns without a name in row 1 of its sheet; delete what "
            "stands above the column names."
        )
    kept = [j for j in range(width) if j not in unnamed or j in full]
    frame = frame[kept] if len(body) else pd.DataFrame(columns=kept)
    names = [f"Unnamed: {j}" if j in full else str(header[j]).strip() for j in kept]
    check_names(path, names)
    frame.columns = names
    frame = frame.infer_objects()
    if target in names:
        keep_words(frame, target, cells[kept[names.index(target)]])
    return frame


def read_statistics(path: Path, how: Any) -> Any:
    """A file of Stata, SPSS or SAS, with the labels of values where it has them."""
    import pandas as pd

    program = STATISTICS[path.suffix.lower()]
    if program == "spss":
        need("pyreadstat", f"reading {path.name}", "pyreadstat")
        return pd.read_spss(path)
    if program == "sas":
        return pd.read_sas(path, encoding=how.encoding or "infer")
    try:
        return pd.read_stata(path)
    except ValueError:  # labels that are not unique
        return pd.read_stata(path, convert_categoricals=False)


def read_anndata(path: Path, how: Any) -> Any:
    """X of an AnnData file under the names of ``var``, beside the columns of ``obs``."""
    import pandas as pd

    data = need("anndata", f"reading {path.name}", "anndata").read_h5ad(path)
    names = [str(name) for name in data.var_names]
    frame = _frame(data.X, names, None, path)
    check_names(path, [*names, *map(str, data.obs.columns)])
    return pd.concat([data.obs.reset_index(drop=True), frame], axis=1)


# -- which reader is for which file ---------------------------------------------------------------

READERS: dict[str, Callable[[Path, Reading], Any]] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".xlsx": read_sheet,
    ".xlsm": read_sheet,
    ".parquet": _read_arrow,
    ".pq": _read_arrow,
    ".feather": _read_arrow,
    ".npz": _read_npz,
    ".svm": _read_svmlight,
    ".svmlight": _read_svmlight,
    ".libsvm": _read_svmlight,
    ".dta": read_statistics,
    ".sav": read_statistics,
    ".sas7bdat": read_statistics,
    ".xpt": read_statistics,
    ".h5ad": read_anndata,
}
# How tables that are not read become such that are.
WAYS_OUT = {
    ".xls": "save it as .xlsx",
    ".ods": "save it as .xlsx",
    ".numbers": "export it as .xlsx or CSV",
    ".rds": "write it in R with write.csv(table, 'table.csv', row.names = FALSE)",
    ".rdata": "write it in R with write.csv(table, 'table.csv', row.names = FALSE)",
    ".mat": "write it in MATLAB with writetable(table, 'table.csv')",
    ".json": "write it as CSV, in Python with pandas.read_json(...).to_csv(..., index=False)",
    ".npy": "save it with numpy.savez(path, X=..., y=...)",
    ".pkl": "opening it could run code; write it as CSV or Parquet",
    ".pickle": "opening it could run code; write it as CSV or Parquet",
    ".pdf": "export the table as CSV",
    ".docx": "copy the table into a spreadsheet and save it as .xlsx",
    ".doc": "copy the table into a spreadsheet and save it as .xlsx",
    ".zip": "unpack it and name the table",
    ".skops": "it is a model; name the table",
}
