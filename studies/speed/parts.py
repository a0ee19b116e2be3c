"""Parts of the study of time: rates of the machine, stages of a fit, predictions, growth."""

from __future__ import annotations

import cProfile
import pstats
import warnings
from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from angcal import AngularCalibratedClassifier
from angcal._typing import Floats
from angcal.curve import angular_probability
from angcal.observables import Observables
from angcal.problem import LinearFit
from studies.speed.cases import Case, Problem, draw, gaussian_truth, make
from studies.speed.contenders import BASE, OUR_PART, OURS, logistic
from studies.speed.measure import Row, alternating, stopwatch

# -- What the machine can do at best: bytes per second through memory, operations per second ----


TRIALS = 7


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of several trials, after one to warm up."""
    call()
    return min(stopwatch(call, TRIALS)[0])


def measure_floors(side: int, threads: int) -> list[Row]:
    """Rates of sum, copy, X @ v (all in GB/s) and of X @ X (in Gflop/s), for both precisions."""
    rows: list[Row] = []
    for dtype in ("float64", "float32"):
        X = np.random.default_rng(0).standard_normal((side, side)).astype(dtype)
        other, v = np.empty_like(X), np.ones(side, dtype=dtype)
        small = X[: side // 4, : side // 4].copy()
        rates = {
            "read": X.nbytes / best(X.sum),
            "copy": 2 * X.nbytes / best(partial(np.copyto, other, X)),
            "gemv": X.nbytes / best(partial(np.matmul, X, v)),
            "gemm": 2 * len(small) ** 3 / best(partial(np.matmul, small, small)),
        }
        for quantity, rate in rates.items():
            unit = "Gflop/s" if quantity == "gemm" else "GB/s"
            rows.append(
                {
                    "case": "rates",
                    "quantity": quantity,
                    "dtype": dtype,
                    "rate": round(rate / 1e9, 3),
                    "unit": unit,
                    "threads": threads,
                }
            )
    return rows


def base_passes(iterations: int) -> int:
    """2(k + 1): X @ w and Xᵀ @ r for the starting point and each of k L-BFGS iterations."""
    return 2 * (iterations + 1)


def exact_operations(n: int, d: int, sparse: bool = False) -> float:
    """Gram matrix of the smaller side m, its Cholesky factor, the leverages from it.

    n·d·m + m³/3 + (n·d² where d is the smaller side, m³/3 where n is): half of a full product for
    the symmetric Gram matrix, a triangular solve against every row, or a triangular inverse. Of a
    sparse X only the part after the Gram matrix is counted.
    """
    m = min(n, d)
    if sparse:
        return 2 * m**3 / 3
    leverages = n * d**2 if d <= n else m**3 / 3
    return n * d * m + m**3 / 3 + leverages


# -- Where our time goes: seconds per stage of one fit, and how often it passes over X ----------


# Stage and the function of angcal that is all of it.
STAGES = {
    "validation": "validated",
    "base fit": "fit_base",
    "distance to optimum": "read_base",
    "observables": "observe",
    "repeated rows": "warn_about_repeats",
    "angle and link": "calibrate",
}


class _Recorded(AngularCalibratedClassifier):
    """Keeps the linear fit, whose Hessian knows its passes over X."""

    def _fit_model(self, training: Any) -> tuple[Any, list[LinearFit], list[Observables]]:
        rows, fits, observed = super()._fit_model(training)
        self.linear_fit_ = fits[0]
        return rows, fits, observed


def seconds_by_function(profile: cProfile.Profile) -> dict[str, float]:
    """Cumulative seconds of every function of angcal, by name."""
    seconds: dict[str, float] = {}
    for (path, _, name), entry in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "angcal" in path:
            seconds[name] = max(seconds.get(name, 0.0), entry[3])
    return seconds


def survey(problem: Problem) -> Row:
    """One fit under the profiler: its stages, iterations and passes. Not one of the timed ones."""
    model = _Recorded(logistic(problem.case))
    profile = cProfile.Profile()
    with warnings.catch_warnings(action="ignore"):
        profile.runcall(model.fit, problem.X, problem.y)
    seconds = seconds_by_function(profile)
    hessian = model.linear_fit_.hessian
    row: Row = {
        "case": problem.case.name,
        "side": model.observables_.side,
        "remark": model.observables_.remark,
        "iterations": int(model.estimator_.n_iter_[0]),
        "passes": getattr(hessian, "passes", 0),
        "total": seconds.get("fit", float("nan")),
    }
    return row | {stage: seconds.get(name, 0.0) for stage, name in STAGES.items()}


# -- predict_proba on very many rows: ours against LogisticRegression's, alternating ------------


TRAINING_ROWS, CHECKED_ROWS = 2000, 10_000


def many_rows(n: int, d: int, dtype: str) -> np.ndarray:
    """n rows in memory, drawn as 10,000 that repeat: prediction costs the same."""
    block, _ = draw(gaussian_truth(d, 0), min(n, CHECKED_ROWS), dtype, np.random.default_rng(1))
    rows = np.empty((n, d), dtype=dtype)
    for start in range(0, n, len(block)):
        rows[start : start + len(block)] = block[: n - start]
    return rows


def table_gap(model: Any, p: Floats, X: np.ndarray) -> float:
    """Largest |predict_proba − F(u)|, F by the formula: what tabulating the curve costs."""
    scores = X.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
    standard = model.scale_.standardize(scores)
    exact = sum(
        part.weight * angular_probability(part.link, part.cosine, standard)
        for part in model.curve_.as_parts()
    )
    return float(np.abs(p - exact).max())


def measure_predictions(n: int, d: int, dtype: str, repeats: int, threads: int) -> list[Row]:
    """Rows of predict.csv for one precision."""
    case = Case(TRAINING_ROWS, d, 0.01, dtype=dtype)
    X, y = draw(gaussian_truth(d, 0), case.n, dtype, np.random.default_rng(0))
    with warnings.catch_warnings(action="ignore"):
        models = {
            BASE: logistic(case).fit(X, y),
            OURS: AngularCalibratedClassifier(logistic(case)).fit(X, y),
        }
    new = many_rows(n, d, dtype)
    gap = table_gap(
        models[OURS], models[OURS].predict_proba(new[:CHECKED_ROWS])[:, 1], new[:CHECKED_ROWS]
    )
    ready = {name: partial(models.get, name) for name in models}
    rows = []
    name = predict_name(n, d, dtype)
    for row, _ in alternating(name, ready, lambda model: model.predict_proba(new), repeats):
        seen = f"{gap:.2g}" if row["contender"] == OURS else ""
        rows.append(row | {"table_gap": seen, "bytes": new.nbytes, "threads": threads})
    return rows


def predict_name(n: int, d: int, dtype: str) -> str:
    """Name of the case."""
    return f"{n}x{d} {dtype}"


# -- Time of a fit against n·d on the randomised path, at n = d and in single precision ---------


# ℓ₂ strength 0.5 on columns of unit variance, in the mean-loss objective, is C = 2/n: the same
# problem at every size. At a fixed C the penalty is weaker, relative to the data, as n grows.
PENALTIES: dict[str, Callable[[int], float]] = {
    "ridge 0.5": lambda n: 2.0 / n,
    "C=0.01": lambda n: 0.01,
}


def growth_case(entries: int, penalty: str) -> Case:
    """A square case of about so many entries."""
    side = isqrt(entries)
    return Case(side, side, PENALTIES[penalty](side), dtype="float32")


def growth_name(entries: int, penalty: str) -> str:
    """Name of the case."""
    return f"{entries:.0e} {penalty}"


def measure_growth(entries: int, penalty: str, repeats: int, threads: int) -> list[Row]:
    """Rows of growth.csv for one size."""
    problem = make(growth_case(entries, penalty))
    X, y, case = problem.X, problem.y, problem.case
    with warnings.catch_warnings(action="ignore"):
        fitted = FrozenEstimator(logistic(case).fit(X, y))
    ours = partial(AngularCalibratedClassifier, observables="randomised")
    models: dict[str, Callable[[], Any]] = {
        BASE: lambda: logistic(case),
        OURS: lambda: ours(logistic(case)),
        OUR_PART: lambda: ours(fitted),
    }
    rows = []
    name = growth_name(entries, penalty)
    for row, model in alternating(name, models, lambda model: model.fit(X, y), repeats):
        side = model.observables_.side if hasattr(model, "observables_") else ""
        about = {"entries": case.entries, "penalty": penalty, "side": side, "threads": threads}
        rows.append(row | about)
    return rows
