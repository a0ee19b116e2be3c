"""Rows larger than memory, on one machine: ``python -m studies.speed.beyond_memory``.

Each fit runs in a process of its own whose data may take a quarter of X's bytes (RLIMIT_DATA), or,
for the command line, no more than it needs: what is printed is the peak of resident memory beyond
what libraries took, as a share of X.

- ``memory map``: `AngularCalibratedClassifier`, one penalty, 600,000 × 500 numbers (2.4 GB).
- ``parquet``: ``angcal fit`` with its 20 penalties, 300,000 × 200 numbers (0.5 GB).

Writes ``beyond-memory.csv`` to ``studies/results/speed`` and prints its rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from angcal.files import write_text
from studies import RESULTS
from studies.engine.store import as_csv

CASES = {"memory map": (600_000, 500), "parquet": (300_000, 200)}
BLOCK, SEED, LIMIT = 10_000, 20_250_920, 0.25
MAP = """
import json, resource, sys, time
import numpy as np
from angcal import AngularCalibratedClassifier
path, n, d, limit = sys.argv[1], *map(int, sys.argv[2:])
y = np.load(path + ".y.npy")
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
AngularCalibratedClassifier().fit([np.random.default_rng(0).normal(size=(2000, d))], y[:2000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
X = np.memmap(path, dtype=np.float64, mode="r", shape=(n, d))
clf = AngularCalibratedClassifier().fit(X, y)
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime
print(json.dumps([1024 * before, 1024 * used.ru_maxrss, clf.passes_, cpu]))
"""
COMMAND = """
import json, resource, sys
import numpy as np, pandas as pd
from angcal.cli import main
from angcal.tables import reading
path = sys.argv[1]
small = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=list("abc"))
small["y"] = small["a"] + np.random.default_rng(1).normal(size=500) > 0
small.to_parquet(path + ".small.parquet")
reading.LARGEST_SHARE = 0.0  # every table is large
assert main(["fit", path + ".small.parquet", "--target", "y", "--json"]) == 0
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert main(["fit", path, "--target", "y", "--json"]) == 0
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime
print(json.dumps([1024 * before, 1024 * used.ru_maxrss, 0, cpu]))
"""


def write(kind: str, n: int, d: int, folder: Path) -> str:
    """Rows and labels on disk, made block by block."""
    rng = np.random.default_rng(SEED)
    w = 2.0 * rng.normal(size=d) / np.sqrt(d)
    labels, path = np.empty(n, dtype=int), folder / kind.replace(" ", "-")
    if kind == "memory map":
        with open(path, "wb") as file:
            for start in range(0, n, BLOCK):
                X = rng.standard_normal((BLOCK, d))
                labels[start : start + BLOCK] = rng.random(BLOCK) < 1 / (1 + np.exp(-X @ w))
                X.tofile(file)
        np.save(f"{path}.y.npy", labels)
        return str(path)
    import pyarrow as pa
    from pyarrow import parquet

    path, writer = path.with_suffix(".parquet"), None
    for _ in range(0, n, BLOCK):
        X = rng.standard_normal((BLOCK, d))
        y = rng.random(BLOCK) < 1 / (1 + np.exp(-X @ w))
        table = pa.table({f"x{j}": X[:, j] for j in range(d)} | {"y": y})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return str(path)


def measured(kind: str, folder: Path) -> dict[str, object]:
    """A row of the table."""
    n, d = CASES[kind]
    path, size = write(kind, n, d, folder), 8 * n * d
    limit = int(LIMIT * size) if kind == "memory map" else 0
    code = MAP if kind == "memory map" else COMMAND
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path, str(n), str(d), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after, passes, cpu = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "rows": kind,
        "n": n,
        "d": d,
        "X_MB": round(size / 1e6),
        "limit_MB": round(limit / 1e6) or "",
        "libraries_MB": round(before / 1e6),
        "peak_MB": round(after / 1e6),
        "growth_to_X": round((after - before) / size, 3),
        "passes": passes or "",
        "cpu": round(cpu, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(CASES))
    only = parser.parse_args().only
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in [only] if only else CASES:
            rows.append(measured(kind, Path(folder)))
            print(rows[-1], flush=True)
    if not only:
        write_text(RESULTS / "speed" / "beyond-memory.csv", as_csv(rows))


if __name__ == "__main__":
    main()
