"""M = LLᵀ with its inverse, against NumPy and SciPy; single precision where it is good enough."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from angcal.leverages import factorize
from angcal.leverages.cholesky import (
    LEAF,
    SingularHessianError,
    cholesky,
    row_parts,
    sum_of_squares,
)
from angcal.plan import SMALL_SIDE


def positive_matrix(side: int, seed: int = 0) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(side, 2 * side))
    return A @ A.T / side + np.eye(side)


SIDES = (1, 2, LEAF, LEAF + 1, 2 * LEAF + 1, 385, SMALL_SIDE, SMALL_SIDE + 1)


@pytest.mark.parametrize("side", SIDES)
def test_factor_inverse_and_solves_agree_with_numpy(side):
    M = positive_matrix(side)
    rhs = np.random.default_rng(1).normal(size=(side, 3))
    L = np.linalg.cholesky(M)
    triangle = cholesky(M.copy(), "a test")
    np.testing.assert_allclose(triangle.pivots, np.diag(L), atol=1e-12)
    # Before and after a large L has given way to its inverse.
    for _ in range(2):
        np.testing.assert_allclose(triangle.solve(rhs), np.linalg.solve(M, rhs), atol=1e-12)
        np.testing.assert_allclose(triangle.solve(rhs[:, 0]), np.linalg.solve(M, rhs[:, 0]))
        np.testing.assert_allclose(triangle.half_solve(rhs), np.linalg.solve(L, rhs), atol=1e-12)
        np.testing.assert_allclose(triangle.inverse @ L, np.eye(side), atol=1e-12)
    assert np.all(np.triu(triangle.inverse, 1) == 0)
    assert len(triangle) == side


@pytest.mark.parametrize(("side", "seeds"), [(5, 100), (LEAF, 100), (200, 20), (1200, 3)])
def test_a_singular_matrix_is_named(side, seeds):
    # Many of them: rounding makes half of the last pivots positive, and some of these large.
    for seed in range(seeds):
        A = np.random.default_rng(seed).normal(size=(side, side - 1))
        with pytest.raises(SingularHessianError, match="Hessian of the rows is singular"):
            cholesky(A @ A.T, "the rows")


@pytest.mark.parametrize("side", [5, 200, SMALL_SIDE + 1])
def test_a_nearly_singular_matrix_is_factorized(side):
    v = np.random.default_rng(0).normal(size=side)
    v /= np.linalg.norm(v)
    M = np.eye(side) - (1.0 - 1e-12) * np.outer(v, v)
    assert len(cholesky(M.copy(), "nearly")) == side
    with pytest.raises(SingularHessianError):
        cholesky(M - 1e-12 * np.outer(v, v), "nearly")


def test_single_precision_is_refused_long_before_double():
    M = np.array([[1.0, 0.9999], [0.9999, 1.0]])
    assert len(cholesky(M.copy(), "both")) == 2
    with pytest.raises(SingularHessianError):
        cholesky(M.astype(np.float32), "both")


@pytest.mark.parametrize("side", [1, LEAF, 3 * LEAF, 1001])
def test_row_parts_cover_every_row_once(side):
    rows = [row for low, high in row_parts(side) for row in range(low, high)]
    assert rows == list(range(side))


@pytest.mark.parametrize("side", [1, 7, SMALL_SIDE, SMALL_SIDE + 3])
def test_sums_of_squares_are_symmetric_and_those_of_all_rows(side):
    blocks = [
        np.random.default_rng(k).normal(size=(rows, side)) for k, rows in enumerate((3, 5, 1))
    ]
    total = sum_of_squares(iter(blocks), side)
    Y = np.concatenate(blocks)
    np.testing.assert_allclose(total, Y.T @ Y, atol=1e-12)
    np.testing.assert_array_equal(total, total.T)
    assert not sum_of_squares(iter([]), side).any()


def small_problem(strength: float, correlation: float = 0.0):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 150)) + correlation * rng.normal(size=(500, 1))
    return X, rng.uniform(0.05, 0.25, 500), strength


@pytest.mark.parametrize("strength", [0.5, 50.0])
def test_auto_in_single_precision_agrees_to_four_digits(strength):
    X, D, q = small_problem(strength)
    exact = factorize(X, D, q, fit_intercept=True)
    auto = factorize(X, D, q, fit_intercept=True, method="auto")
    assert auto.engine._scale.dtype == np.float32
    np.testing.assert_allclose(auto.leverages(), exact.leverages(), rtol=1e-4)
    gradient = 1e-12 * np.random.default_rng(0).normal(size=150)
    step, intercept = auto.solve(gradient, 1e-12)
    exact_step, exact_intercept = exact.solve(gradient, 1e-12)
    np.testing.assert_allclose(step, exact_step, atol=1e-3 * np.abs(exact_step).max())
    np.testing.assert_allclose(intercept, exact_intercept, rtol=1e-2)
    h = exact.leverages()
    remaining = 1.0 - h * D
    np.testing.assert_allclose(auto.coupling(h, remaining), exact.coupling(h, remaining), rtol=1e-3)


def test_auto_goes_back_to_double_precision_where_columns_nearly_repeat():
    X, D, q = small_problem(1e-6, correlation=30.0)
    auto = factorize(X, D, q, fit_intercept=True, method="auto")
    assert auto.engine._scale.dtype == np.float64
    exact = factorize(X, D, q, fit_intercept=True)
    np.testing.assert_array_equal(auto.leverages(), exact.leverages())


def test_auto_stays_in_double_precision_where_that_is_quick():
    X, D, q = small_problem(1.0)
    auto = factorize(X[:, :50], D, q, fit_intercept=True, method="auto")
    assert auto.engine._scale.dtype == np.float64
    assert auto.remark == ""
    single = factorize(X, D, q, fit_intercept=True, method="auto")
    assert single.remark == "factorized in single precision"


def test_nothing_to_factorize_leaves_lapack_in_peace():
    """It takes an empty matrix for an error and prints so: ten lines from a path without intercept.

    In a process of its own, as what it prints may be kept until the end.
    """
    code = (
        "import numpy as np\n"
        "from angcal.leverages.cholesky import cholesky\n"
        "found = cholesky(np.zeros((0, 0)), 'nothing')\n"
        "assert found.half_solve(np.zeros((0, 3))).shape == (0, 3)\n"
        "assert found.solve(np.zeros(0)).shape == (0,)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
