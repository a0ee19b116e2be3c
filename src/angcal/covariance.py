r"""What is known of the features' covariance Σ: nothing, the matrix, or a pool of unlabelled rows.

Two things are asked of Σ: the length ‖ŵ‖_Σ of the weights, which turns a score into units of its
own standard deviation, and products with Σ⁻¹, which the observable angle needs. A pool gives the
first from any number of rows; the second only from more rows than columns, and then inflated:
for m Gaussian rows E Σ̂⁻¹ = (m−1)/(m−d−2)·Σ⁻¹. The training rows are fresh to the pool, so the
inflation is measured rather than assumed: it is mean(x_iᵀΣ̂⁻¹x_i)/rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, clone

from angcal._typing import Floats, Matrix
from angcal.hessian import row_blocks, weighted_gram
from angcal.observables import Observables

RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class ScoreScale:
    """Centre and standard deviation of the score ŵᵀx + b̂ over the population.

    Attributes
    ----------
    center : float
        Mean score; 0 for a fit without intercept, whose design is taken to be centred.
    norm : float
        ‖ŵ‖_Σ.
    source : {"covariance", "pool", "leave-one-out scores"}
    """

    center: float
    norm: float
    source: str

    def standardise(self, scores: Floats) -> Floats:
        """s = (u − center)/‖ŵ‖_Σ."""
        return (scores - self.center) / self.norm


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
    """

    rank: int
    source: str
    estimated: bool
    fresh: bool
    cholesky: Floats | None = None
    root: Floats | None = None
    operator: Any = None

    def pair(self, rows: Floats) -> tuple[Floats, Floats]:
        """Two arrays (A, B) of as many rows, with (A Bᵀ)_ij = x_iᵀΣ⁻¹x_j."""
        if self.operator is not None:
            return rows, np.asarray(self.operator.solve(rows.T)).T
        if self.root is not None:
            white = rows @ self.root
        else:
            white = linalg.solve_triangular(self.cholesky, rows.T, lower=True, check_finite=False).T
        return white, white

    def products(
        self, X: Matrix, center: Floats | None, residuals: Floats
    ) -> tuple[Floats, Floats]:
        """(x_iᵀΣ⁻¹Xᵀψ)_i and (x_iᵀΣ⁻¹x_i)_i for centred rows, one block of rows at a time."""
        shift = np.zeros(X.shape[1]) if center is None else center
        total = np.asarray(X.T @ residuals) - shift * residuals.sum()
        _, direction = self.pair(total[None, :])
        along, squares = np.empty(X.shape[0]), np.empty(X.shape[0])
        for rows, block in row_blocks(X):
            left, right = self.pair(block - shift)
            along[rows] = left @ direction[0]
            squares[rows] = np.einsum("ij,ij->i", left, right)
        return along, squares


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


def invert(matrix: Floats, *, source: str, estimated: bool, fresh: bool) -> Precision:
    """Σ⁻¹ by Cholesky, or on the range of Σ by eigenvalues where Σ is singular."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    kept = scale > 0
    try:
        if not kept.all():
            raise linalg.LinAlgError
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        if np.any(np.diag(factor) ** 2 < RANK_TOLERANCE * np.diag(matrix)):
            raise linalg.LinAlgError
        return Precision(len(matrix), source, estimated, fresh, cholesky=factor)
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(matrix, check_finite=False)
    top = max(values[-1], 0.0)
    if values[0] < -1e-6 * top or top == 0:
        raise ValueError(
            f"covariance is not positive: its smallest eigenvalue is {values[0]:.3g} and its "
            f"largest {values[-1]:.3g}. Pass a covariance matrix, or a pool of unlabelled rows."
        )
    range_ = values > RANK_TOLERANCE * top
    factor = vectors[:, range_] / np.sqrt(values[range_])
    return Precision(int(range_.sum()), source, estimated, fresh, root=factor)


def pool_covariance(pool: Matrix, centred: bool = True) -> tuple[Floats, Floats]:
    """Mean and covariance (m − 1 in the denominator) of the pool's rows, or moments about 0."""
    m = pool.shape[0]
    mean = np.asarray(pool.mean(axis=0), dtype=np.float64).ravel()
    if not centred:
        mean = np.zeros_like(mean)
    if sparse.issparse(pool):
        second_moment = weighted_gram(pool, np.ones(m))
        matrix = (second_moment - m * np.outer(mean, mean)) / (m - 1)
        rounding = 1e-12
    else:
        matrix = np.zeros((pool.shape[1], pool.shape[1]))
        for _, block in row_blocks(pool):
            block = block - mean
            matrix += block.T @ block / (m - 1)
        rounding = 1e-24
    # A constant column has no variance; what is left of it is rounding of its mean.
    constant = np.diag(matrix) <= rounding * mean**2
    matrix[constant, :] = 0.0
    matrix[:, constant] = 0.0
    return mean, matrix


def precision(
    covariance: Any, pool: Matrix | None, X: Matrix, *, centred: bool = True
) -> Precision | str:
    """Σ⁻¹ from what the user gave, or a sentence that says why there is none.

    Parameters
    ----------
    covariance : None, (d, d) array, operator, or a scikit-learn covariance estimator
        An operator has ``solve(V)`` = Σ⁻¹V and ``norm(w)`` = ‖w‖_Σ, as the covariances of
        :mod:`angcal.simulation` do: a structured Σ need not be written out. An estimator is
        cloned and fitted on the pool, or on X where there is no pool.
    pool : (m, d) array or sparse matrix, or None
    X : (n, d) array or sparse matrix
        Training rows.
    centred : bool, default=True
        Whether the pool's moments are taken about its mean; about zero for a fit without
        intercept, whose design is taken to be centred.
    """
    d = X.shape[1]
    if isinstance(covariance, BaseEstimator):
        return _fitted_precision(covariance, pool, X)
    if is_operator(covariance):
        return Precision(d, "the given covariance", False, True, operator=covariance)
    if covariance is not None:
        matrix = check_covariance(covariance, d)
        return invert(matrix, source="the given covariance", estimated=False, fresh=True)
    if pool is None:
        return "neither a covariance nor a pool of unlabelled rows was given"
    m = pool.shape[0]
    if m <= d + 2:
        return f"the pool has {m} rows for {d} columns, too few to invert its covariance"
    _, matrix = pool_covariance(pool, centred)
    return invert(matrix, source=f"a pool of {m} rows", estimated=True, fresh=True)


def _fitted_precision(estimator: BaseEstimator, pool: Matrix | None, X: Matrix) -> Precision:
    rows = X if pool is None else pool
    rows = rows.toarray() if sparse.issparse(rows) else rows
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
    )


def score_scale(
    observables: Observables,
    coef: Floats,
    intercept: float,
    *,
    case_weights: Floats,
    covariance: Any = None,
    pool: Matrix | None = None,
) -> ScoreScale:
    """Centre and spread of fresh scores: from Σ, else the pool, else leave-one-out scores.

    In-sample scores would be too spread out (they were fitted), leave-one-out scores are not.
    """
    if pool is not None:
        scores = np.asarray(pool @ coef) + intercept
        center, norm = _moments(scores, np.ones(len(scores)), observables.has_intercept)
    else:
        center, norm = _moments(
            observables.calibration_scores, case_weights, observables.has_intercept
        )
    source = "leave-one-out scores" if pool is None else "pool"
    if is_operator(covariance):
        return ScoreScale(center, float(covariance.norm(coef)), "covariance")
    if covariance is not None and not isinstance(covariance, BaseEstimator):
        matrix = check_covariance(covariance, len(coef))
        norm, source = float(np.sqrt(max(float(coef @ matrix @ coef), 0.0))), "covariance"
    return ScoreScale(center, norm, source)


def _moments(scores: Floats, weights: Floats, centred: bool) -> tuple[float, float]:
    center = float(np.average(scores, weights=weights)) if centred else 0.0
    return center, float(np.sqrt(np.average((scores - center) ** 2, weights=weights)))
