"""AngularCalibratedClassifier on three and more classes, as a user meets it."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    Logit,
    OptimalityWarning,
)
from angcal.curve import tail_floor
from angcal.links.multiclass import Softmax, TwoLayer
from angcal.multiclass import angular_predictor
from angcal.simulation import AutoregressiveCovariance, simulate_multiclass


def _model(C=0.1):
    return LogisticRegression(C=C, tol=1e-6, max_iter=5000)


@pytest.fixture(scope="module")
def simulated():
    # Columns of unit variance.
    covariance = AutoregressiveCovariance(300, 0.5, variance=1.0)
    return simulate_multiclass(400, n_indices=3, signal=2.0, covariance=covariance, random_state=0)


def test_probabilities_are_better_than_the_plain_model_s(simulated):
    test = simulated.fresh(4000, random_state=1)
    plain = _model(1.0).fit(simulated.X, simulated.y)
    ours = AngularCalibratedClassifier(_model(1.0)).fit(simulated.X, simulated.y)
    P = ours.predict_proba(test.X)
    assert P.shape == (4000, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert log_loss(test.y, P) < 0.8 * log_loss(test.y, plain.predict_proba(test.X))
    # Class frequencies agree within three standard errors.
    np.testing.assert_allclose(P.mean(axis=0), np.bincount(test.y) / 4000, atol=3 * 0.5 / 20)


def test_angles_are_a_matrix_with_intervals(simulated):
    clf = AngularCalibratedClassifier(_model()).fit(simulated.X, simulated.y)
    angle = clf.angle_
    assert angle.cosine.shape == angle.standard_error.shape == (3, 3)
    assert angle.interval.shape == (3, 3, 2)
    assert np.all(angle.interval[..., 0] <= angle.cosine)
    assert np.all(angle.cosine <= angle.interval[..., 1])
    assert "labels alone" in angle.reason
    # Each true index is closest to its own score.
    assert np.all(angle.cosine.argmax(axis=1) == np.arange(3))


def test_known_covariance_of_the_indices(simulated):
    link = Softmax(3, covariance=simulated.index_covariance)
    clf = AngularCalibratedClassifier(_model(), link=link).fit(simulated.X, simulated.y)
    centering = np.eye(3) - 1 / 3
    true = centering @ simulated.cross_covariance(clf.coef_)
    deviations = np.sqrt(np.diag(clf.angle_.index_covariance))
    found = clf.angle_.cosine * deviations[:, None]
    expected = np.linalg.norm(clf.angle_.standard_error * deviations[:, None])
    assert np.linalg.norm(found - true) < 2.0 * expected
    assert expected < 0.4 * np.linalg.norm(true)
    assert (np.abs(clf.angle_.cosine) <= 1).all()
    test = simulated.fresh(4000, random_state=1)
    plain = _model().fit(simulated.X, simulated.y).predict_proba(test.X)
    assert log_loss(test.y, clf.predict_proba(test.X)) < log_loss(test.y, plain)


@pytest.mark.parametrize(
    "base",
    [
        OneVsRestClassifier(LogisticRegression(C=0.1, tol=1e-6, max_iter=5000)),
        LinearSVC(C=0.01, tol=1e-6, max_iter=100_000),
        RidgeClassifier(alpha=100.0),
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-6, max_iter=5000)),
    ],
    ids=lambda base: type(base).__name__,
)
def test_other_heads(simulated, base):
    test = simulated.fresh(4000, random_state=1)
    clf = AngularCalibratedClassifier(base).fit(simulated.X, simulated.y)
    loss = log_loss(test.y, clf.predict_proba(test.X))
    # Better than the prevalence.
    assert loss < 0.97 * np.log(3)
    assert np.mean(clf.predict(test.X) == test.y) > 0.45


def test_names_of_classes_are_kept(simulated):
    names = np.array(["cod", "ash", "bee"])[simulated.y]
    clf = AngularCalibratedClassifier(_model()).fit(simulated.X, names)
    codes = AngularCalibratedClassifier(_model()).fit(simulated.X, np.array([2, 0, 1])[simulated.y])
    assert clf.classes_.tolist() == ["ash", "bee", "cod"]
    np.testing.assert_allclose(
        clf.predict_proba(simulated.X), codes.predict_proba(simulated.X), atol=1e-12
    )
    assert set(clf.predict(simulated.X)) <= {"ash", "bee", "cod"}


def test_order_of_the_classes_does_not_matter(simulated):
    order = np.array([2, 0, 1])
    first = AngularCalibratedClassifier(_model()).fit(simulated.X, simulated.y)
    second = AngularCalibratedClassifier(_model()).fit(simulated.X, order[simulated.y])
    np.testing.assert_allclose(
        first.predict_proba(simulated.X),
        second.predict_proba(simulated.X)[:, order],
        atol=2e-4,
    )


def test_frozen_model_is_kept(simulated):
    model = _model().fit(simulated.X, simulated.y)
    frozen = AngularCalibratedClassifier(FrozenEstimator(model)).fit(simulated.X, simulated.y)
    fresh = AngularCalibratedClassifier(_model()).fit(simulated.X, simulated.y)
    np.testing.assert_allclose(
        frozen.predict_proba(simulated.X), fresh.predict_proba(simulated.X), atol=1e-6
    )


def test_zero_weight_is_a_removed_row(simulated):
    weights = np.ones(400)
    weights[::7] = 0.0
    kept = weights > 0
    a = AngularCalibratedClassifier(_model()).fit(simulated.X, simulated.y, weights)
    b = AngularCalibratedClassifier(_model()).fit(
        simulated.X[kept], simulated.y[kept], weights[kept]
    )
    np.testing.assert_allclose(a.predict_proba(simulated.X), b.predict_proba(simulated.X))


def test_a_class_without_weight_is_gone():
    X, y = load_iris(return_X_y=True)
    weights = np.where(y == 2, 0.0, 1.0)
    clf = AngularCalibratedClassifier(_model(1.0)).fit(X[:, :3], y, weights)
    assert clf.classes_.tolist() == [0, 1]
    assert clf.predict_proba(X[:2, :3]).shape == (2, 2)


def test_digits():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X / 16, y, train_size=200, stratify=y, random_state=0
    )
    clf = AngularCalibratedClassifier(_model(10.0)).fit(X_train, y_train)
    plain = _model(10.0).fit(X_train, y_train)
    ours = log_loss(y_test, clf.predict_proba(X_test))
    assert ours < 1.02 * log_loss(y_test, plain.predict_proba(X_test))
    assert clone(clf).get_params()["angle"] == "auto"


def test_no_signal_gives_about_the_prevalence():
    # Leave-one-out scores without signal lean against their labels: mostly no rise is found.
    silent, away = 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(90, 120)), rng.integers(0, 3, 90)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AngleWarning)
            clf = AngularCalibratedClassifier(_model(1.0)).fit(X, y)
        P = clf.predict_proba(rng.normal(size=(200, 120)))
        no_rise = "no better than chance" in clf.angle_.reason
        assert no_rise == any("No signal found" in str(entry.message) for entry in caught)
        silent += not no_rise
        away.append(np.abs(P - np.bincount(y) / 90).mean())
    assert silent <= 5
    assert np.mean(away) < 0.1


def test_constant_weights_give_the_prevalence():
    with pytest.warns(AngleWarning, match="all fitted weights are zero"):
        clf = AngularCalibratedClassifier().fit(np.zeros((30, 4)), np.arange(30) % 3)
    np.testing.assert_allclose(clf.predict_proba(np.zeros((1, 4))), 1 / 3, atol=1e-3)


def test_unfinished_fit_is_reported(simulated):
    coarse = SGDClassifier(loss="log_loss", alpha=0.05, tol=1e-3, random_state=0)
    with pytest.warns(OptimalityWarning, match="not at the optimum"):
        AngularCalibratedClassifier(coarse).fit(simulated.X, simulated.y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angle": 0.5}, "angle=0.5 is for two classes"),
        ({"polish": True}, "polish=True is for two classes"),
        ({"link": Logit(3.0)}, "Only binary classification"),
        ({"link": TwoLayer((0.5, 0.5))}, "no link of 3 classes"),
        ({"link": Softmax(4)}, "softmax of 4 classes; y has 3"),
        ({"link": Softmax(3, offset=[0, 1, 0])}, "an offset but without covariance"),
        ({"link": Softmax(3, covariance=np.ones((3, 3)))}, "all indices move together"),
    ],
)
def test_options_for_two_classes_are_refused(simulated, options, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(_model(), **options).fit(simulated.X, simulated.y)


@pytest.mark.parametrize("heads", ["joint", "one-vs-rest"])
def test_observable_angles_from_a_covariance_or_a_pool(simulated, heads):
    model = _model() if heads == "joint" else OneVsRestClassifier(_model())
    plain = AngularCalibratedClassifier(model).fit(simulated.X, simulated.y)
    covariance = AutoregressiveCovariance(300, 0.5, variance=1.0).matrix()
    pool = simulated.fresh(3000, random_state=5).X
    # Each class rises along its own score: what its true index, about the mean, does with it.
    centering = np.eye(3) - 1 / 3
    true = centering @ simulated.cross_covariance(plain.coef_)
    spread = np.sqrt(np.diag(centering @ simulated.index_covariance @ centering))
    for source in ({"covariance": covariance}, {"pool": pool}):
        for angle in ("auto", "observable"):
            clf = AngularCalibratedClassifier(model, angle=angle, **source)
            clf.fit(simulated.X, simulated.y)
            assert clf.angle_.method == "observable"
            own = np.diag(clf.angle_.cosine)
            errors = np.diag(clf.angle_.standard_error)
            np.testing.assert_array_less(np.abs(own - np.diag(true) / spread), 4 * errors + 0.05)
            # Probabilities do not depend on them.
            np.testing.assert_array_equal(
                clf.predict_proba(simulated.X), plain.predict_proba(simulated.X)
            )
    loo = AngularCalibratedClassifier(model, angle="loo", pool=pool).fit(simulated.X, simulated.y)
    assert loo.angle_.method == "loo"


@pytest.mark.parametrize("source", ["nothing", "a small pool"])
def test_observable_angles_that_are_not_possible_are_reported(simulated, source):
    pool = simulated.X[:50] if source == "a small pool" else None
    why = "neither a covariance nor a pool" if pool is None else "too few to invert"
    for classifier in (
        AngularCalibratedClassifier(_model(), angle="observable", pool=pool),
        AngularLogisticRegressionCV([0.1], angle="observable", pool=pool),
    ):
        with pytest.warns(AngleWarning, match=f"angle='observable' is not possible: .*{why}"):
            classifier.fit(simulated.X, simulated.y)
        assert classifier.angle_.method == "loo"


def test_softmax_is_refused_for_two_classes(simulated):
    with pytest.raises(ValueError, match="three or more classes"):
        AngularCalibratedClassifier(_model(), link=Softmax(2)).fit(simulated.X, simulated.y > 0)


def test_class_weights_do_not_hide_the_signal():
    # Weights that turn the classes' frequencies around move the offsets far from the labels' own.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 20))
    offset = np.array([2.5, 0.0, 0.0])
    logits = X @ rng.normal(size=(20, 3)) * 0.4 + offset
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    tilted = LogisticRegression(C=1.0, class_weight={0: 0.003, 1: 1.0, 2: 1.0}, max_iter=2000)
    clf = AngularCalibratedClassifier(tilted).fit(X, y)
    assert not clf.angle_.is_fallback
    P = clf.predict_proba(X)
    # Probabilities follow the labels' own frequencies.
    np.testing.assert_allclose(P.mean(axis=0), np.bincount(y) / 600, atol=0.03)


def test_strength_of_the_penalty_sets_no_unit(simulated):
    # Under a strong penalty only the length of the weights still shrinks, in step with C. What is
    # left is the prior of the slope, which holds back a factor of 100 by log(100)/1.5² over the
    # information of 300 labels.
    test = simulated.fresh(50, random_state=2)
    strong, stronger = (
        AngularCalibratedClassifier(LogisticRegression(C=C, tol=1e-12, max_iter=5000))
        .fit(simulated.X, simulated.y)
        .predict_proba(test.X)
        for C in (1e-6, 1e-8)
    )
    np.testing.assert_allclose(stronger, strong, atol=4e-3)


def test_two_classes_by_the_general_predictor(simulated):
    y = (simulated.y > 0).astype(int)
    link, cosine = Logit(2.5, offset=0.4), 0.6
    clf = AngularCalibratedClassifier(_model(), link=link, angle=cosine).fit(simulated.X, y)
    axis = np.array([[-0.5], [0.5]])
    general = angular_predictor(
        Softmax(2, offset=axis[:, 0] * link.offset),
        link.scale * cosine * axis,
        [[1.0]],
        link.scale**2 * axis @ axis.T,
    )
    scores = simulated.X @ clf.coef_[0] + clf.intercept_[0]
    standard = (scores - clf.scale_.center) / clf.scale_.norm
    np.testing.assert_allclose(
        general.predict(standard[:, None]), clf.predict_proba(simulated.X), atol=1e-8
    )


@pytest.mark.parametrize("observables", ["exact", "randomised"])
def test_rows_of_any_kind(simulated, observables):
    base = AngularCalibratedClassifier(_model(), observables=observables)
    clf = base.fit(simulated.X, simulated.y)
    assert (clf.observables_.side == "randomised") == (observables == "randomised")
    expected = clf.predict_proba(simulated.X)
    # Sparse rows are sized a little differently, so that other rows may be sampled.
    slack = 2e-3 if observables == "exact" else 3e-2
    for rows in (sparse.csr_matrix(simulated.X), simulated.X.astype(np.float32)):
        found = clone(base).fit(rows, simulated.y).predict_proba(rows)
        np.testing.assert_allclose(found, expected, atol=slack)
    np.testing.assert_allclose(clf.predict_proba(simulated.X[:1]), expected[:1], atol=1e-12)
    kept = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(kept.predict_proba(simulated.X), expected)


@pytest.mark.parametrize("rows_of_the_rare", [1, 2])
def test_a_class_with_hardly_any_row(simulated, rows_of_the_rare):
    y = simulated.y % 2
    y[:rows_of_the_rare] = 2
    clf = AngularCalibratedClassifier(_model()).fit(simulated.X, y)
    P = clf.predict_proba(simulated.fresh(500, random_state=3).X)
    assert np.all(np.isfinite(P))
    assert 0.0 < P[:, 2].mean() < 0.05


def test_what_two_classes_left_is_gone(simulated):
    clf = AngularCalibratedClassifier(_model()).fit(simulated.X, simulated.y > 0)
    assert clf.scale_.norm > 0
    assert not hasattr(clf.fit(simulated.X, simulated.y), "scale_")


def test_singular_covariance_of_the_indices(simulated):
    line = np.outer([1.0, -1.0, 0.0], [1.0, -1.0, 0.0])
    clf = AngularCalibratedClassifier(_model(), link=Softmax(3, covariance=line))
    angle = clf.fit(simulated.X, simulated.y).angle_
    assert np.all(np.isfinite(angle.standard_error))
    # The third index does not vary about the mean of the classes.
    np.testing.assert_array_equal(angle.cosine[2], 0.0)


def _narrow(n, d, K, eps, seed):
    """Rows in d columns, or in 20 that nearly are a multiple of one; P(y) is a softmax of them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    logits = 3.0 / np.sqrt(d) * Z @ rng.normal(size=(d, K)) + 0.5 * rng.normal(size=K)
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    if eps:
        Z = Z @ rng.normal(size=(d, 20)) + eps * rng.normal(size=(n, 20))
    return Z, y


@pytest.mark.parametrize(
    ("d", "K", "eps", "base"),
    [
        (1, 3, 0.0, LogisticRegression()),
        (1, 4, 0.0, LogisticRegression()),
        (2, 6, 0.0, LogisticRegression()),
        (1, 3, 0.0, OneVsRestClassifier(LogisticRegression())),
        (1, 4, 0.01, LogisticRegression()),
        (1, 4, 0.1, LogisticRegression(C=0.01)),
    ],
)
@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")
def test_fewer_directions_than_classes_ask_for(d, K, eps, base):
    # Leave-one-out scores then hold each row's own label in the directions that are left over.
    ours = plain = 0.0
    for seed in range(4):
        X, y = _narrow(6200, d, K, eps, seed)
        clf = AngularCalibratedClassifier(base).fit(X[:200], y[:200])
        ours += log_loss(y[200:], clf.predict_proba(X[200:]))
        plain += log_loss(y[200:], clf.estimator_.predict_proba(X[200:]))
    assert ours < 1.02 * plain


def test_known_covariance_in_fewer_directions_than_classes_ask_for():
    X, y = _narrow(6200, 1, 3, 0.0, 0)
    link = Softmax(3, covariance=9.0 * np.outer([1, 0, -1], [1, 0, -1]) + np.eye(3))
    clf = AngularCalibratedClassifier(LogisticRegression(), link=link).fit(X[:200], y[:200])
    best = log_loss(y[200:], clf.estimator_.predict_proba(X[200:]))
    assert log_loss(y[200:], clf.predict_proba(X[200:])) < 1.5 * best


def test_one_vs_rest_of_two_classes_is_its_one_head(simulated):
    y = (simulated.y == 0).astype(int)
    wrapped, plain = (
        AngularCalibratedClassifier(model).fit(simulated.X, y)
        for model in (OneVsRestClassifier(_model()), _model())
    )
    np.testing.assert_allclose(
        wrapped.predict_proba(simulated.X), plain.predict_proba(simulated.X), atol=1e-9
    )


@pytest.mark.parametrize("known", [False, True])
def test_no_probability_is_more_certain_than_the_labels_allow(known):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (4 * X[:, :3] + rng.gumbel(size=(150, 3))).argmax(axis=1)
    link = Softmax(3, covariance=16.0 * np.eye(3)) if known else None
    clf = AngularCalibratedClassifier(LogisticRegression(C=100.0, max_iter=5000), link=link)
    clf.fit(X, y)
    P = clf.predict_proba(20.0 * X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    least = tail_floor(clf.class_counts_.sum()) / 2
    for p in (P, clf.loo_proba_):
        assert p.min() >= least * (1 - 1e-9)
    assert P.min() < 1.01 * least
