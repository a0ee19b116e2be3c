"""How well predicted probabilities agree with labels: errors, scores, curves, tests, decisions.

For two classes, labels ``y`` are 0 or 1 and predictions ``p`` estimate P(y = 1). For any number of
classes, predictions are an (n, K) matrix whose rows sum to one, and labels are the codes 0, …, K−1
of its columns, or any labels with ``classes=`` naming the columns in order. With K = 2 each score
equals the binary one of column 1; so do `classwise_ece` and `full_ece`, where no prediction lies on
the edge of a bin. Only the ratios of ``sample_weight`` matter.
"""

from __future__ import annotations

from angcal.metrics.calibration import (
    Strategy,
    bin_index,
    classwise_ece,
    expected_calibration_error,
    full_ece,
    interior_edges,
    top_label_ece,
)
from angcal.metrics.decisions import (
    DecisionCurve,
    cost_optimal_threshold,
    decision_curve,
    mean_cost,
)
from angcal.metrics.hypotheses import (
    CalibrationTest,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    spiegelhalter_test,
)
from angcal.metrics.kernel import (
    calibration_error_at,
    smooth_ece,
    squared_kernel_calibration_error,
)
from angcal.metrics.line import CalibrationLine, calibration_line
from angcal.metrics.reliability import (
    ReliabilityCurve,
    classwise_reliability,
    reliability_curve,
)
from angcal.metrics.scores import (
    BREGMAN_GENERATORS,
    ProbabilityDivergence,
    ScoreDecomposition,
    bregman_divergence,
    brier_decomposition,
    brier_score,
    log_loss,
    mean_bregman_divergence,
    multiclass_brier_score,
    multiclass_log_loss,
    true_probability_divergence,
)
from angcal.metrics.validation import (
    as_class_codes,
    as_labels,
    as_probabilities,
    as_probability_matrix,
    as_score_matrix,
    as_vector,
    as_weights,
    require_length,
)

__all__ = [
    "BREGMAN_GENERATORS",
    "CalibrationLine",
    "CalibrationTest",
    "DecisionCurve",
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
    "calibration_line",
    "classwise_ece",
    "classwise_reliability",
    "cost_optimal_threshold",
    "decision_curve",
    "expected_calibration_error",
    "full_ece",
    "hosmer_lemeshow_test",
    "interior_edges",
    "kernel_calibration_test",
    "log_loss",
    "mean_bregman_divergence",
    "mean_cost",
    "multiclass_brier_score",
    "multiclass_log_loss",
    "reliability_curve",
    "require_length",
    "smooth_ece",
    "spiegelhalter_test",
    "squared_kernel_calibration_error",
    "top_label_ece",
    "true_probability_divergence",
]
