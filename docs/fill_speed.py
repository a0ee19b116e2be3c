"""Make docs/speed.md and its pictures from ``studies/results/speed/full``.

Run from anywhere, after ``python -m studies benchmark speed --full``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from angcal.displays import STYLES
from angcal.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies.engine.figures import save_figure  # noqa: E402
from studies.engine.tables import fill  # noqa: E402
from studies.speed.contenders import BASE, CROSS_FITTED, OUR_PART, OURS  # noqa: E402
from studies.speed.store import RESULTS  # noqa: E402
from studies.speed.tables import (  # noqa: E402
    CROSS_FITTED_BAR,
    FIT_BAR,
    GROWTH_BAR,
    growth_slopes,
    load,
    ratios,
    table,
)

PAGE = ROOT / "docs" / "speed.md"
# Drawn first and thus in the first colors; the others follow in the order measured.
FIRST = (OURS, CROSS_FITTED)
MISSED = "**missed**"
# Tables that hold a verdict on a bar.
JUDGED = ("bars", "draws", "predict", "memory", "growth", "path", "real", "small", "gpu")
PICTURES = {
    "picture-fit": ("fit", "Time of every contender over one LogisticRegression fit"),
    "picture-growth": ("growth", "Time against n·d on log axes"),
}


def cells(line: str) -> list[str]:
    """The cells of one line of a Markdown table.

    >>> cells("| a | b c |")
    ['a', 'b c']
    """
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def missed_in(name: str, text: str) -> Iterator[str]:
    """A line of a list for every missed bar in a table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if not lines:
        return
    columns = cells(lines[0])
    for line in lines[2:]:
        row = cells(line)
        # What comes before the first number names the row.
        label = ", ".join(row[:2] if name in ("memory", "growth", "path") else row[:1])
        for column, value in zip(columns, row, strict=True):
            if MISSED in value:
                yield f"- {label}: {column} {value.replace(MISSED, '').strip()}\n"


def losses(folder: Path) -> str:
    """Every missed bar, read off the tables themselves."""
    missed = [line for name in JUDGED for line in missed_in(name, table(name, folder))]
    measured = any((folder / f"{name}.csv").exists() for name in ("fit", "predict", "memory"))
    if not measured:
        return "Not measured yet.\n"
    return "".join(missed) or "No bar was missed in the parts that were run.\n"


def block(name: str, folder: Path) -> str:
    """A table, a picture or the list of losses, by name."""
    if name == "losses":
        return losses(folder)
    if name in PICTURES:
        part, caption = PICTURES[name]
        if not (folder / f"{part}.csv").exists():
            return "Not drawn yet.\n"
        return f"![{caption}](speed_{part}.png)\n"
    return table(name, folder)


def filled(page: str, folder: Path) -> str:
    """The page with every block replaced by what it names."""
    return fill(page, lambda name: block(name, folder))


def _drawn(names: list[str]) -> list[str]:
    rest = [name for name in names if name not in (*FIRST, BASE, OUR_PART)]
    return [name for name in FIRST if name in names] + rest


def draw_ratios(fits: pd.DataFrame) -> Figure:
    """Time over that of one LogisticRegression, case by case, with both bars."""
    table = ratios(fits)
    places = np.arange(len(table))[::-1]
    figure = Figure(figsize=(8.0, 1.6 + 0.42 * len(table)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(1.0, color="0.4", lw=1, zorder=0)
    ax.axvline(FIT_BAR, color="0.4", lw=1, ls="--", zorder=0, label=f"bar: {FIT_BAR:g} fits")
    bar = CROSS_FITTED_BAR * table[CROSS_FITTED]
    label = f"bar: {CROSS_FITTED_BAR:g} × {CROSS_FITTED}"
    ax.scatter(bar, places, marker="|", s=220, color="0.4", zorder=1, label=label)
    for index, name in enumerate(_drawn(list(table.columns))):
        color, marker, _ = STYLES[index % len(STYLES)]
        hollow: dict[str, Any] = {"facecolors": "none"} if index >= len(STYLES) else {}
        ax.scatter(
            table[name],
            places,
            edgecolors=color,
            c=None if hollow else color,
            marker=marker,
            s=42,
            zorder=4 if name == OURS else 3,
            label=name,
            **hollow,
        )
    ax.set(xscale="log", xlabel="time over that of one LogisticRegression fit")
    ax.set_yticks(places, table.index)
    ax.margins(y=0.1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def draw_growth(growth: pd.DataFrame) -> Figure:
    """Seconds against n·d on log axes, with the slope of each curve."""
    figure = Figure(figsize=(6.5, 4.8), layout="constrained")
    ax = figure.subplots()
    slopes = growth_slopes(growth).set_index(["penalty", "contender"])["slope"]
    groups = growth.groupby(["penalty", "contender"], sort=False)
    for index, (key, group) in enumerate(groups):
        wall = group.groupby("entries")["wall"].median()
        color, marker, dash = STYLES[index % len(STYLES)]
        label = f"{key[1]}, {key[0]}: slope {slopes[key]:.2f}"
        ax.plot(wall.index, wall, color=color, marker=marker, linestyle=dash, label=label)
    _draw_guide(ax, growth)
    ax.set(xscale="log", yscale="log", xlabel="entries of X, n·d", ylabel="seconds")
    ax.legend(frameon=False, fontsize="small")
    return figure


def _draw_guide(ax: Any, growth: pd.DataFrame) -> None:
    """A line of the slope that the bar allows, through our largest size at the first penalty."""
    first = growth["penalty"] == growth["penalty"].iloc[0]
    ours = growth[first & (growth["contender"] == OURS)].groupby("entries")["wall"].median()
    entries = np.array([ours.index.min(), ours.index.max()], dtype=float)
    line = ours.iloc[-1] * (entries / entries[-1]) ** GROWTH_BAR
    ax.plot(entries, line, color="0.6", lw=1, label=f"slope {GROWTH_BAR:g}")


def draw(folder: Path, out: Path) -> None:
    """Pictures of the parts that were run."""
    for part, picture in (("fit", draw_ratios), ("growth", draw_growth)):
        rows = load(folder, part)
        if len(rows):
            save_figure(picture(rows), out / f"speed_{part}")


def main() -> None:
    """Draw the pictures and rewrite the page."""
    folder = RESULTS / "full"
    draw(folder, PAGE.parent)
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), folder))


if __name__ == "__main__":
    main()
