"""The few operations that differ between NumPy and libraries that follow the array API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.threads import blas_threads


@cache
def _compatibility() -> Any:
    """array-api-compat, or the copy that scikit-learn brings; a failed import is slow to repeat."""
    try:
        import array_api_compat
    except ImportError:
        from sklearn.externals import array_api_compat
    return array_api_compat


@cache
def keep_freed_memory() -> None:
    """Let the C library keep a few megabytes of freed memory, once in a process.

    glibc gives free memory at the end of its heap back to the system where it is more than twice
    the largest block that was ever freed. In a process that has freed none of some megabytes, every
    fit to 800×384 rows then asks for 1,400 pages anew, which takes 1 to 3 of its 16 ms. A block
    that is never written to takes no memory.
    """
    np.empty(plan.KEPT_BYTES, dtype=np.uint8)


def is_tensor(X: Any) -> bool:
    """Whether X is an array of a library other than NumPy that follows the array API."""
    if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
        return False
    return bool(_compatibility().is_array_api_obj(X))


def is_dask(values: Any) -> bool:
    """Whether these are a Dask collection: an array, a dataframe or one of its columns."""
    return hasattr(values, "__dask_graph__")


def refuse_dask(rows: Any, name: str) -> None:
    """Raise TypeError for a Dask collection, which NumPy would load whole without a word."""
    if not is_dask(rows):
        return
    if name == "pool":
        raise TypeError(
            "pool is a Dask collection, which would be loaded whole. Pass its partitions as "
            "blocks, one in memory at a time: pool=lambda: (P.partitions[i].compute() for i in "
            "range(P.npartitions)), with P the collection; or fit with angcal.dask."
        )
    if name not in ("X", "y", "sample_weight", "groups"):
        raise TypeError(
            f"{name} is a Dask collection, which would be loaded whole. Where it fits in memory, "
            f"pass its values: {name}={name}.compute()."
        )
    raise TypeError(
        f"{name} is a Dask collection, which would be loaded whole. Fit it where it is, with the "
        "class of the same name in angcal.dask (from angcal.dask import "
        f"AngularCalibratedClassifier); or, where it fits in memory, pass {name}.compute()."
    )


def namespace_of(X: Any) -> Any:
    """The array library of X: NumPy's for NumPy and sparse arrays."""
    if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
        return np
    return _compatibility().array_namespace(X)


def placed_like(values: Any, X: Any) -> Any:
    """Values as an array of X's library, type and device."""
    if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
        return np.asarray(values, dtype=X.dtype)
    # Converted by NumPy: PyTorch would wake a thread on every core for it, which then spin.
    converted = np.asarray(values, dtype=str(X.dtype).rsplit(".", 1)[-1])
    return namespace_of(X).asarray(converted, dtype=X.dtype, device=X.device)


def has_room_for_half(X: Any) -> bool:
    """Whether products with a copy of X in half precision are faster, and memory has room for it.

    Of PyTorch's tensors in single precision on a GPU.
    """
    if not getattr(X, "is_cuda", False) or str(X.dtype) != "torch.float32":
        return False
    import torch

    free = torch.cuda.mem_get_info(X.device)[0]
    free += torch.cuda.memory_reserved(X.device) - torch.cuda.memory_allocated(X.device)
    # Twice the copy's 2 bytes an entry, so that something is left for all else.
    return bool(X.numel() >= plan.HALF_ENTRIES and free > 4 * X.numel())


def factor_like(values: Floats, X: Any) -> Any:
    """Factors of the columns of X's kind; a single one as a number, which needs no transfer."""
    if values.size == 1 and not isinstance(X, np.ndarray):
        return float(values.reshape(-1)[0])
    return placed_like(values, X)


def on_host(values: Any) -> Floats:
    """Values as a NumPy array of doubles."""
    if not isinstance(values, np.ndarray) and hasattr(values, "cpu"):
        values = values.cpu()
        if str(values.dtype) == "torch.bfloat16":  # NumPy has no such numbers
            values = values.float()
    return np.asarray(values, dtype=np.float64)


def as_double(values: Any) -> Any:
    """Values in double precision, where they are."""
    if is_tensor(values):
        xp = namespace_of(values)
        return xp.astype(values, xp.float64)
    return np.asarray(values, dtype=np.float64)


def largest_entry(X: Any) -> float:
    """max |x_ij| of an array, sparse array or tensor, without a copy of it."""
    if is_tensor(X):
        return max(float(X.max()), -float(X.min()))
    entries = X.data if hasattr(X, "tocsr") else X
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def softmax(logits: Any, axis: int = 1) -> Any:
    """exp(u_k)/Σ_l exp(u_l) along an axis, where the logits are."""
    xp = namespace_of(logits)
    p = xp.exp(logits - xp.max(logits, axis=axis, keepdims=True))
    return p / xp.sum(p, axis=axis, keepdims=True)


def dense(X: Any) -> Any:
    """X as an array of doubles; a sparse matrix is filled in."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def slices(count: int, entries: int, width: int = 1) -> Iterator[slice]:
    """Slices of `count` rows, as many at a time as have so many entries, and one at least."""
    step = max(1, entries // max(width, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def linear_scores(X: Any, coef: Floats, intercept: Any) -> Floats:
    """Xŵ + b̂, at most 1e100 in size: a cell of 1e308 has a score, and those about it too.

    Rows that are beyond are put there along their own direction, so that the order of K scores of a
    row stays. NaN and infinity in a row give NaN.
    """
    farthest = 1e100  # every curve is at its end long before
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.asarray(product(X, coef) + intercept)
        far = ~(np.abs(scores).reshape(len(scores), -1).max(axis=1) <= farthest)
        if not far.any() or is_tensor(X):
            return scores
        rows = X[np.flatnonzero(far)] if hasattr(X, "shape") else np.asarray(X)[far]
        rows = dense(rows)
        along = (rows / np.abs(rows).max(axis=1, keepdims=True)) @ coef
        size = np.abs(along).reshape(len(along), -1).max(axis=1)
        size = size.reshape(-1, *[1] * (along.ndim - 1))
        scores[far] = along / size * farthest
    return scores


def product(X: Any, v: Floats) -> Floats:
    """Xv in doubles; rows in single precision are widened block by block, never as a whole.

    A tensor is multiplied where it is.
    """
    if is_tensor(X):
        return on_host(X @ placed_like(v, X))
    if not isinstance(X, np.ndarray) or X.dtype == v.dtype:
        return np.asarray(X @ v, dtype=np.float64)
    out = np.empty((X.shape[0], *v.shape[1:]))
    # Widening is not the work of BLAS, so that its threads do not help there; ours do, from so
    # many entries on that it pays to start them.
    parts = blas_threads() if X.size >= 1 << 24 else 1
    bounds = np.linspace(0, X.shape[0], parts + 1).astype(int)

    def fill(part: int) -> None:
        own = slice(bounds[part], bounds[part + 1])
        for rows in slices(bounds[part + 1] - bounds[part], plan.CACHE_ENTRIES // 4, X.shape[1]):
            np.matmul(X[own][rows], v, out=out[own][rows])

    if parts == 1:
        fill(0)
    else:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(fill, range(parts)))
    return out


def transposed_product(X: Any, u: Floats) -> Floats:
    """Xᵀu in doubles, in the same way."""
    if not isinstance(X, np.ndarray) or X.dtype == u.dtype:
        return np.asarray(X.T @ u, dtype=np.float64)
    out = np.zeros((X.shape[1], *u.shape[1:]))
    for rows in slices(X.shape[0], plan.CACHE_ENTRIES // 4, X.shape[1]):
        out += X[rows].T @ u[rows]
    return out


def concatenate(parts: Sequence[Any], xp: Any, axis: int = 0) -> Any:
    """Join arrays; NumPy had no ``concat`` before version 2."""
    return np.concatenate(parts, axis=axis) if xp is np else xp.concat(parts, axis=axis)


def symmetric_root(matrix: Floats) -> Floats:
    """R = Rᵀ with R·R = matrix, whose eigenvalues below zero, if any, are rounding."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
