"""Small fits, where fixed costs rule: ``python -m studies.speed.small``.

800 × 384 at two penalties, and 100 to 500 rows, in CPU milliseconds of one thread: medians of
alternating fits of one LogisticRegression, the angular classifier and CalibratedClassifierCV(cv=5);
and, by the profiler, which share of the angular fit each of its stages takes.

Writes ``small.csv`` to ``studies/results/speed`` and prints its rows.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier
from studies import RESULTS
from studies.engine.store import printed
from studies.speed.cases import Case, make
from studies.speed.measure import in_turn

SHAPES = ((800, 384, 1.0), (800, 384, 0.01), (100, 384, 1.0), (200, 768, 1.0), (500, 768, 1.0))
REPEATS, PROFILED = 25, 20
# File and function of each stage, as the profiler calls them.
STAGES = {
    "checks": ("around_model.py", "_training"),
    "base_fit": ("base_model.py", "fit_base"),
    "factorization": ("choice.py", "factorize"),
    "leverages": ("problem.py", "leverages"),
    "link_and_curve": ("calibrate.py", "calibrate"),
}


def shares(fit: Callable[[], Any]) -> dict[str, float]:
    """Share of CPU seconds that each stage takes, with all that it calls."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    for _ in range(PROFILED):
        fit()
    profile.disable()
    found: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    whole = max(entry[3] for key, entry in found.items() if key[2] == "fit")

    def of(file: str, function: str) -> float:
        own = [v[3] for k, v in found.items() if k[0].endswith(f"/{file}") and k[2] == function]
        return round(max(own, default=0.0) / whole, 2)

    return {stage: of(*place) for stage, place in STAGES.items()}


def measured(case: Case) -> dict[str, object]:
    """A row of the table."""
    problem = make(case)
    X, y, C = problem.X, problem.y, case.C
    fits: dict[str, Callable[[], Any]] = {
        "plain": lambda: LogisticRegression(C=C).fit(X, y),
        "angular": lambda: AngularCalibratedClassifier(LogisticRegression(C=C)).fit(X, y),
        "five_folds": lambda: CalibratedClassifierCV(LogisticRegression(C=C), cv=5).fit(X, y),
    }
    found = in_turn(fits, REPEATS, time.process_time)
    return {
        "case": case.name,
        **{f"{name}_ms": round(1e3 * value, 1) for name, value in found.items()},
        "to_plain": round(found["angular"] / found["plain"], 2),
        "to_five_folds": round(found["angular"] / found["five_folds"], 2),
        **shares(fits["angular"]),
    }


if __name__ == "__main__":
    printed(RESULTS / "speed" / "small.csv", (measured(Case(*shape)) for shape in SHAPES))
