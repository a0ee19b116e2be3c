"""Markdown tables and figures with their errors, as the summaries write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Mean and its standard error, s/√n."""
    sample = np.asarray(values, dtype=float)
    spread = sample.std(ddof=1) if sample.size > 1 else np.nan
    return float(sample.mean()), float(spread / np.sqrt(sample.size))


def rmse_and_error(errors: ArrayLike) -> tuple[float, float]:
    """√mean(e²) and its standard error, that of mean(e²) over 2√mean(e²)."""
    square, error = mean_and_error(np.asarray(errors, dtype=float) ** 2)
    root = float(np.sqrt(square))
    return root, error / (2.0 * root) if root > 0 else 0.0


def with_error(value: float, error: float, digits: int = 4) -> str:
    """Value ± error, with the same number of decimals."""
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def yes_or_no(holds: bool) -> str:
    """Cell of the column "holds?"."""
    return "yes" if holds else "no"
