"""`studies benchmark multiclass`: rows, methods, tables, on data packaged with scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from studies.__main__ import main
from studies.datasets import CATALOGUE
from studies.engine.runner import read_tables
from studies.peers import multiclass, multiclass_tables
from studies.peers.benchmark import SELDOM, Outcome, attempt, run_methods
from studies.peers.compare import by_method
from studies.peers.methods import AVERAGED, DEFAULT, IN_FOLDS, NO_FOLDS, TUNED, Folds, Training
from studies.peers.multiclass import (
    BENCHMARK,
    CELL,
    FULL,
    LOO_TEMPERATURE,
    METHODS,
    MULTICLASS,
    PLAIN,
    QUICK,
    draw_split,
    measured,
    methods,
    training_counts,
)
from studies.peers.tasks import SizeError, Split, Task

FIRST = {"dataset": "iris", "classes": 3, "per_class": 10, "base": "C=1", "split": 0}


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Neither a data folder nor a cache, as on a machine that has never seen the datasets."""
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path))


def training_of(counts=(12, 12, 12), d=5, seed=0) -> Training:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), d)) + 2.0 * np.eye(len(counts), d)[y]
    return Training(X, y, seed=1, n_penalties=3)


# -- rows --------------------------------------------------------------------------------------


def test_training_rows_follow_the_shares_and_no_class_is_missing():
    y = np.repeat([0, 1, 2], [600, 390, 10])
    np.testing.assert_array_equal(training_counts(y, 10), [18, 12, 1])
    np.testing.assert_array_equal(training_counts(np.repeat(np.arange(5), 20), 4), [4] * 5)


def test_a_quarter_of_the_rows_stays_for_the_test():
    y = np.repeat(np.arange(4), 16)
    np.testing.assert_array_equal(training_counts(y, 12), [12] * 4)
    with pytest.raises(SizeError, match="13 rows per class leave too few"):
        training_counts(y, 13)
    with pytest.raises(SizeError, match="too few"):
        training_counts(np.array([0] * 50 + [1] * 50 + [2]), 1)


def test_splits_share_no_row_and_keep_rows_labels_and_truth_together():
    y = np.repeat(np.arange(3), 40)
    number = np.arange(120.0)
    rows = Task(np.column_stack([number, 2.0 * number]), y, "toy", np.tile(number[:, None], (1, 3)))
    split = draw_split(rows, np.array([4, 5, 6]), 50, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(split.y_train), [4, 5, 6])
    assert split.X_test.shape == (50, 2)
    # The scaled row number is a line through the true one, which tells the rows apart.
    slope, start = np.polyfit(split.truth[:, 0], split.X_test[:, 0], 1)
    found = np.rint((split.X_train[:, 0] - start) / slope).astype(int)
    np.testing.assert_array_equal(y[found], split.y_train)
    assert not np.intersect1d(found, split.truth[:, 0]).size
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)


def test_simulated_rows_have_their_truth_and_real_ones_the_first_classes():
    trial = {**FIRST, "dataset": "softmax 7", "classes": 4}
    rows = multiclass.labeled_rows(QUICK, trial, np.random.default_rng(3))
    assert rows.X.shape == (2 * (40 + QUICK.max_test), 7)
    np.testing.assert_allclose(rows.truth.sum(axis=1), 1.0)
    digits = multiclass.labeled_rows(
        QUICK, {**FIRST, "dataset": "digits", "classes": 4}, np.random.default_rng(0)
    )
    assert set(digits.y) == set(range(4))
    assert digits.truth is None


# -- folds and methods -------------------------------------------------------------------------


def test_folds_are_five_or_as_many_as_the_rarest_class_has_rows():
    y = np.repeat([0, 1, 2], [9, 7, 6])
    for ours, theirs in zip(
        Folds().split(y[:, None], y), StratifiedKFold(5).split(y[:, None], y), strict=True
    ):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    assert Folds().get_n_splits(None, [0, 0, 1, 1, 1]) == 2
    with pytest.raises(ValueError, match="one row"):
        Folds().split([[0], [1], [2]], [0, 0, 1])


def test_a_method_without_folds_is_skipped_and_the_others_go_on():
    training = training_of((12, 12, 1))
    chosen = [method for method in methods("C=1") if not method.missing()]
    rows, failures = run_methods(chosen, training, training.X, lambda found: {})
    assert [row["method"] for row in rows] == [DEFAULT, LOO_TEMPERATURE, PLAIN]
    assert {row["reason"] for row in failures} == {f"ValueError: {NO_FOLDS}"}


@pytest.mark.parametrize("name", METHODS)
def test_methods_give_probabilities(name):
    method = METHODS[name]
    if method.missing():
        pytest.skip(method.missing())
    training = training_of()
    outcome = attempt(method, training, training.X[:20])
    assert outcome.probability.shape == (20, 3)
    np.testing.assert_allclose(outcome.probability.sum(axis=1), 1.0, atol=1e-6)
    assert outcome.C > 0.0
    assert (METHODS[name].averages) == (
        name in (AVERAGED, IN_FOLDS) or (name.startswith("CV ") and "one model" not in name)
    )


def test_the_penalty_is_the_bases_own():
    training = training_of()
    for base, C in (("C=1", 1.0), ("C=0.01", 0.01)):
        plain = LogisticRegression(C=C, max_iter=1000).fit(training.X, training.y)
        by_name = {method.name: method for method in methods(base)}
        found = {name: attempt(by_name[name], training, training.X) for name in (PLAIN, DEFAULT)}
        assert found[PLAIN].C == found[DEFAULT].C == C
        np.testing.assert_allclose(found[PLAIN].probability, plain.predict_proba(training.X))
        folded = CalibratedClassifierCV(plain, method="temperature", ensemble=False, cv=5)
        np.testing.assert_allclose(
            attempt(by_name["CV temperature, one model"], training, training.X).probability,
            folded.fit(training.X, training.y).predict_proba(training.X),
        )


def test_maps_are_fitted_to_scores_of_models_that_have_not_seen_the_row(monkeypatch):
    seen = {}

    def kept(scores, y):
        seen["scores"] = scores
        return lambda new: softmax(new, axis=1)

    training = training_of()
    found = multiclass._out_of_fold(training, "C=1", kept)
    for train, left in StratifiedKFold(5).split(training.X, training.y):
        model = LogisticRegression(max_iter=1000).fit(training.X[train], training.y[train])
        scores = model.decision_function(training.X[left])
        np.testing.assert_allclose(seen["scores"][left], scores, atol=1e-12)
    plain = LogisticRegression(max_iter=1000).fit(training.X, training.y)
    np.testing.assert_allclose(found.predict(training.X), plain.predict_proba(training.X))


def test_sides():
    sides = {name: BENCHMARK.side_of(method) for name, method in METHODS.items()}
    own = {DEFAULT, TUNED, AVERAGED, IN_FOLDS, PLAIN, LOO_TEMPERATURE}
    assert {name for name, side in sides.items() if side == "angcal"} == own
    assert sides["CV isotonic"] == sides["logistic tuned"] == "peers"
    assert sides["vector scaling"] == sides["CV temperature, tuned"] == SELDOM
    trial = {**FIRST, "base": "tuned", "side": "angcal"}
    small = BENCHMARK.applicable(FULL, trial, FULL.costly_entries)
    large = BENCHMARK.applicable(FULL, trial, FULL.costly_entries + 1)
    assert [method.name for method in small] == [TUNED, AVERAGED, IN_FOLDS]
    assert [method.name for method in large] == [TUNED]


# -- trials ------------------------------------------------------------------------------------


def test_the_tasks_are_three_to_a_hundred_classes_that_exist():
    assert {K for _, K in FULL.tasks} >= {3, 4, 5, 7, 10, 12, 20, 30, 50, 100}
    real = [name for name, _ in FULL.tasks if not name.startswith(multiclass.SIMULATED)]
    assert set(real) <= set(CATALOGUE)
    listed = BENCHMARK.trials(FULL)
    assert listed[0]["split"] == 0
    assert listed[-1]["side"] == SELDOM
    leaves = [trial for trial in listed if trial["per_class"] == multiclass.LEAF_ROWS]
    assert {(trial["classes"], trial["base"]) for trial in leaves} == {
        (K, base) for K in (20, 25, 30) for base in ("C=1", "C=0.1")
    }


def test_a_trial_repeats_itself_and_its_sides_see_the_same_rows():
    first, again = (BENCHMARK.run(QUICK, {**FIRST, "side": "angcal"}) for _ in range(2))
    for one, other in zip(first[""], again[""], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0} or np.isnan(one["divergence"])
        assert one["log_loss"] == other["log_loss"]
    peers = BENCHMARK.run(QUICK, {**FIRST, "side": "peers"})
    assert {**first["splits"][0], "side": ""} == {**peers["splits"][0], "side": ""}
    assert first["splits"][0]["rarest"] == 10


def test_what_is_too_large_leaves_its_reason():
    tight = replace(QUICK, tuned_entries=100, costly_entries=100)
    for change, reason in (
        ({"per_class": 40, "side": "peers"}, "40 rows per class leave too few for the test"),
        ({"base": "tuned", "side": "peers"}, "tuned methods at n·d·K above 100"),
        ({"side": SELDOM}, "costly methods at n·d·K above 100"),
    ):
        tables = BENCHMARK.run(tight, {**FIRST, **change})
        assert not tables.get("")
        assert tables["splits"][0]["not_run"] == reason


def test_metrics_by_hand():
    P = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])
    y, truth = np.array([0, 0, 2]), np.tile([[0.2, 0.3, 0.5]], (3, 1))
    split = Split(np.empty((0, 1)), np.empty(0, int), np.empty((3, 1)), y, truth)
    row = measured(Outcome(P, 1.0, 0.0, 0), split)
    assert row["infinite"] == 1
    assert row["accuracy"] == pytest.approx(2 / 3, rel=1e-4)
    assert row["log_loss"] == pytest.approx(
        -(np.log(0.5) + np.log(1e-6) + np.log(0.6)) / 3, rel=1e-4
    )
    assert row["brier"] == pytest.approx((0.375 + 2.0 + 0.24) / 6, rel=1e-4)
    clipped = np.clip(P, 1e-6, None)
    divergences = np.sum(truth * np.log(truth / clipped), axis=1)
    assert row["divergence"] == pytest.approx(divergences.mean(), rel=1e-4)


# -- tables ------------------------------------------------------------------------------------


def toy_rows() -> pd.DataFrame:
    """angcal 1 % above the better yardstick in one cell, 5 % in the other."""
    losses = {DEFAULT: [1.01, 1.05], PLAIN: [1.2, 1.0], LOO_TEMPERATURE: [1.0, 1.1]}
    return pd.DataFrame(
        {
            "dataset": "iris",
            "classes": 3,
            "per_class": (4, 10)[cell],
            "base": "C=1",
            "split": split,
            "method": method,
            "log_loss": losses[method][cell] + 0.1 * split,
        }
        for method in losses
        for cell in (0, 1)
        for split in (0, 1)
    )


def test_cells_above_both_yardsticks_are_listed():
    found = multiclass_tables.excess_over_yardsticks(toy_rows())
    assert list(found["which"]) == [LOO_TEMPERATURE, PLAIN]
    np.testing.assert_allclose(found["ratio"], [1.06 / 1.05, 1.10 / 1.05])
    told = "\n".join(multiclass_tables._guard(toy_rows()))
    assert "In 1 of 2 cells angcal is more than 2 % above" in told
    assert "| iris | 3 | 10 | C=1 | 1.1000 | logistic | 1.048 |" in told


def test_cells_without_all_methods_are_left_out_and_rare_methods_too():
    values = by_method(toy_rows(), "log_loss", CELL)
    values["often"] = [1.0, 1.0, np.nan, np.nan]
    found = multiclass_tables.whole(values)
    assert set(found) == {DEFAULT, PLAIN, LOO_TEMPERATURE}
    assert len(found) == 2
    values["most"] = values["often"].fillna({values.index[2]: 1.0})
    values = pd.concat([values, values.iloc[:2].rename({4: 30}, level="per_class")])
    found = multiclass_tables.whole(values.drop(columns="often"))
    assert "most" in found
    assert len(found) == 3


def test_leaf_shapes_have_a_table_of_their_own():
    rows = toy_rows().assign(dataset=multiclass.LEAVES, per_class=multiclass.LEAF_ROWS)
    rows["classes"] = [20, 20, 25, 25] * 3
    told = multiclass_tables._leaves(rows, FULL)
    assert "| plants_shape | 20 | 8 | C=1 | 1.250 | 1.050 | 1.060 |" in told[-1]
    assert multiclass_tables._leaves(toy_rows(), FULL) == []


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the quick run, made without a data folder and without a cache."""
    folder = tmp_path_factory.mktemp("multiclass")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANGCAL_DATA", raising=False)
        patch.setenv("ANGCAL_CACHE", str(folder / "cache"))
        arguments = ["benchmark", "multiclass", "--quick", "--out", str(folder)]
        assert main([*arguments, "--splits", "1"]) == 0
        assert main(arguments) == 0
    return folder


def test_the_quick_run_leaves_tables_and_a_picture(quick):
    assert (quick / "multiclass.png").stat().st_size > 10_000
    told = (quick / "multiclass.md").read_text()
    for part in ("One penalty", "Tuned", "Never much worse", "Simulated labels", "Seconds"):
        assert f"### {part}" in told
    assert "60 of 60 trials done" in told
    assert "2 of 2 splits each by both sides" in told


def test_one_side_can_be_run_again(quick, tmp_path):
    for path in quick.glob("multiclass*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = read_tables(MULTICLASS, QUICK, tmp_path)[""]
    arguments = ["benchmark", "multiclass", "--quick", "--out", str(tmp_path), "--datasets", "iris"]
    assert main([*arguments, "--side", "angcal", "--fresh"]) == 0
    after = read_tables(MULTICLASS, QUICK, tmp_path)[""]
    pd.testing.assert_frame_equal(before.drop(columns="seconds"), after.drop(columns="seconds"))
    changed = before["seconds"] != after["seconds"]
    assert changed.any()
    assert set(before["method"][changed]) <= set(BENCHMARK.own)
