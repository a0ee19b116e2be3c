r"""Newton's method for one score and one penalty where a pass brings back the matrix X̃ᵀDX̃ itself.

    ladder     J, X̃ᵀψ at points V + tδ for several shares t of a step, and X̃ᵀDX̃ at the best one
    closing    scores and X̃ᵀψ at the end: what is left of the gradient, by the last matrix one more
               step where it is too much

Matrices of every k-th row do until the optimum is near, and single precision where columns are not
too collinear: the gradient is always that of all rows in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages.cholesky import SingularHessianError
from angcal.leverages.far import FarHessian, gram_of_block, precision
from angcal.losses import BlockLoss
from angcal.rows import FarRows, dense_parts
from angcal.solvers.far_newton import (
    Watch,
    pulled,
    require_finite,
    scores_of_block,
)
from angcal.solvers.newton_cg import RidgeProblems, Solution


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass finds at a point.

    Attributes
    ----------
    V, gradient : (d + 1, 1) arrays
        With the penalty in the gradient.
    value : float
        J.
    gram : (d + 1, d + 1) array
        X̃ᵀDX̃ of some rows, raised to the curvature of all.
    whole : bool
        Whether it is that of all rows, at V.
    """

    V: Floats
    gradient: Floats
    value: float
    gram: Floats
    whole: bool


class MatrixNewton(RidgeProblems):
    """The problem J of one design whose rows are far.

    Parameters
    ----------
    rows : FarRows
    labels, weights : (n,) arrays
    strength : float
        λ of ½λ‖w‖².
    loss : BlockLoss, optional
        With one score.
    watch : callable, optional
        Called with the point after each Newton step.

    Attributes
    ----------
    hessian : FarHessian
        Of the last step.
    gram : (d + 1, d + 1) array
        X̃ᵀDX̃ of the last step.
    left : float
        How far the scores are from the optimum, as a share of their spread.
    single : bool
        Whether matrices were summed in single precision.
    """

    def __init__(
        self,
        rows: FarRows,
        labels: Floats,
        weights: Floats,
        strength: float,
        loss: BlockLoss | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(rows, labels, weights, np.array([strength]), loss)
        self.rows: FarRows = rows
        self.strength, self._watch = strength, watch
        self.single = rows.shape[1] >= plan.SMALLEST_SINGLE_SIDE
        self.hessian: FarHessian
        self.gram: Floats
        self.left = np.inf

    def solve(self, tol: float, start: Floats | None = None) -> Solution:
        """Minimize J, from a constant fit or from a (d + 1, 1) point.

        Matrices of every k-th row cost k times less and leave steps of a quarter of what is
        missing. The last step with a matrix of all rows is taken unseen.
        """
        n, width = self.rows.shape[0], self.rows.width
        some = max(1, min(plan.MOST_STRIDE, int(n / (20 * width))))
        if start is None:
            V = self.start()
        else:
            V, some = np.array(start, dtype=np.float64).reshape(width, 1), 1
        last = plan.last_step(n, width)
        look, moved, steps = self._look(V, some), np.inf, 0
        for steps in range(1, self.MOST_STEPS + 1):  # noqa: B007 (its last value is the count)
            look = self._factorized(look, some)
            step, before = self._step(look.gradient), moved
            moved = self._movement(look.V + step, step)
            if look.whole and moved <= last:
                V = look.V + step
                self._tell(V)
                break
            some = 1 if moved <= plan.NEAR_STEP or moved > 0.7 * before else some
            look, lower = self._moved(look, step, some, moved > plan.LADDER_STEP)
            V = look.V
            self._tell(V)
            if not lower:
                break  # rounding leaves nothing to gain
        # What 1e-7 leaves moves no probability by 1e-6.
        return self._closed(V, 1e-3 * tol, steps)

    def _closed(self, V: Floats, enough: float, steps: int) -> Solution:
        """Steps with the last matrix until too little is left; scores at their end."""
        f = partial(_closing_of_block, self.loss, self.rows.intercept)
        lines: Any = None
        most = 6  # steps with one matrix, each of which leaves less than half of what is left
        for closing in range(most):
            lines = None  # as large as several vectors of all rows
            shared = (V, self.rows.directions)
            lines, gradient = self.rows.sweep(f, shared, (self.labels, self.weights))
            gradient = gradient + self._penalty * V
            step, before = self._step(gradient), self.left
            self.left = self._movement(V, step)
            if self.left <= enough or self.left > 0.5 * before or closing == most - 1:
                break
            V = V + step
            self._tell(V)
        d, scores = self.rows.shape[1], self.rows.split_marks(lines)
        level = V[d] if self.rows.intercept else np.zeros(1)
        largest = np.abs(gradient).max(axis=0) / self.total
        found = np.array([self.left <= plan.LARGEST_FAR_STEP**2])
        return Solution(V[:d], level, scores, found, largest, steps, self.rows.passes)

    # -- steps -------------------------------------------------------------------------------

    def _factorized(self, look: Look, stride: int) -> Look:
        """The look whose matrix was factorized: made anew where single precision would not do."""
        if self.single:
            diagonal = np.diag(look.gram)
            # Products of two entries have room on both sides.
            if np.all((diagonal >= 1e-20) & (diagonal <= 1e30)):
                try:
                    self._factorize(look.gram)
                    if self.hessian.inflation <= plan.LARGEST_SINGLE_INFLATION:
                        return look
                except SingularHessianError:
                    pass
            self.single = False
            look = self._look(look.V, stride)
        require_finite(look.gram)
        self._factorize(look.gram)
        return look

    def _factorize(self, gram: Floats) -> None:
        self.gram = gram
        self.hessian = FarHessian(self.rows, self.weights, [self.strength], grams=gram[None])

    def _step(self, gradient: Floats) -> Floats:
        """−(X̃ᵀDX̃ + λI)⁻¹ gradient."""
        d = self.rows.shape[1]
        last = gradient[d, 0] if self.rows.intercept else 0.0
        slopes, level = self.hessian.solve(-gradient[:d, 0], -last)
        return np.append(slopes, [level] * self.rows.intercept)[:, None]

    def _movement(self, V: Floats, step: Floats) -> float:
        """rms of X̃δ over the spread of X̃V, rows weighed by their curvature."""
        d, gram, v, move = self.rows.shape[1], self.gram, V[:, 0], step[:, 0]
        spread = float(v[:d] @ gram[:d, :d] @ v[:d])
        if self.rows.intercept:
            spread -= float(gram[d, :d] @ v[:d]) ** 2 / float(gram[d, d])
        change = float(move @ gram @ move)
        if change <= 0:
            return 0.0
        return float(np.sqrt(change / max(spread, np.finfo(float).tiny)))

    # -- points ------------------------------------------------------------------------------

    def _moved(self, look: Look, step: Floats, stride: int, far: bool) -> tuple[Look, bool]:
        """The best point along a step, several shares of which are looked at where it is long."""
        shares = np.array(plan.LADDER if far else (1.0,))
        for _ in range(self.MOST_HALVINGS):
            new = self._look(look.V, stride, step, shares)
            if self.is_lower(new.value, look.value):
                return new, True
            shares = shares * 0.25
        return look, False

    def _look(
        self, V: Floats, stride: int, step: Floats | None = None, shares: Any = (1.0,)
    ) -> Look:
        """At V, or at the best of the points V + tδ."""
        points = V if step is None else V + step * np.asarray(shares)
        # However many points, rows are multiplied by V and δ alone.
        ray = points if step is None or len(shares) == 1 else np.hstack([V, step])
        d, dtype = self.rows.shape[1], precision(self.single)
        costs = 0.5 * self.strength * np.sum(points[:d] ** 2, axis=0)
        f = partial(_ladder_of_block, self.loss, self.rows.intercept, stride, dtype)
        shared = (ray, np.asarray(shares), costs / self.total)
        found = self.rows.sum(f, shared, (self.labels, self.weights))
        value, gradient, totals, gram, total, votes = found
        best = int(np.argmin(np.where(np.isnan(value), np.inf, value + costs)))
        V = points[:, best : best + 1]
        return Look(
            V,
            gradient[:, best : best + 1] + self._penalty * V,
            float(value[best] + costs[best]),
            gram * (totals[best] / max(float(total), 1e-300)),
            stride == 1 and votes[best] == votes.sum(),
        )

    @property
    def _penalty(self) -> Floats:
        penalty = np.full((self.rows.width, 1), self.strength)
        if self.rows.intercept:
            penalty[-1] = 0.0
        return penalty

    def _tell(self, V: Floats) -> None:
        if self._watch is not None:
            self._watch(V)


# -- functions of a block --------------------------------------------------------------------


def _ladder_of_block(
    loss: BlockLoss,
    intercept: bool,
    stride: int,
    dtype: Any,
    X: Any,
    ray: Floats,
    shares: Floats,
    costs: Floats,
    y: Floats,
    omega: Floats,
) -> tuple[Any, ...]:
    """Σωℓ, X̃ᵀψ, ΣD at V + tδ; X̃ᵀDX̃, ΣD of every stride-th row at the best t; which that was."""
    k = len(shares)
    value, gradient = np.zeros(k), np.zeros((len(ray), k))
    D = np.empty((X.shape[0], k))
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, reuse=True):
        labels, weights, both = y[part, None], omega[part, None], scores_of_block(x, ray, intercept)
        U = both if k == 1 else both[:, :1] + shares * both[:, 1:]
        residual, curvature = loss.terms(U, labels, np)
        np.multiply(weights, curvature, out=D[part])
        value += np.sum(weights * loss.values(U, labels, np), axis=0)
        gradient += pulled(x, weights * residual, intercept)
    # A block's own best may be another than that of all: near the end there is one point only.
    own = np.where(np.isnan(value), np.inf, value + omega.sum() * costs)
    best, votes = int(np.argmin(own)), np.zeros(k)
    votes[best] = 1.0
    some = np.ascontiguousarray(D[::stride, best])
    gram = gram_of_block(X[::stride], some, intercept, dtype)
    return value, gradient, D.sum(axis=0), gram, some.sum(), votes


def _closing_of_block(
    loss: BlockLoss,
    intercept: bool,
    X: Any,
    V: Floats,
    directions: Floats,
    y: Floats,
    omega: Floats,
) -> tuple[Floats, Floats]:
    """(scores and marks, X̃ᵀψ)."""
    both, gradient = np.hstack([V, directions]), np.zeros(V.shape)
    lines = np.empty((X.shape[0], both.shape[1]))
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, reuse=True):
        lines[part] = scores_of_block(x, both, intercept)
        residual, _ = loss.terms(np.ascontiguousarray(lines[part, :1]), y[part, None], np)
        gradient += pulled(x, omega[part, None] * residual, intercept)
    return lines, gradient
