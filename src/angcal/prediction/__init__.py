r"""F(s) = E_Z σ(c·s + √(1−c²)·Z): the formula, a table of it with a proven error, the curves.

``predictor`` is the formula's only home, ``table`` evaluates it at memory speed, ``curves`` map
raw scores to probabilities.
"""

from __future__ import annotations

from angcal.prediction.curves import AveragedCurve, CalibratedCurve, ConstantCurve, TabulatedCurve
from angcal.prediction.predictor import TABLE_NODES, angular_probability, tabulated_probability
from angcal.prediction.table import LARGEST_TABLE_ERROR, CurvePart, CurveTable

__all__ = [
    "LARGEST_TABLE_ERROR",
    "TABLE_NODES",
    "AveragedCurve",
    "CalibratedCurve",
    "ConstantCurve",
    "CurvePart",
    "CurveTable",
    "TabulatedCurve",
    "angular_probability",
    "tabulated_probability",
]
