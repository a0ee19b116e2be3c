"""Side pools rest while the base model is fitted, and have their threads back afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import PurePath

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from angcal import AngularCalibratedClassifier, threads


def thread_counts() -> dict[str, int]:
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def is_side(path: str) -> bool:
    return PurePath(path).parent.name in threads.SIDE_POOLS


def test_only_side_pools_rest_and_only_inside():
    with threadpool_limits(2):
        before = thread_counts()
        with threads.side_pools_at_rest():
            inside = thread_counts()
        assert thread_counts() == before
    assert {path for path in inside if inside[path] != before[path]} <= set(filter(is_side, inside))
    assert all(count == 1 for path, count in inside.items() if is_side(path))


def test_threads_come_back_after_an_error():
    with threadpool_limits(2):
        before = thread_counts()
        with pytest.raises(RuntimeError), threads.side_pools_at_rest():
            raise RuntimeError
        assert thread_counts() == before


def test_fits_that_overlap_leave_no_limit_behind():
    first, second = threads.side_pools_at_rest(), threads.side_pools_at_rest()
    with threadpool_limits(2):
        before = thread_counts()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert all(count == 1 for path, count in thread_counts().items() if is_side(path))
        second.__exit__(None, None, None)
        assert thread_counts() == before


def test_nothing_happens_where_there_are_no_side_pools(monkeypatch):
    monkeypatch.setattr(threads, "_side_pools", lambda: None)
    with threadpool_limits(2):
        before = thread_counts()
        with threads.side_pools_at_rest():
            assert thread_counts() == before


class Watched(LogisticRegression):
    """Notes the threads that it is fitted with."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = thread_counts()
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("solver", "rests"), [("lbfgs", True), ("newton-cholesky", False)])
def test_l_bfgs_is_fitted_with_side_pools_at_rest(solver, rests):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 2
    with threadpool_limits(2):
        model = AngularCalibratedClassifier(Watched(solver=solver)).fit(X, y)
    side = [count for path, count in model.estimator_.seen_.items() if is_side(path)]
    # Where NumPy and SciPy share one BLAS there is nothing to put to rest.
    assert all(count == (1 if rests else 2) for count in side)


def blas_counts() -> dict[str, int]:
    """Settings that all threads of a process share; OpenMP keeps one for each."""
    return {
        pool["filepath"]: pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }


def ended(child: int) -> int:
    """Exit status of a child, which has a minute."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_inherits_neither_the_lock_nor_a_limit():
    """A fork waits until no thread is inside begin or end; threads that fit do not come along."""
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            with threads.side_pools_at_rest():
                pass

    with threadpool_limits(2):
        before = blas_counts()
        spinning = [threading.Thread(target=spin) for _ in range(3)]
        for thread in spinning:
            thread.start()
        try:
            for _ in range(6):
                with warnings.catch_warnings():
                    # Python 3.12 warns of forks beside threads, which is what this is about.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    child = os.fork()
                if child == 0:
                    found = blas_counts() == before
                    with threads.side_pools_at_rest():
                        found &= threads._REST._fits == 1
                    os._exit(0 if found else 1)
                assert ended(child) == 0
        finally:
            stop.set()
            for thread in spinning:
                thread.join()
        assert blas_counts() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_a_fit_leaves_the_count_right():
    with threads.side_pools_at_rest():
        child = os.fork()
    if child == 0:
        os._exit(threads._REST._fits)
    assert ended(child) == 0
    assert threads._REST._fits == 0
