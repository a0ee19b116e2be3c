"""Peak memory of a fit beyond X, each measured in a process of its own.

VmHWM, the high-water mark of resident memory, is reset through /proc/self/clear_refs once X is
there; the extra is VmHWM after the fit minus VmRSS before it. Where the mark cannot be reset,
getrusage's maximum stands in, which can only hide what stays below an earlier peak.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from angcal import AngularCalibratedClassifier
from studies.speed.cases import Case, make
from studies.speed.contenders import logistic
from studies.speed.measure import Row

ROOT = Path(__file__).resolve().parents[2]
STATUS, MARK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PARTS = ("LogisticRegression", "angular part", "angular")


def status_bytes(text: str, field: str) -> int:
    """A field of /proc/self/status, which counts in kB.

    >>> status_bytes("VmHWM:     12 kB\\nVmRSS:      8 kB\\n", "VmRSS")
    8192
    """
    line = next(line for line in text.splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def _give_back_freed_memory() -> None:
    """What Python has freed must not be there for the fit to reuse unseen."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # another C library: then the extra is read a little low
        return


def extra_bytes(call: Callable[[], object]) -> tuple[int, str]:
    """(peak of resident memory during the call beyond what was there, how it was read)."""
    _give_back_freed_memory()
    try:
        MARK.write_text("5")
    except OSError:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        call()
        return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), "ru_maxrss"
    before = status_bytes(STATUS.read_text(), "VmRSS")
    call()
    return status_bytes(STATUS.read_text(), "VmHWM") - before, "VmHWM"


def measure_here(case: Case, observables: str, part: str, threads: int) -> Row:
    """One fit in this process."""
    with warnings.catch_warnings(action="ignore"), threadpool_limits(threads):
        # A small fit first: imports, thread pools and tables are not the memory of a fit.
        small = make(Case(200, 40, kind=case.kind, dtype=case.dtype))
        AngularCalibratedClassifier(logistic(small.case)).fit(small.X, small.y).predict(small.X)
        problem = make(case)
        base = logistic(case)
        if part == "angular part":
            base = FrozenEstimator(base.fit(problem.X, problem.y))
        model = (
            base
            if part == "LogisticRegression"
            else AngularCalibratedClassifier(base, observables=observables)
        )
        extra, method = extra_bytes(lambda: model.fit(problem.X, problem.y))
    side = model.observables_.side if hasattr(model, "observables_") else ""
    return {"extra": extra, "method": method, "side": side}


def measure_apart(case: Case, observables: str, part: str, threads: int) -> Row:
    """One fit in a fresh process; a row of memory.csv."""
    request = json.dumps(
        {"case": asdict(case), "observables": observables, "part": part, "threads": threads}
    )
    command = [sys.executable, "-m", "studies.speed.memory", request]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{part} on {case.name} ended with status {done.returncode} (a negative one: killed, "
            f"most likely for want of memory). {done.stderr[-2000:]}"
        )
    row: Row = {"case": f"{case.name} {observables}", "contender": part, "bytes": case.bytes}
    row["square_bytes"] = min(case.n, case.d) ** 2 * 8
    return row | json.loads(done.stdout.splitlines()[-1]) | {"threads": threads}


def main() -> None:
    """Answer one request of `measure_apart`, as a line of JSON."""
    parser = argparse.ArgumentParser(description=measure_apart.__doc__)
    parser.add_argument("request")
    request = json.loads(parser.parse_args().request)
    case = Case(**request.pop("case"))
    print(json.dumps(measure_here(case, **request)))


if __name__ == "__main__":
    main()
