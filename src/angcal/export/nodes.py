"""Constants and operations of an ONNX graph, named as they are added."""

from __future__ import annotations

import hashlib
from pathlib import Path
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


# -- A checksum inside of an ONNX file: a flipped bit anywhere is noticed before the file is run
#
# ONNX has no checksum, and runtimes run what they can read. So the metadata of a model has the
# entry ``angcal.sha256``: the SHA-256 of the file's bytes with 64 zeros in the place of these 64
# digits. It says that a file is as it was written, not who wrote it; for that, sign the file as a
# whole.


ENTRY = "angcal.sha256"
ZEROS = b"0" * 64
# How ONNX writes the entry: a key of 13 letters, and a value of 64.
MARK = b"\x0a\x0d" + ENTRY.encode() + b"\x12\x40"


def sealed(model: Any) -> Any:
    """The ONNX model with its checksum in ``metadata_props``; changed in place."""
    others = [entry for entry in model.metadata_props if entry.key != ENTRY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    entry = model.metadata_props.add(key=ENTRY, value=ZEROS.decode())
    entry.value = hashlib.sha256(model.SerializeToString()).hexdigest()
    return model


def verified_onnx(model: Any) -> bytes:
    """The bytes of an ONNX file of `to_onnx`, once its checksum has been found right.

    Parameters
    ----------
    model : str, Path or bytes
        The file, or what is in it.

    Returns
    -------
    bytes
        For ``onnxruntime.InferenceSession``: not read twice, so that what was verified is what
        runs.

    Raises
    ------
    ExportError
        Where the file is not as `to_onnx` made it.

    See Also
    --------
    to_onnx : Makes the model.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier
    >>> from angcal.simulation import simulate
    >>> from angcal.export import to_onnx
    >>> data = simulate(100, 20, link="logit", random_state=0)
    >>> model = to_onnx(AngularCalibratedClassifier().fit(data.X, data.y), data.X)
    >>> content = model.SerializeToString()
    >>> verified_onnx(content) == content
    True
    >>> verified_onnx(content.replace(b"Erf", b"Exp", 1))
    Traceback (most recent call last):
    ...
    angcal.export.nodes.ExportError: The ONNX model is damaged or was changed: it is not what its \
checksum says; copy it again, or export it again.
    """
    data = bytes(model) if isinstance(model, bytes | bytearray) else Path(model).read_bytes()
    name = "The ONNX model" if isinstance(model, bytes | bytearray) else str(model)
    head, mark, rest = data.partition(MARK)
    if not mark:
        raise ExportError(
            f"{name} has no checksum of angcal, or it is damaged; export it with to_onnx again."
        )
    stated, zeroed = rest[:64], head + mark + ZEROS + rest[64:]
    if hashlib.sha256(zeroed).hexdigest().encode() != stated:
        raise ExportError(
            f"{name} is damaged or was changed: it is not what its checksum says; copy it again, "
            "or export it again."
        )
    return data
