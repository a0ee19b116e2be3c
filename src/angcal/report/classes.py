"""Class by class: how often a class is found, what its rows lose, and whose probabilities err most.

All figures are leave-one-out. Where classes are many, the worst come first and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.displays.reliability import outside_band, worst_first
from angcal.metrics import ReliabilityCurve, classwise_ece, classwise_reliability
from angcal.metrics.scores import row_losses
from angcal.report.figures import LeaveOneOut

# Few bins: a class of many has few rows. One row is no evidence, so each bin has some.
BINS, ROWS_IN_BIN = 5, 20
MOST_ROWS, MOST_PICTURES = 20, 6


@dataclass(frozen=True)
class ClassFigures:
    """One class, on rows that the model has not seen."""

    name: str
    rows: int  # Of the class
    found: float  # Share of these for which the calibrated model holds the class the likeliest
    # Of the "plain" and of the "calibrated" model: mean of −log P(label) over these rows, and the
    # expected calibration error of the class's probabilities over all rows
    log_loss: dict[str, float]
    ece: dict[str, float]
    curve: ReliabilityCurve  # Of its calibrated probabilities

    @property
    def outside(self) -> float:
        """By how much its probabilities are off beyond chance, mean over rows."""
        return outside_band(self.curve)


@dataclass(frozen=True, eq=False)
class ClassTable:
    """All classes, and which of them to show."""

    classes: tuple[ClassFigures, ...]  # In the order of the model
    # Their places, those first whose probabilities are farthest outside their bands
    order: tuple[int, ...]

    def first(self, count: int) -> list[ClassFigures]:
        """All classes in their order; where there are more than `count`, the worst first."""
        return list(self.classes) if len(self.classes) <= count else self.worst(count)

    def worst(self, count: int) -> list[ClassFigures]:
        """So many classes, those first that err most."""
        return [self.classes[k] for k in self.order[:count]]

    @property
    def left_out(self) -> str:
        """What the table does not show, in a sentence; empty where it shows all."""
        rest = [self.classes[k] for k in self.order[MOST_ROWS:]]
        if not rest:
            return ""
        return (
            f"Of {len(self.classes)} classes these are the {MOST_ROWS} whose calibrated "
            f"probabilities err most. The other {len(rest)} have {_span([c.rows for c in rest])} "
            f"rows each, and a calibration error of at most "
            f"{max(c.ece['calibrated'] for c in rest):.3f}."
        )


def bins_for(n_rows: int, most: int) -> int:
    """Bins with twenty rows or more each, if there are so many rows."""
    return int(np.clip(n_rows // ROWS_IN_BIN, 2, most))


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def class_table(figures: LeaveOneOut, names: Sequence[str]) -> ClassTable:
    """Figures of every class; the names are in the order of the columns."""
    codes, K = figures.codes, len(names)
    counts = np.bincount(codes, minlength=K)
    each = np.maximum(counts, 1)
    likeliest = figures.calibrated.argmax(axis=1) == codes
    found = np.bincount(codes, likeliest, K) / each
    kinds = {"plain": figures.plain, "calibrated": figures.calibrated}
    losses = {kind: np.bincount(codes, row_losses(p, codes), K) / each for kind, p in kinds.items()}
    errors: dict[str, Any] = {
        kind: classwise_ece(codes, p, per_class=True) for kind, p in kinds.items()
    }
    bins = bins_for(len(codes), BINS)
    curves = classwise_reliability(codes, figures.calibrated, n_bins=bins, strategy="quantile")
    classes = tuple(
        ClassFigures(
            name=str(names[k]),
            rows=int(counts[k]),
            found=float(found[k]),
            log_loss={kind: float(values[k]) for kind, values in losses.items()},
            ece={kind: float(values[k]) for kind, values in errors.items()},
            curve=curves[k],
        )
        for k in range(K)
    )
    return ClassTable(classes, tuple(worst_first(curves)))
