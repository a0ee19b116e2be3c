"""Which map three and more classes get: honest losses, and the choice by them."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from angcal import AngularCalibratedClassifier
from angcal.baselines import SoftmaxTemperature
from angcal.links.multiclass import OneVsRest, Softmax
from angcal.multiclass import read_class_scores
from angcal.multiclass.choice import Candidate, _slopes_without, choose, prevalence, simpler_maps


def _draw(n=150, d=30, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    logits = X @ rng.normal(size=(d, K)) * 2.0 / np.sqrt(d) + np.linspace(0.0, 1.0, K)
    return X, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def _model(C=0.5):
    return LogisticRegression(C=C, tol=1e-8, max_iter=5000)


def _candidate(method, row_losses):
    own = np.exp(-row_losses)
    return Candidate(method, None, np.column_stack([own, 1.0 - own]))


@pytest.mark.parametrize(
    ("gap", "noise", "method"),
    [
        (-0.1, 0.1, "angular"),
        (0.1, 0.1, "plain"),
        # Within two standard errors, and within one percent.
        (0.1, 0.6, "angular"),
        (0.005, 1e-3, "angular"),
    ],
)
def test_a_simpler_map_has_to_be_clearly_better(gap, noise, method):
    rng = np.random.default_rng(0)
    losses = 2.0 + 0.5 * np.sin(np.arange(100.0))
    wiggle = rng.normal(size=100)
    wiggle = noise * (wiggle - wiggle.mean()) / wiggle.std()
    ours = _candidate("angular", losses + gap + wiggle)
    others = [_candidate("plain", losses), _candidate("temperature", losses + 1.0)]
    codes = np.zeros(100, dtype=int)
    delivered, choice = choose(ours, others, codes, np.ones(100))
    assert delivered.method == method
    assert choice.method == method
    assert choice.losses["temperature"] == pytest.approx(losses.mean() + 1.0)
    wanted = "no simpler map clearly beats" if method == "angular" else "does not beat it (2"
    assert wanted in choice.reason


def test_weights_of_rows_count_in_the_choice():
    losses = np.where(np.arange(100) < 50, 1.0, 2.0)
    ours, others = _candidate("angular", losses), [_candidate("plain", 3.0 - losses)]
    codes = np.zeros(100, dtype=int)
    weights = np.where(np.arange(100) < 50, 1.0, 9.0)
    _, choice = choose(ours, others, codes, weights)
    assert choice.losses["angular"] == pytest.approx(0.1 * 1.0 + 0.9 * 2.0)
    assert choice.method == "plain"
    assert choose(ours, others, codes, 10.0 - weights)[1].method == "angular"


def test_the_prevalence_leaves_out_each_row_and_adds_one_of_each_class():
    codes, weights = np.array([0, 0, 0, 1, 2, 2]), np.array([1.0, 2.0, 1.0, 1.0, 0.5, 0.5])
    found = prevalence(codes, weights, 3)
    np.testing.assert_allclose(found.map.predict(np.zeros((1, 3))), [[5 / 9, 2 / 9, 2 / 9]])
    np.testing.assert_allclose(found.left_out[1], [3 / 7, 2 / 7, 2 / 7])
    np.testing.assert_allclose(found.left_out[3], [5 / 8, 1 / 8, 2 / 8])


def test_slopes_of_temperature_scaling_are_those_of_a_fit_without_the_row():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 60)
    logits = np.eye(4)[y] + rng.normal(size=(60, 4))
    ones = np.ones(60)
    slope = 1.0 / SoftmaxTemperature().fit(logits, y).temperature_
    found = _slopes_without(slope, logits, y, ones)
    for i in range(0, 60, 7):
        kept = np.arange(60) != i
        exact = 1.0 / SoftmaxTemperature().fit(logits[kept], y[kept]).temperature_
        assert found[i] - slope == pytest.approx(exact - slope, rel=0.1, abs=1e-3)


@pytest.mark.parametrize("heads", ["multinomial", "one-vs-rest"])
def test_honest_scores_are_those_of_a_fit_without_the_row(heads):
    X, y = _draw()
    joint = _model(0.02)
    model = joint if heads == "multinomial" else OneVsRestClassifier(joint)
    read = read_class_scores(model.fit(X, y), X, y, np.ones(len(y)))
    counts, off, moved = np.bincount(y), [], []
    for i in range(0, len(y), 7):
        kept = np.arange(len(y)) != i
        exact = model.fit(X[kept], y[kept]).decision_function(X[i : i + 1])[0]
        moved.append(np.linalg.norm(read.fitted[i] - exact))
        # What the class's count has lost is given back.
        exact = exact + np.where(np.arange(4) == y[i], 1.0 / counts[y[i]], 0.0)
        if heads == "one-vs-rest":
            exact = exact - np.where(np.arange(4) == y[i], 0.0, 1.0 / (len(y) - counts))
        else:
            exact = exact - exact.mean()
        off.append(np.linalg.norm(read.honest[i] - exact))
    assert np.mean(off) < 0.05 * np.mean(moved)


def test_own_probabilities_of_one_vs_rest_heads():
    X, y = _draw(seed=3)
    model = OneVsRestClassifier(_model()).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(OneVsRest(4)(scores), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(OneVsRest(3)([[-900.0, -900.0, -900.0]]), 1 / 3)
    heads = read_class_scores(model, X, y, np.ones(len(y)))
    own = next(each for each in simpler_maps(heads, y, np.ones(len(y))) if each.method == "plain")
    np.testing.assert_allclose(own.map.predict(scores), model.predict_proba(X), atol=1e-12)


def test_the_result_says_what_was_used():
    X, y = _draw(n=300)
    clf = AngularCalibratedClassifier(_model()).fit(X, y)
    assert clf.calibration_.method == "angular"
    assert set(clf.calibration_.losses) == {"angular", "temperature", "plain", "prevalence"}
    known = Softmax(4, covariance=np.eye(4))
    clf = AngularCalibratedClassifier(_model(), link=known).fit(X, y)
    assert "the link is known" in clf.calibration_.reason
    # Two classes have a curve of their own.
    assert not hasattr(clf.set_params(link=None).fit(X, y > 1), "calibration_")


def test_temperature_scaling_of_raw_scores():
    X, y = _draw(seed=4)
    model = _model().fit(X, y)
    heads = read_class_scores(model, X, y, np.ones(len(y)))
    scaled = simpler_maps(heads, y, np.ones(len(y)))[0]
    slope = scaled.map.slopes[0, 0]
    scores = model.decision_function(X)
    np.testing.assert_allclose(
        scaled.map.predict(scores), softmax(slope * scores, axis=1), atol=1e-12
    )
