"""Rows larger than memory, on one machine: ``python -m studies.speed.beyond_memory``.

Each fit runs in a process of its own. Where X has more than 2 GB its data, libraries included, may
take a quarter of that (RLIMIT_DATA); for smaller X libraries alone would take as much. What is
printed is the peak of resident memory beyond what libraries took, as a share of X.

- ``one penalty``: `AngularCalibratedClassifier` on a memory map;
- ``20 penalties``: `AngularLogisticRegressionCV` on a memory map;
- ``averaged``: the same with ``average="penalties"``;
- ``four classes``: 20 penalties, four classes;
- ``parquet``: ``angcal fit`` of a Parquet file, which had 20 penalties when its row was made.

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
from studies.engine.store import as_csv, read_csv

CASES = {
    "one penalty, 500 columns": ("map", 600_000, 500, "AngularCalibratedClassifier()"),
    "one penalty, 50 columns": ("map", 2_000_000, 50, "AngularCalibratedClassifier()"),
    "20 penalties, 50 columns": ("map", 2_000_000, 50, "AngularLogisticRegressionCV(20)"),
    "averaged, 100 columns": (
        *("map", 500_000, 100),
        "AngularLogisticRegressionCV(average='penalties')",
    ),
    "four classes, 500 columns": ("classes", 100_000, 500, "AngularLogisticRegressionCV(Cs=5)"),
    "parquet, 200 columns": ("parquet", 1_500_000, 200, ""),
    "one penalty, 200 columns": ("map", 1_500_000, 200, "AngularCalibratedClassifier()"),
    "20 penalties, 200 columns": ("map", 1_500_000, 200, "AngularLogisticRegressionCV(20)"),
}
BLOCK, SEED, LIMIT, LIMITED = 10_000, 20_250_920, 0.25, 2_000_000_000
MAP = """
import json, resource, sys, time
import numpy as np
from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
path, n, d, limit, model = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
y = np.load(path + ".y.npy")
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
eval(model).fit([np.random.default_rng(0).normal(size=(2000, d))], y[:2000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
X = np.memmap(path, dtype=np.float64, mode="r", shape=(n, d))
start = time.process_time()
clf = eval(model).fit(X, y)
cpu = time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([1024 * before, 1024 * after, clf.passes_, cpu]))
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
print(json.dumps([1024 * before, 1024 * used.ru_maxrss, 0, used.ru_utime + used.ru_stime]))
"""


def write(kind: str, n: int, d: int, folder: Path) -> str:
    """Rows and labels on disk, made block by block."""
    rng, K = np.random.default_rng(SEED), 4 if kind == "classes" else 2
    W = 2.0 * rng.normal(size=(d, K - 1)) / np.sqrt(d)
    labels, path = np.empty(n, dtype=int), folder / f"{kind}-{n}-{d}"
    if path.exists():
        return str(path)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        X = rng.standard_normal((BLOCK, d))
        scores = np.hstack([X @ W, np.zeros((BLOCK, 1))])
        return X, np.argmin(scores + rng.gumbel(size=scores.shape), axis=1)

    if kind != "parquet":
        with open(path, "wb") as file:
            for start in range(0, n, BLOCK):
                X, labels[start : start + BLOCK] = draw()
                X.tofile(file)
        np.save(f"{path}.y.npy", labels)
        return str(path)
    import pyarrow as pa
    from pyarrow import parquet

    path, writer = path.with_suffix(".parquet"), None
    for _ in range(0, n, BLOCK):
        X, y = draw()
        table = pa.table({f"x{j}": X[:, j] for j in range(d)} | {"y": y})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return str(path)


def measured(name: str, folder: Path) -> dict[str, object]:
    """A row of the table."""
    kind, n, d, model = CASES[name]
    path, size = write(kind, n, d, folder), 8 * n * d
    limit = int(LIMIT * size) if kind != "parquet" and size > LIMITED else 0
    code = COMMAND if kind == "parquet" else MAP
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path, str(n), str(d), str(limit), model],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after, passes, cpu = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "rows": name,
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
    parser.add_argument("--only", choices=list(CASES), nargs="+")
    only, target = parser.parse_args().only, RESULTS / "speed" / "beyond-memory.csv"
    rows: dict[object, dict[str, object]] = {}
    if only:
        rows = {row["rows"]: dict(row) for row in read_csv(target) if row["rows"] in CASES}
    with tempfile.TemporaryDirectory() as folder:
        for name in only or CASES:
            own = "-".join(map(str, CASES[name][:3]))
            for path in Path(folder).glob("*"):
                if not path.name.startswith(own):
                    path.unlink()  # of the case before, unless its rows are the same
            rows[name] = measured(name, Path(folder))
            print(rows[name], flush=True)
            write_text(target, as_csv([rows[each] for each in CASES if each in rows]))


if __name__ == "__main__":
    main()
