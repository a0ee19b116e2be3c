"""What docs/speed.md shows of a run: tables, pictures and the bars that were missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from studies.engine.tables import fill
from studies.speed.tables import TABLES, table

MISSED = "**missed**"
# Tables that hold a verdict on a bar.
JUDGED = ("bars", "draws", "predict", "memory", "growth", "path", "gpu")
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
        label = ", ".join(row[:1] if name in ("bars", "draws", "predict", "gpu") else row[:2])
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


def all_tables(folder: Path) -> str:
    """Every table under its name: the report of a run that no page is made of."""
    names = [*TABLES, "losses"]
    return "\n".join(f"## {name}\n\n{block(name, folder)}" for name in names)
