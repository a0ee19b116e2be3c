"""Probabilities from Parquet to Parquet: ``python -m studies.speed.parquet_predictions``.

- ``predict``: a Dask dataframe of 50 columns is read, predicted on and written, partition by
  partition, by the threads of this machine;
- ``copy``: the same columns are read and written as they are, in the same way;
- ``plain copy``: the same by pyarrow alone, batch by batch;
- ``angcal predict``: the command line, to a Parquet file.

Each in a process of its own, once: CPU
seconds, wall seconds, and the peak of resident memory beyond that before. Arguments are numbers of
rows.

Writes ``parquet-predictions.csv`` to ``studies/results/speed`` and prints its rows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from studies import RESULTS
from studies.engine.store import printed

ROWS, COLUMNS, PARTITION, REPEATS, SEED = (2_000_000, 20_000_000), 50, 100_000, 1, 20_250_921
CHILD = """
import contextlib, io, json, resource, sys, time
import dask, dask.dataframe as dd, numpy as np, pandas as pd
from pyarrow import parquet
from angcal import AngularCalibratedClassifier
from angcal.cli import main
from angcal.persistence import save
from angcal.tables import reading
source, target, work = sys.argv[1:]
rows = dd.read_parquet(source, split_row_groups=True)
some = rows.partitions[0].compute(scheduler="sync")
y = (some["x0"] + np.random.default_rng(0).logistic(size=len(some)) > 0).to_numpy()
clf = AngularCalibratedClassifier().fit(some, y)
save(clf, target + ".skops")
reading.LARGEST_SHARE = 0.0  # every table is large

def predicted(part):
    return pd.DataFrame({"p": clf.predict_proba(part)[:, 1]}, index=part.index)

def by_dask(rows):
    rows.to_parquet(target, write_index=False, compute_kwargs={"scheduler": "threads"})

def plain():
    with parquet.ParquetFile(source, pre_buffer=False) as file:
        with parquet.ParquetWriter(target, file.schema_arrow) as writer:
            for batch in file.iter_batches(100_000, use_threads=False):
                writer.write_batch(batch)

def command():
    with contextlib.redirect_stderr(io.StringIO()):
        assert main(["predict", target + ".skops", source, "--out", target + ".parquet"]) == 0

works = {
    "predict": lambda: by_dask(rows.map_partitions(predicted, meta={"p": "f8"})),
    "copy": lambda: by_dask(rows),
    "plain copy": plain,
    "angcal predict": command,
}
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
wall = time.perf_counter()
works[work]()
wall, cpu = time.perf_counter() - wall, time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([cpu, wall, (after - before) / 1e3]))
"""
WORKS = ("predict", "copy", "plain copy", "angcal predict")


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


def measured(n: int, folder: Path) -> list[dict[str, object]]:
    """Rows of the table."""
    source, found = write(n, folder), {work: [] for work in WORKS}  # type: ignore[var-annotated]
    for _ in range(REPEATS):
        for work, rows in found.items():
            target = folder / "out"
            command = [sys.executable, "-W", "ignore", "-c", CHILD, str(source), str(target), work]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            for path in folder.glob("out*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    source.unlink()
    middle = {work: np.median(rows, axis=0) for work, rows in found.items()}
    return [
        {
            "rows": n,
            "columns": COLUMNS,
            "work": work,
            "cpu": round(float(cpu), 2),
            "wall": round(float(wall), 2),
            "extra_MB": round(float(extra)),
            "copy_to_it": round(float(middle["copy"][0] / cpu), 2),
            "plain_copy_to_it": round(float(middle["plain copy"][0] / cpu), 2),
        }
        for work, (cpu, wall, extra) in middle.items()
    ]


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:]] or ROWS
    with tempfile.TemporaryDirectory() as name:
        rows = (row for n in sizes for row in measured(n, Path(name)))
        printed(RESULTS / "speed" / "parquet-predictions.csv", rows)


if __name__ == "__main__":
    main()
