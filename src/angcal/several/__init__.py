r"""Several indices: P = E_Z g(M·S + LZ), with the angles estimated from the training labels.

Fit, leverages and leave-one-out scores are those of two classes, in blocks. What is added here: how
scores relate to classes (:mod:`~angcal.several.heads`), angles where Cov(G) is known
(:mod:`~angcal.several.angles`) and where it is not (:mod:`~angcal.several.linkfit`), the predictor
(:mod:`~angcal.several.predictor`).
"""

from __future__ import annotations

from angcal.several.calibration import AngleMatrix, SeveralCalibration, calibrate_several
from angcal.several.choice import MapChoice
from angcal.several.heads import Heads, read_heads
from angcal.several.predictor import SeveralPredictor, angular_predictor

__all__ = [
    "AngleMatrix",
    "Heads",
    "MapChoice",
    "SeveralCalibration",
    "SeveralPredictor",
    "angular_predictor",
    "calibrate_several",
    "read_heads",
]
