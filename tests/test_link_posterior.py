"""The average over what labels leave open of a link: its integral, its limits, its worth."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from angcal import Cauchit, ComplementaryLogLog, Logit, Probit
from angcal.angle import Angle, given_angle, make_angle
from angcal.curve import angular_probability
from angcal.curve.quintics import Quintics
from angcal.leverages.groups import groups_of
from angcal.link_posterior import BELIEF, link_posterior
from angcal.links import Link
from angcal.solvers.fisher_scoring import fisher_scoring

sys.path.insert(0, str(Path(__file__).parent))
from drawn_scores import GRID, labeled


def averaged(scores, labels, family=None, known=None, weights=None, at=GRID):
    family = Logit() if family is None else family
    weights = np.ones(len(labels)) if weights is None else weights
    parts = link_posterior(family, scores, labels, weights, known).parts
    return sum(p.weight * angular_probability(p.link, p.cosine, at) for p in parts)


@dataclass(frozen=True)
class Best:
    """The curve of highest density at the mean cosine, or at a given one."""

    link: Link
    cosine: float
    curve: np.ndarray


def best_curve(family, scores, labels, weights=None, known=None, at=GRID):
    weights = np.ones(len(labels)) if weights is None else weights
    found = link_posterior(family, scores, labels, weights, known)
    link = found.link_at(found.cosine)
    return Best(link, found.cosine, angular_probability(link, found.cosine, at))


def brute_force(scores, labels, cosines, at):
    """The same integral on a fine grid of (log κ, β) at every cosine."""
    log_scales = np.linspace(BELIEF.log_scale - 4.5, BELIEF.log_scale + 4.5, 61)
    total, mass = np.zeros(len(at)), 0.0
    link = Logit()
    for cosine, share in cosines:
        sine = np.sqrt(1.0 - cosine**2)
        for log_scale in log_scales:
            scale = np.exp(log_scale)
            # The same step of η for every κ.
            relative = np.linspace(-4.0, 4.0, 81)
            offsets = relative * np.sqrt(1.0 + (scale * sine) ** 2 / 3.0)
            m = scale * cosine * scores + offsets[:, None]
            p = link.smooth(m, np.full_like(m, scale * sine))
            p = np.clip(p, 1e-12, 1.0 - 1e-12)
            likelihood = np.sum(np.log(np.where(labels == 1.0, p, 1.0 - p)), axis=1)
            prior = -0.5 * ((log_scale - BELIEF.log_scale) / BELIEF.log_scale_sd) ** 2
            prior = prior - 0.5 * (relative / BELIEF.offset_sd) ** 2
            weights = share * np.exp(BELIEF.labels_count_for * likelihood + prior)
            new = scale * cosine * at + offsets[:, None]
            total += weights @ link.smooth(new, np.full_like(new, scale * sine))
            mass += weights.sum()
    return total / mass


@pytest.mark.parametrize(("n", "cosine", "scale"), [(25, 0.7, 3.0), (60, 0.5, 3.0), (60, 0.9, 6.0)])
def test_average_is_the_integral(n, cosine, scale):
    """Laplace about the offset and five steps of log κ against a grid of 61 × 81 for each c."""
    scores, labels = labeled(n, cosine, Logit(scale, 0.5), seed=3)
    at = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    exact = brute_force(scores, labels, BELIEF.before_labels(None), at)
    assert_allclose(averaged(scores, labels, at=at), exact, atol=0.006)


def test_many_labels_leave_one_curve():
    link, cosine = Logit(3.0, 1.0), 0.6
    scores, labels = labeled(200_000, cosine, link)
    truth = angular_probability(link, cosine, GRID)
    assert_allclose(averaged(scores, labels), truth, atol=0.006)
    assert_allclose(averaged(scores, labels), best_curve(Logit(), scores, labels).curve, atol=0.003)


def test_few_labels_are_believed_less_than_the_best_curve_does():
    """Twelve labels that scores tell apart without error: the best curve is nearly a step."""
    scores = np.linspace(-1.5, 1.5, 12)
    labels = (scores > 0).astype(float)
    sure = best_curve(Logit(), scores, labels, at=np.array([1.5])).curve[0]
    believed = averaged(scores, labels, at=np.array([1.5]))[0]
    assert 0.8 < believed < sure - 0.01


def test_doubt_is_left_far_out():
    """Forty labels without an error: tails against the integral, in relative terms."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=40)
    labels = (scores > 0.1).astype(float)
    at = np.array([-3.0, -2.0, 2.0, 3.0])
    exact = brute_force(scores, labels, BELIEF.before_labels(None), at)
    found = averaged(scores, labels, at=at)
    doubt, expected = np.minimum(found, 1.0 - found), np.minimum(exact, 1.0 - exact)
    assert np.all(np.abs(np.log(doubt / expected)) < np.log(2.0))


def test_labels_without_signal_leave_the_prevalence():
    rng = np.random.default_rng(5)
    scores, labels = rng.normal(size=2000), (rng.random(2000) < 0.3).astype(float)
    assert_allclose(averaged(scores, labels), 0.3, atol=0.035)  # two standard errors at s = 2.5
    # Scores that fall with the labels are noise too.
    falls = (rng.random(2000) < expit(-2.0 * scores)).astype(float)
    assert np.ptp(averaged(scores, falls)) < 0.02


def test_mirrored_labels_mirror_the_curve():
    scores, labels = labeled(80, 0.7, Logit(3.0, 0.8), seed=1)
    assert_allclose(
        averaged(-scores, 1.0 - labels, at=-GRID), 1.0 - averaged(scores, labels), atol=1e-9
    )


def test_weights_count_relative_to_each_other():
    scores, labels = labeled(80, 0.7, Logit(3.0), seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    once = averaged(scores, labels, weights=weights)
    assert_allclose(averaged(scores, labels, weights=10.0 * weights), once, atol=1e-12)


def test_curves_rise_between_zero_and_one():
    for seed in range(20):
        scores, labels = labeled(15, 0.8, Logit(5.0), seed=seed)
        p = averaged(scores, labels, at=np.linspace(-30.0, 30.0, 301))
        assert np.all((p > 0.0) & (p < 1.0))
        assert np.all(np.diff(p) > 0.0)


@pytest.mark.parametrize(
    ("middle", "spread"), [(4.0, 0.5), (10.0, 1.0), (0.0, 12.0), (-4.0, 100.0)]
)
def test_scores_far_out_do_not_lose_the_prevalence(middle, spread):
    """A pool from elsewhere, or a covariance in other units; there is no signal to be found."""
    rng = np.random.default_rng(7)
    for n in (40, 1000):
        scores, labels = middle + spread * rng.normal(size=n), (rng.random(n) < 0.3).astype(float)
        assert averaged(scores, labels, at=scores).mean() == pytest.approx(labels.mean(), abs=0.05)


# -- an angle from elsewhere -------------------------------------------------------------------


def test_cosines_before_the_labels():
    assert [cosine for cosine, _ in BELIEF.before_labels(None)] == list(BELIEF.cosines)
    assert BELIEF.before_labels(given_angle(0.4)) == [(0.4, 1.0)]
    near = BELIEF.before_labels(make_angle(0.5, 0.06, 0.08, "observable", "", 0.95))
    shares = np.array([share for _, share in near])
    values = np.array([cosine for cosine, _ in near])
    assert shares.sum() == pytest.approx(1.0)
    assert shares @ values == pytest.approx(0.5)
    assert np.sqrt(shares @ (values - 0.5) ** 2) == pytest.approx(0.1)
    assert (
        max(cosine for cosine, _ in BELIEF.before_labels(make_angle(0.95, 0.1, 0.0, "", "", 0.95)))
        == 1.0
    )


def test_a_known_angle_narrows_the_average():
    scores, labels = labeled(40, 0.5, Logit(3.0), seed=2)
    free = link_posterior(Logit(), scores, labels, np.ones(40)).parts
    bound = link_posterior(Logit(), scores, labels, np.ones(40), given_angle(0.5)).parts
    assert np.ptp([part.cosine for part in bound]) < 0.5 * np.ptp([part.cosine for part in free])


def test_a_score_that_points_away():
    scores, labels = labeled(400, -0.6, Logit(3.0), seed=4)
    p = averaged(scores, labels, known=given_angle(-0.6))
    assert np.all(np.diff(p) < 0)
    truth = angular_probability(Logit(3.0), -0.6, GRID)
    assert np.abs(p - truth).max() < 0.12


# -- families ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [ComplementaryLogLog, Cauchit])
def test_families_without_a_closed_form_are_averaged_too(family):
    """Many labels leave the truth, few labels leave more doubt than the best curve has."""
    link = family(2.0, -0.3)
    scores, labels = labeled(6000, 0.7, link, seed=6)
    truth = angular_probability(link, 0.7, GRID)
    assert_allclose(averaged(scores, labels, family()), truth, atol=0.03)
    scores = np.linspace(-1.5, 1.5, 12)
    labels = (scores > 0).astype(float)
    at = np.array([1.5])
    assert (
        averaged(scores, labels, family(), at=at)
        < best_curve(family(), scores, labels, at=at).curve
    )


def test_the_probit_is_averaged_as_well():
    link = Probit(2.0, 0.5)
    scores, labels = labeled(20_000, 0.7, link, seed=6)
    truth = angular_probability(link, 0.7, GRID)
    assert_allclose(averaged(scores, labels, Probit()), truth, atol=0.015)


# -- what it is for ----------------------------------------------------------------------------


def likeliest_curve(scores, labels, at):
    """The single curve of highest density over all cosines."""
    found = link_posterior(Logit(), scores, labels, np.ones(len(labels)))

    def density(cosine):
        link = found.link_at(cosine)
        return found._density(np.array([np.log(link.scale), link.offset]), cosine)[0]

    best = min(BELIEF.cosines, key=density)
    return angular_probability(found.link_at(best), best, at)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "cosine"), [(40, 0.5), (40, 0.8), (80, 0.7)])
def test_averages_are_nearer_to_the_truth_than_best_curves(n, cosine):
    """Mean divergence from the truth over 800 draws: lower by more than three standard errors."""
    link = Logit(3.0, 0.5)
    at = np.linspace(-2.5, 2.5, 51)
    density = np.exp(-0.5 * at**2) / np.exp(-0.5 * at**2).sum()
    truth = angular_probability(link, cosine, at)

    def divergence(p):
        p = np.clip(p, 1e-9, 1.0 - 1e-9)
        return density @ (
            truth * np.log(truth / p) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - p))
        )

    gains = []
    for seed in range(800):
        scores, labels = labeled(n, cosine, link, seed=seed)
        single = divergence(likeliest_curve(scores, labels, at))
        gains.append(single - divergence(averaged(scores, labels, at=at)))
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert np.mean(gains) > 3.0 * error


# -- the link and the cosine -------------------------------------------------------------------


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


CASES = [
    (Logit(3.0, 1.0), 0.6),
    (Logit(0.8, -1.0), 0.5),
    (Probit(2.0, 0.5), 0.7),
    (ComplementaryLogLog(1.5, -0.5), 0.5),
]
AWAY = (Logit(3.0, 1.0), -0.6)


@pytest.mark.parametrize(("link", "cosine"), CASES, ids=str)
def test_the_curve_is_recovered(link, cosine):
    """|F̂ − F| within 4 standard errors, plus 0.005 for the shape that labels leave open."""
    scores, labels = labeled(20_000, cosine, link)
    # The family's own parameters are not used: they are what is estimated.
    found = best_curve(type(link)(7.0, 7.0), scores, labels)
    gap = np.abs(found.curve - angular_probability(link, cosine, GRID))
    assert np.all(gap <= 4 * curve_error(scores, cosine, link) + 0.005)
    assert found.cosine > 0
    assert type(found.link) is type(link)


@pytest.mark.parametrize(("link", "cosine"), [*CASES, AWAY], ids=str)
def test_a_given_cosine_identifies_scale_and_offset(link, cosine):
    """Within 4 standard errors of (κ, β), the cosine as it was given, of either sign."""
    scores, labels = labeled(20_000, cosine, link, seed=1)
    found = best_curve(link, scores, labels, known=given_angle(cosine))
    assert found.cosine == cosine
    # With c fixed a and τ move together with κ; errors at fixed τ are a lower bound, doubled here.
    errors = 2 * np.sqrt(np.diag(np.linalg.inv(information(scores, cosine, link))))
    assert abs(found.link.scale - link.scale) < 4 * errors[0] / abs(cosine)
    assert abs(found.link.offset - link.offset) < 4 * errors[1]


@pytest.mark.parametrize("given", [0.6, 0.75, 0.9])
def test_a_wrong_cosine_is_respected_and_the_curve_survives(given):
    """The labels determine the curve, not the cosine: each given c has a link that fits."""
    link = Logit(3.0, 1.0)
    scores, labels = labeled(20_000, 0.6, link, seed=2)
    found = best_curve(link, scores, labels, known=given_angle(given))
    assert found.cosine == given
    assert np.max(np.abs(found.curve - angular_probability(link, 0.6, GRID))) < 0.03


def test_a_cosine_too_small_for_any_link_gives_a_steep_one():
    """Even a threshold, F(s) = Φ(c·s/√(1−c²)), is flatter at c = 0.3 than these labels are."""
    scores, labels = labeled(20_000, 0.6, Logit(3.0, 1.0), seed=2)
    found = best_curve(Logit(), scores, labels, known=given_angle(0.3))
    assert 20 < found.link.scale <= np.exp(7.0)
    assert np.ptp(found.curve) < np.ptp(angular_probability(Logit(3.0, 1.0), 0.6, GRID)) - 0.2


def test_an_uncertain_angle_pulls_less_than_a_certain_one():
    scores, labels = labeled(2000, 0.6, Logit(3.0, 1.0))
    angles = [make_angle(0.9, error, 0.0, "observable", "", 0.95) for error in (0.01, 0.1, 0.3)]
    gaps = [abs(best_curve(Logit(), scores, labels, known=known).cosine - 0.9) for known in angles]
    assert gaps[0] < 0.05
    assert gaps[0] < gaps[1] < gaps[2]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_angle_near_zero_has_no_sign(sign):
    """Two standard errors on the side of zero; the other side does not matter."""
    near, far = ((0.3, 0.9), (0.4, 0.01)) if sign > 0 else ((0.9, 0.3), (0.01, 0.4))
    known = Angle(sign * 0.7, 0.01, 0.0, (-1.0, 1.0), "observable", "", 0.95, 0.01, near)
    assert known.has_sign
    assert not replace(known, sides=far).has_sign


@pytest.mark.parametrize("error", [0.013, 0.1])
def test_a_known_negative_angle_is_respected(error):
    scores, labels = labeled(3000, -0.6, Logit(3.0, 1.0))
    known = make_angle(-0.6, error, 0.0, "observable", "", 0.95)
    assert abs(best_curve(Logit(), scores, labels, known=known).cosine + 0.6) < 4 * error


def test_labels_that_fall_with_the_score_are_no_signal():
    scores, labels = labeled(3000, -0.6, Logit(3.0, 1.0))
    ones = np.ones(3000)
    assert not link_posterior(Logit(), scores, labels, ones).rises
    assert link_posterior(Logit(), -scores, labels, ones).rises


def test_whole_weights_are_repeated_rows():
    """Up to the prior, which weighs less against more rows: 0.002 at 4000."""
    scores, labels = labeled(4000, 0.6, Logit(3.0, 1.0))
    counts = np.where(labels > 0.5, 3, 1)
    weighted = averaged(scores, labels, weights=counts.astype(float))
    repeated = averaged(np.repeat(scores, counts), np.repeat(labels, counts))
    assert_allclose(weighted, repeated, atol=3e-3)
    assert np.max(np.abs(weighted - averaged(scores, labels))) > 0.1


@pytest.mark.parametrize("family", [Logit(), Probit()], ids=repr)
@pytest.mark.parametrize("n", [20, 200])
def test_separable_labels_give_a_finite_stable_curve(family, n):
    scores = np.linspace(-2.0, 2.0, n)
    labels = (scores > 0.3).astype(float)
    found = best_curve(family, scores, labels)
    assert 0 < found.link.scale < 1000
    assert np.all(np.isfinite(found.curve))
    assert np.all(np.diff(found.curve) >= 0)
    assert found.curve.min() < 0.1 < 0.9 < found.curve.max()
    assert_allclose(best_curve(family, scores + 1e-6, labels).curve, found.curve, atol=0.02)


def test_the_mean_cosine_and_its_interval_are_those_of_a_grid():
    """Against the integral over a grid of (log κ, β) at every cosine."""
    scores, labels = labeled(60, 0.7, Logit(3.0, 0.5), seed=3)
    found = link_posterior(Logit(), scores, labels, np.ones(60))
    masses = []
    for cosine in BELIEF.cosines:
        sine, mass = np.sqrt(1.0 - cosine**2), 0.0
        for log_scale in np.linspace(BELIEF.log_scale - 4.5, BELIEF.log_scale + 4.5, 61):
            scale, relative = np.exp(log_scale), np.linspace(-4.0, 4.0, 81)
            offsets = relative * np.sqrt(1.0 + (scale * sine) ** 2 / 3.0)
            m = scale * cosine * scores + offsets[:, None]
            p = np.clip(Logit().smooth(m, np.full_like(m, scale * sine)), 1e-12, 1.0 - 1e-12)
            logs = np.sum(np.log(np.where(labels == 1.0, p, 1.0 - p)), axis=1)
            prior = -0.5 * ((log_scale - BELIEF.log_scale) / BELIEF.log_scale_sd) ** 2
            prior = prior - 0.5 * (relative / BELIEF.offset_sd) ** 2
            mass += np.exp(BELIEF.labels_count_for * logs + prior).sum()
        masses.append(mass)
    masses = np.array(masses) / np.sum(masses)
    assert found.cosine == pytest.approx(masses @ np.array(BELIEF.cosines), abs=0.02)
    low, high = found.interval(0.9)
    assert 0.0 <= low < found.cosine < high <= 1.0
    narrow = found.interval(0.5)
    assert low < narrow[0] < narrow[1] < high


def test_more_labels_narrow_the_interval():
    widths = []
    for n in (30, 300, 30_000):
        scores, labels = labeled(n, 0.6, Logit(3.0, 1.0))
        low, high = link_posterior(Logit(), scores, labels, np.ones(n)).interval(0.95)
        assert low <= 0.6 <= high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


# -- without a row's own label -----------------------------------------------------------------


@pytest.mark.parametrize(("n", "cosine"), [(25, 0.8), (60, 0.6)])
def test_leave_one_out_is_that_of_refits(n, cosine):
    """Against n posteriors, each without one row: most of what the own label does is undone."""
    scores, labels = labeled(n, cosine, Logit(3.0, 0.5), seed=4)
    ones = np.ones(n)
    found = link_posterior(Logit(), scores, labels, ones).leave_one_out(scores, labels, ones)
    with_own = averaged(scores, labels, at=scores)
    true = np.array(
        [
            averaged(scores[i != np.arange(n)], labels[i != np.arange(n)], at=scores[[i]])[0]
            for i in range(n)
        ]
    )
    own_effect = np.abs(with_own - true)
    assert np.mean(np.abs(found - true)) < 0.2 * own_effect.mean()
    # Leaving its own label out never makes a row's label likelier.
    sides = np.where(labels == 1.0, with_own - found, found - with_own)
    assert sides.min() > -1e-3


@pytest.mark.parametrize("grouped", [False, True])
def test_leave_one_out_of_many_rows_is_that_of_the_formula(grouped, monkeypatch):
    """Quintics between nodes, and one score far out that would ask for many."""
    scores, labels = labeled(3000, 0.6, Logit(3.0, 0.5), seed=5)
    scores[7] = 1e5
    found = link_posterior(Logit(), scores, labels, np.ones(3000))
    groups = groups_of(np.arange(3000) // 3) if grouped else None
    given = (scores, labels, np.ones(3000), groups)
    quick = found.leave_one_out(*given)
    monkeypatch.setattr(Quintics, "where_fewer", lambda *_: None)
    formula = found.leave_one_out(*given)
    assert 0.0 < np.abs(quick - formula).max() < 1e-9


# -- the density and its optimum ---------------------------------------------------------------


@pytest.mark.parametrize("family", [Logit(), Probit(), ComplementaryLogLog()], ids=repr)
@pytest.mark.parametrize("cosine", [0.0, 0.6, -0.3, 1.0])
def test_the_gradient_is_that_of_the_density(family, cosine):
    scores, labels = labeled(60, 0.6, Logit(3.0, 1.0))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
    problem = link_posterior(family, scores, labels, weights)
    for theta in ([1.0, 0.5], [-2.0, 0.1], [0.3, -1.5]):
        theta, h = np.array(theta), 1e-5
        gradient = problem._density(theta, cosine)[1]
        differences = [
            (problem._density(theta + e, cosine)[0] - problem._density(theta - e, cosine)[0])
            / (2 * h)
            for e in h * np.eye(2)
        ]
        # Quadrature is good to 1e-10 of p, where the smallest 1 − p is 1e-6.
        accuracy = 2e-6 if family.mixture is not None else 1e-4
        assert_allclose(gradient, differences, atol=accuracy * (1 + np.linalg.norm(gradient)))


def test_fisher_scoring_finds_the_minimum_of_a_quadratic_within_bounds():
    matrix, target = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([-1.0, 2.0])

    def quadratic(theta):
        off = theta - target
        return 0.5 * off @ matrix @ off, matrix @ off, matrix

    (value, *_), free = fisher_scoring(quadratic, np.array([5.0, 5.0]), (-np.inf, np.inf), 1e-16)
    assert_allclose(free, target, atol=1e-7)
    assert value == pytest.approx(0.0, abs=1e-12)
    _, held = fisher_scoring(quadratic, np.array([5.0, 5.0]), (0.0, np.inf), 1e-16)
    # On the bound a = 0 the other parameter solves 1·(0 + 1) + 2·(b − 2) = 0.
    assert_allclose(held, [0.0, 1.5], atol=1e-7)


def test_closed_form_and_quadrature_find_the_same_curve(monkeypatch):
    scores, labels = labeled(300, 0.6, Logit(3.0, 1.0))
    fast = averaged(scores, labels)
    monkeypatch.setattr(Logit, "mixture", None)
    assert_allclose(averaged(scores, labels), fast, atol=1e-5)


def test_an_angle_is_known_no_better_than_the_cells_of_its_nodes():
    """Of very many labels one node has all the weight, and other cosines were not looked at."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200_000)
    labels = (rng.random(200_000) < Logit(3.0, 1.0)(scores)).astype(float)
    found = link_posterior(Logit(), scores, labels, np.ones(200_000))
    assert found.curves.weights[found.curves.cosines == 1.0].sum() > 0.999
    assert found.cosine_sd == pytest.approx(0.05 / np.sqrt(12.0), rel=0.1)
