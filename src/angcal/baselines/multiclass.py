"""Calibrators of K classes: K scores per row, one for each class, to K probabilities.

Most fit softmax(A g(u) + b): temperature A = I/T and b = 0, vector A diagonal, matrix any A, all of
g(u) = u; Dirichlet and structured scaling of g(u) = log softmax(u), under a ridge.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.baselines.calibrators import ScoreMap, likeliest_temperature, with_weight
from angcal.baselines.likelihood import fit_multinomial
from angcal.metrics import as_class_codes, as_score_matrix
from angcal.metrics.validation import Codes


class MulticlassCalibrator(ScoreMap):
    """One score per row and class."""

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
        rows = with_weight(scores, "logits", codes, sample_weight)
        self.n_classes_ = scores.shape[1]
        self._fit(*rows)
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


class SoftmaxCalibrator(MulticlassCalibrator):
    """P(y | u) = softmax(A g(u) + b), with g(u) = u unless a subclass says otherwise."""

    matrix_: Floats
    offsets_: Floats

    def _predict(self, u: Floats) -> Floats:
        return np.asarray(softmax(self._logits(u), axis=1))

    def _logits(self, u: Floats) -> Floats:
        return self._features(u) @ self.matrix_.T + self.offsets_

    def _features(self, u: Floats) -> Floats:
        return u


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
        advice = "Check the order of the columns."
        self.temperature_ = likeliest_temperature(u, y, weight, unit, advice)

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
        ridge = _by_place(0.0, np.inf, self.n_classes_)
        matrix, self.offsets_ = fit_multinomial(u, y, weight, ridge)
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
        ridge = _by_place(0.0, _nonnegative("ridge", self.ridge), self.n_classes_)
        self.matrix_, self.offsets_ = fit_multinomial(u, y, weight, ridge)


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
        ridge = _by_place(diagonal, apart, K)
        logs = self._features(u)
        self.matrix_, self.offsets_ = fit_multinomial(logs, y, weight, ridge, intercept)

    def _features(self, u: Floats) -> Floats:
        return log_softmax(u / self.temperature_, axis=1)


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
        logs = self._features(u)

        def loss(left_out: NDArray[np.bool_], strength: float) -> float:
            kept = ~left_out
            # Near enough to the minimum to tell strengths apart.
            matrix, offsets = self._fitted(logs[kept], y[kept], weight[kept], strength, 1e-4)
            z = logs[left_out] @ matrix.T + offsets
            each = log_softmax(z, axis=1)[np.arange(len(z)), y[left_out]]
            return -float(weight[left_out] @ each)

        if self.strength is None:
            self.strength_ = _cross_validated(loss, y, [10.0**k for k in range(-3, 4)])
        else:
            self.strength_ = _nonnegative("strength", self.strength)
        self.matrix_, self.offsets_ = self._fitted(logs, y, weight, self.strength_)

    def _fitted(
        self, logs: Floats, y: Codes, weight: Floats, strength: float, tol: float = 1e-8
    ) -> tuple[Floats, Floats]:
        K = self.n_classes_
        given = self.intercept_strength
        intercept = strength if given is None else _nonnegative("intercept_strength", given)
        # Twice, because the penalties of the fit come with a half.
        ridge = _by_place(0.0, 2.0 * strength / (K * (K - 1)), K)
        return fit_multinomial(logs, y, weight, ridge, 2.0 * intercept / K, tol)

    def _features(self, u: Floats) -> Floats:
        return log_softmax(u, axis=1)


def _cross_validated(
    loss: Callable[[NDArray[np.bool_], float], float], codes: Codes, strengths: Sequence[float]
) -> float:
    """The strength with the smallest loss in five folds; the largest one of equals.

    `loss` takes flags of the rows that are left out, and a strength, to the loss of those rows.
    Each class is spread over all folds; strengths increase.
    """
    order = np.random.default_rng(0).permutation(codes.size)
    place = np.empty(codes.size, dtype=np.intp)
    for code in np.unique(codes):
        members = order[codes[order] == code]
        place[members] = np.arange(members.size)
    folds = [place % 5 == fold for fold in range(5)]
    folds = [fold for fold in folds if fold.any() and not fold.all()]
    with warnings.catch_warnings():
        # A part may be separated where all rows are not; only the fit to all rows is delivered.
        warnings.simplefilter("ignore", ConvergenceWarning)
        losses = [sum(loss(fold, strength) for fold in folds) for strength in strengths]
    best = min(losses)
    return max(s for s, found in zip(strengths, losses, strict=True) if found <= best)
