"""The observable angle: error, rate, other losses and penalties, intercept, finite pools."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import PAPER_STRENGTH, errors, rmse, simulated_trial

from angcal import (
    ElasticNet,
    Exponential,
    HuberisedHinge,
    Logistic,
    Logit,
    NoPenalty,
    ProbitLikelihood,
    PseudoHuber,
    Quadratic,
    Ridge,
    Squared,
    SquaredHinge,
)

pytestmark = pytest.mark.slow


def test_error_in_the_papers_setting():
    """RMSE ≤ 0.04 at n = 1000, d = 2000; 120 draws, relative standard error 6.5 %."""
    trials = [simulated_trial(1000, 2000, seed, routes="observable") for seed in range(120)]
    assert rmse(trials, "observable") <= 0.04


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_error_falls_like_root_n(ratio):
    """log RMSE against log n has slope in [−0.6, −0.4]; its standard error is about 0.05."""
    sizes, draws = np.array([200, 400, 800, 1600]), [300, 200, 100, 60]
    errors_by_size = [
        rmse(
            [simulated_trial(n, int(n / ratio), s, routes="observable") for s in range(r)],
            "observable",
        )
        for n, r in zip(sizes, draws, strict=True)
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors_by_size), 1, w=np.sqrt(draws))[0]
    assert -0.6 <= slope <= -0.4


def quadratic(d):
    root = np.random.default_rng(0).normal(size=(d, d)) / np.sqrt(d)
    return Quadratic((root @ root.T + 0.2 * np.eye(d)) * PAPER_STRENGTH / d)


LOSSES = {
    "logistic": Logistic(),
    "probit": ProbitLikelihood(),
    "squared": Squared(),
    "squared hinge": SquaredHinge(),
    "Huberised hinge": HuberisedHinge(),
    "exponential": Exponential(),
}
SMOOTH_PENALTIES = {
    "ridge": lambda d: Ridge(PAPER_STRENGTH / d),
    "quadratic": quadratic,
    "pseudo-Huber": lambda d: PseudoHuber(PAPER_STRENGTH / d, 2.0),
}


def bias_in_standard_errors(trials):
    gaps = errors(trials, "observable")
    return gaps.mean() / (gaps.std() / np.sqrt(len(gaps)))


@pytest.mark.parametrize("d", [200, 600])
def test_every_smooth_combination_is_unbiased(d):
    """6 losses × 3 smooth penalties, n = 400, 40 draws each, fresh seeds for each combination.

    Of 18 unbiased estimators one is expected beyond two standard errors, more than four in 1 of
    500 runs, and any beyond 3.5 in 1 of 100.
    """
    deviations = {}
    for i, (loss_name, loss) in enumerate(LOSSES.items()):
        for j, (penalty_name, make) in enumerate(SMOOTH_PENALTIES.items()):
            first = 1000 * (3 * i + j + 1)
            penalty = make(d)
            trials = [
                simulated_trial(400, d, seed, loss=loss, penalty=penalty, routes="observable")
                for seed in range(first, first + 40)
            ]
            deviations[loss_name, penalty_name] = bias_in_standard_errors(trials)
    beyond = {name: z for name, z in deviations.items() if abs(z) > 2}
    assert len(beyond) <= 4, beyond
    assert max(map(abs, deviations.values())) < 3.5, beyond


@pytest.mark.parametrize("loss_name", list(LOSSES))
@pytest.mark.parametrize(("strength", "l1_ratio"), [(0.1, 0.3), (0.2, 1.0)])
def test_sparse_penalties_are_unbiased_at_larger_n(loss_name, strength, l1_ratio):
    """Elastic net and lasso at 800 × 1200: bias within two standard errors or 0.02; 40 draws.

    At 400 × 600 the lasso runs 0.02 to 0.045 low. Explained: a row whose removal changes the
    active set breaks the second-order expansion, and the weight of such rows falls with n.
    """
    penalty = ElasticNet(strength / 1200**0.75, l1_ratio)
    loss = LOSSES[loss_name]
    trials = [
        simulated_trial(800, 1200, seed, loss=loss, penalty=penalty, routes="observable")
        for seed in range(1000, 1040)
    ]
    gaps = errors(trials, "observable")
    assert abs(gaps.mean()) <= max(2 * gaps.std() / np.sqrt(len(gaps)), 0.02)


def test_without_a_penalty():
    """Every loss at n = 400, d = 60, a weaker signal so that the classes overlap; 40 draws each.

    Any of six unbiased estimators is beyond 3 standard errors in 1 of 60 runs.
    """
    for i, loss in enumerate(LOSSES.values()):
        trials = [
            simulated_trial(
                400,
                60,
                seed,
                link=Logit(1.5, 0.5),
                loss=loss,
                penalty=NoPenalty(),
                routes="observable",
            )
            for seed in range(2000 + 100 * i, 2040 + 100 * i)
        ]
        assert abs(bias_in_standard_errors(trials)) < 3
        assert rmse(trials, "observable") < 0.06


def test_every_loss_with_an_intercept():
    """Six losses with ridge and offset 1 at 500 × 250, 40 draws each: bias below 3.2 s.e."""
    for i, loss in enumerate(LOSSES.values()):
        trials = [
            simulated_trial(500, 250, seed, loss=loss, fit_intercept=True, routes="observable")
            for seed in range(4000 + 100 * i, 4040 + 100 * i)
        ]
        assert abs(bias_in_standard_errors(trials)) < 3.2


@pytest.mark.parametrize("offset", [0.0, 1.0, 3.0])
def test_with_an_intercept(offset):
    """Offsets 0, 1 and 3 at 500 × 1000 and 500 × 250: bias within two standard errors or 0.015.

    Explained: centering by the training mean costs a bias of order 1/n, seen at 0.005 to 0.01 here.
    RMSE at most 0.065 (method.md's trial: 0.045 to 0.06); 100 draws.
    """
    for d in (1000, 250):
        trials = [
            simulated_trial(
                500, d, seed, link=Logit(3.0, offset), fit_intercept=True, routes="observable"
            )
            for seed in range(100)
        ]
        gaps = errors(trials, "observable")
        standard_error = gaps.std() / np.sqrt(len(gaps))
        assert abs(gaps.mean()) <= max(2 * standard_error, 0.015)
        assert rmse(trials, "observable") <= 0.065


def test_a_pool_of_nearly_twice_d_rows_is_enough():
    """RMSE with a pool of 1.8·d rows ≤ 1.5 × RMSE with the true Σ.

    300 draws give the ratio a standard error of 0.09. Draws where the estimate gives up count
    with cosine 0. The plug-in without correction would be biased by −0.28 here.
    """
    draws = range(300)
    known = [simulated_trial(300, 500, s, routes="observable") for s in draws]
    pooled = [simulated_trial(300, 500, s, pool_rows=900, routes="observable") for s in draws]
    assert rmse(pooled, "observable") <= 1.5 * rmse(known, "observable")
