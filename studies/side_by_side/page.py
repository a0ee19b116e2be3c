"""results.csv → the tables of docs/side_by_side.md, between the marks that the page has."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from angcal.files import write_text
from studies import RESULTS as FOLDER

RESULTS = FOLDER / "side_by_side" / "results.csv"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "side_by_side.md"
OURS = "angcal"
MARKS = re.compile(r"(<!-- table: side-by-side -->\n).*?(<!-- end -->)", flags=re.DOTALL)

Records = list[dict[str, str]]


def mean_and_error(values: list[float]) -> tuple[float, float]:
    array = np.asarray(values)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


def column(records: Records, contender: str, name: str) -> list[float]:
    return [float(record[name]) for record in records if record["contender"] == contender]


def cell(values: list[float], best: float) -> str:
    mean, error = mean_and_error(values)
    text = f"{mean:.3f} ± {error:.3f}"
    return f"**{text}**" if mean == best else text


def table(records: Records) -> str:
    """One line per contender, in the order of the file."""
    contenders = list(dict.fromkeys(record["contender"] for record in records))
    best = {
        name: min(float(np.mean(column(records, contender, name))) for contender in contenders)
        for name in ("ece", "log_loss")
    }
    lines = [
        "| | lines | fits | labels withheld | seconds | ECE | log-loss | log-loss over angcal's |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ours = np.asarray(column(records, OURS, "log_loss"))
    for contender in contenders:
        first = next(record for record in records if record["contender"] == contender)
        losses = column(records, contender, "log_loss")
        mean, error = mean_and_error(list(np.asarray(losses) - ours))
        gap = "—" if contender == OURS else f"{mean:+.3f} ± {error:.3f}".replace("-", "−")
        seconds = float(np.median(column(records, contender, "seconds")))
        lines.append(
            f"| {contender} | {first['lines']} | {first['fits']} | "
            f"{first['withheld']} of {first['labels']} | {seconds:.3f} | "
            f"{cell(column(records, contender, 'ece'), best['ece'])} | "
            f"{cell(losses, best['log_loss'])} | {gap} |"
        )
    return "\n".join(lines)


def tables(records: Records) -> str:
    tasks = list(dict.fromkeys(record["task"] for record in records))
    parts = [
        f"## {task[0].upper()}{task[1:]}\n\n"
        + table([record for record in records if record["task"] == task])
        for task in tasks
    ]
    return "\n\n".join(parts) + "\n"


def write_page(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Put the tables into the page."""
    with results.open(newline="") as file:
        records = list(csv.DictReader(file))
    filled = MARKS.sub(lambda match: match[1] + tables(records) + match[2], page.read_text())
    write_text(page, filled)
