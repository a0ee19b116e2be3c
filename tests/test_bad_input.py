"""Bad input ends in an error that names the argument, what is wrong and a way out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from angcal import (
    AngularCalibratedClassifier,
    AngularLogisticRegressionCV,
    LinearHead,
    Logit,
    MEstimator,
    NoPenalty,
    Ridge,
    ScoreCalibratedClassifier,
    SeparableDataError,
)
from angcal.simulation import simulate

# Not part of the core; without them there is nothing to compare with here.
pd = pytest.importorskip("pandas")

LINK = Logit(3.0, 1.0)
SIM = simulate(60, 6, link=LINK, random_state=0)
X, Y = SIM.X, SIM.y
POOL = SIM.pool(40, random_state=1)
CALIBRATORS = [AngularCalibratedClassifier, ScoreCalibratedClassifier]
CLASSIFIERS = [*CALIBRATORS, MEstimator]

# scikit-learn 1.8.0 alone warns that C=inf means no penalty.
pytestmark = pytest.mark.filterwarnings("ignore:Setting penalty=None:UserWarning")


def spoiled(rows, value):
    rows = rows.copy()
    rows[3, 2] = value
    return rows


def unpenalized(**options):
    return LogisticRegression(C=np.inf, **options)


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_missing_and_infinite_entries(classifier, value, what):
    for container in (np.asarray, sparse.csr_array, pd.DataFrame):
        with pytest.raises(ValueError, match=f"Input X contains {what}"):
            classifier().fit(container(spoiled(X, value)), Y)
    fitted = classifier().fit(X, Y)
    with pytest.raises(ValueError, match=f"Input X contains {what}"):
        fitted.predict(spoiled(X, value))


@pytest.mark.parametrize("piped", [False, True])
def test_missing_entries_in_a_pool_are_the_pools(piped):
    model = make_pipeline(StandardScaler(), LogisticRegression()) if piped else None
    with pytest.raises(ValueError, match="Input pool contains NaN"):
        AngularCalibratedClassifier(model, pool=spoiled(POOL, np.nan)).fit(X, Y)
    with pytest.raises(ValueError, match="Input sign_holdout contains NaN"):
        AngularCalibratedClassifier(model, sign_holdout=(spoiled(X, np.nan), Y)).fit(X, Y)


def test_infinite_entries_in_a_pool():
    with pytest.raises(ValueError, match="Input pool contains infinity"):
        AngularCalibratedClassifier(pool=spoiled(POOL, -np.inf)).fit(X, Y)


@pytest.mark.parametrize("classifier", CALIBRATORS)
def test_too_few_rows(classifier):
    with pytest.raises(ValueError, match=r"X has 4 rows.*at least 5 samples are needed"):
        classifier().fit(X[:4], [0, 1, 0, 1])
    with pytest.raises(ValueError, match="X has 4 rows with positive weight"):
        classifier().fit(X[:8], [0, 1] * 4, sample_weight=[1.0] * 4 + [0.0] * 4)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_lengths_that_differ(classifier):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(X, Y[:-1])
    piped = ScoreCalibratedClassifier(make_pipeline(LogisticRegression()))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        piped.fit(X, Y[:-1])


@pytest.mark.parametrize("classifier", CALIBRATORS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_constant_columns_without_a_penalty(classifier, container):
    sim = simulate(100, 6, link=LINK, random_state=0)
    rows = sim.X.copy()
    rows[:, [1, 4]] = [0.0, 1.0]
    with pytest.raises(ValueError, match=r"2 constant columns \(the first are \[1, 4\]\).*ridge"):
        classifier(unpenalized(max_iter=1000)).fit(container(rows), sim.y)


@pytest.mark.parametrize("classifier", CALIBRATORS)
def test_constant_columns_under_a_ridge_are_harmless(classifier):
    rows = np.column_stack([X, np.full(60, 3.0), np.zeros(60)])
    with_constants = classifier().fit(rows, Y)
    without = classifier().fit(X, Y)
    assert_allclose(with_constants.predict_proba(rows), without.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("classifier", CALIBRATORS)
def test_separable_data_without_a_penalty(classifier):
    easy = np.where(X[:, 0] > 0, "yes", "no")
    weights = X.copy()
    weights[:, 0] *= 10.0
    with pytest.raises(SeparableDataError, match=r"linearly separable.*no penalty.*ridge"):
        classifier(unpenalized()).fit(weights, easy)
    with pytest.raises(SeparableDataError, match="linearly separable"):
        classifier(LinearHead([50.0, 0, 0, 0, 0, 0], classes=["no", "yes"])).fit(weights, easy)
    assert classifier().fit(weights, easy).score(weights, easy) > 0.9


def test_separable_data_without_a_penalty_in_our_own_solver():
    with pytest.raises(SeparableDataError, match=r"no finite optimum.*Add a ridge penalty"):
        MEstimator("logistic", NoPenalty()).fit(X, (X[:, 0] > 0).astype(int))


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_one_class(classifier):
    with pytest.raises(ValueError, match=r"y has one class only.*two classes"):
        classifier().fit(X, np.full(60, "spam"))
    with pytest.raises(ValueError, match="y has one class only"):
        classifier().fit(X, Y, sample_weight=Y.astype(float))


@pytest.mark.parametrize(
    "classifier",
    [
        MEstimator(),
        AngularCalibratedClassifier(MEstimator()),
        ScoreCalibratedClassifier(MEstimator()),
        ScoreCalibratedClassifier(MEstimator(), scores="holdout"),
    ],
)
def test_three_classes_for_a_model_of_two(classifier):
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*multiclass"):
        classifier.fit(X, np.arange(60) % 3)


def test_options_of_score_calibration_for_two_classes():
    y = np.arange(60) % 3
    with pytest.raises(ValueError, match="polish=True is for two classes, and y has 3"):
        ScoreCalibratedClassifier(polish=True).fit(X, y)
    y[:] = 0
    y[:30], y[30] = 1, 2
    classifier = ScoreCalibratedClassifier(scores="holdout", random_state=0)
    with pytest.raises(ValueError, match=r"60 rows, 1 of one class.*all 3 classes.*scores='loo'"):
        classifier.fit(X, y)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_numbers_instead_of_classes(classifier):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier().fit(X, X[:, 0])


# --- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(60) == 5, -1.0, 1.0), "Negative values.*sample_weight"),
        (np.ones(59), r"sample_weight.shape == \(59,\)"),
        (np.full(60, np.nan), "Input sample_weight contains NaN"),
        (np.ones((60, 2)), "[Ss]ample.weights? must be 1D"),
    ],
    ids=["negative", "length", "NaN", "two columns"],
)
def test_bad_weights(classifier, weights, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_weights_that_are_all_zero(classifier):
    # scikit-learn words it from 1.8 on, we do before.
    with pytest.raises(ValueError, match=r"(?i)sample.weight.*(zero|non-zero)|rows of positive"):
        classifier().fit(X, Y, sample_weight=np.zeros(60))


@pytest.mark.parametrize("classifier", CALIBRATORS)
@pytest.mark.parametrize("piped", [False, True])
def test_weights_that_the_model_does_not_take(classifier, piped):
    model = KNeighborsClassifier()
    model = make_pipeline(StandardScaler(), model) if piped else model
    with pytest.raises(TypeError, match=r"sample_weight.*KNeighborsClassifier.fit does not take"):
        classifier(model).fit(X, Y, sample_weight=np.ones(60))


# --- the pool, the covariance, the holdout ----------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (POOL[:, :5], "pool does not fit X.*5 features.*expecting 6.*same columns as X"),
        (sparse.csr_array(POOL[:, :5]), "pool does not fit X.*5 features"),
        (POOL[:1], "pool has 1 row.*at least 2"),
        (POOL[:0], "0 sample"),
        (POOL[0], "pool does not fit X"),
        (np.full((8, 6), "a"), "could not convert string"),
    ],
    ids=["columns", "sparse columns", "one row", "no row", "one dimension", "words"],
)
def test_bad_pools(pool, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(pool=pool).fit(X, Y)
    if message.startswith("pool"):
        with pytest.raises(ValueError, match=message):
            AngularCalibratedClassifier().fit(X, Y, pool=pool)


def not_symmetric():
    matrix = np.eye(6)
    matrix[0, 1] = 0.5
    return matrix


BAD_COVARIANCES = {
    "shape": (np.eye(5), r"covariance has shape \(5, 5\), but X has 6 columns; pass a \(6, 6\)"),
    "vector": (np.ones(6), r"covariance has shape \(6,\)"),
    "asymmetric": (not_symmetric(), r"covariance is not symmetric.*\(S \+ S.T\) / 2"),
    "negative": (np.diag([1.0, 1, 1, 1, 1, -0.5]), "covariance is not positive.*eigenvalue"),
    "all negative": (-np.eye(6), "covariance is not positive.*eigenvalue"),
    "zero": (np.zeros((6, 6)), "covariance is not positive"),
    "NaN": (spoiled(np.eye(6), np.nan), "covariance contains NaN or infinite"),
}


@pytest.mark.parametrize("which", BAD_COVARIANCES)
@pytest.mark.parametrize("angle", ["auto", "observable", "loo", 0.5])
@pytest.mark.parametrize("link", [None, LINK])
def test_bad_covariances(which, angle, link):
    covariance, message = BAD_COVARIANCES[which]
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(angle=angle, link=link, covariance=covariance).fit(X, Y)


@pytest.mark.parametrize(
    ("holdout", "message"),
    [
        (X, r"sign_holdout must be a pair \(X, y\)"),
        (3, r"sign_holdout must be a pair \(X, y\)"),
        ((X, Y, Y), r"sign_holdout must be a pair \(X, y\)"),
        ((X, Y[:-1]), "sign_holdout needs one label per row.*59 labels for 60 rows"),
        ((X, Y + 5), r"sign_holdout needs.*among \[0, 1\].*unknown: \[5, 6\]"),
        ((X, np.full(60, "a")), r"sign_holdout needs.*unknown: \['a'\]"),
        ((X[:, :4], Y), "sign_holdout does not fit X.*4 features"),
    ],
    ids=["array", "number", "triple", "length", "labels", "words", "columns"],
)
def test_bad_sign_holdouts(holdout, message):
    with pytest.raises(ValueError, match=message):
        AngularCalibratedClassifier(sign_holdout=holdout).fit(X, Y)


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"angle": "observed"}, ValueError, r"angle='observed' is not a method.*'auto'.*number"),
        ({"angle": None}, ValueError, "angle=None is not a method"),
        ({"angle": [0.5]}, ValueError, r"angle=\[0.5\] is not a method"),
        ({"angle": 1.2}, ValueError, r"angle=1.2 is meant as a cosine.*\[-1, 1\]"),
        ({"angle": np.nan}, ValueError, "angle=nan is meant as a cosine"),
        ({"confidence": 0.0}, ValueError, "confidence=0.0 must lie between 0 and 1"),
        ({"confidence": 95}, ValueError, "confidence=95 must lie between 0 and 1; 0.95 means"),
        ({"confidence": "high"}, ValueError, "confidence='high' must lie between 0 and 1"),
        ({"link": "logistic"}, ValueError, "link='logistic' is not a known name.*'logit'"),
        ({"link": 3.0}, TypeError, "link=3.0 of type float is not a link.*'logit'"),
        ({"link": Logit}, TypeError, "link=Logit is a class.*instance"),
        ({"link": np.exp}, ValueError, r"exp returned .* is not a probability.*\[0, 1\]"),
        ({"link": np.tanh}, ValueError, r"tanh returned -.* is not a probability"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        AngularCalibratedClassifier(**options).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "plat"}, r"method='plat' is unknown; use one of \['beta'"),
        ({"scores": "cv"}, "scores='cv' must be 'loo' or 'holdout'"),
        ({"holdout_size": 1.5}, "holdout_size=1.5 must lie between 0 and 1"),
        ({"holdout_size": "half"}, "holdout_size='half' must lie between 0 and 1"),
    ],
    ids=str,
)
def test_bad_options_of_score_calibration(options, message):
    with pytest.raises(ValueError, match=message):
        ScoreCalibratedClassifier(**options).fit(X, Y)


def test_a_holdout_that_cannot_hold_both_classes():
    y = np.zeros(60, dtype=int)
    y[0] = 1
    classifier = ScoreCalibratedClassifier(scores="holdout", random_state=0)
    with pytest.raises(ValueError, match=r"of 60 rows, 1 of them positive.*scores='loo'"):
        classifier.fit(X, y)
    with pytest.raises(ValueError, match=r"holdout_size=0.01 of 60 rows.*scores='loo'"):
        classifier.set_params(holdout_size=0.01).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "hinge"}, ValueError, "loss='hinge' is neither one of 'logistic'"),
        ({"penalty": 0.1}, TypeError, r"penalty=0.1 is not a Penalty.*Ridge"),
        ({"penalty": Ridge}, TypeError, "is not a Penalty"),
    ],
    ids=["loss", "number", "class"],
)
def test_bad_options_of_the_m_estimator(options, error, message):
    with pytest.raises(error, match=message):
        MEstimator(**options).fit(X, Y)


def test_too_few_iterations_are_reported():
    with pytest.warns(ConvergenceWarning, match=r"KKT residual stopped at.*Raise max_iter"):
        MEstimator("exponential", Ridge(1e-6), max_iter=1, tol=1e-30).fit(X * 1e4, Y)


# --- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [RandomForestClassifier(3), SVC(), KNeighborsClassifier()])
def test_models_that_are_not_linear(model):
    name = type(model).__name__
    for classifier in (AngularCalibratedClassifier(model), ScoreCalibratedClassifier(model)):
        with pytest.raises(TypeError, match=f"Cannot read.*{name}.*LogisticRegression.*LinearHead"):
            classifier.fit(X, Y)
    for y in (Y, np.arange(60) % 3):
        with pytest.raises(TypeError, match=f"{name} has no coef_: it is not a linear classifier"):
            ScoreCalibratedClassifier(model, scores="holdout").fit(X, y)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (LinearSVC(loss="hinge"), ValueError, "LinearSVC.*hinge.*second deriv.*squared_hinge"),
        (RidgeClassifier(positive=True, solver="lbfgs"), ValueError, "positive=False"),
        (Perceptron(), TypeError, "Cannot read the problem that a Perceptron solved"),
        (
            GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
            TypeError,
            "GridSearchCV.*pass its best_estimator_",
        ),
        (LogisticRegression, TypeError, "instance"),
        ("logistic", TypeError, "clone"),
    ],
    ids=["hinge", "signs", "perceptron", "search", "class", "name"],
)
@pytest.mark.parametrize("classifier", CALIBRATORS)
def test_models_without_a_readable_objective(classifier, model, error, message):
    with pytest.raises(error, match=message):
        classifier(model).fit(X, Y)


@pytest.mark.parametrize("classifier", CALIBRATORS)
class TestModelsTrainedElsewhere:
    def test_other_classes(self, classifier):
        frozen = FrozenEstimator(LogisticRegression().fit(X, np.where(Y, "yes", "no")))
        message = r"y holds the classes \[0, 1\].*knows \['no', 'yes'\].*labels it was trained with"
        with pytest.raises(ValueError, match=message):
            classifier(frozen).fit(X, Y)

    def test_more_classes(self, classifier):
        frozen = FrozenEstimator(LogisticRegression().fit(X, np.arange(60) % 3))
        with pytest.raises(ValueError, match=r"knows \[0, 1, 2\]"):
            classifier(frozen).fit(X, Y)

    def test_bare_weights_with_other_classes(self, classifier):
        with pytest.raises(ValueError, match=r"Pass classes=\['no', 'yes'\] to LinearHead"):
            classifier(LinearHead(np.ones(6))).fit(X, np.where(Y, "yes", "no"))
        turned = LinearHead(np.ones(6), classes=["yes", "no"])
        with pytest.raises(ValueError, match="and -coef and -intercept to turn its score around"):
            classifier(turned).fit(X, np.where(Y, "yes", "no"))

    def test_not_fitted(self, classifier):
        for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                classifier(FrozenEstimator(model)).fit(X, Y)

    def test_other_columns(self, classifier):
        frozen = FrozenEstimator(LogisticRegression().fit(X[:, :4], Y))
        with pytest.raises(ValueError, match="4 coefficients but X has 6 columns"):
            classifier(frozen).fit(X, Y)
        with pytest.raises(ValueError, match="4 coefficients but X has 6 columns"):
            classifier(LinearHead(np.ones(4))).fit(X, Y)
        with pytest.raises(ValueError, match="4 coefficients but X has 6 columns"):
            ScoreCalibratedClassifier(frozen, scores="holdout").fit(X, Y)


# --- prediction -------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_predicting_before_fitting(classifier):
    for name in ("predict", "predict_proba", "decision_function"):
        if hasattr(classifier, name):
            with pytest.raises(NotFittedError, match=f"{classifier.__name__} instance is not"):
                getattr(classifier(), name)(X)


@pytest.mark.parametrize("classifier", CALIBRATORS)
@pytest.mark.parametrize("piped", [False, True])
def test_predicting_other_columns(classifier, piped):
    model = make_pipeline(StandardScaler(), LogisticRegression()) if piped else None
    fitted = classifier(model).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6 features"):
        fitted.predict_proba(X[:, :5])
    with pytest.raises(ValueError, match=r"Expected 2D array|is expecting 6 features"):
        fitted.predict_proba(X[0])


class Collection:
    """What tells a Dask collection from an array: its graph. Loading it is the failure."""

    def __init__(self, values):
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __dask_graph__(self):
        return {}

    def __array__(self, *arguments, **options):
        raise AssertionError("the collection was loaded")

    def __len__(self):
        return self.shape[0]


@pytest.mark.parametrize(
    "classifier",
    [
        AngularCalibratedClassifier(),
        AngularCalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
        AngularLogisticRegressionCV(),
        ScoreCalibratedClassifier(),
    ],
    ids=["plain", "pipeline", "path", "score"],
)
def test_dask_collections_are_refused_unread(classifier):
    data = simulate(60, 5, link=Logit(3.0), random_state=0)
    X, y = data.X, data.y
    with pytest.raises(TypeError, match=r"X is a Dask collection.*angcal\.dask.*X\.compute\(\)"):
        classifier.fit(Collection(X), y)
    with pytest.raises(TypeError, match=r"y is a Dask collection.*y\.compute\(\)"):
        classifier.fit(X, Collection(y))
    if "pool" in classifier.get_params():
        with pytest.raises(TypeError, match=r"pool is a Dask collection.*pool=lambda: \("):
            classifier.fit(X, y, pool=Collection(X))
