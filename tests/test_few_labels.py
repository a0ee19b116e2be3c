"""A warning where labels are too few to tell what probabilities are worth."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angcal import AngleWarning, AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.estimators.few_labels import difference, shares_without, warn_if_too_few
from angcal.estimators.training import Training
from angcal.multiclass.choice import prevalence


def drawn(n, d, seed, signal=2.0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = signal * X @ rng.normal(size=(d, n_classes)) / np.sqrt(d)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def said(model, X, y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **options)
    found = [each for each in caught if "Too few labels" in str(each.message)]
    assert all(issubclass(each.category, AngleWarning) for each in found)
    return [str(each.message) for each in found]


def test_the_difference_and_its_error_are_those_of_the_row_losses():
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(3), size=(2, 40))
    codes, weights = np.arange(40) % 3.0, rng.uniform(0.5, 2.0, 40)
    training = Training(np.zeros((40, 1)), np.arange(3), codes, weights, True)
    own = np.arange(40), codes.astype(int)
    gaps = np.log(second[own] / first[own])
    mean, error = difference(first, second, training)
    assert_allclose(mean, np.average(gaps, weights=weights))
    share = weights / weights.sum()
    assert_allclose(error, np.sqrt(np.sum(share**2 * (gaps - mean) ** 2)))
    assert_allclose(shares_without(training), prevalence(codes.astype(int), weights, 3).left_out)


def test_rows_that_belong_together_count_once():
    """Each row four times has the error of the rows themselves."""
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(2), size=(2, 30))
    codes, ones = np.arange(30) % 2.0, np.ones(30)
    alone = Training(np.zeros((30, 1)), np.arange(2), codes, ones, False)
    copied = Training(
        np.zeros((120, 1)),
        *(np.arange(2), np.repeat(codes, 4), np.ones(120), False),
        groups=np.repeat(np.arange(30), 4),
    )
    times = [np.repeat(p, 4, axis=0) for p in (first, second)]
    assert_allclose(difference(*times, copied), difference(first, second, alone))


@pytest.mark.parametrize("make", [AngularCalibratedClassifier, AngularLogisticRegressionCV])
def test_nothing_is_said_of_enough_labels(make):
    for seed in range(5):
        assert not said(make(), *drawn(300, 10, seed))
        assert not said(make(), *drawn(300, 10, seed, n_classes=3))


@pytest.mark.parametrize("make", [AngularCalibratedClassifier, AngularLogisticRegressionCV])
def test_fewer_than_twenty_rows_tell_nothing(make):
    (message,) = said(make(), *drawn(16, 3, 0))
    assert "y has 16" in message


@pytest.mark.parametrize("average", [None, "penalties"])
def test_a_class_of_a_few_rows_beside_two_others(average):
    X, y = drawn(60, 3, 0)
    y[:3] = 2
    (message,) = said(AngularLogisticRegressionCV(4, average=average), X, y)
    assert "y has 60, 3 of them of its rarest class" in message


def test_a_gain_that_chance_explains_is_said():
    """A path of pure noise that happens to gain: of 40 such those that do harm are spoken of."""
    spoken = 0
    for seed in range(40):
        X, y = drawn(40, 10, 1000 + seed, signal=0.0)
        model = AngularLogisticRegressionCV(8)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        p = model.predict_proba(np.random.default_rng(0).normal(size=(2000, 10)))
        shares = np.array([1.0 - y.mean(), y.mean()])
        harm = float(np.mean(np.log(shares) - np.log(p)))  # either class is as likely
        told = " ".join(str(each.message) for each in caught)
        assert harm < 0.1 or told
        spoken += "tell a signal from chance" in told
    assert spoken > 0


def test_probabilities_that_are_worse_than_the_shares_are_no_matter_of_few_labels():
    """It said "-1.9 ± 0.12 below"."""
    codes = np.arange(100) % 2.0
    training = Training(np.zeros((100, 1)), np.arange(2), codes, np.ones(100), False)
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(100) < 0.7, 0.1, 0.9)  # of the label's own class
    p = np.where(codes[:, None] == np.arange(2), wrong[:, None], 1.0 - wrong[:, None])
    angle = SimpleNamespace(is_fallback=False)
    model = SimpleNamespace(loo_proba_=p, plain_loo_proba_=p, angle_=angle)
    with pytest.warns(AngleWarning, match=r"worse than the shares.* is [0-9.]+ ± [0-9.]+ above"):
        warn_if_too_few(model, training)
    # What chance explains is one of few labels, on either side of zero.
    right = np.where(np.arange(100) % 4 < 2, 0.7, 0.3)
    model.loo_proba_ = np.where(codes[:, None] == np.arange(2), right[:, None], 1 - right[:, None])
    gain, error = difference(shares_without(training), model.loo_proba_, training)
    assert -3.0 * error < gain < 0.0
    with pytest.warns(AngleWarning, match=r"signal from chance.* is [0-9.]+ ± [0-9.]+ above that"):
        warn_if_too_few(model, training)
