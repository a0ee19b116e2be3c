"""What can be wrong with a table, each as one sentence for the person who has the file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

MOST_NAMES = 5


class TableError(ValueError):
    """A table cannot be used; the message says which, why, and what to do."""


class TableWarning(UserWarning):
    """A table can be used, but not all of it."""


class MissingPackageError(ImportError):
    """An optional package is missing; the message says how to get it."""


def need(package: str, purpose: str) -> Any:
    """The module, or a sentence that says how to get it.

    Parameters
    ----------
    package : str
    purpose : str
        What needs it, as the beginning of a sentence.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"{purpose} needs {package.split('.')[0]}; run: pip install 'angcal[cli]'"
        ) from error


def listed(names: Sequence[Any]) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> listed(["age", "sex"])
    "'age', 'sex'"
    >>> listed(list("abcdefg"))
    "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
