"""Labels out of a table."""

from __future__ import annotations

import re

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from angcal.tables import TableError, TableWarning, read_table, split_target  # noqa: E402
from angcal.tables.targets import note_classes  # noqa: E402


def frame_of(labels, **columns):
    labels = pd.Series(labels)
    return pd.DataFrame({"a": np.arange(len(labels)) ** 2, **columns, "y": labels})


def refused(frame, target="y"):
    with pytest.raises(TableError) as caught:
        split_target(frame, target)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1, 1], [0, 1]),
        ([0.0, 1.0, 1.0], [0, 1]),
        ([True, False, True], [False, True]),
        (["no", "yes", "no"], ["no", "yes"]),
        ([0.5, 1.5, 0.5], ["0.5", "1.5"]),
        ([1, 2, 3], [1, 2, 3]),
        (pd.Categorical(["b", "a", "b"]), ["a", "b"]),
        (pd.Categorical([2, 1, 2]), [1, 2]),
        (pd.array([True, False, True], dtype="boolean"), [False, True]),
        (pd.array([0, 1, 1], dtype="Int64"), [0, 1]),
        (pd.Series([True, False, True], dtype=object), [False, True]),
    ],
)
def test_labels(labels, classes):
    features, y = split_target(frame_of(labels), "y")
    assert list(features.columns) == ["a"]
    assert isinstance(y, np.ndarray)
    assert y.dtype != object
    assert np.unique(y).tolist() == classes


def test_whole_numbers_stay_whole():
    _, y = split_target(frame_of([0.0, 1.0, 1.0]), "y")
    assert y.dtype.kind == "i"


@pytest.mark.parametrize("gap", [None, np.nan])
@pytest.mark.parametrize("labels", [[0, 1, 1], ["no", "yes", "yes"], [True, False, False]])
def test_rows_without_label_are_left_out(labels, gap):
    frame = frame_of(pd.Series([*labels, gap], dtype=object))
    with pytest.warns(TableWarning, match="1 of 4 rows have no 'y'"):
        features, y = split_target(frame, "y")
    assert features["a"].tolist() == [0, 1, 4]
    assert len(np.unique(y)) == 2
    assert [str(label) for label in y] == [str(label) for label in labels]


def test_missing_numbers_do_not_make_fractions():
    with pytest.warns(TableWarning):
        _, y = split_target(frame_of([0.0, 1.0, np.nan]), "y")
    assert y.tolist() == [0, 1]
    assert y.dtype.kind == "i"


@pytest.mark.parametrize("asked", ["Relapse", "relapse ", "relaps", "RELAPSED"])
def test_near_names_are_suggested(asked):
    frame = pd.DataFrame({"a": [1, 2], "relapse": [0, 1]})
    assert "did you mean 'relapse'?" in refused(frame, asked)


def test_columns_are_listed_where_no_name_is_near():
    frame = pd.DataFrame({f"column {j}": [0, 1] for j in range(9)})
    message = refused(frame, "y")
    assert "'column 0'" in message
    assert "and 4 more" in message


@pytest.mark.parametrize("labels", [[1, 1, 1], ["a", "a", "a"], [True, True, True]])
def test_one_class(labels):
    assert "in every row" in refused(frame_of(labels))


def test_one_class_once_missing_labels_are_gone():
    with pytest.warns(TableWarning):
        assert "in every row" in refused(frame_of([1.0, 1.0, np.nan]))


def test_no_labels_at_all():
    assert "missing in every row" in refused(frame_of([np.nan, np.nan]))


def test_quantities():
    message = refused(frame_of(np.linspace(0, 1, 50)))
    assert "50 different numbers" in message
    assert "threshold" in message


def test_many_whole_numbers():
    assert "quantity" in refused(frame_of(np.arange(200)))


def test_names():
    assert "names" in refused(frame_of([f"person {j}" for j in range(30)]))


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (pd.date_range("2020-01-01", periods=3), "dates"),
        ([0.0, 1.0, np.inf], "infinite"),
        ([1j, 2j, 1j], "complex"),
    ],
)
def test_what_is_no_class(labels, word):
    assert word in refused(frame_of(labels))


def test_whole_numbers_beyond_2_to_the_53_stay_apart():
    classes = [2**53, 2**53 + 1, 5]
    _, y = split_target(pd.DataFrame({"a": range(9), "y": classes * 3}), "y")
    assert y.tolist() == classes * 3


# -- words for nothing that are classes --------------------------------------------------------


def written(tmp_path, cells, name="t.csv"):
    frame = pd.DataFrame({"a": np.arange(len(cells)) ** 2, "b": "NA", "y": cells})
    path = tmp_path / name
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("word", ["None", "NA", "N/A", "null", "NULL", "nan", "?"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.xlsx"])
def test_a_word_for_nothing_that_recurs_among_words_is_a_class(word, name, tmp_path):
    """A third of the rows was dropped, and the closing note did not say the word."""
    cells = [None] + 5 * ["Mild", word, "Severe", word, "Mild", "Severe"]
    frame = read_table(written(tmp_path, cells, name), target="y")
    assert name == "t.xlsx" or frame["b"].isna().all()  # features are as before
    with pytest.warns(TableWarning, match="1 of 31 rows have no 'y' and were left out"):
        features, y = split_target(frame, "y")
    assert y.tolist() == cells[1:]
    assert features["a"].tolist() == [j**2 for j in range(1, 31)]
    with pytest.warns(TableWarning, match="taken for a class of 'y'; if it stands for a missing"):
        note_classes(y, "y")


@pytest.mark.parametrize("word", ["NA", "?", "#N/A"])
@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["yes", "no", "yes", "no", "{}"], ["yes", "no", "yes", "no"]),  # once
        ([0, 1, "{}", 1, "{}", "{}", 0], [0, 1, 1, 0]),  # among numbers
        ([True, False, "{}", True, "{}"], [True, False, True]),
    ],
)
def test_a_word_that_is_dropped_is_said(word, cells, kept, tmp_path):
    cells = [word if cell == "{}" else cell for cell in cells]
    frame = read_table(written(tmp_path, cells), target="y")
    times = cells.count(word)
    said = rf"{times} of {len(cells)} rows have no 'y' \('{re.escape(word)}' in {times}\) and were"
    with pytest.warns(TableWarning, match=said):
        _, y = split_target(frame, "y")
    assert y.tolist() == kept


def test_errors_of_a_spreadsheet_are_no_classes(tmp_path):
    frame = read_table(written(tmp_path, ["b", "a", "#N/A", "#N/A", "a", "b"]), target="y")
    with pytest.warns(TableWarning, match=r"\('#N/A' in 2\)"):
        _, y = split_target(frame, "y")
    assert set(y) == {"a", "b"}


def test_a_table_of_words_for_nothing_alone_has_two_classes(tmp_path):
    frame = read_table(written(tmp_path, ["None", "NA", "None", "NA"]), target="y")
    assert split_target(frame, "y")[1].tolist() == ["None", "NA", "None", "NA"]


@pytest.mark.parametrize("command", [["fit"], ["report"], ["plan"]])
def test_commands_read_the_target_so(command, tmp_path, monkeypatch):
    """All three hand the name of the target to the reader."""
    from angcal.cli import main

    asked = {}

    def reader(path, **how):
        asked.update(how)
        raise TableError("enough")

    monkeypatch.setattr("angcal.tables.reading.read_table", reader)
    monkeypatch.setattr("angcal.tables.read_table", reader)
    path = str(written(tmp_path, ["a", "b"]))
    out = [] if command == ["plan"] else ["--out", str(tmp_path / "out.html")]
    out = ["--out", str(tmp_path / "out.skops")] if command == ["fit"] else out
    assert main([*command, path, "--target", "y", *out]) == 1
    assert asked["target"] == "y"
