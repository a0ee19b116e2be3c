"""Whether a model believes itself too much: the slope that its own scores ask for."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from angcal._typing import Floats
from angcal.penalty_path.curve import fit_curves

# Differences below two standard errors are not told from chance.
CLEAR = 2.0
# A slope within this of 1 changes no probability by much.
SLOPE_MARGIN = 0.1


def calibration_slope(scores: Floats, labels: Floats) -> tuple[float, float]:
    """a ≥ 0 of the likeliest P(y = 1) = σ(a·score + b), and its standard error.

    Parameters
    ----------
    scores : (n,) array
        Of rows that the model has not seen; leave-one-out ones will do.
    labels : (n,) array of 0.0 and 1.0
    """
    if np.ptp(scores) == 0:
        return 0.0, float("inf")
    slopes, offsets = fit_curves(scores[:, None], labels, np.ones_like(scores))
    p = expit(slopes[0] * scores + offsets[0])
    weights = p * (1.0 - p)
    center = np.average(scores, weights=weights)
    information = float(weights @ (scores - center) ** 2)
    return float(slopes[0]), 1.0 / np.sqrt(information) if information > 0 else float("inf")


def confidence_word(slope: float, error: float) -> str:
    """Whether a model with this slope believes itself too much, too little or about right.

    Confidence against accuracy does not tell: a model that is half right by chance and half sure of
    it can still be far off row by row.

    Examples
    --------
    >>> confidence_word(0.3, 0.05), confidence_word(0.95, 0.05)
    ('overconfident', 'about right')
    """
    if not abs(slope - 1.0) > max(CLEAR * error, SLOPE_MARGIN):
        return "about right"
    return "overconfident" if slope < 1.0 else "underconfident"
