"""Calibration errors from bins of the predictions.

Each is an average over cells of the (n, K) predictions: bins of one column for two classes, for the
largest entry and for each class in turn, or small regular cells of the whole simplex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from angcal._typing import Floats
from angcal.metrics.validation import Classes, Codes, class_samples, indicators, samples

Strategy = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2"]


# --- Cells -----------------------------------------------------------------------------------


def interior_edges(
    values: Floats, n_bins: int, strategy: Strategy, weight: Floats, span: tuple[float, float]
) -> Floats:
    """Return e_1 < ... < e_{m-1} of the bins (e_{k-1}, e_k] that split `span`.

    The first and last bin are unbounded, so no value falls outside. With quantiles the edges are
    weighted inverse-CDF quantiles; tied values share a bin, so there may be fewer bins than asked.
    """
    if not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins={n_bins!r} must be an integer >= 1.")
    steps = np.arange(1, n_bins)
    if strategy == "uniform":
        return span[0] + (span[1] - span[0]) * steps / n_bins
    if strategy != "quantile":
        raise ValueError(f"strategy={strategy!r} must be 'uniform' or 'quantile'.")
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    # Summed fractional weights round; the slack keeps k/n of the mass in the bin that holds it.
    wanted = mass[-1] * steps / n_bins - 1e-12 * mass[-1]
    return np.unique(values[order][np.searchsorted(mass, wanted)])


def bin_index(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return k with ``values`` in (e_{k-1}, e_k], counting from 0."""
    return np.searchsorted(edges, values, side="left")


@dataclass(frozen=True)
class _Cells:
    """Weighted means over the rows of each non-empty cell; C cells and k columns."""

    predicted: Floats  # (C, k)
    observed: Floats  # (C, k)
    count: NDArray[np.intp]
    weight: Floats
    effective_count: Floats  # (Σw)²/Σw²

    def mean(self, size: Floats) -> float:
        """Σ_c (W_c/W) size_c."""
        return float(self.weight / self.weight.sum() @ size)

    def gaps(self, debiased: bool) -> Floats:
        """|ȳ − p̄| for each cell and column, less what noise adds to it on average."""
        gap = self.observed - self.predicted
        if not debiased:
            return np.abs(gap)
        variance = self.observed * (1.0 - self.observed) / self.effective_count[:, None]
        return 2.0 * np.abs(gap) - _folded_normal_mean(gap, np.sqrt(variance))

    def squared_gaps(self, debiased: bool) -> Floats:
        """(ȳ − p̄)², less its noise variance; a cell of one row then adds nothing."""
        square = (self.observed - self.predicted) ** 2
        if not debiased:
            return square
        spare = self.effective_count[:, None] - 1.0
        noise = self.observed * (1.0 - self.observed) / np.where(spare > 1e-9, spare, 1.0)
        return np.where(spare > 1e-9, square - noise, 0.0)


def _cells(index: Codes, labels: Floats, predictions: Floats, weight: Floats) -> _Cells:
    """Average the (n, k) labels and predictions over the cells that `index` names."""

    def totals(values: Floats) -> Floats:
        return np.bincount(index, weights=values).astype(np.float64)

    mass = totals(weight)
    filled = mass > 0.0

    def means(columns: Floats) -> Floats:
        sums = np.column_stack([totals(weight * column)[filled] for column in columns.T])
        return np.clip(sums / mass[filled, None], 0.0, 1.0)

    return _Cells(
        predicted=means(predictions),
        observed=means(labels),
        count=np.bincount(index[weight > 0.0], minlength=mass.size)[filled],
        weight=mass[filled],
        effective_count=mass[filled] ** 2 / totals(weight**2)[filled],
    )


def column_cells(y: Floats, p: Floats, weight: Floats, n_bins: int, strategy: Strategy) -> _Cells:
    """Bins of one column of predictions."""
    index = bin_index(p, interior_edges(p, n_bins, strategy, weight, (0.0, 1.0)))
    return _cells(index, np.asarray(y, dtype=np.float64)[:, None], p[:, None], weight)


def _folded_normal_mean(mean: Floats, sd: Floats) -> Floats:
    """E|mean + sd Z| = mean erf(r/√2) + sd √(2/π) exp(−r²/2), r = mean/sd."""
    ratio = np.divide(mean, sd, out=np.full_like(mean, np.inf), where=sd > 0.0)
    body = np.where(sd > 0.0, mean * erf(ratio / np.sqrt(2.0)), np.abs(mean))
    return body + sd * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2)


# --- Calibration errors ----------------------------------------------------------------------


def _ece(
    y: Floats,
    p: Floats,
    weight: Floats,
    n_bins: int,
    strategy: Strategy,
    debiased: bool,
    norm: Norm,
) -> float:
    """`expected_calibration_error` of one checked column."""
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm={norm!r} must be 'l1' or 'l2'.")
    cells = column_cells(y, p, weight, n_bins, strategy)
    if norm == "l1":
        return max(0.0, cells.mean(cells.gaps(debiased)[:, 0]))
    return float(np.sqrt(max(0.0, cells.mean(cells.squared_gaps(debiased)[:, 0]))))


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""ECE = Σ_b (W_b/W) \|ȳ_b − p̄_b\|, or (Σ_b (W_b/W) (ȳ_b − p̄_b)²)^½ for ``norm="l2"``.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1).
    n_bins : int, default=15
        Number of bins (e_{k-1}, e_k]; p = 0 is in the first, p = 1 in the last.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight.
    debiased : bool, default=False
        Remove the upward bias that sampling noise gives a binned error, and clip at zero.
        For l2, each squared gap loses ȳ_b(1−ȳ_b)/(n_b−1), its unbiased noise variance [1]_;
        a bin of one sample adds nothing. For l1, each gap d_b loses E|d_b + s_b Z| − |d_b| with
        s_b² = ȳ_b(1−ȳ_b)/n_b: the normal resampling of [1]_, in closed form. Where a gap is all
        noise, l2 loses the whole bias on average, l1 the part √2 − 1 of it.
    norm : {"l1", "l2"}, default="l1"
        Mean absolute or root mean squared gap.
    sample_weight : array-like of shape (n,), optional
        Weights; n_b is then the effective count (Σw)²/Σw².

    Returns
    -------
    float
        The error, in [0, 1].

    See Also
    --------
    smooth_ece : The same question without bins.
    classwise_ece, top_label_ece, full_ece : For any number of classes.

    References
    ----------
    .. [1] Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.

    Examples
    --------
    >>> expected_calibration_error([0, 1], [0.2, 0.7], n_bins=2)
    0.25
    """
    return _ece(*samples(y_true, y_prob, sample_weight), n_bins, strategy, debiased, norm)


def top_label_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Norm = "l1",
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Binned E|P(y = k̂ | p_k̂) − p_k̂| with k̂ = argmax p: the error of the stated confidence.

    It is `expected_calibration_error` of the hits 1{y = k̂} against the largest entry of each row.
    Among equal largest entries the first column counts as the prediction.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    n_bins, strategy, debiased, norm : optional
        As in `expected_calibration_error`.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    float
        The error, in [0, 1].

    See Also
    --------
    classwise_ece : The error of every column.

    Examples
    --------
    >>> round(top_label_ece([0, 1], [[0.8, 0.1, 0.1], [0.2, 0.8, 0.0]]), 6)
    0.2
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    hits = P.argmax(axis=1) == codes
    return _ece(hits, P.max(axis=1), weight, n_bins, strategy, debiased, norm)


def classwise_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    debiased: bool = False,
    norm: Norm = "l1",
    per_class: bool = False,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
) -> float | Floats:
    """(1/K) Σ_k ECE(1{y = k}, p_k): the binary error of each column, averaged over the classes.

    With many classes most entries of a column are near zero, so the mean is small for any
    predictor: compare methods at one K, not across.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    n_bins, strategy, debiased, norm : optional
        As in `expected_calibration_error`.
    per_class : bool, default=False
        Return the K errors in place of their mean.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    float or ndarray of shape (K,)
        The mean error, or one for each class.

    See Also
    --------
    classwise_reliability : The curve of each class.

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
    options = (n_bins, strategy, debiased, norm)
    errors = np.array([_ece(codes == k, p, weight, *options) for k, p in enumerate(P.T)])
    return errors if per_class else float(errors.mean())


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
    of the rows in a cell and p̄_c their mean prediction. The value lies in [0, 1] and does not
    depend on the order of the classes. With K = 2 and the same number of bins it is
    `expected_calibration_error`.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    n_bins : int, optional
        m, the bins of each coordinate. None is 15 for K = 2; for more classes it is the largest
        m <= 15 whose cells number at most n/10. This depends on n and K alone, so methods that are
        compared on the same rows share their cells.
    debiased : bool, default=False
        Take from each gap d the part E|d + sZ| − |d| that its noise s² = ȳ(1−ȳ)/n_c adds, as in
        `expected_calibration_error`, and clip the sum at zero.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    float
        The error, in [0, 1].

    See Also
    --------
    squared_kernel_calibration_error : The same question without bins and without bias.

    Notes
    -----
    Two biases work against each other. Averages over a cell hide errors that cancel inside
    it, so in a large sample the value is at most the true error. Noise adds about
    Σ_c (W_c/W) ½ Σ_k (2 p̄_ck(1−p̄_ck)/(π n_c))^½ to a calibrated predictor.

    The number of cells grows like m^{K−1}: at K = 10 it is 1001 with five bins and 92,377 with
    ten. When most cells hold a single row the value tends to E(1 − p_y) for any predictor
    and says nothing about calibration. The default avoids this by cells so wide that only errors
    of whole regions show.

    Examples
    --------
    >>> round(full_ece([0, 0, 1, 1], [[0.5, 0.25, 0.25]] * 4), 6)
    0.25
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    n_rows, n_classes = int(np.count_nonzero(weight)), P.shape[1]
    bins = _default_bins(n_rows, n_classes) if n_bins is None else n_bins
    cells = _cells(_simplex_cells(P, bins), indicators(codes, n_classes), P, weight)
    return max(0.0, cells.mean(0.5 * cells.gaps(debiased).sum(axis=1)))


def _simplex_cells(P: Floats, n_bins: int) -> Codes:
    """Return a number for each row, equal where all its coordinates share their bins."""
    edges = interior_edges(P[:, 0], n_bins, "uniform", np.ones(len(P)), (0.0, 1.0))
    # The second of two coordinates says all; the first would put edge cases in their own cells.
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
    """The most bins, up to the 15 of two classes, that leave ten rows for each cell."""
    if n_classes == 2:
        return 15
    return next((m for m in range(15, 1, -1) if _cell_count(m, n_classes) <= n_rows // 10), 1)


def ece_and_error(
    pairs: Sequence[tuple[Floats, Floats]],
    weights: Floats,
    *,
    n_bins: int = 15,
    n_draws: int = 100,
    random_state: Any = 0,
) -> tuple[float, float]:
    """Mean ECE of (labels, probabilities) pairs over the same rows, and its bootstrap error.

    Rows are drawn anew for all pairs together, so that the pairs of one row count as one.
    """

    def mean_ece(case_weights: Floats) -> float:
        return float(
            np.mean([_ece(y, p, case_weights, n_bins, "uniform", False, "l1") for y, p in pairs])
        )

    rng, n = np.random.default_rng(random_state), len(weights)
    drawn = (weights * np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(n_draws))
    draws = [mean_ece(case_weights) for case_weights in drawn if case_weights.any()]
    return mean_ece(weights), float(np.std(draws, ddof=1)) if len(draws) > 1 else 0.0
