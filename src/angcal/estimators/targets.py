"""Two classes, whatever they are called, to labels 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from angcal._typing import Floats


def encode_binary(y: Any) -> tuple[np.ndarray, Floats]:
    """(classes, labels): label 1.0 for the second class in sorted order.

    Examples
    --------
    >>> encode_binary(["no", "yes", "no"])[1]
    array([0., 1., 0.])
    """
    known = _integer_classes(y)
    if known is not None:
        return known, (y == known[1]).astype(np.float64)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!r}); a classifier needs two classes.")
    return classes, codes.astype(np.float64)


def _integer_classes(y: Any) -> np.ndarray | None:
    """The two classes of a plain array of integers or flags, which needs no further questions."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iub"):
        return None
    classes = np.unique(y)
    return classes if len(classes) == 2 else None
