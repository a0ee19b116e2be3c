"""Forecasts of learning curves from pilots: ``python -m studies.planner``.

For every real set of two classes with enough rows and every split: a pilot, forecasts of what 2, 4
and 8 times its labels will reach, and what fits to so many labels do reach on other rows. The CSV
goes on where it was (``--fresh`` starts again). The table is
``studies/results/planner/planner.md``, which docs/fill_study.py puts into docs/planner.md. Sets are
in two halves by a hash of their names: what the planner has to choose was chosen on the first.
"""

from __future__ import annotations

import argparse
import hashlib
import time
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from angcal import AngularLogisticRegressionCV
from angcal._typing import Floats
from angcal.files import write_text
from angcal.planner import plan_from_pilot
from angcal.planner.forecast import WIDENING
from studies import RESULTS
from studies.datasets import available, load
from studies.engine.store import as_csv, read_csv
from studies.engine.tables import markdown

FOLDER = RESULTS / "planner"
FACTORS = (1, 2, 4, 8)
COLUMNS = ("set", "half", "split", "n", "d", "factor", "method")
MEASURES = ("log_loss", "accuracy")
NUMBERS = (*MEASURES, "log_loss_sd", "accuracy_sd", "seconds")
METHODS = ("planner", "equations", "power law, leave-one-out", "power law, held out", "no change")
Row = dict[str, str]


def half_of(name: str) -> str:
    """first or second, by the name alone."""
    return "first" if hashlib.sha256(name.encode()).digest()[0] % 2 == 0 else "second"


loaded = lru_cache(maxsize=1)(load)


def split_of(name: str, number: int) -> tuple[Any, ...] | None:
    """(X, y) in random order, pilot's n, and rows of the test; None where a set is too small."""
    data = loaded(name)
    kept = np.flatnonzero(data.labelled)
    if data.y is None or len(kept) < 1500:
        return None
    rng = np.random.default_rng([number, *name.encode()])
    rows = rng.permutation(kept)[:6000]
    y = data.y[rows]
    X = data.X[rows]
    X = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)
    n = 100 if min(y.mean(), 1.0 - y.mean()) > 0.12 else 200
    if 8 * n + 300 > len(rows):
        n = (len(rows) - 400) // 8
    return X, y, n, slice(8 * n, 8 * n + 1500)


def fitted_at(X: Floats, y: np.ndarray, n: int, test: Any) -> tuple[float, float]:
    """(log-loss, accuracy) on the test rows of a fit to the first n."""
    model = AngularLogisticRegressionCV(Cs=10).fit(X[:n], y[:n])
    return judged(model.predict_proba(X[test])[:, 1], y[test])


def judged(p: Floats, y: np.ndarray) -> tuple[float, float]:
    """(log-loss, accuracy)."""
    own = np.clip(np.where(y == 1, p, 1.0 - p), 1e-6, 1.0)
    return float(-np.mean(np.log(own))), float(np.mean((p > 0.5) == (y == 1)))


def held_out_law(X: Floats, y: np.ndarray, n: Floats) -> dict[str, Floats]:
    """a + b/√n through losses of parts of the pilot on its other rows: the usual way."""
    rng, found = np.random.default_rng(1), []
    for share in (0.4, 0.6, 0.8):
        for _ in range(6):
            order = rng.permutation(len(y))
            size = round(share * len(y))
            kept, rest = order[:size], order[size:]
            if min(np.bincount(y[kept], minlength=2)) < 2:
                continue
            model = AngularLogisticRegressionCV(Cs=6).fit(X[kept], y[kept])
            found.append((size, *judged(model.predict_proba(X[rest])[:, 1], y[rest])))
    sizes, *values = np.array(found).T
    law = {}
    for name, each in zip(MEASURES, values, strict=True):
        sign = 1.0 if name == "log_loss" else -1.0
        slope, level = np.polyfit(1.0 / np.sqrt(sizes), sign * each, 1)
        if slope < 0:
            slope, level = 0.0, float(np.mean(sign * each))
        law[name] = sign * (level + slope / np.sqrt(n))
    return law


def trial(name: str, number: int) -> list[Row]:
    """All methods' forecasts at all factors, and what came true."""
    made = split_of(name, number)
    if made is None:
        return []
    X, y, n, test = made
    grid = n * np.array(FACTORS, dtype=float)
    truth = [fitted_at(X, y, factor * n, test) for factor in FACTORS]
    pool = np.vstack([X[: test.start], X[test.stop :]])
    start = time.process_time()
    plan = plan_from_pilot(X[:n], y[:n].astype(float), grid, pool=pool)
    seconds = time.process_time() - start
    law = held_out_law(X[:n], y[:n], grid)
    parts = plan.curve.parts
    forecasts: dict[str, Any] = {
        "actual": dict(zip(MEASURES, np.array(truth).T, strict=True)),
        "planner": {name: getattr(plan, name) for name in MEASURES},
        "equations": {name: parts["equations", name] for name in MEASURES},
        "power law, leave-one-out": {name: parts["power law", name] for name in MEASURES},
        "power law, held out": law,
        "no change": {name: np.full(len(grid), plan.pilot[name]) for name in MEASURES},
    }
    rows = []
    for method, values in forecasts.items():
        for k, factor in enumerate(FACTORS):
            key = (name, half_of(name), number, n, X.shape[1], factor, method)
            sds = [plan.curve.deviations[each][k] / WIDENING for each in MEASURES]
            numbers = [*(values[each][k] for each in MEASURES), *sds, seconds]
            shown = [*map(str, key), *(f"{value:.5g}" for value in numbers)]
            rows.append(dict(zip((*COLUMNS, *NUMBERS), shown, strict=True)))
    return rows


# -- tables --------------------------------------------------------------------------------------


def errors(rows: list[Row], half: str) -> dict[tuple[str, str, int], float]:
    """Root mean square over splits of (forecast − mean actual), mean over sets."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for name in dict.fromkeys(row["set"] for row in rows if row["half"] == half):
        mine = [row for row in rows if row["set"] == name]
        for factor in FACTORS[1:]:
            at = [row for row in mine if row["factor"] == str(factor)]
            for measure in MEASURES:
                true = np.mean([float(r[measure]) for r in at if r["method"] == "actual"])
                for method in METHODS:
                    off = [float(r[measure]) - true for r in at if r["method"] == method]
                    value = float(np.sqrt(np.mean(np.square(off))))
                    found.setdefault((measure, method, factor), []).append(value)
    return {key: float(np.mean(values)) for key, values in found.items()}


def coverage(rows: list[Row], half: str, measure: str) -> float:
    """Share of 80 % intervals that hold the mean actual value, over factors 2, 4 and 8."""
    hits = []
    for row in rows:
        if row["half"] == half and row["method"] == "planner" and row["factor"] != "1":
            true = np.mean(
                [
                    float(other[measure])
                    for other in rows
                    if (other["set"], other["factor"], other["method"])
                    == (row["set"], row["factor"], "actual")
                ]
            )
            half_width = 1.2816 * WIDENING * float(row[f"{measure}_sd"])
            hits.append(abs(float(row[measure]) - true) <= half_width + 1e-12)
    return float(np.mean(hits))


def table(rows: list[Row]) -> str:
    """Errors of every method, each half apart, and how often intervals hold the truth."""
    header = ("method", *(f"{m.replace('_', '-')} at {f}×" for m in MEASURES for f in FACTORS[1:]))
    text = []
    for half in ("first", "second"):
        names = sorted({row["set"] for row in rows if row["half"] == half})
        if not names:
            continue
        found = errors(rows, half)
        lines = [
            (method, *(f"{found[m, method, f]:.3f}" for m in MEASURES for f in FACTORS[1:]))
            for method in METHODS
        ]
        cover = [coverage(rows, half, measure) for measure in MEASURES]
        text.append(
            f"{half.capitalize()} half ({len(names)} sets: {', '.join(names)}):\n\n"
            f"{markdown(header, lines)}\n\n80 % intervals of the planner hold the log-loss in "
            f"{cover[0]:.0%} of cases, the accuracy in {cover[1]:.0%}."
        )
    splits = len({row["split"] for row in rows})
    seconds = np.median([float(row["seconds"]) for row in rows])
    text.append(f"{splits} splits of each set; a plan took {seconds:.1f} CPU seconds (median).")
    return "\n\n".join(text) + "\n"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--halves", nargs="*", default=["first", "second"])
    options = parser.parse_args()
    path = FOLDER / "planner.csv"
    rows = [] if options.fresh else read_csv(path)
    done = {(row["set"], row["split"]) for row in rows}
    for name in options.sets or [each for each in available() if half_of(each) in options.halves]:
        for number in range(options.splits):
            if (name, str(number)) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows += trial(name, number)
            write_text(path, as_csv(rows))
            print(name, number, flush=True)
    write_text(FOLDER / "planner.md", table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
