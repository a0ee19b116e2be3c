"""Put the tables of ``studies/results/side_by_side`` into docs/side_by_side.md.

Run from anywhere, after ``python -m studies.side_by_side.run``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from angcal.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies import RESULTS as FOLDER  # noqa: E402
from studies.engine.tables import fill, markdown, mean_text, with_minus  # noqa: E402

RESULTS = FOLDER / "side_by_side" / "results.csv"
PAGE = ROOT / "docs" / "side_by_side.md"
OURS = "angcal"
HEADER = (
    *("", "lines", "fits", "labels withheld", "seconds", "ECE", "log-loss"),
    "log-loss over angcal's",
)


def table(rows: pd.DataFrame) -> str:
    """One line per contender, in the order of the file; the best of each column in bold."""
    groups = rows.groupby("contender", sort=False)
    best = groups[["ece", "log_loss"]].mean().min()
    ours = groups.get_group(OURS)["log_loss"].to_numpy()

    def cell(values: pd.Series) -> str:
        text = mean_text(values, 3)
        return f"**{text}**" if np.isclose(values.mean(), best[values.name], rtol=1e-12) else text

    def gap(values: pd.Series) -> str:
        text = mean_text(values.to_numpy() - ours, 3)
        return with_minus(text) if text.startswith("−") else f"+{text}"

    lines = [
        (
            str(contender),
            *(str(group[name].iloc[0]) for name in ("lines", "fits")),
            f"{group['withheld'].iloc[0]} of {group['labels'].iloc[0]}",
            f"{group['seconds'].median():.3f}",
            cell(group["ece"]),
            cell(group["log_loss"]),
            "—" if contender == OURS else gap(group["log_loss"]),
        )
        for contender, group in groups
    ]
    return markdown(HEADER, lines)


def tables(rows: pd.DataFrame) -> str:
    """A table for each task."""
    parts = [
        f"## {task[0].upper()}{task[1:]}\n\n{table(group)}"
        for task, group in rows.groupby("task", sort=False)
    ]
    return "\n\n".join(parts) + "\n"


def write_page(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Put the tables into the page."""
    rows = pd.read_csv(results)
    write_text(page, fill(page.read_text(encoding="utf-8"), lambda name: tables(rows)))


if __name__ == "__main__":
    write_page()
