"""Several thread pools in one process: how to keep them from fighting over the cores.

The wheels of NumPy and SciPy each bring an OpenBLAS with threads of its own, scikit-learn's brings
OpenMP. An idle thread waits for work by spinning for some milliseconds. The L-BFGS solver of
scikit-learn wakes SciPy's threads for dot products of a few hundred numbers and OpenMP's for a few
microseconds of work, and they then take the cores from the matrix products that NumPy is asked for.
On few cores a fit takes several times as long for it; docs/speed.md has the figures ("at rest").
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import PurePath
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

# Folders in which wheels keep the libraries that only they use.
SIDE_POOLS = ("scipy.libs", "scikit_learn.libs")


@lru_cache(maxsize=1)
def _every_pool() -> ThreadpoolController:
    """All thread pools of this process; looking for them takes milliseconds."""
    return ThreadpoolController()


def blas_threads() -> int:
    """Threads that BLAS may use now, at least 1: what the user has set, or what there is."""
    blas = [pool for pool in _every_pool().lib_controllers if pool.user_api == "blas"]
    return max([int(pool.num_threads or 1) for pool in blas], default=1)


@lru_cache(maxsize=1)
def _side_pools() -> Any:
    """The thread pools that SciPy and scikit-learn have for themselves."""
    every = _every_pool()
    paths = [library.filepath for library in every.lib_controllers]
    own = [path for path in paths if PurePath(path).parent.name in SIDE_POOLS]
    return every.select(filepath=own) if own else None


class _Rest:
    """One limit for all fits that run at the same time: set by the first, lifted by the last.

    If each fit set and lifted its own, one that began while another ran would take the other's
    limit for the setting to come back to.
    """

    def __init__(self) -> None:
        self._lock, self._fits = Lock(), 0
        self._limit: Any = None

    def begin(self) -> None:
        """One more fit."""
        with self._lock:
            self._fits += 1
            pools = _side_pools() if self._fits == 1 else None
            if pools is not None:
                self._limit = pools.limit(limits=1)

    def end(self) -> None:
        """One fit less."""
        with self._lock:
            self._fits = max(self._fits - 1, 0)
            if self._fits == 0:
                self._lift()

    def before_fork(self) -> None:
        """Wait until no thread is inside ``begin`` or ``end``: a child would find it there."""
        self._lock.acquire()

    def after_fork(self, in_child: bool) -> None:
        """A child has none of the threads that were fitting, so nothing of theirs is to last."""
        if in_child:
            self._fits = 0
            self._lift()
        self._lock.release()

    def _lift(self) -> None:
        if self._limit is not None:
            self._limit.restore_original_limits()
            self._limit = None


_REST = _Rest()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_REST.before_fork,
        after_in_parent=partial(_REST.after_fork, False),
        after_in_child=partial(_REST.after_fork, True),
    )


@contextmanager
def side_pools_at_rest() -> Iterator[None]:
    """One thread each for SciPy and scikit-learn; NumPy's matrix products keep all of theirs."""
    _REST.begin()
    try:
        yield
    finally:
        _REST.end()
