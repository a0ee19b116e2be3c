"""Intervals on simulated rows: how many truths they hold.

Gaussian rows, labels by sigmoid(3t + 1), a ridge fit of strength ½, d = 100 and n from d/2 to 4d:
the designs of the theory tests, on seeds of their own. For fresh rows the true curve F and the true
probability of the row are known; the table says how many of them lie within their interval. Three
classes have a softmax of indices of standard deviation 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, Logit
from angcal._typing import Floats
from angcal.links.multiclass import Softmax
from angcal.multiclass import angular_predictor
from angcal.simulation import simulate, simulate_multiclass
from studies.engine.store import Row, by_cell, numbers
from studies.engine.tables import markdown, mean_text

D, FRESH, POOL, PER_BLOCK, FIRST_SEED = 100, 100, 500, 25, 700_000
LINK, STRENGTH, N_CLASSES = Logit(3.0, 1.0), 0.5, 3
LEVELS = (0.5, 0.8, 0.9, 0.95)
PERCENT = [f"{level:.0%}".replace("%", " %") for level in LEVELS]
WIDTH_AT = 0.9
RATIOS = (0.5, 1.0, 2.0, 4.0)
# what is known, draws: 2,000 where the aim is 3 points, of which 300 leave up to 2 to chance
SETTINGS = {
    "labels alone": 2000,
    "pool": 2000,
    "link and pool": 300,
    "link and covariance": 300,
    "labels alone, 3 classes": 300,
}
KINDS = ("curve", "row")
MEASURES = tuple(f"{kind} {what}" for kind in KINDS for what in (*LEVELS, "width"))
COLUMNS = ("known", "n/d", "block", *MEASURES)


def designs() -> list[tuple[object, ...]]:
    """(what is known, n/d, number of the block), so that one that stops has some of every cell."""
    return [
        (known, ratio, number)
        for number in range(max(SETTINGS.values()) // PER_BLOCK)
        for known, draws in SETTINGS.items()
        for ratio in RATIOS
        if number < draws // PER_BLOCK
    ]


def judged(ends: Callable[[str, float], Floats], truths: Mapping[str, Floats]) -> dict[str, float]:
    """Shares of the truths of each kind within their intervals at all levels, and widths."""
    found = {}
    for kind, truth in truths.items():
        for level in LEVELS:
            low, high = np.moveaxis(ends(kind, level), -1, 0)
            found[f"{kind} {level}"] = float(np.mean((low <= truth) & (truth <= high)))
            if level == WIDTH_AT:
                found[f"{kind} width"] = float(np.mean(high - low))
    return found


def means(draws: list[dict[str, float]]) -> list[object]:
    """Of every measure."""
    return [float(np.mean([each[name] for each in draws])) for name in MEASURES]


def draw(known: str, n: int, seed: int) -> dict[str, float]:
    """One fit of two classes."""
    data = simulate(n, D, link=LINK, random_state=seed)
    clf = AngularCalibratedClassifier(
        LogisticRegression(C=D / (n * STRENGTH), tol=1e-6, max_iter=1000),
        link=LINK if "link" in known else None,
        covariance=data.covariance.apply(np.eye(D)) if "covariance" in known else None,
        pool=data.pool(POOL, random_state=seed) if "pool" in known else None,
    ).fit(data.X, data.y)
    X, _, _, own = data.sample(FRESH, random_state=seed, return_truth=True)
    coef, intercept = clf.coef_[0], float(clf.intercept_[0])
    curve = data.calibrated_curve(X @ coef + intercept, coef, intercept)
    return judged(lambda *what: clf.predict_interval(X, *what), {"curve": curve, "row": own})


def draw_classes(n: int, seed: int) -> dict[str, float]:
    """One fit of three classes."""
    data = simulate_multiclass(n, D, n_indices=N_CLASSES, signal=3.0, random_state=seed)
    base = LogisticRegression(C=D / n, tol=1e-6, max_iter=1000)
    clf = AngularCalibratedClassifier(base).fit(data.X, data.y)
    fresh = data.fresh(FRESH, random_state=seed)
    truth = angular_predictor(
        Softmax(N_CLASSES),
        data.cross_covariance(clf.coef_),
        data.score_covariance(clf.coef_),
        data.index_covariance,
    )
    curve = truth.predict(fresh.X @ clf.coef_.T / data.norms(clf.coef_))
    truths = {"curve": curve, "row": fresh.probability}
    return judged(lambda *what: clf.predict_interval(fresh.X, *what), truths)


def block(known: str, ratio: float, number: int) -> list[list[object]]:
    """Means over a block of draws; those without signal or a stable angle count as they are."""
    n = round(ratio * D)
    seeds = [FIRST_SEED + number * PER_BLOCK + k for k in range(PER_BLOCK)]
    found = [
        draw_classes(n, seed) if "classes" in known else draw(known, n, seed) for seed in seeds
    ]
    return [means(found)]


def summary(rows: list[Row]) -> str:
    """Markdown: coverage in percent for each level, and the mean width at 90 %."""
    lines, cells = [], by_cell(rows, COLUMNS[:2])
    for kind, known, ratio in product(KINDS, SETTINGS, RATIOS):
        mine = cells.get((known, str(ratio)), [])
        if not mine:
            continue
        shares = [mean_text(100 * numbers(mine, f"{kind} {level}"), 1) for level in LEVELS]
        width = f"{numbers(mine, f'{kind} width').mean():.2f}"
        lines.append((kind, known, f"{ratio:g}", str(PER_BLOCK * len(mine)), *shares, width))
    return markdown(("of", "known", "n/d", "draws", *PERCENT, "width at 90 %"), lines) + "\n"
