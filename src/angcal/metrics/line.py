"""Calibration slope and intercept: the straight line that log-odds would have to be moved by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import chi2, norm

from angcal._typing import Floats
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.metrics.validation import as_group_numbers, samples, smoothed_targets


@dataclass(frozen=True)
class CalibrationLine:
    """logit P(y = 1) = intercept + slope·logit p, the likeliest line; (0, 1) if calibrated.

    Attributes
    ----------
    slope, slope_error : float
        Below 1 probabilities are too extreme, above 1 too modest; and its standard error.
    intercept, intercept_error : float
        Of the same line.
    in_the_large, in_the_large_error : float
        The intercept at slope 1: above 0 probabilities are too low on the whole.
    p_value : float
        Of the likelihood-ratio test of intercept 0 and slope 1 (Cox), for new rows.
    confidence : float
        Level of the intervals.

    See Also
    --------
    calibration_line : Computes it.

    Examples
    --------
    >>> line = CalibrationLine(0.5, 0.1, 0.0, 0.1, 0.0, 0.1, 0.001, 0.95)
    >>> [round(end, 3) for end in line.slope_interval]
    [0.304, 0.696]
    """

    slope: float
    slope_error: float
    intercept: float
    intercept_error: float
    in_the_large: float
    in_the_large_error: float
    p_value: float
    confidence: float = 0.95

    @property
    def slope_interval(self) -> tuple[float, float]:
        """Ends of the slope's interval."""
        return self._around(self.slope, self.slope_error)

    @property
    def intercept_interval(self) -> tuple[float, float]:
        """Ends of the intercept's interval."""
        return self._around(self.intercept, self.intercept_error)

    @property
    def in_the_large_interval(self) -> tuple[float, float]:
        """Ends of the interval of the intercept at slope 1."""
        return self._around(self.in_the_large, self.in_the_large_error)

    def _around(self, center: float, error: float) -> tuple[float, float]:
        reach = float(norm.ppf(0.5 + 0.5 * self.confidence)) * error
        return center - reach, center + reach


def calibration_line(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> CalibrationLine:
    """Maximum likelihood of logit P(y = 1) = intercept + slope·logit p, with intervals.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1), of rows that had no part in the predictions. The
        leave-one-out ones of the training rows will do: ``clf.loo_proba_[:, 1]``, or
        ``clf.plain_loo_proba_[:, 1]`` for the model before calibration.
    confidence : float, default=0.95
        Level of the intervals.
    sample_weight : array-like of shape (n,), optional
        Weights; as many rows count as (Σw)²/Σw².
    groups : array-like of shape (n,), optional
        Which rows belong together, such as those of one patient. Errors and test then take groups,
        not rows, as independent (the sandwich estimator); the line stays the same.

    Returns
    -------
    CalibrationLine
        Slope, intercept, intercept at slope 1, their intervals, and a test of all being right.

    See Also
    --------
    reliability_curve : The whole curve in place of a line.
    spiegelhalter_test : A test without a fit.

    Notes
    -----
    Where log-odds separate the labels the likelihood has no maximum; then labels are replaced by
    Platt's targets (N + 1)/(N + 2) and 1/(N + 2). Where all predictions are equal the slope is 0
    with an infinite error.

    References
    ----------
    Cox (1958), Biometrika 45. Miller, Hui, Tierney (1991), Statistics in Medicine 10.

    Examples
    --------
    >>> line = calibration_line([0, 1, 0, 1, 1, 0], [0.1, 0.4, 0.3, 0.9, 0.6, 0.5])
    >>> round(line.slope, 2), round(line.intercept, 2)
    (2.4, 0.5)
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r} must lie between 0 and 1.")
    scores = logit(np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR))
    weight = weight * (weight.sum() / np.sum(weight**2))
    target = _attainable(y, scores, weight)
    line = _line(scores, target, weight, confidence)
    if groups is None:
        return line
    return _by_groups(line, scores, target, weight, as_group_numbers(groups, len(y)))


def _line(scores: Floats, target: Floats, weight: Floats, confidence: float) -> CalibrationLine:
    """The line through attainable targets, and how sure it is."""
    slope, intercept, errors = 0.0, float(logit(np.average(target, weights=weight))), (np.inf,) * 2
    center = float(np.average(scores, weights=weight))
    if np.sqrt(np.average((scores - center) ** 2, weights=weight)) > 1e-12 * max(abs(center), 1.0):
        fitted = fit_lines(scores[:, None], target, weight, rising=False, tolerance=1e-20)
        slope, intercept = (float(each[0]) for each in fitted)
        errors = _errors(scores, expit(slope * scores + intercept), weight)
    large = _at_slope_one(scores, target, weight)
    moved = expit(scores + large)
    gain = _loss(scores, target, weight) - _loss(slope * scores + intercept, target, weight)
    return CalibrationLine(
        slope,
        errors[0],
        intercept,
        errors[1],
        large,
        float(1.0 / np.sqrt(max(float(weight @ (moved * (1.0 - moved))), 1e-300))),
        float(chi2.sf(max(2.0 * gain, 0.0), 2)),
        confidence,
    )


def _errors(scores: Floats, p: Floats, weight: Floats) -> tuple[float, float]:
    """Standard errors of slope and intercept: 1/√S and √(1/D + m²/S).

    D = Σ wp(1−p), m is the mean score under these weights, and S = Σ wp(1−p)(s − m)².
    """
    curvature = weight * p * (1.0 - p)
    total = float(curvature.sum())
    mean = float(curvature @ scores) / total
    spread = float(curvature @ (scores - mean) ** 2)
    return float(spread**-0.5), float(np.sqrt(1.0 / total + mean**2 / spread))


def _by_groups(
    line: CalibrationLine, scores: Floats, target: Floats, weight: Floats, groups: Any
) -> CalibrationLine:
    """The line with errors from A⁻¹BA⁻¹: A the Hessian, B the sum over groups of squared scores."""
    if not np.isfinite(line.slope_error):
        return line
    columns = np.column_stack([scores, np.ones(len(scores))])
    fitted = np.array([line.slope, line.intercept])
    cov = _sandwich(columns, expit(columns @ fitted), target, weight, groups)
    moved = expit(scores + line.in_the_large)
    large = _sandwich(columns[:, 1:], moved, target, weight, groups)
    away = fitted - [1.0, 0.0]
    wald = float(away @ np.linalg.pinv(cov) @ away)
    return replace(
        line,
        slope_error=float(np.sqrt(cov[0, 0])),
        intercept_error=float(np.sqrt(cov[1, 1])),
        in_the_large_error=float(np.sqrt(large[0, 0])),
        p_value=float(chi2.sf(wald, 2)),
    )


def _sandwich(columns: Floats, p: Floats, target: Floats, weight: Floats, groups: Any) -> Floats:
    """Covariance of a logistic fit whose rows are independent between groups only."""
    bread = np.linalg.inv(columns.T @ ((weight * p * (1.0 - p))[:, None] * columns))
    rows = (weight * (target - p))[:, None] * columns
    sums = np.stack([np.bincount(groups, column) for column in rows.T], axis=1)
    return bread @ (sums.T @ sums) @ bread


def steps_up(scores: Floats, y: Floats) -> bool:
    """Whether a step up at some threshold is a limit of ever likelier slopes.

    Every 0 is then at or below the threshold and every 1 at or above it. Scores that are all equal
    leave the slope open rather than infinite, unless there is one label only.
    """
    lower, upper = scores[y == 0.0], scores[y == 1.0]
    if lower.size == 0 or upper.size == 0:
        return True
    return bool(lower.max() <= upper.min() and scores.min() < scores.max())


def separates(scores: Floats, y: Floats) -> bool:
    """Whether a step up or down at some threshold gets every label right."""
    return steps_up(scores, y) or steps_up(-scores, y)


def platt_targets(y: Floats, weight: Floats) -> Floats:
    """(N₁ + 1)/(N₁ + 2) for label 1 and 1/(N₀ + 2) for label 0, which keep a slope finite."""
    return smoothed_targets(y.astype(np.intp), weight, 2)[:, 1]


def _attainable(y: Floats, scores: Floats, weight: Floats) -> Floats:
    """The labels, or Platt's targets where a line fits them without end."""
    kept = weight > 0.0
    return platt_targets(y, weight) if separates(scores[kept], y[kept]) else y


def _loss(scores: Floats, target: Floats, weight: Floats) -> float:
    return float(weight @ (np.logaddexp(0.0, scores) - target * scores))


def fit_lines(
    scores: Floats,
    target: Floats,
    weight: Floats,
    *,
    rising: bool = True,
    tolerance: float = 1e-8,
    around: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """(a, b) of the likeliest σ(a·s + b) for each column of scores: Fisher scoring on all at once.

    With `rising`, a ≥ 0. The steps end where the next would gain less than `tolerance` for all.
    Weights are one for each row, or (n, m); steps are taken in scores less their mean over their
    spread, which `around` names where rows stand for many.
    """
    center, spread = around or (scores.mean(axis=0), scores.std(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    s, w, t = (scores - center) / spread, weight.reshape(len(weight), -1), target[:, None]
    least = 0.0 if rising else -np.inf
    a = np.zeros(s.shape[1])
    b = a + logit(np.sum(w * t, axis=0) / np.sum(w, axis=0))

    def loss(a: Floats, b: Floats) -> Floats:
        u = a * s + b
        softplus = np.log1p(np.exp(-np.abs(u))) + np.maximum(u, 0.0)
        return np.sum(w * (softplus - t * u), axis=0)

    value = loss(a, b)
    for _ in range(50):
        p = expit(a * s + b)
        pull, curvature = w * (p - t), w * p * (1.0 - p)
        ga, gb = np.sum(pull * s, axis=0), np.sum(pull, axis=0)
        bent = curvature * s
        haa, hab, hbb = np.sum(bent * s, axis=0), np.sum(bent, axis=0), np.sum(curvature, axis=0)
        held = (a <= least) & (ga >= 0.0)
        determinant = np.maximum(haa * hbb - hab**2, np.finfo(float).tiny)
        da = np.where(held, 0.0, (hab * gb - hbb * ga) / determinant)
        db = -(gb + hab * da) / np.maximum(hbb, np.finfo(float).tiny)
        if np.all(-(ga * da + gb * db) < tolerance):
            break
        size = np.ones_like(a)
        for _ in range(20):
            trial_a, trial_b = np.maximum(a + size * da, least), b + size * db
            newer = loss(trial_a, trial_b)
            worse = ~(newer <= value + 1e-12 * np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        a, b = np.where(worse, a, trial_a), np.where(worse, b, trial_b)
        value = np.where(worse, value, newer)
    return a / spread, b - a * center / spread


def _at_slope_one(scores: Floats, target: Floats, weight: Floats) -> float:
    """a with Σ w(target − σ(score + a)) = 0."""
    reach = float(np.abs(scores).max()) + 60.0
    return float(brentq(lambda a: weight @ (target - expit(scores + a)), -reach, reach, xtol=1e-12))
