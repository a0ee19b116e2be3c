"""One file from the web: with progress, resumed where it broke off, checked, never half there."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

CHUNK = 1 << 16
ATTEMPTS = 5
TIMEOUT_S = 30.0
PAUSE_S = 1.0
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE, SERVER_ERROR = 206, 416, 500


class DownloadError(OSError):
    """A file could not be had from the web; the message says why."""


def fetch(url: str, target: Path, *, expected: str = "") -> Path:
    """Download a file unless it is there.

    What has arrived is kept in ``<target>.part`` when the connection breaks or the process is
    killed, and the next attempt asks for the rest only. The server's validator, kept beside it,
    makes sure that it is the rest of the same file.

    Parameters
    ----------
    url : str
    target : Path
    expected : str, default=""
        What the file must hash to, such as ``"md5:<hexadecimal>"``; any file will do if empty.

    Raises
    ------
    DownloadError
        Where the file cannot be had or has another checksum, in which case it is deleted.
    """
    if target.exists():
        return target
    part = target.with_name(f"{target.name}.part")
    trouble: Any = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_S * attempt)
        try:
            if _continue(url, part):
                break
        except (OSError, http.client.HTTPException) as error:
            trouble = _trouble(error)
            if not _may_pass(error, attempt):
                raise DownloadError(f"{url} is out of reach ({trouble})") from error
    else:
        raise DownloadError(f"{url} broke off {ATTEMPTS} times ({trouble or 'no more bytes'})")
    _check(part, expected, url)
    part.replace(target)
    _validator(part).unlink(missing_ok=True)
    return target


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into the folder; the lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        try:
            import fcntl
        except ImportError:  # no such lock on this system
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _trouble(error: Exception) -> Any:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"{error.code} {error.reason}"
    return getattr(error, "reason", error)


def _may_pass(error: Exception, attempt: int) -> bool:
    """Whether to try again: not without a connection at all, nor where the server says no."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= SERVER_ERROR
    return attempt > 0 or not isinstance(error, urllib.error.URLError)


def _validator(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _check(part: Path, expected: str, url: str) -> None:
    if not expected:
        return
    algorithm, _, wanted = expected.partition(":")
    found = checksum(part, algorithm)
    if found != wanted:
        # Bytes that are wrong once would be wrong for ever if they were resumed.
        part.unlink()
        _validator(part).unlink(missing_ok=True)
        raise DownloadError(
            f"{url} has the checksum {found} instead of {wanted}: the file has changed or was "
            "damaged on its way. It was deleted"
        )


def _continue(url: str, part: Path) -> bool:
    """One attempt at the rest of the file; whether it is complete now."""
    have = part.stat().st_size if part.exists() else 0
    known = _validator(part).read_text() if _validator(part).exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "angcal"})
    if have and known:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != RANGE_NOT_SATISFIABLE:
            raise
        with error:
            return _is_whole(part, error.headers.get("Content-Range", ""), have)
    with response:
        if response.status != PARTIAL_CONTENT:
            have = 0
        _validator(part).write_text(
            response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        )
        return _save(response, part, have)


def _is_whole(part: Path, content_range: str, have: int) -> bool:
    """Whether there was no rest to ask for; otherwise start over."""
    if content_range == f"bytes */{have}":
        return True
    part.unlink()
    return False


def _save(response: Any, part: Path, have: int) -> bool:
    length = response.headers.get("Content-Length")
    total = have + int(length) if length else None
    with part.open("ab") as file, _progress(part, total, have) as bar:
        file.truncate(have)
        while chunk := response.read(CHUNK):
            file.write(chunk)
            have += len(chunk)
            bar.update(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    # A connection that is cut looks like the end of the file, but for its length.
    return total is None or have == total


class _Silent:
    """A bar that is not drawn."""

    def update(self, count: int) -> None:
        """Do nothing."""


def _progress(part: Path, total: int | None, have: int) -> Any:
    """A bar on a terminal, where tqdm is installed."""
    if not sys.stderr.isatty():
        return nullcontext(_Silent())
    try:
        from tqdm import tqdm
    except ImportError:
        return nullcontext(_Silent())
    name = part.name.removesuffix(".part")
    return tqdm(total=total, initial=have, desc=name, unit="B", unit_scale=True)
