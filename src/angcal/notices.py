"""Warnings of the library, and one way to give them: each points at the user's own line."""

from __future__ import annotations

import sys
import warnings


class AngleWarning(UserWarning):
    """An angle could not be estimated as asked; the message says why and what was done."""


class OptimalityWarning(UserWarning):
    """The base model is not at the optimum of its own objective."""


class RepeatedRowsWarning(UserWarning):
    """Many training rows are copies of each other."""


class PenaltyWarning(UserWarning):
    """The penalty may not suit: it ends those that were given, or columns differ much in unit."""


class PoolWarning(UserWarning):
    """The pool does not look like the training rows."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside angcal and scikit-learn, however deep the call."""
    inner = "angcal sklearn joblib contextlib functools multiprocessing threading concurrent"
    frame, level = sys._getframe(1), 2
    while frame.f_globals.get("__name__", "").split(".")[0] in inner.split():
        if frame.f_back is None:
            break
        frame, level = frame.f_back, level + 1
    # The frame that was found is `level − 2` above the caller of this function.
    warnings.warn(message, category, stacklevel=level)
