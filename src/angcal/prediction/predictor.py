r"""The angular predictor F(s) = E_Z σ(c·s + √(1−c²)·Z), its only home.

s is the score in units of its own standard deviation, c the cosine of the angle between fitted and
true weights, σ the link. F(s) is E[σ(w*ᵀx) | ŵᵀx] for Gaussian x: calibrated, and the minimiser
of every Bregman loss among functions of ŵᵀx.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from angcal._typing import Floats
from angcal.links import Cauchit, ComplementaryLogLog, Link, Logit, Probit

# A table reaches eight standard deviations; between nodes the curve's argument moves by a tenth.
TABLE_NODES, TABLE_REACH, LARGEST_STEP, SMALLEST_NOISE = 1025, 8.0, 0.15, 0.3


def angular_probability(link: Link, cosine: float, standard_scores: Floats) -> Floats:
    """F(s) = E_Z σ(c·s + √(1−c²)·Z), to the accuracy of the link's smoothing (1e-10).

    Examples
    --------
    >>> import numpy as np
    >>> from angcal.links import Probit
    >>> angular_probability(Probit(), 0.0, np.array([-3.0, 3.0]))
    array([0.5, 0.5])
    """
    sine = np.sqrt(max(1.0 - cosine * cosine, 0.0))
    return link.smooth(cosine * np.asarray(standard_scores, dtype=np.float64), sine)


def tabulated_probability(link: Link, cosine: float, standard_scores: Floats) -> Floats:
    """F(s) by interpolation where there are more scores than table nodes: for likelihoods.

    A likelihood over n labels resolves F to about n^-1/2, so a table that is good to 1e-5 changes
    nothing in the estimate and makes each evaluation linear in n with a small constant. Outlying
    scores, and curves too steep for the table, are evaluated exactly.
    """
    s = np.asarray(standard_scores, dtype=np.float64)
    sine = np.sqrt(max(1.0 - cosine * cosine, 0.0))
    reach = min(float(np.abs(s).max(initial=0.0)), TABLE_REACH)
    spacing = 2.0 * reach / (TABLE_NODES - 1)
    steepness = link.scale * abs(cosine) / np.hypot(1.0, link.scale * sine)
    if s.size <= TABLE_NODES or steepness * spacing > LARGEST_STEP or _has_kinks(link, sine):
        return angular_probability(link, cosine, s)
    nodes = np.linspace(-reach, reach, TABLE_NODES)
    values = angular_probability(link, cosine, nodes)
    slopes = cosine * link.smooth_derivative(cosine * nodes, sine)
    inside = np.abs(s) <= reach
    p = np.clip(CubicHermiteSpline(nodes, values, slopes)(np.clip(s, -reach, reach)), 0.0, 1.0)
    if not inside.all():
        p[~inside] = angular_probability(link, cosine, s[~inside])
    return p


def _has_kinks(link: Link, sine: float) -> bool:
    """Whether the smoothed link is still too rough for cubics: no noise to round its corners."""
    smooth_families = (Logit, Probit, ComplementaryLogLog, Cauchit)
    return not isinstance(link, smooth_families) and link.scale * sine < SMALLEST_NOISE
