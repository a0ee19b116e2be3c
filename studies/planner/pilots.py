"""Forecasts of pilots against what came true: errors, intervals, labels for a target, seconds."""

from __future__ import annotations

import time
import warnings
from itertools import product
from typing import Any

import numpy as np

from angcal import AngularLogisticRegressionCV
from angcal._typing import Floats
from angcal.files import write_text
from angcal.planner import Plan, plan_from_pilot
from studies.datasets import available
from studies.engine.store import as_csv, by_cell, numbers, read_csv
from studies.engine.tables import markdown
from studies.planner.outcomes import (
    FACTORS,
    FOLDER,
    HELD_OUT,
    MEASURES,
    Row,
    all_outcomes,
    as_rows,
    split_of,
)

CELL = ("set", "method", "factor")
METHODS = ("planner", HELD_OUT, "no change")
BARS = {"log_loss": (0.052, 0.056, 0.060), "accuracy": (0.033, 0.034, 0.035)}


# -- forecasts -----------------------------------------------------------------------------------


def trial(name: str, number: int, targets: Floats) -> list[Row]:
    """What the planner says at all factors, and the labels it gives for what came true."""
    X, y, n, test = split_of(name, number)  # type: ignore[misc]
    pool = np.vstack([X[: test.start], X[test.stop :]])
    labels, grid = y[:n].astype(float), n * np.array(FACTORS, dtype=float)
    start = time.process_time()
    AngularLogisticRegressionCV().fit(X[:n], y[:n])
    fitted = time.process_time()
    plan_from_pilot(X[:n], labels, grid)
    planned = time.process_time()
    plan = plan_from_pilot(X[:n], labels, grid, pool=pool)
    seconds = {"fit_seconds": fitted - start, "plan_seconds": planned - fitted}
    seconds["pool_seconds"] = time.process_time() - planned
    values: dict[str, Any] = {measure: getattr(plan, measure) for measure in MEASURES}
    values |= {f"{measure}_half": plan.curve.half(measure, grid) for measure in MEASURES}
    values["needed"] = np.array([_needed(plan, float(each)) for each in targets])
    values |= {key: np.full(len(grid), each) for key, each in seconds.items()}
    same = {measure: np.full(len(grid), plan.pilot[measure]) for measure in MEASURES}
    key = (name, number, n, X.shape[1])
    return [*as_rows(key, "planner", values), *as_rows(key, "no change", same)]


def _needed(plan: Plan, log_loss: float) -> float:
    """Labels for a log-loss; infinity where the plan says that it is beyond reach."""
    try:
        return plan.labels_for(log_loss=log_loss)
    except ValueError:
        return float("inf")


def mean_actual(rows: list[Row], name: str, measure: str) -> Floats:
    """What fits to each number of labels reached, mean over the splits of a set."""
    cells = by_cell(rows, CELL)
    return np.array([numbers(cells[name, "actual", str(f)], measure).mean() for f in FACTORS])


def all_forecasts(splits: int, halves: tuple[str, ...]) -> list[Row]:
    """Rows of every set and split, with those of ``outcomes.csv``; what is missing is made."""
    truth, path = all_outcomes(splits), FOLDER / "forecasts.csv"
    rows = read_csv(path)
    done = {(row["set"], row["split"]) for row in rows}
    wanted = dict.fromkeys((r["set"], r["split"]) for r in truth if r["half"] in halves)
    order = list(available())
    for name, number in sorted(wanted, key=lambda key: (order.index(key[0]), int(key[1]))):
        if (name, number) in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows += trial(name, int(number), mean_actual(truth, name, "log_loss"))
        write_text(path, as_csv(rows))
    return [row for row in truth + rows if row["half"] in halves]


# -- tables --------------------------------------------------------------------------------------


def errors(rows: list[Row], names: list[str]) -> dict[tuple[str, str, int], float]:
    """Root mean square over splits of (forecast − mean actual), mean over sets."""
    found: dict[tuple[str, str, int], list[float]] = {}
    cells = by_cell(rows, CELL)
    for name, measure in product(names, MEASURES):
        true = dict(zip(FACTORS, mean_actual(rows, name, measure), strict=True))
        for method, factor in product(METHODS, FACTORS[1:]):
            off = numbers(cells[name, method, str(factor)], measure) - true[factor]
            value = float(np.sqrt(np.mean(off**2)))
            found.setdefault((measure, method, factor), []).append(value)
    return {key: float(np.mean(values)) for key, values in found.items()}


def coverage(rows: list[Row], names: list[str], measure: str) -> float:
    """Share of 80 % intervals that hold the mean actual value, over factors 2, 4 and 8."""
    hits = []
    for name in names:
        true = dict(zip(FACTORS, mean_actual(rows, name, measure), strict=True))
        for row in rows:
            if row["set"] == name and row["method"] == "planner" and row["factor"] != "1":
                off = abs(float(row[measure]) - true[int(row["factor"])])
                hits.append(off <= float(row[f"{measure}_half"]) + 1e-12)
    return float(np.mean(hits))


def needed_ratios(rows: list[Row], names: list[str]) -> Floats:
    """Labels that the planner gives for what 2, 4 and 8 times the pilot reach, over true ones.

    Only targets that the pilot has not met: a mean log-loss below that of the pilot's size.
    """
    found = []
    for name in names:
        true = mean_actual(rows, name, "log_loss")
        for row in rows:
            if row["set"] == name and row["method"] == "planner" and row["factor"] != "1":
                place = FACTORS.index(int(row["factor"]))
                if true[place] < true[:place].min():
                    found.append(float(row["needed"]) / (int(row["n"]) * FACTORS[place]))
    return np.array(found)


def table(rows: list[Row]) -> str:
    """Errors of every method, each half apart, and what else is asked of the planner."""
    header = ("method", *(f"{m.replace('_', '-')} at {f}×" for m in MEASURES for f in FACTORS[1:]))
    bars = ("asked for", *(f"{each:.3f}" for m in MEASURES for each in BARS[m]))
    text = []
    for half in ("first", "second", "all"):
        names = sorted({row["set"] for row in rows if half in (row["half"], "all")})
        if not names or (half == "all" and len({row["half"] for row in rows}) < 2):
            continue
        found = errors(rows, names)
        lines = [
            (method, *(f"{found[m, method, f]:.3f}" for m in MEASURES for f in FACTORS[1:]))
            for method in METHODS
        ]
        listed = f": {', '.join(names)}" if half != "all" else ""
        title = "Both halves" if half == "all" else f"{half.capitalize()} half"
        cover = [coverage(rows, names, measure) for measure in MEASURES]
        ratio = np.median(needed_ratios(rows, names))
        text.append(
            f"{title} ({len(names)} sets{listed}):\n\n{markdown(header, [*lines, bars])}\n\n"
            f"80 % intervals of the planner hold the log-loss in {cover[0]:.0%} of cases, the "
            f"accuracy in {cover[1]:.0%}. Labels needed for what 2, 4 and 8 times the pilot "
            f"reach: median ratio of predicted to true {ratio:.2f}."
        )
    return "\n\n".join([*text, seconds_sentence(rows)]) + "\n"


def seconds_sentence(rows: list[Row]) -> str:
    """What a plan takes, in CPU seconds and in fits."""
    own = [row for row in rows if row["method"] == "planner" and row["factor"] == "1"]
    fit, plan, pool = (numbers(own, f"{name}_seconds") for name in ("fit", "plan", "pool"))
    splits = len({row["split"] for row in rows})
    return (
        f"{splits} splits of each set. Medians of CPU seconds: a fit of "
        f"`AngularLogisticRegressionCV` {np.median(fit):.3f}, its plan {np.median(plan):.3f} "
        f"({np.median(plan / fit):.1f} fits), with 700 rows of a pool {np.median(pool):.3f}."
    )


def write_table(splits: int, halves: tuple[str, ...]) -> str:
    """Run what is missing and write the table."""
    text = table(all_forecasts(splits, halves))
    write_text(FOLDER / "planner.md", text)
    return text
