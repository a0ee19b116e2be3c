"""What was done to which column, and how many of its cells were missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.tables.columns import plan_columns

MOST_ROWS = 50


@dataclass(frozen=True)
class ColumnNote:
    """One column of the table."""

    name: str
    kind: str
    missing: int  # Cells without a value
    treatment: str  # In words


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """All columns of the features."""

    # Those that are worth a line: with missing cells, categories, or left out
    columns: tuple[ColumnNote, ...]
    plain: int  # Columns of numbers without a missing cell
    missing: int  # Over all columns that are used
    cells: int

    @property
    def sentences(self) -> list[str]:
        """What happened to all the rest."""
        sentences = [
            f"{self.missing} of {self.cells} cells ({self.missing / max(self.cells, 1):.1%}) had "
            "no value."
            if self.missing
            else "No cell was without a value."
        ]
        if self.plain:
            count = "1 column" if self.plain == 1 else f"{self.plain} columns"
            sentences.append(f"{count} of numbers without gaps: brought to mean 0 and deviation 1.")
        return sentences


def column_table(features: Any, prepare: Any = None) -> ColumnTable:
    """What the fitted preparation of a table does; without one, no medians and levels."""
    plan = plan_columns(features)
    steps = {name: step for name, step, _ in getattr(prepare, "transformers_", ())}
    notes, plain, missing = [], 0, 0
    if plan.numbers:
        values = _number_step(steps).transform(features[list(plan.numbers)])
        empty = np.isnan(values).sum(axis=0)
        medians = steps["numbers"][1].statistics_ if "numbers" in steps else None
        missing, plain = int(empty.sum()), int(np.sum(empty == 0))
        for j in np.flatnonzero(empty).tolist():
            middle = "" if medians is None else f", {medians[j]:.4g}".replace("-", "−")
            done = f"gaps got the median{middle}; then mean 0 and deviation 1"
            notes.append(ColumnNote(plan.numbers[j], "numbers", int(empty[j]), done))
    if plan.sparse:
        done = "numbers that are mostly 0: brought to deviation 1"
        notes.append(ColumnNote(f"{len(plan.sparse)} columns", "sparse numbers", 0, done))
    for j, name in enumerate(plan.categories):
        gaps = int(features[name].isna().sum())
        missing += gaps
        notes.append(ColumnNote(name, "category", gaps, _levels(steps, j, gaps)))
    notes += [ColumnNote(name, "left out", 0, why) for name, why in plan.dropped]
    cells = len(features) * len(plan.used)
    return ColumnTable(tuple(notes), plain, missing, cells)


def _number_step(steps: dict[str, Any]) -> Any:
    from angcal.tables.columns import NumberColumns

    return steps["numbers"][0] if "numbers" in steps else NumberColumns()


def _levels(steps: dict[str, Any], place: int, gaps: int) -> str:
    if "categories" not in steps:
        return "one column for each level"
    encoder = steps["categories"][1]
    levels, rare = len(encoder.categories_[place]), encoder.infrequent_categories_[place]
    treatment = f"one column for each of {levels} levels"
    if rare is not None and len(rare):
        treatment += f", {len(rare)} rare ones together"
    return treatment + (", missing is a level" if gaps else "")
