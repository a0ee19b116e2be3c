"""Fill the tables of docs/dask.md from ``studies/results/speed``.

Run from anywhere, after ``python -m studies.speed.cluster --big``, ``studies.speed.cluster_model``,
``studies.speed.beyond_memory`` and ``studies.speed.parquet_predictions``.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from angcal.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies.engine.tables import fill, table_of  # noqa: E402
from studies.speed.store import RESULTS  # noqa: E402

PAGE = ROOT / "docs" / "dask.md"


def block(name: str) -> str:
    """The rows of ``NAME.csv`` as a table."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return "Not measured yet.\n"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {key.replace("_", " "): (lambda row, key=key: row[key]) for key in rows[0]}
    return table_of(rows, columns) + "\n"


def main() -> None:
    """Rewrite the page."""
    write_text(PAGE, fill(PAGE.read_text(encoding="utf-8"), block))


if __name__ == "__main__":
    main()
