r"""Losses ℓ_y(u) with gradient and Hessian, pointwise in the raw score.

Convention for the whole library: labels are y ∈ {0, 1}, u is the raw score xᵀw + b, and
t = 2y − 1 ∈ {−1, +1} is the signed label. A loss knows nothing of X, weights or penalties.

To bring your own loss, subclass :class:`Loss` and write three methods. Nothing else is asked
for: the solver, the observables and the angle only ever call ``value``, ``gradient`` and
``hessian``.

:class:`Multinomial` is the logistic loss of K > 2 classes: it takes one score for each of them, and
its gradient and the curvatures of its classes have the shape (n, K).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from angcal._typing import Floats
from angcal.arrays import namespace_of, on_host, placed_like, softmax


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
    The caller keeps the curvatures D and passes them to ``weigh`` and the others.
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
        return np.asarray(on_host(xp.sum(D, axis=0)))

    def taken(self, D: Any, kept: np.ndarray, take: Callable[[Any, np.ndarray], Any]) -> Any:
        """D of some problems."""
        return take(D, kept)

    def converted(self, D: Any, rows: Any) -> Any:
        """D in the precision of some rows."""
        return D.astype(rows.dtype) if rows.xp is np else D


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


@dataclass(frozen=True)
class Multinomial(BlockLoss):
    r"""ℓ_y(u) = log Σ_k exp(u_k) − u_y, one score u_k for each of K classes.

    Its curvature D = diag(p) − ppᵀ couples the classes. Products with D are taken as they are.
    Where leverages are asked for, each class is a problem of its own, whose curvature is the part
    of D that belongs to it: on scores that sum to zero, as those of a ridge penalty do, that is

        w_k = K/(K − 1)·p_k(1 − p_k)

    which is D itself for two classes, and where all classes are equally likely (:meth:`held_back`).

    Examples
    --------
    >>> import numpy as np
    >>> Multinomial(3).gradient(np.zeros((1, 3)), np.array([0])).round(2)
    array([[-0.67,  0.33,  0.33]])
    """

    n_classes: int  # K

    @property
    def n_scores(self) -> int:
        return self.n_classes

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return np.asarray(self.values(scores, labels[:, None], np)[:, 0])

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return np.asarray(self.terms(scores, labels[:, None], np)[0])

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        p = softmax(scores)
        return self._on_contrasts * p * (1.0 - p)

    @property
    def _on_contrasts(self) -> float:
        """K/(K − 1): what is seen of a diagonal by scores that sum to zero."""
        return self.n_classes / (self.n_classes - 1.0)

    def held_back(self, p: Any, weights: Any, steps: Any) -> Any:
        r"""E_ik: by how much row i holds back class k of the joint fit, (n, K).

        With Γ_i = diag(γ_ik) the leverage of row i in the fit without it, the row holds back the
        joint fit by D_i(I + Γ_iD_i)⁻¹. As D = diag(p) on directions that sum to zero, that is

            B_i − B_i11ᵀB_i/(1ᵀB_i1),   B_i = (diag(1/ω_ip_i) + Γ_i)⁻¹

        of which the diagonal is taken, times K/(K − 1). See :func:`curvature_of`. The steps γ are
        (n, K) or (n, 1).
        """
        own = weights[:, None] * p
        B = own / (1.0 + own * steps)
        return self._on_contrasts * B * (1.0 - B / B.sum(1)[:, None])

    def margins(self, scores: Floats, labels: Floats) -> Floats:
        others, each, codes = scores.copy(), np.arange(len(labels)), labels.astype(np.intp)
        own = others[each, codes].copy()
        others[each, codes] = -np.inf
        return own - others.max(axis=1)

    def _by_class(self, U: Any) -> Any:
        """(n, K, m)."""
        return U.reshape(U.shape[0], self.n_classes, -1)

    def _own(self, labels: Any) -> Any:
        """(n, K, 1), true for each row's own class."""
        return labels[:, :, None] == placed_like(np.arange(self.n_classes), labels)[None, :, None]

    def values(self, U: Any, labels: Any, xp: Any) -> Any:
        u = self._by_class(U)
        highest = xp.max(u, axis=1, keepdims=True)
        total = xp.log(xp.sum(xp.exp(u - highest), axis=1)) + highest[:, 0, :]
        return total - xp.sum(xp.where(self._own(labels), u, 0.0 * u), axis=1)

    def terms(self, U: Any, labels: Any, xp: Any) -> tuple[Any, Any]:
        u = self._by_class(U)
        p = softmax(u)
        return xp.where(self._own(labels), p - 1.0, p).reshape(U.shape), (p, p)

    def constant_scores(self, labels: Floats, weights: Floats) -> Floats:
        counts = np.bincount(labels.astype(np.intp), weights, minlength=self.n_classes)
        logs = np.log(np.maximum(counts, np.finfo(float).tiny))
        return logs - logs.mean()

    def weighted(self, D: Any, weights: Any) -> Any:
        return D[0], weights[:, :, None] * D[1]

    def weigh(self, D: Any, images: Any) -> Any:
        """ω(p∘v − p(pᵀv))."""
        p, weighted = D
        v = self._by_class(images)
        return (weighted * (v - (p * v).sum(1)[:, None, :])).reshape(images.shape)

    def totals(self, D: Any, xp: Any) -> Floats:
        p, weighted = D
        return np.asarray(on_host(xp.sum(weighted * (1.0 - p), axis=0))).ravel()

    def taken(self, D: Any, kept: np.ndarray, take: Callable[[Any, np.ndarray], Any]) -> Any:
        p, weighted = (take(part.reshape(part.shape[0], -1), kept) for part in D)
        return self._by_class(p), self._by_class(weighted)

    def converted(self, D: Any, rows: Any) -> Any:
        p, weighted = D
        return super().converted(p, rows), super().converted(weighted, rows)


def curvature_of(held_back: Any, steps: Any) -> Any:
    """w with w/(1 + γw) = E: the curvature of a problem of its own that is held back as much."""
    rest = 1.0 - steps * held_back
    # A row that determines its own fit says nothing.
    return held_back / namespace_of(rest).clip(rest, 1e-3, None)


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
    """ℓ_y(u) = ½(u − t)², the loss of RidgeClassifier.

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
    """ℓ_y(u) = max(0, 1 − t·u)², the loss of LinearSVC; ℓ″ = 2·1{t·u < 1}, undefined at t·u = 1.

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
