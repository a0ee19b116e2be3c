"""`studies benchmark real`: rows, methods and costs, tried on scikit-learn's packaged data."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV

from studies.datasets import CATALOGUE
from studies.peers import peers, tasks
from studies.peers.benchmark import SELDOM, SIDES, Outcome, attempt, checked
from studies.peers.methods import (
    AVERAGED,
    DEFAULT,
    FOLDS,
    HOLDOUT_SHARE,
    IN_FOLDS,
    TUNED,
    Fitted,
    Method,
    Training,
    probabilities,
)
from studies.peers.peers import EVIDENCE, METHODS
from studies.peers.real import BENCHMARK, FULL, QUICK, measured
from studies.peers.remembered import digest, watched
from studies.peers.tasks import SizeError, Split, Task, draw_split, load_task, training_rows

RATIOS = FULL.ratios
FIRST = {"dataset": "breast_cancer", "ratio": 2.0, "split": 0}


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Neither a data folder nor a cache, as on a machine that has never seen the datasets."""
    monkeypatch.delenv("ANGCAL_DATA", raising=False)
    monkeypatch.setenv("ANGCAL_CACHE", str(tmp_path))


def task_of(rows: int, columns: int, positives: float = 0.5, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * rng.uniform(0.1, 30.0, columns) + 5.0
    y = (np.arange(rows) < positives * rows).astype(np.int64)
    return Task(X, y, "toy")


def training_of(n: int = 60, d: int = 20) -> Training:
    task = task_of(n + 200, d)
    shifted = replace(task, X=task.X + 2.0 * task.y[:, None])
    split = draw_split(shifted, n, 200, np.random.default_rng(1))
    return Training(split.X_train, split.y_train, seed=2, n_penalties=3)


# -- sizes and splits --------------------------------------------------------------------------


def test_sizes_follow_the_columns():
    sizes = [training_rows(task_of(3000, 100), ratio, FULL) for ratio in RATIOS[1:]]
    assert sizes == [50, 100, 200, 400]


@pytest.mark.parametrize(
    ("task", "ratio", "reason"),
    [
        (task_of(3000, 100), 0.25, "fewer than 40"),
        (task_of(3000, 100, positives=0.05), 1.0, "rarer class"),
        (task_of(420, 200), 2.0, "hardly more"),
        (task_of(300, 3300), 0.25, "dense columns"),
        (task_of(72, 100), 1.0, "fewer than 40"),
    ],
)
def test_sizes_that_cannot_be_had(task, ratio, reason):
    with pytest.raises(SizeError, match=reason):
        training_rows(task, ratio, FULL)


def test_a_short_file_cuts_the_size_down_and_leaves_test_rows():
    task = task_of(1000, 200)
    assert training_rows(task, 4.0, FULL) == 800
    assert training_rows(task_of(420, 200), 1.0, FULL) == 200
    assert training_rows(task_of(20_000, 1500), 4.0, FULL) == FULL.max_train


def test_sparse_sets_may_have_more_columns():
    dense = task_of(9000, 10)
    wide = Task(sparse.csr_matrix((9000, FULL.max_columns + 100)), dense.y, "wide")
    assert training_rows(wide, 0.25, FULL) == 825


def test_splits_share_no_row_and_keep_the_classes():
    task = task_of(500, 3, positives=0.2)
    # The row's number goes through scaling as a column of its own.
    task = replace(task, X=np.arange(500.0)[:, None])
    split = draw_split(task, 100, 300, np.random.default_rng(0))
    assert split.X_train.shape == (100, 1)
    assert split.X_test.shape == (300, 1)
    assert not np.intersect1d(split.X_train, split.X_test).size
    assert split.y_train.sum() == 20
    assert split.y_test.sum() == 60


def test_scaling_is_learnt_on_training_rows_alone():
    split = draw_split(task_of(500, 4), 100, 400, np.random.default_rng(0))
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), 1.0)
    assert np.all(np.abs(split.X_test.mean(axis=0)) > 1e-6)


def test_sparse_rows_stay_sparse():
    task = Task(sparse.random(500, 30, 0.2, "csr", random_state=0), task_of(500, 1).y, "sparse")
    split = draw_split(task, 100, 400, np.random.default_rng(0))
    assert sparse.issparse(split.X_train)
    assert split.X_train.nnz == task.X.nnz - split.X_test.nnz


def test_another_split_has_other_rows_and_the_same_one_the_same():
    task = task_of(500, 2)
    first, again, other = (draw_split(task, 50, 99, np.random.default_rng(s)) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.X_train, again.X_train)
    assert not np.array_equal(first.X_train, other.X_train)


def test_rows_without_a_class_are_left_out():
    task = load_task("digits")
    assert set(np.unique(task.y)) == {0, 1}
    assert task.name == "odd against even digits"


def test_a_set_without_labels_is_refused(monkeypatch):
    tasks.load_task.cache_clear()
    loaded = tasks.load("digits", scaled=False)
    monkeypatch.setattr(tasks, "load", lambda *_, **__: replace(loaded, y=None, task=None))
    with pytest.raises(ValueError, match="has no labels"):
        load_task("digits")
    tasks.load_task.cache_clear()


# -- trials ------------------------------------------------------------------------------------


def test_the_first_split_of_everything_comes_first():
    listed = BENCHMARK.trials(FULL)
    cells = len(FULL.datasets) * len(FULL.ratios)
    one_round = 2 * cells
    seldom = cells * FULL.costly_splits
    later = listed[one_round * FULL.splits + seldom :]
    assert all(trial["side"] == SELDOM for trial in listed[one_round * FULL.splits :][:seldom])
    # Sides that were added later follow, so that the numbers of earlier trials stay.
    assert [trial["side"] for trial in later[:3]] == list(BENCHMARK.late_sides)
    assert len(later) == 3 * seldom
    assert {trial["split"] for trial in listed[:one_round]} == {0}
    assert {trial["dataset"] for trial in listed[:one_round]} == set(FULL.datasets)


def test_every_labeled_set_takes_part():
    absent = [
        name
        for name, dataset in CATALOGUE.items()
        if dataset.labels is not None and name not in FULL.datasets
    ]
    assert all(CATALOGUE[name].standing == "loader only" for name in absent)
    assert FULL.splits >= 20
    assert min(FULL.ratios) == 0.25
    assert max(FULL.ratios) == 4.0


@pytest.mark.parametrize("side", SIDES)
def test_a_trial_repeats_itself(side):
    trial = {"dataset": "breast_cancer", "ratio": 2.0, "split": 1, "side": side}
    first, again = BENCHMARK.run(QUICK, trial), BENCHMARK.run(QUICK, trial)
    assert first["splits"] == again["splits"]
    for one, other in zip(first[""], again[""], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert one["labels_spent"] == (15 if METHODS[str(one["method"])].reduced else 0)


def test_a_size_that_cannot_be_had_leaves_its_reason():
    tables = BENCHMARK.run(
        QUICK, {"dataset": "breast_cancer", "ratio": 1.0, "split": 0, "side": "peers"}
    )
    assert not tables.get("")
    assert "fewer than 40" in tables["splits"][0]["not_run"]


def test_costly_methods_are_left_to_small_tasks():
    tables = BENCHMARK.run(replace(QUICK, costly_entries=100), {**FIRST, "side": SELDOM})
    assert not tables.get("")
    assert tables["splits"][0]["not_run"] == "costly methods at n·d above 100"


def test_every_method_has_one_side():
    sides = {name: BENCHMARK.side_of(method) for name, method in METHODS.items()}
    assert {name for name, side in sides.items() if side == "angcal"} == {TUNED, DEFAULT}
    assert sides[AVERAGED] == sides[IN_FOLDS] == "averages"
    assert sides[EVIDENCE] == "rivals"
    assert sides["logistic tuned"] == "peers"
    assert sides["CV temperature, tuned"] == SELDOM
    assert {
        method.name
        for side in (SELDOM, *BENCHMARK.late_sides)
        for method in BENCHMARK.applicable(FULL, {"side": side, "split": 0}, 0)
    } == {name for name, method in METHODS.items() if method.costly and not method.missing()}


def test_a_method_that_fails_is_reported_and_the_others_go_on():
    def fail(training: Training) -> Fitted:
        raise ArithmeticError("no luck")

    methods = {"bad": Method("bad", fail, plain_fits=1), DEFAULT: METHODS[DEFAULT]}
    two = replace(BENCHMARK, methods=methods, own=methods, applied=lambda trial: methods.values())
    tables = two.run(QUICK, {**FIRST, "side": "angcal"})
    assert [row["method"] for row in tables[""]] == [DEFAULT]
    assert tables["failures"] == [{"method": "bad", "reason": "ArithmeticError: no luck"}]


def test_a_missing_package_is_reported_and_its_methods_left_out(monkeypatch):
    # None in sys.modules is how Python is told that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "betacal", None)
    tables = BENCHMARK.run(QUICK, {**FIRST, "side": "peers"})
    assert "betacal" in tables["splits"][0]["missing"]
    assert not tables["failures"]
    ran = {row["method"] for row in tables[""]}
    assert "logistic" in ran
    assert not ran & {TUNED, DEFAULT}
    assert not ran & {"betacal", "betacal, tuned"}
    assert "betacal" in peers.missing_packages(METHODS.values())


# -- methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_methods_give_probabilities(name):
    method = METHODS[name]
    if method.missing():
        pytest.skip(method.missing())
    training = training_of()
    rows = np.random.default_rng(3).normal(size=(50, 20))
    outcome = attempt(method, training, rows)
    assert outcome.probability.shape == (50,)
    assert np.all((outcome.probability >= 0.0) & (outcome.probability <= 1.0))
    assert np.ptp(outcome.probability) > 0.0
    assert outcome.seconds > 0.0
    assert outcome.C > 0.0


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        (TUNED, 10),
        (AVERAGED, 10),
        (IN_FOLDS, 48),
        (DEFAULT, 1),
        ("logistic", 1),
        ("logistic tuned", 101),
        ("CV sigmoid", 5),
        ("CV temperature, one model", 6),
        ("CV sigmoid, one model, tuned", 606),
        ("CV temperature, tuned", 505),
        ("venn-abers, cross, tuned", 606),
        ("betacal", 1),
        ("betacal, tuned", 101),
        ("venn-abers, cross", 6),
    ],
)
def test_fits_paid(name, fits):
    assert METHODS[name].fits(20) == fits


def test_fits_are_those_that_scikit_learn_makes(monkeypatch):
    """Counted as they happen, for C = 1; a search is five folds for each penalty, and one more."""
    from sklearn.linear_model import LogisticRegression

    count, fit = [0], LogisticRegression.fit

    def counting(self, *args, **kwargs):
        count[0] += 1
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(LogisticRegression, "fit", counting)
    for name in ("logistic", DEFAULT, "CV sigmoid", "CV isotonic, one model"):
        count[0] = 0
        METHODS[name].fit(training_of())
        assert count[0] == METHODS[name].fits(20), name


def test_a_holdout_is_a_stratified_quarter_that_the_model_never_sees():
    training = training_of()
    kept, held = training.parts
    assert len(held) == METHODS["betacal"].labels_spent(60) == 60 * HOLDOUT_SHARE
    assert not np.intersect1d(kept, held).size
    assert training.y[held].mean() == pytest.approx(training.y.mean(), abs=0.05)
    assert METHODS["logistic"].labels_spent(60) == 0


def test_shared_models_are_fitted_once_and_paid_for_by_each():
    training = training_of()
    reduced = Method("reduced", lambda rows: Fitted(probabilities(rows.reduced_model("tuned"))))
    first, again = (attempt(reduced, training, training.X) for _ in range(2))
    (model,) = training.memory.models.values()
    assert training.reduced_model("tuned") is model.value
    assert min(first.seconds, again.seconds) >= 0.99 * model.seconds
    assert first.warnings == again.warnings == model.warnings


def test_folds_are_shared_without_changing_a_probability():
    """Calibrators that cut the same five folds fit six models between them."""
    training = training_of()
    names = [name for name in METHODS if name.startswith("CV ") and "tuned" not in name]
    assert len(names) == 6
    shared = {name: attempt(METHODS[name], training, training.X) for name in names}
    assert len(training.memory.models) == 6
    for name in names:
        method, *alone = name.removeprefix("CV ").split(", ")
        plain = CalibratedClassifierCV(
            training.model("C=1"), method=method, cv=FOLDS, ensemble=not alone
        ).fit(training.X, training.y)
        np.testing.assert_array_equal(shared[name].probability, probabilities(plain)(training.X))


def test_rows_in_another_order_are_other_rows():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)
    assert digest(X, y) == digest(X.copy(order="F"), y)
    assert digest(X, y) != digest(X[::-1], y)
    assert digest(X, y) != digest(X, 1 - y)
    wide = sparse.csr_matrix(X)
    assert digest(wide, y) == digest(wide.copy(), y) != digest(wide[::-1], y)


def test_what_is_no_probability_is_an_error():
    with pytest.raises(ValueError, match="2 of 3"):
        checked(np.array([0.5, np.nan, np.inf]))
    np.testing.assert_array_equal(checked(np.array([-1e-9, 1.0 + 1e-9])), [0.0, 1.0])


def test_infinite_losses_are_counted_and_clipped():
    p, y = np.array([0.0, 1.0, 0.5, 0.0]), np.array([1, 1, 0, 0])
    row = measured(Outcome(p, 1.0, 0.0, 0), Split(None, None, None, y))
    assert row["infinite"] == 1
    assert row["clipped"] == 3
    losses = [-np.log(1e-6), -np.log1p(-1e-6), np.log(2.0), -np.log1p(-1e-6)]
    assert row["log_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert row["brier"] == pytest.approx((1.0 + 0.25) / 4)
    assert row["accuracy"] == 0.75


def test_watching_leaves_the_filters_of_warnings_alone():
    import warnings

    def loud() -> int:
        warnings.filterwarnings("ignore")
        return 7

    before = list(warnings.filters)
    assert watched(loud).value == 7
    assert list(warnings.filters) == before

    def doubtful() -> None:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        warnings.warn("old", FutureWarning, stacklevel=1)

    assert watched(doubtful).warnings == 1
