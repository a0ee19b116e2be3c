"""Plans without a pilot: from what is assumed of features, signal and prevalence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from angcal.planner.criteria import criteria_of_riley
from angcal.planner.forecast import checked_numbers
from angcal.planner.result import Curve, Plan, made_plan
from angcal.theory.labels import best_state, link_for
from angcal.theory.spectrum import Spectrum


def plan_from_assumptions(
    columns: Any,
    *,
    ceiling: float,
    n: ArrayLike,
    prevalence: float = 0.5,
) -> Plan:
    """The plan for features and a signal that are assumed.

    Parameters
    ----------
    columns : float, Spectrum or (m, d) array
        Number of features, taken to be independent and equally important; or their spectrum; or
        unlabeled rows, from which it is estimated.
    ceiling : float
        Accuracy of a linear model with unlimited labels.
    n : array-like
        Numbers of labels.
    prevalence : float, default=0.5
        Share of the second class.

    Returns
    -------
    Plan
        Its intervals have no width: nothing was estimated. ``criteria`` are the sample sizes that
        pmsampsize gives for a model without a penalty.

    See Also
    --------
    angcal.theory.labels_needed : Labels for a target, from assumptions.

    Examples
    --------
    >>> plan = plan_from_assumptions(100, ceiling=0.85, n=[100, 400], prevalence=0.3)
    >>> round(plan.labels_for(accuracy=0.8), -1)
    480.0
    """
    spectrum = _spectrum(columns)
    wanted = checked_numbers(n, 2)
    link = link_for(ceiling, prevalence=prevalence)
    low, high = min(10.0, wanted.min()), max(wanted.max(), 200.0 * spectrum.size)
    grid = np.unique(np.concatenate([wanted, np.geomspace(low, high, 16)]))
    states = [best_state(float(each), spectrum, link=link) for each in grid]
    means = {
        "log_loss": np.array([state.calibrated_log_loss + 1.0 / state.n for state in states]),
        "accuracy": np.array([state.calibrated_accuracy for state in states]),
        "ece": np.array([state.ece for state in states]),
        "cosine": np.array([state.cosine for state in states]),
        "C": np.log([state.C for state in states]),
    }
    curve = Curve(grid, means, {name: np.zeros(len(grid)) for name in means})
    truth = states[0]
    best = {"log_loss": (truth.bayes_log_loss,) * 3, "accuracy": (truth.bayes_accuracy,) * 3}
    base = float(entr(prevalence) + entr(1.0 - prevalence))
    r2 = float(-np.expm1(-2.0 * (base - truth.bayes_log_loss)))
    criteria = criteria_of_riley(spectrum.size, r2, prevalence)
    return made_plan(curve, wanted, best, criteria=criteria)


def _spectrum(columns: Any) -> Spectrum:
    if isinstance(columns, Spectrum):
        return columns
    if np.ndim(columns) == 2:
        return Spectrum.of_rows(columns)
    if not (np.ndim(columns) == 0 and np.isfinite(columns) and columns >= 1):
        raise ValueError(f"columns={columns!r} must be a number of features, 1 or more.")
    return Spectrum.isotropic(float(columns))
