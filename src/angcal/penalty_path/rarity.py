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

from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import is_tensor, namespace_of, on_host, placed_like, slices
from angcal.rows import Rows, as_rows, dense_parts, times_columns
from angcal.solvers.far_newton import require_finite

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
    """The factors of X's columns, in any storage; None where none is rare."""
    if exponent == 0.0:
        return None
    if is_tensor(X) and X.shape[0] * X.shape[1] <= plan.PRODUCT_ENTRIES:
        X = on_host(X)
    return column_factors(*column_shapes(X, weights), exponent)


def column_shapes(X: Any, weights: Floats) -> tuple[Floats, Floats]:
    """(κ, v): kurtosis and variance of every column by the cases' weights; κ = 1 where v = 0.

    Variances of arrays are in units of the largest |x|², as squares of large numbers are none.
    """
    second, fourth, unit = _moments(X, weights)
    moving = second > 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        kurtosis = np.where(moving, fourth / np.where(moving, second, 1.0) ** 2, 1.0)
    # Powers that are no numbers, beyond 10⁷⁷, say nothing of a column.
    kurtosis = np.where(np.isfinite(kurtosis), kurtosis, 1.0)
    return kurtosis, second * (unit / unit.max(initial=0.0)) ** 2


def column_deviations(X: Any, weights: Floats) -> Floats:
    """√v of every column of an array or sparse matrix, in its units; 0 where it is rounding."""
    if sparse.issparse(X):
        second, _, unit = _moments(X, weights)
        return np.sqrt(second) * unit
    share, (n, d) = weights / weights.sum(), X.shape
    mean, second = np.zeros(d), np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in slices(n, plan.CACHE_ENTRIES // 4, d):
            x = np.asarray(X[rows], dtype=np.float64)
            mean += share[rows] @ x
            second += share[rows] @ np.square(x)
        found = second - mean**2
    # Looked at again: columns so far from zero that digits are lost, and numbers without squares.
    doubtful = np.flatnonzero(~((found > 1e-9 * second) & (second > 1e-200) & (second < 1e200)))
    deviations = np.sqrt(np.maximum(found, 0.0))
    if len(doubtful):
        unit = _units_of(X[:, doubtful])
        part = X[:, doubtful] / unit
        part -= share @ part
        second = share @ np.square(part, out=part)
        deviations[doubtful] = np.sqrt(np.where(second > 1e-24, second, 0.0)) * unit
    return deviations


def _moments(X: Any, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Second and fourth central moments of the columns in units, and these.

    Units of arrays are the columns' largest |x|, of other rows 1. The second moment is 0 where a
    column varies by rounding only.
    """
    share, d = weights / weights.sum(), X.shape[1]
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        unit = _units_of(X)
        of_storage = _of_sparse if sparse.issparse(X) else _of_array
        second, fourth, peak = *of_storage(X, share, unit), np.ones(d)
    else:
        rows, unit = X if isinstance(X, Rows) else as_rows(X, False), np.ones(d)
        found = rows.sum(_powers_of_block, (), (share,), merge=_merged)
        _, mean, second, _, fourth, peak = found
        require_finite(mean)
    return np.where(second > 1e-24 * peak**2, second, 0.0), fourth, unit


def _units_of(X: Any) -> Floats:
    """max_i |x_ij| of every column, 1 where that is 0; without a copy of X."""
    high, low = X.max(axis=0), X.min(axis=0)
    if sparse.issparse(X):
        high, low = high.toarray().ravel(), low.toarray().ravel()
    largest = np.maximum(np.asarray(high, dtype=np.float64), -np.asarray(low, dtype=np.float64))
    return np.where(largest > 0.0, largest, 1.0)


Powers = tuple[Any, Floats, Floats, Floats, Floats, Floats]
"""Weight, mean, sums of the second to fourth powers of deviations, and the largest |x|."""


def _powers_of_block(X: Any, weights: Floats) -> Powers:
    """Those of the columns of a block."""
    xp, found = namespace_of(X), list[Powers]()
    entries = plan.PRODUCT_ENTRIES if is_tensor(X) else plan.CACHE_ENTRIES
    for part in slices(X.shape[0], entries, X.shape[1]):
        for _, x in dense_parts(X[part], entries):
            w = placed_like(weights[part], x)
            total = float(xp.sum(w))
            mean = w @ x / total
            deviations = x - mean
            squares = deviations * deviations
            with np.errstate(over="ignore", invalid="ignore"):
                sums = [w @ squares, w @ (squares * deviations), w @ (squares * squares)]
            largest = xp.max(xp.abs(x), axis=0)
            m1, m2, m3, m4, peak = (on_host(each) for each in (mean, *sums, largest))
            found.append((total, m1, m2, m3, m4, peak))
    return reduce(_merged, found)


def _merged(a: Powers, b: Powers) -> Powers:
    """Powers of the rows of both, about the mean of both (Chan; Pébay)."""
    (u, mean_a, a2, a3, a4, peak_a), (v, mean_b, b2, b3, b4, peak_b) = a, b
    w, gap = u + v, mean_b - mean_a
    p, q = u / w, v / w
    with np.errstate(over="ignore", invalid="ignore"):
        m2 = a2 + b2 + w * p * q * gap**2
        m3 = a3 + b3 + w * p * q * (p - q) * gap**3 + 3.0 * gap * (p * b2 - q * a2)
        m4 = a4 + b4 + w * p * q * (p * p - p * q + q * q) * gap**4
        m4 = m4 + 6.0 * gap**2 * (p * p * b2 + q * q * a2) + 4.0 * gap * (p * b3 - q * a3)
    return w, mean_a + q * gap, m2, m3, m4, np.maximum(peak_a, peak_b)


def _of_array(X: Floats, share: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Second and fourth central moments of the columns of X/unit."""
    # Fourth powers of these are numbers, so that no entry needs to be divided.
    divided = not np.all((unit > 1e-70) & (unit < 1e70))
    second, fourth = np.zeros((2, len(unit)))
    mean = as_rows(X, False).pull(share) / (unit if divided else 1.0)
    for rows in slices(len(X), plan.CACHE_ENTRIES // 4, len(unit)):
        x = X[rows] / unit - mean if divided else X[rows] - mean
        second += share[rows] @ np.square(x, out=x)
        fourth += share[rows] @ np.square(x, out=x)
    return (second, fourth) if divided else (second / unit**2, fourth / unit**4)


def _of_sparse(X: Any, share: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Second and fourth central moments of the columns of X/unit: of entries, and of zeros."""
    entries = (X @ sparse.diags_array(1.0 / unit)).tocsc()
    counts = np.diff(entries.indptr)
    mean = np.asarray(entries.T @ share, dtype=np.float64)
    present = entries.copy()
    present.data = np.ones(entries.nnz)
    # A column without zeros has none of their weight, not one of rounding.
    absent = np.where(counts < X.shape[0], np.maximum(1.0 - present.T @ share, 0.0), 0.0)
    entries.data = (entries.data - np.repeat(mean, counts)) ** 2
    second = np.asarray(entries.T @ share) + absent * mean**2
    entries.data **= 2
    return second, np.asarray(entries.T @ share) + absent * mean**4


def scaled_columns(X: Any, factors: Floats | None) -> Any:
    """X with its columns times these factors, of the same kind."""
    return X if factors is None else times_columns(X, factors)
