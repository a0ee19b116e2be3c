"""What a piece of work takes: seconds of this process, and warnings that mean something."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from angcal.calibration import AngleWarning
from angcal.estimators import OptimalityWarning, RepeatedRowsWarning

# A solver that did not get there, or an estimate that doubts itself; not what is deprecated.
COUNTED = (
    AngleWarning,
    ConvergenceWarning,
    OptimalityWarning,
    RepeatedRowsWarning,
    RuntimeWarning,
)


@dataclass(frozen=True, eq=False)
class Watched:
    """What a piece of work gave, and what it took."""

    value: Any
    seconds: float
    warnings: int


def watched(work: Callable[[], Any]) -> Watched:
    """Do the work, silently; the filters of warnings are afterwards what they were."""
    # A peer switches all warnings off as it runs; that must not outlive it.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        value = work()
        seconds = time.process_time() - start
    count = sum(issubclass(entry.category, COUNTED) for entry in caught)
    return Watched(value, seconds, count)
