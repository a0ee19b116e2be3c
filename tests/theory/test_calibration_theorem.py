"""Theorems 1 and 2: at the true angle F is exactly calibrated and Bregman-optimal.

(w*ᵀx, ŵᵀx/‖ŵ‖_Σ) is a standard bivariate normal pair with correlation c, whatever n, d and ŵ are,
so the theorems are checked on that pair. Every comparison states its Monte Carlo standard error.
"""

from __future__ import annotations

import numpy as np
import pytest

from angcal import Cauchit, ClippedLinear, ComplementaryLogLog, Logit, Probit
from angcal.metrics import mean_bregman_divergence
from angcal.prediction import angular_probability

LINKS = [
    Logit(3.0, 1.0),
    Probit(2.0, -0.5),
    ComplementaryLogLog(1.5, 0.3),
    Cauchit(4.0, 0.0),
    ClippedLinear(3.0, 0.5),
]
COSINES = [-0.4, 0.0, 0.45, 0.9]
N_PAIRS = 200_000


def pairs(cosine: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=N_PAIRS)
    signal = cosine * score + np.sqrt(1 - cosine**2) * rng.normal(size=N_PAIRS)
    return signal, score


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("cosine", COSINES)
def test_calibrated_at_every_level(link, cosine):
    """E[σ(w*ᵀx) | F = p] = p in each of 40 bins of equal mass, within 4.5 standard errors.

    Under a true null the largest of 40 × 20 standardised deviations exceeds 4.5 in 1 of 200 runs.
    """
    signal, score = pairs(cosine, seed=1)
    target, predicted = link(signal), angular_probability(link, cosine, score)
    order = np.argsort(score)
    for rows in np.array_split(order, 40):
        gap = target[rows] - predicted[rows]
        standard_error = gap.std() / np.sqrt(len(rows))
        assert abs(gap.mean()) < 4.5 * standard_error + 1e-12


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_optimal_for_every_bregman_loss(link):
    """No other function of the score does better: paired excess losses are positive by 5 s.e.

    Rivals: two wrong angles, a shifted offset, plain σ(s), and the chance predictor; for the
    squared, the Kullback–Leibler and the Itakura–Saito divergence.
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
    for divergence in ("squared", "kl", "itakura-saito"):
        for name, rival in rivals.items():
            excess = [
                bregman(divergence, truth[rows], rival[rows])
                - bregman(divergence, truth[rows], best[rows])
                for rows in np.array_split(np.arange(N_PAIRS), 100)
            ]
            standard_error = np.std(excess) / np.sqrt(len(excess))
            assert np.mean(excess) > 5 * standard_error, (divergence, name)


def bregman(divergence, truth, predicted):
    """Mean divergence, away from 0 and 1 where the third one is infinite."""
    inside = [np.clip(p, 1e-6, 1 - 1e-6) for p in (truth, predicted)]
    return mean_bregman_divergence(*inside, divergence=divergence)


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
