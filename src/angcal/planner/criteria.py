r"""Sample sizes for ordinary logistic regression, as pmsampsize has them (Riley et al. 2019).

For d parameters, an expected R² of Cox and Snell and a prevalence φ,

    shrinkage S:        n = d/((S − 1)·log(1 − R²/S))
    optimism δ in R²:   the same with S = R²/(R² + δ·max R²), max R² = 1 − (φ^φ(1−φ)^(1−φ))²
    overall risk ± m:   n = (1.96/m)²·φ(1−φ)
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr


def criteria_of_riley(
    d: float,
    r2: float,
    prevalence: float,
    *,
    shrinkage: float = 0.9,
    optimism: float = 0.05,
    margin: float = 0.05,
) -> dict[str, int]:
    """Labels that each of the three criteria asks for, for a fit without a penalty.

    Parameters
    ----------
    d : float
        Parameters of the model.
    r2 : float
        R² of Cox and Snell that is expected of it.
    prevalence : float
        Share of class 1.
    shrinkage, optimism, margin : float
        S, δ and m; the defaults are those of pmsampsize.

    Returns
    -------
    dict of str to int
        ``shrinkage``, ``optimism`` and ``overall risk``; the largest is the one to take.

    See Also
    --------
    plan_from_assumptions : Puts them beside the labels that a calibrated ridge fit needs.

    Examples
    --------
    >>> criteria_of_riley(24, 0.288, 0.174)
    {'shrinkage': 623, 'optimism': 662, 'overall risk': 221}
    """
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"prevalence={prevalence!r} must lie between 0 and 1.")
    largest = -np.expm1(-2.0 * float(entr(prevalence) + entr(1.0 - prevalence)))
    if not 0.0 < r2 < largest:
        raise ValueError(f"r2={r2!r} must lie between 0 and {largest:.4g} at this prevalence.")

    def labels(S: float) -> float:
        # A fit that good needs no shrinkage to speak of: one label for each parameter.
        return d / ((S - 1.0) * np.log1p(-r2 / S)) if r2 < S else d

    found = {
        "shrinkage": labels(shrinkage),
        "optimism": labels(r2 / (r2 + optimism * largest)),
        "overall risk": (1.96 / margin) ** 2 * prevalence * (1.0 - prevalence),
    }
    return {name: int(np.ceil(each)) for name, each in found.items()}
