r"""One design for all penalties: Z with ZZᵀ = XXᵀ, as narrow as X's smaller side.

Under a ridge penalty only inner products of rows matter: with X = ZQᵀ and orthonormal columns in Q,
weights w = Qv have the same scores Zv and the same norm. A whole path of penalties shares one Z:

- both sides short, or one of them: the eigenbasis of XᵀX or of XXᵀ. Z then has orthogonal columns,
  and a Hessian ZᵀDZ + q·I is all but diagonal while the D_i do not differ much;
- many more columns than rows: the Cholesky factor of XXᵀ, n × n instead of n × d;
- otherwise, and for sparse X: X itself.

Dense rows are centred first where there is an intercept, which is free to make up for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from angcal._typing import Floats, Matrix
from angcal.newton import column_moments

# Up to this side an eigenbasis costs less than the iterations that it saves.
LONGEST_EIGENBASIS = 512
# Up to this one it takes next to no time in double precision.
LONGEST_DOUBLE_BASIS = 128
# Up to so many rows, and from so many columns per row, XXᵀ costs less than the products it saves.
MOST_GRAM_ROWS, FEWEST_COLUMNS_PER_ROW = 2000, 1.5
# Eigenvalues below this share of the largest are rounding.
RANK_TOLERANCE = 1e-13
# Columns with moments below this share of the largest do not vary but by rounding.
STILL_SHARE = 1e-9
# What XXᵀ is raised by for its Cholesky factor, as a share of its mean diagonal.
JITTER = 1e-11
# Weakest automatic penalty, as a share of the Hessian's diagonal in a typical column of Z.
WEAKEST_SHARE = 1e-2


@dataclass(frozen=True, eq=False)
class Rotation:
    """Z, v ↦ Qv, and whether the columns of Z mean something of their own.

    Those of a Cholesky factor do not: scaling steps by their moments would mislead.
    """

    Z: Any
    expand: Callable[[Floats], Floats]
    has_own_columns: bool = True

    def even(self, moments: Floats) -> Floats:
        """The columns' moments, or their mean where columns mean nothing."""
        if self.has_own_columns:
            return moments
        return np.broadcast_to(moments.mean(axis=0), moments.shape)


@dataclass(frozen=True, eq=False)
class Design:
    """Z, what it takes to come back to X, and the moments that scale steps and penalties.

    Attributes
    ----------
    Z : (n, k) array or sparse matrix
    labels, weights : (n,) arrays
    fit_intercept : bool
    moments : (k,) array
        Σ_i ω_i z_ij².
    spread : float
        Σ_i ω_i ‖x_i − x̄‖², or about 0 without an intercept.
    typical : float
        Median of the moments about that centre, of the columns that have any.
    n_features : int
        d.
    center : (d,) array or None
        What was subtracted from the rows of X.
    rotation : Rotation
    """

    Z: Matrix
    labels: Floats
    weights: Floats
    fit_intercept: bool
    moments: Floats
    spread: float
    typical: float
    n_features: int
    center: Floats | None
    rotation: Rotation

    @cached_property
    def single(self) -> Matrix:
        """Z in single precision."""
        return self.Z.astype(np.float32)

    @cached_property
    def squares(self) -> Matrix:
        """z_ij² in single precision."""
        return self.single.multiply(self.single) if sparse.issparse(self.Z) else self.single**2

    @property
    def shape(self) -> tuple[int, int]:
        """(n, k)."""
        return self.Z.shape[0], self.Z.shape[1]

    @property
    def prevalence(self) -> float:
        """Weighted share of label 1."""
        return float(np.average(self.labels, weights=self.weights))

    def restore(self, coef: Floats, intercept: float) -> tuple[Floats, float]:
        """(w, b) for rows of X from (v, b) for rows of Z."""
        w = self.rotation.expand(coef)
        return w, intercept - (0.0 if self.center is None else float(self.center @ w))

    def restore_all(self, coefs: Floats) -> Floats:
        """(m, d) weights for rows of X from the (k, m) ones for rows of Z."""
        return np.ascontiguousarray(self.rotation.expand(coefs).T)

    def grid(self, count: int) -> Floats:
        """C from where the fit has about one degree of freedom to where it has nearly all.

        With D̄ = p(1−p), the curvature of a constant fit, df ≤ D̄·Σω_i‖x_i−x̄‖²/q. The grid ends
        at a hundredth of D̄ times the median moment of Z's columns, in the eigenbasis an
        eigenvalue. It follows the unit of X: columns ten times as large have a grid a hundred
        times as small.
        """
        strongest = self.prevalence * (1.0 - self.prevalence) * self.spread
        if not strongest > 0:
            return np.geomspace(1e-4, 1e4, count)  # no column varies, and any C does the same
        weakest = WEAKEST_SHARE * strongest * self.typical / self.spread
        return np.geomspace(1.0 / strongest, 1.0 / weakest, count)


def make_design(X: Matrix, labels: Floats, weights: Floats, fit_intercept: bool) -> Design:
    """The narrowest design that is worth its making; see the module."""
    d = X.shape[1]
    center = None
    rotation = Rotation(X, _unchanged)
    if not sparse.issparse(X):
        rows = np.asarray(X, dtype=np.float64)
        center = weights @ rows / weights.sum() if fit_intercept else None
        rows = rows if center is None else rows - center
        rotation = _rotate(rows)
    Z = rotation.Z
    moments = column_moments(Z, weights)
    central = moments
    if center is None and fit_intercept:
        central = moments - np.asarray(Z.T @ weights) ** 2 / weights.sum()
    moving = central[central > STILL_SHARE * max(float(moments.max(initial=0.0)), 1e-300)]
    return Design(
        Z=Z,
        labels=labels,
        weights=weights,
        fit_intercept=fit_intercept,
        moments=rotation.even(moments),
        spread=float(moving.sum()),
        typical=float(np.median(moving)) if len(moving) else 0.0,
        n_features=d,
        center=center,
        rotation=rotation,
    )


def _unchanged(v: Floats) -> Floats:
    return v


def _rotate(X: Floats) -> Rotation:
    """Z and Q of dense rows; see the module."""
    n, d = X.shape
    if min(n, d) <= LONGEST_EIGENBASIS:
        return _eigenbasis(X) if d <= n else _row_eigenbasis(X)
    if n <= MOST_GRAM_ROWS and d >= FEWEST_COLUMNS_PER_ROW * n:
        gram = X @ X.T
        gram[np.diag_indices(n)] += JITTER * max(float(np.trace(gram)) / n, 1e-300)
        factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        # X = LQᵀ, hence Q = XᵀL⁻ᵀ.
        return Rotation(
            factor,
            lambda v: X.T @ linalg.solve_triangular(factor, v, lower=True, trans=1),
            has_own_columns=False,
        )
    return Rotation(X, _unchanged)


def _eigenbasis(X: Floats) -> Rotation:
    gram = X.T @ X
    if len(gram) > LONGEST_DOUBLE_BASIS:
        # Any orthogonal basis would do, and eigenvectors in single precision are orthogonal to
        # 1e-6. Every column is kept, so that nothing of X is lost.
        gram = gram.astype(np.float32)
    values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    basis = vectors.astype(np.float64, copy=False)
    if vectors.dtype == np.float64:
        basis = basis[:, values > RANK_TOLERANCE * max(float(values[-1]), 1e-300)]
    return Rotation(X @ basis, lambda v: basis @ v)


def _row_eigenbasis(X: Floats) -> Rotation:
    values, vectors = linalg.eigh(X @ X.T, driver="evd", check_finite=False)
    kept = values > RANK_TOLERANCE * max(float(values[-1]), 1e-300)
    lengths, basis = np.sqrt(values[kept]), vectors[:, kept]
    return Rotation(basis * lengths, lambda v: X.T @ (basis @ (v.T / lengths).T))
