"""Probabilities averaged over penalties or over folds."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

from angcal import AngularLogisticRegressionCV, Logit
from angcal.estimators.fold_average import folds_of, warn_if_one_is_better
from angcal.estimators.training import Training, validated
from angcal.metrics import log_loss
from angcal.multiclass.calibrate import LeftOutClasses
from angcal.notices import AngleWarning
from angcal.penalty_path.choice import penalty_shares
from angcal.pools import OneShotPoolError
from angcal.simulation import simulate

LINK = Logit(3.0, 1.0)
CS = np.geomspace(0.01, 100.0, 5)


def data(n=120, d=20, seed=0, **options):
    return simulate(n, d, **{"link": LINK, "random_state": seed, **options})


def positive(classifier, X):
    return classifier.predict_proba(X)[:, 1]


def test_shares_follow_the_losses():
    losses = np.array([0.50, 0.52, 0.51, 0.90])
    shares = penalty_shares(losses, 100)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] / shares[0] == pytest.approx(np.exp(-1.0))
    assert shares[2] / shares[0] == pytest.approx(np.exp(-0.5))
    assert shares[3] == 0.0
    kept = shares[shares > 0]
    assert kept.min() >= 1e-3
    # Labels without end leave the best penalty alone.
    assert_array_equal(penalty_shares(losses, 10**6), [1.0, 0.0, 0.0, 0.0])


def test_the_average_is_that_of_the_penalties_one_by_one():
    sim, CS = data(90, 60), np.geomspace(1e-3, 1e3, 5)
    model = AngularLogisticRegressionCV(CS, tol=1e-7, average="penalties").fit(sim.X, sim.y)
    assert np.sum(model.shares_ > 0) >= 3
    assert_allclose(model.shares_, penalty_shares(model.path_.criterion, 90))
    expected = sum(
        share * positive(AngularLogisticRegressionCV([C], tol=1e-7).fit(sim.X, sim.y), sim.X)
        for share, C in zip(model.shares_, CS, strict=True)
    )
    assert_allclose(positive(model, sim.X), expected, atol=1e-6)
    single = AngularLogisticRegressionCV(CS, tol=1e-7).fit(sim.X, sim.y)
    assert_array_equal(single.shares_, np.arange(5) == single.path_.index)
    assert_array_equal(single.coef_, model.coef_)


def test_one_penalty_is_its_own_average():
    sim = data(60, 30)
    one = AngularLogisticRegressionCV([0.3]).fit(sim.X, sim.y)
    same = AngularLogisticRegressionCV([0.3], average="penalties").fit(sim.X, sim.y)
    assert_allclose(positive(same, sim.X), positive(one, sim.X), atol=1e-3)


@pytest.mark.parametrize("average", ["penalties", "folds"])
@pytest.mark.parametrize("convert", [sparse.csr_array, np.float32])
def test_an_average_takes_the_rows_that_a_single_model_takes(convert, average):
    sim = data(90, 60)
    model = AngularLogisticRegressionCV(CS, average=average).fit(sim.X, sim.y)
    assert_allclose(positive(model, convert(sim.X)), positive(model, sim.X), atol=1e-6)
    with pytest.raises(ValueError, match="NaN"):
        model.predict_proba(np.full((1, 60), np.nan))


@pytest.mark.filterwarnings("ignore:No signal:angcal.AngleWarning")  # in some draws there is none
@pytest.mark.filterwarnings("ignore:An average over folds does not pay:angcal.AngleWarning")
@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_averages_do_better_where_labels_are_few(average):
    """Mean log-loss on fresh rows over 40 draws, four columns for each label: by two errors."""
    gains = []
    for seed in range(40):
        sim = data(60, 240, seed=seed, link=Logit(3.0))
        X, y = sim.sample(4000, random_state=1000 + seed)
        one, other = (
            AngularLogisticRegressionCV(average=over).fit(sim.X, sim.y) for over in (None, average)
        )
        gains.append(log_loss(y, positive(one, X)) - log_loss(y, positive(other, X)))
    assert np.mean(gains) > 2.0 * np.std(gains, ddof=1) / np.sqrt(40)


def test_an_average_over_folds_is_that_of_fits_without_them():
    sim = data(90, 60)
    weights = np.linspace(0.5, 2.0, 90)
    model = AngularLogisticRegressionCV(CS, average="folds")
    model.fit(sim.X, sim.y, sample_weight=weights)
    expected = np.zeros(90)
    for kept, _ in StratifiedKFold(5).split(sim.X, sim.y):
        part = AngularLogisticRegressionCV(CS)
        part.fit(sim.X[kept], sim.y[kept], sample_weight=weights[kept])
        expected += 0.5 * positive(part, sim.X) / 5
    one = AngularLogisticRegressionCV(CS).fit(sim.X, sim.y, sample_weight=weights)
    expected += 0.5 * positive(one, sim.X)
    assert_allclose(positive(model, sim.X), expected, atol=1e-12)
    assert_array_equal(model.coef_, one.coef_)
    assert model.C_ == one.C_


def test_every_fold_has_the_pool():
    sim = data(90, 60)
    pool, _ = sim.sample(500, random_state=3)
    model = AngularLogisticRegressionCV(5, average="folds").fit(sim.X, sim.y, pool=pool)
    assert {part.angle_.method for part in model.average_.classifiers} == {"observable"}


def test_folds_are_as_many_as_the_smaller_class_allows():
    sim = data(40, 5)
    y = np.repeat([0, 1], [37, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AngularLogisticRegressionCV(3, average="folds").fit(sim.X, y)
        assert len(model.average_.classifiers) == 3
        y = np.repeat([0, 1], [39, 1])
        with pytest.raises(ValueError, match="y has 1 of the rarer class among 40"):
            AngularLogisticRegressionCV(3, average="folds").fit(sim.X, y)
        with pytest.raises(ValueError, match="5 rows without any of its folds"):
            AngularLogisticRegressionCV(3, average="folds").fit(sim.X[:6], [0, 1, 0, 1, 0, 0])


def test_predictions_follow_the_fit_and_not_the_parameter():
    sim = data(90, 60)
    model = AngularLogisticRegressionCV(CS, average="penalties").fit(sim.X, sim.y)
    averaged = positive(model, sim.X)
    assert_array_equal(positive(model.set_params(average=None), sim.X), averaged)
    single = positive(model.fit(sim.X, sim.y), sim.X)
    assert model.average_ is None
    assert np.abs(single - averaged).max() > 1e-3
    # What was fitted before does not come back.
    assert_array_equal(positive(model.set_params(average="folds"), sim.X), single)


@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_a_pool_that_is_used_up_is_refused_before_the_fit(average):
    sim = data(90, 60)
    pool, _ = sim.sample(500, random_state=3)
    model = AngularLogisticRegressionCV(CS, average=average, angle="loo")
    with pytest.raises(OneShotPoolError, match=f"average='{average}' goes over the pool several"):
        model.fit(sim.X, sim.y, pool=iter([pool]))
    assert not hasattr(model, "coef_")


def test_left_out_probabilities_of_an_average_over_folds_are_those_of_its_classifiers():
    sim = data(60, 20, seed=3)
    training = validated(
        AngularLogisticRegressionCV(), sim.X, sim.y, None, raw_rows=False, many_classes=False
    )
    clf = AngularLogisticRegressionCV(Cs=CS, average="folds").fit(sim.X, sim.y)
    total = np.zeros((60, 2))
    for one, (kept, apart) in zip(clf.average_.classifiers, folds_of(training), strict=True):
        total[kept] += one.loo_proba_
        total[apart] += one.predict_proba(sim.X[apart])
    one = AngularLogisticRegressionCV(Cs=CS).fit(sim.X, sim.y)
    assert_allclose(clf.loo_proba_, 0.5 * one.loo_proba_ + 0.1 * total)
    # No row's own label is in its probability: they are closer to chance than in-sample ones.
    assert log_loss(sim.y, clf.loo_proba_[:, 1]) > log_loss(sim.y, clf.predict_proba(sim.X)[:, 1])


def test_one_model_that_is_clearly_better_than_an_average_over_folds_is_named():
    training = Training(np.zeros((50, 1)), np.arange(2), np.arange(50) % 2.0, np.ones(50), False)
    own = np.where((np.arange(50) % 2.0)[:, None] == [0.0, 1.0], 1.0, 0.0)
    sure = LeftOutClasses(0.05 + 0.9 * own, 0.4 + 0.2 * own)
    with pytest.warns(
        AngleWarning, match=r"folds does not pay here.*above that of the one model\."
    ):
        warn_if_one_is_better(0.2 + 0.6 * own, sure, training)
    warn_if_one_is_better(0.05 + 0.9 * own, sure, training)  # as good: nothing to say
