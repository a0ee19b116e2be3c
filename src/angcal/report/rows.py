"""Row by row: the leave-one-out probability of each training row, with its interval, sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.intervals import interval
from angcal.report.figures import LeaveOneOut

CONFIDENCE = 0.9
# Both ends of a longer table, which nobody reads whole.
MOST_ROWS = 100


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows by falling probability: of the class asked about, or of the likeliest of more."""

    names: tuple[str, ...]  # What identifies the rows, or their numbers
    labels: Any  # (n,) int: Places of the true and of the likeliest class
    predicted: Any  # (n,) int
    # (n,): Probability and the ends of its 90% interval, of all rows with the same score
    p: Floats
    low: Floats  # (n,)
    high: Floats  # (n,)

    def shown(self) -> list[int | None]:
        """Places of the rows to print; None where rows are left out."""
        n, half = len(self.p), MOST_ROWS // 2
        if n <= MOST_ROWS:
            return list(range(n))
        return [*range(half), None, *range(n - half, n)]


def row_table(
    model: Any, figures: LeaveOneOut, positive: int, names: Sequence[str] | None
) -> RowTable:
    """The training rows of a fitted classifier, each as the model without it sees it.

    Rows without names are numbered from 1.
    """
    n, rows = len(figures.codes), np.arange(len(figures.codes))
    scores = model.observables_.calibration_scores
    ends = interval([1.0], [model.interval_law_], [scores], "curve", CONFIDENCE)
    predicted = figures.calibrated.argmax(axis=1)
    if figures.two:
        p = figures.calibrated[:, positive]
        low, high = ends.T if positive == 1 else 1.0 - ends.T[::-1]
    else:
        p = figures.calibrated[rows, predicted]
        low, high = ends[rows, predicted].T
    order = np.argsort(-p, kind="stable")
    given = [str(row + 1) for row in range(n)] if names is None else list(names)
    return RowTable(
        names=tuple(given[i] for i in order),
        labels=figures.codes[order],
        predicted=predicted[order],
        p=p[order],
        # The probability of a row is also without its label's part in the curve.
        low=np.minimum(low, p)[order],
        high=np.maximum(high, p)[order],
    )
