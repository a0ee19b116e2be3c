"""Σ⁻¹ and ‖ŵ‖_Σ from a matrix, an operator, a pool or an estimator, against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.covariance import EmpiricalCovariance, LedoitWolf
from sklearn.preprocessing import StandardScaler

from angcal import Logistic, Ridge
from angcal.covariance import (
    Precision,
    check_covariance,
    invert,
    is_operator,
    pool_covariance,
    precision,
    score_scale,
)
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.simulation import (
    AutoregressiveCovariance,
    GivenCovariance,
    IdentityCovariance,
    SpikedCovariance,
)
from angcal.solvers.minimize import minimize

D = 7
RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(D, D))
SIGMA = ROOT @ ROOT.T + 0.3 * np.eye(D)
X = RNG.normal(size=(40, D)) + 0.5
POOL = RNG.normal(size=(60, D)) @ ROOT.T + 1.0
PSI = RNG.normal(size=40)
OPERATORS = [
    IdentityCovariance(D),
    AutoregressiveCovariance(D),
    SpikedCovariance(D, random_state=0),
    GivenCovariance(SIGMA, variance=1.0),
]
centering = pytest.mark.parametrize("centered", [False, True])


def brute_products(sigma, rows, center, psi, inverse=None):
    """(x_iᵀΣ⁻¹Xᵀψ)_i and (x_iᵀΣ⁻¹x_i)_i written out."""
    inverse = np.linalg.inv(sigma) if inverse is None else inverse
    centered = rows - (0.0 if center is None else center)
    kernel = centered @ inverse @ centered.T
    return kernel @ psi, np.diag(kernel)


def assert_products(found, sigma, rows, centered, inverse=None):
    assert isinstance(found, Precision)
    center = rows.mean(axis=0) if centered else None
    along, squares = brute_products(sigma, rows, center, PSI, inverse)
    for container in (np.asarray, sparse.csr_array, sparse.csr_matrix):
        got = found.products(container(rows), center, PSI)
        assert_allclose(got[0], along, rtol=1e-9, atol=1e-9 * np.abs(along).max())
        assert_allclose(got[1], squares, rtol=1e-9, atol=1e-9 * np.abs(squares).max())


# ------------------------------------------------------------------ products with Σ⁻¹


@centering
def test_products_with_a_known_matrix(centered):
    found = precision(SIGMA, None, X)
    assert (found.rank, found.estimated, found.fresh) == (D, False, True)
    assert_products(found, SIGMA, X, centered)


@centering
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: type(o).__name__)
def test_products_with_an_operator(operator, centered):
    assert is_operator(operator)
    found = precision(operator, None, X)
    assert (found.rank, found.estimated, found.fresh) == (D, False, True)
    assert_products(found, operator.matrix(), X, centered)


@centering
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_products_with_a_pool(container, centered):
    found = precision(None, container(POOL), X)
    assert (found.rank, found.estimated, found.fresh) == (D, True, True)
    assert found.source == "a pool of 60 rows"
    assert_products(found, np.cov(POOL.T), X, centered)


@centering
@pytest.mark.parametrize("estimator", [EmpiricalCovariance(), LedoitWolf()], ids=repr)
@pytest.mark.parametrize("container", [None, np.asarray, sparse.csr_array])
def test_products_with_an_estimator(estimator, container, centered):
    """Fitted on the pool, else on the training rows; the estimator itself stays unfitted."""
    pool = None if container is None else container(POOL)
    found = precision(estimator, pool, X)
    sigma = type(estimator)().fit(X if pool is None else POOL).covariance_
    assert (found.estimated, found.fresh) == (True, pool is not None)
    where = "the training rows" if pool is None else "a pool of 60 rows"
    assert found.source == f"{type(estimator).__name__} on {where}"
    assert not hasattr(estimator, "covariance_")
    assert_products(found, sigma, X, centered)


def test_an_estimator_may_be_fitted_on_sparse_training_rows():
    found = precision(LedoitWolf(), None, sparse.csr_array(X))
    assert_products(found, LedoitWolf().fit(X).covariance_, X, True)


@pytest.mark.parametrize("entries", [1, 3 * D, 10**6])
def test_blocks_of_rows_do_not_show(entries, monkeypatch):
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", entries)
    assert_products(precision(SIGMA, None, X), SIGMA, X, True)
    assert_allclose(pool_covariance(POOL)[1], np.cov(POOL.T), rtol=1e-10)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_pool_moments(container):
    mean, sigma = pool_covariance(container(POOL))
    assert_allclose(mean, POOL.mean(axis=0), rtol=1e-12)
    assert_allclose(sigma, np.cov(POOL.T), rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------------ singular Σ


def singular(kind):
    """(pool, how much rank is missing) on columns that are constant, repeated or both."""
    pool = POOL.copy()
    if kind in ("constant", "both"):
        pool[:, 2] = 1.0
    if kind in ("duplicate", "both"):
        pool[:, 5] = -2.0 * pool[:, 0]
    return pool, {"constant": 1, "duplicate": 1, "both": 2}[kind]


@pytest.mark.parametrize("kind", ["constant", "duplicate", "both"])
@pytest.mark.parametrize("source", ["matrix", "pool"])
def test_a_singular_covariance_is_inverted_on_its_range(kind, source):
    pool, missing = singular(kind)
    sigma = np.cov(pool.T)
    found = precision(sigma, None, X) if source == "matrix" else precision(None, pool, X)
    assert found.rank == D - missing
    assert found.root.shape == (D, D - missing)
    assert_products(found, sigma, X, True, inverse=np.linalg.pinv(sigma, rcond=1e-9))


@pytest.mark.parametrize("value", [0.1, 5.3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_constant_column_that_rounds_is_constant(value, container):
    """The variance of a constant column is rounding noise, and its inverse would be enormous."""
    pool = POOL.copy()
    pool[:, 2] = value
    assert precision(None, container(pool), X).rank == D - 1


def test_a_column_of_tiny_scale_is_not_singular():
    scale = np.geomspace(1.0, 1e-8, D)
    found = precision(SIGMA * np.outer(scale, scale), None, X)
    assert found.rank == D
    along, squares = found.products(X * scale, None, PSI)
    expected = brute_products(SIGMA, X, None, PSI)
    assert_allclose(along, expected[0], rtol=1e-6)
    assert_allclose(squares, expected[1], rtol=1e-6)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(D + 1), r"shape \(8, 8\), but X has 7 columns"),
        (np.ones(D), r"shape \(7,\)"),
        (np.where(np.eye(D) > 0, np.nan, 0.0), "NaN or infinite"),
        (np.where(np.eye(D) > 0, np.inf, 0.0), "NaN or infinite"),
        (np.eye(D) + np.eye(D, k=1), "not symmetric"),
        (np.diag([1.0, 1, 1, 1, 1, 1, -0.5]), "not positive: its smallest eigenvalue is -0.5"),
        (np.ones((D, D)) - 0.5 * np.eye(D), "not positive"),
        (np.zeros((D, D)), "not positive"),
    ],
)
def test_what_is_not_a_covariance_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        precision(matrix, None, X)


def test_rounding_asymmetry_is_forgiven():
    noisy = SIGMA * (1.0 + 1e-12 * np.triu(np.ones((D, D))))
    checked = check_covariance(noisy.tolist(), D)
    assert_allclose(checked, checked.T, rtol=0, atol=0)
    assert_allclose(checked, SIGMA, rtol=1e-11)


def test_nothing_given_is_a_reason():
    assert "neither a covariance nor a pool" in precision(None, None, X)


@pytest.mark.parametrize("m", [1, 2, D - 1, D, D + 1, D + 2])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_pool_with_too_few_rows_is_a_reason(m, container):
    assert f"the pool has {m} rows for 7 columns" in precision(None, container(POOL[:m]), X)


def test_one_more_row_is_enough():
    assert precision(None, POOL[: D + 3], X).rank == D


def test_a_pool_on_a_subspace_has_its_rank():
    pool = POOL[:, :2] @ ROOT[:2]
    found = precision(None, pool, X)
    assert found.rank == 2
    inside = RNG.normal(size=(40, 2)) @ ROOT[:2]
    assert_products(found, None, inside, True, inverse=np.linalg.pinv(np.cov(pool.T), rcond=1e-9))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_without_an_intercept_moments_are_about_zero(container):
    sigma = POOL.T @ POOL / (len(POOL) - 1)
    mean, found = pool_covariance(container(POOL), centered=False)
    assert_allclose(mean, 0.0)
    assert_allclose(found, sigma, rtol=1e-10, atol=1e-10)
    assert_products(precision(None, container(POOL), X, centered=False), sigma, X, False)


def test_an_estimator_of_something_else_is_refused():
    with pytest.raises(TypeError, match=r"StandardScaler.* is not a covariance estimator"):
        precision(StandardScaler(), None, X)


def test_a_known_covariance_wins_over_a_pool():
    assert precision(SIGMA, POOL, X).source == "the given covariance"


# ------------------------------------------------------------------ inflation of a finite pool


def test_fresh_rows_measure_the_inflation_of_a_pool():
    """mean(xᵀΣ̂⁻¹x)/d over fresh Gaussian rows is (m−1)/(m−d−2), within 4 standard errors."""
    m, d, rng = 60, 20, np.random.default_rng(1)
    ratios = []
    for _ in range(150):
        rows = rng.normal(size=(100, d))
        found = precision(None, rng.normal(size=(m, d)), rows)
        ratios.append(np.mean(found.products(rows, None, np.ones(100))[1]) / found.rank)
    gap = np.mean(ratios) - (m - 1) / (m - d - 2)
    standard_error = np.std(ratios) / np.sqrt(len(ratios))
    assert standard_error < 0.03
    assert abs(gap) < 4 * standard_error


# ------------------------------------------------------------------ the score's scale


def observed(fit_intercept, rows=X):
    y = (np.arange(len(rows)) % 3 > 0).astype(float)
    ones, start = np.ones(len(rows)), np.zeros(rows.shape[1])
    problem = LinearFit(rows, y, ones, start, 0.0, Logistic(), Ridge(0.1), fit_intercept)
    fit = minimize(problem)
    return fit, observe(fit)


WEIGHTS = np.random.default_rng(2).uniform(0.5, 2.0, size=len(X))
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])


def expected_moments(scores, weights, fit_intercept):
    center = np.sum(weights * scores) / np.sum(weights) if fit_intercept else 0.0
    return center, np.sqrt(np.sum(weights * (scores - center) ** 2) / np.sum(weights))


@intercepts
@pytest.mark.parametrize("weights", [np.ones(len(X)), WEIGHTS], ids=["equal", "weighted"])
def test_scale_from_leave_one_out_scores(fit_intercept, weights):
    fit, seen = observed(fit_intercept)
    scale = score_scale(seen, fit.coef, fit.intercept, case_weights=weights)
    expected = expected_moments(seen.calibration_scores, weights, fit_intercept)
    assert_allclose((scale.center, scale.norm), expected, rtol=1e-12)
    assert scale.source == "leave-one-out scores"


@intercepts
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_scale_from_a_pool_ignores_weights(fit_intercept, container):
    fit, seen = observed(fit_intercept)
    scale = score_scale(seen, fit.coef, fit.intercept, case_weights=WEIGHTS, pool=container(POOL))
    scores = POOL @ fit.coef + fit.intercept
    expected = expected_moments(scores, np.ones(len(POOL)), fit_intercept)
    assert_allclose((scale.center, scale.norm), expected, rtol=1e-10)
    assert scale.source == "pool"


@intercepts
@pytest.mark.parametrize("pool", [None, POOL], ids=["no pool", "pool"])
@pytest.mark.parametrize("covariance", [SIGMA, OPERATORS[-1]], ids=["matrix", "operator"])
def test_scale_from_a_covariance_keeps_the_center(fit_intercept, pool, covariance):
    fit, seen = observed(fit_intercept)
    scale = score_scale(
        seen, fit.coef, fit.intercept, case_weights=WEIGHTS, covariance=covariance, pool=pool
    )
    rows = seen.calibration_scores if pool is None else POOL @ fit.coef + fit.intercept
    weights = WEIGHTS if pool is None else np.ones(len(POOL))
    assert_allclose(scale.center, expected_moments(rows, weights, fit_intercept)[0], atol=1e-12)
    assert_allclose(scale.norm, np.sqrt(fit.coef @ SIGMA @ fit.coef), rtol=1e-10)
    assert scale.source == "covariance"


def test_an_estimated_covariance_does_not_set_the_scale():
    fit, seen = observed(True)
    with_estimator = score_scale(
        seen, fit.coef, fit.intercept, case_weights=WEIGHTS, covariance=LedoitWolf()
    )
    assert with_estimator == score_scale(seen, fit.coef, fit.intercept, case_weights=WEIGHTS)


def test_the_scale_refuses_a_bad_covariance():
    fit, seen = observed(True)
    with pytest.raises(ValueError, match="not symmetric"):
        score_scale(
            seen, fit.coef, 0.0, case_weights=WEIGHTS, covariance=np.eye(D) + np.eye(D, k=1)
        )


def test_invert_says_where_sigma_came_from():
    found = invert(SIGMA, source="somewhere", estimated=True, fresh=False)
    assert (found.source, found.estimated, found.fresh) == ("somewhere", True, False)
    assert_allclose(found.cholesky @ found.cholesky.T, SIGMA, rtol=1e-12)
