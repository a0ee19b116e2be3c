r"""A path of ridge penalties for little more than a fit, and the one to choose.

All penalties share one design (:mod:`~angcal.path.design`), one run of Newton's method
(:mod:`angcal.solvers.newton_cg`) and the sampled rows that give leverages
(:mod:`~angcal.path.leverages`). The leave-one-out log-loss of a calibrated curve says which one to
take (:mod:`~angcal.path.curve`) or how to average them (:mod:`~angcal.path.average`), and
:mod:`~angcal.path.cosines` what the angle is under each.
"""

from __future__ import annotations

from angcal.path.average import PenaltyAverage, penalty_shares
from angcal.path.cosines import cosines_under
from angcal.path.curve import SCORINGS, LooCurves, PenaltyPath, choose, with_doubt
from angcal.path.design import Design, make_design
from angcal.path.leverages import moved_to, observe_path

__all__ = [
    "SCORINGS",
    "Design",
    "LooCurves",
    "PenaltyAverage",
    "PenaltyPath",
    "choose",
    "cosines_under",
    "make_design",
    "moved_to",
    "observe_path",
    "penalty_shares",
    "with_doubt",
]
