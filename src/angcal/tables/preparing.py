"""Columns of any kind -> standardized numbers, the same way for every table that comes later.

The steps are scikit-learn's. skrub's TableVectorizer was tried in their place and not taken: it
keeps identifiers, counters and constants as features (14 mixed columns became 108), gives no reason
for what it drops, makes 30 text features of numbers among which a few words stand, and refuses
sparse columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from angcal._typing import Floats
from angcal.tables.columns import ColumnPlan, plan_columns, rare_below
from angcal.tables.errors import TableError, listed, need
from angcal.tables.reading import ABSENT_IS_ZERO

MOST_LEVELS = 100
MISSING = "(missing)"
# A column of which fewer entries are numbers is not the column that the model was fitted on.
LEAST_NUMERIC_SHARE = 0.5


def preparation(features: Any) -> ColumnTransformer:
    """The unfitted transformer for such a table.

    Numbers and truth values: missing ones get the median, then mean 0 and variance 1. Sparse
    numbers: variance 1 only, so that they stay sparse. Categories and text: one column for each
    level, rare levels together. The rest is dropped; `dropped_columns` says what and why.

    Parameters
    ----------
    features : pandas.DataFrame
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
            handle_unknown="ignore", min_frequency=rare_below(n_rows), max_categories=MOST_LEVELS
        ),
    )
    steps = [
        ("numbers", numbers, list(plan.numbers)),
        ("sparse", counts, list(plan.sparse)),
        ("categories", levels, list(plan.categories)),
    ]
    return ColumnTransformer([step for step in steps if step[2]])


def aligned(frame: Any, columns: list[str], what: str) -> Any:
    """The frame's columns in this order; an error that names those it lacks.

    Parameters
    ----------
    frame : pandas.DataFrame
    columns : list of str
    what : str
        The table, as the beginning of a sentence.
    """
    present = set(frame.columns)
    absent = [name for name in columns if name not in present]
    if not absent:
        return frame[columns]
    if not frame.attrs.get(ABSENT_IS_ZERO):
        raise TableError(
            f"{what} lacks {len(absent)} of the {len(columns)} columns that the model was fitted "
            f"on: {listed(absent)}; add them under these names."
        )
    pd = need("pandas", "a table")
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
    """x_ij as float64: truth values are 0 and 1, infinities and words are missing (NaN)."""

    def transform(self, X: Any) -> Floats:
        """All columns as one dense array."""
        plain = all(isinstance(t, np.dtype) and t.kind in "iufb" for t in X.dtypes)
        if plain:
            values = X.to_numpy(dtype=np.float64)
        else:
            values = np.column_stack([as_numbers(X.iloc[:, j]) for j in range(X.shape[1])])
        return np.where(np.isfinite(values), values, np.nan)


class SparseColumns(_Columns):
    """x_ij as a sparse float64 matrix; dense columns are welcome too."""

    def transform(self, X: Any) -> Any:
        """All columns as one CSR matrix."""
        pd = need("pandas", "a table")
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
    pd = need("pandas", "a table")
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
    if len(present) and len(found) < LEAST_NUMERIC_SHARE * len(present):
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
    return [MISSING if gone else _text(entry) for entry, gone in zip(entries, missing, strict=True)]


def _text(entry: Any) -> str:
    if isinstance(entry, float) and entry.is_integer():
        return str(int(entry))
    return str(entry)
