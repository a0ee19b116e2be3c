"""Columns in such different units that one penalty cannot suit them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import chi2

from angcal._typing import Floats
from angcal.estimators.training import Training
from angcal.notices import PenaltyWarning, warn
from angcal.penalty_path.rarity import column_deviations

FAR_ABOVE = 1e6
"""Times the median deviation. Beside one column of this size a path lost nothing; at 3e6 it lost
0.06 nats, as double precision has no room for the squares of both."""
FAR_BELOW = 1e-3
"""Times the median deviation. A column that held a sixth of the signal was left out (0.08 nats)."""
SOME_ROWS = 48
"""Rows that mostly show that no column hardly varies."""
CHANCE = 1e-4
"""That a column which says nothing about the classes is named. With these three numbers, of 30
public data sets as they come only one is spoken of: its two columns of patient numbers."""


def warn_about_units(estimator: Any, X: Any, training: Training, strength: float) -> None:
    """Name columns that a penalty all but leaves out, or beside which it cannot tell the others.

    A column that hardly varies is named only where it tells the classes apart: nothing is lost with
    others, and embeddings have such.

    Parameters
    ----------
    estimator : object
        Knows the names of columns, if anybody does.
    X : array or sparse matrix
        As the linear model sees it; others are not looked at.
    training : Training
    strength : float
        Of the ridge penalty, per unit of weight; 0 where there is none.
    """
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)) or not strength > 0.0:
        return
    if _are_alike(X, training.weights, strength):
        return
    deviations = column_deviations(X, training.weights)
    moving = deviations > 0.0
    if not moving.any():
        return
    with np.errstate(over="ignore"):
        shares = deviations / np.median(deviations[moving])
    large = np.flatnonzero(shares > FAR_ABOVE)
    # A logistic loss has a curvature of at most ¼.
    left_out = 0.5 * deviations < np.sqrt(strength)
    small = np.flatnonzero(moving & (shares < FAR_BELOW) & left_out)
    small = small[_tell_classes_apart(X, deviations, small, training.codes)]
    names = getattr(estimator, "feature_names_in_", None)
    names = names if X is training.X else None
    parts = []
    if len(large):
        parts.append(
            f"{_named(large, names)} varies over {FAR_ABOVE:.0e} times as much as most columns, "
            "and beside it these may be lost in rounding"
        )
    if len(small):
        parts.append(
            f"{_named(small, names)} tells the classes apart, but varies less than "
            f"{FAR_BELOW:.0e} times as much as most columns, so that its penalty all but leaves "
            "it out"
        )
    if parts:
        warn(
            f"Columns of X have too different units for one penalty: {'; '.join(parts)}. Put a "
            "StandardScaler in front: make_pipeline(StandardScaler(), ...), or leave out columns "
            "that are only numbers of rows.",
            PenaltyWarning,
        )


def _are_alike(X: Any, weights: Floats, strength: float) -> bool:
    """Whether bounds already show that no column is to be named, in a third of the time.

    Some rows bound every deviation from below, Σ_i ω_i(x_ij − x̄_j)² over them, and the sum of all
    squares bounds the largest deviation from above, and the median one.
    """
    flags = getattr(X, "flags", None)
    if flags is None or not (flags.c_contiguous or flags.f_contiguous) or len(X) < 2 * SOME_ROWS:
        return False
    some = slice(None, None, len(X) // SOME_ROWS)
    part, d = float(weights[some].sum() / weights.sum()), X.shape[1]
    least = column_deviations(X[some], weights[some]) * np.sqrt(part)
    with np.errstate(over="ignore", invalid="ignore"):
        entries = X.ravel(order="K")
        # Rounding of single precision is far below this hundredth.
        squares = 1.01 * float(entries @ entries) * float(weights.max() / weights.sum())
    if not squares < np.inf:
        return False
    none_large = np.sqrt(squares) <= FAR_ABOVE * np.median(least)
    # Half of the columns vary as much as the median one.
    none_small = least >= min(FAR_BELOW * np.sqrt(2.0 * squares / d), 2.0 * np.sqrt(strength))
    return bool(none_large and least.min() > 0.0 and np.all(none_small))


def _tell_classes_apart(
    X: Any, deviations: Floats, columns: np.ndarray, codes: Floats
) -> np.ndarray:
    """Whether each of some columns differs between the classes by more than chance.

    n·R² of the classes' means is χ² with K − 1 degrees of freedom where they do not differ.
    """
    if not len(columns):
        return np.zeros(0, dtype=bool)
    part = X[:, columns]
    part = part.toarray() if sparse.issparse(part) else np.asarray(part, dtype=np.float64)
    part = (part - part.mean(axis=0)) / deviations[columns]
    classes = codes.astype(np.intp)
    counts = np.bincount(classes)
    means = np.array([part[classes == k].mean(axis=0) for k in range(len(counts))])
    return counts @ means**2 > chi2.isf(CHANCE / len(columns), len(counts) - 1)


def _named(columns: np.ndarray, names: Any) -> str:
    """The first few by name, or by number where there are none."""
    shown = [f"column {j if names is None else repr(str(names[j]))}" for j in columns[:3]]
    more = len(columns) - len(shown)
    return "each of " * (len(columns) > 1) + ", ".join(shown) + f" and {more} more" * (more > 0)
