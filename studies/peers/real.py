r"""``studies benchmark real``: two classes, real labels, n/d from 1/4 to 4.

Each method is judged on the test rows by

.. math::
    \text{log-loss} = -\mathrm{mean} \log p_\varepsilon(y), \qquad
    \text{Brier} = \mathrm{mean}\,(p - y)^2,

debiased ECE with 15 bins and smooth ECE. How many test rows were clipped in the log-loss, and how
many would have cost infinity, is in the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.metrics import roc_auc_score

from angcal.metrics import brier_score, expected_calibration_error, log_loss, smooth_ece
from studies.datasets import CATALOGUE
from studies.engine.experiment import Cell, significant
from studies.peers.benchmark import CLIP, N_BINS, Benchmark, Outcome, Settings
from studies.peers.methods import OWN
from studies.peers.peers import METHODS, RIVALS, SLOW_RIVALS
from studies.peers.tasks import Split, draw_split, load_task, training_rows

METRICS = ("log_loss", "brier", "ece_debiased", "smooth_ece", "accuracy", "auc")
COSTS = ("clipped", "infinite", "C", "fits", "labels_spent", "seconds", "warnings")
# Sets that only have a loader cannot be run where their results are tracked.
LABELED = tuple(
    name
    for name, dataset in CATALOGUE.items()
    if dataset.labels is not None and dataset.standing != "loader only"
)


@dataclass(frozen=True, kw_only=True)
class RealSettings(Settings):
    """Which tasks, how many labels, and what is too large.

    Parameters
    ----------
    datasets : tuple of str
    ratios : tuple of float
        Labels per column, n/d.
    max_train : int
        Training rows at most.
    max_columns : int
        Dense sets with more columns are left out.
    """

    datasets: tuple[str, ...]
    ratios: tuple[float, ...]
    max_train: int
    max_columns: int
    seed: int = 2025


FULL = RealSettings(
    datasets=LABELED,
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


def measured(outcome: Outcome, split: Split) -> dict[str, Cell]:
    """The metrics of this module, and how often the log-loss needed clipping."""
    p, y = outcome.probability, split.y_test
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


BENCHMARK = Benchmark(
    name="real",
    cell=("dataset", "ratio"),
    cells=lambda settings: product(settings.datasets, settings.ratios),
    methods=METHODS,
    own=[method.name for method in OWN if not method.costly],
    applied=lambda trial: METHODS.values(),
    load=lambda settings, trial, rng: load_task(trial["dataset"]),
    size=lambda settings, trial, task: training_rows(task, trial["ratio"], settings),
    split=draw_split,
    measure=measured,
    late={
        **{method.name: "averages" for method in OWN if method.costly},
        **{method.name: "rivals" for method in RIVALS},
        **{method.name: "slow" for method in SLOW_RIVALS},
    },
)
REAL = BENCHMARK.experiment(FULL, QUICK, (*METRICS, *COSTS), "positive")
