"""Calibrators of K classes: K scores per row, one for each class, to K probabilities.

Most fit softmax(A g(u) + b): temperature A = I/T and b = 0, vector A diagonal, matrix any A, all of
g(u) = u; Dirichlet and structured scaling of g(u) = log softmax(u), under a ridge. The others
calibrate each class against the rest and divide by the sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.baselines.calibrators import (
    CALIBRATORS,
    Calibrator,
    best_temperature,
    temperature_targets,
)
from angcal.baselines.likelihood import fit_multinomial, fit_structured, warn_about_fit
from angcal.metrics import as_class_codes, as_score_matrix, as_weights, require_length
from angcal.metrics.validation import Codes

STRENGTHS = tuple(10.0**k for k in range(-3, 4))
"""Strengths that Dirichlet calibration chooses from."""

N_FOLDS = 5
"""Folds of that choice."""

EXACT, ROUGH = 1e-8, 1e-4
"""Largest gradient at which a fit is finished, and at which it tells strengths apart."""


class SeveralCalibrator(Calibrator):
    """One score per row and class: checks, around the `_fit` and `_predict` of a subclass."""

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def fit(self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map on scores whose labels the classifier has not seen.

        Parameters
        ----------
        logits, y : array-like
            Scores u of shape (n, K), and labels of shape (n,).
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        self : object
            The fitted calibrator. A ConvergenceWarning says where the likelihood has no maximum
            and smoothed targets were fitted.
        """
        scores = as_score_matrix(logits, "logits")
        codes = as_class_codes(y, scores.shape[1], self.classes, name="y")
        require_length(scores, "logits", codes.size)
        weight = as_weights(sample_weight, codes.size)
        kept = weight > 0.0
        self.n_classes_ = scores.shape[1]
        self._fit(scores[kept], codes[kept], weight[kept])
        return self

    def predict(self, logits: ArrayLike) -> Floats:
        """P(y = k | u) at every row of scores.

        Parameters
        ----------
        logits : array-like of shape (n, K)
            Scores u.

        Returns
        -------
        ndarray of shape (n, K)
            Probabilities, one column for each class.
        """
        check_is_fitted(self)
        scores = as_score_matrix(logits, "logits")
        if scores.shape[1] != self.n_classes_:
            raise ValueError(
                f"logits has {scores.shape[1]} columns but the fit had {self.n_classes_}; "
                "pass one column for each class."
            )
        return self._predict(scores)


class SoftmaxCalibrator(SeveralCalibrator):
    """P(y | u) = softmax(z(u)), with logits z by a subclass."""

    def _predict(self, u: Floats) -> Floats:
        return np.asarray(softmax(self._logits(u), axis=1))

    def _logits(self, u: Floats) -> Floats:
        raise NotImplementedError


class SoftmaxTemperature(SoftmaxCalibrator):
    """P(y = k | u) = exp(u_k/T)/Σ_l exp(u_l/T), T > 0 by maximum likelihood.

    With K = 2 it is `TemperatureScaling` of u_1 − u_0.

    Parameters
    ----------
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    temperature_ : float
        T. Where no T > 0 beats equal probabilities it is a cap so large that predictions are 1/K,
        with a warning.

    See Also
    --------
    TemperatureScaling : For two classes and one score.
    VectorScaling, MatrixScaling : With more parameters.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML.

    Examples
    --------
    >>> calibrator = SoftmaxTemperature().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        u = u - u.mean(axis=1, keepdims=True)
        unit = float(np.sqrt(np.average(np.mean(u**2, axis=1), weights=weight))) or 1.0
        target, scaled = temperature_targets(u, y, weight), u / unit

        def slope(inverse: float) -> float:
            residual = softmax(inverse * scaled, axis=1) - target
            return float(np.average(np.sum(scaled * residual, axis=1), weights=weight))

        self.temperature_ = unit * best_temperature(slope, "Check the order of the columns.")

    def _logits(self, u: Floats) -> Floats:
        return u / self.temperature_


class VectorScaling(SoftmaxCalibrator):
    """P(y = k | u) ∝ exp(a_k u_k + b_k), a and b by maximum likelihood.

    A number added to a whole row of scores changes the answer, as it does for `MatrixScaling`. Pass
    scores of one kind: centered logits, or log-probabilities.

    Parameters
    ----------
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    slopes_, offsets_ : ndarray of shape (K,)
        a, and b with Σ_k b_k = 0.

    See Also
    --------
    MatrixScaling : With a full matrix.
    PlattScaling : For two classes and one score.

    Examples
    --------
    >>> calibrator = VectorScaling().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        K = self.n_classes_
        diagonal = np.eye(K, dtype=bool)
        matrix, self.offsets_ = fit_multinomial(u, y, weight, diagonal, np.zeros((K, K)))
        self.slopes_ = np.diag(matrix).copy()

    def _logits(self, u: Floats) -> Floats:
        return self.slopes_ * u + self.offsets_


class MatrixScaling(SoftmaxCalibrator):
    """P(y | u) = softmax(A u + b), A and b by maximum likelihood, less a ridge off the diagonal.

    The fit minimizes the mean of −log P(y | u) plus ½ ridge Σ_{k≠l} A_kl². Without a ridge A has
    K² entries to overfit with, and a number added to a column of it changes nothing; its columns
    then sum to zero. A large ridge leads to `VectorScaling`.

    Parameters
    ----------
    ridge : float, default=0.0
        Strength of the penalty, >= 0.
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    matrix_ : ndarray of shape (K, K)
        A.
    offsets_ : ndarray of shape (K,)
        b, with Σ_k b_k = 0.

    See Also
    --------
    VectorScaling : With a diagonal matrix.

    Examples
    --------
    >>> calibrator = MatrixScaling().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(self, ridge: float = 0.0, classes: Sequence[Any] | None = None) -> None:
        self.ridge = ridge
        self.classes = classes

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        if not 0.0 <= self.ridge < np.inf:
            raise ValueError(f"ridge={self.ridge!r} must be finite and >= 0.")
        K = self.n_classes_
        penalty = self.ridge * (1.0 - np.eye(K))
        every = np.ones((K, K), dtype=bool)
        self.matrix_, self.offsets_ = fit_multinomial(u, y, weight, every, penalty)

    def _logits(self, u: Floats) -> Floats:
        return u @ self.matrix_.T + self.offsets_


def _nonnegative(name: str, value: Any, *, infinite: bool = False) -> float:
    """A strength of a penalty, or an error that names it."""
    if not (0.0 <= value < np.inf or (infinite and value == np.inf)):
        raise ValueError(f"{name}={value!r} must be {'' if infinite else 'finite and '}>= 0.")
    return float(value)


def _by_place(diagonal: float, off_diagonal: float, n_classes: int) -> Floats:
    """A (K, K) matrix with one number on the diagonal and another off it."""
    return np.where(np.eye(n_classes, dtype=bool), diagonal, off_diagonal)


class StructuredMatrixScaling(SoftmaxCalibrator):
    """P(y | u) = softmax(A g + b) with g = log softmax(u/T), A near I and b near 0.

    T is that of temperature scaling. Then A and b minimize, with N the weight of the rows,

        mean of −log P(y | u) + (K/N) [α ‖b‖² + δ Σ_k (A_kk − 1)² + (K−1) ω Σ_{k≠l} A_kl²]

    so that few labels leave temperature scaling as it is, and the many entries off the diagonal are
    held tighter than the few on it. ``off_diagonal=np.inf`` is structured vector scaling.

    Parameters
    ----------
    intercept, diagonal, off_diagonal : float, default=1.0
        α, δ and ω, all >= 0.
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    temperature_ : float
        T.
    matrix_ : ndarray of shape (K, K)
        A.
    offsets_ : ndarray of shape (K,)
        b, with Σ_k b_k = 0.

    See Also
    --------
    MatrixScaling : Without the structure.

    References
    ----------
    Berta, Holzmüller, Jordan, Bach (2025), Structured matrix scaling for multi-class calibration,
    arXiv:2511.03685.

    Examples
    --------
    >>> scores, labels = [[2, 0, 0]] * 500, [0] * 300 + [1] * 100 + [2] * 100
    >>> StructuredMatrixScaling().fit(scores, labels).predict([[2, 0, 0]]).round(2)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(
        self,
        intercept: float = 1.0,
        diagonal: float = 1.0,
        off_diagonal: float = 1.0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.intercept = intercept
        self.diagonal = diagonal
        self.off_diagonal = off_diagonal
        self.classes = classes

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        K = self.n_classes_
        # Twice, because the penalties of the fit come with a half.
        unit = 2.0 * K / float(weight.sum())
        diagonal = unit * _nonnegative("diagonal", self.diagonal)
        apart = unit * (K - 1) * _nonnegative("off_diagonal", self.off_diagonal, infinite=True)
        intercept = unit * _nonnegative("intercept", self.intercept)
        self.temperature_ = SoftmaxTemperature().fit(u, y, weight).temperature_
        logs = log_softmax(u / self.temperature_, axis=1)
        ridge = _by_place(diagonal, apart, K)
        self.matrix_, self.offsets_ = fit_structured(logs, y, weight, ridge, intercept)

    def _logits(self, u: Floats) -> Floats:
        return log_softmax(u / self.temperature_, axis=1) @ self.matrix_.T + self.offsets_


class DirichletCalibration(SoftmaxCalibrator):
    """P(y | u) = softmax(W log p + b) with p = softmax(u), under a ridge off the diagonal and on b.

    This is the form for p that has a Dirichlet distribution in every class. The fit minimizes the
    mean of −log P(y | u) plus λ/(K(K−1)) Σ_{k≠l} W_kl² + (μ/K) ‖b‖² (ODIR). With K = 2 and no
    penalty it is `BetaCalibration` without its signs.

    Parameters
    ----------
    strength : float, optional
        λ >= 0; None chooses among 10⁻³, …, 10³ by the log-loss of five folds.
    intercept_strength : float, optional
        μ >= 0; None means λ.
    classes : sequence, optional
        The labels in the order of the columns; None means 0, …, K−1.

    Attributes
    ----------
    strength_ : float
        λ as used.
    matrix_ : ndarray of shape (K, K)
        W.
    offsets_ : ndarray of shape (K,)
        b, with Σ_k b_k = 0.

    See Also
    --------
    StructuredMatrixScaling : Keeps the diagonal near that of temperature scaling, too.
    BetaCalibration : For two classes and one score.

    References
    ----------
    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach (2019), Beyond temperature scaling:
    obtaining well-calibrated multiclass probabilities with Dirichlet calibration, NeurIPS.

    Examples
    --------
    >>> scores, labels = [[2, 0, 0]] * 5, [0, 0, 0, 1, 2]
    >>> DirichletCalibration(strength=1e-6).fit(scores, labels).predict([[2, 0, 0]]).round(4)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(
        self,
        strength: float | None = None,
        intercept_strength: float | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.strength = strength
        self.intercept_strength = intercept_strength
        self.classes = classes

    def _fit(self, u: Floats, y: Codes, weight: Floats) -> None:
        logs = log_softmax(u, axis=1)

        def loss(left_out: NDArray[np.bool_], strength: float) -> float:
            kept = ~left_out
            matrix, offsets = self._fitted(logs[kept], y[kept], weight[kept], strength, ROUGH)
            z = logs[left_out] @ matrix.T + offsets
            each = log_softmax(z, axis=1)[np.arange(len(z)), y[left_out]]
            return -float(weight[left_out] @ each)

        if self.strength is None:
            self.strength_ = _cross_validated(loss, y, STRENGTHS)
        else:
            self.strength_ = _nonnegative("strength", self.strength)
        self.matrix_, self.offsets_ = self._fitted(logs, y, weight, self.strength_, EXACT)

    def _fitted(
        self, logs: Floats, y: Codes, weight: Floats, strength: float, tol: float
    ) -> tuple[Floats, Floats]:
        K = self.n_classes_
        given = self.intercept_strength
        intercept = strength if given is None else _nonnegative("intercept_strength", given)
        # Twice, because the penalties of the fit come with a half.
        ridge = _by_place(0.0, 2.0 * strength / (K * (K - 1)), K)
        return fit_structured(logs, y, weight, ridge, 2.0 * intercept / K, tol)

    def _logits(self, u: Floats) -> Floats:
        return log_softmax(u, axis=1) @ self.matrix_.T + self.offsets_


def _cross_validated(
    loss: Callable[[NDArray[np.bool_], float], float], codes: Codes, strengths: Sequence[float]
) -> float:
    """The strength with the smallest loss on rows left out; the largest one of equals.

    Parameters
    ----------
    loss : callable
        From flags of the rows that are left out, and a strength, to the loss of those rows.
    codes : ndarray of shape (n,)
        The labels: each class is spread over all folds.
    strengths : sequence of float
        Increasing.
    """
    order = np.random.default_rng(0).permutation(codes.size)
    place = np.empty(codes.size, dtype=np.intp)
    for code in np.unique(codes):
        members = order[codes[order] == code]
        place[members] = np.arange(members.size)
    folds = [place % N_FOLDS == fold for fold in range(N_FOLDS)]
    folds = [fold for fold in folds if fold.any() and not fold.all()]
    with warnings.catch_warnings():
        # A part may be separated where all rows are not; only the fit to all rows is delivered.
        warnings.simplefilter("ignore", ConvergenceWarning)
        losses = [sum(loss(fold, strength) for fold in folds) for strength in strengths]
    best = min(losses)
    return max(s for s, found in zip(strengths, losses, strict=True) if found <= best)


# --- Each class against the rest ---------------------------------------------------------------


class OneVsRestCalibration(SeveralCalibrator):
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
        if not isinstance(self.calibrator, Calibrator) or is_several(self.calibrator):
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


# --- By name -----------------------------------------------------------------------------------


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

    def __init__(self, calibrator: SeveralCalibrator) -> None:
        self.calibrator = calibrator

    def _fit(self, u: Floats, y: Floats, weight: Floats) -> None:
        self.calibrator_ = clone(self.calibrator).fit(_pair(u), y.astype(np.intp), weight)

    def _predict(self, u: Floats) -> Floats:
        return self.calibrator_.predict(_pair(u))[:, 1]


def _pair(u: Floats) -> Floats:
    return np.column_stack([-0.5 * u, 0.5 * u])


JOINT: dict[str, Callable[..., SeveralCalibrator]] = {
    "temperature": SoftmaxTemperature,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "structured": StructuredMatrixScaling,
    "dirichlet": DirichletCalibration,
}
"""Calibrators that fit K classes jointly, by short name."""

SEVERAL_CALIBRATORS: dict[str, Callable[..., SeveralCalibrator]] = {
    name: partial(OneVsRestCalibration, calibrator()) for name, calibrator in CALIBRATORS.items()
} | JOINT
"""All calibrators of K classes by short name; those that are not joint are fitted one-vs-rest."""


def is_several(calibrator: Any) -> bool:
    """Whether it takes one score for each class."""
    return isinstance(calibrator, SeveralCalibrator)


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
        return PairedScores(found) if is_several(found) else found
    of_two = isinstance(found, Calibrator) and not is_several(found)
    return OneVsRestCalibration(found, log_odds) if of_two else found
