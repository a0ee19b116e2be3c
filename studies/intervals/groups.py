"""Intervals of the curve where rows come in groups: how many truths they hold.

Repeated measures as in ``studies.groups``, on seeds of their own: five rows of each patient, 100
features that share half of their variance within a patient, and a random effect in the labels. The
true F of a score is known. Beside it stands the same fit that ignores groups.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier
from studies.engine.store import Row, by_cell, numbers
from studies.engine.tables import markdown, mean_and_error, with_error
from studies.groups import SIZE, D, Patients
from studies.intervals.simulated import LEVELS, PERCENT, WIDTH_AT, judged

NEW, PER_BLOCK, DRAWS, SEED = 200, 25, 300, 181_900
RATIOS, STRENGTHS, EFFECTS = (0.5, 1.0, 2.0, 4.0), (0.01, 1.0), (1.0, 2.0)
FITS = ("groups", "rows")
MEASURES = tuple(f"{fit} {what}" for fit in FITS for what in (*LEVELS, "width"))
COLUMNS = ("ratio", "C", "effect", "block", *MEASURES)


def designs() -> list[tuple[object, ...]]:
    """(n/d, C, standard deviation of the random effect, number of the block)."""
    return [
        (ratio, C, effect, number)
        for number in range(DRAWS // PER_BLOCK)
        for ratio in RATIOS
        for C in STRENGTHS
        for effect in EFFECTS
    ]


def draw(ratio: float, C: float, effect: float, number: int) -> dict[str, float]:
    """Shares of the true F within the intervals of new rows, and widths at 90 %."""
    seeds = [SEED, int(10 * ratio), int(effect), number]
    patients = Patients(np.random.default_rng(seeds), effect)
    X, y, names = patients.draw(int(ratio * D) // SIZE)
    new, _, _ = patients.draw(NEW // SIZE)
    found: dict[str, float] = {}
    for fit in FITS:
        clf = AngularCalibratedClassifier(LogisticRegression(C=C, max_iter=2000))
        clf.fit(X, y, groups=names if fit == "groups" else None)
        ends = partial(clf.predict_interval, new, "curve")
        truth = {fit: patients.truth(clf.coef_[0], new)}
        found |= judged(lambda _, level, ends=ends: ends(level), truth)  # type: ignore[misc]
    return found


def block(ratio: float, C: float, effect: float, number: int) -> list[list[object]]:
    """Means over a block of draws."""
    each = [draw(ratio, C, effect, number * PER_BLOCK + k) for k in range(PER_BLOCK)]
    return [[float(np.mean([one[name] for one in each])) for name in MEASURES]]


def summary(rows: list[Row]) -> str:
    """Markdown: coverage in percent, with groups at all levels and without at 90 %."""
    lines, cells = [], by_cell(rows, COLUMNS[:3])
    for cell in sorted(cells, key=lambda cell: tuple(map(float, cell))):
        mine = cells[cell]
        names = [*(f"groups {level}" for level in LEVELS), f"rows {WIDTH_AT}"]
        shares = [mean_and_error(100 * numbers(mine, name)) for name in names]
        widths = [numbers(mine, f"{fit} width").mean() for fit in FITS]
        shown = [with_error(*pair, 1) for pair in shares]
        draws = str(PER_BLOCK * len(mine))
        lines.append((*cell, draws, *shown[:4], f"{widths[0]:.2f}", shown[4], f"{widths[1]:.2f}"))
    header = ("n/d", "C", "sd of the effect", "draws", *PERCENT, "width at 90 %")
    return markdown((*header, "90 %, ignoring groups", "its width"), lines) + "\n"
