r"""Why intervals of real curves hold too little: is it their shape?

Rows, labels and fits as in :mod:`studies.intervals.real`, with labels alone and on seeds of their
own. The same interval of 90 % is judged twice: by the logistic cubic nearest to the true
probabilities, which is what real rows follow, and by the nearest logistic line, which is the best
that the family of the intervals can say. Between the two is the shape; what the line still misses
is the width. Mean squares are those of (logit F − middle) in half widths of one standard deviation,
1 where the width is right.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit, ndtri

from angcal._typing import Floats
from angcal.calibrate import Options, calibrate
from angcal.intervals import interval, interval_law
from angcal.links import Logit
from studies.engine.runner import trial_generator
from studies.engine.store import Row
from studies.engine.tables import markdown, mean_and_error, with_error
from studies.intervals.real import COSTLY, JUDGED, true_curve
from studies.paper.semireal import (
    MOST_ROWS_OF_TRUTH,
    SemirealSettings,
    divide,
    prepared,
    runnable,
)

CONFIDENCE, PER_BLOCK, BLOCKS = 0.9, 10, 4
DEGREES = {"cubic": 3, "line": 1}
MEASURES = tuple(f"{name} {what}" for name in DEGREES for what in ("held", "square"))
COLUMNS = ("block", "set", "n", "d", *MEASURES)


def designs() -> list[tuple[object, ...]]:
    """(block, set)."""
    names = [name for table in ("dl", "uci", "uci-extended") for name in runnable(table)]
    return [
        (number, name)
        for number in range(BLOCKS)
        for name in names
        if number < 1 or name not in COSTLY
    ]


def draw(name: str, number: int) -> list[float]:
    """Whether both curves are held, and how far they are from the middle."""
    split = divide(prepared(name), SemirealSettings((), 1), trial_generator(181, name, number))
    rows, unseen = split.test[:JUDGED], split.unseen
    if len(unseen) > MOST_ROWS_OF_TRUTH:
        unseen = np.random.default_rng(0).choice(unseen, MOST_ROWS_OF_TRUTH, replace=False)
    options = Options(link=Logit(), link_known=False, angle="auto")
    result = calibrate(split.fit, split.observables, np.ones(len(split.train)), options)
    scores, law = split.scores[rows], interval_law(result)
    low, high = _logit(interval([1.0], [law], [scores], "curve", CONFIDENCE)).T
    middle, spread = 0.5 * (low + high), 0.5 * (high - low) / ndtri(0.5 + 0.5 * CONFIDENCE)
    found = []
    for degree in DEGREES.values():
        given = (split.scores[unseen], split.truth.probability[unseen], scores, degree)
        truth = _logit(true_curve(*given))
        found += [
            np.mean((low <= truth) & (truth <= high)),
            np.mean(((truth - middle) / spread) ** 2),
        ]
    return [float(value) for value in found]


def _logit(p: Floats) -> Floats:
    return logit(np.clip(p, 1e-9, 1.0 - 1e-9))


def block(number: int, name: str) -> list[list[object]]:
    """Means over a block of draws."""
    data = prepared(name)
    draws = [draw(name, number * PER_BLOCK + k) for k in range(PER_BLOCK)]
    means: list[object] = [float(value) for value in np.mean(draws, axis=0)]
    return [[data.sizes.n, data.X.shape[1], *means]]


def summary(rows: list[Row]) -> str:
    """Markdown: one line for each set, and the mean over sets."""
    lines, over = [], []
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        values = {what: [float(row[what]) for row in mine] for what in MEASURES}
        held = [
            with_error(*mean_and_error([100 * one for one in values[f"{kind} held"]]), 1)
            if len(mine) > 1
            else f"{100 * values[f'{kind} held'][0]:.1f}"
            for kind in DEGREES
        ]
        squares = [float(np.median(values[f"{kind} square"])) for kind in DEGREES]
        over.append([100 * float(np.mean(values[f"{kind} held"])) for kind in DEGREES] + squares)
        size = (mine[0]["n"], mine[0]["d"], str(PER_BLOCK * len(mine)))
        lines.append((name, *size, *held, *(f"{square:.2f}" for square in squares)))
    mean = np.mean(over, axis=0)
    lines.append(
        (
            "mean over sets",
            "",
            "",
            "",
            *(f"{m:.1f}" for m in mean[:2]),
            *(f"{m:.2f}" for m in mean[2:]),
        )
    )
    header = ("set", "n", "d", "draws", "nearest cubic held", "nearest line held")
    return markdown((*header, "square, cubic", "square, line"), lines) + "\n"
