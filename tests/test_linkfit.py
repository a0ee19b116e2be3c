"""Slope, offset and noise level of an unknown link, from scores and labels alone."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angcal import ComplementaryLogLog, Logit, Probit
from angcal.angle import given_angle, make_angle
from angcal.linkfit import (
    NOISE_LEVELS,
    LinkEstimate,
    LinkProblem,
    _tabulate,
    estimate_link,
    fisher_scoring,
)
from angcal.prediction import angular_probability
from angcal.score_bins import bin_scores

sys.path.insert(0, str(Path(__file__).parent))
from drawn_scores import GRID, labelled


def information(scores, cosine, link):
    """Fisher information of slope a and offset b of F(s) = E base(a·s + b + τZ), τ known."""
    base = link.with_parameters(1.0, 0.0)
    slope, noise = link.scale * cosine, link.scale * np.sqrt(1 - cosine**2)
    m = slope * scores + link.offset
    p, dp = base.smooth(m, noise), base.smooth_derivative(m, noise)
    design = np.column_stack([scores, np.ones_like(scores)])
    return design.T @ (design * (dp**2 / (p * (1 - p)))[:, None])


def curve_error(scores, cosine, link):
    """Standard error of F at GRID for labels at the scores, slope and offset unknown."""
    base = link.with_parameters(1.0, 0.0)
    m = link.scale * cosine * GRID + link.offset
    dp = base.smooth_derivative(m, link.scale * np.sqrt(1 - cosine**2))
    design = np.column_stack([GRID, np.ones_like(GRID)])
    inverse = np.linalg.inv(information(scores, cosine, link))
    return dp * np.sqrt(np.einsum("ij,jk,ik->i", design, inverse, design))


def curve(estimate):
    return angular_probability(estimate.link, estimate.cosine, GRID)


CASES = [
    (Logit(3.0, 1.0), 0.6),
    (Logit(0.8, -1.0), 0.5),
    (Probit(2.0, 0.5), 0.7),
    (ComplementaryLogLog(1.5, -0.5), 0.5),
]
AWAY = (Logit(3.0, 1.0), -0.6)


@pytest.mark.parametrize(("link", "cosine"), CASES, ids=str)
def test_the_curve_is_recovered(link, cosine):
    """|F̂ − F| within 4 standard errors, plus 0.003 for the shape that labels leave open."""
    scores, labels = labelled(20_000, cosine, link)
    # The family's own parameters are not used: they are what is estimated.
    found = estimate_link(type(link)(7.0, 7.0), scores, labels, np.ones_like(scores))
    gap = np.abs(curve(found) - angular_probability(link, cosine, GRID))
    assert np.all(gap <= 4 * curve_error(scores, cosine, link) + 0.003)
    assert found.cosine > 0
    assert type(found.link) is type(link)


@pytest.mark.parametrize(("link", "cosine"), [*CASES, AWAY], ids=str)
def test_a_given_cosine_identifies_scale_and_offset(link, cosine):
    """Within 4 standard errors of (κ, β), the cosine as it was given, of either sign."""
    scores, labels = labelled(20_000, cosine, link, seed=1)
    found = estimate_link(link, scores, labels, np.ones_like(scores), given_angle(cosine))
    assert found.cosine == cosine
    # With c fixed a and τ move together with κ; errors at fixed τ are a lower bound, doubled here.
    errors = 2 * np.sqrt(np.diag(np.linalg.inv(information(scores, cosine, link))))
    assert abs(found.link.scale - link.scale) < 4 * errors[0] / abs(cosine)
    assert abs(found.link.offset - link.offset) < 4 * errors[1]


@pytest.mark.parametrize("given", [0.6, 0.75, 0.9])
def test_a_wrong_cosine_is_respected_and_the_curve_survives(given):
    """The labels determine the curve, not the cosine: each given c has a link that fits."""
    link = Logit(3.0, 1.0)
    scores, labels = labelled(20_000, 0.6, link, seed=2)
    found = estimate_link(link, scores, labels, np.ones_like(scores), given_angle(given))
    assert found.cosine == given
    assert np.max(np.abs(curve(found) - angular_probability(link, 0.6, GRID))) < 0.03


def test_a_cosine_too_small_for_any_link_gives_a_steep_one():
    """Even a threshold, F(s) = Φ(c·s/√(1−c²)), is flatter at c = 0.3 than these labels are."""
    scores, labels = labelled(20_000, 0.6, Logit(3.0, 1.0), seed=2)
    found = estimate_link(Logit(), scores, labels, np.ones_like(scores), given_angle(0.3))
    assert found.cosine == 0.3
    assert 20 < found.link.scale <= np.exp(7.0)
    assert np.ptp(curve(found)) < np.ptp(angular_probability(Logit(3.0, 1.0), 0.6, GRID)) - 0.2


def test_an_uncertain_angle_pulls_less_than_a_certain_one():
    scores, labels = labelled(2000, 0.6, Logit(3.0, 1.0))
    angles = [make_angle(0.9, error, 0.0, "observable", "", 0.95) for error in (0.01, 0.1, 10.0)]
    gaps = [
        abs(estimate_link(Logit(), scores, labels, np.ones(2000), known).cosine - 0.9)
        for known in angles
    ]
    assert gaps[0] < 0.05
    assert gaps[0] < gaps[1] < gaps[2]


def test_turning_scores_and_labels_turns_the_curve():
    scores, labels = labelled(3000, 0.6, Logit(3.0, 1.0))
    ones = np.ones_like(scores)
    found = estimate_link(Logit(), scores, labels, ones)
    turned = estimate_link(Logit(), -scores, 1 - labels, ones)
    assert_allclose(curve(turned), 1 - curve(found)[::-1], atol=2e-3)
    assert turned.link.offset < 0 < found.link.offset


def test_labels_that_fall_with_the_score_are_read_as_no_signal():
    scores, labels = labelled(3000, -0.6, Logit(3.0, 1.0))
    found = estimate_link(Logit(), scores, labels, np.ones(3000))
    assert found.cosine == 0.0
    assert_allclose(curve(found), labels.mean(), atol=1e-3)


@pytest.mark.parametrize("error", [0.013, 0.1])
def test_a_known_negative_angle_is_respected(error):
    scores, labels = labelled(3000, -0.6, Logit(3.0, 1.0))
    known = make_angle(-0.6, error, 0.0, "observable", "", 0.95)
    found = estimate_link(Logit(), scores, labels, np.ones(3000), known)
    assert abs(found.cosine + 0.6) < 4 * error


def test_labels_without_signal_give_a_flat_curve():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=5000), (rng.random(5000) < 0.3).astype(float)
    found = estimate_link(Logit(), scores, labels, np.ones(5000))
    assert np.ptp(curve(found)) < 0.15
    assert_allclose(np.mean(curve(found)), 0.3, atol=0.03)


@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
@pytest.mark.parametrize("n", [20, 200])
def test_separable_labels_give_a_finite_stable_curve(family, n):
    scores = np.linspace(-2.0, 2.0, n)
    labels = (scores > 0.3).astype(float)
    found = estimate_link(family, scores, labels, np.ones(n))
    p = curve(found)
    assert 0 < found.link.scale < 1000
    assert np.all(np.isfinite(p))
    assert np.all(np.diff(p) >= 0)
    assert p.min() < 0.05 < 0.95 < p.max()
    moved = estimate_link(family, scores + 1e-6, labels, np.ones(n))
    assert_allclose(curve(moved), p, atol=0.02)


def test_whole_weights_are_repeated_rows():
    """Up to the prior, which weighs less against more rows: 0.002 at 4000."""
    scores, labels = labelled(4000, 0.6, Logit(3.0, 1.0))
    counts = np.where(labels > 0.5, 3, 1)
    weighted = estimate_link(Logit(), scores, labels, counts.astype(float))
    repeated = estimate_link(
        Logit(), np.repeat(scores, counts), np.repeat(labels, counts), np.ones(counts.sum())
    )
    plain = estimate_link(Logit(), scores, labels, np.ones(4000))
    assert_allclose(curve(weighted), curve(repeated), atol=2e-3)
    assert np.max(np.abs(curve(weighted) - curve(plain))) > 0.1


def test_a_common_factor_on_the_weights_changes_nothing():
    scores, labels = labelled(500, 0.6, Logit(3.0, 1.0))
    first, second = (estimate_link(Logit(), scores, labels, np.full(500, w)) for w in (1.0, 8.0))
    assert_allclose(curve(second), curve(first), atol=1e-12)


# ------------------------------------------------------------------ the loss and its table


@pytest.mark.parametrize("noise", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("family", [Logit(), Probit(), ComplementaryLogLog()], ids=repr)
@pytest.mark.parametrize("known", [None, make_angle(0.4, 0.1, 0.0, "observable", "", 0.95)])
def test_the_gradient_is_that_of_the_loss(noise, family, known):
    scores, labels = labelled(60, 0.6, Logit(3.0, 1.0))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
    problem = LinkProblem(family, bin_scores(scores, labels, weights), known)
    for theta in ([1.0, 0.5], [-2.0, 0.1], [0.3, -1.5]):
        gradient, differences = differences_of(lambda t: problem.at_noise(t, noise), theta)
        assert_allclose(gradient, differences, atol=1e-6 * np.linalg.norm(gradient))


@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
@pytest.mark.parametrize("cosine", [0.0, 0.6, -0.3, 1.0])
def test_the_gradient_at_a_given_cosine_is_that_of_the_loss(family, cosine):
    scores, labels = labelled(60, 0.6, Logit(3.0, 1.0))
    problem = LinkProblem(family, bin_scores(scores, labels, np.ones(60)), None)
    for theta in ([1.0, 0.5], [-2.0, 0.1], [0.3, -1.5]):
        gradient, differences = differences_of(
            lambda t: problem.at_cosine(t, cosine, family.mixture), theta
        )
        assert_allclose(gradient, differences, atol=1e-6 * (1 + np.linalg.norm(gradient)))


def differences_of(evaluate, theta):
    theta, h = np.array(theta), 1e-5
    gradient = evaluate(theta)[1]
    steps = h * np.eye(2)
    return gradient, [(evaluate(theta + e)[0] - evaluate(theta - e)[0]) / (2 * h) for e in steps]


def test_fisher_scoring_finds_the_minimum_of_a_quadratic_within_bounds():
    matrix, target = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([-1.0, 2.0])

    def quadratic(theta):
        off = theta - target
        return 0.5 * off @ matrix @ off, matrix @ off, matrix

    (value, *_), free = fisher_scoring(quadratic, np.array([5.0, 5.0]), (-np.inf, np.inf))
    assert_allclose(free, target, atol=1e-7)
    assert value == pytest.approx(0.0, abs=1e-12)
    _, held = fisher_scoring(quadratic, np.array([5.0, 5.0]), (0.0, np.inf))
    # On the bound a = 0 the other parameter solves 1·(0 + 1) + 2·(b − 2) = 0.
    assert_allclose(held, [0.0, 1.5], atol=1e-7)


def test_closed_form_and_table_find_the_same_curve(monkeypatch):
    """The same fit without the mixture: a table's error is 1e-6, the search in τ leaves 1e-3."""
    scores, labels = labelled(3000, 0.6, Logit(3.0, 1.0))
    for known in (None, given_angle(0.6), make_angle(0.6, 0.1, 0.0, "observable", "", 0.95)):
        fast = estimate_link(Logit(), scores, labels, np.ones(3000), known)
        with monkeypatch.context() as patch:
            patch.setattr(Logit, "mixture", None)
            slow = estimate_link(Logit(), scores, labels, np.ones(3000), known)
        assert_allclose(curve(fast), curve(slow), atol=1e-3)


@pytest.mark.parametrize("noise", NOISE_LEVELS[[0, 4, 8]])
@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
def test_the_table_is_the_smoothed_link(noise, family):
    m = np.random.default_rng(0).uniform(-15, 15, size=400) * np.hypot(1.0, noise)
    value, slope = _tabulate(family, float(noise)).value_and_slope(m)
    assert_allclose(value, family.smooth(m, noise), atol=1e-6)
    assert_allclose(slope, family.smooth_derivative(m, noise), atol=1e-4)


def test_far_beyond_the_table_the_curve_is_flat():
    value, slope = _tabulate(Logit(), 1.0).value_and_slope(np.array([-1e9, 1e9]))
    assert_allclose(value, [0.0, 1.0], atol=1e-11)
    assert np.all(value > 0)
    assert_allclose(slope, 0.0)


def test_the_interval_spans_the_plausible_scales():
    profile = ((0.9, 3.0), (0.6, 3.0 * np.e**1.5), (0.2, 3.0 * np.e**2.5))
    estimate = LinkEstimate(Logit(4.0), 0.8, profile)
    assert estimate.interval(1.0) == (0.8, 0.9)
    assert estimate.interval(2.0) == (0.6, 0.9)
    assert estimate.interval(3.0) == (0.2, 0.9)
    assert estimate.interval(0.0) == (0.8, 0.9)
