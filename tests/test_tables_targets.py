"""Labels out of a table."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from angcal.tables import TableError, TableWarning, split_target  # noqa: E402


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
