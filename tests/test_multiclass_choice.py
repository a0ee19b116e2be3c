"""Which map three and more classes get: honest losses, and the choice by them."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from angcal.multiclass.angles import whiten
from angcal.multiclass.family import LinearFamily
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier

from angcal import AngularCalibratedClassifier
from angcal.baselines import SoftmaxTemperature
from angcal.links.multiclass import OneVsRest, Softmax
from angcal.losses import contrasts
from angcal.multiclass import read_class_scores
from angcal.multiclass.choice import _slopes_without, candidate, choose, simpler_maps


def _draw(n=150, d=30, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    logits = X @ rng.normal(size=(d, K)) * 2.0 / np.sqrt(d) + np.linspace(0.0, 1.0, K)
    return X, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def _model():
    return LogisticRegression(C=0.5, tol=1e-8, max_iter=5000)


def _candidate(method, row_losses):
    return candidate(
        method,
        None,
        np.exp(-np.column_stack([row_losses, row_losses])),
        np.ones((len(row_losses), 2)),
        np.zeros(len(row_losses), dtype=int),
        np.ones(len(row_losses)),
    )


@pytest.mark.parametrize(
    ("gap", "noise", "method"),
    [
        (-0.1, 0.1, "angular"),
        (0.1, 0.1, "plain"),
        # Within one standard error, and within one percent.
        (0.1, 2.0, "angular"),
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
    _, choice = choose(ours, others, np.ones(100))
    assert choice.method == method
    assert choice.losses["temperature"] == pytest.approx(losses.mean() + 1.0)
    wanted = "no simpler map clearly beats" if method == "angular" else "does not beat it (2"
    assert wanted in choice.reason


def test_a_map_is_judged_by_the_worse_of_left_out_and_fitted_rows():
    # A map that is worse on rows that flatter has learned what leaving a row out writes there.
    good, bad = np.array([[0.9, 0.1]]), np.array([[0.2, 0.8]])
    one, zero = np.ones(1), np.zeros(1, dtype=int)
    assert candidate("angular", None, good, bad, zero, one).loss == -np.log(0.2)
    assert candidate("angular", None, bad, good, zero, one).loss == -np.log(0.2)


def test_steps_of_the_family_are_those_of_a_fit_without_the_row():
    rng = np.random.default_rng(1)
    n, A = 80, contrasts(3)
    y = rng.integers(0, 3, n)
    s = np.eye(3)[y] @ A + rng.normal(size=(n, 2))
    weights = rng.uniform(0.5, 1.5, n)
    whitened = whiten(s, weights)
    family = LinearFamily(y, weights, whitened, A, np.eye(2), 1.2)
    ridges, start = np.array([2.0, 3.0]), np.zeros(1 + family.plain.size)
    theta, information = family.solve(ridges, start)
    steps = family.left_out_steps(theta, information, ridges)
    for i in range(0, n, 9):
        fewer = weights.copy()
        fewer[i] = 0.0
        without, _ = replace(family, weights=fewer).solve(ridges, theta)
        move = family.rows[i] @ (family.joined(theta) - family.joined(without)).T
        np.testing.assert_allclose(steps[i], move, rtol=0.15, atol=2e-3)


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
    model = _model() if heads == "multinomial" else OneVsRestClassifier(_model())
    read = read_class_scores(model.fit(X, y), X, y, np.ones(len(y)))
    honest = read.honest_scores @ read.spread.T
    counts = np.bincount(y)
    for i in range(0, len(y), 17):
        kept = np.arange(len(y)) != i
        exact = model.fit(X[kept], y[kept]).decision_function(X[i : i + 1])[0]
        # What the class's count has lost is given back.
        exact = exact + np.where(np.arange(4) == y[i], 1.0 / counts[y[i]], 0.0)
        if heads == "one-vs-rest":
            exact = exact - np.where(np.arange(4) == y[i], 0.0, 1.0 / (len(y) - counts))
        else:
            exact = exact - exact.mean()
        np.testing.assert_allclose(honest[i], exact, atol=0.08)


def test_own_probabilities_of_one_vs_rest_heads():
    X, y = _draw(seed=3)
    model = OneVsRestClassifier(_model()).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(OneVsRest(4)(scores), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(OneVsRest(3)([[-900.0, -900.0, -900.0]]), 1 / 3)
    heads = read_class_scores(model, X, y, np.ones(len(y)))
    own = next(each for each in simpler_maps(heads, y, np.ones(len(y))) if each.method == "plain")
    np.testing.assert_allclose(own.predictor.predict(scores), model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("base", [_model(), OneVsRestClassifier(_model())])
def test_a_map_that_learned_the_labels_is_not_delivered(base, monkeypatch):
    # All directions trusted: the angular map then learns each row's own label.
    monkeypatch.setattr("angcal.multiclass.angles.SMALLEST_SHARE", -1.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4200, 1))
    logits = X * [-3.0, 0.0, 3.0] + [0.0, 0.5, 0.0]
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = AngularCalibratedClassifier(base).fit(X[:200], y[:200])
    # Temperature scaling is a calibration too; that none pays is worth a warning.
    said = [str(warning.message) for warning in caught]
    assert any("does not pay here" in text for text in said) == (clf.calibration_.method == "plain")
    assert "does not beat it (" in clf.calibration_.reason
    assert clf.calibration_.method in ("plain", "temperature")
    assert clf.calibration_.losses["angular"] > clf.calibration_.losses[clf.calibration_.method]
    assert "not used for the probabilities" in clf.angle_.reason
    plain = log_loss(y[200:], clf.estimator_.predict_proba(X[200:]))
    assert log_loss(y[200:], clf.predict_proba(X[200:])) < 1.02 * plain


def test_the_result_says_what_was_used():
    X, y = _draw(n=300)
    clf = AngularCalibratedClassifier(_model()).fit(X, y)
    assert clf.calibration_.method == "angular"
    assert set(clf.calibration_.losses) == {"angular", "temperature", "plain"}
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
    slope = scaled.predictor.slopes[0, 0]
    scores = model.decision_function(X)
    np.testing.assert_allclose(
        scaled.predictor.predict(scores), softmax(slope * scores, axis=1), atol=1e-12
    )
