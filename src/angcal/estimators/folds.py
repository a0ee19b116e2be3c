r"""p(x) = (1/K) Σ_k p_k(x), p_k calibrated without the rows of fold k: K models instead of one.

Each leaves out a K-th of the rows, so that they disagree where single rows decide. Their average is
a better classifier than one fit where labels are few, and still calibrated, or a little too modest:
each is calibrated by itself, by leave-one-out, and needs no labels for that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from angcal._typing import Floats, Matrix
from angcal.estimators.training import SMALLEST_SAMPLE

FOLDS = 5


@dataclass(frozen=True, eq=False)
class FoldAverage:
    """Classifiers of which each was fitted without one fold.

    Attributes
    ----------
    classifiers : list
    """

    classifiers: list[Any]

    def predict(self, rows: Matrix) -> Floats:
        """Mean of P(y = 1) over the classifiers."""
        p = np.zeros(rows.shape[0])
        for classifier in self.classifiers:
            p += classifier.predict_proba(rows)[:, 1]
        return p / len(self.classifiers)


def check_folds(labels: Floats) -> int:
    """The number of folds: five, or as many as the smaller class has rows; refuses too few rows."""
    smaller = int(np.bincount(labels.astype(int)).min())
    folds = min(FOLDS, smaller)
    if folds < 2 or len(labels) - ceil(len(labels) / folds) < SMALLEST_SAMPLE:
        raise ValueError(
            f"average='folds' needs two rows of each class and {SMALLEST_SAMPLE} rows without any "
            f"of its folds; y has {smaller} of the rarer class among {len(labels)}. Pass "
            "average=None or 'penalties'."
        )
    return folds


def fit_without_folds(
    classifier: Any, X: Matrix, labels: Floats, weights: Floats, pool: Any
) -> FoldAverage:
    """A copy of the classifier for each of five folds, or as many as the smaller class has rows.

    Parameters
    ----------
    classifier : AngularLogisticRegressionCV
        Unfitted; it is cloned.
    X, labels, weights
        Checked rows, codes of their classes, and their weights.
    pool : optional
        As in ``fit``.
    """
    fitted = []
    for kept, _ in StratifiedKFold(check_folds(labels)).split(np.zeros(len(labels)), labels):
        rows = _safe_indexing(X, kept)
        with warnings.catch_warnings():
            # The fit to all rows has said what there is to say.
            warnings.simplefilter("ignore")
            fitted.append(clone(classifier).fit(rows, labels[kept], weights[kept], pool=pool))
    return FoldAverage(fitted)
