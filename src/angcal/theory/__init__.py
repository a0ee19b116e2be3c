"""What n labels give: the expected state of a ridge fit, its best penalty, labels needed."""

from angcal.theory.classes import ClassState, state_of_classes
from angcal.theory.labels import best_state, labels_needed, link_for
from angcal.theory.spectrum import Spectrum
from angcal.theory.state import FitState, separability_threshold, state_of_fit

__all__ = [
    "ClassState",
    "FitState",
    "Spectrum",
    "best_state",
    "labels_needed",
    "link_for",
    "separability_threshold",
    "state_of_classes",
    "state_of_fit",
]
