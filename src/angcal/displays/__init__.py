"""Pictures in scikit-learn's manner: ``from_estimator``, ``from_predictions``, ``plot``.

Every display takes ``ax``, leaves matplotlib's settings alone and keeps what it drew as
attributes that end in an underscore. Matplotlib is imported only when something is drawn.
"""

from angcal.displays.angle import AngleDisplay
from angcal.displays.angle_matrix import AngleMatrixDisplay
from angcal.displays.canvas import STYLES
from angcal.displays.classwise import ClasswiseReliabilityDisplay
from angcal.displays.comparison import ComparisonDisplay
from angcal.displays.link import SmoothedLinkDisplay
from angcal.displays.path import PenaltyPathDisplay
from angcal.displays.reliability import ReliabilityDisplay

__all__ = [
    "STYLES",
    "AngleDisplay",
    "AngleMatrixDisplay",
    "ClasswiseReliabilityDisplay",
    "ComparisonDisplay",
    "PenaltyPathDisplay",
    "ReliabilityDisplay",
    "SmoothedLinkDisplay",
]
