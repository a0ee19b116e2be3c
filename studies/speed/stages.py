"""Where our time goes: seconds per stage of one fit, and how often it passes over X."""

from __future__ import annotations

import cProfile
import pstats
import warnings
from typing import Any

from angcal import AngularCalibratedClassifier
from angcal.observables import Observables
from angcal.problem import LinearFit
from studies.speed.cases import Problem
from studies.speed.contenders import logistic
from studies.speed.measure import Row

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
