r"""``studies benchmark real``: every method on the same labelled rows of every real task.

A trial is (dataset, n/d, split, side), a side being angcal's methods, the peers, or costly peers,
which are run seldom: on the first splits of small tasks. Each method is fitted to the n rows and
judged on the test rows by

.. math::
    \text{log-loss} = -\mathrm{mean} \log p_\varepsilon(y), \qquad
    \text{Brier} = \mathrm{mean}\,(p - y)^2,

debiased ECE with 15 bins and smooth ECE. Probabilities are clipped to [ε, 1 − ε], ε = 1e-6, in the
log-loss alone: a sure and wrong prediction costs 14 nats instead of infinity, which is kind to the
calibrators that make such predictions. How many test rows were clipped, and how many would have
cost infinity, is in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from angcal._typing import Floats, Matrix
from angcal.metrics import brier_score, expected_calibration_error, log_loss, smooth_ece
from studies.datasets import CATALOGUE
from studies.engine.experiment import Cell, Experiment, Row, Tables, Trial, significant
from studies.engine.runner import trial_generator
from studies.peers.methods import OWN, Method, Training
from studies.peers.peers import METHODS, missing_packages
from studies.peers.remembered import watched
from studies.peers.tasks import (
    Limits,
    SizeError,
    affordable,
    draw_split,
    load_task,
    seed_from,
    training_rows,
)

SIDES = ("angcal", "peers")
SELDOM = "seldom"
"""The side of the costly methods."""
OWN_NAMES = tuple(method.name for method in OWN)
N_BINS = 15
CLIP = 1e-6
# Peers compute in single precision.
ROUNDING = 1e-6
METRICS = ("log_loss", "brier", "ece_debiased", "smooth_ece", "accuracy", "auc")
COSTS = ("clipped", "infinite", "C", "fits", "labels_spent", "seconds", "warnings")
SPLIT_COLUMNS = (
    "dataset",
    "ratio",
    "split",
    "side",
    "n",
    "d",
    "n_test",
    "positive",
    "missing",
    "not_run",
)
# Sets that only have a loader cannot be run where their results are tracked.
LABELLED = tuple(
    name
    for name, dataset in CATALOGUE.items()
    if dataset.labels is not None and dataset.standing != "loader only"
)


@dataclass(frozen=True)
class RealSettings:
    """Which tasks, how many labels, and what is too large.

    Parameters
    ----------
    datasets : tuple of str
    ratios : tuple of float
        Labels per column, n/d.
    splits : int
    n_penalties : int
        Values of C among which tuned methods choose.
    costly_entries : int
        Entries n·d beyond which costly methods are left out.
    costly_splits : int
        Splits from which on they are left out.
    max_train, max_test, max_columns : int
        As in `Limits`.
    """

    datasets: tuple[str, ...]
    ratios: tuple[float, ...]
    splits: int
    n_penalties: int
    costly_entries: int
    costly_splits: int
    max_train: int
    max_test: int
    max_columns: int
    seed: int = 2025

    @property
    def limits(self) -> Limits:
        """What is too large."""
        return Limits(self.max_train, self.max_test, self.max_columns)


FULL = RealSettings(
    datasets=LABELLED,
    ratios=(0.25, 0.5, 1.0, 2.0, 4.0),
    splits=20,
    n_penalties=20,
    costly_entries=500_000,
    costly_splits=5,
    max_train=4000,
    max_test=10_000,
    max_columns=3200,
)
QUICK = RealSettings(
    datasets=("digits", "breast_cancer"),
    ratios=(1.0, 2.0),
    splits=2,
    n_penalties=5,
    costly_entries=5_000,
    costly_splits=1,
    max_train=200,
    max_test=500,
    max_columns=3200,
)


def trials(settings: RealSettings) -> list[dict[str, Any]]:
    """Split 0 of every dataset and size comes first: a run that is stopped has seen them all.

    angcal's methods and the peers have trials of their own, so that angcal's can be run again when
    they have changed. What is run seldom comes last.
    """
    every, first = range(settings.splits), range(settings.costly_splits)
    return [
        {"dataset": dataset, "ratio": ratio, "split": split, "side": side}
        for splits, sides in ((every, SIDES), (first, (SELDOM,)))
        for split in splits
        for dataset in settings.datasets
        for ratio in settings.ratios
        for side in sides
    ]


# -- one method ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """Probabilities of class 1 on the test rows, and what they cost."""

    probability: Floats
    C: float
    seconds: float
    warnings: int


def attempt(method: Method, training: Training, X_test: Any) -> Outcome:
    """Fit and predict; each method pays in full for the models that it shares with others."""
    training.memory.bill()  # what a method that failed has left unpaid

    def fit_and_predict() -> tuple[Floats, float]:
        fitted = method.fit(training)
        return np.asarray(fitted.predict(X_test), dtype=float), fitted.C

    found = watched(fit_and_predict)
    p, C = found.value
    seconds, doubts = training.memory.bill()
    return Outcome(checked(p), C, found.seconds + seconds, found.warnings + doubts)


def checked(p: Floats) -> Floats:
    """Probabilities as they are, up to rounding; anything else is an error."""
    if not np.all((p >= -ROUNDING) & (p <= 1.0 + ROUNDING)):
        raise ValueError(
            f"{int(np.sum(~np.isfinite(p)))} of {len(p)} probabilities are NaN or "
            "infinite, or some lie outside [0, 1]"
        )
    return np.clip(p, 0.0, 1.0)


def measured(outcome: Outcome, y: NDArray[np.int64]) -> dict[str, Cell]:
    """The metrics of this module, and how often the log-loss needed clipping."""
    p = outcome.probability
    of_truth = np.where(y == 1, p, 1.0 - p)
    numbers = {
        "log_loss": log_loss(y, np.clip(p, CLIP, 1.0 - CLIP)),
        "brier": brier_score(y, p),
        "ece_debiased": expected_calibration_error(y, p, n_bins=N_BINS, debiased=True),
        "smooth_ece": smooth_ece(y, p),
        "accuracy": float(np.mean((p > 0.5) == (y == 1))),
        "auc": float(roc_auc_score(y, p)),
    }
    rounded = {name: significant(value) for name, value in numbers.items()}
    return {
        **rounded,
        "clipped": int(np.sum((p < CLIP) | (p > 1.0 - CLIP))),
        "infinite": int(np.sum(of_truth == 0.0)),
    }


# -- one trial -------------------------------------------------------------------------------


def side_of(method: Method) -> str:
    """The side in whose trials a method is run."""
    if method.costly:
        return SELDOM
    return "angcal" if method.name in OWN_NAMES else "peers"


def applicable(trial: Trial) -> list[Method]:
    """Methods of one side whose package is there."""
    return [
        method
        for method in METHODS.values()
        if side_of(method) == trial["side"] and not method.missing()
    ]


def run_methods(
    methods: Sequence[Method],
    training: Training,
    X_test: Matrix,
    measure: Callable[[Outcome], Mapping[str, Cell]],
) -> tuple[list[Row], list[Row]]:
    """A row for each method that gave probabilities, and one for each that failed."""
    rows: list[Row] = []
    failures: list[Row] = []
    for method in methods:
        try:
            outcome = attempt(method, training, X_test)
        # One method of one trial must not end a run of hours; the summary counts what failed.
        except Exception as error:
            failures.append({"method": method.name, "reason": f"{type(error).__name__}: {error}"})
            continue
        cost = {
            "C": significant(outcome.C),
            "seconds": significant(outcome.seconds),
            "warnings": outcome.warnings,
            "fits": method.fits(training.n_penalties),
            "labels_spent": method.labels_spent(len(training.y)),
        }
        rows.append({"method": method.name, **measure(outcome), **cost})
    return rows, failures


def run_trial(settings: RealSettings, trial: Trial) -> Tables:
    """The methods of one side on one split of one task at one size, or why there are none."""
    task = load_task(trial["dataset"])
    about: dict[str, Cell] = {
        **trial,
        "n": 0,
        "d": task.X.shape[1],
        "n_test": 0,
        "positive": significant(task.y.mean()),
        "missing": "; ".join(missing_packages(METHODS.values())),
        "not_run": "",
    }
    try:
        n = training_rows(task, trial["ratio"], settings.ratios, settings.limits)
        if trial["side"] == SELDOM:
            affordable("costly methods at n·d", n * task.X.shape[1], settings.costly_entries)
    except SizeError as reason:
        return {"splits": [{**about, "not_run": str(reason)}]}
    labels = ("real", trial["dataset"], trial["ratio"], trial["split"])
    rng = trial_generator(settings.seed, *labels)
    split = draw_split(task, n, settings.max_test, rng)
    training = Training(split.X_train, split.y_train, seed_from(rng), settings.n_penalties)
    rows, failures = run_methods(
        applicable(trial), training, split.X_test, lambda found: measured(found, split.y_test)
    )
    about |= {"n": n, "n_test": len(split.y_test)}
    return {"": rows, "splits": [about], "failures": failures}


REAL = Experiment(
    name="real",
    full=FULL,
    quick=QUICK,
    tables={
        "": ("method", *METRICS, *COSTS),
        "splits": SPLIT_COLUMNS,
        "failures": ("method", "reason"),
    },
    trials=trials,
    run=run_trial,
    optional_tables=("", "failures"),
)
