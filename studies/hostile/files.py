"""Damaged and forged model files: ``python -m studies.hostile.files``.

*Damaged*: one bit is flipped, or the file ends early; it must be refused, or predict the same bits.
*Forged*: one to three of its values are changed and every checksum is made right again
(:mod:`studies.hostile.forging`); it must be refused, or predict probabilities. Each forged file is
opened in a process of its own, with limits on memory and open files and none of its own to write,
in which an audit hook notes every file that is opened beside it and every command, module of the
machine or connection that is asked for. Blocks that are finished are rows of
``studies/results/hostile/files.csv``.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.export import ExportError, to_onnx, verified_onnx
from angcal.files import write_text
from angcal.persistence import PersistenceError, load, save
from angcal.simulation import simulate
from studies import RESULTS
from studies.engine.store import as_csv, read_csv
from studies.hostile.forging import forged, members

PATH = RESULTS / "hostile" / "files.csv"
DAMAGED, FORGED = (".skops", ".angcal", ".onnx"), (".skops", ".angcal")
PER_BLOCK, MEMORY, OPEN_FILES, SEED = 500, 2 * 2**30, 64, 77
OUTCOMES = ("refused", "same", "valid", "other rows", "different", "reached", "error", "death")
"""The last four are failures."""
WATCHED = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "import", "open", "exec")
HARMLESS = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "exec")


@cache
def models() -> dict[str, tuple[Any, Any]]:
    """(fitted model, rows) of several kinds."""
    data = simulate(80, 8, link="logit", random_state=0)
    X, y = data.X, data.y.astype(int)
    levels = np.array(["a", "b", "c"], dtype=object)[np.where(np.arange(80) % 5, y, 2)][:, None]
    encoder = make_column_transformer((OneHotEncoder(min_frequency=2), [0]))
    return {
        "default": (make_pipeline(StandardScaler(), AngularCalibratedClassifier()).fit(X, y), X),
        "classes": (AngularCalibratedClassifier().fit(X, y + (X[:, 0] > 0)), X),
        "path": (AngularLogisticRegressionCV(Cs=3, average="penalties").fit(X, y), X),
        "levels": (make_pipeline(encoder, AngularCalibratedClassifier()).fit(levels, y), levels),
    }


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """One bit, or everything from some place on, is not as it was."""
    place = int(rng.integers(len(whole)))
    if rng.random() < 0.1:
        return whole[:place]
    content = bytearray(whole)
    content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def judge_damaged(content: bytes, path: Path, expected: Any, rows: Any) -> str:
    """Outcome of one damaged file; ``expected`` are its bytes for ONNX, else probabilities."""
    if path.suffix == ".onnx":
        try:
            return "same" if verified_onnx(content) == expected else "different"
        except ExportError:
            return "refused"
    path.write_bytes(content)
    try:
        p = load(path).predict_proba(rows)
    except PersistenceError:
        return "refused"
    return "same" if np.array_equal(p, expected) else "different"


def judge_forged(path: Path, rows: Any) -> str:
    """Outcome of one forged file."""
    try:
        p = load(path).predict_proba(rows)
    except PersistenceError:
        return "refused"
    except ValueError:  # a model for other columns or levels than these rows have
        return "other rows"
    fine = p.ndim == 2 and np.all((p >= 0) & (p <= 1 + 1e-12))
    return "valid" if fine and np.allclose(p.sum(axis=1), 1.0, atol=1e-9) else "different"


# -- child processes ---------------------------------------------------------------------------


def in_child(work: Callable[[], dict[str, Any]], *, watch: Path | None = None) -> dict[str, Any]:
    """What ``work`` returns in a forked process with limits; {"death": 1} where it does not end."""
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _confine(watch)
        try:
            found = work()
        except BaseException as error:  # whatever it is, it is to be counted
            found = {"error": 1, "detail": f"{type(error).__name__}: {error}"[:200]}
        if _REACHED:
            found = {"reached": 1, "detail": "; ".join(_REACHED[:5])[:300]}
        os.write(its, json.dumps(found).encode())
        os._exit(0)
    os.close(its)
    with os.fdopen(ours, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    outcome: dict[str, Any] = json.loads(told) if told else {"death": 1}
    return outcome if told else {**outcome, "detail": f"status {status}"}


_REACHED: list[str] = []


def _confine(watch: Path | None) -> None:
    """Limits of this process; with ``watch``, whatever it asks for beside that file is noted."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (60 * PER_BLOCK, 60 * PER_BLOCK))
    if watch is None:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    code = tuple(str(Path(place).resolve()) for place in {sys.prefix, sys.base_prefix, *sys.path})

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith(WATCHED) or event.startswith(HARMLESS):
            return
        name = str(arguments[0]) if arguments else ""
        if event == "open":
            writing = isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
            reads_code = name.startswith(code) and name.endswith((".py", ".pyc", ".so"))
            if not writing and (name == str(watch) or reads_code):
                return
        if event == "import" and not name.startswith(("os", "subprocess", "socket", "ctypes")):
            return
        _REACHED.append(f"{event} {name[:80]}")

    sys.addaudithook(note)


# -- blocks --------------------------------------------------------------------------------------


def damaged_block(suffix: str, block: int, count: int, folder: Path) -> dict[str, Any]:
    """Outcomes of ``count`` damaged files of one kind."""
    model, rows = models()["default"]
    path = folder / f"m{suffix}"
    if suffix == ".onnx":
        expected: Any = to_onnx(model, rows).SerializeToString()
        whole = expected
    else:
        save(model, path)
        expected, whole = model.predict_proba(rows), path.read_bytes()
    rng = np.random.default_rng([SEED, DAMAGED.index(suffix), block])

    def work() -> dict[str, Any]:
        counts: collections.Counter[str] = collections.Counter()
        for _ in range(count):
            counts[judge_damaged(damaged(whole, rng), path, expected, rows)] += 1
        return dict(counts)

    return in_child(work)


def forged_block(suffix: str, block: int, count: int, folder: Path) -> dict[str, Any]:
    """Outcomes of ``count`` forged files of one kind, each in a process of its own."""
    counts: collections.Counter[str] = collections.Counter()
    details: list[str] = []
    kinds = list(models().items())
    wholes = []
    for name, (model, rows) in kinds:
        path = folder / f"{name}{suffix}"
        save(model, path)
        wholes.append(members(path))
        load(path).predict_proba(rows)  # what is imported late is imported now
    for number in range(count):
        place = number % len(kinds)
        path = folder / f"forged{suffix}"
        rng = np.random.default_rng([SEED + 1, FORGED.index(suffix), block, number])
        path.write_bytes(forged(wholes[place], rng))
        rows = kinds[place][1][1]
        found = in_child(partial(_one_forged, path, rows), watch=path)
        if "detail" in found:
            details.append(f"{number}: {found.pop('detail')}")
        counts.update(found)
    return {**counts, "detail": " | ".join(details)}


def _one_forged(path: Path, rows: Any) -> dict[str, Any]:
    return {judge_forged(path, rows): 1}


def main() -> None:
    """Run the blocks that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--damaged", type=int, default=10_000, help="files of each kind")
    parser.add_argument("--forged", type=int, default=500, help="files of each kind")
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = [dict(row) for row in read_csv(options.out)]
    done = {(row["way"], row["kind"], int(row["block"])) for row in rows}
    ways = (("damaged", DAMAGED, damaged_block), ("forged", FORGED, forged_block))
    for way, suffixes, run in ways:
        for suffix in suffixes:
            for block in range(getattr(options, way) // PER_BLOCK):
                if (way, suffix, block) in done:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    found = run(suffix, block, PER_BLOCK, Path(folder))
                counts = {name: found.get(name, 0) for name in OUTCOMES}
                row = {"way": way, "kind": suffix, "block": block, **counts}
                rows.append({**row, "detail": found.get("detail", "")})
                write_text(options.out, as_csv(rows))
    for way, suffixes, _ in ways:
        for suffix in suffixes:
            mine = [row for row in rows if (row["way"], row["kind"]) == (way, suffix)]
            totals = {name: sum(int(row[name]) for row in mine) for name in OUTCOMES}
            told = ", ".join(f"{count} {name}" for name, count in totals.items() if count)
            print(f"{sum(totals.values())} {way} {suffix}: {told}")


if __name__ == "__main__":
    main()
