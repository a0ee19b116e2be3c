"""One file from the web, by pooch: checked, never half there, asked for again if that may help."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pooch
import requests
from urllib3.exceptions import NewConnectionError

from studies.progress import Bar

ATTEMPTS = 5
TIMEOUT_S = 30.0
PAUSE_S = 1.0
SERVER_ERROR = 500
REDIRECTS = 5
LARGEST = 512 * 2**20
"""Bytes of a download: three times the largest of the catalogue."""
ALLOWED = ("https://",)
"""How addresses begin that may be asked, also those that a server sends us on to."""

pooch.get_logger().setLevel(logging.WARNING)  # the bar says what is being downloaded


class DownloadError(OSError):
    """A file could not be had from the web; the message says why."""


def fetch(url: str, target: Path, *, expected: str = "") -> Path:
    """Download a file unless it is there."""
    if target.exists():
        return target
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_S * attempt)
        try:
            return _retrieve(url, target, expected)
        except requests.RequestException as error:
            trouble = error
            if error.response is not None:
                error.response.close()
            if not _may_pass(error, attempt):
                break
        except ValueError as error:
            raise DownloadError(f"{url} has changed or was damaged on its way: {error}") from error
    raise DownloadError(f"{url} is out of reach ({_reason(trouble)})") from trouble


def _retrieve(url: str, target: Path, expected: str) -> Path:
    with Bar(target.name) as bar:

        def download(url: str, output: str, _: Any) -> None:
            with open(output, "wb") as file, _answer(url) as answer:
                bar.total = int(answer.headers.get("content-length", 0))
                _check_size(bar.total, url)
                arrived = 0
                for chunk in answer.iter_content(2**16):
                    arrived += len(chunk)
                    _check_size(arrived, url)
                    file.write(chunk)
                    bar.update(len(chunk))

        pooch.retrieve(url, expected or None, target.name, target.parent, downloader=download)
    return target


def _answer(url: str) -> requests.Response:
    """The server's answer, after redirections to addresses that are allowed."""
    for _ in range(REDIRECTS + 1):
        if not url.lower().startswith(ALLOWED):
            raise DownloadError(f"{url} is not asked: only {' or '.join(ALLOWED)} is")
        answer = requests.get(
            url,
            stream=True,
            timeout=TIMEOUT_S,
            headers={"User-Agent": "angcal"},
            allow_redirects=False,
        )
        answer.raise_for_status()
        if not answer.is_redirect:
            return answer
        url = urljoin(url, answer.headers["location"])
        answer.close()
    raise DownloadError(f"{url} is redirected more than {REDIRECTS} times")


def _check_size(size: int, url: str) -> None:
    if size > LARGEST:
        raise DownloadError(f"{url} has more than {LARGEST} bytes, which is too much")


def _reason(error: requests.RequestException) -> object:
    """What lies behind an error of requests, where it says so."""
    return getattr(error.args[0], "reason", error) if error.args else error


def _may_pass(error: requests.RequestException, attempt: int) -> bool:
    """Whether to try again: not without a connection at all, nor where the server says no."""
    if isinstance(error, requests.HTTPError):
        return error.response is not None and error.response.status_code >= SERVER_ERROR
    return attempt > 0 or not isinstance(_reason(error), NewConnectionError)


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
