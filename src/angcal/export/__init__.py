r"""A fitted classifier for other runtimes: ``to_onnx(model, n_features)``.

``convert`` tells skl2onnx how a classifier is parsed, shaped and written, ``curves`` writes each
kind of map from scores to probabilities, and intervals, as ONNX nodes, ``nodes`` adds and names
them, and seals the model. No ONNX package is imported before a function is called.
"""

from __future__ import annotations

from angcal.export.convert import register_converters, to_onnx
from angcal.export.nodes import ExportError, verified_onnx

__all__ = ["ExportError", "register_converters", "to_onnx", "verified_onnx"]
