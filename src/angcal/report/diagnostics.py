"""How far a design is from what the theory asks for: Gaussian scores, rows of equal leverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import kurtosis, skew

from angcal._typing import Floats
from angcal.observables import Observables

# What simulations with heavy tails bear without harm to the curve is left unremarked.
LARGEST_SKEWNESS, LARGEST_KURTOSIS = 0.5, 1.0
EVEN, UNEVEN = 0.3, 0.8
TOP_SHARE = 0.05
MOST_POINTS = 300


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Shape of the leave-one-out scores, and how evenly rows pull at the fit.

    Attributes
    ----------
    skewness, excess_kurtosis : float
        Both 0 for a Gaussian.
    skewness_error, kurtosis_error : float
        Their standard deviations over Gaussian samples of this size, √(6/n) and √(24/n).
    normal_quantiles, score_quantiles : (m,) arrays
        The QQ picture, at most 300 points.
    unevenness : float
        sd(γ_i)/mean(γ_i) of the leave-one-out steps.
    top_share : float
        Share of all leverage that the 5 % of rows with the most of it have.
    """

    skewness: float
    excess_kurtosis: float
    skewness_error: float
    kurtosis_error: float
    normal_quantiles: Floats
    score_quantiles: Floats
    unevenness: float
    top_share: float

    @property
    def is_gaussian(self) -> bool:
        """Whether the scores look Gaussian enough, given how many there are."""
        skewed = abs(self.skewness) > max(LARGEST_SKEWNESS, 2.0 * self.skewness_error)
        tailed = abs(self.excess_kurtosis) > max(LARGEST_KURTOSIS, 2.0 * self.kurtosis_error)
        return not (skewed or tailed)

    @property
    def shape(self) -> str:
        """The scores' distribution, in words."""
        if self.is_gaussian:
            return "The scores look close enough to Gaussian."
        parts = []
        if abs(self.skewness) > max(LARGEST_SKEWNESS, 2.0 * self.skewness_error):
            parts.append("skewed to the " + ("right" if self.skewness > 0 else "left"))
        if abs(self.excess_kurtosis) > max(LARGEST_KURTOSIS, 2.0 * self.kurtosis_error):
            parts.append("heavy-tailed" if self.excess_kurtosis > 0 else "flat or two-humped")
        return (
            f"The scores are {' and '.join(parts)}. The theory is for Gaussian ones: look at the "
            "reliability diagram before you trust the curve, and take the angle as a rough guide."
        )

    @property
    def evenness(self) -> str:
        """How evenly rows pull, in words."""
        if self.unevenness <= EVEN:
            return "Rows pull at the fit about evenly, as the theory has it."
        if self.unevenness <= UNEVEN:
            return "Rows pull at the fit somewhat unevenly; the angle's interval allows for it."
        return (
            "A few rows pull at the fit much more than others. The angle's interval is widened for "
            "it; expect less of the angle itself."
        )


def diagnose(observables: Observables) -> Diagnostics:
    """Diagnostics of a fit from its observables."""
    scores = observables.calibration_scores
    n, spread = len(scores), float(np.std(scores))
    standard = (scores - scores.mean()) / spread if spread > 0 else np.zeros(n)
    levels = (np.arange(min(n, MOST_POINTS)) + 0.5) / min(n, MOST_POINTS)
    leverages = np.sort(observables.leverages)[::-1]
    top, total = max(1, round(TOP_SHARE * n)), float(leverages.sum())
    return Diagnostics(
        skewness=float(skew(standard)) if spread > 0 else 0.0,
        excess_kurtosis=float(kurtosis(standard)) if spread > 0 else 0.0,
        skewness_error=float(np.sqrt(6.0 / n)),
        kurtosis_error=float(np.sqrt(24.0 / n)),
        normal_quantiles=ndtri(levels),
        score_quantiles=np.quantile(standard, levels),
        unevenness=observables.unevenness,
        top_share=float(leverages[:top].sum()) / total if total > 0 else 0.0,
    )
