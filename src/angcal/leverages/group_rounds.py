r"""Rounds after the one Newton step, where leaving out a group changes the curvature of the rest.

Without the rows S of a group the weights move by v = ĤX̃ᵀz and all scores by U = X̃v. The gradient
that is left there is X̃ᵀρ with

    ρ = ψ + z − DU − 1_{∉S}·ψ(u + U)

and the one step of :mod:`angcal.leverages.groups` is z_S = −x. A round takes the direction
−Ĥ₍₋ₛ₎X̃ᵀρ, and then Newton's step in the span of it, of the move so far and of the round before, for
many groups at once. For K classes ρ is that of the softmax, which couples them; each has its own Ĥ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages.groups import GroupMoves, Groups, WholeBlocks, solved
from angcal.losses import BlockLoss

PROBED = 8
"""Groups that say how many rounds the others need, if any; and groups in a round at least, more
where rows are few: scores of all rows are kept for each of them."""


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
    """Moves after as many rounds as keep them to :data:`angcal.plan.GROUP_TOLERANCE`.

    Groups that move most come first, and say how many rounds the others of their size need, if any.
    Where so many cannot be afforded, and for single rows, the one step stands.

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
    # What a round takes of each group, and what all of them may take.
    each = q * n * (side + plan.GROUP_ROW_PRODUCTS)
    left = max(plan.QUICK_PRODUCTS, q * n * float(side) ** 2)
    found, slopes = moves.all.reshape(n, q).copy(), moves.slopes.reshape(n, q).copy()
    least = plan.GROUP_TOLERANCE * fit.spread
    most = max(PROBED, plan.CACHE_ENTRIES // (4 * n * q))
    halves: list[tuple[Any, Any]] = []
    for size in np.unique(groups.sizes[(groups.sizes > 1) & (groups.sizes <= side)]):
        order, far = _most_moved_first(groups, int(size), found)
        outlook = _Outlook(far, least)
        start, end, needed = 0, min(PROBED, len(order)), plan.MOST_ROUNDS
        while start < end and needed:
            # Those that come last need fewer, so that half of what all would take may do.
            if left < each * needed * (0.5 * (len(order) - start) if start else end):
                break
            halves = halves or [known.halves(n) for known in fit.known]
            rows = order[start:end]
            rounds = _Rounds(fit, rows, halves, found[rows])
            path = rounds.path(needed, 0.0 if start else 0.5 * least)
            if not np.all(np.isfinite(path[-1])):
                break
            left -= len(rows) * each * (len(path) - 1)
            needed = outlook.needed(path, start, end)
            if _rms(path[-1] - path[0]) > least:
                found[rows] = path[-1]
                from_intercept = (intercept_leverages * rounds.z.sum(axis=0).T)[:, None, :]
                slopes[rows] = path[-1] + from_intercept
            start, end = end, min(end + min(2 * end, most), len(order))
    return replace(moves, all=found.reshape(shape), slopes=slopes.reshape(shape))


class _Outlook:
    """How many rounds the groups need that are still to come.

    Errors are in proportion to the moves, and shrink in later rounds as those of the first groups
    do. What is left open in all groups of a size together decides.
    """

    def __init__(self, far: Floats, least: float) -> None:
        self._far, self._least = far, least
        self._first: list[Floats] = []

    def needed(self, path: list[Floats], start: int, end: int) -> int:
        """Rounds of groups from ``end`` on, after those from ``start`` took this path."""
        first, rest = self._first or path, self._far[end:]
        self._first = first
        if not len(rest):
            return len(path) - 1
        tiny = np.finfo(float).tiny
        shrink = np.sqrt(np.mean(rest) / max(np.mean(self._far[start:end]), tiny))
        # What the last round left open here, by how far these went beside the first.
        beside = _rms(path[0] - path[-1]) / max(_rms(first[0] - first[len(path) - 1]), tiny)
        open_yet = beside * _rms(first[len(path) - 1] - first[-1])
        least = self._least * np.sqrt(len(self._far) / len(rest))
        errors = [shrink * (_rms(before - path[-1]) + open_yet) for before in path]
        return next((k for k, error in enumerate(errors) if error <= least), len(path) - 1)


def _most_moved_first(groups: Groups, size: int, moves: Floats) -> tuple[np.ndarray, Floats]:
    """Rows of the groups of one size, (g, size), and the squares of their moves."""
    order = np.argsort(groups.codes, kind="stable")
    starts = (np.cumsum(groups.sizes) - groups.sizes)[groups.sizes == size]
    rows = order[starts[:, None] + np.arange(size)]
    far = np.sum(_contrasts(moves)[rows] ** 2, axis=(1, 2))
    place = np.argsort(-far, kind="stable")
    return rows[place], far[place]


def _rms(moves: Floats) -> float:
    """Root mean square of (g, s, q) moves."""
    return float(np.sqrt(np.mean(_contrasts(moves.reshape(-1, moves.shape[2])) ** 2)))


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
        self._known = [self._left_out(k) for k in range(q)]
        self.z: Floats = np.zeros((n, q, len(rows)), dtype=np.float32)
        self.z[rows, :, self._each] = -(fit.residuals[rows] + fit.curvatures[rows] * moves)
        self._U = self._images([self._pulled(self.z, k) for k in range(q)])
        self._before: list[tuple[Floats, Floats]] = []

    def own_moves(self) -> Floats:
        """U of the rows that left, (g, s, q)."""
        return np.asarray(self._U[self._rows, :, self._each], dtype=np.float64)

    def path(self, most: int, least: float) -> list[Floats]:
        """Moves of the rows that left, (g, s, q), from one step on, after each round.

        Rounds end where one changes them by no more than ``least``.
        """
        found = [-self.own_moves()]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while len(found) <= most:
                self._round()
                found.append(-self.own_moves())
                if not _rms(found[-1] - found[-2]) > least:
                    break
        return found

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

    def _left_out(self, k: int) -> tuple[Floats, Any, Floats]:
        """Both halves of the rows that left, and D^½(I − D^½AD^½)⁻¹D^½ of their A."""
        (left, right), rows = self._halves[k], self._rows
        own, back = left[rows], None if right is None else right[rows].swapaxes(1, 2)
        A = left[rows[:, :, None], rows[:, None, :]] if back is None else own @ back
        root = np.sqrt(self._D[rows, k])
        each = np.broadcast_to(np.eye(rows.shape[1]), A.shape)
        B = root * solved(root * A * root.swapaxes(1, 2), each) * root.swapaxes(1, 2)
        return own, back, B.astype(np.float32)

    def _direction(self, rho: Floats) -> tuple[Floats, Floats]:
        """(z, U) of −Ĥ₍₋ₛ₎X̃ᵀρ: with B = D^½(I − D^½AD^½)⁻¹D^½, z = −ρ − 1_S·B(X̃ĤX̃ᵀρ)_S."""
        z, pulled = -rho, []
        for k, (own, back, B) in enumerate(self._known):
            c = self._pulled(rho, k)
            y = B @ (own @ c.T[:, :, None])
            z[self._rows, k, self._each] -= y[:, :, 0]
            pulled.append(z[:, k] if back is None else -c - (back @ y)[:, :, 0].T)
        return z, self._images(pulled)

    def _pulled(self, z: Floats, k: int) -> Floats:
        """Rᵀz of one class."""
        right = self._halves[k][1]
        return z[:, k] if right is None else right.T @ z[:, k]

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
