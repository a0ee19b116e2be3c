"""Reading a fitted model right means that its point solves the problem that was read.

The measure throughout: the KKT residual at the fitted point over that of w = 0.
"""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from angcal.arrays import softmax
from angcal.losses import HuberisedHinge, Logistic, Loss, ProbitLikelihood, Squared, SquaredHinge
from angcal.penalties import ElasticNet, NoPenalty, Ridge
from angcal.sklearn_problems import (
    LinearHead,
    Problem,
    as_loss,
    problem_of,
    read_fits,
    read_fitted,
    unwrap,
)

NAMES = np.array(["ham", "spam"])
DICT_WEIGHTS = {"ham": 0.5, "spam": 3.0}


def make_data(n=90, d=6, seed=0):
    """Overlapping, unbalanced classes, uneven feature scales and sample weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d) + 0.3
    X[rng.random((n, d)) < 0.3] = 0.0
    scores = X @ rng.normal(size=d) + 0.8
    labels = (scores + 1.5 * rng.logistic(size=n) > 0).astype(float)
    return X, labels, rng.uniform(0.2, 3.0, size=n)


X, LABELS, WEIGHTS = make_data()


def fit_and_read(model, X=X, labels=LABELS, sample_weight=None):
    y = NAMES[labels.astype(int)]
    model.fit(X, y, sample_weight=sample_weight)
    weights = np.ones(len(labels)) if sample_weight is None else sample_weight
    return read_fitted(model, X, labels, weights)


def largest(residual):
    return max(np.abs(residual[0]).max(), abs(residual[1]))


def relative_residual(fit):
    zero = fit.moved_to(np.zeros_like(fit.coef), 0.0)
    return largest(fit.kkt_residual) / largest(zero.kkt_residual)


def logistic(**options):
    return LogisticRegression(**{"C": 0.3, "tol": 1e-10, "max_iter": 100_000, **options})


def svc(**options):
    return LinearSVC(
        **{
            "C": 0.1,
            "tol": 1e-8,
            "max_iter": 1_000_000,
            "dual": False,
            "random_state": 0,
            **options,
        }
    )


def sgd(**options):
    defaults = {
        "loss": "log_loss",
        "alpha": 0.05,
        # Robbins-Monro steps and no stopping rule: both default rules stop far too early here.
        "learning_rate": "invscaling",
        "eta0": 0.5,
        "power_t": 0.7,
        "tol": None,
        "max_iter": 3_000,
        "random_state": 0,
    }
    return SGDClassifier(**{**defaults, **options})


MODELS = {
    "lbfgs": (logistic, {}, 1e-6),
    "newton-cholesky": (logistic, {"solver": "newton-cholesky"}, 1e-8),
    "newton-cg": (logistic, {"solver": "newton-cg"}, 1e-6),
    "sag": (logistic, {"solver": "sag"}, 1e-6),
    "saga": (logistic, {"solver": "saga"}, 1e-6),
    "liblinear": (logistic, {"solver": "liblinear"}, 1e-6),
    "liblinear-scaled": (logistic, {"solver": "liblinear", "intercept_scaling": 3.0}, 1e-6),
    "ridge": (RidgeClassifier, {"alpha": 4.0, "solver": "lsqr", "tol": 1e-12}, 1e-8),
    "linear-svc": (svc, {}, 1e-6),
    "linear-svc-scaled": (svc, {"intercept_scaling": 2.5}, 1e-6),
    "linear-svc-dual": (svc, {"dual": True}, 1e-6),
    "sgd": (sgd, {}, 3e-3),
}


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("name", MODELS)
def test_plain_fits_solve_the_problem_read(name, container):
    build, options, tol = MODELS[name]
    if name == "sgd" and container is not np.asarray:
        # On sparse rows SGD gives the intercept a hundredth of the step; it needs far longer.
        options = {"learning_rate": "constant", "eta0": 1e-3, "max_iter": 50_000}
    assert relative_residual(fit_and_read(build(**options), container(X))) < tol


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, DICT_WEIGHTS, {"spam": 4.0}, "balanced"])
@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_and_intercepts(name, sample_weight, class_weight, fit_intercept):
    build, options, tol = MODELS[name]
    model = build(**options, class_weight=class_weight, fit_intercept=fit_intercept)
    fit = fit_and_read(model, sample_weight=sample_weight)
    assert fit.fit_intercept is fit_intercept
    assert relative_residual(fit) < tol


@pytest.mark.parametrize("name", MODELS)
def test_a_wrong_strength_or_weight_would_show(name):
    build, options, tol = MODELS[name]
    model = build(**options, class_weight="balanced")
    fit_and_read(model, sample_weight=WEIGHTS)
    name_of_strength = "C" if "C" in model.get_params() else "alpha"
    setattr(model, name_of_strength, 1.2 * getattr(model, name_of_strength))
    wrong_strength = read_fitted(model, X, LABELS, WEIGHTS)
    assert relative_residual(wrong_strength) > max(1e-3, 3 * tol)
    setattr(model, name_of_strength, getattr(model, name_of_strength) / 1.2)
    model.class_weight = None
    assert relative_residual(read_fitted(model, X, LABELS, WEIGHTS)) > 1e-2


def test_the_intercept_scaling_would_show():
    model = logistic(solver="liblinear", intercept_scaling=0.5)
    assert fit_and_read(model).intercept_strength == pytest.approx(1 / (len(X) * 0.3 * 0.25))
    model.intercept_scaling = 1.0
    assert relative_residual(read_fitted(model, X, LABELS, np.ones(len(X)))) > 1e-2


@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
def test_saga_elastic_net(l1_ratio, sample_weight):
    model = logistic(solver="saga", penalty="elasticnet", l1_ratio=l1_ratio, C=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        fit = fit_and_read(model, sample_weight=sample_weight)
    assert fit.penalty.l1 == pytest.approx(l1_ratio / (fit.total_weight * 0.1))
    assert relative_residual(fit) < 1e-6


def takes_penalty_by_l1_ratio():
    return LogisticRegression().get_params().get("penalty", "deprecated") == "deprecated"


@pytest.mark.skipif(not takes_penalty_by_l1_ratio(), reason="scikit-learn < 1.8")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"l1_ratio": 0.0}, Ridge),
        ({"l1_ratio": 0.5, "solver": "saga"}, ElasticNet),
        ({"l1_ratio": 1.0, "solver": "saga"}, ElasticNet),
        ({"l1_ratio": 1.0, "solver": "liblinear", "fit_intercept": False}, ElasticNet),
        ({"C": np.inf}, NoPenalty),
    ],
)
@pytest.mark.filterwarnings("ignore:Setting penalty=None:UserWarning")  # 1.8.0 warns at C=inf
def test_new_penalty_spelling(options, expected):
    fit = fit_and_read(logistic(**options))
    assert isinstance(fit.penalty, expected)
    assert relative_residual(fit) < 1e-6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"penalty": "l2"}, Ridge),
        ({"penalty": "l1", "solver": "saga"}, ElasticNet),
        ({"penalty": "l1", "solver": "liblinear", "fit_intercept": False}, ElasticNet),
        ({"penalty": "elasticnet", "l1_ratio": 0.3, "solver": "saga"}, ElasticNet),
        ({"penalty": None, "C": 1.0}, NoPenalty),
    ],
)
@pytest.mark.filterwarnings("ignore:'penalty' was deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:Inconsistent values:UserWarning")
def test_old_penalty_spelling(options, expected):
    fit = fit_and_read(logistic(**options))
    assert isinstance(fit.penalty, expected)
    assert relative_residual(fit) < 1e-6


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:Inconsistent values:UserWarning")
def test_liblinear_l1_intercept_is_refused():
    with pytest.raises(ValueError, match=r"intercept too.*fit_intercept=False"):
        fit_and_read(logistic(penalty="l1", solver="liblinear"))
    with pytest.raises(ValueError, match="intercept too"):
        fit_and_read(svc(penalty="l1"))


def test_linear_svc_l1():
    fit = fit_and_read(svc(penalty="l1", fit_intercept=False, C=0.02))
    assert fit.penalty.l1 == pytest.approx(1 / (len(X) * 0.02))
    assert 0 < np.count_nonzero(fit.coef) < len(fit.coef)
    assert relative_residual(fit) < 1e-5


@pytest.mark.filterwarnings("ignore::FutureWarning")
class TestLogisticRegressionCV:
    Cs = (0.05, 0.5)

    def build(self, **options):
        defaults = {"Cs": self.Cs, "cv": 3, "tol": 1e-10, "max_iter": 100_000}
        return LogisticRegressionCV(**{**defaults, **options})

    @pytest.mark.parametrize("class_weight", [None, DICT_WEIGHTS, "balanced"])
    @pytest.mark.parametrize("solver", ["lbfgs", "liblinear"])
    def test_chosen_strength(self, solver, class_weight):
        fit = fit_and_read(
            self.build(solver=solver, class_weight=class_weight), sample_weight=WEIGHTS
        )
        assert np.isclose(self.Cs, 1 / (fit.penalty.strength * fit.total_weight)).any()
        assert relative_residual(fit) < 1e-6

    def test_refit_drops_intercept_scaling(self):
        fit = fit_and_read(self.build(solver="liblinear", intercept_scaling=3.0))
        assert fit.intercept_strength == fit.penalty.strength
        assert relative_residual(fit) < 1e-6

    def test_chosen_l1_ratio(self):
        model = self.build(solver="saga", penalty="elasticnet", l1_ratios=[0.5, 1.0])
        fit = fit_and_read(model)
        assert fit.penalty.l1_ratio in (0.5, 1.0)
        assert relative_residual(fit) < 1e-6

    @pytest.mark.skipif(not takes_penalty_by_l1_ratio(), reason="scikit-learn < 1.8")
    @pytest.mark.parametrize("use_legacy_attributes", [True, False])
    def test_both_attribute_shapes(self, use_legacy_attributes):
        options = {"l1_ratios": (1.0,), "use_legacy_attributes": use_legacy_attributes}
        fit = fit_and_read(self.build(solver="saga", **options))
        assert fit.penalty.l1_ratio == 1.0
        assert relative_residual(fit) < 1e-6

    def test_averaged_folds_are_refused(self):
        with pytest.raises(ValueError, match="refit=True"):
            fit_and_read(self.build(refit=False))

    def test_unfitted(self):
        with pytest.raises(NotFittedError, match="LogisticRegressionCV is not fitted"):
            read_fitted(self.build(), X, LABELS, np.ones(len(X)))


@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("class_weight", [None, DICT_WEIGHTS, "balanced"])
@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_ridge_classifier_cv(container, cv, class_weight, sample_weight):
    model = RidgeClassifierCV(alphas=[0.5, 5.0], cv=cv, class_weight=class_weight)
    fit = fit_and_read(model, container(X), sample_weight=sample_weight)
    assert isinstance(fit.loss, Squared)
    # scikit-learn solves sparse problems with an iterative solver at its default tolerance.
    assert relative_residual(fit) < (1e-8 if container is np.asarray else 1e-3)


@pytest.mark.parametrize("solver", ["svd", "cholesky", "sparse_cg", "sag"])
def test_ridge_solvers(solver):
    fit = fit_and_read(RidgeClassifier(alpha=2.0, solver=solver, tol=1e-12, max_iter=100_000))
    assert fit.penalty == Ridge(2.0 / len(X))
    assert relative_residual(fit) < 1e-6


def test_ridge_without_penalty_is_no_penalty():
    assert fit_and_read(RidgeClassifier(alpha=0.0)).penalty == NoPenalty()


def test_positive_ridge_is_refused():
    with pytest.raises(ValueError, match="positive=False"):
        fit_and_read(RidgeClassifier(positive=True))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("log_loss", Logistic()),
        ("squared_hinge", SquaredHinge()),
        ("modified_huber", HuberisedHinge(delta=2, scale=4)),
        ("squared_error", Squared()),
    ],
)
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", None])
def test_sgd_losses_and_penalties(loss, expected, penalty):
    # SGD remembers every ℓ₁ step it has taken, so coordinates are slow to leave zero.
    epochs = 30_000 if penalty in ("l1", "elasticnet") else 3_000
    model = sgd(
        loss=loss, penalty=penalty, l1_ratio=0.4, class_weight=DICT_WEIGHTS, max_iter=epochs
    )
    fit = fit_and_read(model, sample_weight=WEIGHTS)
    assert fit.loss == expected
    assert relative_residual(fit) < 3e-3


def test_averaged_sgd():
    model = sgd(learning_rate="optimal", average=10_000)
    assert relative_residual(fit_and_read(model, sample_weight=WEIGHTS)) < 1e-2


def test_sgd_strength_counts_rows():
    fit = fit_and_read(sgd(max_iter=5), sample_weight=WEIGHTS)
    assert fit.penalty.strength == pytest.approx(0.05 * len(X) / WEIGHTS.sum())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "no second derivative"),
        ({"loss": "perceptron"}, "no second derivative"),
        ({"loss": "huber"}, "regression loss"),
        ({"loss": "epsilon_insensitive"}, "regression loss"),
        ({"loss": "squared_epsilon_insensitive"}, "Readable losses are 'log_loss'"),
        ({"early_stopping": True}, "early_stopping=False"),
    ],
)
def test_sgd_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        problem_of(SGDClassifier(**{"loss": "log_loss", **options}))


def test_passive_aggressive_steps_are_refused():
    with pytest.raises(ValueError, match="passive-aggressive"):
        problem_of(sgd(learning_rate="pa1"))


def test_linear_svc_refusals():
    with pytest.raises(ValueError, match=r"no second derivative.*squared_hinge"):
        fit_and_read(svc(loss="hinge", dual=True))
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        fit_and_read(svc(multi_class="crammer_singer"))


def test_multinomial_binary_is_refused():
    model = LogisticRegression()
    model.multi_class = "multinomial"  # a parameter before scikit-learn 1.8
    with pytest.raises(ValueError, match="leave multi_class"):
        problem_of(model)


@pytest.mark.parametrize("model", [RidgeClassifier(), LinearSVC()])
def test_one_vs_rest_heads_are_read_one_by_one(model):
    y = np.arange(len(X)) % 3
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"3 classes.*binary"):
        read_fitted(model, X, (y == 1).astype(float), np.ones(len(X)))
    heads = read_fits(model, X, y.astype(float), np.ones(len(X)))
    assert [fit.coef.tolist() for fit in heads] == model.coef_.tolist()


def test_a_joint_fit_is_read_as_one():
    y = np.arange(len(X)) % 3
    model = LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y)
    (fit,) = read_fits(model, X, y.astype(float), np.ones(len(X)))
    assert fit.coef.shape == (3, X.shape[1])
    assert fit.distance_to_optimum < 1e-6
    p = softmax(fit.scores)
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-6)


def test_unfitted_and_mismatched_columns():
    with pytest.raises(NotFittedError, match="call fit first"):
        read_fitted(LogisticRegression(), X, LABELS, np.ones(len(X)))
    with pytest.raises(NotFittedError, match="call fit first"):
        read_fitted(RidgeClassifierCV(), X, LABELS, np.ones(len(X)))
    model = LogisticRegression().fit(X, LABELS)
    with pytest.raises(ValueError, match="6 coefficients but X has 5 columns"):
        read_fitted(model, X[:, :5], LABELS, np.ones(len(X)))


def test_unsupported_types_name_the_way_out():
    forest = RandomForestClassifier(n_estimators=2).fit(X, LABELS)
    with pytest.raises(TypeError) as caught:
        read_fitted(forest, X, LABELS, np.ones(len(X)))
    for part in (
        "RandomForestClassifier",
        "LogisticRegression",
        "SGDClassifier",
        "LinearHead(coef",
    ):
        assert part in str(caught.value)
    with pytest.raises(TypeError, match="Perceptron"):
        problem_of(Perceptron())
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, LABELS)
    with pytest.raises(TypeError, match="pass its best_estimator_"):
        problem_of(search)


def test_float32_and_sparsified_coefficients():
    model = LogisticRegression().fit(X.astype(np.float32), LABELS)
    model.coef_ = model.coef_.astype(np.float32)  # which lbfgs returns since scikit-learn 1.8
    fit = read_fitted(model, X.astype(np.float32), LABELS, np.ones(len(X)))
    assert fit.coef.dtype == np.float64
    model.sparsify()
    again = read_fitted(model, X, LABELS, np.ones(len(X)))
    np.testing.assert_array_equal(again.coef, fit.coef)


def test_reading_copies_the_coefficients():
    model = LogisticRegression().fit(X, LABELS)
    fit = read_fitted(model, X, LABELS, np.ones(len(X)))
    model.coef_[:] = 0.0
    assert np.all(fit.coef != 0)


def test_unwrap_splits_and_thaws():
    scaler, model = StandardScaler(), LogisticRegression().fit(X, LABELS)
    assert unwrap(model) == (None, model)
    assert unwrap(FrozenEstimator(FrozenEstimator(model))) == (None, model)
    assert unwrap(make_pipeline(model)) == (None, model)
    assert unwrap(Pipeline([("a", "passthrough"), ("b", None), ("m", model)])) == (None, model)
    pipeline = make_pipeline(scaler, FrozenEstimator(model)).fit(X, LABELS)
    transformer, last = unwrap(FrozenEstimator(pipeline))
    assert last is model
    np.testing.assert_array_equal(transformer.transform(X), scaler.transform(X))


def test_unwrap_flattens_nested_pipelines():
    model = LogisticRegression()
    inner = make_pipeline(FunctionTransformer(np.tanh), model)
    outer = make_pipeline(StandardScaler(), inner).fit(X, LABELS)
    transformer, last = unwrap(outer)
    assert last is model
    np.testing.assert_allclose(
        last.decision_function(transformer.transform(X)), outer.decision_function(X)
    )
    passing = Pipeline([("nothing", "passthrough"), ("inner", inner)])
    assert len(unwrap(passing)[0].steps) == 1


class TestLinearHead:
    def test_reads_like_the_model_it_came_from(self):
        model = logistic().fit(X, LABELS)
        penalty = Ridge(1 / (0.3 * len(X)))
        head = LinearHead(model.coef_, model.intercept_, "logistic", penalty)
        fit = read_fitted(head, X, LABELS, np.ones(len(X)))
        assert fit.fit_intercept
        assert relative_residual(fit) < 1e-6
        np.testing.assert_allclose(head.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(head.classes_, [0, 1])

    def test_without_an_intercept(self):
        fit = read_fitted(LinearHead(np.ones(6), None), X, LABELS, np.ones(len(X)))
        assert fit.intercept == 0.0
        assert not fit.fit_intercept
        assert fit.penalty == NoPenalty()

    def test_normalizes(self):
        head = LinearHead(np.ones((1, 3), dtype=np.float32), loss="probit", classes=["a", "b"])
        assert head.coef.shape == (3,)
        assert head.coef.dtype == np.float64
        assert head.loss == ProbitLikelihood()
        assert list(head.classes_) == ["a", "b"]

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"coef": np.ones((2, 3))}, ValueError, r"coef has shape \(2, 3\)"),
            ({"coef": 1.0}, ValueError, r"coef has shape \(\)"),
            ({"coef": []}, ValueError, r"coef has shape \(0,\)"),
            ({"coef": [1.0, np.nan]}, ValueError, "coef contains NaN"),
            ({"coef": [1.0], "intercept": np.inf}, ValueError, "intercept=inf must be finite"),
            ({"coef": [1.0], "intercept": [1, 2]}, ValueError, "intercept has 2 entries"),
            ({"coef": [1.0], "loss": "hinge"}, ValueError, "loss='hinge' is neither.*'logistic'"),
            ({"coef": [1.0], "loss": Logistic}, TypeError, "nor an instance"),
            ({"coef": [1.0], "penalty": 0.1}, TypeError, r"penalty=0.1 is not a Penalty"),
            ({"coef": [1.0], "classes": ["a"]}, ValueError, "two different labels"),
            ({"coef": [1.0], "classes": [1, 1]}, ValueError, "two different labels"),
        ],
    )
    def test_errors(self, arguments, error, message):
        with pytest.raises(error, match=message):
            LinearHead(**arguments)

    def test_wrong_number_of_columns(self):
        with pytest.raises(ValueError, match="LinearHead has 4 coefficients but X has 6 columns"):
            read_fitted(LinearHead(np.ones(4)), X, LABELS, np.ones(len(X)))


@pytest.mark.parametrize(
    "name",
    ["logistic", "probit", "squared", "squared_hinge", "huberised_hinge", "exponential"],
)
def test_as_loss_by_name(name):
    assert isinstance(as_loss(name), Loss)
    assert as_loss(as_loss(name)) is as_loss(name)


def test_registering_your_own_type():
    class Mine(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            model = logistic().fit(X, y)
            self.coef_, self.intercept_ = model.coef_, model.intercept_
            self.classes_ = model.classes_
            return self

    @problem_of.register(Mine)
    def mine(estimator):
        return Problem(Logistic(), Ridge(1 / (0.3 * len(X))))

    class Child(Mine):
        pass

    for model in (Mine(), Child()):
        fit = read_fitted(model.fit(X, LABELS), X, LABELS, np.ones(len(X)))
        assert fit.fit_intercept
        assert fit.intercept_strength == 0.0
        assert relative_residual(fit) < 1e-6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_that_are_no_numbers_are_refused(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % n_classes
    model = LogisticRegression().fit(X, y)
    model.coef_[0, 1] = np.nan
    with pytest.raises(ValueError, match="coef_ contains NaN"):
        read_fitted(model, X, y.astype(float), np.ones(60))
