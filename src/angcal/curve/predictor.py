r"""The angular predictor F(s) = E_Z σ(c·s + √(1−c²)·Z), its only home.

s is the score in units of its own standard deviation, c the cosine of the angle between fitted and
true weights, σ the link. F(s) is E[σ(w*ᵀx) | ŵᵀx] for Gaussian x: calibrated, and the minimizer
of every Bregman loss among functions of ŵᵀx.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.links import Link


def noise_share(cosine: float) -> float:
    """√(1 − c²): what of the true index the score does not tell."""
    return float(np.sqrt(max(1.0 - cosine * cosine, 0.0)))


def angular_probability(link: Link, cosine: float, standard_scores: Floats) -> Floats:
    """F(s) = E_Z σ(c·s + √(1−c²)·Z), to the accuracy of the link's smoothing (1e-10).

    Examples
    --------
    >>> import numpy as np
    >>> from angcal.links import Probit
    >>> angular_probability(Probit(), 0.0, np.array([-3.0, 3.0]))
    array([0.5, 0.5])
    """
    s = np.asarray(standard_scores, dtype=np.float64)
    return link.smooth(cosine * s, noise_share(cosine))


def jet(link: Link, cosine: float, standard_scores: Floats, order: int = 2) -> list[Floats]:
    """F(s), F′(s), F″(s) and perhaps F‴(s) of a link that is a mixture of probits, to 1e-10."""
    if link.fine_mixture is None:
        raise TypeError(f"{link!r} is no mixture of probits: its F″ has no closed form.")
    steepness, noise = link.scale * cosine, link.scale * noise_share(cosine)
    found = link.fine_mixture.smooth(steepness * standard_scores + link.offset, noise, order)
    for k in range(1, len(found)):
        found[k:] = [steepness * derivative for derivative in found[k:]]
    return found


@dataclass(frozen=True)
class CurvePart:
    """One curve of an average: its weight, and F by its link and cosine."""

    weight: float  # Those of all parts sum to 1
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
        """F and F′ to 1e-10, without the weight.

        A link that is a mixture of probits (:mod:`angcal.links.base`) has both in closed form.
        """
        link, cosine = self.link, self.cosine
        if link.fine_mixture is not None:
            value, slope, _ = jet(link, cosine, standard_scores)
            return value, slope
        slope = cosine * link.smooth_derivative(cosine * standard_scores, self.sine)
        return angular_probability(link, cosine, standard_scores), slope

    def jet(self, standard_scores: Floats) -> list[Floats]:
        """F, F′, F″ and F‴, without the weight, of a link that is a mixture of probits."""
        return jet(self.link, self.cosine, standard_scores, 3)
