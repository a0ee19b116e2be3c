"""What skl2onnx has to know of angcal's classifiers: how to parse, shape and convert them."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from angcal.estimators import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    ScoreCalibratedClassifier,
)
from angcal.export.curves import (
    check_curve,
    check_has_table,
    curves_of,
    write_interval,
    write_model,
)
from angcal.export.nodes import ExportError, Nodes, sealed
from angcal.sklearn_problems import unwrap

CLASSIFIERS = (AngularCalibratedClassifier, AngularLogisticRegressionCV, ScoreCalibratedClassifier)


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    dtype: str = "float32",
    initial_types: Any = None,
    target_opset: Any = None,
    interval: float | None = None,
    interval_kind: str = "curve",
) -> Any:
    """The ONNX model (X) → (label, probabilities), whose probabilities are ``predict_proba``'s.

    Parameters
    ----------
    model : fitted classifier of angcal
        AngularCalibratedClassifier, AngularLogisticRegressionCV or ScoreCalibratedClassifier of
        any number of classes, or a Pipeline that ends in one. A Pipeline inside the classifier is
        converted too. For two classes, links other than logit and probit are refused.
    X : (n, d) array or int
        Rows to take the number of columns from, or that number.
    dtype : {"float32", "float64"}, default="float32"
        Of the input and of the probabilities; in between all is computed in double precision.
    initial_types : list of (name, skl2onnx type), optional
        In place of X, for models that take more than one input, or text. Then nothing is cast, and
        transformers in front of the classifier work in the precision of the types given.
    target_opset : int or dict, optional
        As in skl2onnx; its newest by default.
    interval : float, optional
        A confidence: two more outputs ``low`` and ``high``, (n, 1), are the ends of
        ``predict_interval(X, kind=interval_kind, confidence=interval)``. Two classes, one model.
    interval_kind : {"curve", "row"}, default="curve"
        Of rows with the same score, or of the row itself, then with the logistic link.

    Returns
    -------
    onnx.ModelProto
        Outputs are ``label`` and ``probabilities``, its columns in the order of ``classes_``.

    See Also
    --------
    verified_onnx : Verifies the checksum of a file.
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
    _check_exportable(_last_step(model), dtype)
    convert = _converter(model, target_opset, interval, interval_kind)
    if initial_types is not None:
        return sealed(convert(initial_types=initial_types))
    from skl2onnx.common.data_types import DoubleTensorType

    exact = convert(initial_types=[("X", DoubleTensorType([None, _column_count(X)]))])
    return sealed(exact if dtype == "float64" else _in_single_precision(exact))


def _converter(model: Any, target_opset: Any, interval: float | None, kind: str) -> Any:
    """skl2onnx's conversion of this model, which awaits the types of the input."""
    skl2onnx = _import_skl2onnx()
    register_converters()
    convert = partial(skl2onnx.convert_sklearn, model, "angcal", target_opset=target_opset)
    if interval is None:
        return convert
    check_has_table(_last_step(model), kind, interval)
    asked = {"interval": float(interval), "interval_kind": kind}
    return partial(convert, options={id(_last_step(model)): asked})


def _last_step(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def _column_count(X: Any) -> int:
    if isinstance(X, Integral) and not isinstance(X, bool) and int(X) > 0:  # type: ignore[redundant-expr]
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

    graph, single, double = model.graph, TensorProto.FLOAT, TensorProto.DOUBLE
    outer = [*graph.input, *(v for v in graph.output if v.type.tensor_type.elem_type == double)]
    renamed = {value.name: f"{value.name}_double" for value in outer}
    for node in graph.node:
        node.output[:] = [renamed.get(name, name) for name in node.output]
        node.input[:] = [renamed.get(name, name) for name in node.input]
    for value in outer:
        value.type.tensor_type.elem_type = single
        if value in graph.input:
            # The scale of a double's rounding is nothing to a float32; the cast itself is exact.
            cast = helper.make_node("Cast", [value.name], [renamed[value.name]], to=double)
            graph.node.insert(0, cast)
        else:
            cast = helper.make_node("Cast", [renamed[value.name]], [value.name], to=single)
            graph.node.append(cast)
    return model


# -- for skl2onnx -----------------------------------------------------------------------------


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
            options={"zipmap": [False], "interval": None, "interval_kind": ["curve", "row"]},
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


def _check_exportable(model: Any, dtype: str = "float64") -> None:
    """Refuse a classifier that is not angcal's, is not fitted, or has no exact form in ONNX."""
    if dtype not in ("float32", "float64"):
        raise ExportError(f"dtype={dtype!r} must be 'float32' or 'float64'.")
    if not isinstance(model, CLASSIFIERS):
        names = [classifier.__name__ for classifier in CLASSIFIERS]
        raise ExportError(
            f"model ends in a {type(model).__name__}; to_onnx takes {', '.join(names)}, or a "
            "Pipeline that ends in one. For other models use skl2onnx.to_onnx."
        )
    check_is_fitted(model, "curve_")
    _class_values(model.classes_)
    for curve in curves_of(model):
        check_curve(curve)


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
    names = ["probabilities"]
    if _interval_of(scope, model):
        names += ["low", "high"]
    for name in names:
        operator.outputs.append(scope.declare_local_variable(name, kind()))
    return operator.outputs


def _interval_of(asked: Any, model: Any) -> tuple[str, float] | None:
    """(kind, confidence) asked for; options that skl2onnx sets for all models are not looked at."""
    own = (asked.options or {}).get(id(model), {})
    if own.get("interval") is None:
        return None
    return own.get("interval_kind", "curve"), own["interval"]


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
    operator.outputs[1].set_type(type(operator.outputs[1].type)([rows, len(classes)]))
    for end in operator.outputs[2:]:
        end.set_type(type(end.type)([rows, 1]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    model, nodes = operator.raw_operator, Nodes(scope, container)
    rows = nodes.add("Cast", operator.inputs[0].full_name, to=nodes.double)
    p = write_model(nodes, rows, model)
    if len(model.classes_) == 2:
        p = nodes.add("Concat", nodes.add("Sub", nodes.constant(1.0), p), p, axis=1)
    if hasattr(model, "prevalence_"):
        p = nodes.times(p, model.prevalence_.factors)
        p = nodes.add("Div", p, nodes.into(p, np.ones((len(model.classes_), 1))))
    label, probabilities, *ends = operator.outputs
    # Of equal ones the first, as predict does.
    index = nodes.add("ArgMax", p, axis=1, keepdims=0)
    classes = nodes.constant(_class_values(model.classes_))
    nodes.add("Gather", classes, index, axis=0, result=label.full_name)
    double = isinstance(probabilities.type, DoubleTensorType)
    kind = nodes.double if double else nodes.single
    nodes.add("Cast", p, to=kind, result=probabilities.full_name)
    if ends:
        interval = _interval_of(container, model)
        assert interval is not None
        found = write_interval(nodes, rows, model, *interval, nodes.columns(p, [1]))
        for name, end in zip(found, ends, strict=True):
            nodes.add("Cast", name, to=kind, result=end.full_name)


def _class_values(classes: Any) -> np.ndarray:
    """The classes as integers or strings, the only labels that ONNX tensors hold well."""
    values = np.asarray(classes)
    kind = values.dtype.kind
    if kind in "iub" or (kind == "f" and np.all(values == np.round(values))):
        return values.astype(np.int64)
    if all(isinstance(value, str) for value in values.tolist()):
        return values.astype(np.str_)
    raise ExportError(
        f"classes_={values.tolist()!r} are neither whole numbers nor strings; refit with such "
        "labels to export the model."
    )
