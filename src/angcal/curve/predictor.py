r"""The angular predictor F(s) = E_Z σ(c·s + √(1−c²)·Z), its only home.

s is the score in units of its own standard deviation, c the cosine of the angle between fitted and
true weights, σ the link. F(s) is E[σ(w*ᵀx) | ŵᵀx] for Gaussian x: calibrated, and the minimizer
of every Bregman loss among functions of ŵᵀx.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from angcal._typing import Floats
from angcal.links import Cauchit, ComplementaryLogLog, Link, Logit, Probit

TABLE_NODES = 1025
"""Of a table that reaches eight standard deviations, so that F's argument moves little between."""


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


def value_and_slope(link: Link, cosine: float, standard_scores: Floats) -> tuple[Floats, Floats]:
    """(F(s), F′(s)), to 1e-10: for tables.

    A link that is a mixture of probits (:mod:`angcal.links.base`) has both in closed form.
    """
    s = np.asarray(standard_scores, dtype=np.float64)
    if link.fine_mixture is not None:
        value, slope, _ = jet(link, cosine, s)
        return value, slope
    slope = cosine * link.smooth_derivative(cosine * s, noise_share(cosine))
    return angular_probability(link, cosine, s), slope


def jet(link: Link, cosine: float, standard_scores: Floats, order: int = 2) -> list[Floats]:
    """F(s), F′(s), F″(s) and perhaps F‴(s) of a link that is a mixture of probits, to 1e-10."""
    if link.fine_mixture is None:
        raise TypeError(f"{link!r} is no mixture of probits: its F″ has no closed form.")
    steepness, noise = link.scale * cosine, link.scale * noise_share(cosine)
    found = link.fine_mixture.smooth(steepness * standard_scores + link.offset, noise, order)
    for k in range(1, len(found)):
        found[k:] = [steepness * derivative for derivative in found[k:]]
    return found


def tabulated_probability(link: Link, cosine: float, standard_scores: Floats) -> Floats:
    """F(s) by interpolation where there are more scores than table nodes: for likelihoods.

    A likelihood over n labels resolves F to about n^-1/2, so a table that is good to 1e-5 changes
    nothing in the estimate and makes each evaluation linear in n with a small constant. Outlying
    scores, and curves too steep for the table, are evaluated exactly.
    """
    s = np.asarray(standard_scores, dtype=np.float64)
    sine = noise_share(cosine)
    reach = min(float(np.abs(s).max(initial=0.0)), 8.0)
    spacing = 2.0 * reach / (TABLE_NODES - 1)
    steepness = link.scale * abs(cosine) / np.hypot(1.0, link.scale * sine)
    if s.size <= TABLE_NODES or steepness * spacing > 0.15 or _has_kinks(link, sine):
        return angular_probability(link, cosine, s)
    nodes = np.linspace(-reach, reach, TABLE_NODES)
    values, slopes = value_and_slope(link, cosine, nodes)
    inside = np.abs(s) <= reach
    p = np.clip(CubicHermiteSpline(nodes, values, slopes)(np.clip(s, -reach, reach)), 0.0, 1.0)
    if not inside.all():
        p[~inside] = angular_probability(link, cosine, s[~inside])
    return p


def _has_kinks(link: Link, sine: float) -> bool:
    """Whether the smoothed link is still too rough for cubics: no noise to round its corners."""
    smooth_families = (Logit, Probit, ComplementaryLogLog, Cauchit)
    return not isinstance(link, smooth_families) and link.scale * sine < 0.3


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
        """F and F′, without the weight."""
        return value_and_slope(self.link, self.cosine, standard_scores)

    def jet(self, standard_scores: Floats) -> list[Floats]:
        """F, F′, F″ and F‴, without the weight, of a link that is a mixture of probits."""
        return jet(self.link, self.cosine, standard_scores, 3)
