r"""Cross-index angles C = Cov(G, S) from the training labels, where Cov(G) is known.

In the directions h = A⁺G that a softmax can see, with whitened leave-one-out scores s̃:

- *Stein*: Cov(Y, S) = J·Cov(h, S), J = E ∇softmax, so C = J⁺·Cov(Y, S): one linear solve.
- *likelihood*: maximize Σ log P(y_i | s̃_i). With Cov(h) = ΓΓᵀ every C that is compatible with it is

      C = Γ·T,   T = V⁻¹B,   VVᵀ = I + BBᵀ,   h = ΓV⁻¹(B s̃ + z),  z ~ N(0, I)

  for one unconstrained matrix B, so that the noise can never turn negative. Starts at Stein's C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from angcal._typing import Floats
from angcal.arrays import symmetric_root
from angcal.covariance import RANK_TOLERANCE
from angcal.leverages.groups import Groups
from angcal.multiclass.integration import (
    Rule,
    SmoothedLikelihood,
    noise_of,
    rule_for,
    sobol_rule,
    tensor_rule,
)


@dataclass(frozen=True, eq=False)
class Whitened:
    """Scores in uncorrelated units: s = center + factor·s̃.

    Attributes
    ----------
    values : (n, m) array
        s̃, with as many columns as the scores have trusted directions.
    center : (K,) array
    factor : (K, m) array
        R^½ on these directions.
    inverse : (m, K) array
        s − center to s̃.
    """

    values: Floats
    center: Floats
    factor: Floats
    inverse: Floats


def whiten(scores: Floats, weights: Floats, fitted: Floats | None = None) -> Whitened:
    r"""Whitened scores in the directions that vary with the rows.

    Leaving a row out moves its score against its own label. Where the fit itself hardly varies,
    as in fewer columns than classes ask for, that step is all there is to see: scores of new rows
    have nothing there, and whatever is learned from it is the label itself. With κ the share

        κ = Var(fitted scores)/Var(leave-one-out scores)

    along the directions that are uncorrelated in both, a direction is trusted where κ is near 1 or
    above. The fitted scores of rows that a fit follows vary more, not less, than those left out.

    Parameters
    ----------
    scores : (n, K) array
        Leave-one-out scores.
    weights : (n,) array
    fitted : (n, K) array, optional
        Scores of the same rows under the fit with them; without these all directions are trusted.
    """
    center = np.average(scores, axis=0, weights=weights)
    centered = scores - center
    R = (centered * weights[:, None]).T @ centered / weights.sum()
    variances, axes = np.linalg.eigh(R)
    kept = variances > RANK_TOLERANCE * max(float(variances[-1]), np.finfo(float).tiny)
    deviations, axes = np.sqrt(variances[kept]), axes[:, kept]
    factor, inverse = axes * deviations, (axes / deviations).T
    if fitted is not None:
        within = (fitted - np.average(fitted, axis=0, weights=weights)) @ inverse.T
        shares, turn = np.linalg.eigh((within * weights[:, None]).T @ within / weights.sum())
        # Full-rank designs have 0.95 and more in all directions (digits, newsgroups, Semeion, USPS,
        # Splice, TOX-171, Gaussian rows). Below, held-out losses of a map that trusts all
        # directions were 1.1 to 8 times those of temperature scaling (plants, rows of low rank).
        turn = turn[:, shares >= 0.9]
        factor, inverse = factor @ turn, turn.T @ inverse
    return Whitened(centered @ inverse.T, center, factor, inverse)


def fitting_rule(covariance: Floats) -> Rule:
    """Nodes for noise of at most this covariance, fewer than a prediction takes.

    Their error averages over the rows.
    """
    q, most = len(covariance), 31
    spread = float(np.sqrt(max(np.linalg.eigvalsh(covariance)[-1], 0.0)))
    if spread == 0.0:
        return rule_for(np.empty(0))
    if q > 2:
        return sobol_rule(q, groups=4)
    coarse = rule_for(np.full(q, spread), 0.75)
    if q > 1 and len(coarse.nodes) > most**q:
        return tensor_rule((most,) * q)
    return coarse


def stein_covariance(
    codes: np.ndarray,
    weights: Floats,
    whitened: Whitened,
    contrast: Floats,
    offset: Floats,
    index_covariance: Floats,
) -> Floats:
    """Cov(h, s̃) = J⁺·Cov(Y, s̃), (q, m), from the index covariance Cov(h)."""
    noise = noise_of(index_covariance)
    rule = rule_for(noise.spreads)
    logits = noise.shifts(rule) @ contrast.T + offset
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # Aᵀ E[diag p − ppᵀ] A
    mean_p = rule.weights @ p
    jacobian = np.diag(mean_p) - (p * rule.weights[:, None]).T @ p
    J = contrast.T @ jacobian @ contrast
    Y = np.zeros((len(codes), len(contrast)))
    Y[np.arange(len(codes)), codes] = 1.0
    Y -= np.average(Y, axis=0, weights=weights)
    cross = contrast.T @ ((Y * weights[:, None]).T @ whitened.values) / weights.sum()
    return np.linalg.pinv(J, hermitian=True) @ cross


@dataclass(frozen=True, eq=False)
class CrossAngles:
    """C between the indices that a softmax can see and the whitened scores.

    Attributes
    ----------
    covariance : (q, m) array
        Cov(h, s̃).
    variance : (q·m, q·m) array
        Of its entries.
    index_covariance : (q, q) array
        Cov(h).
    log_likelihood : float
    """

    covariance: Floats
    variance: Floats
    index_covariance: Floats
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class KnownIndices:
    """The likelihood as a function of B; see the module.

    Attributes
    ----------
    likelihood : SmoothedLikelihood
    scores : (n, m) array
        s̃.
    root : (q, q) array
        Γ with ΓΓᵀ = Cov(h).
    """

    likelihood: SmoothedLikelihood
    scores: Floats
    root: Floats

    def maps(self, B: Floats) -> tuple[Floats, Floats]:
        """(ΓV⁻¹, V)."""
        V = np.asarray(np.linalg.cholesky(np.eye(len(B)) + B @ B.T), dtype=np.float64)
        return solve_triangular(V, self.root.T, lower=True, trans="T").T, V

    def covariance(self, B: Floats) -> Floats:
        """C = ΓV⁻¹B."""
        return self.maps(B)[0] @ B

    def loss(self, flat: Floats) -> tuple[float, Floats]:
        """−log likelihood and its gradient in B."""
        q, m = len(self.root), self.scores.shape[1]
        B = flat.reshape(q, m)
        W, V = self.maps(B)
        inner = self.scores @ B.T
        value, slopes, in_noise = self.likelihood(inner @ W.T, W)
        in_W = slopes.T @ inner + in_noise
        in_B = W.T @ (slopes.T @ self.scores)
        # W = ΓV⁻¹, so dW = −W dV V⁻¹; then through the Cholesky factor of I + BBᵀ.
        in_V = np.tril(-solve_triangular(V, (W.T @ in_W).T, lower=True).T)
        inner_part = np.tril(V.T @ in_V)
        inner_part[np.diag_indices_from(inner_part)] *= 0.5
        outer = solve_triangular(V, inner_part, lower=True, trans="T")
        in_M = solve_triangular(V, outer.T, lower=True, trans="T").T
        in_B = in_B + (in_M + in_M.T) @ B
        return value, in_B.ravel()

    def start(self, covariance: Floats) -> Floats:
        """B of a covariance, its T shortened where it claims to know everything."""
        T = np.linalg.pinv(self.root) @ covariance
        U, sizes, Vt = np.linalg.svd(T, full_matrices=False)
        # At one the noise would vanish, and with it the way back.
        T = (U * np.minimum(sizes, 0.95)) @ Vt
        # The lower V with VᵀV = (I − TTᵀ)⁻¹: a Cholesky factor from the other corner.
        N = np.linalg.inv(np.eye(len(T)) - T @ T.T)[::-1, ::-1]
        V = np.linalg.cholesky(N)[::-1, ::-1].T
        return V @ T

    def information(self, B: Floats) -> Floats:
        """Second derivatives of the loss in B, by central differences of its gradient."""
        H = _differences(lambda flat: self.loss(flat)[1], B.ravel())
        return 0.5 * (H + H.T)

    def jacobian(self, B: Floats) -> Floats:
        """∂C/∂B, (q·m, q·m)."""
        return _differences(lambda flat: self.covariance(flat.reshape(B.shape)).ravel(), B.ravel())


def _differences(f: Callable[[Floats], Floats], x: Floats) -> Floats:
    """∂f_i/∂x_j by central differences."""
    h = 1e-4
    moves = h * np.eye(len(x))
    return np.column_stack([(f(x + move) - f(x - move)) / (2.0 * h) for move in moves])


def estimate_known(
    codes: np.ndarray,
    weights: Floats,
    whitened: Whitened,
    contrast: Floats,
    offset: Floats,
    index_covariance: Floats,
    inflation: float = 1.75,
) -> CrossAngles:
    """C by likelihood from Stein's start, where Cov(h) and the offset are known.

    Leave-one-out scores depend on each other, which raises the variance by `inflation`; it is 1 for
    scores of fresh rows. Over simulated designs (n from d to 3d, K = 3 and 5, three strengths of
    the signal) the mean squared z-score without this factor was 1.0 to 2.4.
    """
    likelihood = SmoothedLikelihood(
        codes, weights, contrast, offset, fitting_rule(index_covariance)
    )
    problem = KnownIndices(likelihood, whitened.values, symmetric_root(index_covariance))
    first = stein_covariance(codes, weights, whitened, contrast, offset, index_covariance)
    start = problem.start(first)
    found = minimize(
        problem.loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    B = found.x.reshape(start.shape)
    J = problem.jacobian(B)
    variance = inflation * J @ np.linalg.pinv(problem.information(B), hermitian=True) @ J.T
    return CrossAngles(problem.covariance(B), variance, index_covariance, -float(found.fun))


def of_groups(
    found: CrossAngles, residuals: Floats, weights: Floats, whitened: Whitened, groups: Groups
) -> CrossAngles:
    """The same with the variance that labels of groups leave, by the design effect of r_i s̃_iᵀ."""
    pulls = residuals[:, :, None] * whitened.values[:, None, :]
    return replace(found, variance=groups.design_effect(pulls, weights) * found.variance)
