"""Results on disk: one CSV per part, finished cases kept, and what machine made them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import numpy
import scipy
import sklearn
from threadpoolctl import threadpool_info

import angcal
from angcal.files import write_text
from studies import RESULTS as ALL_RESULTS
from studies.engine.store import as_csv, read_csv
from studies.speed.measure import Row

RESULTS = ALL_RESULTS / "speed"
MACHINE = "machine.json"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def _memory_gib() -> float:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return round(pages * size / 2**30, 1)


def source_digest() -> str:
    """A mark of the code that was measured: it changes where a file of angcal does."""
    package = Path(angcal.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def describe_machine(threads: int) -> Row:
    """CPU, memory, versions and BLAS: what a time means nothing without. No names, no paths."""
    blas = [
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')})"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": platform.system(),
        "threads": threads,
        "blas": sorted(set(blas)),
        "versions": {
            "angcal": angcal.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "source": source_digest(),
        "date": datetime.now(UTC).date().isoformat(),
    }


class Store:
    """A folder of CSV files that is added to case by case."""

    def __init__(self, folder: Path, machine: Row, parts: Iterable[str]) -> None:
        self.folder = folder
        path = folder / MACHINE
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        sources = dict(known.get("sources", {}))
        begun = [part for part in parts if self._path(part).exists()]
        differing = [f"source of {p}" for p in begun if sources.get(p) != machine["source"]]
        if known and any(folder.glob("*.csv")):  # an empty folder may be filled on any machine
            fixed = [name for name in machine if name not in ("date", "source")]
            differing += sorted(name for name in fixed if known.get(name) != machine[name])
        if differing:
            raise ValueError(
                f"The results in {folder.name} were made with another {', '.join(differing)}; "
                "ratios must come from one run. Pass --fresh to replace them, or --out for another "
                "folder."
            )
        sources |= dict.fromkeys(parts, machine["source"])
        about = {name: value for name, value in machine.items() if name != "source"}
        write_text(path, json.dumps(about | {"sources": sources}, indent=2) + "\n")

    def _path(self, part: str) -> Path:
        return self.folder / f"{part}.csv"

    def rows(self, part: str) -> list[Row]:
        """All rows of a part, as text."""
        return read_csv(self._path(part))

    def has(self, part: str, case: str) -> bool:
        """Whether the case is finished."""
        return any(row["case"] == case for row in self.rows(part))

    def add(self, part: str, rows: Iterable[Row]) -> None:
        """Put in the rows of a finished case, in place of what an interrupted run left of it."""
        fresh = list(rows)
        cases = {row["case"] for row in fresh}
        everything = [row for row in self.rows(part) if row["case"] not in cases] + fresh
        write_text(self._path(part), as_csv(everything))
