"""Who is measured: each contender is a name, a classifier for a case, and where it can run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from angcal import AngularCalibratedClassifier
from angcal._typing import Floats
from angcal.threads import side_pools_at_rest
from studies.speed.cases import Case, Problem, Selection

MOST_ITERATIONS = 1000
FOLDS = 5

BASE, BASE_AT_REST = "LogisticRegression", "LogisticRegression at rest"
OURS, OURS_EXACT, OUR_PART = "angular", "angular exact", "angular part"
CROSS_FITTED, CROSS_FITTED_ONE = "CalibratedClassifierCV", "CalibratedClassifierCV one"


def logistic(case: Case, solver: str = "lbfgs") -> LogisticRegression:
    """The base model that every contender shares."""
    return LogisticRegression(C=case.C, solver=solver, tol=case.tol, max_iter=MOST_ITERATIONS)


class LogisticAtRest(LogisticRegression):
    """One fit under the thread settings that angcal gives its base model: a stricter yardstick."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticAtRest:
        """As in the parent."""
        with side_pools_at_rest():
            return super().fit(X, y, sample_weight)


def tuned(case: Case, n_penalties: int) -> LogisticRegressionCV:
    """scikit-learn's own search over penalties, by cross-validated log-loss."""
    return LogisticRegressionCV(
        Cs=n_penalties,
        cv=FOLDS,
        l1_ratios=(0.0,),
        scoring="neg_log_loss",
        tol=case.tol,
        max_iter=MOST_ITERATIONS,
        use_legacy_attributes=False,
    )


@dataclass(frozen=True)
class Contender:
    """``make(problem)`` builds an unfitted classifier; ``suits(case, selection)`` says where."""

    name: str
    make: Callable[[Problem], Any]
    suits: Callable[[Case, Selection], bool] = lambda case, selection: True
    # The exact path is there for its answers; where it is slow, it is timed once.
    repeats_beyond: Callable[[Case], int | None] = lambda case: None

    def repeats(self, case: Case, usual: int) -> int:
        """How often to run it."""
        limit = self.repeats_beyond(case)
        return usual if limit is None else min(limit, usual)


def angular(problem: Problem, observables: str = "auto", solver: str = "lbfgs") -> Any:
    """Ours, on the base model that every contender shares."""
    return AngularCalibratedClassifier(logistic(problem.case, solver), observables=observables)


def _our_part(problem: Problem) -> Any:
    """Observables, angle and link alone, on a model that is already fitted."""
    with warnings.catch_warnings(action="ignore"):
        fitted = logistic(problem.case).fit(problem.X, problem.y)
    return AngularCalibratedClassifier(FrozenEstimator(fitted))


def _small_hessian(case: Case, selection: Selection) -> bool:
    return case.kind == "dense" and case.d <= selection.hessian_side


def _exact_affordable(case: Case, selection: Selection) -> bool:
    return min(case.n, case.d) <= selection.exact_side


def _searches(case: Case, largest: int) -> bool:
    """A search over penalties does not depend on the case's own, so one case per size is enough."""
    return case.entries <= largest and case.C == 1.0


CONTENDERS = (
    Contender(BASE, lambda p: logistic(p.case)),
    Contender(
        BASE_AT_REST, lambda p: LogisticAtRest(C=p.case.C, tol=p.case.tol, max_iter=MOST_ITERATIONS)
    ),
    Contender(OURS, angular),
    Contender(OUR_PART, _our_part),
    Contender(
        OURS_EXACT,
        lambda p: angular(p, observables="exact"),
        _exact_affordable,
        lambda case: 1 if min(case.n, case.d) > 2000 else None,
    ),
    Contender(CROSS_FITTED, lambda p: CalibratedClassifierCV(logistic(p.case), cv=FOLDS)),
    Contender(
        CROSS_FITTED_ONE,
        lambda p: CalibratedClassifierCV(logistic(p.case), cv=FOLDS, ensemble=False),
    ),
    Contender("newton-cholesky", lambda p: logistic(p.case, "newton-cholesky"), _small_hessian),
    Contender(
        "angular newton-cholesky", lambda p: angular(p, solver="newton-cholesky"), _small_hessian
    ),
    Contender(
        "LogisticRegressionCV",
        lambda p: tuned(p.case, 10),
        lambda case, selection: _searches(case, selection.tuning_entries),
    ),
    Contender(
        "nested tuning",
        lambda p: CalibratedClassifierCV(tuned(p.case, 20), cv=FOLDS, ensemble=False),
        lambda case, selection: _searches(case, selection.nested_entries),
    ),
)


def suited(case: Case, selection: Selection) -> list[Contender]:
    """Those that run at this size."""
    return [contender for contender in CONTENDERS if contender.suits(case, selection)]


@dataclass(frozen=True, eq=False)
class LinearPart:
    """One fitted linear model inside a contender, and the rows it was fitted on."""

    coef: Floats
    intercept: float
    C: float
    rows: np.ndarray | None = None


def linear_parts(model: Any, problem: Problem) -> list[LinearPart]:
    """The linear models that a fitted contender rests on: one, or one per fold."""
    if isinstance(model, CalibratedClassifierCV):
        inner = [calibrated.estimator for calibrated in model.calibrated_classifiers_]
        if len(inner) == 1:
            return linear_parts(inner[0], problem)
        # The folds of CalibratedClassifierCV(cv=5) are unshuffled, hence known.
        folds = StratifiedKFold(len(inner)).split(np.zeros(len(problem.y)), problem.y)
        return [
            LinearPart(*_weights(part), problem.case.C, train)
            for part, (train, _) in zip(inner, folds, strict=True)
        ]
    C = problem.case.C
    if isinstance(model, LogisticRegressionCV):
        C = float(np.ravel(model.C_)[0])
    return [LinearPart(*_weights(model), C)]


def _weights(model: Any) -> tuple[Floats, float]:
    coef = np.asarray(model.coef_, dtype=np.float64).ravel()
    return coef, float(np.ravel(model.intercept_)[0])


def positive_probability(model: Any, X: Any) -> Floats:
    """P(y = 1) from whatever a contender calls it."""
    probability = np.asarray((getattr(model, "predict_proba", None) or model.predict)(X))
    return probability if probability.ndim == 1 else probability[:, 1]
