"""The part of the page about acting at a threshold, which a slider moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from angcal.report import pictures
from angcal.report.findings import Findings, FitFindings
from angcal.report.performance import SHOWN, ClassPerformance, Estimate, Learning, OperatingPoint
from angcal.report.verdict import shortened, signed

# Classes with a decision curve, the most frequent first; each adds some ten kilobytes.
MOST_ACTED, MOST_CONFUSED = 6, 12
CELLS = ("share", "threshold", "tp", "fp", "fn", "tn",
         "sensitivity", "specificity", "ppv", "npv", "benefit", "all", "miss")  # fmt: skip
"""Names of the places of a point, as `report.html` refers to them."""


def acting_content(found: Findings, fit: FitFindings) -> dict[str, Any]:
    """What the template needs: points of every class, pictures, tables for those without script."""
    performance = fit.performance
    order = sorted(range(len(performance.classes)), key=lambda k: -performance.classes[k].observed)
    acted = [performance.classes[k] for k in order[:MOST_ACTED]]
    first = acted[0]
    start = first.points.index(first.at(performance.threshold))
    return {
        "acted": [shortened(one.name) for one in acted],
        "acted_points": json.dumps([[_cells(p) for p in one.points] for one in acted]),
        "acted_start": start,
        "acted_last": len(first.points) - 1,
        "acted_now": dict(zip(CELLS, _cells(first.points[start]), strict=True)),
        "cell_places": {name: place for place, name in enumerate(CELLS)},
        "decisions": [
            pictures.decision(one, performance.threshold, f"decision-{place}")
            for place, one in enumerate(acted)
        ],
        "threshold_rows": [_row(first, t) for t in SHOWN],
        "learning_pictures": _learning_pictures(fit.learning),
        "confusion_rows": _confusion_rows(found.classes, performance.confusion),
    }


def _learning_pictures(learning: Learning) -> list[tuple[str, Any]]:
    if len(learning.plans) == 1:
        (plan,) = learning.plans.values()
        return [
            ("", pictures.learning(plan, measure, f"learning-{measure}"))
            for measure in ("accuracy", "log_loss")
        ]
    return [
        (shortened(name), pictures.learning(plan, "accuracy", f"learning-{place}"))
        for place, (name, plan) in enumerate(learning.plans.items())
    ]


def _cells(point: OperatingPoint) -> list[Any]:
    """A point as the page shows it; the first entry is for the picture."""
    rates = (point.sensitivity, point.specificity, point.ppv, point.npv)
    return [
        round(point.threshold, 4),
        f"{100 * point.threshold:.3g}%",
        *(str(count) for count in point.counts),
        *(rate_with_ends(rate) for rate in rates),
        signed(point.net_benefit, True),
        signed(point.treat_all, True),
        miss_in_false_alarms(point.threshold),
    ]


def miss_in_false_alarms(threshold: float) -> str:
    """What a missed row costs where a threshold costs least: (1 − t)/t false alarms."""
    count = f"{(1.0 - threshold) / threshold:.2g}" if threshold > 0 else "any number of"
    return f"{count} false alarm" + ("" if count == "1" else "s")


def rate_with_ends(rate: Estimate) -> str:
    """A share with its interval in whole percent."""
    if rate.value != rate.value:
        return "no such row"
    return f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"


def _row(one: ClassPerformance, threshold: float) -> list[str]:
    cells = _cells(one.at(threshold))
    return [cells[1], *cells[6:11]]


def _confusion_rows(classes: Sequence[str], matrix: Any) -> list[list[str]]:
    """Rows of each class by their likeliest class; of many classes the commonest confusions."""
    names = [shortened(name) for name in classes]
    if len(names) <= MOST_CONFUSED:
        return [
            [name, *(str(count) for count in row)] for name, row in zip(names, matrix, strict=True)
        ]
    pairs = [
        (int(matrix[i, j]), i, j)
        for i in range(len(names))
        for j in range(len(names))
        if i != j and matrix[i, j]
    ]
    pairs.sort(key=lambda pair: -pair[0])
    return [[names[i], names[j], str(count)] for count, i, j in pairs[:MOST_CONFUSED]]
