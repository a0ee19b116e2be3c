"""A dataset's public home -> a file in the cache, in the same two formats as in a data folder.

Beside every download lies its SHA-256, recorded when it was complete, and every later load checks
the file against it. What comes from OpenML is checked against OpenML's own MD5 first.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlparse

import pooch
import requests
from pooch import file_hash
from scipy.io import loadmat
from urllib3.exceptions import NewConnectionError

from studies.datasets.preparing import DatasetFileError, write_matrix, write_table, zipped
from studies.datasets.spec import Dataset, OpenML, WebFile
from studies.progress import Bar

# -----------------------------------------------------------------------------------------------
# One file from the web, by pooch: checked, never half there, asked for again if that may help.


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


# -- Datasets of OpenML: our download, scikit-learn's parser ------------------------------------
#
# ``sklearn.datasets.fetch_openml`` reads every dialect of ARFF, but downloads without progress and
# writes wherever a description says. So the file is fetched ahead, to where scikit-learn keeps its
# own download of it. Should that place change in a later version, scikit-learn downloads the file
# once more, and nothing breaks.


DESCRIPTION = "https://www.openml.org/api/v1/json/data/{}"


@contextmanager
def openml_rows(number: int, table: bool, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Rows and labels of a dataset."""
    from sklearn.datasets import fetch_openml

    fetch_ahead(number, folder)
    # The other parser, pandas, is faster, but some of its versions take the classes 1 and 2 for
    # numbers, on which scikit-learn fails.
    found = fetch_openml(data_id=number, data_home=str(folder), as_frame=table, parser="liac-arff")
    yield found.data, found.target
    shutil.rmtree(folder, ignore_errors=True)


def fetch_ahead(number: int, folder: Path) -> None:
    """Put the dataset's file where scikit-learn will look for it."""
    folder.mkdir(parents=True, exist_ok=True)
    answer = fetch(DESCRIPTION.format(number), folder / f"{number}.json")
    try:
        described = json.loads(answer.read_text(encoding="utf-8"))["data_set_description"]
        url, md5 = described["url"], described["md5_checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"OpenML's description of {number} is not understood ({error})") from error
    finally:
        answer.unlink()
    kept = folder / "openml" / "openml.org"
    place = kept / f"{urlparse(url).path.lstrip('/')}.gz"
    if not place.resolve().is_relative_to(kept.resolve()):
        raise ValueError(f"OpenML's description of {number} names an odd file: {url}")
    if not place.exists():
        arff = fetch(url, folder / f"{number}.arff", expected=f"md5:{md5}")
        with arff.open("rb") as source, zipped(place) as copy:
            shutil.copyfileobj(source, copy)
        arff.unlink()


def cache_folder() -> Path:
    """``ANGCAL_CACHE``, or ``angcal`` in the user's cache."""
    if own := os.environ.get("ANGCAL_CACHE"):
        return Path(own).expanduser()
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "angcal" / "Cache"
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "angcal"


def obtain(dataset: Dataset, cache: Path) -> Path:
    """The dataset's download in the cache, downloaded unless it is there."""
    home = dataset.home
    if not isinstance(home, OpenML | WebFile):
        raise ValueError(f"{dataset.name} has no file to download")
    target = cache / home.cached_as(dataset.name)
    with alone(cache):
        if not target.exists():
            if isinstance(home, OpenML):
                _from_openml(home, target, dataset.preparation.label)
            else:
                _from_web(home, target)
            _digest(target).write_text(f"{file_hash(target)}  {target.name}\n")
    return target


def verify(path: Path, *, recorded: bool = False) -> None:
    """Refuse a cached file that is no longer what was downloaded."""
    digest = _digest(path)
    if recorded and not digest.exists():
        raise DatasetFileError(
            f"{path} has no recorded checksum ({digest.name}). Delete it to have it downloaded "
            "again."
        )
    if digest.exists() and digest.read_text().split()[:1] != [file_hash(path)]:
        raise DatasetFileError(
            f"{path} is not the file that was downloaded: its checksum differs from the one in "
            f"{digest.name}. Delete both to have it downloaded again."
        )


def _digest(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _from_openml(home: OpenML, target: Path, label: str | None) -> None:
    with openml_rows(home.number, home.table, target.parent / "openml") as (rows, labels):
        if home.table:
            write_table(target, rows.assign(**{label or "y": labels}).to_csv(index=False))
        else:
            write_matrix(target, rows, labels)


def _from_web(home: WebFile, target: Path) -> None:
    expected = f"sha256:{home.sha256}" if home.sha256 else ""
    raw = fetch(home.url, target.with_name(f"{target.name}.raw"), expected=expected)
    try:
        if home.form == "zip":
            write_table(target, _table_in_zip(raw, home))
        else:
            write_matrix(target, *_matrix_in_mat(raw))
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, NotImplementedError) as error:
        raise ValueError(f"{home.url} is not what it used to be ({error})") from error
    finally:
        raw.unlink()


def _table_in_zip(raw: Path, home: WebFile) -> str:
    """The CSV file of the archive, with a header."""
    with zipfile.ZipFile(raw) as archive:
        text = _member(archive, home.member)
        if not home.names_member:
            return text
        names = [
            line.split()[1]
            for line in _member(archive, home.names_member).splitlines()
            if line.lower().startswith("@attribute")
        ]
    columns = len(next(csv.reader(io.StringIO(text)), ()))
    if columns != len(names):
        raise KeyError(f"{len(names)} names for {columns} columns")
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(names)
    return header.getvalue() + text


def _member(archive: zipfile.ZipFile, name: str) -> str:
    path = next((p for p in archive.namelist() if PurePosixPath(p).name == name), None)
    if path is None:
        raise KeyError(f"no {name} in the archive")
    size = archive.getinfo(path).file_size
    if size > LARGEST:
        raise KeyError(f"{name} has {size} bytes; at most {LARGEST} are taken")
    with archive.open(path) as file:  # no more than it says that it has
        return file.read(size).decode("utf-8", errors="replace")


def _matrix_in_mat(raw: Path) -> tuple[Any, Any]:
    parts = loadmat(str(raw), appendmat=False)
    return parts["X"], parts["Y"].ravel()
