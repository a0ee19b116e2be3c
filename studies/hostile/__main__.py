"""The long run: ``python -m studies.hostile`` (``make hostile``).

Cases are drawn by Hypothesis in blocks, each block in a child process of its own with a limit on
memory (2 GiB beyond what an idle one has) and on the time of a case. A block has a number, which is
its seed; finished ones are rows of ``studies/results/hostile/outcomes.csv`` and are not run again.
A failure is shrunk by Hypothesis and kept in ``failures.csv``; hangs and deaths are kept as drawn.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from angcal.files import write_text
from studies import RESULTS
from studies.engine.store import as_csv, read_csv
from studies.hostile.judge import FAILURES

FOLDER = RESULTS / "hostile"
PER_BLOCK, CASE_SECONDS, MEMORY = 400, 60.0, 2 * 2**30
KINDS = (
    "refused",
    "valid",
    "warned",
    "harm, few rows",
    "harm, calibrator",
    *FAILURES,
    "hang",
    "death",
)
FIRST_SEED = 11_000_000
"""Of the committed run; while fixing, other numbers were used."""


# -- the child ---------------------------------------------------------------------------------


def run_block(seed: int, count: int, folder: Path) -> None:
    """Judge cases until one fails; the case goes to ``current.json``, the result to stdout."""
    import hypothesis

    from studies.hostile.cases import Case, cases
    from studies.hostile.judge import judge

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts: collections.Counter[str] = collections.Counter()
    failure: dict[str, Any] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )
    @hypothesis.given(cases())
    def attempt(case: Case) -> None:
        (folder / "current.json").write_text(json.dumps(case.as_dict()))
        outcome = judge(case)
        if not failure:
            counts[outcome.kind] += 1
        if outcome.failed:
            # While it is shrunk, the last that fails is the simplest.
            failure.update(kind=outcome.kind, detail=outcome.detail, case=case.as_dict())
            raise AssertionError(outcome.kind)

    with contextlib.suppress(AssertionError):
        attempt()
    print("\n" + json.dumps({"counts": counts, "failure": failure}), flush=True)


# -- the parent --------------------------------------------------------------------------------


def watched(seed: int, count: int) -> tuple[dict[str, int], dict[str, Any]]:
    """(counts, failure) of a block, whose child is ended where a case takes too long."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "studies.hostile", "--block", str(seed)]
        command += ["--count", str(count), "--folder", name]
        environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        }
        with (folder / "out").open("wb") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
            ended = _wait(child, folder / "current.json")
        printed = (folder / "out").read_text(errors="replace").strip().splitlines()
        current = folder / "current.json"
        case = json.loads(current.read_text()) if current.exists() else {}
    if ended and child.returncode == 0:
        found = json.loads(printed[-1])
        return found["counts"], found["failure"]
    kind = "death" if ended else "hang"
    detail = f"status {child.returncode}: {' '.join(printed[-3:])[-300:]}"
    return {kind: 1}, {"kind": kind, "detail": detail, "case": case}


def _wait(child: subprocess.Popen, progress: Path) -> bool:
    """Whether the child came to its end by itself; each case has its time of the processor."""
    mark, spent = -1.0, _cpu_seconds(child.pid)
    while child.poll() is None:
        time.sleep(0.2)
        stamp = progress.stat().st_mtime if progress.exists() else 0.0
        if stamp != mark:
            mark, spent = stamp, _cpu_seconds(child.pid)
        if _cpu_seconds(child.pid) - spent > CASE_SECONDS:
            child.kill()
            child.wait()
            return False
    return True


def _cpu_seconds(process: int) -> float:
    """Of a process; a busy machine must not look like a hang."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the blocks that are missing, up to a number of cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=20_000, help="how many in all")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="number of the first block")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="blocks at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--block", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=PER_BLOCK, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.block is not None:
        run_block(options.block, options.count, options.folder)
        return
    until = time.monotonic() + 60.0 * options.minutes
    outcomes, failures = options.out / "outcomes.csv", options.out / "failures.csv"
    rows: list[dict[str, Any]] = [dict(row) for row in read_csv(outcomes)]
    kept: list[dict[str, Any]] = [dict(row) for row in read_csv(failures)]
    done = {int(row["block"]) for row in rows}
    writing = threading.Lock()

    def run(block: int) -> None:
        if time.monotonic() > until:
            return
        counts, failure = watched(block, options.count)
        with writing:
            rows.append({"block": block, **{kind: counts.get(kind, 0) for kind in KINDS}})
            write_text(outcomes, as_csv(sorted(rows, key=lambda row: int(row["block"]))))
            if failure:
                case = json.dumps(failure["case"], sort_keys=True)
                kept.append({"block": block, **failure, "case": case})
                write_text(failures, as_csv(sorted(kept, key=lambda row: int(row["block"]))))

    blocks = range(options.first, options.first + options.cases // PER_BLOCK)
    # The work is in the children; threads only wait for them.
    with ThreadPoolExecutor(options.jobs) as lanes:
        list(lanes.map(run, (block for block in blocks if block not in done)))
    totals = {kind: sum(int(row[kind]) for row in rows) for kind in KINDS}
    print(f"{sum(totals.values())} cases: {totals}")


if __name__ == "__main__":
    main()
