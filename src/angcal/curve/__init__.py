r"""F(s) = E_Z σ(c·s + √(1−c²)·Z): the formula, a table of it with a proven error, the curves.

``predictor`` is the formula's only home, ``table`` evaluates an average of curves at memory speed,
``curves`` map raw scores to probabilities.
"""

from __future__ import annotations

from angcal.curve.curves import (
    AveragedCurve,
    CalibratedCurve,
    ConstantCurve,
    TabulatedCurve,
    tail_floor,
)
from angcal.curve.predictor import CurvePart, angular_probability, noise_share
from angcal.curve.table import LARGEST_TABLE_ERROR, CurveTable

__all__ = [
    "LARGEST_TABLE_ERROR",
    "AveragedCurve",
    "CalibratedCurve",
    "ConstantCurve",
    "CurvePart",
    "CurveTable",
    "TabulatedCurve",
    "angular_probability",
    "noise_share",
    "tail_floor",
]
