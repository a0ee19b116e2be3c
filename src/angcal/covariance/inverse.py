"""Σ⁻¹ from a matrix that fits in memory: x_iᵀΣ⁻¹x_j by a Cholesky factor or on Σ's range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, namespace_of, on_host, placed_like
from angcal.leverages import weighted_gram
from angcal.pools import DENSE_ROUNDING, SPARSE_ROUNDING, open_pool
from angcal.rows import Rows, as_rows, dense_parts

RANK_TOLERANCE = 1e-10
"""Directions with less than this share of the largest variance say nothing that others do not."""


@dataclass(frozen=True, eq=False)
class Precision:
    """Σ⁻¹ on the range of Σ: a Cholesky factor of Σ, W with WWᵀ = Σ⁻¹, or an operator.

    Attributes
    ----------
    rank : int
        Dimension of the range of Σ.
    source : str
        Where Σ comes from, for the reason that an angle states.
    fresh : bool
        Whether the training rows are independent of the rows that gave Σ̂, so that they can
        measure its inflation.
    method : {"exact", "conjugate gradients"}
        Whether products are exact to rounding, or solved for by passes over a pool.
    rows : int
        Rows that gave Σ̂; 0 where Σ is known.
    """

    rank: int
    source: str
    estimated: bool
    fresh: bool
    cholesky: Floats | None = None
    root: Floats | None = None
    operator: Any = None
    method: str = "exact"
    rows: int = 0

    def pair(self, rows: Floats) -> tuple[Floats, Floats]:
        """Two arrays (A, B) of as many rows, with (A Bᵀ)_ij = x_iᵀΣ⁻¹x_j; tensors for tensors."""
        if is_tensor(rows) and self.operator is None:
            white = rows @ self._root_like(rows)
            return white, white
        if is_tensor(rows):
            solved = np.asarray(self.operator.solve(on_host(rows).T)).T
            return rows, placed_like(solved, rows)
        if self.operator is not None:
            return rows, np.asarray(self.operator.solve(rows.T)).T
        if self.root is not None:
            white = rows @ self.root
        else:
            white = linalg.solve_triangular(self.cholesky, rows.T, lower=True, check_finite=False).T
        return white, white

    def _root_like(self, rows: Any) -> Any:
        """W with WWᵀ = Σ⁻¹ where the rows are; the array API has no triangular solve."""
        if self.root is not None:
            return placed_like(self.root, rows)
        return namespace_of(rows).linalg.inv(placed_like(self.cholesky, rows)).T

    def products(
        self, X: Matrix, center: Floats | None, residuals: Floats
    ) -> tuple[Floats, Floats]:
        """(x_iᵀΣ⁻¹Xᵀψ)_i and (x_iᵀΣ⁻¹x_i)_i for centered rows, one block of rows at a time.

        An operator with ``products`` of its own, such as :class:`PoolInverse`, is asked for them.
        """
        shift = np.zeros(X.shape[1]) if center is None else center
        if hasattr(self.operator, "products"):
            return self.operator.products(X, shift, residuals)
        elsewhere = isinstance(X, Rows)
        total = X.pull(residuals)[: X.shape[1]] if elsewhere else np.asarray(X.T @ residuals)
        _, direction = self.pair((total - shift * residuals.sum())[None, :])
        if elsewhere:
            found = X.map(partial(_products_of_block, self), (shift, direction))
            return found[:, 0], found[:, 1]
        along, squares = np.empty(X.shape[0]), np.empty(X.shape[0])
        for rows, block in as_rows(X, False).dense_blocks():
            left, right = self.pair(block - shift)
            along[rows] = left @ direction[0]
            squares[rows] = np.einsum("ij,ij->i", left, right)
        return along, squares


def _products_of_block(inverse: Precision, X: Any, shift: Floats, direction: Floats) -> Floats:
    """x_iᵀΣ⁻¹d and x_iᵀΣ⁻¹x_i of a block, (rows, 2)."""
    found = np.empty((X.shape[0], 2))
    for part, rows in dense_parts(X):
        left, right = inverse.pair(rows - placed_like(shift, rows))
        found[part, 0] = on_host(left @ placed_like(direction[0], left))
        found[part, 1] = on_host((left * right).sum(axis=1))
    return found


def is_operator(covariance: Any) -> bool:
    """Whether Σ comes as an object that multiplies and solves rather than as a matrix."""
    return hasattr(covariance, "solve") and hasattr(covariance, "norm")


def check_covariance(matrix: Any, n_features: int) -> Floats:
    """Return the matrix as floats, or raise an error that says what is wrong with it."""
    try:
        S = np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"covariance={matrix!r} is neither a ({n_features}, {n_features}) matrix, nor an "
            "object with solve and norm, nor a scikit-learn covariance estimator."
        ) from error
    if S.shape != (n_features, n_features):
        raise ValueError(
            f"covariance has shape {S.shape}, but X has {n_features} columns; "
            f"pass a ({n_features}, {n_features}) matrix."
        )
    if not np.all(np.isfinite(S)):
        raise ValueError("covariance contains NaN or infinite entries; drop or impute them.")
    asymmetry = float(np.abs(S - S.T).max())
    if asymmetry > 1e-8 * float(np.abs(S).max()):
        raise ValueError(
            f"covariance is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (S + S.T) / 2 if that is what you mean."
        )
    return 0.5 * (S + S.T)


def invert(
    matrix: Floats, *, source: str, estimated: bool, fresh: bool, rows: int = 0
) -> Precision:
    """Σ⁻¹ by Cholesky, or on the range of Σ by eigenvalues where Σ is singular."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    kept = scale > 0
    try:
        if not kept.all():
            raise linalg.LinAlgError
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        if np.any(np.diag(factor) ** 2 < RANK_TOLERANCE * np.diag(matrix)):
            raise linalg.LinAlgError
        return Precision(len(matrix), source, estimated, fresh, cholesky=factor, rows=rows)
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(matrix, check_finite=False)
    top = max(values[-1], 0.0)
    if values[0] < -1e-6 * top or top == 0:
        raise ValueError(
            f"covariance is not positive: its smallest eigenvalue is {values[0]:.3g} and its "
            f"largest {values[-1]:.3g}. Pass a covariance matrix, or a pool of unlabeled rows."
        )
    range_ = values > RANK_TOLERANCE * top
    factor = vectors[:, range_] / np.sqrt(values[range_])
    return Precision(int(range_.sum()), source, estimated, fresh, root=factor, rows=rows)


def pool_covariance(pool: Any, centered: bool = True) -> tuple[Floats, Floats]:
    """Mean and covariance (m − 1 in the denominator) of the pool's rows, or moments about 0.

    One pass over the pool on top of the one that gives its mean; memory d × d and a few blocks.
    """
    pool = open_pool(pool, getattr(pool, "shape", (0, 0))[-1])
    if hasattr(pool, "covariance"):
        return pool.covariance(centered)  # its rows are elsewhere
    m, mean = pool.columns.count, pool.columns.mean
    if not centered:
        mean = np.zeros_like(mean)
    matrix = np.zeros((len(mean), len(mean)))
    sparse_rows, sparse_sum = 0, np.zeros_like(mean)
    for block in pool.blocks():
        if sparse.issparse(block):
            # Centring would fill the block in; its share is put right after the pass.
            matrix += weighted_gram(block, np.ones(block.shape[0]))
            sparse_rows += block.shape[0]
            sparse_sum += np.asarray(block.sum(axis=0)).ravel()
        else:
            deviations = block - mean
            matrix += deviations.T @ deviations
    if sparse_rows:
        cross = np.outer(sparse_sum - 0.5 * sparse_rows * mean, mean)
        matrix -= cross + cross.T
    matrix /= m - 1
    rounding = SPARSE_ROUNDING if sparse_rows else DENSE_ROUNDING
    # A constant column has no variance; what is left of it is rounding of its mean.
    constant = np.diag(matrix) <= rounding * mean**2
    matrix[constant, :] = 0.0
    matrix[:, constant] = 0.0
    return mean, matrix
