"""Agreement of predicted probability vectors with labels of K >= 2 classes.

Predictions are an (n, K) matrix whose rows sum to one, one column per class. Labels are the codes
0, …, K−1 of the columns, or any labels with ``classes=`` naming the columns in order. As in the
binary metrics, only the ratios of ``sample_weight`` matter. With K = 2 each score equals the binary
one of column 1; so do `classwise_ece` and `full_ece`, where no prediction lies on the edge of
a bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from angcal._typing import Floats
from angcal.metrics.reliability import (
    ReliabilityCurve,
    Strategy,
    expected_calibration_error,
    reliability_curve,
)
from angcal.metrics.validation import as_weights

Codes = NDArray[np.intp]
Classes = Sequence[Any] | NDArray[Any] | None

SUM_SLACK = 1e-6
"""By how much a row of probabilities may miss the sum one: the rounding of single precision."""


# --- Arguments -------------------------------------------------------------------------------


def as_score_matrix(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a finite (n, K) float array with K >= 2, or say what is wrong with it."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; recode it as floats ({error}).") from error
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            f"{name} has shape {matrix.shape} but must be (n, K) with one column for each of "
            "K >= 2 classes; for one column p of two classes pass np.column_stack([1 - p, p])."
        )
    if len(matrix) == 0:
        raise ValueError(f"{name} is empty; pass at least one row.")
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"{name} holds {matrix[row, column]} at row {row}, column {column}; "
            "drop or impute such rows."
        )
    return matrix


def as_probability_matrix(values: ArrayLike, name: str) -> Floats:
    """Return `values` as an (n, K) array whose rows are probabilities, or say which row is not."""
    matrix = as_score_matrix(values, name)
    bad = np.argwhere(matrix < 0.0)
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"{name} holds {matrix[row, column]} at row {row}, column {column}, below zero; "
            "pass probabilities, not scores."
        )
    total = matrix.sum(axis=1)
    rows = np.flatnonzero(np.abs(total - 1.0) > SUM_SLACK)
    if rows.size:
        raise ValueError(
            f"row {rows[0]} of {name} sums to {total[rows[0]]:.6g}, not to 1; "
            "divide each row by its sum, or pass the softmax of scores."
        )
    return np.minimum(matrix, 1.0)


def as_class_codes(
    values: ArrayLike, n_classes: int, classes: Classes = None, name: str = "y_true"
) -> Codes:
    """Return the column 0, …, K−1 of each label, or say which label has none.

    Parameters
    ----------
    values
        Labels: the codes themselves, or members of `classes`.
    n_classes
        K.
    classes
        The K labels in the order of the columns; ``None`` means 0, …, K−1.
    name
        What to call `values` in a message.

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
        raise ValueError(
            f"{name} holds the label {labels[bad[0]]!s} at position {bad[0]}, which is none of "
            f"the {n_classes} classes {_shortened(known)}; {advice}."
        )
    return codes


def _shortened(labels: list[Any]) -> str:
    shown = [str(label) for label in labels]
    if len(shown) > 6:
        shown = [*shown[:3], "…", shown[-1]]
    return ", ".join(shown)


def class_samples(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Classes, sample_weight: ArrayLike | None
) -> tuple[Codes, Floats, Floats]:
    """Return checked codes, probability rows and weights, one of each per sample."""
    probabilities = as_probability_matrix(y_prob, "y_prob")
    codes = as_class_codes(y_true, probabilities.shape[1], classes)
    if len(probabilities) != codes.size:
        raise ValueError(
            f"y_prob has {len(probabilities)} rows but y has {codes.size}; pass one row per sample."
        )
    return codes, probabilities, as_weights(sample_weight, codes.size)


def indicators(codes: Codes, n_classes: int) -> Floats:
    """Return the (n, K) matrix of ones where the column is the label."""
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)


# --- Proper scores ---------------------------------------------------------------------------


def multiclass_log_loss(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """−E log p_y, with p_y clipped to [ε, 1−ε], ε = 2.2e-16 (scikit-learn's).

    Examples
    --------
    >>> round(multiclass_log_loss([0, 2], [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]), 6)
    0.693147
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    epsilon = np.finfo(np.float64).eps
    of_label = np.clip(P[np.arange(codes.size), codes], epsilon, 1.0 - epsilon)
    return float(np.average(-np.log(of_label), weights=weight))


def multiclass_brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    scale_by_half: bool = True,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """½ E Σ_k (p_k − 1{y = k})², between 0 and 1.

    The half makes K = 2 the binary Brier score. ``scale_by_half=False`` leaves it out, which is
    what scikit-learn reports for K >= 3.

    Examples
    --------
    >>> round(multiclass_brier_score([0], [[0.5, 0.3, 0.2]]), 6)
    0.19
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    square = np.sum((P - indicators(codes, P.shape[1])) ** 2, axis=1)
    return float(np.average(square, weights=weight)) * (0.5 if scale_by_half else 1.0)


@dataclass(frozen=True)
class ProbabilityDivergence:
    """Mean distances of predictions q from true probabilities p; all zero at q = p.

    Attributes
    ----------
    kl : float
        E Σ_k p_k log(p_k/q_k), the excess log-loss; infinite where a q_k = 0 meets p_k > 0.
    brier : float
        ½ E Σ_k (p_k − q_k)², the excess of `multiclass_brier_score`.
    total_variation : float
        ½ E Σ_k |p_k − q_k|.
    """

    kl: float
    brier: float
    total_variation: float


def true_probability_divergence(
    p_true: ArrayLike, p_pred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> ProbabilityDivergence:
    """E KL(p‖q), ½ E ‖p − q‖² and ½ E ‖p − q‖₁, where the truth p is known.

    Examples
    --------
    >>> true_probability_divergence([[0.5, 0.5]], [[0.75, 0.25]]).total_variation
    0.25
    """
    p = as_probability_matrix(p_true, "p_true")
    q = as_probability_matrix(p_pred, "p_pred")
    if p.shape != q.shape:
        raise ValueError(
            f"p_pred has shape {q.shape} but p_true has {p.shape}; pass the same rows and classes."
        )
    share = as_weights(sample_weight, len(p))
    share = share / share.sum()
    return ProbabilityDivergence(
        # Summed over positive weights only: 0 · ∞ is not a number.
        kl=float(share[share > 0.0] @ rel_entr(p, q)[share > 0.0].sum(axis=1)),
        brier=0.5 * float(share @ np.sum((p - q) ** 2, axis=1)),
        total_variation=0.5 * float(share @ np.abs(p - q).sum(axis=1)),
    )


# --- Calibration of one number per row -------------------------------------------------------


def top_label_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Literal["l1", "l2"] = "l1",
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Binned E|P(y = k̂ | p_k̂) − p_k̂| with k̂ = argmax p: the error of the stated confidence.

    It is `expected_calibration_error` of the hits 1{y = k̂} against the largest entry of each row,
    and takes its options. Among equal largest entries the first column counts as the prediction.

    Examples
    --------
    >>> round(top_label_ece([0, 1], [[0.8, 0.1, 0.1], [0.2, 0.8, 0.0]]), 6)
    0.2
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    return expected_calibration_error(
        P.argmax(axis=1) == codes,
        P.max(axis=1),
        n_bins=n_bins,
        strategy=strategy,
        debiased=debiased,
        norm=norm,
        sample_weight=weight,
    )


def classwise_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Literal["l1", "l2"] = "l1",
    per_class: bool = False,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float | Floats:
    """(1/K) Σ_k ECE(1{y = k}, p_k): the binary error of each column, averaged over the classes.

    The options are those of `expected_calibration_error`. ``per_class=True`` returns the K errors
    in place of their mean. With many classes most entries of a column are near zero, so the mean
    is small for any predictor: compare methods at one K, not across.

    References
    ----------
    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach (2019), Beyond temperature scaling,
    NeurIPS.

    Examples
    --------
    >>> classwise_ece([0, 0], [[0.5, 0.25, 0.25]] * 2, per_class=True)
    array([0.5 , 0.25, 0.25])
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    errors = np.array(
        [
            expected_calibration_error(
                codes == k,
                P[:, k],
                n_bins=n_bins,
                strategy=strategy,
                debiased=debiased,
                norm=norm,
                sample_weight=weight,
            )
            for k in range(P.shape[1])
        ]
    )
    return errors if per_class else float(errors.mean())


def classwise_reliability(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    confidence: float = 0.95,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> list[ReliabilityCurve]:
    """`reliability_curve` of (1{y = k}, p_k), one for each class k in the order of the columns.

    Examples
    --------
    >>> curves = classwise_reliability([0, 1], [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
    >>> len(curves), curves[2].observed
    (3, array([0.]))
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    return [
        reliability_curve(
            codes == k,
            P[:, k],
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=weight,
            confidence=confidence,
        )
        for k in range(P.shape[1])
    ]
