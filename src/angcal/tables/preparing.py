"""Columns of any kind -> standardised numbers, by scikit-learn's own transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from angcal.tables.columns import ColumnPlan, plan_columns, rare_below
from angcal.tables.errors import TableError, listed, need
from angcal.tables.reading import ABSENT_IS_ZERO
from angcal.tables.transformers import NumberColumns, SparseColumns, TextColumns

MOST_LEVELS = 100


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
