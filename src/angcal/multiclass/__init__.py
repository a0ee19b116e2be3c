r"""Several indices: P = E_Z g(M·S + LZ), with the angles estimated from the training labels.

Fit, leverages and leave-one-out scores are those of two classes, in blocks. What is added here: how
scores relate to classes (``class_scores``), angles where Cov(G) is known (``angles``) and where it
is not (``family``), the predictor (``predictor``), and which map is delivered (``choice``).
"""

from __future__ import annotations

from angcal.multiclass.calibrate import AngleMatrix, SeveralCalibration, calibrate_several
from angcal.multiclass.choice import MapChoice
from angcal.multiclass.class_scores import ClassScores, class_scores, read_class_scores
from angcal.multiclass.predictor import SeveralPredictor, angular_predictor

__all__ = [
    "AngleMatrix",
    "ClassScores",
    "MapChoice",
    "SeveralCalibration",
    "SeveralPredictor",
    "angular_predictor",
    "calibrate_several",
    "class_scores",
    "read_class_scores",
]
