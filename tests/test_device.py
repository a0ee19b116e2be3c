"""Tensors in, tensors out: the same answers as from NumPy arrays, on the CPU."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    ScoreCalibratedClassifier,
)
from angcal.arrays import on_host
from angcal.covariance import ScoreScale
from angcal.curve import CalibratedCurve, ConstantCurve
from angcal.links.multiclass import OneVsRest, Softmax
from angcal.multiclass import ClassMap
from angcal.notices import RepeatedRowsWarning
from angcal.rows import as_rows
from angcal.simulation import IdentityCovariance, simulate
from angcal.solvers.newton_cg import NewtonCG

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

MODEL = LogisticRegression(C=0.01, tol=1e-6)


@pytest.fixture(scope="module")
def data():
    return simulate(700, 500, link=Logit(3.0, 1.0), random_state=3)


@pytest.fixture
def dispatch(monkeypatch):
    # scikit-learn asks for this before it lets tensors through.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        yield


def tensors(data, dtype=torch.float64):
    X = data.X * np.sqrt(data.X.shape[1])
    return torch.asarray(X, dtype=dtype), torch.asarray(data.y)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_same_fit_and_curve_as_numpy(data, dispatch, dtype):
    X, y = tensors(data, dtype)
    found = AngularCalibratedClassifier(MODEL).fit(X, y)
    host = AngularCalibratedClassifier(MODEL, observables="randomised").fit(X.numpy(), y.numpy())
    exact = AngularCalibratedClassifier(MODEL, observables="exact").fit(X.numpy(), y.numpy())
    assert isinstance(found.coef_, torch.Tensor)
    assert found.coef_.dtype == dtype
    scale = np.abs(host.coef_).max()
    assert_allclose(found.coef_.numpy(), host.coef_, atol=2e-3 * scale)
    p = found.predict_proba(X)
    assert isinstance(p, torch.Tensor)
    assert p.dtype == dtype
    assert_allclose(p.sum(axis=1).numpy(), 1.0, atol=1e-6)
    assert_allclose(p.numpy(), host.predict_proba(X.numpy()), atol=3e-3)
    assert np.abs(p.numpy() - exact.predict_proba(X.numpy())).mean() < 0.01
    assert found.observables_.side == "randomised"
    assert found.passes_ > 10
    assert set(np.unique(found.predict(X))) == {0, 1}


def test_known_link_and_given_cosine(data, dispatch):
    X, y = tensors(data)
    link = Logit(3.0, 1.0)
    found = AngularCalibratedClassifier(MODEL, link=link).fit(X, y)
    assert found.angle_.method == "loo"
    true = data.cosine(found.coef_.numpy()[0] * np.sqrt(500))
    assert abs(found.angle_.cosine - true) < 4 * found.angle_.standard_error
    given = AngularCalibratedClassifier(MODEL, link=link, angle=0.5).fit(X, y)
    assert given.angle_.cosine == 0.5


def test_weights_are_part_of_the_loss(data, dispatch):
    X, y = tensors(data)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    found = AngularCalibratedClassifier(MODEL).fit(X, y, sample_weight=torch.asarray(weights))
    host = LogisticRegression(C=0.01, tol=1e-8, max_iter=1000).fit(
        X.numpy(), y.numpy(), sample_weight=weights
    )
    assert_allclose(found.coef_.numpy(), host.coef_, atol=2e-3 * np.abs(host.coef_).max())


def test_predictions_are_those_of_the_curve(data, dispatch):
    X, y = tensors(data)
    found = AngularCalibratedClassifier(MODEL).fit(X, y)
    far = X[:5] * 1e3  # beyond the table
    rows = torch.cat([X, far])
    scores = rows.numpy() @ found.coef_.numpy()[0] + found.intercept_.item()
    assert_allclose(
        found.predict_proba(rows)[:, 1].numpy(), found.curve_.predict(scores), atol=2e-9
    )


@pytest.mark.parametrize("link", [Softmax(3), Softmax(3, (0.5, 0.0, -1.0)), OneVsRest(3)])
def test_maps_of_classes_take_tensors_of_every_link(dispatch, link):
    rng = np.random.default_rng(0)
    scores, slopes, offsets = (rng.normal(size=(n, 3)) for n in (50, 2, 2))
    found = ClassMap(link, np.array([0.3, 0.7]), slopes, offsets, floor=1e-3)
    p = found.predict(torch.asarray(scores))
    assert isinstance(p, torch.Tensor)
    assert_allclose(p.numpy(), found.predict(scores), rtol=1e-12)


def test_curves_take_tensors_within_the_table_and_beyond(dispatch):
    scale = ScoreScale(center=0.5, norm=2.0, source="covariance")
    scores = np.array([-60.0, -3.0, 0.5, 4.0, 70.0])
    for curve in (CalibratedCurve(Logit(3.0), 0.6, scale), ConstantCurve(0.3)):
        p = curve.predict(torch.asarray(scores))
        assert isinstance(p, torch.Tensor)
        assert_allclose(p.numpy(), curve.predict(scores), rtol=0, atol=1e-12)


def test_without_dispatch_a_cpu_tensor_is_an_array(data):
    X, y = tensors(data)
    found = AngularCalibratedClassifier(MODEL).fit(X, y)
    assert isinstance(found.coef_, np.ndarray)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, 0], y), "must be a matrix"),
        (lambda X, y: (X.to(torch.int64), y), "make it float32"),
        (lambda X, y: (X.to(torch.float16), y), "make it float32"),
        (lambda X, y: (X.to(torch.bfloat16), y), "make it float32"),
        (lambda X, y: (X / 0, y), "NaN or infinity"),
        (lambda X, y: (X, y[:-1]), "give one each"),
        (lambda X, y: (X, torch.zeros_like(y)), "one class"),
    ],
)
def test_bad_tensors(data, dispatch, change, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(MODEL).fit(*change(*tensors(data)))


def test_what_a_device_cannot_do_is_said(data, dispatch):
    X, y = tensors(data)
    for model in (LogisticRegression(l1_ratio=0.5, solver="saga"), RidgeClassifier()):
        with pytest.raises(TypeError, match="cannot be fitted on a device"):
            AngularCalibratedClassifier(model).fit(X, y)
    found = AngularCalibratedClassifier(MODEL).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        found.predict_proba(X[:, :-1])


@pytest.mark.parametrize("C", [1.0, 0.01])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(300, 80), (150, 400)])
def test_newton_finds_scikit_learns_optimum(C, fit_intercept, shape):
    data = simulate(*shape, link=Logit(3.0, 1.0), random_state=1)
    X = data.X * np.sqrt(shape[1])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, shape[0])
    expected = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000)
    expected.fit(X, data.y, sample_weight=weights)
    rows = as_rows(X, fit_intercept)
    problem = NewtonCG(rows, data.y.astype(float), weights, np.array([1.0 / C]))
    cold = problem.solve(tol=0.0, gradient_tol=1e-9)
    unit = np.abs(expected.coef_).max()
    assert_allclose(cold.coef[:, 0], expected.coef_[0], atol=1e-5 * unit)
    assert_allclose(cold.intercepts[0], expected.intercept_[0], atol=1e-5)
    assert cold.gradient[0] <= 1e-9
    before = problem.passes
    warm = problem.continued(cold, tol=1e-4)
    assert warm.newton_steps == 0
    assert problem.passes - before == 2


def half_precision(monkeypatch):
    """Copies in half precision on the CPU too, where they are slow but the same numbers."""
    monkeypatch.setattr("angcal.rows.tensors.has_room_for_half", lambda X: True)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("level", [2000.0, 0.5])
def test_products_in_half_precision_keep_columns_far_from_zero(monkeypatch, intercept, level):
    half_precision(monkeypatch)
    rng = np.random.default_rng(0)
    # A year, whose spread bfloat16 could not hold, beside columns of very different sizes.
    X = rng.normal(size=(300, 40)) * np.logspace(-6, 6, 40)
    X[:, 3] = level + rng.normal(size=300)
    rows = as_rows(torch.asarray(X, dtype=torch.float32), intercept)
    rough = rows.single()
    assert rough.is_rough
    assert not rows.is_rough
    size = np.append(1.0 / X.std(axis=0), [1.0] * intercept)
    V = rows.place(rng.normal(size=(rows.width, 5)) * size[:, None])
    U = rows.place(rng.normal(size=(300, 5)))
    for exact, found, unit in (
        (rows.forward(V), rough.forward(V), 1.0),
        (rows.backward(U), rough.backward(U), size[:, None]),
    ):
        exact, found = exact.numpy() * unit, found.numpy() * unit
        # Each of up to 300 terms is off by 2⁻⁹ at most, in either factor, and the sum as well.
        assert np.all(np.abs(exact - found) < 2.0**-8 * (np.abs(exact) + 2.0 * np.sqrt(300)))
        assert np.sqrt(np.mean((exact - found) ** 2)) < 4e-3 * np.std(exact)
    before = rows.passes
    rough.curve(V, rows.place(np.ones((300, 1))))
    assert rows.passes - before == 2
    weights = rng.random(300)
    (moments, peaks), (found, largest) = (each.column_squares(weights) for each in (rows, rough))
    # Squares are rounded twice, and their sum once more.
    np.testing.assert_allclose(found, moments, rtol=2.0**-7)
    np.testing.assert_allclose(largest, peaks, rtol=2.0**-6)
    sizes = rows.row_sizes(moments + 1.0, peaks, weights)
    np.testing.assert_allclose(rough.row_sizes(moments + 1.0, peaks, weights), sizes, rtol=0.02)


def test_columns_of_single_rows_have_exact_squares_beside_half_precision(monkeypatch):
    """What is left of a column without its one row is a small difference of squares."""
    half_precision(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    X[:, 5], X[7, 5] = 0.0, 1.77
    rows = as_rows(torch.asarray(X, dtype=torch.float32), True)
    weights, found = rng.random(400), []
    for each in (rows, rows.single()):
        moments, peaks = each.column_squares(weights)
        found.append((moments, peaks, each.row_sizes(moments + 1e-4, peaks, weights)))
    (moments, peaks, sizes), (rough, largest, near) = found
    assert_allclose((rough[5], largest[5]), (moments[5], peaks[5]), rtol=1e-6)
    assert sizes[7] > 1e4
    assert_allclose(near, sizes, rtol=0.02)


def test_a_copy_in_half_precision_serves_fit_and_leverages_and_dies_with_its_rows(monkeypatch):
    half_precision(monkeypatch)
    rows = as_rows(torch.ones((30, 4), dtype=torch.float32), True)
    rough = rows.single()
    assert rows.single() is rough
    gone = weakref.ref(rough)
    del rows, rough
    assert gone() is None  # at once, without a collection of garbage


@pytest.mark.parametrize("level", [30.0, 0.0])
@pytest.mark.parametrize(("n", "d", "C"), [(900, 300, 1.0), (700, 1000, 0.01)])
def test_a_fit_with_steps_in_half_precision_is_the_same(monkeypatch, dispatch, n, d, C, level):
    sim = simulate(n, d, link=Logit(3.0, 1.0), random_state=0)
    X = torch.asarray(np.sqrt(d) * sim.X, dtype=torch.float32)
    X[:, 0] += level
    y, model = torch.asarray(sim.y), LogisticRegression(C=C, tol=1e-5)
    full = AngularCalibratedClassifier(model).fit(X, y)
    half_precision(monkeypatch)
    found = AngularCalibratedClassifier(model).fit(X, y)
    spread = full.observables_.scores.std()
    moved = found.observables_.scores - full.observables_.scores
    assert np.sqrt(np.mean(moved**2)) < 0.01 * spread
    error = found.observables_.loo_scores - full.observables_.loo_scores
    assert np.sqrt(np.mean(error**2)) < 0.03 * spread
    assert abs(found.angle_.cosine - full.angle_.cosine) < 0.2 * full.angle_.standard_error
    assert found.passes_ <= 1.3 * full.passes_


def test_columns_too_alike_for_half_precision_are_solved_in_full(monkeypatch):
    """What tells twin columns apart is below three digits."""
    half_precision(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    X = np.hstack([X, X + 1e-3 * rng.normal(size=X.shape)])
    y = (rng.random(500) < 1 / (1 + np.exp(-300.0 * (X[:, 0] - X[:, 20])))).astype(float)
    rows = as_rows(torch.asarray(X, dtype=torch.float32), True)
    problem = NewtonCG(rows, y, np.ones(500), np.array([1e-3]))
    found = problem.solve(tol=0.0, gradient_tol=1e-5)
    exact = NewtonCG(as_rows(X, True), y, np.ones(500), np.array([1e-3]))
    expected = exact.solve(tol=0.0, gradient_tol=1e-8)
    spread = float(np.std(expected.scores))
    assert np.sqrt(np.mean((on_host(found.scores) - expected.scores) ** 2)) < 0.02 * spread
    assert not problem._single.is_rough


def test_a_small_gradient_alone_does_not_end_a_fit(dispatch):
    """With more columns than rows a gradient of 1e-4 is small while scores still move."""
    sim = simulate(300, 900, link=Logit(3.0, 1.0), random_state=0)
    X = 3.0 * np.sqrt(900) * sim.X
    y = torch.asarray(sim.y)
    found = AngularCalibratedClassifier(LogisticRegression()).fit(torch.asarray(X), y)
    exact = AngularCalibratedClassifier(LogisticRegression(tol=1e-8, max_iter=5000)).fit(X, sim.y)
    expected = exact.observables_.scores
    moved = found.observables_.scores - expected
    assert np.sqrt(np.mean(moved**2)) < 0.02 * expected.std()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observables": "exact"}, "observables='exact' is not possible"),
        ({"pool": torch.ones((9, 3))}, "pool has 3 features"),
        ({"pool": torch.full((9, 500), torch.nan)}, "pool contains NaN"),
        ({"polish": True}, "polish=True is not possible"),
        ({"estimator": LogisticRegression(C=np.inf)}, "leaves no penalty"),
    ],
)
def test_options_that_a_device_cannot_follow_are_named(data, dispatch, options, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(**{"estimator": MODEL, **options}).fit(*tensors(data))


def test_weights_must_be_finite(data, dispatch):
    X, y = tensors(data)
    weights = np.ones(len(y))
    weights[0] = np.inf
    with pytest.raises(ValueError, match="finite and positive"):
        AngularCalibratedClassifier(MODEL).fit(X, y, sample_weight=weights)


def test_the_scale_of_weights_does_not_end_a_fit_early(data, dispatch):
    X, y = tensors(data)
    n = len(y)
    model = LogisticRegression(C=1.0 * n, tol=1e-6)
    small = AngularCalibratedClassifier(model).fit(X, y, sample_weight=np.full(n, 1.0 / n))
    host = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(X.numpy(), y.numpy())
    assert_allclose(small.coef_.numpy(), host.coef_, atol=2e-3 * np.abs(host.coef_).max())


def test_classes_come_back_as_tensors_names_as_arrays(data, dispatch):
    X, y = tensors(data)
    found = AngularCalibratedClassifier(MODEL).fit(X, y)
    classes = found.predict(X)
    assert isinstance(classes, torch.Tensor)
    assert classes.dtype == torch.int64
    likely = found.predict_proba(X)[:, 1] > 0.5
    assert torch.equal(classes, likely.to(torch.int64))
    assert torch.equal(found.decision_function(X) > 0, likely)
    names = AngularCalibratedClassifier(MODEL).fit(X, np.array(["no", "yes"])[data.y])
    assert set(names.predict(X)) == {"no", "yes"}


def test_a_pipeline_refuses_tensors(data, dispatch):
    X, _ = tensors(data)
    scaled = AngularCalibratedClassifier(make_pipeline(StandardScaler(), MODEL))
    scaled.fit(X.numpy(), data.y)
    with pytest.raises(TypeError, match="pass NumPy arrays"):
        scaled.predict_proba(X)


SMALL = simulate(300, 40, link=Logit(3.0, 0.5), random_state=5)
ROWS, POOL = np.sqrt(40) * SMALL.X, np.sqrt(40) * SMALL.pool(400)
THREE = np.digitize(ROWS[:, :5].sum(axis=1), [-1.5, 1.5])
CS = np.geomspace(1e-3, 10.0, 5)  # a grid of its own would be that of columns, not of directions
ONE = LogisticRegression(C=0.1, tol=1e-9, max_iter=1000)
BALANCED = clone(ONE).set_params(class_weight="balanced")


@pytest.mark.parametrize(
    ("model", "labels", "close"),
    [
        (AngularCalibratedClassifier(ONE, pool=POOL), SMALL.y, 5e-3),
        (AngularCalibratedClassifier(ONE, pool=POOL, link=Logit(3.0, 0.5)), SMALL.y, 5e-3),
        (AngularCalibratedClassifier(ONE, covariance=np.eye(40)), SMALL.y, 5e-3),
        (AngularCalibratedClassifier(ONE, pool=POOL), THREE, 5e-3),
        (AngularCalibratedClassifier(ONE, covariance=IdentityCovariance(40, 1.0)), SMALL.y, 5e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6), SMALL.y, 2e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6, pool=POOL), SMALL.y, 2e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6), THREE, 2e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6, average="penalties"), SMALL.y, 2e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6, average="folds"), THREE, 2e-3),
        (AngularLogisticRegressionCV(CS, tol=1e-6, class_weight="balanced"), SMALL.y, 2e-3),
        (
            AngularCalibratedClassifier(
                LogisticRegression(tol=1e-9, max_iter=1000, class_weight="balanced")
            ),
            THREE,
            5e-3,
        ),
        (ScoreCalibratedClassifier(ONE), SMALL.y, 5e-3),
        (AngularCalibratedClassifier(FrozenEstimator(ONE.fit(ROWS, SMALL.y))), SMALL.y, 5e-3),
    ],
)
def test_tensors_have_what_arrays_have(dispatch, model, labels, close):
    X = torch.asarray(ROWS)
    host, found = clone(model).fit(ROWS, labels), clone(model)
    given = {name: torch.asarray(value) for name, value in vars(found).items() if is_array(value)}
    found.set_params(**given).fit(X, torch.asarray(labels))
    p = found.predict_proba(X)
    assert isinstance(p, torch.Tensor)
    assert isinstance(found.coef_, torch.Tensor)
    # The leverages of single fits are sampled on a device.
    assert_allclose(p.numpy(), host.predict_proba(ROWS), atol=close)
    if hasattr(found, "predict_interval"):
        ends = found.predict_interval(X)
        assert isinstance(ends, torch.Tensor)
        assert_allclose(ends.numpy(), host.predict_interval(ROWS), atol=4 * close)


def test_balanced_classes_count_weighted_rows_as_scikit_learn_does(dispatch):
    """Rows of one class weigh four times as much: balanced by their number, weights differ."""
    weights = np.where(SMALL.y == 1, 4.0, 1.0)
    host = clone(BALANCED).fit(ROWS, SMALL.y, sample_weight=weights)
    found = AngularCalibratedClassifier(BALANCED)
    found.fit(torch.asarray(ROWS), torch.asarray(SMALL.y), sample_weight=torch.asarray(weights))
    assert_allclose(found.coef_.numpy(), host.coef_, atol=1e-5)
    assert_allclose(float(found.intercept_[0]), host.intercept_[0], atol=1e-5)


def is_array(value):
    return isinstance(value, np.ndarray)


def test_copies_of_rows_are_told_on_a_device_too(dispatch):
    X = torch.asarray(np.repeat(ROWS[:100], 3, axis=0))
    with pytest.warns(RepeatedRowsWarning, match="300 of 300 rows"):
        AngularCalibratedClassifier(LogisticRegression()).fit(X, np.repeat(SMALL.y[:100], 3))
