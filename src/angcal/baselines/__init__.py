"""Calibrators that learn the map from a score u to P(y = 1 | u) on held-out data.

Each has ``fit(scores, y, sample_weight=None)`` and ``predict(scores)``. They are the methods to
compare with: unlike angular calibration they need labels that the classifier did not train on.

scikit-learn offers these maps only inside ``CalibratedClassifierCV``; as a public part that takes
scores it has ``IsotonicRegression``, used here. Its logistic regression takes neither soft targets
nor other links, hence the likelihood fits here.
"""

from __future__ import annotations

from angcal.baselines.calibrators import (
    CALIBRATORS,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    TemperatureScaling,
    platt_limit,
)

__all__ = [
    "CALIBRATORS",
    "BetaCalibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "PlattScaling",
    "TemperatureScaling",
    "platt_limit",
]
