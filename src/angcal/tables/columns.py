"""What each column is: numbers, sparse numbers, categories, or nothing that a model can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal.tables.errors import TableError, listed, need

NUMBERS, SPARSE, CATEGORIES, DROPPED = "numbers", "sparse", "categories", "dropped"
# Text that is numbers but for a few words, such as "unknown", is numbers; the words are missing.
LEAST_NUMERIC_SHARE = 0.8
LEAST_DATE_SHARE = 0.9
DATE = r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?$"
DATE_TYPES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
NUMBER_TYPES = {"boolean", "integer", "floating", "decimal", "mixed-integer-float"}
SMALLEST_COUNT = 10  # rows from which on 1, 2, 3, … is no coincidence
ROW_NAMES = {"", "id", "index", "row", "rowid", "row_id"}


@dataclass(frozen=True)
class ColumnPlan:
    """Columns by what is done with them, in the order of the table.

    Attributes
    ----------
    numbers, sparse, categories : tuple of str
    dropped : tuple of (name, reason)
    """

    numbers: tuple[str, ...]
    sparse: tuple[str, ...]
    categories: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]

    @property
    def used(self) -> list[str]:
        """All columns that a model sees."""
        return [*self.numbers, *self.sparse, *self.categories]


def dropped_columns(features: Any) -> list[tuple[str, str]]:
    """(name, reason) of every column that is left out.

    Parameters
    ----------
    features : pandas.DataFrame
    """
    return list(plan_columns(features).dropped)


def rare_below(n_rows: int) -> int:
    """Levels with fewer rows are put together: a weight for each would be mostly noise."""
    return 2 if n_rows < 100 else 5


def plan_columns(features: Any) -> ColumnPlan:
    """Decide for every column; an error where none is left."""
    pd = need("pandas", "a table")
    dtypes = list(features.dtypes)
    spare = [j for j, dtype in enumerate(dtypes) if isinstance(dtype, pd.SparseDtype)]
    plain = [
        j for j, dtype in enumerate(dtypes) if isinstance(dtype, np.dtype) and dtype.kind in "iufb"
    ]
    reasons: dict[int, str] = {}
    reasons |= _useless_numbers(features.iloc[:, plain], plain)
    reasons |= _useless_sparse(features.iloc[:, spare], spare)
    kinds = dict.fromkeys(plain, NUMBERS) | dict.fromkeys(spare, SPARSE)
    for j in set(range(len(dtypes))) - kinds.keys():
        kinds[j], reason = _judge(features.iloc[:, j], len(features))
        if reason:
            reasons[j] = reason
    names = [str(name) for name in features.columns]

    def kept(kind: str) -> tuple[str, ...]:
        return tuple(names[j] for j in range(len(names)) if kinds[j] == kind and j not in reasons)

    plan = ColumnPlan(
        numbers=kept(NUMBERS),
        sparse=kept(SPARSE),
        categories=kept(CATEGORIES),
        dropped=tuple((names[j], reasons[j]) for j in sorted(reasons)),
    )
    if not plan.used:
        raise TableError(_nothing_left(plan))
    return plan


def _nothing_left(plan: ColumnPlan) -> str:
    if not plan.dropped:
        return "the table has no column besides the target; add the features."
    first, reason = plan.dropped[0]
    return (
        f"no column can be used: {listed([name for name, _ in plan.dropped])} were left out "
        f"({first!r}: {reason}); add numbers or categories."
    )


def _useless_numbers(frame: Any, places: list[int]) -> dict[int, str]:
    """Reasons against columns of plain numbers, all at once: a table may have many thousands."""
    if not places:
        return {}
    values = frame.to_numpy(dtype=np.float64)
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=0)
    high = np.where(finite, values, -np.inf).max(axis=0)
    reasons = {places[j]: "every entry is missing" for j in np.flatnonzero(low > high)}
    reasons |= {places[j]: _constant(low[j]) for j in np.flatnonzero(low == high)}
    if len(values) < SMALLEST_COUNT:
        return reasons
    for j, name in enumerate(frame.columns):
        if places[j] not in reasons and _counts_rows(values[:, j], str(name)):
            reasons[places[j]] = "it counts the rows, so it is an identifier"
    return reasons


def _counts_rows(column: np.ndarray, name: str) -> bool:
    """Whether a column is 1, 2, 3, …, or whole numbers that differ and are called an identifier."""
    if column[1] - column[0] == 1 and np.all(np.diff(column) == 1):
        return True
    plain = name.lower().strip()
    if plain not in ROW_NAMES and not plain.startswith("unnamed:"):
        return False
    whole = np.isfinite(column).all() and np.all(column == np.round(column))
    return bool(whole and len(np.unique(column)) == len(column))


def _useless_sparse(frame: Any, places: list[int]) -> dict[int, str]:
    if not places:
        return {}
    matrix = frame.sparse.to_coo().tocsc()
    low, high = matrix.min(axis=0).toarray().ravel(), matrix.max(axis=0).toarray().ravel()
    return {places[j]: _constant(low[j]) for j in np.flatnonzero(~(low < high))}


def _constant(value: Any) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"it is the same in every row ({shown})"


def _judge(column: Any, n_rows: int) -> tuple[str, str]:
    """(kind, reason against it or "") of a column that is not plain numbers."""
    pd = need("pandas", "a table")
    present = column.dropna()
    if not len(present):
        return DROPPED, "every entry is missing"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return CATEGORIES, _against_categories(present, n_rows)
    if np.iscomplexobj(present.to_numpy()):
        return DROPPED, "its entries are complex numbers"
    kind = pd.api.types.infer_dtype(present)
    if kind in DATE_TYPES:
        return DROPPED, "it holds dates; make numbers of them first, such as days since an event"
    if kind in NUMBER_TYPES:
        return NUMBERS, _against_numbers(pd.to_numeric(present.astype(np.float64)))
    if not all(isinstance(entry, str | int | float) for entry in present):
        return DROPPED, "its entries are neither numbers nor text"
    return _judge_text(present.map(str), n_rows)


def _judge_text(present: Any, n_rows: int) -> tuple[str, str]:
    pd = need("pandas", "a table")
    numbers = pd.to_numeric(present, errors="coerce")
    if numbers.notna().mean() >= LEAST_NUMERIC_SHARE:
        return NUMBERS, _against_numbers(numbers)
    if present.str.match(DATE).mean() >= LEAST_DATE_SHARE:
        return DROPPED, "it holds dates; make numbers of them first, such as days since an event"
    return CATEGORIES, _against_categories(present, n_rows)


def _against_numbers(numbers: Any) -> str:
    values = numbers.to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return "every entry is missing"
    return _constant(float(values[0])) if values.min() == values.max() else ""


def _against_categories(present: Any, n_rows: int) -> str:
    """Missing entries are a level of their own, so one level and missing ones are two."""
    counts = present.map(str).value_counts()
    counts = counts[counts > 0]
    if len(counts) == 1 and len(present) == n_rows:
        return _constant(counts.index[0])
    if len(counts) == len(present) and len(counts) > 1:
        return "it has as many different values as rows, so it is an identifier or free text"
    if counts.iloc[0] < rare_below(n_rows) and len(present) == n_rows:
        return f"no value occurs {rare_below(n_rows)} times, so it is free text"
    return ""
