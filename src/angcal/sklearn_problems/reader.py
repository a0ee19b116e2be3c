"""From a fitted classifier and its rows to the `LinearFit` it is: unwrap, point, class weights."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.class_weight import compute_class_weight

from angcal._typing import Floats, Matrix
from angcal.losses import Multinomial
from angcal.penalties import Penalty
from angcal.problem import LinearFit
from angcal.sklearn_problems.problem import (
    BALANCES_WEIGHT,
    one_number,
    problem_of,
    require_finite,
    require_fitted,
)


def read_fitted(estimator: Any, X: Matrix, labels: Floats, sample_weight: Floats) -> LinearFit:
    """(ŵ, b̂) and the J = (1/N) Σ ω_i ℓ_i + g(w) + ½ q₀ b² it minimizes, without refitting.

    Rows are those of the fit after any transformer, labels places in ``estimator.classes_``, and
    ``sample_weight`` what ``fit`` was given, ones if nothing: class weights are multiplied in here.
    ``distance_to_optimum`` of the result says whether X, labels and weights are those of the fit.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(n_samples=60, n_features=4, flip_y=0.3, random_state=0)
    >>> model = LogisticRegression(C=0.5).fit(X, y)
    >>> fit = read_fitted(model, X, y.astype(float), np.ones(60))
    >>> fit.penalty.strength == 1 / (60 * 0.5)
    True
    """
    problem = problem_of(estimator)
    n, d = X.shape
    joint = is_joint(estimator)
    coef, intercept = point_of(estimator, d, joint=joint)
    weights = sample_weight * class_factors(
        problem.class_weight, estimator.classes_, labels, sample_weight, problem.balances
    )
    N = float(weights.sum())
    penalty, strength = problem.penalty, problem.intercept_strength
    penalty = penalty if isinstance(penalty, Penalty) else penalty(n, N)
    if joint:
        require_joint(estimator)
    return LinearFit(
        X=X,
        labels=np.asarray(labels, dtype=np.float64),
        weights=np.asarray(weights, dtype=np.float64),
        coef=coef,
        intercept=intercept,
        loss=Multinomial(len(estimator.classes_)) if joint else problem.loss,
        penalty=penalty,
        fit_intercept=problem.fit_intercept,
        intercept_strength=strength(n, N) if callable(strength) else float(strength),
    )


def read_fits(estimator: Any, X: Matrix, codes: Floats, sample_weight: Floats) -> list[LinearFit]:
    """The fits behind a classifier of any number of classes, as by :func:`read_fitted`.

    One for two classes and for a joint fit of more; one for each class for one-vs-rest heads, whose
    labels are 1.0 for that class.
    """
    K = len(getattr(estimator, "classes_", (0, 1)))
    if K == 2 and isinstance(estimator, OneVsRestClassifier):
        (estimator,) = estimator.estimators_
    if K == 2 or is_joint(estimator):
        return [read_fitted(estimator, X, codes, sample_weight)]
    return [
        read_fitted(head, X, (codes == k).astype(np.float64), sample_weight)
        for k, head in enumerate(_one_vs_rest_heads(estimator, K))
    ]


def _one_vs_rest_heads(estimator: Any, n_classes: int) -> list[Any]:
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
    coef, intercepts = raw_weights(estimator)
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
    heads = []
    for k in range(n_classes):
        head = copy(estimator)
        head.coef_, head.intercept_ = coef[k : k + 1], intercepts[k : k + 1]
        heads.append(head)
    return heads


def _require_weights(estimator: Any) -> None:
    if not hasattr(estimator, "coef_") and hasattr(estimator, "classes_"):
        # Fitted, and yet no weights: a forest, or a support vector machine with a kernel.
        raise TypeError(
            f"{type(estimator).__name__} has no coef_: it is not a linear classifier. Use one "
            "such as LogisticRegression or LinearSVC."
        )
    require_fitted(estimator, "coef_")


def raw_weights(estimator: Any) -> tuple[Floats, Floats]:
    """(K, d) weights and (K,) intercepts of a fitted classifier, as it has them, in doubles."""
    _require_weights(estimator)
    coef = estimator.coef_
    # sparsify() leaves a sparse coef_ behind.
    coef = np.atleast_2d(coef.toarray() if sparse.issparse(coef) else coef).astype(np.float64)
    intercept = np.ravel(np.asarray(estimator.intercept_, dtype=np.float64))
    if len(coef) > 1:
        intercept = np.broadcast_to(intercept, len(coef)).copy()
    return require_finite(coef, "coef_"), intercept


def is_joint(estimator: Any) -> bool:
    """Whether three or more classes were fitted jointly, by a softmax of all scores."""
    logistic = isinstance(estimator, LogisticRegression | LogisticRegressionCV)
    return logistic and len(getattr(estimator, "classes_", ())) > 2


def require_joint(estimator: Any) -> None:
    """Refuse a fit of three or more classes that is not one multinomial problem."""
    name = type(estimator).__name__
    if estimator.solver == "liblinear" or getattr(estimator, "multi_class", None) == "ovr":
        raise ValueError(
            f"This {name} fits its classes one against the rest; write "
            f"OneVsRestClassifier({name}(...)) for that, or choose the solver 'lbfgs'."
        )


def unwrap(estimator: Any) -> tuple[Any | None, Any]:
    """(T, m) such that ``estimator`` scores x as m does T(x); T is None where x goes in as it is.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import StandardScaler
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    >>> transformer, model = unwrap(FrozenEstimator(pipeline))
    >>> transformer.steps, model
    ([('standardscaler', StandardScaler())], LogisticRegression())
    """
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator)
    if not isinstance(estimator, Pipeline):
        return None, estimator
    steps = [step for _, step in estimator.steps]
    inner, model = unwrap(steps[-1])
    idle = all(step is None or step == "passthrough" for step in steps[:-1])
    if idle:
        return inner, model
    outer = estimator[:-1]
    return (outer if inner is None else make_pipeline(outer, inner)), model


def class_factors(
    class_weight: Any, classes: Any, labels: Floats, weights: Floats, balances: str = "weight"
) -> Floats:
    """The class weight of each row, computed by scikit-learn's own function.

    "balanced" balances sums of `weights`, or with `balances` "rows" numbers of rows.
    """
    if class_weight is None:
        return np.ones(len(labels))
    classes, index = np.asarray(classes), np.asarray(labels, dtype=int)
    # Before scikit-learn 1.7 nothing can be handed over, nor is needed.
    options = {"sample_weight": weights} if balances == "weight" and BALANCES_WEIGHT else {}
    factors = compute_class_weight(class_weight, classes=classes, y=classes[index], **options)
    return np.asarray(factors, dtype=np.float64)[index]


def point_of(estimator: Any, n_features: int, *, joint: bool = False) -> tuple[Floats, Any]:
    """(ŵ, b̂) of a fitted binary classifier of so many columns; of a joint one (K, d) and (K,)."""
    name = type(estimator).__name__
    coef, intercept = raw_weights(estimator)
    if not joint and len(coef) != 1:
        raise ValueError(
            f"The {name} was fitted on {len(estimator.classes_)} classes; as one binary head it "
            "cannot be read; read_fits reads its heads one by one."
        )
    if coef.shape[1] != n_features:
        raise ValueError(
            f"The {name} has {coef.shape[1]} coefficients but X has {n_features} columns; pass the "
            "features that the linear model itself was fitted on."
        )
    return (coef, intercept) if joint else (coef[0], one_number(intercept, "intercept_"))
