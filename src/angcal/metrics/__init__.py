"""How well predicted probabilities agree with labels: calibration errors, scores, curves.

Labels ``y`` are 0 or 1, predictions ``p`` estimate P(y = 1). Every weighted average is
normalised by the total weight, so only the ratios of ``sample_weight`` matter. For more classes,
with one column of probabilities each, there are the functions of `angcal.metrics.multiclass` and
`angcal.metrics.simplex`.
"""

from __future__ import annotations

from angcal.metrics.kernel import calibration_error_at, smooth_ece
from angcal.metrics.multiclass import (
    ProbabilityDivergence,
    as_class_codes,
    as_probability_matrix,
    as_score_matrix,
    classwise_ece,
    classwise_reliability,
    multiclass_brier_score,
    multiclass_log_loss,
    top_label_ece,
    true_probability_divergence,
)
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
from angcal.metrics.simplex import full_ece, squared_kernel_calibration_error
from angcal.metrics.validation import (
    as_labels,
    as_probabilities,
    as_vector,
    as_weights,
    require_length,
)

__all__ = [
    "BREGMAN_GENERATORS",
    "ProbabilityDivergence",
    "ReliabilityCurve",
    "ScoreDecomposition",
    "Strategy",
    "as_class_codes",
    "as_labels",
    "as_probabilities",
    "as_probability_matrix",
    "as_score_matrix",
    "as_vector",
    "as_weights",
    "bin_index",
    "bregman_divergence",
    "brier_decomposition",
    "brier_score",
    "calibration_error_at",
    "classwise_ece",
    "classwise_reliability",
    "expected_calibration_error",
    "full_ece",
    "interior_edges",
    "log_loss",
    "mean_bregman_divergence",
    "multiclass_brier_score",
    "multiclass_log_loss",
    "reliability_curve",
    "require_length",
    "smooth_ece",
    "squared_kernel_calibration_error",
    "top_label_ece",
    "true_probability_divergence",
]
