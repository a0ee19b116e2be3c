r"""Real covariates, simulated labels: the paper's three real-data tables, without its oracle.

A trial takes the rows of one dataset, draws w* ~ N(0, I) scaled so that w*ᵀx has variance one on
them, and labels by P(y = 1 | x) = sigmoid(3w*ᵀx + 1). A random split gives n rows for the ridge fit
(λ = 0.5, x divided by √d), an unlabeled pool, a labeled holdout and test rows. The paper then
calibrates with the true cosine c; here c comes from the training labels, or the pool, or both.

F_c(u) = E_Z σ(c·s + √(1−c²)·Z) at the true c is what a calibrator should find if rows were
Gaussian. c, the correlation of score and signal, and the scale of s are those of all rows that were
not trained on. On real rows, rare columns and heavy tails can make another member of the family the
calibrated one: c° minimizes the mean Kullback–Leibler divergence of F_c from the true
probabilities of those rows. Errors are measured to both curves, divergences to the truth itself.

Dense rows are centered and fitted without an intercept, as in the paper. Sparse rows stay sparse,
so they are not centered, and their fit has an intercept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

from angcal import AngleWarning
from angcal._typing import Floats, Matrix
from angcal.angle import Angle
from angcal.baselines import IsotonicCalibration, PlattScaling, TemperatureScaling
from angcal.calibrate import Options, calibrate
from angcal.curve import angular_probability
from angcal.links import Link, Logit
from angcal.metrics import expected_calibration_error, mean_bregman_divergence, reliability_curve
from angcal.observables import Observables, observe
from angcal.problem import LinearFit
from angcal.simulation import SimulatedLabels, simulate_labels
from studies.datasets import CATALOGUE, LoadedDataset, Sizes, load
from studies.engine.experiment import Cell, Experiment, Tables, Trial, grid
from studies.engine.runner import trial_generator
from studies.paper.setting import PAPER_LINKS, RIDGE, ridge_fit

LINK = PAPER_LINKS["sigmoid"]
MOST_ROWS_OF_TRUTH = 20_000
"""Rows on which c° is found; its error is then far below any that is measured."""
FEW, MANY = 100, 500
"""Holdout labels of the paper's baselines."""
ORACLE, AUTO, ESTIMATED = "true angle", "angular", "angular, link unknown"
PAPER_METHODS = {
    "uncalibrated": "uncalibrated",
    ORACLE: "angular",
    f"Platt {FEW}": "platt_100",
    f"isotonic {FEW}": "isotonic_100",
    f"Platt {MANY}": "platt_500",
    f"isotonic {MANY}": "isotonic_500",
}
"""Our name of a method, and its column in the paper's tables."""
OUR_METHODS = (
    AUTO,
    "angular, leave-one-out",
    "angular, observable",
    ESTIMATED,
    "Platt, leave-one-out",
    "temperature, leave-one-out",
    f"temperature {MANY}",
    "CalibratedClassifierCV",
)
AS_MANY = "Platt n"
"""Platt scaling on as many fresh labels as the fit had: what n labels can tell of a free curve."""
METHODS = (*PAPER_METHODS, AS_MANY, *OUR_METHODS)
SMALLEST_PROBABILITY = 1e-6
"""Isotonic regression predicts 0 and 1, whose divergence from anything else is infinite."""
GRID_SPLIT = 0
"""The split whose reliability diagrams are drawn."""
Row = dict[str, Cell]


@dataclass(frozen=True)
class SemirealSettings:
    """Which datasets, and how often."""

    datasets: tuple[str, ...]  # Names in the catalogue
    n_splits: int
    ridge: float = RIDGE  # λ
    n_bins: int = 15
    # Rows of the pool at most; a larger one adds time and nothing to be seen
    largest_pool: int = 20_000
    seed: int = 2025


@lru_cache(maxsize=64)
def prepared(name: str) -> LoadedDataset:
    """A dataset with its columns scaled; kept, as every split of it needs it again."""
    return load(name)


@dataclass(frozen=True, eq=False)
class Split:
    """One dataset with labels, divided, and its ridge fit."""

    X: Matrix  # All rows, divided by √d
    truth: SimulatedLabels
    train: np.ndarray  # row numbers
    pool: np.ndarray  # row numbers
    holdout: np.ndarray  # row numbers
    test: np.ndarray  # row numbers
    fit: LinearFit  # Of the training rows
    observables: Observables
    scores: Floats  # (rows,): u of all rows

    @property
    def unseen(self) -> np.ndarray:
        """All rows but those of the fit: the population, as far as it is known."""
        return np.setdiff1d(np.arange(len(self.scores)), self.train)

    @property
    def cosine(self) -> float:
        """The true c."""
        return float(np.corrcoef(self.scores[self.unseen], self.truth.signal[self.unseen])[0, 1])

    def standard(self, rows: np.ndarray) -> Floats:
        """s of some rows, by the population's center and spread."""
        population = self.scores[self.unseen]
        center = float(population.mean()) if self.fit.fit_intercept else 0.0
        return (self.scores[rows] - center) / np.sqrt(np.mean((population - center) ** 2))

    @cached_property
    def oracle(self) -> Floats:
        """F at the true cosine, on the test rows."""
        return angular_probability(LINK, self.cosine, self.standard(self.test))

    @cached_property
    def best_cosine(self) -> float:
        """c°: the cosine whose curve is nearest to the true probabilities of unseen rows."""
        rows = self.unseen
        if len(rows) > MOST_ROWS_OF_TRUTH:
            # Drawn: files may be sorted, and their first rows unlike the others.
            rows = np.random.default_rng(0).choice(rows, MOST_ROWS_OF_TRUTH, replace=False)
        scores, truth = self.standard(rows), self.truth.probability[rows]

        def divergence(cosine: float) -> float:
            p = angular_probability(LINK, cosine, scores)
            return mean_bregman_divergence(truth, np.clip(p, 1e-12, 1.0 - 1e-12), "kl")

        return float(minimize_scalar(divergence, bounds=(-1.0, 1.0), options={"xatol": 1e-4}).x)

    @cached_property
    def best(self) -> Floats:
        """F at c°, on the test rows."""
        return angular_probability(LINK, self.best_cosine, self.standard(self.test))


def divide(data: LoadedDataset, settings: SemirealSettings, rng: np.random.Generator) -> Split:
    """Draw labels, split the rows, and fit."""
    d = data.X.shape[1]
    X = data.X / np.sqrt(d)
    sizes = data.sizes
    truth = simulate_labels(X, link=LINK, random_state=rng)
    train, holdout, test, pool = _parts(rng.permutation(X.shape[0]), sizes)
    fit = ridge_fit(X[train], truth.y[train], settings.ridge, intercept=sparse.issparse(X))
    scores = np.asarray(X @ fit.coef) + fit.intercept
    pool = pool[: settings.largest_pool]
    return Split(X, truth, train, pool, holdout, test, fit, observe(fit), scores)


def _parts(order: np.ndarray, sizes: Sizes) -> list[np.ndarray]:
    ends = np.cumsum([sizes.n, sizes.n_holdout, sizes.n_test, sizes.n_pool])
    return np.split(order[: ends[-1]], ends[:-1])


def angular(
    split: Split, angle: str | float, link: Link = LINK, *, known: bool = True
) -> tuple[Angle, Floats]:
    """The angle by one route, and the calibrated probability of the test rows."""
    options = Options(link=link, link_known=known, angle=angle, pool=split.X[split.pool])
    with warnings.catch_warnings():
        # Where a route is not possible the reason is part of the angle, and of the rows.
        warnings.simplefilter("ignore", AngleWarning)
        found = calibrate(split.fit, split.observables, np.ones(len(split.train)), options)
    return found.angle, found.curve.predict(split.scores[split.test])


def cross_fitted(split: Split, settings: SemirealSettings) -> Floats:
    """CalibratedClassifierCV(cv=5) on the same ridge: five further fits."""
    n, d = split.fit.X.shape
    base = LogisticRegression(
        C=d / (n * settings.ridge), fit_intercept=split.fit.fit_intercept, max_iter=1000
    )
    model = CalibratedClassifierCV(base, cv=5)
    model.fit(split.X[split.train], split.truth.y[split.train])
    return model.predict_proba(split.X[split.test])[:, 1]


def held_out(calibrator: Any, split: Split, count: int) -> Floats:
    """A calibrator trained on the first so many holdout rows."""
    return _trained_on(split.holdout[:count], calibrator, split)


def as_many(calibrator: Any, split: Split) -> Floats:
    """A calibrator trained on n fresh rows, or as many as holdout and pool have."""
    fresh = np.concatenate([split.holdout, split.pool])
    return _trained_on(fresh[: len(split.train)], calibrator, split)


def _trained_on(rows: np.ndarray, calibrator: Any, split: Split) -> Floats:
    calibrator.fit(split.scores[rows], split.truth.y[rows])
    return calibrator.predict(split.scores[split.test])


def left_out(calibrator: Any, split: Split) -> Floats:
    """A calibrator trained on the leave-one-out scores of the fit."""
    calibrator.fit(split.observables.calibration_scores, split.truth.y[split.train])
    return calibrator.predict(split.scores[split.test])


def predictions(
    split: Split, settings: SemirealSettings
) -> tuple[dict[str, Floats], dict[str, Angle]]:
    """Probabilities of the test rows by every method, and the angles by every route."""
    routes = {AUTO: "auto", "angular, leave-one-out": "loo", "angular, observable": "observable"}
    found = {name: angular(split, angle) for name, angle in routes.items()}
    found[ESTIMATED] = angular(split, "auto", Logit(), known=False)
    every = {
        "uncalibrated": expit(split.scores[split.test]),
        ORACLE: split.oracle,
        AS_MANY: as_many(PlattScaling(), split),
        "CalibratedClassifierCV": cross_fitted(split, settings),
        **{name: p for name, (_, p) in found.items()},
    }
    for kind, family in (
        ("Platt", PlattScaling),
        ("isotonic", IsotonicCalibration),
        ("temperature", TemperatureScaling),
    ):
        every[f"{kind}, leave-one-out"] = left_out(family(), split)
        every |= {f"{kind} {count}": held_out(family(), split, count) for count in (FEW, MANY)}
    angles = {name: angle for name, (angle, _) in found.items()}
    return {name: every[name] for name in METHODS}, angles


def judge(p: Floats, split: Split, n_bins: int) -> Row:
    """Calibration errors and divergences of one method's probabilities."""
    y, truth = split.truth.y[split.test], split.truth.probability[split.test]
    inside = np.clip(p, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    return {
        "ece": expected_calibration_error(y, p, n_bins=n_bins),
        "ece_debiased": expected_calibration_error(y, p, n_bins=n_bins, debiased=True),
        "error": float(np.mean(np.abs(p - split.oracle))),
        "error_best": float(np.mean(np.abs(p - split.best))),
        "kl": mean_bregman_divergence(truth, inside, "kl"),
        "brier": float(np.mean((p - truth) ** 2)),
    }


def _angle_row(split: Split, angles: dict[str, Angle]) -> Row:
    row: Row = {"true_cosine": split.cosine, "best_cosine": split.best_cosine}
    for key, name in (("auto", AUTO), ("loo", OUR_METHODS[1]), ("observable", OUR_METHODS[2])):
        angle = angles[name]
        row |= {key: angle.cosine, f"{key}_error": angle.standard_error}
        row |= {f"{key}_low": angle.interval[0], f"{key}_high": angle.interval[1]}
    row["observable_method"] = angles[OUR_METHODS[2]].method
    row["unevenness"] = split.observables.unevenness
    row["fit_share"] = split.observables.degrees_of_freedom / len(split.train)
    scores = split.standard(split.unseen)
    row["score_kurtosis"] = float(np.mean((scores - scores.mean()) ** 4) / np.var(scores) ** 2)
    return row


def _reliability_rows(every: dict[str, Floats], split: Split, n_bins: int) -> Iterator[Row]:
    y = split.truth.y[split.test]
    for name, p in every.items():
        curve = reliability_curve(y, p, n_bins=n_bins)
        bins = zip(curve.mean_predicted, curve.observed, curve.count, strict=True)
        for mean, observed, count in bins:
            yield {
                "method": name,
                "mean": float(mean),
                "observed": float(observed),
                "count": int(count),
            }


def run_split(settings: SemirealSettings, trial: Trial) -> Tables:
    """All methods on one split of one dataset."""
    name, number = trial["dataset"], trial["split"]
    rng = trial_generator(settings.seed, "semireal", name, number)
    data = prepared(name)
    split = divide(data, settings, rng)
    every, angles = predictions(split, settings)
    label: Row = {"dataset": name, "split": number}
    about: Row = {
        "standing": data.standing,
        "n": len(split.train),
        "d": split.X.shape[1],
        "n_pool": len(split.pool),
        "n_test": len(split.test),
        "n_holdout": len(split.holdout),
        "intercept": int(split.fit.fit_intercept),
    }
    rows = [
        {**label, "method": method, **judge(p, split, settings.n_bins)}
        for method, p in every.items()
    ]
    tables: dict[str, list[Row]] = {
        "": rows,
        "angles": [{**label, **about, **_angle_row(split, angles)}],
    }
    if number == GRID_SPLIT:
        found = _reliability_rows(every, split, settings.n_bins)
        tables["reliability"] = [{**label, **row} for row in found]
    return tables


def runnable(table: str) -> tuple[str, ...]:
    """Datasets of one of the paper's tables that have more than a loader."""
    return tuple(
        name
        for name, dataset in CATALOGUE.items()
        if dataset.table == table and dataset.standing != "loader only"
    )


ANGLE_COLUMNS = tuple(
    f"{key}{part}"
    for key in ("auto", "loo", "observable")
    for part in ("", "_error", "_low", "_high")
)
ERRORS = ("error", "error_best")
COLUMNS = {
    "": ("dataset", "split", "method", "ece", "ece_debiased", *ERRORS, "kl", "brier"),
    "angles": (
        *("dataset", "split", "standing", "n", "d", "n_pool", "n_test", "n_holdout", "intercept"),
        *("true_cosine", "best_cosine", *ANGLE_COLUMNS),
        *("observable_method", "unevenness", "fit_share", "score_kurtosis"),
    ),
    "reliability": ("dataset", "split", "method", "mean", "observed", "count"),
}
QUICK = SemirealSettings(datasets=("digits", "breast_cancer"), n_splits=2)


def table_experiment(table: str) -> Experiment:
    """The trials of one of the paper's tables."""
    return Experiment(
        name=f"table-{table}",
        full=SemirealSettings(runnable(table), 20),
        quick=QUICK,
        tables=COLUMNS,
        # Split by split, so that a run that is stopped has something of every dataset.
        trials=lambda settings: grid(split=range(settings.n_splits), dataset=settings.datasets),
        run=run_split,
        optional_tables=("reliability",),
    )


TABLES = {table: table_experiment(table) for table in ("dl", "uci", "uci-extended")}
