"""How good the answers are that were timed: against the truth, and fast against exact.

One draw cannot tell whether the fast answer is worse: an independent error of the fast path makes
its answer better about as often as worse. Over draws, the mean of E|p_fast − F| − E|p_exact − F|,
in units of the curve's standard error, is what the fast path costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from angcal._typing import Floats
from studies.speed.cases import LINK, Case, Problem, make
from studies.speed.contenders import BASE, CROSS_FITTED_ONE, OURS, OURS_EXACT, angular, linear_parts
from studies.speed.measure import Row

ProbabilityOfScore = Callable[[Floats], Floats]
FIRST_SEED = 1000
"""Apart from the seeds of everything that was tuned."""


def curve_standard_error(p: Floats, scores: Floats, n: int) -> float:
    """rms of p(1−p)·√(zᵀI⁻¹z), z = (1, s), I = n·mean p(1−p)zzᵀ: what n labels leave open of F.

    The delta method for a curve with a slope and an offset, as labels determine it.
    """
    standard = (scores - scores.mean()) / max(float(scores.std()), np.finfo(float).tiny)
    z = np.column_stack([np.ones_like(standard), standard])
    weight = p * (1.0 - p)
    information = n * (z * weight[:, None]).T @ z / len(p)
    variance = weight**2 * np.einsum("ij,ij->i", z, np.linalg.solve(information, z.T).T)
    return float(np.sqrt(variance.mean()))


def expected_log_loss(p: Floats, truth: Floats) -> float:
    """−E[π log p + (1−π) log(1−p)] with the true π: log-loss without the noise of labels."""
    return float(-np.mean(xlogy(truth, p) + xlogy(1.0 - truth, 1.0 - p)))


def _curve(name: str, model: Any) -> ProbabilityOfScore | None:
    """The contender's probability as a function of its score, where it is one."""
    if name == BASE:
        return expit
    if name in (OURS, OURS_EXACT):
        return model.curve_.predict
    if name == CROSS_FITTED_ONE:
        return model.calibrated_classifiers_[0].calibrators[0].predict
    return None


def judge(fitted: dict[str, Any], problem: Problem) -> list[Row]:
    """One row per contender whose probability is a function of one score."""
    rows = []
    for name, model in fitted.items():
        curve = _curve(name, model)
        if curve is None:
            continue
        (part,) = linear_parts(model, problem)
        scores, signal = problem.fresh(part.coef, part.intercept)
        p, truth = curve(scores), problem.true_curve(scores, signal, part.coef, part.intercept)
        row: Row = {
            "case": problem.case.name,
            "contender": name,
            "error": float(np.mean(np.abs(p - truth))),
            "log_loss": expected_log_loss(p, LINK(signal)),
            "true_cosine": float(np.corrcoef(scores, signal)[0, 1]),
        }
        rows.append(row | _angle_columns(name, model))
    if OURS in fitted and OURS_EXACT in fitted:
        ours = next(row for row in rows if row["contender"] == OURS)
        ours |= gaps(fitted[OURS], fitted[OURS_EXACT], problem)
    return rows


def _angle_columns(name: str, model: Any) -> Row:
    if name not in (OURS, OURS_EXACT):
        return {}
    return {
        "cosine": model.angle_.cosine,
        "cosine_error": model.angle_.sampling_error,
        "side": model.observables_.side,
        "step_error": model.observables_.step_error,
        "remark": model.observables_.remark,
        "distance_to_optimum": model.distance_to_optimum_,
    }


def gaps(fast: Any, exact: Any, problem: Problem) -> Row:
    """Fast minus exact, in the standard errors of cosine and curve, and as plain probability."""
    found = both_paths(fast, exact, problem)
    cosine_gap = abs(found["cosine"] - found["cosine_exact"])
    return {
        "cosine_gap": _in_units(cosine_gap, found["cosine_error"]),
        "curve_gap": _in_units(found["gap"], found["standard_error"]),
        "largest_gap": found["largest_gap"],
    }


def both_paths(fast: Any, exact: Any, problem: Problem) -> Row:
    """Errors of both answers on fresh rows, and how far they are apart."""
    (part,) = linear_parts(exact, problem)
    scores, signal = problem.fresh(part.coef, part.intercept)
    truth = problem.true_curve(scores, signal, part.coef, part.intercept)
    p, p_exact = fast.curve_.predict(scores), exact.curve_.predict(scores)
    return {
        "side": fast.observables_.side,
        "error": float(np.mean(np.abs(p - truth))),
        "error_exact": float(np.mean(np.abs(p_exact - truth))),
        "gap": float(np.sqrt(np.mean((p - p_exact) ** 2))),
        "standard_error": curve_standard_error(p_exact, scores, problem.case.n),
        "cosine": fast.angle_.cosine,
        "cosine_exact": exact.angle_.cosine,
        "cosine_error": exact.angle_.sampling_error,
        "true_cosine": float(np.corrcoef(scores, signal)[0, 1]),
        "largest_gap": float(np.abs(p - p_exact).max()),
    }


def _in_units(gap: float, unit: float) -> float:
    return gap / unit if unit > 0 else (0.0 if gap == 0 else float("inf"))


def measure_draw(case: Case, draw: int) -> Row:
    """Both paths on one draw of a case."""
    case = replace(case, seed=FIRST_SEED + draw)
    problem = make(case)
    with warnings.catch_warnings(action="ignore"):
        fast = angular(problem, "auto").fit(problem.X, problem.y)
        exact = angular(problem, "exact").fit(problem.X, problem.y)
    found = both_paths(fast, exact, problem)
    del found["largest_gap"]
    return {"case": case.name, "draw": draw, **found}
