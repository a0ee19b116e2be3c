"""Is the fast answer worse? E|p − F| of the fast and of the exact path, over many draws.

One draw cannot tell: an independent error of the fast path makes its answer better about as often
as worse. Over draws, the mean of E|p_fast − F| − E|p_exact − F|, in units of the curve's standard
error, is what the fast path costs.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from studies.speed.accuracy import curve_standard_error
from studies.speed.cases import Case, make
from studies.speed.contenders import angular
from studies.speed.measure import Row

FIRST_SEED = 1000
"""Apart from the seeds of everything that was tuned."""


def measure_draw(case: Case, draw: int) -> Row:
    """Both paths on one draw of a case."""
    case = replace(case, seed=FIRST_SEED + draw)
    problem = make(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = angular(problem, "auto").fit(problem.X, problem.y)
        exact = angular(problem, "exact").fit(problem.X, problem.y)
    coef, intercept = exact.coef_[0], float(exact.intercept_[0])
    scores, signal = problem.fresh(coef, intercept)
    truth = problem.true_curve(scores, signal, coef, intercept)
    p, p_exact = fast.curve_.predict(scores), exact.curve_.predict(scores)
    return {
        "case": case.name,
        "draw": draw,
        "side": fast.observables_.side,
        "error": float(np.mean(np.abs(p - truth))),
        "error_exact": float(np.mean(np.abs(p_exact - truth))),
        "gap": float(np.sqrt(np.mean((p - p_exact) ** 2))),
        "standard_error": curve_standard_error(p_exact, scores, case.n),
        "cosine": fast.angle_.cosine,
        "cosine_exact": exact.angle_.cosine,
        "cosine_error": exact.angle_.sampling_error,
        "true_cosine": float(np.corrcoef(scores, signal)[0, 1]),
    }
