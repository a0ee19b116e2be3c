"""Out-of-fold probabilities of all calibrators of the same model, on the user's own rows.

Repeated stratified cross-validation, in which groups stay whole. Rows, or groups where there are
any, are the units of every standard error: a row's losses are averaged over the repetitions first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn import __version__ as sklearn_version
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold
from sklearn.utils import _safe_indexing

from angcal._typing import Floats
from angcal.baselines import PlattScaling, SoftmaxTemperature
from angcal.estimators import ScoreCalibratedClassifier
from angcal.metrics import expected_calibration_error
from angcal.metrics.calibration import ece_and_error
from angcal.metrics.scores import (
    PROBABILITY_FLOOR,
    both_classes,
    judged,
    mean_and_error,
    row_losses,
)
from angcal.report.tables import Weights, weights_of
from angcal.tables import fit_table, preparation

N_FOLDS, PENALTIES = 5, 10
# Paths of three and more classes take long: in folds, penalties about the one chosen for all rows.
PENALTIES_IN_FOLDS = 7

ANGCAL, UNCALIBRATED, DEFAULT = "angcal", "uncalibrated, same C", "uncalibrated, C = 1"
CV_TEMPERATURE = "CV temperature, scikit-learn"


@dataclass(frozen=True, eq=False)
class Fold:
    """One training set with its test rows, as the linear model sees them."""

    model: Any  # angcal's, fitted; None where it refuses these classes
    train: Any  # Prepared rows
    test: Any
    codes: Any  # (n,) int: Classes of the training rows as 0, 1, …
    raw_test: Any  # Test rows as they came
    seed: int
    groups: Any = None  # (n,) or None: Of the training rows

    @property
    def C(self) -> float:
        """The penalty that angcal chose on the training rows, 1 without it."""
        return float(getattr(self.head, "C_", 1.0))

    @property
    def head(self) -> Any:
        """angcal's classifier."""
        return None if self.model is None else self.model.steps[-1][1]

    @property
    def test_scores(self) -> Floats:
        """ŵᵀx + b̂ of the test rows, (m,) for two classes and (m, K) for more."""
        scores = np.asarray(self.test @ self.head.coef_.T) + self.head.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def logistic(self, C: float | None = None) -> LogisticRegression:
        """The unfitted linear model, with angcal's penalty by default."""
        return LogisticRegression(C=self.C if C is None else C, max_iter=5000)

    def predict(self, model: Any, **fit_params: Any) -> Floats:
        """Probabilities of the test rows by another model, fitted on the training rows."""
        return np.asarray(model.fit(self.train, self.codes, **fit_params).predict_proba(self.test))


@dataclass(frozen=True)
class Method:
    """A way to probabilities, and what it costs for each training set."""

    name: str
    # Fits of the linear model for two classes, and for more; empty where it is not for these
    fits: str
    fits_multiclass: str
    labels: str  # Share of the training labels that each fit sees
    predict: Callable[[Fold], Floats]  # From a fold to (m, K) probabilities of its test rows
    needs_angcal: bool = False  # Whether it uses angcal's fit


def _uncalibrated(fold: Fold) -> Floats:
    scores = fold.test_scores
    return both_classes(expit(scores)) if scores.ndim == 1 else softmax(scores, axis=1)


def _platt_loo(fold: Fold) -> Floats:
    curve = PlattScaling(smoothed_targets=True)
    curve.fit(fold.head.observables_.calibration_scores, fold.codes)
    return both_classes(curve.predict(fold.test_scores))


def _temperature_loo(fold: Fold) -> Floats:
    logits = np.log(np.maximum(fold.head.plain_loo_proba_, PROBABILITY_FLOOR))
    return SoftmaxTemperature().fit(logits, fold.codes).predict(fold.test_scores)


def _platt_holdout(fold: Fold) -> Floats:
    model = ScoreCalibratedClassifier(
        fold.logistic(),
        method=PlattScaling(smoothed_targets=True),
        scores="holdout",
        holdout_size=0.3,
        random_state=fold.seed,
    )
    return fold.predict(model, groups=fold.groups)


def _sklearn(fold: Fold, method: str = "sigmoid") -> Floats:
    folds: Any = min(N_FOLDS, int(np.bincount(fold.codes).min()))
    if fold.groups is not None:
        folds = _splits(fold.codes, fold_count(fold.codes, fold.groups), 1, fold.seed, fold.groups)
    return fold.predict(CalibratedClassifierCV(fold.logistic(), method=method, cv=folds))


# From 1.8 on; for many classes one temperature is the fairer rival than a sigmoid for each.
HAS_TEMPERATURE = tuple(int(part) for part in sklearn_version.split(".")[:2]) >= (1, 8)


METHODS = (
    Method(
        ANGCAL,
        f"1 path of {PENALTIES} penalties",
        f"1 path of {PENALTIES_IN_FOLDS} penalties",
        "all",
        lambda fold: np.asarray(fold.model.predict_proba(fold.raw_test)),
        needs_angcal=True,
    ),
    Method(UNCALIBRATED, "the same path", "the same path", "all", _uncalibrated, needs_angcal=True),
    Method(DEFAULT, "1", "1", "all", lambda fold: fold.predict(fold.logistic(1.0))),
    Method("Platt, leave-one-out", "the same path", "", "all", _platt_loo, needs_angcal=True),
    Method("temperature, leave-one-out", "", "the same path", "all", _temperature_loo, True),
    Method("Platt, holdout", "1", "", "70%", _platt_holdout),
    Method("CalibratedClassifierCV(5)", "5", "" if HAS_TEMPERATURE else "5", "80%", _sklearn),
    Method(
        CV_TEMPERATURE,
        "",
        "5" if HAS_TEMPERATURE else "",
        "80%",
        partial(_sklearn, method="temperature"),
    ),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What every method did on rows it had not seen."""

    methods: tuple[Method, ...]  # Those that could be fitted in every fold
    probabilities: dict[str, Floats]
    values: dict[str, Floats]  # Means and standard errors
    errors: dict[str, Floats]
    losses: Floats  # (m, n): Log-loss of every row, averaged over repetitions
    folds: int
    repeats: int
    # The ECE that the first method would show on these rows by chance if it were calibrated
    chance: float
    failures: dict[str, str]
    groups: Any = None  # (n,) int or None: Rows that stayed in one fold
    weights: tuple[Weights, ...] = ()  # Of angcal's fit in each fold

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
        return mean_and_error(gap, np.ones_like(gap), self.groups)


def repeats_for(n_entries: int, n_classes: int = 2) -> int:
    """Repetitions of the cross-validation; one for three and more classes, whose fits take long."""
    if n_classes > 2:
        return 1
    return 4 if n_entries <= 50_000 else 2 if n_entries <= 200_000 else 1


def fold_count(y: Any, groups: Any = None) -> int:
    """Folds of the cross-validation: five, or as many as the smaller of two classes has rows.

    Of three and more classes one may be rare: with two rows it is in every training set. Then the
    largest class decides.
    """
    counts = np.unique(y, return_counts=True)[1]
    many = len(counts) > 2 and counts.min() > 1
    most = N_FOLDS if groups is None else min(N_FOLDS, len(np.unique(groups)))
    return min(most, int(counts.max() if many else counts.min()))


def penalties_in_folds(model: Any) -> Any:
    """Cs of a training set: a whole path for two classes, a few about the chosen C for more."""
    if model is None or len(model.classes_) == 2:
        return PENALTIES
    first = model.path_.index - PENALTIES_IN_FOLDS // 2
    first = int(np.clip(first, 0, max(len(model.Cs_) - PENALTIES_IN_FOLDS, 0)))
    return model.Cs_[first : first + PENALTIES_IN_FOLDS]


def compare(
    features: Any,
    y: Any,
    codes: Any,
    *,
    model: Any,
    pool: Any = None,
    seed: int = 0,
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
    groups: Any = None,
) -> Comparison | str:
    """Cross-validate every method; a sentence where that cannot be done.

    Labels are given as the user has them and as codes 0, 1, …; the model is that of all rows, None
    where angcal refuses them. ``progress(folds done, folds in all)`` is first called with 0. Rows
    of a group stay in one fold.
    """
    n_classes, folds = int(codes.max()) + 1, fold_count(codes, groups)
    tell = progress or (lambda done, total: None)
    if folds < 2:
        return "The smallest class has one row, so nothing can be left out of a fit."
    able = [method for method in METHODS if model is not None or not method.needs_angcal]
    methods = [method for method in able if fits_of(method, n_classes)]
    found = {method.name: np.full((repeats, len(codes), n_classes), np.nan) for method in methods}
    failures: dict[str, str] = {}
    weights: list[Weights] = []
    tell(0, folds * repeats)
    Cs = None if model is None else penalties_in_folds(model)
    for index, (train, test) in enumerate(_splits(codes, folds, repeats, seed, groups)):
        with warnings.catch_warnings():
            # The fit on all rows has raised what there is to say; folds repeat it.
            warnings.simplefilter("ignore")
            try:
                fold = _fold(features, y, codes, train, test, Cs, pool, seed, groups)
            except ValueError as error:
                return f"A part of the rows could not be fitted: {error}"
            if fold.model is not None:
                weights.append(weights_of(fold.model.steps[0][1], fold.head))
            for method in methods:
                if method.name not in failures:
                    with _noted(method.name, failures):
                        found[method.name][index // folds, test] = method.predict(fold)
        tell(index + 1, folds * repeats)
    kept = tuple(method for method in methods if method.name not in failures)
    if not kept:
        return f"No method could be fitted: {next(iter(failures.values()))}"
    given = (found, codes, folds, seed, failures, groups)
    return replace(_measure(kept, *given), weights=tuple(weights))


@contextmanager
def _noted(name: str, failures: dict[str, str]) -> Iterator[None]:
    """Whether and why a method fails."""
    try:
        yield
    except ValueError as error:
        failures[name] = str(error)


def _splits(codes: Any, folds: int, repeats: int, seed: int, groups: Any) -> list[tuple[Any, Any]]:
    """(training rows, test rows) of every fold."""
    if groups is not None:
        splitters = [
            StratifiedGroupKFold(folds, shuffle=True, random_state=seed + number)
            for number in range(repeats)
        ]
        rows = np.zeros(len(codes))
        return [fold for each in splitters for fold in each.split(rows, codes, groups)]
    splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    with warnings.catch_warnings():
        # scikit-learn's remark on classes with fewer rows than there are folds.
        warnings.simplefilter("ignore", UserWarning)
        return list(splitter.split(np.zeros(len(codes)), codes))


def fits_of(method: Method, n_classes: int) -> str:
    """What a method costs for so many classes; empty where it is not for these."""
    return method.fits if n_classes == 2 else method.fits_multiclass


def _fold(
    features: Any,
    y: Any,
    codes: Any,
    train: Any,
    test: Any,
    Cs: Any,
    pool: Any,
    seed: int,
    groups: Any,
) -> Fold:
    rows, raw_test = _safe_indexing(features, train), _safe_indexing(features, test)
    model, together = None, None if groups is None else groups[train]
    if Cs is not None:
        labels = _safe_indexing(y, train)
        model = fit_table(rows, labels, pool=pool, Cs=Cs, groups=together).model
    prepare = preparation(rows).fit(rows) if model is None else model[:-1]
    matrices = prepare.transform(rows), prepare.transform(raw_test)
    return Fold(model, *matrices, codes[train], raw_test, seed, together)


def _measure(
    methods: tuple[Method, ...],
    found: dict[str, Floats],
    codes: Any,
    folds: int,
    seed: int,
    failures: dict[str, str],
    groups: Any,
) -> Comparison:
    K, ones = int(codes.max()) + 1, np.ones(len(codes))
    truth = np.eye(K)[codes]
    # Two classes mirror each other: one column says it all.
    columns = slice(1, 2) if K == 2 else slice(None)
    losses, rows = [], []
    for method in methods:
        p = found[method.name].clip(0.0, 1.0)
        losses.append(row_losses(p, codes).mean(axis=0))
        brier = ((p - truth) ** 2)[:, :, columns].mean(axis=0).sum(axis=1)
        ece = ece_and_error([judged(one, codes) for one in p], ones, n_draws=60, random_state=seed)
        pairs = [mean_and_error(values, ones, groups) for values in (losses[-1], brier)]
        rows.append([*pairs, ece])
    metrics, table = ("log-loss", "Brier", "ECE"), np.array(rows)
    first = found[methods[0].name].clip(0.0, 1.0)
    return Comparison(
        methods=methods,
        probabilities=found,
        values=dict(zip(metrics, table[:, :, 0].T, strict=True)),
        errors=dict(zip(metrics, table[:, :, 1].T, strict=True)),
        losses=np.array(losses),
        folds=folds,
        repeats=len(first),
        chance=chance_ece([judged(first[0], codes)[1]], seed),
        failures=failures,
        groups=groups,
    )


def chance_ece(predictions: Sequence[Floats], seed: int) -> float:
    """Mean ECE where labels are drawn from the predictions themselves: what chance alone gives."""
    # A stream of its own: labels drawn with the numbers that made the predictions prove nothing.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    draws = [
        expected_calibration_error(rng.random(len(p)) < p, p.clip(0.0, 1.0))
        for p in predictions
        for _ in range(20)
    ]
    return float(np.mean(draws))
