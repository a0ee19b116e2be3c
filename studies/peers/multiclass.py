r"""``studies benchmark multiclass``: three to a hundred classes, real and simulated.

A trial is (dataset, classes, n per class, base, split, side), a base being one penalty or "tuned".
Of R rows of K classes, class k has a share π_k, and its training rows are

.. math::
    n_k = \max(1, \mathrm{round}(\pi_k K n)),

drawn at random; at least a quarter of the rows, and at most m of them, are for the test. Methods
are judged there by multinomial log-loss, Brier score, classwise and top-label ECE (15 bins,
debiased), and, where the truth is simulated, by KL(true ‖ predicted). Sides are those of
``studies benchmark real``, but that everything of angcal's own, the model's own probabilities and
temperature scaling on leave-one-out scores are on the side "angcal".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
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
from studies.datasets.labels import spelled
from studies.engine.experiment import Cell, Experiment, Tables, Trial, significant
from studies.engine.runner import trial_generator
from studies.peers.methods import (
    DEFAULT,
    FOLDS,
    OWN,
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
)
from studies.peers.peers import Map, missing_packages, probmetrics
from studies.peers.real import CLIP, N_BINS, SELDOM, SIDES, Outcome, run_methods
from studies.peers.remembered import Remembered
from studies.peers.tasks import SizeError, Split, Task, affordable, scaled_by_first, seed_from

CELL = ("dataset", "classes", "per_class", "base")
PLAIN, LOO_TEMPERATURE = "logistic", "temperature, leave-one-out"
SIMULATED, LEAVES = "softmax ", "plants_shape"
LEAF_ROWS, LEAF_BASES = 8, ("C=1", "C=0.1")
LEAST_TEST_SHARE = 0.25
METRICS = ("log_loss", "brier", "classwise_ece", "top_label_ece", "accuracy", "divergence")
COSTS = ("infinite", "C", "fits", "labels_spent", "seconds", "warnings")


@dataclass(frozen=True)
class MulticlassSettings:
    """Which tasks, how many labels, and what is too large.

    Parameters
    ----------
    tasks : tuple of (dataset, classes)
        The first classes of a dataset; "softmax 250" is simulated with 250 columns.
    sizes : tuple of int
        Training rows per class.
    leaves : tuple of int
        Classes of the leaf shapes in the table of their own.
    bases : tuple of str
    splits, n_penalties, max_test : int
        As in `RealSettings`.
    tuned_entries, costly_entries : int
        Entries n·d·K beyond which tuned and costly methods are left out.
    costly_splits : int
        Splits from which on costly methods are left out.
    signal : float
        Standard deviation of each simulated index.
    """

    tasks: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]
    leaves: tuple[int, ...]
    bases: tuple[Base, ...]
    splits: int
    n_penalties: int
    max_test: int
    tuned_entries: int
    costly_entries: int
    costly_splits: int
    signal: float = 3.0
    seed: int = 2026


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


def trials(settings: MulticlassSettings) -> list[dict[str, Any]]:
    """Split 0 of every cell comes first; what is run seldom comes last."""
    cells = [
        (*task, size, base)
        for task in settings.tasks
        for size in settings.sizes
        for base in settings.bases
    ]
    cells += [(LEAVES, K, LEAF_ROWS, base) for K in settings.leaves for base in LEAF_BASES]
    every, first = range(settings.splits), range(settings.costly_splits)
    return [
        {**dict(zip(CELL, cell, strict=True)), "split": split, "side": side}
        for splits, sides in ((every, SIDES), (first, (SELDOM,)))
        for split in splits
        for cell in cells
        for side in sides
    ]


# -- rows ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _loaded(name: str) -> Task:
    found = load(name, download=False, scaled=False)
    if found.labels is None:
        raise ValueError(f"{name} has no labels; it cannot be part of this benchmark.")
    _, codes = np.unique(spelled(found.labels), return_inverse=True)
    return Task(found.X, codes.astype(np.int64), name)


def labelled_rows(settings: MulticlassSettings, trial: Trial, seed: int) -> Task:
    """All rows of a trial's task."""
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
        Method(DEFAULT, partial(angcal, base=base), plain_fits=1),
        Method(LOO_TEMPERATURE, partial(_loo_temperature, base=base), plain_fits=1),
        Method(PLAIN, partial(logistic, base=base), plain_fits=1),
        *cross_methods(base),
        *(
            Method(
                name,
                partial(_out_of_fold, base=base, fit=fit),
                plain_fits=FOLDS + 1,
                package=package,
                costly=True,
            )
            for name, (fit, package) in MAPS.items()
        ),
    ]


METHODS = {method.name: method for base in ("C=1", "tuned") for method in methods(base)}
ANGCAL_SIDE = (*(method.name for method in OWN), LOO_TEMPERATURE, PLAIN)


def side_of(method: Method) -> str:
    """The side in whose trials a method is run."""
    if method.name in ANGCAL_SIDE:
        return "angcal"
    return SELDOM if method.costly else "peers"


def applicable(settings: MulticlassSettings, trial: Trial, entries: int) -> list[Method]:
    """Methods of one side whose package is there; costly ones of angcal's in small trials only."""
    small = entries <= settings.costly_entries and trial["split"] < settings.costly_splits
    return [
        method
        for method in methods(trial["base"])
        if side_of(method) == trial["side"]
        and (small or not method.costly)
        and not method.missing()
    ]


# -- one trial -------------------------------------------------------------------------------


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


def run_trial(settings: MulticlassSettings, trial: Trial) -> Tables:
    """The methods of one side on one split of one cell, or why there are none."""
    labels = ("multiclass", *(trial[key] for key in ("dataset", "classes", "per_class", "split")))
    rng = trial_generator(settings.seed, *labels)
    rows = labelled_rows(settings, trial, seed_from(rng))
    d, missing = rows.X.shape[1], missing_packages(METHODS.values())
    about: dict[str, Cell] = {**trial, "n": 0, "d": d, "n_test": 0, "rarest": 0}
    about |= {"missing": "; ".join(missing), "not_run": ""}
    try:
        counts = training_counts(rows.y, trial["per_class"])
        entries = int(counts.sum()) * d * trial["classes"]
        if trial["base"] == "tuned":
            affordable("tuned methods at n·d·K", entries, settings.tuned_entries)
        if trial["side"] == SELDOM:
            affordable("costly methods at n·d·K", entries, settings.costly_entries)
    except SizeError as reason:
        return {"splits": [{**about, "not_run": str(reason)}]}
    split = draw_split(rows, counts, settings.max_test, rng)
    training = Training(split.X_train, split.y_train, seed_from(rng), settings.n_penalties)
    found, failures = run_methods(
        applicable(settings, trial, entries),
        training,
        split.X_test,
        partial(measured, split=split),
    )
    n, n_test = len(split.y_train), len(split.y_test)
    about |= {"n": n, "n_test": n_test, "rarest": int(counts.min())}
    return {"": found, "splits": [about], "failures": failures}


MULTICLASS = Experiment(
    name="multiclass",
    full=FULL,
    quick=QUICK,
    tables={
        "": ("method", *METRICS, *COSTS),
        "splits": (*CELL, "split", "side", "n", "d", "n_test", "rarest", "missing", "not_run"),
        "failures": ("method", "reason"),
    },
    trials=trials,
    run=run_trial,
    optional_tables=("", "failures"),
)
