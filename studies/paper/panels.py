r"""Platt scaling σ(Au + B) on ever more holdout labels beside the angular predictor F(u).

A trial draws rows of one design and labels by one link, fits the ridge, and compares every
calibrator with F(u) = E_Z σ(c·u/‖ŵ‖_Σ + √(1−c²)·Z). F is P(y = 1 | u): exactly for Gaussian rows,
as d grows for rows W·Σ^½ with independent entries W. As each calibrated p is a monotone function
of u, E|p − F| is the calibration error of p in the population.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from angcal._typing import Floats
from angcal.baselines import PlattScaling
from angcal.curve import angular_probability
from angcal.links import Link, Logit
from angcal.metrics import (
    brier_decomposition,
    brier_score,
    expected_calibration_error,
    log_loss,
    reliability_curve,
    smooth_ece,
)
from angcal.simulation import AutoregressiveCovariance, Covariance, GivenCovariance, simulate
from studies.engine.experiment import Cell, Experiment, Frames, Tables, Trial, grid
from studies.engine.runner import trial_generator
from studies.engine.tables import chosen
from studies.paper.setting import (
    N_FEATURES,
    N_SAMPLES,
    NORMAL_NODES,
    NORMAL_WEIGHTS,
    PAPER_LINKS,
    RIDGE,
    FittedDraw,
    population_platt,
)

Curve = Callable[[Floats], Floats]
Rows = list[dict[str, Cell]]

FEW, MANY = 100, 20_000
"""Holdout labels of the two Platt predictors in the reliability plots."""
HOLDOUT_SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)

FIRST_OF_RATE = 1000
"""Smallest holdout set in the fitted rate; with fewer labels the distance is near its bound of 1
in some draws, and falls faster than its asymptotic law."""
RESAMPLES = 2000

# Scores in standard deviations: fine at the center, and far enough for the flattest curve to come
# near 0 and 1.
WHOLE_LINE = np.sinh(np.linspace(-8.0, 8.0, 8001))


@dataclass(frozen=True)
class PanelSettings:
    """One design of the rows, its links, and the sizes."""

    design: str  # Law of the entries; all but the Gaussian are colored by the symmetric root of Σ
    links: tuple[str, ...]  # Keys of `PAPER_LINKS`
    n_draws: int  # Trials for each link
    n_samples: int = N_SAMPLES  # n, d and λ of the fit
    n_features: int = N_FEATURES
    ridge: float = RIDGE
    # The first so many rows of one holdout set; `FEW` and `MANY` are among them
    holdout_sizes: tuple[int, ...] = HOLDOUT_SIZES
    n_test: int = 20_000  # Test rows and bins of the reliability plots
    n_bins: int = 15
    seed: int = 2025

    @property
    def half_bin(self) -> float:
        """Half the width of a bin: a smaller departure from the diagonal is hardly seen."""
        return 0.5 / self.n_bins


def platt_link(name: str) -> Link:
    """σ of the fitted family σ(Au + B).

    The plain sigmoid gives the same curves as the paper's sigmoid(3t + 1), and is what users fit
    where the link is neither; the theorem needs the probit link itself.
    """
    return PAPER_LINKS["probit"] if name == "probit" else Logit()


@lru_cache(maxsize=2)
def _covariance(design: str, d: int) -> Covariance:
    """0.5^|k−l|/d, kept between trials as its root takes longer than a fit."""
    if design == "gaussian":
        return AutoregressiveCovariance(d)
    return GivenCovariance(AutoregressiveCovariance(d, variance=1.0).matrix(), root="symmetric")


def run_trial(settings: PanelSettings, trial: Trial) -> Tables:
    """Fit one draw, calibrate it every way, and measure."""
    name, draw = trial["link"], trial["draw"]
    rng = trial_generator(settings.seed, settings.design, name, draw)
    data = simulate(
        settings.n_samples,
        link=PAPER_LINKS[name],
        covariance=_covariance(settings.design, settings.n_features),
        design=settings.design,
        random_state=rng,
    )
    fitted = FittedDraw.of(data, settings.ridge)
    holdout = fitted.labeled(max(settings.holdout_sizes), rng)
    test = fitted.labeled(settings.n_test, rng)
    routes = {f"cosine_{route}": angle.cosine for route, angle in fitted.angles().items()}
    cosines = {"cosine": fitted.cosine, **routes}
    platt = {float(m): _platt(name, *holdout, m) for m in settings.holdout_sizes}
    platt[np.inf] = population_platt(fitted, platt_link(name))
    methods = _methods(PAPER_LINKS[name], fitted.norm, cosines, platt)
    tables: dict[str, Rows] = {
        "platt": _platt_rows(PAPER_LINKS[name], fitted.norm, cosines, platt),
        "curve": [{**cosines, "norm": fitted.norm}],
        "scores": _score_rows(methods, *test, fitted, settings.n_bins),
        "bins": _bin_rows(methods, *test, settings.n_bins) if draw == 0 else [],
    }
    labels = {"link": name, "draw": draw}
    return {table: [labels | row for row in rows] for table, rows in tables.items()}


# -- calibrators -----------------------------------------------------------------------------


def _platt(name: str, scores: Floats, labels: Floats, m: int) -> PlattScaling:
    """Platt scaling on the first m holdout labels, with the targets of scikit-learn's."""
    return PlattScaling(platt_link(name), smoothed_targets=True).fit(scores[:m], labels[:m])


def angular_curve(link: Link, cosine: float, norm: float) -> Curve:
    """The angular predictor as a function of the raw score."""
    return lambda scores: angular_probability(link, cosine, scores / norm)


def _methods(
    link: Link, norm: float, cosines: Mapping[str, float], platt: Mapping[float, PlattScaling]
) -> dict[str, Curve]:
    columns = {
        "angular, true angle": "cosine",
        "angular, observable": "cosine_observable",
        "angular, leave-one-out": "cosine_loo",
        "angular, both": "cosine_auto",
    }
    angular = {name: angular_curve(link, cosines[key], norm) for name, key in columns.items()}
    fitted = {f"Platt {m}": platt[float(m)].predict for m in (FEW, MANY)}
    return {"uncalibrated": expit, **angular, **fitted}


# -- measurements ----------------------------------------------------------------------------


def _platt_rows(
    link: Link, norm: float, cosines: Mapping[str, float], platt: Mapping[float, PlattScaling]
) -> Rows:
    """sup_u |Platt − angular| and E|Platt − F| for each holdout size."""
    true_angle = angular_probability(link, cosines["cosine"], WHOLE_LINE)
    observable = angular_probability(link, cosines["cosine_observable"], WHOLE_LINE)
    truth = angular_probability(link, cosines["cosine"], NORMAL_NODES)
    rows: Rows = []
    for size, calibrator in platt.items():
        predicted = calibrator.predict(norm * WHOLE_LINE)
        rows.append(
            {
                "n_ho": size,
                "slope": calibrator.slope_,
                "intercept": calibrator.intercept_,
                "sup_true_angle": float(np.abs(predicted - true_angle).max()),
                "sup_observable": float(np.abs(predicted - observable).max()),
                "mean_distance": _mean_distance(calibrator.predict, truth, norm),
            }
        )
    return rows


def _mean_distance(predict: Curve, truth: Floats, norm: float) -> float:
    """E|p(u) − F(u)| over u ~ N(0, ‖ŵ‖²_Σ)."""
    return float(NORMAL_WEIGHTS @ np.abs(predict(norm * NORMAL_NODES) - truth))


def _score_rows(
    methods: Mapping[str, Curve], scores: Floats, labels: Floats, fitted: FittedDraw, n_bins: int
) -> Rows:
    truth = fitted.truth(fitted.norm * NORMAL_NODES)
    rows: Rows = []
    for method, p in _predictions(methods, scores):
        parts = brier_decomposition(labels, p)
        ece = expected_calibration_error(labels, p, n_bins=n_bins)
        debiased = expected_calibration_error(labels, p, n_bins=n_bins, debiased=True)
        rows.append(
            {
                "method": method,
                "ece": ece,
                "debiased_ece": debiased,
                "smooth_ece": smooth_ece(labels, p),
                "brier": brier_score(labels, p),
                "log_loss": log_loss(labels, p),
                "mean_distance": _mean_distance(methods[method], truth, fitted.norm),
                "miscalibration": parts.miscalibration,
                "discrimination": parts.discrimination,
                "uncertainty": parts.uncertainty,
            }
        )
    return rows


def _bin_rows(methods: Mapping[str, Curve], scores: Floats, labels: Floats, n_bins: int) -> Rows:
    rows: Rows = []
    for method, p in _predictions(methods, scores):
        curve = reliability_curve(labels, p, n_bins=n_bins)
        columns = (curve.mean_predicted, curve.observed, curve.count)
        rows += [
            {"method": method, "mean_predicted": m, "observed": o, "count": int(k)}
            for m, o, k in zip(*columns, strict=True)
        ]
    return rows


def _predictions(methods: Mapping[str, Curve], scores: Floats) -> Iterator[tuple[str, Floats]]:
    for method, predict in methods.items():
        yield method, np.clip(predict(scores), 0.0, 1.0)


# -- reading the rows ------------------------------------------------------------------------


def distances(frames: Frames, link: str, column: str = "sup_true_angle") -> pd.DataFrame:
    """One row per draw, one column per holdout size, inf the last."""
    platt = chosen(frames["platt"], link=link)
    return platt.pivot(index="draw", columns="n_ho", values=column).sort_index(axis=1)


def angle_distances(frames: Frames, link: str) -> pd.Series:
    """sup_u |F_ĉ − F_c| of each draw: what the observable angle's error alone does to the curve.

    Both curves stretch the scores by the same ‖ŵ‖_Σ, which leaves the supremum as it is.
    """
    curve = chosen(frames["curve"], link=link).set_index("draw")
    # The difference of two smooth curves has no need of all the nodes.
    nodes = WHOLE_LINE[::8]

    def supremum(row: Any) -> float:
        pair = (row["cosine_observable"], row["cosine"])
        estimated, true = (angular_probability(PAPER_LINKS[link], c, nodes) for c in pair)
        return float(np.abs(estimated - true).max())

    return curve.apply(supremum, axis=1)


def fitted_rate(wide: pd.DataFrame, seed: int) -> tuple[float, float, float]:
    """Slope b and intercept a of log(mean distance) = a + b·log n_ho, and b's standard error.

    Draws are resampled whole, as the holdout sets of a draw are nested.
    """
    sizes = np.array([n for n in wide.columns if FIRST_OF_RATE <= n < np.inf])
    values, log_sizes = wide[sizes].to_numpy(), np.log(sizes)
    slope, intercept = np.polyfit(log_sizes, np.log(values.mean(axis=0)), 1)
    rng = trial_generator(seed, "slope of Platt's convergence")
    picks = rng.integers(0, len(values), (RESAMPLES, len(values)))
    resampled = np.log(values[picks].mean(axis=1))
    slopes = np.polyfit(log_sizes, resampled.T, 1)[0]
    return float(slope), float(intercept), float(slopes.std(ddof=1))


def expected_ece(p: pd.Series, count: pd.Series) -> float:
    """Σ_b (n_b/n)·√(2 p_b(1−p_b)/(π n_b)): the ECE that calibrated predictions would read."""
    return float(np.sum(np.sqrt(2.0 * count * p * (1.0 - p) / np.pi)) / count.sum())


# -- experiments -----------------------------------------------------------------------------

_TABLES = {
    "platt": (
        *("link", "draw", "n_ho", "slope", "intercept"),
        *("sup_true_angle", "sup_observable", "mean_distance"),
    ),
    "curve": (
        *("link", "draw", "cosine", "cosine_observable", "cosine_loo", "cosine_auto", "norm"),
    ),
    "scores": (
        *("link", "draw", "method", "ece", "debiased_ece", "smooth_ece", "brier", "log_loss"),
        *("mean_distance", "miscalibration", "discrimination", "uncertainty"),
    ),
    "bins": ("link", "draw", "method", "mean_predicted", "observed", "count"),
}


def _experiment(design: str, links: tuple[str, ...], n_draws: int) -> Experiment:
    return Experiment(
        name=design,
        full=PanelSettings(design, links, n_draws),
        quick=PanelSettings(
            *(design, links, 4),
            n_samples=200,
            n_features=400,
            holdout_sizes=(FEW, 1000, 5000, MANY),
            n_test=5000,
        ),
        tables=_TABLES,
        optional_tables=("bins",),
        trials=lambda settings: grid(link=settings.links, draw=range(settings.n_draws)),
        run=run_trial,
    )


GAUSSIAN = _experiment("gaussian", ("sigmoid", "probit"), 100)
RADEMACHER = _experiment("rademacher", ("sigmoid", "clipped"), 25)
UNIFORM = _experiment("uniform", ("sigmoid", "clipped"), 25)
