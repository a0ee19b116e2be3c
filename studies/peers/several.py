r"""``studies benchmark several``: three and more classes, simulated and real, at n ≈ d.

A trial is (task, n, C, split). Every method starts from the same multinomial logistic regression
and is judged on test rows by the multinomial log-loss, the Brier score, the classwise and the
top-label ECE (15 bins, debiased), and, where the truth is simulated, the divergence
KL(true ‖ predicted). Holdouts come out of a method's own n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split

from angcal._typing import Floats, Matrix
from angcal.baselines import SoftmaxTemperature, VectorScaling
from angcal.estimators import AngularCalibratedClassifier
from angcal.metrics import (
    classwise_ece,
    multiclass_brier_score,
    multiclass_log_loss,
    top_label_ece,
    true_probability_divergence,
)
from angcal.simulation import simulate_several
from studies.datasets import load
from studies.datasets.labels import spelled
from studies.engine.experiment import Cell, Experiment, Row, Tables, Trial, significant
from studies.engine.runner import trial_generator
from studies.peers.remembered import watched
from studies.peers.tasks import scaled_by_first, seed_from

FOLDS, MAX_ITER, N_BINS, CLIP = 5, 2000, 15, 1e-6
HOLDOUT_SHARE = 0.25
OURS = "angcal"
Predict = Callable[[Matrix], Floats]


@dataclass(frozen=True)
class SeveralSettings:
    """Which tasks, and how often.

    Parameters
    ----------
    simulated : tuple of (n, d, K)
    real : tuple of (dataset, n)
    penalties : tuple of float
        C of the base model.
    splits : int
    max_test : int
    signal : float
        Standard deviation of each simulated index.
    """

    simulated: tuple[tuple[int, int, int], ...]
    real: tuple[tuple[str, int], ...]
    penalties: tuple[float, ...]
    splits: int
    max_test: int
    signal: float = 3.0
    seed: int = 2026


FULL = SeveralSettings(
    simulated=((250, 250, 3), (500, 500, 3), (1000, 1000, 3), (1500, 500, 3), (600, 300, 6)),
    real=(
        ("digits", 60),
        ("digits", 120),
        ("digits", 400),
        ("newsgroups", 400),
        ("newsgroups", 800),
        ("mnist", 700),
        ("mnist", 1400),
    ),
    penalties=(1.0, 0.01),
    splits=20,
    max_test=5000,
)
QUICK = SeveralSettings(
    simulated=((120, 60, 3),), real=(("digits", 120),), penalties=(1.0,), splits=2, max_test=500
)


def trials(settings: SeveralSettings) -> list[dict[str, Any]]:
    """The first split of every task comes first."""
    tasks = [(f"softmax {n}×{d}, K={K}", n) for n, d, K in settings.simulated]
    tasks += list(settings.real)
    return [
        {"task": task, "n": n, "C": C, "split": split}
        for split in range(settings.splits)
        for task, n in tasks
        for C in settings.penalties
    ]


# -- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Training and test rows, and the true probabilities where they are known."""

    X: Matrix
    y: NDArray[np.intp]
    X_test: Matrix
    y_test: NDArray[np.intp]
    truth: Floats | None
    n_classes: int


@lru_cache(maxsize=2)
def _loaded(name: str) -> tuple[Matrix, NDArray[np.intp]]:
    found = load(name, download=False, scaled=False)
    if found.labels is None:
        raise ValueError(f"{name} has no labels.")
    _, codes = np.unique(spelled(found.labels), return_inverse=True)
    return found.X, codes.astype(np.intp)


def draw_rows(settings: SeveralSettings, trial: Trial, rng: np.random.Generator) -> Rows:
    """The rows of one trial."""
    for n, d, K in settings.simulated:
        if trial["task"] == f"softmax {n}×{d}, K={K}":
            data = simulate_several(
                n, d, n_indices=K, signal=settings.signal, random_state=seed_from(rng)
            )
            test = data.fresh(settings.max_test, random_state=seed_from(rng))
            X, X_test = scaled_by_first(data.X, test.X)
            return Rows(X, data.y, X_test, test.y, test.probability, K)
    X, y = _loaded(trial["task"])
    train, test = train_test_split(
        np.arange(len(y)),
        train_size=trial["n"],
        test_size=min(len(y) - trial["n"], settings.max_test),
        stratify=y,
        random_state=seed_from(rng),
    )
    X_train, X_test = scaled_by_first(X[train], X[test])
    return Rows(X_train, y[train], X_test, y[test], None, int(y.max()) + 1)


# -- methods ---------------------------------------------------------------------------------


def base_model(C: float) -> LogisticRegression:
    """What every method starts from."""
    return LogisticRegression(C=C, max_iter=MAX_ITER)


def _angcal(rows: Rows, C: float, seed: int) -> Predict:
    return AngularCalibratedClassifier(base_model(C)).fit(rows.X, rows.y).predict_proba


def _plain(rows: Rows, C: float, seed: int) -> Predict:
    return base_model(C).fit(rows.X, rows.y).predict_proba


def _cross(method: str, ensemble: bool) -> Callable[[Rows, float, int], Predict]:
    def fit(rows: Rows, C: float, seed: int) -> Predict:
        model = CalibratedClassifierCV(base_model(C), method=method, cv=FOLDS, ensemble=ensemble)
        return model.fit(rows.X, rows.y).predict_proba

    return fit


def _held_out(calibrator: Any) -> Callable[[Rows, float, int], Predict]:
    def fit(rows: Rows, C: float, seed: int) -> Predict:
        kept, held = train_test_split(
            np.arange(len(rows.y)), test_size=HOLDOUT_SHARE, stratify=rows.y, random_state=seed
        )
        model = base_model(C).fit(rows.X[kept], rows.y[kept])
        curve = calibrator().fit(model.decision_function(rows.X[held]), rows.y[held])
        return lambda X: curve.predict(model.decision_function(X))

    return fit


def _out_of_fold(calibrator: Any) -> Callable[[Rows, float, int], Predict]:
    def fit(rows: Rows, C: float, seed: int) -> Predict:
        scores = cross_val_predict(
            base_model(C), rows.X, rows.y, cv=FOLDS, method="decision_function"
        )
        model = base_model(C).fit(rows.X, rows.y)
        curve = calibrator().fit(scores, rows.y)
        return lambda X: curve.predict(model.decision_function(X))

    return fit


METHODS: dict[str, tuple[Callable[[Rows, float, int], Predict], int]] = {
    OURS: (_angcal, 1),
    "uncalibrated": (_plain, 1),
    "CV sigmoid": (_cross("sigmoid", True), FOLDS),
    "CV sigmoid, one model": (_cross("sigmoid", False), FOLDS + 1),
    "CV isotonic": (_cross("isotonic", True), FOLDS),
    "CV isotonic, one model": (_cross("isotonic", False), FOLDS + 1),
    "CV temperature": (_cross("temperature", True), FOLDS),
    "CV temperature, one model": (_cross("temperature", False), FOLDS + 1),
    "temperature, held out": (_held_out(SoftmaxTemperature), 1),
    "vector scaling, held out": (_held_out(VectorScaling), 1),
    "vector scaling, one model": (_out_of_fold(VectorScaling), FOLDS + 1),
}
"""Name to how it is fitted, and how many models that takes."""


def _fit_and_predict(
    fit: Callable[[Rows, float, int], Predict], rows: Rows, C: float, seed: int
) -> Floats:
    return fit(rows, C, seed)(rows.X_test)


def measured(P: Floats, rows: Rows) -> dict[str, Cell]:
    """The metrics of this module."""
    clipped = np.clip(P, CLIP, None)
    clipped = clipped / clipped.sum(axis=1, keepdims=True)
    y = rows.y_test
    numbers = {
        "log_loss": multiclass_log_loss(y, clipped),
        "brier": multiclass_brier_score(y, P),
        "classwise_ece": classwise_ece(y, P, n_bins=N_BINS, debiased=True),
        "top_label_ece": top_label_ece(y, P, n_bins=N_BINS, debiased=True),
        "accuracy": float(np.mean(P.argmax(axis=1) == y)),
    }
    if rows.truth is not None:
        numbers["divergence"] = true_probability_divergence(rows.truth, clipped).kl
    rounded: dict[str, Cell] = {name: significant(value) for name, value in numbers.items()}
    rounded.setdefault("divergence", "")
    return rounded


def run_trial(settings: SeveralSettings, trial: Trial) -> Tables:
    """Every method on one split of one task."""
    labels = ("several", trial["task"], trial["n"], trial["C"], trial["split"])
    rng = trial_generator(settings.seed, *labels)
    rows = draw_rows(settings, trial, rng)
    seed = seed_from(rng)
    found: list[Row] = []
    failures: list[Row] = []
    for name, (fit, fits) in METHODS.items():
        try:
            outcome = watched(partial(_fit_and_predict, fit, rows, trial["C"], seed))
        # One method of one trial must not end the run; the summary counts what failed.
        except Exception as error:
            failures.append({"method": name, "reason": f"{type(error).__name__}: {error}"})
            continue
        found.append(
            {
                "method": name,
                **measured(np.asarray(outcome.value, dtype=np.float64), rows),
                "fits": fits,
                "seconds": significant(outcome.seconds),
                "warnings": outcome.warnings,
            }
        )
    about = {**trial, "d": rows.X.shape[1], "classes": rows.n_classes, "n_test": len(rows.y_test)}
    return {"": found, "splits": [about], "failures": failures}


SEVERAL = Experiment(
    name="several",
    full=FULL,
    quick=QUICK,
    tables={
        "": (
            *("method", "log_loss", "brier", "classwise_ece", "top_label_ece", "accuracy"),
            *("divergence", "fits", "seconds", "warnings"),
        ),
        "splits": ("task", "n", "C", "split", "d", "classes", "n_test"),
        "failures": ("method", "reason"),
    },
    trials=trials,
    run=run_trial,
    optional_tables=("failures",),
)
