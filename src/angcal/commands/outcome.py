"""How a command ends: an exit code that means something and one sentence that says why."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

DONE, FAILED, WRONG_USAGE, PACKAGE_MISSING, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG = "ANGCAL_DEBUG"

Execute = Callable[[Namespace], int]


def tell(message: str) -> None:
    """A note for the person at the terminal, beside what the command prints."""
    print(message, file=sys.stderr)


def guarded(name: str, execute: Execute) -> Execute:
    """The command with every error turned into a sentence; ``ANGCAL_DEBUG=1`` shows where it was.

    Parameters
    ----------
    name : str
        Of the command.
    execute : callable
        Options to exit code.
    """

    def run(options: Namespace) -> int:
        try:
            code = execute(options)
            sys.stdout.flush()  # here, where a reader who has left is no error
            return code
        except BrokenPipeError:
            # Whoever read our output has seen enough; Python must not try to flush the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            return _ended(name, error)

    return run


def _ended(name: str, error: Exception) -> int:
    if isinstance(error, ImportError):
        tell(str(error))
        return PACKAGE_MISSING
    if isinstance(error, MemoryError):
        tell(f"angcal {name}: there is not enough memory for this table; take fewer rows.")
    elif isinstance(error, OSError) and error.filename is not None:
        tell(f"cannot read or write {error.filename}: {error.strerror}; name another file.")
    elif isinstance(error, ValueError):
        tell(_one_line(error))
    else:
        tell(
            f"angcal {name} failed: {type(error).__name__}: {_one_line(error)} "
            f"({DEBUG}=1 shows where.)"
        )
    return FAILED


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def lacks_packages(name: str, *packages: str) -> bool:
    """Whether a package is missing that the command needs; says which, and what to do."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        tell(f"angcal {name} needs {' and '.join(missing)}; run: pip install 'angcal[cli]'")
    return bool(missing)


def why_not_writable(path: Path, suffixes: tuple[str, ...]) -> str | None:
    """Why a file cannot be written, in a sentence: better known before a long fit than after."""
    if path.suffix.lower() not in suffixes:
        return f"--out {path} must end in {' or '.join(suffixes)}."
    if path.is_dir():
        return f"--out {path} is a folder; name a file in it."
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return f"--out {path} cannot be written: {folder} is no folder that is open to you."
    return None


def jobs(text: str) -> int:
    """A number of threads: from 1 up, or -1 for one per core."""
    number = int(text)
    if number < -1 or number == 0:
        raise ArgumentTypeError("a number of threads from 1 up, or -1 for one per core")
    return number
