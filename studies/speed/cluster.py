"""Fits on a Dask cluster beside one process: ``python -m studies.speed.cluster [--big | --wide]``.

Rows are standard normal, labels follow a logistic link of scale 3. The cluster is a LocalCluster of
one thread for each worker, X in its memory in one block for each worker. Seconds are those of CPU
of all processes: workers, and this one, in which client and scheduler are. Fits of the single
process (``observables="exact"``, or as it chooses for the wide design) alternate with those of the
cluster; the first fit of a cluster, in which workers import angcal, is not counted. The wide
design is fitted once. Probabilities
are compared with those of the exact optimum (Newton's method to 1e-10).

Writes ``cluster.csv`` to ``studies/results/speed`` and prints its table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import angcal
from angcal import Logit
from angcal.simulation import simulate
from studies import RESULTS
from studies.engine.store import printed
from studies.speed.measure import stopwatch

CASES = [(60_000, 300, 1), (60_000, 300, 2), (60_000, 300, 3)]
BIG = [(200_000, 500, 1), (200_000, 500, 2), (200_000, 500, 3)]
WIDE = [(50_000, 4_000, 2)]
SEED, SCALE, REPEATS = 20_250_918, 3.0, 3
cpu = partial(stopwatch, clock=time.process_time)  # of this process


def draw(n: int, d: int, folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    data = simulate(n, d, link=Logit(SCALE), random_state=SEED)
    X = np.ascontiguousarray(data.X)
    X *= np.sqrt(d)
    path = str(folder / f"{n}x{d}.npy")
    np.save(path, X)
    return X, data.y, path


def _block(path: str, block_info: Any = None) -> np.ndarray:
    start, stop = block_info[None]["array-location"][0]
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def on_cluster(n: int, d: int, workers: int, folder: Path) -> dict[str, object]:
    """A row of the table."""
    import dask.array as da
    import distributed

    from angcal.dask import AngularCalibratedClassifier

    X, y, path = draw(n, d, folder)
    exact = "exact" if d <= 1000 else "auto"
    single = angcal.AngularCalibratedClassifier(LogisticRegression(), observables=exact)
    bounds = np.linspace(0, n, workers + 1).astype(int)
    times: dict[str, list[float]] = {"single": [], "control": [], "workers": []}
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        chunks = (tuple(np.diff(bounds).tolist()), (d,))
        rows = client.persist(
            da.map_blocks(_block, path, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
        )
        distributed.wait(rows)
        fit = AngularCalibratedClassifier(LogisticRegression(), persist=False).fit(rows, y)
        for _ in range(REPEATS if d <= 1000 else 1):
            times["single"] += cpu(lambda: single.fit(X, y))[0]
            before = sum(client.run(time.process_time).values())
            control, fit = cpu(
                lambda: AngularCalibratedClassifier(LogisticRegression()).fit(rows, y)
            )
            times["control"] += control
            times["workers"].append(sum(client.run(time.process_time).values()) - before)
    found = {name: float(np.median(values)) for name, values in times.items()}
    total = found["control"] + found["workers"]
    return {
        "n": n,
        "d": d,
        "workers": workers,
        "single": round(found["single"], 2),
        "worker_seconds": round(found["workers"], 2),
        "client_and_scheduler": round(found["control"], 2),
        "ratio": round(total / found["single"], 2),
        "passes": fit.passes_,
        **differences(single, fit, X, y),
    }


def differences(single: Any, fit: Any, X: np.ndarray, y: np.ndarray) -> dict[str, str]:
    """Largest difference of probabilities and of the cosine to the exact optimum."""
    if X.shape[1] > 1000:
        exact = single
    else:
        tight = LogisticRegression(solver="newton-cholesky", tol=1e-10)
        exact = angcal.AngularCalibratedClassifier(tight, observables="exact").fit(X, y)
    p = exact.predict_proba(X)

    def off(model: Any) -> str:
        return f"{np.abs(model.predict_proba(X) - p).max():.1e}"

    return {
        "cluster_off_by": off(fit),
        "single_off_by": off(single),
        "cosine_off_by": f"{abs(fit.angle_.cosine - exact.angle_.cosine):.1e}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--big", action="store_true", help="also 200,000 × 500")
    parser.add_argument("--wide", action="store_true", help="only 50,000 × 4,000")
    options = parser.parse_args()
    cases = WIDE if options.wide else CASES + BIG * options.big
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(name) != "1":
            raise SystemExit(f"Set {name}=1: workers have one thread each, and so should we.")
    name = "cluster-wide.csv" if options.wide else "cluster.csv"
    with tempfile.TemporaryDirectory() as folder:
        rows = (on_cluster(n, d, workers, Path(folder)) for n, d, workers in cases)
        printed(RESULTS / "speed" / name, rows)


if __name__ == "__main__":
    main()
