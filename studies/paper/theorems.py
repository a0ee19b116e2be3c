r"""Rows for the paper's two theorems: the calibration error Δ_p, and every Bregman loss.

x ~ N(0, Σ), so the score u = ŵᵀx is normal and, given u = ‖ŵ‖_Σ·s, the signal w*ᵀx is
c·s + √(1−c²)·z with z ~ N(0, 1). Both errors are integrals over s, or over s and z, and are taken
on grids: the only randomness left is that of the draws and of the holdout labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri
from scipy.stats import norm as normal

from angcal import AngleWarning
from angcal._typing import Floats
from angcal.baselines import IsotonicCalibration, PlattScaling
from angcal.links import Logit
from angcal.metrics import BREGMAN_GENERATORS, bregman_divergence, calibration_error_at
from angcal.simulation import simulate
from studies.engine.experiment import Experiment, Row, Tables, Trial, grid
from studies.engine.runner import trial_generator
from studies.engine.tables import mean_and_error
from studies.paper.setting import PAPER_LINKS, FittedDraw

Curve = Callable[[Floats], Floats]
Scalar = Callable[[Floats], Floats]

NAME = "theorems"
OPTIMUM = "angular, true angle"
LEVELS = tuple(round(0.02 + 0.04 * k, 2) for k in range(25))
"""Probabilities p at which Δ_p is kept."""
COVERED = 0.998
"""Share of the scores whose predictions count as reached."""
BANDWIDTH = 0.03
"""Of the kernel in the check by labels; Δ_p bends little over so small a range of p."""
FLAT = 1e-12
"""A curve that varies less than this over the scores is a constant."""

# The smoothed link is analytic in z with its poles 1.2 away, so steps of 1/8 are exact to 1e-16.
SCORE_GRID = np.linspace(-7.0, 7.0, 701)
NOISE_GRID = np.linspace(-7.0, 7.0, 113)
CENTRAL_GRID = np.linspace(-1.0, 1.0, 1001) * float(ndtri(0.5 + 0.5 * COVERED))

# φ and φ′ of losses beyond the library's own. The sum over both classes makes t³ the squared loss
# again, so powers are taken that it does not fold.
GENERATORS: Mapping[str, tuple[Scalar, Scalar]] = MappingProxyType(
    {
        **BREGMAN_GENERATORS,
        "exponential": (np.exp, np.exp),
        "power 1.5": (lambda t: t**1.5, lambda t: 1.5 * np.sqrt(t)),
        "root": (lambda t: -2.0 * np.sqrt(t), lambda t: -1.0 / np.sqrt(t)),
        # φ″ is a bump at 0.3 and, through the other class, at 0.7: errors matter near these only.
        "threshold": (
            lambda t: np.log(np.cosh(10.0 * (t - 0.3))) / 10.0,
            lambda t: np.tanh(10.0 * (t - 0.3)),
        ),
    }
)


@dataclass(frozen=True)
class TheoremSettings:
    """Draws of the paper's setting at several sizes with n/d fixed."""

    sizes: tuple[int, ...] = (125, 250, 500, 1000, 2000)  # n; d is n/ratio
    detail: int = 1000  # The n at which Δ_p and the Bregman losses are kept
    draws: int = 100  # Per n
    ratio: float = 0.5
    # Labels for Platt and isotonic calibration; the smaller sets are the first of the largest
    holdouts: tuple[int, int] = (100, 20000)
    labeled: int = 20000  # Fresh labeled rows for the check of Δ_p by a kernel, in the first draw
    seed: int = 2025


def curves(
    fitted: FittedDraw, holdouts: tuple[int, ...], rng: np.random.Generator
) -> dict[str, Curve]:
    """Each method's map from raw scores to probabilities, by name."""
    scores, labels = fitted.labeled(max(holdouts), rng)
    found: dict[str, Curve] = {"uncalibrated": expit, OPTIMUM: fitted.truth}
    with warnings.catch_warnings():
        # What a doubtful angle does to the predictions is measured; nobody reads the warning.
        warnings.simplefilter("ignore", AngleWarning)
        for name, angle, link in (
            ("observable", "observable", None),
            ("leave-one-out", "loo", None),
            ("both", "auto", None),
            ("link unknown", "auto", Logit()),
        ):
            found[f"angular, {name}"] = fitted.calibrated(angle, link=link).curve.predict
    for size in holdouts:
        sample = scores[:size], labels[:size]
        found[f"Platt {size}"] = PlattScaling(smoothed_targets=True).fit(*sample).predict
        found[f"isotonic {size}"] = IsotonicCalibration().fit(*sample).predict
    return found


# --- Theorem 1: calibration error ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreGrid:
    """Raw scores u, weights that follow their law, and F(u): computed once for all methods."""

    scores: Floats
    weight: Floats
    truth: Floats

    @classmethod
    def of(cls, fitted: FittedDraw, standard: Floats) -> ScoreGrid:
        """The grid at u = ‖ŵ‖_Σ·s for standard scores s."""
        scores = fitted.norm * standard
        return cls(scores, normal.pdf(standard), fitted.truth(scores))

    def conditional_truth(self, predicted: Floats) -> Floats:
        """E[F | f] at each grid point: F itself for a monotone f, E F for a constant one."""
        if np.ptp(predicted) < FLAT:
            return np.full_like(self.truth, np.average(self.truth, weights=self.weight))
        return self.truth

    def gap(self, curve: Curve) -> Floats:
        """|Δ_p| at p = f(u), at each grid point u."""
        predicted = curve(self.scores)
        return np.abs(predicted - self.conditional_truth(predicted))


def exact_calibration_error(levels: Floats, curve: Curve, central: ScoreGrid) -> Floats:
    """Δ_p = p − F(f⁻¹(p)) for a strictly monotone f; NaN where no score of the grid reaches p."""
    predicted = curve(central.scores)
    truth = central.conditional_truth(predicted)
    order = np.argsort(predicted, kind="stable")
    reached = np.interp(levels, predicted[order], truth[order], left=np.nan, right=np.nan)
    return np.asarray(levels - reached)


def labeled_errors(
    methods: Mapping[str, Curve], fitted: FittedDraw, n: int, rng: np.random.Generator
) -> list[Row]:
    """Δ_p of each method from n fresh labels, by the library's kernel average."""
    scores, labels = fitted.labeled(n, rng)
    return _level_rows(
        methods, lambda curve: calibration_error_at(LEVELS, labels, curve(scores), BANDWIDTH)
    )


def _level_rows(methods: Mapping[str, Curve], errors: Callable[[Curve], Floats]) -> list[Row]:
    # Six decimals: a hundred times finer than the line that will be drawn.
    return [
        {"method": name, "level": level, "error": round(float(error), 6)}
        for name, curve in methods.items()
        for level, error in zip(LEVELS, errors(curve), strict=True)
    ]


# --- Theorem 2: Bregman losses ---------------------------------------------------------------


def bregman_losses(methods: Mapping[str, Curve], fitted: FittedDraw) -> list[Row]:
    """E D_φ(q*, f) for every method and φ, q* = σ(w*ᵀx), by a sum over the grid of (s, z)."""
    sine = np.sqrt(1.0 - fitted.cosine**2)
    signal = fitted.cosine * SCORE_GRID[:, None] + sine * NOISE_GRID
    target = fitted.data.link(signal).ravel()
    weight = np.outer(normal.pdf(SCORE_GRID), normal.pdf(NOISE_GRID)).ravel()
    rows: list[Row] = []
    for method, curve in methods.items():
        predicted = np.repeat(curve(fitted.norm * SCORE_GRID), NOISE_GRID.size)
        for loss, generator in GENERATORS.items():
            value = mean_divergence(target, predicted, generator, weight)
            rows.append({"method": method, "loss": loss, "value": value})
    return rows


def mean_divergence(
    target: Floats, predicted: Floats, generator: tuple[Scalar, Scalar], weight: Floats
) -> float:
    """E D_φ(target, predicted); infinite where φ′(0) = −∞ and some prediction is 0 or 1."""
    with np.errstate(divide="ignore"):
        steep = bool(np.isneginf(generator[1](np.zeros(1)))[0])
    if steep and np.any((predicted <= 0.0) | (predicted >= 1.0)):
        return float("inf")
    each = bregman_divergence(target, predicted, *generator)
    return float(np.average(each, weights=weight))


# --- One trial -------------------------------------------------------------------------------


def run_trial(settings: TheoremSettings, trial: Trial) -> Tables:
    """Fit one draw, and measure every method on it."""
    n, draw = trial["n"], trial["draw"]
    rng = trial_generator(settings.seed, NAME, n, draw)
    data = simulate(n, round(n / settings.ratio), link=PAPER_LINKS["sigmoid"], random_state=rng)
    fitted = FittedDraw.of(data)
    methods = curves(fitted, settings.holdouts, rng)
    # Isotonic curves have flats, on which E[F | f] is not F: they are left to the losses.
    monotone = {name: f for name, f in methods.items() if not name.startswith("isotonic")}
    central = ScoreGrid.of(fitted, CENTRAL_GRID)
    tables: dict[str, list[Row]] = {"size": _size_rows(monotone, fitted, central, n, draw)}
    if n == settings.detail:
        # The true angle's Δ_p is zero by definition.
        estimated = {name: f for name, f in monotone.items() if name != OPTIMUM}
        levels = np.array(LEVELS)
        delta = _level_rows(estimated, lambda f: exact_calibration_error(levels, f, central))
        tables["delta"] = [{"draw": draw, **row} for row in delta]
        tables["bregman"] = [{"draw": draw, **row} for row in bregman_losses(methods, fitted)]
        if draw == 0:
            tables["labeled"] = labeled_errors(estimated, fitted, settings.labeled, rng)
    return tables


def _size_rows(
    methods: Mapping[str, Curve], fitted: FittedDraw, central: ScoreGrid, n: int, draw: int
) -> list[Row]:
    """E|Δ_f|, sup |Δ_p| over what 99.8 % of the scores reach, and E‖(f, 1−f) − (F, 1−F)‖²."""
    whole = ScoreGrid.of(fitted, SCORE_GRID)

    def mean(values: Floats) -> float:
        return float(np.average(values, weights=whole.weight))

    return [
        {
            "n": n,
            "draw": draw,
            "cosine": fitted.cosine,
            "method": method,
            "mean_error": mean(whole.gap(curve)),
            "largest_error": float(central.gap(curve).max()),
            "distance": mean(2.0 * (curve(whole.scores) - whole.truth) ** 2),
        }
        for method, curve in methods.items()
    ]


THEOREMS = Experiment(
    name=NAME,
    full=TheoremSettings(),
    quick=TheoremSettings(sizes=(60, 120), detail=120, draws=4),
    tables={
        "size": ("n", "draw", "cosine", "method", "mean_error", "largest_error", "distance"),
        "delta": ("draw", "method", "level", "error"),
        "labeled": ("method", "level", "error"),
        "bregman": ("draw", "method", "loss", "value"),
    },
    optional_tables=("delta", "labeled", "bregman"),
    trials=lambda settings: grid(n=settings.sizes, draw=range(settings.draws)),
    run=run_trial,
)


# --- Numbers from the rows -------------------------------------------------------------------


def by_size(sizes: pd.DataFrame, method: str, column: str) -> tuple[Any, Any, Any]:
    """n, and the mean of a column at each n with its standard error."""
    grouped = sizes[sizes["method"] == method].groupby("n")[column]
    n = np.array(sorted(grouped.groups), dtype=float)
    mean, se = np.array([mean_and_error(grouped.get_group(int(size))) for size in n]).T
    return n, mean, se


def slope(n: Any, mean: Any, se: Any) -> tuple[float, float]:
    """Least-squares slope of log mean on log n, and its s.e. from those of the means."""
    x = np.log(n) - np.log(n).mean()
    weight = x / (x @ x)
    return float(weight @ np.log(mean)), float(np.sqrt(weight**2 @ (se / mean) ** 2))


def excesses(bregman: pd.DataFrame) -> pd.DataFrame:
    """(E D(q*, f) − E D(q*, F)) / E D(q*, F): one row per draw, a column per (method, loss)."""
    value = bregman.pivot_table(index="draw", columns=["method", "loss"], values="value")
    optimum = value[OPTIMUM]
    return value.drop(columns=OPTIMUM, level="method").apply(
        lambda column: column / optimum[column.name[1]] - 1.0
    )
