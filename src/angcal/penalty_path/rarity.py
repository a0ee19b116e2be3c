r"""½ Σ_j w_j²/g_j: a ridge penalty that is stronger on columns that are rarely active.

.. math::
    g_j = \min\{1, r_j^{-q} \max(1, V/v_j)\}, \quad r_j = \max(\kappa_j, 6)/6, \quad
    \kappa_j = E(x_j - \mu_j)^4 / v_j^2

with v_j the variance of column j and V the median of them.

A column that is active in few rows, as pixels at the border, one-hot codes of rare values and
heavy tails are, has a large kurtosis κ: about one over the share of active rows. Scaling columns to
the same deviation blows up what those few rows hold, ridge then trusts it as much as all else, and
fits follow single rows. With q = ½ a column of kurtosis κ has the prior deviation of its weight
lowered by (κ/6)^¼. A column that varies less than others, as rare ones do where nothing has been
scaled, counts for less already, and is lowered by what that leaves. Columns of kurtosis up to 6 are
as they are, which Gaussian, uniform and balanced binary ones are in samples of any size.

In the columns x_j·g_j^½ the penalty is ridge, so that fits under it are ridge fits of these. Their
common factor keeps the total variance, so that C keeps its meaning. docs/research.md has what
exponents and bound were chosen by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, on_host, placed_like
from angcal.rows import dense_parts

ORDINARY = 6.0
"""Kurtosis up to which a column is not rare. 3 to 10 do alike on the development tasks."""


def column_factors(kurtosis: Floats, variances: Floats, exponent: float) -> Floats | None:
    """g_j^½ times a common factor that keeps Σ_j v_j; None where no column is rare.

    Examples
    --------
    >>> column_factors(np.array([3.0, 3.0, 96.0]), np.array([1.0, 0.0, 1e-4]), 1.0) is None
    True
    >>> factors = column_factors(np.array([3.0, 96.0]), np.ones(2), 1.0)
    >>> factors[1] / factors[0]
    np.float64(0.25)
    """
    moving = variances > 0.0
    if exponent == 0.0 or not moving.any():
        return None
    excess = np.maximum(kurtosis, ORDINARY) / ORDINARY
    small = np.median(variances[moving]) / np.where(moving, variances, 1.0)
    gains = np.minimum(1.0, excess**-exponent * np.maximum(1.0, small))
    if np.all(gains == 1.0):
        return None
    return np.sqrt(gains * (float(variances.sum()) / float(gains @ variances)))


def factors_of(X: Any, weights: Floats, exponent: float) -> Floats | None:
    """The factors of X's columns; None where none is rare, or where X cannot be copied."""
    if not (isinstance(X, np.ndarray) or sparse.issparse(X) or is_tensor(X)) or exponent == 0.0:
        return None
    if is_tensor(X):
        if X.shape[0] * X.shape[1] > plan.PRODUCT_ENTRIES:
            return None
        X = on_host(X)
    return column_factors(*column_shapes(X, weights), exponent)


def column_shapes(X: Matrix, weights: Floats) -> tuple[Floats, Floats]:
    """(κ, v): kurtosis and variance of every column by the cases' weights; κ = 1 where v = 0.

    Variances are in units of the largest |x|², as squares of large numbers are none.
    """
    share = weights / weights.sum()
    unit = np.asarray(abs(X).max(axis=0).toarray() if sparse.issparse(X) else abs(X).max(axis=0))
    unit = np.where(unit > 0.0, unit, 1.0).ravel().astype(np.float64)
    second, fourth = (_of_sparse if sparse.issparse(X) else _of_dense)(X, share, unit)
    moving = second > 1e-24
    kurtosis = np.where(moving, fourth / np.where(moving, second, 1.0) ** 2, 1.0)
    return kurtosis, np.where(moving, second, 0.0) * (unit / unit.max(initial=0.0)) ** 2


def _of_dense(X: Floats, share: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Second and fourth central moments of the columns of X/unit."""
    mean = share @ X / unit
    second, fourth = np.zeros_like(mean), np.zeros_like(mean)
    for part, rows in dense_parts(X):
        squares = (rows / unit - mean) ** 2
        second += share[part] @ squares
        fourth += share[part] @ squares**2
    return second, fourth


def _of_sparse(X: Any, share: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """The same from sums of powers."""
    scaled = (X @ sparse.diags_array(1.0 / unit)).tocsr()
    m1, m2, m3, m4 = (np.asarray(scaled.power(k).T @ share).ravel() for k in (1, 2, 3, 4))
    fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1**2 * m2 - 3.0 * m1**4
    return np.maximum(m2 - m1**2, 0.0), np.maximum(fourth, 0.0)


def scaled_columns(X: Any, factors: Floats | None) -> Any:
    """X with its columns times these factors, of the same kind."""
    if factors is None:
        return X
    if sparse.issparse(X):
        return (X @ sparse.diags_array(factors)).tocsr()
    return X * placed_like(factors, X)
