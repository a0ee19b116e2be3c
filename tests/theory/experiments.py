"""One Monte Carlo trial of the angle, shared by the theory tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal import Logistic, Logit, Ridge
from angcal.angle import (
    Angle,
    AngleError,
    combine,
    loo_angle,
    observable_angle,
    training_sign,
)
from angcal.covariance import precision, score_scale
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.simulation import simulate
from angcal.solvers.minimize import minimize

PAPER_LINK = Logit(scale=3.0, offset=1.0)
PAPER_STRENGTH = 0.5


@dataclass(frozen=True)
class Trial:
    """The true cosine and its estimates."""

    true: float
    observable: Angle | None
    loo: Angle | None
    auto: Angle | None


def fit_problem(X: Any, y: Any, loss: Any, penalty: Any, fit_intercept: bool) -> LinearFit:
    n, d = X.shape
    labels = np.asarray(y, dtype=float)
    start = LinearFit(X, labels, np.ones(n), np.zeros(d), 0.0, loss, penalty, fit_intercept)
    return minimize(start, tol=1e-7)


def estimate(
    fit: LinearFit, true: float, link: Any, *, covariance: Any, pool: Any, routes: str = "both"
) -> Trial:
    ones = np.ones(len(fit.labels))
    observables = observe(fit)
    scale = score_scale(
        observables,
        fit.coef,
        fit.intercept,
        case_weights=ones,
        covariance=covariance,
        pool=pool,
    )
    sign = training_sign(observables.calibration_scores - scale.center, fit.labels, ones)
    inverse = precision(covariance, pool, fit.X)
    try:
        observable = observable_angle(fit, observables, inverse, scale, sign=sign)
    except AngleError:
        observable = None
    if routes == "observable":
        return Trial(true, observable, None, None)
    loo = loo_angle(observables, fit.labels, ones, scale, link)
    return Trial(true, observable, loo, loo if observable is None else combine(observable, loo))


def simulated_trial(
    n: int,
    d: int,
    seed: int,
    *,
    link: Any = PAPER_LINK,
    loss: Any = None,
    penalty: Any = None,
    fit_intercept: bool = False,
    pool_rows: int | None = None,
    routes: str = "both",
    design: str = "gaussian",
    **design_options: Any,
) -> Trial:
    """The paper's setting unless told otherwise; Σ known unless a pool is asked for."""
    data = simulate(n, d, link=link, design=design, random_state=seed, **design_options)
    loss = Logistic() if loss is None else loss
    penalty = Ridge(PAPER_STRENGTH / d) if penalty is None else penalty
    fit = fit_problem(data.X, data.y, loss, penalty, fit_intercept)
    pool = None if pool_rows is None else data.pool(pool_rows, random_state=seed)
    covariance = data.covariance if pool is None else None
    true = data.cosine(fit.coef)
    return estimate(fit, true, link, covariance=covariance, pool=pool, routes=routes)


def errors(trials: list[Trial], method: str) -> np.ndarray:
    """ĉ − c over trials; a trial where the method gave up counts with ĉ = 0."""
    estimates = [getattr(trial, method) for trial in trials]
    cosines = [0.0 if angle is None else angle.cosine for angle in estimates]
    return np.array(cosines) - np.array([trial.true for trial in trials])


def rmse(trials: list[Trial], method: str) -> float:
    return float(np.sqrt(np.mean(errors(trials, method) ** 2)))
