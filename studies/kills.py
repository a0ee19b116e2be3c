"""kill -9 at random moments: ``python -m studies.kills``.

Each trial runs a command in a session of its own, kills its first process at a random moment of its
usual time, and looks at what is left: a target that is neither absent nor whole ("half"), a process
of that session after five seconds ("orphan"). Commands run in forks of a process that has imported
everything, so that the moments fall on work and not on imports. A study goes on where its last kill
left it; when it ends its files must be byte by byte those of an undisturbed run ("same"), and it
begins anew. ``cluster`` is a fit on Dask workers of its own. `KILLS` says how many real kills there
are of each; runs that end before their moment do not count. Trials that are finished are rows of
``studies/results/kills/kills.csv``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import angcal.cli
import studies.__main__
from angcal.files import SUFFIX, write_text
from angcal.persistence import PersistenceError, load, save
from angcal.simulation import simulate
from studies import RESULTS
from studies.engine.store import as_csv, read_csv

FOLDER = RESULTS / "kills"
SEED, PATIENCE = 91, 5.0
STUDY = "intercept"
KILLS = {"fit": 55, "predict": 50, "report": 35, "study": 48, "cluster": 12}


@dataclass(frozen=True)
class Command:
    """What is killed: the work, its target, whether a target is whole, and whether it goes on."""

    work: Callable[[], int]
    target: Path
    whole: Callable[[Path], bool]
    resumes: bool = False


def whole_model(path: Path) -> bool:
    """Whether it loads."""
    try:
        load(path)
    except PersistenceError:
        return False
    return True


def fit_on_workers(target: Path) -> int:
    """A fit of blocks on two workers of its own."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from angcal.dask import AngularCalibratedClassifier

    # A worker sees that its client is gone once it has imported the main module, which would be
    # this one with all that it imports.
    main: Any = sys.modules["__main__"]
    main.__spec__, main.__file__ = None, None
    data = simulate(2000, 10, link="logit", random_state=SEED)
    rows = da.from_array(data.X, chunks=(500, 10))
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster):
        save(AngularCalibratedClassifier().fit(rows, data.y).to_local(), target)
    return 0


def command_of(name: str, folder: Path) -> Command:
    """A command in a folder of tables."""
    table = str(folder / "rows.csv")
    if name == "fit":
        target, rest = folder / "new.skops", ["fit", table, "--target", "y"]
        return Command(_angcal(*rest, "--out", str(target)), target, whole_model)
    if name == "predict":
        target, rows = folder / "out.csv", len(pd.read_csv(table))
        rest = ["predict", str(folder / "model.skops"), table, "--out", str(target)]
        return Command(_angcal(*rest), target, lambda path: len(pd.read_csv(path)) == rows)
    if name == "report":
        target, rest = folder / "page.html", ["report", table, "--target", "y"]
        work = _angcal(*rest, "--out", str(target))
        return Command(work, target, lambda path: path.read_text().rstrip().endswith("</html>"))
    if name == "cluster":
        target = folder / "blocks.skops"
        return Command(lambda: fit_on_workers(target), target, whole_model)
    target = folder / name / f"{STUDY}.csv"
    arguments = ["reproduce", STUDY, "--quick", "--jobs", "2", "--out", str(target.parent)]
    return Command(lambda: studies.__main__.main(arguments), target, lambda path: True, True)


def _angcal(*arguments: str) -> Callable[[], int]:
    return lambda: angcal.cli.main(list(arguments))


# -- processes ---------------------------------------------------------------------------------


def start(work: Callable[[], int]) -> int:
    """Number of a fork that does the work in a session of its own, without output."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        status = work()
    finally:
        os._exit(status)


def ended(child: int, seconds: float) -> int | None:
    """Exit status of a child that ends in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


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


def usual_time(command: Command) -> float:
    """Seconds of a run that nobody disturbs."""
    begin = time.monotonic()
    if ended(start(command.work), 600.0) != 0:
        raise RuntimeError(f"{command.target.name} does not come about")
    return time.monotonic() - begin


def trial(command: Command, moment: float) -> dict[str, Any]:
    """Kill one run at a moment, and say what is left."""
    child = start(command.work)
    status = ended(child, moment)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    until = time.monotonic() + PATIENCE
    while in_session(child) and time.monotonic() < until:
        time.sleep(0.1)
    left = in_session(child)
    for process in left:
        os.kill(process, signal.SIGKILL)
    folder, there = command.target.parent, command.target.exists()
    return {
        "moment": f"{moment:.2f}",
        "ended": int(status is not None),
        "status": "" if status is None else status,
        "target": int(there),
        "half": int(there and not command.whole(command.target)),
        "unfinished": len(list(folder.glob(f".*{SUFFIX}"))) if folder.exists() else 0,
        "orphans": len(left),
    }


# -- trials --------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """A table, and a model of it."""
    data = simulate(400, 12, link="logit", random_state=SEED)
    frame = pd.DataFrame(data.X, columns=[f"x{i}" for i in range(12)]).assign(y=data.y)
    frame.to_csv(folder / "rows.csv", index=False)
    with (folder / "printed").open("w") as printed, contextlib.redirect_stdout(printed):
        # In this process, so that everything is imported before it is forked.
        for name in ("fit", "predict", "report"):
            command = command_of(name, folder)
            if command.work() != 0:
                raise RuntimeError(f"angcal {name} does not run")
            if name == "fit":
                command.target.rename(folder / "model.skops")
            command.target.unlink(missing_ok=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Tables of a study."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"{STUDY}*.csv"))}


def trials_of(name: str, folder: Path, rows: list[dict[str, Any]]) -> None:
    """The kills of a command that are missing; every trial is a row that is written at once.

    A run that ends before its moment is a row too, but no kill.
    """
    command = command_of(name, folder)
    usual, expected = usual_time(command), contents(command.target.parent)
    rng = np.random.default_rng([SEED, list(KILLS).index(name), len(of(name, rows))])
    _remove(command)
    while kills_of(name, rows) < KILLS[name]:
        moment = float(rng.uniform(0.0, usual))
        found = trial(command, moment)
        last = not found["ended"] and kills_of(name, rows) == KILLS[name] - 1
        if command.resumes and last:
            usual_time(command)
        elif found["ended"] and not command.resumes:
            usual = moment  # it takes less by now
        whole = command.resumes and (found["ended"] or last)
        same = contents(command.target.parent) == expected if whole else None
        number = len(of(name, rows))
        rows.append({"command": name, "number": number, **found, "same": _told(same)})
        if whole or not command.resumes:
            _remove(command)
        write_text(FOLDER / "kills.csv", as_csv(rows))


def of(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Trials of a command."""
    return [row for row in rows if row["command"] == name]


def kills_of(name: str, rows: list[dict[str, Any]]) -> int:
    """How many runs of a command were killed before their end."""
    return sum(int(row["ended"]) == 0 for row in of(name, rows))


def _remove(command: Command) -> None:
    if command.resumes:
        shutil.rmtree(command.target.parent, ignore_errors=True)
    command.target.unlink(missing_ok=True)


def _told(same: bool | None) -> str:
    return "" if same is None else str(int(same))


def main() -> None:
    """Run the kills that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument("--only", choices=KILLS, action="append", help="some of the commands")
    options = parser.parse_args()
    path = FOLDER / "kills.csv"
    rows: list[dict[str, Any]] = [] if options.fresh else [dict(row) for row in read_csv(path)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for command in options.only or KILLS:
            if kills_of(command, rows) < KILLS[command]:
                trials_of(command, folder, rows)
    killed = sum(int(row["ended"]) == 0 for row in rows)
    bad = sum(_is_bad(row) for row in rows)
    done = sum(row["same"] != "" for row in rows)
    print(
        f"{len(rows)} trials, {killed} killed before their end, {done} studies that came to their "
        f"end after kills; {bad} with something lost, doubled, half written or left running"
    )


def _is_bad(row: dict[str, Any]) -> bool:
    failed = row["status"] not in ("", "0", 0)
    return bool(int(row["half"]) or int(row["orphans"]) or row["same"] == "0" or failed)


if __name__ == "__main__":
    main()
