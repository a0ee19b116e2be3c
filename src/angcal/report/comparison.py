"""Out-of-fold probabilities of several calibrators of the same model, on the user's own rows.

Repeated stratified cross-validation. Rows are the units of every standard error: a row's losses
are averaged over the repetitions first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.utils import _safe_indexing

from angcal._typing import Floats
from angcal.baselines import PlattScaling
from angcal.estimators import ScoreCalibratedClassifier
from angcal.metrics import expected_calibration_error
from angcal.metrics.calibration import ece_and_error
from angcal.metrics.scores import PROBABILITY_FLOOR, mean_and_error
from angcal.tables import fit_table, preparation
from angcal.tables.fitting import MOST_FOLDS, STRENGTHS

N_FOLDS, HOLDOUT_SIZE, BOOTSTRAP_DRAWS, CHANCE_DRAWS = 5, 0.3, 60, 20
# Repetitions for tables of at most so many entries.
REPEATS = ((200_000, 4), (5_000_000, 2))
PENALTIES = 20

ANGCAL, UNCALIBRATED, DEFAULT = "angcal", "uncalibrated, same C", "uncalibrated, C = 1"
METRICS = ("log-loss", "Brier", "ECE")


@dataclass(frozen=True, eq=False)
class Fold:
    """One training set with its test rows, as the linear model sees them.

    Attributes
    ----------
    model : Pipeline or None
        angcal's, fitted; None where it refuses these classes.
    train, test : matrices
        Prepared rows.
    codes : (n,) int array
        Classes of the training rows as 0, 1, …
    raw_test : DataFrame
        Test rows as they came.
    seed : int
    """

    model: Any
    train: Any
    test: Any
    codes: Any
    raw_test: Any
    seed: int

    @property
    def C(self) -> float:
        """The penalty that angcal chose on the training rows, 1 without it."""
        chosen = getattr(getattr(self.head, "estimator_", None), "C", 1.0)
        return float(getattr(self.head, "C_", chosen))

    @property
    def head(self) -> Any:
        """angcal's classifier."""
        return None if self.model is None else self.model.steps[-1][1]

    @property
    def test_scores(self) -> Floats:
        """ŵᵀx + b̂ of the test rows, for two classes."""
        return np.asarray(self.test @ self.head.coef_[0]) + float(self.head.intercept_[0])


@dataclass(frozen=True)
class Method:
    """A way to probabilities, and what it costs for each training set.

    Attributes
    ----------
    name : str
    fits, fits_several : str
        Fits of the linear model for two classes, and for more.
    labels : str
        Share of the training labels that each fit sees.
    predict : callable
        From a fold to (m, K) probabilities of its test rows.
    needs_angcal, two_classes : bool
        What it cannot do without.
    """

    name: str
    fits: str
    fits_several: str
    labels: str
    predict: Callable[[Fold], Floats]
    needs_angcal: bool = False
    two_classes: bool = False


def _both(positive: Floats) -> Floats:
    return np.column_stack([1.0 - positive, positive])


def _logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, max_iter=5000)


def _angcal(fold: Fold) -> Floats:
    return np.asarray(fold.model.predict_proba(fold.raw_test))


def _uncalibrated(fold: Fold) -> Floats:
    if np.shape(getattr(fold.head, "coef_", ()))[:1] == (1,):
        return _both(expit(fold.test_scores))
    return np.asarray(_logistic(fold.C).fit(fold.train, fold.codes).predict_proba(fold.test))


def _default(fold: Fold) -> Floats:
    return np.asarray(_logistic(1.0).fit(fold.train, fold.codes).predict_proba(fold.test))


def _platt_loo(fold: Fold) -> Floats:
    curve = PlattScaling(smoothed_targets=True)
    curve.fit(fold.head.observables_.calibration_scores, fold.codes)
    return _both(curve.predict(fold.test_scores))


def _platt_holdout(fold: Fold) -> Floats:
    model = ScoreCalibratedClassifier(
        _logistic(fold.C),
        method=PlattScaling(smoothed_targets=True),
        scores="holdout",
        holdout_size=HOLDOUT_SIZE,
        random_state=fold.seed,
    )
    return np.asarray(model.fit(fold.train, fold.codes).predict_proba(fold.test))


def _sklearn(fold: Fold) -> Floats:
    folds = min(N_FOLDS, int(np.bincount(fold.codes).min()))
    model = CalibratedClassifierCV(_logistic(fold.C), cv=folds)
    return np.asarray(model.fit(fold.train, fold.codes).predict_proba(fold.test))


METHODS = (
    Method(
        ANGCAL,
        f"1 path of {PENALTIES} penalties",
        f"{len(STRENGTHS)} penalties × {MOST_FOLDS} folds + 1",
        "all",
        _angcal,
        needs_angcal=True,
    ),
    Method(UNCALIBRATED, "the same path", "the same", "all", _uncalibrated, needs_angcal=True),
    Method(DEFAULT, "1", "1", "all", _default),
    Method(
        "Platt, leave-one-out",
        "the same path",
        "",
        "all",
        _platt_loo,
        needs_angcal=True,
        two_classes=True,
    ),
    Method(
        "Platt, holdout",
        "1",
        "",
        f"{100 * (1 - HOLDOUT_SIZE):.0f} %",
        _platt_holdout,
        two_classes=True,
    ),
    Method(
        f"CalibratedClassifierCV({N_FOLDS})",
        str(N_FOLDS),
        str(N_FOLDS),
        f"{100 * (1 - 1 / N_FOLDS):.0f} %",
        _sklearn,
    ),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What every method did on rows it had not seen.

    Attributes
    ----------
    methods : tuple of Method
        Those that could be fitted in every fold.
    probabilities : mapping from name to (repeats, n, K) array
    values, errors : mapping from metric to (m,) array
        Means and standard errors.
    losses : (m, n) array
        Log-loss of every row, averaged over repetitions.
    folds, repeats : int
    chance : float
        The ECE that the first method would show on so many rows were it calibrated.
    failures : mapping from name to reason
    """

    methods: tuple[Method, ...]
    probabilities: dict[str, Floats]
    values: dict[str, Floats]
    errors: dict[str, Floats]
    losses: Floats
    folds: int
    repeats: int
    chance: float
    failures: dict[str, str]

    @property
    def names(self) -> list[str]:
        """Names of the methods."""
        return [method.name for method in self.methods]

    def has(self, *names: str) -> bool:
        """Whether all these methods were compared."""
        return set(names) <= set(self.names)

    def difference(self, name: str, other: str) -> tuple[float, float]:
        """Mean log-loss of one method less another's, and the standard error of that."""
        gap = self.losses[self.names.index(name)] - self.losses[self.names.index(other)]
        return mean_and_error(gap, np.ones_like(gap))


def repeats_for(n_entries: int, n_classes: int = 2) -> int:
    """Repetitions of the cross-validation; one for several classes, whose fits take long."""
    if n_classes > 2:
        return 1
    return next((repeats for most, repeats in REPEATS if n_entries <= most), 1)


def fold_count(y: Any) -> int:
    """Folds of the cross-validation: five, or as many as the smallest class has rows."""
    return min(N_FOLDS, int(np.unique(y, return_counts=True)[1].min()))


def compare(
    features: Any,
    y: Any,
    codes: Any,
    *,
    with_angcal: bool,
    pool: Any = None,
    seed: int = 0,
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison | str:
    """Cross-validate every method; a sentence where that cannot be done.

    Parameters
    ----------
    features : DataFrame
    y : (n,) array
        Classes as the user has them.
    codes : (n,) int array
        The same as 0, 1, …
    with_angcal : bool
        Whether angcal takes these classes.
    pool : DataFrame, optional
    seed, repeats : int
    progress : callable, optional
        Called as ``progress(folds done, folds in all)``, first with 0.
    """
    counts, folds = np.bincount(codes), fold_count(codes)
    if folds < 2:
        return "The smallest class has one row, so nothing can be left out of a fit."
    n_classes = len(counts)
    methods = [
        method
        for method in METHODS
        if (with_angcal or not method.needs_angcal) and (n_classes == 2 or not method.two_classes)
    ]
    found = {method.name: np.full((repeats, len(codes), n_classes), np.nan) for method in methods}
    failures: dict[str, str] = {}
    tell = progress or (lambda done, total: None)
    tell(0, folds * repeats)
    splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    for index, (train, test) in enumerate(splitter.split(np.zeros(len(codes)), codes)):
        with warnings.catch_warnings():
            # The fit on all rows has raised what there is to say; folds repeat it.
            warnings.simplefilter("ignore")
            try:
                fold = _fold(features, y, codes, train, test, with_angcal, pool, seed)
            except ValueError as error:
                return f"A part of the rows could not be fitted: {error}"
            for method in methods:
                if method.name in failures:
                    continue
                try:
                    found[method.name][index // folds, test] = method.predict(fold)
                except ValueError as error:
                    failures[method.name] = str(error)
        tell(index + 1, folds * repeats)
    kept = tuple(method for method in methods if method.name not in failures)
    if not kept:
        return f"No method could be fitted: {next(iter(failures.values()))}"
    return _measure(kept, found, codes, folds, repeats, seed, failures)


def _fold(
    features: Any, y: Any, codes: Any, train: Any, test: Any, fits: bool, pool: Any, seed: int
) -> Fold:
    rows, raw_test = _safe_indexing(features, train), _safe_indexing(features, test)
    model = None
    if fits:
        fitted = fit_table(rows, _safe_indexing(y, train), pool=pool, Cs=PENALTIES, seed=seed)
        model = fitted.model
        prepare = model[:-1]
    else:
        prepare = preparation(rows).fit(rows)
    return Fold(
        model, prepare.transform(rows), prepare.transform(raw_test), codes[train], raw_test, seed
    )


def _measure(
    methods: tuple[Method, ...],
    found: dict[str, Floats],
    codes: Any,
    folds: int,
    repeats: int,
    seed: int,
    failures: dict[str, str],
) -> Comparison:
    truth = np.eye(int(codes.max()) + 1)[codes]
    # Two classes mirror each other: one column says it all.
    columns = [1] if truth.shape[1] == 2 else range(truth.shape[1])
    ones, losses, rows = np.ones(len(codes)), [], []
    for method in methods:
        p = found[method.name]
        of_label = np.clip(np.sum(p * truth, axis=2), PROBABILITY_FLOOR, 1.0)
        loss = -np.log(of_label).mean(axis=0)
        square = np.mean([((p - truth) ** 2)[:, :, k].mean(axis=0) for k in columns], axis=0)
        brier = square * len(columns)
        pairs = [(truth[:, k], p[r, :, k].clip(0.0, 1.0)) for r in range(repeats) for k in columns]
        ece = ece_and_error(pairs, ones, n_draws=BOOTSTRAP_DRAWS, random_state=seed)
        losses.append(loss)
        rows.append([mean_and_error(loss, ones), mean_and_error(brier, ones), ece])
    table = np.array(rows)
    first = found[methods[0].name][0]
    return Comparison(
        methods=methods,
        probabilities=found,
        values={metric: table[:, i, 0] for i, metric in enumerate(METRICS)},
        errors={metric: table[:, i, 1] for i, metric in enumerate(METRICS)},
        losses=np.array(losses),
        folds=folds,
        repeats=repeats,
        chance=_chance_ece([first[:, k] for k in columns], seed),
        failures=failures,
    )


def _chance_ece(columns: list[Floats], seed: int) -> float:
    """Mean ECE where labels are drawn from the predictions themselves."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    draws = [
        expected_calibration_error(rng.random(len(p)) < p, p.clip(0.0, 1.0))
        for p in columns
        for _ in range(CHANCE_DRAWS)
    ]
    return float(np.mean(draws))
