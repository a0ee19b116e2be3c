"""Markdown tables and figures with their errors, as the summaries write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import beta

HEADER = ("quantity", "paper", "measured (± standard error)", "holds?")
NOTHING = "—"
"""Cell of a column that has nothing to say."""
MOST_DECIMALS = 5
CLEAR = 2.0
"""Standard errors from which on a difference counts."""
Columns = Mapping[str, Callable[[Any], str]]
"""Header of each column, and its cell for a row."""
BLOCK = re.compile(r"(<!-- table: ([a-z_-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def chosen(frame: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """The rows whose columns have the given values."""
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return frame


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within cells are escaped, negative numbers have a minus sign."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(with_minus(cell).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def table_of(rows: Iterable[Any], columns: Columns) -> str:
    """A table with one line per row."""
    return markdown(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def fill(page: str, block: Callable[[str], str]) -> str:
    """The page with what stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` replaced."""
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2])}{found[4]}", page)


def with_minus(text: str) -> str:
    """The text with "−" for the hyphen before a number; hyphens in words and exponents stay."""
    return re.sub(r"(?<![\w.-])-(?=\.?\d)", "−", text)


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Mean and its standard error, s/√n; the latter is NaN for one value and for infinite ones."""
    sample = np.asarray(values, dtype=float)
    known = sample.size > 1 and not np.isinf(sample).any()
    spread = sample.std(ddof=1) if known else np.nan
    return float(sample.mean()), float(spread / np.sqrt(sample.size))


def rmse_and_error(errors: ArrayLike) -> tuple[float, float]:
    """√mean(e²) and its standard error, that of mean(e²) over 2√mean(e²)."""
    square, error = mean_and_error(np.asarray(errors, dtype=float) ** 2)
    root = float(np.sqrt(square))
    return root, error / (2.0 * root) if root > 0 else 0.0


def exact_interval(wrong: Any, total: Any) -> tuple[Any, Any]:
    """Clopper–Pearson 95 % interval of a share, or of each of several.

    A share that was printed need not be a whole count.
    """
    wrong, total = np.asarray(wrong), np.asarray(total)
    low = beta.ppf(0.025, np.where(wrong > 0, wrong, 1), total - wrong + 1)
    high = beta.ppf(0.975, wrong + 1, np.where(wrong < total, total - wrong, 1))
    return np.where(wrong > 0, low, 0.0)[()], np.where(wrong < total, high, 1.0)[()]


def with_error(value: float, error: float, digits: int | None = 4) -> str:
    """Value ± error, with the same number of decimals.

    With ``digits=None`` there are as many decimals as show two digits of the error, five at most.
    An error that would be rounded to zero reads "less than" the last decimal.
    """
    if digits is None:
        usable = np.isfinite(error) and error > 0.0
        digits = (
            int(np.clip(1 - np.floor(np.log10(error)), 0, MOST_DECIMALS))
            if usable
            else MOST_DECIMALS
        )
    small = error < 0.5 * 10.0**-digits
    spread = f"less than {10.0**-digits:.{digits}f}" if small else f"{error:.{digits}f}"
    return with_minus(f"{value:.{digits}f} ± {spread}")


def mean_text(values: ArrayLike, digits: int | None = 4) -> str:
    """Mean ± standard error."""
    return with_error(*mean_and_error(values), digits)


def rmse_text(errors: ArrayLike) -> str:
    """Root mean square ± standard error."""
    return with_error(*rmse_and_error(errors))


def yes_or_no(holds: bool) -> str:
    """Cell of the column "holds?"."""
    return "yes" if holds else "no"


def verdict(mean: float, error: float, bound: float, *, below: bool) -> str:
    """Whether mean ± two standard errors lies on the stated side of the bound."""
    if not abs(mean - bound) > CLEAR * error:
        return "undecided"
    return yes_or_no((mean < bound) == below)


def spelled(method: str) -> str:
    """``Platt 20000`` as it is read: "Platt, 20,000 labels"; other methods as they are."""
    name, _, size = method.rpartition(" ")
    return f"{name}, {int(size):,} labels" if name and size.isdigit() else method
