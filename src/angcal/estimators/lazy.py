"""Predictions on Dask collections: one task for each block, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from angcal.arrays import is_dask


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of rows that returns a lazy Dask array where its rows are a Dask collection.

    Predictions go row by row, so that they need no client and no more memory than a block. What
    travels to the workers is the classifier without anything that grows with its training rows.
    """

    @wraps(method)
    def predict(self: Any, X: Any, *options: Any, **named: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *options, **named)
        return _block_by_block(self, method.__name__, X, *options, **named)

    return predict


def _block_by_block(classifier: Any, name: str, X: Any, *options: Any, **named: Any) -> Any:
    check_is_fitted(classifier, "curve_")
    own = getattr(classifier.without_training(), name)
    shape = _shape_of_row(name, len(classifier.classes_))
    dtype = classifier.classes_.dtype if name == "predict" else np.dtype(np.float64)

    def predict(rows: Any) -> Any:
        return own(rows, *options, **named)

    if not hasattr(X, "map_blocks"):
        return X.map_partitions(predict, meta=np.empty((0, *shape), dtype=dtype))
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    rows = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    chunks = (rows.chunks[0], *((size,) for size in shape))
    axes = {0: {"drop_axis": 1}, 1: {}, 2: {"new_axis": 2}}[len(shape)]
    meta = np.empty((0,) * (1 + len(shape)), dtype=dtype)
    return rows.map_blocks(predict, dtype=dtype, meta=meta, chunks=chunks, **axes)


def _shape_of_row(name: str, K: int) -> tuple[int, ...]:
    """What a method returns for a row."""
    if name == "predict_interval":
        return (2,) if K == 2 else (K, 2)
    wide = name in ("predict_proba", "predict_log_proba") or (name != "predict" and K > 2)
    return (K,) if wide else ()
