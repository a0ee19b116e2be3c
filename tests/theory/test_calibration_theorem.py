"""Theorems 1 and 2: at the true angle F is exactly calibrated and Bregman-optimal.

(w*ᵀx, ŵᵀx/‖ŵ‖_Σ) is a standard bivariate normal pair with correlation c, whatever n, d and ŵ are,
so the theorems are checked on that pair. Every comparison states its Monte Carlo standard error.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import xlogy
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from angcal import (
    AngularCalibratedClassifier,
    Cauchit,
    ClippedLinear,
    ComplementaryLogLog,
    Logit,
    Probit,
)
from angcal.curve import angular_probability
from angcal.metrics import bregman_divergence
from angcal.simulation import simulate

LINKS = [
    Logit(3.0, 1.0),
    Probit(2.0, -0.5),
    ComplementaryLogLog(1.5, 0.3),
    Cauchit(4.0, 0.0),
    ClippedLinear(3.0, 0.5),
]
COSINES = [-0.4, 0.0, 0.45, 0.9]
N_PAIRS = 200_000
GENERATORS = {
    "squared": (lambda p: p**2 / 2, lambda p: p),
    "kl": (lambda p: xlogy(p, p), lambda p: np.log(p) + 1),
    "exponential": (lambda p: np.exp(3 * p), lambda p: 3 * np.exp(3 * p)),
}


def pairs(cosine: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=N_PAIRS)
    signal = cosine * score + np.sqrt(1 - cosine**2) * rng.normal(size=N_PAIRS)
    return signal, score


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize(("cosine", "seed"), [(c, 10 * i) for i, c in enumerate(COSINES)])
def test_calibrated_at_every_level(link, cosine, seed):
    """E[σ(w*ᵀx) | F = p] = p in each of 40 bins of equal mass, within 4.5 standard errors.

    Under a true null the largest of 40 × 20 standardized deviations exceeds 4.5 in 1 of 200 runs.
    """
    signal, score = pairs(cosine, seed)
    target, predicted = link(signal), angular_probability(link, cosine, score)
    order = np.argsort(score)
    for rows in np.array_split(order, 40):
        gap = target[rows] - predicted[rows]
        if np.mean(predicted[rows] * (1 - predicted[rows])) < 1e-3:
            # Saturated: the few rows that differ are too rare for a normal standard error.
            assert abs(gap.mean()) < 1e-3
            continue
        standard_error = gap.std() / np.sqrt(len(rows))
        assert abs(gap.mean()) < 4.5 * standard_error + 1e-12


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_optimal_for_every_bregman_loss(link):
    """No other function of the score does better: paired excess losses are positive by 5 s.e.

    Rivals: two wrong angles, a shifted offset, plain σ(s), and the chance predictor; for the
    squared, the Kullback–Leibler and the exponential (φ(p) = e^{3p}) divergence.
    """
    cosine = 0.6
    signal, score = pairs(cosine, seed=2)
    best = angular_probability(link, cosine, score)
    rivals = {
        "angle too small": angular_probability(link, 0.85, score),
        "angle too large": angular_probability(link, 0.3, score),
        "shifted": angular_probability(link, cosine, score + 0.3),
        "uncalibrated": link(score),
        "chance": np.full_like(score, best.mean()),
    }
    truth = link(signal)
    for divergence, (generator, gradient) in GENERATORS.items():
        for name, rival in rivals.items():
            excess = bregman_divergence(truth, inside(rival), generator, gradient)
            excess = excess - bregman_divergence(truth, inside(best), generator, gradient)
            standard_error = np.std(excess) / np.sqrt(N_PAIRS)
            assert np.mean(excess) > 5 * standard_error, (divergence, name)


def inside(probability):
    """Off 0 and 1 by a hair: a saturated rival would have an infinite Kullback–Leibler loss."""
    return np.clip(probability, 1e-9, 1 - 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_fitted_classifier_at_its_true_angle_is_calibrated(seed):
    """An actual fit at 200 × 300, its true cosine, 200,000 fresh rows: 20 bins within 4.5 s.e."""
    data = simulate(200, 300, link=Logit(3.0, 1.0), random_state=seed)
    model = LogisticRegression(C=5.0, fit_intercept=False).fit(data.X, data.y)
    coef = model.coef_[0]
    clf = AngularCalibratedClassifier(
        FrozenEstimator(model),
        link=data.link,
        angle=data.cosine(coef),
        covariance=data.covariance,
        polish=True,
    ).fit(data.X, data.y)
    # Polishing moves the weights a little, and the true cosine with them.
    coef = clf.coef_[0]
    clf.set_params(angle=data.cosine(coef)).fit(data.X, data.y)
    scores, signal = data.fresh_scores(coef, N_PAIRS, random_state=seed)
    predicted, target = clf.curve_.predict(scores), data.link(signal)
    for rows in np.array_split(np.argsort(scores), 20):
        gap = target[rows] - predicted[rows]
        assert abs(gap.mean()) < 4.5 * gap.std() / np.sqrt(len(rows))


def test_a_wrong_angle_is_not_calibrated():
    """The test of calibration can fail: an angle off by 0.1 is caught in some bin."""
    link, cosine = Logit(3.0, 1.0), 0.5
    signal, score = pairs(cosine, seed=3)
    target, predicted = link(signal), angular_probability(link, cosine + 0.1, score)
    worst = 0.0
    for rows in np.array_split(np.argsort(score), 40):
        gap = target[rows] - predicted[rows]
        worst = max(worst, abs(gap.mean()) / (gap.std() / np.sqrt(len(rows))))
    assert worst > 10
