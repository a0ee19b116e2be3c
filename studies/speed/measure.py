"""Time contenders on one case, side by side: alternating order, the same threads, the same data."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Timing:
    """Seconds on the wall and of this process (all threads), and the warnings on the way."""

    wall: float
    process: float
    warnings: str = ""

    def as_row(self) -> Row:
        """Columns of a CSV row; a microsecond is finer than any of it repeats."""
        return {
            "wall": round(self.wall, 6),
            "process": round(self.process, 6),
            "warnings": self.warnings,
        }


def timed(call: Callable[[], Result]) -> tuple[Result, Timing]:
    """What the call returns and what it cost; collected garbage is not part of it."""
    gc.collect()
    # Threads of a BLAS spin for some time after their last work. A pause keeps those of one
    # contender from slowing the next.
    time.sleep(PAUSE)
    with warnings.catch_warnings(record=True, action="always") as caught:
        process, wall = time.process_time(), time.perf_counter()
        result = call()
        seconds = (time.perf_counter() - wall, time.process_time() - process)
    names = sorted({warning.category.__name__ for warning in caught})
    return result, Timing(*seconds, ";".join(names))


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
    X = problem.X if part.rows is None else problem.X[part.rows]
    y = (problem.y if part.rows is None else problem.y[part.rows]).astype(np.float64)
    strength = 1.0 / (part.C * len(y))
    fit = LinearFit(
        X,
        y,
        np.ones(len(y)),
        part.coef,
        part.intercept,
        Logistic(),
        Ridge(strength),
        fit_intercept=True,
    )
    slopes, intercept = fit.kkt_residual
    return max(float(np.abs(slopes).max()), abs(intercept))


def alternating(
    calls: Mapping[str, Callable[[], Any]], repeats: int
) -> Iterator[tuple[int, str, Any, Timing]]:
    """(repeat, name, result, cost) of every call, in an order that changes with the repeat."""
    names = list(calls)
    for repeat in range(repeats):
        for position in order(len(names), repeat):
            yield repeat, names[position], *timed(calls[names[position]])


def _fit_and_ask(model: Any, problem: Problem) -> Any:
    """Fit, then one probability: whatever is put off until the first prediction counts too."""
    model.fit(problem.X, problem.y)
    positive_probability(model, problem.X[:1])
    return model


def measure(
    contenders: Sequence[Contender], problem: Problem, repeats: int, threads: int
) -> tuple[list[Row], dict[str, Any]]:
    """(rows of the CSV, the fitted model of each contender)."""
    rows: list[Row] = []
    fitted: dict[str, Any] = {}
    norms: dict[str, float] = {}
    for repeat in range(repeats):
        for position in order(len(contenders), repeat):
            contender = contenders[position]
            if repeat >= contender.repeats(problem.case, repeats):
                continue
            unfitted = contender.make(problem)
            model, timing = timed(partial(_fit_and_ask, unfitted, problem))
            if contender.name not in norms:
                # The same data and no randomness: every repeat ends at the same point.
                norms[contender.name] = gradient_norm(linear_parts(model, problem), problem)
                fitted[contender.name] = model
            row = {"case": problem.case.name, "contender": contender.name, "repeat": repeat}
            row |= timing.as_row()
            row |= {"gradient_norm": f"{norms[contender.name]:.3g}", "tol": problem.case.tol}
            rows.append(row | {"threads": threads})
    return rows, fitted
