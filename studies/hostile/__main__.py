"""The long run: ``python -m studies.hostile`` (``make hostile``).

Cases are drawn by Hypothesis in blocks, each block in a child process of its own with a limit on
memory (2 GiB beyond what an idle one has) and on the time of a case. A block has a number, which is
its seed; all of its cases are judged, whatever fails. Finished ones are rows of
``studies/results/hostile/outcomes.csv`` with a digest of the code that they are of, and are not run
again with the same code. Failures are shrunk and kept in ``failures.csv``, also after they were
mended; hangs and deaths are kept as drawn.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
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

import angcal
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
    "harm, calibrator",
    *FAILURES,
    "hang",
    "death",
)
FIRST_SEED = 70_000_000
"""Of the committed run; while fixing, other numbers were used."""


# -- the child ---------------------------------------------------------------------------------


def run_block(seed: int, count: int, folder: Path, skip: int = 0) -> None:
    """Judge cases, all but the first few; what was found so far is in ``found.json`` throughout."""
    import hypothesis

    from studies.hostile.cases import Case, cases
    from studies.hostile.judge import judge, shrunk

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found: dict[str, Any] = {"number": 0, "counts": {}, "failures": []}
    failed: list[tuple[str, str, Case]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(cases())
    def attempt(case: Case) -> None:
        found["number"] += 1
        if found["number"] <= skip:
            return
        found["current"] = case.as_dict()
        write_text(folder / "found.json", json.dumps(found))
        outcome = judge(case)
        found["counts"][outcome.kind] = found["counts"].get(outcome.kind, 0) + 1
        if outcome.failed:
            failed.append((outcome.kind, outcome.detail, case))
            found["failures"].append(_told(*failed[-1]))

    attempt()
    found.pop("current", None)
    write_text(folder / "found.json", json.dumps(found))
    # All are counted by now; what does not come to its end is kept as it was drawn.
    for place, (kind, _, case) in enumerate(failed):
        simple = shrunk(case, kind)
        found["failures"][place] = _told(kind, judge(simple).detail, simple)
        write_text(folder / "found.json", json.dumps(found))


def _told(kind: str, detail: str, case: Any) -> dict[str, Any]:
    return {"kind": kind, "detail": detail, "case": case.as_dict()}


# -- the parent --------------------------------------------------------------------------------


def watched(seed: int, count: int) -> tuple[collections.Counter[str], list[dict[str, Any]]]:
    """(counts, failures) of a block; where a case ends its child, another goes on behind it."""
    counts: collections.Counter[str] = collections.Counter()
    failures: list[dict[str, Any]] = []
    skip = 0
    while True:
        found, ended = _child(seed, count, skip)
        counts.update(found["counts"])
        failures += found["failures"]
        if ended == "":
            return counts, failures
        if "current" not in found:
            if found["number"] < count:
                raise RuntimeError(f"block {seed} does not begin: {ended}")
            return counts, failures  # while a failure was shrunk
        kind, skip = ended.split(":")[0], found["number"]
        counts[kind] += 1
        failures.append({"kind": kind, "detail": ended, "case": found["current"]})


def _child(seed: int, count: int, skip: int) -> tuple[dict[str, Any], str]:
    """(what was found, how it ended: "" or a sentence that begins with hang or death)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "studies.hostile", "--block", str(seed)]
        command += ["--count", str(count), "--skip", str(skip), "--folder", name]
        environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        }
        with (folder / "out").open("wb") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
            ended = _wait(child, folder / "found.json")
        printed = (folder / "out").read_text(errors="replace").strip().splitlines()
        path, nothing = folder / "found.json", {"number": 0, "counts": {}, "failures": []}
        found = json.loads(path.read_text()) if path.exists() else nothing
    if ended and child.returncode == 0:
        return found, ""
    told = f"status {child.returncode}: {' '.join(printed[-3:])[-300:]}"
    return found, f"{'death' if ended else 'hang'}: {told}"


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


def code() -> str:
    """What results depend on: a digest of angcal and of this study."""
    digest = hashlib.sha256()
    for folder in (Path(angcal.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    """Run the blocks that are missing, up to a number of cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=20_000, help="how many in all")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="number of the first block")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="blocks at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    for name, value in (("block", None), ("count", PER_BLOCK), ("skip", 0)):
        parser.add_argument(f"--{name}", type=int, default=value, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.block is not None:
        run_block(options.block, options.count, options.folder, options.skip)
        return
    own, until = code(), time.monotonic() + 60.0 * options.minutes
    outcomes, failures = options.out / "outcomes.csv", options.out / "failures.csv"
    # Blocks of other code are run again, and replaced.
    rows = {int(row["block"]): dict(row) for row in read_csv(outcomes) if row.get("code") == own}
    kept: list[dict[str, Any]] = [dict(row) for row in read_csv(failures)]
    writing = threading.Lock()

    def run(block: int) -> None:
        if time.monotonic() > until:
            return
        counts, found = watched(block, options.count)
        with writing:
            numbers = {kind: str(counts.get(kind, 0)) for kind in KINDS}
            rows[block] = {"block": str(block), "code": own, **numbers}
            write_text(outcomes, as_csv([rows[number] for number in sorted(rows)]))
            for failure in found:
                case = json.dumps(failure["case"], sort_keys=True)
                kept.append({"block": block, **failure, "case": case})
                write_text(failures, as_csv(sorted(kept, key=lambda row: int(row["block"]))))

    blocks = range(options.first, options.first + options.cases // options.count)
    # The work is in the children; threads only wait for them.
    with ThreadPoolExecutor(options.jobs) as lanes:
        list(lanes.map(run, (block for block in blocks if block not in rows)))
    totals = {kind: sum(int(row[kind]) for row in rows.values()) for kind in KINDS}
    print(f"{sum(totals.values())} cases of code {own}: {totals}")
    if kept:
        print(f"{len(kept)} failures, of this code and of earlier ones, are kept in {failures}.")


if __name__ == "__main__":
    main()
