"""The factorized Hessian, on either side, against a dense inverse built by brute force."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from angcal.leverages import (
    PenalizedHessian,
    SingularHessianError,
    factorize,
    outer_gram,
    weighted_gram,
)
from angcal.rows import as_rows

TALL, WIDE = (30, 12), (12, 30)
both_shapes = pytest.mark.parametrize(
    ("shape", "side"), [(TALL, "primal"), (WIDE, "dual")], ids=["tall", "wide"]
)
INTERCEPTS = {"none": (False, 0.0), "free": (True, 0.0), "penalized": (True, 0.8)}
every_intercept = pytest.mark.parametrize(
    ("fit_intercept", "q0"), INTERCEPTS.values(), ids=INTERCEPTS.keys()
)


def design(shape: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), rng.uniform(0.1, 1.5, size=shape[0])


def penalty_of(kind: str, d: int) -> float | np.ndarray:
    diagonal = np.linspace(0.5, 3.0, d)
    if kind == "scalar":
        return 1.3
    if kind == "some free":
        diagonal[[1, d // 2]] = 0.0
    if kind == "matrix":
        root = np.random.default_rng(5).normal(size=(d, d))
        return root @ root.T / d + 0.1 * np.eye(d)
    return diagonal


every_penalty = pytest.mark.parametrize("kind", ["scalar", "diagonal", "some free", "matrix"])


def dense_inverse(
    X: np.ndarray,
    D: np.ndarray,
    Q: float | np.ndarray,
    fit_intercept: bool,
    q0: float = 0.0,
    active: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(X̃, Ĥ) in full, with zeros in Ĥ at the inactive coordinates."""
    X = np.asarray(X, dtype=np.float64)
    n, d = X.shape
    Q = np.asarray(Q, dtype=float)
    Q = Q * np.eye(d) if Q.ndim == 0 else np.diag(Q) if Q.ndim == 1 else Q
    if fit_intercept:
        X = np.column_stack([X, np.ones(n)])
        Q = np.block([[Q, np.zeros((d, 1))], [np.zeros((1, d)), np.full((1, 1), q0)]])
    keep = np.ones(X.shape[1], bool)
    if active is not None:
        keep[:d] = active
    M = (X.T @ np.diag(D) @ X + Q)[np.ix_(keep, keep)]
    # Unit diagonal, so that the reference itself survives columns of any scale.
    unit = np.sqrt(np.outer(np.diag(M), np.diag(M)))
    H = np.zeros_like(Q)
    H[np.ix_(keep, keep)] = np.linalg.inv(M / unit) / unit
    return X, H


def assert_matches_dense(
    hessian: PenalizedHessian, X_tilde: np.ndarray, H: np.ndarray, d: int, rtol: float = 1e-9
) -> None:
    h = np.einsum("ij,jk,ik->i", X_tilde, H, X_tilde)
    np.testing.assert_allclose(hessian.leverages(), h, rtol=rtol)
    rhs = np.random.default_rng(9).normal(size=len(H))
    expected = np.append(H @ rhs, 0.0)
    step, intercept_step = hessian.solve(rhs[:d], rhs[d] if len(H) > d else 0.0)
    np.testing.assert_allclose(
        np.append(step, intercept_step), expected[: d + 1], atol=rtol * np.abs(expected).max()
    )


# ------------------------------------------------------------------ both sides, every penalty


@both_shapes
@every_intercept
@every_penalty
def test_solve_and_leverages_equal_the_dense_inverse(
    shape: tuple[int, int], side: str, fit_intercept: bool, q0: float, kind: str
) -> None:
    X, D = design(shape)
    Q = penalty_of(kind, shape[1])
    hessian = factorize(X, D, Q, fit_intercept=fit_intercept, intercept_curvature=q0)
    assert hessian.side == ("primal" if kind == "matrix" else side)
    assert_matches_dense(hessian, *dense_inverse(X, D, Q, fit_intercept, q0), shape[1])


@both_shapes
@every_intercept
@pytest.mark.parametrize("kind", ["diagonal", "some free", "matrix"])
@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
def test_a_sparse_design_gives_the_dense_answer(
    shape: tuple[int, int], side: str, fit_intercept: bool, q0: float, kind: str, convert: type
) -> None:
    X, D = design(shape)
    X[np.random.default_rng(1).random(shape) < 0.6] = 0.0
    Q = penalty_of(kind, shape[1])
    hessian = factorize(convert(X), D, Q, fit_intercept=fit_intercept, intercept_curvature=q0)
    assert_matches_dense(hessian, *dense_inverse(X, D, Q, fit_intercept, q0), shape[1])


@every_intercept
@every_penalty
@pytest.mark.parametrize("n_active", [0, 6, 25])
def test_inactive_coordinates_leave_the_hessian(
    fit_intercept: bool, q0: float, kind: str, n_active: int
) -> None:
    X, D = design(WIDE)
    active = np.zeros(WIDE[1], bool)
    active[np.random.default_rng(2).permutation(WIDE[1])[:n_active]] = True
    Q = penalty_of(kind, WIDE[1])
    for matrix in (X, sparse.csr_array(X)):
        hessian = factorize(
            matrix, D, Q, fit_intercept=fit_intercept, intercept_curvature=q0, active=active
        )
        # The side is chosen by the active columns, not by all of them.
        assert hessian.side == ("dual" if n_active == 25 and kind != "matrix" else "primal")
        inverse = dense_inverse(X, D, Q, fit_intercept, q0, active)
        assert_matches_dense(hessian, *inverse, WIDE[1])


@both_shapes
@pytest.mark.parametrize("scarce", [False, True])
def test_single_precision_input_is_computed_in_double(
    shape: tuple[int, int], side: str, scarce: bool
) -> None:
    X, D = design(shape)
    X = X.astype(np.float32)
    hessian = factorize(sparse.csr_array(X) if scarce else X, D, 0.7, fit_intercept=True)
    # Double on the rounded entries: 1e-9, where single precision would give 1e-6.
    assert_matches_dense(hessian, *dense_inverse(X, D, 0.7, True), shape[1])
    assert hessian.leverages().dtype == np.float64


@both_shapes
def test_integer_input_is_accepted(shape: tuple[int, int], side: str) -> None:
    X, D = design(shape)
    X = np.round(3 * X).astype(np.int32)
    hessian = factorize(X, D, 0.7, fit_intercept=True)
    assert_matches_dense(hessian, *dense_inverse(X, D, 0.7, True), shape[1])


# ------------------------------------------------------------------ vanishing curvatures


@both_shapes
@every_intercept
@pytest.mark.parametrize("kind", ["scalar", "some free"])
@pytest.mark.parametrize("tiny", [0.0, 1e-300, 1e-12, 1e-6, 1e-4])
def test_rows_with_vanishing_curvature_keep_accurate_leverages(
    shape: tuple[int, int], side: str, fit_intercept: bool, q0: float, kind: str, tiny: float
) -> None:
    X, D = design(shape)
    D[: shape[0] // 2] = tiny
    Q = penalty_of(kind, shape[1])
    hessian = factorize(X, D, Q, fit_intercept=fit_intercept, intercept_curvature=q0)
    assert_matches_dense(hessian, *dense_inverse(X, D, Q, fit_intercept, q0), shape[1])


@both_shapes
def test_all_curvatures_zero_leaves_the_penalty_alone(shape: tuple[int, int], side: str) -> None:
    X, _ = design(shape)
    hessian = factorize(X, np.zeros(shape[0]), 2.0, fit_intercept=False)
    np.testing.assert_allclose(hessian.leverages(), np.sum(X**2, axis=1) / 2.0, rtol=1e-12)


def test_leverage_times_curvature_lies_between_zero_and_one() -> None:
    for shape in (TALL, WIDE):
        X, D = design(shape)
        for strength in (1e-6, 1.0, 1e6):
            share = factorize(X, D, strength, fit_intercept=True).leverages() * D
            assert np.all(share > 0)
            assert np.all(share < 1)


# ------------------------------------------------------------------ scaling is not singularity


@both_shapes
@every_intercept
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_badly_scaled_columns_are_not_called_singular(
    shape: tuple[int, int], side: str, fit_intercept: bool, q0: float, scale: float
) -> None:
    X, D = design(shape)
    scaled = X.copy()
    scaled[:, :3] *= scale
    Q = np.full(shape[1], 0.9)
    Q[:3] *= scale**2
    # X → XS with Q → SQS leaves every leverage unchanged, and Ĥ → S⁻¹ĤS⁻¹.
    options = {"fit_intercept": fit_intercept, "intercept_curvature": q0}
    plain, other = factorize(X, D, 0.9, **options), factorize(scaled, D, Q, **options)
    np.testing.assert_allclose(other.leverages(), plain.leverages(), rtol=1e-8)
    S = np.where(np.arange(shape[1]) < 3, scale, 1.0)
    gradient = np.random.default_rng(3).normal(size=shape[1])
    step, offset = other.solve(S * gradient, 0.3 * fit_intercept)
    expected, expected_offset = plain.solve(gradient, 0.3 * fit_intercept)
    np.testing.assert_allclose(S * step, expected, rtol=1e-7, atol=1e-9)
    assert offset == pytest.approx(expected_offset, rel=1e-7)


# Forming K = XQ⁻¹Xᵀ next to I costs the dual about eps·D_iK_ii: 1e-12 for a column 1e3 times the
# others, 1e-5 at 1e6 (checked against 60 digits). The primal is scale free.
@pytest.mark.parametrize(
    ("shape", "scale", "rtol"),
    [(TALL, 1e6, 1e-9), (TALL, 1e10, 1e-9), (WIDE, 1e3, 1e-9), (WIDE, 1e6, 1e-4)],
)
def test_a_large_column_under_an_even_ridge_is_not_called_singular(
    shape: tuple[int, int], scale: float, rtol: float
) -> None:
    X, D = design(shape)
    X[:, 0] *= scale
    hessian = factorize(X, D, 0.5, fit_intercept=True)
    X_tilde, H = dense_inverse(X, D, 0.5, True)
    h = np.einsum("ij,jk,ik->i", X_tilde, H, X_tilde)
    np.testing.assert_allclose(hessian.leverages(), h, rtol=rtol)


def test_the_dual_refuses_a_column_too_large_for_its_digits() -> None:
    # Leverages would be off by 100 %: an error beats a wrong number.
    X, D = design(WIDE)
    X[:, 0] *= 1e9
    with pytest.raises(SingularHessianError):
        factorize(X, D, 0.5, fit_intercept=True)


def test_unpenalized_columns_of_any_scale_are_accepted_by_the_dual() -> None:
    X, D = design(WIDE)
    Q = penalty_of("some free", WIDE[1])
    plain = factorize(X, D, Q, fit_intercept=True)
    X[:, 1] *= 1e9
    scaled = factorize(X, D, Q, fit_intercept=True)
    assert scaled.side == "dual"
    np.testing.assert_allclose(scaled.leverages(), plain.leverages(), rtol=1e-9)


def test_unpenalized_columns_of_any_scale_are_not_called_singular() -> None:
    X, D = design(TALL)
    plain = factorize(X, D, 0.0, fit_intercept=True).leverages()
    X *= np.logspace(-8, 8, TALL[1])
    np.testing.assert_allclose(
        factorize(X, D, 0.0, fit_intercept=True).leverages(), plain, rtol=1e-9
    )


# ------------------------------------------------------------------ genuine singularity


def test_more_unpenalized_columns_than_rows_is_singular() -> None:
    X, D = design(WIDE)
    with pytest.raises(SingularHessianError, match="30 unpenalized coordinates and only 12 rows"):
        factorize(X, D, 0.0, fit_intercept=False)


@pytest.mark.parametrize("scarce", [False, True])
@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_a_free_constant_column_next_to_a_free_intercept_is_singular(
    shape: tuple[int, int], scarce: bool
) -> None:
    X, D = design(shape)
    X[:, 2] = 4.0
    Q = np.full(shape[1], 0.6)
    Q[2] = 0.0
    matrix = sparse.csr_array(X) if scarce else X
    with pytest.raises(SingularHessianError, match="not unique"):
        factorize(matrix, D, Q, fit_intercept=True)
    # A penalty on either of the two, or no intercept, makes it regular again.
    factorize(matrix, D, Q, fit_intercept=True, intercept_curvature=0.1)
    factorize(matrix, D, Q, fit_intercept=False)
    factorize(matrix, D, 0.6, fit_intercept=True)


def test_linearly_dependent_free_columns_are_singular() -> None:
    X, D = design(TALL)
    X[:, 5] = X[:, 0] - 2.0 * X[:, 1]
    with pytest.raises(SingularHessianError, match="linearly dependent"):
        factorize(X, D, 0.0, fit_intercept=False)


@both_shapes
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_curvature_and_no_penalty_is_singular(
    shape: tuple[int, int], side: str, fit_intercept: bool
) -> None:
    X, _ = design(shape)
    with pytest.raises(SingularHessianError):
        factorize(X, np.zeros(shape[0]), 0.0, fit_intercept=fit_intercept)


@both_shapes
def test_no_curvature_leaves_a_free_intercept_undetermined(
    shape: tuple[int, int], side: str
) -> None:
    X, _ = design(shape)
    with pytest.raises(SingularHessianError):
        factorize(X, np.zeros(shape[0]), 1.0, fit_intercept=True)


def test_fewer_curved_rows_than_free_columns_is_singular() -> None:
    for shape in (TALL, WIDE):
        X, D = design(shape)
        D[2:] = 0.0
        Q = np.ones(shape[1])
        Q[:3] = 0.0
        with pytest.raises(SingularHessianError):
            factorize(X, D, Q, fit_intercept=False)


def test_the_error_is_a_value_error() -> None:
    assert issubclass(SingularHessianError, ValueError)


# ------------------------------------------------------------------ memory


def peak_bytes(X: np.ndarray, fit_intercept: bool, Q: float | np.ndarray) -> int:
    D = np.linspace(0.1, 1.0, X.shape[0])
    D[:3] = 0.0
    tracemalloc.start()
    try:
        hessian = factorize(X, D, Q, fit_intercept=fit_intercept)
        hessian.leverages()
        hessian.solve(np.ones(X.shape[1]), 0.5 * fit_intercept)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(40, 20_000), (20_000, 30)], ids=["wide", "tall"])
def test_nothing_larger_than_the_data_is_formed(
    shape: tuple[int, int], fit_intercept: bool
) -> None:
    X = np.random.default_rng(4).normal(size=shape)
    larger_square = max(shape) ** 2 * 8
    # A few copies of X (6 MB here) against a square of 3.2 GB.
    assert peak_bytes(X, fit_intercept, 1.0) < 5 * X.nbytes < larger_square / 80


def test_free_columns_do_not_change_the_memory_bound() -> None:
    X = np.random.default_rng(4).normal(size=(40, 20_000))
    Q = np.ones(20_000)
    Q[:5] = 0.0
    assert peak_bytes(X, True, Q) < 5 * X.nbytes


def test_sparse_design_is_never_made_dense_as_a_whole() -> None:
    rng = np.random.default_rng(6)
    places = rng.integers(60, size=3600), rng.integers(60_000, size=3600)
    X = sparse.csr_array((rng.random(3600), places), shape=(60, 60_000))
    dense = X.shape[0] * X.shape[1] * 8
    D = np.linspace(0.1, 1.0, 60)
    tracemalloc.start()
    try:
        factorize(X, D, 1.0, fit_intercept=True).leverages()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < dense / 5


# ------------------------------------------------------------------ building blocks


@pytest.mark.parametrize("scarce", [False, True])
@pytest.mark.parametrize("block_entries", [1, 50, 2_000_000])
def test_blocked_grams_equal_the_plain_products(
    scarce: bool, block_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", block_entries)
    X, D = design((17, 9))
    scale = np.linspace(0.5, 2.0, 9)
    matrix = sparse.csr_array(X) if scarce else X
    np.testing.assert_allclose(weighted_gram(matrix, D), X.T @ np.diag(D) @ X, rtol=1e-12)
    np.testing.assert_allclose(outer_gram(matrix, scale), X @ np.diag(scale) @ X.T, rtol=1e-12)
    hessian = factorize(matrix, D, 0.4, fit_intercept=True)
    assert_matches_dense(hessian, *dense_inverse(X, D, 0.4, True), 9)


def test_row_blocks_cover_every_row_once_and_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 40)
    X = np.arange(170, dtype=np.float32).reshape(17, 10)
    blocks = list(as_rows(X, False).dense_blocks())
    assert all(block.size <= 40 and block.dtype == np.float64 for _, block in blocks)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), X)
    assert [rows.start for rows, _ in blocks] == [0, 4, 8, 12, 16]


@pytest.mark.parametrize("method", ["exact", "single"])
def test_penalties_on_sparse_rows_share_their_gram_matrix(method):
    rng = np.random.default_rng(8)
    X = sparse.random(150, 400, density=0.1, random_state=9, format="csr")
    rows, D = as_rows(X, True), 0.25 * rng.random(150)
    for strength in (0.5, 20.0):
        Q = np.full(400, strength)
        shared = factorize(rows, D, Q, fit_intercept=True, method=method)
        alone = factorize(X, D, Q, fit_intercept=True, method=method)
        assert shared.side == alone.side == "dual"
        rtol = 1e-10 if method == "exact" else 1e-4
        np.testing.assert_allclose(shared.leverages(), alone.leverages(), rtol=rtol)
    uneven = Q * rng.uniform(0.5, 2.0, 400)
    found = factorize(rows, D, uneven, fit_intercept=True, method="exact").leverages()
    alone = factorize(X, D, uneven, fit_intercept=True, method="exact").leverages()
    np.testing.assert_allclose(found, alone, rtol=1e-10)
