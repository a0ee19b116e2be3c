r"""Three and more classes on a device: scores of some rows, from leverages that all classes share.

What is of the size n × K stays on the device. The map has few parameters, so that a few thousand
rows tell it as well as all would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import namespace_of, on_host, softmax
from angcal.leverages import Leverages
from angcal.leverages.shared import ClassRows, corrected_steps, shared_steps
from angcal.links.multiclass import Softmax
from angcal.losses import Multinomial
from angcal.multiclass.class_scores import ClassScores
from angcal.observables import count_shifts
from angcal.penalties import Ridge
from angcal.problem import LinearFit
from angcal.rows import TensorRows
from angcal.solvers.newton_cg import Solution


def scores_on_device(
    rows: TensorRows, solution: Solution, codes: np.ndarray, weights: Floats, strength: float
) -> tuple[ClassScores, np.ndarray]:
    """(scores, their rows) of a multinomial fit on a device; labels are on the host."""
    n, K = solution.scores.shape
    loss, ridge = Multinomial(K), Ridge(strength / float(weights.sum()))
    coef, intercept = on_host(solution.coef).T, on_host(solution.intercepts)
    problem = (rows, codes, weights, coef, intercept, loss, ridge, rows.intercept)
    fit = LinearFit(*problem, hessian_method="randomised")
    classes = ClassRows(loss, softmax(solution.scores), codes, weights)

    def leverages(curvatures: list[Floats], _: list[int]) -> list[Leverages]:
        return [fit.leverages(D) for D in curvatures]

    shared = shared_steps([classes], leverages, separate=False)
    totals = on_host(namespace_of(classes.p).sum(shared[0].held, axis=0))
    steps = corrected_steps([classes], shared, [totals], leverages)[0]
    order = np.random.default_rng(plan.SEED).permutation(n)
    taken = np.sort(order[: plan.rows_of_map(K)])
    fitted, p = (on_host(_taken(values, taken)) for values in (solution.scores, classes.p))
    residuals = (codes[taken, None] == np.arange(K)) - p
    without = fitted - (steps * weights[:, None])[taken] * residuals
    shifts = count_shifts(codes, weights, K, taken) if rows.intercept else 0.0
    return ClassScores(without + shifts, without, fitted, Softmax(K), coef, intercept), taken


def _taken(values: Any, index: np.ndarray) -> Any:
    return values[namespace_of(values).asarray(index, device=values.device), :]
