"""Comma- or tab-separated text -> a DataFrame, checked before pandas guesses at what it means."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from angcal.tables.errors import TableError, listed

# A line as long as this is no row of a table, and reading it could take all memory.
LONGEST_LINE = 16 * 2**20
BLOCK = 4 * 2**20
# Rows are counted one by one up to here; beyond it only pandas looks at their lengths.
CHECKED_TEXT = 64 * 2**20
MORE_MISSING_CELLS = ["?"]
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_text(path: Path, separator: str | None) -> Any:
    """The table in a text file; None as separator means comma, or semicolon where none is there."""
    import pandas as pd

    try:
        _check_lines(path)
        separator = separator or _separator(path)
        _check_header(path, _check_rows(path, separator))
        return pd.read_csv(
            path,
            sep=separator,
            decimal=_decimal(path, separator),
            encoding="utf-8",
            na_values=MORE_MISSING_CELLS,
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
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise TableError(f"{path} is not a regular table ({reason}); mend that line.") from error


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _check_lines(path: Path) -> None:
    """Refuse what is not text in lines, a bounded piece at a time."""
    unbroken, start = 0, True
    with _opened(path) as file:
        while block := file.read(BLOCK):
            if start:
                _check_start(path, block)
            start = False
            ends = [end for end in (block.find(b"\n"), block.find(b"\r")) if end >= 0]
            unbroken += min(ends, default=len(block))
            if unbroken > LONGEST_LINE:
                raise TableError(
                    f"{path} has a line of more than {LONGEST_LINE // 2**20} MB; a table has one "
                    "row on each line, so check its line ends."
                )
            if ends:
                unbroken = len(block) - max(block.rfind(b"\n"), block.rfind(b"\r")) - 1
    if start:
        raise TableError(f"{path} is empty; write the table again.")


def _check_start(path: Path, block: bytes) -> None:
    if block.startswith(UTF16_MARKS):
        raise TableError(
            f"{path} is UTF-16 text; convert it with: iconv -f utf-16 -t utf-8, or save it as "
            "CSV UTF-8."
        )
    if block.startswith(b"PAR1"):
        raise TableError(f"{path} is a Parquet file; call it .parquet.")
    if b"\0" in block:
        raise TableError(f"{path} is not text (it has zero bytes); export the table as CSV.")


def _separator(path: Path) -> str:
    """A comma, or what else separates the first line where no comma does."""
    with _opened(path) as file:
        line = file.readline(LONGEST_LINE)
    for candidate in (b",", b";", b"\t"):
        if candidate in line:
            return candidate.decode()
    return ","


def _decimal(path: Path, separator: str) -> str:
    """A comma where commas do not separate cells and numbers are written 1,5, else a point.

    1,234 is no evidence, since it may stand for a thousand.
    """
    if separator == ",":
        return "."
    with _opened(path) as file:
        sample = file.read(BLOCK)
    edge = re.escape(separator.encode())
    cell = rb'(?:^|%b)"?[-+]?\d*%b(?:\d\d?|\d{4,})"?(?=%b|\r|\n|\Z)'
    commas, points = (re.search(cell % (edge, mark, edge), sample, re.M) for mark in (b",", rb"\."))
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
                if rows.line_num % 1000 == 0 and raw.tell() > CHECKED_TEXT:
                    break
        except csv.Error:
            pass  # a cell too long for this check: pandas reads those
    return header


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise TableError(f"{path} is empty; write the table again.")
    names = [name.strip() for name in header if name.strip()]
    # pandas would rename the second one.
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise TableError(
            f"{path} has several columns called {listed(repeated)}; give each its own name."
        )
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
