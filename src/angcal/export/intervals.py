r"""Intervals in ONNX nodes: a table of two cubic splines in the standard score.

    low, high = σ(spline(s)),   s = (u − center)/‖ŵ‖_Σ

the table of :func:`angcal.intervals.table_of_ends`, straight on beyond its ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal.arrays import on_host
from angcal.export.nodes import ExportError, Nodes
from angcal.intervals import TABLE_NODES, TABLE_REACH, TwoClassLaw, check_interval, table_of_ends
from angcal.links import Logit


def check_has_table(model: Any, kind: Any, confidence: Any) -> None:
    """Refuse a model whose interval is no table in one score."""
    check_interval(kind, confidence)
    law = getattr(model, "interval_law_", None)
    if len(model.classes_) > 2:
        why = f"the model has {len(model.classes_)} classes"
    elif getattr(model, "average_", None) is not None:
        why = (
            f"average={model.average!r} mixes the laws of several models, each with a score of "
            "its own"
        )
    elif not isinstance(law, TwoClassLaw):
        why = f"a {type(model).__name__} without an angle or without signal has no such law"
    elif kind == "row" and not isinstance(law.family, Logit):
        why = f"a row's own interval is written for the logistic link, not for {law.family.name}"
    else:
        return
    raise ExportError(
        f"interval={confidence!r} needs a table of one score, and {why}; export without it and "
        "call predict_interval."
    )


def write_interval(
    nodes: Nodes, rows: str, model: Any, kind: str, confidence: float, p: str
) -> list[str]:
    """Names of the lower and the upper end, (n, 1); p is the probability of the second class."""
    law: TwoClassLaw = model.interval_law_
    table = table_of_ends(law, kind, float(confidence))
    weights = np.atleast_2d(on_host(model.coef_)).astype(np.float64).T / law.scale.norm
    offset = (on_host(model.intercept_) - law.scale.center) / law.scale.norm
    s = nodes.plus(nodes.into(rows, weights), offset)
    inside = nodes.within(s, -TABLE_REACH, TABLE_REACH)
    per_unit = (TABLE_NODES - 1) / (2.0 * TABLE_REACH)
    place = nodes.add("Floor", nodes.times(nodes.plus(inside, TABLE_REACH), per_unit))
    place = nodes.within(place, 0.0, TABLE_NODES - 2.0)
    step = nodes.add("Sub", inside, nodes.plus(nodes.times(place, 1.0 / per_unit), -TABLE_REACH))
    number = nodes.shaped(nodes.add("Cast", place, to=nodes.integer), -1)
    beyond, found = nodes.add("Sub", s, inside), []
    ends = table(np.array([-TABLE_REACH, TABLE_REACH]), 1)
    for side, bound in enumerate(("Min", "Max")):
        value = ""
        for coefficients in table.c[:, :, side]:  # of the cube first
            own = nodes.add("Gather", nodes.constant(coefficients[:, None]), number, axis=0)
            value = nodes.add("Add", nodes.add("Mul", value, step), own) if value else own
        below, above = (nodes.within(beyond, *ends_) for ends_ in ((-1e300, 0.0), (0.0, 1e300)))
        for part, slope in ((below, ends[0, side]), (above, ends[1, side])):
            value = nodes.add("Add", value, nodes.times(part, slope))
        end = _at_prevalence(nodes, nodes.add("Sigmoid", value), model)
        # A row's own interval need not hold p, which is a mean.
        found.append(nodes.add(bound, end, p) if kind == "curve" else end)
    return found


def _at_prevalence(nodes: Nodes, end: str, model: Any) -> str:
    """The end for other shares of the classes."""
    if not hasattr(model, "prevalence_"):
        return end
    factors = np.ravel(model.prevalence_.factors)
    own = nodes.times(end, factors[1])
    other = nodes.times(nodes.add("Sub", nodes.constant(1.0), end), factors[0])
    return nodes.add("Div", own, nodes.add("Add", own, other))
