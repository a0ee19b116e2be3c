"""A table and the name of its target -> features and labels."""

from __future__ import annotations

import re
import unicodedata
from difflib import get_close_matches
from typing import Any

import numpy as np

from angcal.notices import warn
from angcal.tables.errors import (
    TableError,
    TableWarning,
    counted,
    first_few,
    listed,
    require_column,
)
from angcal.tables.text import CLASSES, DROPPED

# With fewer rows the probabilities of a class are little more than a guess.
FEW_ROWS = 5
NO_ANSWERS = {"unknown", "unbekannt", "unclear", "missing", "na", "nd", "tbd", "other", "undefined",
              "indeterminate", "notavailable", "notapplicable", "noanswer"}  # fmt: skip
WAY_OUT = "make a column of classes of it first, such as whether it lies above a threshold"


def split_target(frame: Any, target: str, *, positive: str | None = None) -> tuple[Any, np.ndarray]:
    """Features and labels; rows without a label are left out, with a warning.

    Parameters
    ----------
    frame : pandas.DataFrame
    target : str
        Name of the column with the classes.
    positive : str, optional
        A class; of three and more, the others become one, "not" that class.

    Returns
    -------
    features : pandas.DataFrame
        All other columns.
    y : ndarray
        One class per row: whole numbers, truth values, or text.
    """
    require_column(list(frame.columns), target)
    labels = frame[target]
    missing = labels.isna().to_numpy(dtype=bool) | _is_blank(labels)
    features = frame.drop(columns=target)
    if missing.all():
        raise TableError(f"the target {target!r} is missing in every row; name another column.")
    if missing.any():
        words = frame.attrs.get(DROPPED, {}).get(target, {})
        said = first_few([f"{word!r} in {times}" for word, times in words.items()], 5)
        shown = f" ({said})" if said else ""
        warn(
            f"{int(missing.sum())} of {len(frame)} rows have no {target!r}{shown} and were left "
            "out.",
            TableWarning,
        )
        features, labels = features[~missing].reset_index(drop=True), labels[~missing]
    y = _as_labels(labels, target)
    if positive is not None:
        y = _one_against_others(y, positive, target)
    classes = np.unique(y)
    if len(classes) < 2:
        raise TableError(
            f"the target {target!r} is {str(classes[0])!r} in every row; a classifier needs rows "
            "of two classes."
        )
    _check_classes(y, classes, target)
    # scikit-learn takes fractions for a quantity, however few there are.
    return features, np.array([str(label) for label in y]) if y.dtype.kind == "f" else y


def _is_blank(labels: Any) -> np.ndarray:
    return np.array([isinstance(label, str) and not label.strip() for label in labels], dtype=bool)


def _one_against_others(y: np.ndarray, positive: str, target: str) -> np.ndarray:
    """The labels as they are where there are two classes, else the class and all others as one."""
    classes = [str(label) for label in np.unique(y)]
    if positive not in classes:
        near = get_close_matches(positive, classes, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the classes are {listed(classes)}."
        raise TableError(f"the target {target!r} has no class called {positive!r}; {hint}")
    if len(classes) < 3:
        return y
    return np.array([name if name == positive else f"not {positive}" for name in map(str, y)])


def split_groups(features: Any, column: str) -> tuple[Any, np.ndarray]:
    """Features without the column that says which rows belong together, and a number for each row.

    Rows without an entry are groups of their own, with a warning.

    Parameters
    ----------
    features : pandas.DataFrame
    column : str
        Its name.
    """
    require_column(list(features.columns), column)
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
    return _without_blanks([str(label) for label in labels], target)


def _without_blanks(names: list[str], target: str) -> np.ndarray:
    """Names without blanks around them: nobody means another class by one."""
    tidy = [" ".join(name.split()) for name in names]
    if len(set(tidy)) < len(set(names)):
        changed = sorted({name for name, same in zip(names, tidy, strict=True) if name != same})
        warn(
            f"blanks around classes of {target!r} were taken away: {listed(changed)} and the same "
            "name without them are one class.",
            TableWarning,
        )
    return np.array(tidy, dtype=str)


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


# -- classes that may be mistakes --------------------------------------------------------------


def note_classes(y: np.ndarray, target: str) -> None:
    """Warn about classes that may be one, that stand for no answer, or that hardly any row has."""
    classes, counts = np.unique(y, return_counts=True)
    numbers = dict(zip(map(str, classes), counts.tolist(), strict=True))
    rows = {name: counted(count, "row") for name, count in numbers.items()}
    if y.dtype.kind == "U":
        for name, other in _alike(numbers):
            warn(
                f"the classes {name!r} ({rows[name]}) and {other!r} ({rows[other]}) "
                f"of {target!r} look like one; if they are, write them alike in the table.",
                TableWarning,
            )
        for name in (name for name in rows if name in CLASSES):
            warn(
                f"the word {name!r} ({rows[name]}) was taken for a class of {target!r}; if "
                "it stands for a missing answer, empty these cells, and the rows are left out.",
                TableWarning,
            )
        silent = {name for name in rows if len(rows) < 3 or name in CLASSES}
        for name in (name for name in rows if _key(name) in NO_ANSWERS and name not in silent):
            warn(
                f"the class {name!r} of {target!r} ({rows[name]}) sounds like a missing "
                "answer; empty these cells, and the rows are left out.",
                TableWarning,
            )
    rare = [f"{name!r} ({rows[name]})" for name, count in numbers.items() if count < FEW_ROWS]
    if rare:
        warn(
            f"classes with hardly any rows: {first_few(rare, 5)}; collect more, join a class with "
            f"another, or empty its cells in {target!r}, and the rows are left out.",
            TableWarning,
        )


def _key(name: str) -> str:
    """The name without case, accents and marks between its letters; signs such as < count."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    letters = (letter for letter in plain if not unicodedata.combining(letter))
    return re.sub(r"[\s_.,/]|(?<=\w)-(?=\w)", "", "".join(letters))


def _alike(rows: dict[str, int]) -> list[tuple[str, str]]:
    """Pairs of class names that differ in case, marks or blanks, or, where one is rare, a letter.

    >>> _alike({"Tumour": 1, "tumour": 20, "normal": 20})
    [('Tumour', 'tumour')]
    """
    keys: dict[str, str] = {}
    pairs = []
    for name in rows:
        key = _key(name)
        if key in keys:
            pairs.append((keys[key], name))
        keys.setdefault(key, name)
    for key, name in keys.items():
        if rows[name] < FEW_ROWS and key.isalpha():
            near = get_close_matches(key, [other for other in keys if other != key], 1, 0.9)
            pairs += [(name, keys[other]) for other in near if rows[keys[other]] >= FEW_ROWS]
    return pairs
