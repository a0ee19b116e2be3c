"""Sentences about what a table may hold by mistake, each with the way out.

At the fit: columns that identify rows, columns that give the target away, text among numbers, cells
that were filled in. At prediction: the same text and cells, numbers outside the range of the
training rows, and categories that these did not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from angcal._typing import Floats
from angcal.notices import warn
from angcal.tables.columns import (
    KEPT,
    ColumnPlan,
    NumberColumns,
    all_different,
    as_text,
    identifies_by_name,
    plan_columns,
)
from angcal.tables.errors import TableWarning, counted, first_few, listed
from angcal.tables.targets import note_classes

# Rows that are looked at for columns that give the target away, and columns at a time.
MOST_ROWS, COLUMNS_AT_ONCE = 5000, 500
# Numbers that people write where a value is missing.
CODES = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
# New rows that are looked at together.
ROWS_AT_ONCE = 20_000


def warn_about(features: Any, y: np.ndarray, target: str, *, grouped: bool = False) -> None:
    """Warn once about each kind of mistake that a table to be fitted may hold.

    Parameters
    ----------
    features : pandas.DataFrame
    y : ndarray
        Classes of the rows.
    target : str
        Their name.
    grouped : bool, default=False
        Whether it is known which rows belong together.
    """
    note_classes(y, target)
    plan = plan_columns(features)
    numbers = NumberColumns().transform(features[list(plan.numbers)]) if plan.numbers else None
    notes = _identifying(features, plan, numbers)
    if not grouped:
        notes += _repeated(features, plan)
    notes += _telling(features, plan, numbers, y, target)
    notes += _codes_for_missing(plan, numbers)
    notes += words_in(features, list(plan.numbers))
    notes += filled_in(features, plan, _empty_cells(features, plan.numbers))
    for note in notes:
        warn(note, TableWarning)


# -- columns that identify rows -----------------------------------------------------------------


def _identifying(features: Any, plan: ColumnPlan, numbers: Floats | None) -> list[str]:
    """Whole numbers that all differ, such as patient numbers; measured counts do so in crowds."""
    if numbers is None or len(numbers) < 20:
        return []
    kept = features.attrs.get(KEPT, ())
    found = [
        name
        for name, column in zip(plan.numbers, numbers.T, strict=True)
        if name not in kept and all_different(column)
    ]
    return [
        f"column {name!r} has another whole number in every row, as patient numbers have; if it "
        f"is one, leave it out with --drop {name!r}."
        for name in (found if len(found) <= 3 else [])
    ]


def _repeated(features: Any, plan: ColumnPlan) -> list[str]:
    """Columns that are called like patients and have a few rows for each."""
    notes = []
    for name in plan.used:
        if identifies_by_name(name) and name not in features.attrs.get(KEPT, ()):
            count, rows = features[name].nunique(), len(features)
            if rows / 20 <= count < rows and count > 2:
                notes.append(
                    f"column {name!r} has {count} different entries in {rows} rows, as if some "
                    f"rows belonged together; if so, say --groups {name!r}, or leave it out with "
                    f"--drop {name!r}."
                )
    return notes[:3]


# -- columns that give the target away ----------------------------------------------------------


def _telling(
    features: Any, plan: ColumnPlan, numbers: Floats | None, y: np.ndarray, target: str
) -> list[str]:
    codes = np.unique(y, return_inverse=True)[1]
    # In random order, so that equal numbers are no evidence for the order of the rows.
    rows = np.random.default_rng(0).permutation(len(codes))[:MOST_ROWS]
    codes = codes[rows]
    found: list[str] = []
    for start in range(0, len(plan.numbers), COLUMNS_AT_ONCE):
        assert numbers is not None
        names = plan.numbers[start : start + COLUMNS_AT_ONCE]
        block = numbers[rows, start : start + COLUMNS_AT_ONCE]
        found += [names[j] for j in np.flatnonzero(gives_away(block, codes, len(plan.used)))]
    for name in plan.categories:
        levels = np.unique(as_text(features[name].iloc[rows]), return_inverse=True)[1]
        if levels.max() >= len(levels) / 10:
            continue  # so few rows of each level say little
        ranked = _by_class(levels, codes)[:, None].astype(np.float64)
        found += [name] if gives_away(ranked, codes, len(plan.used))[0] else []
    if not found:
        return []
    what, them = ("columns", "them") if len(found) > 1 else ("column", "it")
    return [
        f"{what} {listed(found)} alone tell{'s' if len(found) == 1 else ''} the classes of "
        f"{target!r} apart: a copy of the target, or something known only after it, would make "
        f"all figures too good; if so, leave {them} out with --drop."
    ]


def gives_away(columns: Floats, codes: np.ndarray, n_tried: int) -> np.ndarray:
    """Whether the classes follow each other, nearly without mixing, in the order of a column.

    Among n rows in random order n(1 − Σp_k²) neighbors have different classes; a copy of the
    target leaves K − 1. A column is named where no more than a twentieth of the excess is left,
    unless so few rows may fall in such an order by chance in one of the columns that are tried.

    Parameters
    ----------
    columns : (n, m) array
        Rows in random order.
    codes : (n,) array of int
        Classes.
    n_tried : int
        Columns in all.
    """
    n, counts = len(codes), np.bincount(codes)
    counts = counts[counts > 0]
    orders = gammaln(n + 1) - gammaln(counts + 1).sum() - gammaln(len(counts) + 1)
    if orders < np.log(100.0 * max(n_tried, 1)):
        return np.zeros(columns.shape[1], dtype=bool)
    order = np.argsort(columns, axis=0, kind="stable")
    changes = np.count_nonzero(np.diff(codes[order], axis=0), axis=0)
    by_chance = n * (1.0 - np.sum((counts / n) ** 2))
    return changes - (len(counts) - 1) <= 0.05 * by_chance


def _by_class(levels: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Levels renumbered so that those with the same commonest class stand together."""
    table = np.zeros((levels.max() + 1, codes.max() + 1))
    np.add.at(table, (levels, codes), 1.0)
    order = np.argsort(table.argmax(axis=1), kind="stable")
    return np.argsort(order)[levels]


# -- cells that are not what they should be -----------------------------------------------------


def _codes_for_missing(plan: ColumnPlan, numbers: Floats | None) -> list[str]:
    """One sentence about numbers such as −99 and 999 that lie apart from all others of a column."""
    if numbers is None:
        return []
    found = []
    clean = np.where(np.isnan(numbers), np.inf, numbers)
    low, high = clean.min(axis=0), np.where(np.isnan(numbers), -np.inf, numbers).max(axis=0)
    for j in np.flatnonzero(np.isin(low, CODES) | np.isin(high, CODES)):
        for code in (value for value in (low[j], high[j]) if value in CODES):
            others = numbers[~np.isnan(numbers[:, j]) & (numbers[:, j] != code), j]
            gap = np.abs(others - code).min() if len(others) else 0.0
            if len(others) > 2 and gap > np.ptp(others) > 0:
                times = int((numbers[:, j] == code).sum())
                found.append(f"{plan.numbers[j]!r} ({code:g} in {counted(times, 'cell')})")
    if not found:
        return []
    return [
        f"numbers that may stand for missing ones were taken as they are, in "
        f"{first_few(found, 5)}; if they do, empty these cells."
    ]


def words_in(frame: Any, numbers: list[str]) -> list[str]:
    """One sentence about text in columns of numbers, if there is any."""
    import pandas as pd

    found = []
    for name in numbers:
        column = frame[name]
        if column.dtype.kind not in "OTUS":
            continue
        present = column.dropna()
        words = present[pd.to_numeric(present, errors="coerce").isna()]
        if len(words):
            shown = ", ".join(repr(str(word)) for word in words.unique()[:3])
            found.append(f"{name!r} ({len(words)} of {len(column)}: {shown})")
    if not found:
        return []
    return [
        f"text among numbers was taken as missing, in {first_few(found, 5)}; write numbers there, "
        "or leave the cells empty."
    ]


def filled_in(frame: Any, plan: ColumnPlan, empty: np.ndarray) -> list[str]:
    """How many cells had no value, and what they got; `empty` counts those of the numbers."""
    notes = []
    if empty.any():
        named = [f"{plan.numbers[j]!r} {empty[j]}" for j in np.argsort(-empty) if empty[j]]
        notes.append(
            f"{counted(int(empty.sum()), 'cell')} without a number, of {len(frame)} rows, got the "
            f"median of the training rows: {first_few(named, 5)}."
        )
    gaps = {name: int(frame[name].isna().sum()) for name in plan.categories}
    gaps = {name: count for name, count in gaps.items() if count}
    if gaps:
        named = [f"{name!r} {count}" for name, count in gaps.items()]
        notes.append(
            f"{counted(sum(gaps.values()), 'cell')} without a category count as one of their own: "
            f"{first_few(named, 5)}."
        )
    return notes


# -- new rows -----------------------------------------------------------------------------------


def unlike_training(prepare: Any, frame: Any) -> tuple[np.ndarray | None, list[str]]:
    """For each new row, how many entries the training rows have nothing like; and sentences.

    Counted are numbers outside the training range and categories that no training row has.

    Parameters
    ----------
    prepare : ColumnTransformer
        Fitted, as by `fit_table`; for any other the counts are None.
    frame : pandas.DataFrame
        New rows with its columns.
    """
    steps = {name: (step, columns) for name, step, columns in getattr(prepare, "transformers_", [])}
    numbers, counts, categories = (
        tuple(str(name) for name in steps[kind][1]) if kind in steps else ()
        for kind in ("numbers", "sparse", "categories")
    )
    plan = ColumnPlan(numbers, counts, categories, ())
    if not steps or not plan.used or not set(plan.used) <= set(map(str, frame.columns)):
        return None, []
    outside, notes = np.zeros(len(frame), dtype=int), []
    for kind in (kind for kind in ("numbers", "sparse") if kind in steps):
        first = steps[kind][0].steps[0][1]
        if not hasattr(first, "low_"):
            return None, []  # a file of an earlier version
        found = [_out_of_range(first, frame, start) for start in range(0, len(frame), ROWS_AT_ONCE)]
        rows, columns, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        outside += np.bincount(rows, minlength=len(frame))
        notes += _far_out(first, rows, columns, values, len(frame))
    if plan.categories:
        encoder = steps["categories"][0].steps[-1][1]
        new, sentences = _never_seen(encoder, frame, plan.categories)
        outside, notes = outside + new, notes + sentences
    notes += words_in(frame, list(plan.numbers))
    return outside, [*notes, *filled_in(frame, plan, _empty_cells(frame, plan.numbers))]


def _empty_cells(frame: Any, names: tuple[str, ...]) -> np.ndarray:
    """How many cells of each column have no number."""
    if not names:
        return np.zeros(0, dtype=int)
    starts = range(0, len(frame), ROWS_AT_ONCE)
    blocks = (frame[list(names)].iloc[i : i + ROWS_AT_ONCE] for i in starts)
    return sum(np.isnan(NumberColumns().transform(block)).sum(axis=0) for block in blocks)


def _out_of_range(step: Any, frame: Any, start: int) -> tuple[np.ndarray, np.ndarray, Floats]:
    """(row, column, entry) of what lies out of the training range."""
    block = step.transform(frame[list(step.feature_names_in_)].iloc[start : start + ROWS_AT_ONCE])
    if sparse.issparse(block):
        block = block.tocoo()  # zeros are nothing new in a sparse column
        rows, columns, values = block.row, block.col, block.data
        out = (values < step.low_[columns]) | (values > step.high_[columns])
        return rows[out] + start, columns[out], values[out]
    rows, columns = np.nonzero((block < step.low_) | (block > step.high_))
    return rows + start, columns, block[rows, columns]


def _far_out(
    step: Any, rows: np.ndarray, columns: np.ndarray, values: Floats, n_rows: int
) -> list[str]:
    """A sentence where entries lie as far out of the range as it is wide.

    Of many columns a few entries lie out of range by chance, two in n + 1 of each, so that these
    alone are no news.
    """
    low, high = step.low_[columns], step.high_[columns]
    excess = np.maximum(low - values, values - high) / np.maximum(high - low, 1e-300)
    far = excess > 1.0
    if not far.any():
        return []
    shown: dict[str, str] = {}
    for entry in np.flatnonzero(far)[np.argsort(-excess[far], kind="stable")]:
        name = str(step.feature_names_in_[columns[entry]])
        reach = f"training {low[entry]:.6g} to {high[entry]:.6g}"
        shown.setdefault(name, f"{name!r} ({values[entry]:.6g}; {reach})")
    return [
        f"{len(np.unique(rows[far]))} of {n_rows} rows lie far outside the training rows, in "
        f"{first_few(list(shown.values()), 3)}; check the units, and do not believe their "
        "probabilities."
    ]


def _never_seen(encoder: Any, frame: Any, columns: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
    new, shown = np.zeros(len(frame), dtype=int), []
    for name, known in zip(columns, encoder.categories_, strict=True):
        text = np.array(as_text(frame[name]), dtype=object)
        strange = ~np.isin(text, known) & (text != "(missing)")
        if strange.any():
            new += strange
            levels = dict.fromkeys(text[strange])
            shown.append(f"{name!r} ({first_few([repr(level) for level in levels], 3)})")
    if not shown:
        return new, []
    return new, [
        f"{int((new > 0).sum())} of {len(frame)} rows have categories that no training row has, "
        f"in {first_few(shown, 3)}; they count as none of the known ones."
    ]
