"""Features and labels -> a tuned, calibrated model that takes tables of the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from angcal.estimators import AngularLogisticRegressionCV
from angcal.tables.columns import aligned, plan_columns, preparation_of


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A model of a table, and what became of its columns."""

    model: Pipeline  # ``prepare`` (a ColumnTransformer) and ``classify``, both fitted
    classes: np.ndarray  # In the order of the columns of ``predict_proba``
    dropped: tuple[tuple[str, str], ...]  # Columns that the model does not see
    n: int  # Rows, and columns after preparation
    d: int

    @property
    def columns(self) -> int:
        """Columns of the table, used or not."""
        return len(self.model.steps[0][1].feature_names_in_) + len(self.dropped)

    @property
    def classifier(self) -> Any:
        """The last step of the model."""
        return self.model.steps[-1][1]


def fit_table(
    features: Any, y: np.ndarray, *, pool: Any = None, Cs: Any = 10, groups: Any = None
) -> FittedTable:
    """Prepare, choose the penalty by leave-one-out log-loss, fit and calibrate."""
    plan = plan_columns(features)
    prepare = preparation_of(plan, len(features))
    X = prepare.fit_transform(features[plan.used])
    if pool is not None:
        pool = prepare.transform(aligned(pool, plan.used, "the pool"))
    classify = AngularLogisticRegressionCV(Cs=Cs).fit(X, y, pool=pool, groups=groups)
    model = Pipeline([("prepare", prepare), ("classify", classify)])
    return FittedTable(model, classify.classes_, plan.dropped, X.shape[0], X.shape[1])
