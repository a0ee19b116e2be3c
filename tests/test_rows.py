"""Every storage of the same rows gives the same products, leverages and fits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from angcal.losses import Logistic, Multinomial
from angcal.observables import observe
from angcal.penalties import Ridge
from angcal.problem import LinearFit
from angcal.rows import as_rows, rotate
from angcal.rows.memory import TriangularRows
from angcal.rows.rotation import _is_correlated
from angcal.solvers.newton_cg import NewtonCG

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 9))
X[np.abs(X) < 0.4] = 0.0
Y = (RNG.random(120) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
CODES = RNG.integers(0, 3, 120).astype(float)
WEIGHTS = RNG.uniform(0.5, 2.0, 120)


def mapped(folder):
    path = folder / "rows.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


STORAGES = {
    "dense": lambda folder: X,
    "Fortran": lambda folder: np.asfortranarray(X),
    "csr_matrix": lambda folder: sparse.csr_matrix(X),
    "csr_array": lambda folder: sparse.csr_array(X),
    "list of blocks": lambda folder: [X[:50], X[50:53], X[53:]],
    "callable": lambda folder: lambda: iter([X[:70], sparse.csr_array(X[70:])]),
    "memory map": mapped,
}


@pytest.fixture(params=STORAGES)
def stored(request, tmp_path):
    return STORAGES[request.param](tmp_path)


@pytest.mark.parametrize("intercept", [True, False])
def test_products_are_those_of_the_matrix(stored, intercept):
    rows = as_rows(stored, intercept)
    whole = np.column_stack([X, np.ones(120)]) if intercept else X
    V, U = RNG.normal(size=(whole.shape[1], 3)), RNG.normal(size=(120, 3))
    assert_allclose(rows.forward(V), whole @ V, atol=1e-12)
    assert_allclose(rows.backward(U), whole.T @ U, atol=1e-12)
    weighted = rows.curve(V, WEIGHTS[:, None])
    assert_allclose(weighted, whole.T @ (WEIGHTS[:, None] * (whole @ V)), atol=1e-11)
    assert_allclose(rows.lines(np.array([3, 99, 51])), whole[[3, 99, 51]], atol=1e-12)
    moments, peaks = rows.column_squares(WEIGHTS)
    assert_allclose(moments, (X**2).T @ WEIGHTS, rtol=1e-10)
    assert_allclose(peaks, (X**2).max(axis=0), rtol=1e-10)
    assert rows.sum(lambda block: block.shape[0]) == 120


@pytest.mark.parametrize("columns", [1, 3, 16])
@pytest.mark.parametrize("intercept", [True, False])
def test_large_rows_are_multiplied_in_pieces(columns, intercept):
    rng = np.random.default_rng(0)
    large = rng.normal(size=(5000, 450))
    rows = as_rows(large, intercept).single()
    whole = np.column_stack([large, np.ones(5000)]) if intercept else large
    V, U = rng.normal(size=(whole.shape[1], columns)), rng.normal(size=(5000, columns))
    D = rng.uniform(0.1, 1.0, (5000, 1))
    placed = [rows.place(part) for part in (V, U, D)]
    close = {"rtol": 1e-3, "atol": 1e-2}  # sums of 5000 terms in single precision
    assert_allclose(rows.forward(placed[0]), whole @ V, **close)
    assert_allclose(rows.backward(placed[1]), whole.T @ U, **close)
    assert_allclose(rows.curve(placed[0], placed[2]), whole.T @ (D * (whole @ V)), **close)
    assert len(list(rows.blocks(columns))) > 1


@pytest.mark.parametrize("K", [2, 3])
def test_exact_leverages_and_scores_do_not_depend_on_the_storage(stored, K):
    expected, found = (observe(fit_of(rows, K)) for rows in (X, as_rows(stored, True)))
    assert_allclose(found.leverages, expected.leverages, atol=1e-10)
    assert_allclose(found.loo_scores, expected.loo_scores, atol=1e-10)


def fit_of(rows, K):
    joint = K > 2
    return LinearFit(
        rows,
        CODES if joint else Y,
        WEIGHTS,
        RNG_COEF[:K] if joint else RNG_COEF[0],
        np.full(K, 0.1) if joint else 0.1,
        Multinomial(K) if joint else Logistic(),
        Ridge(0.05),
        True,
    )


RNG_COEF = np.random.default_rng(1).normal(size=(3, 9))


def test_newton_finds_the_same_optimum_in_every_storage(stored):
    model = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000)
    model.fit(X, Y, sample_weight=WEIGHTS)
    solver = NewtonCG(as_rows(stored, True), Y, WEIGHTS, np.array([2.0]))
    found = solver.solve(tol=1e-9)
    assert_allclose(found.coef[:, 0], model.coef_[0], atol=1e-5)
    assert_allclose(found.intercepts, model.intercept_, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("K", [3, 5, 10])
def test_newton_finds_the_multinomial_optimum_of_several_penalties_at_once(K, intercept):
    codes = np.random.default_rng(2).integers(0, K, 120)
    Cs = np.array([0.01, 0.1, 1.0, 10.0])
    rows = as_rows(X, intercept)
    solver = NewtonCG(rows, codes.astype(float), WEIGHTS, 1.0 / Cs, Multinomial(K))
    found = solver.solve(tol=1e-8)
    assert np.all(solver.distances(found) < 1e-5)
    for c, C in enumerate(Cs):
        model = LogisticRegression(C=C, tol=1e-10, max_iter=5000, fit_intercept=intercept)
        model.fit(X, codes, sample_weight=WEIGHTS)
        coef, free, scores = found.problem(c)
        assert_allclose(coef, model.coef_, atol=1e-4)
        # The softmax leaves the mean of the intercepts open.
        assert_allclose(free - free.mean(), model.intercept_ - model.intercept_.mean(), atol=1e-4)
        assert_allclose(scores, X @ coef.T + free, atol=1e-9)


def test_whole_numbers_are_not_rounded_into():
    whole = RNG.integers(0, 4, size=(60, 4))
    labels = (RNG.random(60) < 0.5).astype(float)
    weights, strength = np.full(60, 0.5), np.array([1.0])
    for storage in (np.asarray, sparse.csr_array):
        rows = [as_rows(storage(kind), True) for kind in (whole, whole.astype(float))]
        a, b = (NewtonCG(each, labels, weights, strength).solve(1e-8).coef for each in rows)
        assert_allclose(a, b, atol=1e-12)
        assert np.abs(a).max() > 0


def test_rows_know_their_intercept():
    with pytest.raises(ValueError, match="stored with intercept=True"):
        as_rows(as_rows(X, True), False)


@pytest.mark.parametrize("shape", [(80, 20), (30, 90), (700, 1200)])
def test_rotated_rows_have_the_same_inner_products(shape):
    wide = np.random.default_rng(4).normal(size=shape)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, shape[0])
    rows = rotate(wide, weights, True)
    centered = wide - weights @ wide / weights.sum()
    assert_allclose(rows.X @ rows.X.T, centered @ centered.T, atol=1e-4 * shape[1])
    v = np.random.default_rng(6).normal(size=rows.shape[1])
    assert_allclose(centered @ rows.expand(v), rows.X @ v, atol=1e-3)


def test_a_callable_that_gives_other_rows_is_found_out():
    sizes = iter([40, 40, 39])
    rows = as_rows(lambda: [X[: next(sizes)]], True)
    rows.column_squares(np.ones(40))
    with pytest.raises(ValueError, match="hold 39 rows on this pass and 40 before"):
        rows.column_squares(np.ones(40))


@pytest.mark.parametrize("columns", [1, 3, 12])
def test_zeros_of_a_triangle_change_no_product(columns):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(520, 800))
    rows = rotate(X, np.ones(520), True)
    assert isinstance(rows, TriangularRows)
    L = np.column_stack([rows.X, np.ones(520)])
    assert not np.triu(rows.X, 1).any()
    V, U = rng.normal(size=(521, columns)), rng.normal(size=(520, columns))
    D = rng.random((520, 1))
    for stored, tol in ((rows, 1e-12), (rows.single(), 1e-4)):
        V, U, D = (stored.place(each) for each in (V, U, D))
        assert_allclose(stored.forward(V), L @ V, rtol=tol, atol=tol * 100)
        assert_allclose(stored.backward(U), L.T @ U, rtol=tol, atol=tol * 100)
        assert_allclose(stored.curve(V, D), L.T @ (D * (L @ V)), rtol=tol, atol=tol * 1e4)


@pytest.mark.parametrize("strength", [0.0, 0.2, 1.0])
def test_the_gram_matrix_tells_correlated_columns_as_the_rows_do(strength):
    rng = np.random.default_rng(6)
    for n, d in ((30, 50), (200, 700)):
        X = rng.normal(size=(n, d)) + strength * rng.normal(size=(n, 1))
        assert _is_correlated(X, X @ X.T) == _is_correlated(X)
    assert not _is_correlated(np.zeros((5, 9)), np.zeros((5, 5)))
