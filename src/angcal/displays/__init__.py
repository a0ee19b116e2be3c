"""Pictures in scikit-learn's manner: ``from_estimator``, ``from_predictions``, ``plot``.

Every display takes ``ax``, leaves matplotlib's settings alone and keeps what it drew as
attributes that end in an underscore. Matplotlib is imported only when something is drawn.
"""

from angcal.displays.angle import AngleDisplay, AngleMatrixDisplay
from angcal.displays.comparison import ComparisonDisplay
from angcal.displays.curves import PenaltyPathDisplay, PlanDisplay, SmoothedLinkDisplay
from angcal.displays.decisions import DecisionCurveDisplay
from angcal.displays.reliability import ClasswiseReliabilityDisplay, ReliabilityDisplay
from angcal.displays.style import STYLES

__all__ = [
    "STYLES",
    "AngleDisplay",
    "AngleMatrixDisplay",
    "ClasswiseReliabilityDisplay",
    "ComparisonDisplay",
    "DecisionCurveDisplay",
    "PenaltyPathDisplay",
    "PlanDisplay",
    "ReliabilityDisplay",
    "SmoothedLinkDisplay",
]
