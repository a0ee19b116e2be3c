"""Files that are never half there: written under another name, synced to disk, then renamed."""

from __future__ import annotations

import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

SUFFIX = ".unfinished"
"""Ends the name of a file that is being written, or that a kill has left."""
ABANDONED = 3600.0
"""Seconds after which a file that nobody has written to is nobody's."""


@contextmanager
def written(target: Path) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the target's name once it is complete and on disk.

    An error inside the ``with`` block leaves the target as it was. Where the file system has files
    without a name, the file has none until then, so that a kill leaves nothing; elsewhere what one
    has left is deleted by the next file of that name, an hour later.

    Parameters
    ----------
    target : Path
        Folders that are missing are made. A file that is there leaves its permissions to the new
        one, a link stays and its file is replaced, and what is no file, as a pipe or a device, is
        written to directly.
    """
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve() if target.is_symlink() else target
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # A name that nobody can guess, opened only where it is new: no one can put a link in its way.
    path = target.with_name(f".{target.name}.{secrets.token_hex(8)}{SUFFIX}")
    try:
        with _without_name(target.parent) or path.open("xb") as file:
            if file.name == str(path):
                sweep(target.parent, target.name, older=ABANDONED)
            if mode is not None and os.chmod in os.supports_fd:
                os.chmod(file.fileno(), mode)  # before there is anything to read
            yield file
            file.flush()
            os.fsync(file.fileno())
            if file.name != str(path):
                # With a folder to start from, which an absolute name has no use for, the link goes
                # to the file itself.
                os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno())
        path.replace(target)
    finally:
        path.unlink(missing_ok=True)


def _without_name(folder: Path) -> Any:
    """A new file in a folder that has no name yet; None where there are none such."""
    kind = getattr(os, "O_TMPFILE", None)
    if kind is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.fdopen(os.open(folder, kind | os.O_RDWR, 0o666), "wb")
    except OSError:
        return None


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


def sweep(folder: Path, name: str, older: float = 0.0) -> None:
    """Delete what killed processes have left of a file, some seconds ago, while they wrote it."""
    for path in folder.glob(f".{glob.escape(name)}.*{SUFFIX}"):
        with suppress(OSError):  # another process may be faster
            if time.time() - path.stat().st_mtime >= older:
                path.unlink()
