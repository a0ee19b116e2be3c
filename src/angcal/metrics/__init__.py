"""How well predicted probabilities agree with labels: calibration errors, scores, curves.

Labels ``y`` are 0 or 1, predictions ``p`` estimate P(y = 1). Every weighted average is
normalised by the total weight, so only the ratios of ``sample_weight`` matter.
"""

from __future__ import annotations

from angcal.metrics.kernel import calibration_error_at, smooth_ece
from angcal.metrics.reliability import (
    ReliabilityCurve,
    Strategy,
    bin_index,
    expected_calibration_error,
    interior_edges,
    reliability_curve,
)
from angcal.metrics.scores import (
    BREGMAN_GENERATORS,
    ScoreDecomposition,
    bregman_divergence,
    brier_decomposition,
    brier_score,
    log_loss,
    mean_bregman_divergence,
)
from angcal.metrics.validation import (
    as_labels,
    as_probabilities,
    as_vector,
    as_weights,
    require_length,
)

__all__ = [
    "BREGMAN_GENERATORS",
    "ReliabilityCurve",
    "ScoreDecomposition",
    "Strategy",
    "as_labels",
    "as_probabilities",
    "as_vector",
    "as_weights",
    "bin_index",
    "bregman_divergence",
    "brier_decomposition",
    "brier_score",
    "calibration_error_at",
    "expected_calibration_error",
    "interior_edges",
    "log_loss",
    "mean_bregman_divergence",
    "reliability_curve",
    "require_length",
    "smooth_ece",
]
