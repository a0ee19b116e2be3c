"""Kernel-smoothed calibration errors: one number for all predictions, or one per level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct, idct
from scipy.optimize import brentq

from angcal._typing import Floats
from angcal.metrics.validation import as_probabilities, as_weights, require_length, samples

SMOOTH_ECE_GRID = 8192
"""Cells of [0, 1] that carry the residuals of `smooth_ece`; predictions move by at most 1/16384."""

KERNEL_REACH = 4.0
"""Bandwidths beyond which `calibration_error_at` counts a prediction as no evidence."""


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
    cell = np.minimum((p * SMOOTH_ECE_GRID).astype(np.intp), SMOOTH_ECE_GRID - 1)
    residual = weight / weight.sum() * (y - p)
    modes = dct(np.bincount(cell, weights=residual, minlength=SMOOTH_ECE_GRID))
    frequency = np.pi * np.arange(SMOOTH_ECE_GRID)

    def at(h: float) -> float:
        return float(np.abs(idct(modes * np.exp(-0.5 * (frequency * h) ** 2))).sum())

    if bandwidth is not None:
        if not bandwidth > 0.0:
            raise ValueError(f"bandwidth={bandwidth!r} must be > 0, or None for the fixed point.")
        return at(bandwidth)
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
    neighbours lie on one side.

    Parameters
    ----------
    levels
        Probabilities p at which to evaluate.
    y_or_true_prob
        Labels, or true conditional probabilities when they are known.
    y_prob
        Predictions.
    bandwidth
        Standard deviation of the kernel. A level with no prediction within four of them is NaN.

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
    if not bandwidth > 0.0:
        raise ValueError(f"bandwidth={bandwidth!r} must be > 0.")

    def error(point: float) -> float:
        distance = (prediction - point) / bandwidth
        kernel = weight * np.exp(-0.5 * distance**2)
        if not np.any(weight[np.abs(distance) <= KERNEL_REACH]):
            return float("nan")
        return float(kernel @ (prediction - target) / kernel.sum())

    return np.array([error(float(point)) for point in points])
