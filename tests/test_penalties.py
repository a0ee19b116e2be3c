"""Every penalty against finite differences of its own value, and the errors it raises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from angcal.penalties import (
    ElasticNet,
    Lasso,
    NoPenalty,
    Penalty,
    PseudoHuber,
    Quadratic,
    Ridge,
)

D = 5
ROOT = np.random.default_rng(0).normal(size=(D, D))
MATRIX = ROOT @ ROOT.T
EXAMPLES: dict[type[Penalty], list[Penalty]] = {
    NoPenalty: [NoPenalty()],
    Ridge: [Ridge(0.7), Ridge(0.0)],
    Quadratic: [Quadratic(MATRIX), Quadratic(sparse.csr_array(MATRIX))],
    ElasticNet: [ElasticNet(0.3, 0.4), ElasticNet(0.3, 0.0), Lasso(0.3)],
    PseudoHuber: [PseudoHuber(0.7), PseudoHuber(0.7, delta=0.05), PseudoHuber(0.7, delta=40.0)],
}
every_penalty = pytest.mark.parametrize(
    "penalty", [p for group in EXAMPLES.values() for p in group], ids=lambda p: type(p).__name__
)
COEF = np.array([1.3, -0.4, 0.002, -2.5, 0.9])


def central_difference(f: Callable[[float], np.ndarray], h: float = 1e-3) -> np.ndarray:
    """Fourth order, of f at 0."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def as_matrix(curvature: object) -> np.ndarray:
    Q = np.asarray(curvature, dtype=float)
    if Q.ndim == 0:
        return float(Q) * np.eye(D)
    return np.diag(Q) if Q.ndim == 1 else Q


def test_every_subclass_in_the_library_is_covered() -> None:
    library = {p for p in Penalty.__subclasses__() if p.__module__ == "angcal.penalties"}
    assert library == set(EXAMPLES)


@every_penalty
def test_gradient_is_the_derivative_of_the_value(penalty: Penalty) -> None:
    for j, e in enumerate(np.eye(D)):
        numeric = central_difference(lambda t, e=e: penalty.value(COEF + t * e))
        # Pseudo-Huber with δ = 0.05 has fifth derivatives of size δ⁻³; hence the smaller order.
        scale = 1e-11 if getattr(penalty, "delta", 1.0) >= 1 else 2e-7
        assert penalty.gradient(COEF)[j] == pytest.approx(numeric, abs=scale)


@every_penalty
def test_curvature_is_the_derivative_of_the_gradient(penalty: Penalty) -> None:
    Q = as_matrix(penalty.curvature(COEF))
    for j, e in enumerate(np.eye(D)):
        numeric = central_difference(lambda t, e=e: penalty.gradient(COEF + t * e))
        scale = 1e-11 if getattr(penalty, "delta", 1.0) >= 1 else 2e-5
        np.testing.assert_allclose(Q[:, j], numeric, atol=scale)


@every_penalty
def test_curvature_is_positive_semidefinite_and_value_vanishes_at_zero(penalty: Penalty) -> None:
    assert np.linalg.eigvalsh(as_matrix(penalty.curvature(COEF))).min() >= -1e-12
    assert penalty.value(np.zeros(D)) == 0.0
    np.testing.assert_array_equal(penalty.gradient(np.zeros(D)), np.zeros(D))
    assert isinstance(penalty.value(COEF), float)
    assert penalty.value(COEF) >= 0.0


# ------------------------------------------------------------------ formulas


def test_values_equal_the_printed_formulas() -> None:
    w = COEF
    assert Ridge(0.7).value(w) == pytest.approx(0.35 * np.sum(w**2), rel=1e-14)
    assert Quadratic(MATRIX).value(w) == pytest.approx(0.5 * w @ MATRIX @ w, rel=1e-14)
    net = ElasticNet(0.3, 0.4)
    full = net.value(w) + net.l1 * np.abs(w).sum()
    expected = 0.3 * (0.4 * np.abs(w).sum() + 0.3 * np.sum(w**2))
    assert full == pytest.approx(expected, rel=1e-14)
    huber = 0.7 * 4.0 * np.sum(np.sqrt(1 + (w / 2.0) ** 2) - 1)
    assert PseudoHuber(0.7, delta=2.0).value(w) == pytest.approx(huber, rel=1e-13)


def test_quadratic_with_a_scaled_identity_is_ridge() -> None:
    for matrix in (0.7 * np.eye(D), 0.7 * sparse.eye_array(D, format="csr")):
        quadratic = Quadratic(matrix)
        assert quadratic.value(COEF) == pytest.approx(Ridge(0.7).value(COEF), rel=1e-14)
        np.testing.assert_allclose(quadratic.gradient(COEF), Ridge(0.7).gradient(COEF), rtol=1e-14)
        np.testing.assert_allclose(as_matrix(quadratic.curvature(COEF)), 0.7 * np.eye(D))


def test_sparse_and_dense_quadratic_agree() -> None:
    dense, scarce = EXAMPLES[Quadratic]
    assert scarce.value(COEF) == pytest.approx(dense.value(COEF), rel=1e-13)
    np.testing.assert_allclose(scarce.gradient(COEF), dense.gradient(COEF), rtol=1e-12)
    np.testing.assert_array_equal(scarce.curvature(COEF), MATRIX)


def test_pseudo_huber_is_ridge_near_zero_and_l1_far_out() -> None:
    penalty, tiny = PseudoHuber(0.7, delta=1.0), 1e-9 * COEF
    assert penalty.value(tiny) == pytest.approx(Ridge(0.7).value(tiny), rel=1e-12)
    assert penalty.value(1e9 * COEF) == pytest.approx(0.7e9 * np.abs(COEF).sum(), rel=1e-6)
    np.testing.assert_allclose(penalty.gradient(1e9 * COEF), 0.7 * np.sign(COEF), rtol=1e-6)


# ------------------------------------------------------------------ l1 and the active set


@every_penalty
def test_only_an_l1_part_takes_coordinates_out_of_the_hessian(penalty: Penalty) -> None:
    w = COEF.copy()
    w[[1, 3]] = 0.0
    active = penalty.active(w)
    if penalty.l1 > 0:
        np.testing.assert_array_equal(active, [True, False, True, False, True])
    else:
        assert active is None


def test_elastic_net_without_l1_is_ridge_and_without_l2_is_lasso() -> None:
    ridge, lasso = ElasticNet(0.3, 0.0), Lasso(0.3)
    assert ridge.l1 == 0.0
    assert ridge.active(np.zeros(D)) is None
    assert ridge.value(COEF) == Ridge(0.3).value(COEF)
    assert ridge.curvature(COEF) == Ridge(0.3).curvature(COEF)
    assert lasso == ElasticNet(0.3, 1.0)
    assert lasso.l1 == 0.3
    assert (lasso.value(COEF), lasso.curvature(COEF)) == (0.0, 0.0)


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("family", [Ridge, ElasticNet, Lasso, PseudoHuber])
@pytest.mark.parametrize("strength", [-0.1, np.inf, np.nan])
def test_a_bad_strength_is_named_with_its_value(
    family: Callable[[float], Penalty], strength: float
) -> None:
    with pytest.raises(ValueError, match=rf"strength={strength!r} must be a finite number"):
        family(strength)


@pytest.mark.parametrize("ratio", [-0.01, 1.01, np.nan])
def test_a_bad_l1_ratio_is_named_with_its_value(ratio: float) -> None:
    with pytest.raises(ValueError, match=rf"l1_ratio={ratio!r} must lie in \[0, 1\]"):
        ElasticNet(1.0, ratio)


@pytest.mark.parametrize("delta", [0.0, -2.0, np.inf, np.nan])
def test_a_bad_delta_is_named_with_its_value(delta: float) -> None:
    with pytest.raises(ValueError, match=rf"delta={delta!r} must be a positive finite"):
        PseudoHuber(1.0, delta)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_an_asymmetric_matrix_is_refused_dense_or_sparse(convert: Callable) -> None:
    crooked = MATRIX.copy()
    crooked[0, 1] += 0.25
    with pytest.raises(ValueError, match=r"matrix is not symmetric \(largest difference 0\.25\)"):
        Quadratic(convert(crooked))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_rounding_asymmetry_is_accepted(convert: Callable) -> None:
    almost = MATRIX.copy()
    almost[0, 1] *= 1 + 1e-13
    expected = pytest.approx(Quadratic(MATRIX).value(COEF), rel=1e-12)
    assert Quadratic(convert(almost)).value(COEF) == expected


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.ones(3), sparse.csr_array((2, 3))])
def test_a_matrix_that_is_not_square_is_refused_with_its_shape(matrix: object) -> None:
    with pytest.raises(ValueError, match=r"matrix has shape \((2, 3|3,)\)"):
        Quadratic(matrix)


def test_a_quadratic_without_any_entry_is_the_zero_penalty() -> None:
    for matrix in (np.zeros((D, D)), sparse.csr_array((D, D))):
        assert Quadratic(matrix).value(COEF) == 0.0
