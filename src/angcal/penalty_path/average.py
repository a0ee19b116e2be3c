r"""p(x) = Σ_λ π_λ·F_λ(xᵀŵ_λ + b̂_λ), π_λ ∝ exp(−½·n·loss_λ): all penalties, by how well each does.

loss_λ is the leave-one-out log-loss of a calibrated curve. As in :mod:`angcal.link_posterior` the
labels count for half: leave-one-out scores lean on each other. Where labels are many one penalty
is left; where they are few the choice among several is mostly chance, and their average is better
than the luckiest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.arrays import product
from angcal.curve import AveragedCurve, CalibratedCurve, ConstantCurve
from angcal.link_posterior import BELIEF

# Less than this moves no probability by as much.
SMALLEST_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class PenaltyAverage:
    """Linear models under several penalties with their curves and shares.

    Attributes
    ----------
    shares : (k,) array
        π, summing to 1.
    coefs : (k, d) array
    intercepts : (k,) array
    curves : list
        F of each.
    """

    shares: Floats
    coefs: Floats
    intercepts: Floats
    curves: list[CalibratedCurve | AveragedCurve | ConstantCurve]

    def predict(self, rows: Matrix) -> Floats:
        """Σ_λ π_λ·F_λ of the rows."""
        parts = zip(self.shares, self.coefs, self.intercepts, self.curves, strict=True)
        p = np.zeros(rows.shape[0])
        for share, coef, intercept, curve in parts:
            p += share * curve.predict(product(rows, coef) + intercept)
        return np.clip(p, 0.0, 1.0)


def penalty_shares(losses: Floats, n_labels: int) -> Floats:
    """π of every penalty; 0 where it is negligible.

    Examples
    --------
    >>> penalty_shares(np.array([0.50, 0.50, 0.60]), 200).round(4)
    array([0.5, 0.5, 0. ])
    """
    shares = np.exp(-BELIEF.labels_count_for * n_labels * (losses - losses.min()))
    shares /= shares.sum()
    shares[shares < SMALLEST_SHARE] = 0.0
    return shares / shares.sum()
