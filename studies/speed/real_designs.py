"""Fits to real rows, correlated, of low rank or sparse: CPU seconds beside scikit-learn's.

Nine tenths of the rows of each dataset that is at hand, drawn once, as `studies.datasets` prepares
them; text counts become TF-IDF. Those that scikit-learn packages are always at hand, and so is text
that is drawn (`simulated_text`). Every contender solves with ``LogisticRegression``'s defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from studies.datasets import available, load
from studies.speed.measure import Row, alternating

NAMES = ("internet_ads", "hiva", "gisette", "basehock", "digits", "breast_cancer")
TEXT = "simulated text"
# Documents, words, topics, and words that the labels depend on; words of a document (median, and
# the deviation of their logarithm), and the share of them that its topic draws.
DOCUMENTS, WORDS, TOPICS, LENGTH, SPREAD, OWN_SHARE, TELLING = (
    10_000,
    50_000,
    20,
    100,
    0.6,
    0.4,
    500,
)
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
    """Datasets that are at hand, and drawn text."""
    here = set(available())
    return [*(name for name in NAMES if name in here), TEXT]


def design(name: str) -> tuple[Any, np.ndarray]:
    """Rows and classes."""
    if name == TEXT:
        return simulated_text()
    data = load(name, download=False, scaled=name != "basehock")
    assert data.y is not None
    rows = np.flatnonzero(data.labeled)
    rng = np.random.default_rng(SEED)
    rows = np.sort(rng.choice(rows, round(SHARE * len(rows)), replace=False))
    X = data.X[rows]
    return (TfidfTransformer().fit_transform(X) if sparse.issparse(X) else X), data.y[rows]


def simulated_text() -> tuple[sparse.csr_array, np.ndarray]:
    """Documents as TF-IDF and their classes.

    Word k has probability ∝ 1/(k + 10) in the language, and under each topic the same law over its
    own order of the words. A document has log-normally many words, four tenths of them its topic's.
    Labels follow sigmoid(3t), t a normal combination of 500 of the words of unit variance.
    """
    rng = np.random.default_rng(SEED)
    law = 1.0 / (np.arange(WORDS) + 10.0)
    law /= law.sum()
    lengths = np.maximum(rng.lognormal(np.log(LENGTH), SPREAD, DOCUMENTS).astype(int), 5)
    document = np.repeat(np.arange(DOCUMENTS), lengths)
    ranks = np.searchsorted(np.cumsum(law)[:-1], rng.random(len(document)))
    orders = np.array([rng.permutation(WORDS) for _ in range(TOPICS)])
    topics = rng.integers(0, TOPICS, DOCUMENTS)
    own = rng.random(len(document)) < OWN_SHARE
    words = np.where(own, orders[topics[document], ranks], ranks)
    counts = sparse.csr_array((np.ones(len(words)), (document, words)), (DOCUMENTS, WORDS))
    X = sparse.csr_array(TfidfTransformer().fit_transform(counts))
    telling = rng.choice(2_000, TELLING, replace=False)
    t = X[:, telling] @ rng.normal(size=TELLING)
    y = (rng.random(DOCUMENTS) < expit(3.0 * (t - t.mean()) / t.std())).astype(int)
    return X, y


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
