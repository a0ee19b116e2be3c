"""Any number of classes: every method of a benchmark on the same labeled rows of every task.

A trial is one split of a cell, a cell being a task at a size, for one side: angcal's methods, the
peers, or those that are run seldom: on the first splits of small tasks. Each method is
fitted to the training rows and judged on the test rows. Probabilities are clipped to [ε, 1 − ε],
ε = 1e-6, in the log-loss alone: a sure and wrong prediction costs 14 nats instead of infinity,
which is kind to the calibrators that make such predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from angcal._typing import Floats, Matrix
from studies.engine.experiment import Cell, Experiment, Row, Tables, Trial, significant
from studies.engine.runner import trial_generator
from studies.peers.methods import Method, Training
from studies.peers.peers import missing_packages
from studies.peers.remembered import watched
from studies.peers.tasks import SizeError, Split, Task, affordable, seed_from

SIDES = ("angcal", "peers")
SELDOM = "seldom"
"""The side of the costly methods."""
N_BINS = 15
CLIP = 1e-6
# Peers compute in single precision.
ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every benchmark is told.

    Parameters
    ----------
    splits : int
    n_penalties : int
        Values of C among which tuned methods choose.
    max_test : int
        Test rows at most.
    costly_entries : int
        Entries of the task beyond which costly methods are left out.
    costly_splits : int
        Splits from which on they are left out.
    """

    splits: int
    n_penalties: int
    max_test: int
    costly_entries: int
    costly_splits: int


# -- one method ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """Probabilities on the test rows, of class 1 or of all of many, and what they cost."""

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


# -- one benchmark ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What tells one benchmark from another: its tasks, its methods, its metrics.

    Parameters
    ----------
    name : str
    cell : tuple of str
        What tells one cell from another, the dataset first.
    cells : callable
        Settings to the cells.
    methods : mapping
        Everything that is compared, by name.
    own : collection of str
        Methods of the side "angcal".
    late : mapping of str to str
        Methods to their sides, where these came later and are run seldom as well: their trials
        follow all others.
    applied : callable
        A trial to the methods that its task has.
    load : callable
        (settings, trial, generator) to all rows of the task.
    size : callable
        (settings, trial, task) to the number of training rows, or those of each class.
    split : callable
        (task, size, most test rows, generator) to training and test rows.
    measure : callable
        (outcome, split) to the metrics.
    """

    name: str
    cell: tuple[str, ...]
    cells: Callable[[Any], Iterable[tuple[Any, ...]]]
    methods: Mapping[str, Method]
    own: Collection[str]
    applied: Callable[[Trial], Iterable[Method]]
    load: Callable[[Any, Trial, np.random.Generator], Task]
    size: Callable[[Any, Trial, Task], Any]
    split: Callable[[Task, Any, int, np.random.Generator], Split]
    measure: Callable[[Outcome, Split], Mapping[str, Cell]]
    late: Mapping[str, str] = field(default_factory=dict)

    def trials(self, settings: Any) -> list[dict[str, Any]]:
        """Split 0 of every cell comes first: a run that is stopped has seen them all.

        angcal's methods and the peers have trials of their own, so that angcal's can be run again
        when they have changed. What is run seldom comes last.
        """
        cells = list(self.cells(settings))
        every, first = range(settings.splits), range(settings.costly_splits)
        return [
            {**dict(zip(self.cell, cell, strict=True)), "split": split, "side": side}
            for splits, sides in ((every, SIDES), (first, (SELDOM,)), (first, self.late_sides))
            for split in splits
            for cell in cells
            for side in sides
        ]

    @property
    def late_sides(self) -> tuple[str, ...]:
        """Those of the later methods, each once."""
        return tuple(dict.fromkeys(self.late.values()))

    def side_of(self, method: Method) -> str:
        """The side in whose trials a method is run."""
        if method.name in self.own:
            return "angcal"
        return self.late.get(method.name, SELDOM if method.costly else "peers")

    def applicable(self, settings: Any, trial: Trial, entries: int) -> list[Method]:
        """Methods of one side whose package is there; costly ones in small trials only."""
        small = entries <= settings.costly_entries and trial["split"] < settings.costly_splits
        return [
            method
            for method in self.applied(trial)
            if self.side_of(method) == trial["side"]
            and (small or not method.costly)
            and not method.missing()
        ]

    def run(self, settings: Any, trial: Trial) -> Tables:
        """The methods of one side on one split of one cell, or why there are none."""
        # Rows do not depend on the penalty.
        drawn = [trial[key] for key in (*self.cell, "split") if key != "base"]
        rng = trial_generator(settings.seed, self.name, *drawn)
        task = self.load(settings, trial, rng)
        d, positive = task.X.shape[1], significant(task.y.mean())
        about: dict[str, Cell] = {**trial, "n": 0, "d": d, "n_test": 0, "rarest": 0}
        about |= {"positive": positive, "not_run": ""}
        about["missing"] = "; ".join(missing_packages(self.methods.values()))
        what = "n·d·K" if "classes" in trial else "n·d"
        try:
            size = self.size(settings, trial, task)
            entries = int(np.sum(size)) * d * trial.get("classes", 1)
            if trial.get("base") == "tuned":
                affordable(f"tuned methods at {what}", entries, settings.tuned_entries)
            if trial["side"] not in SIDES:
                affordable(f"costly methods at {what}", entries, settings.costly_entries)
        except SizeError as reason:
            return {"splits": [{**about, "not_run": str(reason)}]}
        split = self.split(task, size, settings.max_test, rng)
        training = Training(split.X_train, split.y_train, seed_from(rng), settings.n_penalties)
        rows, failures = run_methods(
            self.applicable(settings, trial, entries),
            training,
            split.X_test,
            lambda found: self.measure(found, split),
        )
        rarest = int(np.bincount(split.y_train).min())
        about |= {"n": len(split.y_train), "n_test": len(split.y_test), "rarest": rarest}
        return {"": rows, "splits": [about], "failures": failures}

    def experiment(self, full: Any, quick: Any, numbers: Sequence[str], share: str) -> Experiment:
        """Its trials; the columns of its numbers, and that of the share of a class."""
        split = (*self.cell, "split", "side", "n", "d", "n_test", share, "missing", "not_run")
        return Experiment(
            name=self.name,
            full=full,
            quick=quick,
            tables={"": ("method", *numbers), "splits": split, "failures": ("method", "reason")},
            trials=self.trials,
            run=self.run,
            optional_tables=("", "failures"),
        )
