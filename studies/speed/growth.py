"""Time of a fit against n·d on the randomised path, at n = d and in single precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

from sklearn.frozen import FrozenEstimator

from angcal import AngularCalibratedClassifier
from studies.speed.cases import Case, make
from studies.speed.contenders import BASE, OUR_PART, OURS, logistic
from studies.speed.measure import Row, alternating

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
