"""Σ⁻¹ from what the user gave: which source, and exact or by passes over the pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from angcal._typing import Floats, Matrix
from angcal.covariance.inverse import (
    Precision,
    check_covariance,
    invert,
    is_operator,
    pool_covariance,
)
from angcal.covariance.matrix_free import PoolInverse, StagnationError, probes_needed
from angcal.pools import Pool, open_pool
from angcal.rows import Rows

# Bytes that Σ̂, its factor and a copy may take together.
MEMORY_LIMIT = 2 * 2**30
# Below this many columns a d × d matrix is never a burden.
SMALLEST_MATRIX_FREE = 1000


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

    Parameters
    ----------
    covariance : None, (d, d) array, operator, or a scikit-learn covariance estimator
        An operator has ``solve(V)`` = Σ⁻¹V and ``norm(w)`` = ‖w‖_Σ, as the covariances of
        :mod:`angcal.simulation` do: a structured Σ need not be written out. An estimator is
        cloned and fitted on the pool, or on X where there is no pool.
    pool : None, (m, d) array or sparse matrix, or anything :func:`angcal.pools.open_pool` takes
    X : (n, d) array or sparse matrix
        Training rows.
    centered : bool, default=True
        Whether the pool's moments are taken about its mean; about zero for a fit without
        intercept, whose design is taken to be centered.
    method : {"auto", "exact", "conjugate gradients"}, default="auto"
        How a pool's covariance is inverted: "exact" by its d × d matrix (two passes), or by
        passes over the pool with memory for some blocks and d × probes. "auto" takes what is
        cheaper, within ``MEMORY_LIMIT``.
    residuals : (n,) array, optional
        The ψ of later :meth:`Precision.products`: solving for Xᵀψ along with the probes saves
        half of the passes. Without it there is one more set of passes later.
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
    if d < SMALLEST_MATRIX_FREE:
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
