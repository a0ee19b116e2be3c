"""The stated error of the observable angle is its true one, under weak penalties too."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import simulated_trial

from angcal import Logit, Ridge
from angcal.observable_error import Noise

pytestmark = pytest.mark.slow
DRAWS = 120


@pytest.mark.parametrize("design", ["gaussian", "elliptical"])
@pytest.mark.parametrize("strength", [1e-4, 0.05], ids=["weak", "strong"])
def test_the_error_is_that_over_draws(design, strength):
    """rms of (estimate − truth)/error; of 120 draws it has a standard error of 0.065 at least.

    Variances are rounded up by a tenth each, so values are about 0.85. Before the noise of all
    parts was counted, weak penalties had 1.7.
    """
    trials = [
        simulated_trial(
            *(160, 40, 3_000 + seed),
            link=Logit(3.0),
            penalty=Ridge(strength),
            routes="observable",
            design=design,
        )
        for seed in range(DRAWS)
    ]
    found = [(trial.observable, trial.true) for trial in trials if trial.observable is not None]
    assert len(found) > 0.95 * DRAWS
    standard = [(angle.cosine - true) / angle.sampling_error for angle, true in found]
    assert 0.5 < np.sqrt(np.mean(np.square(standard))) < 1.15
    held = np.mean([angle.interval[0] <= true <= angle.interval[1] for angle, true in found])
    assert held >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / DRAWS)


def test_a_weak_signal_has_a_long_interval_and_says_so():
    """Where T is within its noise, N/√T is anything; the interval knows."""
    trials = [
        simulated_trial(
            *(40, 40, 4_000 + seed),
            link=Logit(0.5),
            penalty=Ridge(1e-3),
            routes="observable",
        )
        for seed in range(60)
    ]
    found = [(trial.observable, trial.true) for trial in trials if trial.observable is not None]
    held = np.mean([angle.interval[0] <= true <= angle.interval[1] for angle, true in found])
    assert held >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / len(found))
    long = [angle for angle, _ in found if np.ptp(angle.interval) > 1.2]
    assert len(long) > 0.5 * len(found)
    assert all("hardly known" in angle.reason for angle in long)


def test_a_square_that_is_not_positive_leaves_every_angle():
    """T estimates a square; within its noise it may be negative, and its root is no number."""
    noise = Noise(
        *(60, 20, 1.0, 0.2, 12.0, 2.0, 0.05, 0.1, 0.02, 0.07, 0.05, 0.1),
        **{"length_rows": 0, "inverse_rows": 0, "tails": 1.0},
    )
    assert noise.interval(0.3, -0.01, 3.84) == (-1.0, 1.0)
    low, high = noise.interval(0.3, 0.1, 3.84)
    assert -1.0 <= low < high <= 1.0
