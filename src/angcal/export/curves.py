r"""From scores to probabilities in ONNX nodes, one function for each kind of map: `CURVES`.

Two classes, the angular curve: p = ½ + ½ Σ_k w_k erf(m/√(2(s_k² + τ²))),
m = κ·c·(u − center)/‖ŵ‖_Σ + offset. The logit and the probit are mixtures of probits,
base(t) = Σ_k w_k Φ(t/s_k), so that their Gaussian smoothing has this closed form for every noise
level τ = κ·√(1−c²). It is good to 3e-9 for the logit (`angcal.links`) at any score, however far
out. An average of such curves is a longer sum of the same kind.

More classes: P = Σ_j π_j g(a_j∘u + b_j), and for a known link the sum over the nodes of its noise,
both as products of matrices, so that the graph does not grow with the classes.

Everything is computed in double precision: single precision would lose the sixth digit of p where
scores are large. Only ``Erf``, which onnxruntime has in single precision alone, costs p about 1e-7.

A writer takes the nodes, the name of the scores, (n, 1) or (n, K), and the map; it returns the name
of P(y = 1), (n, 1), or of all probabilities, (n, K). To export another kind of map, write such a
function and add it to `CURVES`.

An interval is a table of two cubic splines in the standard score, straight on beyond its ends:
low, high = σ(spline(s)), s = (u − center)/‖ŵ‖_Σ (:func:`angcal.intervals.table_of_ends`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import on_host
from angcal.baselines import (
    BetaCalibration,
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRestCalibration,
    PairedScores,
    PlattScaling,
    QuadraticScaling,
    SoftmaxTemperature,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from angcal.curve import AveragedCurve, CalibratedCurve, ConstantCurve, TabulatedCurve
from angcal.estimators.fold_average import FoldAverage
from angcal.export.nodes import ExportError, Nodes
from angcal.intervals import TABLE_NODES, TwoClassLaw, check_interval, table_of_ends
from angcal.links import Link, Logit, Probit
from angcal.links.multiclass import MulticlassLink, OneVsRest, Softmax
from angcal.multiclass import ClassMap, MulticlassPredictor
from angcal.penalty_path import PenaltyAverage

# Keeps 0/0 away where a class is impossible at a node.
TINY = 1e-300

Writer = Callable[[Nodes, str, Any], str]


def write_model(nodes: Nodes, rows: str, model: Any) -> str:
    """Probabilities of a fitted classifier, (n, 1) or (n, K), from rows of doubles."""
    average = getattr(model, "average_", None)
    if average is None:
        return _write_linear(nodes, rows, model.coef_, model.intercept_, model.curve_)
    if isinstance(average, PenaltyAverage):
        shares = average.shares
        found = [
            _write_linear(nodes, rows, *parts)
            for parts in zip(average.coefs, average.intercepts, average.curves, strict=True)
        ]
    else:
        shares = np.array([share for share, _ in average.parts])
        found = [write_model(nodes, rows, classifier) for _, classifier in average.parts]
    # Shares that sum to one but for rounding leave p a last digit above 1.
    return nodes.within(nodes.weighted_sum(found, shares), 0.0, 1.0)


def curves_of(model: Any) -> list[Any]:
    """Every map from scores to probabilities that the model's predictions use."""
    average = getattr(model, "average_", None)
    if isinstance(average, PenaltyAverage):
        return list(average.curves)
    if isinstance(average, FoldAverage):
        return [curve for _, each in average.parts for curve in curves_of(each)]
    return [model.curve_]


def check_curve(curve: Any) -> None:
    """Refuse a map that no writer is known for."""
    if type(curve) not in CURVES:
        raise ExportError(
            f"A {type(curve).__name__} has no ONNX form; use one of angcal's own calibrators, or "
            "add a writer to angcal.export.curves.CURVES."
        )


def _write_linear(nodes: Nodes, rows: str, coef: Any, intercept: Any, curve: Any) -> str:
    """F(Xŵ + b̂), one column of scores for each row of ``coef``."""
    weights = np.atleast_2d(on_host(coef)).astype(np.float64)
    intercepts = np.atleast_1d(on_host(intercept)).astype(np.float64)
    scores = nodes.plus(nodes.into(rows, weights.T), intercepts)
    return CURVES[type(curve)](nodes, scores, curve)


# -- two classes ------------------------------------------------------------------------------


def _constant(nodes: Nodes, scores: str, curve: ConstantCurve) -> str:
    from onnx import numpy_helper

    # Not scores·0 + prevalence, which is NaN for an infinite score.
    value = numpy_helper.from_array(np.array([curve.prevalence]))
    return nodes.add("ConstantOfShape", nodes.add("Shape", scores), value=value)


def _probits(curve: TabulatedCurve) -> tuple[Any, Any, Any]:
    """(weights, slopes, offsets) of p = Σ_j weight_j·Φ(slope_j·(u − center) + offset_j)."""
    weights, slopes, offsets = [], [], []
    for part in curve.as_parts():
        link: Any = part.link
        if link.mixture is None:
            raise ExportError(
                f"The {link.name} link has no ONNX form; fit with link=None (logit) or "
                "link='probit', whose smoothing is a sum of error functions."
            )
        widened = np.hypot(link.mixture.widths, link.scale * part.sine)
        weights.append(part.weight * link.mixture.weights)
        slopes.append(link.scale * part.cosine / curve.scale.norm / widened)
        offsets.append(link.offset / widened)
    found = np.array([np.concatenate(each) for each in (weights, slopes, offsets)])
    # Each is a column of the graph; a thousand of smaller weights do not show in single precision.
    return tuple(found[:, found[0] > 1e-11])


def _angular(nodes: Nodes, scores: str, curve: TabulatedCurve) -> str:
    weights, slopes, offsets = _probits(curve)
    centered = nodes.add("Sub", scores, nodes.constant(np.array([curve.scale.center])))
    # (n, 1) times (1, J): one column per probit of the mixture.
    p = _normal_sum(nodes, nodes.plus(nodes.times(centered, slopes[None]), offsets[None]), weights)
    # Weights that sum to one but for rounding leave p a last digit below 0 or above 1.
    return nodes.within(p, curve.floor, 1.0 - curve.floor)


def _normal_sum(nodes: Nodes, arguments: str, weights: Floats) -> str:
    """Σ_j w_j Φ(t_j) = ½ + ½ Σ_j w_j erf(t_j/√2), weights that sum to one."""
    single = nodes.add("Cast", nodes.times(arguments, np.sqrt(0.5)), to=nodes.single)
    values = nodes.add("Cast", nodes.add("Erf", single), to=nodes.double)
    return nodes.plus(nodes.into(values, 0.5 * weights[:, None]), 0.5)


def _platt(nodes: Nodes, scores: str, curve: PlattScaling) -> str:
    link: Link = curve.link_
    slope, offset = link.scale * curve.slope_, link.scale * curve.intercept_ + link.offset
    arguments = nodes.plus(nodes.times(scores, slope), offset)
    if isinstance(link, Logit):
        return nodes.add("Sigmoid", arguments)
    if isinstance(link, Probit):
        return nodes.within(_normal_sum(nodes, arguments, np.ones(1)), 0.0, 1.0)
    raise ExportError(
        f"Platt scaling with the {link.name} link has no ONNX form; use PlattScaling(Logit()) or "
        "PlattScaling(Probit())."
    )


def _temperature(nodes: Nodes, scores: str, curve: TemperatureScaling) -> str:
    return nodes.add("Sigmoid", nodes.times(scores, 1.0 / curve.temperature_))


def _isotonic(nodes: Nodes, scores: str, curve: IsotonicCalibration) -> str:
    """y_0 + Σ_j (y_{j+1} − y_j)·clip((u − x_j)/(x_{j+1} − x_j), 0, 1)."""
    x, y = curve.isotonic_.X_thresholds_, curve.isotonic_.y_thresholds_
    rises = np.flatnonzero(np.diff(y) > 0)
    if len(rises) == 0:
        return _constant(nodes, scores, ConstantCurve(float(y[0])))
    away = nodes.plus(scores, -x[rises][None])
    way = nodes.add("Div", away, nodes.constant(np.diff(x)[rises][None]))
    steps = nodes.into(nodes.within(way, 0.0, 1.0), np.diff(y)[rises][:, None])
    return nodes.within(nodes.plus(steps, y[0]), 0.0, 1.0)


def _histogram(nodes: Nodes, scores: str, curve: HistogramBinning) -> str:
    """v_0 + Σ_j (v_{j+1} − v_j)·[u > e_j]."""
    if len(curve.edges_) == 0:
        return _constant(nodes, scores, ConstantCurve(float(curve.values_[0])))
    above = nodes.add("Greater", scores, nodes.constant(curve.edges_[None]))
    steps = nodes.into(nodes.add("Cast", above, to=nodes.double), np.diff(curve.values_)[:, None])
    return nodes.within(nodes.plus(steps, curve.values_[0]), 0.0, 1.0)


def _beta(nodes: Nodes, scores: str, curve: BetaCalibration) -> str:
    """σ(a log σ(u) − b log σ(−u) + c), where log σ(−u) = log σ(u) − u."""
    bent = nodes.times(_log_sigmoid(nodes, scores), curve.a_ - curve.b_)
    straight = nodes.plus(nodes.times(scores, curve.b_), curve.c_)
    return nodes.add("Sigmoid", nodes.add("Add", bent, straight))


def _quadratic(nodes: Nodes, scores: str, curve: QuadraticScaling) -> str:
    v = nodes.times(nodes.plus(scores, -curve.center_), 1.0 / curve.unit_)
    slope = nodes.plus(nodes.times(v, curve.a_), curve.b_)
    return nodes.add("Sigmoid", nodes.plus(nodes.add("Mul", slope, v), curve.c_))


def _paired(nodes: Nodes, scores: str, curve: PairedScores) -> str:
    """P(y = 1) by the map of K classes at (−u/2, u/2)."""
    inner = curve.calibrator_
    both = CURVES[type(inner)](nodes, nodes.times(scores, [[-0.5, 0.5]]), inner)
    return nodes.columns(both, [1])


def _log_sigmoid(nodes: Nodes, name: str) -> str:
    """log σ(t) = min(t, 0) − log(1 + exp(−|t|)), finite for any t."""
    decay = nodes.add("Exp", nodes.add("Neg", nodes.add("Abs", name)))
    bend = nodes.add("Log", nodes.plus(decay, 1.0))
    return nodes.add("Sub", nodes.add("Min", name, nodes.constant(0.0)), bend)


# -- three and more classes -------------------------------------------------------------------


def _class_map(nodes: Nodes, scores: str, curve: ClassMap) -> str:
    """floor + (1 − K·floor) Σ_j π_j g(a_j∘u + b_j): all j at once in an (n, m, K) array."""
    K = curve.slopes.shape[1]
    link, offsets = curve.link, curve.offsets
    if isinstance(link, Softmax):
        mean = nodes.into(scores, np.full((K, 1), 1.0 / K))
        scores, offsets = nodes.add("Sub", scores, mean), offsets + np.asarray(link.offset)
    each = nodes.times(nodes.shaped(scores, -1, 1, K), curve.slopes[None])
    p = _shares(nodes, nodes.plus(each, offsets[None]), link)
    total = (1.0 - K * curve.floor) * curve.shares / curve.shares.sum()
    mixed = nodes.shaped(nodes.add("MatMul", nodes.constant(total[None]), p), -1, K)
    return nodes.plus(mixed, curve.floor)


def _shares(nodes: Nodes, logits: str, link: MulticlassLink) -> str:
    """g of the last axis, without the link's offset."""
    if isinstance(link, OneVsRest):
        logits = _log_sigmoid(nodes, logits)
    elif not isinstance(link, Softmax):
        raise ExportError(
            f"A {type(link).__name__} link has no ONNX form; use a softmax or one-vs-rest heads."
        )
    return nodes.add("Softmax", logits, axis=-1)


def _multiclass(nodes: Nodes, scores: str, curve: MulticlassPredictor) -> str:
    """Σ_r w_r softmax(m + ν_r) = a∘((w/(a·bᵀ))·b), a ∝ exp(m), b = exp(ν), for each component."""
    if not isinstance(curve.link, Softmax):
        raise ExportError(
            f"A MulticlassPredictor with a {type(curve.link).__name__} link has no ONNX form; "
            "use a Softmax."
        )
    centered = nodes.plus(scores, -curve.center)
    means = nodes.plus(nodes.into(centered, curve.slopes.T), curve.offset)
    found = []
    for (_, length, noise), rule in zip(curve.components, curve.rules, strict=True):
        logits = nodes.plus(nodes.times(means, length), np.asarray(curve.link.offset))
        found.append(_smoothed(nodes, logits, curve.shifts(noise, rule), rule.weights))
    weights = np.array([weight for weight, _, _ in curve.components])
    total = nodes.weighted_sum(found, weights)
    K = curve.link.n_outputs
    p = nodes.add("Div", total, nodes.into(total, np.ones((K, 1))))
    return nodes.plus(nodes.times(p, 1.0 - K * curve.floor), curve.floor)


def _smoothed(nodes: Nodes, logits: str, shifts: Floats, weights: Floats) -> str:
    # Where a row of a or of b is multiplied by a number, the result stays.
    a = nodes.add("Softmax", logits, axis=-1)
    b = nodes.constant(np.exp(shifts - shifts.max(axis=1, keepdims=True)))
    sums = nodes.add("Max", nodes.add("Gemm", a, b, transB=1), nodes.constant(TINY))
    ratios = nodes.add("Div", nodes.constant(weights), sums)
    return nodes.add("Mul", a, nodes.add("MatMul", ratios, b))


def _softmax_temperature(nodes: Nodes, scores: str, curve: SoftmaxTemperature) -> str:
    return nodes.add("Softmax", nodes.times(scores, 1.0 / curve.temperature_), axis=-1)


def _vector(nodes: Nodes, scores: str, curve: VectorScaling) -> str:
    logits = nodes.plus(nodes.times(scores, curve.slopes_), curve.offsets_)
    return nodes.add("Softmax", logits, axis=-1)


def _matrix(
    nodes: Nodes, scores: str, curve: MatrixScaling | DirichletCalibration | StructuredMatrixScaling
) -> str:
    logits = nodes.plus(nodes.into(scores, curve.matrix_.T), curve.offsets_)
    return nodes.add("Softmax", logits, axis=-1)


def _structured(nodes: Nodes, scores: str, curve: StructuredMatrixScaling) -> str:
    return _dirichlet(nodes, nodes.times(scores, 1.0 / curve.temperature_), curve)


def _dirichlet(
    nodes: Nodes, scores: str, curve: DirichletCalibration | StructuredMatrixScaling
) -> str:
    return _matrix(nodes, nodes.add("LogSoftmax", scores, axis=-1), curve)


def _one_vs_rest(nodes: Nodes, scores: str, curve: OneVsRestCalibration) -> str:
    """m_k/Σ_l m_l with one small graph for each class; 1/K where all are zero."""
    K, columns = curve.n_classes_, []
    for k, inner in enumerate(curve.calibrators_):
        own = nodes.columns(scores, [k])
        if curve.log_odds:
            others = nodes.columns(scores, np.delete(np.arange(K), k))
            own = nodes.add("Sub", own, _log_sum_exp(nodes, others))
        columns.append(CURVES[type(inner)](nodes, own, inner))
    each = nodes.add("Concat", *columns, axis=1)
    total = nodes.into(each, np.ones((K, 1)))
    some = nodes.add("Greater", total, nodes.constant(0.0))
    shares = nodes.add("Div", each, nodes.add("Max", total, nodes.constant(TINY)))
    return nodes.add("Where", some, shares, nodes.constant(np.full((1, K), 1.0 / K)))


def _log_sum_exp(nodes: Nodes, logits: str) -> str:
    """log Σ_k exp z_k of each row: z_k − log softmax(z)_k, the same for every k."""
    axis = nodes.constant(np.array([1]))
    largest = nodes.add("ReduceMax", logits, axis, keepdims=1)
    logs = nodes.add("ReduceMax", nodes.add("LogSoftmax", logits, axis=-1), axis, keepdims=1)
    return nodes.add("Sub", largest, logs)


CURVES: dict[type, Writer] = {
    CalibratedCurve: _angular,
    AveragedCurve: _angular,
    ConstantCurve: _constant,
    ClassMap: _class_map,
    MulticlassPredictor: _multiclass,
    PlattScaling: _platt,
    TemperatureScaling: _temperature,
    IsotonicCalibration: _isotonic,
    HistogramBinning: _histogram,
    BetaCalibration: _beta,
    QuadraticScaling: _quadratic,
    PairedScores: _paired,
    SoftmaxTemperature: _softmax_temperature,
    VectorScaling: _vector,
    MatrixScaling: _matrix,
    StructuredMatrixScaling: _structured,
    DirichletCalibration: _dirichlet,
    OneVsRestCalibration: _one_vs_rest,
}
"""How each kind of map is written."""


# -- intervals -----------------------------------------------------------------------------------


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
    inside = nodes.within(s, -plan.NORMAL_REACH, plan.NORMAL_REACH)
    per_unit = (TABLE_NODES - 1) / (2.0 * plan.NORMAL_REACH)
    place = nodes.add("Floor", nodes.times(nodes.plus(inside, plan.NORMAL_REACH), per_unit))
    place = nodes.within(place, 0.0, TABLE_NODES - 2.0)
    step = nodes.add(
        "Sub", inside, nodes.plus(nodes.times(place, 1.0 / per_unit), -plan.NORMAL_REACH)
    )
    number = nodes.shaped(nodes.add("Cast", place, to=nodes.integer), -1)
    beyond, found = nodes.add("Sub", s, inside), []
    ends = table(np.array([-plan.NORMAL_REACH, plan.NORMAL_REACH]), 1)
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
