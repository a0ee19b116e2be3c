"""Calibrators of K classes against independent answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import chi2, dirichlet
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from angcal.baselines import (
    CALIBRATORS,
    SEVERAL_CALIBRATORS,
    BetaCalibration,
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRestCalibration,
    PairedScores,
    PlattScaling,
    SoftmaxTemperature,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
    calibrator_for,
)
from angcal.baselines.likelihood import MultinomialFamily
from angcal.metrics import multiclass_log_loss

every_calibrator = pytest.mark.parametrize("name", SEVERAL_CALIBRATORS)
# One-vs-rest and Dirichlet calibration read scores as logits, whose unit means something.
any_unit = pytest.mark.parametrize("name", ["temperature", "vector", "matrix", "structured"])


def made(name, **options):
    """A calibrator by name; Dirichlet's with a strength, so that it is not searched for."""
    if name == "dirichlet":
        options.setdefault("strength", 0.1)
    return SEVERAL_CALIBRATORS[name](**options)


def draw(logits, seed):
    P = softmax(logits, axis=1)
    level = np.random.default_rng(seed).random(len(P))
    return (P.cumsum(axis=1)[:, :-1] <= level[:, None]).sum(axis=1)


def sample(n=2000, K=4, seed=0, matrix=None, offsets=0.0):
    """Scores u and labels from softmax(A u + b); A = I and b = 0 unless given."""
    u = 1.5 * np.random.default_rng(seed).standard_normal((n, K)) + np.arange(K) / K
    z = u if matrix is None else u @ np.asarray(matrix).T + offsets
    return u, draw(z, seed + 1)


MIXED = np.array(
    [[0.8, 0.3, 0.0, -0.2], [0.0, 0.5, 0.1, 0.1], [0.2, 0.0, 1.4, 0.0], [0, 0, 0, 0.7]]
)


# --- The likelihood --------------------------------------------------------------------------


def family(seed=3, K=4, n=60):
    rng = np.random.default_rng(seed)
    free = rng.random((K, K)) < 0.6
    return MultinomialFamily(
        scores=rng.standard_normal((n, K)),
        target=rng.dirichlet(np.ones(K), size=n),
        weight=rng.exponential(size=n),
        free=free,
        ridge=rng.exponential(size=(K, K)) * free,
        offset_ridge=0.7,
        center=rng.standard_normal((K, K)) * free,
    ), rng.standard_normal(int(free.sum()) + K)


def differences(function, at, step=1e-3):
    """Fourth-order differences of a function along each coordinate, one row each."""
    rows = []
    for unit in step * np.eye(at.size):
        near = np.asarray(function(at + unit)) - function(at - unit)
        far = np.asarray(function(at + 2 * unit)) - function(at - 2 * unit)
        rows.append((8 * near - far) / (12 * step))
    return np.array(rows)


def test_gradient_and_hessian_are_those_of_the_value():
    problem, at = family()
    np.testing.assert_allclose(problem.gradient(at), differences(problem.value, at), atol=1e-10)
    product = [problem.hessian_product(at, unit) for unit in np.eye(at.size)]
    np.testing.assert_allclose(product, differences(problem.gradient, at), atol=1e-10)


def test_value_is_the_formula():
    problem, at = family()
    matrix, offsets = problem.unpack(at)
    assert not matrix[~problem.free].any()
    z = problem.scores @ matrix.T + offsets
    loss = logsumexp(z, axis=1) - (problem.target * z).sum(axis=1)
    away = matrix - problem.center
    penalty = 0.5 * (problem.ridge * away**2).sum() + 0.5 * 0.7 * (offsets**2).sum()
    expected = np.average(loss, weights=problem.weight) + penalty
    assert problem.value(at) == pytest.approx(expected, rel=1e-13)


def test_minimum_is_stationary():
    problem, _ = family()
    matrix, offsets = problem.minimize()
    found = np.concatenate([matrix[problem.free], offsets])
    assert np.abs(problem.gradient(found)).max() < 1e-8
    assert problem.value(found) < problem.value(found + 0.01)


# --- What all share --------------------------------------------------------------------


@every_calibrator
def test_fits_predicts_clones(name):
    u, y = sample(matrix=0.5 * np.eye(4))
    calibrator = made(name)
    with pytest.raises(NotFittedError):
        calibrator.predict(u)
    assert calibrator.fit(u, y) is calibrator
    P = calibrator.predict(200 * u)
    assert P.shape == u.shape
    assert np.all(P >= 0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    fitted = multiclass_log_loss(y, calibrator.predict(u))
    assert fitted < multiclass_log_loss(y, softmax(u, axis=1)) - 0.01
    copy = clone(calibrator)
    assert repr(copy) == repr(calibrator)
    with pytest.raises(NotFittedError):
        copy.predict(u)


@every_calibrator
def test_weights_are_repetitions(name):
    u, y = sample(n=150, matrix=MIXED)
    times = np.random.default_rng(1).integers(0, 4, size=y.size)
    weighted = made(name).fit(u, y, sample_weight=times)
    repeated = made(name).fit(np.repeat(u, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(u), repeated.predict(u), atol=1e-7)


@every_calibrator
def test_order_of_classes_does_not_matter(name):
    u, y = sample(n=300, matrix=MIXED)
    order = np.array([3, 1, 0, 2])
    plain = made(name).fit(u, y).predict(u)
    moved = made(name).fit(u[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(moved.predict(u[:, order]), plain[:, order], atol=1e-7)


@every_calibrator
def test_labels_may_have_names(name):
    u, y = sample(n=300)
    names = np.array(["rose", "lily", "iris", "aster"])
    plain = made(name).fit(u, y).predict(u)
    named = made(name, classes=names).fit(u, names[y]).predict(u)
    np.testing.assert_array_equal(named, plain)


@any_unit
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_unit_of_the_scores_does_not_matter(name, unit):
    u, y = sample(n=300)
    plain = made(name).fit(u, y).predict(u)
    scaled = made(name).fit(unit * u, y).predict(unit * u)
    np.testing.assert_allclose(scaled, plain, atol=1e-7)


# --- Temperature -----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_true_temperature_is_found(temperature, seed):
    u, y = sample(n=4000, seed=10 * seed)
    P = softmax(u, axis=1)
    # 1/T has Fisher information Σ_i Var(u_k), k drawn from P_i, at T = 1.
    information = np.sum(P * u**2, axis=1) - np.sum(P * u, axis=1) ** 2
    standard_error = 1 / np.sqrt(information.sum())
    fitted = SoftmaxTemperature().fit(temperature * u, y).temperature_
    assert abs(temperature / fitted - 1.0) < 3 * standard_error
    assert standard_error < 0.03


def test_temperature_ignores_a_shift_of_each_row():
    u, y = sample(n=300)
    shift = np.random.default_rng(0).normal(size=(300, 1))
    plain, shifted = SoftmaxTemperature().fit(u, y), SoftmaxTemperature().fit(u + 9 * shift, y)
    assert shifted.temperature_ == pytest.approx(plain.temperature_, rel=1e-10)


def test_temperature_of_two_classes_is_the_binary_one():
    u, y = sample(n=500, K=2, matrix=0.6 * np.eye(2))
    several = SoftmaxTemperature().fit(u, y)
    binary = TemperatureScaling().fit(u[:, 1] - u[:, 0], y)
    assert several.temperature_ == pytest.approx(binary.temperature_, rel=1e-10)
    p = binary.predict(u[:, 1] - u[:, 0])
    np.testing.assert_allclose(several.predict(u)[:, 1], p, rtol=1e-9)


def test_separated_temperature_is_that_of_platts_targets():
    u = np.array([[0.0, -2.0], [0.0, -1.0], [0.0, 1.0], [0.0, 3.0]])
    y = [0, 0, 1, 1]
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        several = SoftmaxTemperature().fit(u, y)
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        binary = TemperatureScaling().fit(u[:, 1], y)
    assert several.temperature_ == pytest.approx(binary.temperature_, rel=1e-10)


@pytest.mark.parametrize("u", [np.zeros((4, 3)), -np.eye(3)[[0, 1, 2, 0]]])
def test_useless_scores_give_equal_probabilities(u):
    with pytest.warns(ConvergenceWarning, match="better than chance"):
        calibrator = SoftmaxTemperature().fit(u, [0, 1, 2, 0])
    np.testing.assert_allclose(calibrator.predict(u), 1 / 3, atol=1e-5)


# --- Vector and matrix -----------------------------------------------------------------------


def test_vector_scaling_solves_its_score_equations():
    u, y = sample(matrix=MIXED)
    w = np.random.default_rng(1).exponential(size=y.size)
    calibrator = VectorScaling().fit(u, y, sample_weight=w)
    residual = w[:, None] * (calibrator.predict(u) - np.eye(4)[y]) / w.sum()
    np.testing.assert_allclose(residual.sum(axis=0), 0.0, atol=1e-7)
    np.testing.assert_allclose((residual * u).sum(axis=0), 0.0, atol=1e-7)
    assert calibrator.offsets_.sum() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(
        calibrator.predict(u), softmax(calibrator.slopes_ * u + calibrator.offsets_, axis=1)
    )


def test_matrix_scaling_is_multinomial_regression():
    u, y = sample(n=600, matrix=MIXED, offsets=np.array([0.5, 0.0, -0.3, 0.1]))
    calibrator = MatrixScaling().fit(u, y)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(u, y)
    np.testing.assert_allclose(calibrator.predict(u), regression.predict_proba(u), atol=1e-6)
    np.testing.assert_allclose(calibrator.matrix_.sum(axis=0), 0.0, atol=1e-9)
    assert calibrator.offsets_.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["vector", "matrix"])
def test_two_classes_are_platts(name):
    u, y = sample(n=500, K=2, matrix=0.6 * np.eye(2))
    score = u[:, 1]
    several = SEVERAL_CALIBRATORS[name]().fit(np.column_stack([0 * score, score]), y)
    binary = PlattScaling().fit(score, y)
    grid = np.linspace(-4, 4, 9)
    p = several.predict(np.column_stack([0 * grid, grid]))[:, 1]
    np.testing.assert_allclose(p, binary.predict(grid), atol=1e-7)


@pytest.mark.parametrize(
    ("name", "matrix", "freedom"),
    [("vector", np.diag([0.5, 1.0, 2.0, 0.8]), 4 + 3), ("matrix", MIXED, 12 + 3)],
)
@pytest.mark.parametrize("seed", range(3))
def test_truth_is_as_likely_as_wilks_says(name, matrix, freedom, seed):
    offsets = np.array([0.4, -0.4, 0.2, 0.0])
    u, y = sample(n=3000, seed=10 * seed, matrix=matrix, offsets=offsets)
    rows = np.arange(y.size)
    truth = log_softmax(u @ matrix.T + offsets, axis=1)[rows, y].sum()
    fitted = np.log(SEVERAL_CALIBRATORS[name]().fit(u, y).predict(u))[rows, y].sum()
    # Twice the gain over the truth is a chi-square with as many degrees as free parameters.
    assert 0 < 2 * (fitted - truth) < chi2(freedom).ppf(0.999)


def test_ridge_leads_from_matrix_to_vector():
    u, y = sample(n=400, matrix=MIXED)
    vector = VectorScaling().fit(u, y)
    stiff = MatrixScaling(ridge=1e6).fit(u, y)
    np.testing.assert_allclose(stiff.predict(u), vector.predict(u), atol=1e-5)
    np.testing.assert_allclose(np.diag(stiff.matrix_), vector.slopes_, atol=1e-4)
    off = ~np.eye(4, dtype=bool)
    sizes = [np.abs(MatrixScaling(ridge=r).fit(u, y).matrix_[off]).max() for r in (1e-3, 0.1, 10)]
    assert sizes[0] > sizes[1] > sizes[2] > 0


def test_ridge_fit_solves_its_own_equations():
    u, y = sample(n=400, matrix=MIXED)
    calibrator = MatrixScaling(ridge=0.3).fit(u, y)
    residual = (calibrator.predict(u) - np.eye(4)[y]) / y.size
    penalty = 0.3 * calibrator.matrix_ * (1 - np.eye(4))
    np.testing.assert_allclose(residual.T @ u + penalty, 0.0, atol=1e-6)
    np.testing.assert_allclose(residual.sum(axis=0), 0.0, atol=1e-7)


# --- Structured matrix scaling ----------------------------------------------------------------


def test_structured_scaling_solves_its_own_equations():
    u, y = sample(n=300, matrix=MIXED)
    w = np.random.default_rng(1).integers(1, 4, size=y.size).astype(float)
    fitted = StructuredMatrixScaling(2.0, 3.0, 0.5).fit(u, y, sample_weight=w)
    logs = log_softmax(u / SoftmaxTemperature().fit(u, y, w).temperature_, axis=1)
    residual = w[:, None] * (fitted.predict(u) - np.eye(4)[y]) / w.sum()
    unit = 2 * 4 / w.sum()
    away = fitted.matrix_ - np.eye(4)
    slope = residual.T @ logs + unit * np.where(np.eye(4) == 1, 3.0, 3 * 0.5) * away
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)
    np.testing.assert_allclose(residual.sum(axis=0) + unit * 2.0 * fitted.offsets_, 0.0, atol=1e-7)
    assert np.abs(away).min() > 1e-4


def test_structured_scaling_lies_between_temperature_and_matrix():
    u, y = sample(n=400, matrix=MIXED)
    stiff = StructuredMatrixScaling(1e9, 1e9, 1e9).fit(u, y)
    temperature = SoftmaxTemperature().fit(u, y)
    np.testing.assert_allclose(stiff.predict(u), temperature.predict(u), atol=1e-6)
    loose = StructuredMatrixScaling(0.0, 0.0, 0.0).fit(u, y)
    logs = log_softmax(u / temperature.temperature_, axis=1)
    matrix = MatrixScaling().fit(logs, y)
    np.testing.assert_allclose(loose.predict(u), matrix.predict(logs), atol=1e-5)
    vector = StructuredMatrixScaling(off_diagonal=np.inf).fit(u, y)
    assert np.count_nonzero(vector.matrix_) == 4
    nearly = StructuredMatrixScaling(off_diagonal=1e9).fit(u, y)
    np.testing.assert_allclose(vector.predict(u), nearly.predict(u), atol=1e-6)


def test_structured_scaling_overfits_less_than_a_matrix_and_bends_more_than_a_temperature():
    u, y = sample(n=30_000, K=6, matrix=np.diag([0.3, 0.5, 1.0, 1.0, 1.5, 2.0]))

    def loss(calibrator, n):
        return multiclass_log_loss(y[n:], calibrator.fit(u[:n], y[:n]).predict(u[n:]))

    assert loss(StructuredMatrixScaling(), 150) < loss(MatrixScaling(), 150) - 0.05
    assert loss(StructuredMatrixScaling(), 5000) < loss(SoftmaxTemperature(), 5000) - 0.02


# --- Dirichlet calibration --------------------------------------------------------------------


def test_dirichlet_solves_its_own_equations():
    u, y = sample(n=300, matrix=MIXED)
    fitted = DirichletCalibration(strength=0.3, intercept_strength=2.0).fit(u, y)
    logs = log_softmax(u, axis=1)
    residual = (fitted.predict(u) - np.eye(4)[y]) / y.size
    off = 1 - np.eye(4)
    slope = residual.T @ logs + 2 * 0.3 / 12 * off * fitted.matrix_
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)
    np.testing.assert_allclose(residual.sum(axis=0) + 2 * 2.0 / 4 * fitted.offsets_, 0.0, atol=1e-7)


def test_dirichlet_without_penalty_is_multinomial_regression_on_log_probabilities():
    u, y = sample(n=600, matrix=MIXED)
    logs = log_softmax(u, axis=1)
    fitted = DirichletCalibration(strength=0.0).fit(u, y)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(logs, y)
    np.testing.assert_allclose(fitted.predict(u), regression.predict_proba(logs), atol=1e-5)


def test_dirichlet_of_two_classes_is_beta_calibration():
    u, y = sample(n=800, K=2, matrix=0.7 * np.eye(2))
    score = u[:, 1] - u[:, 0]
    beta = BetaCalibration().fit(score, y)
    assert beta.a_ > 0
    assert beta.b_ > 0
    pair = PairedScores(DirichletCalibration(strength=0.0)).fit(score, y)
    grid = np.linspace(-5, 5, 21)
    np.testing.assert_allclose(pair.predict(grid), beta.predict(grid), atol=1e-4)


def test_dirichlet_finds_the_posterior_of_dirichlet_classes():
    # p given class k is Dirichlet(α_k): the log-density is (α_k − 1)ᵀ log p, up to its constant.
    rng = np.random.default_rng(5)
    alpha = np.array([[3.0, 1.0, 1.0], [0.8, 2.0, 1.5], [1.0, 0.7, 4.0]])
    y = rng.integers(0, 3, size=30_000)
    p = np.array([rng.dirichlet(alpha[k]) for k in y])
    constants = np.array([dirichlet(a).logpdf([1 / 3] * 3) for a in alpha])
    constants -= (alpha - 1) @ np.log(np.full(3, 1 / 3))
    expected = softmax(np.log(p) @ (alpha - 1).T + constants, axis=1)
    fitted = DirichletCalibration(strength=1e-6).fit(np.log(p), y).predict(np.log(p))
    assert np.sqrt(np.mean((fitted - expected) ** 2)) < 0.01


def test_dirichlet_chooses_its_strength():
    rng = np.random.default_rng(6)
    mixed = np.eye(3) + 0.6 * rng.standard_normal((3, 3))
    weak = DirichletCalibration().fit(*sample(n=3000, K=3, matrix=mixed)).strength_
    strong = [DirichletCalibration().fit(*sample(n=100, K=3, seed=10 * k)) for k in range(5)]
    assert weak <= 0.1
    assert np.median([fitted.strength_ for fitted in strong]) >= 1.0


# --- One against the rest ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["isotonic", "sigmoid"])
def test_one_vs_rest_is_scikit_learns(name):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 4, size=300)
    X[np.arange(300), y] += 1.5
    head = RidgeClassifier().fit(X[:100], y[:100])
    theirs = CalibratedClassifierCV(FrozenEstimator(head), method=name).fit(X[100:], y[100:])
    inner = IsotonicCalibration() if name == "isotonic" else PlattScaling(smoothed_targets=True)
    ours = OneVsRestCalibration(inner, log_odds=False)
    ours.fit(head.decision_function(X[100:]), y[100:])
    P = ours.predict(head.decision_function(X))
    np.testing.assert_allclose(
        P, theirs.predict_proba(X), atol=1e-12 if name == "isotonic" else 1e-4
    )


def test_one_vs_rest_of_log_odds_keeps_a_softmax():
    u, y = sample(n=20_000)
    P = OneVsRestCalibration(PlattScaling()).fit(u, y).predict(u)
    np.testing.assert_allclose(P, softmax(u, axis=1), atol=0.03)
    shifted = OneVsRestCalibration(PlattScaling()).fit(u + 5.0, y).predict(u + 5.0)
    np.testing.assert_allclose(shifted, P, atol=1e-9)


def test_rows_without_any_probability_are_uniform():
    u = 10.0 * np.eye(3)[[0, 0, 1, 1, 2, 2]]
    y = [0, 0, 1, 1, 2, 2]
    fitted = OneVsRestCalibration(IsotonicCalibration(), log_odds=False).fit(u, y)
    np.testing.assert_allclose(fitted.predict([[-1.0, -1.0, -1.0]]), 1 / 3)
    np.testing.assert_allclose(fitted.predict([[10.0, 0.0, 0.0]]), [[1.0, 0.0, 0.0]])


def test_one_vs_rest_names_the_class():
    u, y = sample(n=100, K=3)
    u[:, 2] = np.where(y == 2, 20.0, -20.0)
    names = np.array(["rose", "lily", "iris"])
    with pytest.warns(ConvergenceWarning) as caught:
        OneVsRestCalibration(PlattScaling(), classes=names).fit(u, names[y])
    (message,) = (str(warning.message) for warning in caught)
    assert message.startswith("class iris against the rest: the scores separate the labels")
    with pytest.raises(TypeError, match="must be a calibrator of two classes"):
        OneVsRestCalibration(VectorScaling()).fit(u, y)


# --- By name ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEVERAL_CALIBRATORS)
def test_every_name_serves_two_classes_and_more(method):
    u, y = sample(n=200, K=2)
    score = u[:, 1] - u[:, 0]
    two = calibrator_for(method, 2).fit(score, y).predict(score)
    assert two.shape == (200,)
    if method in CALIBRATORS:
        np.testing.assert_array_equal(two, CALIBRATORS[method]().fit(score, y).predict(score))
    u, y = sample(n=200, K=3)
    several = calibrator_for(method, 3)
    assert repr(several) == repr(SEVERAL_CALIBRATORS[method]())
    np.testing.assert_allclose(several.fit(u, y).predict(u).sum(axis=1), 1.0)


def test_objects_are_made_to_fit():
    assert isinstance(calibrator_for(PlattScaling(), 2), PlattScaling)
    assert isinstance(calibrator_for(HistogramBinning(7), 3).calibrator, HistogramBinning)
    assert calibrator_for(HistogramBinning(7), 3, log_odds=False).log_odds is False
    assert isinstance(calibrator_for(MatrixScaling(0.2), 3), MatrixScaling)
    assert calibrator_for(MatrixScaling(0.2), 2).calibrator.ridge == 0.2
    with pytest.raises(ValueError, match="method='plat' is unknown; use one of"):
        calibrator_for("plat", 3)
    with pytest.raises(TypeError, match="method=3 has no fit and predict"):
        calibrator_for(3, 2)


# --- Fits without a finite answer ------------------------------------------------------------


@pytest.mark.parametrize("name", ["vector", "matrix"])
def test_separated_scores_are_smoothed(name):
    u = 5.0 * np.eye(3)[[0, 1, 2] * 20] + 0.1 * np.random.default_rng(0).normal(size=(60, 3))
    y = np.array([0, 1, 2] * 20)
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        calibrator = SEVERAL_CALIBRATORS[name]().fit(u, y)
    P = calibrator.predict(u)
    # Twenty rows of a class ask for 21/23, not for certainty.
    np.testing.assert_allclose(P[np.arange(60), y].mean(), 21 / 23, atol=0.01)


def test_a_ridge_is_enough_unless_the_diagonal_separates():
    rng = np.random.default_rng(1)
    y = np.arange(90) % 3
    # The columns are those of the wrong classes: a rotation separates, a diagonal does not.
    hidden = 3.0 * np.eye(3)[y] + 0.1 * rng.normal(size=(90, 3))
    mixing = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    u = hidden @ mixing + 3.0 * rng.normal(size=(90, 1))
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        MatrixScaling().fit(u, y)
    held = MatrixScaling(ridge=0.01).fit(u, y)
    assert np.abs(held.matrix_).max() < 100
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        MatrixScaling(ridge=0.01).fit(hidden, y)


@pytest.mark.parametrize("name", ["vector", "matrix"])
def test_a_class_without_labels_keeps_a_probability(name):
    u, y = sample(n=300, K=3)
    kept = y != 1
    with pytest.warns(ConvergenceWarning, match="class 1 has no label"):
        calibrator = SEVERAL_CALIBRATORS[name]().fit(u[kept], y[kept])
    P = calibrator.predict(u)
    assert np.all(P[:, 1] > 0)
    assert 1e-4 < P[kept, 1].mean() < 0.02


def test_temperature_needs_no_label_of_every_class():
    u, y = sample(n=300, K=3)
    fitted = SoftmaxTemperature().fit(u[y != 1], y[y != 1])
    assert 0.1 < fitted.temperature_ < 10


@every_calibrator
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", ["absent", "alone", "equal rows", "equal columns", "huge", "far"])
def test_no_case_gives_nan(name, case):
    u, y = sample(n=60, K=3)
    if case == "absent":
        u, y = u[y != 1], y[y != 1]
    elif case == "alone":
        u, y = u[y == 1], y[y == 1]
    elif case == "equal rows":
        u = np.tile([3.0, 1.0, -2.0], (60, 1))
    elif case == "equal columns":
        u = np.tile(u[:, :1], 3)
    elif case == "huge":
        u = 1e7 * u
    elif case == "far":
        u = u + 1e9
    P = made(name).fit(u, y).predict(np.vstack([u, 100 * u]))
    assert np.all(np.isfinite(P))
    assert np.all(P >= 0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    if case == "equal rows":
        # No score tells rows apart: the mean probability is the share of each class.
        tolerance = 0.35 if name in ("temperature", "structured") else 0.02
        np.testing.assert_allclose(P[0], np.bincount(y) / 60, atol=tolerance)


@pytest.mark.parametrize("name", ["platt", "isotonic", "histogram", "beta", "dirichlet"])
def test_an_absent_class_is_named(name):
    u, y = sample(n=300, K=3)
    with pytest.warns(ConvergenceWarning, match="class 1 has no label"):
        made(name).fit(u[y != 1], y[y != 1])


# --- Bad input -------------------------------------------------------------------------------


@every_calibrator
@pytest.mark.parametrize(
    ("u", "y", "options", "message"),
    [
        (np.ones(3), [0, 1, 0], {}, r"logits has shape \(3,\)"),
        ([[1.0, np.inf], [0.0, 1.0]], [0, 1], {}, "logits holds inf at row 0, column 1"),
        (np.eye(2), [0, 2], {}, "y holds the label 2 at position 1"),
        (np.eye(2), [0, 1, 1], {}, "logits has 2 rows but y has 3"),
        (np.eye(2), [0, 1], {"sample_weight": [0, 0]}, "sample_weight is all zero"),
    ],
)
def test_bad_input_is_named(name, u, y, options, message):
    with pytest.raises(ValueError, match=message):
        made(name).fit(u, y, **options)


@every_calibrator
def test_another_number_of_columns_is_refused(name):
    calibrator = made(name).fit(*sample(n=200))
    with pytest.raises(ValueError, match="logits has 3 columns but the fit had 4"):
        calibrator.predict(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (StructuredMatrixScaling(intercept=-1), "intercept=-1 must be finite and >= 0"),
        (StructuredMatrixScaling(diagonal=np.inf), "diagonal=inf must be finite and >= 0"),
        (StructuredMatrixScaling(off_diagonal=-2.0), "off_diagonal=-2.0 must be >= 0"),
        (DirichletCalibration(strength=-1), "strength=-1 must be finite and >= 0"),
        (DirichletCalibration(1.0, np.nan), "intercept_strength=nan must be finite and >= 0"),
    ],
)
def test_bad_strengths_are_named(calibrator, message):
    with pytest.raises(ValueError, match=message):
        calibrator.fit(*sample(n=50))


def test_bad_ridge_is_named():
    with pytest.raises(ValueError, match="ridge=-1 must be finite and >= 0"):
        MatrixScaling(ridge=-1).fit(*sample(n=50))
