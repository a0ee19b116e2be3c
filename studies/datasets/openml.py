"""Datasets of OpenML: our download, scikit-learn's parser.

``sklearn.datasets.fetch_openml`` reads every dialect of ARFF, but downloads without progress and
writes wherever a description says. So the file is fetched ahead, to where scikit-learn keeps its
own download of it. Should that place change in a later version, scikit-learn downloads the file
once more, and nothing breaks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from studies.datasets.fetching import fetch
from studies.datasets.reading import zipped

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
