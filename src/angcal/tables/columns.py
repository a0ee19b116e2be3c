"""Columns of any kind -> standardized numbers, the same way for every table that comes later.

First it is decided what each column is: numbers, sparse numbers, categories, or nothing that a
model can use. Then scikit-learn's steps prepare it. skrub's TableVectorizer was tried in their
place and not taken: it keeps identifiers, counters and constants as features (14 mixed columns
became 108), gives no reason for what it drops, makes 30 text features of numbers among which a few
words stand, and refuses sparse columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from angcal._typing import Floats
from angcal.tables.errors import TableError, listed, require_column
from angcal.tables.reading import ABSENT_IS_ZERO

# What the user said about columns travels with the frame, so that every plan of it knows.
LEFT_OUT, KEPT = "angcal_left_out", "angcal_kept"
IDENTIFIER = "it numbers the rows, so it is an identifier; --keep makes a feature of it"
DATES = "it holds dates; make numbers of them first, such as days since an event"
# Names of numbers that identify rows: by the last word, or by what is numbered.
NUMBERED = {"id", "ids", "nr", "mrn", "pid", "uid", "index", "row", "rowid", "unnamed"}
ENTITIES = {"patient", "pat", "subject", "case", "sample", "person", "participant", "record",
            "customer", "client", "proband", "animal", "donor"}  # fmt: skip


@dataclass(frozen=True)
class ColumnPlan:
    """Columns by what is done with them, in the order of the table."""

    numbers: tuple[str, ...]
    sparse: tuple[str, ...]
    categories: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]

    @property
    def used(self) -> list[str]:
        """All columns that a model sees."""
        return [*self.numbers, *self.sparse, *self.categories]


def dropped_columns(features: Any) -> list[tuple[str, str]]:
    """(name, reason) of every column that is left out."""
    return list(plan_columns(features).dropped)


def choose_columns(
    features: Any, *, drop: Sequence[str] = (), keep: Sequence[str] = (), identifier: str = ""
) -> Any:
    """The table without the columns to leave out, and with a note of those to use in any case."""
    names = [str(name) for name in features.columns]
    dropped, kept = (_names(given, names) for given in (drop, keep))
    for name in [*dropped, *kept, *([identifier] if identifier else [])]:
        require_column(names, name)
    both = [name for name in kept if name in {*dropped, identifier}]
    if both:
        raise TableError(f"{listed(both)} cannot be both kept and left out; name it once.")
    reasons = dict.fromkeys(dropped, "left out as asked (--drop)")
    reasons |= {identifier: "it identifies the rows (--id)"} if identifier else {}
    chosen = features.drop(columns=list(reasons))
    chosen.attrs[LEFT_OUT] = tuple(reasons.items())
    chosen.attrs[KEPT] = tuple(kept)
    for name, reason in plan_columns(chosen).dropped if kept else ():
        if name in kept:
            raise TableError(f"column {name!r} cannot be kept: {reason}.")
    return chosen


def _names(given: Sequence[str], columns: list[str]) -> list[str]:
    """Names as they were given; one with commas that is no column is taken apart."""
    parts = ([entry] if entry in columns else entry.split(",") for entry in given)
    return [name if name in columns else name.strip() for some in parts for name in some]


def rare_below(n_rows: int) -> int:
    """Levels with fewer rows are put together: a weight for each would be mostly noise."""
    return 2 if n_rows < 100 else 5


def plan_columns(features: Any) -> ColumnPlan:
    """Decide for every column; an error where none is left."""
    import pandas as pd

    dtypes = list(features.dtypes)
    spare = [j for j, dtype in enumerate(dtypes) if isinstance(dtype, pd.SparseDtype)]
    plain = [j for j, dtype in enumerate(dtypes) if _is_plain(dtype)]
    reasons = _useless_numbers(features.iloc[:, plain], plain)
    reasons |= _useless_sparse(features.iloc[:, spare], spare)
    kinds: dict[int, str] = dict.fromkeys(plain, "numbers") | dict.fromkeys(spare, "sparse")
    for j in set(range(len(dtypes))) - kinds.keys():
        kinds[j], reason = _judge(features.iloc[:, j], len(features))
        if reason:
            reasons[j] = reason
    names = [str(name) for name in features.columns]
    wanted = features.attrs.get(KEPT, ())
    reasons = {j: why for j, why in reasons.items() if why != IDENTIFIER or names[j] not in wanted}

    def kept(kind: str) -> tuple[str, ...]:
        return tuple(names[j] for j in range(len(names)) if kinds[j] == kind and j not in reasons)

    plan = ColumnPlan(
        numbers=kept("numbers"),
        sparse=kept("sparse"),
        categories=kept("categories"),
        dropped=(
            *features.attrs.get(LEFT_OUT, ()),
            *((names[j], reasons[j]) for j in sorted(reasons)),
        ),
    )
    if not plan.used:
        raise TableError(_nothing_left(plan))
    return plan


def _is_plain(dtype: Any) -> bool:
    """Whether a column holds numbers or truth values as NumPy has them."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iufb"


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
    if len(values) < 10:  # of so few rows 1, 2, 3, … may be a coincidence
        return reasons
    for j, name in enumerate(frame.columns):
        if places[j] not in reasons and _counts_rows(values[:, j], str(name)):
            reasons[places[j]] = IDENTIFIER
    return reasons


def _counts_rows(column: np.ndarray, name: str) -> bool:
    """Whether a column is 1, 2, 3, …, or whole numbers that differ and are called an identifier."""
    if column[1] - column[0] == 1 and np.all(np.diff(column) == 1):
        return True
    return identifies_by_name(name) and all_different(column)


def all_different(column: np.ndarray) -> bool:
    """Whether a column has another whole number in every row."""
    whole = np.isfinite(column).all() and np.all(column == np.round(column))
    return bool(whole and len(np.unique(column)) == len(column))


def identifies_by_name(name: str) -> bool:
    """Whether a column is called like a number of rows or of patients.

    Examples
    --------
    >>> [identifies_by_name(name) for name in ("PatNr", "patient_no", "ID", "age", "n_cases")]
    [True, True, True, False, False]
    """
    words = re.findall(r"[A-Z]?[a-zß-ÿ]+|[A-Z]+(?![a-z])|\d+", name)
    plain = [word.lower() for word in words]
    if not plain:
        return not name.strip()
    numbered = plain[-1] in NUMBERED or plain[0] == "unnamed"
    counted = plain[-1] in ("no", "num", "nbr", "number", "code", "key")
    return numbered or (plain[0] in ENTITIES and (counted or len(plain) == 1))


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
    import pandas as pd

    present = column.dropna()
    if not len(present):
        return "dropped", "every entry is missing"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "categories", _against_categories(_counted(present), n_rows)
    if np.iscomplexobj(present.to_numpy()):
        return "dropped", "its entries are complex numbers"
    kind = pd.api.types.infer_dtype(present)
    if kind.startswith(("date", "time", "period")):
        return "dropped", DATES
    if kind in ("boolean", "integer", "floating", "decimal", "mixed-integer-float"):
        return "numbers", _against_numbers(pd.to_numeric(present.astype(np.float64)))
    if kind != "string" and not all(isinstance(entry, str | int | float) for entry in present):
        return "dropped", "its entries are neither numbers nor text"
    return _judge_text(_counted(present), n_rows)


def _counted(present: Any) -> Any:
    """How often each entry occurs, as text, the most frequent first."""
    counts = present.map(str).value_counts()
    return counts[counts > 0]


def _judge_text(counts: Any, n_rows: int) -> tuple[str, str]:
    """(kind, reason against it or "") from how often each text occurs: few differ in a long one."""
    import pandas as pd

    entries = pd.Series(list(counts.index), dtype=object)
    rows, total = counts.to_numpy(), int(counts.sum())

    def share(which: Any) -> float:
        return float(rows[which.to_numpy(dtype=bool)].sum() / total)

    numbers = pd.to_numeric(entries, errors="coerce")
    # Text that is numbers but for a few words, such as "unknown", is numbers; words are missing.
    if share(numbers.notna()) >= 0.8:
        return "numbers", _against_numbers(numbers)
    year_first, year_last = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}", r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    if share(entries.str.match(rf"^\s*({year_first}|{year_last})([T ].*)?$")) >= 0.9:
        return "dropped", DATES
    against = _against_categories(counts, n_rows)
    if against and share(numbers.notna()) >= 0.3:
        against = (
            f"only {int(rows[numbers.notna()].sum())} of its {total} entries are numbers, others "
            f"text such as {entries[numbers.isna()].iloc[0]!r}; make numbers of them, or empty "
            "these cells"
        )
    elif against and share(entries.str.fullmatch(r"\s*[-+]?\d{1,3}(?:[.,' ]\d{3})+\s*")) >= 0.8:
        against = (
            f"its entries, such as {entries.iloc[0]!r}, may be thousands or fractions; write them "
            "without marks between thousands"
        )
    return "categories", against


def _against_numbers(numbers: Any) -> str:
    values = numbers.to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return "every entry is missing"
    return _constant(float(values[0])) if values.min() == values.max() else ""


def _against_categories(counts: Any, n_rows: int) -> str:
    """Missing entries are a level of their own, so one level and missing ones are two."""
    total = int(counts.sum())
    if len(counts) == 1 and total == n_rows:
        return _constant(counts.index[0])
    if len(counts) == total and len(counts) > 1:
        return "it has as many different values as rows, so it is an identifier or free text"
    if counts.iloc[0] < rare_below(n_rows) and total == n_rows:
        return f"no value occurs {rare_below(n_rows)} times, so it is free text"
    return ""


# -- preparation ------------------------------------------------------------------------------


def preparation(features: Any) -> ColumnTransformer:
    """The unfitted transformer for such a table.

    Numbers and truth values: missing ones get the median, then mean 0 and variance 1. Sparse
    numbers: variance 1 only, so that they stay sparse. Categories and text: one column for each
    level, rare levels together. The rest is dropped; `dropped_columns` says what and why.
    """
    return preparation_of(plan_columns(features), len(features))


def preparation_of(plan: ColumnPlan, n_rows: int) -> ColumnTransformer:
    """As `preparation`, for columns that are judged already."""
    numbers = make_pipeline(
        NumberColumns(),
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
    )
    counts = make_pipeline(SparseColumns(), StandardScaler(with_mean=False))
    levels = make_pipeline(
        TextColumns(),
        OneHotEncoder(
            handle_unknown="ignore", min_frequency=rare_below(n_rows), max_categories=100
        ),
    )
    steps = [
        ("numbers", numbers, list(plan.numbers)),
        ("sparse", counts, list(plan.sparse)),
        ("categories", levels, list(plan.categories)),
    ]
    return ColumnTransformer([step for step in steps if step[2]])


def aligned(frame: Any, columns: list[str], what: str) -> Any:
    """The frame's columns in this order; an error that names those it lacks."""
    present = set(frame.columns)
    absent = [name for name in columns if name not in present]
    if not absent:
        return frame[columns]
    if not frame.attrs.get(ABSENT_IS_ZERO):
        raise TableError(
            f"{what} lacks {len(absent)} of the {len(columns)} columns that the model was fitted "
            f"on: {listed(absent)}; add them under these names."
        )
    import pandas as pd

    zeros = sparse.csr_matrix((len(frame), len(absent)), dtype=np.float64)
    added = pd.DataFrame.sparse.from_spmatrix(zeros, index=frame.index, columns=absent)
    return pd.concat([frame, added], axis=1)[columns]


# -- transformers -----------------------------------------------------------------------------


class _Columns(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What the three have in common: they learn nothing but the names."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Remember the names of the columns."""
        # Not objects: a model file would describe each of many thousands by itself.
        self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=str)
        self.n_features_in_ = len(self.feature_names_in_)
        return self


class NumberColumns(_Columns):
    """x_ij as float64: truth values are 0 and 1, infinities and words are missing (NaN).

    ``low_`` and ``high_`` are the least and the greatest number of each column in `fit`. New
    numbers end at 1e100 times the larger of them: scaled, a cell of 1e308 would be infinite.
    """

    def fit(self, X: Any, y: Any = None) -> Any:
        """Remember the names and the ranges of the columns."""
        values = super().fit(X).transform(X)
        empty = np.isnan(values)
        self.low_ = np.where(empty, np.inf, values).min(axis=0)
        self.high_ = np.where(empty, -np.inf, values).max(axis=0)
        return self

    def transform(self, X: Any) -> Floats:
        """All columns as one dense array."""
        if all(_is_plain(dtype) for dtype in X.dtypes):
            values = X.to_numpy(dtype=np.float64)
        else:
            values = np.column_stack([as_numbers(X.iloc[:, j]) for j in range(X.shape[1])])
        values = np.where(np.isfinite(values), values, np.nan)
        if not hasattr(self, "high_"):
            return values
        with np.errstate(over="ignore"):
            reach = 1e100 * np.maximum(np.maximum(np.abs(self.low_), np.abs(self.high_)), 1.0)
        return np.clip(values, -reach, reach)


class SparseColumns(_Columns):
    """x_ij as a sparse float64 matrix; dense columns are taken as well.

    ``low_`` and ``high_`` are the least and the greatest number of each column in `fit`.
    """

    def fit(self, X: Any, y: Any = None) -> Any:
        """Remember the names and the ranges of the columns."""
        values = super().fit(X).transform(X).tocsc()
        self.low_ = values.min(axis=0).toarray().ravel()
        self.high_ = values.max(axis=0).toarray().ravel()
        return self

    def transform(self, X: Any) -> Any:
        """All columns as one CSR matrix."""
        import pandas as pd

        if all(isinstance(dtype, pd.SparseDtype) for dtype in X.dtypes):
            return sparse.csr_matrix(X.sparse.to_coo().astype(np.float64))
        columns = [as_numbers(X.iloc[:, j]) for j in range(X.shape[1])]
        return sparse.csr_matrix(np.nan_to_num(np.column_stack(columns), posinf=0.0, neginf=0.0))


class TextColumns(_Columns):
    """x_ij as text; what is missing is a level of its own."""

    def transform(self, X: Any) -> np.ndarray:
        """All columns as one array of text."""
        values = np.empty(X.shape, dtype=object)
        for j in range(X.shape[1]):
            values[:, j] = as_text(X.iloc[:, j])
        return values


def as_numbers(column: Any) -> Floats:
    """Entries as float64, NaN where they are missing or words; an error where most are words."""
    import pandas as pd

    if isinstance(column.dtype, pd.SparseDtype):
        return column.sparse.to_dense().to_numpy(dtype=np.float64)
    types = pd.api.types
    if types.is_numeric_dtype(column) and not types.is_complex_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    present = column.dropna()
    if types.infer_dtype(present) == "boolean":
        return column.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan)
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
        found = present.iloc[:0]
    else:
        found = pd.to_numeric(present.astype(object).map(_plain), errors="coerce").dropna()
    # Fewer numbers than this, and it is not the column that the model was fitted on.
    if len(present) and len(found) < 0.5 * len(present):
        raise TableError(
            f"column {str(column.name)!r} held numbers when the model was fitted, but here it has "
            f"{str(present.iloc[0])!r}; check the order and the format of the columns."
        )
    values = np.full(len(column), np.nan)
    values[column.index.get_indexer(found.index)] = found.to_numpy(dtype=np.float64)
    return values


def _plain(entry: Any) -> Any:
    """What pandas can try to read as a number: text, or a number itself."""
    return float(entry) if isinstance(entry, bool | int | float) else str(entry)


def as_text(column: Any) -> list[str]:
    """Entries as text; 1.0 reads "1", as whole numbers become fractions where some are missing."""
    missing = column.isna().to_numpy(dtype=bool)
    entries = column.astype(object).to_numpy()
    pairs = zip(entries, missing, strict=True)
    return ["(missing)" if gone else _text(entry) for entry, gone in pairs]


def _text(entry: Any) -> str:
    return str(int(entry) if isinstance(entry, float) and entry.is_integer() else entry)
