r"""A X = B for several right-hand sides at once by preconditioned conjugate gradients.

Started from zero, the quadratic form bᵀx_k = Σ_j α_jγ_j rises towards bᵀA⁻¹b and what it lacks is
the squared error ‖x − x_k‖_A². Hestenes and Stiefel's estimate of what was lacking some steps ago
is what the form has gained since; a column is done when that is a small share of its form. So the
accuracy is stated in the quantity that is asked for, not in a residual. The look back is a quarter
of all steps: with a fixed one, slow convergence (a pool of few more rows than columns) passes for
no more change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats

SHORTEST_DELAY, DELAY_SHARE = 4, 0.25
LARGEST_STEPS = 500
# Steps without halving the error after which there is no hope.
PATIENCE = 100
# A residual grows at most by A's condition number.
LARGEST_GROWTH = 1e12
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Solution:
    """X with A X ≈ B, and how far it got.

    Attributes
    ----------
    values : (d, k) array
    forms : (k,) array
        b_jᵀx_j.
    steps : int
        Products with A.
    error : float
        Largest share that a form is estimated to lack.
    converged : bool
    """

    values: Floats
    forms: Floats
    steps: int
    error: float
    converged: bool


def conjugate_gradients(
    apply: Callable[[Floats], Floats],
    B: Floats,
    inverse_diagonal: Floats,
    accuracy: float,
    largest_steps: int = LARGEST_STEPS,
) -> Solution:
    """Solve A X = B to a share ``accuracy`` of every b_jᵀA⁻¹b_j.

    Parameters
    ----------
    apply : callable
        V -> A V for a (d, k) block, A symmetric and not negative.
    B : (d, k) array
    inverse_diagonal : (d,) array
        Preconditioner; where it is zero, x stays zero.
    accuracy : float
    largest_steps : int
    """
    state = _State(B, inverse_diagonal)
    best, best_step, error = np.inf, 0, 0.0
    for step in range(largest_steps):
        if not len(state.active):
            return Solution(state.values, state.forms, step, error, True)
        state.advance(apply(state.direction))
        lacking = state.lacking()
        if state.broken:
            break
        finished = lacking <= accuracy
        if finished.any():
            error = max(error, float(lacking[finished].max()))
            state.keep(~finished)
        worst = float(lacking.max())
        if worst < 0.5 * best or not np.isfinite(worst):
            best, best_step = worst, step
        if step - best_step > PATIENCE:
            break
    done = not len(state.active) and not state.broken
    worst = error if done else float(np.max(state.lacking(), initial=error))
    return Solution(state.values, state.forms, step + 1, worst, done)


class _State:
    """Iterates of the columns that are not done yet."""

    def __init__(self, B: Floats, inverse_diagonal: Floats) -> None:
        self.weights = inverse_diagonal[:, None]
        self.values, self.forms = np.zeros_like(B), np.zeros(B.shape[1])
        self.residual = B.copy()
        self.direction = self.weights * B
        self.gamma = np.einsum("ij,ij->j", self.residual, self.direction)
        self.start = self.gamma.copy()
        self.active = np.arange(B.shape[1])
        self.history: list[Floats] = []
        self.broken = False
        self.keep(self.gamma > 0)

    def advance(self, product: Floats) -> None:
        """One step along the directions, whose products with A are given."""
        curvature = np.einsum("ij,ij->j", self.direction, product)
        # A direction without curvature lies in A's null space, and a residual that outgrows what
        # any invertible A allows is on its way there: such a column has no solution.
        grown = self.gamma > LARGEST_GROWTH * self.start
        self.broken = bool(np.any(~(curvature > 0) | grown))
        if self.broken:
            return
        alpha = self.gamma / curvature
        self.values[:, self.active] += alpha * self.direction
        self.history.append(self.forms.copy())
        self.forms[self.active] += alpha * self.gamma
        self.residual -= alpha * product
        step = self.weights * self.residual
        gamma = np.einsum("ij,ij->j", self.residual, step)
        self.direction *= gamma / self.gamma
        self.direction += step
        self.gamma = gamma

    def lacking(self) -> Floats:
        """Share of each active form that it has gained lately; ∞ in the first steps."""
        shares = np.full(len(self.active), np.inf)
        delay = max(SHORTEST_DELAY, int(np.ceil(DELAY_SHARE * len(self.history))))
        if len(self.history) >= delay:
            now, before = self.forms[self.active], self.history[-delay][self.active]
            shares = (now - before) / np.maximum(now, TINY)
        # Nothing is missing from a solution whose residual is rounding.
        shares[self.gamma <= 1e-30 * self.start] = 0.0
        return shares

    def keep(self, which: np.ndarray) -> None:
        """Go on with these columns only."""
        self.active, self.gamma, self.start = (
            self.active[which],
            self.gamma[which],
            self.start[which],
        )
        self.residual, self.direction = self.residual[:, which], self.direction[:, which]
