r"""Penalties g(w), in the mean-loss scaling of the paper.

The library's objective, stated once, with sample weights ω_i and N = Σ ω_i:

    J(w, b) = (1/N) Σ_i ω_i ℓ_{y_i}(x_iᵀw + b) + g(w) + ½ q₀ b²

with q₀ = 0 (a free intercept) unless a solver penalizes it. A penalty is a smooth part plus
``l1``·‖w‖₁. Every consumer needs just four things of it: ``value``, ``gradient`` and
``curvature`` of the smooth part, and ``l1``; write those to bring your own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from angcal._typing import Floats


def require_penalty(penalty: Any) -> Penalty:
    """The penalty itself, unless it is none."""
    if not isinstance(penalty, Penalty):
        raise TypeError(
            f"penalty={penalty!r} is not a Penalty; pass for example Ridge(0.1), in the scaling of "
            "the mean loss, or NoPenalty()."
        )
    return penalty


def _require_nonnegative(name: str, number: float) -> None:
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(
            f"{name}={number!r} must be a finite number of at least 0; "
            "use NoPenalty() for an unpenalized fit."
        )


class Penalty(ABC):
    """Convex penalty g(w) = smooth(w) + l1·‖w‖₁.

    It stands next to the *mean* loss. A penalty of your own is a subclass with ``value``,
    ``gradient`` and ``curvature`` of its smooth part, and ``l1`` if it has one.

    See Also
    --------
    NoPenalty, Ridge, Quadratic, ElasticNet, Lasso, PseudoHuber
    angcal.MEstimator : Fits any loss with any penalty.

    Examples
    --------
    >>> import numpy as np
    >>> coef = np.array([1.0, 2.0])
    >>> Ridge(0.5).gradient(coef), Ridge(0.5).curvature(coef)
    (array([0.5, 1. ]), 0.5)
    """

    @abstractmethod
    def value(self, coef: Floats) -> float:
        """smooth(w), without the ℓ₁ part.

        Parameters
        ----------
        coef : (d,) array
            w.

        Returns
        -------
        float
            At least 0.
        """

    @abstractmethod
    def gradient(self, coef: Floats) -> Floats:
        """∇ smooth(w).

        Parameters
        ----------
        coef : (d,) array
            w.

        Returns
        -------
        (d,) array
            The gradient.
        """

    @abstractmethod
    def curvature(self, coef: Floats) -> Any:
        """∇² smooth(w): a number (times the identity), a (d,) diagonal or a (d, d) matrix.

        Parameters
        ----------
        coef : (d,) array
            w.

        Returns
        -------
        float, (d,) array or (d, d) array
            The Hessian.
        """

    @property
    def l1(self) -> float:
        """Weight of ‖w‖₁; the coordinates it sets to zero leave the Hessian."""
        return 0.0

    def active(self, coef: Floats) -> np.ndarray | None:
        """Mask of the coordinates that move when the data move a little; None means all.

        Parameters
        ----------
        coef : (d,) array
            w.

        Returns
        -------
        (d,) array of bool, or None
            False where ‖w‖₁ keeps a coordinate at zero.
        """
        return coef != 0 if self.l1 > 0 else None


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """g(w) = 0.

    See Also
    --------
    Penalty : What every penalty has.

    Examples
    --------
    >>> import numpy as np
    >>> NoPenalty().value(np.array([1.0, 2.0]))
    0.0
    """

    def value(self, coef: Floats) -> float:
        return 0.0

    def gradient(self, coef: Floats) -> Floats:
        return np.zeros_like(coef)

    def curvature(self, coef: Floats) -> float:
        return 0.0


@dataclass(frozen=True)
class Ridge(Penalty):
    """g(w) = ½·strength·‖w‖². The paper's λ/(2d)·‖w‖² is ``Ridge(λ/d)``.

    scikit-learn's ``LogisticRegression(C)`` on n rows is ``Ridge(1/(n·C))``.

    Parameters
    ----------
    strength : float
        At least 0.

    See Also
    --------
    Penalty : What every penalty has.

    Examples
    --------
    >>> import numpy as np
    >>> Ridge(0.5).value(np.array([1.0, 2.0]))
    1.25
    """

    strength: float

    def __post_init__(self) -> None:
        _require_nonnegative("strength", self.strength)

    def value(self, coef: Floats) -> float:
        return 0.5 * self.strength * float(np.vdot(coef, coef))

    def gradient(self, coef: Floats) -> Floats:
        return self.strength * coef

    def curvature(self, coef: Floats) -> float:
        return self.strength


@dataclass(frozen=True, eq=False)
class Quadratic(Penalty):
    """g(w) = ½ wᵀQw.

    Parameters
    ----------
    matrix : (d, d) array or sparse matrix
        Q, symmetric and positive semi-definite.

    See Also
    --------
    Penalty : What every penalty has.

    Examples
    --------
    >>> import numpy as np
    >>> Quadratic(np.diag([1.0, 3.0])).value(np.array([1.0, 1.0]))
    2.0
    """

    matrix: Any

    def __post_init__(self) -> None:
        Q: Any = self.matrix
        Q = Q if sparse.issparse(Q) else np.asarray(Q, dtype=float)
        object.__setattr__(self, "matrix", Q)
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise ValueError(f"matrix has shape {Q.shape}; a square (d, d) matrix is needed.")
        size, asymmetry = abs(Q).max(), abs(Q - Q.T).max()
        if not np.isfinite(size):
            raise ValueError("matrix has NaN or infinite entries; a penalty needs finite ones.")
        if asymmetry > 1e-10 * size:
            raise ValueError(
                f"matrix is not symmetric (largest difference {asymmetry:.3g}); "
                "pass (Q + Q.T) / 2 if that is what you mean."
            )
        lowest = np.linalg.eigvalsh(Q.toarray() if sparse.issparse(Q) else Q)[0]
        if lowest < -1e-8 * size:
            raise ValueError(
                f"matrix has the negative eigenvalue {lowest:.3g}; a penalty must be convex."
            )

    def value(self, coef: Floats) -> float:
        return 0.5 * float(coef @ (self.matrix @ coef))

    def gradient(self, coef: Floats) -> Floats:
        return np.asarray(self.matrix @ coef)

    def curvature(self, coef: Floats) -> Any:
        return self.matrix.toarray() if sparse.issparse(self.matrix) else self.matrix


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """g(w) = strength·(l1_ratio·‖w‖₁ + ½(1 − l1_ratio)·‖w‖²).

    Parameters
    ----------
    strength : float
        At least 0.
    l1_ratio : float, default=0.5
        Share of ‖w‖₁, between 0 and 1.

    See Also
    --------
    Penalty : What every penalty has.

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(0.4).l1
    0.2
    """

    strength: float
    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        _require_nonnegative("strength", self.strength)
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"l1_ratio={self.l1_ratio!r} must lie in [0, 1].")

    @property
    def l1(self) -> float:
        return self.strength * self.l1_ratio

    @property
    def _l2(self) -> float:
        return self.strength * (1.0 - self.l1_ratio)

    def value(self, coef: Floats) -> float:
        return 0.5 * self._l2 * float(np.vdot(coef, coef))

    def gradient(self, coef: Floats) -> Floats:
        return self._l2 * coef

    def curvature(self, coef: Floats) -> float:
        return self._l2


def Lasso(strength: float) -> ElasticNet:
    """g(w) = strength·‖w‖₁.

    Parameters
    ----------
    strength : float
        At least 0.

    Returns
    -------
    ElasticNet
        With ``l1_ratio=1``.

    See Also
    --------
    ElasticNet : With a ridge beside ‖w‖₁.

    Examples
    --------
    >>> Lasso(0.1)
    ElasticNet(strength=0.1, l1_ratio=1.0)
    """
    return ElasticNet(strength, l1_ratio=1.0)


@dataclass(frozen=True)
class PseudoHuber(Penalty):
    """g(w) = strength·δ²·Σ_j (√(1 + (w_j/δ)²) − 1): quadratic near 0, linear far out.

    The smooth, non-quadratic member of the family: it shrinks large coefficients less than
    ridge does and still has a Hessian everywhere.

    Parameters
    ----------
    strength : float
        At least 0.
    delta : float, default=1.0
        δ > 0, where the penalty turns from quadratic to linear.

    See Also
    --------
    Penalty : What every penalty has.

    Examples
    --------
    >>> import numpy as np
    >>> PseudoHuber(1.0).gradient(np.array([0.0, 1e6])).round(3)
    array([0., 1.])
    """

    strength: float
    delta: float = 1.0

    def __post_init__(self) -> None:
        _require_nonnegative("strength", self.strength)
        if not (np.isfinite(self.delta) and self.delta > 0):
            raise ValueError(f"delta={self.delta!r} must be a positive finite number.")

    def value(self, coef: Floats) -> float:
        z = coef / self.delta
        # z²/(√(1+z²)+1) is √(1+z²) − 1 without its cancellation at small z.
        return self.strength * self.delta**2 * float(np.sum(z**2 / (np.hypot(1.0, z) + 1.0)))

    def gradient(self, coef: Floats) -> Floats:
        return self.strength * coef / np.hypot(1.0, coef / self.delta)

    def curvature(self, coef: Floats) -> Floats:
        return self.strength * np.hypot(1.0, coef / self.delta) ** -3.0
