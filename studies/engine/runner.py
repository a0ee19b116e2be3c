"""Run the pending trials of an experiment on several processes, and read its tables back."""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from studies.engine.experiment import Experiment, Frames, Tables, Trial
from studies.engine.store import Store
from studies.progress import Bar

# -- Worker processes that end with the process that started them, however that one ends --------


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


def trial_generator(seed: int, *labels: Any) -> np.random.Generator:
    """A generator that depends on the seed and on what it is for, never on the order of trials."""
    key = zlib.crc32(repr(labels).encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))


def run_experiment(
    experiment: Experiment,
    settings: Any,
    folder: Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    only: Callable[[Trial], bool] | None = None,
) -> None:
    """Run whatever earlier runs have left undone.

    Parameters
    ----------
    experiment : Experiment
    settings
        ``experiment.full`` or ``experiment.quick``, perhaps with another seed.
    folder : Path
    jobs : int
        Processes, as in joblib; -1 is one per core.
    fresh : bool
        Delete earlier rows of the trials that are run now; with all trials, the settings too.
    only : callable, optional
        Which of the undone trials to run now; the others stay as they are. All by default.
    """
    store = Store(folder, experiment, settings)
    trials = experiment.trials(settings)
    wanted = {index for index, trial in enumerate(trials) if only is None or only(trial)}
    with store.opened(fresh=fresh and len(wanted) == len(trials)):
        if fresh:
            store.forget(wanted)
        undone = store.pending
        pending = [index for index in undone if index in wanted]
        if not pending:
            return
        work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", **_watched(jobs))(
            joblib.delayed(_run_one)(experiment.run, settings, trials[index], index, os.getpid())
            for index in pending
        )
        within_reach = len(trials) - len(undone) + len(pending)
        with Bar(experiment.name, within_reach, within_reach - len(pending)) as bar:
            for index, tables in work:
                store.add(index, tables)
                bar.update()


def _watched(jobs: int) -> dict[str, Any]:
    """Workers of this machine watch for its end before they import what trials need."""
    backend, _ = joblib.parallel.get_active_backend()
    if jobs == 1 or not isinstance(backend, joblib.parallel.LokyBackend):
        return {}
    return {"initializer": end_with, "initargs": (os.getpid(),)}


def _run_one(run: Any, settings: Any, trial: Trial, index: int, parent: int) -> tuple[int, Tables]:
    end_with(parent)
    # With one BLAS thread each, processes do not fight for cores, and sums are made in the same
    # order whatever the number of processes.
    with threadpool_limits(limits=1):
        return index, run(settings, trial)


def read_tables(experiment: Experiment, settings: Any, folder: Path) -> Frames:
    """The finished tables as data frames."""
    store = Store(folder, experiment, settings)
    return {
        table: pd.read_csv(store.path(table), keep_default_na=False, na_values=["nan"])
        for table in experiment.tables
    }
