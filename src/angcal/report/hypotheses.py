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

    Where rows come in groups, each test takes groups and not rows as independent.
    """
    codes, n, groups = figures.codes, len(figures.codes), figures.groups
    some = np.arange(n)
    if n > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
    whole: dict[str, Any] = {} if groups is None else {"groups": groups}
    part = {name: each[some] for name, each in whole.items()}
    both = {"plain": figures.plain, "calibrated": figures.calibrated}
    seen: dict[str, Any] = {"n_resamples": RESAMPLES, "random_state": seed, **part}
    rows = [
        {kind: spiegelhalter_test(codes, p, **whole) for kind, p in both.items()},
        {kind: kernel_calibration_test(codes[some], p[some], **seen) for kind, p in both.items()},
    ]
    names = ["Spiegelhalter's z", "Kernel test" + (f", {MOST_ROWS} rows" if n > MOST_ROWS else "")]
    if figures.two:
        names.insert(1, "Hosmer–Lemeshow, ten bins")
        of_bins = {kind: hosmer_lemeshow_test(codes, p[:, 1], **whole) for kind, p in both.items()}
        rows.insert(1, of_bins)
    return tuple(
        PValues(name, row["plain"].p_value, row["calibrated"].p_value)
        for name, row in zip(names, rows, strict=True)
    )
