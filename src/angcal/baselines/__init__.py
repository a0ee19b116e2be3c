"""Calibrators that learn the map from scores u to P(y | u) on held-out data.

Each has ``fit(scores, y, sample_weight=None)`` and ``predict(scores)``. They are the methods to
compare with: unlike angular calibration they need labels that the classifier did not train on.
Those of K classes take K columns of scores and return K columns of probabilities.

scikit-learn offers these maps only inside ``CalibratedClassifierCV``; as a public part that takes
scores it has ``IsotonicRegression``, used here. Its logistic regression takes neither soft targets
nor other links, hence the likelihood fits here.
"""

from __future__ import annotations

from angcal.baselines.adapters import (
    SEVERAL_CALIBRATORS,
    OneVsRestCalibration,
    PairedScores,
    calibrator_for,
)
from angcal.baselines.calibrators import (
    CALIBRATORS,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    platt_limit,
)
from angcal.baselines.multiclass import (
    DirichletCalibration,
    MatrixScaling,
    SoftmaxTemperature,
    StructuredMatrixScaling,
    VectorScaling,
)

__all__ = [
    "CALIBRATORS",
    "SEVERAL_CALIBRATORS",
    "BetaCalibration",
    "DirichletCalibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "MatrixScaling",
    "OneVsRestCalibration",
    "PairedScores",
    "PlattScaling",
    "QuadraticScaling",
    "SoftmaxTemperature",
    "StructuredMatrixScaling",
    "TemperatureScaling",
    "VectorScaling",
    "calibrator_for",
    "platt_limit",
]
