r"""Three and more classes: what they add to two.

Fit, leverages and leave-one-out scores are those of two classes, one score for each class
(``class_scores``). Added are the map from K scores to K probabilities (``class_map``), what labels
say about it (``posterior``), which map is delivered (``choice``), and for known Cov(G) the
multi-index predictor E_Z g(M·S + LZ) of the paper (``known``, ``integration``, ``predictor``).
"""

from __future__ import annotations

from angcal.multiclass.calibrate import AngleMatrix, ClassCalibration, calibrate_classes
from angcal.multiclass.choice import MapChoice
from angcal.multiclass.class_map import ClassMap
from angcal.multiclass.class_scores import ClassScores, class_scores, read_class_scores
from angcal.multiclass.predictor import MulticlassPredictor, SeveralPredictor, angular_predictor

__all__ = [
    "AngleMatrix",
    "ClassCalibration",
    "ClassMap",
    "ClassScores",
    "MapChoice",
    "MulticlassPredictor",
    "SeveralPredictor",
    "angular_predictor",
    "calibrate_classes",
    "class_scores",
    "read_class_scores",
]
