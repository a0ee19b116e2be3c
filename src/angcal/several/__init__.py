r"""Several indices: P = E_Z g(M·S + LZ), with the angles estimated from the training labels.

The data flow is that of two classes, in blocks: a fit (:mod:`~angcal.several.multinomial`), what
leaving a row out does (:mod:`~angcal.several.block_hessian`), leave-one-out scores
(:mod:`~angcal.several.observables`, :mod:`~angcal.several.heads`), angles where Cov(G) is known
(:mod:`~angcal.several.angles`) and where it is not (:mod:`~angcal.several.linkfit`), the predictor
(:mod:`~angcal.several.predictor`).
"""

from __future__ import annotations

from angcal.several.calibration import AngleMatrix, SeveralCalibration, calibrate_several
from angcal.several.choice import MapChoice
from angcal.several.heads import Heads, read_heads
from angcal.several.observables import SeveralObservables, observe_several
from angcal.several.predictor import SeveralPredictor, angular_predictor

__all__ = [
    "AngleMatrix",
    "Heads",
    "MapChoice",
    "SeveralCalibration",
    "SeveralObservables",
    "SeveralPredictor",
    "angular_predictor",
    "calibrate_several",
    "observe_several",
    "read_heads",
]
