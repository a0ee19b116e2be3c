"""Workers end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The worker tells its number, then would sleep for an hour.
WORKER = """
import os, time
from studies.engine.runner import end_with
end_with({parent})
print(os.getpid(), flush=True)
time.sleep(3600)
"""
PARENT = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1].format(parent=os.getpid())])
"""


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{number}/stat")
    # One that nobody has waited for yet is over all the same.
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
def test_a_killed_parent_leaves_no_worker():
    command = [sys.executable, "-c", PARENT, WORKER]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    assert alive(worker)
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=60)  # the worker holds the same output: it ends when that does
    until = time.monotonic() + 60.0
    while alive(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(worker)
