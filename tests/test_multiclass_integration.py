"""E g(m + LZ): against closed forms, brute force, and one-dimensional smoothing."""

import numpy as np
import pytest
from scipy.special import ndtr, softmax

from angcal import Logit, Probit
from angcal.links.multiclass import (
    AdditiveIndex,
    CallableMulticlassLink,
    InteractionIndex,
    Softmax,
    TwoLayer,
)
from angcal.multiclass import MulticlassPredictor, angular_predictor
from angcal.multiclass.integration import (
    Noise,
    noise_of,
    rule_for,
    smoothed,
    smoothed_softmax,
    sobol_rule,
)


def test_softmax_by_products_equals_softmax_by_definition():
    rng = np.random.default_rng(0)
    logits, shifts = 3 * rng.normal(size=(40, 5)), 4 * rng.normal(size=(30, 5))
    weights = rng.dirichlet(np.ones(30))
    plain = np.einsum("r,nrk->nk", weights, softmax(logits[:, None, :] + shifts[None], axis=2))
    np.testing.assert_allclose(smoothed_softmax(logits, shifts, weights), plain, atol=1e-14)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0, 6.0])
def test_two_classes_equal_the_logit_smoothed_in_one_dimension(noise):
    u = np.linspace(-8, 8, 41)
    means = np.column_stack([-u / 2, u / 2])
    axis = np.array([[-0.5], [0.5]]) * noise
    covariance = axis @ axis.T
    rule = rule_for(noise_of(covariance).spreads)
    p = smoothed(Softmax(2), means, noise_of(covariance).shifts(rule), rule.weights)
    np.testing.assert_allclose(p[:, 1], Logit().smooth(u, np.full_like(u, noise)), atol=1e-8)


def test_two_layer_of_probits_has_a_closed_form():
    # E Φ(m + τZ) = Φ(m/√(1 + τ²)), whatever the correlation of the indices.
    rng = np.random.default_rng(1)
    root = rng.normal(size=(2, 2))
    covariance = root @ root.T
    means = rng.normal(size=(20, 2))
    link = TwoLayer((0.6, 0.4), inner=Probit())
    noise = noise_of(covariance)
    rule = rule_for(noise.spreads)
    p = smoothed(link, means, noise.shifts(rule), rule.weights)[:, 1]
    exact = ndtr(means / np.sqrt(1 + np.diag(covariance))) @ [0.6, 0.4]
    np.testing.assert_allclose(p, exact, atol=1e-6)


def test_interaction_of_sines_has_a_closed_form():
    # E cos(a + Z) = cos(a)·exp(−½ Var Z), applied to the sum of two indices.
    covariance = np.array([[0.5, 0.2], [0.2, 0.3]])
    link = InteractionIndex(
        parts=(lambda u: 0.25 + 0 * u, lambda u: 0.25 + 0 * u),
        pairs={(0, 1): lambda u, v: 0.4 * np.cos(u + v)},
    )
    means = np.random.default_rng(2).normal(size=(10, 2))
    noise = noise_of(covariance)
    rule = rule_for(noise.spreads)
    p = smoothed(link, means, noise.shifts(rule), rule.weights)[:, 1]
    exact = 0.5 + 0.4 * np.cos(means.sum(axis=1)) * np.exp(-0.5 * covariance.sum())
    np.testing.assert_allclose(p, exact, atol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_error_estimate_covers_the_error(n_classes):
    rng = np.random.default_rng(3)
    K = n_classes
    root = rng.normal(size=(K, K))
    gamma = 2.0 * root @ root.T / K
    C = 0.5 * gamma
    predictor = angular_predictor(Softmax(K), C, gamma, gamma)
    scores = rng.normal(size=(25, K)) @ np.linalg.cholesky(gamma).T
    finer = sobol_rule(predictor.noise.factor.shape[1], 4096, 8)
    exact = smoothed(
        Softmax(K), predictor.means(scores), predictor.noise.shifts(finer), finer.weights
    )
    error = np.abs(predictor.predict(scores) - exact).max()
    # The reference has an error of its own, some 1e-5.
    assert error < 5 * predictor.integration_error(scores) + 5e-5
    assert error < 2e-3


def test_predictions_are_the_same_every_time():
    gamma = np.eye(6)
    first, second = (angular_predictor(Softmax(6), 0.5 * gamma, gamma, gamma) for _ in range(2))
    scores = np.random.default_rng(4).normal(size=(5, 6))
    np.testing.assert_array_equal(first.predict(scores), second.predict(scores))


def test_singular_score_covariance_is_no_obstacle():
    # A third score that repeats the first adds nothing.
    gamma = np.array([[1.0, 0.3], [0.3, 2.0]])
    C = np.array([[0.7, 0.1], [0.2, 0.9]])
    R = np.array([[1.0, 0.2], [0.2, 1.0]])
    twice = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    small = angular_predictor(Softmax(2), C, R, gamma)
    large = angular_predictor(Softmax(2), C @ twice.T, twice @ R @ twice.T, gamma)
    s = np.random.default_rng(5).normal(size=(8, 2))
    np.testing.assert_allclose(large.predict(s @ twice.T), small.predict(s), atol=1e-10)


def test_impossible_angles_are_refused():
    with pytest.raises(ValueError, match="cannot be covariances of the same rows"):
        angular_predictor(Softmax(2), 2 * np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="must be 2 × 2"):
        angular_predictor(Softmax(2), np.eye(2), np.eye(3), np.eye(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Softmax(1), "at least 2"),
        (lambda: Softmax(3, offset=[0.0, 1.0]), "offset must hold 3"),
        (lambda: Softmax(2, covariance=[[1, 2], [2, 1]]), "negative eigenvalue"),
        (lambda: Softmax(2, covariance=[[1, 0], [1, 1]]), "not symmetric"),
        (lambda: Softmax(2)(np.zeros((3, 4))), r"\(n, 2\)"),
        (lambda: TwoLayer((0.9, 0.9)), "at most 1"),
        (lambda: AdditiveIndex(parts=()), "at least one"),
        (lambda: AdditiveIndex(parts=(lambda u: u,))([[7.0]]), "no probability"),
        (lambda: InteractionIndex((np.sin, np.sin), {(1, 0): np.add}), "0 <= k < l"),
        (lambda: CallableMulticlassLink(lambda u: u, 3, 3)(np.ones((2, 3))), "no probabilities"),
        (lambda: CallableMulticlassLink(lambda u: u[:, :1], 3, 3)(np.ones((2, 3))), "shape"),
    ],
)
def test_links_refuse_what_they_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_scalar_links_give_two_columns():
    link = CallableMulticlassLink(lambda u: 1 / (1 + np.exp(-u.sum(axis=1))), 2)
    p = link([[0.0, 0.0], [1.0, 2.0]])
    assert p.shape == (2, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_constant_parts_may_be_numbers():
    additive = AdditiveIndex(parts=(lambda u: 0.2, lambda u: 0.5 * ndtr(u)))
    np.testing.assert_allclose(additive([[1.0, 0.0], [2.0, 0.0]])[:, 1], 0.45)
    both = InteractionIndex(parts=(lambda u: 0.2, lambda u: 0.1), pairs={(0, 1): lambda u, v: 0.3})
    np.testing.assert_allclose(both([[1.0, 0.0], [2.0, 0.0]])[:, 1], 0.6)


def test_units_of_the_scores_do_not_matter():
    gamma = np.array([[1.0, 0.3], [0.3, 2.0]])
    C = np.array([[0.7, 0.1], [0.2, 0.9]])
    R = np.array([[1.0, 0.2], [0.2, 1.0]])
    units = np.array([1.0, 1e-7])
    s = np.random.default_rng(6).normal(size=(8, 2))
    plain = angular_predictor(Softmax(2), C, R, gamma)
    scaled = angular_predictor(Softmax(2), C * units, R * np.outer(units, units), gamma)
    np.testing.assert_allclose(scaled.predict(s * units), plain.predict(s), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score_covariance": [[1.0, 0.5], [0.2, 1.0]]}, "score_covariance is not symmetric"),
        ({"index_covariance": -np.eye(2)}, "index_covariance has a negative eigenvalue"),
        ({"cross_covariance": np.full((2, 2), np.nan)}, "cross_covariance holds NaN"),
        ({"offset": [1.0, 2.0, 3.0]}, "offset must hold 2 finite numbers"),
        ({"center": 0.5}, "center must hold 2 finite numbers"),
    ],
)
def test_the_predictor_refuses_what_is_no_covariance(change, message):
    arguments = {
        "cross_covariance": 0.5 * np.eye(2),
        "score_covariance": np.eye(2),
        "index_covariance": np.eye(2),
    }
    with pytest.raises(ValueError, match=message):
        angular_predictor(Softmax(2), **{**arguments, **change})


def test_rounding_leaves_no_probability_above_one():
    # As many weights as an average has, and a last digit more than one in their sum.
    weights = np.full(10, 0.1) * (1.0 + 4e-16)
    predictor = MulticlassPredictor(
        Softmax(3),
        np.eye(3),
        np.zeros(3),
        Noise(np.eye(3)),
        np.zeros(3),
        tuple((float(weight), 1.0, 0.5) for weight in weights),
    )
    P = predictor.predict(50.0 * np.random.default_rng(0).normal(size=(500, 3)))
    assert P.max() <= 1.0
    assert P.min() >= 0.0
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-15)
