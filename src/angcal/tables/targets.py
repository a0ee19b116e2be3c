"""A table and the name of its target -> features and labels."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np

from angcal.notices import warn
from angcal.tables.errors import TableError, TableWarning, listed

WAY_OUT = "make a column of classes of it first, such as whether it lies above a threshold"


def split_target(frame: Any, target: str) -> tuple[Any, np.ndarray]:
    """Features and labels; rows without a label are left out, with a warning.

    Parameters
    ----------
    frame : pandas.DataFrame
    target : str
        Name of the column with the classes.

    Returns
    -------
    features : pandas.DataFrame
        All other columns.
    y : ndarray
        One class per row: whole numbers, truth values, or text.
    """
    _check_name(frame, target)
    labels = frame[target]
    missing = labels.isna().to_numpy(dtype=bool)
    features = frame.drop(columns=target)
    if missing.all():
        raise TableError(f"the target {target!r} is missing in every row; name another column.")
    if missing.any():
        warn(
            f"{int(missing.sum())} of {len(frame)} rows have no {target!r} and were left out.",
            TableWarning,
        )
        features, labels = features[~missing].reset_index(drop=True), labels[~missing]
    y = _as_labels(labels, target)
    classes = np.unique(y)
    if len(classes) < 2:
        raise TableError(
            f"the target {target!r} is {str(classes[0])!r} in every row; a classifier needs rows "
            "of two classes."
        )
    _check_classes(y, classes, target)
    # scikit-learn takes fractions for a quantity, however few there are.
    return features, np.array([str(label) for label in y]) if y.dtype.kind == "f" else y


def split_groups(features: Any, column: str) -> tuple[Any, np.ndarray]:
    """Features without the column that says which rows belong together, and a number for each row.

    Rows without an entry are groups of their own, with a warning.

    Parameters
    ----------
    features : pandas.DataFrame
    column : str
        Its name.
    """
    _check_name(features, column)
    names = features[column]
    missing = names.isna().to_numpy(dtype=bool)
    groups = np.unique(names[~missing].astype(str), return_inverse=True)[1]
    numbers = np.empty(len(names), dtype=np.intp)
    numbers[~missing] = groups
    numbers[missing] = groups.max(initial=-1) + 1 + np.arange(int(missing.sum()))
    if missing.any():
        warn(
            f"{int(missing.sum())} of {len(names)} rows have no {column!r} and were taken for "
            "groups of their own.",
            TableWarning,
        )
    if len(np.unique(numbers)) < 2:
        raise TableError(
            f"the groups {column!r} are {str(names.iloc[0])!r} in every row, so that nothing is "
            "left without it; name another column."
        )
    return features.drop(columns=column), numbers


def _check_name(frame: Any, target: str) -> None:
    names = list(frame.columns)
    if target in names:
        return
    by_lower = {name.lower().strip(): name for name in names}
    near = get_close_matches(target.lower().strip(), list(by_lower), n=3, cutoff=0.6)
    hint = f"did you mean {listed([by_lower[name] for name in near])}?"
    if not near:
        hint = f"the columns are {listed(names)}."
    raise TableError(f"there is no column called {target!r}; {hint}")


def _as_labels(labels: Any, target: str) -> np.ndarray:
    """Labels without missing ones, in the plainest type that holds them."""
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(labels) or types.is_timedelta64_dtype(labels):
        raise TableError(f"the target {target!r} holds dates; {WAY_OUT}.")
    if isinstance(labels.dtype, pd.CategoricalDtype):
        labels = labels.astype(labels.cat.categories.dtype)
    if types.is_bool_dtype(labels):
        return labels.to_numpy(dtype=bool)
    if types.is_numeric_dtype(labels):
        return _as_numbers(labels, target)
    if types.infer_dtype(labels) == "boolean":
        return labels.to_numpy().astype(bool)
    return np.array([str(label) for label in labels], dtype=str)


def _as_numbers(labels: Any, target: str) -> np.ndarray:
    if np.iscomplexobj(labels.to_numpy()):
        raise TableError(f"the target {target!r} holds complex numbers; {WAY_OUT}.")
    if labels.dtype.kind == "i":  # as they are: beyond 2^53 a float would merge neighbors
        return labels.to_numpy(dtype=np.int64)
    numbers = labels.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise TableError(f"the target {target!r} holds infinite numbers; {WAY_OUT}.")
    whole = bool(np.all(numbers == np.round(numbers)) and np.all(np.abs(numbers) < 2**53))
    return numbers.astype(np.int64) if whole else numbers


def _check_classes(y: np.ndarray, classes: np.ndarray, target: str) -> None:
    """Refuse what has so many different values that it is a quantity, or names."""
    count = len(classes)
    if y.dtype.kind == "f" and count > 10:
        raise TableError(
            f"the target {target!r} holds {count} different numbers, from {classes[0]:g} to "
            f"{classes[-1]:g}: it looks like a quantity, not classes; {WAY_OUT}."
        )
    if y.dtype.kind == "i" and count > 100:
        raise TableError(
            f"the target {target!r} holds {count} different whole numbers: it looks like a "
            f"quantity, not classes; {WAY_OUT}."
        )
    if y.dtype.kind == "U" and len(y) >= 10 and count > 0.5 * len(y):
        raise TableError(
            f"the target {target!r} holds {count} different texts in {len(y)} rows: it looks like "
            "names, not classes; name the column of classes."
        )
