"""Cells and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mark(value: float, bar: float) -> str:
    """The value, and whether it keeps below the bar."""
    return f"{value:.2f} {'met' if value <= bar else '**missed**'}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rule = "|" + "---|" * len(columns) + "\n"
    head, *body = [f"| {' | '.join(cells)} |\n" for cells in (columns, *rows)]
    return head + rule + "".join(body)


def seconds(value: float) -> str:
    """Three digits, or nothing where there is nothing."""
    return "" if np.isnan(value) else f"{value:.3g}"
