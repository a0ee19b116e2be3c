"""Constants and operations of an ONNX graph, named as they are added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class ExportError(ValueError):
    """A model cannot be written as ONNX; the message says why and what to do."""


class Nodes:
    """Adds constants and operations to skl2onnx's container, and names their results."""

    def __init__(self, scope: Any, container: Any) -> None:
        from onnx import TensorProto

        self._scope, self._container = scope, container
        self.double, self.single = TensorProto.DOUBLE, TensorProto.FLOAT
        self.integer, self._text = TensorProto.INT64, TensorProto.STRING

    def constant(self, values: ArrayLike) -> str:
        """The name of an array of doubles, integers or strings."""
        from onnx import numpy_helper

        array = np.asarray(values)
        name = self._scope.get_unique_variable_name("constant")
        content: Any
        if array.dtype.kind == "U":
            kind, content = self._text, [text.encode("utf-8") for text in array.ravel().tolist()]
        else:
            whole = array.dtype.kind == "i"
            kind = self.integer if whole else self.double
            exact = array.astype(np.int64 if whole else np.float64)
            # Bytes, not a list: weights of many classes may be millions.
            content = numpy_helper.from_array(np.ascontiguousarray(exact))
        self._container.add_initializer(name, kind, list(array.shape), content)
        return name

    def add(self, operation: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """The name of what an ONNX operator gives from named inputs: ``result``, or a new one."""
        name = result or self._scope.get_unique_variable_name(operation.lower())
        self._container.add_node(
            operation,
            list(inputs),
            [name],
            name=self._scope.get_unique_operator_name(operation),
            **attributes,
        )
        return name

    # -- with a constant on one side ----------------------------------------------------------

    def times(self, name: str, factor: ArrayLike) -> str:
        """x·factor, entry by entry."""
        return self.add("Mul", name, self.constant(factor))

    def plus(self, name: str, term: ArrayLike) -> str:
        """x + term, entry by entry."""
        return self.add("Add", name, self.constant(term))

    def into(self, name: str, matrix: ArrayLike) -> str:
        """x @ matrix."""
        return self.add("MatMul", name, self.constant(matrix))

    def columns(self, name: str, numbers: ArrayLike) -> str:
        """The columns of these numbers.

        Not a product with columns of the identity: onnxruntime joins a product with the factor that
        follows it, and keeps that factor in single precision.
        """
        return self.add("Gather", name, self.constant(np.asarray(numbers)), axis=1)

    def shaped(self, name: str, *shape: int) -> str:
        """The same entries in another shape."""
        return self.add("Reshape", name, self.constant(np.array(shape)))

    def within(self, name: str, low: float, high: float) -> str:
        """x, but no less than ``low`` and no more than ``high``."""
        return self.add("Clip", name, self.constant(low), self.constant(high))

    def weighted_sum(self, names: list[str], weights: ArrayLike) -> str:
        """Σ_j w_j·x_j of arrays of one shape."""
        pairs = zip(names, np.asarray(weights, dtype=np.float64), strict=True)
        return self.add("Sum", *[self.times(name, weight) for name, weight in pairs])
