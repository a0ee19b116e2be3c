r"""Numbers of many methods on many tasks: ranks, tests, wins.

A cell is a task at a size, under one penalty where there are several; its value is the mean over
the splits. In each cell the methods are ranked, 1 for the smallest loss, ties shared. Cells of one
dataset resemble each other, so that the tests count datasets: a dataset's rank of a method is the
mean over its cells. With N datasets and k methods, mean ranks differ by Nemenyi's test where they
are further apart than

.. math::
    CD = q_{0.05}(k) \sqrt{k (k + 1) / (6 N)},

q being that of the studentised range over √2.

References
----------
Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range, wilcoxon

from studies.engine.experiment import Frames
from studies.engine.store import UnfinishedError
from studies.engine.tables import CLEAR

CELL = ["dataset", "ratio"]
"""What tells one cell from another, with two classes."""
SIGNIFICANCE = 0.05
REGULAR = 0.9
COMPARED = ("angcal", "peers")
"""Sides without which there is nothing to compare."""


def joined(frames: Frames, cell: Sequence[str] = CELL) -> pd.DataFrame:
    """Rows of the methods, each with the columns of its split, where both sides were run."""
    splits = frames["splits"].assign(compared=frames["splits"]["side"].isin(COMPARED))
    sides = splits.groupby([*cell, "split"])["compared"].transform("sum")
    known = splits[sides == len(COMPARED)].drop(columns="compared")
    rows = frames[""].merge(known, on="trial", validate="many_to_one")
    if rows.empty:
        raise UnfinishedError(
            "Nothing to compare yet: no split has rows of angcal's methods and of the peers. The "
            "rows are kept; run the other --side as well."
        )
    return rows


def by_method(rows: pd.DataFrame, metric: str, cell: Sequence[str] = CELL) -> pd.DataFrame:
    """A row per cell and split, a column per method."""
    return rows.pivot(index=[*cell, "split"], columns="method", values=metric)


def cell_of(values: pd.DataFrame | pd.Series) -> list[str]:
    """What tells one cell of these values from another: all but the split."""
    return [str(name) for name in values.index.names if name != "split"]


def cell_means(values: pd.DataFrame) -> pd.DataFrame:
    """Means over the splits of each cell; NaN where a method gave no probabilities on any.

    Some splits are harder than others. A method that was run on a part of them gets its mean
    difference there from the average of the methods that were run on all, plus the mean of that
    average over all splits.
    """
    typical = values.dropna(axis=1).mean(axis=1).fillna(0.0)
    cell = cell_of(values)
    gaps_to_typical = values.sub(typical, axis=0).groupby(level=cell, sort=False).mean()
    return gaps_to_typical.add(typical.groupby(level=cell, sort=False).mean(), axis=0)


def regular(values: pd.DataFrame) -> pd.DataFrame:
    """The methods that were run on nine of ten splits at least.

    The others' means are of easier or harder splits, and what allows for that is too rough to rank.
    """
    return values.loc[:, values.notna().mean() >= REGULAR]


def everywhere(means: pd.DataFrame) -> pd.DataFrame:
    """The methods that have a value in every cell."""
    return means.dropna(axis=1)


def dataset_ranks(means: pd.DataFrame) -> pd.DataFrame:
    """Ranks in each cell, averaged over the cells of each dataset."""
    return means.rank(axis=1).groupby(level="dataset", sort=False).mean()


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods, and whether they differ by more than chance.

    Parameters
    ----------
    ranks : Series
        Mean over datasets, best first.
    by_cells : Series
        Mean over cells, in which datasets of many sizes count for more.
    n_cells, n_datasets : int
    statistic, p_value : float
        Friedman's test over datasets; NaN where there are too few of them or of methods.
    critical_difference : float
        Nemenyi's, at 5 %.
    """

    ranks: pd.Series
    by_cells: pd.Series
    n_cells: int
    n_datasets: int
    statistic: float
    p_value: float
    critical_difference: float

    @property
    def best(self) -> str:
        """The method with the smallest mean rank."""
        return str(self.ranks.index[0])

    @property
    def like_the_best(self) -> list[str]:
        """Methods that Nemenyi's test does not tell from the best one."""
        near = self.ranks <= self.ranks.iloc[0] + self.critical_difference
        return [str(name) for name in self.ranks.index[near]][1:]


def ranking(means: pd.DataFrame) -> Ranking:
    """Rank methods that all have a value in every cell."""
    per_dataset = dataset_ranks(means)
    N, k = per_dataset.shape
    statistic = p_value = float("nan")
    if k > 2 and N > 1:
        test = friedmanchisquare(*(per_dataset[name] for name in per_dataset))
        statistic, p_value = float(test.statistic), float(test.pvalue)
    return Ranking(
        ranks=per_dataset.mean().sort_values(kind="stable"),
        by_cells=means.rank(axis=1).mean(),
        n_cells=len(means),
        n_datasets=N,
        statistic=statistic,
        p_value=p_value,
        critical_difference=critical_difference(k, N),
    )


def critical_difference(n_methods: int, n_datasets: int) -> float:
    """q √(k(k+1)/6N): the distance of mean ranks that chance exceeds in 5 % of studies."""
    q = studentized_range.ppf(1.0 - SIGNIFICANCE, n_methods, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


@dataclass(frozen=True)
class Duel:
    """One method against another.

    Parameters
    ----------
    peer : str
    wins, ties, losses : int
        Cells in which the mean of the paired differences is below −2 standard errors, within, or
        above 2.
    difference : float
        Mean over datasets of (own − peer).
    p_value : float
        Wilcoxon's signed-rank test over datasets, corrected by Holm's method.
    """

    peer: str
    wins: int
    ties: int
    losses: int
    difference: float
    p_value: float


def gaps(values: pd.DataFrame, own: str, peer: str) -> pd.DataFrame:
    """Mean paired difference (own − peer) of each cell, its standard error, and the splits."""
    both = (values[own] - values[peer]).dropna()
    grouped = both.groupby(level=cell_of(values), sort=False)
    return grouped.agg(["mean", "sem", "count"])


def duels(values: pd.DataFrame, own: str) -> list[Duel]:
    """One method against each of the others, wherever both were run."""
    peers = [name for name in values if name != own]
    found = [gaps(values, own, peer) for peer in peers]
    by_dataset = [gap["mean"].groupby(level="dataset", sort=False).mean() for gap in found]
    p_values = holm([signed_rank(differences) for differences in by_dataset])
    return [
        Duel(
            peer=peer,
            wins=int((gap["mean"] < -CLEAR * gap["sem"]).sum()),
            ties=int((~(gap["mean"].abs() > CLEAR * gap["sem"])).sum()),
            losses=int((gap["mean"] > CLEAR * gap["sem"]).sum()),
            difference=float(differences.mean()),
            p_value=p_value,
        )
        for peer, gap, differences, p_value in zip(peers, found, by_dataset, p_values, strict=True)
    ]


def signed_rank(differences: Any) -> float:
    """Two-sided p-value of Wilcoxon's test; 1 where all differences are zero."""
    values = np.asarray(differences, dtype=float)
    return float(wilcoxon(values).pvalue) if np.any(values != 0.0) else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the j-th smallest of m is multiplied by m − j + 1, never falling.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected.tolist()
