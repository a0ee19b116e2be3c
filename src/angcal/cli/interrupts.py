"""Ctrl-C at any moment ends a command with one sentence: no traceback, and no half-written file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_asked = False


def asked() -> bool:
    """Whether Ctrl-C came: an error that follows may be what a library made of it."""
    return _asked


def end_if_asked(*_: Any) -> None:
    """Raise the interrupt again that a library has swallowed."""
    if _asked:
        raise KeyboardInterrupt


@contextmanager
def interruptible(*, whole_process: bool) -> Iterator[None]:
    """Remember that Ctrl-C came, whatever becomes of the exception that it raises.

    Inside an import or a callback of a library it can come out as any other error, or as none. For
    the whole process, after which nothing follows, a second Ctrl-C ends it at once, and one that
    comes after the work is ignored.
    """
    global _asked
    _asked = False
    if not whole_process or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    sys.unraisablehook = _swallowed
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(number: int, frame: Any) -> None:
    global _asked
    if _asked:
        _end()
    _asked = True
    raise KeyboardInterrupt


def _swallowed(unraisable: Any) -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(unraisable)


def _end() -> None:
    os.write(2, b"\ninterrupted; no file was left half-written\n")
    os._exit(130)
