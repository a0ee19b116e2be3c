r"""Which rows of a real dataset are for training and which for the test.

For a task with R labeled rows and d columns, and a ratio r of rows to columns,

.. math::
    n = \min(\mathrm{round}(r d), n_{max}, R - \max(200, \lceil R/5 \rceil)),

and all other rows, at most m of them, are for the test. Both parts have the shares of the classes
that the whole has. Scaling is learnt on the n training rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from angcal._typing import Floats, Matrix
from studies.datasets import load

LEAST_TEST, LEAST_TEST_SHARE = 200, 0.2
# Five folds of a quarter less need rows of both classes in each of them.
LEAST_TRAIN, LEAST_CLASS = 40, 10
# A size that the file cuts down must still say something that the size before it did not.
LEAST_GROWTH = 1.25


@dataclass(frozen=True, eq=False)
class Task:
    """Labeled rows, unscaled, what their classes are, and true probabilities if known."""

    X: Matrix
    y: NDArray[np.int64]
    name: str
    truth: Floats | None = None

    @property
    def rarer(self) -> float:
        """Share of the rarer class."""
        positive = float(self.y.mean())
        return min(positive, 1.0 - positive)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, scaled by the former; true probabilities of the latter if known."""

    X_train: Matrix
    y_train: NDArray[np.int64]
    X_test: Matrix
    y_test: NDArray[np.int64]
    truth: Floats | None = None


# Trials go through the sizes of one dataset before they turn to the next.
@lru_cache(maxsize=2)
def load_task(dataset: str) -> Task:
    """The rows of a dataset that have a class; never from the web."""
    loaded = load(dataset, download=False, scaled=False)
    if loaded.y is None or loaded.task is None:
        raise ValueError(f"{dataset} has no labels; it cannot be part of this benchmark.")
    kept = np.flatnonzero(loaded.labeled)
    return Task(loaded.X[kept], loaded.y[kept], loaded.task)


def training_rows(task: Task, ratio: float, limits: Any) -> int:
    """n by the formula of this module, with the ratios and limits of `RealSettings`.

    Raises
    ------
    SizeError
        With the reason, where the task has no training set of that size.
    """
    rows, columns = task.X.shape
    if columns > limits.max_columns and not sparse.issparse(task.X):
        raise SizeError(f"{columns} dense columns are more than {limits.max_columns}")
    largest = min(limits.max_train, rows - max(LEAST_TEST, ceil(LEAST_TEST_SHARE * rows)))
    n = min(round(ratio * columns), largest)
    if n < LEAST_TRAIN:
        raise SizeError(f"fewer than {LEAST_TRAIN} rows for training")
    if int(n * task.rarer) < LEAST_CLASS:
        raise SizeError(f"fewer than {LEAST_CLASS} training rows of the rarer class")
    before = [round(other * columns) for other in limits.ratios if other < ratio]
    if before and n < LEAST_GROWTH * min(max(before), largest):
        raise SizeError("hardly more rows than at the ratio before")
    return n


class SizeError(ValueError):
    """A task has no training set of the size asked for; the message says why."""


def affordable(what: str, size: int, most: int) -> None:
    """Refuse what is too large."""
    if size > most:
        raise SizeError(f"{what} above {most:,}")


def draw_split(task: Task, n: int, max_test: int, rng: np.random.Generator) -> Split:
    """n training rows and up to ``max_test`` others, stratified, in random order."""
    train, test = train_test_split(
        np.arange(len(task.y)),
        train_size=n,
        test_size=min(len(task.y) - n, max_test),
        stratify=task.y,
        random_state=seed_from(rng),
    )
    X_train, X_test = scaled_by_first(task.X[train], task.X[test])
    return Split(X_train, task.y[train], X_test, task.y[test])


def scaled_by_first(train: Matrix, test: Matrix) -> tuple[Any, Any]:
    """Columns of mean 0 and deviation 1 over the training rows; sparse ones are not centered."""
    scaler = StandardScaler(with_mean=not sparse.issparse(train)).fit(train)
    return scaler.transform(train), scaler.transform(test)


def seed_from(rng: np.random.Generator) -> int:
    """A seed for what does not take a Generator."""
    return int(rng.integers(2**31 - 1))
