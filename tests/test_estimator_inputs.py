"""Whatever scikit-learn users hand over: frames, sparse rows, pipelines, pools, other models."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    LinearHead,
    Logit,
    MEstimator,
    OptimalityWarning,
    PoolWarning,
    Ridge,
    ScoreCalibratedClassifier,
)
from angcal.simulation import simulate

# Not part of the core; without them there is nothing to compare with here.
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

LINK = Logit(3.0, 1.0)
SIM = simulate(120, 12, link=LINK, random_state=0)
X, Y = SIM.X, SIM.y
NEW = SIM.sample(60, random_state=1)[0]
POOL = SIM.pool(80, random_state=2)
COLUMNS = [f"x{j}" for j in range(12)]


def positive(classifier, rows):
    return classifier.predict_proba(rows)[:, 1]


def tight_logistic(**options):
    return LogisticRegression(**{"tol": 1e-10, "max_iter": 10_000, **options})


# --- containers of rows -----------------------------------------------------------------------

FRAMES = {
    "pandas": lambda rows, columns=COLUMNS: pd.DataFrame(rows, columns=columns),
    "polars": lambda rows, columns=COLUMNS: pl.DataFrame(rows, schema=columns),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


# Older scikit-learn reads the columns in a way that polars 1.40 says it will end.
@pytest.mark.filterwarnings("ignore:.*dataframe interchange protocol:DeprecationWarning")
@pytest.mark.parametrize("inside", ["model", "pipeline"])
class TestFrames:
    def classifier(self, inside, **options):
        model = LogisticRegression()
        model = make_pipeline(StandardScaler(), model) if inside == "pipeline" else model
        return AngularCalibratedClassifier(model, **options)

    def test_same_as_arrays(self, frame, inside):
        from_arrays = self.classifier(inside, pool=POOL).fit(X, Y)
        from_frames = self.classifier(inside, pool=frame(POOL)).fit(frame(X), Y)
        assert from_frames.feature_names_in_.tolist() == COLUMNS
        assert from_frames.n_features_in_ == 12
        assert_allclose(positive(from_frames, frame(NEW)), positive(from_arrays, NEW), atol=1e-12)

    @pytest.mark.parametrize(
        "columns", [COLUMNS[::-1], ["other", *COLUMNS[1:]]], ids=["order", "names"]
    )
    def test_other_columns_are_refused(self, frame, inside, columns):
        classifier = self.classifier(inside).fit(frame(X), Y)
        with pytest.raises(ValueError, match="feature names should match"):
            classifier.predict_proba(frame(NEW, columns))
        with pytest.raises(ValueError, match="pool does not fit X: The feature names should"):
            self.classifier(inside, pool=frame(POOL, columns)).fit(frame(X), Y)
        holdout = (frame(NEW, columns), np.ones(60, dtype=int))
        with pytest.raises(ValueError, match="sign_holdout does not fit X: The feature names"):
            self.classifier(inside, sign_holdout=holdout).fit(frame(X), Y)

    def test_zero_weights_drop_rows(self, frame, inside):
        weights = np.where(np.arange(120) % 3 == 0, 0.0, 1.0)
        kept = weights > 0
        some = self.classifier(inside).fit(frame(X), Y, sample_weight=weights)
        less = self.classifier(inside).fit(frame(X[kept]), Y[kept], sample_weight=weights[kept])
        # Up to rounding: frames of different sizes may lie differently in memory.
        assert_allclose(positive(some, frame(NEW)), positive(less, frame(NEW)), atol=1e-12)

    def test_holdout(self, frame, inside):
        model = self.classifier(inside).estimator
        options = {"scores": "holdout", "random_state": 0}
        from_arrays = ScoreCalibratedClassifier(model, **options).fit(X, Y)
        from_frames = ScoreCalibratedClassifier(model, **options).fit(frame(X), Y)
        assert_allclose(positive(from_frames, frame(NEW)), positive(from_arrays, NEW), atol=1e-12)


def test_labels_may_come_in_a_series():
    expected = positive(AngularCalibratedClassifier().fit(X, Y), NEW)
    for series in (pd.Series(Y), pl.Series(Y), Y.tolist()):
        assert_array_equal(positive(AngularCalibratedClassifier().fit(X, series), NEW), expected)


SPARSE = [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array]


@pytest.mark.parametrize("container", SPARSE)
@pytest.mark.parametrize("model", [tight_logistic(), MEstimator("squared_hinge")], ids=repr)
def test_sparse_rows_are_dense_rows(container, model):
    rng = np.random.default_rng(0)
    rows, pool = X * (rng.random(X.shape) < 0.4), POOL * (rng.random(POOL.shape) < 0.4)
    holdout = (rows[:30], Y[:30])
    dense = AngularCalibratedClassifier(model, link=LINK, pool=pool, sign_holdout=holdout)
    thin = AngularCalibratedClassifier(
        model, link=LINK, pool=container(pool), sign_holdout=(container(rows[:30]), Y[:30])
    )
    dense.fit(rows, Y)
    thin.fit(container(rows), Y)
    assert_allclose(positive(thin, container(NEW)), positive(dense, NEW), atol=1e-6)
    assert_allclose(thin.angle_.cosine, dense.angle_.cosine, atol=1e-6)
    weights = rng.integers(0, 3, 120).astype(float)
    a = ScoreCalibratedClassifier(model).fit(rows, Y, sample_weight=weights)
    b = ScoreCalibratedClassifier(model).fit(container(rows), Y, sample_weight=weights)
    assert_allclose(positive(b, container(NEW)), positive(a, NEW), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"link": LINK}, {"pool": POOL.astype(np.float32)}])
def test_single_precision_rows(options):
    double = AngularCalibratedClassifier(**options, polish=True).fit(X, Y)
    single = AngularCalibratedClassifier(**options, polish=True).fit(X.astype(np.float32), Y)
    p = positive(single, NEW.astype(np.float32))
    assert p.dtype == np.float64
    assert_allclose(p, positive(double, NEW), atol=1e-4)
    # Without polishing, a single-precision solver is near enough to its optimum.
    AngularCalibratedClassifier(**options).fit(X.astype(np.float32), Y)


def test_whole_numbers():
    counts = np.round(10 * X).astype(np.int64)
    as_floats = AngularCalibratedClassifier().fit(counts.astype(float), Y)
    assert_array_equal(
        positive(AngularCalibratedClassifier().fit(counts, Y), counts),
        positive(as_floats, counts.astype(float)),
    )


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [["ham", "spam"], [-1, 1], [False, True], [2.0, 7.0], ["0", "1"]],
    ids=str,
)
@pytest.mark.parametrize(
    "classifier",
    [AngularCalibratedClassifier(), ScoreCalibratedClassifier(), MEstimator()],
    ids=repr,
)
def test_labels_of_any_kind(names, classifier):
    names = np.array(names)
    by_number = clone(classifier).fit(X, Y)
    by_name = clone(classifier).fit(X, names[Y])
    assert_array_equal(by_name.classes_, names)
    assert_array_equal(by_name.predict(NEW), names[by_number.predict(NEW)])
    assert_allclose(by_name.coef_, by_number.coef_)
    if hasattr(classifier, "predict_proba"):
        assert_allclose(by_name.predict_proba(NEW), by_number.predict_proba(NEW), atol=1e-12)
    assert by_name.score(NEW, by_name.predict(NEW)) == 1.0


def test_string_labels_in_a_sign_holdout():
    names = np.array(["no", "yes"])
    covariance = SIM.covariance.apply(np.eye(12))
    classifier = AngularCalibratedClassifier(
        angle="observable", covariance=covariance, sign_holdout=(X, names[1 - Y])
    )
    assert classifier.fit(X, names[Y]).angle_.cosine < 0


# --- pipelines and the pool -------------------------------------------------------------------

SCALES = np.geomspace(0.05, 40.0, 12)
RAW = {"X": 5.0 + X * SCALES, "new": 5.0 + NEW * SCALES, "pool": 5.0 + POOL * SCALES}


def by_hand(**options):
    """Scale rows and pool first, calibrate then: what every other spelling has to equal."""
    scaler = StandardScaler().fit(RAW["X"])
    classifier = AngularCalibratedClassifier(
        LogisticRegression(), pool=scaler.transform(RAW["pool"]), **options
    ).fit(scaler.transform(RAW["X"]), Y)
    return positive(classifier, scaler.transform(RAW["new"])), classifier


def test_a_raw_pool_passes_through_the_wrapped_pipeline():
    expected, fitted = by_hand()
    classifier = AngularCalibratedClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), pool=RAW["pool"]
    ).fit(RAW["X"], Y)
    assert_allclose(positive(classifier, RAW["new"]), expected, atol=1e-12)
    assert_allclose(classifier.angle_.cosine, fitted.angle_.cosine, atol=1e-12)
    assert fitted.angle_.method == "observable"


def test_a_raw_pool_is_routed_through_the_pipeline_in_front():
    expected, _ = by_hand()
    with sklearn.config_context(enable_metadata_routing=True):
        last = AngularCalibratedClassifier(LogisticRegression()).set_fit_request(pool=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("clf", last)], transform_input=["pool"])
        pipeline.fit(RAW["X"], Y, pool=RAW["pool"])
    assert_allclose(positive(pipeline, RAW["new"]), expected, atol=1e-12)


def test_the_pool_given_to_fit_wins():
    plain = AngularCalibratedClassifier(pool=POOL).fit(X, Y)
    overridden = AngularCalibratedClassifier(pool=POOL[:20]).fit(X, Y, pool=POOL)
    assert_array_equal(positive(overridden, NEW), positive(plain, NEW))


@pytest.mark.parametrize("raw", ["both", "shift", "scale"])
def test_a_raw_pool_beside_scaled_rows_warns(raw):
    scaler = StandardScaler().fit(RAW["X"])
    scaled = scaler.transform(RAW["X"])
    pool = {
        "both": RAW["pool"],
        "shift": scaler.transform(RAW["pool"]) + 3.0,
        "scale": POOL * 40.0,
    }[raw]
    with pytest.warns(PoolWarning, match=r"pool does not look like X.*make_pipeline\("):
        AngularCalibratedClassifier(LogisticRegression(), pool=pool).fit(scaled, Y)
    # The usual way to come there: only X goes through the scaler in front.
    pipeline = make_pipeline(StandardScaler(), AngularCalibratedClassifier(pool=RAW["pool"]))
    with pytest.warns(PoolWarning):
        pipeline.fit(RAW["X"], Y)


@pytest.mark.parametrize("n", [30, 60, 300])
@pytest.mark.parametrize("design", ["gaussian", "student", "rademacher"])
def test_a_pool_from_the_same_population_does_not_warn(n, design):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoolWarning)
        # That three rows say little is another matter.
        warnings.filterwarnings("ignore", "The pool has 3 rows", PoolWarning)
        for seed, (m, d) in enumerate([(3, 10), (30, 1), (30, 3), (200, 10), (2000, 10)]):
            sim = simulate(n, d, link=LINK, design=design, random_state=seed)
            pool = sim.pool(m, random_state=seed)
            clf = AngularCalibratedClassifier(angle=0.5, link=LINK, pool=pool).fit(sim.X, sim.y)
            # The pool was read: the spread of the score is the pool's.
            assert_allclose(clf.scale_.norm, np.std(pool @ clf.coef_[0]))


@pytest.mark.parametrize(("n", "m"), [(1500, 30), (50, 1500)])
@pytest.mark.parametrize("frequency", [0.002, 0.3 / np.arange(1, 301)], ids=["even", "zipf"])
def test_a_pool_of_rare_features_does_not_warn(n, m, frequency):
    # Columns that are rarely non-zero, as word counts: conditional on being seen at all in the
    # smaller sample, each looks more frequent there.
    rng = np.random.default_rng(0)
    rows = sparse.csr_array((rng.random((n + m, 300)) < frequency).astype(float))
    y = rng.integers(0, 2, n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoolWarning)
        classifier = AngularCalibratedClassifier(tight_logistic(), angle=0.1, link=LINK)
        classifier.fit(rows[:n], y, pool=rows[n:])
    assert_allclose(classifier.scale_.norm, np.std(rows[n:] @ classifier.coef_[0]))


def test_as_the_last_step_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), AngularCalibratedClassifier())
    pipeline.fit(RAW["X"], Y)
    inside = AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    expected = positive(inside.fit(RAW["X"], Y), RAW["new"])
    assert_allclose(positive(pipeline, RAW["new"]), expected, atol=1e-12)


@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(StandardScaler(), FunctionTransformer(), LogisticRegression()),
        make_pipeline(StandardScaler(), make_pipeline("passthrough", LogisticRegression())),
        make_pipeline(LogisticRegression()),
    ],
    ids=["flat", "nested", "one step"],
)
@pytest.mark.parametrize("memory", [False, True])
def test_weights_reach_the_model_inside_a_pipeline(pipeline, memory, tmp_path):
    pipeline = clone(pipeline).set_params(memory=str(tmp_path) if memory else None)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 120)
    wrapped = AngularCalibratedClassifier(pipeline).fit(X, Y, sample_weight=weights)
    scaled = pipeline.steps[0][0] == "standardscaler"
    scaler = StandardScaler(with_mean=scaled, with_std=scaled).fit(X)
    expected = AngularCalibratedClassifier(LogisticRegression()).fit(
        scaler.transform(X), Y, sample_weight=weights
    )
    assert_allclose(wrapped.coef_, expected.coef_, atol=1e-12)
    assert_allclose(positive(wrapped, NEW), positive(expected, scaler.transform(NEW)), atol=1e-12)
    assert not hasattr(pipeline[-1], "classes_")


def mixed_frame(seed, n=150):
    """Numbers with gaps, and words: what only a pipeline can read."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Aarhus", "Bern", "Cork"], n)
    age = rng.normal(50, 15, n)
    score = (age - 50) / 15 + 2.0 * (town == "Bern")
    y = np.where(score + rng.logistic(size=n) > 0.5, "yes", "no")
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"age": age, "town": town, "noise": rng.normal(size=n)}), y


def mixed_pipeline():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [("numbers", numbers, ["age", "noise"]), ("words", OneHotEncoder(), ["town"])]
    )
    return make_pipeline(columns, LogisticRegression())


@pytest.mark.parametrize("scores", ["angular", "loo", "holdout"])
@pytest.mark.parametrize("weighted", [False, True])
def test_raw_frames_of_words_and_gaps(scores, weighted):
    rows, y = mixed_frame(0)
    unlabeled, _ = mixed_frame(1)
    classifier = (
        AngularCalibratedClassifier(mixed_pipeline(), pool=unlabeled)
        if scores == "angular"
        else ScoreCalibratedClassifier(mixed_pipeline(), scores=scores, random_state=0)
    )
    weights = np.random.default_rng(5).integers(0, 3, 150) if weighted else None
    classifier.fit(rows, y, sample_weight=weights)
    assert classifier.feature_names_in_.tolist() == ["age", "town", "noise"]
    assert classifier.n_features_in_ == 3
    assert classifier.coef_.shape == (1, 5)
    fresh, truth = mixed_frame(2)
    assert classifier.score(fresh, truth) > 0.65
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(fresh[["town", "age", "noise"]])


def test_a_frozen_pipeline_takes_raw_frames_too():
    rows, y = mixed_frame(0)
    pool, _ = mixed_frame(1)
    pipeline = mixed_pipeline().fit(rows, y)
    frozen = AngularCalibratedClassifier(FrozenEstimator(pipeline), pool=pool).fit(rows, y)
    fitted = AngularCalibratedClassifier(mixed_pipeline(), pool=pool).fit(rows, y)
    fresh, _ = mixed_frame(2)
    assert_allclose(positive(frozen, fresh), positive(fitted, fresh), atol=1e-12)


# --- scikit-learn's tools ---------------------------------------------------------------------


def test_grid_search_over_the_model_and_over_the_angle():
    search = GridSearchCV(
        AngularCalibratedClassifier(LogisticRegression()),
        {"estimator__C": [0.05, 1.0], "angle": ["auto", 0.1]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, Y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 4
    assert search.best_estimator_.estimator_.C == search.best_params_["estimator__C"]
    direct = AngularCalibratedClassifier(
        LogisticRegression(C=search.best_params_["estimator__C"]),
        angle=search.best_params_["angle"],
    ).fit(X, Y)
    assert_array_equal(search.predict_proba(NEW), direct.predict_proba(NEW))


def test_cross_validation_with_weights():
    classifier = AngularCalibratedClassifier(pool=POOL)
    p = cross_val_predict(classifier, X, Y, cv=4, method="predict_proba")
    assert p.shape == (120, 2)
    assert np.mean((p[:, 1] > 0.5) == Y) > 0.65
    weights = np.random.default_rng(0).uniform(0.1, 5.0, 120)
    plain = cross_val_score(classifier, X, Y, cv=3, scoring="neg_brier_score")
    weighted = cross_val_score(
        classifier, X, Y, cv=3, scoring="neg_brier_score", params={"sample_weight": weights}
    )
    assert np.abs(plain - weighted).max() > 1e-4


def test_clone_shares_the_pool_and_clones_the_model():
    covariance = np.eye(12)
    classifier = AngularCalibratedClassifier(
        LogisticRegression(C=0.3), link=LINK, pool=POOL, covariance=covariance, confidence=0.8
    )
    copy = clone(classifier.fit(X, Y))
    assert copy.pool is POOL
    assert copy.covariance is covariance
    assert copy.estimator is not classifier.estimator
    assert copy.estimator.C == 0.3
    assert (copy.link, copy.confidence) == (LINK, 0.8)
    assert not hasattr(copy, "curve_")


def test_clone_keeps_metadata_requests():
    with sklearn.config_context(enable_metadata_routing=True):
        asked = AngularCalibratedClassifier().set_fit_request(pool=True, sample_weight=True)
        copy = clone(asked)
        assert own_requests(copy) == {"groups": None, "pool": True, "sample_weight": True}
        copy.set_fit_request(pool=False)
        assert own_requests(asked)["pool"] is True


def own_requests(classifier):
    return dict(classifier.get_metadata_routing())["$self_request"].router.fit.requests


CALIBRATORS = [
    AngularCalibratedClassifier(),
    AngularCalibratedClassifier(link=LINK, pool=POOL),
    AngularCalibratedClassifier(make_pipeline(StandardScaler(), RidgeClassifier())),
    ScoreCalibratedClassifier(method="isotonic"),
    ScoreCalibratedClassifier(method="beta", scores="holdout", random_state=0),
]


@pytest.mark.parametrize("classifier", CALIBRATORS, ids=range(5))
def test_pickles(classifier):
    classifier = clone(classifier)
    pickle.loads(pickle.dumps(classifier)).fit(X, Y)
    classifier.fit(X, Y)
    copy = pickle.loads(pickle.dumps(classifier))
    assert_array_equal(copy.predict_proba(NEW), classifier.predict_proba(NEW))


def test_repr_names_what_was_changed():
    classifier = AngularCalibratedClassifier(LogisticRegression(C=2.0), angle=0.4)
    expected = "AngularCalibratedClassifier(angle=0.4, estimator=LogisticRegression(C=2.0))"
    assert repr(classifier).replace("\n", "").replace(" " * 28, " ") == expected
    for pool in (POOL, sparse.csr_array(POOL), pd.DataFrame(POOL), pl.DataFrame(POOL)):
        assert "pool=" in repr(AngularCalibratedClassifier(pool=pool))
        assert "AngularCalibratedClassifier" in classifier.set_params(pool=pool)._repr_html_()


# --- models -----------------------------------------------------------------------------------


def saga(**options):
    return tight_logistic(solver="saga", tol=1e-6, random_state=0, **options)


def test_no_estimator_is_a_logistic_regression():
    default = AngularCalibratedClassifier().fit(X, Y)
    named = AngularCalibratedClassifier(LogisticRegression()).fit(X, Y)
    assert isinstance(default.estimator_, LogisticRegression)
    assert_array_equal(positive(default, NEW), positive(named, NEW))


@pytest.mark.parametrize(
    "model",
    [
        RidgeClassifier(alpha=0.5),
        RidgeClassifierCV(alphas=[0.1, 1.0]),
        LinearSVC(C=0.3, tol=1e-6, max_iter=100_000),
        LogisticRegression(solver="liblinear", tol=1e-8),
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(fit_intercept=False),
        LogisticRegressionCV(Cs=[0.1, 1.0], cv=3),
        saga(penalty="l1", C=2.0),
        saga(penalty="elasticnet", l1_ratio=0.5),
        LogisticRegression(C=np.inf, max_iter=1000),
        MEstimator("exponential"),
    ],
    ids=repr,
)
# How to spell a penalty, and what LogisticRegressionCV defaults to, changes between versions.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Inconsistent values:UserWarning")
@pytest.mark.filterwarnings("ignore:Setting penalty=None:UserWarning")
def test_linear_models_of_every_kind(model):
    sim = simulate(300, 12, link=LINK, random_state=0)
    classifier = AngularCalibratedClassifier(clone(model), link=LINK).fit(sim.X, sim.y)
    assert classifier.distance_to_optimum_ < 0.01
    alone = clone(model).fit(sim.X, sim.y)
    assert_allclose(classifier.coef_[0], np.ravel(alone.coef_), rtol=1e-6, atol=1e-9)
    assert_allclose(classifier.intercept_, alone.intercept_, rtol=1e-6, atol=1e-9)
    # However the scores are scaled, the curve is that of the truth given the score.
    scores = NEW @ classifier.coef_[0] + classifier.intercept_[0]
    truth = sim.calibrated_curve(scores, classifier.coef_[0], classifier.intercept_[0])
    assert np.sqrt(np.mean((positive(classifier, NEW) - truth) ** 2)) < 0.1


def test_sgd_is_reported_and_polished():
    model = SGDClassifier(loss="log_loss", alpha=0.01, max_iter=3, tol=None, random_state=0)
    with pytest.warns(OptimalityWarning, match="not at the optimum.*polish=True"):
        rough = AngularCalibratedClassifier(model).fit(X, Y)
    assert rough.distance_to_optimum_ > 0.01
    assert_array_equal(rough.coef_, rough.estimator_.coef_)
    polished = AngularCalibratedClassifier(model, polish=True).fit(X, Y)
    assert polished.distance_to_optimum_ == rough.distance_to_optimum_  # of the base model
    optimum = AngularCalibratedClassifier(MEstimator("logistic", Ridge(0.01))).fit(X, Y)
    assert_allclose(polished.coef_, optimum.coef_, rtol=1e-6)
    assert_allclose(positive(polished, NEW), positive(optimum, NEW), atol=1e-6)


def test_a_frozen_model_is_kept():
    model = LogisticRegression(C=0.2).fit(X, Y)
    frozen = FrozenEstimator(model)
    classifier = AngularCalibratedClassifier(frozen).fit(X, Y)
    assert classifier.estimator_ is frozen
    assert_array_equal(classifier.coef_, model.coef_)
    assert clone(classifier).estimator is frozen
    refitted = AngularCalibratedClassifier(LogisticRegression(C=0.2)).fit(X, Y)
    assert_array_equal(positive(classifier, NEW), positive(refitted, NEW))


def test_a_frozen_model_of_other_rows_is_noticed():
    other = simulate(120, 12, link=LINK, random_state=9)
    frozen = FrozenEstimator(LogisticRegression().fit(other.X, other.y))
    with pytest.warns(OptimalityWarning, match="the rows it was trained on"):
        AngularCalibratedClassifier(frozen).fit(X, Y)


def test_a_frozen_model_takes_every_row_as_holdout():
    other = simulate(120, 12, link=LINK, random_state=9)
    model = LogisticRegression().fit(other.X, other.y)
    classifier = ScoreCalibratedClassifier(FrozenEstimator(model), scores="holdout").fit(X, Y)
    assert_array_equal(classifier.coef_, model.coef_)
    plain = positive(classifier, NEW)
    classifier.fit(X, Y, sample_weight=np.where(Y == 1, 4.0, 1.0))
    assert np.all(positive(classifier, NEW) > plain)


def test_bare_weights_are_the_model_they_came_from():
    model = tight_logistic(C=0.5).fit(X, Y)
    head = LinearHead(model.coef_, model.intercept_, "logistic", Ridge(1 / (120 * 0.5)))
    classifier = AngularCalibratedClassifier(head, pool=POOL).fit(X, Y)
    assert classifier.distance_to_optimum_ < 1e-6
    expected = AngularCalibratedClassifier(FrozenEstimator(model), pool=POOL).fit(X, Y)
    assert_allclose(positive(classifier, NEW), positive(expected, NEW), atol=1e-12)
    assert_array_equal(clone(classifier).fit(X, Y).coef_, classifier.coef_)


def test_bare_weights_with_named_classes():
    names = np.array(["no", "yes"])
    model = tight_logistic().fit(X, Y)
    head = LinearHead(model.coef_, model.intercept_, penalty=Ridge(1 / 120), classes=["no", "yes"])
    classifier = AngularCalibratedClassifier(head).fit(X, names[Y])
    expected = AngularCalibratedClassifier(FrozenEstimator(model)).fit(X, Y)
    assert_allclose(positive(classifier, NEW), positive(expected, NEW), atol=1e-12)


@pytest.mark.parametrize("model", [SVC(kernel="linear"), LinearSVC(loss="hinge")], ids=repr)
def test_a_holdout_asks_nothing_of_the_objective(model):
    classifier = ScoreCalibratedClassifier(model, scores="holdout", random_state=0).fit(X, Y)
    assert classifier.score(X, Y) > 0.7


def test_class_weights_tilt_the_fit_and_not_the_probabilities():
    sim = simulate(600, 60, link=Logit(3.0, -4.0), random_state=0)
    rows, y = sim.sample(5000, random_state=1)
    model = LogisticRegression(class_weight="balanced")
    classifier = AngularCalibratedClassifier(model).fit(sim.X, sim.y)
    base = positive(model.fit(sim.X, sim.y), rows)
    assert y.mean() < 0.2
    assert base.mean() > y.mean() + 0.15
    assert abs(positive(classifier, rows).mean() - y.mean()) < 0.03
