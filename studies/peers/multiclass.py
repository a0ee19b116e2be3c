r"""``studies benchmark multiclass``: three to a hundred classes, real and simulated.

A trial is (dataset, classes, n per class, base, split, side), a base being one penalty or "tuned".
Of R rows of K classes, class k has a share π_k, and its training rows are

.. math::
    n_k = \max(1, \mathrm{round}(\pi_k K n)),

drawn at random; at least a quarter of the rows, and at most m of them, are for the test. Methods
are judged there by multinomial log-loss, Brier score, classwise and top-label ECE (15 bins,
debiased), and, where the truth is simulated, by KL(true ‖ predicted). On the
side "angcal" are all of angcal's own methods, the model's own probabilities and temperature scaling
on leave-one-out scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.model_selection import cross_val_predict

from angcal._typing import Floats
from angcal.baselines import MatrixScaling, SoftmaxTemperature, VectorScaling
from angcal.metrics import (
    classwise_ece,
    multiclass_brier_score,
    multiclass_log_loss,
    top_label_ece,
    true_probability_divergence,
)
from angcal.multiclass import read_class_scores
from angcal.simulation import simulate_several
from studies.datasets import load
from studies.datasets.spec import spelled
from studies.engine.experiment import Cell, Trial, significant
from studies.peers.benchmark import CLIP, N_BINS, Benchmark, Outcome, Settings
from studies.peers.methods import (
    DEFAULT,
    FOLDS,
    OWN,
    OWN_NAMES,
    SCIKIT_LEARN,
    TUNED,
    Base,
    Fitted,
    Folds,
    Method,
    Training,
    angcal,
    cross_methods,
    logistic,
    on_base,
)
from studies.peers.peers import Map, probmetrics
from studies.peers.remembered import Remembered
from studies.peers.tasks import SizeError, Split, Task, scaled_by_first, seed_from

CELL = ("dataset", "classes", "per_class", "base")
PLAIN, LOO_TEMPERATURE = "logistic", "temperature, leave-one-out"
SIMULATED, LEAVES = "softmax ", "plants_shape"
LEAF_ROWS, LEAF_BASES = 8, ("C=1", "C=0.1")
LEAST_TEST_SHARE = 0.25
METRICS = ("log_loss", "brier", "classwise_ece", "top_label_ece", "accuracy", "divergence")
COSTS = ("infinite", "C", "fits", "labels_spent", "seconds", "warnings")


@dataclass(frozen=True, kw_only=True)
class MulticlassSettings(Settings):
    """Which tasks, how many labels, and what is too large; entries are n·d·K.

    Parameters
    ----------
    tasks : tuple of (dataset, classes)
        The first classes of a dataset; "softmax 250" is simulated with 250 columns.
    sizes : tuple of int
        Training rows per class.
    leaves : tuple of int
        Classes of the leaf shapes in the table of their own.
    bases : tuple of str
    tuned_entries : int
        Entries beyond which tuned methods are left out.
    signal : float
        Standard deviation of each simulated index.
    """

    tasks: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]
    leaves: tuple[int, ...]
    bases: tuple[Base, ...]
    tuned_entries: int
    signal: float = 3.0
    seed: int = 2026

    @property
    def datasets(self) -> tuple[str, ...]:
        """Of the tasks, each once."""
        return tuple(dict(self.tasks))


FULL = MulticlassSettings(
    tasks=(
        *(("iris", 3), ("wine", 3), ("splice", 3), ("tox_171", 4), ("newsgroups", 5)),
        *(("covertype", 7), ("digits", 10), ("semeion", 10), ("usps", 10), ("mnist", 10)),
        *(("cifar10", 10), ("har", 12), ("newsgroups", 20)),
        *((LEAVES, classes) for classes in (20, 30, 50, 100)),
        *(("softmax 250", 3), ("softmax 300", 6), ("softmax 100", 20)),
    ),
    sizes=(4, 10, 30, 100),
    leaves=(20, 25, 30),
    bases=("C=1", "C=0.01", "tuned"),
    splits=20,
    n_penalties=20,
    max_test=2000,
    tuned_entries=8_000_000,
    costly_entries=600_000,
    costly_splits=5,
)
QUICK = MulticlassSettings(
    tasks=(("iris", 3), ("digits", 10), ("softmax 30", 3)),
    sizes=(4, 10),
    leaves=(),
    bases=("C=1", "tuned"),
    splits=2,
    n_penalties=4,
    max_test=300,
    tuned_entries=40_000,
    costly_entries=10_000,
    costly_splits=1,
)


def cells(settings: MulticlassSettings) -> list[tuple[Any, ...]]:
    """Tasks, sizes and penalties, and those of the leaf shapes."""
    every = product(settings.tasks, settings.sizes, settings.bases)
    leaves = product(settings.leaves, LEAF_BASES)
    return [
        *((*task, size, base) for task, size, base in every),
        *((LEAVES, K, LEAF_ROWS, base) for K, base in leaves),
    ]


# -- rows ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _loaded(name: str) -> Task:
    found = load(name, download=False, scaled=False)
    if found.labels is None:
        raise ValueError(f"{name} has no labels; it cannot be part of this benchmark.")
    _, codes = np.unique(spelled(found.labels), return_inverse=True)
    return Task(found.X, codes.astype(np.int64), name)


def labeled_rows(settings: MulticlassSettings, trial: Trial, rng: np.random.Generator) -> Task:
    """All rows of a trial's task."""
    seed = seed_from(rng)
    name, K = trial["dataset"], trial["classes"]
    if name.startswith(SIMULATED):
        n, d = trial["per_class"] * K, int(name.removeprefix(SIMULATED))
        data = simulate_several(
            2 * (n + settings.max_test), d, n_indices=K, signal=settings.signal, random_state=seed
        )
        return Task(data.X, data.y, name, data.probability)
    found = _loaded(name)
    kept = np.flatnonzero(found.y < K)
    return Task(found.X[kept], found.y[kept], name)


def training_counts(y: NDArray[np.int64], per_class: int) -> NDArray[np.int64]:
    """n_k by the formula of this module; `SizeError` where too few rows are left."""
    rows = np.bincount(y)
    counts = np.maximum(1, np.round(per_class * len(rows) * rows / len(y))).astype(np.int64)
    if counts.sum() > (1.0 - LEAST_TEST_SHARE) * len(y) or np.any(counts >= rows):
        raise SizeError(f"{per_class} rows per class leave too few for the test")
    return counts


def draw_split(
    rows: Task, counts: NDArray[np.int64], max_test: int, rng: np.random.Generator
) -> Split:
    """So many training rows of each class and up to ``max_test`` others, in random order."""
    order = rng.permutation(len(rows.y))
    parts = [order[rows.y[order] == k][:count] for k, count in enumerate(counts)]
    train = rng.permutation(np.concatenate(parts))
    test = rng.permutation(np.setdiff1d(order, train))[:max_test]
    X_train, X_test = scaled_by_first(rows.X[train], rows.X[test])
    truth = None if rows.truth is None else rows.truth[test]
    return Split(X_train, rows.y[train], X_test, rows.y[test], truth)


# -- methods ---------------------------------------------------------------------------------


def _loo_temperature(training: Training, base: Base) -> Fitted:
    model = training.memory.fitted(training.model(base), training.X, training.y)
    weights = np.ones(len(training.y))
    scores = read_class_scores(model, training.X, training.y, weights).honest
    found = SoftmaxTemperature().fit(scores, training.y)
    return Fitted(lambda X: found.predict(model.decision_function(X)), model.C)


def _out_of_fold(training: Training, base: Base, fit: Callable[[Floats, Any], Map]) -> Fitted:
    """A map fitted to scores of folds, after one model of all rows."""
    X, y = training.X, training.y
    folded = Remembered(training.model(base), training.memory)
    scores = cross_val_predict(folded, X, y, cv=Folds(), method="decision_function")
    model = training.memory.fitted(training.model(base), X, y)
    calibrate = fit(scores, y)
    return Fitted(lambda X: calibrate(model.decision_function(X)), model.C)


def _baseline(scores: Floats, y: Any, kind: Any) -> Map:
    calibrate: Map = kind().fit(scores, y).predict
    return calibrate


def _probmetrics(scores: Floats, y: Any, name: str) -> Map:
    calibrate = probmetrics(softmax(scores, axis=1), y, name)
    return lambda new: calibrate(softmax(new, axis=1))


def _venn_abers(scores: Floats, y: Any) -> Map:
    found = import_module("venn_abers").VennAbersCalibrator()
    seen = {"p_cal": softmax(scores, axis=1), "y_cal": y, "va_type": "one_vs_rest"}
    return lambda new: np.asarray(found.predict_proba(p_test=softmax(new, axis=1), **seen))


# probmetrics' "logistic" is structured matrix scaling where there are more than two classes.
MAPS: dict[str, tuple[Callable[[Floats, Any], Map], str]] = {
    "vector scaling": (partial(_baseline, kind=VectorScaling), ""),
    "matrix scaling": (partial(_baseline, kind=MatrixScaling), ""),
    **{
        f"probmetrics {name}": (partial(_probmetrics, name=name), "probmetrics.calibrators")
        for name in ("logistic", "svs", "ts-mix")
    },
    "venn-abers": (_venn_abers, "venn_abers"),
}
"""Maps of out-of-fold scores: how they are fitted, and their packages. All of them are costly."""
TUNED_PEERS = ("logistic tuned", "CV temperature, tuned", "CV temperature, one model, tuned")


def methods(base: Base) -> list[Method]:
    """What is compared under one penalty, or where each method tunes its own."""
    if base == "tuned":
        own = [method for method in OWN if method.averages or method.name == TUNED]
        return own + [method for method in SCIKIT_LEARN if method.name in TUNED_PEERS]
    return [
        on_base(DEFAULT, angcal, base, 1),
        on_base(LOO_TEMPERATURE, _loo_temperature, base, 1),
        on_base(PLAIN, logistic, base, 1),
        *cross_methods(base),
        *(
            on_base(name, partial(_out_of_fold, fit=fit), base, FOLDS + 1, package=of, costly=True)
            for name, (fit, of) in MAPS.items()
        ),
    ]


METHODS = {method.name: method for base in ("C=1", "tuned") for method in methods(base)}


# -- the benchmark ---------------------------------------------------------------------------


def measured(outcome: Outcome, split: Split) -> dict[str, Cell]:
    """The metrics of this module."""
    P, y = outcome.probability, split.y_test
    P = P / P.sum(axis=1, keepdims=True)
    clipped = np.clip(P, CLIP, None)
    clipped = clipped / clipped.sum(axis=1, keepdims=True)
    numbers = {
        "log_loss": multiclass_log_loss(y, clipped),
        "brier": multiclass_brier_score(y, P),
        "classwise_ece": classwise_ece(y, P, n_bins=N_BINS, debiased=True),
        "top_label_ece": top_label_ece(y, P, n_bins=N_BINS, debiased=True),
        "accuracy": float(np.mean(P.argmax(axis=1) == y)),
        "divergence": np.nan,
    }
    if split.truth is not None:
        numbers["divergence"] = true_probability_divergence(split.truth, clipped).kl
    rounded: dict[str, Cell] = {name: significant(value) for name, value in numbers.items()}
    return {**rounded, "infinite": int(np.sum(P[np.arange(len(y)), y] == 0.0))}


BENCHMARK = Benchmark(
    name="multiclass",
    cell=CELL,
    cells=cells,
    methods=METHODS,
    own=[*OWN_NAMES, LOO_TEMPERATURE, PLAIN],
    applied=lambda trial: methods(trial["base"]),
    load=labeled_rows,
    size=lambda settings, trial, task: training_counts(task.y, trial["per_class"]),
    split=draw_split,
    measure=measured,
)
MULTICLASS = BENCHMARK.experiment(FULL, QUICK, (*METRICS, *COSTS), "rarest")
