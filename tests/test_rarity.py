"""Columns that are rarely active: their kurtosis, their penalty, and what it is worth."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from scipy.stats import kurtosis
from sklearn.linear_model import LogisticRegression

from angcal import AngularLogisticRegressionCV
from angcal.metrics import log_loss
from angcal.penalty_path.rarity import (
    ORDINARY,
    column_deviations,
    column_factors,
    column_shapes,
    factors_of,
)
from angcal.rows import as_rows


def rare_rows(n=120, d=30, seed=0, share=0.04):
    """Half of the columns Gaussian, half active in a few rows; all with deviation 1."""
    rng = np.random.default_rng(seed)
    active = rng.random((n, d - d // 2)) < share
    active[:2] = True  # none is constant
    X = np.hstack([rng.normal(size=(n, d // 2)), active * rng.normal(size=active.shape)])
    X /= X.std(axis=0)
    return X, (rng.random(n) < expit(X @ rng.normal(size=d) / np.sqrt(d) * 2)).astype(int)


# -- the formula -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_kurtosis_is_that_of_scipy(convert, scale):
    X, _ = rare_rows()
    found, variances = column_shapes(convert(X * scale), np.full(120, 7.0))
    assert_allclose(found, kurtosis(X, fisher=False), rtol=1e-9)
    assert_allclose(variances, X.var(axis=0) / np.abs(X).max() ** 2, rtol=1e-9)


def test_a_weight_is_so_many_rows():
    X, _ = rare_rows()
    weights = np.arange(120) % 3 + 1
    one = column_shapes(X, weights.astype(float))
    assert_allclose(one, column_shapes(np.repeat(X, weights, axis=0), np.ones(weights.sum())))


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_one_pass_over_blocks_finds_what_an_array_has(shift):
    """Also where columns are far from zero, which sums of plain powers would not survive."""
    X, weights = rare_rows()[0] + shift, np.random.default_rng(0).uniform(0.5, 2.0, 120)
    blocks = as_rows([X[:7], X[7:8], X[8:]], True)
    found, expected = column_shapes(blocks, weights), column_shapes(X, weights)
    assert blocks.passes == 1
    share = weights / weights.sum()
    deviations = X - share @ X
    right = share @ deviations**4 / (share @ deviations**2) ** 2
    assert_allclose(expected[0], right, rtol=1e-9)
    assert_allclose(found[0], right, rtol=1e-9)
    assert_allclose(found[1] / found[1][0], expected[1] / expected[1][0], rtol=1e-9)


def test_the_factors_follow_the_formula():
    X, _ = rare_rows()
    factors = factors_of(X, np.ones(len(X)), 0.5)
    rare = np.maximum(kurtosis(X, fisher=False) / ORDINARY, 1.0)
    assert_allclose(factors / factors[0], rare**-0.25)
    assert_allclose((factors**2).sum(), X.shape[1])  # the total variance stays


def test_what_varies_little_is_not_shrunk_twice():
    """A column whose variance is a thousandth counts for less than its rarity asks for."""
    kappa, small = np.array([3.0, 3.0, 24.0]), np.array([1.0, 1.0, 1e-3])
    assert column_factors(kappa, small, 0.5) is None
    half = column_factors(kappa, np.array([1.0, 1.0, 0.8]), 0.5)
    assert (half[2] / half[0]) ** 2 == pytest.approx(0.5 / 0.8)
    large = column_factors(kappa, np.array([1.0, 1.0, 100.0]), 0.5)
    assert (large[2] / large[0]) ** 2 == pytest.approx(0.5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [5.0, 0.1, -1.0 / 3.0])
def test_a_constant_column_is_ordinary(value, convert):
    """Of sparse rows it had a variance of 1e-16, and a kurtosis of 1e14."""
    X, _ = rare_rows()
    X[:, 3] = value
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    kappa, variances = column_shapes(convert(X), weights)
    assert (kappa[3], variances[3]) == (1.0, 0.0)
    assert_allclose(factors_of(convert(X), weights, 0.5), factors_of(X, weights, 0.5), rtol=1e-9)


def test_sparse_columns_far_from_zero_have_the_shapes_of_an_array():
    """A year, and one that some rows lack; differences of plain powers were off by 2e3."""
    X, _ = rare_rows()
    X[:, :2] += 1e4
    X[:5, 1] = 0.0
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    found, expected = (column_shapes(rows, weights) for rows in (sparse.csr_array(X), X))
    assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, np.float32])
def test_deviations_of_columns_are_weighted_ones(convert):
    X, _ = rare_rows()
    X[:, 0] += 1e3
    X[:, 1] *= 1e15
    X[:, 3] = 0.1
    rows, weights = convert(X), np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    X = np.asarray(rows, dtype=np.float64) if isinstance(rows, np.ndarray) else X
    expected = np.sqrt(np.average((X - np.average(X, 0, weights)) ** 2, 0, weights))
    expected[3] = 0.0
    assert_allclose(column_deviations(rows, weights), expected, rtol=1e-9)


def test_deviations_of_very_large_small_and_level_columns():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 7))
    X = Z * [1e-250, 1e250, 1.0, 1.0, 1.0, 0.0, 1e-17]
    X += [0.0, 0.0, 1e8, 0.0, 0.0, 5.0, 0.1]
    X[0, 3], X[:, 4] = 1e12, 0.0
    X[7, 4] = 1.0
    weights = rng.uniform(0.5, 2.0, 400)
    exact = X.astype(np.longdouble)
    expected = np.sqrt(np.average((exact - np.average(exact, 0, weights)) ** 2, 0, weights))
    expected[5:] = 0.0  # level, or all but for rounding
    assert_allclose(column_deviations(X, weights), expected.astype(float), rtol=1e-9)


def test_the_look_at_columns_takes_no_second_copy():
    X = np.random.default_rng(0).normal(size=(40_000, 50))
    tracemalloc.start()
    column_deviations(X, np.ones(len(X)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * X.nbytes


# -- the fits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(120, 30), (60, 90)])
def test_a_fit_minimizes_the_penalized_loss(shape):
    """C·Xᵀ(y − p) = w/g, with g the squared factors."""
    X, y = rare_rows(*shape)
    clf = AngularLogisticRegressionCV([0.1, 1.0], tol=1e-8).fit(X, y)
    gains = factors_of(X, np.ones(len(X)), clf.rarity_) ** 2
    w, p = clf.coef_[0], expit(X @ clf.coef_[0] + clf.intercept_)
    assert_allclose(clf.C_ * X.T @ (y - p), w / gains, atol=1e-4 * np.abs(w / gains).max())
    assert np.ptp(gains) > 0.3


def test_left_out_scores_are_those_of_refits():
    X, y = rare_rows(80, 20)
    clf = AngularLogisticRegressionCV([0.1], tol=1e-8).fit(X, y)
    Z = X * factors_of(X, np.ones(len(X)), 0.5)
    exact = []
    for i in range(80):
        kept = np.arange(80) != i
        model = LogisticRegression(C=0.1, tol=1e-9, max_iter=5000).fit(Z[kept], y[kept])
        exact.append(model.decision_function(Z[i : i + 1])[0])
    found = clf.observables_.loo_scores
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.02 * np.std(exact)


def test_ordinary_columns_are_fitted_as_before():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 50)), rng.integers(0, 2, 200)
    X[:, 0] = rng.integers(0, 2, 200)
    plain = AngularLogisticRegressionCV(5, rarity=0).fit(X, y)
    default = AngularLogisticRegressionCV(5).fit(X, y)
    assert default.rarity_ == 0.0
    assert_array_equal(default.coef_, plain.coef_)
    assert_array_equal(default.predict_proba(X), plain.predict_proba(X))


@pytest.mark.filterwarnings("ignore:The chosen C:angcal.PenaltyWarning")
@pytest.mark.parametrize("average", [None, "penalties"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_kind_of_rows_changes_nothing(average, classes):
    torch = pytest.importorskip("torch")
    X, y = rare_rows(90, 24)
    y = y + (classes - 2) * (X[:, 0] > 0.0)
    Cs = [1e-4, 0.01, 1.0, 100.0]
    dense, sparse_, tensor = (
        AngularLogisticRegressionCV(Cs, tol=1e-6, average=average).fit(rows, y)
        for rows in (X, sparse.csr_array(X), torch.asarray(X))
    )
    P = dense.predict_proba(X)
    assert dense.rarity_ > 0.0
    assert_allclose(sparse_.predict_proba(X), P, atol=2e-3)
    assert_allclose(np.asarray(tensor.predict_proba(torch.asarray(X))), P, atol=2e-3)


def test_an_average_is_over_the_one_path():
    X, y = rare_rows()
    clf = AngularLogisticRegressionCV(5, average="penalties").fit(X, y)
    assert_array_equal(clf.rarities_, [0.5])
    assert_array_equal(clf.exponents_, [1.0])
    assert clf.average_.shares.sum() == pytest.approx(1.0)


def test_a_pool_takes_the_same_columns():
    X, y = rare_rows(90, 24)
    pool, _ = rare_rows(400, 24, seed=5)
    clf = AngularLogisticRegressionCV(4).fit(X, y, pool=pool)
    assert_array_equal(clf.rarities_, [0.5, 0.5])
    assert_array_equal(clf.exponents_, [1.0, 2.0])


@pytest.mark.parametrize("rarity", [-0.1, 3, "half", None, np.nan])
def test_no_exponent_is_refused(rarity):
    X, y = rare_rows()
    with pytest.raises(ValueError, match="rarity="):
        AngularLogisticRegressionCV(3, rarity=rarity).fit(X, y)


def test_rare_columns_are_worth_it():
    """Weights alike for columns of 0 and 1 as they are: scaled, ridge trusts the rare ones."""
    gains = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        shares = rng.choice([0.02, 0.05, 0.5], 80)
        w = 1.5 * rng.normal(size=80)

        def draw(n, rng=rng, shares=shares, w=w):
            X = (rng.random((n, 80)) < shares) * 1.0
            return X, (rng.random(n) < expit((X - shares) @ w)).astype(int)

        (X, y), (X_new, y_new) = draw(100), draw(3000)
        center, spread = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        X, X_new = (X - center) / spread, (X_new - center) / spread
        plain, own = (AngularLogisticRegressionCV(8, rarity=q).fit(X, y) for q in (0.0, 0.5))
        losses = [log_loss(y_new, clf.predict_proba(X_new)[:, 1]) for clf in (plain, own)]
        gains.append(losses[0] - losses[1])
    assert np.mean(gains) > 2.0 * np.std(gains, ddof=1) / np.sqrt(20)
