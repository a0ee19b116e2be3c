r"""What leaving out a whole group of rows does to their scores.

For the rows S of a group, with A = X̃_SĤX̃_Sᵀ, curvatures D and residuals ψ of these rows,

    ũ_S = u_S − A x,   x = (I − DA)⁻¹ψ = ψ + D(A x)

is one Newton step from the fit to the one without the group. A group of one row has
A = h_i, hence the step h_i/(1 − h_iD_i)·ψ_i of :mod:`angcal.leverages.steps`. A group of more rows
than columns is left out on the side of the columns: with A = WWᵀ, A x = W(I − WᵀDW)⁻¹Wᵀψ. The
intercept's part of A is the same number c for every pair of rows, so that weights alone move the
scores by A x − c·Σ_S x.

A is asked of whoever holds Ĥ (:class:`Blocks`), so that groups are the same for every storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import on_host
from angcal.baselines import PlattScaling


@dataclass(frozen=True, eq=False)
class Groups:
    """Which rows belong together: several of a patient, a plate, an author.

    Attributes
    ----------
    codes : (n,) array of int
        The group of each row, from 0 on, every number in use.

    Examples
    --------
    >>> groups = groups_of(["b", "a", "b"])
    >>> groups.codes, groups.count
    (array([1, 0, 1]), 2)
    >>> groups.sums(np.array([1.0, 2.0, 3.0]))
    array([2., 4.])
    """

    codes: np.ndarray

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each group."""
        return np.bincount(self.codes)

    def sums(self, values: Floats) -> Floats:
        """Σ over the rows of each group, for (n,) or (n, k) values."""
        if values.ndim == 1:
            return np.bincount(self.codes, values, minlength=self.count).astype(np.float64)
        return np.column_stack([self.sums(column) for column in values.T])

    def design_effect(self, residuals: Floats, weights: Floats) -> float:
        """Σ_g‖Σ_{i in g} ω_ir_i‖²/Σ_i ω_i‖r_i‖²: rows that say as much as one independent row.

        Weights ω have a mean of 1. Labels of a patient agree beyond what the scores tell, so that n
        of them know as much as n over this: as many as patients where rows of each are copies that
        weigh 1 together. Between 1 and :meth:`largest_effect`.
        """
        r, w = residuals.reshape(len(residuals), -1), weights / np.mean(weights)
        squares = float(np.sum(w[:, None] * r**2))
        found = np.sum(self.sums(w[:, None] * r) ** 2) / max(squares, np.finfo(float).tiny)
        return float(np.clip(found, 1.0, self.largest_effect(w)))

    def largest_effect(self, weights: Floats) -> float:
        """Mean size of a row's group, or its mean Σω where that is less: the effect of copies.

        Rows alone count as 1 each, whatever they weigh.
        """
        w = weights / np.mean(weights)
        masses = float(np.mean(w * self.sums(w)[self.codes]))
        return max(min(float(np.mean(self.sizes[self.codes])), masses), 1.0)

    def distinct_share(self, effect: float, weights: Floats) -> float:
        """1 − c(1 − 1/L) at effect 1 + c(L − 1), L the largest: rows of which c are copies.

        Copies are as many as groups, where these weigh alike; rows whose labels merely lean on
        their group's are nearly all distinct.
        """
        largest = self.largest_effect(weights)
        copied = (effect - 1.0) / max(largest - 1.0, np.finfo(float).tiny)
        return 1.0 - copied * (1.0 - 1.0 / largest)

    def mass_shares(self, weights: Floats) -> Floats:
        """Σ_{j in g} ω_j/(ω_i·largest effect): what copies of a row pull together, of what it does.

        1 where groups are of one size and weights even, or rows alone.
        """
        return self.sums(weights)[self.codes] / (weights * self.largest_effect(weights))

    def batches(self, columns: int) -> Iterator[np.ndarray]:
        """Rows of groups of equal size, (g, m) at a time, such that g·m lines stay bounded."""
        order, starts = np.argsort(self.codes, kind="stable"), np.cumsum(self.sizes) - self.sizes
        for m in np.unique(self.sizes):
            first = starts[self.sizes == m]
            step = max(1, plan.BLOCK_ENTRIES // (int(m) * max(columns, int(m))))
            for low in range(0, len(first), step):
                yield order[first[low : low + step, None] + np.arange(m)]


def groups_of(names: Any) -> Groups:
    """Groups from one name, number or code for each row."""
    return Groups(np.unique(np.asarray(names), return_inverse=True)[1].reshape(-1))


def prevalence_effect(labels: Floats, weights: Floats, groups: Groups | None) -> float:
    """Labels, (n,) or one-hot (n, K), that say as much of shares as one independent label."""
    if groups is None:
        return 1.0
    return groups.design_effect(labels - np.average(labels, axis=0, weights=weights), weights)


def label_effects(
    groups: Groups | None, scores: Floats, labels: Floats, case_weights: Floats
) -> tuple[float, float]:
    """Labels that say as much as one independent label: of a curve's offset, and of its slope.

    The design effects of r_i and of r_i(s_i − s̄): labels of a group count apart for the slope where
    its scores differ.
    """
    if groups is None:
        return 1.0, 1.0
    # Two parameters tell the residuals as well as the whole posterior, which would double it.
    p = PlattScaling().fit(scores, labels, case_weights).predict(scores)
    # Slope and offset decouple about the mean of the rows, weighted by their information.
    away = scores - np.average(scores, weights=case_weights * np.maximum(p * (1.0 - p), 1e-12))
    offset, slope = (
        groups.design_effect(pull, case_weights) for pull in (labels - p, (labels - p) * away)
    )
    return offset, slope


@dataclass(frozen=True, eq=False)
class GroupMoves:
    """How far each row's score moves where its group is left out, (n,) or (n, K) arrays.

    Attributes
    ----------
    groups : Groups
    all : array
        A x, of weights and intercept.
    slopes : array
        A x − c·Σx, of the weights alone.
    within, remaining : (n,) arrays or None
        r_i·√Σ(A_ij/r_j)² over the rows j of i's group, and r_i = 1 − ΣA_ij²D_j/A_ii: h_i and
        1 − h_iD_i where it has one row, or A_ij = 0 between its rows; √ΣA_ij² and 1 − D·Σh where
        they are copies but for a factor of each. None where they are not asked for.
    """

    groups: Groups
    all: Floats
    slopes: Floats
    within: Any = None
    remaining: Any = None


def stacked_moves(parts: list[GroupMoves]) -> GroupMoves:
    """(n, K) moves from those of each class, or of some classes each."""
    everything = np.column_stack([part.all for part in parts])
    return GroupMoves(parts[0].groups, everything, np.column_stack([p.slopes for p in parts]))


class Blocks(ABC):
    """Who knows X̃_SĤX̃_Sᵀ of any rows S."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Rows that a group may have before the side of the columns is the shorter one."""

    @abstractmethod
    def lines(self, rows: np.ndarray) -> Any:
        """W with WWᵀ = X̃_SĤX̃_Sᵀ for the rows S, (len(rows), columns), where the rows are."""

    def blocks(self, rows: np.ndarray) -> Floats:
        """X̃_SĤX̃_Sᵀ of (g, m) rows, (g, m, m)."""
        W = self.lines(rows.ravel())
        W = W.reshape(*rows.shape, W.shape[1])
        return on_host(W @ (W.swapaxes(1, 2) if isinstance(W, np.ndarray) else W.mT))


class WholeBlocks(Blocks):
    """Who knows X̃ĤX̃ᵀ of all rows at once."""

    @abstractmethod
    def smooth(self, V: Floats) -> Floats:
        """X̃ĤX̃ᵀV for (n, k) values."""

    def halves(self, n: int) -> tuple[Any, Any]:
        """(L, R) with LRᵀ = X̃ĤX̃ᵀ, of n rows each, on the host and in single precision.

        R is None where L is that matrix itself.
        """
        W = np.asarray(on_host(self.lines(np.arange(n))), dtype=np.float32)
        return W, W


def leave_groups_out(
    known: Blocks, groups: Groups, curvatures: Floats, residuals: Floats, intercept_leverage: Any
) -> tuple[GroupMoves, Floats]:
    """Moves of every row, and its leverage, under one Hessian.

    Parameters
    ----------
    known : Blocks
    groups : Groups
    curvatures : (n,) array
        D.
    residuals : (n,) or (n, q) array
        ψ, of one score or of several that share the Hessian.
    intercept_leverage : float or (q,) array
        c.
    """
    psi = residuals.reshape(len(residuals), -1)
    moves = np.empty_like(psi)
    leverages, within, remaining = np.empty((3, len(psi)))
    for rows in groups.batches(known.columns):
        if rows.shape[1] <= known.columns:
            A = np.asarray(known.blocks(rows), dtype=np.float64)
            moved = _moved(A, curvatures[rows], psi[rows])
            h, known_of, squares = np.einsum("gii->gi", A), A, _squares_of_blocks
        else:
            W = np.asarray(on_host(known.lines(rows.ravel())), dtype=np.float64)
            W = W.reshape(*rows.shape, -1)
            moved = _moved_by_columns(W, curvatures[rows], psi[rows])
            h, known_of, squares = np.einsum("gij,gij->gi", W, W), W, _squares_of_lines
        share = squares(known_of, curvatures[rows]) / np.maximum(h, np.finfo(float).tiny)
        r = np.maximum(1.0 - share, 1e-10)
        moves[rows], leverages[rows], remaining[rows] = moved, h, r
        within[rows] = r * np.sqrt(squares(known_of, r**-2.0))
    x = psi + curvatures[:, None] * moves
    slopes = moves - intercept_leverage * groups.sums(x)[groups.codes]
    shape = residuals.shape
    both = moves.reshape(shape), slopes.reshape(shape)
    return GroupMoves(groups, *both, within, remaining), leverages


def _squares_of_blocks(known: Floats, weights: Floats) -> Floats:
    """Σ_j A_ij²w_j over the rows j of i's group."""
    return np.asarray(np.einsum("gij,gj->gi", known**2, weights))


def _squares_of_lines(known: Floats, weights: Floats) -> Floats:
    """The same from W, A = WWᵀ."""
    gram = known.swapaxes(1, 2) @ (weights[:, :, None] * known)
    return np.asarray(np.sum((known @ gram) * known, axis=2))


def _moved(A: Floats, D: Floats, psi: Floats) -> Floats:
    """A(I − DA)⁻¹ψ of each group, by R = D^½ on both sides of A: rows may have no curvature."""
    R = np.sqrt(D)[:, :, None]
    pushed = A @ psi
    return pushed + A @ (R * solved(R * A * R.swapaxes(1, 2), R * pushed))


def _moved_by_columns(W: Floats, D: Floats, psi: Floats) -> Floats:
    """The same from A = WWᵀ."""
    pulled = W.swapaxes(1, 2)
    return W @ solved(pulled @ (D[:, :, None] * W), pulled @ psi)


def solved(taken: Floats, rhs: Floats) -> Floats:
    """(I − taken)⁻¹rhs, for stacks of positive semidefinite matrices.

    A group that determines its own fit has no usable scores: I − taken is kept from vanishing as
    1 − h_iD_i is.
    """
    left = np.eye(taken.shape[1]) - taken
    try:
        pivots = np.einsum("gii->gi", np.linalg.cholesky(left))
        if np.all(pivots > 1e-4):
            return np.asarray(np.linalg.solve(left, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        pass  # some group has directions to itself
    values, vectors = np.linalg.eigh(taken)
    inner = vectors.swapaxes(1, 2) @ rhs
    return vectors @ (inner / np.maximum(1.0 - values, 1e-10)[:, :, None])


def whole_groups(codes: np.ndarray, rows: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Rows of whole groups, at most so many at a time where one group is not more."""
    order = rows[np.argsort(codes[rows], kind="stable")]
    _, counts = np.unique(codes[rows], return_counts=True)
    ends, start = np.cumsum(counts), 0
    while start < len(order):
        fitting = ends[(ends > start) & (ends <= start + most)]
        end = int(fitting[-1] if len(fitting) else ends[ends > start][0])
        yield order[start:end]
        start = end
