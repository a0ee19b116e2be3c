r"""From fits of three or more classes to the leave-one-out scores that calibration works with.

A joint fit has K − 1 scores that a softmax can see, and one block of the Hessian for each row.
One-vs-rest heads are K binary fits that each are read as any binary fit is; their scores may
depend on each other (heads of ridge regressions sum to a constant), which is no obstacle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.links.multiclass import OneVsRest, SeveralLink, Softmax
from angcal.losses import Logistic, contrasts, index_map
from angcal.observables import Observables, honest_scores, observe
from angcal.problem import LinearFit, check_separable
from angcal.sklearn_problems import raw_weights, read_fits


@dataclass(frozen=True, eq=False)
class ClassScores:
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
    loo_scores : (n, k) array
        Scores of each row under the fit without it, intercept included.
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
    followed : (n,) array
        Each row's share of the degrees of freedom.
    """

    scores: Floats
    fitted_scores: Floats
    honest_scores: Floats
    loo_scores: Floats
    link: SeveralLink | None
    lift: Floats
    spread: Floats
    project: Floats
    contrast: Floats
    coef: Floats
    intercept: Floats
    followed: Floats

    @property
    def leaning(self) -> float:
        """Degrees of freedom for each score and row: how much scores lean on other rows' labels."""
        return float(np.clip(self.followed.mean() / self.scores.shape[1], 0.0, 1.0))


def class_scores(
    estimator: Any, fits: list[LinearFit], observed: list[Observables], codes: np.ndarray
) -> ClassScores:
    """Scores of three or more classes, of a joint fit or of one-vs-rest heads.

    Parameters
    ----------
    estimator : fitted linear classifier
        For the heads' own weights.
    fits, observed : lists
        One entry for a joint fit, one for each class for one-vs-rest heads.
    codes : (n,) array of int
        Places in ``estimator.classes_``.
    """
    K = len(estimator.classes_)
    A = contrasts(K)
    honest = [honest_scores(fit, found) for fit, found in zip(fits, observed, strict=True)]
    if len(fits) == 1:
        q = A.shape[1]
        lift = index_map(A)
        coef, intercept = raw_weights(estimator)
        found = observed[0]
        return ClassScores(
            scores=found.calibration_scores,
            fitted_scores=found.scores,
            honest_scores=honest[0],
            loo_scores=found.loo_scores,
            link=Softmax(K),
            lift=lift,
            spread=np.asarray(np.linalg.pinv(lift), dtype=np.float64),
            project=np.eye(q),
            contrast=A,
            coef=coef,
            intercept=intercept,
            followed=found.leverage_shares,
        )
    logistic = all(isinstance(fit.loss, Logistic) for fit in fits)
    return ClassScores(
        scores=np.column_stack([found.calibration_scores for found in observed]),
        fitted_scores=np.column_stack([found.scores for found in observed]),
        honest_scores=np.column_stack(honest),
        loo_scores=np.column_stack([found.loo_scores for found in observed]),
        link=OneVsRest(K) if logistic else None,
        lift=np.eye(K),
        spread=np.eye(K),
        project=index_map(A),
        contrast=A,
        coef=np.array([fit.coef for fit in fits]),
        intercept=np.array([fit.intercept for fit in fits]),
        followed=np.sum([found.leverage_shares for found in observed], axis=0),
    )


def read_class_scores(
    estimator: Any, X: Matrix, codes: np.ndarray, weights: Floats, method: str = "auto"
) -> ClassScores:
    """Scores of a fitted classifier of three or more classes, from the rows it was fitted on.

    Parameters
    ----------
    estimator : fitted LogisticRegression, OneVsRestClassifier, LinearSVC, RidgeClassifier, ...
    X : (n, d) array or sparse matrix
    codes : (n,) array of int
        Places in ``estimator.classes_``.
    weights : (n,) array
    method : {"auto", "exact", "randomised"}
    """
    fits = [replace(fit, hessian_method=method) for fit in read_fits(estimator, X, codes, weights)]
    for fit in fits:
        check_separable(fit)
    return class_scores(estimator, fits, [observe(fit) for fit in fits], codes)
