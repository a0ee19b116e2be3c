"""Calibrators that learn the map from scores u to P(y | u) on held-out data.

Each has ``fit(scores, y, sample_weight=None)`` and ``predict(scores)``. They are the methods to
compare with: unlike angular calibration they need labels that the classifier did not train on.
Those of K classes take K columns of scores and return K columns of probabilities.

scikit-learn offers these maps only inside ``CalibratedClassifierCV``; as a public part that takes
scores it has ``IsotonicRegression``, used here. Its logistic regression takes neither soft targets
nor other links, hence the likelihood fits here.
"""

from __future__ import annotations

from angcal.baselines.calibrators import (
    CALIBRATORS,
    SEVERAL_CALIBRATORS,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    SoftmaxTemperature,
    TemperatureScaling,
    VectorScaling,
    platt_limit,
)

__all__ = [
    "CALIBRATORS",
    "SEVERAL_CALIBRATORS",
    "BetaCalibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "MatrixScaling",
    "PlattScaling",
    "SoftmaxTemperature",
    "TemperatureScaling",
    "VectorScaling",
    "platt_limit",
]
