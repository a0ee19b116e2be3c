"""Files that are never half there: written under another name, synced to disk, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

SUFFIX = ".unfinished"
"""Ends the name of a file that is being written, or that a kill has left."""


@contextmanager
def written(target: Path) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the target's name once it is complete and on disk.

    An error inside the ``with`` block leaves the target as it was.

    Parameters
    ----------
    target : Path
        Folders that are missing are made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # A name that nobody can guess, opened only where it is new: no one can put a link in its way.
    path = target.with_name(f".{target.name}.{secrets.token_hex(8)}{SUFFIX}")
    try:
        with path.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        path.replace(target)
    finally:
        path.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8, with its line ends as they are; see `written`."""
    with written(target) as file:
        file.write(text.encode("utf-8"))


def safe_cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before =, +, -, @ and the like.

    Numbers and single signs are left as they are.

    Examples
    --------
    >>> [safe_cell(text) for text in ("=1+1", "-1.5", "+", "@sum", "a-b")]
    ["'=1+1", '-1.5', '+', "'@sum", 'a-b']
    """
    if len(text) < 2 or text[0] not in "=+-@\t\r\n＝＋－＠":
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def sweep(folder: Path, name: str) -> None:
    """Delete what killed processes have left of a file while they wrote it."""
    for path in folder.glob(f".{name}.*{SUFFIX}"):
        path.unlink(missing_ok=True)
