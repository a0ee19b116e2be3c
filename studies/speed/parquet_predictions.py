"""Probabilities from Parquet to Parquet: ``python -m studies.speed.parquet_predictions [ROWS]``.

A Dask dataframe of 50 columns is read, predicted on and written, partition by partition, by the
threads of this machine; beside it the same columns are read and written as they are. Both in
processes of their own, three times each in turn: CPU seconds, and the peak of resident memory
beyond that before.

Writes ``parquet-predictions.csv`` to ``studies/results/speed`` and prints its rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from angcal.files import write_text
from studies import RESULTS
from studies.engine.store import as_csv

ROWS, COLUMNS, PARTITION, REPEATS, SEED = 2_000_000, 50, 100_000, 3, 20_250_921
CHILD = """
import json, resource, sys, time
import dask, dask.dataframe as dd, numpy as np, pandas as pd
from angcal import AngularCalibratedClassifier
source, target, predicts = sys.argv[1], sys.argv[2], sys.argv[3] == "predict"
rows = dd.read_parquet(source, split_row_groups=True)
some = rows.partitions[0].compute(scheduler="sync")
y = (some["x0"] + np.random.default_rng(0).logistic(size=len(some)) > 0).to_numpy()
clf = AngularCalibratedClassifier().fit(some, y)

def predicted(part):
    return pd.DataFrame({"p": clf.predict_proba(part)[:, 1]}, index=part.index)

rows = rows.map_partitions(predicted, meta={"p": "f8"}) if predicts else rows
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
wall = time.perf_counter()
rows.to_parquet(target, write_index=False, compute_kwargs={"scheduler": "threads"})
wall, cpu = time.perf_counter() - wall, time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([cpu, wall, (after - before) / 1e3]))
"""


def write(n: int, folder: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    rng, path, writer = np.random.default_rng(SEED), folder / "rows.parquet", None
    for _ in range(0, n, PARTITION):
        X = rng.standard_normal((PARTITION, COLUMNS))
        table = pa.table({f"x{j}": X[:, j] for j in range(COLUMNS)})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    found: dict[str, list[list[float]]] = {"predict": [], "copy": []}
    with tempfile.TemporaryDirectory() as name:
        source = write(n, Path(name))
        for repeat in range(REPEATS):
            for work, rows in found.items():
                target = str(Path(name) / f"{work}-{repeat}")
                command = [sys.executable, "-W", "ignore", "-c", CHILD, str(source), target, work]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                rows.append(json.loads(done.stdout))
    middle = {work: np.median(rows, axis=0) for work, rows in found.items()}
    rows_out = [
        {
            "rows": n,
            "columns": COLUMNS,
            "work": work,
            "cpu": round(float(cpu), 2),
            "wall": round(float(wall), 2),
            "extra_MB": round(float(extra)),
            "copy_to_it": round(float(middle["copy"][0] / cpu), 2),
        }
        for work, (cpu, wall, extra) in middle.items()
    ]
    for row in rows_out:
        print(row)
    write_text(RESULTS / "speed" / "parquet-predictions.csv", as_csv(rows_out))


if __name__ == "__main__":
    main()
