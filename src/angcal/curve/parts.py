"""w·F(s) = w·E_Z σ(c·s + √(1−c²)·Z): one curve, and its weight among those it is averaged with."""

from __future__ import annotations

from dataclasses import dataclass

from angcal._typing import Floats
from angcal.curve.predictor import jet, noise_share, value_and_slope
from angcal.links import Link


@dataclass(frozen=True)
class CurvePart:
    """One curve of an average: its weight, and F by its link and cosine.

    Attributes
    ----------
    weight : float
        Those of all parts sum to 1.
    link : Link
    cosine : float
    """

    weight: float
    link: Link
    cosine: float

    @property
    def steepness(self) -> float:
        """κ|c|."""
        return self.link.scale * abs(self.cosine)

    @property
    def sine(self) -> float:
        """√(1 − c²)."""
        return noise_share(self.cosine)

    def values_and_slopes(self, standard_scores: Floats) -> tuple[Floats, Floats]:
        """F and F′, without the weight."""
        return value_and_slope(self.link, self.cosine, standard_scores)

    def jet(self, standard_scores: Floats) -> tuple[Floats, Floats, Floats]:
        """F, F′ and F″, without the weight, of a link that is a mixture of probits."""
        return jet(self.link, self.cosine, standard_scores)
