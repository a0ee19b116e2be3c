"""What becomes of each column, and the numbers that come out."""

from __future__ import annotations

import datetime
import decimal
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pd = pytest.importorskip("pandas")

from angcal.tables import TableError, aligned, choose_columns, dropped_columns, preparation  # noqa: E402
from angcal.tables.columns import plan_columns  # noqa: E402
from angcal.tables.reading import ABSENT_IS_ZERO  # noqa: E402

N = 40
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=N)


def frame_of(**columns):
    return pd.DataFrame({"good": NUMBERS, **columns})


def reason_against(column):
    return dict(dropped_columns(frame_of(x=column))).get("x")


def numbers_of(frame, new=None):
    prepared = preparation(frame).fit(frame)
    values = prepared.transform(frame if new is None else new)
    return values.toarray() if sparse.issparse(values) else values


# -- what is dropped ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "word"),
    [
        ([np.nan] * N, "missing"),
        ([None] * N, "missing"),
        ([np.inf] * N, "missing"),
        (pd.array([pd.NA] * N, dtype="Int64"), "missing"),
        ([7] * N, "same in every row (7)"),
        ([True] * N, "same"),
        (["x"] * N, "same in every row (x)"),
        ([1.5] * (N - 1) + [np.nan], "same"),
        ([f"patient {j}" for j in range(N)], "identifier"),
        (range(N), "numbers the rows"),
        (range(1, N + 1), "numbers the rows"),
        (pd.date_range("2020-01-01", periods=N), "dates"),
        (pd.to_timedelta(range(N), unit="D"), "dates"),
        ([datetime.date(2020, 1, 1 + j % 28) for j in range(N)], "dates"),
        ([f"2020-01-{1 + j % 28:02d}" for j in range(N)], "dates"),
        ([f"{1 + j % 28}.3.2021" for j in range(N)], "dates"),
        ([f"2020-01-{1 + j % 28:02d}T10:00:00" for j in range(N)], "dates"),
        ([[1, 2]] * N, "neither numbers nor text"),
        ([{"a": 1}] * N, "neither numbers nor text"),
        ([b"x", b"y"] * (N // 2), "neither numbers nor text"),
        (np.arange(N) * 1j, "complex"),
    ],
)
def test_dropped_with_a_reason(column, word):
    assert word in reason_against(column)


def test_free_text_of_a_large_table():
    n = 200
    texts = [f"words {j // 2}" for j in range(n)]
    frame = pd.DataFrame({"good": RNG.normal(size=n), "x": texts})
    assert "free text" in dict(dropped_columns(frame))["x"]


@pytest.mark.parametrize("name", ["id", "ID", "Unnamed: 0", "index", "PatNr", "patient_no", "Case"])
def test_identifiers_by_name(name):
    shuffled = RNG.permutation(10 * np.arange(N))
    assert "identifier" in dict(dropped_columns(frame_of(**{name: shuffled})))[name]


def test_shuffled_whole_numbers_of_another_name_are_kept():
    assert reason_against(RNG.permutation(10 * np.arange(N))) is None


@pytest.mark.parametrize(
    "column",
    [
        NUMBERS,
        NUMBERS.astype(np.float32),
        RNG.integers(0, 5, N),
        RNG.integers(0, 2, N).astype(bool),
        pd.array([1, 2, None, 1] * (N // 4), dtype="Int64"),
        pd.Series([True, None, False, True] * (N // 4), dtype=object),
        pd.Series([True, False] * (N // 2), dtype="boolean"),
        ["x", "z"] * (N // 2),
        ["x", None] * (N // 2),
        pd.Categorical(["x", "z"] * (N // 2)),
        pd.Categorical([1, 2] * (N // 2)),
        pd.Series([1, "x"] * (N // 2), dtype=object),
        [str(number) for number in NUMBERS],
        [decimal.Decimal(j % 7) for j in range(N)],
        [1.0, np.inf] * (N // 4) + [2.0, -np.inf] * (N // 4),
    ],
)
def test_kept(column):
    assert reason_against(column) is None
    assert np.isfinite(numbers_of(frame_of(x=column))).all()


def test_order_is_that_of_the_table():
    frame = frame_of(b=[1] * N, a=[None] * N)
    assert [name for name, _ in dropped_columns(frame)] == ["b", "a"]


def test_nothing_left():
    with pytest.raises(TableError, match="no column can be used: 'x' were left out"):
        preparation(pd.DataFrame({"x": [1] * N}))
    with pytest.raises(TableError, match="no column besides the target"):
        preparation(pd.DataFrame(index=range(N)))


# -- what comes out ----------------------------------------------------------------------------


def test_numbers_are_standardized_and_filled_with_the_median():
    x = np.array([1.0, 2.0, 3.0, 100.0, np.nan] * 8)
    values = numbers_of(pd.DataFrame({"x": x}))[:, 0]
    filled = np.where(np.isnan(x), 2.5, x)
    np.testing.assert_allclose(values, (filled - filled.mean()) / filled.std())


def test_infinity_is_missing():
    x = np.array([1.0, 2.0, 3.0, np.inf] * 10)
    np.testing.assert_array_equal(
        numbers_of(pd.DataFrame({"x": x})),
        numbers_of(pd.DataFrame({"x": np.where(np.isinf(x), np.nan, x)})),
    )


def test_words_among_numbers_are_missing():
    words = pd.DataFrame({"x": ["1", "2", "3", "4", "unknown"] * 8})
    plain = pd.DataFrame({"x": [1, 2, 3, 4, np.nan] * 8})
    np.testing.assert_array_equal(numbers_of(words), numbers_of(plain))


def test_truth_values_are_numbers_however_they_are_kept():
    plain = numbers_of(pd.DataFrame({"x": [0, 1, 1, 0] * 10}))
    for kind in (bool, "boolean", object):
        frame = pd.DataFrame({"x": pd.Series([False, True, True, False] * 10, dtype=kind)})
        np.testing.assert_array_equal(numbers_of(frame), plain)


def test_one_column_per_level_and_missing_is_one():
    values = numbers_of(pd.DataFrame({"x": ["a", "b", None, "a"] * 10}))
    assert values.shape == (N, 3)
    np.testing.assert_array_equal(values.sum(axis=1), 1)


def test_rare_levels_go_together():
    frame = pd.DataFrame({"x": ["a", "b"] * 95 + ["c", "d", "e", "f", "g"] * 2})
    values = numbers_of(frame)
    assert values.shape[1] == 3
    np.testing.assert_array_equal(values.sum(axis=0), [95, 95, 10])


def test_unknown_levels_are_zeros_without_a_word():
    frame = pd.DataFrame({"x": ["a", "b"] * 20})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = numbers_of(frame, pd.DataFrame({"x": ["never seen"]}))
    np.testing.assert_array_equal(values, [[0, 0]])


def test_levels_agree_between_whole_numbers_and_fractions():
    """A column of whole numbers becomes one of fractions as soon as an entry is missing."""
    frame = pd.DataFrame({"x": pd.Categorical([1, 2] * 20)})
    new = pd.DataFrame({"x": [1.0, 2.0]})
    np.testing.assert_array_equal(numbers_of(frame, new), np.eye(2))


def test_words_where_numbers_were():
    frame = pd.DataFrame({"height": NUMBERS})
    with pytest.raises(TableError, match=r"column 'height' held numbers .* but here it has 'tall'"):
        numbers_of(frame, pd.DataFrame({"height": ["tall", "short"]}))


def test_dates_where_numbers_were():
    frame = pd.DataFrame({"height": NUMBERS})
    with pytest.raises(TableError, match="'height' held numbers"):
        numbers_of(frame, pd.DataFrame({"height": pd.date_range("2020-01-01", periods=2)}))


def test_a_column_all_missing_at_prediction_is_the_median():
    frame = pd.DataFrame({"x": NUMBERS})
    median = (np.median(NUMBERS) - NUMBERS.mean()) / NUMBERS.std()
    for missing in (np.nan, None):
        new = pd.DataFrame({"x": [missing]})
        np.testing.assert_allclose(numbers_of(frame, new), [[median]])


def test_names_that_come_out():
    frame = frame_of(x=["a", "b"] * (N // 2))
    names = preparation(frame).fit(frame).get_feature_names_out()
    assert names.tolist() == ["numbers__good", "categories__x_a", "categories__x_b"]


def test_can_be_cloned():
    frame = frame_of(x=["a", "b"] * (N // 2))
    transformer = preparation(frame)
    np.testing.assert_array_equal(
        clone(transformer).fit_transform(frame), transformer.fit_transform(frame)
    )


# -- sparse columns ----------------------------------------------------------------------------


def sparse_frame(matrix, names):
    return pd.DataFrame.sparse.from_spmatrix(matrix, columns=names)


def test_sparse_columns_stay_sparse():
    dense = sparse.random(N, 30, density=0.1, random_state=0).toarray()
    dense[:, 3] = 0
    matrix = sparse.csr_matrix(dense)
    frame = sparse_frame(matrix, [f"f{j}" for j in range(30)])
    assert "f3" in dict(dropped_columns(frame))
    values = preparation(frame).fit_transform(frame)
    assert sparse.issparse(values)
    kept = [j for j in range(30) if f"f{j}" not in dict(dropped_columns(frame))]
    spread = matrix.toarray()[:, kept].std(axis=0)
    np.testing.assert_allclose(values.toarray(), matrix.toarray()[:, kept] / spread)


def test_dense_rows_for_a_model_of_sparse_ones_and_the_other_way_round():
    matrix = sparse.random(N, 4, density=0.4, format="csr", random_state=1)
    names = list("abcd")
    thin, full = sparse_frame(matrix, names), pd.DataFrame(matrix.toarray(), columns=names)
    np.testing.assert_allclose(numbers_of(thin, full), numbers_of(thin, thin))
    np.testing.assert_allclose(numbers_of(full, thin), numbers_of(full, full))


def test_aligned():
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]})
    assert list(aligned(frame, ["c", "a"], "t.csv").columns) == ["c", "a"]
    with pytest.raises(TableError, match=r"t.csv lacks 2 of the 3 columns .*: 'x', 'z'"):
        aligned(frame, ["a", "x", "z"], "t.csv")


def test_aligned_fills_zeros_where_the_file_leaves_them_out():
    frame = sparse_frame(sparse.csr_matrix([[1.0, 0.0], [0.0, 2.0]]), ["f1", "f2"])
    frame.attrs[ABSENT_IS_ZERO] = True
    np.testing.assert_array_equal(
        aligned(frame, ["f3", "f2"], "t.svm").to_numpy(), [[0.0, 0.0], [0.0, 2.0]]
    )


# -- what a user says about columns ------------------------------------------------------------


def test_columns_are_dropped_and_kept_as_asked():
    frame = frame_of(dose=np.arange(N), PatNr=np.arange(N) * 7, other=RNG.normal(size=N))
    assert {name for name, _ in dropped_columns(frame)} == {"dose", "PatNr"}
    chosen = choose_columns(frame, drop=["other"], keep=["dose"], identifier="PatNr")
    assert dict(dropped_columns(chosen)) == {
        "other": "left out as asked (--drop)",
        "PatNr": "it identifies the rows (--id)",
    }
    assert "dose" in plan_columns(chosen).numbers
    half = chosen.iloc[: N // 2]
    assert "dose" in plan_columns(half).numbers, "what was said holds for parts of the table too"


def test_names_may_stand_together_or_hold_commas():
    frame = frame_of(**{"a,b": range(N), "c": range(N), "d": range(N)})
    chosen = choose_columns(frame, drop=["a,b", "c, d"])
    assert not {"a,b", "c", "d"} & set(chosen.columns)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": ["gone"]}, "no column called 'gone'"),
        ({"keep": ["when"]}, "'when' cannot be kept: it holds dates"),
        ({"keep": ["good"], "drop": ["good"]}, "both kept and left out"),
        ({"keep": ["good"], "identifier": "good"}, "both kept and left out"),
    ],
)
def test_wishes_that_cannot_be_granted(options, words):
    frame = frame_of(when=pd.date_range("2020-01-01", periods=N))
    with pytest.raises(TableError, match=words):
        choose_columns(frame, **options)


def test_numbers_between_text_are_no_identifier():
    mixed = [f">{j}" if j % 2 else str(j) for j in range(N)]
    assert "entries are numbers, others text such as '>1'" in reason_against(mixed)
    assert "thousands or fractions" in reason_against([f"{j},{100 + j}" for j in range(1, N + 1)])
