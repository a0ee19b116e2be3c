r"""What is known of the features' covariance Σ: nothing, the matrix, or a pool of unlabeled rows.

Two things are asked of Σ: the length ‖ŵ‖_Σ of the weights, which turns a score into units of its
own standard deviation, and products with Σ⁻¹, which the observable angle needs. A pool gives the
first from any number of rows; the second only from more rows than columns, and then inflated:
for m Gaussian rows E Σ̂⁻¹ = (m−1)/(m−d−2)·Σ⁻¹. The training rows are fresh to the pool, so the
inflation is measured rather than assumed: it is mean(x_iᵀΣ̂⁻¹x_i)/rank.
"""

from angcal.covariance.inverse import (
    RANK_TOLERANCE,
    Precision,
    check_covariance,
    invert,
    is_operator,
    pool_covariance,
    precision,
)
from angcal.covariance.matrix_free import PoolInverse, StagnationError
from angcal.covariance.scale import ScoreScale, score_scale

__all__ = [
    "RANK_TOLERANCE",
    "PoolInverse",
    "Precision",
    "ScoreScale",
    "StagnationError",
    "check_covariance",
    "invert",
    "is_operator",
    "pool_covariance",
    "precision",
    "score_scale",
]
