"""Time contenders on one case, side by side: alternating order, the same threads, the same data."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from angcal import Logistic, Ridge
from angcal.problem import LinearFit
from studies.speed.cases import Problem
from studies.speed.contenders import Contender, LinearPart, linear_parts, positive_probability

Row = dict[str, Any]
Result = TypeVar("Result")

PAUSE = 0.15


def timed(call: Callable[[], Result]) -> tuple[Result, Row]:
    """What the call returns, and its seconds on the wall and of this process (all threads).

    Collected garbage is not part of them. A microsecond is finer than any of it repeats.
    """
    gc.collect()
    # Threads of a BLAS spin for some time after their last work. A pause keeps those of one
    # contender from slowing the next.
    time.sleep(PAUSE)
    with warnings.catch_warnings(record=True, action="always") as caught:
        process, wall = time.process_time(), time.perf_counter()
        result = call()
        wall, process = time.perf_counter() - wall, time.process_time() - process
    names = sorted({warning.category.__name__ for warning in caught})
    return result, {
        "wall": round(wall, 6),
        "process": round(process, 6),
        "warnings": ";".join(names),
    }


def stopwatch(
    call: Callable[[], Result],
    repeats: int = 1,
    wait: Callable[[], Any] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[float], Result]:
    """Seconds of every call, and the last result; ``wait`` is for what a device still does."""
    seconds = []
    for _ in range(repeats):
        wait()
        start = clock()
        result = call()
        wait()
        seconds.append(clock() - start)
    return seconds, result


def in_turn(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of every call; they take turns, so that what else runs meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name] += stopwatch(call, clock=clock)[0]
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def order(count: int, repeat: int) -> list[int]:
    """Positions 0 … count−1, forwards and backwards in turn, started elsewhere each second time.

    >>> order(3, 0), order(3, 1), order(3, 2)
    ([0, 1, 2], [2, 1, 0], [1, 2, 0])
    """
    rotated = [(position + repeat // 2) % count for position in range(count)]
    return rotated[::-1] if repeat % 2 else rotated


def gradient_norm(parts: Sequence[LinearPart], problem: Problem) -> float:
    """‖∇J‖∞ of J = (1/n)Σ log-loss + ‖w‖²/(2Cn): the largest among a contender's linear models."""
    return max(_norm(part, problem) for part in parts)


def _norm(part: LinearPart, problem: Problem) -> float:
    rows = slice(None) if part.rows is None else part.rows
    X, y = problem.X[rows], problem.y[rows].astype(np.float64)
    penalty = Ridge(1.0 / (part.C * len(y)))
    ones = np.ones(len(y))
    fit = LinearFit(X, y, ones, part.coef, part.intercept, Logistic(), penalty, fit_intercept=True)
    slopes, intercept = fit.kkt_residual
    return max(float(np.abs(slopes).max()), abs(intercept))


def alternating(
    case: str,
    models: Mapping[str, Callable[[], Any]],
    work: Callable[[Any], Any],
    repeats: int,
    most: Mapping[str, int] | None = None,
) -> Iterator[tuple[Row, Any]]:
    """(row of the CSV, model) of every contender, in an order that changes with the repeat.

    Only the work with a model is timed, not its making; ``most`` has lower numbers of repeats.
    """
    names = list(models)
    for repeat in range(repeats):
        for position in order(len(names), repeat):
            name = names[position]
            if repeat < (most or {}).get(name, repeats):
                model = models[name]()
                _, timing = timed(partial(work, model))
                yield {"case": case, "contender": name, "repeat": repeat} | timing, model


def measure(
    contenders: Sequence[Contender], problem: Problem, repeats: int, threads: int
) -> tuple[list[Row], dict[str, Any]]:
    """(rows of the CSV, the fitted model of each contender)."""

    def fit_and_ask(model: Any) -> None:
        # One probability: whatever is put off until the first prediction counts too.
        positive_probability(model.fit(problem.X, problem.y), problem.X[:1])

    rows: list[Row] = []
    fitted: dict[str, Any] = {}
    norms: dict[str, str] = {}
    models = {contender.name: partial(contender.make, problem) for contender in contenders}
    most = {contender.name: contender.repeats(problem.case, repeats) for contender in contenders}
    for row, model in alternating(problem.case.name, models, fit_and_ask, repeats, most):
        name = row["contender"]
        if name not in norms:
            # The same data and no randomness: every repeat ends at the same point.
            norms[name] = f"{gradient_norm(linear_parts(model, problem), problem):.3g}"
            fitted[name] = model
        more = {"gradient_norm": norms[name], "tol": problem.case.tol, "threads": threads}
        rows.append(row | more)
    return rows, fitted
