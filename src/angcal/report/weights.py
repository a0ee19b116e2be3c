"""The largest weights, and how they hold out when the rows change.

Weights are those of standardized columns, in percent of the largest. How stable they are is shown
by the fits of the cross-validation, which see four fifths of the rows each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal._typing import Floats

MOST = 15


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of one fit by the names of their columns."""

    names: Any  # (d,) of str
    values: Floats  # (K, d): One row for two classes


@dataclass(frozen=True)
class Weight:
    """One of the largest weights."""

    column: str
    toward: str  # The class that a larger value speaks for
    relative: float  # In percent of the largest weight, with its sign for two classes
    low: float  # Range of the same over the fits of the cross-validation; NaN without one
    high: float
    same_sign: int  # In how many of these fits it has this sign, and is among the largest
    among_largest: int
    fits: int


def weights_of(prepare: Any, classifier: Any) -> Weights:
    """Weights of a fitted classifier by readable names of its prepared columns."""
    return Weights(readable_names(prepare), np.asarray(classifier.coef_, dtype=np.float64))


def readable_names(prepare: Any) -> Any:
    """Names of prepared columns: the column's own, or "column = level"."""
    raw = [str(name).split("__", 1)[1] for name in prepare.get_feature_names_out()]
    steps = {name: columns for name, _, columns in prepare.transformers_}
    plain = sum(len(steps.get(kind, ())) for kind in ("numbers", "sparse"))
    columns = sorted((str(name) for name in steps.get("categories", ())), key=len, reverse=True)
    names = raw[:plain]
    for name in raw[plain:]:
        column = next((one for one in columns if name.startswith(f"{one}_")), None)
        level = name[len(column) + 1 :] if column is not None else ""
        level = "a rare level" if level == "infrequent_sklearn" else level
        names.append(name if column is None else f"{column} = {level}")
    return np.array(names, dtype=str)


def largest_weights(
    all_rows: Weights, folds: Sequence[Weights], classes: Sequence[str]
) -> list[Weight]:
    """The largest weights of the fit on all rows, the largest first, with those of the folds."""
    values = all_rows.values
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return []
    rivals = [fold for fold in folds if fold.values.shape[0] == values.shape[0]]
    tables = [_relative(fold) for fold in rivals]
    tops = [{names for names, _ in sorted(t.items(), key=_size)[:MOST]} for t in tables]
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:MOST]
    found = []
    for place in order:
        k, j = np.unravel_index(place, values.shape)
        key = (int(k), str(all_rows.names[j]))
        value = float(values[k, j] / largest)
        seen = np.array([table.get(key, 0.0) for table in tables])
        found.append(
            Weight(
                column=key[1],
                toward=classes[(1 if value > 0 else 0) if len(values) == 1 else int(k)],
                relative=100.0 * value,
                low=100.0 * float(seen.min()) if len(seen) else float("nan"),
                high=100.0 * float(seen.max()) if len(seen) else float("nan"),
                same_sign=int(np.sum(seen * value > 0)),
                among_largest=sum(key in top for top in tops),
                fits=len(seen),
            )
        )
    return found


def _relative(fold: Weights) -> dict[tuple[int, str], float]:
    """Weights in units of the largest, by class and column."""
    largest = float(np.abs(fold.values).max()) or 1.0
    return {
        (k, str(name)): float(value) / largest
        for k, row in enumerate(fold.values)
        for name, value in zip(fold.names, row, strict=True)
    }


def _size(entry: tuple[tuple[int, str], float]) -> float:
    return -abs(entry[1])
