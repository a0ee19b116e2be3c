"""Calibrators of two classes made to fit K, those of K made to fit two, and all of them by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from angcal._typing import Floats
from angcal.baselines.calibrators import CALIBRATORS, Calibrator
from angcal.baselines.likelihood import warn_about_fit
from angcal.baselines.multiclass import (
    DirichletCalibration,
    MatrixScaling,
    MulticlassCalibrator,
    SoftmaxTemperature,
    StructuredMatrixScaling,
    VectorScaling,
)
from angcal.metrics.validation import Codes


class OneVsRestCalibration(MulticlassCalibrator):
    """P(y = k | u) = m_k(v_k)/Σ_l m_l(v_l), each m_k a calibrator of two classes; 1/K where 0/0.

    v_k = u_k − log Σ_{l≠k} exp u_l is the log-odds of class k under a softmax.

    Parameters
    ----------
    calibrator : calibrator of two classes
        Cloned for each class.
    log_odds : bool, default=True
        False takes v_k = u_k, for scores of models that were fitted one-vs-rest themselves. This is
        what scikit-learn's CalibratedClassifierCV does with all models. Under a softmax u_k alone
        says less of class k: on 300 digits the log-loss of isotonic calibration is 0.46 with it and
        0.29 with the log-odds.
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    calibrators_ : list of calibrators
        m, one for each class.

    See Also
    --------
    VectorScaling : Fits all classes jointly.

    Examples
    --------
    >>> from angcal.baselines import IsotonicCalibration
    >>> scores, labels = [[2, 0, 0]] * 5, [0, 0, 0, 1, 2]
    >>> OneVsRestCalibration(IsotonicCalibration()).fit(scores, labels).predict([[2, 0, 0]])
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(
        self,
        calibrator: Calibrator,
        log_odds: bool = True,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.calibrator = calibrator
        self.log_odds = log_odds
        self.classes = classes

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        if not isinstance(self.calibrator, Calibrator):
            raise TypeError(
                f"calibrator={self.calibrator!r} must be a calibrator of two classes, such as "
                "IsotonicCalibration()."
            )
        names = range(self.n_classes_) if self.classes is None else self.classes
        columns = self._columns(u)
        self.calibrators_ = [
            _fitted_to_class(clone(self.calibrator), columns[:, k], y == k, weight, name)
            for k, name in enumerate(names)
        ]

    def _predict(self, u: Floats) -> Floats:
        columns = self._columns(u)
        each = [found.predict(columns[:, k]) for k, found in enumerate(self.calibrators_)]
        P = np.column_stack(each)
        total = P.sum(axis=1, keepdims=True)
        equal = np.full_like(P, 1.0 / self.n_classes_)
        return np.divide(P, total, out=equal, where=total > 0.0)

    def _columns(self, u: Floats) -> Floats:
        """The score of each class against the rest."""
        if not self.log_odds:
            return u
        others = np.empty_like(u)
        for k in range(u.shape[1]):
            others[:, k] = logsumexp(np.delete(u, k, axis=1), axis=1)
        return u - others


def _fitted_to_class(
    calibrator: Calibrator, scores: Floats, positive: NDArray[np.bool_], weight: Floats, name: Any
) -> Calibrator:
    """Fit one class against the rest; warnings say which class it is."""
    if not positive.any():
        warn_about_fit(
            f"class {name} has no label among these scores, so that nothing is known of when it "
            "occurs; its probability is near 0. Calibrate on rows of every class to avoid this."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        calibrator.fit(scores, positive.astype(np.float64), weight)
    for warning in caught if positive.any() else ():
        warn_about_fit(f"class {name} against the rest: {warning.message}")
    return calibrator


class PairedScores(Calibrator):
    """P(y = 1 | u) by a calibrator of K classes, at the scores (−u/2, u/2) of two classes.

    Parameters
    ----------
    calibrator : calibrator of K classes
        Cloned.

    Attributes
    ----------
    calibrator_ : calibrator of K classes
        The fitted one.

    See Also
    --------
    OneVsRestCalibration : A calibrator of two classes, for K.

    Examples
    --------
    >>> fitted = PairedScores(VectorScaling()).fit([-1, -1, -1, 1, 1, 1], [0, 0, 1, 0, 1, 1])
    >>> fitted.predict([1]).round(6)
    array([0.666667])
    """

    def __init__(self, calibrator: MulticlassCalibrator) -> None:
        self.calibrator = calibrator

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self.calibrator_ = clone(self.calibrator).fit(_pair(u), y.astype(np.intp), weight)

    def _predict(self, u: Floats) -> Floats:
        return self.calibrator_.predict(_pair(u))[:, 1]


def _pair(u: Floats) -> Floats:
    return np.column_stack([-0.5 * u, 0.5 * u])


JOINT: dict[str, Callable[..., MulticlassCalibrator]] = {
    "temperature": SoftmaxTemperature,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "structured": StructuredMatrixScaling,
    "dirichlet": DirichletCalibration,
}
"""Calibrators that fit K classes jointly, by short name."""

SEVERAL_CALIBRATORS: dict[str, Callable[..., MulticlassCalibrator]] = {
    name: partial(OneVsRestCalibration, calibrator()) for name, calibrator in CALIBRATORS.items()
} | JOINT
"""All calibrators of K classes by short name; those that are not joint are fitted one-vs-rest."""


def check_method(method: Any) -> None:
    """Raise unless this is a name of a calibrator, or an object that fits and predicts."""
    if isinstance(method, str):
        if method not in SEVERAL_CALIBRATORS:
            raise ValueError(
                f"method={method!r} is unknown; use one of {sorted(SEVERAL_CALIBRATORS)}."
            )
    elif not (hasattr(method, "fit") and hasattr(method, "predict")):
        raise TypeError(
            f"method={method!r} has no fit and predict; use one of {sorted(SEVERAL_CALIBRATORS)}, "
            "or a calibrator object."
        )


def calibrator_for(method: Any, n_classes: int, *, log_odds: bool = True) -> Any:
    """A fresh calibrator of so many classes.

    Parameters
    ----------
    method : str or calibrator
        A short name, or an object. angcal's own are made to fit the number of classes: those of two
        classes are fitted one-vs-rest, those of K get two scores of two classes. Another object
        gets scores (n,) of two classes and (n, K) of more.
    n_classes : int
        K.
    log_odds : bool, default=True
        Of `OneVsRestCalibration`, where that is used.

    Returns
    -------
    calibrator
        With ``fit(scores, y, sample_weight)`` and ``predict(scores)``, for scores (n,) where K = 2.

    See Also
    --------
    OneVsRestCalibration, PairedScores : How they are made to fit.

    Examples
    --------
    >>> calibrator_for("dirichlet", 3)
    DirichletCalibration()
    """
    check_method(method)
    if not isinstance(method, str):
        found = clone(method)
    elif method in JOINT and not (n_classes == 2 and method in CALIBRATORS):
        found = JOINT[method]()
    else:
        found = CALIBRATORS[method]()
    if n_classes == 2:
        return PairedScores(found) if isinstance(found, MulticlassCalibrator) else found
    return OneVsRestCalibration(found, log_odds) if isinstance(found, Calibrator) else found
