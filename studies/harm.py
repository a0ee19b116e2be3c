"""Where calibrated probabilities lose, and whether that is said: ``python -m studies.harm``.

A fit does harm where the log-loss on fresh rows is more than 0.1 nats above that of the better of
the model's own probabilities and the shares of the classes. *drawn* are fair designs of the hostile
generator, of all its shapes, signals and options, judged by their true probabilities; *real* are
the datasets at hand, standardized on the training rows and judged on up to 1,500 others, two
classes and, where there are at most 20, all. Seeds are none of those that the thresholds of
`angcal.estimators.few_labels` were chosen with. Writes a CSV that goes on where it was (``--fresh``
starts again) and a table under ``studies/results/harm``, which docs/fill_study.py puts into
docs/research.md. Half an hour of one core.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    PenaltyWarning,
    PoolWarning,
    RepeatedRowsWarning,
)
from angcal.files import write_text
from angcal.metrics import multiclass_log_loss
from studies import RESULTS
from studies.datasets import available, load
from studies.engine.store import Row, by_cell, numbers, resumed
from studies.engine.tables import markdown, with_minus
from studies.hostile.cases import CHOICES, FAIR, Case, build, draw
from studies.hostile.judge import HARM, harm_of

FOLDER = RESULTS / "harm"
SIZES, DRAWS, CASES = (30, 40, 60, 100, 150, 200), 8, 60
FRESH, MOST_CLASSES, MOST_COLUMNS, FIRST_SEED = 1500, 20, 3500, 770_000
COLUMNS = ("data", "n", "draw", "set", "classes", "model", "told", "over_better", "over_plain")
TELLING = (AngleWarning, RepeatedRowsWarning, PenaltyWarning, PoolWarning)
MODELS = {
    "angular": lambda: AngularCalibratedClassifier(LogisticRegression()),
    "path": AngularLogisticRegressionCV,
}


def fitted(model: Any, X: Any, y: Any, **options: Any) -> bool:
    """Fit, and whether a warning was given that is about probabilities."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **options)
    return any(issubclass(each.category, TELLING) for each in caught)


def trial(data: str, n: int, number: int) -> list[list[object]]:
    """Fits to n rows: sixty drawn designs, or every real task by every model."""
    rng = np.random.default_rng([FIRST_SEED, n, number])
    return list(drawn(n, rng) if data == "drawn" else real(n, rng))


def drawn(n: int, rng: np.random.Generator) -> Iterator[list[object]]:
    """Fair cases of the hostile generator that fit."""

    def chosen(name: str, first: float) -> str:
        fair = [each for each in CHOICES[name] if name not in FAIR or each in FAIR[name]]
        return fair[0] if rng.random() < first else str(rng.choice(fair))

    for _ in range(CASES):
        case = Case(
            model=str(rng.choice(["angular", "path", "penalties", "folds"])),
            base=chosen("base", 0.3),
            design=chosen("design", 0.1),
            **{name: chosen(name, 0.85) for name in ("weights", "pool", "covariance", "link")},
            n=n,
            d=int(rng.choice([1, 2, 3, 5, 10, 20, 40, 80, 150])),
            n_classes=int(rng.choice([2, 2, 2, 3, 4, 6])),
            signal=float(rng.choice([0.0, 0.5, 2.0, 5.0, 20.0])),
            rare=bool(rng.integers(2)),
            seed=int(rng.integers(2**32)),
        )
        found = draw(case)
        weights = {} if found.weights is None else {"sample_weight": found.weights}
        try:
            model = build(case, found)
            told = fitted(model, found.X, found.y, **weights)
            harm = harm_of(model, found, np.asarray(model.predict_proba(found.fresh)), case)
        except (ValueError, TypeError):
            continue  # refused
        yield [case.design, case.n_classes, case.model, int(told), harm, np.nan]


def real(n: int, rng: np.random.Generator) -> Iterator[list[object]]:
    """Every task of the datasets at hand, under every model."""
    for name in available():
        data = load(name, download=False)
        if data.X.shape[1] > MOST_COLUMNS or data.X.shape[0] < n + 100:
            continue
        for y in tasks(data):
            order = rng.permutation(np.flatnonzero(y != ""))
            rows, others = order[:n], order[n : n + FRESH]
            others = others[np.isin(y[others], y[rows])]
            if len(np.unique(y[rows])) < 2:
                continue
            X, fresh = (dense(data.X[part]) for part in (rows, others))
            moving = X.std(axis=0) > 0
            scaler = StandardScaler().fit(X[:, moving])
            X, fresh = scaler.transform(X[:, moving]), scaler.transform(fresh[:, moving])
            for kind, make in MODELS.items():
                yield [
                    name,
                    len(np.unique(y[rows])),
                    kind,
                    *judged(make(), X, y[rows], fresh, y[others]),
                ]


def tasks(data: Any) -> Iterator[np.ndarray]:
    """Labels of two classes, and of all where these are few; "" where a row has none."""
    if data.y is not None:
        yield np.where(data.labeled, data.y.astype(str), "")
    if data.labels is not None:
        labels = np.asarray(data.labels).astype(str)
        if 3 <= len(np.unique(labels)) <= MOST_CLASSES:
            yield labels


def dense(rows: Any) -> np.ndarray:
    """As an array of floats."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def judged(model: Any, X: Any, y: Any, fresh: Any, truth: Any) -> list[object]:
    """(told, log-loss over that of the better of plain and shares, over plain)."""
    told = fitted(model, X, y)
    scores = fresh @ model.coef_.T + model.intercept_
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores])
    shares = np.tile(np.mean(y[:, None] == model.classes_, axis=0), (len(fresh), 1))
    codes = np.searchsorted(model.classes_, truth)
    own, plain, shared = (
        multiclass_log_loss(codes, np.clip(p, 1e-15, 1.0))
        for p in (model.predict_proba(fresh), softmax(scores, axis=1), shares)
    )
    return [int(told), float(own - min(plain, shared)), float(own - plain)]


def table(measured: list[Row]) -> str:
    """One line for each size: how many fits are told of, how many lose, how many in silence."""
    lines = []
    for (data, n), rows in by_cell(measured, ("data", "n")).items():
        told, harm = numbers(rows, "told"), numbers(rows, "over_better") > HARM
        gain = numbers(rows, "over_plain")
        shown = with_minus(f"{gain.mean():+.3f}") if np.all(np.isfinite(gain)) else ""
        silent = f"{int(np.sum(harm & (told == 0)))} of {int(np.sum(told == 0))}"
        lines.append(
            (data, n, str(len(rows)), f"{told.mean():.0%}", f"{harm.mean():.1%}", silent, shown)
        )
    header = ("data", "n", "fits", "a word is said", "harm", "harm without a word", "over plain")
    return markdown(header, lines)


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    options = parser.parse_args()
    designs = [(kind, n, k) for k in range(DRAWS) for kind in ("drawn", "real") for n in SIZES]
    measured = resumed(FOLDER / "harm.csv", COLUMNS, designs, trial, options.fresh)
    measured.sort(key=lambda row: (row["data"], int(row["n"])))
    write_text(FOLDER / "harm.md", table(measured) + "\n")
    print(table(measured))


if __name__ == "__main__":
    main()
