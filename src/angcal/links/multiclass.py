r"""Links of one or more indices: π(x) = g(G), G = (w*₁ᵀx, …, w*_Kᵀx).

A link takes an (n, K) array of indices and gives an (n, L) array of class probabilities. Links of
one number g(u) ∈ [0, 1] have two classes, and give the columns 1 − g and g.

    softmax      g_k(u) = exp(u_k + b_k)/Σ_l exp(u_l + b_l)
    one-vs-rest  g_k(u) = σ(u_k)/Σ_l σ(u_l)
    two layers   g(u) = Σ_k a_k σ(u_k), the outer weights a_k frozen
    additive     g(u) = Σ_k f_k(u_k)
    interaction  g(u) = Σ_k f_k(u_k) + Σ_{k<l} h_kl(u_k, u_l)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from scipy.special import log_expit, softmax

from angcal._typing import Floats
from angcal.links.base import Link
from angcal.links.families import Logit

ROUNDING = 1e-9
"""By how much sums of parts that are meant as probabilities may miss [0, 1]."""


class MulticlassLink:
    """g: ℝᴷ → probabilities of L classes.

    Attributes
    ----------
    n_indices : int
        K.
    n_outputs : int
        L, the number of classes.

    See Also
    --------
    Softmax, TwoLayer, AdditiveIndex, InteractionIndex, CallableMulticlassLink : Its kinds.

    Examples
    --------
    >>> Softmax(3)([[0.0, 0.0, 0.0]]).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    n_indices: int
    n_outputs: int

    def _evaluate(self, u: Floats) -> Any:
        """g at (n, K) indices: (n, L) probabilities, or (n,) of class 1 if L = 2."""
        raise NotImplementedError(f"{type(self).__name__} must define _evaluate.")

    def __call__(self, indices: ArrayLike) -> Floats:
        """Class probabilities at the indices."""
        u = np.asarray(indices, dtype=np.float64)
        if u.ndim != 2 or u.shape[1] != self.n_indices:
            raise ValueError(
                f"indices must have the shape (n, {self.n_indices}); got {np.shape(indices)}."
            )
        p = np.asarray(self._evaluate(u), dtype=np.float64)
        if p.shape == (len(u),) and self.n_outputs == 2:
            p = np.column_stack([1.0 - p, p])
        if p.shape != (len(u), self.n_outputs):
            raise ValueError(
                f"the link gave an array of shape {p.shape} for {len(u)} rows; it must give "
                f"(n, {self.n_outputs})."
            )
        wrong = ~((p >= -ROUNDING) & (np.abs(p.sum(axis=1, keepdims=True) - 1.0) <= 1e-6))
        if wrong.any():
            raise ValueError(
                f"{type(self).__name__} gave {p[wrong][0]:.3g} for a class: no probability, or no "
                "probabilities that sum to 1. Scale its parts so that they stay in [0, 1]."
            )
        return np.clip(p, 0.0, 1.0)


def contrasts(n_classes: int) -> Floats:
    """A: (K, K − 1) with orthonormal columns that sum to zero; (−½, ½)ᵀ for two classes.

    Parameters
    ----------
    n_classes : int
        K.

    Returns
    -------
    (K, K − 1) array
        A.

    See Also
    --------
    index_map : Its inverse.

    Examples
    --------
    >>> contrasts(3).sum(axis=0).round(12) + 0.0
    array([0., 0.])
    """
    if n_classes == 2:
        return np.array([[-0.5], [0.5]])
    return np.ascontiguousarray(helmert(n_classes).T)


def index_map(contrast: Floats) -> Floats:
    """A⁺, the map from class logits to the directions that a softmax can see.

    Parameters
    ----------
    contrast : (K, K − 1) array
        A.

    Returns
    -------
    (K − 1, K) array
        A⁺.

    See Also
    --------
    contrasts : A.

    Examples
    --------
    >>> A = contrasts(3)
    >>> (index_map(A) @ A).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    return np.asarray(np.linalg.pinv(contrast), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Softmax(MulticlassLink):
    """g_k(u) = exp(u_k + b_k)/Σ_l exp(u_l + b_l).

    Parameters
    ----------
    n_classes : int
        K ≥ 2.
    offset : array-like of shape (K,), optional
        b; zero by default.
    covariance : array-like of shape (K, K), optional
        Cov(G) of the indices. A softmax with it is wholly known; without it, only its form is.

    See Also
    --------
    MulticlassLink : What every such link can do.

    Examples
    --------
    >>> Softmax(2)([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    n_classes: int
    offset: ArrayLike | None = None
    covariance: ArrayLike | None = None

    def __post_init__(self) -> None:
        K = self.n_classes
        if K < 2:
            raise ValueError(f"n_classes={K} must be at least 2.")
        offset = np.zeros(K) if self.offset is None else np.asarray(self.offset, dtype=np.float64)
        if offset.shape != (K,) or not np.all(np.isfinite(offset)):
            raise ValueError(f"offset must hold {K} finite numbers, one for each class.")
        object.__setattr__(self, "offset", offset)
        if self.covariance is not None:
            object.__setattr__(self, "covariance", as_covariance(self.covariance, K))

    @property
    def n_indices(self) -> int:  # type: ignore[override]
        """K."""
        return self.n_classes

    n_outputs = n_indices

    def _evaluate(self, u: Floats) -> Floats:
        return softmax(u + np.asarray(self.offset), axis=1)


@dataclass(frozen=True)
class OneVsRest(MulticlassLink):
    """g_k(u) = σ(u_k)/Σ_l σ(u_l), σ the logistic curve: one head for each class against the rest.

    Parameters
    ----------
    n_classes : int
        K.

    See Also
    --------
    Softmax : The link of a joint fit.

    Examples
    --------
    >>> OneVsRest(2)([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    n_classes: int

    @property
    def n_indices(self) -> int:  # type: ignore[override]
        """K."""
        return self.n_classes

    n_outputs = n_indices

    def _evaluate(self, u: Floats) -> Floats:
        # log σ, so that scores that all are far below zero still have shares.
        return softmax(log_expit(u), axis=1)


def as_covariance(matrix: ArrayLike, size: int, name: str = "covariance") -> Floats:
    """The matrix as floats, symmetric and without negative eigenvalues; singular ones will do."""
    values = np.asarray(matrix, dtype=np.float64)
    if values.shape != (size, size) or not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be a finite {size} × {size} matrix.")
    scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
    if np.abs(values - values.T).max() > 1e-8 * scale:
        raise ValueError(f"{name} is not symmetric.")
    lowest = float(np.linalg.eigvalsh(values)[0])
    if lowest < -1e-8 * scale:
        raise ValueError(f"{name} has a negative eigenvalue ({lowest:.3g}).")
    return 0.5 * (values + values.T)


@dataclass(frozen=True, eq=False)
class TwoLayer(MulticlassLink):
    """g(u) = Σ_k a_k σ(u_k), a_k ≥ 0 and Σ a_k ≤ 1.

    Parameters
    ----------
    outer : array-like of shape (K,)
        a.
    inner : Link, default=Logit()
        σ.

    See Also
    --------
    MulticlassLink : What every such link can do.

    Examples
    --------
    >>> TwoLayer((0.5, 0.5))([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    outer: ArrayLike
    inner: Link = field(default_factory=Logit)
    n_outputs = 2

    def __post_init__(self) -> None:
        outer = np.asarray(self.outer, dtype=np.float64).ravel()
        if not len(outer) or not np.all(outer >= 0) or outer.sum() > 1.0 + ROUNDING:
            raise ValueError(
                f"outer={self.outer!r} must hold weights of at least 0 that sum to at most 1."
            )
        object.__setattr__(self, "outer", outer)

    @property
    def n_indices(self) -> int:  # type: ignore[override]
        """K."""
        return len(np.asarray(self.outer))

    def _evaluate(self, u: Floats) -> Floats:
        return np.asarray(self.inner(u)) @ np.asarray(self.outer)


@dataclass(frozen=True, eq=False)
class AdditiveIndex(MulticlassLink):
    """g(u) = Σ_k f_k(u_k).

    Parameters
    ----------
    parts : sequence of callables
        f_k, each of an array.

    See Also
    --------
    MulticlassLink : What every such link can do.

    Examples
    --------
    >>> AdditiveIndex([lambda u: 0.25, lambda u: 0.5 * (u > 0)])([[0.0, 1.0]])
    array([[0.25, 0.75]])
    """

    parts: tuple[Callable[[Floats], Floats], ...]
    n_outputs = 2

    def __post_init__(self) -> None:
        if not len(self.parts):
            raise ValueError("parts must hold at least one function.")
        object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def n_indices(self) -> int:  # type: ignore[override]
        """K."""
        return len(self.parts)

    def _evaluate(self, u: Floats) -> Floats:
        return sum((f(u[:, k]) for k, f in enumerate(self.parts)), np.zeros(len(u)))


@dataclass(frozen=True, eq=False)
class InteractionIndex(AdditiveIndex):
    """g(u) = Σ_k f_k(u_k) + Σ_{k<l} h_kl(u_k, u_l).

    Parameters
    ----------
    parts : sequence of callables
        f_k.
    pairs : mapping from (int, int) to callable
        h_kl at the key (k, l), each of two arrays.

    See Also
    --------
    MulticlassLink : What every such link can do.

    Examples
    --------
    >>> product = {(0, 1): lambda u, v: 0.5 * (u * v > 0)}
    >>> InteractionIndex([np.zeros_like, np.zeros_like], product)([[1.0, 1.0]])
    array([[0.5, 0.5]])
    """

    pairs: Mapping[tuple[int, int], Callable[[Floats, Floats], Floats]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for k, l in self.pairs:
            if not 0 <= k < l < len(self.parts):
                raise ValueError(
                    f"pairs has the key {(k, l)}; keys are (k, l) with 0 <= k < l < "
                    f"{len(self.parts)}."
                )

    def _evaluate(self, u: Floats) -> Floats:
        total = super()._evaluate(u)
        for (k, l), h in self.pairs.items():
            total = total + h(u[:, k], u[:, l])
        return total


@dataclass(frozen=True, eq=False)
class CallableMulticlassLink(MulticlassLink):
    """A user's g: an (n, K) array to (n,) probabilities of class 1, or to (n, L) of all classes.

    Parameters
    ----------
    function : callable
        g.
    n_indices : int
        K.
    n_outputs : int, default=2
        L.

    See Also
    --------
    MulticlassLink : What every such link can do.

    Examples
    --------
    >>> CallableMulticlassLink(lambda u: 0.5 + 0.5 * (u[:, 0] > u[:, 1]), 2)([[1.0, 0.0]])
    array([[0., 1.]])
    """

    function: Callable[[Floats], Any]
    n_indices: int
    n_outputs: int = 2

    def _evaluate(self, u: Floats) -> Any:
        return self.function(u)
