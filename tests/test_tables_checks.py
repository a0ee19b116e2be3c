"""What may be a mistake in a table is said, with the way out, and nothing else is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from angcal.tables import split_target, warn_about  # noqa: E402
from angcal.tables.checks import gives_away  # noqa: E402

N = 120


def table(seed=0, d=5, **more):
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": rng.normal(size=N) for j in range(d)}
    y = np.where(columns["x0"] + rng.normal(size=N) > 0, "yes", "no")
    return pd.DataFrame(columns | more), y


def notes(features, y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about(features, y, "outcome", **options)
    return [str(entry.message) for entry in caught]


def test_an_ordinary_table_is_not_commented_on():
    for seed in range(20):
        assert notes(*table(seed, d=50)) == []


def test_counts_in_many_columns_are_not_taken_for_identifiers():
    rng = np.random.default_rng(0)
    counts = {f"gene{j}": rng.permutation(10 * N)[:N] for j in range(20)}
    assert notes(*table(**counts)) == []


def test_whole_numbers_that_all_differ():
    numbers = 100_000 + 7 * np.random.default_rng(0).permutation(N)
    features, y = table(station=numbers)
    (note,) = notes(features, y)
    assert "column 'station' has another whole number in every row" in note
    assert "--drop 'station'" in note
    features.attrs["angcal_kept"] = ("station",)
    assert notes(features, y) == []


def test_patients_with_several_rows():
    features, y = table(patient=np.arange(N) // 3)
    (note,) = notes(features, y)
    assert "40 different entries in 120 rows" in note
    assert "--groups 'patient'" in note
    assert notes(features, y, grouped=True) == []


# -- columns that give the target away ---------------------------------------------------------


def copies(y):
    rng = np.random.default_rng(3)
    yes = y == "yes"
    wrong = yes.copy()
    wrong[0] = ~wrong[0]
    return {
        "codes": yes.astype(int),
        "words": np.where(yes, "positive", "negative"),
        "text": np.where(yes, rng.choice(["died", "lost"], N), "alive"),
        "quantity": np.where(yes, 1, 0) + rng.random(N),
        "one typing error": wrong.astype(int),
    }


@pytest.mark.parametrize("kind", list(copies(np.array(["yes", "no"] * (N // 2)))))
def test_copies_of_the_target(kind):
    features, y = table()
    features["copy"] = copies(y)[kind]
    (note,) = notes(features, y)
    assert "column 'copy' alone tells the classes of 'outcome' apart" in note
    assert "--drop" in note


def test_copies_of_several_classes():
    features, _ = table()
    codes = np.arange(N) % 4
    features["stage"], features["code"] = codes * 10.0, np.array(list("dbca"))[codes]
    (note,) = notes(features, codes)
    assert "columns 'stage', 'code' alone tell the classes" in note


def test_good_features_are_no_copies():
    features, y = table()
    features["good"] = (y == "yes") + 0.5 * np.random.default_rng(1).normal(size=N)
    features["binary"] = np.random.default_rng(2).integers(0, 2, N)
    features["rare"] = [1] + [0] * (N - 1)
    features["ward"] = [f"ward {j % 12}" for j in range(N)]
    assert notes(features, y) == []


def test_by_chance_nothing_gives_away():
    """Of 20,000 columns of noise none is named, however few rows there are of a class."""
    rng = np.random.default_rng(0)
    for n, rare in ((10, 5), (20, 2), (30, 5), (200, 3), (2000, 20)):
        codes = (np.arange(n) < rare).astype(int)
        noise = rng.normal(size=(n, 2000))
        assert not gives_away(noise, codes, 20_000).any()


# -- cells -------------------------------------------------------------------------------------


def test_text_among_numbers_and_filled_cells():
    age = [str(20 + j % 50) for j in range(N)]
    age[3], age[7], age[9] = ">80", "n.d.", ">80"
    sex = ["m", "f", None] * (N // 3)
    features, y = table(age=age, sex=sex)
    features.loc[:9, "x1"] = np.nan
    features.loc[10, "x1"] = np.inf
    words, numbers, categories = notes(features, y)
    assert "in 'age' (3 of 120: '>80', 'n.d.')" in words
    assert "14 cells without a number, of 120 rows, got the median" in numbers
    assert "'x1' 11, 'age' 3" in numbers
    assert "40 cells without a category count as one of their own: 'sex' 40" in categories


# -- classes -----------------------------------------------------------------------------------


def class_notes(names):
    features = pd.DataFrame({"x": np.random.default_rng(0).normal(size=len(names)), "y": names})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features, y = split_target(features, "y")
        warn_about(features, y, "y")
    return y, " ".join(str(entry.message) for entry in caught)


def test_classes_that_differ_in_case():
    y, told = class_notes(["tumour"] * 30 + ["normal"] * 30 + ["Tumour"])
    assert "'Tumour' (1 row) and 'tumour' (30 rows) of 'y' look like one" in told
    assert len(set(y)) == 3


def test_classes_that_differ_by_a_letter():
    _, told = class_notes(["tumour"] * 30 + ["normal"] * 30 + ["tumor"])
    assert "'tumor' (1 row) and 'tumour' (30 rows) of 'y' look like one" in told
    assert "look like one" not in class_notes(["grade 1"] * 30 + ["grade 2"] * 30)[1]
    for signs in (("+", "-"), ("<30", ">30"), ("A", "A-"), ("-1", "1")):
        assert class_notes(list(signs) * 30)[1] == ""
    assert "look like one" in class_notes(["pre-op", "Pre op"] * 30)[1]


def test_blanks_around_classes_are_taken_away():
    y, told = class_notes(["ja"] * 20 + ["ja "] * 5 + ["nein"] * 20 + [" nein"] * 5 + ["  "])
    assert sorted(set(y)) == ["ja", "nein"]
    assert len(y) == 50
    assert "blanks around classes of 'y' were taken away: ' nein', 'ja '" in told
    assert "1 of 51 rows have no 'y'" in told


def test_missing_answers_and_rare_classes():
    _, told = class_notes(["yes"] * 30 + ["no"] * 30 + ["unknown"])
    assert "the class 'unknown' of 'y' (1 row) sounds like a missing answer" in told
    assert "hardly any rows: 'unknown' (1 row)" in told
    assert class_notes([0] * 30 + [1] * 30)[1] == ""
    assert "'2' (2 rows)" in class_notes([0] * 30 + [1] * 30 + [2] * 2)[1]


def test_one_class_against_the_others():
    frame = pd.DataFrame({"x": range(60), "y": ["a", "b", "c"] * 20})
    assert set(split_target(frame, "y", positive="b")[1]) == {"b", "not b"}
    two = frame[frame["y"] != "c"]
    assert set(split_target(two, "y", positive="b")[1]) == {"a", "b"}
    with pytest.raises(ValueError, match="no class called 'd'; the classes are 'a', 'b', 'c'"):
        split_target(frame, "y", positive="d")
