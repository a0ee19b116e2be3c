"""predict_proba on very many rows: ours against LogisticRegression's, alternating."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from angcal import AngularCalibratedClassifier
from angcal._typing import Floats
from angcal.curve import angular_probability
from studies.speed.cases import Case, draw, gaussian_truth
from studies.speed.contenders import BASE, OURS, logistic
from studies.speed.measure import Row, alternating

TRAINING_ROWS, CHECKED_ROWS = 2000, 10_000


def many_rows(n: int, d: int, dtype: str) -> np.ndarray:
    """n rows in memory, drawn as 10,000 that repeat: prediction costs the same."""
    block, _ = draw(gaussian_truth(d, 0), min(n, CHECKED_ROWS), dtype, np.random.default_rng(1))
    rows = np.empty((n, d), dtype=dtype)
    for start in range(0, n, len(block)):
        rows[start : start + len(block)] = block[: n - start]
    return rows


def table_gap(model: Any, p: Floats, X: np.ndarray) -> float:
    """Largest |predict_proba − F(u)|, F by the formula: what tabulating the curve costs."""
    scores = X.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
    standard = model.scale_.standardize(scores)
    exact = sum(
        part.weight * angular_probability(part.link, part.cosine, standard)
        for part in model.curve_.as_parts()
    )
    return float(np.abs(p - exact).max())


def measure_predictions(n: int, d: int, dtype: str, repeats: int, threads: int) -> list[Row]:
    """Rows of predict.csv for one precision."""
    case = Case(TRAINING_ROWS, d, 0.01, dtype=dtype)
    X, y = draw(gaussian_truth(d, 0), case.n, dtype, np.random.default_rng(0))
    with warnings.catch_warnings(action="ignore"):
        models = {
            BASE: logistic(case).fit(X, y),
            OURS: AngularCalibratedClassifier(logistic(case)).fit(X, y),
        }
    new = many_rows(n, d, dtype)
    gap = table_gap(
        models[OURS], models[OURS].predict_proba(new[:CHECKED_ROWS])[:, 1], new[:CHECKED_ROWS]
    )
    ready = {name: partial(models.get, name) for name in models}
    rows = []
    name = predict_name(n, d, dtype)
    for row, _ in alternating(name, ready, lambda model: model.predict_proba(new), repeats):
        seen = f"{gap:.2g}" if row["contender"] == OURS else ""
        rows.append(row | {"table_gap": seen, "bytes": new.nbytes, "threads": threads})
    return rows


def predict_name(n: int, d: int, dtype: str) -> str:
    """Name of the case."""
    return f"{n}x{d} {dtype}"
