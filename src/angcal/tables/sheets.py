"""Spreadsheets and files of statistics programs -> DataFrames."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from angcal.notices import warn
from angcal.tables.errors import TableError, TableWarning, check_names, listed, need
from angcal.tables.text import check_growth, keep_words

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
    from scipy import sparse

    data = need("anndata", f"reading {path.name}", "anndata").read_h5ad(path)
    names = [str(name) for name in data.var_names]
    if sparse.issparse(data.X):
        frame = pd.DataFrame.sparse.from_spmatrix(data.X.astype(float), columns=names)
    else:
        frame = pd.DataFrame(data.X, columns=names)
    check_names(path, [*names, *map(str, data.obs.columns)])
    return pd.concat([data.obs.reset_index(drop=True), frame], axis=1)
