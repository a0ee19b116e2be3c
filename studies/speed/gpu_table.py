"""The table of docs/speed.md about a GPU, from what ``studies/speed/gpu.py`` has left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from studies import RESULTS
from studies.speed.text import mark, markdown

FOLDER = RESULTS / "gpu"
SECONDS_BARS, FLOOR_BAR = {(100_000, 8192): 0.1, (100_000, 100_000): 1.0}, 1.5
# Largest memory in all, and the largest gap of the cosine to double precision on the CPU.
MEMORY_BAR, GAP_BAR = 100.0, 1e-3
# The files have five digits.
SMALLEST_GAP = 1e-5


def gpu_table(folder: Path) -> str:
    """What studies/speed/gpu.py has left: seconds, passes, floor and agreement with the CPU."""
    about = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    rows = []
    for row in pd.read_csv(FOLDER / "results.csv").itertuples():
        bar = SECONDS_BARS.get((row.n, row.d))
        agreement = abs(row.cosine_known_link - row.cosine_host)
        rows.append(
            [
                f"{row.n}x{row.d} {row.dtype} C={row.C:g}",
                f"{row.seconds:.4f}" if bar is None else _seconds(row.seconds, bar),
                str(row.passes),
                f"{row.floor_seconds:.4f}",
                mark(row.over_floor, FLOOR_BAR),
                f"{row.peak_GB:.1f} ({row.X_GB:.1f}) {_verdict(row.peak_GB, MEMORY_BAR)}",
                f"{row.cosine_true:.4f}",
                f"{row.cosine_known_link:.4f} ± {row.cosine_se:.4f}",
                "" if np.isnan(agreement) else _gap(agreement),
                "" if np.isnan(row.cosine_exact) else f"{row.cosine_exact:.4f}",
            ]
        )
    columns = ["case", "seconds", "passes", "floor, s", "to the floor", "peak GB (X)"]
    columns += ["true cosine", "cosine, link known", "gap to float64 on the CPU", "factorised"]
    versions = f"{about['device']}; torch {about['torch']}, scikit-learn {about['scikit-learn']}"
    return f"{versions}; median of {about['repeats']}.\n\n{markdown(columns, rows)}"


def _verdict(value: float, bar: float) -> str:
    return "met" if value <= bar else "**missed**"


def _seconds(value: float, bar: float) -> str:
    return f"{value:.4f} {_verdict(value, bar)}"


def _gap(value: float) -> str:
    size = f"below {SMALLEST_GAP:.0e}" if value < SMALLEST_GAP else f"{value:.0e}"
    return f"{size} {_verdict(value, GAP_BAR)}"
