"""From a fitted classifier or Pipeline to an ONNX model with inputs and outputs of one type."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from angcal.export.converters import (
    CLASSIFIERS,
    check_exportable,
    import_skl2onnx,
    register_converters,
)
from angcal.export.graph import ExportError

INPUT, EXACT_INPUT = "X", "X_double"


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
        In place of X, for models that take several inputs or text. Then nothing is cast, and
        transformers in front of the classifier work in the precision of the types given.
    target_opset : int or dict, optional
        As in skl2onnx; its newest by default.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` is what goes into a file. Outputs are ``label`` (one per row) and
        ``probabilities`` (one column per class, in the order of ``classes_``).

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier
    >>> from angcal.simulation import simulate
    >>> data = simulate(100, 20, link="logit", random_state=0)
    >>> found = to_onnx(AngularCalibratedClassifier().fit(data.X, data.y), data.X)
    >>> [output.name for output in found.graph.output]
    ['label', 'probabilities']
    """
    classifier = _last_step(model)
    if not isinstance(classifier, CLASSIFIERS):
        raise ExportError(
            f"model ends in a {type(classifier).__name__}; to_onnx takes an "
            "AngularCalibratedClassifier, an AngularLogisticRegressionCV, or a Pipeline that ends "
            "in one. For other models use skl2onnx.to_onnx."
        )
    if dtype not in ("float32", "float64"):
        raise ExportError(f"dtype={dtype!r} must be 'float32' or 'float64'.")
    check_exportable(classifier)
    skl2onnx = import_skl2onnx()
    register_converters()
    if initial_types is not None:
        return skl2onnx.convert_sklearn(
            model, "angcal", initial_types=initial_types, target_opset=target_opset
        )
    from skl2onnx.common.data_types import DoubleTensorType

    name = INPUT if dtype == "float64" else EXACT_INPUT
    types = [(name, DoubleTensorType([None, _column_count(X)]))]
    exact = skl2onnx.convert_sklearn(
        model, "angcal", initial_types=types, target_opset=target_opset
    )
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
