"""What pilots of real sets became: losses at 1, 2, 4 and 8 times the labels, and the usual law.

Nothing here knows the planner. Sets are in two halves by a hash of their names: what the planner
has to choose was chosen on the first.
"""

from __future__ import annotations

import hashlib
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from angcal import AngularLogisticRegressionCV
from angcal._typing import Floats
from angcal.files import write_text
from studies import RESULTS
from studies.datasets import available, load
from studies.engine.store import Row, as_csv, read_csv

FOLDER = RESULTS / "planner"
FACTORS = (1, 2, 4, 8)
MEASURES = ("log_loss", "accuracy")
HELD_OUT = "power law, held out"

loaded = lru_cache(maxsize=1)(load)


def half_of(name: str) -> str:
    """first or second, by the name alone."""
    return "first" if hashlib.sha256(name.encode()).digest()[0] % 2 == 0 else "second"


def split_of(name: str, number: int) -> tuple[Any, ...] | None:
    """(X, y) in random order, pilot's n, and rows of the test; None where a set is too small.

    Orders whose pilot has fewer than five of a class, of which nobody would plan, are drawn again.
    """
    data = loaded(name)
    kept = np.flatnonzero(data.labeled)
    if data.y is None or len(kept) < 1500:
        return None
    rng = np.random.default_rng([number, *name.encode()])
    while True:
        rows = rng.permutation(kept)[:6000]
        y = data.y[rows]
        n = 100 if min(y.mean(), 1.0 - y.mean()) > 0.12 else 200
        if 8 * n + 300 > len(rows):
            n = (len(rows) - 400) // 8
        if min(np.bincount(y[:n], minlength=2)) >= 5:
            break
    X = data.X[rows]
    X = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)
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


def as_rows(key: tuple[Any, ...], method: str, values: dict[str, Floats]) -> list[Row]:
    """A row for each factor; `key` is (set, split, n, d)."""
    name, number, n, d = key
    start = {"set": name, "half": half_of(name), "split": str(number), "n": str(n), "d": str(d)}
    rows = []
    for k, factor in enumerate(FACTORS):
        numbers = {measure: f"{each[k]:.5g}" for measure, each in values.items()}
        rows.append(start | {"factor": str(factor), "method": method} | numbers)
    return rows


def outcomes(name: str, number: int) -> list[Row]:
    """What one split came to, and what the usual power law said about it."""
    made = split_of(name, number)
    if made is None:
        return []
    X, y, n, test = made
    truth = np.array([fitted_at(X, y, factor * n, test) for factor in FACTORS]).T
    key = (name, number, n, X.shape[1])
    law = held_out_law(X[:n], y[:n], n * np.array(FACTORS, dtype=float))
    return [
        *as_rows(key, "actual", dict(zip(MEASURES, truth, strict=True))),
        *as_rows(key, HELD_OUT, law),
    ]


def all_outcomes(splits: int) -> list[Row]:
    """Rows of every set and split; what is missing is made and kept in ``outcomes.csv``."""
    path = FOLDER / "outcomes.csv"
    rows = read_csv(path)
    done = {(row["set"], row["split"]) for row in rows}
    for name in available():
        for number in range(splits):
            if (name, str(number)) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = outcomes(name, number)
            if not made:
                break
            rows += made
            write_text(path, as_csv(rows))
    return rows
