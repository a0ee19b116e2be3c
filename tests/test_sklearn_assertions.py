"""What scikit-learn asserts of CalibratedClassifierCV holds here, of every calibrator.

Its file is ``sklearn/tests/test_calibration.py``; the assertions about linear models are restated.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    OptimalityWarning,
    ScoreCalibratedClassifier,
    TemperatureScaling,
)
from angcal.baselines import SEVERAL_CALIBRATORS, DirichletCalibration, SoftmaxTemperature
from angcal.displays import ReliabilityDisplay
from angcal.metrics import multiclass_brier_score, multiclass_log_loss, reliability_curve

METHODS = {name: name for name in SEVERAL_CALIBRATORS} | {
    "dirichlet": DirichletCalibration(strength=1.0)  # not searched for
}
AROUND = {name: ScoreCalibratedClassifier(method=method) for name, method in METHODS.items()} | {
    "angular": AngularCalibratedClassifier(),
    "holdout": ScoreCalibratedClassifier(scores="holdout", random_state=0),
}
"""Classifiers around a base model."""

# Inverse strengths are named: a grid that is asked for depends a little on how rows are stored.
EVERY = AROUND | {"path": AngularLogisticRegressionCV(Cs=np.logspace(-3, 1, 5))}

# Platt's targets are fitted to small samples that are separated, as scikit-learn's always are.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::angcal.PenaltyWarning"),
]
around = pytest.mark.parametrize("name", AROUND)
every = pytest.mark.parametrize("name", EVERY)


def made(name, model=None):
    """A fresh classifier around a model."""
    classifier = clone(EVERY[name])
    return classifier if model is None else classifier.set_params(estimator=model)


def tight(name):
    """A fresh classifier whose fit ends at its optimum."""
    if name == "path":
        return made(name).set_params(tol=1e-9)
    return made(name, LogisticRegression(tol=1e-10, max_iter=10_000))


def task(n_classes=3, n=160, d=20, **options):
    return make_classification(
        n_samples=n,
        n_features=d,
        n_informative=6,
        n_classes=n_classes,
        flip_y=0.1,
        **{"random_state": 42, **options},
    )


@pytest.fixture(scope="module")
def blobs():
    """Three clusters of ten are the classes, the other seven are part of the third."""
    X, y = make_blobs(n_samples=500, n_features=100, random_state=0, centers=10, cluster_std=15.0)
    y[y > 2] = 2
    return X[::2], X[1::2], y[::2], y[1::2]


# --- labels -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("n_classes", [2, 3])
def test_renamed_classes_have_the_same_probabilities(name, n_classes):
    X, y = task(n_classes)
    plain = made(name).fit(X, y).predict_proba(X)
    names = np.array(["ash", "elm", "oak"])[:n_classes]
    for labels in (y + 1, 2 * y - 1, names[y], names[y].astype(object), y.astype(float)):
        classifier = made(name).fit(X, labels)
        assert_array_equal(classifier.predict_proba(X), plain)
        assert_array_equal(classifier.classes_, np.unique(labels))
        assert set(classifier.predict(X)) <= set(labels)


@every
def test_reordered_classes_reorder_the_probabilities(name):
    if name == "holdout":
        pytest.skip("the split is drawn class by class, in their order")
    X, y = task()
    plain = tight(name).fit(X, y).predict_proba(X)
    order = np.array([2, 0, 1])
    turned = tight(name).fit(X, order[y]).predict_proba(X)
    assert_allclose(turned[:, order], plain, atol=1e-5)


@every
@pytest.mark.parametrize("n_classes", [2, 3])
def test_attributes(name, n_classes):
    X, y = task(n_classes)
    classifier = made(name).fit(X, y)
    assert_array_equal(classifier.classes_, np.arange(n_classes))
    assert classifier.n_features_in_ == 20
    p = classifier.predict_proba(X)
    assert p.shape == (len(X), n_classes)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_array_equal(classifier.predict(X), p.argmax(axis=1))


# --- quality ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::angcal.OptimalityWarning")
@around
def test_brier_score_and_accuracy_of_three_classes(name, blobs):
    X, X_new, y, y_new = blobs
    base = LinearSVC(random_state=7).fit(X, y)
    assert 0.65 < base.score(X_new, y_new) < 0.95
    classifier = made(name, LinearSVC(random_state=7)).fit(X, y)
    assert classifier.score(X_new, y_new) > 0.95 * base.score(X_new, y_new)
    naive = multiclass_brier_score(y_new, softmax(base.decision_function(X_new), axis=1))
    assert multiclass_brier_score(y_new, classifier.predict_proba(X_new)) < 1.1 * naive


def test_the_path_beats_a_softmax(blobs):
    X, X_new, y, y_new = blobs
    base = LogisticRegression(max_iter=10_000).fit(X, y)
    classifier = AngularLogisticRegressionCV().fit(X, y)
    assert classifier.score(X_new, y_new) > 0.95 * base.score(X_new, y_new)
    plain = multiclass_log_loss(y_new, base.predict_proba(X_new))
    assert multiclass_log_loss(y_new, classifier.predict_proba(X_new)) < plain


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_temperature_scaling(n_classes):
    X, y = make_classification(
        n_samples=1000,
        n_features=10,
        n_informative=10,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=42,
    )
    X, X_held, y, y_held = train_test_split(X, y, random_state=42)
    base = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000).fit(X, y)
    classifier = ScoreCalibratedClassifier(
        FrozenEstimator(base), method="temperature", scores="holdout"
    ).fit(X_held, y_held)
    assert classifier.curve_.temperature_ > 0
    before, after = base.predict_proba(X_held), classifier.predict_proba(X_held)
    assert_array_equal(classifier.predict(X_held), base.predict(X_held))
    assert log_loss(y_held, after) <= log_loss(y_held, before)
    if n_classes == 2:
        before, after = before[:, 1], after[:, 1]
    assert_allclose(
        roc_auc_score(y_held, before, multi_class="ovr"),
        roc_auc_score(y_held, after, multi_class="ovr"),
    )
    # On its own training rows a likelihood that is at its maximum needs no temperature.
    kind = TemperatureScaling if n_classes == 2 else SoftmaxTemperature
    own = kind().fit(base.decision_function(X), y)
    assert own.temperature_ == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("method", ["isotonic", "temperature"])
def test_heads_on_a_holdout_are_scikit_learns(method):
    X, y = task(n=300)
    base = RidgeClassifier().fit(X[:150], y[:150])
    theirs = CalibratedClassifierCV(FrozenEstimator(base), method=method, ensemble=False)
    ours = ScoreCalibratedClassifier(FrozenEstimator(base), method=method, scores="holdout")
    expected = theirs.fit(X[150:], y[150:]).predict_proba(X)
    found = ours.fit(X[150:], y[150:]).predict_proba(X)
    assert_allclose(found, expected, atol=1e-12 if method == "isotonic" else 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_map_is_fitted_on_left_out_scores_and_used_on_fitted_ones(method):
    X, y = task()
    classifier = made(method).fit(X, y)
    scores = X @ classifier.coef_.T + classifier.intercept_
    assert_array_equal(classifier.curve_.predict(scores), classifier.predict_proba(X))
    assert_allclose(classifier.coef_, LogisticRegression().fit(X, y).coef_)
    on_fitted = clone(classifier.curve_).fit(scores, y)
    assert np.abs(on_fitted.predict(scores) - classifier.predict_proba(X)).max() > 1e-3


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")  # its rows hold little
@every
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows_are_dense_rows(name, n_classes, container):
    X, y = task(n_classes)
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    classifier = tight(name)
    dense = classifier.fit(X, y, sample_weight=weights).predict_proba(X)
    of_sparse = classifier.fit(container(X), y, sample_weight=weights).predict_proba(container(X))
    assert_allclose(of_sparse, dense, atol=1e-5)


@every
@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision(name, n_classes):
    X, y = task(n_classes)
    single = X.astype(np.float32)
    p = made(name).fit(single, y, sample_weight=np.ones(len(y))).predict_proba(single)
    expected = made(name).fit(X, y).predict_proba(X)
    assert np.all(np.isfinite(p))
    assert np.median(np.abs(p - expected)) < 1e-3


@around
@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_imputer_in_front(name, n_classes):
    X, y = task(n_classes)
    X[::7, 0] = np.nan
    inside = made(name, make_pipeline(SimpleImputer(), LogisticRegression())).fit(X, y)
    outside = make_pipeline(SimpleImputer(), made(name)).fit(X, y)
    if name == "holdout":  # inside, the imputer has not seen the rows that are held out
        assert np.all(np.isfinite(inside.predict_proba(X)))
        return
    assert_array_equal(inside.predict_proba(X), outside.predict_proba(X))
    assert_array_equal(inside.predict(X), outside.predict(X))


def dictionaries(n_classes, n=90):
    rng = np.random.default_rng(0)
    states, ages = rng.choice(["NY", "TX", "VT", "CT", "BR"], n), rng.choice(["adult", "child"], n)
    X = [
        {"state": str(state), "age": str(age), "weight": float(w)}
        for state, age, w in zip(states, ages, rng.normal(size=n), strict=True)
    ]
    y = (np.arange(n) + (states == "TX") + (rng.random(n) < 0.3)) % n_classes
    return X, y


@around
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_dictionaries_as_rows(name, frozen, n_classes):
    X, y = dictionaries(n_classes)
    pipeline = make_pipeline(DictVectorizer(), LogisticRegression())
    model = FrozenEstimator(pipeline.fit(X, y)) if frozen else pipeline
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is little to learn, and rows are alike
        classifier = made(name, model).fit(X, y)
    assert not hasattr(classifier, "n_features_in_")
    assert_array_equal(classifier.classes_, pipeline.fit(X, y).classes_)
    p = classifier.predict_proba(X[:7])
    assert p.shape == (7, n_classes)
    assert_array_equal(classifier.predict(X[:7]), p.argmax(axis=1))


# --- models that are fitted already -----------------------------------------------------------


@around
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_frozen_pipeline_with_fewer_columns_inside(name, n_classes):
    X, y = task(n_classes)
    pipeline = make_pipeline(StandardScaler(), PCA(5), LogisticRegression()).fit(X, y)
    classifier = made(name, FrozenEstimator(pipeline)).fit(X, y)
    assert classifier.n_features_in_ == 20
    assert classifier.coef_.shape == (1 if n_classes == 2 else 3, 5)
    assert_array_equal(classifier.coef_, pipeline[-1].coef_)
    again = made(name, pipeline).fit(X, y)
    if name != "holdout":
        assert_allclose(classifier.predict_proba(X), again.predict_proba(X))
    with pytest.raises(ValueError, match="X has 3 features"):
        classifier.predict_proba(X[:, :3])


@around
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_frozen_model_of_other_columns_is_refused(name, n_classes):
    X, y = task(n_classes)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:, :5], y))
    with pytest.raises(ValueError, match="5 coefficients but X has 20 columns"):
        made(name, frozen).fit(X, y)


@around
def test_a_frozen_model_of_other_classes_is_refused(name):
    X, y = task()
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match=r"y holds the classes \[0, 2\].*knows \[0, 1, 2\]"):
        made(name, frozen).fit(X[y != 1], y[y != 1])


# --- scores of many thousands -----------------------------------------------------------------


def far_apart(seed, n_classes=2, n=200):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, n_classes, n))
    X = 1e5 * np.eye(n_classes)[y][:, 1:] + rng.normal(size=(n, 1))
    return X, y


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("name", ["angular", "platt", "isotonic", "temperature", "structured"])
def test_large_scores_give_probabilities_and_a_warning(name, loss, seed, polish):
    X, y = far_apart(seed)
    model = SGDClassifier(loss=loss, tol=1e-2, random_state=seed)
    assert np.abs(clone(model).fit(X, y).decision_function(X)).max() > 1e4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OptimalityWarning)
        classifier = made(name, model).set_params(polish=polish).fit(X, y)
    p = classifier.predict_proba(X)
    assert np.all(np.isfinite(p))
    assert roc_auc_score(y, p[:, 1]) == 1.0
    told = [str(each.message) for each in caught if each.category is OptimalityWarning]
    assert told or polish
    assert all("StandardScaler" in each or "not at the optimum" in each for each in told)


@pytest.mark.filterwarnings("ignore::angcal.OptimalityWarning", "ignore::angcal.AngleWarning")
@pytest.mark.parametrize("model", [SGDClassifier(random_state=0), LogisticRegression()])
@pytest.mark.parametrize("name", ["angular", "platt", "isotonic", "dirichlet", "holdout"])
def test_large_scores_of_three_classes(name, model):
    if isinstance(model, SGDClassifier):
        model = clone(model).set_params(loss="squared_hinge", tol=1e-2)
    X, y = far_apart(0, n_classes=3)
    classifier = made(name, model).fit(X, y)
    assert np.all(np.isfinite(classifier.predict_proba(X)))
    assert classifier.score(X, y) > 0.95


@pytest.mark.filterwarnings("ignore::angcal.OptimalityWarning")
def test_large_scores_rank_alike_under_every_map():
    X, y = far_apart(0)
    model = SGDClassifier(loss="squared_hinge", tol=1e-2, random_state=0)
    found = [
        cross_val_score(made(name, model), X, y, scoring="roc_auc")
        for name in ("platt", "isotonic", "angular")
    ]
    assert_allclose(found[0], found[1])
    assert_allclose(found[0], found[2])


@pytest.mark.filterwarnings("ignore:The base model is not at the optimum")
def test_a_flat_loss_says_what_to_do():
    X, y = far_apart(0)
    steep = LogisticRegression().fit(X, y)
    steep.coef_, steep.intercept_ = np.array([[1e3]]), np.array([-1e7])
    with pytest.warns(OptimalityWarning, match=r"loss is flat at the scores.*9e\+07.*StandardScal"):
        AngularCalibratedClassifier(FrozenEstimator(steep)).fit(X, y)


# --- weights and other arguments of fit -------------------------------------------------------


@every
@pytest.mark.filterwarnings("ignore:Hardly any signal")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_used_and_may_be_lists(name, n_classes):
    X, y = task(n_classes)
    weights = np.random.default_rng(0).uniform(0.05, 3.0, len(y))
    weighted = made(name).fit(X, y, sample_weight=weights).predict_proba(X)
    listed = made(name).fit(X, y, sample_weight=weights.tolist()).predict_proba(X)
    assert_array_equal(weighted, listed)
    plain = made(name).fit(X, y).predict_proba(X)
    assert np.linalg.norm(weighted - plain) > 0.1


class Recorder(LogisticRegression):
    """Wants an argument of fit, and keeps it."""

    def fit(self, X, y, sample_weight=None, note=None):
        assert note is not None
        self.note_ = note
        return super().fit(X, y, sample_weight=sample_weight)


@around
@pytest.mark.filterwarnings("ignore:Hardly any signal")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_fit_parameters_reach_the_base_model(name, n_classes):
    X, y = task(n_classes)
    note = np.ones(len(y) + 1)  # not one for each row: handed on as it is
    classifier = made(name, Recorder()).fit(X, y, note=note)
    assert_array_equal(classifier.estimator_.note_, note)
    if name == "holdout":
        return
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    classifier = made(name, Recorder()).fit(X, y, sample_weight=weights, note=y)
    assert_array_equal(classifier.estimator_.note_, y[weights > 0])
    plain = made(name).fit(X, y, sample_weight=weights)
    assert_array_equal(classifier.predict_proba(X), plain.predict_proba(X))


def test_a_holdout_splits_parameters_of_the_rows():
    X, y = task()
    classifier = made("holdout", Recorder()).fit(X, y, note=np.arange(len(y)))
    note = classifier.estimator_.note_
    assert len(note) == round(0.7 * len(y))
    again = LogisticRegression().fit(X[note], y[note])
    assert_array_equal(classifier.coef_, again.coef_)


@around
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_parameters_of_a_step(name, weighted):
    X, y = task()
    weights = np.linspace(0.5, 2.0, len(y)) if weighted else None
    model = Pipeline([("scale", StandardScaler()), ("last", Recorder())])
    classifier = made(name, model).fit(X, y, sample_weight=weights, last__note="seen")
    assert classifier.estimator_[-1].note_ == "seen"
    plain = made(name, make_pipeline(StandardScaler(), LogisticRegression()))
    expected = plain.fit(X, y, sample_weight=weights).predict_proba(X)
    assert_array_equal(classifier.predict_proba(X), expected)


@pytest.mark.parametrize("name", ["angular", "platt"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_parameters_are_routed(name, weighted):
    X, y = task()
    weights = np.linspace(0.5, 2.0, len(y)) if weighted else None
    given = {"sample_weight": weights} if weighted else {}
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="note"):
            made(name, Recorder()).fit(X, y, note="seen", **given)
        asking = Recorder().set_fit_request(note=True)
        direct = made(name, asking).fit(X, y, note="seen", **given)
        inner = made(name, make_pipeline(StandardScaler(), asking)).fit(X, y, note="seen", **given)
        last = made(name, asking)
        last = last.set_fit_request(sample_weight=True) if weighted else last
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        outer = make_pipeline(scaler, last).fit(X, y, note="seen", **given)
    assert direct.estimator_.note_ == "seen"
    assert inner.estimator_[-1].note_ == "seen"
    assert outer[-1].estimator_.note_ == "seen"
    assert_allclose(inner.predict_proba(X), outer.predict_proba(X))
    plain = made(name).fit(X, y, sample_weight=weights)
    assert_array_equal(direct.predict_proba(X), plain.predict_proba(X))


@around
def test_fit_parameters_without_a_fit_are_refused(name):
    X, y = task()
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(TypeError, match="fit was given note, but the model was trained elsewhere"):
        made(name, frozen).fit(X, y, note=1)
    with pytest.raises(TypeError, match="note"):
        made(name).fit(X, y, note=1)  # scikit-learn's own words


@around
def test_iris_is_calibrated(name):
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two rows are copies
        classifier = made(name, make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
    assert classifier.score(X, y) > 0.93


# --- bins -------------------------------------------------------------------------------------


def test_the_example_of_quantile_bins():
    y, p = [0, 0, 0, 0, 1, 1], [0.0, 0.1, 0.2, 0.5, 0.9, 1.0]
    curve = reliability_curve(y, p, n_bins=2, strategy="quantile")
    assert_allclose(curve.observed, [0, 2 / 3])
    assert_allclose(curve.mean_predicted, [0.1, 0.8])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 5, 8, 10])
def test_bins_are_those_of_a_calibration_curve(strategy, n_bins):
    rng = np.random.default_rng(n_bins)
    p = rng.random(40 * n_bins)
    y = rng.random(p.size) < p
    observed, predicted = calibration_curve(y, p, n_bins=n_bins, strategy=strategy)
    curve = reliability_curve(y, p, n_bins=n_bins, strategy=strategy)
    assert_allclose(curve.observed, observed)
    assert_allclose(curve.mean_predicted, predicted)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    display = ReliabilityDisplay.from_predictions(
        y, p, n_bins=n_bins, strategy=strategy, ax=figure.subplots()
    )
    assert_allclose(display.curve.observed, observed)
    assert_allclose(display.curve.mean_predicted, predicted)


@pytest.mark.parametrize("n", [101, 137, 199])
def test_quantile_bins_of_any_number_of_rows_differ_by_a_row_at_most(n):
    """Edges are weighted quantiles here and interpolated ones there."""
    p = np.random.default_rng(n).random(n)
    theirs = np.searchsorted(np.percentile(p, np.arange(10, 100, 10)), p)
    ours = reliability_curve(p > 0.5, p, n_bins=10, strategy="quantile")
    assert np.abs(ours.count - np.bincount(theirs)).max() <= 1
