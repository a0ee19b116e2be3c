"""What can be wrong with a table, and how names from the data are shown in a sentence."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


class TableError(ValueError):
    """A table cannot be used; the message says which, why, and what to do."""


class TableWarning(UserWarning):
    """A table can be used, but not all of it."""


class MissingPackageError(ImportError):
    """An optional package is missing; the message says how to get it."""


def need(package: str, purpose: str, install: str = "'angcal[cli]'") -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"{purpose} needs {package.split('.')[0]}; run: pip install {install}"
        ) from error


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise where two columns of a file have the same name."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise TableError(
            f"{path} has more than one column called {listed(repeated)}; give each its own name."
        )


def require_column(names: Sequence[Any], wanted: str) -> None:
    """Raise where a table has no such column, and name those that are called alike."""
    if wanted in names:
        return
    from difflib import get_close_matches

    by_lower = {str(name).lower().strip(): name for name in names}
    near = get_close_matches(wanted.lower().strip(), list(by_lower), n=3, cutoff=0.6)
    hint = f"did you mean {listed([by_lower[name] for name in near])}?"
    if not near:
        hint = f"the columns are {listed(names)}."
    raise TableError(f"there is no column called {wanted!r}; {hint}")


def listed(names: Sequence[Any]) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> listed(["age", "sex"])
    "'age', 'sex'"
    >>> listed(list("abcdefg"))
    "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    return first_few([repr(str(name)) for name in names], 5)


def first_few(texts: Sequence[str], most: int) -> str:
    """The first few texts with commas between them, and how many more there are."""
    shown, more = ", ".join(texts[:most]), len(texts) - most
    return f"{shown} and {more} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    """So many of them: "1 row", "2 rows"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def clean(value: Any) -> str:
    r"""Text with U+FFFD for each character that neither XML nor a terminal should be given.

    These are control characters except tab and line feed, halves of surrogate pairs,
    noncharacters and changes of the direction of writing.

    Examples
    --------
    >>> clean("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_unfit(x) else x for x in str(value))


def _is_unfit(letter: str) -> bool:
    if letter in "\t\n":
        return False
    # What turns the direction of writing can make a name look like another.
    turning = "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069"
    control = unicodedata.category(letter) in ("Cc", "Cs")
    return control or turning or ord(letter) & 0xFFFE == 0xFFFE


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
