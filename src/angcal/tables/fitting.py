"""Features and labels -> a tuned, calibrated model that takes tables of the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from angcal.estimators import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.tables.columns import aligned, plan_columns, preparation_of
from angcal.tables.errors import TableError

# For three or more classes, where no path is fitted at once.
STRENGTHS = np.logspace(-4, 2, 7)
MOST_FOLDS, MOST_ITERATIONS, TOLERANCE = 5, 1000, 1e-6


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A model of a table, and what became of its columns.

    Attributes
    ----------
    model : Pipeline
        ``prepare`` (a ColumnTransformer) and ``classify``, both fitted.
    classes : ndarray
        In the order of the columns of ``predict_proba``.
    dropped : tuple of (name, reason)
        Columns that the model does not see.
    n, d : int
        Rows, and columns after preparation.
    """

    model: Pipeline
    classes: np.ndarray
    dropped: tuple[tuple[str, str], ...]
    n: int
    d: int

    @property
    def classifier(self) -> Any:
        """The last step of the model."""
        return self.model.steps[-1][1]


def fit_table(
    features: Any, y: np.ndarray, *, pool: Any = None, Cs: Any = 20, seed: int = 0
) -> FittedTable:
    """Prepare, choose the penalty, fit and calibrate.

    Parameters
    ----------
    features : pandas.DataFrame
    y : ndarray
        Classes, as from `split_target`.
    pool : pandas.DataFrame, optional
        Rows without labels, with at least the columns that are used.
    Cs : int or sequence of float, default=20
        Inverse strengths of the penalty, as in :class:`AngularLogisticRegressionCV`.
    seed : int, default=0
        Of the folds that choose the penalty for three or more classes; two need none.
    """
    classes = np.unique(y)
    if pool is not None and len(classes) > 2:
        raise TableError(
            f"a pool is for two classes, and the target has {len(classes)}; leave the pool out."
        )
    plan = plan_columns(features)
    prepare = preparation_of(plan, len(features))
    X = prepare.fit_transform(features[plan.used])
    if pool is not None:
        pool = prepare.transform(aligned(pool, plan.used, "the pool"))
    if len(classes) > 2:
        classify = _multiclass(X, y, Cs, seed)
    else:
        classify = AngularLogisticRegressionCV(Cs=Cs).fit(X, y, pool=pool)
    model = Pipeline([("prepare", prepare), ("classify", classify)])
    return FittedTable(model, classify.classes_, plan.dropped, X.shape[0], X.shape[1])


def _multiclass(X: Any, y: np.ndarray, Cs: Any, seed: int) -> Any:
    """One fit for all classes, its penalty chosen by cross-validation."""
    C = _validated_strength(X, y, Cs, seed)
    base = LogisticRegression(C=C, max_iter=MOST_ITERATIONS, tol=TOLERANCE)
    return AngularCalibratedClassifier(base).fit(X, y)


def _validated_strength(X: Any, y: np.ndarray, Cs: Any, seed: int) -> float:
    """The inverse strength with the smallest cross-validated log-loss."""
    folds = min(MOST_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    if folds < 2:
        return 1.0
    strengths = STRENGTHS if isinstance(Cs, int) else np.asarray(Cs, dtype=np.float64)
    search = GridSearchCV(
        LogisticRegression(max_iter=MOST_ITERATIONS),
        {"C": strengths},
        scoring="neg_log_loss",
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        refit=False,
    )
    return float(search.fit(X, y).best_params_["C"])
