r"""A multinomial fit in the directions that a softmax can see.

With logits A·v, v = Vx + b ∈ R^q, the objective is, in scikit-learn's scaling,

    J(V, b) = Σ_i ω_i [log Σ_k exp((A v_i)_k) − (A v_i)_{y_i}] + ½ λ ‖V‖²

A constant added to all logits changes nothing. So K classes have q = K − 1 directions: A is an
orthonormal basis of the contrasts (columns that sum to zero), V = AᵀŴ, and the ridge penalty of W
is that of V, because a penalised Ŵ has rows that sum to zero. For two classes scikit-learn fits one
score u, the difference of the logits: A = (−½, ½)ᵀ, q = 1, and J is the logistic objective.

    ψ_i = ω_i Aᵀ(e_{y_i} − p_i)        D_i = ω_i Aᵀ(diag p_i − p_i p_iᵀ)A
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import helmert
from scipy.special import softmax

from angcal._typing import Floats, Matrix


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


@dataclass(frozen=True, eq=False)
class MultinomialFit:
    """A point (V, b) and the penalised problem it solves; see the module.

    Attributes
    ----------
    X : (n, d) array or sparse matrix
    codes : (n,) array of int
        Classes 0, …, K − 1.
    weights : (n,) array
        Positive, class weights folded in.
    coef, intercept : (q, d) and (q,) arrays
        V and b.
    contrast : (K, q) array
        A.
    strength : float
        λ.
    fit_intercept : bool
    """

    X: Matrix
    codes: np.ndarray
    weights: Floats
    coef: Floats
    intercept: Floats
    contrast: Floats
    strength: float
    fit_intercept: bool

    @property
    def n_directions(self) -> int:
        """q."""
        return self.contrast.shape[1]

    @cached_property
    def scores(self) -> Floats:
        """v_i, (n, q)."""
        return np.asarray(self.X @ self.coef.T, dtype=np.float64) + self.intercept

    @cached_property
    def probabilities(self) -> Floats:
        """softmax(A v_i), (n, K)."""
        return softmax(self.scores @ self.contrast.T, axis=1)

    @cached_property
    def residuals(self) -> Floats:
        """ψ_i, (n, q)."""
        missed = -self.probabilities
        missed[np.arange(len(self.codes)), self.codes] += 1.0
        return self.weights[:, None] * (missed @ self.contrast)

    @cached_property
    def curvatures(self) -> Floats:
        """D_i, (n, q, q)."""
        D = softmax_curvatures(self.probabilities, self.contrast)
        return self.weights[:, None, None] * D

    @cached_property
    def gradient(self) -> tuple[Floats, Floats]:
        """∂J/∂V and ∂J/∂b."""
        slopes = -np.asarray(self.X.T @ self.residuals).T + self.strength * self.coef
        offsets = (
            -self.residuals.sum(axis=0) if self.fit_intercept else np.zeros_like(self.intercept)
        )
        return slopes, offsets


def multinomial_fit(
    X: Matrix,
    codes: np.ndarray,
    weights: Floats,
    coef: Floats,
    intercept: Floats,
    *,
    strength: float,
    fit_intercept: bool,
) -> MultinomialFit:
    """The fit of (K, d) class weights, or of one row of weights for two classes.

    Examples
    --------
    >>> fit = multinomial_fit(np.eye(3), np.arange(3), np.ones(3), np.eye(3), np.zeros(3),
    ...                       strength=1.0, fit_intercept=False)
    >>> fit.scores.shape, bool(np.allclose(fit.probabilities.sum(axis=1), 1.0))
    ((3, 2), True)
    """
    n_classes = max(len(coef), 2)
    A = contrasts(n_classes)
    project = np.eye(1) if len(coef) == 1 else A.T
    return MultinomialFit(
        X, codes, weights, project @ coef, project @ intercept, A, strength, fit_intercept
    )
