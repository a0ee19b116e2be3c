"""Text in rows and cells -> a DataFrame, once all is checked that pandas would guess silently.

Encoding, line ends, separator, decimal mark, marks between thousands, equally long rows, a header
of distinct names. Nothing here needs pandas before the table has passed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from angcal.notices import warn
from angcal.tables.errors import (
    TableError,
    TableWarning,
    check_names,
    first_line,
    listed,
    require_column,
)

# A line as long as this is no row of a table, and reading it could take all memory.
LONGEST_LINE = 16 * 2**20
BLOCK = 4 * 2**20
# A table's text shrinks 3 to 30 times; what grows more than this on opening was made to.
MOST_GROWTH, HARMLESS = 200, 64 * 2**20
MOST_BYTES = 8 * 2**30
MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "blank": " "}
ZIPPED = (gzip.BadGzipFile, EOFError, zlib.error)
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: Path, how: Any) -> Any:
    """The table in a text file.

    Parameters
    ----------
    path : Path
        Perhaps with ``.gz`` at its end.
    how : angcal.tables.reading.Reading
    """
    try:
        start = _first_block(path)
        encoding = _encoding(path, start, how.encoding)
        text = codecs.getincrementaldecoder(encoding)("ignore").decode(start)
        separator = _mark(how.separator) if how.separator else find_separator(text, path)
        header = _check_rows(path, separator, encoding)
        _check_header(path, header)
        for name in how.needed:
            require_column([cell.strip() for cell in header], name)
        if how.target is not None:
            require_column([cell.strip() for cell in header], how.target)
        return _parsed(path, text, separator, encoding, how.target)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not {error.encoding} text (byte 0x{error.object[error.start]:02x}); name "
            "its encoding with --encoding, or save it as CSV UTF-8."
        ) from error
    except ZIPPED as error:
        raise TableError(f"{path} is not a complete gzip file; compress it again.") from error


def _parsed(path: Path, text: str, separator: str, encoding: str, target: str | None) -> Any:
    import pandas as pd

    found = find_decimal(text, separator)
    decimal = found or "."
    how: dict[str, Any] = {"sep": separator, "encoding": encoding, "index_col": False}
    try:
        frame = pd.read_csv(path, decimal=decimal, na_values=["?"], low_memory=False, **how)
        for place in (j for j, name in enumerate(frame) if str(name).strip() == target):
            if frame.iloc[:, place].isna().any():
                cells = pd.read_csv(
                    path, usecols=[place], dtype=str, keep_default_na=False, na_values=[""], **how
                )
                keep_words(frame, frame.columns[place], cells.iloc[:, 0])
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path} is empty; write the table again.") from error
    except pd.errors.ParserError as error:
        raise TableError(
            f"{path} is not a regular table ({first_line(error)}); mend that line."
        ) from error
    # A comma stands between thousands for certain only where a point is the decimal mark.
    marks = {".": ",' \xa0\u202f", ",": ".' \xa0\u202f", "": "' \xa0\u202f"}[found]
    return _without_thousands(frame, decimal, marks)


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


# -- bytes --------------------------------------------------------------------------------------


def _first_block(path: Path) -> bytes:
    with _opened(path) as file:
        block: bytes = file.read(BLOCK)
    if not block:
        raise TableError(f"{path} is empty; write the table again.")
    if block.startswith(b"PAR1"):
        raise TableError(f"{path} is a Parquet file; call it .parquet.")
    if block.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise TableError(
            f"{path} is not text but a spreadsheet or an archive; if it is Excel's, call it .xlsx, "
            "else export the table as CSV."
        )
    return block


def _encoding(path: Path, start: bytes, given: str | None) -> str:
    """The encoding that all of the file is valid in: as given, or UTF-8, UTF-16, Windows-1252."""
    if given is not None:
        try:
            codecs.lookup(given)
        except LookupError as error:
            raise TableError(
                f"--encoding {given!r} is unknown; common ones are utf-8, utf-16, cp1252 (Windows) "
                "and mac_roman."
            ) from error
        check_lines(path, given)
        return given
    found = _marked(start)
    if found is None and b"\0" in start:
        raise TableError(f"{path} is not text (it has zero bytes); export the table as CSV.")
    try:
        check_lines(path, found or "utf-8")
        return found or "utf-8"
    except UnicodeDecodeError as first:
        if found is not None:
            raise
        try:
            check_lines(path, "cp1252")
        except UnicodeDecodeError:
            raise first from None
        warn(
            f"{path.name} is not UTF-8 and was read as Windows-1252; if letters look wrong, name "
            "its encoding with --encoding.",
            TableWarning,
        )
        return "cp1252"


def _marked(start: bytes) -> str | None:
    """The encoding that a byte order mark names, or UTF-16 where every other byte is zero."""
    for mark, name in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return name
    even, odd = start[0:4000:2], start[1:4000:2]
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros and zeros.count(0) > 0.7 * len(zeros) and not others.count(0):
            return name
    return None


def check_lines(path: Path, encoding: str) -> None:
    """Raise where a file is not this encoding, or not in lines of a sensible length and number."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    unbroken = total = 0
    size = path.stat().st_size
    with _opened(path) as file:
        while block := file.read(BLOCK):
            total += len(block)
            ends = [end for end in (block.find(b"\n"), block.find(b"\r")) if end >= 0]
            unbroken += min(ends, default=len(block))
            if unbroken > LONGEST_LINE:
                raise TableError(
                    f"{path} has a line of more than {LONGEST_LINE // 2**20} MB; a table has one "
                    "row on each line, so check its line ends."
                )
            if ends:
                unbroken = len(block) - max(block.rfind(b"\n"), block.rfind(b"\r")) - 1
            check_growth(path, size, total)
            decoder.decode(block)
    decoder.decode(b"", final=True)


def check_growth(path: Path, packed: int, unpacked: int) -> None:
    """Raise where a file becomes so large on opening that it could take all memory."""
    if unpacked > max(MOST_GROWTH * packed, HARMLESS):
        raise TableError(
            f"{path} grows more than {MOST_GROWTH}-fold when it is unpacked, as no table does; "
            "unpack it yourself if you trust it."
        )
    if unpacked > MOST_BYTES:
        raise TableError(
            f"{path} has more than {MOST_BYTES // 2**30} GB; take fewer rows or columns."
        )


# -- marks --------------------------------------------------------------------------------------


def _mark(given: str) -> str:
    mark = MARKS.get(given.lower(), given)
    if len(mark) != 1 or mark in "\"\r\n'":
        raise TableError(
            f"--sep {given!r} must be one character, or one of tab, comma, semicolon and space."
        )
    return mark


def find_separator(text: str, path: Path) -> str:
    """The mark that cuts the first lines into the same number of cells, more than one.

    Where none does, a comma, or what else is in the first line.
    """
    lines = text.splitlines(keepends=True)[:20]
    if not text.endswith("\n") and len(text) > 1_000_000:
        lines = lines[:-1]
    marks = "\t,;|" if ".tsv" in path.suffixes else ",;\t|"
    if path.suffix.lower() in (".txt", ".dat"):
        marks += " "
    cells = {}
    for mark in marks:
        try:
            lengths = {len(row) for row in csv.reader(lines, delimiter=mark) if row}
        except csv.Error:
            continue
        if len(lengths) == 1 and (length := lengths.pop()) > 1:
            cells[mark] = length
    if cells:
        return max(cells, key=lambda mark: cells[mark])
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        return "\t"
    return next((mark for mark in ",;\t" if lines and mark in lines[0]), ",")


def find_decimal(text: str, separator: str) -> str:
    """What fractions are written with: a comma, a point, or "" where that cannot be seen.

    1,234 is no evidence, since it may stand for a thousand; 1.234,5 is.
    """
    if separator == ",":
        return "."
    edge = re.escape(separator)
    number = r"(?:\d*{1}(?:\d\d?|\d{{4,}})|\d{{1,3}}(?:{2}\d{{3}})+{1}\d+)"
    cell = rf'(?:^|{{0}})"?[-+]?{number}"?(?={{0}}|\r|\n|\Z)'
    commas, points = (
        re.search(cell.format(edge, mark, other), text, re.M)
        for mark, other in ((",", r"[.' \xa0]"), (r"\.", "[,' ]"))
    )
    return "" if bool(commas) == bool(points) else "," if commas else "."


def _without_thousands(frame: Any, decimal: str, marks: str) -> Any:
    """Numbers written 1,234.5 or 1.234,5 or 1'234.5 as numbers, where a column has no doubt."""
    import pandas as pd

    group, point = f"[{re.escape(marks)}]", re.escape(decimal)
    grouped = rf"\s*[-+]?\d{{1,3}}({group})\d{{3}}(?:\1\d{{3}})*(?:{point}\d+)?\s*"
    plain = rf"\s*[-+]?\d+(?:{point}\d+)?\s*"
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind not in "OT":
            continue
        present = column.dropna().astype(str)
        found = present.str.fullmatch(grouped)
        if not found.any() or (found | present.str.fullmatch(plain)).mean() < 0.8:
            continue
        bare = present.where(~found, present.str.replace(group, "", regex=True))
        numbers = pd.to_numeric(bare.str.replace(decimal, "."), errors="coerce")
        frame[name] = numbers.astype(object).where(numbers.notna(), present).reindex(frame.index)
        if numbers.notna().all():
            frame[name] = frame[name].astype(float)
    return frame


# -- rows ---------------------------------------------------------------------------------------


def _check_rows(path: Path, separator: str, encoding: str) -> list[str]:
    """The header, once all rows are as long as it: pandas would fill up the short ones silently."""
    header: list[str] = []
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        rows = csv.reader(text, delimiter=separator)
        try:
            for row in rows:
                if not any(cell.strip() for cell in row) and len(row) < 2:
                    continue  # a blank line
                header = header or row
                if len(row) != len(header):
                    raise TableError(_ragged(path, len(row), rows.line_num, len(header)))
                # Beyond 64 MB only pandas looks at the lengths of rows.
                if rows.line_num % 1000 == 0 and raw.tell() > 64 * 2**20:
                    break
        except csv.Error as error:
            if not header:
                raise TableError(f"{path} has a header that cannot be read ({error}).") from error
            # A cell too long for this check: pandas reads those.
    return header


def _ragged(path: Path, found: int, line: int, wanted: int) -> str:
    way_out = "quote text that holds the separator"
    if wanted == 1:
        way_out = "delete lines above the column names, or name the separator with --sep"
    return (
        f"{path} has {found} fields on line {line} and {wanted} in its header; every row needs the "
        f"same number ({way_out})."
    )


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise TableError(f"{path} is empty; write the table again.")
    names = [name.strip() for name in header if name.strip()]
    check_names(path, names)  # pandas would rename the second one
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


# -- words for nothing in the column of classes --------------------------------------------------
#
# Among numbers a word such as NA or None stands for a missing cell. Among words, one that recurs
# may as well be a class: a complication that is None, Mild or Severe. It is kept as one, and
# `split_target` and `note_classes` say so.

DROPPED = "angcal_dropped_words"
"""Under which a frame's ``attrs`` say what stood in cells of the target that count as missing."""
LEAST_RECURRING = 2
CLASSES = {"?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "None"}
"""Words for nothing that may be classes; others, such as #N/A, are errors of a spreadsheet."""


def keep_words(frame: Any, name: Any, raw: Any) -> None:
    """Put words that recur back into a column of classes, and note those that stay missing.

    Parameters
    ----------
    frame : pandas.DataFrame
        Words for nothing are missing in it.
    name : str
        The column.
    raw : pandas.Series
        What its cells hold, with empty ones missing.
    """
    column = frame[name]
    lost = raw[column.isna() & raw.notna()].map(str).map(str.strip)
    counts = Counter(lost[lost != ""].tolist())
    if not counts:
        return
    present = column.dropna()
    numbers = present.dtype.kind in "iufb" or all(isinstance(cell, bool) for cell in present)
    if not (len(present) and numbers):
        classes = {word for word in CLASSES if counts[word] >= LEAST_RECURRING}
        found = lost[lost.isin(classes)]
        if len(found):
            whole = column.astype(object)
            whole[found.index] = found
            frame[name] = whole
        counts = Counter({word: times for word, times in counts.items() if word not in classes})
    frame.attrs[DROPPED] = {str(name).strip(): dict(counts)}
