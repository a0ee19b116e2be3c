"""What predictions are worth to who acts on them: costs, thresholds and net benefit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.metrics.scores import mean_and_error
from angcal.metrics.validation import (
    as_group_numbers,
    as_probabilities,
    as_weights,
    require_length,
    samples,
)


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Net benefit of treating where p ≥ t, at each threshold t.

    Attributes
    ----------
    thresholds, net_benefit, standard_error : (m,) arrays
        t, its net benefit, and the standard error of that.
    treat_all : (m,) array
        Net benefit of treating everybody; that of treating nobody is 0.

    See Also
    --------
    decision_curve : Computes it.

    Examples
    --------
    >>> curve = decision_curve([0, 1], [0.2, 0.7], thresholds=[0.5])
    >>> curve.net_benefit, curve.treat_all, curve.treat_none
    (array([0.5]), array([0.]), array([0.]))
    """

    thresholds: Floats
    net_benefit: Floats
    standard_error: Floats
    treat_all: Floats

    @property
    def treat_none(self) -> Floats:
        """(m,) zeros."""
        return np.zeros(len(self.thresholds))


def decision_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> DecisionCurve:
    """NB(t) = P(y = 1, p ≥ t) − t/(1 − t)·P(y = 0, p ≥ t): true positives in units of all rows.

    Who treats at p ≥ t says that a false positive costs t/(1 − t) of what a true positive gains.
    At each t the best possible predictions have the largest NB(t); calibrated ones are never worse
    than treating all or none, but for chance.

    Parameters
    ----------
    y_true, y_prob : array-like of shape (n,)
        Labels 0/1 and predicted P(y = 1), of rows that had no part in the predictions.
    thresholds : array-like of shape (m,), optional
        t, at least 0 and below 1; by default 0.01, 0.02, …, 0.99.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Rows that belong together, such as those of one patient: errors take groups as independent.

    Returns
    -------
    DecisionCurve
        One entry for each threshold.

    See Also
    --------
    cost_optimal_threshold : The threshold for given costs.
    angcal.displays.DecisionCurveDisplay : The picture.

    References
    ----------
    Vickers, Elkin (2006), Decision curve analysis: a novel method for evaluating prediction models,
    Medical Decision Making 26.

    Examples
    --------
    >>> decision_curve([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.2, 0.5]).net_benefit
    array([0.4375, 0.    ])
    """
    y, p, weight = samples(y_true, y_prob, sample_weight)
    points = np.arange(1, 100) / 100.0 if thresholds is None else thresholds
    t = as_probabilities(points, "thresholds")
    if t.max() >= 1.0:
        raise ValueError(
            "thresholds holds 1.0, where a false positive would cost infinitely much; leave it out."
        )
    together = None if groups is None else as_group_numbers(groups, len(y))
    worth = y - (1.0 - y) * (t / (1.0 - t))[:, None]
    found = [
        mean_and_error(np.where(p >= at, row, 0.0), weight, together)
        for at, row in zip(t, worth, strict=True)
    ]
    benefit, error = np.array(found).T
    return DecisionCurve(t, benefit, error, np.average(worth, axis=1, weights=weight))


def cost_optimal_threshold(
    false_positive: float,
    false_negative: float,
    *,
    true_positive: float = 0.0,
    true_negative: float = 0.0,
) -> float:
    """t = (c_FP − c_TN)/(c_FP − c_TN + c_FN − c_TP): acting where p ≥ t costs least.

    It holds for calibrated p, whatever the prevalence. scikit-learn's
    ``FixedThresholdClassifier(clf, threshold=t, response_method="predict_proba")`` acts on it, with
    the same ``≥``.

    Parameters
    ----------
    false_positive, false_negative : float
        What a wrong decision costs.
    true_positive, true_negative : float, default=0
        What a right one costs; a gain is negative.

    Returns
    -------
    float
        t, between 0 and 1.

    See Also
    --------
    mean_cost : What decisions cost; ``TunedThresholdClassifierCV`` can minimize it.
    decision_curve : Net benefit at every threshold.

    References
    ----------
    Elkan (2001), The foundations of cost-sensitive learning, IJCAI.

    Examples
    --------
    >>> cost_optimal_threshold(1, 9)
    0.1
    """
    spared, missed = false_positive - true_negative, false_negative - true_positive
    if not (np.isfinite(spared + missed) and spared > 0.0 and missed > 0.0):
        raise ValueError(
            f"false_positive={false_positive!r} and false_negative={false_negative!r} must be "
            "finite and cost more than what is right instead "
            f"(true_negative={true_negative!r}, true_positive={true_positive!r})."
        )
    return float(spared / (spared + missed))


def mean_cost(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    false_positive: float,
    false_negative: float,
    true_positive: float = 0.0,
    true_negative: float = 0.0,
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
) -> float:
    """(c_FP·FP + c_FN·FN + c_TP·TP + c_TN·TN)/n of decisions for one of two classes.

    With ``sklearn.metrics.make_scorer(mean_cost, greater_is_better=False, false_positive=...,
    false_negative=...)`` it is the ``scoring`` of scikit-learn's ``TunedThresholdClassifierCV``.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels and decisions.
    false_positive, false_negative : float
        What a wrong decision costs.
    true_positive, true_negative : float, default=0
        What a right one costs; a gain is negative.
    pos_label : label, default=1
        The class that is acted on; all others are negative.
    sample_weight : array-like of shape (n,), optional
        Weights.

    Returns
    -------
    float
        The cost of a row.

    See Also
    --------
    cost_optimal_threshold : The threshold that costs least, without a search.

    Examples
    --------
    >>> mean_cost([0, 0, 1, 1], [0, 1, 1, 0], false_positive=1, false_negative=9)
    2.5
    """
    positive, acted = np.asarray(y_true) == pos_label, np.asarray(y_pred) == pos_label
    if positive.ndim != 1 or positive.size == 0:
        raise ValueError(f"y_true has shape {positive.shape} but must hold one label per row.")
    require_length(acted, "y_pred", positive.size)
    costs = np.where(
        positive,
        np.where(acted, true_positive, false_negative),
        np.where(acted, false_positive, true_negative),
    )
    return float(np.average(costs, weights=as_weights(sample_weight, positive.size)))
