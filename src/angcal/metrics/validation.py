"""Checks of arguments: vectors, probabilities, labels and weights, or a message about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from angcal._typing import Floats

Codes = NDArray[np.intp]
Classes = Sequence[Any] | NDArray[Any] | None


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; recode it as floats ({error}).") from error


def _refuse(array: Floats, bad: NDArray[np.bool_], name: str, reason: str) -> None:
    """Raise if any entry is bad, with the value and the place of the first."""
    if not bad.any():
        return
    place = tuple(np.argwhere(bad)[0])
    where = f"position {place[0]}" if len(place) == 1 else f"row {place[0]}, column {place[1]}"
    raise ValueError(f"{name} holds {array[place]} at {where}{reason}")


def as_vector(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector of finite floats, or say which entry is not one."""
    vector = _numbers(values, name)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} has shape {vector.shape} but must be one-dimensional; from predict_proba, "
            "pass the positive class's column [:, 1]."
        )
    if vector.size == 0:
        raise ValueError(f"{name} is empty; pass at least one sample.")
    _refuse(vector, ~np.isfinite(vector), name, "; drop or impute such entries.")
    return vector


def as_probabilities(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a vector inside [0, 1], or say which entry is outside."""
    vector = as_vector(values, name)
    outside = (vector < 0.0) | (vector > 1.0)
    _refuse(vector, outside, name, ", outside [0, 1]; pass probabilities, not scores.")
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
    """Return `n_samples` weights >= 0 that are not all zero; None means all ones."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = as_vector(sample_weight, "sample_weight")
    require_length(weight, "sample_weight", n_samples)
    _refuse(weight, weight < 0.0, "sample_weight", "; weights must be >= 0.")
    if not weight.any():
        raise ValueError("sample_weight is all zero; give at least one sample a positive weight.")
    return weight


def as_group_numbers(groups: ArrayLike, n_samples: int) -> np.ndarray:
    """Groups as 0, 1, …"""
    together = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    if len(together) != n_samples:
        raise ValueError(f"groups has {len(together)} entries for {n_samples} rows; give one each.")
    return together


def require_length(vector: Floats, name: str, n_samples: int) -> None:
    """Raise a ValueError unless `vector` has one entry or row per sample."""
    if len(vector) != n_samples:
        unit = "entries" if vector.ndim == 1 else "rows"
        one = "entry" if vector.ndim == 1 else "row"
        raise ValueError(
            f"{name} has {len(vector)} {unit} but y has {n_samples}; pass one {one} per sample."
        )


def as_score_matrix(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a finite (n, K) matrix, K >= 2, or say which entry is not finite."""
    matrix = _numbers(values, name)
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            f"{name} has shape {matrix.shape} but must be (n, K) with one column for each of "
            "K >= 2 classes; for one column p of two classes pass np.column_stack([1 - p, p])."
        )
    if len(matrix) == 0:
        raise ValueError(f"{name} is empty; pass at least one row.")
    _refuse(matrix, ~np.isfinite(matrix), name, "; drop or impute such rows.")
    return matrix


def as_probability_matrix(values: ArrayLike, name: str) -> Floats:
    """Return `values` as an (n, K) matrix of probability vectors, or say which row is not one.

    A row may miss the sum one by 1e-6, the rounding of single precision.
    """
    matrix = as_score_matrix(values, name)
    _refuse(matrix, matrix < 0.0, name, ", below zero; pass probabilities, not scores.")
    total = matrix.sum(axis=1)
    rows = np.flatnonzero(np.abs(total - 1.0) > 1e-6)
    if rows.size:
        raise ValueError(
            f"row {rows[0]} of {name} sums to {total[rows[0]]:.6g}, not to 1; "
            "divide each row by its sum, or pass the softmax of scores."
        )
    return np.minimum(matrix, 1.0)


def as_class_codes(
    values: ArrayLike, n_classes: int, classes: Classes = None, name: str = "y_true"
) -> Codes:
    """Return the column 0, …, K−1 of each label.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        Labels: the codes themselves, or members of `classes`.
    n_classes : int
        K.
    classes : sequence, optional
        The K labels in the order of the columns; None means 0, …, K−1.
    name : str, default="y_true"
        Name of the argument, for messages.

    Returns
    -------
    ndarray of shape (n_samples,)
        The codes; a ValueError says which label has no column.

    Examples
    --------
    >>> as_class_codes(["cat", "dog", "cat"], 2, classes=["dog", "cat"])
    array([1, 0, 1])
    """
    labels = np.asarray(values)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(
            f"{name} has shape {labels.shape} but must hold one label per row; "
            "np.argmax(..., axis=1) turns indicator columns into codes."
        )
    known = list(range(n_classes)) if classes is None else np.asarray(classes).tolist()
    if len(known) != n_classes or len(set(known)) != n_classes:
        raise ValueError(
            f"classes={known!r} must name {n_classes} different labels, one for each column."
        )
    column = {label: k for k, label in enumerate(known)}
    codes = np.array([column.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    bad = np.flatnonzero(codes < 0)
    if bad.size:
        advice = "pass classes= with the labels of the columns" if classes is None else "add it"
        shown = [str(label) for label in known]
        listed = ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", shown[-1]])
        raise ValueError(
            f"{name} holds the label {labels[bad[0]]!s} at position {bad[0]}, which is none of "
            f"the {n_classes} classes {listed}; {advice}."
        )
    return codes


def indicators(codes: Codes, n_classes: int) -> Floats:
    """Return the (n, K) matrix of ones where the column is the label."""
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)


def smoothed_targets(codes: Codes, weight: Floats, n_classes: int) -> Floats:
    """(N_y + 1)/(N_y + K) for the label y and 1/(N_y + K) for the rest, N_y the weight of y.

    These are Platt's targets for K = 2: posterior means under a uniform prior. They keep every
    probability positive, so that the fit has finite parameters.
    """
    total = np.bincount(codes, weights=weight, minlength=n_classes)[codes][:, None]
    return (total * indicators(codes, n_classes) + 1.0) / (total + n_classes)


def samples(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return checked labels 0/1, probabilities of 1 and weights, one of each per sample."""
    labels = as_labels(y_true, "y_true")
    probabilities = as_probabilities(y_prob, "y_prob")
    require_length(probabilities, "y_prob", labels.size)
    return labels, probabilities, as_weights(sample_weight, labels.size)


def class_samples(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Classes, sample_weight: ArrayLike | None
) -> tuple[Codes, Floats, Floats]:
    """Return checked codes, (n, K) probabilities and weights, one of each per sample."""
    probabilities = as_probability_matrix(y_prob, "y_prob")
    codes = as_class_codes(y_true, probabilities.shape[1], classes)
    require_length(probabilities, "y_prob", codes.size)
    return codes, probabilities, as_weights(sample_weight, codes.size)
