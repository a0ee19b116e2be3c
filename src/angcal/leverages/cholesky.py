r"""M = LLᵀ with L⁻¹: the one factorization that every exact answer about Ĥ rests on.

NumPy and SciPy each bring a BLAS whose threads wait for work by spinning (:mod:`angcal.threads`).
Up to a side of about a thousand a factor is so soon done that their fight over the cores would cost
more: SciPy then has one thread. Factors and inverses are made in place, and large sums too: there
is one square of a large side, and never another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy import linalg

from angcal import plan
from angcal._typing import Floats
from angcal.threads import side_pools_at_rest

LEAF = 48
TOO_LARGE = "Columns of X are so large that their squares are infinite; scale them to about 1."


class SingularHessianError(ValueError):
    """The penalized Hessian cannot be inverted: the fit is not unique."""


class Triangle:
    """L of M = LLᵀ, in whose place comes L⁻¹ where that is asked for."""

    def __init__(self, lower: Floats) -> None:
        self._lower = lower
        self._inverse: Floats | None = None
        self.pivots = np.diag(lower).copy()

    def __len__(self) -> int:
        return len(self.pivots)

    @property
    def inverse(self) -> Floats:
        """L⁻¹."""
        if self._inverse is None:
            if len(self):  # LAPACK takes a side of 0 for an error
                (invert,) = linalg.get_lapack_funcs(("trtri",), (self._lower,))
                with self.at_rest():
                    self._lower = invert(self._lower, lower=1, overwrite_c=1)[0]
            self._inverse = self._lower
        return self._inverse

    def solve(self, rhs: Floats) -> Floats:
        """M⁻¹ applied to a vector or to columns."""
        if self._inverse is not None:
            return self._inverse.T @ (self._inverse @ rhs)
        with self.at_rest():
            return linalg.cho_solve((self._lower, True), rhs, check_finite=False)

    def half_solve(self, rhs: Floats) -> Floats:
        """L⁻¹ applied to columns."""
        if self._inverse is not None:
            return self._inverse @ rhs
        with self.at_rest():
            return linalg.solve_triangular(self._lower, rhs, lower=True, check_finite=False)

    def half_solve_back(self, rhs: Floats) -> Floats:
        """L⁻ᵀ applied to columns."""
        if self._inverse is not None:
            return self._inverse.T @ rhs
        with self.at_rest():
            return linalg.solve_triangular(
                self._lower, rhs, trans="T", lower=True, check_finite=False
            )

    def half_solved(self, rows: Floats) -> Floats:
        """L⁻¹x_i of rows, which are overwritten."""
        name = "trsm" if self._inverse is None else "trmm"
        (apply,) = linalg.get_blas_funcs((name,), (self._lower,))
        with self.at_rest():
            return apply(1.0, self._lower, rows.T, lower=1, overwrite_b=1).T

    def at_rest(self) -> AbstractContextManager[None]:
        """One thread for SciPy where more would not help."""
        return side_pools_at_rest() if len(self) <= plan.SMALL_SIDE else nullcontext()


def sum_of_squares(blocks: Iterable[Floats], side: int, dtype: Any = np.float64) -> Floats:
    """Σ YᵀY over blocks Y of rows, symmetric; a large one without a second matrix of its size."""
    if side <= plan.SMALL_SIDE:
        total = np.zeros((side, side), dtype=dtype)
        for number, block in enumerate(blocks):
            # YᵀY is recognized as symmetric and costs half of a general product. What is too large
            # for its precision becomes infinite, and the factorization refuses it.
            with np.errstate(over="ignore", invalid="ignore"):
                product = block.T @ block
            total = product if number == 0 else np.add(total, product, out=total)
        return total
    total = np.zeros((side, side), order="F", dtype=dtype)
    (add_squares,) = linalg.get_blas_funcs(("syrk",), (total,))
    for block in blocks:
        total = add_squares(1.0, block.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    for low, high in row_parts(side):
        total[low:high, high:] = total[high:, low:high].T
        corner = total[low:high, low:high]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return total


def cholesky(matrix: Floats, meaning: str) -> Triangle:
    """M = LLᵀ, or a SingularHessianError that says which matrix failed; M may be overwritten."""
    # A pivot that lost 14 digits of its own diagonal entry is rounding noise, not information. In
    # single precision a matrix is refused much earlier: its inverse shall have three good digits.
    smallest = 1e-7 if matrix.dtype == np.float64 else 3e-2
    norms = np.sqrt(np.diag(matrix))
    try:
        triangle: Triangle | None = _factorize(matrix)
    except np.linalg.LinAlgError:
        triangle = None
    if triangle is None or _is_noise(triangle, norms, smallest):
        raise SingularHessianError(
            f"The Hessian of {meaning} is singular, so the fit is not unique. "
            "Add or strengthen a ridge penalty, or drop constant and linearly dependent columns."
        )
    return triangle


def penalized_cholesky(
    M: Floats, Q: Floats, d: int, intercept_curvature: float
) -> tuple[Triangle, Floats]:
    """(L, t) with LLᵀ = t(M + Q)t of unit diagonal; Q is of the first d lines, M is overwritten."""
    if Q.ndim == 2:
        M[:d, :d] += Q
    else:
        M[np.arange(d), np.arange(d)] += Q
    if len(M) > d:
        M[d, d] += intercept_curvature
    diagonal = np.diag(M)
    if not np.all(np.isfinite(diagonal)):
        raise SingularHessianError(TOO_LARGE)
    # Badly scaled columns are not a singularity.
    scale = (1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))).astype(M.dtype)
    M *= scale[:, None]
    M *= scale
    return cholesky(M, "the penalized loss"), scale


def _is_noise(triangle: Triangle, norms: Floats, smallest: float) -> bool:
    """Whether some direction of the matrix is rounding, ``norms`` the roots of its diagonal."""
    pivots = triangle.pivots
    if not np.all(np.isfinite(pivots)) or np.any(pivots < smallest * norms):
        return True
    # The same for every other direction; looked at where a pivot raises a doubt.
    if pivots.dtype != np.float64 or np.all(pivots >= 1e-2 * norms):
        return False
    return _smallest_eigenvalue(triangle, norms) < 1e-14


def _smallest_eigenvalue(triangle: Triangle, norms: Floats) -> float:
    """λ_min of M with unit diagonal, from above, by inverse iteration.

    The pivots of a singular matrix do not tell: its last one is rounding over the square of the
    null vector's entry there, for a random null vector the side times too large and at times a
    million times.
    """
    x = np.random.default_rng(0).normal(size=len(norms))
    for _ in range(3):
        x = norms * triangle.solve(norms * (x / np.linalg.norm(x)))
    return 1.0 / float(np.linalg.norm(x))


def _factorize(matrix: Floats) -> Triangle:
    if not len(matrix):
        return Triangle(matrix)  # LAPACK takes it for an error, and prints so
    # In place only if in LAPACK's order of entries; a symmetric matrix is its own transpose.
    matrix = matrix if matrix.flags.f_contiguous else matrix.T
    (factor,) = linalg.get_lapack_funcs(("potrf",), (matrix,))
    with side_pools_at_rest() if len(matrix) <= plan.SMALL_SIDE else nullcontext():
        lower, failed = factor(matrix, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError(f"the leading minor of order {failed} is not positive")
    return Triangle(lower)


def row_parts(side: int) -> Iterator[tuple[int, int]]:
    """A few blocks of rows: products with a triangle, block by block, skip most of its zeros."""
    step = max(LEAF, -(-side // 6))
    return ((low, min(low + step, side)) for low in range(0, side, step))
