"""A fitted classifier for other runtimes: ``to_onnx(model, n_features)``.

`graph` writes the probability of a row as ONNX nodes, `converters` tells skl2onnx about it, `model`
makes a file's content of a whole model. Nothing here is imported by ``import angcal``, and no ONNX
package before a function is called.
"""

from angcal.export.converters import register_converters
from angcal.export.graph import ExportError
from angcal.export.model import to_onnx

__all__ = ["ExportError", "register_converters", "to_onnx"]
