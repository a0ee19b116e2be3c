"""Golden outputs: what about fifty small designs give, to compare two states of the code.

    python -m studies.golden record golden.npz
    python -m studies.golden compare golden.npz
    python -m studies.golden table before.npz

Each design is fitted from scratch on drawn rows; probabilities of fresh rows and their log-loss,
leave-one-out scores and angles are kept. A comparison prints the largest difference of each, and
exits with 1 where one exceeds the tolerance. Single-precision products differ between machines, so
golden files are made and compared on one machine, with one BLAS thread (``OMP_NUM_THREADS=1``), and
are not tracked.

A table says what moved between two states on purpose. An earlier state is recorded with its own
library and these designs, here the one before there was one posterior of the link:

    git archive --prefix=before/ 90ae1ff src | tar -x
    PYTHONPATH=before/src:. python -m studies.golden record before.npz

It is written to ``studies/results/golden/posterior.md``, which docs/fill_study.py puts into
docs/research.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Lasso,
    LinearHead,
    Logit,
    MEstimator,
    Ridge,
    ScoreCalibratedClassifier,
)
from studies import RESULTS
from studies.engine.tables import NOTHING, markdown, with_minus

Outputs = dict[str, np.ndarray]
Design = Callable[[], Outputs]
FRESH_ROWS = 60
TABLE = RESULTS / "golden" / "posterior.md"
TOLERANCE = 1e-9


class Draw:
    """Rows, labels of K classes, and fresh rows, from one seed."""

    def __init__(self, n: int, d: int, classes: int = 2, signal: float = 2.0) -> None:
        rng = np.random.default_rng(0)
        lengths = np.geomspace(2.0, 0.3, d)
        rows = rng.normal(size=(n + FRESH_ROWS, d)) * lengths + 0.2
        weights = rng.normal(size=(d, classes)) / np.linalg.norm(lengths)
        logits = signal * (rows - 0.2) @ weights + np.linspace(0.0, 0.5, classes)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        labels = (chances.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1)
        self.X, self.y, self.fresh = rows[:n], labels[:n], rows[n:]
        self.chances = chances[n:]
        self.pool = rng.normal(size=(4 * d, d)) * lengths + 0.2
        self.weight = rng.uniform(0.5, 2.0, n)
        self.covariance = np.diag(lengths**2)

    def sparse(self) -> Draw:
        """The same with four fifths of the entries at zero, in CSR storage."""
        for name in ("X", "fresh"):
            rows = getattr(self, name).copy()
            rows[np.abs(rows - 0.2) < np.median(np.abs(rows)) * 1.8] = 0.0
            setattr(self, name, sparse.csr_matrix(rows))
        return self


def logistic(**options: Any) -> LogisticRegression:
    """A logistic regression that is close to its optimum."""
    return LogisticRegression(**{"tol": 1e-8, "max_iter": 5000, **options})


def outputs(model: Any, draw: Draw) -> Outputs:
    """What a fitted model gives; its log-loss on fresh rows is the mean over their labels."""
    p = np.asarray(model.predict_proba(draw.fresh))
    with np.errstate(divide="ignore"):
        loss = -np.mean(np.sum(draw.chances * np.log(p), axis=1))
    found = {"probabilities": p, "log_loss": np.array([loss])}
    observed = getattr(model, "observables_", None)
    parts: list[Any] = observed if isinstance(observed, list) else [observed]
    if observed is not None:
        found["loo_scores"] = np.stack([part.loo_scores for part in parts])
    angle = getattr(model, "angle_", None)
    if angle is not None:
        found["cosine"], found["interval"] = np.ravel(angle.cosine), np.ravel(angle.interval)
    path = getattr(model, "path_", None)
    if path is not None:
        found["path"] = np.stack([path.log_loss, path.ece, path.degrees_of_freedom, path.cosine])
    return found


def fitted(model: Any, draw: Draw, **fit_options: Any) -> Outputs:
    """Fit, and what comes of it."""
    return outputs(model.fit(draw.X, draw.y, **fit_options), draw)


def one(model: Any = None, **options: Any) -> AngularCalibratedClassifier:
    """A calibrated classifier around a model."""
    return AngularCalibratedClassifier(logistic() if model is None else model, **options)


def design(model: Any, n: int = 200, d: int = 100, classes: int = 2, how: str = "") -> Design:
    """A model of n rows; ``how`` is "weighted", or their storage: "sparse", "float32"."""

    def fit() -> Outputs:
        draw = Draw(n, d, classes)
        if how == "sparse":
            draw.sparse()
        elif how == "float32":
            draw.X, draw.fresh = draw.X.astype(np.float32), draw.fresh.astype(np.float32)
        return fitted(model, draw, **({"sample_weight": draw.weight} if how == "weighted" else {}))

    return fit


def frozen() -> Outputs:
    """A model that was fitted before."""
    draw = Draw(200, 100)
    return fitted(one(FrozenEstimator(logistic(C=0.3).fit(draw.X, draw.y))), draw)


def head() -> Outputs:
    """Bare weights."""
    draw = Draw(200, 100)
    model = logistic(C=0.3).fit(draw.X, draw.y)
    bare = LinearHead(model.coef_, float(model.intercept_[0]), "logistic", Ridge(1 / (200 * 0.3)))
    return fitted(one(bare), draw)


def tensor(dtype: str) -> Outputs:
    """A PyTorch tensor under scikit-learn's dispatch."""
    import torch
    from sklearn import config_context

    draw = Draw(700, 650)
    for name in ("X", "fresh"):
        setattr(draw, name, torch.asarray(getattr(draw, name), dtype=getattr(torch, dtype)))
    with config_context(array_api_dispatch=True):
        return fitted(one(LogisticRegression(C=0.1, tol=1e-5)), draw)


KNOWN = Draw(200, 100)
PATH = AngularLogisticRegressionCV
DESIGNS: dict[str, Design] = {
    "dense": design(one()),
    "default options": design(AngularCalibratedClassifier(), 300, 60),
    "tall": design(one(), 2000, 30),
    "wide": design(one(), 100, 300),
    "few rows": design(one(), 30, 10),
    "sampled": design(one(logistic(C=0.1)), 700, 650),
    "sampled by request": design(one(logistic(C=0.01), observables="randomised"), 400, 200),
    "exact by request": design(one(logistic(C=0.1), observables="exact"), 700, 650),
    "float32": design(one(), how="float32"),
    "sparse": design(one(), 300, 200, how="sparse"),
    "sparse wide": design(one(), 150, 300, how="sparse"),
    "sparse sampled": design(one(logistic(C=0.03)), 900, 700, how="sparse"),
    "weights": design(one(), how="weighted"),
    "balanced": design(one(logistic(class_weight="balanced"))),
    "no intercept": design(one(logistic(fit_intercept=False))),
    "no penalty": design(one(logistic(C=np.inf)), 600, 40),
    "liblinear": design(one(logistic(solver="liblinear"))),
    "polish": design(one(LogisticRegression(tol=1e-2), polish=True)),
    "pipeline": design(one(make_pipeline(StandardScaler(), logistic()))),
    "frozen": frozen,
    "linear head": head,
    "lasso": design(one(MEstimator("logistic", Lasso(0.02))), 200, 60),
    "huberized hinge": design(one(MEstimator("huberised_hinge", Ridge(0.02)))),
    "ridge classifier": design(one(RidgeClassifier(alpha=10.0))),
    "squared hinge": design(one(LinearSVC(C=0.05, tol=1e-10, max_iter=100_000))),
    "no signal": lambda: fitted(one(), Draw(100, 50, signal=0.0)),
    "separable": lambda: fitted(one(), Draw(60, 20, signal=30.0)),
    "pool": design(one(pool=KNOWN.pool)),
    "short pool": design(one(pool=KNOWN.pool[:50])),
    "pool in blocks": design(one(pool=np.array_split(KNOWN.pool, 3))),
    "covariance": design(one(covariance=KNOWN.covariance)),
    "observable": design(one(covariance=KNOWN.covariance, angle="observable")),
    "known link": design(one(link=Logit(3.0))),
    "known link and pool": design(one(link=Logit(3.0), pool=KNOWN.pool)),
    "given angle": design(one(angle=0.7)),
    "probit": design(one(link="probit")),
    "cloglog": design(one(link="cloglog")),
    "path": design(PATH()),
    "path wide": design(PATH(), 100, 300),
    "path tall": design(PATH(), 2000, 30),
    "path sampled": design(PATH(8), 700, 650),
    "path sparse": design(PATH(8), 300, 200, how="sparse"),
    "path weights": design(PATH(), how="weighted"),
    "path pool": design(PATH(pool=KNOWN.pool)),
    "penalties averaged": design(PATH(average="penalties"), 80),
    "folds averaged": design(PATH(average="folds"), 80),
    "3 classes": design(one(), 300, 60, 3),
    "3 classes wide": design(one(), 120, 200, 3),
    "3 classes weights": design(one(), 300, 60, 3, how="weighted"),
    "3 classes sparse": design(one(), 300, 150, 3, how="sparse"),
    "3 classes, no intercept": design(one(logistic(fit_intercept=False)), 300, 60, 3),
    "4 classes sampled": design(one(logistic(C=0.1)), 950, 900, 4),
    "10 classes": design(one(), 500, 40, 10),
    "one-vs-rest": design(one(OneVsRestClassifier(logistic())), 300, 60, 3),
    "ridge of 3 classes": design(one(RidgeClassifier(alpha=10.0)), 300, 60, 3),
    "Platt": design(ScoreCalibratedClassifier(logistic())),
    "beta": design(ScoreCalibratedClassifier(logistic(), method="beta")),
    "isotonic holdout": design(
        ScoreCalibratedClassifier(logistic(), method="isotonic", scores="holdout", random_state=0)
    ),
    "tensor float64": lambda: tensor("float64"),
    "tensor float32": lambda: tensor("float32"),
}


def run(only: str | None = None) -> dict[str, np.ndarray]:
    """All outputs, by 'design/output'."""
    found = {}
    for name, make in DESIGNS.items():
        if only is not None and only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = make()
        found.update({f"{name}/{part}": values for part, values in parts.items()})
    return found


def differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each output; infinite where it is missing or of another shape."""
    gaps = {}
    for name, old in before.items():
        new = after.get(name)
        if new is None or new.shape != old.shape:
            gaps[name] = np.inf
            continue
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        with np.errstate(invalid="ignore"):
            gaps[name] = float(np.max(np.where(same, 0.0, np.abs(new - old)), initial=0.0))
    return gaps


def posterior_table(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> str:
    """What moved in each design, and the log-loss of both states."""
    gaps = differences(before, after)

    def moved(name: str, digits: int, scale: float = 1.0) -> str:
        gap = gaps.get(name, np.nan) / scale
        if not np.isfinite(gap):
            return NOTHING
        least = 10.0**-digits
        return "0" if gap < TOLERANCE else f"< {least:g}" if gap < least else f"{gap:.{digits}f}"

    rows, changes = [], []
    for name in DESIGNS:
        if f"{name}/probabilities" not in before:
            continue
        old, new = (float(state[f"{name}/log_loss"][0]) for state in (before, after))
        scores = before.get(f"{name}/loo_scores", np.ones(1))
        change = 0.0 if old == new else new - old
        changes.append(change)
        rows.append(
            (
                name,
                moved(f"{name}/probabilities", 4),
                moved(f"{name}/cosine", 4),
                moved(f"{name}/loo_scores", 4, float(np.std(scores)) or 1.0),
                f"{old:.4f}",
                f"{new:.4f}",
                f"{change:+.4f}" if abs(change) >= 5e-5 else "0",
            )
        )
    header = ("design", "probability", "cosine", "left-out scores, in sd", "log-loss before", "now")
    lower, higher = (sum(sign * change > 5e-5 for change in changes) for sign in (-1, 1))
    still = sum(row[1] == "0" for row in rows)
    told = (
        f"{len(rows)} designs; no probability moved by more than {TOLERANCE:g} in {still}. "
        f"Log-loss fell in {lower} and rose in {higher}, by {np.mean(changes):+.4f} in the mean."
    )
    return with_minus(told) + f"\n\n{markdown((*header, 'change'), rows)}\n"


def main(arguments: list[str] | None = None) -> int:
    """Record, compare, or write the table of what moved."""
    parser = argparse.ArgumentParser(prog="python -m studies.golden", description=__doc__)
    parser.add_argument("action", choices=["record", "compare", "table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", help="designs whose name contains this")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    chosen = parser.parse_args(arguments)
    found = run(chosen.only)
    if chosen.action == "record":
        np.savez_compressed(chosen.file, **found)  # type: ignore[arg-type]
        print(f"{len(found)} outputs of {len(DESIGNS)} designs")
        return 0
    with np.load(chosen.file) as stored:
        before = {name: stored[name] for name in stored.files}
    if chosen.action == "table":
        from angcal.files import write_text  # which earlier states do not have

        write_text(TABLE, posterior_table(before, found))
        print(TABLE.read_text(encoding="utf-8"))
        return 0
    if chosen.only is not None:
        before = {name: values for name, values in before.items() if chosen.only in name}
    gaps = differences(before, found)
    moved = {name: gap for name, gap in gaps.items() if not gap <= chosen.tolerance}
    for name, gap in moved.items():
        print(f"{name:45} {gap:.2e}")
    print(f"{len(gaps) - len(moved)} of {len(gaps)} outputs within {chosen.tolerance:g}")
    return 1 if moved else 0


if __name__ == "__main__":
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    sys.exit(main())
