"""loo_proba_ and plain_loo_proba_: shapes, and what refits of the whole classifier say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier

from angcal import AngleWarning, AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit
from angcal.simulation import simulate, simulate_multiclass


def tight(C=0.3):
    return LogisticRegression(C=C, tol=1e-8, max_iter=5000)


MODELS = {
    "one fit": lambda: AngularCalibratedClassifier(tight()),
    "known link": lambda: AngularCalibratedClassifier(tight(), link=Logit(3.0)),
    "path": lambda: AngularLogisticRegressionCV(5),
}


@pytest.mark.parametrize("name", MODELS)
def test_two_classes(name):
    data = simulate(80, 30, link=Logit(3.0, 0.5), random_state=0)
    clf = MODELS[name]().fit(data.X, data.y)
    for p in (clf.loo_proba_, clf.plain_loo_proba_):
        assert p.shape == (80, 2)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.all((p > 0) & (p < 1))


@pytest.mark.parametrize("base", [tight(), OneVsRestClassifier(tight())])
def test_three_classes(base):
    data = simulate_multiclass(120, 20, n_indices=3, signal=2.0, random_state=0)
    clf = AngularCalibratedClassifier(base).fit(data.X, data.y)
    for p in (clf.loo_proba_, clf.plain_loo_proba_):
        assert p.shape == (120, 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_refits_of_the_whole_classifier_agree(C):
    """Mean log-loss of n refits over four draws, within a tenth of it: plain and calibrated."""
    found, refits = [], []
    for seed in range(4):
        data = simulate(45, 20, link=Logit(3.0, 0.5), random_state=seed)
        clf = AngularCalibratedClassifier(tight(C)).fit(data.X, data.y)
        found.append([log_loss(data.y, p) for p in (clf.loo_proba_, clf.plain_loo_proba_)])
        calibrated, plain = [], []
        for i in range(45):
            kept = np.arange(45) != i
            each = AngularCalibratedClassifier(tight(C)).fit(data.X[kept], data.y[kept])
            calibrated.append(each.predict_proba(data.X[[i]])[0])
            plain.append(each.estimator_.predict_proba(data.X[[i]])[0])
        refits.append([log_loss(data.y, p) for p in (calibrated, plain)])
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(refits, axis=0), rtol=0.1)


def test_the_prevalence_is_judged_without_the_row():
    X = np.random.default_rng(0).normal(size=(40, 5))
    y = (np.arange(40) < 2).astype(int)
    with pytest.warns(AngleWarning, match="the smaller class has 2 rows"):
        clf = AngularCalibratedClassifier(tight()).fit(X, y)
    np.testing.assert_allclose(clf.loo_proba_[0, 1], 2.0 / 41.0)
    np.testing.assert_allclose(clf.loo_proba_[-1, 1], 3.0 / 41.0)


@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")
def test_labels_without_signal_are_not_predicted():
    """Leave-one-out loss of pure noise is no better than the entropy, but for chance."""
    losses = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(80, 40)), rng.integers(0, 2, 80)
        clf = AngularCalibratedClassifier(tight(1.0)).fit(X, y)
        share = y.mean()
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        losses.append(log_loss(y, clf.loo_proba_) - entropy)
    assert np.mean(losses) > -2 * np.std(losses, ddof=1) / np.sqrt(10)


def test_no_class_that_was_seen_is_impossible():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 3)) + 4.0 * (y[:, None] - 1.0)
    for base in (tight(1.0), OneVsRestClassifier(tight(1.0))):
        p = AngularCalibratedClassifier(base).fit(X, y).predict_proba(30.0 * X)
        assert p.min() > 1e-5
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
