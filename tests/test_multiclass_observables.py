"""One score for each class: leave-one-out against refits and the binary path, sampled leverages."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from angcal import SeparableDataError
from angcal.baselines import SoftmaxTemperature
from angcal.leverages import factorize
from angcal.links import Logit
from angcal.links.multiclass import contrasts, index_map
from angcal.losses import Multinomial, curvature_of
from angcal.multiclass import read_class_scores
from angcal.observables import honest_scores, observe
from angcal.penalties import Ridge
from angcal.simulation import AutoregressiveCovariance, simulate, simulate_multiclass
from angcal.sklearn_problems import read_fits, read_fitted


def _tight(C, **options):
    return LogisticRegression(C=C, **{"tol": 1e-10, "max_iter": 20_000, **options})


def _fit(n, d, K, C, seed=0, weights=None, **options):
    # Columns of unit variance.
    covariance = AutoregressiveCovariance(d, 0.5, variance=1.0)
    data = simulate_multiclass(n, n_indices=K, signal=2.0, covariance=covariance, random_state=seed)
    model = _tight(C, **options).fit(data.X, data.y, sample_weight=weights)
    return data, model


def _multinomial(data, model, weights=None, method="exact"):
    weights = np.ones(len(data.y)) if weights is None else weights
    return replace(read_fitted(model, data.X, data.y, weights), hessian_method=method)


def _steps(fit):
    return observe(fit).loo_steps


def _seen(scores):
    """What a softmax sees of them."""
    return scores - scores.mean(axis=-1, keepdims=True)


def test_contrasts_are_orthonormal_and_blind_to_a_constant():
    A = contrasts(5)
    np.testing.assert_allclose(A.T @ A, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(index_map(contrasts(2)) @ contrasts(2), [[1.0]])


@pytest.mark.parametrize("K", [3, 6])
@pytest.mark.parametrize(("n", "d"), [(100, 25), (60, 90)])
@pytest.mark.parametrize(
    ("intercept", "weighted"), [(True, False), (False, False), (True, True)], ids=str
)
@pytest.mark.parametrize("C", [0.01, 0.05])
def test_leave_one_out_scores_against_n_refits(K, n, d, intercept, weighted, C):
    """What remains is a small share of what leaving the row out does: 4.1 % at most, 2.1 % mean."""
    weights = np.random.default_rng(5).uniform(0.5, 2.0, n) if weighted else np.ones(n)
    options = {"fit_intercept": intercept, "tol": 1e-8, "warm_start": True}
    data, model = _fit(n, d, K, C, weights=weights, **options)
    found = observe(_multinomial(data, model, weights))
    start = model.coef_.copy(), model.intercept_.copy()
    exact = np.empty((n, K))
    for i in range(n):
        kept = np.arange(n) != i
        model.coef_, model.intercept_ = start[0].copy(), start[1].copy()
        model.fit(data.X[kept], data.y[kept], weights[kept])
        exact[i] = model.decision_function(data.X[i : i + 1])[0]
    off = np.linalg.norm(_seen(found.loo_scores) - _seen(exact), axis=1)
    moved = np.linalg.norm(_seen(found.scores) - _seen(exact), axis=1)
    assert np.mean(off) < 0.05 * np.mean(moved)


def _scaled_loss(scores, y):
    """Log-loss at the best temperature."""
    slope = 1.0 / SoftmaxTemperature().fit(scores, y).temperature_
    return log_loss(y, softmax(slope * scores, axis=1))


@pytest.mark.parametrize(("n", "d", "K"), [(120, 30, 3), (160, 20, 8)])
def test_weak_penalties_on_separable_rows(n, d, K, monkeypatch):
    """Steps settle only after several rounds; then the loss of refits is met within 5 %."""
    C = 10.0
    data, model = _fit(n, d, K, C, tol=1e-6, warm_start=True)
    fit = _multinomial(data, model)
    start = model.coef_.copy(), model.intercept_.copy()
    rows = np.arange(0, n, 2)
    exact = np.empty((len(rows), K))
    for place, i in enumerate(rows):
        kept = np.arange(n) != i
        model.coef_, model.intercept_ = start[0].copy(), start[1].copy()
        model.fit(data.X[kept], data.y[kept])
        exact[place] = model.decision_function(data.X[i : i + 1])[0]
    expected = _scaled_loss(_seen(exact), data.y[rows])
    found = _scaled_loss(_seen(observe(fit).loo_scores[rows]), data.y[rows])
    assert found == pytest.approx(expected, rel=0.05)
    monkeypatch.setattr("angcal.plan.MOST_ROUNDS", 1)
    once = _scaled_loss(_seen(observe(replace(fit)).loo_scores[rows]), data.y[rows])
    assert once < 0.99 * found


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "d"), [(200, 60), (60, 90)])
def test_two_classes_equal_the_binary_path(n, d, intercept):
    data = simulate(n, d, link=Logit(3.0), random_state=3)
    weights = np.random.default_rng(6).uniform(0.5, 2.0, n)
    model = _tight(0.3, fit_intercept=intercept).fit(data.X, data.y, weights)
    fit = read_fitted(model, data.X, data.y.astype(float), weights)
    b = fit.intercept
    joint = replace(
        fit,
        coef=0.5 * np.stack([-fit.coef, fit.coef]),
        intercept=np.array([-0.5 * b, 0.5 * b]),
        loss=Multinomial(2),
        penalty=Ridge(2.0 * fit.penalty.strength),
    )
    assert joint.objective == pytest.approx(fit.objective, rel=1e-12)
    one, two = observe(fit), observe(joint)
    for name in ("scores", "loo_scores", "calibration_scores", "linear_scores"):
        difference = np.diff(getattr(two, name), axis=1)[:, 0]
        np.testing.assert_allclose(difference, getattr(one, name), atol=1e-10, err_msg=name)
    difference = np.diff(honest_scores(joint, two), axis=1)[:, 0]
    np.testing.assert_allclose(difference, honest_scores(fit, one), atol=1e-10)
    np.testing.assert_allclose(two.leverage_shares, one.leverage_shares, atol=1e-10)
    assert two.degrees_of_freedom == pytest.approx(one.degrees_of_freedom, rel=1e-10)


def _rows_of(K, n=40):
    """(probabilities, weights, steps) of some rows."""
    rng = np.random.default_rng(7)
    p = softmax(1.5 * rng.normal(size=(n, K)), axis=1)
    return p, rng.uniform(0.5, 2.0, n), rng.uniform(0.1, 3.0, (n, K))


def _effective(K, p, weights, steps):
    return curvature_of(Multinomial(K).held_back(p, weights, steps), steps)


def test_two_classes_keep_their_curvatures():
    p, weights, steps = _rows_of(2)
    own = weights[:, None] * Multinomial(2).hessian(np.log(p), np.zeros(40))
    # Both classes have the leverage of their difference.
    found = _effective(2, p, weights, steps[:, :1])
    np.testing.assert_allclose(found, own, rtol=1e-12)


@pytest.mark.parametrize("K", [3, 7])
def test_effective_curvatures_do_not_know_the_order_of_the_classes(K):
    p, weights, steps = _rows_of(K)
    order = np.random.default_rng(9).permutation(K)
    found = _effective(K, p, weights, steps)
    permuted = _effective(K, p[:, order], weights, steps[:, order])
    np.testing.assert_allclose(permuted, found[:, order], rtol=1e-12)
    assert np.all(found > 0)


@pytest.mark.parametrize("K", [3, 7])
def test_equally_likely_classes_have_their_own_curvatures(K):
    p, weights = np.full((3, K), 1.0 / K), np.array([0.5, 1.0, 2.0])
    own = weights[:, None] * Multinomial(K).hessian(np.zeros((3, K)), np.zeros(3))
    np.testing.assert_allclose(own, weights[:, None] * p)
    # D is a multiple of the identity there, and stays so under steps of any one length.
    for step in (0.0, 1e-6, 1.0, 50.0):
        found = _effective(K, p, weights, np.full((3, K), step))
        np.testing.assert_allclose(found, own, rtol=1e-12)
    # Steps of many lengths matter as far as they are long.
    steps = np.random.default_rng(8).uniform(0.0, 1.0, (3, K))
    for size in (1e-2, 1e-4):
        np.testing.assert_allclose(_effective(K, p, weights, size * steps), own, rtol=2.0 * size)


@pytest.mark.parametrize("K", [3, 5])
def test_rows_hold_a_class_back_as_they_do_in_the_joint_fit(K):
    """E = K/(K − 1)·[D(I + ΓD)⁻¹]_kk and w with w/(1 + γw) = E, by the matrices themselves."""
    p, weights, steps = _rows_of(K)
    held = Multinomial(K).held_back(p, weights, steps)
    effective = curvature_of(held, steps)
    # But for rows that decide their own fit, which keep a thousandth.
    free = steps * held < 1.0 - 1e-3
    np.testing.assert_allclose((effective / (1.0 + steps * effective))[free], held[free])
    assert free.mean() > 0.9
    for row, own, weight, step in zip(held, p, weights, steps, strict=True):
        D = weight * (np.diag(own) - np.outer(own, own))
        E = D @ np.linalg.inv(np.eye(K) + np.diag(step) @ D)
        np.testing.assert_allclose(row, K / (K - 1) * np.diag(E), rtol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(100, 25), (60, 90)])
def test_steps_that_all_classes_share_are_about_those_of_each(n, d, monkeypatch):
    data, model = _fit(n, d, 6, 0.03)
    fit = _multinomial(data, model)
    own = observe(fit)
    monkeypatch.setattr("angcal.plan.QUICK_PRODUCTS", 0)
    shared = observe(replace(fit))
    ratio = shared.loo_steps / shared.loo_steps[:, :1]
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-9)
    off = np.linalg.norm(_seen(shared.loo_scores) - _seen(own.loo_scores), axis=1)
    moved = np.linalg.norm(_seen(own.scores) - _seen(own.loo_scores), axis=1)
    assert np.mean(off) < 0.1 * np.mean(moved)


@pytest.mark.parametrize(("n", "d", "K"), [(150, 20, 3), (150, 60, 5), (60, 90, 4)])
def test_degrees_of_freedom_are_about_those_of_the_joint_fit(n, d, K):
    """Σ_i Tr(G_iD_i) with the whole Hessian of K·(d + 1) weights, scores that sum to zero."""
    C = 0.5
    data, model = _fit(n, d, K, C)
    fit = _multinomial(data, model)
    A, Z = contrasts(K), np.column_stack([data.X, np.ones(n)])
    p = softmax(fit.scores, axis=1)
    D = np.einsum("ka,nk,kb->nab", A, p, A) - np.einsum("na,nb->nab", p @ A, p @ A)
    q = K - 1
    H = np.einsum("nab,ni,nj->aibj", D, Z, Z).reshape(q * (d + 1), -1)
    H += np.kron(np.eye(q), np.diag([*np.full(d, 1 / C), 0.0]))
    inverse = np.linalg.inv(H).reshape(q, d + 1, q, d + 1)
    exact = np.einsum("ni,aibj,nj,nba->", Z, inverse, Z, D)
    assert observe(fit).degrees_of_freedom == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(("method", "slack"), [("exact", 1e-9), ("auto", 2e-3)])
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "one by one"])
def test_classes_at_once_have_the_leverages_of_single_problems(method, slack, batch, monkeypatch):
    data, model = _fit(300, 120, 5, 0.05)
    fit = _multinomial(data, model, method=method)
    if not batch:
        monkeypatch.setattr("angcal.plan.BATCH_PRODUCTS", 0)
    found = fit.leverages(fit.curvatures).values
    assert found.shape == (300, 5)
    for k in range(5):
        D = np.ascontiguousarray(fit.curvatures[:, k])
        alone = factorize(data.X, D, 1.0 / 0.05, fit_intercept=True).leverages()
        np.testing.assert_allclose(found[:, k], alone, rtol=slack)


def test_sparse_rows_equal_dense_ones():
    data, model = _fit(90, 130, 3, 0.2)
    dense = _multinomial(data, model)
    thin = replace(dense, X=sparse.csr_matrix(data.X))
    np.testing.assert_allclose(observe(thin).loo_scores, observe(dense).loo_scores, atol=1e-9)


@pytest.mark.parametrize(("n", "d", "K"), [(400, 300, 3), (300, 400, 4), (400, 300, 6)])
def test_sampled_leverages_agree_with_exact_ones(n, d, K):
    data, model = _fit(n, d, K, 0.05)
    fit = _multinomial(data, model)
    exact, sampled = observe(fit), observe(replace(fit, hessian_method="randomised"))
    assert sampled.side == "randomised"
    # Row by row they scatter, on average they agree as far as they say.
    assert np.mean(np.abs(sampled.loo_steps / exact.loo_steps - 1.0)) < 0.1
    ratio = sampled.loo_steps.mean(axis=0) / exact.loo_steps.mean(axis=0)
    assert np.abs(ratio - 1.0).max() < 3.0 * sampled.step_error


def test_optimum_and_away_from_it():
    data, model = _fit(200, 50, 3, 0.5)
    at = _multinomial(data, model)
    assert at.distance_to_optimum < 1e-5
    model.coef_ = 1.3 * model.coef_
    away = _multinomial(data, model)
    assert away.distance_to_optimum > 0.05


@pytest.mark.parametrize(
    "model",
    [
        OneVsRestClassifier(LogisticRegression(C=0.1, tol=1e-8, max_iter=5000)),
        LinearSVC(C=0.01, tol=1e-8, max_iter=100_000),
        RidgeClassifier(alpha=50.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_separate_heads_are_binary_fits(model):
    data = simulate_multiclass(150, 40, n_indices=3, signal=2.0, random_state=0)
    model.fit(data.X, data.y)
    heads = read_class_scores(model, data.X, data.y, np.ones(150), "exact")
    assert heads.honest.shape == heads.calibration.shape == heads.fitted.shape == (150, 3)
    raw = data.X @ heads.coef.T + heads.intercept
    np.testing.assert_allclose(raw, model.decision_function(data.X), atol=1e-8)
    np.testing.assert_allclose(heads.fitted, raw, atol=1e-8)
    # Row 0 left out of head 1, by a refit of that head alone.
    kept = np.arange(150) != 0
    if isinstance(model, RidgeClassifier):
        refit = RidgeClassifier(alpha=50.0).fit(data.X[kept], data.y[kept] == 1)
        true = float(refit.decision_function(data.X[:1])[0])
        fit = read_fits(model, data.X, data.y.astype(float), np.ones(150))[1]
        found = observe(fit).loo_scores[0]
        assert found == pytest.approx(true, abs=1e-6)


def test_what_cannot_be_read_is_refused():
    data = simulate_multiclass(60, 10, n_indices=3, signal=2.0, random_state=0)
    ones = np.ones(60)
    weighted = LinearSVC(class_weight="balanced", tol=1e-6, max_iter=100_000)
    with pytest.raises(ValueError, match="class_weight"):
        read_class_scores(weighted.fit(data.X, data.y), data.X, data.y, ones)
    far = np.eye(3)[np.repeat(np.arange(3), 5)] * 9 + 0.01
    free = LogisticRegression(C=np.inf, max_iter=200)
    with pytest.raises(SeparableDataError, match="linearly separable"):
        read_class_scores(
            free.fit(far, np.repeat(np.arange(3), 5)), far, np.repeat(np.arange(3), 5), np.ones(15)
        )


def test_scores_of_a_joint_fit_are_about_their_mean():
    # Leaving a row out moves the mean over the classes too, which no softmax sees.
    data, model = _fit(100, 30, 4, 0.5)
    read = read_class_scores(model, data.X, data.y, np.ones(100))
    found = observe(_multinomial(data, model))
    assert np.abs(found.loo_scores.mean(axis=1)).max() > 1e-4
    for scores in (read.honest, read.calibration, read.fitted):
        np.testing.assert_allclose(scores.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(read.calibration, _seen(found.calibration_scores), atol=1e-9)


def test_products_in_parts_are_the_whole(monkeypatch):
    data, model = _fit(200, 150, 4, 0.05)
    fit = _multinomial(data, model, method="randomised")
    whole = _steps(fit)
    monkeypatch.setattr("angcal.plan.PRODUCT_ENTRIES", 10_000)
    np.testing.assert_allclose(_steps(replace(fit)), whole, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GridSearchCV(LogisticRegression(), {"C": [0.1]}), "pass its best_estimator_"),
        (GaussianNB(), "Cannot read the problem that a GaussianNB solved"),
    ],
    ids=["search", "not linear"],
)
def test_models_without_heads_are_named(model, message):
    data = simulate_multiclass(60, 5, n_indices=3, signal=2.0, random_state=0)
    with pytest.raises(TypeError, match=message):
        read_class_scores(model.fit(data.X, data.y), data.X, data.y, np.ones(60))
