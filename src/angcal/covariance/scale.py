"""s = (u − center)/‖ŵ‖_Σ: where scores of fresh rows are centered and how far they spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from angcal._typing import Floats
from angcal.covariance.inverse import check_covariance, is_operator
from angcal.observables import Observables
from angcal.pools import Moments, open_pool


@dataclass(frozen=True)
class ScoreScale:
    """Center and standard deviation of the score ŵᵀx + b̂ over the population.

    Attributes
    ----------
    center : float
        Mean score; 0 for a fit without intercept, whose design is taken to be centered.
    norm : float
        ‖ŵ‖_Σ.
    source : {"covariance", "pool", "leave-one-out scores"}
    center_rows : int, default=0
        Independent rows whose mean score the center is; 0 where it is known.
    """

    center: float
    norm: float
    source: str
    center_rows: int = 0

    def standardize(self, scores: Floats) -> Floats:
        """s = (u − center)/‖ŵ‖_Σ."""
        return (scores - self.center) / self.norm


def score_scale(
    observables: Observables,
    coef: Floats,
    intercept: float,
    *,
    case_weights: Floats,
    covariance: Any = None,
    pool: Any = None,
) -> ScoreScale:
    """Center and spread of fresh scores: from Σ, else the pool, else leave-one-out scores.

    In-sample scores would be too spread out (they were fitted), leave-one-out scores are not.
    A pool, of any kind :func:`angcal.pools.open_pool` knows, is gone over once.
    """
    given = (observables.calibration_scores, case_weights, observables.has_intercept)
    (center, norm), rows = _moments(*given), observables.n_samples
    if observables.groups is not None:
        away = observables.calibration_scores - center
        rows = round(rows / observables.groups.design_effect(away, case_weights))
    if pool is not None:
        scores, own = open_pool(pool, len(coef)).survey(coef), norm
        center, norm = _pool_moments(scores, intercept, observables.has_intercept)
        rows = scores.count
        # A pool's scores that spread by less are the same score but for rounding.
        if norm <= 1e-9 * own:
            norm = 0.0  # one row again and again
    rows = rows if observables.has_intercept else 0
    source = "leave-one-out scores" if pool is None else "pool"
    if is_operator(covariance):
        return ScoreScale(center, float(covariance.norm(coef)), "covariance", rows)
    if covariance is not None and not isinstance(covariance, BaseEstimator):
        matrix = check_covariance(covariance, len(coef))
        norm, source = float(np.sqrt(max(float(coef @ matrix @ coef), 0.0))), "covariance"
    return ScoreScale(center, norm, source, rows)


def _pool_moments(scores: Moments, intercept: float, centered: bool) -> tuple[float, float]:
    mean, spread = float(scores.mean[0]), float(scores.deviation[0])
    if centered:
        return mean + intercept, spread
    return 0.0, float(np.hypot(mean + intercept, spread))


def _moments(scores: Floats, weights: Floats, centered: bool) -> tuple[float, float]:
    center = float(np.average(scores, weights=weights)) if centered else 0.0
    return center, float(np.sqrt(np.average((scores - center) ** 2, weights=weights)))
