"""Other shares of the classes: ``python -m studies.prevalence``.

Models are fitted at one prevalence and predict at another, known or estimated from 2000 rows
without labels. Beside them the same model with Platt's map of its scores fitted to as many labels
of the target (*recalibrated*), and a model that is fitted to these labels (*refitted*). Writes a
CSV that goes on where it was (``--fresh`` starts again) and tables under
``studies/results/prevalence``, which docs/fill_study.py puts into docs/guide/prevalence.md. Three
minutes of one core.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np
from scipy.optimize import brentq, root
from scipy.special import expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from angcal import AngularCalibratedClassifier, ScoreCalibratedClassifier
from angcal._typing import Floats
from angcal.estimators.prevalence import Prevalence
from angcal.files import write_text
from angcal.metrics import multiclass_log_loss
from studies import RESULTS
from studies.engine.store import Row, by_cell, numbers, resumed
from studies.engine.tables import markdown, mean_and_error, with_error, with_minus

FOLDER = RESULTS / "prevalence"
SCALE, TARGET_ROWS, TARGETS, DRAWS = 2.0, 2000, 10, 12
WAYS = ("as trained", "given", "estimated", "recalibrated", "refitted")
COLUMNS = (
    *("n", "d", "trained", "target", "draw", *WAYS),
    *("share", "error", "of_rows", "spread", "rejected"),
)
SHARES = {
    "0.5": (0.5, 0.5),
    "0.02": (0.98, 0.02),
    "even thirds": (1 / 3, 1 / 3, 1 / 3),
    "0.7, 0.2, 0.1": (0.7, 0.2, 0.1),
}
SHIFTS = (
    *(("0.5", "0.02"), ("0.02", "0.5"), ("0.5", "0.5")),
    *(("even thirds", "0.7, 0.2, 0.1"), ("0.7, 0.2, 0.1", "even thirds")),
)


def designs() -> list[tuple[object, ...]]:
    """(n, d, shares in training, shares of the target, draw)."""
    return [
        (n, d, trained, target, number)
        for n, d in ((20000, 5), (2000, 50), (2000, 1000))
        for trained, target in SHIFTS
        for number in range(DRAWS)
    ]


@cache
def offsets_for(shares: tuple[float, ...]) -> Floats:
    """Offsets of the true model's log-odds, so that its classes have these shares."""
    z = np.random.default_rng(0).normal(size=(100_000, len(shares)))
    if len(shares) == 2:
        high = brentq(lambda b: expit(SCALE * z[:, 0] + b).mean() - shares[1], -20.0, 20.0)
        return np.array([0.0, high])

    def gaps(free: Floats) -> Floats:
        return softmax(SCALE * z + [0.0, *free], axis=1).mean(axis=0)[1:] - shares[1:]

    return np.array([0.0, *root(gaps, np.zeros(len(shares) - 1)).x])


def indices(rng: np.random.Generator, n: int, offsets: Floats) -> tuple[Floats, np.ndarray]:
    """Columns of X that the labels depend on, and labels, of the true model."""
    K = len(offsets)
    z = rng.normal(size=(n, 1 if K == 2 else K))
    logits = np.hstack([np.zeros((n, 1)), SCALE * z]) if K == 2 else SCALE * z
    return z, np.argmax(logits + offsets + rng.gumbel(size=(n, K)), axis=1)


def rows(
    rng: np.random.Generator, n: int, d: int, offsets: Floats, shares: tuple[float, ...]
) -> tuple[Floats, np.ndarray]:
    """n rows whose classes have these shares, each class as in the true model."""
    labels = rng.choice(len(shares), size=n, p=shares)
    counts = np.bincount(labels, minlength=len(shares))
    found: list[list[Floats]] = [[] for _ in shares]
    while any(sum(map(len, found[k])) < counts[k] for k in range(len(shares))):
        z, y = indices(rng, 50_000, offsets)
        for k, own in enumerate(found):
            own.append(z[y == k])
    X = rng.normal(size=(n, d))
    for k, own in enumerate(found):
        z = np.vstack(own)
        X[labels == k, : z.shape[1]] = z[: counts[k]]
    return X, labels


def trial(n: int, d: int, trained: str, target: str, number: int) -> list[list[object]]:
    """Log-loss on 10,000 rows of the target for each way, and what EM says of the last share."""
    rng = np.random.default_rng([n, d, SHIFTS.index((trained, target)), number])
    source, shares = SHARES[trained], SHARES[target]
    offsets = offsets_for(source)

    base = LogisticRegression(C=0.1 if d < 100 else 0.01)
    clf = AngularCalibratedClassifier(base).fit(*rows(rng, n, d, offsets, source))
    labeled = rows(rng, n, d, offsets, shares)
    refitted = AngularCalibratedClassifier(base).fit(*labeled)
    map_of = "platt" if len(shares) == 2 else "vector"
    frozen = FrozenEstimator(clf.estimator_)
    again = ScoreCalibratedClassifier(frozen, method=map_of, scores="holdout").fit(*labeled)
    copies = [
        clf.with_prevalence_from(rows(rng, TARGET_ROWS, d, offsets, shares)[0])
        for _ in range(TARGETS)
    ]
    found = [copy.prevalence_ for copy in copies]
    last = np.array([each.shares[-1] for each in found])
    errors, of_rows = np.array([_errors(each) for each in found]).T
    X, y = rows(rng, 10_000, d, offsets, shares)
    models = (clf, clf.with_prevalence(shares), copies[0], again, refitted)
    losses = [float(multiclass_log_loss(y, model.predict_proba(X))) for model in models]
    error, own = (float(np.sqrt(np.mean(np.square(each)))) for each in (errors, of_rows))
    spread = float(last.std(ddof=1))
    rejected = float(np.mean([each.p_value is not None and each.p_value < 0.05 for each in found]))
    return [[*losses, float(last.mean()), error, own, spread, rejected]]


def _errors(found: Prevalence) -> tuple[float, float]:
    """Standard error of the last share, and what of it is the target rows' own."""
    assert found.standard_error is not None
    assert found.training_error is not None
    whole, training = float(found.standard_error[-1]), float(found.training_error[-1])
    return whole, float(np.sqrt(max(whole**2 - training**2, 0.0)))


def cells(measured: list[Row]) -> list[tuple[tuple[str, ...], dict[str, Floats]]]:
    """Columns of the draws of each design."""
    return [
        (key, {column: numbers(rows, column) for column in COLUMNS[5:]})
        for key, rows in by_cell(measured, COLUMNS[:4]).items()
    ]


def loss_table(measured: list[Row]) -> str:
    """Log-loss of each way less that of the refitted model, one line for each design."""
    lines = []
    for key, found in cells(measured):
        excess = [mean_and_error(found[way] / found["refitted"] - 1.0) for way in WAYS[:4]]
        shown = [f"{100 * mean:+.1f} ± {100 * error:.1f} %" for mean, error in excess]
        lines.append((*key, *map(with_minus, shown), f"{found['refitted'].mean():.4f}"))
    return markdown(("n", "d", "trained at", "target", *WAYS[:4], "log-loss, refitted"), lines)


def share_table(measured: list[Row]) -> str:
    """EM's estimate of the last share, its standard error, and both spreads."""
    lines = []
    for key, found in cells(measured):
        error, own, spread = (
            np.sqrt(np.mean(found[name] ** 2)) for name in ("error", "of_rows", "spread")
        )
        # Means of ten targets still vary by a tenth of the targets' own variance.
        models = max(found["share"].var(ddof=1) - spread**2 / TARGETS, 0.0)
        lines.append(
            (
                *key,
                with_error(*mean_and_error(found["share"]), 4),
                f"{error:.4f}",
                f"{np.sqrt(spread**2 + models):.4f}",
                f"{error / np.sqrt(spread**2 + models):.2f}",
                f"{own:.4f}",
                f"{spread:.4f}",
                f"{own / spread:.2f}",
                f"{np.mean(found['rejected']):.0%}",
            )
        )
    header = (
        *("n", "d", "trained at", "target", "estimated share", "standard error"),
        *("spread over models and targets", "ratio", "of the rows", "over targets alone"),
        *("its ratio", "p < 0.05"),
    )
    return markdown(header, lines)


def main() -> None:
    """Run what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    options = parser.parse_args()
    measured = resumed(FOLDER / "shifts.csv", COLUMNS, designs(), trial, options.fresh)
    for name, table in (("losses", loss_table), ("shares", share_table)):
        write_text(FOLDER / f"prevalence-{name}.md", table(measured) + "\n")
        print(table(measured), end="\n\n")


if __name__ == "__main__":
    main()
