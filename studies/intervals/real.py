r"""Intervals on real rows with simulated labels: how many truths they hold.

Rows and labels of a draw are those of :mod:`studies.paper.semireal`, on seeds of their own. The
true probability of a row is known. The true curve F(s) = E[P(y = 1 | x) | s] is the logistic cubic
in s that is nearest to the true probabilities of all rows that were not trained on: real rows are
not Gaussian, and F need be no member of the family that the intervals are made with.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from angcal._typing import Floats
from angcal.calibrate import Options, calibrate
from angcal.intervals import interval, interval_law
from angcal.links import Logit
from studies.engine.runner import trial_generator
from studies.engine.store import Row, by_cell, numbers
from studies.engine.tables import markdown, mean_text
from studies.intervals.simulated import (
    KINDS,
    LEVELS,
    MEASURES,
    PERCENT,
    WIDTH_AT,
    judged,
    means,
)
from studies.paper.semireal import (
    LINK,
    MOST_ROWS_OF_TRUTH,
    SemirealSettings,
    Split,
    divide,
    prepared,
    runnable,
)

PER_BLOCK, JUDGED = 20, 200
# Blocks of sets whose draws take seconds each.
BLOCKS, FEW_BLOCKS, COSTLY = 15, 2, ("gisette", "diabetes130")
KNOWN = ("labels alone", "pool", "link and pool")
COLUMNS = ("block", "set", "known", "n", "d", *MEASURES)


def designs(blocks: int = BLOCKS, few: int = FEW_BLOCKS) -> list[tuple[object, ...]]:
    """(block, set), such that a run that is stopped has something of every set."""
    names = [name for table in ("dl", "uci", "uci-extended") for name in runnable(table)]
    return [
        (number, name)
        for number in range(blocks)
        for name in names
        if number < few or name not in COSTLY
    ]


def drawn(name: str, seed: int, number: int) -> tuple[Split, np.ndarray, tuple[Floats, Floats]]:
    """One split, rows to judge, and scores and true probabilities of rows that tell the truth."""
    split = divide(prepared(name), SemirealSettings((), 1), trial_generator(seed, name, number))
    unseen = split.unseen
    if len(unseen) > MOST_ROWS_OF_TRUTH:
        unseen = np.random.default_rng(0).choice(unseen, MOST_ROWS_OF_TRUTH, replace=False)
    return split, split.test[:JUDGED], (split.scores[unseen], split.truth.probability[unseen])


def true_curve(scores: Floats, truth: Floats, at: Floats, degree: int = 3) -> Floats:
    """F at some scores: the logistic cubic nearest to the true probabilities of many rows.

    Of degree 1 it is a logistic line, which is a member of the family of the intervals.
    """
    center, spread = scores.mean(), scores.std()

    def powers(u: Floats) -> Floats:
        s = np.clip((u - center) / spread, -6.0, 6.0)
        return np.column_stack([s**power for power in range(1, degree + 1)])

    # Each row once as a positive and once as a negative one, with its two probabilities.
    X = np.vstack([powers(scores)] * 2)
    y, weights = np.repeat([1, 0], len(scores)), np.concatenate([truth, 1.0 - truth])
    model = LogisticRegression(C=1e6, max_iter=1000).fit(X, y, sample_weight=weights)
    return expit(model.decision_function(powers(at)))


def draw(name: str, number: int) -> list[dict[str, float]]:
    """Shares of truths within their intervals, and widths, for all that may be known."""
    split, rows, known_rows = drawn(name, 18, number)
    curve = true_curve(*known_rows, split.scores[rows])
    truths = {"curve": curve, "row": split.truth.probability[rows]}
    return [judged_by(split, known, rows, truths) for known in KNOWN]


def judged_by(
    split: Split, known: str, rows: np.ndarray, truths: dict[str, Floats]
) -> dict[str, float]:
    """The same for one of them."""
    linked = "link" in known
    options = Options(
        link=LINK if linked else Logit(),
        link_known=linked,
        angle="auto",
        pool=split.X[split.pool] if "pool" in known else None,
    )
    law = interval_law(calibrate(split.fit, split.observables, np.ones(len(split.train)), options))
    scores = [split.scores[rows]]
    return judged(lambda *what: interval([1.0], [law], scores, *what), truths)


def block(number: int, name: str) -> list[list[object]]:
    """Means over a block of draws."""
    draws = [draw(name, number * PER_BLOCK + k) for k in range(PER_BLOCK)]
    data = prepared(name)
    size = [data.sizes.n, data.X.shape[1]]
    return [
        [known, *size, *means([each[place] for each in draws])] for place, known in enumerate(KNOWN)
    ]


def summary(rows: list[Row]) -> str:
    """Markdown: for each set the coverage at 90 %, and the means over sets at all levels."""
    lines, sets = [], by_cell(rows, ("set",))
    for (name,), mine in sets.items():
        draws = str(PER_BLOCK * len(mine) // len(KNOWN))
        cells = [_cell(mine, known, kind) for kind in KINDS for known in KNOWN]
        lines.append((name, mine[0]["n"], mine[0]["d"], draws, *cells))
    header = [f"{kind}, {known}" for kind in KINDS for known in KNOWN]
    each = markdown(("set", "n", "d", "draws", *header), lines)
    lines = [
        (kind, known, *(_over_sets(sets.values(), known, f"{kind} {level}") for level in LEVELS))
        for kind in KINDS
        for known in KNOWN
    ]
    overall = markdown(("of", "known", *PERCENT), lines)
    return f"{overall}\n\nSet by set at 90 %, with the mean width:\n\n{each}\n"


def _cell(rows: list[Row], known: str, kind: str) -> str:
    mine = by_cell(rows, ("known",))[known,]
    share = mean_text(100 * numbers(mine, f"{kind} {WIDTH_AT}"), 1)
    return f"{share} ({numbers(mine, f'{kind} width').mean():.2f})"


def _over_sets(sets: Iterable[list[Row]], known: str, measure: str) -> str:
    """Mean over sets, with the lowest and the highest."""
    found = [100 * numbers(by_cell(rows, ("known",))[known,], measure).mean() for rows in sets]
    return f"{np.mean(found):.1f} ({min(found):.0f} to {max(found):.0f})"
