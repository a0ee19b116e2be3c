r"""A path of ridge penalties for little more than a fit, and the one to choose.

All penalties share one design (``design``), one run of Newton's method
(:mod:`angcal.solvers.newton_cg`) and the sampled rows that give leverages (``leverages``). The
leave-one-out log-loss of a calibrated curve (``choice``, and ``classes`` for three and more of
them), with a little of the ``evidence``, says which one to take or how to average them, and
``cosines`` what the angle is under each. ``spectrum`` bends the penalty by what unlabeled rows say
of the features, ``rarity`` by how rarely columns are active.
"""

from __future__ import annotations

from angcal.penalty_path.choice import (
    SCORINGS,
    LeftOutAverage,
    LooCurves,
    PenaltyAverage,
    PenaltyPath,
    apart,
    penalty_shares,
)
from angcal.penalty_path.classes import ClassCurves
from angcal.penalty_path.cosines import cosines_of, cosines_under
from angcal.penalty_path.design import Design, make_design
from angcal.penalty_path.evidence import criterion
from angcal.penalty_path.far import Judged, joined, judge_path, judged
from angcal.penalty_path.leverages import moved_to, naming_cs, observe_path
from angcal.penalty_path.rarity import factors_of, scaled_columns
from angcal.penalty_path.spectrum import EXPONENTS, exponent_shares, spectrum_of, why_without

__all__ = [
    "EXPONENTS",
    "SCORINGS",
    "ClassCurves",
    "Design",
    "Judged",
    "LeftOutAverage",
    "LooCurves",
    "PenaltyAverage",
    "PenaltyPath",
    "apart",
    "cosines_of",
    "cosines_under",
    "criterion",
    "exponent_shares",
    "factors_of",
    "joined",
    "judge_path",
    "judged",
    "make_design",
    "moved_to",
    "naming_cs",
    "observe_path",
    "penalty_shares",
    "scaled_columns",
    "spectrum_of",
    "why_without",
]
