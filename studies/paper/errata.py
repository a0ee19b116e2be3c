r"""Two of the paper's gaps measured: Σ̂⁻¹ from a finite pool, and fits with an intercept.

Rows x ~ N(0, Σ), Σ_kl = 0.5^\|k−l\|/d; ridge-penalized logistic fits as in
:mod:`studies.paper.setting`.

*Pools.* From m rows Σ̂⁻¹ is too large by about m/(m − d − 1), and the paper's T is a difference of
terms of which one has that factor. *Intercept.* The paper fits none. With b̂ left in Xŵ its formula
measures b̂ as well; without b̂ in the fit, a link with an offset makes every prediction wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from angcal._typing import Floats
from angcal.angle import AngleError, combine, loo_angle, observable_angle, training_sign
from angcal.baselines import PlattScaling, TemperatureScaling
from angcal.covariance import Precision, ScoreScale, precision, score_scale
from angcal.links import Logit
from angcal.metrics import expected_calibration_error
from angcal.simulation import simulate
from studies.engine.experiment import Experiment, Row, Tables, Trial, grid
from studies.engine.runner import trial_generator
from studies.paper.setting import RIDGE, FittedDraw, paper_inner_product

KNOWN = float("inf")
"""The ratio m/d that stands for Σ known."""


@dataclass(frozen=True)
class PoolSettings:
    """Sizes of the experiment on pools; ``ratios`` are m/d."""

    samples: int = 300
    features: int = 500
    ratios: tuple[float, ...] = (1.2, 1.5, 1.8, 2.5, 4.0, 8.0, 16.0)
    draws: int = 100
    seed: int = 2025


@dataclass(frozen=True)
class InterceptSettings:
    """Sizes of the experiment on intercepts; ``offsets`` are b in sigmoid(3t + b)."""

    samples: int = 500
    features: int = 1000
    offsets: tuple[float, ...] = (0.0, 1.0, 3.0)
    weak_ridge: float = 0.01
    test_rows: int = 20_000
    refit_rows: int = 200_000
    draws: int = 100
    seed: int = 2025


def paper_cosine(
    draw: FittedDraw, inverse: Precision, scale: ScoreScale, deflate: bool, naive: bool = False
) -> float:
    """±â/‖ŵ‖_Σ by the paper's eq. (bellec) with γ̂ = df/(n·v̂); NaN where it has no square root.

    The sign comes from the training rows. ``naive`` leaves the intercept in Xŵ.
    """
    o = draw.observables
    seen = replace(o, linear_scores=o.scores) if naive else o
    size = paper_inner_product(seen, draw.fit, inverse, deflate=deflate)
    return _sign(draw, scale) * size / scale.norm


def library_cosines(draw: FittedDraw, inverse: Precision, scale: ScoreScale) -> tuple[float, float]:
    """The observable angle's c, NaN where it gives up, and the c of ``angle="auto"``."""
    fit, o = draw.fit, draw.observables
    loo = loo_angle(o, fit.labels, np.ones(len(fit.labels)), scale, draw.data.link)
    try:
        observable = observable_angle(fit, o, inverse, scale, sign=_sign(draw, scale))
    except AngleError:
        return np.nan, loo.cosine
    return observable.cosine, combine(observable, loo).cosine


def _sign(draw: FittedDraw, scale: ScoreScale) -> float:
    scores = draw.observables.calibration_scores - scale.center
    return training_sign(scores, draw.fit.labels, np.ones(len(scores)))


def _sigma(draw: FittedDraw, pool: Floats | None) -> tuple[Precision, ScoreScale]:
    """Σ⁻¹ and ‖ŵ‖_Σ, from the pool or as they are."""
    covariance = draw.data.covariance if pool is None else None
    centered = draw.fit.fit_intercept
    inverse = precision(covariance, pool, draw.fit.X, centered=centered)
    if isinstance(inverse, str):
        raise ValueError(inverse)
    scale = score_scale(
        draw.observables,
        draw.fit.coef,
        draw.fit.intercept,
        case_weights=np.ones(len(draw.fit.labels)),
        covariance=covariance,
        pool=pool,
    )
    return inverse, scale


def _angle_row(method: str, true: float, cosine: float, cut: bool = True) -> dict[str, float | str]:
    """A method that gives up says nothing of the angle, which is what a cosine of 0 says."""
    gave_up = bool(np.isnan(cosine))
    found = 0.0 if gave_up else float(np.clip(cosine, -1.0, 1.0)) if cut else cosine
    return {"method": method, "true": true, "cosine": found, "gave_up": gave_up}


# -- pools -----------------------------------------------------------------------------------------


def run_pools(settings: PoolSettings, trial: Trial) -> Tables:
    """ĉ by every method, from every size of pool and with Σ known."""
    rng = trial_generator(settings.seed, "pools", trial["draw"])
    link = Logit(scale=3.0, offset=1.0)
    data = simulate(settings.samples, settings.features, link=link, random_state=rng)
    draw = FittedDraw.of(data)
    sizes = [round(ratio * settings.features) for ratio in settings.ratios]
    pool = data.pool(max(sizes), random_state=rng)
    rows: list[Row] = []
    for ratio, size in zip(settings.ratios, sizes, strict=True):
        rows += _pool_rows(draw, ratio, size, pool[:size])
    return {"": [*rows, *_pool_rows(draw, KNOWN, 0, None)]}


def _pool_rows(draw: FittedDraw, ratio: float, size: int, pool: Floats | None) -> list[Row]:
    inverse, scale = _sigma(draw, pool)
    observable, both = library_cosines(draw, inverse, scale)
    found = {"paper": paper_cosine(draw, inverse, scale, deflate=False)}
    if pool is not None:
        found["paper, corrected"] = paper_cosine(draw, inverse, scale, deflate=True)
    found |= {"angular, observable": observable, "angular, both": both}
    return [
        {"ratio": ratio, "pool_rows": size, **_angle_row(method, draw.cosine, cosine)}
        for method, cosine in found.items()
    ]


POOLS = Experiment(
    name="pools",
    full=PoolSettings(),
    quick=PoolSettings(samples=90, features=150, ratios=(1.2, 1.8, 4.0, 16.0), draws=16),
    tables={"": ("ratio", "pool_rows", "method", "true", "cosine", "gave_up")},
    # All pools of a draw begin with the same rows.
    trials=lambda settings: grid(draw=range(settings.draws)),
    run=run_pools,
)


# -- intercept -------------------------------------------------------------------------------------


def run_intercept(settings: InterceptSettings, trial: Trial) -> Tables:
    """ĉ of the fit with intercept, and how calibrated fits with and without one are."""
    rng = trial_generator(settings.seed, "intercept", trial["offset"], trial["draw"])
    link = Logit(scale=3.0, offset=trial["offset"])
    data = simulate(settings.samples, settings.features, link=link, random_state=rng)
    free = FittedDraw.of(data, RIDGE, intercept=True)
    fits = (
        ("no intercept", RIDGE, FittedDraw.of(data, RIDGE)),
        ("intercept", RIDGE, free),
        ("intercept", settings.weak_ridge, FittedDraw.of(data, settings.weak_ridge, True)),
    )
    offset = {"offset": trial["offset"]}
    return {
        "": [offset | row for row in _intercept_rows(free)],
        "calibration": [
            offset | {"fit": name, "ridge": ridge} | calibration_of(draw, settings, rng)
            for name, ridge, draw in fits
        ],
    }


def _intercept_rows(draw: FittedDraw) -> list[dict[str, float | str]]:
    inverse, scale = _sigma(draw, None)
    found = {
        "paper, intercept in Xŵ": paper_cosine(draw, inverse, scale, deflate=False, naive=True),
        "paper, intercept left out": paper_cosine(draw, inverse, scale, deflate=False),
        "angular, observable": library_cosines(draw, inverse, scale)[0],
    }
    # Not cut to [−1, 1]: how far beyond a formula ends up is part of its error.
    return [_angle_row(method, draw.cosine, cosine, cut=False) for method, cosine in found.items()]


def calibration_of(
    draw: FittedDraw, settings: InterceptSettings, rng: np.random.Generator
) -> dict[str, float]:
    """ECE of sigmoid(u), u = ŵᵀx + b̂, on fresh rows; A, B of sigmoid(A·u + B) refitted on others.

    ``ece_shift`` and ``ece_slope`` are the ECE of sigmoid(u + B₁) and of sigmoid(A₁u), each
    refitted alone: what is wrong with u goes away with the one or with the other. ``floor`` is the
    ECE of the exactly calibrated F on the same rows: what the noise of labels causes.
    """
    scores, labels = draw.labeled(settings.test_rows, rng)
    others = draw.labeled(settings.refit_rows, rng)
    both, slope = PlattScaling().fit(*others), TemperatureScaling().fit(*others)

    def ece(probabilities: Floats) -> float:
        return expected_calibration_error(labels, probabilities)

    return {
        "ece": ece(expit(scores)),
        "ece_shift": ece(expit(scores + shift_alone(*others))),
        "ece_slope": ece(slope.predict(scores)),
        "floor": ece(draw.truth(scores)),
        "slope": both.slope_,
        "shift": both.intercept_,
        "fitted_intercept": draw.fit.intercept,
    }


def shift_alone(scores: Floats, labels: Floats) -> float:
    """B₁ with mean sigmoid(u + B₁) = mean(y), the likeliest shift at slope 1."""
    prevalence = float(np.mean(labels))
    reach = float(np.abs(scores).max()) + abs(float(logit(prevalence))) + 1.0
    return float(brentq(lambda b: float(np.mean(expit(scores + b))) - prevalence, -reach, reach))


INTERCEPT = Experiment(
    name="intercept",
    full=InterceptSettings(),
    quick=InterceptSettings(samples=150, features=300, test_rows=5_000, refit_rows=20_000, draws=8),
    tables={
        "": ("offset", "method", "true", "cosine", "gave_up"),
        "calibration": (
            "offset",
            "fit",
            "ridge",
            "ece",
            "ece_shift",
            "ece_slope",
            "floor",
            "slope",
            "shift",
            "fitted_intercept",
        ),
    },
    trials=lambda settings: grid(offset=settings.offsets, draw=range(settings.draws)),
    run=run_intercept,
)
