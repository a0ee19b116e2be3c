"""Run the cases of every part that are not there yet, and write their CSV files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from studies.speed import path, real_designs
from studies.speed.accuracy import judge, measure_draw
from studies.speed.cases import Case, Selection, make
from studies.speed.command import PARTS
from studies.speed.contenders import suited
from studies.speed.measure import Row, measure
from studies.speed.memory import PARTS as MEMORY_PARTS
from studies.speed.memory import measure_apart
from studies.speed.parts import (
    growth_name,
    measure_floors,
    measure_growth,
    measure_predictions,
    predict_name,
    survey,
)
from studies.speed.store import MACHINE, Store, describe_machine

# Files that a part leaves besides its own.
BESIDE = {"fit": ("accuracy", "stages")}
Task = tuple[str, Callable[[], dict[str, list[Row]] | list[Row]]]
"""A case, and a call that gives its rows: those of the part, or of each CSV file by name."""


def tasks(part: str, selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """The cases of a part."""
    repeats = selection.repeats
    if part == "floor":
        yield "rates", lambda: measure_floors(selection.bandwidth_side, threads)
    elif part == "fit":
        for case in selection.fits:
            yield case.name, partial(_fit, case, selection, threads)
    elif part == "predict":
        n, d = selection.predict_rows, selection.predict_columns
        for dtype in ("float64", "float32"):
            work = partial(measure_predictions, n, d, dtype, repeats, threads)
            yield predict_name(n, d, dtype), work
    elif part == "memory":
        for case, observables in selection.memory:
            yield f"{case.name} {observables}", partial(_memory, case, observables, threads)
    elif part == "growth":
        for entries, penalty in _growing(selection, store):
            work = partial(measure_growth, entries, penalty, repeats, threads)
            yield growth_name(entries, penalty), work
    elif part == "path":
        for planned in path.plan(quick=selection.name != "full"):
            yield path.case_name(*planned), partial(path.rows, *planned)
    elif part == "draws":
        for case, count in selection.draws:
            yield case.name, partial(_draws, case, count)
    else:
        for name in real_designs.names():
            for tuned in (False, True):
                work = partial(real_designs.measure_real, name, tuned)
                yield real_designs.case_name(name, tuned), work


def _fit(case: Case, selection: Selection, threads: int) -> dict[str, list[Row]]:
    """Fits side by side, with accuracy and stages of the same data."""
    problem = make(case)
    rows, fitted = measure(suited(case, selection), problem, selection.repeats, threads)
    # "fit" last: it is what marks a case as finished.
    return {"accuracy": judge(fitted, problem), "stages": [survey(problem)], "fit": rows}


def _memory(case: Case, observables: str, threads: int) -> list[Row]:
    return [measure_apart(case, observables, part, threads) for part in MEMORY_PARTS]


def _draws(case: Case, count: int) -> list[Row]:
    return [measure_draw(case, draw) for draw in range(count)]


def _growing(selection: Selection, store: Store) -> Iterator[tuple[int, str]]:
    """Sizes in turn; a penalty for which the fast path gives up is not taken further."""
    for penalty, sizes in selection.growth:
        for entries in sizes:
            sides = {row["side"] for row in store.rows("growth") if row["penalty"] == penalty}
            if sides - {"", "randomised"}:
                print(f"growth {penalty}: factorized below {entries:.0e} entries, ends there")
                break
            yield entries, penalty


def run(selection: Selection, folder: Path, threads: int, only: Sequence[str] = ()) -> list[str]:
    """Run what is not there yet; the names of what the time limit left out."""
    store = Store(folder, describe_machine(threads), list(only or PARTS))
    begin, left_out = time.monotonic(), []
    for part in only or PARTS:
        for case, work in tasks(part, selection, store, threads):
            if store.has(part, case):
                continue
            elapsed = time.monotonic() - begin
            if elapsed > 60 * selection.minutes:
                left_out.append(f"{part} {case}")
                continue
            print(f"[{elapsed:5.0f} s] {part} {case}", flush=True)
            with threadpool_limits(threads):
                found = work()
            for name, rows in (found if isinstance(found, dict) else {part: found}).items():
                store.add(name, rows)
    return left_out


def forget(folder: Path, parts: Sequence[str]) -> None:
    """Delete earlier results, all of them or those of some parts."""
    if not parts:
        for old in [*folder.glob("*.csv"), folder / MACHINE]:
            old.unlink(missing_ok=True)
    for part in parts:
        for name in (part, *BESIDE.get(part, ())):
            (folder / f"{name}.csv").unlink(missing_ok=True)
