import dataclasses
import gzip
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.io import savemat

from studies.datasets import (
    CATALOGUE,
    DatasetFileError,
    DatasetUnavailableError,
    available,
    downloading,
    load,
)
from studies.datasets.downloading import obtain
from studies.datasets.spec import OpenML, Preparation, Threshold, WebFile

sys.path.insert(0, str(Path(__file__).parent))
import test_datasets_fetching

web, names = test_datasets_fetching.web, test_datasets_fetching.names


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    return tmp_path / "cache"


# -- a dataset -------------------------------------------------------------------------------------


def entry(monkeypatch, home, **changes):
    changes = {"name": "toy", "file": "toy.csv.gz", "labels": Threshold("high"), **changes}
    dataset = dataclasses.replace(CATALOGUE["madelon"], home=home, **changes)
    monkeypatch.setitem(CATALOGUE, "toy", dataset)
    return dataset


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for name, text in members.items():
            zipped.writestr(f"folder/{name.replace('_', '.')}", text)
    return file.getvalue()


@pytest.fixture
def zipped(web, monkeypatch):
    """A table without a header behind the web, whose archive names its columns."""
    web.files["/toy.zip"] = archive(
        toy_data="1,red,?\n2,blue,4\n3,red,5\n",
        toy_names="@relation toy\n@attribute size numeric\n@attribute kind string\n"
        "@attribute y numeric\n@data\n",
    )
    home = WebFile(web.url, f"{web.url}/toy.zip", "zip", "toy.data", "toy.names")
    return entry(monkeypatch, home, preparation=Preparation(label="y"))


def test_a_table_in_an_archive(zipped, web, cache):
    found = load("toy", scaled=False)
    assert found.feature_names == ("size", "kind=blue", "kind=red")
    assert_array_equal(found.X, [[1, 0, 1], [2, 1, 0], [3, 0, 1]])
    assert_array_equal(found.y, [-1, 0, 1])
    assert found.standing == "as published"
    assert names(cache) == [".lock", "toy-web.csv.gz", "toy-web.csv.gz.sha256"]
    assert "toy" in available()
    load("toy")
    assert len(web.asked) == 1


def test_a_cached_file_that_was_tampered_with_is_refused(zipped, cache):
    load("toy")
    path = cache / "toy-web.csv.gz"
    path.write_bytes(gzip.compress(b"size,kind,y\n1,red,2\n"))
    with pytest.raises(DatasetFileError, match="checksum"):
        load("toy")
    path.unlink()
    assert load("toy").X.shape == (3, 3)


def test_a_cached_file_without_a_recorded_checksum_is_refused(zipped, cache):
    load("toy")
    (cache / "toy-web.csv.gz.sha256").unlink()
    with pytest.raises(DatasetFileError, match="no recorded checksum"):
        load("toy")


def test_a_table_that_unpacks_to_too_much(zipped, monkeypatch):
    fetch = downloading.fetch

    def then_less(*arguments, **options):
        found = fetch(*arguments, **options)
        monkeypatch.setattr(downloading, "LARGEST", 10)
        return found

    monkeypatch.setattr(downloading, "fetch", then_less)
    with pytest.raises(DatasetUnavailableError, match="at most 10 are taken"):
        load("toy")


def test_a_damaged_matlab_file_is_a_sentence(web, monkeypatch):
    file, rng = io.BytesIO(), np.random.default_rng(0)
    savemat(file, {"X": rng.normal(size=(30, 9)), "Y": np.ones((30, 1))}, do_compression=True)
    whole = file.getvalue()
    entry(monkeypatch, WebFile(web.url, f"{web.url}/toy.mat", "mat"), file="toy.npz")
    outcomes = []
    for place in rng.integers(128, len(whole), 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        web.files["/toy.mat"] = bytes(damaged)
        try:
            load("toy")
            outcomes.append("read")
            break  # it is in the cache now
        except DatasetUnavailableError:
            outcomes.append("refused")
    assert "refused" in outcomes


def test_an_archive_without_the_table_says_so(zipped, web, cache):
    web.files["/toy.zip"] = archive(other_data="1")
    with pytest.raises(DatasetUnavailableError, match=r"no toy\.data in the archive"):
        load("toy")
    web.files["/toy.zip"] = archive(toy_data="1,2\n", toy_names="@attribute y numeric\n")
    with pytest.raises(DatasetUnavailableError, match="1 names for 2 columns"):
        load("toy")
    web.files["/toy.zip"] = b"<html>moved</html>"
    with pytest.raises(DatasetUnavailableError, match="not what it used to be"):
        load("toy")
    assert names(cache) == [".lock"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csc_matrix])
def test_a_matlab_file(web, monkeypatch, form):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    file = io.BytesIO()
    savemat(file, {"X": form(X), "Y": np.array([[1], [2], [2]], dtype=np.uint8)})
    web.files["/toy.mat"] = file.getvalue()
    entry(monkeypatch, WebFile(web.url, f"{web.url}/toy.mat", "mat"), file="toy.npz")
    found = load("toy", scaled=False)
    assert sparse.issparse(found.X) == (form is sparse.csc_matrix)
    assert_allclose(found.X.toarray() if sparse.issparse(found.X) else found.X, X)
    assert_array_equal(found.labels, [1, 2, 2])


def test_offline_says_what_to_do(web, monkeypatch, cache):
    home = WebFile("https://home.example/toy", "http://127.0.0.1:9/toy.zip", "zip", "toy.data")
    entry(monkeypatch, home, title="The Toy")
    with pytest.raises(DatasetUnavailableError) as caught:
        load("toy")
    for part in ("toy (The Toy)", "ANGCAL_DATA is not set", "toy.csv.gz", home.page, "refused"):
        assert part in str(caught.value)
    assert str(cache) in str(caught.value)


def test_a_known_checksum_is_held_against_the_download(zipped, monkeypatch, cache):
    home = dataclasses.replace(zipped.home, sha256="0" * 64)
    entry(monkeypatch, home, preparation=zipped.preparation)
    with pytest.raises(DatasetUnavailableError, match="has changed or was damaged"):
        load("toy")
    assert names(cache) == [".lock"]


# -- OpenML ----------------------------------------------------------------------------------------


@pytest.fixture
def openml(monkeypatch):
    """What scikit-learn would bring from OpenML, without going there."""
    asked = []

    def fake(**arguments):
        asked.append(arguments)
        return SimpleNamespace(data=fake.data, target=fake.target)

    fake.asked = asked
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fake)
    monkeypatch.setattr("studies.datasets.downloading.fetch_ahead", lambda number, folder: None)
    return fake


def test_a_matrix_of_openml(openml, cache):
    openml.data = np.arange(12.0).reshape(4, 3)
    openml.target = np.array(["1", "2", "2", "1"], dtype=object)
    found = load("madelon", scaled=False)
    assert_array_equal(found.X, openml.data)
    assert_array_equal(found.labels, [-1, 1, 1, -1])
    assert_array_equal(found.y, [0, 1, 1, 0])
    assert (openml.asked[0]["data_id"], openml.asked[0]["as_frame"]) == (1485, False)
    assert openml.asked[0]["data_home"].startswith(str(cache))
    load("madelon")
    assert len(openml.asked) == 1


def test_a_sparse_matrix_of_openml(openml):
    openml.data = sparse.csr_matrix(np.diag([1.0, 2.0, 3.0]))
    openml.target = np.array(["-1", "1", "1"], dtype=object)
    found = load("gisette", scaled=False)
    assert_array_equal(found.X.toarray(), openml.data.toarray())
    assert (found.standing, found.dataset.standing) == ("as published", "rebuilt")


def test_a_table_of_openml(openml):
    pd = pytest.importorskip("pandas")
    openml.data = pd.DataFrame(
        {"Airline": ["CO", "US", "AA"], "DayOfWeek": ["3", "3", "5"], "Time": [15.0, 20.0, 40.0]}
    ).astype({"DayOfWeek": "category"})
    openml.target = pd.Series(["1", "0", "1"], dtype="category", name="Delay")
    found = load("cina", scaled=False)
    assert found.feature_names == (
        "Airline=AA", "Airline=CO", "Airline=US", "DayOfWeek=3", "DayOfWeek=5", "Time",
    )  # fmt: skip
    assert sparse.issparse(found.X)
    assert_array_equal(found.y, [1, 0, 1])


def test_openml_out_of_reach(web, monkeypatch):
    monkeypatch.setattr("studies.datasets.downloading.DESCRIPTION", "http://127.0.0.1:9/{}")
    with pytest.raises(DatasetUnavailableError, match=r"refused.*openml\.org/d/41142"):
        load("christine")


ARFF = "@RELATION toy\n@ATTRIBUTE a REAL\n@ATTRIBUTE b REAL\n@ATTRIBUTE Class {1,2}\n@DATA\n" + (
    "1.5,2,1\n2.5,?,2\n3.5,7,2\n0.5,9,1\n" * 2000
)


@pytest.fixture
def server(web, monkeypatch):
    """As much of OpenML as scikit-learn asks for."""
    for name in ("INFO", "FEATURES", "QUALITIES"):
        part = "" if name == "INFO" else f"{name.lower()}/"
        monkeypatch.setattr(f"sklearn.datasets._openml._DATA_{name}", f"{web.url}/json/{part}{{}}")
    monkeypatch.setattr("studies.datasets.downloading.DESCRIPTION", f"{web.url}/json/{{}}")
    kinds = {"a": "numeric", "b": "numeric", "Class": "nominal"}
    answers = {
        "": {"data_set_description": description(web)},
        "features/": {"data_features": {"feature": [
            {
                "index": str(index), "name": name, "data_type": kind, "is_ignore": "false",
                "is_target": str(name == "Class").lower(), "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for index, (name, kind) in enumerate(kinds.items())
        ]}},
        "qualities/": {"data_qualities": {"quality": [
            {"name": "NumberOfInstances", "value": "8000.0"}
        ]}},
    }  # fmt: skip
    web.files["/data/toy.arff"] = ARFF.encode()
    for part, answer in answers.items():
        web.files[f"/json/{part}1485"] = json.dumps(answer).encode()
    return web


def description(web, **changes):
    return {
        "id": "1485", "name": "toy", "version": "1", "status": "active", "format": "ARFF",
        "description": "", "url": f"{web.url}/data/toy.arff",
        "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest(), **changes,
    }  # fmt: skip


def test_openml_from_end_to_end_with_a_broken_connection(server, cache):
    server.cuts = [10**6, 5000]  # the description whole, the data not
    found = load("madelon", scaled=False)
    assert found.X.shape == (8000, 2)
    assert_array_equal(found.X[:4], [[1.5, 2], [2.5, 7], [3.5, 7], [0.5, 9]])
    assert_array_equal(found.y[:4], [0, 1, 1, 0])
    assert server.asked.count("/data/toy.arff") == 2
    assert names(cache) == [".lock", "madelon-openml-1485.npz", "madelon-openml-1485.npz.sha256"]
    assert not (cache / "openml").exists()


def test_openml_as_a_table_with_classes_that_look_like_numbers(server, monkeypatch):
    pytest.importorskip("pandas")
    entry(monkeypatch, OpenML(1485, table=True), preparation=Preparation(label="Class"))
    found = load("toy", scaled=False)
    assert found.feature_names == ("a", "b")
    assert_array_equal(found.labels[:4], [1, 2, 2, 1])
    assert found.X.shape == (8000, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"md5_checksum": "0" * 32}, "has changed or was damaged"),
        ({"url": "http://127.0.0.1:9/../../../../../outside"}, "odd file"),
        ({"url": "file:///etc/hostname"}, "is not asked"),
        ({"url": "ftp://127.0.0.1/data"}, "is not asked"),
    ],
)
def test_openml_with_a_description_that_does_not_fit(server, changes, message):
    answer = {"data_set_description": description(server, **changes)}
    server.files["/json/1485"] = json.dumps(answer).encode()
    with pytest.raises(DatasetUnavailableError, match=message):
        load("madelon")


def test_openml_with_no_description(server):
    server.files["/json/1485"] = b"{}"
    with pytest.raises(DatasetUnavailableError, match="not understood"):
        load("madelon")


def test_only_homes_with_a_file_are_downloaded(tmp_path):
    with pytest.raises(ValueError, match="no file to download"):
        obtain(CATALOGUE["newsgroups"], tmp_path)
    assert isinstance(CATALOGUE["mnist"].home, OpenML)
