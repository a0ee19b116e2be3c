"""AngularLogisticRegressionCV on three and more classes: path, choice, averages, weights."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.utils.class_weight import compute_sample_weight

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit
from angcal.links.multiclass import Softmax
from angcal.multiclass import ClassMap, MulticlassPredictor
from angcal.observables import observe
from angcal.penalty_path import make_design, observe_path
from angcal.penalty_path.choice import penalty_shares
from angcal.simulation import AutoregressiveCovariance, simulate_multiclass
from angcal.sklearn_problems import read_fitted

CS = np.geomspace(1e-4, 100.0, 7)

# That the best penalty is the last, or that calibration does not pay, is no failure here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::angcal.PenaltyWarning"),
    pytest.mark.filterwarnings("ignore:Calibration does not pay:angcal.AngleWarning"),
]
SHAPES = {3: (150, 40), 10: (250, 30)}


def _draw(K, n=None, d=None, seed=0):
    n, d = (SHAPES[K][0] if n is None else n), (SHAPES[K][1] if d is None else d)
    covariance = AutoregressiveCovariance(d, 0.5, variance=1.0)
    return simulate_multiclass(n, n_indices=K, signal=3.0, covariance=covariance, random_state=seed)


@pytest.fixture(scope="module", params=SHAPES, ids="K={}".format)
def fitted(request):
    data = _draw(request.param)
    return data, AngularLogisticRegressionCV(CS, tol=1e-6).fit(data.X, data.y)


def _tight(C, **options):
    return LogisticRegression(C=C, tol=1e-10, max_iter=20_000, **options)


# -- the path ----------------------------------------------------------------------------------


def test_attributes_of_the_path(fitted):
    data, clf = fitted
    (n, d), K, m = data.X.shape, data.y.max() + 1, len(CS)
    np.testing.assert_allclose(clf.Cs_, CS)
    assert clf.coefs_paths_.shape == (m, K, d)
    assert clf.coef_.shape == (K, d)
    assert clf.intercept_.shape == (K,)
    path = clf.path_
    for name in ("log_loss", "log_loss_se", "brier_score", "ece", "uncalibrated_log_loss"):
        values = getattr(path, name)
        assert values.shape == (m,)
        assert np.all(np.isfinite(values) & (values >= 0))
    assert path.C[path.index] == clf.C_
    assert path.index == np.argmin(path.log_loss)
    np.testing.assert_array_equal(clf.shares_, np.arange(m) == path.index)
    assert np.all(np.diff(path.degrees_of_freedom) > 0)
    assert path.degrees_of_freedom[-1] < (K - 1) * (d + 1)
    assert isinstance(clf.curve_, ClassMap)
    assert clf.angle_.cosine.shape == (K, K)
    assert clf.loo_proba_.shape == clf.plain_loo_proba_.shape == (n, K)
    assert clf.average_ is None
    assert clf.distance_to_optimum_ < 0.01


def test_every_penalty_has_its_optimum(fitted):
    data, clf = fitted
    for C, coef in zip(CS, clf.coefs_paths_, strict=True):
        exact = _tight(C).fit(data.X, data.y).coef_
        np.testing.assert_allclose(coef, exact, atol=1e-4 * np.abs(exact).max())


def test_losses_of_the_path_are_those_of_rows_left_out(fitted):
    data, clf = fitted
    index, rows = clf.path_.index, np.arange(len(data.y))
    own = -np.log(clf.loo_proba_[rows, data.y])
    assert clf.path_.log_loss[index] == pytest.approx(own.mean(), rel=1e-3)
    error = own.std() / np.sqrt(len(own))
    assert clf.path_.log_loss_se[index] == pytest.approx(error, rel=1e-2)
    plain = log_loss(data.y, clf.plain_loo_proba_)
    assert clf.path_.uncalibrated_log_loss[index] == pytest.approx(plain, rel=1e-3)
    off = clf.loo_proba_ - np.eye(clf.loo_proba_.shape[1])[data.y]
    assert clf.path_.brier_score[index] == pytest.approx(np.mean(np.sum(off**2, axis=1)), rel=1e-3)


def test_the_chosen_fit_is_calibrated_as_any_other(fitted):
    data, clf = fitted
    test = data.fresh(500, random_state=1)
    one = AngularCalibratedClassifier(_tight(clf.C_)).fit(data.X, data.y)
    np.testing.assert_allclose(clf.predict_proba(test.X), one.predict_proba(test.X), atol=2e-3)
    np.testing.assert_allclose(clf.loo_proba_, one.loo_proba_, atol=5e-3)
    assert clf.calibration_.method == one.calibration_.method


@pytest.mark.parametrize("intercept", [True, False])
def test_observables_of_a_path_are_those_of_single_fits(intercept):
    data = _draw(3)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(data.y))
    design = make_design(data.X, data.y.astype(float), weights, intercept, 3)
    solution = design.solver(1.0 / CS).solve(1e-8)
    found = observe_path(design, 1.0 / CS, solution, "exact")
    for each, C in zip(found, CS, strict=True):
        model = _tight(C, fit_intercept=intercept).fit(data.X, data.y, weights)
        exact = observe(read_fitted(model, data.X, data.y, weights))
        gap = each.loo_scores - exact.loo_scores
        np.testing.assert_allclose(gap - gap.mean(axis=1, keepdims=True), 0.0, atol=1e-4)
        assert each.degrees_of_freedom == pytest.approx(exact.degrees_of_freedom, rel=1e-4)


@pytest.mark.parametrize(("K", "n", "d"), [(3, 400, 40), (10, 250, 30)])
def test_the_choice_is_about_the_best_on_fresh_rows(K, n, d):
    """Of penalties that reach far beyond those that are any good."""
    chosen = best = 0.0
    for seed in range(4):
        data = _draw(K, n, d, seed=seed)
        test = data.fresh(4000, random_state=seed + 50)
        clf = AngularLogisticRegressionCV(CS).fit(data.X, data.y)
        losses = []
        for C in CS:
            one = AngularLogisticRegressionCV([C]).fit(data.X, data.y)
            losses.append(log_loss(test.y, one.predict_proba(test.X)))
        chosen += losses[clf.path_.index]
        best += min(losses)
    assert chosen < 1.03 * best


@pytest.mark.parametrize("scoring", ["log_loss", "brier_score"])
def test_scoring_chooses(scoring):
    data = _draw(3)
    clf = AngularLogisticRegressionCV(CS, scoring=scoring).fit(data.X, data.y)
    assert clf.path_.index == np.argmin(getattr(clf.path_, scoring))


def test_digits_are_as_good_as_by_cross_validation():
    X, y = load_digits(return_X_y=True)
    ours = theirs = left_out = 0.0
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(
            X / 16.0, y, train_size=300, stratify=y, random_state=seed
        )
        clf = AngularLogisticRegressionCV(10).fit(X_train, y_train)
        ours += log_loss(y_test, clf.predict_proba(X_test)) / 3
        left_out += log_loss(y_train, clf.loo_proba_) / 3
        search = GridSearchCV(
            LogisticRegression(max_iter=2000), {"C": clf.Cs_}, scoring="neg_log_loss", cv=5
        ).fit(X_train, y_train)
        theirs += log_loss(y_test, search.predict_proba(X_test)) / 3
    assert ours < 1.02 * theirs
    # Labels are 300 by three: a standard error of 8 %.
    assert abs(left_out - ours) < 0.16 * ours


def test_the_order_of_the_classes_does_not_matter(fitted):
    data, clf = fitted
    order = np.random.default_rng(1).permutation(data.y.max() + 1)
    other = clone(clf).fit(data.X, order[data.y])
    assert other.C_ == clf.C_
    np.testing.assert_allclose(
        other.predict_proba(data.X)[:, order], clf.predict_proba(data.X), atol=1e-4
    )


# -- averages ----------------------------------------------------------------------------------


def test_averages_over_penalties(fitted):
    data, _ = fitted
    CS = np.geomspace(1e-4, 100.0, 5)  # no closer than what is averaged
    single = AngularLogisticRegressionCV(CS, tol=1e-6).fit(data.X, data.y)
    clf = AngularLogisticRegressionCV(CS, tol=1e-6, average="penalties").fit(data.X, data.y)
    np.testing.assert_allclose(clf.shares_, penalty_shares(clf.path_.log_loss, len(data.y)))
    np.testing.assert_allclose(clf.coef_, single.coef_)
    expected = sum(
        share * AngularLogisticRegressionCV([C], tol=1e-6).fit(data.X, data.y).predict_proba(data.X)
        for share, C in zip(clf.shares_, CS, strict=True)
        if share > 0
    )
    P = clf.predict_proba(data.X)
    np.testing.assert_allclose(P, expected, atol=1e-4)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)


def test_averages_over_folds(fitted):
    data, single = fitted
    clf = AngularLogisticRegressionCV(CS, tol=1e-6, average="folds").fit(data.X, data.y)
    np.testing.assert_allclose(clf.coef_, single.coef_)
    parts = [
        AngularLogisticRegressionCV(CS, tol=1e-6)
        .fit(data.X[kept], data.y[kept])
        .predict_proba(data.X)
        for kept, _ in StratifiedKFold(5).split(data.X, data.y)
    ]
    expected = 0.5 * np.mean(parts, axis=0) + 0.5 * single.predict_proba(data.X)
    np.testing.assert_allclose(clf.predict_proba(data.X), expected, atol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:An average over folds does not pay"
)  # on some draws; in sum it does
@pytest.mark.parametrize("average", ["penalties", "folds"])
def test_averages_are_no_worse_on_fresh_rows(average):
    ours = single = 0.0
    for seed in range(6):
        data = _draw(3, n=90, d=120, seed=seed)
        test = data.fresh(3000, random_state=seed + 50)
        for name in (None, average):
            clf = AngularLogisticRegressionCV(8, average=name).fit(data.X, data.y)
            loss = log_loss(test.y, clf.predict_proba(test.X))
            ours, single = ours + loss * (name is not None), single + loss * (name is None)
    assert ours < 1.005 * single


def test_folds_need_two_rows_of_each_class():
    data = _draw(3)
    y = np.where(np.arange(150) == 0, 3, data.y)
    with pytest.raises(ValueError, match="average='folds' needs two rows of each class"):
        AngularLogisticRegressionCV(CS, average="folds").fit(data.X, y)


# -- weights -----------------------------------------------------------------------------------


def _unequal(seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 20))
    logits = X @ rng.normal(size=(20, 3)) * 0.4 + [2.0, 0.0, -0.5]
    return X, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


@pytest.mark.parametrize("average", [None, "penalties"])
def test_class_weights_shape_the_fits_and_not_the_frequencies(average):
    X, y = _unequal()
    weights = compute_sample_weight("balanced", y)
    options = {"Cs": [1e-3, 1e-2, 1e-1], "tol": 1e-6, "average": average}
    clf = AngularLogisticRegressionCV(**options, class_weight="balanced").fit(X, y)
    for C, coef in zip(clf.Cs_, clf.coefs_paths_, strict=True):
        exact = _tight(C, class_weight="balanced").fit(X, y).coef_
        np.testing.assert_allclose(coef, exact, atol=1e-4 * np.abs(exact).max())
    P, frequency = clf.predict_proba(X), np.bincount(y) / 600
    np.testing.assert_allclose(P.mean(axis=0), frequency, atol=0.02)
    np.testing.assert_allclose(clf.loo_proba_.mean(axis=0), frequency, atol=0.02)
    # Weights that the rows themselves have are another matter: frequencies follow them.
    weighed = AngularLogisticRegressionCV(**options).fit(X, y, weights).predict_proba(X)
    np.testing.assert_allclose(weights @ weighed / weights.sum(), 1.0 / 3.0, atol=0.03)
    # The price of the weights in log-loss is small.
    plain = AngularLogisticRegressionCV(**options).fit(X, y)
    assert log_loss(y, clf.loo_proba_) < 1.03 * log_loss(y, plain.loo_proba_)


@pytest.mark.parametrize("K", [2, 3])
def test_balanced_classes_count_weighted_rows_as_scikit_learn_does(K):
    r = np.random.default_rng(0)
    X, weights = r.normal(size=(200, 20)), r.uniform(0.2, 3.0, 200)
    codes = np.digitize(X[:, 0] + r.normal(size=200), [0.8, 1.5][: K - 1])
    path = AngularLogisticRegressionCV(Cs=[0.1], class_weight="balanced", rarity=0, tol=1e-6)
    plain = LogisticRegression(C=0.1, class_weight="balanced", tol=1e-10, max_iter=10_000)
    coef = path.fit(X, codes, sample_weight=weights).coef_
    expected = plain.fit(X, codes, sample_weight=weights).coef_
    np.testing.assert_allclose(coef, expected, atol=1e-5)


def test_class_weights_by_name():
    X, y = _unequal()
    names = np.array(["ash", "bee", "cod"])
    given = dict(zip(names, [1.0, 3.0, 5.0], strict=True))
    by_name = AngularLogisticRegressionCV(CS, class_weight=given).fit(X, names[y])
    codes = AngularLogisticRegressionCV(CS, class_weight={0: 1.0, 1: 3.0, 2: 5.0}).fit(X, y)
    assert by_name.classes_.tolist() == ["ash", "bee", "cod"]
    np.testing.assert_allclose(by_name.predict_proba(X), codes.predict_proba(X), atol=1e-12)


def test_zero_weight_is_a_removed_row():
    data = _draw(3)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 150)
    weights[::7] = 0.0
    kept = weights > 0
    a = AngularLogisticRegressionCV(CS).fit(data.X, data.y, weights)
    b = AngularLogisticRegressionCV(CS).fit(data.X[kept], data.y[kept], weights[kept])
    np.testing.assert_allclose(a.predict_proba(data.X), b.predict_proba(data.X), atol=1e-12)


# -- rows of any kind --------------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, "penalties", "folds"])
@pytest.mark.parametrize("K", SHAPES)
def test_sparse_rows(K, average):
    rng = np.random.default_rng(4)
    n, d = 200, 60
    X = sparse.csr_matrix(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2))
    logits = 2.0 * X @ rng.normal(size=(d, K))
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    model = AngularLogisticRegressionCV([0.01, 0.1, 1.0, 10.0], tol=1e-6, average=average)
    thin, dense = clone(model).fit(X, y), clone(model).fit(X.toarray(), y)
    np.testing.assert_allclose(thin.path_.log_loss, dense.path_.log_loss, rtol=1e-4)
    np.testing.assert_allclose(thin.predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-3)
    np.testing.assert_allclose(dense.predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-12)


def test_sampled_leverages_are_about_the_exact_ones():
    data = _draw(3, n=400, d=300)
    exact, sampled = (
        AngularLogisticRegressionCV(CS, observables=method).fit(data.X, data.y)
        for method in ("exact", "randomised")
    )
    assert sampled.observables_.side == "randomised"
    assert np.all(sampled.path_.sampling_error >= 0)
    assert np.all(exact.path_.sampling_error == 0)
    np.testing.assert_allclose(sampled.path_.log_loss, exact.path_.log_loss, rtol=0.03)


def test_a_fitted_path_survives_pickling_and_another_number_of_classes(fitted):
    data, clf = fitted
    kept = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(kept.predict_proba(data.X), clf.predict_proba(data.X))
    assert hasattr(kept, "calibration_")
    kept.fit(data.X, data.y > 0)
    assert not hasattr(kept, "calibration_")
    assert kept.predict_proba(data.X).shape == (len(data.y), 2)
    assert kept.coefs_paths_.shape == (len(CS), data.X.shape[1])


# -- links -------------------------------------------------------------------------------------


def test_a_known_softmax_is_used():
    data = _draw(3)
    link = Softmax(3, covariance=data.index_covariance)
    clf = AngularLogisticRegressionCV(CS, link=link).fit(data.X, data.y)
    assert isinstance(clf.curve_, MulticlassPredictor)
    assert "Cov(G) known" in clf.angle_.reason
    one = AngularCalibratedClassifier(_tight(clf.C_), link=link).fit(data.X, data.y)
    np.testing.assert_allclose(clf.predict_proba(data.X), one.predict_proba(data.X), atol=5e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": Logit(3.0)}, "Only binary classification"),
        ({"link": "probit"}, "Only binary classification"),
        ({"link": Softmax(4)}, "softmax of 4 classes; y has 3"),
        ({"angle": 0.5}, "angle=0.5 is for two classes"),
    ],
)
def test_options_for_two_classes_are_refused(options, message):
    data = _draw(3)
    with pytest.raises(ValueError, match=message):
        AngularLogisticRegressionCV(CS, **options).fit(data.X, data.y)
