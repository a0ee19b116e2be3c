"""Rows of small studies in one CSV file, which goes on where it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from angcal.files import write_text
from studies.engine.store import as_csv, read_csv

Row = dict[str, str]


def resumed(
    path: Path,
    columns: Sequence[str],
    designs: Sequence[tuple[object, ...]],
    trial: Callable[..., list[list[object]]],
    fresh: bool = False,
) -> list[Row]:
    """Rows of all designs; those that were done before are kept."""
    rows = [] if fresh else read_csv(path)
    keys = columns[: len(designs[0])]
    done = {tuple(row[key] for key in keys) for row in rows}
    for design in designs:
        key = tuple(map(str, design))
        if key in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trial(*design)
        for values in found:
            shown = [f"{v:.5g}" if isinstance(v, float) else str(v) for v in values]
            rows.append(dict(zip(columns, [*key, *shown], strict=True)))
        write_text(path, as_csv(rows))
    return rows
