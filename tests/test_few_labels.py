"""A warning where labels are too few to tell what probabilities are worth."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from angcal import AngleWarning, AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.estimators.few_labels import Labels, warn_if_too_few
from angcal.estimators.training import Training
from angcal.leverages.groups import Groups


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


def test_the_difference_and_its_errors_are_those_of_the_row_losses():
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(3), size=(2, 40))
    codes, weights = np.arange(40) % 3, rng.uniform(0.5, 2.0, 40)
    labels = Labels(codes, weights, 3)
    own = np.arange(40), codes
    gaps = np.log(second[own] / first[own])
    found = labels.difference(first, second)
    assert_allclose(found.mean, np.average(gaps, weights=weights))
    share, few = weights / weights.sum(), 1.125
    assert_allclose(found.spread, few * np.sqrt(np.sum(share**2 * (gaps - found.mean) ** 2)))
    for p, (mean, error) in ((first, found.if_first), (second, found.if_second)):
        drawn = [np.sum(p * np.log(second / first) ** power, axis=1) for power in (1, 2)]
        assert_allclose(mean, share @ drawn[0])
        assert_allclose(error, few * np.sqrt(share**2 @ (drawn[1] - drawn[0] ** 2)))
    # One label of each class is added, of weight 1 as the mean row.
    rest = (weights / weights.mean())[:, None] * np.eye(3)[codes]
    rest = rest.sum(axis=0) + 1.0 - rest
    assert_allclose(labels.shares_without, rest / rest.sum(axis=1, keepdims=True))


def test_rows_that_belong_together_count_once():
    """Each row four times has the error of the rows themselves."""
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(2), size=(2, 30))
    codes, rows = np.arange(30) % 2, np.repeat(np.arange(30), 4)
    alone = Labels(codes, np.ones(30), 2)
    copied = Labels(codes[rows], np.ones(120), 2, Groups(rows))
    found, expected = copied.difference(first[rows], second[rows]), alone.difference(first, second)
    assert_allclose([found.mean, found.spread], [expected.mean, expected.spread])
    assert_allclose(found.if_first, expected.if_first)
    assert_allclose(copied.shares_without, alone.shares_without[rows])
    assert (copied.count, copied.rarest) == (30.0, 15)


def test_a_lucky_sample_has_the_error_of_one_that_is_not():
    """No label is against the probabilities: losses are small and alike, and prove little."""
    codes = np.arange(40) % 2
    lucky = np.where(codes[:, None] == np.arange(2), 0.8, 0.2)
    found = Labels(codes, np.ones(40), 2).difference(np.full((40, 2), 0.5), lucky)
    gain, loss = np.log(1.6), np.log(0.4)
    assert_allclose(found.mean, gain)
    assert_allclose(found.spread, 0.0, atol=1e-12)
    assert_allclose(found.if_first, (0.5 * (gain + loss), 1.125 * 0.5 * (gain - loss) / 40**0.5))


@pytest.mark.parametrize("make", [AngularCalibratedClassifier, AngularLogisticRegressionCV])
def test_nothing_is_said_of_enough_labels(make):
    for seed in range(5):
        assert not said(make(), *drawn(300, 10, seed))
        assert not said(make(), *drawn(300, 10, seed, n_classes=3))


@pytest.mark.parametrize("make", [AngularCalibratedClassifier, AngularLogisticRegressionCV])
def test_fewer_than_twenty_five_rows_tell_nothing(make):
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


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_unit_of_weights_does_not_matter(unit):
    """The one row of each class that is added to the shares is not one of the given unit."""
    weights, codes = np.random.default_rng(0).uniform(0.5, 2.0, 40), np.arange(40) % 3
    first, second = (Labels(codes, w, 3).shares_without for w in (weights, unit * weights))
    assert_allclose(first, second, rtol=1e-12)


def test_copies_are_as_few_labels_as_single_rows():
    X, y = drawn(16, 3, 0)
    rows = np.repeat(np.arange(16), 5)
    (message,) = said(AngularCalibratedClassifier(), X[rows], y[rows], groups="copies")
    rarest = np.bincount(y).min()
    assert f"y has 16 independent labels by its groups, {rarest} of them" in message


def test_copies_that_are_not_named_count_once():
    X, y = drawn(18, 3, 0)
    rows = np.repeat(np.arange(18), 5)
    found = said(AngularCalibratedClassifier(), X[rows], y[rows])
    assert "y has 18 labels of rows that are no copies" in found[-1]


def test_copies_are_groups_as_the_linear_model_sees_them():
    """A column that the pipeline drops makes no two rows alike; texts have no columns at all."""
    X, y = drawn(15, 3, 0)
    rows = np.repeat(np.arange(15), 5)
    numbered = np.column_stack([np.arange(75.0), X[rows]])
    pipe = make_pipeline(FunctionTransformer(without_the_first), LogisticRegression())
    (message,) = said(AngularCalibratedClassifier(pipe), numbered, y[rows], groups="copies")
    assert "y has 15 independent labels by its groups" in message
    words = [" ".join(f"w{j}" for j in np.flatnonzero(row > 0.0)) + " w" for row in X[rows]]
    texts = make_pipeline(CountVectorizer(), LogisticRegression())
    assert said(AngularCalibratedClassifier(texts), words, y[rows], groups="copies")


def without_the_first(X):
    return X[:, 1:]


def test_rows_of_few_values_are_labels_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (900, 5)).astype(float)
    y = (X.sum(axis=1) > 2.5) ^ (rng.random(900) < 0.01)
    assert not said(AngularCalibratedClassifier(), X, y)


def test_a_clear_signal_in_a_hundred_rows_is_none_of_chance():
    X, y = np.random.default_rng(100).normal(size=(100, 4)), np.arange(100) % 2
    X[:, 0] += 5.0 * y - 2.5
    assert not any("chance" in each for each in said(AngularCalibratedClassifier(), X, y))


def sure_of_the_wrong_class(y, wrong):
    """A fitted model, as far as the warning looks."""
    p = np.where(y == 1, 1.0 - wrong, wrong)
    both = np.column_stack([1.0 - p, p])
    return SimpleNamespace(
        angle_=SimpleNamespace(is_fallback=False), loo_proba_=both, plain_loo_proba_=both
    )


def test_a_model_worse_than_the_shares_is_called_that():
    y = np.arange(100) % 2
    training = Training(np.zeros((100, 1)), np.arange(2), y.astype(float), np.ones(100), False)
    with pytest.warns(
        AngleWarning, match="worse than the shares of the classes: .* 2.3 ± .* above"
    ):
        warn_if_too_few(
            sure_of_the_wrong_class(y, np.where(np.arange(100) % 10, 0.95, 0.94)), training, None
        )
    # A loss that chance explains is above the shares', not a negative number below them.
    wrong = np.where(np.random.default_rng(0).random(100) < 0.75, 0.05, 0.95)
    with pytest.warns(AngleWarning, match=r"tell a signal from chance: .* is 0\.\d+ ± \S+ above"):
        warn_if_too_few(sure_of_the_wrong_class(y, wrong), training, None)
