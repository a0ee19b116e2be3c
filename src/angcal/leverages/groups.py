r"""What leaving out a whole group of rows does to their scores.

For the rows S of a group, with A = X̃_SĤX̃_Sᵀ, curvatures D and residuals ψ of these rows,

    ũ_S = u_S − A x,   x = (I − DA)⁻¹ψ

is one Newton step from the fit to the one without the group. A group of one row has
A = h_i, hence the step h_i/(1 − h_iD_i)·ψ_i of :mod:`angcal.leverages.steps`. The intercept's part
of A is the same number c for every pair of rows, so that weights alone move the scores by
A x − c·Σ_S x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats


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

    def design_effect(self, residuals: Floats) -> float:
        """Σ_g‖Σ_{i in g} r_i‖²/Σ_i‖r_i‖²: rows that say as much as one independent row.

        Labels of a patient agree beyond what the scores tell, so that n of them know as much as
        n over this. Between 1 and the mean size of a group, weighted by rows.
        """
        r = residuals.reshape(len(residuals), -1)
        most = float(np.mean(self.sizes[self.codes]))
        found = np.sum(self.sums(r) ** 2) / max(float(np.sum(r**2)), np.finfo(float).tiny)
        return float(np.clip(found, 1.0, most))

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
    """

    groups: Groups
    all: Floats
    slopes: Floats


def stacked_moves(parts: list[GroupMoves]) -> GroupMoves:
    """(n, K) moves from those of each class."""
    everything = np.column_stack([part.all for part in parts])
    return GroupMoves(parts[0].groups, everything, np.column_stack([p.slopes for p in parts]))


def leave_groups_out(
    lines: Callable[[np.ndarray], Floats],
    columns: int,
    groups: Groups,
    curvatures: Floats,
    residuals: Floats,
    intercept_leverage: float,
) -> GroupMoves:
    """Moves of every row, for one score.

    Parameters
    ----------
    lines : callable
        Numbers of m rows -> (m, k) array W with WWᵀ = X̃_SĤX̃_Sᵀ.
    columns : int
        k.
    groups : Groups
    curvatures, residuals : (n,) arrays
        D and ψ.
    intercept_leverage : float
        c.
    """
    moves, slopes = np.empty(len(residuals)), np.empty(len(residuals))
    for rows in groups.batches(columns):
        W = lines(rows.ravel()).reshape(*rows.shape, -1).astype(np.float64, copy=False)
        A = W @ W.transpose(0, 2, 1)
        x = _without(A, curvatures[rows], residuals[rows])
        moved = np.einsum("gij,gj->gi", A, x)
        moves[rows] = moved
        slopes[rows] = moved - intercept_leverage * x.sum(axis=1, keepdims=True)
    return GroupMoves(groups, moves, slopes)


def _without(A: Floats, D: Floats, psi: Floats) -> Floats:
    """(I − DA)⁻¹ψ of each group, as ψ + R(I − RAR)⁻¹RAψ with R = D^½: rows may have no curvature.

    A group that determines its own fit has no usable scores: I − RAR is kept from vanishing as
    1 − h_iD_i is.
    """
    R = np.sqrt(D)
    values, vectors = np.linalg.eigh(R[:, :, None] * A * R[:, None, :])
    pushed = R * np.einsum("gij,gj->gi", A, psi)
    inner = np.einsum("gji,gj->gi", vectors, pushed) / np.maximum(1.0 - values, 1e-10)
    return psi + R * np.einsum("gij,gj->gi", vectors, inner)
