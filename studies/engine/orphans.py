"""Worker processes that end with the process that started them, however that one ends."""

from __future__ import annotations

import os
import threading
import time
from functools import lru_cache

EVERY = 0.5
"""Seconds between two looks."""


@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """End this process once the one with the number ``parent`` is no longer the one above it.

    A parent that was killed tells its workers nothing: they would wait for work, with their memory
    and the caller's output. In the parent itself nothing happens.
    """
    if os.getpid() != parent:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(EVERY)
    os._exit(1)
