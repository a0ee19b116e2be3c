"""Newton's method with the Fisher information, for a loss in a few parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from angcal._typing import Floats

Evaluation = tuple[float, Floats, Floats]
"""−log density, its gradient and its Fisher information."""


def _newton_step(information: Floats, gradient: Floats) -> Floats:
    """−I⁻¹∇; along what labels say nothing of (scores far out, p at its floor) there is no step."""
    if len(gradient) == 2:
        # By hand: LAPACK would spend ten times as long on being called.
        ((kk, kb), (_, bb)), (gk, gb) = information.tolist(), gradient.tolist()
        left = bb - kb * kb / kk if kk > 0 else 0.0
        if left > 1e-12 * bb:
            b = (gk * kb / kk - gb) / left
            return np.array([-(gk + kb * b) / kk, b])
    try:
        step = np.linalg.solve(information, -gradient)
    except np.linalg.LinAlgError:
        step = -np.linalg.pinv(information, hermitian=True) @ gradient
    return np.asarray(step, dtype=np.float64)


def fisher_scoring(
    evaluate: Callable[[Floats], Evaluation],
    start: Floats,
    bounds: tuple[float, float],
    gain: float,
    limit: float = np.inf,
) -> tuple[Evaluation, Floats]:
    """Minimize a loss in a few parameters, the first within bounds: (evaluation, parameters).

    Newton's method with the Fisher information, which is never indefinite, and halved steps where
    a whole one does not lower the loss. Ends where the next step would gain less than ``gain``, or
    where neither twice the gain that it promises nor ten times that of the last step would bring
    the loss below ``limit``.
    """
    (low, high), theta = bounds, start.copy()
    theta[0] = min(max(theta[0], low), high)
    here = evaluate(theta)
    for _ in range(20):
        value, gradient, information = here
        uphill = gradient[0] > 0 if theta[0] == low else gradient[0] < 0
        held = int(theta[0] in bounds and uphill)
        step = np.zeros_like(gradient)
        step[held:] = _newton_step(information[held:, held:], gradient[held:])
        # Half the squared length of the step in standard errors: what is left to gain.
        promised = -float(gradient @ step)
        if promised < gain or value - promised > limit:
            break
        # A long step in a logarithm promises what a curve that is nearly a step cannot keep.
        step = step / max(abs(float(step[0])), 1.0)
        for halvings in range(30):  # noqa: B007 (its last value counts)
            trial = theta + step
            trial[0] = min(max(trial[0], low), high)
            found = evaluate(trial)
            if found[0] <= value:
                break
            step = 0.5 * step
        else:
            break
        gained = value - found[0]
        theta, here = trial, found
        # Gains shrink, and ten like this one would not do: the loss stays above the limit.
        if gained < 0.1 * (found[0] - limit):
            break
        # Where so little of a step can be taken, the curve runs off towards one that no κ has.
        if halvings > 3:
            break
    return here, theta
