"""What more labels would gain: the learning curve of two classes, or of each class of more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.planner import Plan, plan_from_pilot
from angcal.report.figures import LeaveOneOut

MORE = 100
# A plan takes the rows as one dense array.
MOST_CELLS = 50_000_000


@dataclass(frozen=True, eq=False)
class Learning:
    """Plans, or why there are none."""

    # By class; of three and more, each against the others
    plans: dict[str, Plan]
    reason: str = ""  # Why there is none; empty where there is one

    @property
    def sentences(self) -> list[str]:
        """What to expect of a hundred more labels, and of four times as many."""
        many = len(self.plans) > 1
        sentences = []
        for name, plan in self.plans.items():
            start = f"“{name}” against the others: " if many else ""
            sentences.append(start + plan.sentence(plan.pilot_n + MORE))
        return sentences


def learning_curves(
    rows: Any, figures: LeaveOneOut, names: Sequence[str], positive: int, pool: Any = None
) -> Learning:
    """Plans for the class that is asked about, or for the most frequent classes of more.

    Rows and pool are prepared as the model sees them.
    """
    if figures.groups is not None:
        return Learning({}, "Rows come in groups, and a forecast counts every row as a new one.")
    if rows.shape[0] * rows.shape[1] > MOST_CELLS:
        return Learning({}, "The table is too large for it; angcal plan takes a part of the rows.")
    n, counts = len(figures.codes), np.bincount(figures.codes, minlength=len(names))
    wanted = sorted([n, n + MORE, 2 * n, 4 * n])
    # Each class of three and more takes a plan of its own, about half a second each.
    often = [positive] if figures.two else np.argsort(-counts, kind="stable")[:3].tolist()
    plans, reason = {}, ""
    for k in often:
        labels = (figures.codes == k).astype(np.float64)
        try:
            plans[str(names[k])] = plan_from_pilot(rows, labels, wanted, pool=pool)
        except ValueError as error:
            reason = str(error)
    return Learning(plans, "" if plans else reason)
