r"""Rounds after the one Newton step, where leaving out a group changes the curvature of the rest.

Without the rows S of a group the weights move by v = ĤX̃ᵀz and all scores by U = X̃v. The gradient
that is left there is X̃ᵀρ with

    ρ = ψ + z − DU − 1_{∉S}·ψ(u + U)

and the one step of :mod:`angcal.leverages.groups` is z_S = −x. A round takes the direction
−Ĥ₍₋ₛ₎X̃ᵀρ, and then Newton's step in the span of it, of the move so far and of the round before, for
many groups at once. For K classes ρ is that of the softmax, which couples them; each has its own Ĥ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages.groups import GroupMoves, Groups, WholeBlocks, solved
from angcal.losses import BlockLoss

AT_ONCE = 32
"""Groups in a round: scores of all rows are kept for each of them."""
PROBED = 4
"""Groups that say whether any round is worth what it needs of all rows."""


@dataclass(frozen=True, eq=False)
class Staying:
    """A fit of q scores, as those who stay see it.

    Attributes
    ----------
    loss : BlockLoss
    labels, weights : (n,) arrays
    scores, residuals, curvatures : (n, q) arrays
        u, ψ, D.
    known : list of WholeBlocks
        Of each score.
    """

    loss: BlockLoss
    labels: Floats
    weights: Floats
    scores: Floats
    residuals: Floats
    curvatures: Floats
    known: list[WholeBlocks]

    @property
    def spread(self) -> float:
        """Standard deviation of the scores; of K classes, about their mean."""
        return float(np.sqrt(np.mean(np.var(_contrasts(self.scores), axis=0))))


def settled_moves(moves: GroupMoves, fit: Staying, intercept_leverages: Floats) -> GroupMoves:
    """Moves after as many rounds as they change by, or as they are allowed.

    Groups that move most come first, and the others of their size are left as they are once those
    hardly change. Single rows are left out as without groups.

    Parameters
    ----------
    moves : GroupMoves
        Of one step.
    fit : Staying
    intercept_leverages : (q,) array
    """
    n, q = fit.scores.shape
    side = min(known.columns for known in fit.known)
    groups, shape = moves.groups, moves.all.shape
    left = max(plan.GROUP_ROUND_PRODUCTS, 0.5 * q * n * float(side) ** 2)
    found, slopes = moves.all.reshape(n, q).copy(), moves.slopes.reshape(n, q).copy()
    least = plan.GROUP_TOLERANCE * fit.spread
    halves: list[tuple[Any, Any]] = []
    for size in np.unique(groups.sizes[(groups.sizes > 1) & (groups.sizes <= side)]):
        for rows in _most_moved_first(groups, int(size), found):
            cost = rows.shape[0] * q * n * (side + plan.GROUP_ROW_PRODUCTS)
            if left < cost:
                return replace(moves, all=found.reshape(shape), slopes=slopes.reshape(shape))
            if not halves:
                if _first_change(fit, rows[:PROBED], found) < least:
                    break
                halves = [known.halves(n) for known in fit.known]
            rounds = _Rounds(fit, rows, halves, found[rows])
            changes = list(rounds.until(least, min(plan.MOST_GROUP_ROUNDS, int(left // cost))))
            left -= cost * len(changes)
            if not np.isfinite(changes[-1]) or changes[0] < least:
                break
            own = -rounds.own_moves()
            found[rows] = own
            slopes[rows] = own + (intercept_leverages * rounds.z.sum(axis=0).T)[:, None, :]
    return replace(moves, all=found.reshape(shape), slopes=slopes.reshape(shape))


def _most_moved_first(groups: Groups, size: int, moves: Floats) -> Iterator[np.ndarray]:
    """Rows of the groups of one size, (g, size) at a time."""
    order = np.argsort(groups.codes, kind="stable")
    starts = (np.cumsum(groups.sizes) - groups.sizes)[groups.sizes == size]
    rows = order[starts[:, None] + np.arange(size)]
    far = np.sum(_contrasts(moves)[rows] ** 2, axis=(1, 2))
    rows = rows[np.argsort(-far, kind="stable")]
    return (rows[low : low + AT_ONCE] for low in range(0, len(rows), AT_ONCE))


def _first_change(fit: Staying, rows: np.ndarray, moves: Floats) -> float:
    """How far X̃ĤX̃ᵀρ moves the scores of some groups, root mean square, after their one step."""
    (n, q), g = fit.scores.shape, len(rows)
    each, z = np.arange(g)[:, None], np.zeros((n, q, g))
    z[rows, :, each] = -(fit.residuals[rows] + fit.curvatures[rows] * moves[rows])
    stay = np.repeat(fit.weights[:, None], g, axis=1)
    stay[rows, each] = 0.0
    U = np.stack([known.smooth(z[:, k]) for k, known in enumerate(fit.known)], axis=1)
    at = (fit.scores[:, :, None] + U).reshape(n, -1)
    gradient = fit.loss.terms(at, fit.labels[:, None], np)[0].reshape(n, q, g)
    rho = fit.residuals[:, :, None] + z - fit.curvatures[:, :, None] * U + stay[:, None] * gradient
    back = np.stack([known.smooth(rho[:, k]) for k, known in enumerate(fit.known)], axis=1)
    return float(np.sqrt(np.mean(_contrasts(back[rows, :, each].reshape(-1, q)) ** 2)))


def _contrasts(scores: Floats) -> Floats:
    """About their mean over the classes, which is all that a softmax sees."""
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


class _Rounds:
    """z and U of g groups of s rows each, (n, q, g), in single precision."""

    def __init__(
        self,
        fit: Staying,
        rows: np.ndarray,
        halves: list[tuple[Any, Any]],
        moves: Floats,
    ) -> None:
        self._fit, self._rows, self._halves = fit, rows, halves
        n, q = fit.scores.shape
        self._each = np.arange(len(rows))[:, None]
        self._D = fit.curvatures.astype(np.float32)[:, :, None]
        self._psi = fit.residuals.astype(np.float32)[:, :, None]
        self._u = fit.scores.astype(np.float32)[:, :, None]
        stay = np.repeat(fit.weights.astype(np.float32)[:, None], len(rows), axis=1)
        stay[rows, self._each] = 0.0
        self._stay = stay
        # Multinomial takes codes, and the other loss numbers of the scores' precision.
        self._labels = fit.labels.astype(np.float32)[:, None]
        self.z: Floats = np.zeros((n, q, len(rows)), dtype=np.float32)
        self.z[rows, :, self._each] = -(fit.residuals[rows] + fit.curvatures[rows] * moves)
        self._U = self._images([right.T @ self.z[:, k] for k, (_, right) in enumerate(halves)])
        self._before: list[tuple[Floats, Floats]] = []

    def own_moves(self) -> Floats:
        """U of the rows that left, (g, s, q)."""
        return np.asarray(self._U[self._rows, :, self._each], dtype=np.float64)

    def until(self, least: float, most: int) -> Iterator[float]:
        """Rounds, by how much each changed the scores of the rows that left."""
        for _ in range(most):
            before = self.own_moves()
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._round()
                moved = self.own_moves() - before
                change = float(np.sqrt(np.mean(_contrasts(moved.reshape(-1, moved.shape[2])) ** 2)))
            yield change
            if not change >= least:
                return

    def _round(self) -> None:
        fit, (n, q, g) = self._fit, self.z.shape
        at, stay = (self._u + self._U).reshape(n, -1), self._stay
        gradient, D = fit.loss.terms(at, self._labels, np)
        stays = stay[:, None, :]
        rho = self._psi + self.z - self._D * self._U + stays * gradient.reshape(n, q, g)
        lines = [(self.z, self._U), self._direction(rho), *self._before]
        curved = [
            z - self._D * U + stays * fit.loss.weigh(D, U.reshape(n, -1)).reshape(n, q, g)
            for z, U in lines
        ]
        slopes = np.array([_dot(U, rho) for _, U in lines])
        bends = np.array([[_dot(U, each) for each in curved] for _, U in lines])
        steps = _least(bends.transpose(2, 0, 1), slopes.T)
        change = tuple(
            sum(step * line[part] for step, line in zip(steps.T, lines, strict=True))
            for part in (0, 1)
        )
        self.z, self._U = self.z + change[0], self._U + change[1]
        self._before = [change]

    def _direction(self, rho: Floats) -> tuple[Floats, Floats]:
        """(z, U) of −Ĥ₍₋ₛ₎X̃ᵀρ: with B = D^½(I − D^½AD^½)⁻¹D^½, z = −ρ − 1_S·B(X̃ĤX̃ᵀρ)_S."""
        z, pulled = -rho, []
        for k, (left, right) in enumerate(self._halves):
            own, back = left[self._rows], right[self._rows].swapaxes(1, 2)
            root, c = np.sqrt(self._D[self._rows, k]), right.T @ rho[:, k]
            taken = root * (own @ back) * root.swapaxes(1, 2)
            y = (root * solved(taken, root * (own @ c.T[:, :, None]))).astype(np.float32)
            z[self._rows, k, self._each] -= y[:, :, 0]
            pulled.append(-c - (back @ y)[:, :, 0].T)
        return z, self._images(pulled)

    def _images(self, pulled: list[Floats]) -> Floats:
        """Ĥ^½ applied to what was pulled back, (n, q, g)."""
        return np.stack([left @ c for (left, _), c in zip(self._halves, pulled, strict=True)], 1)


def _dot(a: Floats, b: Floats) -> Floats:
    """Σ over rows and classes, for each group."""
    return np.einsum("nqg,nqg->g", a, b).astype(np.float64)


def _least(bends: Floats, slopes: Floats) -> Any:
    """−bends⁻¹slopes of each group; directions that repeat each other share a step."""
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("gii->gi", bends), np.finfo(float).tiny))
    even = scale[:, :, None] * bends * scale[:, None, :] + 1e-6 * np.eye(bends.shape[1])
    if not np.all(np.isfinite(even)):
        return np.full(slopes.shape, np.nan, dtype=np.float32)
    found = -scale * np.linalg.solve(even, (scale * slopes)[:, :, None])[:, :, 0]
    return found.astype(np.float32)
