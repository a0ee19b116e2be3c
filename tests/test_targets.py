"""Two classes, whatever they are called, to labels 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angcal.estimators.training import encode

KINDS = [
    np.array([3, 7, 3, 7]),
    np.array([-1, 1, -1, 1], dtype=np.int8),
    np.array([0, 255, 0, 255], dtype=np.uint8),
    np.array([False, True, False, True]),
    np.array([0.0, 1.0, 0.0, 1.0]),
    np.array(["a", "b", "a", "b"]),
    ["a", "b", "a", "b"],
    [3, 7, 3, 7],
]


@pytest.mark.parametrize("y", KINDS, ids=lambda y: str(np.asarray(y).dtype))
def test_the_second_class_in_sorted_order_is_label_one(y):
    classes, labels = encode(y)
    assert_array_equal(classes, np.unique(y))
    assert labels.dtype == np.float64
    assert_array_equal(labels, [0, 1, 0, 1])
    assert_array_equal(classes[labels.astype(int)], y)


@pytest.mark.parametrize("y", [np.array([1, 1, 1]), np.array([True, True])])
def test_one_class_is_refused(y):
    with pytest.raises(ValueError, match="one class only"):
        encode(y)


@pytest.mark.parametrize(
    "y", [np.array([0, 1, 2]), np.array([0.5, 1.5, 2.5]), np.array([[0, 1], [1, 0]])]
)
def test_what_is_not_binary_is_refused(y):
    with pytest.raises(ValueError, match=r"binary|Unknown label type"):
        encode(y)
