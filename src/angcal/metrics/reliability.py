"""Reliability curves: observed frequency against mean prediction, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import binom

from angcal._typing import Floats
from angcal.metrics.calibration import Strategy, column_cells
from angcal.metrics.validation import Classes, class_samples, samples


@dataclass(frozen=True)
class ReliabilityCurve:
    """Observed frequency against mean prediction, one entry per non-empty bin.

    Attributes
    ----------
    mean_predicted, observed : ndarray
        Weighted means of predictions and of labels.
    count : ndarray of int
        Samples of positive weight.
    weight : ndarray
        Total weight.
    lower, upper : ndarray
        Consistency band: the range of `observed` if the predictor were calibrated.

    See Also
    --------
    reliability_curve : Computes it.

    Examples
    --------
    >>> reliability_curve([0, 1], [0.2, 0.7], n_bins=2).observed
    array([0., 1.])
    """

    mean_predicted: Floats
    observed: Floats
    count: NDArray[np.intp]
    weight: Floats
    lower: Floats
    upper: Floats


def _curve(
    y: Floats, p: Floats, weight: Floats, n_bins: int, strategy: Strategy, confidence: float
) -> ReliabilityCurve:
    """`reliability_curve` of one checked column."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r} must be strictly between 0 and 1.")
    cells = column_cells(y, p, weight, n_bins, strategy)
    mean, tail = cells.predicted[:, 0], 0.5 * (1.0 - confidence)
    if np.ptp(weight) == 0.0:
        band = (binom.ppf(level, cells.count, mean) / cells.count for level in (tail, 1.0 - tail))
    else:
        reach = ndtri(tail) * np.sqrt(mean * (1.0 - mean) / cells.effective_count)
        band = (np.clip(edge, 0.0, 1.0) for edge in (mean + reach, mean - reach))
    return ReliabilityCurve(mean, cells.observed[:, 0], cells.count, cells.weight, *band)


def reliability_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
) -> ReliabilityCurve:
    """(p̄_b, ȳ_b) per bin b, with the range of ȳ_b under n_b ȳ_b ~ Binomial(n_b, p̄_b).

    The bins are those of `expected_calibration_error`. With unequal weights the band is the normal
    p̄ ± z (p̄(1−p̄)/n)^½, clipped to [0, 1], n the effective count (Σw)²/Σw².

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1).
    n_bins, strategy : optional
        As in `expected_calibration_error`.
    sample_weight : array-like of shape (n,), optional
        Weights.
    confidence : float, default=0.95
        Probability that a calibrated predictor stays inside the band, for each bin by itself.

    Returns
    -------
    ReliabilityCurve
        One entry per non-empty bin.

    See Also
    --------
    angcal.displays.ReliabilityDisplay : Draws the curve.

    Examples
    --------
    >>> curve = reliability_curve([0, 0, 1, 1], [0.2, 0.2, 0.8, 0.6], n_bins=2)
    >>> curve.mean_predicted, curve.observed, curve.count
    (array([0.2, 0.7]), array([0., 1.]), array([2, 2]))
    """
    return _curve(*samples(y_true, y_prob, sample_weight), n_bins, strategy, confidence)


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

    Parameters
    ----------
    y_true, y_prob : array-like
        Labels of shape (n,), and their predicted probabilities of shape (n, K).
    n_bins, strategy, confidence : optional
        As in `reliability_curve`.
    classes, sample_weight : array-like, optional
        The labels in the order of the columns, by default 0, …, K−1; and the weights.

    Returns
    -------
    list of ReliabilityCurve
        One for each class.

    See Also
    --------
    angcal.displays.ClasswiseReliabilityDisplay : Draws the curves.

    Examples
    --------
    >>> curves = classwise_reliability([0, 1], [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
    >>> len(curves), curves[2].observed
    (3, array([0.]))
    """
    codes, P, weight = class_samples(y_true, y_prob, classes, sample_weight)
    options = (n_bins, strategy, confidence)
    return [_curve(codes == k, p, weight, *options) for k, p in enumerate(P.T)]
