"""Many draws of the paper's setting: what its printed numbers are drawn from.

One trial is one training set. Over all of them, the estimates of ⟨w*, ŵ⟩_Σ, Platt's coefficients
and the sign by 100 holdout labels have distributions; the paper prints one value of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.angle import holdout_sign, training_sign
from angcal.baselines import PlattScaling, platt_limit
from angcal.covariance import Precision, precision
from angcal.simulation import simulate
from studies.engine.experiment import Experiment, Row, Tables, Trial, grid, significant
from studies.engine.runner import trial_generator
from studies.paper.setting import (
    N_FEATURES,
    N_SAMPLES,
    PAPER_LINKS,
    FittedDraw,
    paper_inner_product,
    population_platt,
)

LINK = PAPER_LINKS["sigmoid"]
ROUTES = ("observable", "loo", "auto")


@dataclass(frozen=True)
class Settings:
    """Sizes of the study; the paper's by default."""

    draws: int = 5000
    n: int = N_SAMPLES
    d: int = N_FEATURES
    sign_labels: int = 100
    platt_labels: int = 20_000
    seed: int = 2025


COLUMNS = (
    "cosine",
    "norm",
    "inner",
    "inner_printed_gamma",
    "inner_paper",
    *(f"inner_{route}" for route in ROUTES),
    "platt_a",
    "platt_b",
    "limit_a",
    "limit_b",
    "best_a",
    "best_b",
    "sign_holdout",
    "sign_training",
)


def run(settings: Settings, trial: Trial) -> Tables:
    """Fit one training set and estimate everything the paper prints a number of."""
    rng = trial_generator(settings.seed, "draws", trial["draw"])
    draw = FittedDraw.of(simulate(settings.n, settings.d, link=LINK, random_state=rng))
    row: dict[str, Any] = {"cosine": draw.cosine, "norm": draw.norm}
    row["inner"] = draw.cosine * draw.norm
    row |= inner_products(draw)
    row |= platt_coefficients(draw, settings.platt_labels, rng)
    row |= signs(draw, settings.sign_labels, rng)
    return {"": [{name: significant(value, 6) for name, value in row.items()}]}


def inner_products(draw: FittedDraw) -> Row:
    """⟨w*, ŵ⟩_Σ by the paper's formula, with its printed γ̂ and with df/(n·v̂), and by ours."""
    inverse = precision(draw.data.covariance, None, draw.fit.X, centered=False)
    assert isinstance(inverse, Precision)
    printed = draw.observables.degrees_of_freedom
    found = {
        "inner_printed_gamma": paper_inner_product(
            draw.observables, draw.fit, inverse, gamma=printed
        ),
        "inner_paper": paper_inner_product(draw.observables, draw.fit, inverse),
    }
    angles = draw.angles()
    return found | {f"inner_{route}": angles[route].cosine * draw.norm for route in ROUTES}


def platt_coefficients(draw: FittedDraw, n_labels: int, rng: np.random.Generator) -> Row:
    """(A, B) of σ(Au + B): fitted to labels, the paper's limit (A*, B*), and the true limit.

    The limit of the paper replaces the sigmoid by a probit. The true one minimizes the expected
    log-loss itself.
    """
    scores, labels = draw.labeled(n_labels, rng)
    # scikit-learn's CalibratedClassifierCV, which the paper used, smooths the targets.
    fitted = PlattScaling(LINK, smoothed_targets=True).fit(scores, labels)
    limit = platt_limit(draw.cosine, draw.norm, LINK, approximate=True)
    best = population_platt(draw, LINK)
    return {
        "platt_a": fitted.slope_,
        "platt_b": fitted.intercept_,
        "limit_a": limit[0],
        "limit_b": limit[1],
        "best_a": best.slope_,
        "best_b": best.intercept_,
    }


def signs(draw: FittedDraw, n_labels: int, rng: np.random.Generator) -> Row:
    """Whether the sign of ⟨w*, ŵ⟩_Σ was found, by holdout labels and by the training rows."""
    scores, labels = draw.labeled(n_labels, rng)
    truth = 1.0 if draw.cosine >= 0 else -1.0
    ones = np.ones(len(draw.fit.labels))
    training = training_sign(draw.observables.calibration_scores, draw.fit.labels, ones)
    return {
        "sign_holdout": int(holdout_sign(scores, labels) == truth),
        "sign_training": int(training == truth),
    }


DRAWS = Experiment(
    name="draws",
    full=Settings(),
    quick=Settings(draws=40, n=150, d=300, platt_labels=2000),
    tables={"": COLUMNS},
    trials=lambda settings: grid(draw=range(settings.draws)),
    run=run,
)
