"""Parquet files larger than memory: the same model, from blocks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from angcal.cli import main  # noqa: E402
from angcal.tables import (  # noqa: E402
    TableError,
    fit_large,
    fit_table,
    fitting,
    open_large,
    reading,
    split_target,
)

RNG = np.random.default_rng(3)
N = 900


def make(n=N):
    frame = pd.DataFrame(RNG.normal(size=(n, 6)), columns=list("abcdef"))
    signal = 1.5 * frame["a"] - frame["b"] + RNG.logistic(size=n)
    frame["ward"] = RNG.choice(["north", "south", "west"], size=n)
    frame.loc[frame.index % 17 == 0, "c"] = np.nan
    frame["relapse"] = np.where(signal > 0, "yes", "no")
    frame.loc[[3, 400], "relapse"] = None
    return frame


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "patients.parquet"
    make().to_parquet(path, row_group_size=250)
    return path


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(fitting, "BATCH_CELLS", 700)
    monkeypatch.setattr(reading, "LARGEST_SHARE", 0.0)


@pytest.mark.filterwarnings("ignore:2 of 900 rows have no 'relapse'")
def test_the_model_is_that_of_the_whole_table(path):
    features, y = split_target(pd.read_parquet(path), "relapse")
    expected = fit_table(features, y, Cs=5)
    table = open_large(path, "relapse")
    assert reading.is_large(path)
    assert_array_equal(table.y, y)
    pd.testing.assert_frame_equal(table.sample, features)
    found = fit_large(table, table.sample, Cs=5)
    assert (found.n, found.d, found.dropped) == (expected.n, expected.d, expected.dropped)
    assert found.classifier.C_ == pytest.approx(expected.classifier.C_)
    p, q = (each.model.predict_proba(features) for each in (found, expected))
    assert_allclose(p, q, atol=2e-3)
    # Of fewer rows, spread evenly, medians and scales are those of a sample.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "MOST_SAMPLED", 300)
        some = open_large(path, "relapse")
    pd.testing.assert_frame_equal(some.sample, features.iloc[::3].reset_index(drop=True))
    assert_array_equal(some.y[some.sampled], y[::3])


@pytest.mark.filterwarnings("ignore:2 of 900 rows have no 'relapse'")
def test_the_sample_is_smaller_where_columns_are_many(path, monkeypatch):
    assert [fitting.sampled_rows(d) for d in (5, 20, 200, 10_000)] == [50_000, 50_000, 5000, 1000]
    monkeypatch.setattr(fitting, "SAMPLE_CELLS", 7 * 300)
    monkeypatch.setattr(fitting, "FEWEST_SAMPLED", 1)
    table = open_large(path, "relapse")
    assert len(table.sample) == len(table.sampled) == 300


def test_the_command_says_and_saves_the_same(path, tmp_path, capsys):
    out = tmp_path / "model.angcal"
    command = ["fit", str(path), "--target", "relapse", "--json", "--out", str(out)]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 898
    assert any("2 of 900 rows have no 'relapse'" in note for note in told["warnings"])
    assert out.exists()


def test_what_cannot_be_streamed_is_named(path, capsys):
    assert main(["fit", str(path), "--target", "relapse", "--groups", "ward"]) != 0
    assert "--groups ward needs the whole table in memory" in capsys.readouterr().err
    with pytest.raises(TableError, match="'relaps'"):
        open_large(path, "relaps")
