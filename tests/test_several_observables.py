"""Blocks of leave-one-out: against refits, against the binary path, exact against sampled."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from angcal import SeparableDataError
from angcal.losses import Multinomial, contrasts, index_map
from angcal.multiclass import read_class_scores
from angcal.observables import observe
from angcal.simulation import simulate_several
from angcal.sklearn_problems import read_fits, read_fitted


def _tight(C, **options):
    return LogisticRegression(C=C, tol=1e-10, max_iter=20_000, **options)


def _fit(n, d, K, C, seed=0, weights=None, **options):
    data = simulate_several(n, d, n_indices=K, signal=2.0, random_state=seed)
    model = _tight(C, **options).fit(data.X, data.y, sample_weight=weights)
    return data, model


def _multinomial(data, model, weights=None, method="exact"):
    weights = np.ones(len(data.y)) if weights is None else weights
    return replace(read_fitted(model, data.X, data.y, weights), hessian_method=method)


def _steps(fit):
    return observe(fit).loo_steps


def test_contrasts_are_orthonormal_and_blind_to_a_constant():
    A = contrasts(5)
    np.testing.assert_allclose(A.T @ A, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(index_map(contrasts(2)) @ contrasts(2), [[1.0]])


@pytest.mark.parametrize(("n", "d"), [(150, 40), (80, 120)])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_scores_against_refits(n, d, intercept):
    C = 0.05
    data, model = _fit(n, d, 3, C, fit_intercept=intercept)
    found = observe(_multinomial(data, model))
    lift = index_map(contrasts(3))
    off, moved = [], []
    for i in range(0, n, 10):
        kept = np.arange(n) != i
        refit = _tight(C, fit_intercept=intercept).fit(data.X[kept], data.y[kept])
        true = lift @ (data.X[i] @ refit.coef_.T + refit.intercept_)
        off.append(np.linalg.norm(found.loo_scores[i] - true))
        moved.append(np.linalg.norm(found.scores[i] - true))
    # What remains is a small share of what leaving the row out does.
    assert np.mean(off) < 0.02 * np.mean(moved)


def test_weighted_rows_against_refits():
    n, C = 120, 0.1
    weights = np.random.default_rng(5).uniform(0.5, 2.0, n)
    data, model = _fit(n, 30, 3, C, weights=weights)
    found = observe(_multinomial(data, model, weights))
    lift = index_map(contrasts(3))
    off, moved = [], []
    for i in range(0, n, 12):
        kept = np.arange(n) != i
        refit = _tight(C).fit(data.X[kept], data.y[kept], sample_weight=weights[kept])
        true = lift @ (data.X[i] @ refit.coef_.T + refit.intercept_)
        off.append(np.linalg.norm(found.loo_scores[i] - true))
        moved.append(np.linalg.norm(found.scores[i] - true))
    assert np.mean(off) < 0.02 * np.mean(moved)


@pytest.mark.parametrize(("n", "d"), [(200, 60), (60, 90)])
def test_two_classes_equal_the_binary_path(n, d):
    data = simulate_several(n, d, n_indices=2, signal=2.0, random_state=3)
    model = _tight(0.3).fit(data.X, data.y)
    fit = read_fitted(model, data.X, data.y.astype(float), np.ones(n))
    binary = observe(fit)
    joint = replace(
        fit, coef=fit.coef[None, :], intercept=np.array([fit.intercept]), loss=Multinomial(2)
    )
    several = observe(joint)
    np.testing.assert_allclose(several.loo_scores[:, 0], binary.loo_scores, atol=1e-8)
    np.testing.assert_allclose(
        several.calibration_scores[:, 0], binary.calibration_scores, atol=1e-8
    )
    np.testing.assert_allclose(several.degrees_of_freedom, binary.degrees_of_freedom, rtol=1e-8)


def test_degrees_of_freedom_by_finite_differences():
    # Tr of d(fitted probabilities)/d(labels) in the linear response of the fit: Σ Tr(G_iD_i).
    n, d, C = 60, 10, 0.5
    data, model = _fit(n, d, 3, C)
    fit = _multinomial(data, model)
    found = observe(fit)
    Z = np.column_stack([data.X, np.ones(n)])
    q = fit.loss.n_scores
    H = np.einsum("nab,ni,nj->aibj", fit.curvatures, Z, Z).reshape(q * (d + 1), -1)
    H += np.kron(np.eye(q), np.diag([*np.full(d, 1 / C), 0.0]))
    inverse = np.linalg.inv(H).reshape(q, d + 1, q, d + 1)
    G = np.einsum("ni,aibj,nj->nab", Z, inverse, Z)
    assert found.degrees_of_freedom == pytest.approx(np.einsum("nab,nba->", G, fit.curvatures))


def test_sparse_rows_equal_dense_ones():
    data, model = _fit(90, 130, 3, 0.2)
    dense = _multinomial(data, model)
    thin = replace(dense, X=sparse.csr_matrix(data.X))
    np.testing.assert_allclose(observe(thin).loo_scores, observe(dense).loo_scores, atol=1e-9)


@pytest.mark.parametrize(("n", "d", "K"), [(400, 300, 3), (300, 400, 4)])
def test_sampled_blocks_agree_with_exact_ones(n, d, K):
    data, model = _fit(n, d, K, 0.05)
    fit = _multinomial(data, model)
    exact, sampled = _steps(fit), _steps(replace(fit, hessian_method="randomised"))
    gap = np.linalg.norm(sampled - exact, axis=(1, 2))
    size = np.linalg.norm(exact, axis=(1, 2))
    # Row by row they scatter, on average they agree.
    assert np.mean(gap / size) < 0.15
    mean_gap = np.linalg.norm((sampled - exact).mean(axis=0))
    assert mean_gap < 0.03 * np.linalg.norm(exact.mean(axis=0))


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
    data = simulate_several(150, 40, n_indices=3, signal=2.0, random_state=0)
    model.fit(data.X, data.y)
    heads = read_class_scores(model, data.X, data.y, np.ones(150), "exact")
    assert heads.scores.shape == (150, 3)
    raw = data.X @ heads.coef.T + heads.intercept
    np.testing.assert_allclose(raw, model.decision_function(data.X), atol=1e-8)
    # Row 0 left out of head 1, by a refit of that head alone.
    kept = np.arange(150) != 0
    if isinstance(model, RidgeClassifier):
        refit = RidgeClassifier(alpha=50.0).fit(data.X[kept], data.y[kept] == 1)
        true = float(refit.decision_function(data.X[:1])[0])
        fit = read_fits(model, data.X, data.y.astype(float), np.ones(150))[1]
        found = observe(fit).loo_scores[0]
        assert found == pytest.approx(true, abs=1e-6)


def test_what_cannot_be_read_is_refused():
    data = simulate_several(60, 10, n_indices=3, signal=2.0, random_state=0)
    ones = np.ones(60)
    # scikit-learn takes the kind of penalty by name before 1.8, and warns about that since.
    by_name = LogisticRegression().get_params().get("penalty", "deprecated") != "deprecated"
    name = {"penalty": "elasticnet"} if by_name else {}
    lasso = LogisticRegression(**name, l1_ratio=0.5, C=0.5, solver="saga", max_iter=20_000)
    with pytest.raises(ValueError, match="ℓ₁ penalty"):
        read_class_scores(lasso.fit(data.X, data.y), data.X, data.y, ones)
    weighted = LinearSVC(class_weight="balanced", tol=1e-6, max_iter=100_000)
    with pytest.raises(ValueError, match="class_weight"):
        read_class_scores(weighted.fit(data.X, data.y), data.X, data.y, ones)
    far = np.eye(3)[np.repeat(np.arange(3), 5)] * 9 + 0.01
    free = LogisticRegression(C=np.inf, max_iter=200)
    with pytest.raises(SeparableDataError, match="linearly separable"):
        read_class_scores(
            free.fit(far, np.repeat(np.arange(3), 5)), far, np.repeat(np.arange(3), 5), np.ones(15)
        )


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
    data = simulate_several(60, 5, n_indices=3, signal=2.0, random_state=0)
    with pytest.raises(TypeError, match=message):
        read_class_scores(model.fit(data.X, data.y), data.X, data.y, np.ones(60))
