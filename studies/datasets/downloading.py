"""A dataset's public home -> a file in the cache, in the same two formats as in a data folder.

Beside every download lies its SHA-256, recorded when it was complete, and every later load checks
the file against it. What comes from OpenML is checked against OpenML's own MD5 first.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from pooch import file_hash
from scipy.io import loadmat

from studies.datasets.fetching import LARGEST, alone, fetch
from studies.datasets.homes import OpenML, WebFile
from studies.datasets.openml import openml_rows
from studies.datasets.reading import DatasetFileError, write_matrix, write_table
from studies.datasets.spec import Dataset


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
