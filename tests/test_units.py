"""One column in another unit: the same answer, or a warning that names the column."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, PenaltyWarning
from angcal.estimators.units import _are_alike
from angcal.penalty_path import make_design

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::angcal.OptimalityWarning",
    "ignore::angcal.AngleWarning",
)
N, D = 200, 20


def rows_and_labels(factor, seed=1):
    """Rows of which the first column, which counts, is in another unit."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(N + 4000, D)), rng.normal(size=D)
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-2.0 * X @ w / np.sqrt(D)))).astype(int)
    X[:, 0] *= factor
    return X, y


def said(model, X, y):
    """What is said about units."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(each.message) for each in caught if issubclass(each.category, PenaltyWarning)]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("factor", [1e4, 1e5, 1e6])
def test_a_path_reaches_the_penalties_of_ordinary_columns_beside_a_large_one(factor, container):
    """Their moments were taken for rounding: 0.647 nats in place of 0.489."""
    losses = []
    for each in (1.0, factor):
        X, y = rows_and_labels(each)
        model = AngularLogisticRegressionCV()
        assert not said(model, container(X[:N]), y[:N])
        losses.append(log_loss(y[N:], model.predict_proba(container(X[N:]))))
    assert losses[1] < losses[0] + 0.01


def test_rounding_is_no_moment():
    """A constant column, of a value that no binary fraction is, leaves the grid as it is."""
    X, y = rows_and_labels(1.0)
    wide = np.column_stack([X, np.full((len(X), 30), 1e3 / 3.0)])
    ones = np.ones(N)
    designs = [make_design(rows[:N], y[:N].astype(float), ones, True) for rows in (X, wide)]
    np.testing.assert_allclose(designs[1].grid(5), designs[0].grid(5), rtol=1e-9)
    spare = make_design(sparse.csr_matrix(wide[:N]), y[:N].astype(float), ones, True)
    np.testing.assert_allclose(spare.spread, designs[0].spread, rtol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("make", [AngularLogisticRegressionCV, AngularCalibratedClassifier])
@pytest.mark.parametrize("factor", [1e-150, 1e-20, 1e-6, 1e-4, 1e8, 1e20, 1e150])
def test_one_column_in_another_unit_is_named_once(factor, make, container):
    X, y = rows_and_labels(factor)
    (message,) = said(make(), container(X[:N]), y[:N])
    assert "column 0" in message
    assert "column 1" not in message
    assert "StandardScaler" in message


@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_averages_say_it_once_and_by_name(average):
    X, y = rows_and_labels(1e-6)
    frame = pd.DataFrame(X[:N], columns=[f"gene {j}" for j in range(D)])
    (message,) = said(AngularLogisticRegressionCV(4, average=average), frame, y[:N])
    assert "column 'gene 0' tells the classes apart" in message


def test_three_classes_are_told_too():
    X, y = rows_and_labels(1e-6)
    labels = np.where(1e6 * X[:, 0] > 0.5, 2, y)
    for model in (AngularLogisticRegressionCV(4), AngularCalibratedClassifier()):
        assert len(said(model, X[:N], labels[:N])) == 1


@pytest.mark.parametrize("factor", [1e-6, 1e8])
def test_the_way_out_is_one(factor):
    X, y = rows_and_labels(factor)
    for model in (AngularLogisticRegressionCV(), AngularCalibratedClassifier()):
        whole = make_pipeline(StandardScaler(), model)
        assert not said(whole, X[:N], y[:N])
        assert log_loss(y[N:], whole.predict_proba(X[N:])) < 0.5


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_constant_columns_are_no_units(container):
    """Of sparse rows they varied by rounding, and all others a million times as much."""
    X, y = rows_and_labels(1.0)
    X[:, D // 2 - 1 :] = 1.0
    assert not said(AngularLogisticRegressionCV(4), container(X[:400]), y[:400])


def test_what_costs_nothing_is_not_spoken_of():
    rng = np.random.default_rng(0)
    X, y = rows_and_labels(1.0)
    hardly = np.column_stack([X[:N], 1e-9 * rng.normal(size=N)])  # and says nothing
    income = np.column_stack([X[:N] > 1.0, 5e4 * np.exp(rng.normal(size=N))]).astype(float)
    for rows in (hardly, income):
        for model in (AngularLogisticRegressionCV(4), AngularCalibratedClassifier()):
            assert not said(model, rows, y[:N])
    X, y = rows_and_labels(1e-6)
    free = AngularCalibratedClassifier(LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000))
    assert not said(free, X[:N], y[:N])


@pytest.mark.parametrize("seed", range(6))
def test_bounds_pass_over_no_column_that_would_be_looked_at(seed):
    rng = np.random.default_rng(seed)
    n, d = 400, 12
    X, weights = rng.normal(size=(n, d)) + rng.normal(), rng.uniform(0.5, 2.0, n)
    assert _are_alike(X, weights, 1e-3)
    assert _are_alike(np.asfortranarray(X.astype(np.float32)), weights, 1e-3)
    for factor in (1e-4, 2e6):
        other = X.copy()
        other[:, seed] *= factor
        assert not _are_alike(other, weights, 1e-3)
    rare = X.copy()
    rare[:, seed] = 0.0
    rare[8 * seed + 3, seed] = 1.0  # not among the rows that are looked at
    assert not _are_alike(rare, weights, 1e-3)
    assert not _are_alike(1e200 * X, weights, 1e-3)
