"""Temperature, vector and matrix scaling: maps from K scores to K probabilities, on held-out data.

All are softmax(A u + b) of the scores u, with A and b by maximum likelihood:

    temperature   A = I/T, b = 0
    vector        A diagonal
    matrix        A any matrix, its entries off the diagonal held small by a ridge where wanted

Each has ``fit(logits, y, sample_weight=None)`` and ``predict(logits)``. Labels are the codes
0, …, K−1 of the columns, or any labels with ``classes=``.

References
----------
Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from angcal._typing import Floats
from angcal.baselines.calibrators import best_temperature
from angcal.metrics import as_class_codes, as_score_matrix, as_weights
from angcal.metrics.validation import indicators

Codes = NDArray[np.intp]

GRADIENT_TOLERANCE = 1e-8
"""Norm of the mean loss's gradient at which a fit stops."""

MOST_STEPS = 500


# --- The likelihood --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MultinomialFamily:
    """Σ_i w_i [log Σ_k exp z_ik − t_iᵀz_i]/Σ w + ½ Σ_kl ρ_kl A_kl², at logits z_i = A u_i + b.

    The parameters are the entries of A that `free` marks, row by row, and then b; the other entries
    are zero. With p = softmax(z) and r = w(p − t)/Σw, the gradient is rᵀu + ρA and Σ_i r_i. The
    Hessian is applied, never formed: along a change dz it turns r into w(p∘dz − p pᵀdz)/Σw.

    Parameters
    ----------
    scores : (n, K) array
        u.
    target : (n, K) array
        t, with rows that sum to one.
    weight : (n,) array
        w.
    free : (K, K) array of bool
        The entries of A that are fitted.
    ridge : (K, K) array
        ρ >= 0.
    """

    scores: Floats
    target: Floats
    weight: Floats
    free: NDArray[np.bool_]
    ridge: Floats

    def unpack(self, parameters: Floats) -> tuple[Floats, Floats]:
        """A and b."""
        K = len(self.free)
        matrix = np.zeros((K, K))
        matrix[self.free] = parameters[:-K]
        return matrix, parameters[-K:]

    def value(self, parameters: Floats) -> float:
        matrix, _ = self.unpack(parameters)
        z = self._logits(parameters)
        loss = logsumexp(z, axis=1) - np.sum(self.target * z, axis=1)
        return float(self._share @ loss + 0.5 * np.sum(self.ridge * matrix**2))

    def gradient(self, parameters: Floats) -> Floats:
        residual = softmax(self._logits(parameters), axis=1) - self.target
        return self._pulled_back(residual, parameters)

    def hessian_product(self, parameters: Floats, direction: Floats) -> Floats:
        p, dz = softmax(self._logits(parameters), axis=1), self._logits(direction)
        change = p * (dz - np.sum(p * dz, axis=1, keepdims=True))
        return self._pulled_back(change, direction)

    def minimize(self) -> tuple[Floats, Floats]:
        """Return the A and b that minimise, from zero; directions that do not matter stay zero."""
        start = np.zeros(int(self.free.sum()) + len(self.free))
        result = minimize(
            self.value,
            start,
            jac=self.gradient,
            hessp=self.hessian_product,
            method="trust-ncg",
            options={"gtol": GRADIENT_TOLERANCE, "maxiter": MOST_STEPS},
        )
        # Judged by the gradient: the solver reports failure where the value stops changing in its
        # last digit, which is where a good fit ends.
        largest = float(np.abs(self.gradient(result.x)).max())
        if largest > 1e-5:
            warnings.warn(
                f"the calibration fit stopped at a gradient of {largest:.1e}; "
                "its parameters may be inaccurate.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return self.unpack(result.x)

    @property
    def _share(self) -> Floats:
        return self.weight / self.weight.sum()

    def _logits(self, parameters: Floats) -> Floats:
        matrix, offsets = self.unpack(parameters)
        return self.scores @ matrix.T + offsets

    def _pulled_back(self, residual: Floats, parameters: Floats) -> Floats:
        """rᵀu + ρA on the free entries, and Σ_i r_i."""
        weighted = self._share[:, None] * residual
        of_matrix = weighted.T @ self.scores + self.ridge * self.unpack(parameters)[0]
        return np.concatenate([of_matrix[self.free], weighted.sum(axis=0)])


def _smoothed_targets(codes: Codes, weight: Floats, n_classes: int) -> Floats:
    """(N_y + 1)/(N_y + K) for the label y and 1/(N_y + K) for the rest, N_y the weight of y.

    These are Platt's targets for K = 2: posterior means under a uniform prior. They keep every
    probability positive, so that the fit has finite parameters.
    """
    total = np.bincount(codes, weights=weight, minlength=n_classes)[codes][:, None]
    return (total * indicators(codes, n_classes) + 1.0) / (total + n_classes)


def _smallest_margin(logits: Floats, codes: Codes) -> Floats:
    """z_y − max_{k≠y} z_k for each row: positive where the label has the largest logit."""
    rows = np.arange(len(logits))
    others = logits.copy()
    others[rows, codes] = -np.inf
    return logits[rows, codes] - others.max(axis=1)


def _warn_smoothed(reason: str, stacklevel: int) -> None:
    warnings.warn(
        f"{reason}, so the maximum-likelihood parameters are infinite; fitted smoothed targets "
        "instead. Calibrate on more data to avoid this.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _fit_affine(
    scores: Floats, codes: Codes, weight: Floats, free: NDArray[np.bool_], ridge: Floats
) -> tuple[Floats, Floats]:
    """Return A and b, b summing to zero; warn and smooth the targets where they are infinite.

    The columns are standardised first, so that the solver sees the same problem in any unit; a
    constant column says nothing about its slope, which is then 0.

    Where some classes are separated from the rest but not all, nothing warns: the fit ends at
    `GRADIENT_TOLERANCE`, with parameters that are large but finite.
    """
    K = scores.shape[1]
    mean = np.average(scores, axis=0, weights=weight)
    sd = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weight))
    varies = sd > 1e-12 * np.abs(mean)
    unit = np.where(varies, sd, 1.0)
    standard = np.where(varies, (scores - mean) / unit, 0.0)

    def fitted(target: Floats, entries: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        return MultinomialFamily(standard, target, weight, entries, ridge / unit**2).minimize()

    def separates(matrix: Floats, offsets: Floats) -> bool:
        return bool(_smallest_margin(standard @ matrix.T + offsets, codes).min() > 0.0)

    labels = indicators(codes, K)
    reason = ""
    if not labels.any(axis=0).all():
        reason = f"class {np.argmin(labels.any(axis=0))} has no label"
    else:
        matrix, offsets = fitted(labels, free)
        # A map that gets every label right is likelier the more it is scaled up. A ridge stops
        # that, unless the entries without ridge get every label right by themselves.
        bare = free & (ridge == 0.0)
        if separates(matrix, offsets) and (
            np.array_equal(bare, free) or separates(*fitted(labels, bare))
        ):
            reason = "the scores separate the labels"
    if reason:
        _warn_smoothed(reason, stacklevel=3)
        matrix, offsets = fitted(_smoothed_targets(codes, weight, K), free)
    matrix = matrix / unit
    offsets = offsets - matrix @ mean
    return matrix, offsets - offsets.mean()


# --- The calibrators -------------------------------------------------------------------------


class _SeveralCalibrator(BaseEstimator):
    """softmax(A u + b): what the three share."""

    classes: Sequence[Any] | None

    def _samples(
        self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Floats, Codes, Floats]:
        """Return checked scores, codes and weights of the samples whose weight is positive."""
        scores = as_score_matrix(logits, "logits")
        codes = as_class_codes(y, scores.shape[1], self.classes, name="y")
        if codes.size != len(scores):
            raise ValueError(
                f"logits has {len(scores)} rows but y has {codes.size}; pass one row per label."
            )
        weight = as_weights(sample_weight, codes.size)
        kept = weight > 0.0
        self.n_classes_ = scores.shape[1]
        return scores[kept], codes[kept], weight[kept]

    def _checked(self, logits: ArrayLike) -> Floats:
        check_is_fitted(self)
        scores = as_score_matrix(logits, "logits")
        if scores.shape[1] != self.n_classes_:
            raise ValueError(
                f"logits has {scores.shape[1]} columns but the fit had {self.n_classes_}; "
                "pass one column for each class."
            )
        return scores


class SoftmaxTemperature(_SeveralCalibrator):
    """P(y = k | u) = exp(u_k/T)/Σ_l exp(u_l/T), T > 0 by maximum likelihood.

    With K = 2 it is `TemperatureScaling` of u_1 − u_0.

    Parameters
    ----------
    classes : sequence, optional
        The labels in the order of the columns; ``None`` means 0, …, K−1.

    Attributes
    ----------
    temperature_ : float
        T. Where no T > 0 beats equal probabilities it is a cap so large that predictions are 1/K,
        with a warning.

    Examples
    --------
    >>> calibrator = SoftmaxTemperature().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def fit(self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit T; warn and smooth the targets where the largest logit is always the label's."""
        u, codes, weight = self._samples(logits, y, sample_weight)
        u = u - u.mean(axis=1, keepdims=True)
        unit = float(np.sqrt(np.average(np.mean(u**2, axis=1), weights=weight))) or 1.0
        target = indicators(codes, self.n_classes_)
        if u.any() and _smallest_margin(u, codes).min() >= 0.0:
            _warn_smoothed("the scores separate the labels", stacklevel=2)
            target = _smoothed_targets(codes, weight, self.n_classes_)
        scaled = u / unit

        def slope(inverse: float) -> float:
            """Derivative of the mean loss in unit/T; it increases, so it has one root at most."""
            residual = softmax(inverse * scaled, axis=1) - target
            return float(np.average(np.sum(scaled * residual, axis=1), weights=weight))

        self.temperature_ = unit * best_temperature(slope, "Check the order of the columns.")
        return self

    def predict(self, logits: ArrayLike) -> Floats:
        """softmax(u/T)."""
        probabilities: Floats = softmax(self._checked(logits) / self.temperature_, axis=1)
        return probabilities


class VectorScaling(_SeveralCalibrator):
    """P(y = k | u) ∝ exp(a_k u_k + b_k), a and b by maximum likelihood.

    A number added to a whole row of scores changes the answer, as it does for `MatrixScaling`. Pass
    scores of one kind: centred logits, or log-probabilities.

    Parameters
    ----------
    classes : sequence, optional
        The labels in the order of the columns; ``None`` means 0, …, K−1.

    Attributes
    ----------
    slopes_, offsets_ : ndarray of shape (K,)
        a, and b with Σ_k b_k = 0.

    Examples
    --------
    >>> calibrator = VectorScaling().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def fit(self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a and b; warn and smooth the targets where they would be infinite."""
        u, codes, weight = self._samples(logits, y, sample_weight)
        K = self.n_classes_
        diagonal = np.eye(K, dtype=bool)
        matrix, self.offsets_ = _fit_affine(u, codes, weight, diagonal, np.zeros((K, K)))
        self.slopes_ = np.diag(matrix).copy()
        return self

    def predict(self, logits: ArrayLike) -> Floats:
        """softmax(a∘u + b)."""
        scores = self._checked(logits)
        probabilities: Floats = softmax(self.slopes_ * scores + self.offsets_, axis=1)
        return probabilities


class MatrixScaling(_SeveralCalibrator):
    """P(y | u) = softmax(A u + b), A and b by maximum likelihood, less a ridge off the diagonal.

    The fit minimises the mean of −log P(y | u) plus ½ ridge Σ_{k≠l} A_kl². Without a ridge A has
    K² entries to overfit with, and a number added to a column of it changes nothing; its columns
    then sum to zero. A large ridge leads to `VectorScaling`.

    Parameters
    ----------
    ridge : float
        Strength of the penalty, >= 0.
    classes : sequence, optional
        The labels in the order of the columns; ``None`` means 0, …, K−1.

    Attributes
    ----------
    matrix_ : ndarray of shape (K, K)
        A.
    offsets_ : ndarray of shape (K,)
        b, with Σ_k b_k = 0.

    Examples
    --------
    >>> calibrator = MatrixScaling().fit([[2, 0, 0]] * 5, [0, 0, 0, 1, 2])
    >>> calibrator.predict([[2, 0, 0]]).round(6)
    array([[0.6, 0.2, 0.2]])
    """

    def __init__(self, ridge: float = 0.0, classes: Sequence[Any] | None = None) -> None:
        self.ridge = ridge
        self.classes = classes

    def fit(self, logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit A and b; warn and smooth the targets where they would be infinite."""
        if not 0.0 <= self.ridge < np.inf:
            raise ValueError(f"ridge={self.ridge!r} must be finite and >= 0.")
        u, codes, weight = self._samples(logits, y, sample_weight)
        K = self.n_classes_
        penalty = self.ridge * (1.0 - np.eye(K))
        every = np.ones((K, K), dtype=bool)
        self.matrix_, self.offsets_ = _fit_affine(u, codes, weight, every, penalty)
        return self

    def predict(self, logits: ArrayLike) -> Floats:
        """softmax(A u + b)."""
        scores = self._checked(logits)
        probabilities: Floats = softmax(scores @ self.matrix_.T + self.offsets_, axis=1)
        return probabilities


SEVERAL_CALIBRATORS: dict[str, type] = {
    "temperature": SoftmaxTemperature,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
}
"""Calibrators of K classes by short name."""
