"""Tests of P(y | p) = p on leave-one-out predictions, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.metrics import hosmer_lemeshow_test, kernel_calibration_test, spiegelhalter_test
from angcal.report.figures import LeaveOneOut

MOST_ROWS, RESAMPLES = 500, 199
"""Of the kernel test, which compares every row with every other one for each resample: 0.3 s."""


@dataclass(frozen=True)
class PValues:
    """P-values of one test for both models.

    Attributes
    ----------
    name : str
    plain, calibrated : float
        How often chance alone would give a statistic as extreme.
    """

    name: str
    plain: float
    calibrated: float


def calibration_tests(figures: LeaveOneOut, seed: int) -> tuple[PValues, ...]:
    """Spiegelhalter's z, Hosmer–Lemeshow's χ² of two classes, and the kernel test.

    None where rows come in groups: each test counts every row as one of its own.
    """
    if figures.groups is not None:
        return ()
    codes, n = figures.codes, len(figures.codes)
    some = np.arange(n)
    if n > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
    both = {"plain": figures.plain, "calibrated": figures.calibrated}
    seen: dict[str, Any] = {"n_resamples": RESAMPLES, "random_state": seed}
    rows = [
        {kind: spiegelhalter_test(codes, p) for kind, p in both.items()},
        {kind: kernel_calibration_test(codes[some], p[some], **seen) for kind, p in both.items()},
    ]
    names = ["Spiegelhalter's z", "Kernel test" + (f", {MOST_ROWS} rows" if n > MOST_ROWS else "")]
    if figures.two:
        names.insert(1, "Hosmer–Lemeshow, ten bins")
        rows.insert(1, {kind: hosmer_lemeshow_test(codes, p[:, 1]) for kind, p in both.items()})
    return tuple(
        PValues(name, row["plain"].p_value, row["calibrated"].p_value)
        for name, row in zip(names, rows, strict=True)
    )
