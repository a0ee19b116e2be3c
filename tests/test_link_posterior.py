"""The average over what labels leave open of a link: its integral, its limits, its worth."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from angcal import ComplementaryLogLog, Logit, Probit
from angcal.angle import given_angle, make_angle
from angcal.link_posterior import BELIEF, average_curves
from angcal.linkfit import estimate_link
from angcal.prediction import angular_probability

sys.path.insert(0, str(Path(__file__).parent))
from drawn_scores import GRID, labelled


def averaged(scores, labels, family=None, known=None, weights=None, at=GRID):
    family = Logit() if family is None else family
    weights = np.ones(len(labels)) if weights is None else weights
    parts = average_curves(family, scores, labels, weights, known)
    return sum(p.weight * angular_probability(p.link, p.cosine, at) for p in parts)


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
    scores, labels = labelled(n, cosine, Logit(scale, 0.5), seed=3)
    at = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    exact = brute_force(scores, labels, BELIEF.before_labels(None), at)
    assert_allclose(averaged(scores, labels, at=at), exact, atol=0.006)


def test_many_labels_leave_one_curve():
    link, cosine = Logit(3.0, 1.0), 0.6
    scores, labels = labelled(200_000, cosine, link)
    truth = angular_probability(link, cosine, GRID)
    assert_allclose(averaged(scores, labels), truth, atol=0.006)
    best = estimate_link(Logit(), scores, labels, np.ones(len(labels)))
    likeliest = angular_probability(best.link, best.cosine, GRID)
    assert_allclose(averaged(scores, labels), likeliest, atol=0.003)


def test_few_labels_are_believed_less_than_the_best_curve_does():
    """Twelve labels that scores tell apart without error: the best curve is nearly a step."""
    scores = np.linspace(-1.5, 1.5, 12)
    labels = (scores > 0).astype(float)
    best = estimate_link(Logit(), scores, labels, np.ones(12))
    sure = angular_probability(best.link, best.cosine, np.array([1.5]))[0]
    believed = averaged(scores, labels, at=np.array([1.5]))[0]
    assert 0.8 < believed < sure - 0.02


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
    scores, labels = labelled(80, 0.7, Logit(3.0, 0.8), seed=1)
    assert_allclose(
        averaged(-scores, 1.0 - labels, at=-GRID), 1.0 - averaged(scores, labels), atol=1e-9
    )


def test_weights_count_relative_to_each_other():
    scores, labels = labelled(80, 0.7, Logit(3.0), seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    once = averaged(scores, labels, weights=weights)
    assert_allclose(averaged(scores, labels, weights=10.0 * weights), once, atol=1e-12)


def test_curves_rise_between_zero_and_one():
    for seed in range(20):
        scores, labels = labelled(15, 0.8, Logit(5.0), seed=seed)
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
    scores, labels = labelled(40, 0.5, Logit(3.0), seed=2)
    free = average_curves(Logit(), scores, labels, np.ones(40))
    bound = average_curves(Logit(), scores, labels, np.ones(40), given_angle(0.5))
    assert np.ptp([part.cosine for part in bound]) < 0.5 * np.ptp([part.cosine for part in free])


def test_a_score_that_points_away():
    scores, labels = labelled(400, -0.6, Logit(3.0), seed=4)
    p = averaged(scores, labels, known=given_angle(-0.6))
    assert np.all(np.diff(p) < 0)
    truth = angular_probability(Logit(3.0), -0.6, GRID)
    assert np.abs(p - truth).max() < 0.12


# -- families ----------------------------------------------------------------------------------


def test_families_without_a_closed_form_are_not_averaged():
    scores, labels = labelled(80, 0.7, Logit(3.0))
    assert average_curves(ComplementaryLogLog(), scores, labels, np.ones(80)) == ()


def test_the_probit_is_averaged_as_well():
    link = Probit(2.0, 0.5)
    scores, labels = labelled(20_000, 0.7, link, seed=6)
    truth = angular_probability(link, 0.7, GRID)
    assert_allclose(averaged(scores, labels, Probit()), truth, atol=0.015)


# -- what it is for ----------------------------------------------------------------------------


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
        scores, labels = labelled(n, cosine, link, seed=seed)
        best = estimate_link(Logit(), scores, labels, np.ones(n))
        single = divergence(angular_probability(best.link, best.cosine, at))
        gains.append(single - divergence(averaged(scores, labels, at=at)))
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert np.mean(gains) > 3.0 * error
