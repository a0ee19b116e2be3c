"""The real command, killed twice and started again, leaves the files of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from studies.paper.command import RESULTS

ROOT = Path(__file__).resolve().parents[2]
# Many trials, each long enough for a kill to fall in the middle of the run.
NAME = "intercept"
COMPARED = {".csv", ".json", ".md", ".svg"}
PATIENCE = 120.0  # seconds, for a busy machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals"),
]


def start(folder: Path, jobs: int) -> subprocess.Popen:
    command = ["-m", "studies", "reproduce", NAME, "--quick", "--jobs", str(jobs)]
    return subprocess.Popen(
        [sys.executable, *command, "--out", str(folder)],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(folder: Path, jobs: int) -> dict[str, bytes]:
    """Let the command run to its end; the files that it leaves, hidden ones as well."""
    process = start(folder, jobs)
    try:
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        kill(process)
    assert process.returncode == 0, errors.decode()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def kill(process: subprocess.Popen) -> None:
    """SIGKILL to the command and its workers, which are of one process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def journalled(folder: Path) -> list[bytes]:
    """Whole lines of the journal, one for each finished trial."""
    path = folder / f".{NAME}.journal"
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def wait_for_trials(folder: Path, number: int, process: subprocess.Popen) -> None:
    until = time.monotonic() + PATIENCE
    while len(journalled(folder)) < number and process.poll() is None:
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.002)


def test_killed_twice_and_started_again_gives_the_same_files(tmp_path):
    experiment = RESULTS[NAME].experiment
    n_trials = len(experiment.trials(experiment.quick))
    folder, rng = tmp_path / "killed", np.random.default_rng(16)
    before: list[bytes] = []
    for _ in range(2):
        process = start(folder, jobs=2)
        # A moment given by the progress, not the clock, is in the middle on any machine.
        wait_for_trials(folder, len(before) + rng.integers(1, n_trials // 4), process)
        time.sleep(rng.uniform(0.0, 0.03))
        running = process.poll() is None
        kill(process)
        assert running, "the command ended before it was killed"
        after = journalled(folder)
        assert after[: len(before)] == before, "a finished trial was lost"
        assert len(before) < len(after) < n_trials
        before = after
    # One process in place of two takes less time to start, and must make no difference.
    resumed = finish(folder, jobs=2)
    undisturbed = finish(tmp_path / "undisturbed", jobs=1)
    assert {Path(name).suffix for name in undisturbed} >= COMPARED
    assert set(resumed) == set(undisturbed), "something was left behind"
    differing = [
        name
        for name in undisturbed
        if Path(name).suffix in COMPARED and resumed[name] != undisturbed[name]
    ]
    assert not differing
