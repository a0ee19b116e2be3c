"""Ranks, tests and wins against values worked out by hand, and the command end to end."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from angcal.displays import STYLES
from studies.__main__ import main
from studies.engine.runner import read_tables, run_experiment
from studies.engine.store import Store, UnfinishedError
from studies.peers import command, compare
from studies.peers.methods import AVERAGED, DEFAULT, TUNED
from studies.peers.peers import METHODS
from studies.peers.real import QUICK, REAL
from studies.peers.real_figures import COSTLY_PANELS, PANELS
from studies.peers.real_tables import complete, coverage, excess, labeled, lost_cells, where_costly

sys.path.insert(0, str(Path(__file__).parent))
from toy_experiment import TOY

OTHER = "logistic"


def toy_values() -> pd.DataFrame:
    """Three methods on two datasets with two sizes and two splits each."""
    cells = [("a", 1.0), ("a", 2.0), ("b", 1.0), ("b", 2.0)]
    index = pd.MultiIndex.from_tuples(
        [(dataset, ratio, split) for dataset, ratio in cells for split in (0, 1)],
        names=["dataset", "ratio", "split"],
    )
    own = [0.1, 0.3, 0.2, 0.2, 0.5, 0.5, 0.4, 0.6]
    default = [0.3, 0.5, 0.4, 0.4, 0.4, 0.4, 0.6, 0.8]
    other = [0.2, 0.4, 0.1, 0.1, 0.6, 0.6, 0.5, 0.5]
    return pd.DataFrame({TUNED: own, DEFAULT: default, OTHER: other}, index=index)


# -- numbers -----------------------------------------------------------------------------------


def test_cells_are_means_over_splits():
    means = compare.cell_means(toy_values())
    np.testing.assert_allclose(means[TUNED], [0.2, 0.2, 0.5, 0.5])
    np.testing.assert_allclose(means[DEFAULT], [0.4, 0.4, 0.4, 0.7])
    np.testing.assert_allclose(means[OTHER], [0.3, 0.1, 0.6, 0.5])


def test_methods_run_on_few_splits_are_not_ranked():
    values = toy_values()
    values.loc[values.index.get_level_values("split") == 1, OTHER] = np.nan
    assert list(compare.regular(values)) == [TUNED, DEFAULT]
    assert list(compare.regular(toy_values())) == [TUNED, DEFAULT, OTHER]


def test_mean_ranks():
    # Cells, in turn: own 1, 2, 2, 1.5; default 3, 3, 1, 3; other 2, 1, 3, 1.5.
    found = compare.ranking(compare.cell_means(toy_values()))
    assert found.ranks.to_dict() == {TUNED: 1.625, OTHER: 1.875, DEFAULT: 2.5}
    assert (found.best, found.ranks.index[1]) == (TUNED, OTHER)
    assert (found.n_cells, found.n_datasets) == (4, 2)
    # Two datasets tell nothing apart.
    assert found.like_the_best == [OTHER, DEFAULT]


def test_datasets_count_alike_however_many_sizes_they_have():
    means = compare.cell_means(toy_values()).iloc[:3]
    found = compare.ranking(means)
    # a: own 1.5, default 3, other 1.5; b: own 2, default 1, other 3.
    assert found.ranks.to_dict() == {TUNED: 1.75, DEFAULT: 2.0, OTHER: 2.25}
    np.testing.assert_allclose(found.by_cells[[TUNED, DEFAULT, OTHER]], [5 / 3, 7 / 3, 2.0])


def test_methods_beyond_the_critical_difference_are_told_apart():
    cells = [(f"set {k}", 1.0, 0) for k in range(30)]
    index = pd.MultiIndex.from_tuples(cells, names=["dataset", "ratio", "split"])
    near = 0.1 + np.tile([0.01, -0.01], 15)
    values = pd.DataFrame({TUNED: 0.1, OTHER: near, DEFAULT: 9.0}, index=index)
    found = compare.ranking(compare.cell_means(values))
    assert found.ranks.to_dict() == {TUNED: 1.5, OTHER: 1.5, DEFAULT: 3.0}
    assert found.critical_difference < 1.5
    assert found.like_the_best == [OTHER]


def test_friedman_over_datasets_by_its_formula():
    # Datasets' ranks: a: own 1.5, default 3, other 1.5; b: own 1.75, default 2, other 2.25. Ranked
    # again within each: (1.5, 3, 1.5) and (1, 2, 3); sums 2.5, 5, 4.5.
    N, k = 2, 3
    sums = np.array([2.5, 5.0, 4.5])
    plain = 12.0 / (N * k * (k + 1)) * np.sum(sums**2) - 3 * N * (k + 1)
    ties = 1.0 - (2**3 - 2) / (N * (k**3 - k))
    found = compare.ranking(compare.cell_means(toy_values()))
    assert found.statistic == pytest.approx(plain / ties)
    assert found.p_value == pytest.approx(stats.chi2.sf(plain / ties, k - 1))


def test_critical_difference_of_the_textbook():
    # Demšar (2006), table 5 and section 3.2.2: four classifiers on 14 datasets.
    assert compare.critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), rel=1e-3)


def test_duels():
    found = {duel.peer: duel for duel in compare.duels(toy_values(), TUNED)}
    # Against the other: −0.1 and +0.1 without spread, −0.1 without spread, then ±0.1.
    duel = found[OTHER]
    assert (duel.wins, duel.ties, duel.losses) == (2, 1, 1)
    assert duel.difference == pytest.approx((0.0 - 0.05) / 2)
    duel = found[DEFAULT]
    assert (duel.wins, duel.ties, duel.losses) == (3, 0, 1)
    # Two datasets, (−0.2, −0.05): the smallest p-value that two differences of one sign allow.
    assert compare.signed_rank([-0.2, -0.05]) == pytest.approx(0.5)
    assert duel.p_value == pytest.approx(1.0)


def test_holm_corrects_in_steps():
    np.testing.assert_allclose(compare.holm([0.04, 0.001, 0.5]), [0.08, 0.003, 0.5])
    np.testing.assert_allclose(compare.holm([0.4, 0.4]), [0.8, 0.8])
    assert compare.signed_rank([0.0, 0.0]) == 1.0


def test_methods_without_a_value_somewhere_are_ranked_where_they_have_one():
    values = toy_values()
    values["costly"] = [0.0, 0.0, np.nan, np.nan, 0.9, 0.9, np.nan, np.nan]
    means = compare.cell_means(values)
    assert "costly" not in compare.everywhere(means)
    assert "costly" in compare.everywhere(means.dropna())
    assert list(means.dropna().index) == [("a", 1.0), ("b", 1.0)]


def test_a_method_run_on_the_harder_splits_is_not_blamed_for_them():
    values = toy_values()
    # 0.05 above the average of the three on the one split of each cell on which it was run.
    typical = values.mean(axis=1)
    values["costly"] = (typical + 0.05).where(values.index.get_level_values("split") == 1)
    means = compare.cell_means(values)
    expected = typical.groupby(level=compare.CELL, sort=False).mean() + 0.05
    np.testing.assert_allclose(means["costly"], expected, atol=1e-12)
    plain = toy_values().groupby(level=compare.CELL, sort=False).mean()
    np.testing.assert_allclose(means[list(plain)], plain, atol=1e-12)


def test_excess_and_lost_cells():
    values = toy_values()
    gap = excess(compare.cell_means(values))
    assert np.all(gap.min(axis=1) == 0.0)
    lost = lost_cells(values, TUNED)
    assert [entry[:2] for entry in lost] == [(("a", 2.0), OTHER)]
    assert lost[0][2] == pytest.approx(0.1)
    values.loc["a", OTHER] = np.nan  # no peer has a value in the cells of one dataset
    assert lost_cells(values, TUNED) == []


def test_pictures_show_datasets_that_have_every_size():
    means = compare.cell_means(toy_values())
    assert list(complete(means.drop(("a", 2.0))).index) == [("b", 1.0), ("b", 2.0)]
    assert len(complete(means)) == 4


def test_costly_methods_are_compared_where_they_were_run():
    values = toy_values().rename(columns={OTHER: "CV temperature, tuned"})
    values.loc[values.index.get_level_values("dataset") == "b", "CV temperature, tuned"] = np.nan
    assert set(where_costly(values).index.get_level_values("dataset")) == {"a"}
    assert where_costly(toy_values()).empty


def test_a_stand_in_is_called_one():
    assert labeled("har") == "har (stand-in)"
    assert labeled("madelon") == "madelon"


def test_every_panel_leaves_angcal_in_sight():
    shown = [name for names in PANELS.values() for name in names]
    costly = [name for names in COSTLY_PANELS.values() for name in names]
    assert len(set(shown)) == len(shown)
    assert set(shown) | set(costly) == set(METHODS) - {TUNED, DEFAULT}
    assert {name for name in METHODS if METHODS[name].costly} == set(costly)
    assert all(len(names) <= len(STYLES) - 2 for names in (PANELS | COSTLY_PANELS).values())


# -- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the quick run, made without a data folder and without a cache."""
    folder = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANGCAL_DATA", raising=False)
        patch.setenv("ANGCAL_CACHE", str(folder / "cache"))
        assert main(["benchmark", "real", "--quick", "--out", str(folder)]) == 0
    return folder


def test_the_quick_run_leaves_tables_and_pictures(quick):
    for name in ("log-loss", "ranks"):
        assert (quick / f"{name}.png").stat().st_size > 10_000
        assert (quick / f"{name}.svg").exists()
    ranks = (quick / "ranks.md").read_text()
    assert "Is one of angcal's first?" in ranks
    assert "less than a tenth of the fits of" in ranks
    assert "Nemenyi" in ranks
    assert "32 of 32 trials done; 3 cells of 2 datasets" in ranks
    losses = (quick / "log-loss.md").read_text()
    assert "malignant against benign" in losses
    assert "christine" in losses


def test_rows_have_all_their_numbers(quick):
    frames = read_tables(REAL, QUICK, quick)
    rows = frames[""]
    assert {TUNED, DEFAULT, "logistic", "CV isotonic"} <= set(rows["method"])
    assert not rows.isna().any().any()
    assert np.all(rows["log_loss"] > 0)
    assert np.all(rows["seconds"] > 0)
    assert rows.groupby("method")["fits"].nunique().eq(1).all()


def test_claims_are_made_for_both_halves(quick):
    """digits and breast_cancer are in the first half, of which the second says nothing."""
    claims = (quick / "claims.md").read_text()
    lines = [
        line.split(" | ") for line in claims.splitlines() if line.startswith(("| all", "| n·d"))
    ]
    assert {line[1] for line in lines} == {"both", "first"}
    assert {line[3] for line in lines} == {TUNED, AVERAGED}
    alone = {line[4].split("; ")[1].rsplit(" ", 1)[0] for line in lines if line[2] == "one model"}
    assert alone
    assert not any(METHODS[name].averages for name in alone)


def test_failures_and_missing_packages_are_told(quick):
    frames = dict(read_tables(REAL, QUICK, quick))
    frames["failures"] = pd.DataFrame({"trial": [0], "method": ["x"], "reason": ["Bad: luck"]})
    frames["splits"] = frames["splits"].assign(missing="netcal; betacal")
    told = coverage(frames, QUICK, 32)
    assert "x failed 1 times, first with “Bad: luck”" in told
    assert "netcal (12 trials), betacal (12 trials)" in told


def test_a_part_of_the_datasets_can_be_run_first(quick, tmp_path, capsys):
    arguments = ["benchmark", "real", "--quick", "--out", str(tmp_path)]
    assert main([*arguments, "--datasets", "breast_cancer"]) == 0
    assert "16 of 32 trials done" in capsys.readouterr().out
    with (tmp_path / "real-splits.csv").open(newline="") as file:
        assert {row["dataset"] for row in csv.DictReader(file)} == {"breast_cancer"}
    assert main(arguments) == 0
    assert "32 of 32 trials done" in capsys.readouterr().out
    one, other = (read_tables(REAL, QUICK, folder)[""] for folder in (quick, tmp_path))
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"))


def test_only_some_trials_now(tmp_path):
    run_experiment(TOY, TOY.quick, tmp_path, only=lambda trial: trial["number"] % 2 == 0)
    assert set(read_tables(TOY, TOY.quick, tmp_path)[""]["trial"]) == {0, 2, 4, 6, 8, 10}
    run_experiment(TOY, TOY.quick, tmp_path)
    assert set(read_tables(TOY, TOY.quick, tmp_path)[""]["trial"]) == set(range(12))


def test_one_side_can_be_run_again(quick, tmp_path, capsys):
    for path in quick.glob("real*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = read_tables(REAL, QUICK, tmp_path)
    arguments = ["benchmark", "real", "--quick", "--out", str(tmp_path)]
    assert main([*arguments, "--side", "angcal", "--fresh"]) == 0
    after = read_tables(REAL, QUICK, tmp_path)
    own = before[""]["method"].isin((TUNED, DEFAULT))
    pd.testing.assert_frame_equal(before[""][~own], after[""][~own])
    pd.testing.assert_frame_equal(
        before[""][own].drop(columns="seconds"), after[""][own].drop(columns="seconds")
    )
    assert not np.array_equal(before[""]["seconds"][own], after[""]["seconds"][own])


def test_splits_of_one_side_alone_are_not_compared(quick):
    frames = dict(read_tables(REAL, QUICK, quick))
    splits = frames["splits"]
    lonely = (splits["split"] == 1) & (splits["side"] == "angcal")
    frames["splits"] = splits[~lonely]
    frames[""] = frames[""][~frames[""]["trial"].isin(splits["trial"][lonely])]
    assert set(compare.joined(frames)["split"]) == {0}


def test_one_side_alone_is_not_compared_with_nothing(quick, tmp_path, capsys):
    """A run of hours must not end in a traceback; its rows stay."""
    frames = dict(read_tables(REAL, QUICK, quick))
    frames["splits"] = frames["splits"][frames["splits"]["side"] == "peers"]
    with pytest.raises(UnfinishedError, match="Nothing to compare yet"):
        compare.joined(frames)
    arguments = ["--quick", "--datasets", "breast_cancer", "--side", "angcal"]
    assert main(["benchmark", "real", *arguments, "--out", str(tmp_path)]) == 1
    assert "run the other --side" in capsys.readouterr().err
    assert set(read_tables(REAL, QUICK, tmp_path)[""]["method"]) == {TUNED, DEFAULT}


def test_trials_are_forgotten_for_good(tmp_path):
    run_experiment(TOY, TOY.quick, tmp_path)
    before = read_tables(TOY, TOY.quick, tmp_path)[""]
    store = Store(tmp_path, TOY, TOY.quick)
    with store.opened():
        store.forget([3, 5])
        assert store.pending == [3, 5]
    with Store(tmp_path, TOY, TOY.quick).opened() as again:
        assert again.pending == [3, 5]
    run_experiment(TOY, TOY.quick, tmp_path, fresh=True, only=lambda trial: trial["number"] == 7)
    with Store(tmp_path, TOY, TOY.quick).opened() as again:
        assert again.pending == [3, 5]
    run_experiment(TOY, TOY.quick, tmp_path)
    pd.testing.assert_frame_equal(before, read_tables(TOY, TOY.quick, tmp_path)[""])


def test_unknown_datasets_are_named(capsys, tmp_path):
    assert main(["benchmark", "real", "--quick", "--datasets", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_absent_datasets_are_named(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path))
    assert command.present_datasets(["digits", "madelon"]) == {"digits"}
    assert "madelon; set ANGCAL_DATA" in capsys.readouterr().err
    assert main(["benchmark", "real", "--datasets", "madelon", "--out", str(tmp_path)]) == 1
    assert "none of these datasets" in capsys.readouterr().err


def test_missing_package_is_named(capsys, monkeypatch):
    monkeypatch.setattr("studies.__main__.missing_packages", lambda: ["pandas"])
    assert main(["benchmark", "real", "--quick"]) == 3
    assert "studies need pandas" in capsys.readouterr().err
