"""Rows that belong together: ``python -m studies.groups``.

Two parts, each with a CSV that goes on where it was (``--fresh`` starts again) and a table under
``studies/results/groups``, which docs/fill_study.py puts into docs/guide/groups.md.

*refits*: leave-group-out scores against fits without the group, and what they cost.
*repeated*: five rows of each of many patients, whose labels share a random effect. How far the
probabilities of new patients are from the truth, beside cross-fitting with five fits.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from angcal import AngularCalibratedClassifier
from angcal._typing import Floats, Matrix
from angcal.files import write_text
from angcal.leverages.groups import groups_of
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.sklearn_problems import read_fits
from studies import RESULTS
from studies.engine.store import Row, by_cell, numbers, resumed
from studies.engine.tables import markdown, mean_and_error, with_error

FOLDER = RESULTS / "groups"

# -- scores against refits -----------------------------------------------------------------------

REFITS = ("n", "d", "K", "size", "C", "rows", "draw", "error", "ignored", "cost")
REFIT_CELL = ("rows", "K", "size", "C")
ELASTIC = 0.5  # share of the ℓ₁ part


def refit_designs() -> list[tuple[object, ...]]:
    """(n, d, K, rows of a group, C, kind of rows or penalty, draw)."""
    return [
        (n, d, K, size, C, rows, number)
        for rows, designs in (
            ("dense", ((400, 200), (300, 600), (1500, 800))),
            ("sparse", ((400, 200), (300, 600))),
            ("elastic net", ((400, 200),)),
        )
        for n, d in designs
        for K in (2, 4)
        for size in (2, 5, 20)
        for C in ((0.1, 1.0) if rows == "elastic net" else (0.01, 1.0))
        for number in range(2 if n < 1000 and rows != "elastic net" else 1)
    ]


def refit(n: int, d: int, K: int, size: int, C: float, rows: str, number: int) -> list[float]:
    """Root mean square errors as shares of the scores' spread, and CPU over that of leaving one."""
    rng = np.random.default_rng([n, d, K, size, number])
    names = rng.permutation(np.repeat(np.arange(n // size), size))
    X: Matrix = (rng.normal(size=(n, d)) + rng.normal(size=(n // size, d))[names]) / np.sqrt(2.0)
    W = 2.0 * rng.normal(size=(d, K)) / np.sqrt(d)
    y = np.argmax(X @ W + rng.gumbel(size=(n, K)), axis=1)
    if rows == "sparse":
        X = sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))

    def model() -> LogisticRegression:
        if rows == "elastic net":
            options = {"solver": "saga", "l1_ratio": ELASTIC, "tol": 1e-6, "max_iter": 20_000}
            return LogisticRegression(C=C, random_state=0, **options)
        return LogisticRegression(C=C, tol=1e-8, max_iter=5000)

    fit = read_fits(model().fit(X, y), X, y.astype(float), np.ones(n))[0]
    fit = replace(fit, hessian_method="exact")
    alone, _ = _timed(fit, None)
    together, cost = _timed(fit, names)
    some = np.unique(names)[: 5 if rows == "elastic net" else 10]
    left = np.isin(names, some)
    exact = np.empty(fit.scores.shape)
    for name in some:
        own = names == name
        exact[own] = model().fit(X[~own], y[~own]).decision_function(X[own])
    errors = [_off(found[left], exact[left]) for found in (together, alone)]
    return [*errors, cost]


def _timed(fit: LinearFit, names: np.ndarray | None) -> tuple[Floats, float]:
    """Scores of the rows left out, and CPU seconds over those of leaving one row out; best of 3."""
    seconds: dict[bool, float] = {}
    for grouped in (False, True, False, True, False, True):
        groups = groups_of(names) if grouped and names is not None else None
        start = time.process_time()
        found = observe(replace(fit), groups).loo_scores
        spent = time.process_time() - start
        seconds[grouped] = min(spent, seconds.get(grouped, np.inf))
    return found, seconds[True] / seconds[False]


def _off(found: Floats, exact: Floats) -> float:
    if found.ndim == 2:  # a softmax sees differences alone
        found, exact = (v - v.mean(axis=1, keepdims=True) for v in (found, exact))
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.var(exact)))


def refit_table(rows: list[Row]) -> str:
    """One line for each kind of rows, number of classes, size of a group and C."""
    header = (
        *(
            "rows",
            "classes",
            "rows of a group",
            "C",
            "error of leave-group-out scores, worst design",
        ),
        *("of leave-one-out scores, best design", "CPU over leave-one-out, worst"),
    )
    lines = []
    for cell, mine in by_cell(rows, REFIT_CELL).items():
        worst, cost = (numbers(mine, name).max() for name in ("error", "cost"))
        best = numbers(mine, "ignored").min()
        lines.append((*cell, f"{worst:.2%}", f"{best:.0%}", f"{cost:.2f}"))
    return markdown(header, lines)


# -- repeated measures ---------------------------------------------------------------------------

METHODS = ("angcal, groups", "angcal, rows", "GroupKFold, one model", "GroupKFold, five", "plain")
REPEATED = ("ratio", "C", "effect", "draw", "method", "error", "log_loss")
D, SIZE, SCALE = 100, 5, 3.0
NODES, SHARES = np.polynomial.hermite_e.hermegauss(61)


class Patients:
    """Five rows of each patient: 100 features that share half of their variance, and labels whose
    log-odds share a random effect.
    """

    def __init__(self, rng: np.random.Generator, effect: float) -> None:
        w = rng.normal(size=D)
        self.w, self.rng, self.effect = w / np.linalg.norm(w), rng, effect

    def draw(self, count: int) -> tuple[Floats, np.ndarray, np.ndarray]:
        """Rows, labels and patients of so many new patients."""
        rng, names = self.rng, np.repeat(np.arange(count), SIZE)
        X = (rng.normal(size=(count, D))[names] + rng.normal(size=(len(names), D))) / np.sqrt(2.0)
        logits = SCALE * X @ self.w + self.effect * rng.normal(size=count)[names]
        return X, (rng.random(len(names)) < expit(logits)).astype(int), names

    def truth(self, coef: Floats, X: Floats) -> Floats:
        """F = P(y = 1 | score of the weights), which is the same for all rows with this score."""
        norm = float(np.linalg.norm(coef))
        cosine = float(coef @ self.w) / norm
        # Of the index given the score, and of the group: both are normal.
        noise = np.sqrt(SCALE**2 * (1.0 - cosine**2) + self.effect**2)
        center = SCALE * cosine * (X @ coef) / norm
        return expit(center[:, None] + noise * NODES) @ (SHARES / SHARES.sum())


def repeated_designs() -> list[tuple[object, ...]]:
    """(n/d, C, standard deviation of the random effect, draw)."""
    return [
        (ratio, C, effect, number)
        for ratio in (0.5, 1.0, 2.0)
        for C in (0.01, 1.0)
        for effect in (1.0, 2.0)
        for number in range(60)
    ]


def repeated(ratio: float, C: float, effect: float, number: int) -> list[list[object]]:
    """(method, E|p − F|, log-loss) on rows of new groups; F = P(y = 1 | score of the model)."""
    patients = Patients(np.random.default_rng([int(10 * ratio), int(effect), number]), effect)
    X, y, names = patients.draw(int(ratio * D) // SIZE)
    new, true, _ = patients.draw(4000)
    base = LogisticRegression(C=C, max_iter=2000)
    folds = list(GroupKFold(5).split(X, y, names))
    models = [
        AngularCalibratedClassifier(base).fit(X, y, groups=names),
        AngularCalibratedClassifier(base).fit(X, y),
        CalibratedClassifierCV(base, cv=folds, ensemble=False).fit(X, y),
        CalibratedClassifierCV(base, cv=folds, ensemble=True).fit(X, y),
        base.fit(X, y),
    ]
    F = patients.truth(base.coef_[0], new)
    found: list[list[object]] = []
    for name, model in zip(METHODS, models, strict=True):
        p = np.clip(model.predict_proba(new)[:, 1], 1e-9, 1.0 - 1e-9)
        loss = -np.mean(np.log(np.where(true == 1, p, 1.0 - p)))
        found.append([name, float(np.mean(np.abs(p - F))), float(loss)])
    return found


def repeated_table(rows: list[Row]) -> str:
    """One line for each cell, its smallest error and loss in bold."""
    text = []
    for measure, title in (("error", "E|p − F|"), ("log_loss", "Log-loss")):
        lines, lost = [], 0
        for cell, mine in by_cell(rows, REPEATED[:3]).items():
            of_methods = by_cell(mine, ("method",))
            values = [mean_and_error(numbers(of_methods[name,], measure)) for name in METHODS]
            least = min(mean for mean, _ in values)
            lost += values[0][0] > min(values[2][0], values[3][0])
            shown = [
                f"**{with_error(*pair, 4)}**" if pair[0] == least else with_error(*pair, 4)
                for pair in values
            ]
            lines.append((*cell, *shown))
        header = ("n/d", "C", "sd of the effect", *METHODS)
        note = f"With groups angcal is above a GroupKFold column in {lost} of {len(lines)} cells."
        text.append(f"{title} on rows of new groups:\n\n{markdown(header, lines)}\n\n{note}")
    return "\n\n".join(text) + "\n"


# -- command -------------------------------------------------------------------------------------


def main() -> None:
    """Run what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    fresh = parser.parse_args().fresh
    refits = resumed(
        FOLDER / "refits.csv", REFITS, refit_designs(), lambda *design: [refit(*design)], fresh
    )
    write_text(FOLDER / "groups-refits.md", refit_table(refits) + "\n")
    measured = resumed(FOLDER / "repeated.csv", REPEATED, repeated_designs(), repeated, fresh)
    write_text(FOLDER / "groups-repeated.md", repeated_table(measured))
    print(refit_table(refits), repeated_table(measured), sep="\n\n")


if __name__ == "__main__":
    main()
