"""The problems that scikit-learn's linear classifiers solve, entered into `problem_of`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from angcal.losses import HuberisedHinge, Logistic, Loss, Squared, SquaredHinge
from angcal.penalties import ElasticNet, NoPenalty, Penalty, Ridge
from angcal.sklearn_problems.problem import Problem, problem_of, require_fitted

# Since scikit-learn 1.7 LogisticRegression and LinearSVC balance the classes' total sample weight;
# before, their number of rows. compute_class_weight gained the parameter in the same change.
BALANCES_WEIGHT = "sample_weight" in signature(compute_class_weight).parameters


@problem_of.register(LogisticRegression)
def _logistic_regression(estimator: Any) -> Problem:
    return _logistic(
        estimator, estimator.C, estimator.l1_ratio, scaling=estimator.intercept_scaling
    )


@problem_of.register(LogisticRegressionCV)
def _logistic_regression_cv(estimator: Any) -> Problem:
    if not estimator.refit:
        raise ValueError(
            "LogisticRegressionCV(refit=False) averages the folds' coefficients, which minimise "
            "no objective; fit it with refit=True."
        )
    require_fitted(estimator, "C_")
    # One entry for binary problems: an array, or a number with use_legacy_attributes=False.
    C, l1_ratio = np.ravel(estimator.C_)[0], np.ravel(estimator.l1_ratio_)[0]
    # The final refit leaves intercept_scaling out, so liblinear runs it at its default of 1.
    return _logistic(estimator, C, l1_ratio, scaling=1.0)


@problem_of.register(RidgeClassifier)
def _ridge_classifier(estimator: Any) -> Problem:
    if estimator.positive:
        raise ValueError(
            "RidgeClassifier(positive=True) constrains the coefficients' signs, which no penalty "
            "of angcal describes; fit it with positive=False."
        )
    return _ridge(estimator, estimator.alpha)


@problem_of.register(RidgeClassifierCV)
def _ridge_classifier_cv(estimator: Any) -> Problem:
    require_fitted(estimator, "alpha_")
    return _ridge(estimator, estimator.alpha_)


@problem_of.register(LinearSVC)
def _linear_svc(estimator: Any) -> Problem:
    if estimator.loss == "hinge":
        raise ValueError(
            "LinearSVC(loss='hinge') cannot be read: the hinge has no second derivative. Fit it "
            "with loss='squared_hinge'."
        )
    if estimator.multi_class != "ovr":
        raise ValueError(
            f"LinearSVC(multi_class={estimator.multi_class!r}) solves a joint problem even for "
            "two classes; fit it with multi_class='ovr'."
        )
    l1_ratio = 1.0 if estimator.penalty == "l1" else 0.0
    scale = float(estimator.intercept_scaling)
    return Problem(
        loss=SquaredHinge(),
        penalty=lambda n, N: _elastic(1.0 / (N * estimator.C), l1_ratio),
        fit_intercept=estimator.fit_intercept,
        intercept_strength=_liblinear_intercept(estimator, estimator.C, l1_ratio, scale),
        class_weight=estimator.class_weight,
        balances="weight" if BALANCES_WEIGHT else "rows",
    )


_SGD_LOSSES: dict[str, Loss] = {
    "log_loss": Logistic(),
    "squared_hinge": SquaredHinge(),
    "modified_huber": HuberisedHinge(delta=2.0, scale=4.0),
    "squared_error": Squared(),  # scikit-learn's is ½(u − t)² here, unlike in its ridge
}


@problem_of.register(SGDClassifier)
def _sgd_classifier(estimator: Any) -> Problem:
    _require_readable_sgd(estimator)
    l1_ratio = {"l2": 0.0, "l1": 1.0}.get(estimator.penalty, estimator.l1_ratio)
    # Every step decays w by α whatever the row's weight, so the penalty stands next to
    # (1/n) Σ ωℓ and not next to (1/N) Σ ωℓ.
    alpha = 0.0 if estimator.penalty is None else float(estimator.alpha)
    return Problem(
        loss=_SGD_LOSSES[estimator.loss],
        penalty=lambda n, N: _elastic(alpha * n / N, l1_ratio),
        fit_intercept=estimator.fit_intercept,
        class_weight=estimator.class_weight,
        balances="rows",
    )


def _require_readable_sgd(estimator: Any) -> None:
    if estimator.loss not in _SGD_LOSSES:
        readable = ", ".join(repr(name) for name in _SGD_LOSSES)
        why = (
            "has no second derivative"
            if estimator.loss in ("hinge", "perceptron")
            else "is a regression loss that angcal does not carry"
        )
        raise ValueError(
            f"SGDClassifier(loss={estimator.loss!r}) cannot be read: that loss {why}. "
            f"Readable losses are {readable}."
        )
    if estimator.early_stopping:
        raise ValueError(
            "SGDClassifier(early_stopping=True) holds out rows it does not name, so its problem "
            "is not known; fit it with early_stopping=False."
        )
    if estimator.learning_rate in ("pa1", "pa2"):
        raise ValueError(
            f"SGDClassifier(learning_rate={estimator.learning_rate!r}) takes passive-aggressive "
            "steps, which minimise no fixed objective; use 'optimal' or 'adaptive'."
        )


def _logistic(estimator: Any, C: float, l1_ratio: float | None, scaling: float) -> Problem:
    # scikit-learn < 1.8 took multi_class, and softmax over (−w, w) is not the logistic loss of w.
    if getattr(estimator, "multi_class", None) == "multinomial":
        raise ValueError(
            f"{type(estimator).__name__}(multi_class='multinomial') penalises both classes' "
            "weights; leave multi_class at its default."
        )
    penalty = getattr(estimator, "penalty", "deprecated")
    if penalty is None:
        C = np.inf
    ratio = {"l1": 1.0, "l2": 0.0, None: 0.0}.get(penalty, l1_ratio or 0.0)
    liblinear = estimator.solver == "liblinear"
    return Problem(
        loss=Logistic(),
        penalty=lambda n, N: _elastic(1.0 / (N * C), ratio),
        fit_intercept=estimator.fit_intercept,
        intercept_strength=_liblinear_intercept(estimator, C, ratio, scaling) if liblinear else 0.0,
        class_weight=estimator.class_weight,
        balances="weight" if BALANCES_WEIGHT else "rows",
    )


def _ridge(estimator: Any, alpha: float) -> Problem:
    # Σω(u − t)² + α‖w‖² is twice Σω·½(u − t)² + ½α‖w‖².
    return Problem(
        loss=Squared(),
        penalty=lambda n, N: _elastic(float(alpha) / N, 0.0),
        fit_intercept=estimator.fit_intercept,
        class_weight=estimator.class_weight,
        balances="rows",
    )


def _liblinear_intercept(
    estimator: Any, C: float, l1_ratio: float, scaling: float
) -> float | Callable[[int, float], float]:
    """q₀ = 1/(N·C·s²): liblinear's ½(b/s)² next to C·Σωℓ."""
    if not estimator.fit_intercept:
        return 0.0
    if l1_ratio > 0:
        raise ValueError(
            f"{type(estimator).__name__} with an ℓ₁ penalty was fitted by liblinear, which puts "
            "the ℓ₁ penalty on the intercept too; angcal has no such term. Fit it with "
            "fit_intercept=False (append a column of ones to X for the same model) or, for a "
            "logistic regression, with solver='saga'."
        )
    return lambda n, N: 1.0 / (N * C * scaling**2)


def _elastic(strength: float, l1_ratio: float) -> Penalty:
    if strength == 0:
        return NoPenalty()
    return Ridge(strength) if l1_ratio == 0 else ElasticNet(strength, l1_ratio)
