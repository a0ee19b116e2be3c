"""What the machine can do at best: bytes per second through memory, operations per second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from studies.speed.measure import Row, stopwatch

TRIALS = 7


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of several trials, after one to warm up."""
    call()
    return min(stopwatch(call, TRIALS)[0])


def measure_floors(side: int, threads: int) -> list[Row]:
    """Rates of sum, copy, X @ v (all in GB/s) and of X @ X (in Gflop/s), for both precisions."""
    rows: list[Row] = []
    for dtype in ("float64", "float32"):
        X = np.random.default_rng(0).standard_normal((side, side)).astype(dtype)
        other, v = np.empty_like(X), np.ones(side, dtype=dtype)
        small = X[: side // 4, : side // 4].copy()
        rates = {
            "read": X.nbytes / best(X.sum),
            "copy": 2 * X.nbytes / best(partial(np.copyto, other, X)),
            "gemv": X.nbytes / best(partial(np.matmul, X, v)),
            "gemm": 2 * len(small) ** 3 / best(partial(np.matmul, small, small)),
        }
        for quantity, rate in rates.items():
            unit = "Gflop/s" if quantity == "gemm" else "GB/s"
            rows.append(
                {
                    "case": "rates",
                    "quantity": quantity,
                    "dtype": dtype,
                    "rate": round(rate / 1e9, 3),
                    "unit": unit,
                    "threads": threads,
                }
            )
    return rows


def base_passes(iterations: int) -> int:
    """2(k + 1): X @ w and Xᵀ @ r for the starting point and each of k L-BFGS iterations."""
    return 2 * (iterations + 1)


def exact_operations(n: int, d: int, sparse: bool = False) -> float:
    """Gram matrix of the smaller side m, its Cholesky factor, the leverages from it.

    n·d·m + m³/3 + (n·d² where d is the smaller side, m³/3 where n is): half of a full product for
    the symmetric Gram matrix, a triangular solve against every row, or a triangular inverse. Of a
    sparse X only the part after the Gram matrix is counted.
    """
    m = min(n, d)
    if sparse:
        return 2 * m**3 / 3
    leverages = n * d**2 if d <= n else m**3 / 3
    return n * d * m + m**3 / 3 + leverages
