r"""A fitted classifier for other runtimes: ``to_onnx(model, n_features)``.

p = ½ + ½ Σ_k w_k erf(m/√(2(s_k² + τ²))), m = κ·c·(u − center)/‖ŵ‖_Σ + offset: as ONNX nodes.

The logit and the probit are mixtures of probits, base(t) = Σ_k w_k Φ(t/s_k), so that their Gaussian
smoothing has this closed form for every noise level τ = κ·√(1−c²). It is good to 3e-9 for the logit
(`angcal.links`) at any score, however far out. An average of such curves is a longer sum of the
same kind.

The score u = xᵀŵ + b̂ sums d products and m subtracts a center, so both are computed in double
precision; single precision would lose the sixth digit of p where scores are large. onnxruntime has
``Erf`` in single precision only, which costs p about 1e-7.

No ONNX package is imported before a function is called.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from angcal.curve import ConstantCurve, TabulatedCurve
from angcal.estimators import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.sklearn_problems import unwrap

__all__ = ["ExportError", "register_converters", "to_onnx"]

CLASSIFIERS = (AngularCalibratedClassifier, AngularLogisticRegressionCV)
INPUT, EXACT_INPUT = "X", "X_double"


class ExportError(ValueError):
    """A model cannot be written as ONNX; the message says why and what to do."""


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    dtype: str = "float32",
    initial_types: Any = None,
    target_opset: Any = None,
) -> Any:
    """The ONNX model (X) → (label, probabilities), whose probabilities are ``predict_proba``'s.

    Parameters
    ----------
    model : fitted AngularCalibratedClassifier or AngularLogisticRegressionCV
        Or a Pipeline that ends in one. A Pipeline inside the classifier is converted too. Links
        other than logit and probit, and more than two classes, are refused.
    X : (n, d) array or int
        Rows to take the number of columns from, or that number.
    dtype : {"float32", "float64"}, default="float32"
        Of the input and of the probabilities. In between all is computed in double precision,
        so that single precision in the input costs no more than its own rounding.
    initial_types : list of (name, skl2onnx type), optional
        In place of X, for models that take more than one input, or text. Then nothing is cast, and
        transformers in front of the classifier work in the precision of the types given.
    target_opset : int or dict, optional
        As in skl2onnx; its newest by default.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` is what goes into a file. Outputs are ``label`` (one per row) and
        ``probabilities`` (one column per class, in the order of ``classes_``).

    See Also
    --------
    register_converters : For a classifier inside a larger model.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier
    >>> from angcal.simulation import simulate
    >>> data = simulate(100, 20, link="logit", random_state=0)
    >>> found = to_onnx(AngularCalibratedClassifier().fit(data.X, data.y), data.X)
    >>> [output.name for output in found.graph.output]
    ['label', 'probabilities']
    """
    _check_exportable(_last_step(model))
    if dtype not in ("float32", "float64"):
        raise ExportError(f"dtype={dtype!r} must be 'float32' or 'float64'.")
    skl2onnx = _import_skl2onnx()
    register_converters()
    convert = partial(skl2onnx.convert_sklearn, model, "angcal", target_opset=target_opset)
    if initial_types is not None:
        return convert(initial_types=initial_types)
    from skl2onnx.common.data_types import DoubleTensorType

    name = INPUT if dtype == "float64" else EXACT_INPUT
    types = [(name, DoubleTensorType([None, _column_count(X)]))]
    exact = convert(initial_types=types)
    return exact if dtype == "float64" else _in_single_precision(exact)


def _last_step(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def _column_count(X: Any) -> int:
    if isinstance(X, Integral) and not isinstance(X, bool) and int(X) > 0:
        return int(X)
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] == 0:
        raise ExportError(
            f"X must be rows of the model's features or their number; got shape {shape}. Pass for "
            "example X_train[:1], or X_train.shape[1]."
        )
    return int(shape[1])


def _in_single_precision(model: Any) -> Any:
    """Casts around the graph: float32 in and out, doubles in between."""
    from onnx import TensorProto, helper

    graph = model.graph
    # The scale of a double's rounding is nothing to a float32; the cast itself is exact.
    graph.node.insert(0, helper.make_node("Cast", [INPUT], [EXACT_INPUT], to=TensorProto.DOUBLE))
    _retype(graph.input[0], INPUT, TensorProto.FLOAT)
    for output in graph.output:
        if output.type.tensor_type.elem_type != TensorProto.DOUBLE:
            continue
        exact = f"{output.name}_double"
        for node in graph.node:
            node.output[:] = [exact if name == output.name else name for name in node.output]
            node.input[:] = [exact if name == output.name else name for name in node.input]
        graph.node.append(helper.make_node("Cast", [exact], [output.name], to=TensorProto.FLOAT))
        _retype(output, output.name, TensorProto.FLOAT)
    return model


def _retype(value: Any, name: str, kind: int) -> None:
    value.name = name
    value.type.tensor_type.elem_type = kind


# -- what skl2onnx has to know: how to parse, shape and convert ---------------------------------


def register_converters() -> None:
    """Teach skl2onnx angcal's classifiers, for this process.

    :func:`to_onnx` does this by itself. Call it once before ``skl2onnx.to_onnx`` or
    ``convert_sklearn``, for example where a classifier is part of a larger model.

    See Also
    --------
    to_onnx : Converts one classifier or pipeline.

    Examples
    --------
    >>> register_converters()
    """
    skl2onnx = _import_skl2onnx()
    for classifier in CLASSIFIERS:
        skl2onnx.update_registered_converter(
            classifier,
            _alias_of(classifier),
            shape_fct=_shapes,
            convert_fct=_convert,
            overwrite=True,
            parser=_parse,
            options={"zipmap": [False]},
        )


def _import_skl2onnx() -> Any:
    """The package skl2onnx, or an ImportError that says how to get it."""
    try:
        import skl2onnx
    except ImportError as error:
        raise ImportError(
            f"ONNX export needs skl2onnx ({error}); pip install 'angcal[onnx]'."
        ) from error
    return skl2onnx


def _alias_of(classifier: type) -> str:
    """The name that skl2onnx files a classifier under."""
    return f"Angcal{classifier.__name__}"


def _check_exportable(model: Any) -> None:
    """Refuse a classifier that is not angcal's, is not fitted, or has no exact form in ONNX."""
    if not isinstance(model, CLASSIFIERS):
        raise ExportError(
            f"model ends in a {type(model).__name__}; to_onnx takes an "
            "AngularCalibratedClassifier, an AngularLogisticRegressionCV, or a Pipeline that ends "
            "in one. For other models use skl2onnx.to_onnx."
        )
    check_is_fitted(model, "curve_")
    if getattr(model, "average_", None) is not None:
        raise ExportError(
            f"average={model.average!r} averages the probabilities of more than one linear model, "
            "which to_onnx does not write; fit with average=None."
        )
    _class_values(model.classes_)
    _check_curve(model.curve_)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the transformers inside the classifier, then the classifier on what they give.

    There is no ZipMap: probabilities are a matrix, as in scikit-learn.
    """
    # skl2onnx's converter of pipelines uses the same function; the public one would mark the
    # transformers' results as results of the whole model.
    from skl2onnx._parse import _parse_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType

    _check_exportable(model)
    # What stands in front of the linear model inside the classifier, or None.
    transformer = unwrap(model.estimator_)[0] if hasattr(model, "estimator_") else None
    rows = inputs
    if transformer is not None:
        rows = _parse_sklearn(scope, transformer, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(_alias_of(type(model)), model)
    operator.inputs = rows
    kind = DoubleTensorType if isinstance(rows[0].type, DoubleTensorType) else FloatTensorType
    # The label's type depends on the classes and is set with the shapes.
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", kind()))
    return operator.outputs


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    if len(operator.inputs) != 1:
        raise ExportError(
            f"The classifier gets {len(operator.inputs)} separate columns; give initial_types as "
            "one matrix, or put a ColumnTransformer in front that joins them."
        )
    rows = operator.inputs[0].get_first_dimension()
    classes = _class_values(operator.raw_operator.classes_)
    kind = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].set_type(kind([rows]))
    operator.outputs[1].set_type(type(operator.outputs[1].type)([rows, 2]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    model, nodes = operator.raw_operator, _Nodes(scope, container)
    scores = _score(nodes, operator.inputs[0].full_name, model.coef_[0], float(model.intercept_[0]))
    positive = _probability(nodes, scores, model.curve_)
    classes = _class_values(model.classes_)
    _label(nodes, positive, classes, operator.outputs[0].full_name)
    double = isinstance(operator.outputs[1].type, DoubleTensorType)
    _both_classes(nodes, positive, operator.outputs[1].full_name, double)


# -- the graph --------------------------------------------------------------------------------


class _Nodes:
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


def _check_curve(curve: Any) -> None:
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


def _score(nodes: _Nodes, rows: str, coef: Any, intercept: float) -> str:
    """u = xᵀŵ + b̂ in double precision, one column."""
    exact = nodes.add("Cast", rows, to=nodes.double)
    weights = nodes.constant(np.asarray(coef, dtype=np.float64)[:, None])
    product = nodes.add("MatMul", exact, weights)
    return nodes.add("Add", product, nodes.constant(np.array([float(intercept)])))


def _probability(nodes: _Nodes, scores: str, curve: TabulatedCurve | ConstantCurve) -> str:
    """P(y = 1) of a column of scores, in double precision."""
    if not isinstance(curve, ConstantCurve):
        return _mixture(nodes, scores, curve)
    from onnx import numpy_helper

    # Not scores·0 + prevalence, which is NaN for an infinite score.
    value = numpy_helper.from_array(np.array([curve.prevalence]))
    return nodes.add("ConstantOfShape", nodes.add("Shape", scores), value=value)


def _probits(curve: TabulatedCurve) -> tuple[Any, Any, Any]:
    """(weights, slopes, offsets) of p = Σ_j weight_j·Φ(slope_j·(u − center) + offset_j)."""
    weights, slopes, offsets = [], [], []
    for part in curve.as_parts():
        link: Any = part.link
        widened = np.hypot(link.mixture.widths, link.scale * part.sine)
        weights.append(part.weight * link.mixture.weights)
        slopes.append(link.scale * part.cosine / curve.scale.norm / widened)
        offsets.append(link.offset / widened)
    found = np.array([np.concatenate(each) for each in (weights, slopes, offsets)])
    # Each is a column of the graph; a thousand of smaller weights do not show in single precision.
    return tuple(found[:, found[0] > 1e-11])


def _mixture(nodes: _Nodes, scores: str, curve: TabulatedCurve) -> str:
    weights, slopes, offsets = _probits(curve)
    centered = nodes.add("Sub", scores, nodes.constant(np.array([curve.scale.center])))
    # (n, 1) times (1, K): one column per probit of the mixture.
    moved = nodes.add("Mul", centered, nodes.constant((slopes / np.sqrt(2.0))[None, :]))
    ratios = nodes.add("Add", moved, nodes.constant((offsets / np.sqrt(2.0))[None, :]))
    values = nodes.add("Erf", nodes.add("Cast", ratios, to=nodes.single))
    weights = nodes.constant(0.5 * weights[:, None])
    half = nodes.add("MatMul", nodes.add("Cast", values, to=nodes.double), weights)
    shifted = nodes.add("Add", half, nodes.constant(np.array([0.5])))
    # Weights that sum to one but for rounding leave p a last digit below 0 or above 1.
    lowest, highest = (nodes.constant(np.array(end)) for end in (curve.floor, 1.0 - curve.floor))
    return nodes.add("Clip", shifted, lowest, highest)


def _both_classes(nodes: _Nodes, positive: str, result: str, double: bool) -> None:
    """Columns P(y = first class) and P(y = second class), under the name ``result``."""
    negative = nodes.add("Sub", nodes.constant(np.array([1.0])), positive)
    pair = nodes.add("Concat", negative, positive, axis=1)
    nodes.add("Cast", pair, to=nodes.double if double else nodes.single, result=result)


def _label(nodes: _Nodes, positive: str, classes: Any, result: str) -> None:
    """The class whose probability is larger, under the name ``result``."""
    likely = nodes.add("Greater", positive, nodes.constant(np.array([0.5])))
    column = nodes.add("Cast", likely, to=nodes.integer)
    index = nodes.add("Reshape", column, nodes.constant(np.array([-1])))
    nodes.add("Gather", nodes.constant(classes), index, axis=0, result=result)


def _class_values(classes: Any) -> Any:
    """The two classes as integers or strings, the only labels that ONNX tensors hold well."""
    values = np.asarray(classes)
    if values.shape != (2,):
        raise ExportError(
            f"The model knows {len(values)} classes; ONNX export takes two for now. Export one "
            "model per pair, or one against the rest."
        )
    kind = values.dtype.kind
    if kind in "iub" or (kind == "f" and np.all(values == np.round(values))):
        return values.astype(np.int64)
    if all(isinstance(value, str) for value in values.tolist()):
        return values.astype(np.str_)
    raise ExportError(
        f"classes_={values.tolist()!r} are neither whole numbers nor strings; refit with such "
        "labels to export the model."
    )
