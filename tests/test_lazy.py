"""Predictions of the ordinary classifiers on Dask collections: lazy, equal, without a client."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    ScoreCalibratedClassifier,
)
from angcal.simulation import simulate

da = pytest.importorskip("dask.array")

DATA = simulate(300, 12, link=Logit(3.0), random_state=0)
METHODS = ("predict_proba", "predict_log_proba", "decision_function", "predict")
THREE = np.digitize(DATA.X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=300), [-0.5, 0.5])


@pytest.mark.parametrize("labels", [DATA.y, np.where(DATA.y > 0, "yes", "no"), THREE])
@pytest.mark.parametrize("method", METHODS)
def test_predictions_on_blocks_are_those_on_the_rows(labels, method):
    classifier = AngularCalibratedClassifier().fit(DATA.X, labels)
    expected = getattr(classifier, method)(DATA.X)
    # Columns in two chunks too: a row's score needs all of them.
    for chunks in [(70, 12), (70, 5)]:
        found = getattr(classifier, method)(da.from_array(DATA.X, chunks=chunks))
        assert isinstance(found, da.Array)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize(
    "classifier",
    [
        AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
        AngularLogisticRegressionCV(Cs=3, average="penalties"),
        ScoreCalibratedClassifier(),
    ],
)
def test_every_classifier_is_lazy_on_frames(classifier):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(DATA.X, columns=[f"x{j}" for j in range(12)])
    classifier.fit(frame, DATA.y)
    for method in METHODS:
        found = getattr(classifier, method)(dd.from_pandas(frame, npartitions=3))
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(classifier, method)(frame))


def test_nothing_is_computed_before_it_is_asked_for():
    classifier = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    read = []

    def block(rows):
        read.append(rows.shape)
        return rows

    X = da.from_array(DATA.X, chunks=(100, 12)).map_blocks(block, meta=np.empty((0, 0)))
    found = classifier.predict_proba(X)
    assert not read
    assert found[:100].compute().shape == (100, 2)
    assert read == [(100, 12)]


def test_what_travels_is_small():
    data = simulate(3000, 12, link=Logit(3.0), random_state=0)
    classifier = AngularCalibratedClassifier(pool=data.X).fit(data.X, data.y)
    small = classifier.without_training()
    assert len(pickle.dumps(small)) < len(pickle.dumps(classifier)) / 5
    assert small.pool is None
    np.testing.assert_array_equal(small.predict_proba(data.X), classifier.predict_proba(data.X))
    assert classifier.pool is data.X
    assert classifier.observables_.n_samples == 3000
