"""What n labels will buy: the expected state of a ridge fit, its best penalty, labels needed."""

from angcal.theory.labels import best_state, labels_needed, link_for
from angcal.theory.spectrum import Spectrum
from angcal.theory.state import FitState, separability_threshold, state_of_fit

__all__ = [
    "FitState",
    "Spectrum",
    "best_state",
    "labels_needed",
    "link_for",
    "separability_threshold",
    "state_of_fit",
]
