"""predict_interval: closed forms, order, invariances, files, and coverage over a few draws."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit, Probit
from angcal.intervals import Mixture, TwoClassLaw, pooled
from angcal.links.multiclass import Softmax
from angcal.notices import AngleWarning
from angcal.simulation import simulate, simulate_multiclass

LINK = Logit(3.0, 1.0)
DATA = simulate(200, 40, link=LINK, random_state=0)
NEW = DATA.sample(60, random_state=1)[0]
CLASSES = simulate_multiclass(240, 20, n_indices=3, signal=3.0, random_state=0)
NEW_CLASSES = CLASSES.fresh(40, random_state=1).X
SIGMA = DATA.covariance.apply(np.eye(40))


@pytest.fixture(scope="module")
def two():
    return AngularCalibratedClassifier().fit(DATA.X, DATA.y)


@pytest.fixture(scope="module")
def three():
    return AngularCalibratedClassifier().fit(CLASSES.X, CLASSES.y)


# -- closed forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("link", [LINK, Probit(2.0, -0.5)])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_a_row_at_a_known_link_and_cosine(link, confidence):
    """σ(κ(c·s ± z√(1−c²)) + β); without an intercept nothing else is open."""
    model = LogisticRegression(fit_intercept=False)
    clf = AngularCalibratedClassifier(model, link=link, angle=0.6, covariance=SIGMA)
    clf.fit(DATA.X, DATA.y)
    s = clf.scale_.standardize(NEW @ clf.coef_[0])
    z = ndtri(0.5 + confidence / 2) * np.array([-1.0, 1.0])
    expected = link(0.6 * s[:, None] + 0.8 * z)
    assert_allclose(clf.predict_interval(NEW, "row", confidence), expected, rtol=1e-12)
    p = clf.predict_proba(NEW)[:, 1]
    assert_allclose(clf.predict_interval(NEW, "curve", confidence), np.column_stack([p, p]), 1e-6)


def test_the_center_of_scores_is_all_that_is_open_at_a_given_cosine():
    """With an intercept: index known up to κc/√n, which the row's noise κ√(1−c²) adds to."""
    clf = AngularCalibratedClassifier(link=LINK, angle=0.6, covariance=SIGMA).fit(DATA.X, DATA.y)
    s = clf.scale_.standardize(NEW @ clf.coef_[0] + clf.intercept_[0])
    spread = np.hypot(3.0 * 0.8, 3.0 * 0.6 / np.sqrt(200))
    expected = expit(1.8 * s[:, None] + 1.0 + ndtri(0.95) * spread * np.array([-1.0, 1.0]))
    assert_allclose(clf.predict_interval(NEW, "row"), expected, rtol=1e-12)


def test_quantiles_of_a_mixture_by_root_finding():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(6))
    means, spreads = rng.normal(size=(5, 6)), rng.exponential(size=(5, 6))
    spreads[0, 0] = 0.0  # a cosine of one
    mixture = Mixture(weights, means, spreads)
    for level in (0.025, 0.5, 0.9):
        for q, m, s in zip(mixture.quantile(level)[1:], means[1:], spreads[1:], strict=True):

            def miss(t, m=m, s=s, level=level):
                return weights @ ndtr((t - m) / s) - level

            assert q == pytest.approx(brentq(miss, -30, 30), abs=1e-6)


def test_quantiles_of_draws_are_those_of_the_draws():
    draws = np.random.default_rng(0).normal(size=(4, 3, 101))
    mixture = Mixture(np.full(101, 1 / 101), draws, np.zeros(1))
    expected = np.quantile(draws, 0.9, axis=-1, method="inverted_cdf")
    assert_array_equal(mixture.quantile(0.9), expected)


def test_a_mixture_of_models_has_their_shares():
    one, other = (Mixture(np.ones(1), np.full((1, 1), m), np.ones((1, 1))) for m in (0.0, 8.0))
    # A quarter lies far below: the quantile at 1/8 is the median of that quarter.
    assert pooled([0.25, 0.75], [one, other]).quantile(0.125)[0] == pytest.approx(0.0, abs=1e-6)


def test_the_table_of_many_rows_answers_for_the_formula(two):
    many = DATA.sample(3000, random_state=2)[0]
    many[0] *= 100.0  # beyond the table
    for kind in ("curve", "row"):
        exact = np.concatenate([two.predict_interval(part, kind) for part in np.split(many, 3)])
        assert_allclose(two.predict_interval(many, kind), exact, rtol=0, atol=1e-7)


# -- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["curve", "row"])
@pytest.mark.parametrize("which", ["two", "three"])
def test_more_confidence_is_a_wider_interval(which, kind, request):
    clf, X = request.getfixturevalue(which), NEW if which == "two" else NEW_CLASSES
    ends = [clf.predict_interval(X, kind, level) for level in (0.3, 0.5, 0.8, 0.9, 0.99)]
    assert ends[0].shape == ((60, 2) if which == "two" else (40, 3, 2))
    for inner, outer in pairwise(ends):
        assert np.all(outer[..., 0] <= inner[..., 0])
        assert np.all(inner[..., 1] <= outer[..., 1])
    assert np.all((ends[-1] >= 0.0) & (ends[-1] <= 1.0))


@pytest.mark.parametrize("which", ["two", "three"])
def test_the_curve_holds_the_probability(which, request):
    clf, X = request.getfixturevalue(which), NEW if which == "two" else NEW_CLASSES
    p = clf.predict_proba(X)
    p = p[:, 1] if which == "two" else p
    for level in (0.05, 0.9):
        low, high = np.moveaxis(clf.predict_interval(X, "curve", level), -1, 0)
        assert np.all((low <= p) & (p <= high))
    # Not by its being put in: at 90 % the mean of the posterior lies within by itself.
    law, scores = clf.interval_law_, clf._scores(X)
    bare = expit(np.stack([law.curve(scores).quantile(level) for level in (0.05, 0.95)], -1))
    assert np.mean((bare[..., 0] <= p) & (p <= bare[..., 1])) > 0.97


@pytest.mark.parametrize("which", ["two", "three"])
def test_the_curve_is_surer_than_the_row(which, request):
    clf, X = request.getfixturevalue(which), NEW if which == "two" else NEW_CLASSES
    curve, row = (np.ptp(clf.predict_interval(X, kind), axis=-1) for kind in ("curve", "row"))
    assert np.mean(curve) < 0.5 * np.mean(row)


def test_many_labels_leave_the_curve_no_room_but_the_row_its_own():
    data = simulate(20_000, 10, link=LINK, random_state=0)
    clf = AngularCalibratedClassifier(link=LINK, covariance=data.covariance.apply(np.eye(10)))
    clf.fit(data.X, data.y)
    X = data.sample(200, random_state=1)[0]
    assert np.ptp(clf.predict_interval(X), axis=1).max() < 0.04
    # At an angle of nearly zero the row has next to none either.
    assert clf.angle_.cosine > 0.99
    blind = AngularCalibratedClassifier(link=LINK, angle=0.5).fit(data.X, data.y)
    assert np.ptp(blind.predict_interval(X, "row"), axis=1).mean() > 0.5


def test_a_covariance_narrows_the_row():
    """Labels alone leave the angle open."""
    given = {"labels": {}, "covariance": {"covariance": SIGMA}, "both": {"link": LINK}}
    given["both"] |= given["covariance"]
    widths = []
    for options in given.values():
        clf = AngularCalibratedClassifier(**options).fit(DATA.X, DATA.y)
        widths.append(np.mean(np.ptp(clf.predict_interval(NEW, "row"), axis=1)))
    assert widths[0] > widths[1] > widths[2]


# -- invariances -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["curve", "row"])
def test_the_other_order_of_two_classes(two, kind):
    turned = AngularCalibratedClassifier().fit(DATA.X, 1 - DATA.y)
    # To the accuracy of the fits, whose solver does not treat classes alike.
    expected = 1.0 - two.predict_interval(NEW, kind)[:, ::-1]
    assert_allclose(turned.predict_interval(NEW, kind), expected, rtol=0, atol=2e-3)


def test_the_other_order_of_three_classes(three):
    turned = AngularCalibratedClassifier().fit(CLASSES.X, 2 - CLASSES.y)
    found = turned.predict_interval(NEW_CLASSES)[:, ::-1]
    # Other draws from the same law.
    assert np.abs(found - three.predict_interval(NEW_CLASSES)).mean() < 0.01


@pytest.mark.parametrize("kind", ["curve", "row"])
def test_rows_are_judged_one_by_one(two, three, kind):
    for clf, X in ((two, NEW), (three, NEW_CLASSES)):
        alone = np.concatenate([clf.predict_interval(X[i : i + 1], kind) for i in range(5)])
        assert_allclose(clf.predict_interval(X, kind)[:5], alone, rtol=0, atol=1e-6)


def test_sparse_rows_and_pipelines(two):
    ends = two.predict_interval(NEW)
    assert_allclose(two.predict_interval(sparse.csr_array(NEW)), ends, atol=1e-12)
    inner = AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    inner.fit(DATA.X, DATA.y)
    outer = make_pipeline(StandardScaler(), AngularCalibratedClassifier()).fit(DATA.X, DATA.y)
    expected = outer[-1].predict_interval(outer[:-1].transform(NEW), "row")
    assert_allclose(inner.predict_interval(NEW, "row"), expected, atol=1e-6)


# -- averages, fallbacks, files --------------------------------------------------------------


@pytest.mark.parametrize("average", [None, "penalties", "folds"])
@pytest.mark.parametrize("kind", ["curve", "row"])
def test_averages_of_models(average, kind):
    clf = AngularLogisticRegressionCV(8, average=average).fit(DATA.X, DATA.y)
    low, high = clf.predict_interval(NEW, kind).T
    p = clf.predict_proba(NEW)[:, 1]
    assert np.all((low <= p) & (p <= high))
    # The true probabilities of rows, which their interval should hold.
    own = LINK(NEW @ DATA.weights)
    if kind == "row":
        assert np.mean((low <= own) & (own <= high)) > 0.85


@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_averages_of_three_classes(average):
    clf = AngularLogisticRegressionCV(4, average=average).fit(CLASSES.X, CLASSES.y)
    for kind in ("curve", "row"):
        ends = clf.predict_interval(NEW_CLASSES, kind)
        assert ends.shape == (40, 3, 2)
        assert np.all(ends[..., 0] <= ends[..., 1])


def without_signal(y, **given):
    """Weights of zero: every row gets the prevalence."""
    frozen = LogisticRegression(C=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = AngularCalibratedClassifier(frozen, angle="loo")
        return clf.fit(np.zeros((len(y), 3)), y, **given)


def test_the_prevalence_of_two_classes():
    """Curve: logit p̂ ± z/√((n+2)p̂(1−p̂)); of a row nothing is known."""
    y = np.r_[np.ones(30), np.zeros(90)]
    clf = without_signal(y)
    p = 31 / 122
    half = ndtri(0.95) / np.sqrt(122 * p * (1 - p))
    low, high = clf.predict_interval(np.zeros((1, 3)))[0]
    assert_allclose([low, high], expit(np.log(p / (1 - p)) + half * np.array([-1, 1])), rtol=1e-6)
    low, high = clf.predict_interval(np.zeros((1, 3)), "row")[0]
    assert low < 1e-3
    assert high > 0.95


def test_the_prevalence_of_three_classes():
    y = np.repeat([0, 1, 2], [60, 30, 30])
    clf = without_signal(y)
    ends = clf.predict_interval(np.zeros((2, 3)))
    assert ends.shape == (2, 3, 2)
    p = np.array([61, 31, 31]) / 123
    half = ndtri(0.95) / np.sqrt(122 * p * (1 - p))
    expected = expit(np.log(p / (1 - p))[:, None] + half[:, None] * np.array([-1, 1]))
    assert_allclose(ends[0], expected, rtol=1e-6)
    assert np.all(np.ptp(clf.predict_interval(np.zeros((2, 3)), "row"), axis=-1) > 0.9)


def test_another_prevalence(two):
    rare = two.with_prevalence(0.02)
    p = rare.predict_proba(NEW)[:, 1]
    low, high = rare.predict_interval(NEW).T
    assert np.all((low <= p) & (p <= high))
    odds = 0.02 / 0.98 / (np.mean(DATA.y) / (1.0 - np.mean(DATA.y)))
    before = two.predict_interval(NEW, "row", 0.5)
    expected = odds * before / (odds * before + 1.0 - before)
    assert_allclose(rare.predict_interval(NEW, "row", 0.5), expected, rtol=1e-9)


def test_another_prevalence_of_three_classes(three):
    shares = np.array([0.6, 0.1, 0.3])
    moved, trained = three.with_prevalence(shares), np.bincount(CLASSES.y) / len(CLASSES.y)
    p = moved.predict_proba(NEW_CLASSES)
    ends = moved.predict_interval(NEW_CLASSES)
    assert np.all((ends[..., 0] <= p) & (p <= ends[..., 1]))
    # Each draw of the curve is a triple of probabilities, to which Bayes' rule applies.
    scores = NEW_CLASSES @ three.coef_.T + three.intercept_
    draws = expit(three.interval_law_.curve(scores).means)
    draws *= (shares / trained)[:, None]
    draws /= draws.sum(axis=1, keepdims=True)
    exact = np.quantile(draws, [0.25, 0.75], axis=2, method="inverted_cdf").transpose(1, 2, 0)
    found = moved.predict_interval(NEW_CLASSES, confidence=0.5)
    wide = (exact[..., 0] <= p) & (p <= exact[..., 1])
    assert wide.mean() > 0.9
    assert_allclose(found[wide], exact[wide], atol=1e-9)
    # A row's own probabilities are held as often as at the shares of training.
    fresh = CLASSES.fresh(300, random_state=2)
    own = fresh.probability * shares / trained
    own = (own / own.sum(axis=1, keepdims=True))[..., None]
    low, high = np.split(moved.predict_interval(fresh.X, "row"), 2, axis=2)
    assert np.mean((low <= own) & (own <= high)) > 0.9


@pytest.mark.parametrize("kind", ["curve", "row"])
def test_the_shares_of_training_change_nothing(kind):
    for name, clf, X in models():
        counts = np.bincount(clf.classes_.searchsorted(labels_of(name)))
        same = clf.with_prevalence(counts / counts.sum())
        expected = clf.predict_interval(X, kind)
        assert_allclose(same.predict_interval(X, kind), expected, atol=1e-9, err_msg=name)


def test_a_known_link_of_three_classes():
    link = Softmax(3, covariance=CLASSES.index_covariance)
    clf = AngularCalibratedClassifier(link=link).fit(CLASSES.X, CLASSES.y)
    p = clf.predict_proba(NEW_CLASSES)
    curve, row = (clf.predict_interval(NEW_CLASSES, kind) for kind in ("curve", "row"))
    assert np.all((curve[..., 0] <= p) & (p <= curve[..., 1]))
    assert np.ptp(curve, axis=-1).mean() < 0.5 * np.ptp(row, axis=-1).mean()


def models():
    yield "two", AngularCalibratedClassifier().fit(DATA.X, DATA.y), NEW
    averaged = AngularLogisticRegressionCV(3, average="penalties")
    yield "penalties", averaged.fit(DATA.X, DATA.y), NEW
    folds = AngularLogisticRegressionCV(3, average="folds")
    yield "folds", folds.fit(DATA.X, DATA.y), NEW
    yield "three", AngularCalibratedClassifier().fit(CLASSES.X, CLASSES.y), NEW_CLASSES
    link = Softmax(3, covariance=CLASSES.index_covariance)
    known = AngularCalibratedClassifier(link=link)
    yield "known softmax", known.fit(CLASSES.X, CLASSES.y), NEW_CLASSES
    yield "prevalence", without_signal(np.arange(60) % 3), np.zeros((3, 3))


def labels_of(name):
    """What the model of this name was fitted to."""
    given = {"two": DATA.y, "penalties": DATA.y, "folds": DATA.y, "prevalence": np.arange(60) % 3}
    return given.get(name, CLASSES.y)


def test_files_keep_the_intervals(tmp_path):
    pytest.importorskip("skops")
    from angcal.persistence import load, save

    for name, clf, X in models():
        save(clf, tmp_path / "model.skops")
        again = load(tmp_path / "model.skops")
        for kind in ("curve", "row"):
            ends = clf.predict_interval(X, kind)
            assert_array_equal(again.predict_interval(X, kind), ends, err_msg=name)


def test_what_is_kept_does_not_grow_with_the_rows():
    sizes = []
    for n in (400, 3200):
        data = simulate_multiclass(n, 20, n_indices=3, signal=3.0, random_state=0)
        two_classes = simulate(n, 20, link=LINK, random_state=0)
        for each in (data, two_classes):
            clf = AngularCalibratedClassifier().fit(each.X, each.y)
            sizes.append(len(pickle.dumps(clf.interval_law_)))
    assert max(sizes) < 8_000


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rows", None, 1])
def test_kinds_that_do_not_exist(two, kind):
    with pytest.raises(ValueError, match="must be 'curve'"):
        two.predict_interval(NEW, kind)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -0.1, np.nan, "high", None])
def test_levels_that_do_not_exist(two, confidence):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        two.predict_interval(NEW, confidence=confidence)


def test_rows_that_do_not_fit(two):
    with pytest.raises(ValueError, match="40 features"):
        two.predict_interval(NEW[:, :5])
    with pytest.raises(ValueError, match="NaN"):
        two.predict_interval(np.full((1, 40), np.nan))


# -- coverage --------------------------------------------------------------------------------


def coverage(n, d, draws, kind, **options):
    """Share of fresh rows whose truth their 80 % interval holds, draw by draw; seeds of its own."""
    found = []
    for seed in range(draws):
        data = simulate(n, d, link=LINK, random_state=900 + seed)
        base = LogisticRegression(C=2 * d / n, tol=1e-6, max_iter=1000)
        given = dict(options)
        if given.pop("sigma", False):
            given["covariance"] = data.covariance.apply(np.eye(d))
        clf = AngularCalibratedClassifier(base, **given).fit(data.X, data.y)
        X, _, _, own = data.sample(100, random_state=seed, return_truth=True)
        coef, intercept = clf.coef_[0], clf.intercept_[0]
        curve = data.calibrated_curve(X @ coef + intercept, coef, intercept)
        low, high = clf.predict_interval(X, kind, 0.8).T
        truth = curve if kind == "curve" else own
        found.append(np.mean((low <= truth) & (truth <= high)))
    return np.mean(found), np.std(found) / np.sqrt(draws)


def test_coverage_of_the_curve_at_an_unknown_link():
    """80 % within three standard errors of 0.05; over 300 draws: docs/intervals.md."""
    share, error = coverage(100, 60, 40, "curve")
    assert error < 0.06
    assert abs(share - 0.8) < 3 * error


def test_coverage_of_rows_at_a_known_link_with_a_covariance():
    """80 % within three standard errors of 0.01, and three points."""
    share, error = coverage(100, 60, 40, "row", link=LINK, sigma=True)
    assert error < 0.015
    assert abs(share - 0.8) < 3 * error + 0.03


# -- groups ----------------------------------------------------------------------------------


def of_copies(maker, K, m):
    """A fit to m copies of each row; C is of a row."""
    data = DATA if K == 2 else CLASSES
    X, y = np.repeat(data.X, m, axis=0), np.repeat(data.y, m)
    model = {
        "one": AngularCalibratedClassifier(LogisticRegression(C=1 / m, tol=1e-8, max_iter=5000)),
        "path": AngularLogisticRegressionCV(Cs=[0.3 / m, 1 / m]),
    }[maker]
    return model.fit(X, y, groups="copies" if m > 1 else None)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("maker", ["one", "path"])
def test_copies_say_no_more_than_single_rows(maker, K):
    X = NEW if K == 2 else NEW_CLASSES
    single, copied = (of_copies(maker, K, m) for m in (1, 4))
    for kind in ("curve", "row"):
        widths = [np.ptp(each.predict_interval(X, kind), axis=-1) for each in (single, copied)]
        assert_allclose(np.mean(widths[1]), np.mean(widths[0]), rtol=0.05)


@pytest.mark.parametrize("K", [2, 3])
def test_copies_say_no_more_of_the_prevalence(K):
    y = np.r_[np.ones(20), np.zeros(40)] if K == 2 else np.repeat([0, 1, 2], [30, 15, 15])
    single = without_signal(y)
    copied = without_signal(np.repeat(y, 4), groups=np.repeat(np.arange(60), 4))
    X = np.zeros((1, 3))
    assert_allclose(copied.predict_proba(X), single.predict_proba(X), rtol=1e-12)
    assert_allclose(copied.predict_interval(X), single.predict_interval(X), rtol=1e-12)
    if K == 2:
        assert_allclose(copied.loo_proba_[::4], single.loo_proba_, rtol=1e-12)


def test_a_class_in_two_groups_is_no_evidence_of_an_angle():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(60, 5)), 4, axis=0), np.repeat(np.arange(60) < 2, 4)
    with pytest.warns(AngleWarning, match="rows in 2 groups, fewer than 3"):
        AngularCalibratedClassifier().fit(X, y, groups=np.repeat(np.arange(60), 4))


def test_coverage_of_the_curve_with_repeated_measures():
    """Five rows of each patient, a random effect of sd 2: 90 % within three standard errors."""
    d, scale, effect, draws = 50, 3.0, 2.0, 60
    nodes, shares = np.polynomial.hermite_e.hermegauss(61)
    held = {"groups": [], "rows": []}
    for seed in range(draws):
        rng = np.random.default_rng([18, seed])
        w = rng.normal(size=d) / np.sqrt(d)
        w /= np.linalg.norm(w)
        names = np.repeat(np.arange(20), 5)
        X = (rng.normal(size=(20, d))[names] + rng.normal(size=(100, d))) / np.sqrt(2.0)
        index = scale * X @ w + effect * rng.normal(size=20)[names]
        y = (rng.random(100) < expit(index)).astype(int)
        new = rng.normal(size=(100, d))
        for how, share in held.items():
            clf = AngularCalibratedClassifier(LogisticRegression(C=0.1))
            clf.fit(X, y, groups=names if how == "groups" else None)
            norm = np.linalg.norm(clf.coef_)
            c = float(clf.coef_[0] @ w) / norm
            noise = np.sqrt(scale**2 * (1.0 - c**2) + effect**2)
            index = scale * c * (new @ clf.coef_[0])[:, None] / norm + noise * nodes
            truth = expit(index) @ (shares / shares.sum())
            low, high = clf.predict_interval(new).T
            share.append(np.mean((low <= truth) & (truth <= high)))
    mean, error = np.mean(held["groups"]), np.std(held["groups"]) / np.sqrt(draws)
    assert error < 0.04
    assert abs(mean - 0.9) < 3 * error
    assert np.mean(held["rows"]) < mean - 3 * error


def test_coverage_of_rows_by_labels_alone_is_at_least_nominal():
    share, _ = coverage(100, 60, 25, "row")
    assert share > 0.8


def test_the_law_is_frozen(two):
    assert isinstance(two.interval_law_, TwoClassLaw)
    with pytest.raises(AttributeError):
        two.interval_law_.row_stretch = 2.0
