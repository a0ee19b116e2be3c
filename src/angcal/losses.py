r"""Losses ℓ_y(u) with gradient and Hessian, pointwise in the raw score.

Convention for the whole library: labels are y ∈ {0, 1}, u is the raw score xᵀw + b, and
t = 2y − 1 ∈ {−1, +1} is the signed label. A loss knows nothing of X, weights or penalties.

To bring your own loss, subclass :class:`Loss` and write three methods. Nothing else is asked
for: the solver, the observables and the angle only ever call ``value``, ``gradient`` and
``hessian``.

:class:`Multinomial` is the logistic loss of K > 2 classes: it takes q = K − 1 scores for each row,
its gradient has the shape (n, q) and its Hessian (n, q, q).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.special import erfcx, expit, log_ndtr, logsumexp, softmax

from angcal._typing import Floats


class Loss(ABC):
    """Convex loss ℓ_y(u) of one raw score u and one label y ∈ {0, 1}.

    A loss of your own is a subclass with ``value``, ``gradient`` and ``hessian``.

    See Also
    --------
    Logistic, ProbitLikelihood, Squared, SquaredHinge, HuberisedHinge, Exponential
    angcal.MEstimator : Fits any loss with any penalty.

    Examples
    --------
    >>> import numpy as np
    >>> scores, labels = np.array([0.0, 0.0]), np.array([0.0, 1.0])
    >>> Logistic().gradient(scores, labels)
    array([ 0.5, -0.5])
    >>> Logistic().hessian(scores, labels)
    array([0.25, 0.25])
    """

    @abstractmethod
    def value(self, scores: Floats, labels: Floats) -> Floats:
        """ℓ_y(u), elementwise.

        Parameters
        ----------
        scores : (n,) array
            u.
        labels : (n,) array
            y, 0.0 or 1.0.

        Returns
        -------
        (n,) array
            ℓ.
        """

    @abstractmethod
    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        """∂ℓ_y(u)/∂u, elementwise; ψ = −gradient in the paper.

        Parameters
        ----------
        scores : (n,) array
            u.
        labels : (n,) array
            y, 0.0 or 1.0.

        Returns
        -------
        (n,) array
            ℓ′.
        """

    @abstractmethod
    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        """∂²ℓ_y(u)/∂u², elementwise and where it exists; the diagonal of D in the paper.

        Parameters
        ----------
        scores : (n,) array
            u.
        labels : (n,) array
            y, 0.0 or 1.0.

        Returns
        -------
        (n,) array
            ℓ″, at least 0.
        """

    @property
    def attains_minimum(self) -> bool:
        """Whether each ℓ_y is minimized at a finite score.

        If not, data that a hyperplane separates have no finite unpenalized minimizer.
        """
        return False

    @property
    def n_scores(self) -> int:
        """q: scores that the loss takes for each row."""
        return 1

    def margins(self, scores: Floats, labels: Floats) -> Floats:
        """By how much the label's score exceeds that of every other label; positive where right.

        Parameters
        ----------
        scores : (n,) array
            u.
        labels : (n,) array
            y, 0.0 or 1.0.

        Returns
        -------
        (n,) array
            t·u for two classes.
        """
        return signed(labels) * scores


class BlockLoss(Loss):
    """A loss that is minimized for many problems at once, on any device.

    Scores U have the shape (n, q·m), column k·m + c being score k of problem c; labels are (n, 1).
    Curvatures D belong to whoever asked for them: they come back to ``weigh`` and the others.
    """

    @abstractmethod
    def values(self, U: Any, labels: Any, xp: Any) -> Any:
        """ℓ of every row and problem, (n, m)."""

    @abstractmethod
    def terms(self, U: Any, labels: Any, xp: Any) -> tuple[Any, Any]:
        """(gradient, D), the gradient of U's shape."""

    @abstractmethod
    def constant_scores(self, labels: Floats, weights: Floats) -> Floats:
        """The (q,) scores of the best constant fit."""

    def weighted(self, D: Any, weights: Any) -> Any:
        """ω_i D_i, weights of shape (n, 1)."""
        return weights * D

    def weigh(self, D: Any, images: Any) -> Any:
        """D_i applied to scores of U's shape."""
        return D * images

    def totals(self, D: Any, xp: Any) -> Floats:
        """Σ_i of the diagonal of D_i, one for each column of U."""
        return np.asarray(_host(xp.sum(D, axis=0)))

    def taken(self, D: Any, kept: np.ndarray, take: Callable[[Any, np.ndarray], Any]) -> Any:
        """D of some problems."""
        return take(D, kept)

    def converted(self, D: Any, rows: Any) -> Any:
        """D in the precision of some rows."""
        return D.astype(rows.dtype) if rows.xp is np else D


def _host(values: Any) -> Floats:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, dtype=np.float64)


def signed(labels: Floats) -> Floats:
    """t = 2y − 1: labels {0, 1} to {−1, +1}."""
    return 2.0 * labels - 1.0


@dataclass(frozen=True)
class Logistic(BlockLoss):
    """ℓ_y(u) = log(1 + eᵘ) − y·u.

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().gradient(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return np.logaddexp(0.0, -signed(labels) * scores)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        t = signed(labels)
        # −t·expit(−t·u) keeps its relative accuracy for well-fitted rows; expit(u) − y does not.
        return -t * expit(-t * scores)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return expit(scores) * expit(-scores)

    def values(self, U: Any, labels: Any, xp: Any) -> Any:
        return xp.log1p(xp.exp(-xp.abs(U))) + xp.clip(U, 0.0, None) - labels * U

    def terms(self, U: Any, labels: Any, xp: Any) -> tuple[Any, Any]:
        p = expit(U) if xp is np else 1.0 / (1.0 + xp.exp(-U))
        return p - labels, p * (1.0 - p)

    def constant_scores(self, labels: Floats, weights: Floats) -> Floats:
        share = float(np.average(labels, weights=weights))
        return np.array([np.log(share / (1.0 - share))])


def contrasts(n_classes: int) -> Floats:
    """A: (K, K − 1) with orthonormal columns that sum to zero; (−½, ½)ᵀ for two classes."""
    if n_classes == 2:
        return np.array([[-0.5], [0.5]])
    return np.ascontiguousarray(helmert(n_classes).T)


def index_map(contrast: Floats) -> Floats:
    """A⁺, the map from class logits to the directions that a softmax can see."""
    return np.asarray(np.linalg.pinv(contrast), dtype=np.float64)


def softmax_curvatures(p: Floats, contrast: Floats) -> Floats:
    """Aᵀ(diag p_i − p_i p_iᵀ)A for every row of p, (n, q, q)."""
    mean = p @ contrast
    second = np.einsum("nk,ka,kb->nab", p, contrast, contrast, optimize=True)
    return second - mean[:, :, None] * mean[:, None, :]


@dataclass(frozen=True)
class Multinomial(BlockLoss):
    r"""ℓ_y(v) = log Σ_k exp((Av)_k) − (Av)_y, v ∈ R^q the scores that a softmax can see.

    A constant added to all logits changes nothing, so K classes have q = K − 1 directions: A is an
    orthonormal basis of the contrasts. The ridge penalty of class weights W is that of V = AᵀW,
    because a penalized Ŵ has rows that sum to zero. For two classes scikit-learn fits the
    difference of the logits: A = (−½, ½)ᵀ, and ℓ is the logistic loss.

    Parameters
    ----------
    n_classes : int
        K.

    See Also
    --------
    Logistic : The same for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> Multinomial(3).gradient(np.zeros((1, 2)), np.array([0])).shape
    (1, 2)
    """

    n_classes: int

    @property
    def n_scores(self) -> int:
        return self.n_classes - 1

    @cached_property
    def contrast(self) -> Floats:
        """A, (K, q)."""
        return contrasts(self.n_classes)

    def probabilities(self, scores: Floats) -> Floats:
        """softmax(A v_i), (n, K)."""
        return softmax(scores @ self.contrast.T, axis=1)

    def value(self, scores: Floats, labels: Floats) -> Floats:
        logits = scores @ self.contrast.T
        return logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels.astype(np.intp)]

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        missed = self.probabilities(scores)
        missed[np.arange(len(labels)), labels.astype(np.intp)] -= 1.0
        return missed @ self.contrast

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return softmax_curvatures(self.probabilities(scores), self.contrast)

    def margins(self, scores: Floats, labels: Floats) -> Floats:
        logits = scores @ self.contrast.T
        each, codes = np.arange(len(labels)), labels.astype(np.intp)
        own = logits[each, codes].copy()
        logits[each, codes] = -np.inf
        return own - logits.max(axis=1)

    def _logits(self, U: Any) -> Floats:
        """(n, K, m)."""
        return np.einsum("nqm,kq->nkm", U.reshape(len(U), self.n_scores, -1), self.contrast)

    def values(self, U: Any, labels: Any, xp: Any) -> Any:
        logits = self._logits(U)
        own = logits[np.arange(len(U)), labels[:, 0].astype(np.intp)]
        return logsumexp(logits, axis=1) - own

    def terms(self, U: Any, labels: Any, xp: Any) -> tuple[Any, Any]:
        A, p = self.contrast, softmax(self._logits(U), axis=1)
        mean = np.einsum("nkm,ka->nam", p, A)
        second = np.einsum("nkm,ka,kb->nabm", p, A, A, optimize=True)
        D = second - mean[:, :, None] * mean[:, None]
        p[np.arange(len(U)), labels[:, 0].astype(np.intp)] -= 1.0
        return np.einsum("nkm,ka->nam", p, A).reshape(U.shape), D

    def constant_scores(self, labels: Floats, weights: Floats) -> Floats:
        counts = np.bincount(labels.astype(np.intp), weights, minlength=self.n_classes)
        return self.contrast.T @ np.log(np.maximum(counts, np.finfo(float).tiny))

    def weighted(self, D: Any, weights: Any) -> Any:
        return weights[:, :, None, None] * D

    def weigh(self, D: Any, images: Any) -> Any:
        parts = images.reshape(len(images), self.n_scores, -1)
        return np.einsum("nabm,nbm->nam", D, parts).reshape(images.shape)

    def totals(self, D: Any, xp: Any) -> Floats:
        return np.einsum("naam->am", D).ravel().astype(np.float64)

    def taken(self, D: Any, kept: np.ndarray, take: Callable[[Any, np.ndarray], Any]) -> Any:
        return D[..., kept]


@dataclass(frozen=True)
class ProbitLikelihood(Loss):
    """ℓ_y(u) = −log Φ(t·u).

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> ProbitLikelihood().value(np.array([0.0]), np.array([1.0])).round(4)
    array([0.6931])
    """

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return -log_ndtr(signed(labels) * scores)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        t = signed(labels)
        return -t * self._mills_ratio(t * scores)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        margin = signed(labels) * scores
        ratio = self._mills_ratio(margin)
        # ℓ'' lies in (0, 1); far out ratio + margin is all cancellation.
        return np.clip(ratio * (ratio + margin), 0.0, 1.0)

    @staticmethod
    def _mills_ratio(margin: Floats) -> Floats:
        """φ(m)/Φ(m), through erfcx: full relative accuracy for margins of either sign."""
        return np.sqrt(2.0 / np.pi) / erfcx(-margin / np.sqrt(2.0))


@dataclass(frozen=True)
class Squared(Loss):
    """ℓ_y(u) = ½(u − t)².

    The loss of RidgeClassifier.

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().gradient(np.array([0.25]), np.array([1.0]))
    array([-0.75])
    """

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return 0.5 * (scores - signed(labels)) ** 2

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return scores - signed(labels)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return np.ones_like(scores)

    @property
    def attains_minimum(self) -> bool:
        return True


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """ℓ_y(u) = max(0, 1 − t·u)²; its second derivative is 2·1{t·u < 1}, undefined at t·u = 1.

    The loss of LinearSVC.

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> SquaredHinge().value(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([0.25, 0.  ])
    """

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - signed(labels) * scores) ** 2

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        t = signed(labels)
        return -2.0 * t * np.maximum(0.0, 1.0 - t * scores)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return np.where(signed(labels) * scores < 1.0, 2.0, 0.0)

    @property
    def attains_minimum(self) -> bool:
        return True


@dataclass(frozen=True)
class HuberisedHinge(Loss):
    """ℓ_y(u) = scale·h(t·u): the hinge with its corner rounded over a width δ.

    h(m) = 0 for m ≥ 1, (1 − m)²/(2δ) for 1 − δ < m < 1, and 1 − m − δ/2 for m ≤ 1 − δ.
    ``HuberisedHinge(delta=2, scale=4)`` is scikit-learn's ``modified_huber``.

    Parameters
    ----------
    delta : float, default=1.0
        Width δ > 0 of the quadratic piece.
    scale : float, default=1.0
        Factor in front.

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> HuberisedHinge().value(np.array([-1.0, 0.5, 2.0]), np.ones(3))
    array([1.5  , 0.125, 0.   ])
    """

    delta: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("delta", "scale"):
            number = getattr(self, name)
            if not (np.isfinite(number) and number > 0):
                raise ValueError(f"{name}={number!r} must be a positive finite number.")

    def value(self, scores: Floats, labels: Floats) -> Floats:
        gap = np.maximum(1.0 - signed(labels) * scores, 0.0)
        # Capped first, so that a far outlier's square cannot overflow unused.
        quadratic = np.minimum(gap, self.delta) ** 2 / (2.0 * self.delta)
        return self.scale * np.where(gap < self.delta, quadratic, gap - 0.5 * self.delta)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        t = signed(labels)
        return -self.scale * t * np.clip((1.0 - t * scores) / self.delta, 0.0, 1.0)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        gap = 1.0 - signed(labels) * scores
        return np.where((gap > 0.0) & (gap < self.delta), self.scale / self.delta, 0.0)

    @property
    def attains_minimum(self) -> bool:
        return True


@dataclass(frozen=True)
class Exponential(Loss):
    """ℓ_y(u) = exp(−t·u).

    See Also
    --------
    Loss : What every loss has.

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().value(np.array([0.0]), np.array([1.0]))
    array([1.])
    """

    def value(self, scores: Floats, labels: Floats) -> Floats:
        # A line search may probe absurd scores; infinity makes it step back.
        with np.errstate(over="ignore"):
            return np.exp(-signed(labels) * scores)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return -signed(labels) * self.value(scores, labels)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return self.value(scores, labels)
