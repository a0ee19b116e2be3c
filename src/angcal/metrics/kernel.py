"""Kernel-smoothed calibration errors: one number for all predictions, or one per level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.spatial.distance import cdist

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.metrics.validation import (
    Classes,
    as_probabilities,
    as_weights,
    class_samples,
    indicators,
    require_length,
    samples,
)


def _positive(bandwidth: float) -> float:
    if not bandwidth > 0.0:
        raise ValueError(f"bandwidth={bandwidth!r} must be > 0.")
    return bandwidth


def smooth_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    bandwidth: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""smECE_h = ∫₀¹ \|E[(y − p) K_h(t, p)]\| dt, at the h with smECE_h = h unless given.

    K_h is the Gaussian kernel reflected at 0 and 1, that is, the heat kernel of [0, 1] with
    insulated ends. It is diagonal in cosines, K_h(t, p) = 1 + 2 Σ_k exp(−(πkh)²/2) cos πkt cos πkp,
    so one cosine transform of the binned residuals serves every h. smECE_h falls in h, hence the
    fixed point is unique.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1).
    bandwidth : float, optional
        h; None is the fixed point.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    float
        The error, in [0, 1].

    See Also
    --------
    expected_calibration_error : The same question with bins.

    References
    ----------
    Błasiok, Nakkiran (2024), Smooth ECE: principled reliability diagrams via kernel smoothing,
    ICLR.

    Examples
    --------
    >>> round(smooth_ece([1, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]), 3)
    0.25
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    # Cells of [0, 1] carry the residuals; predictions move by at most 1/16384.
    n_cells = 8192
    cell = np.minimum((p * n_cells).astype(np.intp), n_cells - 1)
    residual = weight / weight.sum() * (y - p)
    modes = dct(np.bincount(cell, weights=residual, minlength=n_cells))
    frequency = np.pi * np.arange(n_cells)

    def at(h: float) -> float:
        return float(np.abs(idct(modes * np.exp(-0.5 * (frequency * h) ** 2))).sum())

    if bandwidth is not None:
        return at(_positive(bandwidth))
    if at(0.0) == 0.0:
        return 0.0
    # smECE_h <= 1 for every h, so h = 2 lies above the fixed point.
    return float(brentq(lambda h: at(h) - h, 0.0, 2.0, xtol=1e-12))


def calibration_error_at(
    levels: ArrayLike,
    y_or_true_prob: ArrayLike,
    y_prob: ArrayLike,
    bandwidth: float = 0.05,
    *,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    """Δ_p = p − E[target | prediction = p] at each level p, by Nadaraya–Watson averaging.

    The residual ``prediction − target`` is averaged with Gaussian weights, rather than the target
    alone, so that a calibrated predictor reads zero up to noise at 0 and 1 too, where all
    neighbors lie on one side.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Probabilities p at which to evaluate.
    y_or_true_prob : array-like of shape (n,)
        Labels, or true conditional probabilities when they are known.
    y_prob : array-like of shape (n,)
        Predictions.
    bandwidth : float, default=0.05
        Standard deviation of the kernel.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    ndarray of shape (n_levels,)
        The errors; NaN at a level with no prediction within four bandwidths.

    See Also
    --------
    reliability_curve : The same curve from bins.

    Examples
    --------
    >>> calibration_error_at([0.3], [0.2, 0.2], [0.3, 0.3]).round(12)
    array([0.1])
    """
    points = as_probabilities(levels, "levels")
    target = as_probabilities(y_or_true_prob, "y_or_true_prob")
    prediction = as_probabilities(y_prob, "y_prob")
    require_length(prediction, "y_prob", target.size)
    weight = as_weights(sample_weight, target.size)
    _positive(bandwidth)

    def error(point: float) -> float:
        distance = (prediction - point) / bandwidth
        kernel = weight * np.exp(-0.5 * distance**2)
        # Farther away, a prediction's weight is below exp(−8): no evidence.
        if not np.any(weight[np.abs(distance) <= 4.0]):
            return float("nan")
        return float(kernel @ (prediction - target) / kernel.sum())

    return np.array([error(float(point)) for point in points])


def squared_kernel_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    bandwidth: float = 0.2,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean over pairs i ≠ j of (e_yi − p_i)ᵀ(e_yj − p_j) exp(−TV(p_i, p_j)/bandwidth).

    Its expectation is zero if P(y | p) = p and positive otherwise, for every K and n: there are no
    bins and no bias. A value below zero is therefore noise around zero. It is the square of an
    error, without a unit that a reader knows; use it to compare predictors. The cost is n² K.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K); at least two rows
        of positive weight.
    bandwidth : float, default=0.2
        The distance in total variation over which rows count as alike.
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.
    sample_weight : array-like of shape (n,), optional
        Importance of each row. A weight of two is not the same as the row twice: two copies of
        one draw are not a pair of draws.

    Returns
    -------
    float
        The squared error.

    See Also
    --------
    kernel_calibration_test : Whether it is more than noise.
    full_ece : The same question with bins, in units of probability.

    References
    ----------
    Widmann, Lindsten, Zachariah (2019), Calibration tests in multi-class classification, NeurIPS.

    Examples
    --------
    >>> round(squared_kernel_calibration_error([0, 0], [[0.5, 0.5], [0.5, 0.5]]), 6)
    0.5
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    checked_pairs(weight, bandwidth)
    residuals = indicators(codes, P.shape[1]) - P
    return float(kernel_pair_means(P, residuals[:, :, None], weight, bandwidth)[0])


def checked_pairs(weight: Floats, bandwidth: float) -> None:
    """Raise unless there are two rows to compare and a distance to do it over."""
    _positive(bandwidth)
    if np.count_nonzero(weight) < 2:
        raise ValueError("y_prob has fewer than two rows of positive weight; pass at least two.")


def kernel_pair_means(
    P: Floats,
    residuals: Floats,
    weight: Floats,
    bandwidth: float,
    groups: np.ndarray | None = None,
) -> Floats:
    """(B,) means over pairs i ≠ j of r_iᵀr_j exp(−TV(p_i, p_j)/bandwidth), residuals (n, K, B).

    With groups, numbered from 0, over pairs of rows of different ones.
    """
    weight = weight / weight.sum()
    numbers = np.arange(len(P)) if groups is None else groups
    flat = (weight[:, None, None] * residuals).reshape(len(P), -1)
    total = np.zeros(flat.shape[1])
    for rows in slices(len(P), plan.BLOCK_ENTRIES, len(P)):  # the kernel is never held whole
        # The city-block distance is twice the total variation.
        kernel = np.exp(-cdist(P[rows], P, "cityblock") / (2.0 * bandwidth))
        kernel[numbers[rows, None] == numbers] = 0.0
        total += np.sum(flat[rows] * (kernel @ flat), axis=0)
    sums = total.reshape(residuals.shape[1:]).sum(axis=0)
    return np.asarray(sums / (1.0 - float(np.sum(np.bincount(numbers, weight) ** 2))))
