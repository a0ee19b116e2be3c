"""Both routes to the angle against formulas written out, exact invariances, and their weighing."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angcal import Cauchit, Lasso, Logistic, Logit, Probit, Ridge, Squared
from angcal.angle import (
    DISAGREEMENT,
    ERROR_CORRELATION,
    LARGEST_COSINE,
    Angle,
    AngleError,
    LooInformation,
    combine,
    given_angle,
    holdout_sign,
    likelihood_curve,
    loo_angle,
    loo_information,
    make_angle,
    observable_angle,
    training_sign,
    with_note,
)
from angcal.covariance import ScoreScale, precision, score_scale
from angcal.curve import angular_probability
from angcal.observable_error import coupling_of_rows
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.simulation import simulate
from angcal.solvers.minimize import minimize

LINK = Logit(3.0, 1.0)
EVEN = Logit(3.0, 0.0)


def fitted(n=120, d=60, *, seed=0, link=LINK, loss=None, penalty=None, fit_intercept=False):
    """(simulation, fit) with a penalty of the signal's own size."""
    data = simulate(n, d, link=link, random_state=seed)
    loss = Logistic() if loss is None else loss
    penalty = Ridge(0.5 / d) if penalty is None else penalty
    return data, solve(data.X, data.y.astype(float), loss, penalty, fit_intercept)


def solve(X, y, loss, penalty, fit_intercept):
    start = LinearFit(
        X, y, np.ones(len(y)), np.zeros(X.shape[1]), 0.0, loss, penalty, fit_intercept
    )
    return minimize(start, tol=1e-10)


def scale_of(fit, observables, covariance=None, pool=None):
    ones = np.ones(len(fit.labels))
    return score_scale(
        observables, fit.coef, fit.intercept, case_weights=ones, covariance=covariance, pool=pool
    )


def observable(fit, covariance=None, pool=None, sign=1.0, **options):
    seen = observe(fit)
    inverse = precision(covariance, pool, fit.X, centered=fit.fit_intercept)
    scale = scale_of(fit, seen, covariance, pool)
    return observable_angle(fit, seen, inverse, scale, sign=sign, **options)


# ------------------------------------------------------------------ the Angle itself


@pytest.mark.parametrize("cosine", [1.1, -1.0001, np.nan, np.inf])
def test_a_given_cosine_must_be_one(cosine):
    with pytest.raises(ValueError, match=r"must lie in \[-1, 1\]"):
        given_angle(cosine)


@pytest.mark.parametrize("cosine", [-1, 0, 0.25, 1])
def test_a_given_cosine_has_no_error(cosine):
    angle = given_angle(cosine, 0.8)
    assert (angle.cosine, angle.interval) == (cosine, (cosine, cosine))
    assert (angle.method, angle.standard_error, angle.confidence) == ("given", 0.0, 0.8)
    assert_allclose(angle.degrees, np.degrees(np.arccos(cosine)))
    assert not angle.is_fallback


@pytest.mark.parametrize(("confidence", "quantile"), [(0.6827, 1.0), (0.95, 1.96), (0.99, 2.576)])
def test_the_interval_is_as_wide_as_its_confidence(confidence, quantile):
    angle = make_angle(0.3, 0.03, 0.04, "loo", "because", confidence)
    assert_allclose(angle.standard_error, 0.05)
    assert_allclose(angle.interval, (0.3 - quantile * 0.05, 0.3 + quantile * 0.05), atol=1e-4)
    assert angle.confidence == confidence


@pytest.mark.parametrize(
    ("cosine", "center", "interval"),
    [
        (0.95, 0.95, (0.754, 1.0)),
        (-0.95, -0.95, (-1.0, -0.754)),
        (1.4, 1.0, (0.804, 1.0)),
        (-3.0, -1.0, (-1.0, -0.804)),
    ],
)
def test_the_interval_is_cut_at_one(cosine, center, interval):
    angle = make_angle(cosine, 0.1, 0.0, "loo", "because", 0.95)
    assert angle.cosine == center
    assert_allclose(angle.interval, interval, atol=1e-4)


def test_a_note_is_added_to_the_reason():
    angle = given_angle(0.5)
    assert with_note(angle, "and more").reason == "the cosine was given; and more"
    assert replace(with_note(angle, "x"), reason=angle.reason) == angle


def test_a_fallback_says_that_it_is_one():
    assert Angle(0.0, 1.0, 0.0, (-1.0, 1.0), "fallback", "no").is_fallback


# ------------------------------------------------------------------ its sign


def test_training_sign():
    scores = np.array([-1.0, -0.5, 0.5, 1.0])
    y, ones = np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4)
    assert training_sign(scores, y, ones) == 1.0
    assert training_sign(scores, 1 - y, ones) == -1.0
    # Labels are centered, so a common shift of all scores decides nothing.
    assert training_sign(scores - 100.0, y, ones) == 1.0
    # A weight can turn it around: one heavy row of the wrong order.
    wrong = np.array([1.0, 0.0, 0.0, 1.0])
    assert training_sign(scores, wrong, np.array([9.0, 1.0, 9.0, 1.0])) == -1.0
    assert training_sign(scores, wrong, np.array([1.0, 1.0, 9.0, 9.0])) == 1.0
    assert training_sign(np.zeros(4), y, ones) == 1.0


def test_holdout_sign():
    scores = np.array([-2.0, -1.0, 1.0])
    assert holdout_sign(scores, np.array([0.0, 0.0, 1.0])) == 1.0
    assert holdout_sign(scores, np.array([1.0, 0.0, 1.0])) == -1.0
    assert holdout_sign(scores, np.zeros(3)) == 1.0


# ------------------------------------------------------------------ the observable route


def plain_observable_cosine(fit, sigma, length, deflation=1.0):
    """The module's docstring, line by line, with dense inverses; ridge penalties only."""
    X, y = np.asarray(fit.X), fit.labels
    n, d = X.shape
    u = X @ fit.coef
    psi = -fit.loss.gradient(u + fit.intercept, y)
    D = fit.loss.hessian(u + fit.intercept, y)
    design, penalty = X, n * fit.penalty.strength * np.eye(d)
    if fit.fit_intercept:
        design = np.column_stack([X, np.ones(n)])
        penalty = np.pad(penalty, (0, 1))
    H = np.linalg.inv(design.T @ np.diag(D) @ design + penalty)
    A = design @ H @ design.T
    h = np.diag(A)
    steps = h / (1 - h * D)
    if fit.fit_intercept:
        steps = (h - 1 / D.sum()) / (1 - h * D)
        X = X - X.mean(axis=0)
        u = u - u.mean()
    loo = u - steps * psi
    inverse = np.linalg.inv(sigma)
    v = np.trace(np.diag(D) - np.diag(D) @ A @ np.diag(D)) / n
    N = v * length**2 + np.mean(psi * loo)
    g = X.T @ psi
    pairs = g @ inverse @ g - sum(psi[i] ** 2 * X[i] @ inverse @ X[i] for i in range(n))
    T = deflation * pairs / n**2 + 2 * v * np.mean(psi * u) + v**2 * length**2
    return abs(N) / (np.sqrt(T) * length)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(120, 60), (80, 150)], ids=["tall", "wide"])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_observable_angle_is_the_formula(fit_intercept, shape, loss):
    data, fit = fitted(*shape, loss=loss, fit_intercept=fit_intercept)
    sigma = data.covariance.matrix()
    length = np.sqrt(fit.coef @ sigma @ fit.coef)
    expected = plain_observable_cosine(fit, sigma, length)
    assert 0.1 < expected < 1
    for covariance in (sigma, data.covariance):
        angle = observable(fit, covariance)
        assert_allclose(angle.cosine, expected, rtol=1e-10)
        assert angle.method == "observable"
        assert angle.reason.startswith("Σ⁻¹ from the given covariance")
        assert ("hardly known" in angle.reason) == (np.ptp(angle.interval) > 1)
    assert_allclose(observable(fit, sigma, sign=-1.0).cosine, -expected, rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_pool_is_deflated_by_the_training_rows(fit_intercept):
    data, fit = fitted(120, 40, fit_intercept=fit_intercept)
    pool = data.pool(90, random_state=1)
    mean, scores = pool.mean(axis=0) * fit_intercept, pool @ fit.coef
    sigma = (pool - mean).T @ (pool - mean) / 89
    center = scores.mean() if fit_intercept else 0.0
    rows = fit.X - (fit.X.mean(axis=0) if fit_intercept else 0.0)
    squares = np.diag(rows @ np.linalg.inv(sigma) @ rows.T)
    deflation = 40 / squares.mean()
    assert deflation < 0.8
    expected = plain_observable_cosine(
        fit, sigma, np.sqrt(np.mean((scores - center) ** 2)), deflation
    )
    assert_allclose(observable(fit, pool=pool).cosine, expected, rtol=1e-10)


def test_rotated_columns_change_nothing():
    data, fit = fitted(100, 30)
    sigma = data.covariance.matrix()
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    turned = solve(fit.X @ R, fit.labels, fit.loss, fit.penalty, False)
    first, second = observable(fit, sigma), observable(turned, R.T @ sigma @ R)
    assert_allclose(second.cosine, first.cosine, atol=1e-6)
    assert_allclose(second.standard_error, first.standard_error, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 0.2, 50.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_unit_of_the_columns_changes_nothing(factor, fit_intercept):
    data, fit = fitted(100, 30, fit_intercept=fit_intercept)
    sigma = data.covariance.matrix()
    penalty = Ridge(factor**2 * fit.penalty.strength)
    scaled = solve(factor * fit.X, fit.labels, fit.loss, penalty, fit_intercept)
    first, second = observable(fit, sigma), observable(scaled, factor**2 * sigma)
    assert_allclose(second.cosine, first.cosine, atol=1e-6)
    assert_allclose(second.interval, first.interval, atol=1e-6)
    loo = [loo_of(f, s) for f, s in ((fit, sigma), (scaled, factor**2 * sigma))]
    assert_allclose(loo[1].cosine, loo[0].cosine, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("penalty", [Ridge(1e-4), Ridge(1.0), Lasso(0.01)], ids=repr)
def test_no_cosine_leaves_the_unit_interval(seed, penalty):
    data, fit = fitted(30, 20, seed=seed, penalty=penalty)
    if not np.any(fit.coef):
        pytest.fail("the case tests nothing: all weights are zero")
    try:
        angles = [observable(fit, data.covariance)]
    except AngleError:
        angles = []
    angles.append(loo_of(fit, data.covariance))
    for angle in angles:
        assert abs(angle.cosine) <= 1.0
        assert -1.0 <= angle.interval[0] <= angle.cosine <= angle.interval[1] <= 1.0


def test_an_unstable_denominator_is_an_error():
    """With a Σ far too small the removed diagonal outweighs everything else and T < 0."""
    _, fit = fitted(200, 50, penalty=Ridge(1e-6))
    with pytest.raises(AngleError, match="no stable denominator"):
        observable(fit, 1e-8 * np.eye(50))


def test_an_estimated_covariance_admits_more_bias():
    data, fit = fitted(120, 40)
    known, pooled = observable(fit, data.covariance), observable(fit, pool=data.pool(4000, 1))
    assert_allclose(pooled.systematic_error, 2 * known.systematic_error, rtol=1e-12)
    assert known.systematic_error > 0


# ------------------------------------------------------------------ the leave-one-out route


def loo_of(fit, covariance=None, link=LINK, labels=None, weights=None, **options):
    seen = observe(fit)
    labels = fit.labels if labels is None else labels
    weights = np.ones(len(labels)) if weights is None else weights
    return loo_angle(seen, labels, weights, scale_of(fit, seen, covariance), link, **options)


@pytest.mark.parametrize("link", [LINK, Probit(2.0, 0.5)], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_loo_angle_maximizes_its_likelihood(link, seed):
    data, fit = fitted(200, 100, link=link, seed=seed)
    seen = observe(fit)
    s = seen.calibration_scores / data.norm(fit.coef)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, size=200)

    def likelihood(c):
        p = angular_probability(link, c, s)
        return weights @ np.log(np.where(fit.labels > 0.5, p, 1 - p))

    angle = loo_angle(seen, fit.labels, weights, scale_of(fit, seen, data.covariance), link)
    grid = np.linspace(-0.999, 0.999, 401)
    values = np.array([likelihood(c) for c in grid])
    assert likelihood(angle.cosine) >= values.max() - 1e-8
    assert abs(angle.cosine - grid[values.argmax()]) < 0.01
    assert angle.method == "loo"
    assert f"200 leave-one-out scores under the {link.name} link" in angle.reason


def test_swapped_labels_turn_the_sign_under_a_symmetric_link():
    data, fit = fitted(200, 100, link=EVEN)
    angle = loo_of(fit, data.covariance, EVEN)
    swapped = loo_of(fit, data.covariance, EVEN, labels=1 - fit.labels)
    assert angle.cosine > 0.2
    assert_allclose(swapped.cosine, -angle.cosine, atol=1e-5)


def test_whole_weights_are_repeated_labels():
    data, fit = fitted(150, 60)
    seen, counts = observe(fit), np.random.default_rng(0).integers(1, 4, size=150)
    arrays = ("scores", "linear_scores", "residuals", "curvatures", "leverages", "coupling")
    repeated = replace(seen, **{name: np.repeat(getattr(seen, name), counts) for name in arrays})
    scale = ScoreScale(0.0, data.norm(fit.coef), "covariance")
    weighted = loo_angle(seen, fit.labels, counts.astype(float), scale, LINK)
    labels = np.repeat(fit.labels, counts)
    plain = loo_angle(repeated, labels, np.ones(counts.sum()), scale, LINK)
    assert_allclose(weighted.cosine, plain.cosine, atol=1e-5)
    unweighted = loo_angle(seen, fit.labels, np.ones(150), scale, LINK)
    assert abs(weighted.cosine - unweighted.cosine) > 1e-3


def test_one_impossible_label_does_not_decide_everything():
    for link in (Logit(50.0), Cauchit(1e15)):
        p = likelihood_curve(link, 1.0, np.array([-30.0, 30.0]))
        assert_allclose(np.log(p), [np.log(1e-12), 0.0], atol=1e-10)
        assert_allclose(np.log1p(-p), [0.0, np.log(1e-12)], rtol=1e-4, atol=1e-10)


@pytest.mark.parametrize("link", [LINK, Probit(2.0, 0.5)], ids=repr)
@pytest.mark.parametrize("cosine", [-0.5, 0.3, 0.8])
def test_fisher_is_the_curvature_of_the_expected_likelihood(link, cosine):
    data, fit = fitted(150, 60, link=link)
    seen, scale = observe(fit), ScoreScale(0.0, data.norm(fit.coef), "covariance")
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=150)
    s = scale.standardize(seen.calibration_scores)
    truth = angular_probability(link, cosine, s)

    def expected(c):
        p = angular_probability(link, c, s)
        return weights / weights.mean() @ (truth * np.log(p) + (1 - truth) * np.log(1 - p))

    h = 1e-3
    curvature = (expected(cosine + h) - 2 * expected(cosine) + expected(cosine - h)) / h**2
    found = loo_information(seen, fit.labels, weights, scale, link, cosine)
    assert_allclose(found.fisher, -curvature, rtol=1e-3)


def test_coupling_is_the_squared_lean():
    """C = (Σ b_i c_i)²/Σ c_i, b = ∂²log P/∂c∂s · ψ/‖ŵ‖, with the mixed derivative differenced."""
    link, c, h = Probit(2.0, 0.5), 0.6, 1e-3
    data, fit = fitted(150, 60, link=link)
    seen, norm = observe(fit), data.norm(fit.coef)
    s = seen.calibration_scores / norm

    def log_p(c, s):
        p = angular_probability(link, c, s)
        return np.log(np.where(fit.labels > 0.5, p, 1 - p))

    mixed = log_p(c + h, s + h) - log_p(c + h, s - h) - log_p(c - h, s + h) + log_p(c - h, s - h)
    b = mixed / (4 * h**2) * seen.residuals / norm
    expected = (b @ seen.coupling) ** 2 / seen.coupling.sum()
    scale = ScoreScale(0.0, norm, "covariance")
    found = loo_information(seen, fit.labels, np.ones(150), scale, link, c)
    assert_allclose(found.coupling, expected, rtol=1e-3)
    assert found.coupling > 0
    assert_allclose(found.standard_error**2, found.inflation / found.fisher, rtol=1e-12)


def test_information_at_the_ends_is_finite():
    data, fit = fitted(150, 60)
    seen, scale = observe(fit), ScoreScale(0.0, data.norm(fit.coef), "covariance")
    ends = [
        loo_information(seen, fit.labels, np.ones(150), scale, LINK, c)
        for c in (1.0, LARGEST_COSINE)
    ]
    assert ends[0] == ends[1]
    assert 0 < ends[0].fisher < np.inf


@pytest.mark.parametrize(
    ("fisher", "coupling", "error", "inflation"),
    [(0.0, 0.0, 1.0, 1.0), (100.0, 0.0, 0.1, 1.0), (100.0, 100.0, 0.1 * 2**0.5, 2.0)],
)
def test_standard_error_of_information(fisher, coupling, error, inflation):
    information = LooInformation(fisher, coupling)
    assert_allclose(information.standard_error, error)
    assert_allclose(information.inflation, inflation)
    assert LooInformation(0.01, 0.0).standard_error == 1.0


# ------------------------------------------------------------------ the two together


def route(cosine, sampling=0.0, systematic=0.0, method="loo", confidence=0.95):
    return make_angle(cosine, sampling, systematic, method, "because", confidence)


def loo_weight(observed, loo, combined):
    return (combined.cosine - observed.cosine) / (loo.cosine - observed.cosine)


def test_equal_errors_meet_in_the_middle():
    observed, loo = route(0.4, systematic=0.05), route(0.5, systematic=0.05)
    angle = combine(observed, loo)
    assert_allclose(angle.cosine, 0.45)
    # Two errors of correlation ρ: the mean has variance (1 + ρ)/2 of each.
    assert_allclose(angle.standard_error, 0.05 * np.sqrt((1 + ERROR_CORRELATION) / 2))
    assert angle.method == "combined"
    assert "disagree" not in angle.reason


@pytest.mark.parametrize("better", ["observable", "loo"])
def test_a_tiny_error_dominates(better):
    tiny, large = route(0.45, systematic=1e-4), route(0.5, systematic=0.1)
    angle = combine(tiny, large) if better == "observable" else combine(large, tiny)
    assert_allclose(angle.cosine, 0.45, atol=1e-12)
    assert_allclose(angle.standard_error, 1e-4, rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_shares_and_never_do_harm(seed):
    """Weights lie in [0, 1] and sum to one; the mix is no worse than the better of the two.

    By up to 3.6 % it may be where sampling errors enter: weights see the observable route's typical
    error and the result its rounded one, 1.3 times larger. The worst ratio of errors is 1.6.
    """
    rng = np.random.default_rng(seed)
    so, sl, bias = rng.uniform(0.01, 0.1, size=3)
    observed, loo = route(0.5, so, 0.0), route(0.5 + 1e-6, sl, bias)
    angle = combine(observed, loo)
    weight = loo_weight(observed, loo, angle)
    assert -1e-9 <= weight <= 1 + 1e-9
    shares = [int(x) for x in re.findall(r"(\d+)%", angle.reason)]
    assert len(shares) == 2
    assert abs(sum(shares) - 100) <= 1
    assert abs(shares[0] - 100 * weight) <= 0.51
    assert angle.standard_error <= 1.036 * min(observed.standard_error, loo.standard_error)
    pure = combine(route(0.5, 0.0, so), loo)
    assert pure.standard_error <= min(so, loo.standard_error) * (1 + 1e-12)


def test_the_worst_that_rounding_costs():
    ratios = np.geomspace(0.2, 5.0, 301)
    costs = [
        combine(route(0.5, 0.02 * ratio), route(0.5, 0.02)).standard_error / min(0.02 * ratio, 0.02)
        for ratio in ratios
    ]
    assert 1.03 < max(costs) < 1.036
    assert min(costs) < 0.95


def test_optimal_weights():
    so, sl, rho = 0.04, 0.06, ERROR_CORRELATION
    observed, loo = route(0.5, systematic=so), route(0.55, systematic=sl)
    covariance = np.array([[so**2, rho * so * sl], [rho * so * sl, sl**2]])
    shares = np.linalg.solve(covariance, np.ones(2))
    shares /= shares.sum()
    angle = combine(observed, loo)
    assert_allclose(angle.cosine, shares @ [0.5, 0.55], rtol=1e-12)
    assert_allclose(angle.standard_error**2, shares @ covariance @ shares, rtol=1e-12)


def test_a_low_estimate_does_not_draw_weight_to_itself():
    """The observable error is relative: the same relative error has the same weight."""
    loo = route(0.5, sampling=0.05)
    low, high = route(0.45, sampling=0.045), route(0.55, sampling=0.055)
    weights = [loo_weight(angle, loo, combine(angle, loo)) for angle in (low, high)]
    assert_allclose(weights[0], weights[1], rtol=1e-9)


def test_disagreement_counts_against_the_observable_angle():
    near, far, loo = route(0.5, systematic=0.02), route(0.9, systematic=0.02), route(0.45, 0.02)
    agreeing, disagreeing = combine(near, loo), combine(far, loo)
    assert "disagree" in disagreeing.reason
    assert "disagree" not in agreeing.reason
    assert loo_weight(far, loo, disagreeing) > 0.9
    assert_allclose(loo_weight(near, loo, agreeing), 0.5)
    assert disagreeing.standard_error > agreeing.standard_error


def test_disagreement_begins_at_three_standard_errors():
    spread = np.sqrt(2 * 0.02**2 * (1 - ERROR_CORRELATION))
    for factor, noted in ((0.99, False), (1.01, True)):
        gap = factor * DISAGREEMENT * spread
        angle = combine(route(0.4 + gap, systematic=0.02), route(0.4, systematic=0.02))
        assert ("disagree" in angle.reason) == noted


def test_two_errorless_angles_are_averaged():
    angle = combine(given_angle(0.5), given_angle(0.5))
    assert (angle.cosine, angle.standard_error) == (0.5, 0.0)


def test_the_confidence_is_kept():
    angle = combine(route(0.5, 0.05, confidence=0.5), route(0.5, 0.05, confidence=0.5))
    half = NormalDist().inv_cdf(0.75) * angle.standard_error
    assert_allclose(angle.interval, (0.5 - half, 0.5 + half))


@pytest.mark.parametrize("strength", [1.0, 100.0])
def test_coupling_of_slopes_is_seen_beside_that_of_the_intercept(strength):
    """η = Tr(ΣĤΣĤ); a strong penalty leaves rows nothing in common but the intercept."""
    rng = np.random.default_rng(40_000_004)
    n, d = 100, 80
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    X = rng.normal(size=(n, d)) @ np.linalg.cholesky(covariance).T
    y = (rng.random(n) < EVEN(X[:, 0])).astype(float)
    fit = solve(X, y, Logistic(), Ridge(strength), True)
    found = observe(fit)
    D = found.curvatures
    centered = X - np.average(X, axis=0, weights=D)
    inverse = np.linalg.inv(centered.T @ (D[:, None] * centered) + n * strength * np.eye(d))
    truth = np.trace(covariance @ inverse @ covariance @ inverse)
    step = float(np.mean(found.slope_steps))
    slopes = D - found.leverages * D**2
    assert coupling_of_rows(fit, found, step, float(np.sum(slopes**2)), d) == pytest.approx(
        truth, rel=0.25
    )
