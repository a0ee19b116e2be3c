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

from angcal._typing import Floats

COARSE_SPACING, FINE_SPACING = 1 / 16, 1 / 32
"""In standard deviations of the score, for few rows and for many. The finer one lowers a slope by
0.016 %, a tenth of its standard error at a million rows."""
REACH = 8.0
"""Scores further out than this keep a node of their own."""


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
    """Find each row's nodes; few rows stay as they are.

    Parameters
    ----------
    standard_scores : (n,) array
        Scores in units of their standard deviation.
    labels : (n,) array of 0.0 and 1.0
    """
    n = len(standard_scores)
    spacing = COARSE_SPACING if n <= 4_096 else FINE_SPACING
    is_near = np.abs(standard_scores) <= REACH
    # A slice where all are, which makes no copies.
    near: np.ndarray | slice = slice(None) if is_near.all() else is_near
    inside = standard_scores[near] / spacing
    first = int(np.floor(inside.min())) if inside.size else 0
    count = int(np.floor(inside.max())) - first + 2 if inside.size else 0
    if n <= max(count, 512):  # nothing is to be gained
        none = np.empty(0)
        return Gathering(standard_scores, labels, near, none.astype(np.intp), none, none)
    below = np.floor(inside)
    # Both labels in one count: places 2k are those of label 0 at node k, places 2k + 1 of label 1.
    place = 2 * (below.astype(np.intp) - first) + (labels[near] > 0.5)
    grid = spacing * (first + np.arange(count, dtype=np.float64))
    return Gathering(standard_scores, labels, near, place, inside - below, grid)


def bin_scores(standard_scores: Floats, labels: Floats, weights: Floats) -> BinnedScores:
    """Gather rows at nodes under one set of weights.

    Examples
    --------
    >>> bins = bin_scores(np.array([0.25, 1.0]), np.array([1.0, 0.0]), np.ones(2))
    >>> bins.nodes, bins.positive, bins.negative
    (array([0.25, 1.  ]), array([1., 0.]), array([0., 1.]))
    """
    return gather(standard_scores, labels).weigh(weights)
