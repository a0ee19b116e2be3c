r"""Why intervals of real curves hold too little: is it their shape?

Rows, labels and fits as in :mod:`studies.intervals.real`, with labels alone and on seeds of their
own. The same interval of 90 % is judged twice: by the logistic cubic nearest to the true
probabilities, which is what real rows follow, and by the nearest logistic line, which is the best
that the family of the intervals can say. Between the two is the shape; what the line still misses
is the width. Mean squares are those of (logit F − middle) in half widths of one standard deviation,
1 where the width is right.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import logit, ndtri

from angcal._typing import Floats
from angcal.calibrate import Options, calibrate
from angcal.intervals import interval, interval_law
from angcal.links import Logit
from studies.engine.store import Row, by_cell, numbers
from studies.engine.tables import markdown, mean_text
from studies.intervals import real
from studies.paper.semireal import prepared

CONFIDENCE, PER_BLOCK, BLOCKS = 0.9, 10, 4
DEGREES = {"cubic": 3, "line": 1}
MEASURES = tuple(f"{name} {what}" for name in DEGREES for what in ("held", "square"))
COLUMNS = ("block", "set", "n", "d", *MEASURES)


designs = partial(real.designs, BLOCKS, 1)


def draw(name: str, number: int) -> list[float]:
    """Whether both curves are held, and how far they are from the middle."""
    split, rows, known_rows = real.drawn(name, 181, number)
    options = Options(link=Logit(), link_known=False, angle="auto")
    result = calibrate(split.fit, split.observables, np.ones(len(split.train)), options)
    scores, law = split.scores[rows], interval_law(result)
    low, high = _logit(interval([1.0], [law], [scores], "curve", CONFIDENCE)).T
    middle, spread = 0.5 * (low + high), 0.5 * (high - low) / ndtri(0.5 + 0.5 * CONFIDENCE)
    found = []
    for degree in DEGREES.values():
        truth = _logit(real.true_curve(*known_rows, scores, degree))
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
    for (name,), mine in by_cell(rows, ("set",)).items():
        shares = [100 * numbers(mine, f"{kind} held") for kind in DEGREES]
        held = [mean_text(each, 1) if len(mine) > 1 else f"{each[0]:.1f}" for each in shares]
        squares = [float(np.median(numbers(mine, f"{kind} square"))) for kind in DEGREES]
        over.append([float(each.mean()) for each in shares] + squares)
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
