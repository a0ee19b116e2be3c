"""Real covariates with simulated labels: splits, truth, metrics, tables and pictures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from studies.__main__ import main
from studies.datasets import CATALOGUE, load, obtainable
from studies.engine.command import run_and_present
from studies.engine.runner import read_tables, trial_generator
from studies.engine.tables import mean_and_error, with_error
from studies.paper import semireal
from studies.paper.command import RESULTS as EVERY
from studies.paper.command import present_or_downloadable
from studies.paper.semireal import (
    AUTO,
    ERRORS,
    ESTIMATED,
    LINK,
    METHODS,
    ORACLE,
    PAPER_METHODS,
    QUICK,
    TABLES,
    SemirealSettings,
    divide,
    judge,
    predictions,
    prepared,
    run_split,
    runnable,
)
from studies.paper.semireal_tables import (
    PLATT_MANY,
    against_paper,
    cosine_errors,
    label,
    means,
    noise_floors,
    overall,
    paper_table,
)
from studies.paper.setting import ridge_fit

RESULTS = [result for name, result in EVERY.items() if name.startswith("table-")]


@pytest.fixture(scope="module")
def split():
    return divide(load("digits"), QUICK, np.random.default_rng(0))


def test_parts_of_a_split_are_disjoint_and_of_the_stated_sizes(split):
    parts = [split.train, split.pool, split.holdout, split.test]
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows)
    sizes = load("digits").sizes
    found = [len(part) for part in parts]
    assert found == [sizes.n, sizes.n_pool, sizes.n_holdout, sizes.n_test]
    assert not np.intersect1d(split.unseen, split.train).size


def test_the_truth_is_the_link_of_a_signal_of_unit_variance(split):
    assert split.truth.signal.var() == pytest.approx(1.0)
    np.testing.assert_allclose(split.truth.probability, LINK(split.truth.signal))
    # Labels follow the probabilities: within four standard errors.
    gap = split.truth.y - split.truth.probability
    error = np.sqrt(np.sum(split.truth.probability * (1 - split.truth.probability)))
    assert abs(gap.sum()) < 4 * error


def test_the_fit_is_the_papers_ridge(split):
    fit = split.fit
    n, d = fit.X.shape
    p = 1.0 / (1.0 + np.exp(-fit.X @ fit.coef))
    gradient = fit.X.T @ (p - split.truth.y[split.train]) / n + 0.5 / d * fit.coef
    assert np.abs(gradient).max() < 1e-7
    assert fit.intercept == 0.0


def test_the_true_angle_is_the_best_monotone_map_of_the_family(split):
    """Among curves F_c the one at the true cosine is nearest to the truth but for sampling."""
    truth = split.truth.probability[split.test]
    from angcal.curve import angular_probability

    standard = split.standard(split.test)
    grid = np.linspace(-1, 1, 81)
    losses = [np.mean((angular_probability(LINK, c, standard) - truth) ** 2) for c in grid]
    assert abs(grid[int(np.argmin(losses))] - split.cosine) < 0.15


def test_the_best_cosine_has_the_smallest_divergence(split):
    from angcal.curve import angular_probability
    from angcal.metrics import mean_bregman_divergence

    rows = split.unseen
    truth, standard = split.truth.probability[rows], split.standard(rows)
    grid = np.append(np.linspace(-0.99, 0.99, 67), split.cosine)
    curves = [angular_probability(LINK, c, standard) for c in grid]
    smallest = min(mean_bregman_divergence(truth, p, "kl") for p in curves)
    best = angular_probability(LINK, split.best_cosine, standard)
    assert mean_bregman_divergence(truth, best, "kl") <= smallest + 1e-7


def test_the_best_cosine_is_that_of_all_rows_where_files_are_sorted(split, monkeypatch):
    """Rows whose score tells the signal come first: alone, they would have a cosine near one."""
    everything = np.arange(len(split.scores))
    signal, standard = split.truth.signal, split.standard(everything)
    order = np.argsort(np.abs(signal - standard))
    place = np.argsort(order)
    truth = replace(split.truth, signal=signal[order], probability=split.truth.probability[order])
    ordered = replace(
        split, truth=truth, train=np.sort(place[split.train]), scores=split.scores[order]
    )
    of_all = split.best_cosine
    monkeypatch.setattr(semireal, "MOST_ROWS_OF_TRUTH", 400)
    assert abs(ordered.best_cosine - of_all) < 0.03
    drawn = semireal.np.random
    monkeypatch.setattr(drawn, "default_rng", lambda seed: SimpleNamespace(choice=first_rows))
    assert replace(ordered).best_cosine > of_all + 0.06


def first_rows(rows, count, replace):
    return rows[:count]


def test_metrics_of_the_oracle_and_of_the_truth(split):
    row = judge(split.oracle, split, 15)
    assert row["error"] == 0.0
    assert judge(split.best, split, 15)["error_best"] == 0.0
    exact = judge(split.truth.probability[split.test], split, 15)
    assert exact["kl"] == pytest.approx(0.0, abs=1e-12)
    assert exact["brier"] == 0.0
    assert row["kl"] > 0.0


def test_every_method_gives_probabilities(split):
    every, angles = predictions(split, QUICK)
    assert list(every) == list(METHODS)
    for p in every.values():
        assert p.shape == split.test.shape
        assert np.all((p >= 0) & (p <= 1))
    assert set(angles) <= set(METHODS)
    assert all(-1 <= angle.cosine <= 1 for angle in angles.values())


def test_sparse_rows_are_fitted_with_an_intercept():
    rng = np.random.default_rng(0)
    X = sparse.random(300, 40, density=0.2, random_state=0, format="csr")
    fit = ridge_fit(X, rng.integers(0, 2, 300), 0.5, intercept=True)
    assert fit.intercept != 0.0
    assert fit.distance_to_optimum < 1e-6


def test_a_trial_depends_on_its_own_labels_only():
    settings = SemirealSettings(("digits",), 1)
    first = run_split(settings, {"dataset": "digits", "split": 1})
    second = run_split(settings, {"dataset": "digits", "split": 1})
    assert first == second
    assert "reliability" not in first
    other = run_split(settings, {"dataset": "digits", "split": 0})
    assert other[""][0]["ece"] != first[""][0]["ece"]
    draws = trial_generator(1, "semireal", "a", 0).random(3)
    assert not np.allclose(draws, trial_generator(1, "semireal", "a", 1).random(3))


def test_tables_name_every_dataset_of_the_paper_once():
    names = [name for table in TABLES for name in runnable(table)]
    assert len(names) == len(set(names)) == 23
    loaders = [d for d in CATALOGUE.values() if d.standing == "loader only"]
    assert sorted(d.title for d in loaders) == ["Christine", "Cina", "Fabert"]
    assert [result.name for result in RESULTS] == [f"table-{table}" for table in TABLES]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    run_and_present([RESULTS[2]], folder=folder, quick=True)
    return folder


def test_the_quick_run_leaves_rows_a_summary_and_a_picture(quick_run):
    experiment = RESULTS[2].experiment
    frames = read_tables(experiment, experiment.quick, quick_run)
    assert set(frames[""]["method"]) == set(METHODS)
    assert len(frames["angles"]) == len(QUICK.datasets) * QUICK.n_splits
    assert set(frames["reliability"]["split"]) == {0}
    text = (quick_run / "table-uci-extended.md").read_text(encoding="utf-8")
    assert "Christine (loader only)" in text
    assert "| not run | 0.0237 |" in text
    for suffix in (".png", ".svg"):
        assert (quick_run / f"table-uci-extended{suffix}").stat().st_size > 10_000


def toy_frames() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    rows, angles = [], []
    for name, shift in (("madelon", 0.0), ("semeion", 0.02)):
        for split in range(4):
            for k, method in enumerate(METHODS):
                value = 0.01 * (k + 1) + shift + 0.001 * rng.random()
                metrics = dict.fromkeys((*ERRORS, "ece", "ece_debiased", "kl", "brier"), value)
                rows.append({"dataset": name, "split": split, "method": method, **metrics})
            routes = {"auto": 0.5 + 0.1 * (-1) ** split, "loo": 0.6, "observable": 0.7}
            angle = {"dataset": name, "split": split, "standing": "as published", "n": 300, "d": 9}
            angle |= {"n_pool": 5, "n_test": 6, "true_cosine": 0.5, "best_cosine": 0.5, **routes}
            angle |= {"auto_low": 0.45 if split else 0.6, "auto_high": 0.9}
            angles.append(angle)
    bins = [
        {"dataset": name, "split": 0, "method": ORACLE, "mean": mean, "observed": 0.5, "count": k}
        for name in ("madelon", "semeion")
        for mean, k in ((0.5, 100), (0.9, 300))
    ]
    frames = {"": rows, "angles": angles, "reliability": bins}
    return {name: pd.DataFrame(values) for name, values in frames.items()}


def test_means_and_cosine_errors_by_hand():
    frames = toy_frames()
    table = means(frames, "error")
    direct = frames[""].query("dataset == 'semeion' and method == @AUTO")["error"].mean()
    assert table.loc["semeion", AUTO] == pytest.approx(direct)
    errors = cosine_errors(frames)
    np.testing.assert_allclose(errors["auto"], 0.1)
    np.testing.assert_allclose(errors["loo"], 0.1)
    np.testing.assert_allclose(errors["observable"], 0.2)
    np.testing.assert_allclose(errors["coverage"], 0.75)


def test_the_overall_summary_judges_every_claim():
    frames = toy_frames()
    text = overall([frames])
    table = means(frames, "error").mean()
    assert f"{table[AUTO]:.4f}" in text
    assert f"{table[ESTIMATED] / table[PLATT_MANY]:.4f}" in text
    lines = [line for line in text.splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(lines) == 13
    assert "more than 15 % above" in text
    assert "Madelon" in text
    assert "over the 2 datasets with more than 250 labels" in text
    # Both intervals miss the truth once in four splits.
    assert "in fewer than 85 % of the splits on: Madelon; Semeion." in text


def test_the_paper_is_compared_in_standard_deviations_of_one_split():
    lines = against_paper(toy_frames())
    values = uncalibrated("madelon")
    z = (CATALOGUE["madelon"].printed["uncalibrated"] - values.mean()) / values.std(ddof=1)
    assert f"Madelon {z:+.1f}" in lines[1]
    assert "uncalibrated: within 2 on 0 of 2 datasets" in lines[1]
    assert "Of its 2 values for the true angle" in lines[2]


def uncalibrated(name):
    return toy_frames()[""].query("dataset == @name and method == 'uncalibrated'")["ece"]


def test_the_paper_table_prints_measured_and_printed_values():
    text = paper_table(toy_frames(), QUICK, "uci")
    madelon = next(line for line in text.splitlines() if "Madelon" in line)
    header = next(line for line in text.splitlines() if line.startswith("| dataset"))
    assert header.count(" paper ") == len(PAPER_METHODS)
    measured = with_error(*mean_and_error(uncalibrated("madelon")))
    assert f"| {measured} | 0.1473 |" in madelon
    assert ORACLE in text


def test_the_noise_floor_is_the_mean_ece_of_a_calibrated_predictor():
    """Against a simulation: 2000 draws of labels in two bins, to four standard errors."""
    rng = np.random.default_rng(0)
    means_, counts = np.array([0.5, 0.9]), np.array([100, 300])
    observed = rng.binomial(counts, means_, size=(2000, 2)) / counts
    drawn = np.abs(observed - means_) @ (counts / counts.sum())
    floor = noise_floors(toy_frames())["madelon"]
    assert abs(floor - drawn.mean()) < 4 * drawn.std() / np.sqrt(2000)


def test_stand_ins_are_labeled():
    assert label("har", "stand-in") == "HAR (stand-in)"
    assert label("madelon", "as published") == "Madelon"


def test_datasets_are_kept_between_splits():
    assert prepared("digits") is prepared("digits")


def test_absent_data_end_in_a_sentence(monkeypatch, tmp_path, capsys):
    from studies.__main__ import main

    monkeypatch.setenv("ANGCAL_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path / "cache"))
    prepared.cache_clear()

    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    code = main(["reproduce", "table-uci", "--out", str(tmp_path / "out")])
    assert code == 1
    said = capsys.readouterr().err
    assert "ANGCAL_DATA" in said
    assert "Traceback" not in said


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def nothing_here(monkeypatch, tmp_path):
    """No data folder, and an empty cache."""
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path / "cache"))


def test_one_dataset_can_be_run_again(quick_run, tmp_path, nothing_here):
    for path in quick_run.glob("table-uci-extended*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rows = tmp_path / "table-uci-extended.csv"
    lines = rows.read_text().splitlines(keepends=True)
    spoilt = [line for line in lines if ",digits," not in line or ",0,uncalibrated," not in line]
    assert len(spoilt) == len(lines) - 1
    rows.write_text("".join(spoilt))
    arguments = ["reproduce", "table-uci-extended", "--quick", "--out", str(tmp_path)]
    assert main([*arguments, "--datasets", "digits", "--fresh"]) == 0
    assert rows.read_text() == "".join(lines)


def test_datasets_that_are_not_to_be_had_are_left_out(capsys, nothing_here):
    assert present_or_downloadable(["nova", "digits", "madelon"]) == {"digits", "madelon"}
    assert "left out: nova; set ANGCAL_DATA" in capsys.readouterr().err
    assert {"digits", "madelon"} <= set(obtainable())
    assert "nova" not in obtainable()


def test_a_table_without_any_dataset_says_so(capsys, nothing_here, tmp_path):
    assert main(["reproduce", "table-dl", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "cifar10, newsgroups, tox21" in told
    assert "none of these datasets is on this machine or can be downloaded" in told
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize(
    ("result", "told"), [("table-uci", "there are communities"), ("sign", "they have none")]
)
def test_datasets_that_a_result_does_not_have_are_named(result, told, capsys):
    assert main(["reproduce", result, "--datasets", "nonsense"]) == 2
    err = capsys.readouterr().err
    assert "nonsense" in err
    assert told in err


def test_datasets_without_names_of_results_run_their_tables_only(tmp_path, nothing_here):
    arguments = ["reproduce", "--quick", "--datasets", "breast_cancer", "--out", str(tmp_path)]
    assert main(arguments) == 0
    found = {path.stem for path in tmp_path.glob("*.json")}
    assert found == {f"table-{table}" for table in TABLES}
