r"""How strong the signal is and where it lies: evidence of a pilot's labels for (κ, p).

Labels are probits of a Gaussian process, P(y = 1) = Φ(f), f ~ N(0, κ₀²κ²K_p + const), with
κ₀ = √(π/8), which makes a probit of a logit, and K_p = X Σ^(p−1) Xᵀ scaled to mean diagonal 1: the
prior under which directions of eigenvalue s hold a share ∝ s^p of the signal. The evidence is that
of expectation propagation (Rasmussen and Williams 2006, section 3.6), all sites at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import erfcx, log_ndtr

from angcal._typing import Floats

PROBIT = np.sqrt(np.pi / 8.0)
"""κ₀: the logistic function at u is about Φ(κ₀u)."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Rows in the eigenbasis of Σ: what K_p is made of for every p.

    Attributes
    ----------
    inner : (n, k) array
        Coordinates along the k eigenvectors that rows determine.
    values : (k,) array
        Eigenvalues.
    rest : (n, n) array
        Inner products of what lies outside.
    floor : float
        The eigenvalue that is taken for the rest.
    """

    inner: Floats
    values: Floats
    rest: Floats
    floor: float

    def kernel(self, p: float) -> Floats:
        """K_p, mean diagonal 1."""
        scale = float(self.values.max())
        weights = (np.maximum(self.values, self.floor) / scale) ** (p - 1.0)
        outside = (self.floor / scale) ** (p - 1.0)
        K = (self.inner * weights) @ self.inner.T + outside * self.rest
        return K / np.mean(np.diag(K))


def directions_of(X: Floats, pool: Floats | None) -> Directions:
    """Eigenvectors of the pool's covariance, or of the rows' own with shrunken eigenvalues."""
    centered = X - (X if pool is None else pool).mean(axis=0)
    others = centered if pool is None else pool - pool.mean(axis=0)
    values, vectors = _principal(others)
    if pool is None:
        values = _shrunken(values, len(X), X.shape[1])
    inner = centered @ vectors
    rest = centered @ centered.T - inner @ inner.T
    typical = float(np.sum(values)) / X.shape[1]
    return Directions(inner, values, rest, 0.05 * typical)


def _principal(rows: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of rowsᵀrows/m, those above rounding."""
    m, d = rows.shape
    if m <= d:
        found, left = np.linalg.eigh(rows @ rows.T)
        kept = found > 1e-10 * max(float(found[-1]), 1e-300)
        return found[kept] / m, rows.T @ (left[:, kept] / np.sqrt(found[kept]))
    found, vectors = np.linalg.eigh(rows.T @ rows)
    kept = found > 1e-10 * max(float(found[-1]), 1e-300)
    return found[kept] / m, vectors[:, kept]


def _shrunken(values: Floats, n: int, d: int) -> Floats:
    """Eigenvalues of few rows drawn towards their mean: what they mostly scatter by is chance."""
    mean = float(values.sum()) / d
    scatter = float(np.sum(values**2)) / d - mean**2
    # tr Σ²/d without the part d·mean²/n that sampling adds.
    true = max(float(np.sum(values**2)) / d - mean**2 * d / n - mean**2, 0.0)
    share = true / scatter if scatter > 0 else 0.0
    return share * values + (1.0 - share) * mean


def log_evidence(K: Floats, signs: Floats, sites: Any = None) -> tuple[float, tuple[Any, Any]]:
    """(log Z, sites) of labels ±1 under a probit process of covariance K.

    Parameters
    ----------
    K : (n, n) array
    signs : (n,) array
        2y − 1.
    sites : (tau, nu), optional
        Where to start, from a similar K.
    """
    n = len(signs)
    tau, nu = (np.zeros(n), np.zeros(n)) if sites is None else sites
    last = -np.inf
    for _ in range(12):
        variance, mean, log_det = _posterior(K, tau, nu)
        cavity_tau = np.maximum(1.0 / variance - tau, 1e-10)
        cavity_nu = mean / variance - nu
        value, new_tau, new_nu = _tilted(cavity_tau, cavity_nu, signs)
        total = float(value.sum()) - log_det + _correction(tau, nu, cavity_tau, cavity_nu, mean)
        tau, nu = tau + 0.8 * (new_tau - tau), nu + 0.8 * (new_nu - nu)
        if abs(total - last) < 0.02:
            break
        last = total
    return total, (tau, nu)


def _posterior(K: Floats, tau: Floats, nu: Floats) -> tuple[Floats, Floats, float]:
    """Variances, means, and ½ log|B| of the process given Gaussian sites."""
    root = np.sqrt(tau)
    B = root[:, None] * K * root
    B[np.diag_indices_from(B)] += 1.0
    L = cholesky(B, lower=True, check_finite=False)
    V = solve_triangular(L, root[:, None] * K, lower=True, check_finite=False)
    variance = np.maximum(np.diag(K) - np.einsum("ij,ij->j", V, V), 1e-12)
    mean = K @ nu - V.T @ (V @ nu)
    return variance, mean, float(np.sum(np.log(np.diag(L))))


def _tilted(tau: Floats, nu: Floats, signs: Floats) -> tuple[Floats, Floats, Floats]:
    """log Φ of each label given its cavity, and the sites that match its moments."""
    variance, mean = 1.0 / tau, nu / tau
    spread = np.sqrt(1.0 + variance)
    z = signs * mean / spread
    ratio = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    slope = signs * ratio / spread
    curvature = np.maximum(ratio * (z + ratio), 1e-12) / (1.0 + variance)
    moved = mean + variance * slope
    narrowed = variance * (1.0 - variance * curvature)
    new_tau = np.maximum(1.0 / narrowed - tau, 1e-10)
    return log_ndtr(z), new_tau, moved / narrowed - nu


def _correction(tau: Floats, nu: Floats, c_tau: Floats, c_nu: Floats, mean: Floats) -> float:
    """The Gaussian terms of log Z."""
    both, c_mean = tau + c_tau, c_nu / c_tau
    terms = 0.5 * np.log1p(tau / c_tau) + 0.5 * nu * mean - 0.5 * nu**2 / both
    return float(np.sum(terms + 0.5 * c_mean * c_tau / both * (tau * c_mean - 2.0 * nu)))


def evidence_grid(directions: Directions, labels: Floats, kappas: Floats, powers: Floats) -> Floats:
    """log Z for every κ (rows) and p (columns)."""
    signs = 2.0 * labels - 1.0
    found = np.empty((len(kappas), len(powers)))
    for column, p in enumerate(powers):
        K = directions.kernel(float(p))
        sites = None
        for row, kappa in enumerate(kappas):
            # A flat offset: its prior has a deviation of three in units of the probit.
            total, sites = log_evidence((PROBIT * kappa) ** 2 * K + 9.0, signs, sites)
            found[row, column] = total
    return found
