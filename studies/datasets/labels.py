"""How the labels of a dataset become a task with two classes: 1, 0, and −1 where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MISSING = -1


@dataclass(frozen=True)
class Threshold:
    """Class 1 where a number is above the median of those that are present.

    Parameters
    ----------
    name : str
        The task in words.
    """

    name: str

    def task(self, labels: NDArray[Any]) -> Ints:
        """0, 1 or −1 for every row."""
        values = np.asarray(labels, dtype=np.float64)
        known = np.isfinite(values)
        above = (values > np.median(values[known])).astype(np.int64)
        return np.where(known, above, MISSING)


@dataclass(frozen=True)
class Groups:
    """Class 1 for some labels, class 0 for others, by their text.

    Parameters
    ----------
    positive : tuple of str
    name : str
        The task in words.
    negative : tuple of str, optional
        All other labels if None. Labels in neither group count as missing.
    """

    positive: tuple[str, ...]
    name: str
    negative: tuple[str, ...] | None = None

    def task(self, labels: NDArray[Any]) -> Ints:
        """0, 1 or −1 for every row."""
        values, where = np.unique(spelled(labels), return_inverse=True)
        unknown = [value for value in self.positive if value not in values]
        if len(unknown) == len(self.positive):
            raise ValueError(
                f"none of the labels {', '.join(self.positive)} of the task '{self.name}' occurs; "
                f"the file has {', '.join(values[:20])}. Is it the file of another dataset?"
            )
        return np.array([self._class(value) for value in values], dtype=np.int64)[where]

    def _class(self, value: str) -> int:
        if value in self.positive:
            return 1
        if value == "" or (self.negative is not None and value not in self.negative):
            return MISSING
        return 0


LabelRule = Threshold | Groups


def spelled(labels: NDArray[Any]) -> NDArray[np.str_]:
    """Labels as text, so that 1, 1.0, '1' and b'1' are one label; missing ones as ''."""
    labels = np.asarray(labels)
    values, where = np.unique(labels.astype(str), return_inverse=True)
    return np.array([_spell(value) for value in values], dtype=np.str_)[where]


def _spell(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return "" if value in ("None", "<NA>") else value
    if np.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else value


def recoded(labels: NDArray[Any], pairs: tuple[tuple[str, int], ...]) -> NDArray[Any]:
    """Labels in the catalogue's numbering, where every label is one of the pairs' first."""
    mapping = dict(pairs)
    text = spelled(labels)
    if not pairs or not set(text) <= set(mapping):
        return labels
    return np.array([mapping[value] for value in text], dtype=np.int64)
