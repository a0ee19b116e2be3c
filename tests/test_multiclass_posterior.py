"""The posterior of slope, offsets and class slopes: derivatives, limits, invariances."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from angcal import AngularCalibratedClassifier
from angcal.baselines import SoftmaxTemperature
from angcal.multiclass.posterior import ClassPosterior, class_posterior
from angcal.simulation import AutoregressiveCovariance, simulate_multiclass


def _draw(n, K, log_slope=0.0, offsets=0.0, class_slopes=0.0, seed=0, scale=2.0):
    """Scores, and labels of the law that the posterior assumes about these parameters."""
    rng = np.random.default_rng(seed)
    s = scale * rng.normal(size=(n, K)) @ (np.eye(K) + 0.2 * rng.normal(size=(K, K)))
    s -= s.mean(axis=1, keepdims=True)
    h = np.exp(log_slope) * (s + class_slopes * (s - s.mean(axis=0))) + offsets
    return s, np.argmax(h + rng.gumbel(size=h.shape), axis=1)


def _posterior(K, n=60, seed=0, log_slope=0.0):
    s, y = _draw(n, K, seed=seed)
    weights = np.random.default_rng(seed + 1).uniform(0.5, 2.0, n)
    return ClassPosterior(s + 3.0, y, weights, log_slope)


# -- the density -------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("log_slope", [0.0, -1.5])
def test_gradient_by_finite_differences(K, log_slope):
    posterior = _posterior(K, log_slope=log_slope)
    theta = 0.3 * np.random.default_rng(2).normal(size=1 + 2 * K)
    _, gradient, _ = posterior._evaluate(theta)
    numeric = [
        (posterior._evaluate(theta + move)[0] - posterior._evaluate(theta - move)[0]) / 2e-5
        for move in 1e-5 * np.eye(1 + 2 * K)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("log_a", "precision"), [(-0.3, 0.7**-2), (0.3, 1.5**-2)])
@pytest.mark.parametrize("K", [3, 5])
def test_fisher_information_by_finite_differences(K, log_a, precision):
    """Σ_i ω_i J_iᵀ(diag p_i − p_ip_iᵀ)J_i plus the prior, J_i by differences of h_i."""
    posterior = _posterior(K)
    theta = 0.3 * np.random.default_rng(2).normal(size=1 + 2 * K)
    theta[0] = posterior.log_slope + log_a
    h = posterior._parts(theta)[0]
    moves = 1e-5 * np.eye(1 + 2 * K)
    J = np.stack(
        [
            (posterior._parts(theta + move)[0] - posterior._parts(theta - move)[0]) / 2e-5
            for move in moves
        ],
        axis=-1,
    )
    p = softmax(h, axis=1)
    D = np.einsum("nk,kl->nkl", p, np.eye(K)) - np.einsum("nk,nl->nkl", p, p)
    expected = np.einsum("n,nka,nkl,nlb->ab", posterior.weights, J, D, J)
    expected += np.diag([precision, *np.full(K, 4.0), *np.full(K, 100.0)])
    np.testing.assert_allclose(posterior._evaluate(theta)[2], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("K", [3, 8])
def test_the_mode_is_a_minimum(K):
    posterior = _posterior(K, n=200)
    theta, information = posterior.mode
    value, gradient, _ = posterior._evaluate(theta)
    # By less than what is asked for, and further steps gain no more.
    assert gradient @ np.linalg.solve(information, gradient) < 1e-6
    rng = np.random.default_rng(3)
    for _ in range(20):
        away = theta + 0.05 * rng.normal(size=len(theta))
        assert posterior._evaluate(away)[0] > value
    assert np.all(np.linalg.eigvalsh(information) > 0)


def test_without_labels_to_speak_of_the_prior_stays():
    s, y = _draw(40, 4, log_slope=-2.0)
    posterior = ClassPosterior(s, y, np.full(40, 1e-9))
    theta, information = posterior.mode
    np.testing.assert_allclose(theta, 0.0, atol=1e-6)
    priors = np.diag(information)
    assert np.isclose(priors[0], 0.7**-2) or np.isclose(priors[0], 1.5**-2)
    np.testing.assert_allclose(priors[1:], [*np.full(4, 4.0), *np.full(4, 100.0)])


# -- many labels -------------------------------------------------------------------------------


def _distance(posterior, truth):
    """Rms over rows and classes of h − h*, of which a softmax sees what sums to zero."""
    theta, _ = posterior.mode
    gap = posterior._parts(theta)[0] - posterior._parts(truth)[0]
    gap -= gap.mean(axis=1, keepdims=True)
    return np.sqrt(np.mean(gap**2))


@pytest.mark.parametrize("K", [3, 6])
def test_the_mode_goes_to_the_truth_as_labels_become_many(K):
    rng = np.random.default_rng(4)
    offsets, slopes = 0.5 * rng.normal(size=K), 0.1 * rng.normal(size=K)
    offsets, slopes = offsets - offsets.mean(), slopes - slopes.mean()
    truth = np.concatenate([[-0.7], offsets, slopes])
    errors = []
    for n in (500, 5_000, 50_000):
        s, y = _draw(n, K, -0.7, offsets, slopes, seed=5)
        errors.append(_distance(class_posterior(s, y, np.ones(n)), truth))
    # Like one over the root of n: a tenth after a hundred times as many labels.
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.2 * errors[0]
    assert errors[2] < 0.05


@pytest.mark.parametrize("K", [3, 10])
def test_the_slope_of_calibrated_scores_goes_to_one(K):
    for n in (400, 40_000):
        s, y = _draw(n, K, seed=6)
        theta, information = class_posterior(s, y, np.ones(n)).mode
        sd = np.sqrt(np.linalg.inv(information)[0, 0])
        assert abs(theta[0]) < 3.0 * sd
        # δ and e, which are zero here, stay within their posterior too.
        sds = np.sqrt(np.diag(np.linalg.inv(information)))
        assert np.sqrt(np.mean((theta / sds) ** 2)) < 1.5
    assert sd < 0.1


def test_a_alone_is_temperature_scaling(monkeypatch):
    # Beyond so many classes nothing else is estimated.
    monkeypatch.setattr("angcal.plan.MOST_SHIFTED_CLASSES", 4)
    s, y = _draw(5_000, 5, log_slope=-0.5, seed=7)
    posterior = class_posterior(s, y, np.ones(5_000))
    theta, information = posterior.mode
    assert information.shape == (1, 1)
    np.testing.assert_array_equal(theta[1:], 0.0)
    temperature = SoftmaxTemperature().fit(s, y).temperature_
    assert np.exp(-theta[0]) == pytest.approx(temperature, rel=2e-3)
    assert posterior.left_out_steps().shape == (5_000, 5)


# -- the map -----------------------------------------------------------------------------------


def test_the_map_averages_over_the_slope():
    posterior = _posterior(4, n=80)
    shares, places = posterior.averaged
    assert shares.sum() == pytest.approx(1.0)
    # The mode is one of the places, and the likeliest.
    np.testing.assert_allclose(places[np.argmax(shares)], posterior.mode[0], atol=1e-12)
    averaged = sum(
        share * softmax(posterior._parts(place)[0], axis=1)
        for share, place in zip(shares, places, strict=True)
    )
    np.testing.assert_allclose(posterior.map.predict(posterior.scores), averaged, atol=1e-12)


def test_labels_that_are_many_leave_nothing_to_average():
    s, y = _draw(40_000, 3, seed=8)
    posterior = class_posterior(s, y, np.ones(40_000))
    sharp = softmax(posterior._parts(posterior.mode[0])[0], axis=1)
    np.testing.assert_allclose(posterior.map.predict(s), sharp, atol=1e-3)


def test_a_constant_in_a_row_of_scores_does_not_matter():
    s, y = _draw(100, 4)
    moved = s + 5.0 * np.random.default_rng(9).normal(size=(100, 1))
    first, second = (class_posterior(each, y, np.ones(100)) for each in (s, moved))
    np.testing.assert_allclose(second.map.predict(moved), first.map.predict(s), atol=1e-9)
    np.testing.assert_allclose(second.left_out_steps(), first.left_out_steps(), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e3])
def test_units_do_not_matter_where_scores_are_no_logits(unit):
    s, y = _draw(150, 3)
    first, second = (
        class_posterior(factor * s, y, np.ones(150), are_logits=False) for factor in (1.0, unit)
    )
    np.testing.assert_allclose(second.map.predict(unit * s), first.map.predict(s), atol=1e-9)


def test_weights_count_by_their_shares():
    s, y = _draw(150, 3)
    weights = np.random.default_rng(10).uniform(0.5, 2.0, 150)
    first, second = (class_posterior(s, y, factor * weights) for factor in (1.0, 7.0))
    np.testing.assert_allclose(second.mode[0], first.mode[0], atol=1e-12)


def test_labels_that_fall_with_the_scores_are_noticed():
    s, y = _draw(200, 4)
    assert class_posterior(s, y, np.ones(200)).rises
    assert not class_posterior(-s, y, np.ones(200)).rises


@pytest.mark.parametrize("K", [3, 6])
def test_steps_are_those_of_a_fit_in_which_others_of_the_class_take_the_row_s_place(K):
    s, y = _draw(120, K, log_slope=-0.5, seed=11)
    weights = np.random.default_rng(12).uniform(0.5, 1.5, 120)
    posterior = ClassPosterior(s, y, weights)
    h = posterior._parts(posterior.mode[0])[0]
    steps = posterior.left_out_steps()
    off, moved = [], []
    for i in range(0, 120, 3):
        alike = y == y[i]
        others = np.where(alike, weights * (1.0 + 1.0 / alike.sum()), weights)
        others[i] -= weights[i]
        without = ClassPosterior(s, y, others)
        move = h[i] - without._parts(without.mode[0])[0][i]
        off.append(np.linalg.norm((steps[i] - steps[i].mean()) - (move - move.mean())))
        moved.append(np.linalg.norm(move - move.mean()))
    assert np.mean(off) < 0.15 * np.mean(moved)


# -- the order of the classes ------------------------------------------------------------------


def _several(K):
    covariance = AutoregressiveCovariance(30, 0.5, variance=1.0)
    data = simulate_multiclass(
        15 * K + 100, n_indices=K, signal=2.0, covariance=covariance, random_state=K
    )
    return data.X, data.y


def _digits():
    X, y = load_digits(return_X_y=True)
    return X[:250] / 16.0, y[:250]


CASES = {
    "K=3": (lambda: _several(3), LogisticRegression(C=0.1, tol=1e-12, max_iter=5000)),
    "K=6": (lambda: _several(6), LogisticRegression(C=0.1, tol=1e-12, max_iter=5000)),
    "K=20": (lambda: _several(20), LogisticRegression(C=0.1, tol=1e-12, max_iter=5000)),
    "digits": (_digits, LogisticRegression(C=1.0, tol=1e-12, max_iter=5000)),
    "one-vs-rest": (
        lambda: _several(6),
        OneVsRestClassifier(LogisticRegression(C=0.1, tol=1e-12, max_iter=5000)),
    ),
    "no probabilities": (lambda: _several(6), LinearSVC(C=0.01, tol=1e-10, max_iter=100_000)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_the_classes_does_not_matter(name):
    draw, model = CASES[name]
    X, y = draw()
    order = np.random.default_rng(13).permutation(y.max() + 1)
    first = AngularCalibratedClassifier(model).fit(X, y)
    second = AngularCalibratedClassifier(model).fit(X, order[y])
    assert first.calibration_.method == second.calibration_.method
    P, Q = first.predict_proba(X), second.predict_proba(X)[:, order]
    np.testing.assert_allclose(Q, P, atol=1e-6)
    np.testing.assert_allclose(second.loo_proba_[:, order], first.loo_proba_, atol=1e-6)
    np.testing.assert_allclose(
        second.angle_.cosine[np.ix_(order, order)], first.angle_.cosine, atol=1e-5
    )
