r"""Three and more classes on a device: scores of some rows, from leverages that all classes share.

What is of the size n × K stays on the device. The map has few parameters, so that a few thousand
rows tell it as well as all would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import namespace_of, on_host, placed_like
from angcal.leverages import SampledHessian
from angcal.leverages.steps import left_out
from angcal.links.multiclass import Softmax
from angcal.losses import Multinomial, curvature_of
from angcal.multiclass.class_map import ClassMap
from angcal.multiclass.class_scores import ClassScores
from angcal.observables import count_shifts, is_settled, step_ratio, typical_classes
from angcal.rows import TensorRows
from angcal.solvers.newton_cg import Solution


def scores_on_device(
    rows: TensorRows, solution: Solution, codes: np.ndarray, weights: Floats, strength: float
) -> tuple[ClassScores, np.ndarray]:
    """(scores, the rows that they belong to) of a multinomial fit on a device.

    Parameters
    ----------
    rows : TensorRows
    solution : Solution
        Weights and scores of K classes, on the device.
    codes, weights : (n,) arrays
        On the host.
    strength : float
        λ.
    """
    n, K = solution.scores.shape
    loss = Multinomial(K)
    U, omega = solution.scores, placed_like(weights, rows.X)
    xp = namespace_of(U)
    p = xp.exp(U - xp.max(U, axis=1, keepdims=True))
    p = p / xp.sum(p, axis=1, keepdims=True)
    curvature = on_host(omega * (1.0 - xp.sum(p * p, axis=1))) / (K - 1.0)
    for done in range(1, plan.MOST_ROUNDS + 1):
        steps = _steps(rows, curvature, strength)
        held = loss.held_back(p, omega, placed_like(steps, U)[:, None])
        before, curvature = curvature, curvature_of(on_host(xp.sum(held, axis=1)) / K, steps)
        if is_settled(before, curvature, done, separate=False):
            break
    some = typical_classes(on_host(xp.sum(held, axis=0))[None, :])
    few = xp.asarray(some, device=U.device)
    D = curvature_of(on_host(held[:, few]), steps[:, None])
    missed = (codes[:, None] == some) - on_host(p[:, few])
    own = np.column_stack([_steps(rows, np.ascontiguousarray(each), strength) for each in D.T])
    steps = steps * step_ratio(own, steps[:, None], weights[:, None] * missed)
    entries = plan.MAP_ENTRIES if K <= plan.MOST_SHIFTED_CLASSES else plan.SLOPE_ENTRIES
    taken = np.sort(np.random.default_rng(plan.SEED).permutation(n)[: max(1, entries // K)])
    place = xp.asarray(taken, device=U.device)
    fitted = on_host(U[place, :])
    residuals = -on_host(p[place, :])
    residuals[np.arange(len(taken)), codes[taken]] += 1.0
    without = fitted - (steps * weights)[taken, None] * residuals
    shifts = count_shifts(codes, weights, K, taken) if rows.intercept else 0.0
    coef, intercept = on_host(solution.coef).T, on_host(solution.intercepts)
    honest = without + shifts
    return ClassScores(honest, without, fitted, Softmax(K), coef, intercept), taken


def _steps(rows: TensorRows, curvatures: Floats, strength: float) -> Floats:
    """γ_i of one problem, by sampled rows."""
    Q = np.full(rows.shape[1], strength)
    return left_out(SampledHessian(rows, curvatures, Q).leverages(), curvatures)


def predict_on_device(found: ClassMap, scores: Any) -> Any:
    """Σ_j π_j softmax(a_j∘u + b_j), where the scores are."""
    xp = namespace_of(scores)
    u = scores - xp.mean(scores, axis=1, keepdims=True)
    total = 0.0 * u
    for share, slopes, offsets in zip(found.shares, found.slopes, found.offsets, strict=True):
        logits = u * placed_like(slopes, u) + placed_like(offsets, u)
        p = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
        total = total + float(share) * p / xp.sum(p, axis=1, keepdims=True)
    total = total / xp.sum(total, axis=1, keepdims=True)
    return found.floor + (1.0 - u.shape[1] * found.floor) * total
