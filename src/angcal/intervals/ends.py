"""Ends of intervals: quantiles of laws, from a table where rows are many."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.calibrate import Calibration
from angcal.intervals.classes import DRAW_GROUPS, DRAWS, class_law
from angcal.intervals.mixture import Law, pooled
from angcal.intervals.two_classes import TwoClassLaw, two_class_law
from angcal.multiclass import ClassCalibration

KINDS = ("curve", "row")
TABLE_NODES = 2049
"""Scores within `plan.NORMAL_REACH`: ends of more rows are interpolated between so many."""


def interval_law(result: Calibration | ClassCalibration) -> Law:
    """What a fitted classifier keeps for its intervals; its size does not grow with the rows."""
    return two_class_law(result) if isinstance(result, Calibration) else class_law(result)


def check_interval(kind: Any, confidence: Any) -> None:
    """Refuse what is no kind of interval or no level."""
    if kind not in KINDS:
        raise ValueError(
            f"kind={kind!r} must be 'curve' (of the calibrated probability of rows with this "
            "score) or 'row' (of the row's own probability)."
        )
    if not isinstance(confidence, Real) or not 0.0 < float(confidence) < 1.0:
        raise ValueError(
            f"confidence={confidence!r} must lie between 0 and 1, for example 0.9 for 90 %."
        )


def interval(
    shares: Sequence[float],
    laws: Sequence[Law],
    scores: Sequence[Floats],
    kind: str,
    confidence: float,
    factors: Floats | None = None,
) -> Floats:
    """Equal-tailed ends, (n, 2) or (n, K, 2), of the mixture of several models' laws.

    Parameters
    ----------
    shares : (m,) sequence
        Of the models, summing to 1.
    laws : sequence of Law
    scores : sequence of (n,) or (n, K) arrays
        Each model's.
    kind : {"curve", "row"}
    confidence : float
    factors : (K,) array, optional
        Of three and more classes, f of p_k·f_k/Σ_j p_j·f_j: at other shares of the classes.
    """
    first = laws[0]
    if len(laws) == 1 and isinstance(first, TwoClassLaw) and len(scores[0]) > TABLE_NODES:
        found = _by_table(first, scores[0], kind, confidence)
    else:
        found = _ends(shares, laws, scores, kind, confidence, factors)
    return expit(found) if kind == "curve" else first.row_probability(found)


def _ends(
    shares: Sequence[float],
    laws: Sequence[Law],
    scores: Sequence[Floats],
    kind: str,
    confidence: float,
    factors: Floats | None = None,
) -> Floats:
    """On the scale of the laws, a part of the rows at a time."""
    levels = (0.5 - 0.5 * confidence, 0.5 + 0.5 * confidence)

    def of_block(rows: slice) -> Floats:
        pairs = zip(laws, scores, strict=True)
        mixture = pooled(shares, [getattr(law, kind)(each[rows]) for law, each in pairs])
        mixture = mixture if factors is None else mixture.tilted(factors)
        return np.stack([mixture.quantile(level) for level in levels], axis=-1)

    # About as many parts of a mixture for each row and class as there are draws.
    width = len(scores[0][:1].ravel()) * DRAWS * DRAW_GROUPS
    parts = slices(max(len(scores[0]), 1), plan.BLOCK_ENTRIES, width)
    return np.concatenate([of_block(rows) for rows in parts])


def _by_table(law: TwoClassLaw, scores: Floats, kind: str, confidence: float) -> Floats:
    """Of many rows: interpolated between scores a 128th of a standard deviation apart."""
    s = law.scale.standardize(scores)
    inside = np.abs(s) <= plan.NORMAL_REACH
    found = np.empty((len(s), 2))
    found[inside] = table_of_ends(law, kind, confidence)(s[inside])
    if not inside.all():
        found[~inside] = _ends([1.0], [law], [scores[~inside]], kind, confidence)
    return found


def table_of_ends(law: TwoClassLaw, kind: str, confidence: float) -> CubicSpline:
    """Both ends, on the scale of the law, from standard scores within `plan.NORMAL_REACH`."""
    nodes = np.linspace(-plan.NORMAL_REACH, plan.NORMAL_REACH, TABLE_NODES)
    raw = law.scale.center + law.scale.norm * nodes
    return CubicSpline(nodes, _ends([1.0], [law], [raw], kind, confidence))
