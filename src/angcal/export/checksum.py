"""A checksum inside of an ONNX file: a flipped bit anywhere is noticed before the file is run.

ONNX has no checksum, and runtimes run what they can read. So the metadata of a model has the entry
``angcal.sha256``: the SHA-256 of the file's bytes with 64 zeros in the place of these 64 digits. It
says that a file is as it was written, not who wrote it; for that, sign the file as a whole.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from angcal.export.nodes import ExportError

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
