r"""Losses ℓ_y(u) with gradient and Hessian, pointwise in the raw score.

Convention for the whole library: labels are y ∈ {0, 1}, u is the raw score xᵀw + b, and
t = 2y − 1 ∈ {−1, +1} is the signed label. A loss knows nothing of X, weights or penalties.

To bring your own loss, subclass :class:`Loss` and write three methods. Nothing else is asked
for: the solver, the observables and the angle only ever call ``value``, ``gradient`` and
``hessian``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from angcal._typing import Floats


class Loss(ABC):
    """Convex loss ℓ_y(u) of one raw score u and one label y ∈ {0, 1}."""

    @abstractmethod
    def value(self, scores: Floats, labels: Floats) -> Floats:
        """ℓ_y(u), elementwise."""

    @abstractmethod
    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        """∂ℓ_y(u)/∂u, elementwise; ψ = −gradient in the paper."""

    @abstractmethod
    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        """∂²ℓ_y(u)/∂u², elementwise and where it exists; the diagonal of D in the paper."""

    @property
    def attains_minimum(self) -> bool:
        """Whether each ℓ_y is minimised at a finite score.

        If not, data that a hyperplane separates have no finite unpenalised minimiser.
        """
        return False


def signed(labels: Floats) -> Floats:
    """t = 2y − 1: labels {0, 1} to {−1, +1}."""
    return 2.0 * labels - 1.0


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ_y(u) = log(1 + eᵘ) − y·u.

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


@dataclass(frozen=True)
class ProbitLikelihood(Loss):
    """ℓ_y(u) = −log Φ(t·u)."""

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
    """ℓ_y(u) = ½(u − t)²."""

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
    """ℓ_y(u) = max(0, 1 − t·u)²; its second derivative is 2·1{t·u < 1}, undefined at t·u = 1."""

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
    """ℓ_y(u) = exp(−t·u)."""

    def value(self, scores: Floats, labels: Floats) -> Floats:
        # A line search may probe absurd scores; infinity makes it step back.
        with np.errstate(over="ignore"):
            return np.exp(-signed(labels) * scores)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return -signed(labels) * self.value(scores, labels)

    def hessian(self, scores: Floats, labels: Floats) -> Floats:
        return self.value(scores, labels)
