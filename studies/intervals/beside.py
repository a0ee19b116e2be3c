r"""angcal's intervals beside Venn–Abers predictors, MAPIE and the bootstrap, with their costs.

Gaussian rows, d = 100, labels by sigmoid(3t + 1), the ridge of strength ½ of the other tables. Two
truths of each fresh row: its own probability, and the calibrated one of its prediction, E[P | p],
which is the logistic cubic in logit p that is nearest to the true probabilities of many rows. Every
method is judged by its own predictions p.

venn-abers (inductive, on a third of the rows; and cross, in five folds) and MAPIE's calibrator of
the same name give p0 and p1, which have no level. MAPIE's conformal regression is of the label: an
interval for y, not for its probability. The bootstrap takes the 5 % and 95 % quantiles of the
probabilities of 200 refits to drawn rows, of the plain model as its users do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression, Ridge

from angcal import AngularCalibratedClassifier
from angcal._typing import Floats
from angcal.simulation import simulate
from studies.engine.store import Row, by_cell, numbers
from studies.engine.tables import markdown, mean_text
from studies.intervals.real import true_curve
from studies.intervals.simulated import LINK, STRENGTH, D

Found = tuple[Floats, Floats, Floats]
"""Prediction, lower and upper end of each row."""
REFITS, FOLDS, CONFIDENCE = 200, 5, 0.9
PER_BLOCK, FRESH, JUDGED, FIRST_SEED = 10, 4000, 200, 800_000
RATIOS, BLOCKS = (0.5, 1.0, 2.0, 4.0), 15
COLUMNS = ("n/d", "method", "block", "curve", "row", "width")


def base(n: int) -> LogisticRegression:
    """The ridge of strength ½ for n rows."""
    return LogisticRegression(C=D / (n * STRENGTH), tol=1e-6, max_iter=1000)


def _angcal(kind: str, X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    model = AngularCalibratedClassifier(base(len(y))).fit(X, y)
    low, high = model.predict_interval(new, kind, CONFIDENCE).T
    return model.predict_proba(new)[:, 1], low, high


def _inductive(X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    options = {"inductive": True, "cal_size": 1 / 3, "random_state": seed, "stratify": y}
    return _two_ends(import_module("venn_abers").VennAbersCalibrator, options, X, y, new)


def _cross(X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    options = {"inductive": False, "n_splits": FOLDS, "random_state": seed}
    return _two_ends(import_module("venn_abers").VennAbersCalibrator, options, X, y, new)


def _mapie_calibrator(X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    options = {"inductive": False, "n_splits": FOLDS, "random_state": seed}
    return _two_ends(import_module("mapie.calibration").VennAbersCalibrator, options, X, y, new)


def _two_ends(
    kind: Callable[..., object],
    options: Mapping[str, object],
    X: Floats,
    y: np.ndarray,
    new: Floats,
) -> Found:
    """p0 and p1; of several folds their means."""
    model = kind(base(len(y)), **options)
    model.fit(X, y)  # type: ignore[attr-defined]
    p, ends = model.predict_proba(new, p0_p1_output=True)  # type: ignore[attr-defined]
    ends = np.asarray(ends[0] if isinstance(ends, list) else ends)
    low, high = (part.mean(axis=1) for part in np.split(ends, 2, axis=1))
    return p[:, 1], low, high


def _mapie_regression(X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    regressor = import_module("mapie.regression").CrossConformalRegressor(
        Ridge(alpha=len(y) * STRENGTH / D / 4.0),  # as strong for p(1 − p) = 1/4
        confidence_level=CONFIDENCE,
        cv=FOLDS,
        random_state=seed,
    )
    regressor.fit_conformalize(X, y.astype(float))
    p, ends = regressor.predict_interval(new)
    low, high = np.clip(ends[:, :, 0].T, 0.0, 1.0)
    return np.clip(p, 0.0, 1.0), low, high


def _bootstrap(X: Floats, y: np.ndarray, new: Floats, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    found: list[Floats] = []
    while len(found) < REFITS:
        rows = rng.integers(0, len(y), len(y))
        if len(np.unique(y[rows])) == 2:
            found.append(base(len(y)).fit(X[rows], y[rows]).predict_proba(new)[:, 1])
    low, high = np.quantile(found, [0.5 - 0.5 * CONFIDENCE, 0.5 + 0.5 * CONFIDENCE], axis=0)
    return base(len(y)).fit(X, y).predict_proba(new)[:, 1], low, high


Method = Callable[[Floats, np.ndarray, Floats, int], Found]
METHODS: dict[str, tuple[Method, int, str]] = {
    "angcal, of the curve": (lambda *given: _angcal("curve", *given), 1, ""),
    "angcal, of the row": (lambda *given: _angcal("row", *given), 1, ""),
    "venn-abers, p0 to p1": (_inductive, 1, "venn_abers"),
    "venn-abers, cross, p0 to p1": (_cross, FOLDS, "venn_abers"),
    "MAPIE, Venn–Abers, cross, p0 to p1": (_mapie_calibrator, FOLDS, "mapie"),
    "MAPIE, conformal, of the label": (_mapie_regression, FOLDS + 1, "mapie"),
    "bootstrap of the plain model": (_bootstrap, REFITS + 1, ""),
}
"""How each is made, how many fits it takes, and the package it needs."""


def missing() -> list[str]:
    """Packages that are not here; methods that need them are skipped."""
    needed = dict.fromkeys(package for _, _, package in METHODS.values() if package)
    return [name for name in needed if find_spec(name) is None]


def designs() -> list[tuple[object, ...]]:
    """(n/d, method, block)."""
    absent = missing()
    return [
        (ratio, name, number)
        for number in range(BLOCKS)
        for ratio in RATIOS
        for name, (_, _, package) in METHODS.items()
        if package not in absent
    ]


def block(ratio: float, name: str, number: int) -> list[list[object]]:
    """Means over a block of draws, the same for every method."""
    seeds = [FIRST_SEED + number * PER_BLOCK + k for k in range(PER_BLOCK)]
    found = [draw(METHODS[name][0], round(ratio * D), seed) for seed in seeds]
    return [[float(value) for value in np.mean(found, axis=0)]]


def draw(method: Method, n: int, seed: int) -> tuple[float, float, float]:
    """Shares of both truths within the intervals, and the mean width."""
    data = simulate(n, D, link=LINK, random_state=seed)
    X, _, _, own = data.sample(FRESH, random_state=seed, return_truth=True)
    p, low, high = method(data.X, data.y, X, seed)
    some, index = slice(0, JUDGED), logit(np.clip(p, 1e-6, 1.0 - 1e-6))
    constant = index.std() < 1e-9
    curve = np.full(JUDGED, own.mean()) if constant else true_curve(index, own, index[some])
    low, high = low[some], high[some]
    inside = [np.mean((low <= truth) & (truth <= high)) for truth in (curve, own[some])]
    return float(inside[0]), float(inside[1]), float(np.mean(high - low))


def summary(rows: list[Row]) -> str:
    """Markdown: one line for each method and n/d."""
    lines, cells = [], by_cell(rows, COLUMNS[:2])
    for ratio in RATIOS:
        for name, (_, fits, _) in METHODS.items():
            mine = cells.get((str(ratio), name), [])
            if not mine:
                continue
            shares = [mean_text(100 * numbers(mine, truth), 1) for truth in ("curve", "row")]
            width = numbers(mine, "width").mean()
            draws = str(PER_BLOCK * len(mine))
            lines.append((f"{ratio:g}", name, str(fits), *shares, f"{width:.2f}", draws))
    header = (
        "n/d",
        "method",
        "fits",
        "calibrated P within",
        "row's own P within",
        "width",
        "draws",
    )
    return markdown(header, lines) + "\n"
