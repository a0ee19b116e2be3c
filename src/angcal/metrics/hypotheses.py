"""Tests of P(y | p) = p: a statistic, and how often chance alone makes it as large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, norm
from sklearn.utils import check_random_state, gen_batches

from angcal._typing import Floats
from angcal.metrics.calibration import bin_index, interior_edges
from angcal.metrics.kernel import checked_pairs, kernel_pair_means
from angcal.metrics.scores import binary_samples
from angcal.metrics.validation import (
    Classes,
    Codes,
    as_group_numbers,
    class_samples,
    indicators,
    samples,
)


@dataclass(frozen=True)
class CalibrationTest:
    """A statistic and the probability that calibrated predictions have one as extreme.

    Attributes
    ----------
    statistic, p_value : float
        Both numbers.
    degrees_of_freedom : int or None
        Of the χ² that the statistic is compared with, where they are a whole number.

    See Also
    --------
    spiegelhalter_test, hosmer_lemeshow_test, kernel_calibration_test : Compute it.

    Examples
    --------
    >>> CalibrationTest(0.3, 0.76)
    CalibrationTest(statistic=0.3, p_value=0.76, degrees_of_freedom=None)
    """

    statistic: float
    p_value: float
    degrees_of_freedom: int | None = None


def _of_any_classes(
    y_true: ArrayLike, y_prob: ArrayLike, classes: Classes, sample_weight: ArrayLike | None
) -> tuple[Codes, Floats, Floats]:
    """Codes, (n, K) probabilities and weights; one column is that of the second of two classes."""
    if np.ndim(y_prob) == 2:
        return class_samples(y_true, y_prob, classes, sample_weight)
    return binary_samples(y_true, y_prob, sample_weight)


def _of_groups(rows: Floats, variances: Floats, numbers: np.ndarray) -> tuple[float, float]:
    """(H/λ̄, p-value) of H = Σ_b(Σ_i rows_ib)²/variances_b, where labels of a group may agree.

    H is then as Σ_b λ_b χ²_1, λ the eigenvalues of the sums over groups in units of the variances,
    and Rao and Scott's χ² has the same mean and variance. The mean λ̄ is a design effect, Σ over
    groups of squared sums over that of squared rows.
    """
    with np.errstate(all="ignore"):  # sums that cannot vary are right, 0/0, or infinitely wrong
        rows = rows / np.sqrt(variances)
    H = float(np.nansum(np.sum(rows, axis=0) ** 2))
    rows = rows[:, variances > 0]
    k, count = rows.shape[1], int(numbers.max()) + 1
    sums = np.empty((k, count))
    for column, own in zip(rows.T, sums, strict=True):
        own[:] = np.bincount(numbers, column)
    found, total = sums @ sums.T, float(np.sum(rows**2))
    if not (np.isfinite(H) and total > 0):
        return H, 0.0 if H > 0 else 1.0
    trace = float(np.trace(found))
    # As many groups as there are blur the eigenvalues, which are k at most.
    squares = max(float(np.sum(found**2)) - trace**2 / count, trace**2 / k)
    mean = trace / total
    degrees = trace**2 / squares
    return H / mean, float(chi2.sf(H / mean * degrees / k, degrees))


def spiegelhalter_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> CalibrationTest:
    """z = Σ(y − p)(1 − 2p)/√(Σ(1 − 2p)² p(1 − p)): is the Brier score what p says it is?

    Normal with variance 1 where labels are drawn by p, whatever the predictions. Above 0 the score
    is worse than promised, as that of too extreme probabilities; below 0 it is better. For K
    classes z = Σ(q − p_y)/√(Σ Σ_k p_k(p_k − q)²) with q = Σ_k p_k², the same for K = 2. Errors that
    leave the expected score where it is do not show.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels 0/1 and predicted P(y = 1) of shape (n,), or labels and (n, K) probabilities; of
        rows that had no part in the predictions.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.
    groups : array-like of shape (n,), optional
        Which rows belong together, such as those of one patient. The variance is then multiplied by
        the design effect of the numerator, Σ over groups of squared sums over that of squared rows.

    Returns
    -------
    CalibrationTest
        z and its two-sided p-value. Where every p_k is 0 or all are equal the labels can not
        contradict: z = 0, or ±∞ if one that was ruled out occurs.

    See Also
    --------
    hosmer_lemeshow_test, kernel_calibration_test : Tests that see other errors.
    brier_score : The score itself.

    References
    ----------
    Spiegelhalter (1986), Probabilistic prediction in patient management and clinical trials,
    Statistics in Medicine 5.

    Examples
    --------
    >>> found = spiegelhalter_test([0, 0, 1, 1], [0.2, 0.2, 0.8, 0.8])
    >>> round(found.statistic, 6), round(found.p_value, 6)
    (-1.0, 0.317311)
    """
    codes, P, weight = _of_any_classes(y_true, y_prob, classes, sample_weight)
    q = np.sum(P**2, axis=1)
    rows = weight * (q - P[np.arange(codes.size), codes])
    variance = float(weight**2 @ np.sum(P * (P - q[:, None]) ** 2, axis=1))
    if groups is None:
        return _normal(float(rows.sum()), variance, 1e-24 * float(weight @ weight))
    numbers = _numbers(groups, codes.size)
    square, p_value = _of_groups(rows[:, None], np.array([variance]), numbers)
    return CalibrationTest(float(np.copysign(np.sqrt(square), rows.sum())), p_value)


def _normal(excess: float, variance: float, certain: float) -> CalibrationTest:
    """Of z = excess/√variance, whose labels can not vary where the variance is below `certain`."""
    if variance > certain:
        z = excess / np.sqrt(variance)
    else:
        z = 0.0 if excess**2 <= certain else np.copysign(np.inf, excess)
    return CalibrationTest(float(z), float(2.0 * norm.sf(abs(z))))


def _numbers(groups: ArrayLike, n: int) -> np.ndarray:
    """Groups as numbers, at least two of them."""
    numbers = as_group_numbers(groups, n)
    if numbers.max() < 1:
        raise ValueError("groups has one value only, which leaves nothing to compare it with.")
    return numbers


def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 10,
    fitted: bool = False,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> CalibrationTest:
    """H = Σ_b (Σ_{i∈b}(y_i − p_i))²/Σ_{i∈b} p_i(1 − p_i) over g bins of equally many rows.

    χ² with g degrees of freedom on rows that had no part in the predictions. With ``fitted=True``,
    for a curve with slope and offset that was fitted on these very rows, g − 2 [1]_: the fit has
    used up two. On new rows g − 2, which most programs use, rejects calibrated predictions too
    often. Bins should expect labels of both kinds: ten at prevalence 0.01 take 5000 rows.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1).
    n_bins : int, default=10
        g, bins of equal weight. Equal predictions share a bin, so that there may be fewer.
    fitted : bool, default=False
        Whether the curve was fitted on these rows. ``loo_proba_`` count as those of new rows.
    sample_weight : array-like of shape (n,), optional
        Weights w; sums over a bin are then those of w(y − p) and w²p(1 − p).
    groups : array-like of shape (n,), optional
        Which rows belong together; not for a curve that was fitted on them. H is then divided by
        the design effect of the bins' sums and compared with the χ² of its mean and variance [2]_.

    Returns
    -------
    CalibrationTest
        H, the p-value and the degrees of freedom.

    See Also
    --------
    kernel_calibration_test : Without bins, for any number of classes.

    References
    ----------
    .. [1] Hosmer, Lemeshow (1980), Goodness of fit tests for the multiple logistic regression model
    .. [2] Rao, Scott (1984), On chi-squared tests for contingency tables from survey data

    Examples
    --------
    >>> round(hosmer_lemeshow_test([0, 1, 1, 1], [0.2, 0.2, 0.5, 0.5], n_bins=2).statistic, 6)
    3.125
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    index = bin_index(p, interior_edges(p, n_bins, "quantile", weight, (0.0, 1.0)))
    excess, variance = _bin_sums(y, p, weight, index)
    degrees = _degrees(len(excess), n_bins, fitted, groups is not None)
    if groups is not None:
        bins = np.unique(index, return_inverse=True)[1].reshape(-1, 1) == np.arange(len(excess))
        rows = np.where(bins, (weight * (y - p))[:, None], 0.0)
        return CalibrationTest(*_of_groups(rows, variance, _numbers(groups, len(y))))
    with np.errstate(all="ignore"):  # a bin of zeros and ones is right, 0/0, or infinitely wrong
        H = float(np.nansum(excess**2 / variance))
    return CalibrationTest(H, float(chi2.sf(H, degrees)), degrees)


def _degrees(filled: int, n_bins: int, fitted: bool, grouped: bool) -> int:
    """Degrees of freedom of H, of which a curve that was fitted on the same rows uses two."""
    if fitted and grouped:
        raise ValueError(
            "fitted=True counts rows as independent; with groups test leave-one-out "
            "probabilities, which count as those of new rows."
        )
    degrees = filled - 2 * fitted
    if degrees < 1:
        raise ValueError(
            f"n_bins={n_bins} gives {filled} bins of these predictions, which leaves "
            f"{degrees} degrees of freedom; ask for more bins, or use spiegelhalter_test."
        )
    return degrees


def _bin_sums(y: Floats, p: Floats, weight: Floats, index: np.ndarray) -> tuple[Floats, Floats]:
    """Σw(y − p) and Σw²p(1 − p) over each bin that has any row."""
    filled = np.bincount(index, weights=weight) > 0
    sums = (weight * (y - p), weight**2 * p * (1.0 - p))
    excess, variance = (np.bincount(index, weights=part)[filled] for part in sums)
    return excess.astype(np.float64), variance.astype(np.float64)


def kernel_calibration_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    bandwidth: float = 0.2,
    n_resamples: int = 499,
    classes: Classes = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_state: Any = None,
) -> CalibrationTest:
    """P(T* ≥ T): T is `squared_kernel_calibration_error`, T* that of labels drawn by p.

    Consistent against every error, for any number of classes. With B resamples the p-value is
    (1 + #{T* ≥ T})/(B + 1), exact for every n and B. The cost is n² K B.

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels 0/1 and predicted P(y = 1) of shape (n,), or labels and (n, K) probabilities; of
        rows that had no part in the predictions.
    bandwidth : float, default=0.2
        The distance in total variation over which rows count as alike.
    n_resamples : int, default=499
        B.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.
    groups : array-like of shape (n,), optional
        Which rows belong together. T is then over pairs of rows of different groups, and T* has
        the residuals of each group times a random sign (wild bootstrap); p is no longer exact.
    random_state : int, RandomState or None, default=None
        Draws the labels, or the signs.

    Returns
    -------
    CalibrationTest
        T and its p-value.

    See Also
    --------
    squared_kernel_calibration_error : The statistic.

    References
    ----------
    Widmann, Lindsten, Zachariah (2019), Calibration tests in multi-class classification, NeurIPS.

    Examples
    --------
    >>> kernel_calibration_test([0] * 30, [0.5] * 30, random_state=0).p_value
    0.002
    """
    codes, P, weight = _of_any_classes(y_true, y_prob, classes, sample_weight)
    checked_pairs(weight, bandwidth)
    if n_resamples < 1:
        raise ValueError(f"n_resamples={n_resamples!r} must be at least 1.")
    numbers = None if groups is None else _numbers(groups, codes.size)
    given = (P, weight, bandwidth, n_resamples)
    statistic, reached = _reached(codes, *given, numbers, check_random_state(random_state))
    return CalibrationTest(statistic, (1.0 + reached) / (1.0 + n_resamples))


def _reached(
    codes: Codes,
    P: Floats,
    weight: Floats,
    bandwidth: float,
    n_resamples: int,
    numbers: np.ndarray | None,
    rng: Any,
) -> tuple[float, int]:
    """T, and how often T* is as large."""
    observed, given = indicators(codes, P.shape[1])[:, :, None] - P[:, :, None], (P, weight)
    if numbers is None:
        statistic = float(kernel_pair_means(P, observed, weight, bandwidth)[0])
        return statistic, _times_reached(statistic, *given, bandwidth, n_resamples, rng)
    found = _kernel_of_signs(observed, *given, bandwidth, n_resamples, numbers, rng)
    statistic = float(found[0])
    return statistic, int(np.sum(found[1:] >= statistic - 1e-12 * abs(statistic)))


def _kernel_of_signs(
    residuals: Floats,
    P: Floats,
    weight: Floats,
    bandwidth: float,
    n_resamples: int,
    numbers: np.ndarray,
    rng: Any,
) -> Floats:
    """T over pairs of different groups, and T* with a random sign for the residuals of each."""
    n, K = P.shape
    signs = rng.choice([-1.0, 1.0], size=(int(numbers.max()) + 1, n_resamples + 1))
    signs[:, 0] = 1.0
    found = [
        kernel_pair_means(P, residuals * signs[numbers, None, part], weight, bandwidth, numbers)
        for part in gen_batches(signs.shape[1], max(1, 2**24 // (n * K)))
    ]
    return np.concatenate(found)


def _times_reached(
    statistic: float, P: Floats, weight: Floats, bandwidth: float, n_resamples: int, rng: Any
) -> int:
    """How often T of labels drawn by P is at least this."""
    n, K = P.shape
    bounds, reached = np.cumsum(P, axis=1)[:, :-1, None], 0
    for batch in gen_batches(n_resamples, max(1, min(n_resamples, 2**24 // (n * K)))):
        drawn = np.sum(rng.random_sample((n, 1, batch.stop - batch.start)) > bounds, axis=1)
        residuals = (drawn[:, None, :] == np.arange(K)[:, None]) - P[:, :, None]
        # Rounding makes equal labels differ in the last digit.
        slack = 1e-12 * abs(statistic)
        reached += int(
            np.sum(kernel_pair_means(P, residuals, weight, bandwidth) >= statistic - slack)
        )
    return reached
