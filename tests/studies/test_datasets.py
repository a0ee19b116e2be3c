import dataclasses
import gzip
import hashlib
import os
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from angcal.pools import Moments
from studies.datasets import (
    CATALOGUE,
    DatasetFileError,
    DatasetUnavailableError,
    Preparation,
    Threshold,
    available,
    cache_folder,
    load,
)
from studies.datasets.preparing import prepare
from studies.datasets.spec import Dates

EXTRAS = [d.name for d in CATALOGUE.values() if d.table == "extra"]
PAPER = [d for d in CATALOGUE.values() if d.table in ("dl", "uci", "uci-extended")]


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data of the machine, unless a test names them."""
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    monkeypatch.setenv("ANGCAL_UNPINNED", "1")  # files of the tests' own


def write_csv(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / name, "wt", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))


# -- preparation -----------------------------------------------------------------------------------

TABLE = """\
    id,when,size,kind,room,flag,empty,same,y
    a,2016-01-11 17:00:00,1.0,red,1,0,?,5,1.5
    b,2016-01-11 17:10:00,?,blue,2,1,?,5,2.5
    c,2016-02-12 18:00:00,3.0,?,1,1,?,5,?
    d,2016-02-13 18:10:00,8.0,red,,0,4,5,9.5
"""
HOW = Preparation(
    label="y",
    drop=("id", "not there"),
    dates=(Dates("when", "%Y-%m-%d %H:%M:%S", ("month", "weekday", "hour", "date", "time")),),
    categories=("room",),
)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A table in the catalogue, with its file in a folder."""
    entry = dataclasses.replace(
        CATALOGUE["appliances"],
        name="toy",
        file="toy.csv.gz",
        preparation=HOW,
        labels=Threshold("high"),
    )
    monkeypatch.setitem(CATALOGUE, "toy", entry)
    write_csv(tmp_path, "toy.csv.gz", TABLE)
    return entry


def test_a_table_becomes_a_matrix(toy, tmp_path):
    found = load("toy", folder=tmp_path, scaled=False)
    assert found.feature_names == (
        "when:month=01", "when:month=02",
        "when:weekday=1", "when:weekday=5", "when:weekday=6",
        "when:hour=17", "when:hour=18",
        "when:date=2016-01-11", "when:date=2016-02-12", "when:date=2016-02-13",
        "when:time=17:00", "when:time=17:10", "when:time=18:00", "when:time=18:10",
        "size", "kind=blue", "kind=red", "room=1", "room=2", "flag",
    )  # fmt: skip
    by_name = dict(zip(found.feature_names, found.X.T, strict=True))
    assert_array_equal(by_name["size"], [1, 3, 3, 8])
    assert_array_equal(by_name["kind=red"], [1, 0, 0, 1])
    assert_array_equal(by_name["room=1"], [1, 0, 1, 0])
    assert_array_equal(by_name["when:hour=17"], [1, 1, 0, 0])
    assert found.X.dtype == np.float64
    assert_array_equal(found.y, [0, 0, -1, 1])
    assert_array_equal(found.labeled, [True, True, False, True])
    assert_array_equal(found.labels, [1.5, 2.5, np.nan, 9.5])
    assert (found.task, found.standing) == ("high", "as published")


def test_scaling_centers_dense_columns(toy, tmp_path):
    X = load("toy", folder=tmp_path).X
    assert_allclose(X.mean(axis=0), 0, atol=1e-15)
    assert_allclose(X.std(axis=0), 1)


def test_a_sparse_table_keeps_its_zeros(toy, tmp_path, monkeypatch):
    how = dataclasses.replace(HOW, sparse=True)
    monkeypatch.setitem(CATALOGUE, "toy", dataclasses.replace(toy, preparation=how))
    plain = load("toy", folder=tmp_path, scaled=False).X
    scaled = load("toy", folder=tmp_path).X
    assert sparse.issparse(scaled)
    assert scaled.format == "csr"
    assert scaled.nnz == plain.nnz
    assert_allclose(Moments.of(scaled).deviation, 1)
    assert_allclose(scaled.toarray(), plain.toarray() / plain.toarray().std(axis=0))


def test_labels_play_no_part_in_the_matrix(toy, tmp_path):
    before = load("toy", folder=tmp_path).X
    write_csv(tmp_path, "toy.csv.gz", TABLE.replace("1.5", "77").replace("9.5", "-3"))
    assert_array_equal(load("toy", folder=tmp_path).X, before)


def test_two_valued_columns_as_numbers_or_levels():
    X = np.array([[0.0, 2.5], [1.0, 3.5], [1.0, 9.5]])
    assert_array_equal(prepare(X, Preparation(), scaled=False).values, X)
    levels = prepare(X, Preparation(two_valued="levels"), scaled=False).values
    assert_array_equal(levels, [[1, 0, 2.5], [0, 1, 3.5], [0, 1, 9.5]])


def test_missing_cells_of_a_matrix_are_filled_in_and_empty_columns_left_out():
    X = np.array([[1.0, np.nan, 4.0], [np.nan, np.nan, 5.0], [3.0, 2.0, 7.0], [5.0, np.nan, 1.0]])
    found = prepare(X, Preparation(), scaled=False).values
    assert_array_equal(found, [[1, 4], [3, 5], [3, 7], [5, 1]])


def test_constant_and_dead_columns_are_left_out():
    noise = np.random.default_rng(0).standard_normal((50, 3))
    X = np.column_stack([noise * [1.0, 1e-8, 0.5], np.full(50, 0.1), np.full(50, 1e9)])
    X[:, 3] += 1e-17
    assert prepare(X, Preparation()).values.shape == (50, 3)
    assert prepare(X, Preparation(dead_share=1e-3)).values.shape == (50, 2)
    counts = sparse.csr_matrix(np.column_stack([np.ones(50), np.eye(50)[:, :2]]))
    assert prepare(counts, Preparation()).values.shape == (50, 2)
    with pytest.raises(ValueError, match="no column"):
        prepare(np.ones((4, 2)), Preparation())


# -- loading ---------------------------------------------------------------------------------------


def dense(folder, name, labels, columns=4):
    folder.mkdir(parents=True, exist_ok=True)
    X = np.random.default_rng(0).standard_normal((len(labels), columns))
    np.savez(folder / name, X=X.astype(np.float32), y=np.array(labels))
    return X


def test_a_dense_matrix(tmp_path, monkeypatch):
    X = dense(tmp_path, "madelon.npz", [-1, 1, 1, -1, 1])
    monkeypatch.setenv("ANGCAL_DATA", str(tmp_path))
    found = load("madelon", scaled=False)
    assert_allclose(found.X, X, rtol=1e-6)
    assert found.X.dtype == np.float64
    assert_array_equal(found.y, [0, 1, 1, 0, 1])
    assert found.feature_names is None
    assert found.sizes.total <= 5


def test_a_sparse_matrix_without_labels(tmp_path):
    X = sparse.random(30, 6, density=0.4, format="csr", random_state=0)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(tmp_path / "nova.npz", **parts)
    found = load("nova", folder=tmp_path, scaled=False)
    assert sparse.issparse(found.X)
    assert_allclose(found.X.toarray(), X.toarray())
    assert (found.y, found.labels, found.task) == (None, None, None)
    assert not found.labeled.any()


def test_missing_classes(tmp_path):
    dense(tmp_path, "tox21_smilesbert.npz", [0, 1, -1, 0])
    assert_array_equal(load("tox21", folder=tmp_path).y, [0, 1, -1, 0])


def test_folder_then_variable_then_cache(tmp_path, monkeypatch):
    for place, rows in (("cache", 3), ("variable", 4), ("folder", 5)):
        dense(tmp_path / place, "madelon.npz", [-1, 1] + [1] * (rows - 2))
    assert load("madelon", download=False).X.shape[0] == 3
    monkeypatch.setenv("ANGCAL_DATA", str(tmp_path / "variable"))
    assert load("madelon", download=False).X.shape[0] == 4
    assert load("madelon", folder=tmp_path / "folder").X.shape[0] == 5


def test_a_download_beats_a_stand_in_of_the_same_place_and_says_what_it_is(tmp_path):
    dense(tmp_path, "usps.npz", list(range(10)))
    dense(tmp_path, "usps-openml-41082.npz", [str(digit) for digit in range(1, 11)])
    found = load("usps", folder=tmp_path)
    assert_array_equal(found.labels, range(10))
    assert_array_equal(found.y, np.arange(10) % 2)
    dense(tmp_path, "har_windows.npz", [1, 4, 9])
    assert load("har", folder=tmp_path).standing == "stand-in"
    dense(tmp_path, "har-openml-1478.npz", ["1", "4", "2"])
    assert load("har", folder=tmp_path).standing == "as published"


def test_what_is_available(tmp_path):
    packaged = ["digits", "breast_cancer", "iris", "wine"]
    assert available() == packaged
    dense(tmp_path, "madelon.npz", [-1, 1])
    dense(tmp_path / "cache", "mnist-openml-554.npz", [1, 2])
    assert available(tmp_path) == ["madelon", "mnist", *packaged]


@pytest.mark.parametrize(("name", "columns"), [("digits", 61), ("breast_cancer", 30)])
def test_packaged_datasets_need_no_file(name, columns):
    found = load(name, download=False)
    assert found.X.shape[1] == columns
    assert set(found.y) == {0, 1}


@pytest.mark.parametrize(("name", "columns"), [("iris", 4), ("wine", 13)])
def test_packaged_datasets_of_three_classes_have_no_task_of_two(name, columns):
    found = load(name, download=False)
    assert found.X.shape[1] == columns
    assert set(found.labels) == {0, 1, 2}
    assert found.y is None


def test_the_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ANGCAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "angcal"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parts[-2:] == (".cache", "angcal")


# -- failures --------------------------------------------------------------------------------------


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'minst'.*mnist"):
        load("minst")


def test_absent_and_no_download(tmp_path):
    with pytest.raises(DatasetUnavailableError) as caught:
        load("madelon", folder=tmp_path, download=False)
    for part in (
        "madelon (Madelon)",
        "ANGCAL_DATA",
        "madelon.npz",
        "openml.org/d/1485",
        "download",
    ):
        assert part in str(caught.value)


def test_absent_and_not_downloadable():
    with pytest.raises(DatasetUnavailableError, match="ANGCAL_DATA is not set") as caught:
        load("newsgroups")
    for part in ("MiniLM", "newsgroups_minilm.npz", "20Newsgroups"):
        assert part in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / "madelon.npz").write_bytes(content)
    with pytest.raises(DatasetFileError, match=r"madelon\.npz cannot be read"):
        load("madelon", folder=tmp_path)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    np.savez(tmp_path / "madelon.npz", X=np.array([[object()]], dtype=object), y=[1])
    with pytest.raises(DatasetFileError, match="cannot be read"):
        load("madelon", folder=tmp_path)


def test_labels_of_another_length_are_refused(tmp_path):
    np.savez(tmp_path / "madelon.npz", X=np.eye(3), y=[1, -1])
    with pytest.raises(DatasetFileError, match="3 rows"):
        load("madelon", folder=tmp_path)


# -- the real files --------------------------------------------------------------------------------

DATA = os.environ.get("ANGCAL_DATA")
# Columns of the local file, where they differ from the paper's; the remarks say why.
OTHER_COLUMNS = {
    "cifar10": 1280,
    "newsgroups": 381,
    "tox21": 256,
    "har": 768,
    "gisette": 2460,
    "internet_ads": 3110,
    "mnist": 696,
    "ada": 47,
    "nova": 11158,
    "speeddating": 330,
    "meteo": 371,
    "appliances": 345,
}


@pytest.mark.skipif(not DATA, reason="ANGCAL_DATA is not set")
@pytest.mark.parametrize("name", [d.name for d in PAPER] + EXTRAS)
def test_every_dataset_of_the_folder_loads(name):
    if name not in available(DATA):
        pytest.skip(f"{name} is not in ANGCAL_DATA")
    found = load(name, folder=DATA, download=False)
    values = found.X.data if sparse.issparse(found.X) else found.X
    assert np.isfinite(values).all()
    assert_allclose(Moments.of(found.X).deviation, 1, atol=1e-6)
    if found.dataset.d is not None and found.standing == found.dataset.standing:
        assert found.X.shape[1] == OTHER_COLUMNS.get(name, found.dataset.d)
    if found.y is not None:
        share = found.y[found.labeled].mean()
        assert 0.02 < share < 0.98


def test_a_file_that_is_not_the_catalogues_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("ANGCAL_UNPINNED")
    dense(tmp_path, "madelon.npz", [-1, 1, 1, -1, 1])
    with pytest.raises(DatasetFileError, match=r"SHA-256 differs.*ANGCAL_UNPINNED=1"):
        load("madelon", folder=tmp_path)


@pytest.mark.skipif(not DATA, reason="ANGCAL_DATA is not set")
def test_every_file_that_is_there_has_its_checksum():
    found = {name: Path(DATA) / dataset.file for name, dataset in CATALOGUE.items() if dataset.file}
    for name, path in found.items():
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert CATALOGUE[name].sha256 == digest
