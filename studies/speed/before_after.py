"""The same fits by two versions of the library, in turn: ``python -m studies.speed.before_after``.

    git archive --prefix=before/ COMMIT src | tar -x -C build
    python -m studies.speed.before_after build/before/src

Every case is fitted in processes of its own, by the one version and the other in turn, so that what
else the machine does meets both alike. A process warms up with one fit; the median of the others
counts, and the smaller of these over processes. Processes know the library from its source folder
alone and make their own data. Writes ``before-after.csv`` to ``studies/results/speed`` and prints
its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import angcal
from studies import RESULTS
from studies.engine.store import printed

PROCESSES, FITS = 3, 5
CASES: dict[str, tuple[str, int, int, int, float]] = {
    "800x384 C=1": ("dense", 800, 384, 2, 1.0),
    "800x384 C=0.01": ("dense", 800, 384, 2, 0.01),
    "200x768 C=1": ("dense", 200, 768, 2, 1.0),
    "1000x2000 C=1": ("dense", 1000, 2000, 2, 1.0),
    "4000x4000 C=0.01": ("dense", 4000, 4000, 2, 0.01),
    "10000x2000 C=1": ("dense", 10_000, 2000, 2, 1.0),
    "100000x500 C=1": ("dense", 100_000, 500, 2, 1.0),
    "10000x20000 one-hot C=1": ("one-hot", 10_000, 20_000, 2, 1.0),
    "800x384, path": ("dense", 800, 384, 2, 0.0),
    "1000x2000, path": ("dense", 1000, 2000, 2, 0.0),
    "1000x100, 3 classes": ("dense", 1000, 100, 3, 1.0),
    "2000x200, 10 classes": ("dense", 2000, 200, 10, 1.0),
}
"""(kind of rows, n, d, classes, C); C = 0 is a path of ten penalties."""

CHILD = """
import json, sys, time, warnings
import numpy as np
from scipy import signal, sparse
from sklearn.linear_model import LogisticRegression
from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV

warnings.simplefilter("ignore")
kind, n, d, K, C, fits = json.loads(sys.argv[1])
rng = np.random.default_rng([n, d, K])
if kind == "dense":
    X = signal.lfilter([np.sqrt(0.75)], [1.0, -0.5], rng.normal(size=(n, d)), axis=1)
else:
    levels = d // 20
    shares = 1.0 / np.arange(1, levels + 1)
    places = rng.choice(levels, size=(n, 20), p=shares / shares.sum()) + levels * np.arange(20)
    X = sparse.csr_matrix((np.ones(20 * n), places.ravel(), 20 * np.arange(n + 1)), (n, d))
scores = X @ rng.normal(size=(d, K))
scores *= 3.0 / scores.std()
y = np.argmax(scores + rng.gumbel(size=(n, K)), axis=1)


def fit():
    if C == 0:
        model = AngularLogisticRegressionCV(Cs=10)
    else:
        model = AngularCalibratedClassifier(LogisticRegression(C=C))
    return model.fit(X, y).predict_proba(X[:1])


fit()
found = []
for _ in range(fits):
    wall, process = time.perf_counter(), time.process_time()
    fit()
    found.append((time.perf_counter() - wall, time.process_time() - process))
print(json.dumps(np.median(found, axis=0).tolist()))
"""


def seconds(source: Path, case: tuple[str, int, int, int, float]) -> tuple[float, float]:
    """(seconds on the wall, of the processor) of a fit by the library in this folder."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    command = [sys.executable, "-c", CHILD, json.dumps([*case, FITS])]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall, process = json.loads(done.stdout)
    return float(wall), float(process)


def compared(
    sources: dict[str, Path], name: str, case: tuple[str, int, int, int, float]
) -> dict[str, object]:
    """A row of the table."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sources}
    for number in range(PROCESSES):
        for side in sorted(sources, reverse=bool(number % 2)):
            found[side].append(seconds(sources[side], case))
    wall, process = (
        {side: min(each[k] for each in times) for side, times in found.items()} for k in (0, 1)
    )
    return {
        "case": name,
        "before_ms": round(1e3 * wall["before"], 1),
        "after_ms": round(1e3 * wall["after"], 1),
        "wall": round(wall["after"] / wall["before"], 2),
        "process": round(process["after"] / process["before"], 2),
    }


def main() -> None:
    """Print one row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("before", type=Path, help="source folder of the other version")
    before = parser.parse_args().before
    if not (before / "angcal").is_dir():
        parser.error(f"{before} has no folder angcal; give the src folder of another version.")
    sources = {"before": before, "after": Path(angcal.__file__).parents[1]}
    rows = (compared(sources, name, case) for name, case in CASES.items())
    printed(RESULTS / "speed" / "before-after.csv", rows)


if __name__ == "__main__":
    main()
