"""Checks on arguments: vectors, probabilities, labels and weights, or a message about them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats


def as_vector(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a one-dimensional finite float array, or say what is wrong with it."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; recode it as floats ({error}).") from error
    if vector.ndim != 1:
        raise ValueError(
            f"{name} has shape {vector.shape} but must be one-dimensional; from predict_proba, "
            "pass the positive class's column [:, 1]."
        )
    if vector.size == 0:
        raise ValueError(f"{name} is empty; pass at least one sample.")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(
            f"{name} holds {vector[bad[0]]} at position {bad[0]}; drop or impute such entries."
        )
    return vector


def as_probabilities(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector inside [0, 1], or say which entry is outside."""
    vector = as_vector(values, name)
    bad = np.flatnonzero((vector < 0.0) | (vector > 1.0))
    if bad.size:
        raise ValueError(
            f"{name} holds {vector[bad[0]]} at position {bad[0]}, outside [0, 1]; "
            "pass probabilities, not scores."
        )
    return vector


def as_labels(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector of zeros and ones, or say which label is neither."""
    vector = as_vector(values, name)
    bad = np.flatnonzero((vector != 0.0) & (vector != 1.0))
    if bad.size:
        raise ValueError(
            f"{name} holds the label {vector[bad[0]]}, which is neither 0 nor 1; "
            f"recode it as ({name} == positive_class)."
        )
    return vector


def as_weights(sample_weight: ArrayLike | None, n_samples: int) -> Floats:
    """Return non-negative weights of the given length; ``None`` means all ones."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = as_vector(sample_weight, "sample_weight")
    require_length(weight, "sample_weight", n_samples)
    bad = np.flatnonzero(weight < 0.0)
    if bad.size:
        raise ValueError(
            f"sample_weight holds {weight[bad[0]]} at position {bad[0]}; weights must be >= 0."
        )
    if not weight.any():
        raise ValueError("sample_weight is all zero; give at least one sample a positive weight.")
    return weight


def require_length(vector: Floats, name: str, n_samples: int) -> None:
    """Raise if `vector` does not have one entry per sample."""
    if vector.size != n_samples:
        raise ValueError(
            f"{name} has {vector.size} entries but y has {n_samples}; pass one entry per sample."
        )


def samples(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return checked labels, probabilities and weights, one of each per sample."""
    labels = as_labels(y_true, "y_true")
    probabilities = as_probabilities(y_prob, "y_prob")
    require_length(probabilities, "y_prob", labels.size)
    return labels, probabilities, as_weights(sample_weight, labels.size)
