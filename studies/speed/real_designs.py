"""Fits to real rows, correlated, of low rank or sparse: CPU seconds beside scikit-learn's.

Nine tenths of the rows of each dataset that is at hand, drawn once, as `studies.datasets` prepares
them; text counts become TF-IDF. Every contender solves with ``LogisticRegression``'s defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies.datasets import available, load
from studies.speed.measure import Row, alternating

NAMES = ("internet_ads", "hiva", "gisette", "basehock")
SHARE, SEED, FIT_REPEATS = 0.9, 20_250_919, 3
FIXED: dict[str, Callable[[], Any]] = {
    "plain": LogisticRegression,
    "angular": lambda: AngularCalibratedClassifier(LogisticRegression()),
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(LogisticRegression(), cv=5),
}
TUNED: dict[str, Callable[[], Any]] = {
    "angular, tuned": lambda: AngularLogisticRegressionCV(Cs=20),
    "LogisticRegressionCV": partial(
        LogisticRegressionCV,
        Cs=20,
        cv=5,
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    ),
}


def names() -> list[str]:
    """Datasets that are at hand."""
    here = set(available())
    return [name for name in NAMES if name in here]


def design(name: str) -> tuple[Any, np.ndarray]:
    """Rows and classes."""
    data = load(name, download=False, scaled=name != "basehock")
    assert data.y is not None
    rows = np.flatnonzero(data.labelled)
    rng = np.random.default_rng(SEED)
    rows = np.sort(rng.choice(rows, round(SHARE * len(rows)), replace=False))
    X = data.X[rows]
    return (TfidfTransformer().fit_transform(X) if sparse.issparse(X) else X), data.y[rows]


def measure_real(name: str, tuned: bool) -> list[Row]:
    """CPU seconds of every contender, alternating; tuned ones once."""
    X, y = design(name)
    models, repeats = (TUNED, 1) if tuned else (FIXED, FIT_REPEATS)
    size = {"n": X.shape[0], "d": X.shape[1]}
    found = alternating(name, models, lambda model: model.fit(X, y), repeats)
    return [row | size | {"case": case_name(name, tuned)} for row, _ in found]


def case_name(name: str, tuned: bool) -> str:
    """As the CSV has it."""
    return f"{name} tuned" if tuned else name
