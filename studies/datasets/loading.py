"""``load(name)``: a dataset as a matrix with labels, from a folder, the cache or the web."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pooch import file_hash
from sklearn import datasets as packaged

from angcal._typing import Matrix
from studies.datasets.catalogue import CATALOGUE
from studies.datasets.downloading import cache_folder, obtain, verify
from studies.datasets.preparing import DatasetFileError, Raw, prepare, read
from studies.datasets.spec import (
    MISSING,
    ByHand,
    Dataset,
    Ints,
    OpenML,
    Packaged,
    Sizes,
    Standing,
    WebFile,
    recoded,
)

UNPINNED = "ANGCAL_UNPINNED"
"""Variable of the environment that lets files of a data folder be others than the catalogue's."""


class DatasetUnavailableError(FileNotFoundError):
    """A dataset is neither here nor available; the message says what to do."""


@dataclass(frozen=True, eq=False)
class LoadedDataset:
    """A dataset in memory.

    Parameters
    ----------
    X : ndarray or CSR matrix of float64
        Prepared as ``dataset.preparation`` says.
    labels : ndarray or None
        As the file has them.
    y : ndarray of int or None
        Class 0 or 1, −1 where a row has none.
    dataset : Dataset
    feature_names : tuple of str or None
        None where the columns have no names.
    task : str or None
        What class 1 and class 0 are.
    standing : str
        That of what was loaded: a download is "as published".
    """

    X: Matrix
    labels: NDArray[Any] | None
    y: Ints | None
    dataset: Dataset
    feature_names: tuple[str, ...] | None
    task: str | None
    standing: Standing

    @property
    def labeled(self) -> NDArray[np.bool_]:
        """Rows that have a class."""
        if self.y is None:
            return np.zeros(self.X.shape[0], dtype=bool)
        return self.y != MISSING

    @property
    def sizes(self) -> Sizes:
        """The paper's sizes, as far as this matrix allows them."""
        return self.dataset.sizes_for(self.X.shape[0])


def load(
    name: str, *, folder: str | Path | None = None, download: bool = True, scaled: bool = True
) -> LoadedDataset:
    """Load a dataset of the catalogue.

    It is looked for in ``folder``, then in the user's cache, then downloaded into the cache.

    Parameters
    ----------
    name : str
        A key of ``CATALOGUE``.
    folder : path, optional
        Folder with data files; ``ANGCAL_DATA`` by default.
    download : bool, default=True
        Whether to go to the web for what is not there.
    scaled : bool, default=True
        Whether columns are scaled, by the mean and the deviation over all rows of the file.

    Raises
    ------
    DatasetUnavailableError
        Where the dataset is neither here nor available, with what to do about it.

    Examples
    --------
    >>> from studies.datasets import load
    >>> digits = load("digits")
    >>> digits.X.shape, digits.task
    ((1797, 61), 'odd against even digits')
    """
    if name not in CATALOGUE:
        raise ValueError(f"no dataset is called {name!r}; there are {', '.join(CATALOGUE)}.")
    dataset = CATALOGUE[name]
    raw, standing = _raw(dataset, _data_folder(folder), download)
    columns = prepare(raw.rows, dataset.preparation, scaled=scaled)
    rule = dataset.labels
    y = None if rule is None or raw.labels is None else rule.task(raw.labels)
    return LoadedDataset(
        X=columns.values,
        labels=raw.labels,
        y=y,
        dataset=dataset,
        feature_names=columns.names,
        task=None if rule is None or y is None else rule.name,
        standing=standing,
    )


def available(folder: str | Path | None = None) -> list[str]:
    """Names of the datasets that can be loaded without the web, in the catalogue's order."""
    where = _data_folder(folder)
    return [
        name
        for name, dataset in CATALOGUE.items()
        if isinstance(dataset.home, Packaged) or _find(dataset, where) is not None
    ]


def obtainable() -> list[str]:
    """Names of the datasets that are here or have a download, in the catalogue's order."""
    here = available()
    return [
        name
        for name, dataset in CATALOGUE.items()
        if name in here or not isinstance(dataset.home, ByHand)
    ]


def _data_folder(folder: str | Path | None) -> Path | None:
    chosen = folder if folder is not None else os.environ.get("ANGCAL_DATA")
    return Path(chosen).expanduser() if chosen else None


def _raw(dataset: Dataset, folder: Path | None, may_download: bool) -> tuple[Raw, Standing]:
    home = dataset.home
    if isinstance(home, Packaged):
        rows, labels = getattr(packaged, home.loader)(return_X_y=True)
        return Raw(rows, labels), dataset.standing
    path = _find(dataset, folder) or _downloaded(dataset, folder, may_download)
    _check(path, dataset)
    raw = read(path, dataset.preparation.label)
    if path.name == dataset.file:
        return raw, dataset.standing
    assert isinstance(home, OpenML | WebFile)  # only these have a download
    labels = None if raw.labels is None else recoded(raw.labels, home.recode)
    return Raw(raw.rows, labels), "as published"


def _check(path: Path, dataset: Dataset) -> None:
    """Refuse a file that is not the one of the catalogue, or not the one that was downloaded."""
    if path.name != dataset.file:
        verify(path, recorded=path.parent == cache_folder())
    elif dataset.sha256 and not os.environ.get(UNPINNED) and file_hash(path) != dataset.sha256:
        raise DatasetFileError(
            f"{path} is not the file of the catalogue: its SHA-256 differs. Replace it; or set "
            f"{UNPINNED}=1 to use a file of your own, whose results are your own too."
        )


def _find(dataset: Dataset, folder: Path | None) -> Path | None:
    """The dataset's file: the published one before a stand-in, the folder before the cache."""
    names = [dataset.file]
    if isinstance(dataset.home, OpenML | WebFile):
        names.insert(0, dataset.home.cached_as(dataset.name))
    places = [place for place in (folder, cache_folder()) if place is not None]
    candidates = (place / name for place in places for name in names)
    return next((path for path in candidates if path.is_file()), None)


def _downloaded(dataset: Dataset, folder: Path | None, may_download: bool) -> Path:
    if isinstance(dataset.home, ByHand):
        raise _unavailable(dataset, folder, dataset.home.reason)
    if not may_download:
        raise _unavailable(dataset, folder, "Downloads are switched off (download=False).")
    try:
        return obtain(dataset, cache_folder())
    except (OSError, ValueError, KeyError) as error:
        raise _unavailable(dataset, folder, f"The download failed: {error}.") from error


def _unavailable(dataset: Dataset, folder: Path | None, why: str) -> DatasetUnavailableError:
    looked = "ANGCAL_DATA is not set" if folder is None else f"{folder} does not hold it"
    if isinstance(dataset.home, ByHand):
        otherwise = f"The raw data are at {dataset.home.page}."
    else:
        otherwise = f"Or connect to the web and load it again; its home is {dataset.home.page}."
    return DatasetUnavailableError(
        f"{dataset.name} ({dataset.title}) is not on this machine: {looked}, and it is not in the "
        f"cache {cache_folder()}. {why} Set ANGCAL_DATA to a folder with the file {dataset.file}. "
        f"{otherwise}"
    )
