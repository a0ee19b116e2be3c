"""Scores and labels gathered on a grid: a likelihood over n rows becomes one over a few hundred.

A score s between nodes g and g + h gives the share (g + h − s)/h of its weight to g and the rest to
g + h, which keeps its mean and adds a variance of at most h²/4 (h²/6 on average). The
log-likelihood is thereby replaced by its linear interpolation between nodes. With h = 1/16 standard
deviation the slope of a curve is lowered by about 0.07 %, far below its standard error at the n
that use that spacing; larger samples use finer grids.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices

COARSE_SPACING, FINE_SPACING = 1 / 16, 1 / 32
"""In standard deviations of the score, for few rows and for many. The finer one lowers a slope by
0.016 %, a tenth of its standard error at a million rows."""


@dataclass(frozen=True, eq=False)
class BinnedScores:
    """Nodes, and the weight of the rows with label 1 and with label 0 at each."""

    nodes: Floats
    positive: Floats
    negative: Floats

    @cached_property
    def total(self) -> Floats:
        """Weight of both labels."""
        return self.positive + self.negative


@dataclass(frozen=True, eq=False)
class Gathering:
    """Where each row goes; its weights are gathered as often as is asked.

    Attributes
    ----------
    scores, labels : (n,) arrays
    near : (n,) array of bool, or a slice
        Rows that go to the grid.
    place : array of int
        2k + label of each such row, k its node below.
    share : array
        The part of its weight that goes to the node above.
    grid : array
        The nodes; empty where rows stay as they are.
    """

    scores: Floats
    labels: Floats
    near: np.ndarray | slice
    place: np.ndarray
    share: Floats
    grid: Floats

    def weigh(self, weights: Floats) -> BinnedScores:
        """The gathered rows under these weights."""
        labels = self.labels
        if not len(self.grid):
            return BinnedScores(self.scores, weights * labels, weights * (1.0 - labels))
        near = self.near
        whole = np.bincount(self.place, weights[near], 2 * len(self.grid))
        upper = np.bincount(self.place, weights[near] * self.share, 2 * len(self.grid))
        lower = whole - upper
        lower[2:] += upper[:-2]
        far = slice(0) if isinstance(near, slice) else ~near
        positive = np.concatenate([lower[1::2], weights[far] * labels[far]])
        negative = np.concatenate([lower[0::2], weights[far] * (1.0 - labels[far])])
        return BinnedScores(np.concatenate([self.grid, self.scores[far]]), positive, negative)


def gather(standard_scores: Floats, labels: Floats) -> Gathering:
    """Find each row's nodes, from scores in units of their deviation; few rows stay as they are."""
    n = len(standard_scores)
    spacing = COARSE_SPACING if n <= 4_096 else FINE_SPACING
    first, count = _grid(standard_scores, spacing)
    if n <= max(count, 512):  # nothing is to be gained
        none, near = np.empty(0), _near(standard_scores)
        return Gathering(standard_scores, labels, near, none.astype(np.intp), none, none)
    return _gathered(standard_scores, labels, spacing, first, count)


def _near(scores: Floats) -> np.ndarray | slice:
    """Rows that go to the grid; those of scores further out keep a node of their own."""
    is_near = np.abs(scores) <= plan.NORMAL_REACH
    # A slice where all are, which makes no copies.
    return slice(None) if is_near.all() else is_near


def _grid(scores: Floats, spacing: float) -> tuple[int, int]:
    """(number of the first node, nodes) of those that are near."""
    inside = scores[_near(scores)]
    if not inside.size:
        return 0, 0
    first = int(np.floor(inside.min() / spacing))
    return first, int(np.floor(inside.max() / spacing)) - first + 2


def _gathered(scores: Floats, labels: Floats, spacing: float, first: int, count: int) -> Gathering:
    near = _near(scores)
    inside = scores[near] / spacing
    below = np.floor(inside)
    # Both labels in one count: places 2k are those of label 0 at node k, places 2k + 1 of label 1.
    place = 2 * (below.astype(np.intp) - first) + (labels[near] > 0.5)
    grid = spacing * (first + np.arange(count, dtype=np.float64))
    return Gathering(scores, labels, near, place, inside - below, grid)


def bin_all(standard_scores: Floats, labels: Floats, weights: list[Floats]) -> list[BinnedScores]:
    """Gather rows at nodes under several sets of weights; many rows a part at a time."""
    n = len(standard_scores)
    if n <= plan.BLOCK_ENTRIES:
        found = gather(standard_scores, labels)
        return [found.weigh(each) for each in weights]
    parts_of_rows = list(slices(n, plan.BLOCK_ENTRIES))
    grids = [_grid(standard_scores[rows], FINE_SPACING) for rows in parts_of_rows]
    ends = [(first, first + count) for first, count in grids if count]
    first = min((low for low, _ in ends), default=0)
    count = max((high for _, high in ends), default=0) - first
    parts: list[list[BinnedScores]] = [[] for _ in weights]
    for rows in parts_of_rows:
        own = _gathered(standard_scores[rows], labels[rows], FINE_SPACING, first, count)
        for part, each in zip(parts, weights, strict=True):
            part.append(own.weigh(each[rows]))
    return [_merged(part, count) for part in parts]


def _merged(parts: list[BinnedScores], count: int) -> BinnedScores:
    """The same grid's weights added up, and nodes of single rows beside each other."""

    def both(name: str) -> Floats:
        each = [getattr(part, name) for part in parts]
        return np.concatenate([sum(v[:count] for v in each), *(v[count:] for v in each)])

    nodes = np.concatenate([parts[0].nodes[:count], *(part.nodes[count:] for part in parts)])
    return BinnedScores(nodes, both("positive"), both("negative"))


def bin_scores(standard_scores: Floats, labels: Floats, weights: Floats) -> BinnedScores:
    """Gather rows at nodes under one set of weights.

    Examples
    --------
    >>> bins = bin_scores(np.array([0.25, 1.0]), np.array([1.0, 0.0]), np.ones(2))
    >>> bins.nodes, bins.positive, bins.negative
    (array([0.25, 1.  ]), array([1., 0.]), array([0., 1.]))
    """
    return bin_all(standard_scores, labels, [weights])[0]
