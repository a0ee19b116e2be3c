"""What an experiment and a result are: trials that make rows, and a picture made from the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

Cell = str | int | float
Row = Mapping[str, Cell]
Trial = Mapping[str, Any]
"""What distinguishes one trial of an experiment from another; plain values only."""
Tables = Mapping[str, Sequence[Row]]
"""Rows that one trial adds to each table."""
Frames = Mapping[str, "pd.DataFrame"]
"""The finished tables, as read back from their CSV files."""


def significant(value: Any, digits: int = 5) -> float:
    """The value with so many significant digits: far below any spread, and less on disk."""
    return float(f"{value:.{digits}g}")


def grid(**levels: Iterable[Any]) -> list[Trial]:
    """One trial for every combination of the levels, the last one changing fastest."""
    return [dict(zip(levels, values, strict=True)) for values in product(*levels.values())]


@dataclass(frozen=True)
class Experiment:
    """Trials that are run once each, in any order, and the rows that they leave."""

    name: str  # Stem of the CSV files
    # Settings: frozen dataclasses of plain values with a field ``seed``. Rows made with other
    # settings are recognized and refused; rows made by other code are not.
    full: Any
    quick: Any
    # Columns of each table. The table called "" goes to ``<name>.csv``, another one to
    # ``<name>-<table>.csv``; both begin with the column ``trial``.
    tables: Mapping[str, tuple[str, ...]]
    # Settings to the list of trials, in the order of the files
    trials: Callable[[Any], Sequence[Trial]]
    # (settings, trial) to rows per table. It must be a function of a module, as other processes
    # call it, and must draw all its random numbers from a generator of `trial_generator`.
    run: Callable[[Any, Trial], Tables]
    optional_tables: tuple[str, ...] = ()  # Tables in which not every trial leaves rows


@dataclass(frozen=True)
class Result:
    """A figure or a number of the study."""

    name: str  # What to ask for on the command line; stem of the picture
    title: str  # One line for ``--list``
    experiment: Experiment  # Where its rows come from
    # (tables, settings) to Markdown: what the paper says, what was measured, its standard error
    summarize: Callable[[Frames, Any], str]
    draw: Callable[[Frames, Any], Figure] | None = None  # (tables, settings) to a figure
