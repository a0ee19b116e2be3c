"""Run the cases of every part that are not there yet, and write their CSV files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from threadpoolctl import threadpool_limits

from studies.speed import path
from studies.speed.accuracy import judge, measure_draw
from studies.speed.cases import Case, Selection, make
from studies.speed.contenders import suited
from studies.speed.floor import measure_floors
from studies.speed.growth import growth_name, measure_growth
from studies.speed.measure import Row, measure
from studies.speed.memory import PARTS as MEMORY_PARTS
from studies.speed.memory import measure_apart
from studies.speed.predict import measure_predictions, predict_name
from studies.speed.stages import survey
from studies.speed.store import MACHINE, Store, describe_machine

# Files that a part leaves besides its own.
BESIDE = {"fit": ("accuracy", "stages")}
# One unit of work: the part it belongs to, its case, and a call that gives rows for each CSV.
Task = tuple[str, str, Callable[[], dict[str, list[Row]]]]


def fit_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """Fits side by side, with accuracy and stages of the same data."""
    for case in selection.fits:

        def work(case: Case = case) -> dict[str, list[Row]]:
            problem = make(case)
            rows, fitted = measure(suited(case, selection), problem, selection.repeats, threads)
            accuracy = judge(fitted, problem)
            # "fit" last: it is what marks a case as finished.
            return {"accuracy": accuracy, "stages": [survey(problem)], "fit": rows}

        yield "fit", case.name, work


def draw_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """The fast path against the exact one over many draws."""
    for case, count in selection.draws:

        def work(case: Case = case, count: int = count) -> dict[str, list[Row]]:
            return {"draws": [measure_draw(case, draw) for draw in range(count)]}

        yield "draws", case.name, work


def floor_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """What the machine can do at best."""
    side = selection.bandwidth_side
    yield "floor", "rates", lambda: {"floor": measure_floors(side, threads)}


def predict_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """predict_proba in both precisions."""
    n, d = selection.predict_rows, selection.predict_columns
    for dtype in ("float64", "float32"):

        def work(dtype: str = dtype) -> dict[str, list[Row]]:
            return {"predict": measure_predictions(n, d, dtype, selection.repeats, threads)}

        yield "predict", predict_name(n, d, dtype), work


def memory_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """Peak memory, each fit in a process of its own."""
    for case, observables in selection.memory:

        def work(case: Case = case, observables: str = observables) -> dict[str, list[Row]]:
            rows = [measure_apart(case, observables, part, threads) for part in MEMORY_PARTS]
            return {"memory": rows}

        yield "memory", f"{case.name} {observables}", work


def growth_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """Sizes in turn; a penalty for which the fast path gives up is not taken further."""
    for penalty, sizes in selection.growth:
        for entries in sizes:
            sides = {row["side"] for row in store.rows("growth") if row["penalty"] == penalty}
            if sides - {"", "randomised"}:
                print(f"growth {penalty}: factorised below {entries:.0e} entries, ends there")
                break

            def work(entries: int = entries, penalty: str = penalty) -> dict[str, list[Row]]:
                rows = measure_growth(entries, penalty, selection.repeats, threads)
                return {"growth": list(rows)}

            yield "growth", growth_name(entries, penalty), work


def path_tasks(selection: Selection, store: Store, threads: int) -> Iterator[Task]:
    """The penalty path, as `studies.speed.path` plans it."""
    for name, scoring, draws in path.plan(quick=selection.name != "full"):
        case = f"{name} by {scoring}"

        def work(
            case: str = case, name: str = name, scoring: str = scoring, draws: int = draws
        ) -> dict[str, list[Row]]:
            return {"path": [{"case": case, **path.row(name, scoring, draws)}]}

        yield "path", case, work


PARTS: dict[str, Callable[[Selection, Store, int], Iterator[Task]]] = {
    "floor": floor_tasks,
    "fit": fit_tasks,
    "predict": predict_tasks,
    "memory": memory_tasks,
    "growth": growth_tasks,
    "path": path_tasks,
    "draws": draw_tasks,
}


def run(selection: Selection, folder: Path, threads: int, only: Sequence[str] = ()) -> list[str]:
    """Run what is not there yet; the names of what the time limit left out."""
    store = Store(folder, describe_machine(threads), list(only or PARTS))
    begin, left_out = time.monotonic(), []
    for part in only or PARTS:
        for kind, case, work in PARTS[part](selection, store, threads):
            if store.has(kind, case):
                continue
            elapsed = time.monotonic() - begin
            if elapsed > 60 * selection.minutes:
                left_out.append(f"{kind} {case}")
                continue
            print(f"[{elapsed:5.0f} s] {kind} {case}", flush=True)
            with threadpool_limits(threads):
                results = work()
            for name, rows in results.items():
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
