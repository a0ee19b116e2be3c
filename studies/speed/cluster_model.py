"""What a pass over a block costs, and what that says of whole fits: ``python -m
studies.speed.cluster_model``.

Times the functions that workers run, each on one block of 30,000 rows and 500 columns, in CPU
seconds of one thread, and states them as rates; then adds them up for the fits of
``studies/results/speed/cluster.csv``: two looks with a matrix of every fourth row, three with one
of all rows, one closing, one pass for leverages, one for couplings. The rest of a fit is what
client, scheduler and workers spend on tasks, and the link.

And for one terabyte on 100 workers of 16 cores, in memory and read from files at 1 GB/s for each
worker in every pass.

Writes ``cluster-rates.csv``, ``cluster-model.csv`` and ``cluster-terabyte.csv`` to
``studies/results/speed``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from angcal import plan
from angcal.leverages import far
from angcal.losses import Logistic
from angcal.solvers import far_matrix
from studies import RESULTS
from studies.engine.store import printed
from studies.speed.measure import stopwatch

N, D, REPEATS = 30_000, 500, 7
FOLDER = RESULTS / "speed"
# How often each kind of pass occurs in a fit, and the power of d that its work grows with.
PASSES = {
    "look, every fourth row": (2, 2),
    "look, all rows": (3, 2),
    "closing": (1, 1),
    "leverages": (1, 2),
    "couplings": (1, 1),
}


def fastest(call: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of some calls."""
    return min(stopwatch(call, REPEATS, clock=time.process_time)[0])


def block_seconds() -> dict[str, float]:
    """CPU seconds of every kind of pass over one block."""
    rng = np.random.default_rng(0)
    X, y, omega = rng.normal(size=(N, D)), rng.integers(0, 2, N).astype(float), np.ones(N)
    curvature = rng.uniform(0.1, 0.25, N)
    V = rng.normal(size=(D + 1, 1)) / np.sqrt(D)
    ray, shares = np.hstack([V, V]), np.array(plan.LADDER)
    roots = np.tril(rng.normal(size=(1, D + 1, D + 1))) / N
    signs, inner = far.packed_signs(N), rng.normal(size=(D + 1, 1, far.PROBES))
    loss, single, one = Logistic(), np.float32, np.ones(1)

    def look(stride: int, ray: Any, shares: Any) -> Any:
        return far_matrix._ladder_of_block(
            loss, True, stride, single, X, ray, shares, 0.0 * shares, y, omega
        )

    calls: dict[str, Callable[[], Any]] = {
        "look, every fourth row": lambda: look(4, ray, shares),
        "look, all rows": lambda: look(1, V, one),
        "closing": lambda: far_matrix._closing_of_block(
            loss, True, X, V, np.hstack([V, V, V]), y, omega
        ),
        "leverages": lambda: far.forms_of_block(single, X, roots, curvature[:, None], signs),
        "couplings": lambda: far.images_of_block(single, True, X, inner),
    }
    return {name: fastest(call) for name, call in calls.items()}


def terabyte(seconds: dict[str, float]) -> list[dict[str, object]]:
    """Wall seconds of a fit of 10¹² bytes on 100 workers of 16 cores; see docs/dask.md."""
    workers, cores, storage, per_task, start = 100, 16, 1e9, 2e-3, 0.02
    rows: list[dict[str, object]] = []
    for d in (500, 1000):
        n = 1e12 / (8 * d)
        for where, reading in (
            ("in memory", 0.0),
            ("read in every pass", 1e12 / workers / storage),
        ):
            control = per_task * workers * cores + start
            work = {
                name: seconds[name] * (n / N) * (d / D) ** power / (workers * cores)
                for name, (_, power) in PASSES.items()
            }
            passes = {name: count for name, (count, _) in PASSES.items()}
            total = sum(
                count * (max(reading, work[name]) + control) for name, count in passes.items()
            )
            rows.append(
                {
                    "d": d,
                    "n": f"{n:.2g}",
                    "rows": where,
                    "passes": sum(passes.values()),
                    "work": round(sum(passes[name] * work[name] for name in passes), 1),
                    "tasks": round(sum(passes.values()) * control, 1),
                    "total_seconds": round(total, 1),
                }
            )
    return rows


def main() -> None:
    seconds = block_seconds()
    rates = []
    for name, (count, power) in PASSES.items():
        rates.append(
            {
                "pass": name,
                "times": count,
                "ms": round(1e3 * seconds[name], 1),
                "unit": f"n·d{'²' if power == 2 else ''}",
                "rate": f"{N * D**power / seconds[name]:.2g}",
            }
        )
    measured = pd.read_csv(FOLDER / "cluster.csv")
    fits = []
    for row in measured.itertuples():
        work = sum(
            count * seconds[name] * (row.n / N) * (row.d / D) ** power
            for name, (count, power) in PASSES.items()
        )
        fits.append(
            {
                "n": row.n,
                "d": row.d,
                "workers": row.workers,
                "by_rates": round(work, 2),
                "worker_seconds": row.worker_seconds,
                "client_and_scheduler": row.client_and_scheduler,
                "rest": round(row.worker_seconds + row.client_and_scheduler - work, 2),
            }
        )
    large = terabyte(seconds)
    printed(FOLDER / "cluster-rates.csv", rates)
    printed(FOLDER / "cluster-model.csv", fits)
    printed(FOLDER / "cluster-terabyte.csv", large)


if __name__ == "__main__":
    main()
