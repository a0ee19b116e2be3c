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
    def predict(self: Any, X: Any) -> Any:
        return _block_by_block(self, method.__name__, X) if is_dask(X) else method(self, X)

    return predict


def _block_by_block(classifier: Any, name: str, X: Any) -> Any:
    check_is_fitted(classifier, "curve_")
    K = len(classifier.classes_)
    wide = name in ("predict_proba", "predict_log_proba") or (name != "predict" and K > 2)
    dtype = classifier.classes_.dtype if name == "predict" else np.dtype(np.float64)
    predict = getattr(classifier.without_training(), name)
    if not hasattr(X, "map_blocks"):
        return X.map_partitions(predict, meta=np.empty((0, K) if wide else 0, dtype=dtype))
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    rows = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    options: dict[str, Any] = {"chunks": (rows.chunks[0], (K,))} if wide else {"drop_axis": 1}
    meta = np.empty((0, 0) if wide else 0, dtype=dtype)
    return rows.map_blocks(predict, dtype=dtype, meta=meta, **options)
