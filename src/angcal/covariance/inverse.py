"""Σ⁻¹ from a matrix that fits in memory: x_iᵀΣ⁻¹x_j by a Cholesky factor or on Σ's range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, clone

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import dense, is_tensor, namespace_of, on_host, placed_like
from angcal.covariance.matrix_free import PoolInverse, StagnationError, probes_needed
from angcal.leverages import weighted_gram
from angcal.pools import Pool, open_pool, without_constants
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
        rows = X if isinstance(X, Rows) else as_rows(X, False)
        total = rows.pull(residuals)[: X.shape[1]]
        _, direction = self.pair((total - shift * residuals.sum())[None, :])
        found = rows.map(partial(_products_of_block, self), (shift, direction))
        return found[:, 0], found[:, 1]


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
        S = dense(matrix)
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
            # Centering would fill the block in; its share is put right after the pass.
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
    return mean, without_constants(matrix, mean, sparse_rows > 0)


# -- Σ⁻¹ from what the user gave: which source, and exact or by passes over the pool ------------


# Bytes that Σ̂, its factor and a copy may take together.
MEMORY_LIMIT = 2 * 2**30


def precision(
    covariance: Any,
    pool: Any,
    X: Matrix,
    *,
    centered: bool = True,
    method: str = "auto",
    residuals: Floats | None = None,
) -> Precision | str:
    """Σ⁻¹ from what the user gave, or a sentence that says why there is none.

    A covariance is a (d, d) array, an operator with ``solve(V)`` = Σ⁻¹V and ``norm(w)`` = ‖w‖_Σ, as
    those of :mod:`angcal.simulation`, or a scikit-learn estimator, which is cloned and fitted on
    the pool, or on X without one. Moments of a pool are taken about its mean, or, where they are
    not ``centered``, about zero, for a fit without intercept. "exact" inverts its d × d matrix (two
    passes), "conjugate gradients" passes over the pool with memory for some blocks and d × probes,
    "auto" takes what is cheaper within ``MEMORY_LIMIT``. With the ``residuals`` ψ of later
    :meth:`Precision.products` Xᵀψ is solved along with the probes, which saves half of the passes.
    """
    methods = ["auto", "exact", "conjugate gradients"]
    if method not in methods:
        raise ValueError(f"method={method!r} is not one of {methods}.")
    d = X.shape[1]
    if isinstance(covariance, BaseEstimator):
        return _fitted_precision(covariance, None if pool is None else open_pool(pool, d), X)
    if is_operator(covariance):
        return Precision(d, "the given covariance", False, True, operator=covariance)
    if covariance is not None:
        matrix = check_covariance(covariance, d)
        return invert(matrix, source="the given covariance", estimated=False, fresh=True)
    if pool is None:
        return "neither a covariance nor a pool of unlabeled rows was given"
    pool = open_pool(pool, d)
    pool.require_many_passes("the inverse of its covariance")
    if pool.n_rows <= d + 2:
        return f"the pool has {pool.n_rows} rows for {d} columns, too few to invert its covariance"
    if method == "auto":
        # Conjugate gradients would go over X as well as over the pool.
        method = "exact" if isinstance(X, Rows) else cheaper_method(pool, X.shape[0])
    if method == "exact":
        return _exact_precision(pool, centered)
    return _matrix_free_precision(pool, X, centered, residuals)


def cheaper_method(pool: Pool, n_rows: int) -> str:
    """Which way of inverting the pool's covariance takes fewer operations and fits in memory."""
    m, d = pool.n_rows, pool.n_features
    if d < plan.SMALL_SIDE:
        return "exact"
    if not _matrix_fits(d):
        return "conjugate gradients"
    _ = pool.columns  # the pass that counts the entries, if none has been made
    # Sparse products run eight times slower than dense ones, reading an entry anew costs 400
    # operations, and solves typically take 30 passes.
    entries, slowness = float(pool.stored_entries), 8 if pool.is_sparse else 1
    gram = slowness * entries**2 / m + float(d) ** 2 * (d / 3.0 + n_rows)
    reading = 400 if pool.resident is None else 0
    per_step = 4.0 * slowness * entries * (probes_needed(n_rows, m, d) + 1) + reading * entries
    return "exact" if gram <= 30 * per_step else "conjugate gradients"


def _matrix_fits(d: int) -> bool:
    return 3 * 8 * d**2 <= MEMORY_LIMIT


def _exact_precision(pool: Pool, centered: bool, note: str = "") -> Precision | str:
    _, matrix = pool_covariance(pool, centered)
    if not np.any(matrix):
        return "every column of the pool is constant"
    source = f"a pool of {pool.n_rows} rows{note}"
    return invert(matrix, source=source, estimated=True, fresh=True, rows=pool.n_rows)


def _matrix_free_precision(
    pool: Pool, X: Matrix, centered: bool, residuals: Floats | None
) -> Precision | str:
    d = X.shape[1]
    inverse = PoolInverse(pool, X, centered=centered)
    if inverse.rank == 0:
        return "every column of the pool is constant"
    shift = np.asarray(X.mean(axis=0), dtype=np.float64).ravel() if centered else np.zeros(d)
    try:
        inverse.prepare(X, shift, residuals)
    except StagnationError as error:
        if _matrix_fits(d):
            return _exact_precision(pool, centered, f" by its {d} × {d} matrix, as {error}")
        return f"{error}; drop such columns, or pass a covariance operator"
    source = (
        f"a pool of {pool.n_rows} rows by conjugate gradients ({inverse.steps} passes, "
        f"{inverse.n_probes} probes)"
    )
    return Precision(
        *(inverse.rank, source, True, True),
        operator=inverse,
        method="conjugate gradients",
        rows=pool.n_rows,
    )


def _fitted_precision(estimator: BaseEstimator, pool: Pool | None, X: Matrix) -> Precision:
    if pool is None and isinstance(X, Rows):
        raise ValueError(
            f"covariance={type(estimator).__name__}() is fitted to rows in memory, and X comes in "
            "blocks; pass a pool, or the covariance itself."
        )
    rows = open_pool(X, X.shape[1]).whole() if pool is None else pool.whole()
    name = type(estimator).__name__
    fitted = clone(estimator).fit(rows)
    if not hasattr(fitted, "covariance_"):
        raise TypeError(
            f"covariance={name}() is not a covariance estimator: fitting it gives no covariance_. "
            "Use one of sklearn.covariance, such as LedoitWolf()."
        )
    where = "the training rows" if pool is None else f"a pool of {len(rows)} rows"
    return invert(
        check_covariance(fitted.covariance_, X.shape[1]),
        source=f"{name} on {where}",
        estimated=True,
        fresh=pool is not None,
        rows=rows.shape[0],
    )
