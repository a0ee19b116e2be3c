"""Classes, whatever they are called, to codes 0, 1, 2, …"""

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
    return _encoded(
        y,
        ("binary",),
        "Only binary classification is supported. The type of the target is {kind}.",
    )


def encode_several(y: Any) -> tuple[np.ndarray, Floats]:
    """(classes, codes): the place of each label among two or more sorted classes.

    Examples
    --------
    >>> encode_several(["red", "blue", "green"])[1]
    array([2., 0., 1.])
    """
    return _encoded(
        y,
        ("binary", "multiclass"),
        "y holds a target of type {kind}; one class for each row is needed.",
    )


def _encoded(y: Any, kinds: tuple[str, ...], refusal: str) -> tuple[np.ndarray, Floats]:
    """Classes and codes of a target of one of these kinds; the refusal names another kind."""
    known = _integer_classes(y)
    if known is not None:
        return known, (y == known[1]).astype(np.float64)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind not in kinds:
        raise ValueError(refusal.format(kind=kind))
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!r}); a classifier needs two classes.")
    return classes, codes.astype(np.float64)


def _integer_classes(y: Any) -> np.ndarray | None:
    """The two classes of a plain array of integers or flags, which needs no further questions."""
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iub"):
        return None
    if not len(y):
        return None
    # Two comparisons: sorting or hashing a large y to find two values takes several times as long.
    classes = np.array([y.min(), y.max()])
    two = classes[0] != classes[1] and bool(np.all((y == classes[0]) | (y == classes[1])))
    return classes if two else None
