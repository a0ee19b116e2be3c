"""Every loss against finite differences, 50-digit references and convexity."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from angcal.losses import (
    Exponential,
    HuberisedHinge,
    Logistic,
    Loss,
    Multinomial,
    ProbitLikelihood,
    Squared,
    SquaredHinge,
    signed,
)


def own_losses(parent: type[Loss]) -> list[type[Loss]]:
    """The library's own losses of one score: other test modules define subclasses too."""
    found = []
    for child in parent.__subclasses__():
        concrete = not inspect.isabstract(child) and child is not Multinomial
        found += [child] if concrete and child.__module__ == "angcal.losses" else []
        found += own_losses(child)
    return found


FAMILIES = own_losses(Loss)
VARIANTS = [HuberisedHinge(delta=0.3, scale=2.5), HuberisedHinge(delta=2.0, scale=4.0)]
LOSSES = [family() for family in FAMILIES] + VARIANTS
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
both_labels = pytest.mark.parametrize("label", [0.0, 1.0])


def kinks(loss: Loss) -> list[float]:
    """Margins at which ℓ'' jumps."""
    if isinstance(loss, SquaredHinge):
        return [1.0]
    return [1.0, 1.0 - loss.delta] if isinstance(loss, HuberisedHinge) else []


def away_from_kinks(loss: Loss, label: float, step: float) -> np.ndarray:
    scores = np.linspace(-6.0, 6.0, 97) + 0.0123
    margins = (2 * label - 1) * scores
    keep = np.ones(len(scores), bool)
    for kink in kinks(loss):
        keep &= np.abs(margins - kink) > 3 * step
    return scores[keep]


def central_difference(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, h: float
) -> np.ndarray:
    """Fourth order."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def test_families_are_found_and_all_have_a_50_digit_reference() -> None:
    assert {family.__name__ for family in FAMILIES} == {
        "Logistic",
        "ProbitLikelihood",
        "Squared",
        "SquaredHinge",
        "HuberisedHinge",
        "Exponential",
    }
    assert not any(inspect.isabstract(family) for family in FAMILIES)


@every_loss
@both_labels
def test_gradient_is_the_derivative_of_the_value(loss: Loss, label: float) -> None:
    h = 1e-3
    u = away_from_kinks(loss, label, h)
    y = np.full_like(u, label)
    numeric = central_difference(lambda v: loss.value(v, y), u, h)
    # Truncation h⁴ ℓ⁗/30 ≈ 3e-14·ℓ, rounding eps·ℓ/h.
    atol = 1e-11 * (1.0 + np.abs(loss.value(u, y)))
    assert np.all(np.abs(loss.gradient(u, y) - numeric) <= atol)


@every_loss
@both_labels
def test_hessian_is_the_derivative_of_the_gradient(loss: Loss, label: float) -> None:
    h = 1e-3
    u = away_from_kinks(loss, label, h)
    y = np.full_like(u, label)
    numeric = central_difference(lambda v: loss.gradient(v, y), u, h)
    atol = 1e-11 * (1.0 + np.abs(loss.gradient(u, y)))
    assert np.all(np.abs(loss.hessian(u, y) - numeric) <= atol)


@every_loss
@both_labels
def test_gradient_is_continuous_across_the_kinks(loss: Loss, label: float) -> None:
    for kink in kinks(loss):
        u = (2 * label - 1) * (kink + np.array([-1e-9, 1e-9]))
        y = np.full(2, label)
        assert abs(np.diff(loss.gradient(u, y))[0]) < 1e-7
        assert abs(np.diff(loss.value(u, y))[0]) < 1e-7


# ------------------------------------------------------------------ 50-digit references


def reference(loss: Loss, m: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """ℓ, dℓ/dm and d²ℓ/dm² as functions of the margin m, from the textbook formulas."""
    one, half = mp.mpf(1), mp.mpf(1) / 2
    if isinstance(loss, Logistic):
        p = 1 / (1 + mp.exp(m))
        return mp.log1p(mp.exp(-m)), -p, p * (1 / (1 + mp.exp(-m)))
    if isinstance(loss, ProbitLikelihood):
        ratio = mp.npdf(m) / mp.ncdf(m)
        # 1 − tail keeps −log Φ accurate for large positive margins.
        value = -mp.log1p(-mp.ncdf(-m)) if m > 0 else -mp.log(mp.ncdf(m))
        return value, -ratio, ratio * (ratio + m)
    if isinstance(loss, Squared):
        return half * (m - 1) ** 2, m - 1, one
    if isinstance(loss, SquaredHinge):
        gap = max(1 - m, mp.mpf(0))
        return gap**2, -2 * gap, mp.mpf(2 if m < 1 else 0)
    if isinstance(loss, HuberisedHinge):
        delta, scale, gap = mp.mpf(loss.delta), mp.mpf(loss.scale), 1 - m
        if gap <= 0:
            return mp.mpf(0), mp.mpf(0), mp.mpf(0)
        if gap < delta:
            return scale * gap**2 / (2 * delta), -scale * gap / delta, scale / delta
        return scale * (gap - delta / 2), -scale, mp.mpf(0)
    assert isinstance(loss, Exponential)
    return mp.exp(-m), -mp.exp(-m), mp.exp(-m)


@every_loss
@both_labels
@pytest.mark.parametrize("score", [-500.0, -40.0, -8.0, -0.3, 0.0, 0.4, 2.2, 40.0, 500.0])
def test_extreme_scores_match_50_digits(loss: Loss, label: float, score: float) -> None:
    t = 2 * label - 1
    # Numbers of size 1e-108 574 (probit at 500) need the digits that 1 − tail eats.
    with mp.workdps(60):
        value, slope, bend = reference(loss, mp.mpf(t * score))
        exact = [float(value), float(t * slope), float(bend)]
    u, y = np.array([score]), np.array([label])
    got = [float(f(u, y)[0]) for f in (loss.value, loss.gradient, loss.hessian)]
    # m·(1 + eps) is what a double can know: relative error m·eps at best in an exponential,
    # m²·eps where φ(m) is involved.
    rtol = 4e-16 * max(1.0, score**2 if isinstance(loss, ProbitLikelihood) else abs(score)) * 4
    assert got == pytest.approx(exact, rel=rtol, abs=1e-300)


@pytest.mark.parametrize("margin", [-1e3, -1e4, -1e5])
def test_probit_curvature_tends_to_one_for_hopeless_rows(margin: float) -> None:
    # ℓ'' = 1 − 1/m² + O(m⁻⁴) as m → −∞.
    bend = ProbitLikelihood().hessian(np.array([margin]), np.array([1.0]))[0]
    assert bend == pytest.approx(1.0 - margin**-2, abs=1e-15 * margin**2)


# ------------------------------------------------------------------ shape


@every_loss
@both_labels
def test_loss_is_convex_and_nonnegative(loss: Loss, label: float) -> None:
    u = np.linspace(-60.0, 60.0, 4001)
    y = np.full_like(u, label)
    value, slope = loss.value(u, y), loss.gradient(u, y)
    assert np.all(value >= 0)
    assert np.all(loss.hessian(u, y) >= 0)
    assert np.all(np.diff(slope) >= -1e-12 * np.maximum(1.0, np.abs(slope[1:])))
    # The tangent lies below: ℓ(v) ≥ ℓ(u) + ℓ'(u)(v − u) for neighbors on both sides.
    gap = value[1:] - value[:-1] - slope[:-1] * np.diff(u)
    assert np.all(gap >= -1e-12 * np.maximum(1.0, np.maximum(value[1:], value[:-1])))


@every_loss
def test_the_two_labels_mirror_each_other(loss: Loss) -> None:
    u = np.linspace(-30.0, 30.0, 601)
    one, zero = np.ones_like(u), np.zeros_like(u)
    np.testing.assert_allclose(loss.value(u, one), loss.value(-u, zero), rtol=1e-14)
    np.testing.assert_allclose(loss.gradient(u, one), -loss.gradient(-u, zero), rtol=1e-14)
    np.testing.assert_allclose(loss.hessian(u, one), loss.hessian(-u, zero), rtol=1e-14)


@every_loss
@both_labels
def test_a_wrong_score_is_pulled_towards_its_label(loss: Loss, label: float) -> None:
    t = 2 * label - 1
    assert t * loss.gradient(np.array([-3.0 * t]), np.array([label]))[0] < 0


@every_loss
@both_labels
@pytest.mark.parametrize("score", [-1e100, -1e6, -750.0, 750.0, 1e6, 1e100])
def test_huge_scores_are_silent_and_never_nan(loss: Loss, label: float, score: float) -> None:
    u, y = np.array([score]), np.array([label])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [f(u, y)[0] for f in (loss.value, loss.gradient, loss.hessian)]
    assert not np.any(np.isnan(results))
    if not isinstance(loss, Exponential):
        assert np.all(np.isfinite(results))


@every_loss
def test_attains_minimum_tells_whether_a_finite_score_is_best(loss: Loss) -> None:
    u = np.linspace(-20.0, 20.0, 4001)
    stationary = np.any(np.abs(loss.gradient(u, np.ones_like(u))) < 1e-12)
    if isinstance(loss, ProbitLikelihood):
        # Its slope underflows below 1e-12 near 7 without ever vanishing.
        stationary = bool(np.any(loss.gradient(np.array([20.0]), np.array([1.0])) == 0))
    if isinstance(loss, Logistic | Exponential):
        stationary = bool(np.any(loss.gradient(np.array([100.0]), np.array([1.0])) == 0))
    assert loss.attains_minimum == stationary


# ------------------------------------------------------------------ particular losses


@both_labels
def test_huberised_hinge_with_delta_2_and_scale_4_is_modified_huber(label: float) -> None:
    # sklearn's modified_huber: max(0, 1 − m)² for m ≥ −1, −4m below.
    u = np.linspace(-5.0, 5.0, 1001) + 0.001
    y, m = np.full_like(u, label), (2 * label - 1) * u
    expected = np.where(m >= -1, np.maximum(0, 1 - m) ** 2, -4 * m)
    loss = HuberisedHinge(delta=2.0, scale=4.0)
    np.testing.assert_allclose(loss.value(u, y), expected, atol=1e-13)
    slope = np.where(m >= -1, -2 * np.maximum(0, 1 - m), -4.0) * (2 * label - 1)
    np.testing.assert_allclose(loss.gradient(u, y), slope, atol=1e-13)


def test_logistic_gradient_is_probability_minus_label() -> None:
    u = np.linspace(-8, 8, 33)
    for y in (np.zeros_like(u), np.ones_like(u)):
        np.testing.assert_allclose(Logistic().gradient(u, y), 1 / (1 + np.exp(-u)) - y, atol=1e-15)


def test_signed_maps_zero_one_to_minus_one_one() -> None:
    np.testing.assert_array_equal(signed(np.array([0.0, 1.0])), [-1.0, 1.0])


@pytest.mark.parametrize("name", ["delta", "scale"])
@pytest.mark.parametrize("number", [0.0, -1.0, np.inf, np.nan])
def test_huberised_hinge_refuses_a_bad_width_by_name_and_value(name: str, number: float) -> None:
    with pytest.raises(ValueError, match=rf"{name}={number!r} must be a positive finite number"):
        HuberisedHinge(**{name: number})


def test_a_loss_must_bring_all_three_methods() -> None:
    class Half(Loss):
        def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
            return scores

    with pytest.raises(TypeError, match="abstract"):
        Half()
