"""What a fit takes, and models that many methods fit to the same rows: fitted once, paid by each.

Five folds of scikit-learn's are the same rows for every calibrator. A `Remembered` model looks its
rows up before it fits, and charges a method that finds them what the fit took when it was made.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from angcal import AngleWarning, OptimalityWarning, RepeatedRowsWarning

# A solver that did not get there, or an estimate that doubts itself; not what is deprecated.
COUNTED = (AngleWarning, ConvergenceWarning, OptimalityWarning, RepeatedRowsWarning, RuntimeWarning)


@dataclass(frozen=True, eq=False)
class Watched:
    """What a piece of work gave, and what it took."""

    value: Any
    seconds: float
    warnings: int


def watched(work: Callable[[], Any]) -> Watched:
    """Do the work, silently; the filters of warnings are afterwards what they were."""
    # A peer switches all warnings off as it runs; that must not outlive it.
    with warnings.catch_warnings(record=True, action="always") as caught:
        start = time.process_time()
        value = work()
        seconds = time.process_time() - start
    count = sum(issubclass(entry.category, COUNTED) for entry in caught)
    return Watched(value, seconds, count)


@dataclass(eq=False)
class Memory:
    """Fitted models by their rows, and what has been used of them without being paid for.

    Attributes
    ----------
    models : dict
        Key of a model and its rows to the fitted model, its seconds and its warnings.
    seconds : float
        Of fits that were looked up, less what looking up took. A method's own clock has it wrong
        by as much.
    warnings : int
        Of every fit, looked up or not: they are caught here.
    """

    models: dict[tuple[str, bytes], Watched] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Memory:
        # scikit-learn copies the parameters of what it clones; the clones are to share this one.
        return self

    def fitted(self, model: Any, X: Any, y: Any) -> Any:
        """A model fitted to these rows, perhaps at an earlier call."""
        start = time.process_time()
        key = repr(model), digest(X, y)
        known = key in self.models
        self.seconds -= time.process_time() - start
        if not known:
            self.models[key] = watched(lambda: model.fit(X, y))
        found = self.models[key]
        self.seconds += found.seconds if known else 0.0
        self.warnings += found.warnings
        return found.value

    def bill(self) -> tuple[float, int]:
        """(seconds, warnings) since the last call."""
        due = self.seconds, self.warnings
        self.seconds, self.warnings = 0.0, 0
        return due


def digest(X: Any, y: Any) -> bytes:
    """Of rows and labels, equal for equal ones in the same order."""
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    mark = hashlib.blake2b(repr(np.shape(X)).encode())
    for part in (*parts, y):
        mark.update(np.ascontiguousarray(part).data)
    return mark.digest()


class Remembered(ClassifierMixin, BaseEstimator):
    """A classifier whose fits are looked up in a `Memory`.

    Parameters
    ----------
    estimator : classifier
    memory : Memory
    """

    def __init__(self, estimator: Any, memory: Memory) -> None:
        self.estimator = estimator
        self.memory = memory

    def fit(self, X: Any, y: Any) -> Remembered:
        """Fit the classifier, or find it fitted."""
        self.model_ = self.memory.fitted(self.estimator, X, y)
        self.classes_ = self.model_.classes_
        return self

    def decision_function(self, X: Any) -> Any:
        """That of the classifier."""
        return self.model_.decision_function(X)

    def predict_proba(self, X: Any) -> Any:
        """That of the classifier."""
        return self.model_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        """That of the classifier."""
        return self.model_.predict(X)
