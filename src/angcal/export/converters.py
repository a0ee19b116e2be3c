"""What skl2onnx has to know of angcal's classifiers: how to parse, shape and convert them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from angcal.estimators import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.export import graph
from angcal.export.graph import ExportError, Nodes
from angcal.reading import unwrap

CLASSIFIERS = (AngularCalibratedClassifier, AngularLogisticRegressionCV)


def register_converters() -> None:
    """Teach skl2onnx angcal's classifiers, for this process.

    :func:`to_onnx` does this by itself. Call it once before ``skl2onnx.to_onnx`` or
    ``convert_sklearn``, for example where a classifier is part of a larger model.
    """
    skl2onnx = import_skl2onnx()
    for classifier in CLASSIFIERS:
        skl2onnx.update_registered_converter(
            classifier,
            alias_of(classifier),
            shape_fct=_shapes,
            convert_fct=_convert,
            overwrite=True,
            parser=_parse,
            options={"zipmap": [False]},
        )


def import_skl2onnx() -> Any:
    """The package skl2onnx, or an ImportError that says how to get it."""
    try:
        import skl2onnx
    except ImportError as error:
        raise ImportError(
            f"ONNX export needs skl2onnx ({error}); pip install 'angcal[onnx]'."
        ) from error
    return skl2onnx


def alias_of(classifier: type) -> str:
    """The name that skl2onnx files a classifier under."""
    return f"Angcal{classifier.__name__}"


def check_exportable(model: Any) -> None:
    """Refuse a classifier that is not fitted, or has no exact form in ONNX."""
    check_is_fitted(model, "curve_")
    if getattr(model, "average_", None) is not None:
        raise ExportError(
            f"average={model.average!r} makes probabilities of several linear models, which "
            "to_onnx does not write; fit with average=None."
        )
    graph.class_values(model.classes_)
    graph.check_curve(model.curve_)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the transformers inside the classifier, then the classifier on what they give.

    There is no ZipMap: probabilities are a matrix, as in scikit-learn.
    """
    # skl2onnx's converter of pipelines uses the same function; the public one would mark the
    # transformers' results as results of the whole model.
    from skl2onnx._parse import _parse_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType

    check_exportable(model)
    transformer = _transformer(model)
    rows = inputs
    if transformer is not None:
        rows = _parse_sklearn(scope, transformer, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(alias_of(type(model)), model)
    operator.inputs = rows
    kind = DoubleTensorType if isinstance(rows[0].type, DoubleTensorType) else FloatTensorType
    # The label's type depends on the classes and is set with the shapes.
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", kind()))
    return operator.outputs


def _transformer(model: Any) -> Any:
    """What stands in front of the linear model inside the classifier, or None."""
    if not hasattr(model, "estimator_"):
        return None
    return unwrap(model.estimator_)[0]


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    if len(operator.inputs) != 1:
        raise ExportError(
            f"The classifier gets {len(operator.inputs)} separate columns; give initial_types as "
            "one matrix, or put a ColumnTransformer in front that joins them."
        )
    rows = operator.inputs[0].get_first_dimension()
    classes = graph.class_values(operator.raw_operator.classes_)
    kind = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].set_type(kind([rows]))
    operator.outputs[1].set_type(type(operator.outputs[1].type)([rows, 2]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    model, nodes = operator.raw_operator, Nodes(scope, container)
    scores = graph.score(
        nodes, operator.inputs[0].full_name, model.coef_[0], float(model.intercept_[0])
    )
    positive = graph.probability(nodes, scores, model.curve_)
    classes = graph.class_values(model.classes_)
    graph.label(nodes, positive, classes, operator.outputs[0].full_name)
    double = isinstance(operator.outputs[1].type, DoubleTensorType)
    graph.both_classes(nodes, positive, operator.outputs[1].full_name, double)
