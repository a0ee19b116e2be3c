"""Designs, weights and pools at the edge of arithmetic end in a sentence or in probabilities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    ScoreCalibratedClassifier,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
TWO = (X[:, 0] + RNG.normal(size=40) > 0).astype(int)
THREE = TWO + (X[:, 1] > 0.5)
MODELS = {
    "one fit": AngularCalibratedClassifier(),
    "path": AngularLogisticRegressionCV(Cs=5),
    "average": AngularLogisticRegressionCV(Cs=5, average="penalties"),
    "scores": ScoreCalibratedClassifier(),
}


def outcome(model, rows, y, **options):
    """A sentence, or valid probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            p = model.fit(rows, y, **options).predict_proba(rows)
        except ValueError as error:
            # LinAlgError is one too, but its sentences name nothing that one could change.
            if isinstance(error, np.linalg.LinAlgError):
                raise
            return str(error)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    return ""


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weight", [1e-300, 1e-200, 5e-324, 1e200, 1e300])
def test_weights_that_cannot_be_multiplied_are_named(name, y, weight):
    for weights in (np.full(40, weight), np.where(np.arange(40) == 3, weight, 1.0)):
        assert outcome(MODELS[name], X, y, sample_weight=weights).startswith("sample_weight")


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_far_from_one_are_welcome(name, y):
    assert outcome(MODELS[name], X, y, sample_weight=np.full(40, 1e-3)) == ""


@pytest.mark.parametrize("factor", [1e160, 1e200, 1e300])
def test_a_base_model_that_overflows_is_named(factor):
    model = AngularCalibratedClassifier(RidgeClassifier())
    with np.errstate(over="ignore", invalid="ignore"):
        said = outcome(model, X * factor, TWO)
    assert said == "" or "RidgeClassifier" in said or "X" in said


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", ["one fit", "path", "average"])
@pytest.mark.parametrize("count", [8, 30])
def test_a_constant_pool_does_not_blame_a_covariance(name, y, count):
    pool = np.zeros((count, 3))
    assert "covariance is not positive" not in outcome(MODELS[name], X, y, pool=pool)


def test_a_penalty_that_is_no_number_is_named():
    model = ScoreCalibratedClassifier(RidgeClassifier(alpha=1e300))
    assert "penalty" in outcome(model, X, TWO, sample_weight=np.full(40, 1e-20))
    assert "Cs=" in outcome(AngularLogisticRegressionCV(Cs=[1e-320]), X, TWO)


@pytest.mark.parametrize("factor", [1e-100, 1e-60, 1e100])
def test_scores_that_hardly_differ_give_the_prevalence(factor):
    model = AngularCalibratedClassifier(RidgeClassifier())
    assert outcome(model, X * factor, THREE) == ""


def test_a_singular_matrix_is_worded():
    """Columns of one number that is larger than a row's own part: seed 2489 of the search."""
    rows = X[:20] + 1e16
    model = AngularCalibratedClassifier(LogisticRegression(solver="newton-cholesky"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(rows, THREE[:20])
        except np.linalg.LinAlgError as error:
            pytest.fail(f"LinAlgError: {error}")
        except ValueError:
            return


@pytest.mark.parametrize("average", [None, "penalties", "folds"])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_no_column_that_varies(y, average):
    model = AngularLogisticRegressionCV(Cs=5, average=average)
    for rows in (np.zeros_like(X), np.ones_like(X)):
        assert outcome(model, rows, y) == ""


def test_penalties_that_are_hardly_there_are_named():
    rows = np.random.default_rng(0).normal(size=(20, 60))
    model = AngularLogisticRegressionCV(Cs=[1e-20, 1.0, 1e20])
    with np.errstate(all="ignore"):
        said = outcome(model, rows, np.arange(20) % 3)
    assert said == "" or said.startswith("Cs")


@pytest.mark.parametrize("average", [None, "folds"])
def test_rows_of_zeros_without_an_intercept(average):
    model = AngularLogisticRegressionCV(Cs=[1e-3, 1.0], average=average, fit_intercept=False)
    for y in (TWO, THREE):
        assert "nothing to fit" in outcome(model, np.zeros_like(X), y)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MODELS)
def test_a_cell_at_the_end_of_arithmetic_leaves_all_rows_their_probabilities(name, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MODELS[name].fit(X, y)
    rows = np.concatenate([X, np.full((1, 3), 1e308), [[-1e308, 1e308, 0.0]]])
    p = model.predict_proba(rows)
    np.testing.assert_array_equal(p[: len(X)], model.predict_proba(X))
    assert np.all((p >= 0) & (p <= 1))
    near = model.predict_proba(np.array([[1e9] * 3, [-1e9, 1e9, 0.0]]))
    np.testing.assert_allclose(p[len(X) :], near, atol=1e-6)
