"""Rows that are read anew on every pass: the same fits as of rows in memory, in few passes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    ScoreCalibratedClassifier,
    plan,
)
from angcal.losses import Multinomial
from angcal.rows import FarRows, as_rows
from angcal.simulation import simulate
from angcal.solvers.far_matrix import MatrixNewton
from angcal.solvers.far_newton import FarNewton
from angcal.solvers.newton_cg import NewtonCG

RNG = np.random.default_rng(0)
DATA = simulate(600, 40, link=Logit(3.0), random_state=1)
X, Y = DATA.X + 0.4, DATA.y
X[np.abs(X) < 0.2] = 0.0
THREE = np.digitize(X[:, 0] - 0.5 * X[:, 1] + RNG.normal(size=600), [-0.5, 0.8])
WEIGHTS = RNG.uniform(0.5, 2.0, 600)
POOL = simulate(900, 40, link=Logit(3.0), random_state=2).X + 0.4
BLOCKS = [X[:250], X[250:251], X[251:]]
NEWTON = {"C": 0.5, "tol": 1e-10, "solver": "newton-cholesky"}
TIGHT = LogisticRegression(**NEWTON)


def stored(kind, folder):
    if kind == "memory map":
        np.save(folder / "rows.npy", X)
        return np.load(folder / "rows.npy", mmap_mode="r")
    return {
        "list": BLOCKS,
        "callable": lambda: iter(BLOCKS),
        "sparse": [sparse.csr_array(X[:300]), X[300:]],
    }[kind]


@pytest.fixture(autouse=True)
def small_maps(monkeypatch):
    """Maps of any size are read in blocks, and blocks are of a few rows."""
    monkeypatch.setattr(plan, "MAPPED_BYTES", 0)
    monkeypatch.setattr(plan, "BLOCK_ENTRIES", 5000)


def assert_same(found, expected, tol=1e-6):
    both = found, expected
    assert_allclose(found.coef_, expected.coef_, atol=tol)
    # A softmax leaves the mean of its intercepts open.
    free, given = (c.intercept_ - (len(c.classes_) > 2) * c.intercept_.mean() for c in both)
    assert_allclose(free, given, atol=tol)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=tol)


@pytest.mark.parametrize("kind", ["memory map", "list", "callable", "sparse"])
def test_two_classes_are_fitted_alike_in_nine_passes(kind, tmp_path):
    expected = AngularCalibratedClassifier(TIGHT, observables="exact").fit(X, Y, WEIGHTS)
    found = AngularCalibratedClassifier(TIGHT).fit(stored(kind, tmp_path), Y, WEIGHTS)
    assert_same(found, expected)
    assert found.passes_ <= 9
    assert found.observables_.side == "primal"
    assert_allclose(found.angle_.cosine, expected.angle_.cosine, atol=1e-6)
    assert_allclose(found.angle_.interval, expected.angle_.interval, atol=1e-6)
    assert_allclose(found.observables_.leverages, expected.observables_.leverages, rtol=1e-4)
    assert_allclose(found.observables_.coupling, expected.observables_.coupling, rtol=1e-3)
    assert_allclose(found.loo_proba_, expected.loo_proba_, atol=1e-6)
    assert found.distance_to_optimum_ < 1e-7


@pytest.mark.parametrize("options", [{"fit_intercept": False}, {"class_weight": "balanced"}])
def test_options_of_the_model_are_followed(options):
    model = LogisticRegression(**NEWTON, **options)
    labels, centered = np.where(Y > 0, "yes", "no"), X - X.mean(axis=0)
    expected = AngularCalibratedClassifier(model, observables="exact").fit(centered, labels)
    blocks = [centered[:100], centered[100:]]
    assert_same(AngularCalibratedClassifier(model).fit(blocks, labels), expected)


def test_a_pool_in_memory_and_a_known_link_serve_blocks_too():
    options = {"link": Logit(3.0), "pool": POOL}
    expected = AngularCalibratedClassifier(TIGHT, observables="exact", **options).fit(X, Y)
    found = AngularCalibratedClassifier(TIGHT, **options).fit(BLOCKS, Y)
    assert expected.angle_.method == found.angle_.method == "combined"
    assert_allclose(found.angle_.cosine, expected.angle_.cosine, atol=1e-6)
    assert_same(found, expected)


def test_three_classes_are_fitted_alike():
    model = LogisticRegression(C=0.5, tol=1e-9, max_iter=10_000)
    expected = AngularCalibratedClassifier(model, observables="exact").fit(X, THREE, WEIGHTS)
    found = AngularCalibratedClassifier(model).fit(BLOCKS, THREE, WEIGHTS)
    assert_allclose(found.coef_, expected.coef_, atol=1e-5)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    assert_allclose(found.loo_proba_, expected.loo_proba_, atol=1e-5)


@pytest.mark.parametrize("labels", [Y, THREE], ids=["two", "three"])
def test_the_same_penalty_is_chosen(labels):
    options = {"Cs": 6, "tol": 1e-8, "observables": "exact"}
    expected = AngularLogisticRegressionCV(**options).fit(X, labels)
    found = AngularLogisticRegressionCV(**options).fit(BLOCKS, labels)
    assert_allclose(found.Cs_, expected.Cs_, rtol=1e-9)
    assert found.C_ == pytest.approx(expected.C_)
    assert_allclose(found.path_.log_loss, expected.path_.log_loss, atol=1e-6)
    assert_same(found, expected, 1e-5)


FIGURES = {
    # What differs: nodes that curves are fitted at, random signs for couplings, and for the ECE
    # single rows at the edge of a bin.
    "log_loss": 1e-6,
    "log_loss_se": 1e-5,
    "brier_score": 1e-6,
    "uncalibrated_log_loss": 1e-9,
    "uncalibrated_ece": 1e-8,
    "ece": 2e-3,
    "cosine": 1e-7,
    "cosine_interval": 2e-2,
    "degrees_of_freedom": 1e-6,
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": "balanced"},
        {"fit_intercept": False},
        {"scoring": "brier_score"},
        {"average": "penalties"},
    ],
    ids=str,
)
def test_a_path_is_judged_by_sums_as_it_is_by_rows(options):
    both = {"Cs": 8, "tol": 1e-8, "observables": "exact"} | options
    expected = AngularLogisticRegressionCV(**both).fit(X, Y, WEIGHTS)
    # With weights the two bases that a grid is made by are not the same.
    found = AngularLogisticRegressionCV(**both | {"Cs": expected.Cs_}).fit(BLOCKS, Y, WEIGHTS)
    assert found.path_.index == expected.path_.index
    for name, tol in FIGURES.items():
        given = getattr(found.path_, name), getattr(expected.path_, name)
        assert_allclose(*given, rtol=tol, atol=tol, err_msg=name)
    assert_allclose(found.shares_, expected.shares_, atol=1e-5)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    assert_allclose(found.loo_proba_, expected.loo_proba_, atol=1e-6)


@pytest.mark.parametrize("single", [True, False])
def test_a_path_in_single_precision_is_the_same(single, monkeypatch):
    options = {"Cs": 8, "tol": 1e-8, "observables": "exact"}
    expected = AngularLogisticRegressionCV(**options).fit(X, Y)
    if single:
        monkeypatch.setattr(plan, "SMALLEST_SINGLE_SIDE", 1)
    # And with as many passes as penalties.
    monkeypatch.setattr(plan, "PRODUCT_ENTRIES", 1)
    found = AngularLogisticRegressionCV(**options).fit(BLOCKS, Y)
    assert_allclose(found.path_.log_loss, expected.path_.log_loss, atol=1e-5)
    assert found.path_.index == expected.path_.index
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("way", ["groups", "classes", "sampled"])
def test_what_needs_vectors_takes_one_penalty_after_the_other(way, monkeypatch):
    labels = THREE if way == "classes" else Y
    groups = np.arange(600) // 3 if way == "groups" else None
    options = {"Cs": 4, "tol": 1e-8}
    options["observables"] = "randomised" if way == "sampled" else "exact"
    monkeypatch.setattr(plan, "penalties_at_once", lambda *_: 4)
    together = AngularLogisticRegressionCV(**options).fit(BLOCKS, labels, groups=groups)
    monkeypatch.setattr(plan, "penalties_at_once", lambda *_: 1)
    found = AngularLogisticRegressionCV(**options).fit(BLOCKS, labels, groups=groups)
    assert found.passes_ > together.passes_
    # Sampled rows are chosen by the first of the penalties that share passes.
    tol = 2e-2 if way == "sampled" else 1e-9
    assert_allclose(found.path_.log_loss, together.path_.log_loss, rtol=tol)
    assert found.path_.index == together.path_.index
    assert_allclose(found.predict_proba(X), together.predict_proba(X), atol=tol)


def test_no_pass_over_a_path_brings_a_number_for_each_row_and_penalty(monkeypatch):
    sizes = []

    def counting(old):
        def call(self, f, *arguments, **options):
            found = old(self, f, *arguments, **options)
            sizes.append(max(np.shape(v)[1:2] for v in [found[0] if name == "sweep" else found]))
            return found

        return call

    for name in ("map", "sweep"):
        monkeypatch.setattr(FarRows, name, counting(getattr(FarRows, name)))
    AngularLogisticRegressionCV(Cs=20).fit(BLOCKS, Y)
    # Scores with three marks are the widest.
    assert sizes
    assert max(sizes) <= (4,)


def test_sampled_leverages_are_close_to_exact_ones():
    data = simulate(900, 300, link=Logit(3.0), random_state=1)
    exact = AngularCalibratedClassifier(TIGHT, observables="exact").fit(data.X, data.y)
    blocks = [data.X[:500], data.X[500:]]
    found = AngularCalibratedClassifier(TIGHT, observables="randomised").fit(blocks, data.y)
    assert found.observables_.side == "randomised"
    steps = exact.observables_.gamma
    assert found.observables_.gamma == pytest.approx(steps, rel=0.1)


def test_models_trained_elsewhere_are_read():
    model = RidgeClassifier(alpha=3.0).fit(X, Y)
    expected = AngularCalibratedClassifier(FrozenEstimator(model), observables="exact").fit(X, Y)
    assert_same(AngularCalibratedClassifier(FrozenEstimator(model)).fit(BLOCKS, Y), expected)


def test_classical_calibrators_take_blocks():
    expected = ScoreCalibratedClassifier(TIGHT, observables="exact").fit(X, Y)
    assert_same(ScoreCalibratedClassifier(TIGHT).fit(BLOCKS, Y), expected)


@pytest.mark.parametrize(
    "model",
    [
        RidgeClassifier(),
        LogisticRegressionCV(Cs=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_models_that_need_all_rows_are_refused(model):
    with pytest.raises(TypeError, match="X comes in blocks"):
        AngularCalibratedClassifier(model).fit(BLOCKS, Y)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"polish": True}, (BLOCKS, Y), "polish=True needs rows in memory"),
        ({}, (BLOCKS, Y[:-1]), "X has 600 rows and y 599 labels"),
        ({}, (BLOCKS, Y, np.append(0.0, WEIGHTS[1:])), "drop rows of weight 0"),
        ({}, ([np.where(X > 1, np.nan, X)], Y), "NaN or infinity"),
        ({"covariance": LinearRegression(), "angle": "observable"}, (BLOCKS, Y), "pass a pool"),
    ],
)
def test_what_blocks_cannot_give_is_named(options, arguments, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(**options).fit(*arguments)


def test_blocks_that_change_between_passes_are_noticed():
    count = iter(range(100))
    source = lambda: iter(BLOCKS if next(count) < 3 else BLOCKS[:1])  # noqa: E731
    with pytest.raises(ValueError, match="the same blocks each time"):
        AngularCalibratedClassifier().fit(source, Y)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("matrices", [True, False])
@pytest.mark.parametrize("K", [2, 3])
def test_every_way_of_newton_ends_at_the_optimum(K, matrices, intercept, monkeypatch):
    if not matrices:
        monkeypatch.setattr(plan, "LARGE_SIDE", 0)
    labels, loss = (Y.astype(float), None) if K == 2 else (THREE.astype(float), Multinomial(3))
    strengths = np.array([0.3, 20.0])
    solver = FarNewton(as_rows(BLOCKS, intercept), labels, WEIGHTS, strengths, loss)
    reference = NewtonCG(as_rows(X, intercept), labels, WEIGHTS, strengths, loss).solve(1e-9)
    found = solver.solve(1e-8)
    assert found.converged.all()
    # A softmax leaves the mean of its scores open.
    each = (600, K if K > 2 else 1, 2)
    V = np.vstack([found.coef, found.intercepts]) if intercept else found.coef
    scores, expected = (u.reshape(each) for u in (solver.rows.forward(V), reference.scores))
    if K > 2:
        scores, expected = (s - s.mean(axis=1, keepdims=True) for s in (scores, expected))
    assert_allclose(scores, expected, atol=2e-5)
    assert np.all(solver.distances(found) < 1e-5)


def test_a_fit_goes_on_from_where_it_stopped():
    rows, seen = as_rows(BLOCKS, True), []
    arguments = (Y.astype(float), WEIGHTS, 2.0)
    whole = MatrixNewton(rows, *arguments, watch=lambda V: seen.append(V.copy())).solve(1e-4)
    again = MatrixNewton(as_rows(BLOCKS, True), *arguments).solve(1e-4, start=seen[-2])
    assert again.newton_steps == 1
    assert_allclose(again.coef, whole.coef, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "single"),
    [
        (lambda rows: rows, True),
        (lambda rows: np.float32(rows), True),
        (lambda rows: 30 * np.hstack([rows, rows[:, :1] + 1e-3 * rows[:, 1:2]]), False),
        (lambda rows: 1e25 * rows, False),
        (lambda rows: np.hstack([1e-25 * rows[:, :1], rows]), False),
    ],
    ids=["plain", "float32", "collinear", "huge", "tiny"],
)
def test_single_precision_is_used_where_it_will_do(change, single, monkeypatch):
    monkeypatch.setattr(plan, "SMALLEST_SINGLE_SIDE", 1)
    rows = change(X - X.mean(axis=0))
    solver = MatrixNewton(as_rows([rows[:250], rows[250:]], True), Y.astype(float), WEIGHTS, 2.0)
    solver.solve(1e-10)
    assert solver.single is single
    assert solver.left < 1e-9
    monkeypatch.setattr(plan, "SMALLEST_SINGLE_SIDE", 10_000)
    model = LogisticRegression(C=0.5)
    blocks = [rows[:250], rows[250:]]
    expected = AngularCalibratedClassifier(model).fit(blocks, Y)
    monkeypatch.setattr(plan, "SMALLEST_SINGLE_SIDE", 1)
    found = AngularCalibratedClassifier(model).fit(blocks, Y)
    assert_allclose(found.predict_proba(rows), expected.predict_proba(rows), atol=1e-6)


CHILD = """
import json, resource, sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
path, n, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
small = np.random.default_rng(0).normal(size=(2000, d))
y = np.load(path + ".y.npy")
# Everything is imported and warm before the measurement starts.
AngularCalibratedClassifier().fit([small], y[:2000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
X = np.memmap(path, dtype=np.float64, mode="r", shape=(n, d))
clf = AngularCalibratedClassifier().fit(X, y)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([1024 * (after - before), X.nbytes, clf.passes_]))
"""


def test_a_memory_map_is_never_held_whole(tmp_path):
    n, d = 180_000, 200
    path, rng = tmp_path / "rows.bin", np.random.default_rng(0)
    w = rng.normal(size=d) / np.sqrt(d)
    labels = np.empty(n, dtype=int)
    with open(path, "wb") as file:
        for start in range(0, n, 10_000):
            block = rng.standard_normal((10_000, d))
            p = 1 / (1 + np.exp(-2 * block @ w))
            labels[start : start + 10_000] = rng.random(10_000) < p
            block.tofile(file)
    np.save(str(path) + ".y.npy", labels)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(n), str(d)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    grown, size, passes = json.loads(done.stdout)
    assert size == 288_000_000
    assert grown < 0.25 * size
    assert passes <= 9
