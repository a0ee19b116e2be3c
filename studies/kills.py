"""kill -9 at random moments: ``python -m studies.kills``.

Each trial starts a command in a session of its own, kills its first process at a random moment of
its usual time, and looks at what is left: a target that is neither absent nor whole ("half"), a
process of that session after five seconds ("orphan"). A study is started again after its last kill
and must end with the rows of an undisturbed run. Trials that are finished are rows of
``studies/results/kills/kills.csv``; ``--trials`` says how many of each command to make in all.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from angcal.files import SUFFIX, write_text
from angcal.persistence import PersistenceError, load
from angcal.simulation import simulate
from studies import RESULTS
from studies.engine.store import as_csv, read_csv

FOLDER = RESULTS / "kills"
SEED, PATIENCE = 90, 5.0
STUDY = "intercept"
COMMANDS = ("fit", "predict", "report", "study")


def whole_model(path: Path) -> bool:
    """Whether it loads."""
    try:
        load(path)
    except PersistenceError:
        return False
    return True


def command_of(name: str, folder: Path) -> tuple[list[str], Path, Callable[[Path], bool]]:
    """(arguments, target, whether a target is whole) of a command in a folder of tables."""
    angcal, table = [sys.executable, "-m", "angcal.cli"], str(folder / "rows.csv")
    if name == "fit":
        target = folder / "new.skops"
        return [*angcal, "fit", table, "--target", "y", "--out", str(target)], target, whole_model
    if name == "predict":
        target, rows = folder / "out.csv", len(pd.read_csv(table))
        arguments = [*angcal, "predict", str(folder / "model.skops"), table, "--out", str(target)]
        return arguments, target, lambda path: len(pd.read_csv(path)) == rows
    if name == "report":
        target = folder / "page.html"
        arguments = [*angcal, "report", table, "--target", "y", "--out", str(target)]
        return arguments, target, lambda path: path.read_text().rstrip().endswith("</html>")
    target = folder / "study" / f"{STUDY}.csv"
    study = [sys.executable, "-m", "studies", "reproduce", STUDY, "--quick", "--jobs", "2"]
    return [*study, "--out", str(target.parent)], target, lambda path: True


def in_session(session: int) -> list[int]:
    """Processes of a session that are not over."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


def start(arguments: list[str]) -> subprocess.Popen:
    """In a session of its own, without output."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(arguments, stdout=quiet, stderr=quiet, start_new_session=True)


def usual_time(arguments: list[str], target: Path) -> float:
    """Seconds of a run that nobody disturbs."""
    begin = time.monotonic()
    if start(arguments).wait() != 0:
        raise RuntimeError(f"{arguments} does not run")
    target.unlink()
    return time.monotonic() - begin


def trial(arguments: list[str], target: Path, moment: float, whole: Callable[[Path], bool]) -> Any:
    """Kill one run at a moment, and say what is left."""
    child = start(arguments)
    try:
        child.wait(timeout=moment)
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    until = time.monotonic() + PATIENCE
    while in_session(child.pid) and time.monotonic() < until:
        time.sleep(0.1)
    left = in_session(child.pid)
    for process in left:
        os.kill(process, signal.SIGKILL)
    there = target.exists()
    found = {
        "moment": f"{moment:.2f}",
        "ended": int(ended),
        "target": int(there),
        "half": int(there and not whole(target)),
        "unfinished": len(list(target.parent.glob(f".*{SUFFIX}"))) if target.parent.exists() else 0,
        "orphans": len(left),
    }
    if "studies" not in arguments:
        target.unlink(missing_ok=True)
    return found


def prepare(folder: Path) -> None:
    """A table, and a model of it."""
    data = simulate(400, 12, link="logit", random_state=SEED)
    frame = pd.DataFrame(data.X, columns=[f"x{i}" for i in range(12)]).assign(y=data.y)
    frame.to_csv(folder / "rows.csv", index=False)
    arguments, target, _ = command_of("fit", folder)
    if start(arguments).wait() != 0:
        raise RuntimeError("angcal fit does not run")
    target.rename(folder / "model.skops")


def resumed(folder: Path) -> str:
    """Whether the killed study, started again, has the rows of an undisturbed one."""
    arguments, target, _ = command_of("study", folder)
    start(arguments).wait()
    with tempfile.TemporaryDirectory() as other:
        undisturbed, reference, _ = command_of("study", Path(other))
        start(undisturbed).wait()
        same = target.exists() and target.read_bytes() == reference.read_bytes()
    return "same rows" if same else "other rows"


def main() -> None:
    """Run the trials that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=50, help="of each command")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    path = options.out / "kills.csv"
    rows: list[dict[str, Any]] = [dict(row) for row in read_csv(path)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for command in COMMANDS:
            made = sum(row["command"] == command for row in rows)
            if made >= options.trials:
                continue
            arguments, target, whole = command_of(command, folder)
            usual = usual_time(arguments, target) if command != "study" else 20.0
            rng = np.random.default_rng([SEED, COMMANDS.index(command), made])
            for number in range(made, options.trials):
                found = trial(arguments, target, float(rng.uniform(0.0, usual)), whole)
                rows.append({"command": command, "number": number, **found, "resumed": ""})
                write_text(path, as_csv(rows))
            if command == "study":
                rows[-1]["resumed"] = resumed(folder)
                write_text(path, as_csv(rows))
    bad = [row for row in rows if row["resumed"] == "other rows" or _faults(row)]
    killed = sum(int(row["ended"]) == 0 for row in rows)
    print(f"{len(rows)} trials, {killed} killed before their end, {len(bad)} with something wrong")


def _faults(row: dict[str, Any]) -> int:
    return int(row["half"]) + int(row["orphans"])


if __name__ == "__main__":
    main()
