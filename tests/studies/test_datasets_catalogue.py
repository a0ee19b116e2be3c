import dataclasses
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from studies.datasets import CATALOGUE, Groups, Threshold
from studies.datasets.spec import PRINTED, ByHand, OpenML, Packaged, WebFile, recoded, spelled

PAPER = [d for d in CATALOGUE.values() if d.table in ("dl", "uci", "uci-extended")]
# Rows of the published sets, for the rows of the appendix whose parts use all of them.
PUBLISHED_ROWS = {
    "har": 10299,
    "gisette": 4562,  # ada_prior
    "internet_ads": 3279,
    "mnist": 70000,
    "covertype": 581012,
    "ozone": 2534,
    "gina": 3468,
    "ada": 3468,  # gina_prior2
    "nova": 14395,  # sylva_prior
    "cina": 539383,  # airlines
    "meteo": 17379,  # bike sharing
    "diabetes130": 101766,
    "appliances": 19735,
}


# -- catalogue -------------------------------------------------------------------------------------


def test_the_catalogue_has_the_papers_three_tables_in_its_order():
    tables = [d.table for d in CATALOGUE.values()]
    assert tables == (
        ["dl"] * 3 + ["uci"] * 3 + ["uci-extended"] * 20 + ["extra"] * 6 + ["packaged"] * 4
    )
    assert list(CATALOGUE)[:7] == [
        "cifar10", "newsgroups", "tox21", "communities", "splice", "madelon", "har",
    ]  # fmt: skip
    assert len({d.title for d in CATALOGUE.values()}) == len(CATALOGUE)


@pytest.mark.parametrize("dataset", CATALOGUE.values(), ids=CATALOGUE)
def test_an_entry_is_complete(dataset):
    assert CATALOGUE[dataset.name] is dataset
    assert dataset.citation.endswith((".", "885"))
    assert dataset.remark.endswith(".")
    assert dataset.home.page.startswith(("https://", "http://"))
    assert (dataset.labels is None) == (dataset.name in ("nova", "iris", "wine"))
    if dataset.file.endswith(".csv.gz"):
        assert dataset.preparation.label
    elif not isinstance(dataset.home, Packaged):
        assert dataset.file.endswith(".npz")
    if isinstance(dataset.home, ByHand):
        assert dataset.home.reason.endswith(".")
    if isinstance(dataset.home, WebFile):
        assert dataset.home.url.startswith("https://")
    if dataset.file and dataset.name not in ("christine", "fabert", "cina"):  # loader only
        assert re.fullmatch("[0-9a-f]{64}", dataset.sha256)


@pytest.mark.parametrize("dataset", PAPER, ids=[d.name for d in PAPER])
def test_a_row_of_the_paper_has_its_numbers(dataset):
    assert min(dataset.n, dataset.d, dataset.n_pool, dataset.n_test) > 0
    assert tuple(dataset.printed) == PRINTED
    assert all(0 < error < 1 for error in dataset.printed.values())
    with pytest.raises(TypeError):
        dataset.printed["angular"] = 0.0


def test_the_printed_means_are_those_of_the_papers_text():
    extended = [d.printed for d in PAPER if d.table == "uci-extended"]
    means = {key: np.mean([row[key] for row in extended]) for key in PRINTED}
    assert round(means["angular"], 3) == 0.026
    assert round(means["platt_100"], 3) == 0.049
    assert round(means["platt_500"], 3) == 0.034
    assert sum(row["angular"] == min(row.values()) for row in extended) == 15


@pytest.mark.parametrize("name", PUBLISHED_ROWS)
def test_the_papers_parts_and_500_held_out_use_up_a_dataset(name):
    dataset = CATALOGUE[name]
    assert dataset.n + dataset.n_pool + dataset.n_test + 500 == PUBLISHED_ROWS[name]


def test_the_standing_of_what_a_data_folder_holds():
    standing = {d.name: d.standing for d in PAPER}
    assert {n for n, s in standing.items() if s == "stand-in"} == {
        "cifar10",
        "tox21",
        "har",
        "gina",
    }
    assert {n for n, s in standing.items() if s == "rebuilt"} == {"gisette"}
    assert {n for n, s in standing.items() if s == "loader only"} == {"christine", "fabert", "cina"}
    assert {"internet_ads", "nova", "mnist", "covertype", "ada"} <= {
        n for n, s in standing.items() if s == "subset"
    }


def test_identifiers_of_another_dataset_are_remarked_on():
    for name in ("gisette", "ada", "nova", "cina", "meteo"):
        assert CATALOGUE[name].printed_id in CATALOGUE[name].remark.replace("Its UCI", "UCI")


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", PAPER, ids=[d.name for d in PAPER])
def test_the_papers_sizes_where_they_fit(dataset):
    rows = dataset.n + dataset.n_pool + dataset.n_test + 500
    sizes = dataset.sizes_for(rows)
    assert (sizes.n, sizes.n_pool, sizes.n_test) == (dataset.n, dataset.n_pool, dataset.n_test)
    assert (sizes.n_holdout, sizes.total) == (500, rows)


@pytest.mark.parametrize("rows", [7, 60, 500, 2000, 10**6])
@pytest.mark.parametrize("name", ["mnist", "semeion", "appliances", "allaml"])
def test_sizes_never_use_more_rows_than_there_are(name, rows):
    sizes = CATALOGUE[name].sizes_for(rows)
    assert sizes.total <= rows
    assert min(dataclasses.astuple(sizes)) >= 1


def test_fewer_rows_shrink_the_pool_first_and_keep_n():
    sizes = CATALOGUE["covertype"].sizes_for(60_000)
    assert (sizes.n, sizes.n_test, sizes.n_holdout) == (196, 1500, 500)
    assert sizes.n_pool == 60_000 - 196 - 2000
    assert CATALOGUE["internet_ads"].sizes_for(1966).n == 983


# -- labels ----------------------------------------------------------------------------------------


def test_threshold_at_the_median_of_what_is_present():
    y = Threshold("high").task(np.array([1.0, 2.0, np.nan, 3.0, 10.0]))
    assert_array_equal(y, [0, 0, -1, 1, 1])


def test_groups_by_text_whatever_the_type():
    rule = Groups(("1", "3"), "odd", negative=("2",))
    for labels in (
        [1, 2, 3, 4],
        [1.0, 2.0, 3.0, np.nan],
        ["1", "2", "3", ""],
        ["1", "2", "3", "x"],
    ):
        assert_array_equal(rule.task(np.array(labels)), [1, 0, 1, -1])
    assert_array_equal(Groups(("a",), "a or not").task(np.array(["a", "b", ""])), [1, 0, -1])


def test_groups_refuse_the_labels_of_another_dataset():
    with pytest.raises(ValueError, match="the file has 7, 8"):
        Groups(("1",), "one").task(np.array([7, 8]))


def test_spelling_and_recoding():
    assert_array_equal(spelled(np.array([1.5, 2.0, np.nan])), ["1.5", "2", ""])
    pairs = (("1", -1), ("2", 1))
    assert_array_equal(recoded(np.array(["2", "1"]), pairs), [1, -1])
    assert_array_equal(recoded(np.array([-1, 1]), pairs), [-1, 1])


# -- names --


def test_downloads_have_names_of_their_own():
    names = [
        d.home.cached_as(d.name)
        for d in CATALOGUE.values()
        if not isinstance(d.home, ByHand | Packaged)
    ]
    files = [d.file for d in CATALOGUE.values() if d.file]
    assert len(set(names + files)) == len(names + files)
    assert OpenML(7, table=True).cached_as("x") == "x-openml-7.csv.gz"
