"""Probabilities of three and more classes on rows that no fit has seen: few directions, noise.

Each case is a mean over a few draws. A map is held against the better of the model's own
probabilities and temperature scaling on its leave-one-out scores.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from angcal import AngularCalibratedClassifier
from angcal.multiclass import read_class_scores
from angcal.multiclass.choice import simpler_maps

# That calibration does not pay is no failure here.
pytestmark = pytest.mark.filterwarnings("ignore::angcal.AngleWarning")


def _logistic(**options):
    return LogisticRegression(**{"tol": 1e-6, "max_iter": 5000, **options})


def _losses(p, codes):
    return -np.log(p[np.arange(len(codes)), codes])


@dataclass
class Draw:
    """Losses of single rows: held-out ones under three maps, and training rows left out."""

    ours: np.ndarray
    plain: np.ndarray
    temperature: np.ndarray
    left_out: np.ndarray


def _judge(model, X, y, X_test, y_test):
    clf = AngularCalibratedClassifier(model).fit(X, y)
    fitted, ones = clf.estimator_, np.ones(len(y))
    scaled = simpler_maps(read_class_scores(fitted, X, y, ones), y, ones)[0]
    assert scaled.method == "temperature"
    return Draw(
        _losses(clf.predict_proba(X_test), y_test),
        _losses(fitted.predict_proba(X_test), y_test),
        _losses(scaled.map.predict(fitted.decision_function(X_test)), y_test),
        _losses(clf.loo_proba_, y),
    )


def _mean(draws, name):
    return float(np.mean([getattr(draw, name).mean() for draw in draws]))


def _require_as_good(draws):
    """Held-out loss within 2 % of the better simple map; the left-out one within two errors."""
    ours = _mean(draws, "ours")
    assert ours <= 1.02 * min(_mean(draws, "plain"), _mean(draws, "temperature"))
    variances = [each.var() / len(each) for draw in draws for each in (draw.ours, draw.left_out)]
    error = np.sqrt(np.sum(variances)) / len(draws)
    assert abs(_mean(draws, "left_out") - ours) < 2.0 * error


# -- fewer directions than classes ask for -----------------------------------------------------


def _narrow(d, K, noise, seed, n=4200):
    """Rows in d columns, or in 20 that nearly are combinations of them; P(y) is a softmax."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    logits = 3.0 / np.sqrt(d) * Z @ rng.normal(size=(d, K)) + 0.5 * rng.normal(size=K)
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    if noise:
        Z = Z @ rng.normal(size=(d, 20)) + noise * rng.normal(size=(n, 20))
    return Z, np.unique(y, return_inverse=True)[1]


@pytest.mark.parametrize("heads", ["joint", "one-vs-rest"])
@pytest.mark.parametrize(
    ("d", "K"), [(1, 3), (1, 4), (1, 6), (2, 3), (2, 4), (2, 6), (3, 4), (3, 6)]
)
def test_few_columns(d, K, heads):
    model = _logistic() if heads == "joint" else OneVsRestClassifier(_logistic())
    draws = []
    for seed in range(5):
        X, y = _narrow(d, K, 0.0, seed)
        draws.append(_judge(model, X[:200], y[:200], X[200:], y[200:]))
    _require_as_good(draws)


@pytest.mark.parametrize("C", [1.0, 0.01])
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03, 0.1])
def test_columns_that_nearly_are_multiples_of_one(noise, K, C):
    draws = []
    for seed in range(5):
        X, y = _narrow(1, K, noise, seed)
        draws.append(_judge(_logistic(C=C), X[:200], y[:200], X[200:], y[200:]))
    _require_as_good(draws)


@pytest.mark.parametrize("feature", range(4))
def test_iris_by_one_feature(feature):
    X, y = load_iris(return_X_y=True)
    draws = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(150)
        X_train, X_test = np.split(X[order][:, [feature]], 2)
        y_train, y_test = np.split(y[order], 2)
        draws.append(_judge(_logistic(), X_train, y_train, X_test, y_test))
    _require_as_good(draws)


@pytest.mark.parametrize("C", [1.0, 0.01])
@pytest.mark.parametrize("components", [1, 2, 3, 5, 10])
def test_digits_by_a_few_components(components, C):
    X, y = load_digits(return_X_y=True)
    draws = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:250], order[250:]
        basis = PCA(components, random_state=0).fit(X[train])
        unit = basis.transform(X[train]).std()
        X_train, X_test = (basis.transform(X[rows]) / unit for rows in (train, test))
        draws.append(_judge(_logistic(C=C), X_train, y[train], X_test, y[test]))
    _require_as_good(draws)


# -- no signal ---------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("columns_per_row", [0.1, 1.5])
@pytest.mark.parametrize(("K", "n", "draws"), [(3, 100, 8), (10, 150, 4), (30, 300, 3)])
def test_pure_noise_costs_little(K, n, draws, columns_per_row, C):
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 2000, int(columns_per_row * n)))
        y = rng.permutation(np.arange(n + 2000) % K)
        clf = AngularCalibratedClassifier(_logistic(C=C)).fit(X[:n], y[:n])
        found.append(_losses(clf.predict_proba(X[n:]), y[n:]).mean())
    assert np.mean(found) <= 1.05 * np.log(K)
