"""Import time of angcal over that of sklearn.linear_model.

``python -m studies.side_by_side.import_time``. Each import is the first in a fresh process, timed
inside it, so that starting Python does not count. Processes take turns; medians are
compared. The bar is 1.5.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

BAR = 1.5
MODULES = ("sklearn.linear_model", "angcal")
CODE = (
    "import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
)


def seconds(module: str) -> float:
    """Seconds that the first import of a module takes in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def medians(repeats: int) -> dict[str, float]:
    """Median seconds per module; one round first, so that files are in the disk cache."""
    for module in MODULES:
        seconds(module)
    rounds = [{module: seconds(module) for module in MODULES} for _ in range(repeats)]
    return {module: statistics.median(found[module] for found in rounds) for module in MODULES}


def main() -> int:
    """Print both times and their ratio; exit 1 above the bar."""
    parser = argparse.ArgumentParser(description="Time the import of angcal.")
    parser.add_argument("--repeats", type=int, default=9, help="processes per module")
    found = medians(parser.parse_args().repeats)
    for module, median in found.items():
        print(f"{module:<22}{median:7.3f} s")
    ratio = found["angcal"] / found["sklearn.linear_model"]
    print(f"ratio {ratio:.2f}, bar {BAR}: {'met' if ratio <= BAR else 'missed'}")
    return int(ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
