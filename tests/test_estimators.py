"""The estimators as scikit-learn and a user see them: conventions, weights, angles, invariances."""

import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from angcal import (
    AngleWarning,
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    CallableLink,
    Lasso,
    LinearHead,
    Logit,
    MEstimator,
    PlattScaling,
    Probit,
    Ridge,
    ScoreCalibratedClassifier,
)
from angcal.baselines import SEVERAL_CALIBRATORS, DirichletCalibration
from angcal.curve import ConstantCurve
from angcal.simulation import simulate

sklearn_version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
LINK = Logit(3.0, 1.0)
METHODS = tuple(SEVERAL_CALIBRATORS)


def data(n=120, d=20, seed=0, **options):
    return simulate(n, d, **{"link": LINK, "random_state": seed, **options})


def tight_logistic(**options):
    return LogisticRegression(**{"tol": 1e-10, "max_iter": 10_000, **options})


def positive(classifier, X):
    return classifier.predict_proba(X)[:, 1]


# --- scikit-learn's own checks ----------------------------------------------------------------

WHOLE_WEIGHT = (
    "A row's weight is part of its loss and leaving the row out leaves out all of it: weight 2 is "
    "one row that counts twice, not two rows left out one at a time."
)


DRAWN_SPLIT = (
    "The holdout is drawn over rows, and repeated rows are drawn one by one. Besides, the check "
    "leaves a class with a single row, which cannot be on both sides of a split."
)
FAULTY_CHECK = (
    "Before 1.7 the check makes binary labels by comparison with the first label, after shuffling "
    "one of its two data sets: they then differ. test_integer_weights_are_repeated_rows stands in."
)

OWN_FREQUENCIES = (
    "The check wants the class of weight 1000 predicted everywhere. Class weights shape the fit "
    "alone: probabilities, and with them predictions, follow the labels' own frequencies."
)


def expected_failures(estimator):
    holdout = getattr(estimator, "scores", None) == "holdout"
    reason = DRAWN_SPLIT if holdout else WHOLE_WEIGHT
    if isinstance(estimator, MEstimator):
        if sklearn_version >= (1, 7):
            return {}
        reason = FAULTY_CHECK
    weighted = isinstance(estimator, AngularLogisticRegressionCV)
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
        **({"check_class_weight_classifiers": OWN_FREQUENCIES} if weighted else {}),
    }


CHECKED = [
    AngularCalibratedClassifier(),
    AngularCalibratedClassifier(LogisticRegression(C=0.5)),
    AngularCalibratedClassifier(link=Logit(3.0)),
    AngularCalibratedClassifier(MEstimator()),
    AngularLogisticRegressionCV(),
    AngularLogisticRegressionCV(average="penalties"),
    AngularLogisticRegressionCV(8, average="folds"),
    *(ScoreCalibratedClassifier(method=method) for method in METHODS if method != "dirichlet"),
    ScoreCalibratedClassifier(method=DirichletCalibration(strength=1.0)),  # not searched for
    ScoreCalibratedClassifier(scores="holdout", random_state=0),
    ScoreCalibratedClassifier(method="isotonic", scores="holdout", random_state=0),
    ScoreCalibratedClassifier(RidgeClassifier(), method="structured"),
    ScoreCalibratedClassifier(MEstimator()),
    MEstimator(),
    MEstimator("squared_hinge"),
    MEstimator("huberised_hinge", Lasso(0.01)),
]


@pytest.mark.filterwarnings("ignore")  # the checks' toy data are separable, tiny, constant ...
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    assert check(estimator) is None  # scikit-learn's checks assert for themselves


# --- what predictions are ---------------------------------------------------------------------

CLASSIFIERS = [
    AngularCalibratedClassifier(),
    AngularCalibratedClassifier(RidgeClassifier(), link=LINK),
    AngularCalibratedClassifier(angle=0.7),
    AngularLogisticRegressionCV(),
    *(ScoreCalibratedClassifier(method=method) for method in METHODS),
    ScoreCalibratedClassifier(scores="holdout", random_state=0),
]


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_probabilities_are_monotone_in_the_score_and_decide(classifier):
    sim = data()
    X, _ = sim.sample(300, random_state=1)
    names = np.array(["ham", "spam"])
    classifier.fit(sim.X, names[sim.y])
    p = classifier.predict_proba(X)
    assert p.shape == (300, 2)
    assert np.all((p >= 0) & (p <= 1))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-15)
    scores = X @ classifier.coef_[0] + classifier.intercept_[0]
    if classifier.get_params().get("method") not in ("histogram", "quadratic"):  # they may turn
        assert np.all(np.diff(p[np.argsort(scores), 1]) >= -1e-12)
    assert np.ptp(p[:, 1]) > 0.2
    assert_array_equal(classifier.predict(X), names[p.argmax(axis=1)])


def test_one_fit_beats_the_base_model_where_features_rival_labels():
    sim = data(400, 200)
    X, y = sim.sample(4000, random_state=1)
    base = tight_logistic(C=100.0).fit(sim.X, sim.y)
    one_fit = AngularCalibratedClassifier(base).fit(sim.X, sim.y)
    assert_allclose(one_fit.coef_, base.coef_, rtol=1e-12)
    truth = sim.calibrated_curve(base.decision_function(X), base.coef_[0], base.intercept_[0])
    assert np.sqrt(np.mean((positive(one_fit, X) - truth) ** 2)) < 0.06
    assert log_loss(y, positive(one_fit, X)) < log_loss(y, base.predict_proba(X)[:, 1]) - 0.1


def test_fitting_twice_gives_the_same_and_leaves_parameters_alone():
    sim = data()
    pool = sim.pool(60, random_state=0)
    kept = pool.copy()
    classifier = AngularCalibratedClassifier(LogisticRegression(), pool=pool)
    first = positive(classifier.fit(sim.X, sim.y), sim.X)
    assert_array_equal(positive(classifier.fit(sim.X, sim.y), sim.X), first)
    assert classifier.pool is pool
    assert_array_equal(pool, kept)
    assert not hasattr(classifier.estimator, "coef_")


# --- weights ----------------------------------------------------------------------------------

WEIGHTED = [
    AngularCalibratedClassifier(),
    AngularCalibratedClassifier(link=LINK),
    AngularCalibratedClassifier(MEstimator("squared_hinge", Ridge(0.02))),
    AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    ScoreCalibratedClassifier(),
    ScoreCalibratedClassifier(method="isotonic"),
    ScoreCalibratedClassifier(scores="holdout", random_state=3),
]


@pytest.mark.parametrize("classifier", WEIGHTED, ids=repr)
def test_zero_weight_is_a_row_removed(classifier):
    sim = data()
    weights = np.random.default_rng(1).uniform(0.3, 3.0, 120)
    weights[::4] = 0.0
    kept = weights > 0
    some = positive(classifier.fit(sim.X, sim.y, sample_weight=weights), sim.X)
    less = positive(classifier.fit(sim.X[kept], sim.y[kept], sample_weight=weights[kept]), sim.X)
    assert_array_equal(some, less)
    everything = positive(classifier.fit(sim.X, sim.y), sim.X)
    assert np.abs(everything - some).max() > 1e-3


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("penalty", [None, Ridge(0.02), Lasso(0.02)], ids=repr)
def test_integer_weights_are_repeated_rows(loss, penalty):
    sim = data()
    weights = np.random.default_rng(0).integers(0, 4, 120)
    weighted = MEstimator(loss, penalty).fit(sim.X, sim.y, sample_weight=weights)
    repeated = MEstimator(loss, penalty).fit(sim.X.repeat(weights, 0), sim.y.repeat(weights))
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-8)
    assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-6)
    assert np.abs(weighted.coef_ - MEstimator(loss, penalty).fit(sim.X, sim.y).coef_).max() > 1e-3


def test_weights_of_one_are_no_weights():
    sim = data()
    for classifier in (AngularCalibratedClassifier(link=LINK), ScoreCalibratedClassifier()):
        plain = positive(classifier.fit(sim.X, sim.y), sim.X)
        ones = positive(classifier.fit(sim.X, sim.y, sample_weight=np.ones(120)), sim.X)
        assert_allclose(ones, plain, atol=1e-12)


def test_a_common_factor_on_mean_scaled_penalties_changes_nothing():
    sim = data()
    factor = np.full(120, 7.0)
    model = MEstimator("logistic", Ridge(0.02))
    assert_allclose(
        model.fit(sim.X, sim.y, sample_weight=factor).coef_,
        MEstimator("logistic", Ridge(0.02)).fit(sim.X, sim.y).coef_,
        rtol=1e-6,
    )
    # A covariance brings in the observable angle, where weights enter in another way.
    covariance = sim.covariance.apply(np.eye(20))
    for options in ({}, {"link": LINK}, {"angle": "observable", "covariance": covariance}):
        classifier = AngularCalibratedClassifier(model, **options)
        plain = classifier.fit(sim.X, sim.y)
        cosine, error, p = plain.angle_.cosine, plain.angle_.standard_error, positive(plain, sim.X)
        heavy = classifier.fit(sim.X, sim.y, sample_weight=factor)
        assert_allclose(positive(heavy, sim.X), p, atol=1e-6)
        assert_allclose([heavy.angle_.cosine, heavy.angle_.standard_error], [cosine, error], 1e-4)


def test_a_common_factor_is_a_factor_on_C():
    sim = data()
    plain = AngularCalibratedClassifier(tight_logistic(C=0.6)).fit(sim.X, sim.y)
    heavy = AngularCalibratedClassifier(tight_logistic(C=0.2)).fit(
        sim.X, sim.y, sample_weight=np.full(120, 3.0)
    )
    assert_allclose(positive(heavy, sim.X), positive(plain, sim.X), atol=1e-6)


def test_weights_enter_the_observables():
    sim = data()
    weights = np.random.default_rng(0).uniform(0.2, 4.0, 120)
    classifier = AngularCalibratedClassifier(tight_logistic()).fit(
        sim.X, sim.y, sample_weight=weights
    )
    observed = classifier.observables_
    p = expit(observed.scores)
    assert_allclose(observed.residuals, weights * (sim.y - p), rtol=1e-9)
    assert_allclose(observed.curvatures, weights * p * (1 - p), rtol=1e-9)


def test_leaving_a_row_out_leaves_out_all_of_its_weight():
    # For the squared loss the leave-one-out scores are exact, so refits can check them.
    sim = data(60, 10)
    weights = np.random.default_rng(0).integers(1, 5, 60).astype(float)
    model = RidgeClassifier(alpha=0.5, solver="cholesky")
    observed = AngularCalibratedClassifier(model).fit(sim.X, sim.y, sample_weight=weights)
    for i in range(0, 60, 7):
        kept = np.arange(60) != i
        refit = model.fit(sim.X[kept], sim.y[kept], sample_weight=weights[kept])
        score = refit.decision_function(sim.X[[i]])[0]
        assert_allclose(observed.observables_.loo_scores[i], score, rtol=1e-8, atol=1e-10)


def test_sample_weights_change_the_population_and_class_weights_do_not():
    sim = simulate(500, 60, link=Logit(3.0, -3.0), random_state=0)
    X, y = sim.sample(4000, random_state=1)
    prevalence = sim.y.mean()
    assert prevalence < 0.3
    balanced = LogisticRegression(class_weight="balanced")
    tilted = AngularCalibratedClassifier(balanced).fit(sim.X, sim.y)
    assert balanced.fit(sim.X, sim.y).predict_proba(X)[:, 1].mean() > y.mean() + 0.1
    assert abs(positive(tilted, X).mean() - y.mean()) < 0.03
    assert abs(positive(tilted, X).mean() - prevalence) < 0.03
    # Rows that stand for several rows do change what is typical.
    weights = np.where(sim.y == 1, 3.0, 1.0)
    heavy = AngularCalibratedClassifier().fit(sim.X, sim.y, sample_weight=weights)
    expected = 3 * prevalence / (1 + 2 * prevalence)
    p = positive(heavy, sim.X)
    assert abs(np.average(p, weights=weights) - expected) < 0.05


# --- which angle ------------------------------------------------------------------------------


def rare_class(n_positive=2):
    sim = data(40, 5)
    y = np.zeros(40, dtype=int)
    y[:n_positive] = 1
    return sim.X, y


@pytest.mark.parametrize("link", [None, LINK])
def test_a_tiny_class_falls_back_to_the_prevalence(link):
    X, y = rare_class()
    with pytest.warns(AngleWarning, match="smaller class has 2 rows.*prevalence"):
        classifier = AngularCalibratedClassifier(link=link).fit(X, y)
    assert classifier.angle_.method == "fallback"
    assert classifier.angle_.is_fallback
    assert classifier.angle_.interval == (-1.0, 1.0)
    assert isinstance(classifier.curve_, ConstantCurve)
    assert_allclose(positive(classifier, X), 3 / 42)  # (2 + 1)/(40 + 2)
    with pytest.warns(AngleWarning, match="smaller class has 2 rows"):
        classifier.fit(X, 1 - y)
    assert_allclose(positive(classifier, X), 39 / 42)


def test_the_fallback_weighs_rows():
    X, y = rare_class()
    with pytest.warns(AngleWarning):
        classifier = AngularCalibratedClassifier().fit(X, y, sample_weight=np.where(y, 19.0, 1.0))
    assert_allclose(positive(classifier, X), 21 / 42)


@pytest.mark.filterwarnings("ignore:No signal:angcal.AngleWarning")
def test_three_rows_of_a_class_are_enough():
    classifier = AngularCalibratedClassifier().fit(*rare_class(3))
    assert classifier.angle_.method == "loo"


def test_a_known_link_and_a_known_angle_need_no_labels():
    X, y = rare_class()
    classifier = AngularCalibratedClassifier(link=LINK, angle=0.5).fit(X, y)
    assert classifier.angle_.method == "given"
    assert np.ptp(positive(classifier, X)) > 0.01


@pytest.mark.parametrize("n", [30, 61, 97])
@pytest.mark.parametrize("with_pool", [False, True])
def test_weights_that_are_all_zero_fall_back(n, with_pool):
    sim = data(n, 8, mean=np.ones(8))
    options = {"pool": sim.pool(40, random_state=0)} if with_pool else {}
    classifier = AngularCalibratedClassifier(MEstimator("logistic", Lasso(100.0)), **options)
    with pytest.warns(AngleWarning, match="all weights are zero"):
        classifier.fit(sim.X, sim.y)
    assert_array_equal(classifier.coef_, np.zeros((1, 8)))
    assert classifier.angle_.method == "fallback"
    assert_allclose(positive(classifier, sim.X), (sim.y.sum() + 1) / (n + 2))


@pytest.mark.parametrize("link", [None, LINK])
def test_observable_without_a_covariance_says_so(link):
    sim = data()
    with pytest.warns(AngleWarning, match="angle='observable' is not possible.*pass a covariance"):
        asked = AngularCalibratedClassifier(link=link, angle="observable").fit(sim.X, sim.y)
    assert asked.angle_.method == "loo"
    assert "neither a covariance nor a pool" in asked.angle_.reason
    plain = AngularCalibratedClassifier(link=link, angle="loo").fit(sim.X, sim.y)
    assert_allclose(positive(asked, sim.X), positive(plain, sim.X), atol=1e-12)


@pytest.mark.parametrize("link", [None, LINK])
def test_auto_says_why_a_small_pool_gives_no_observable_angle(link):
    sim = data()
    small, large = sim.pool(15, random_state=0), sim.pool(400, random_state=0)
    narrow = AngularCalibratedClassifier(link=link, pool=small).fit(sim.X, sim.y)
    assert narrow.angle_.method == "loo"
    assert "the pool has 15 rows for 20 columns, too few" in narrow.angle_.reason
    assert narrow.scale_.source == "pool"
    wide = AngularCalibratedClassifier(link=link, pool=large).fit(sim.X, sim.y)
    assert wide.angle_.method == ("observable" if link is None else "combined")
    assert wide.angle_.standard_error < 0.5


@pytest.mark.parametrize("link", [None, LINK])
def test_every_route_to_the_angle_finds_it(link):
    sim = data(500, 100)
    model = tight_logistic(C=10.0)
    covariance = sim.covariance.apply(np.eye(100))
    truth = sim.cosine(model.fit(sim.X, sim.y).coef_[0])
    assert 0.5 < truth < 0.95
    # Without a link labels have nothing to add to the observable angle.
    both = "observable" if link is None else "combined"
    options = [
        ("observable", {"covariance": covariance}, "observable"),
        ("observable", {"pool": sim.pool(400, random_state=0)}, "observable"),
        ("auto", {"covariance": covariance}, both),
        ("auto", {"covariance": LedoitWolf(), "pool": sim.pool(400, random_state=0)}, both),
    ]
    if link is not None:  # labels alone cannot tell angle and scale apart
        options += [("loo", {}, "loo"), ("auto", {}, "loo")]
    for angle, more, method in options:
        found = AngularCalibratedClassifier(model, link=link, angle=angle, **more)
        found.fit(sim.X, sim.y)
        assert found.angle_.method == method
        assert abs(found.angle_.cosine - truth) < 0.12
        assert found.angle_.interval[0] < found.angle_.cosine < found.angle_.interval[1]


def test_a_covariance_of_the_training_rows_is_only_used_by_name():
    sim = data()
    auto = AngularCalibratedClassifier(link=LINK, covariance=LedoitWolf()).fit(sim.X, sim.y)
    assert auto.angle_.method == "loo"
    assert "covariance comes from the training rows" in auto.angle_.reason
    named = AngularCalibratedClassifier(link=LINK, covariance=LedoitWolf(), angle="observable")
    assert named.fit(sim.X, sim.y).angle_.method == "observable"


@pytest.mark.parametrize("angle", [0.6, -0.6, 0, 1, np.float32(0.25)])
def test_a_number_is_the_cosine_itself(angle):
    sim = data()
    classifier = AngularCalibratedClassifier(link=LINK, angle=angle).fit(sim.X, sim.y)
    assert classifier.angle_.method == "given"
    assert classifier.angle_.interval == (float(angle), float(angle))
    s = classifier.scale_.standardize(sim.X @ classifier.coef_[0] + classifier.intercept_[0])
    expected = LINK.smooth(float(angle) * s, np.sqrt(1.0 - float(angle) ** 2))
    assert_allclose(positive(classifier, sim.X), expected, atol=1e-12)
    free = AngularCalibratedClassifier(angle=angle).fit(sim.X, sim.y)
    assert free.angle_.cosine == float(angle)
    assert free.link_ != Logit()  # its scale and offset were fitted around the cosine


def test_sign_holdout_turns_the_sign():
    sim = data()
    X, y = sim.sample(200, random_state=5)
    covariance = sim.covariance.apply(np.eye(20))
    options = {"link": LINK, "angle": "observable", "covariance": covariance}
    plain = AngularCalibratedClassifier(**options).fit(sim.X, sim.y)
    right = AngularCalibratedClassifier(**options, sign_holdout=(X, y)).fit(sim.X, sim.y)
    wrong = AngularCalibratedClassifier(**options, sign_holdout=(X, 1 - y)).fit(sim.X, sim.y)
    assert plain.angle_.cosine > 0
    assert right.angle_.cosine == plain.angle_.cosine
    assert wrong.angle_.cosine == -plain.angle_.cosine


@pytest.mark.filterwarnings("ignore::angcal.OptimalityWarning")
def test_weights_that_point_away_have_a_negative_cosine():
    sim = data()
    fitted = LogisticRegression().fit(sim.X, sim.y)
    away = LinearHead(-fitted.coef_, 0.0, penalty=Ridge(1 / 120))
    covariance = sim.covariance.apply(np.eye(20))
    for angle, more in (("observable", {"covariance": covariance}), ("loo", {})):
        classifier = AngularCalibratedClassifier(away, link=LINK, angle=angle, **more)
        assert classifier.fit(sim.X, sim.y).angle_.cosine < -0.3
        assert np.mean(classifier.predict(sim.X) == sim.y) > 0.6


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"link": LINK},
        {"pool": True},
        {"link": LINK, "pool": True},
        {"link": LINK, "pool": True, "angle": "observable"},
    ],
    ids=str,
)
def test_confidence_changes_the_interval_only(options):
    sim = data(300, 30)
    if "pool" in options:
        options = {**options, "pool": sim.pool(200, random_state=0)}
    fits = [
        AngularCalibratedClassifier(**options, confidence=level).fit(sim.X, sim.y)
        for level in (0.5, 0.95, 0.999)
    ]
    widths = [np.ptp(fit.angle_.interval) for fit in fits]
    assert widths[0] < widths[1] < widths[2]
    assert fits[0].angle_.confidence == 0.5
    assert_array_equal(positive(fits[0], sim.X), positive(fits[2], sim.X))


def squashed(t):
    return 0.1 + 0.8 * expit(3.0 * t)


def test_a_callable_link_is_taken_as_known():
    sim = simulate(300, 20, link=squashed, random_state=0)
    classifier = AngularCalibratedClassifier(link=squashed).fit(sim.X, sim.y)
    assert classifier.link_ == CallableLink(squashed)
    X, _ = sim.sample(2000, random_state=1)
    p = positive(classifier, 100 * X)
    assert p.min() > 0.1 - 1e-9
    assert p.max() < 0.9 + 1e-9


def test_a_named_link_is_a_family_to_fit():
    sim = simulate(600, 20, link=Probit(1.5, -0.5), random_state=0)
    covariance = sim.covariance.apply(np.eye(20))
    classifier = AngularCalibratedClassifier(link="probit", covariance=covariance)
    classifier.fit(sim.X, sim.y)
    assert isinstance(classifier.link_, Probit)
    assert 0.8 < classifier.link_.scale < 3.0
    assert -1.0 < classifier.link_.offset < -0.1
    X, _ = sim.sample(2000, random_state=1)
    scores = X @ classifier.coef_[0] + classifier.intercept_[0]
    truth = sim.calibrated_curve(scores, classifier.coef_[0], classifier.intercept_[0])
    assert np.sqrt(np.mean((positive(classifier, X) - truth) ** 2)) < 0.05


def test_an_own_calibrator_is_cloned():
    sim = data()
    own = PlattScaling(link="probit")
    classifier = ScoreCalibratedClassifier(method=own).fit(sim.X, sim.y)
    assert classifier.curve_ is not own
    assert classifier.curve_.link == "probit"
    default = ScoreCalibratedClassifier().fit(sim.X, sim.y)
    assert np.abs(positive(classifier, sim.X) - positive(default, sim.X)).max() > 1e-4


# --- invariances of the whole chain -----------------------------------------------------------


def orthogonal(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


@pytest.mark.parametrize("model", [tight_logistic(), RidgeClassifier(), MEstimator("probit")])
@pytest.mark.parametrize("source", [None, "covariance", "pool"])
def test_rotated_columns_under_a_ridge_change_nothing(model, source):
    sim = data()
    Q, X_new = orthogonal(20), sim.sample(50, random_state=1)[0]
    covariance, pool = sim.covariance.apply(np.eye(20)), sim.pool(100, random_state=0)
    straight, turned = {
        None: ({}, {}),
        "covariance": ({"covariance": covariance}, {"covariance": Q.T @ covariance @ Q}),
        "pool": ({"pool": pool}, {"pool": pool @ Q}),
    }[source]
    a = AngularCalibratedClassifier(model, polish=True, **straight).fit(sim.X, sim.y)
    b = AngularCalibratedClassifier(model, polish=True, **turned).fit(sim.X @ Q, sim.y)
    assert_allclose(positive(b, X_new @ Q), positive(a, X_new), atol=1e-6)
    assert_allclose(b.angle_.cosine, a.angle_.cosine, atol=1e-5)


def test_shifted_columns_change_nothing():
    sim = data()
    pool = sim.pool(100, random_state=0)
    a = AngularCalibratedClassifier(polish=True, pool=pool).fit(sim.X, sim.y)
    b = AngularCalibratedClassifier(polish=True, pool=pool + 3.0).fit(sim.X + 3.0, sim.y)
    assert_allclose(positive(b, sim.X + 3.0), positive(a, sim.X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Setting penalty=None:UserWarning")  # 1.8.0 warns at C=inf
def test_any_invertible_map_of_the_columns_changes_nothing_without_a_penalty():
    sim = data(300, 10)
    A = np.random.default_rng(0).normal(size=(10, 10)) + 3 * np.eye(10)
    model = tight_logistic(C=np.inf)
    a = AngularCalibratedClassifier(model, polish=True).fit(sim.X, sim.y)
    b = AngularCalibratedClassifier(model, polish=True).fit(sim.X @ A, sim.y)
    assert_allclose(positive(b, sim.X @ A), positive(a, sim.X), atol=1e-6)


def test_the_order_of_rows_and_columns_does_not_matter():
    sim = data()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(120), rng.permutation(20)
    a = AngularCalibratedClassifier(polish=True).fit(sim.X, sim.y)
    b = AngularCalibratedClassifier(polish=True).fit(sim.X[rows][:, columns], sim.y[rows])
    assert_allclose(positive(b, sim.X[:, columns]), positive(a, sim.X), atol=1e-6)


@pytest.mark.parametrize("source", [None, "pool"])
def test_swapped_labels_give_one_minus_p(source):
    sim = data()
    options = {} if source is None else {"pool": sim.pool(100, random_state=0)}
    for links in [(None, None), (Logit(3.0, 1.0), Logit(3.0, -1.0))]:
        a, b = (
            AngularCalibratedClassifier(tight_logistic(), link=link, **options) for link in links
        )
        a.fit(sim.X, sim.y)
        b.fit(sim.X, 1 - sim.y)
        assert_allclose(positive(b, sim.X), 1.0 - positive(a, sim.X), atol=1e-4)
        assert_allclose(b.angle_.cosine, a.angle_.cosine, atol=1e-3)


def test_swapped_labels_swap_the_columns_of_score_calibrators():
    sim = data()
    for method in ("platt", "temperature", "isotonic"):
        a = ScoreCalibratedClassifier(tight_logistic(), method=method).fit(sim.X, sim.y)
        b = ScoreCalibratedClassifier(tight_logistic(), method=method).fit(sim.X, 1 - sim.y)
        assert_allclose(b.predict_proba(sim.X), a.predict_proba(sim.X)[:, ::-1], atol=1e-5)


def test_no_warning_on_plain_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            sim = data(150, 60, seed)
            for classifier in (AngularCalibratedClassifier(), ScoreCalibratedClassifier()):
                found = classifier.fit(sim.X, sim.y).predict(sim.X)
                assert set(found) <= {0, 1}
