r"""p = ½ + ½ Σ_k w_k erf(m/√(2(s_k² + τ²))), m = κ·c·(u − centre)/‖ŵ‖_Σ + offset: as ONNX nodes.

The logit and the probit are mixtures of probits, base(t) = Σ_k w_k Φ(t/s_k), so that their Gaussian
smoothing has this closed form for every noise level τ = κ·√(1−c²). It is good to 3e-9 for the logit
(`angcal.links.mixture`) at any score, however far out. An average of such curves is a longer sum of
the same kind.

The score u = xᵀŵ + b̂ sums d products and m subtracts a centre, so both are computed in double
precision; single precision would lose the sixth digit of p where scores are large. onnxruntime has
``Erf`` in single precision only, which costs p about 1e-7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal.prediction import ConstantCurve, TabulatedCurve

NEGLIGIBLE = 1e-11
"""Weight of a probit in an average below which it is left out."""


class ExportError(ValueError):
    """A model cannot be written as ONNX; the message says why and what to do."""


class Nodes:
    """Adds constants and operations to skl2onnx's container, and names their results."""

    def __init__(self, scope: Any, container: Any) -> None:
        from onnx import TensorProto

        self._scope, self._container = scope, container
        self.double, self.single = TensorProto.DOUBLE, TensorProto.FLOAT
        self.integer = TensorProto.INT64
        self._types = {"f": self.double, "i": self.integer, "U": TensorProto.STRING}

    def constant(self, values: Any) -> str:
        """The name of an array of doubles, integers or strings."""
        array = np.asarray(values)
        name = self._scope.get_unique_variable_name("constant")
        content = array.ravel().tolist()
        if array.dtype.kind == "U":
            content = [text.encode("utf-8") for text in content]
        kind = self._types[array.dtype.kind]
        self._container.add_initializer(name, kind, list(array.shape), content)
        return name

    def add(self, operation: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """The name of what one operation gives: ``result``, or a new one."""
        name = result or self._scope.get_unique_variable_name(operation.lower())
        self._container.add_node(
            operation,
            list(inputs),
            [name],
            name=self._scope.get_unique_operator_name(operation),
            **attributes,
        )
        return name


def check_curve(curve: Any) -> None:
    """Refuse a curve that has no exact form in ONNX operations."""
    if isinstance(curve, ConstantCurve):
        return
    if not isinstance(curve, TabulatedCurve):
        raise ExportError(
            f"A {type(curve).__name__} has no ONNX form yet; export an AngularCalibratedClassifier "
            "or AngularLogisticRegressionCV that was fitted on two classes."
        )
    link = curve.as_parts()[0].link
    if link.mixture is None:
        raise ExportError(
            f"The {link.name} link has no ONNX form; fit with link=None (logit) or link='probit', "
            "whose smoothing is a sum of error functions."
        )


def score(nodes: Nodes, rows: str, coef: Any, intercept: float) -> str:
    """u = xᵀŵ + b̂ in double precision, one column."""
    exact = nodes.add("Cast", rows, to=nodes.double)
    weights = nodes.constant(np.asarray(coef, dtype=np.float64)[:, None])
    product = nodes.add("MatMul", exact, weights)
    return nodes.add("Add", product, nodes.constant(np.array([float(intercept)])))


def probability(nodes: Nodes, scores: str, curve: TabulatedCurve | ConstantCurve) -> str:
    """P(y = 1) of a column of scores, in double precision."""
    if isinstance(curve, ConstantCurve):
        return _constant(nodes, scores, curve.prevalence)
    return _mixture(nodes, scores, curve)


def _constant(nodes: Nodes, scores: str, prevalence: float) -> str:
    # Not scores·0 + prevalence, which is NaN for an infinite score.
    from onnx import numpy_helper

    value = numpy_helper.from_array(np.array([prevalence]))
    return nodes.add("ConstantOfShape", nodes.add("Shape", scores), value=value)


def _probits(curve: TabulatedCurve) -> tuple[Any, Any, Any]:
    """(weights, slopes, offsets) of p = Σ_j weight_j·Φ(slope_j·(u − centre) + offset_j)."""
    weights, slopes, offsets = [], [], []
    for part in curve.as_parts():
        link = part.link
        if link.mixture is None:
            raise ExportError(f"The {link.name} link is no mixture of probits.")
        widened = np.hypot(link.mixture.widths, link.scale * part.sine)
        weights.append(part.weight * link.mixture.weights)
        slopes.append(link.scale * part.cosine / curve.scale.norm / widened)
        offsets.append(link.offset / widened)
    found = np.array([np.concatenate(each) for each in (weights, slopes, offsets)])
    # A column of the graph each; a thousand of these could not be seen in single precision.
    return tuple(found[:, found[0] > NEGLIGIBLE])


def _mixture(nodes: Nodes, scores: str, curve: TabulatedCurve) -> str:
    weights, slopes, offsets = _probits(curve)
    centred = nodes.add("Sub", scores, nodes.constant(np.array([curve.scale.center])))
    # (n, 1) times (1, K): one column per probit of the mixture.
    moved = nodes.add("Mul", centred, nodes.constant((slopes / np.sqrt(2.0))[None, :]))
    ratios = nodes.add("Add", moved, nodes.constant((offsets / np.sqrt(2.0))[None, :]))
    values = nodes.add("Erf", nodes.add("Cast", ratios, to=nodes.single))
    weights = nodes.constant(0.5 * weights[:, None])
    half = nodes.add("MatMul", nodes.add("Cast", values, to=nodes.double), weights)
    shifted = nodes.add("Add", half, nodes.constant(np.array([0.5])))
    # Weights that sum to one but for rounding leave p a last digit below 0 or above 1.
    lowest, highest = (nodes.constant(np.array(end)) for end in (curve.floor, 1.0 - curve.floor))
    return nodes.add("Clip", shifted, lowest, highest)


def both_classes(nodes: Nodes, positive: str, result: str, double: bool) -> None:
    """Columns P(y = first class) and P(y = second class), under the name ``result``."""
    negative = nodes.add("Sub", nodes.constant(np.array([1.0])), positive)
    pair = nodes.add("Concat", negative, positive, axis=1)
    nodes.add("Cast", pair, to=nodes.double if double else nodes.single, result=result)


def label(nodes: Nodes, positive: str, classes: Any, result: str) -> None:
    """The class whose probability is larger, under the name ``result``."""
    likely = nodes.add("Greater", positive, nodes.constant(np.array([0.5])))
    column = nodes.add("Cast", likely, to=nodes.integer)
    index = nodes.add("Reshape", column, nodes.constant(np.array([-1])))
    nodes.add("Gather", nodes.constant(classes), index, axis=0, result=result)


def class_values(classes: Any) -> Any:
    """The two classes as integers or strings, the only labels that ONNX tensors hold well."""
    values = np.asarray(classes)
    if values.shape != (2,):
        raise ExportError(
            f"The model knows {len(values)} classes; ONNX export takes two for now. Export one "
            "model per pair, or one against the rest."
        )
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "f" and np.all(values == np.round(values)):
        return values.astype(np.int64)
    if all(isinstance(value, str) for value in values.tolist()):
        return values.astype(np.str_)
    raise ExportError(
        f"classes_={values.tolist()!r} are neither whole numbers nor strings; refit with such "
        "labels to export the model."
    )
