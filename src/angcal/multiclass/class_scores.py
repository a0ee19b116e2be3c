r"""From a fitted classifier of three or more classes to the leave-one-out scores of its heads.

A multinomial fit has K − 1 scores that a softmax can see, and one block of the Hessian for each
row. One-vs-rest heads are K binary fits that each are read as any binary fit is; their scores may
depend on each other (heads of ridge regressions sum to a constant), which is no obstacle.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.multiclass import OneVsRestClassifier

from angcal._typing import Floats, Matrix
from angcal.links.multiclass import OneVsRest, SeveralLink, Softmax
from angcal.losses import Logistic, contrasts, index_map
from angcal.observables import Observables, observe
from angcal.problem import LinearFit, check_separable
from angcal.sklearn_problems import read_fitted
from angcal.sklearn_problems.problem import problem_of, require_fitted


@dataclass(frozen=True, eq=False)
class Heads:
    """Leave-one-out scores of several classes, and how they relate to classes.

    Attributes
    ----------
    scores : (n, k) array
        Leave-one-out scores in the coordinates that calibration works in.
    fitted_scores : (n, k) array
        Scores of the same rows under the fit with them, in the same coordinates.
    honest_scores : (n, k) array
        Scores of each row under the fit without it, intercept included, but for what its absence
        does to the count of its class. At `scores` the intercept has seen the row.
    link : SeveralLink or None
        From the heads' raw scores to the base model's own probabilities; None where it has none.
    lift : (k, heads) array
        From the heads' raw scores to those coordinates.
    spread : (heads, k) array
        From those coordinates to heads, for reports.
    project : (q, k) array
        From those coordinates to the directions that a softmax can see.
    contrast : (K, q) array
    coef, intercept : (heads, d) and (heads,) arrays
    observables : Observables, or a list of them
        Of a joint fit with q scores, or of one-vs-rest heads.
    followed : (n,) array
        Each row's share of the degrees of freedom.
    distance_to_optimum : float
    """

    scores: Floats
    fitted_scores: Floats
    honest_scores: Floats
    link: SeveralLink | None
    lift: Floats
    spread: Floats
    project: Floats
    contrast: Floats
    coef: Floats
    intercept: Floats
    observables: Observables | list[Observables]
    followed: Floats
    distance_to_optimum: float

    @property
    def leaning(self) -> float:
        """Degrees of freedom for each score and row: how much scores lean on other rows' labels."""
        return float(np.clip(self.followed.mean() / self.scores.shape[1], 0.0, 1.0))


def read_heads(
    estimator: Any, X: Matrix, codes: np.ndarray, weights: Floats, method: str = "auto"
) -> Heads:
    """Leave-one-out scores of a fitted classifier of three or more classes.

    Parameters
    ----------
    estimator : fitted LogisticRegression, OneVsRestClassifier, LinearSVC, RidgeClassifier, ...
    X : (n, d) array or sparse matrix
        The rows it was fitted on.
    codes : (n,) array of int
        Places in ``estimator.classes_``.
    weights : (n,) array
    method : {"auto", "exact", "randomised"}
    """
    if isinstance(estimator, LogisticRegression | LogisticRegressionCV):
        return _multinomial_heads(estimator, X, codes, weights, method)
    return _separate_heads(estimator, X, codes, weights, method)


def count_shifts(codes: np.ndarray, weights: Floats, n_classes: int) -> Floats:
    """(ω_i/W_y)·W/(W − ω_i) in the column of each row's class, (n, K); W_y the class's weight.

    Without row i its class has less weight, and its logit is lower by as much: this is the
    leave-one-out step of a model that has intercepts alone. New rows are judged by the count of
    all, so that the step is to be given back.
    """
    shifts = np.zeros((len(codes), n_classes))
    totals, total = np.bincount(codes, weights, minlength=n_classes), weights.sum()
    shifts[np.arange(len(codes)), codes] = weights / totals[codes] * total / (total - weights)
    return shifts


def _dense(coef: Any) -> Floats:
    return np.asarray(coef.toarray() if sparse.issparse(coef) else coef, dtype=np.float64)


def _multinomial_heads(
    estimator: Any, X: Matrix, codes: np.ndarray, weights: Floats, method: str
) -> Heads:
    fit = replace(read_fitted(estimator, X, codes, weights), hessian_method=method)
    check_separable(fit)
    # The Newton step first: it shares its passes over X with the leverages.
    distance = fit.distance_to_optimum
    found = observe(fit)
    coef = _dense(estimator.coef_)
    intercept = np.ravel(np.asarray(estimator.intercept_, dtype=np.float64))
    A = contrasts(len(estimator.classes_))
    q = A.shape[1]
    lift = np.eye(1) if len(coef) == 1 else index_map(A)
    shifts = count_shifts(codes, fit.weights, len(A)) @ lift.T
    return Heads(
        scores=found.calibration_scores.reshape(-1, q),
        fitted_scores=found.scores.reshape(-1, q),
        honest_scores=found.loo_scores.reshape(-1, q) + shifts * fit.fit_intercept,
        link=Softmax(len(A)),
        lift=lift,
        spread=np.asarray(np.linalg.pinv(lift), dtype=np.float64),
        project=np.eye(q),
        contrast=A,
        coef=coef,
        intercept=np.broadcast_to(intercept, len(coef)).copy(),
        observables=found,
        followed=found.leverage_shares,
        distance_to_optimum=distance,
    )


def _separate_heads(
    estimator: Any, X: Matrix, codes: np.ndarray, weights: Floats, method: str
) -> Heads:
    K = len(estimator.classes_)
    models = _head_models(estimator, K)
    coefs, intercepts, scores, honest, observed, distances = [], [], [], [], [], []
    logistic = True
    for k, model in enumerate(models):
        fit = read_fitted(model, X, (codes == k).astype(np.float64), weights)
        fit = replace(fit, hessian_method=method)
        check_separable(fit)
        found = observe(fit)
        coefs.append(fit.coef)
        intercepts.append(fit.intercept)
        scores.append(found.calibration_scores)
        honest.append(_honest_head(fit, found))
        logistic = logistic and isinstance(fit.loss, Logistic)
        observed.append(found)
        distances.append(fit.distance_to_optimum if np.any(fit.coef) else 0.0)
    A = contrasts(K)
    followed = np.sum([found.leverage_shares for found in observed], axis=0)
    return Heads(
        scores=np.column_stack(scores),
        fitted_scores=np.column_stack([found.scores for found in observed]),
        honest_scores=np.column_stack(honest),
        link=OneVsRest(K) if logistic else None,
        lift=np.eye(K),
        spread=np.eye(K),
        project=index_map(A),
        contrast=A,
        coef=np.array(coefs),
        intercept=np.array(intercepts),
        observables=observed,
        followed=followed,
        distance_to_optimum=float(max(distances)),
    )


def _honest_head(fit: LinearFit, found: Observables) -> Floats:
    """Leave-one-out scores of one head, but for what a row's absence does to its class's count."""
    if not fit.fit_intercept:
        return found.loo_scores
    if not isinstance(fit.loss, Logistic):
        # What counts do to other losses is not known; the intercept with the row has to do.
        return found.calibration_scores
    return found.loo_scores + count_shifts(fit.labels.astype(np.intp), fit.weights, 2) @ [-1.0, 1.0]


def _head_models(estimator: Any, n_classes: int) -> list[Any]:
    """One fitted binary model for each class."""
    if isinstance(estimator, OneVsRestClassifier):
        for model in estimator.estimators_:
            if not hasattr(model, "coef_"):
                raise TypeError(
                    f"OneVsRestClassifier({type(model).__name__}) has heads without coef_; put "
                    "transformers before it, and a linear classifier inside."
                )
        return list(estimator.estimators_)
    problem = problem_of(estimator)
    require_fitted(estimator, "coef_")
    coef = _dense(estimator.coef_)
    if len(coef) != n_classes:
        raise ValueError(
            f"{type(estimator).__name__} has {len(coef)} rows of weights for {n_classes} classes; "
            "angcal reads one row for each class."
        )
    if problem.class_weight is not None:
        raise ValueError(
            f"{type(estimator).__name__}(class_weight=...) with three or more classes cannot be "
            "read; wrap it: OneVsRestClassifier(...), or pass sample_weight."
        )
    intercepts = np.ravel(np.asarray(estimator.intercept_, dtype=np.float64))
    models = []
    for k in range(n_classes):
        head = copy(estimator)
        head.coef_ = coef[k : k + 1]
        head.intercept_ = intercepts[k : k + 1] if len(intercepts) == n_classes else intercepts[:1]
        models.append(head)
    return models
