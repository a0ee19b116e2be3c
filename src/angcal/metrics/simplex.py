"""Calibration of the whole probability vector: P(y | p) = p, not only entry by entry.

Labels, predictions and weights are as in `angcal.metrics.multiclass`.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from angcal._typing import Floats
from angcal.metrics.multiclass import Classes, Codes, class_samples, indicators
from angcal.metrics.reliability import _folded_normal_mean, bin_index, interior_edges

ROWS_PER_CELL = 10
"""Rows that `full_ece` wants for each cell of the simplex, where it chooses the cells itself."""

MOST_BINS = 15
"""Bins a coordinate gets at most where `full_ece` chooses, and the binary metrics' default."""

_ENTRIES_PER_BLOCK = 2**22  # 32 MiB of doubles: the n × n kernel is never held whole


def full_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int | None = None,
    debiased: bool = False,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Σ_c (W_c/W) ½‖ȳ_c − p̄_c‖₁ over cells c of the simplex: binned E TV(P(y | p), p).

    The planes p_k = j/m cut the simplex into small regular cells. ȳ_c holds the label frequencies
    of the rows in a cell and p̄_c their mean prediction. The value lies in [0, 1]. It does not
    depend on the order of the classes. With K = 2 and the same number of bins it is
    `expected_calibration_error`.

    Parameters
    ----------
    y_true, y_prob
        Labels and the (n, K) predicted probabilities.
    n_bins
        m, the bins of each coordinate. ``None`` is 15 for K = 2; for more classes it is the largest
        m <= 15 whose cells number at most n/10. This depends on n and K alone, so methods that are
        compared on the same rows share their cells.
    debiased
        Take from each gap d the part E|d + sZ| − |d| that its noise s² = ȳ(1−ȳ)/n_c adds, as in
        `expected_calibration_error`, and clip the sum at zero.

    Notes
    -----
    Two biases work against each other. Averages over a cell hide errors that cancel inside
    it, so in a large sample the value is at most the true error. Noise adds about
    Σ_c (W_c/W) ½ Σ_k (2 p̄_ck(1−p̄_ck)/(π n_c))^½ to a calibrated predictor.

    The number of cells grows like m^{K−1}: at K = 10 it is 1001 with five bins and 92,377 with
    ten. When most cells hold a single row the value tends to E(1 − p_y) for any predictor
    and says nothing about calibration. The default avoids this by cells so wide that only errors
    of whole regions show. For many classes `squared_kernel_calibration_error` has no bias, and
    `classwise_ece` and `top_label_ece` ask for less.

    Examples
    --------
    >>> round(full_ece([0, 0, 1, 1], [[0.5, 0.25, 0.25]] * 4), 6)
    0.25
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    kept = weight > 0.0
    codes, P, weight = codes[kept], P[kept], weight[kept]
    bins = _default_bins(codes.size, P.shape[1]) if n_bins is None else n_bins
    cell = _simplex_cells(P, bins)
    mass = np.bincount(cell, weights=weight)
    effective_count = mass**2 / np.bincount(cell, weights=weight**2)
    size = np.zeros(mass.size)
    for k in range(P.shape[1]):
        observed = np.clip(np.bincount(cell, weights=weight * (codes == k)) / mass, 0.0, 1.0)
        gap = observed - np.bincount(cell, weights=weight * P[:, k]) / mass
        if debiased:
            sd = np.sqrt(observed * (1.0 - observed) / effective_count)
            size += 0.5 * (2.0 * np.abs(gap) - _folded_normal_mean(gap, sd))
        else:
            size += 0.5 * np.abs(gap)
    return max(0.0, float(mass @ size / mass.sum()))


def _simplex_cells(P: Floats, n_bins: int) -> Codes:
    """Return a number for each row, equal where all its coordinates share their bins."""
    edges = interior_edges(P[:, 0], n_bins, "uniform", np.ones(len(P)), (0.0, 1.0))
    # Of two coordinates the second says all; the first would put edge cases in cells of their own.
    columns = P[:, 1:] if P.shape[1] == 2 else P
    occupied = np.unique(bin_index(columns, edges), axis=0, return_inverse=True)[1]
    return occupied.reshape(-1)


def _cell_count(n_bins: int, n_classes: int) -> int:
    """Number of cells into which the planes p_k = j/m cut the simplex.

    A cell is a vector of floors ⌊m p_k⌋. The fractional parts sum to some r in 1, …, K−1, so the
    floors sum to m − r, in comb(m − r + K − 1, K − 1) ways.
    """
    most = min(n_bins, n_classes - 1)
    return sum(comb(n_bins - r + n_classes - 1, n_classes - 1) for r in range(1, most + 1))


def _default_bins(n_rows: int, n_classes: int) -> int:
    if n_classes == 2:
        return MOST_BINS
    affordable = n_rows // ROWS_PER_CELL
    fitting = (m for m in range(MOST_BINS, 1, -1) if _cell_count(m, n_classes) <= affordable)
    return next(fitting, 1)


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
    y_true, y_prob
        Labels and the (n, K) predicted probabilities, at least two rows of positive weight.
    bandwidth
        The distance in total variation over which rows count as alike.
    sample_weight
        Importance of each row. A weight of two is not the same as the row twice: two copies of
        one draw are not a pair of draws.

    References
    ----------
    Widmann, Lindsten, Zachariah (2019), Calibration tests in multi-class classification, NeurIPS.

    Examples
    --------
    >>> round(squared_kernel_calibration_error([0, 0], [[0.5, 0.5], [0.5, 0.5]]), 6)
    0.5
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    if not bandwidth > 0.0:
        raise ValueError(f"bandwidth={bandwidth!r} must be > 0.")
    if np.count_nonzero(weight) < 2:
        raise ValueError("y_prob has fewer than two rows of positive weight; pass at least two.")
    weight = weight / weight.sum()
    residual = weight[:, None] * (indicators(codes, P.shape[1]) - P)
    block = max(1, _ENTRIES_PER_BLOCK // len(P))
    total = 0.0
    for start in range(0, len(P), block):
        rows = slice(start, start + block)
        # The city-block distance is twice the total variation.
        kernel = np.exp(-cdist(P[rows], P, "cityblock") / (2.0 * bandwidth))
        total += float(np.sum(residual[rows] * (kernel @ residual)))
    return (total - float(np.sum(residual**2))) / (1.0 - float(weight @ weight))
