"""The solver against optimality conditions, scikit-learn and closed forms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.svm import LinearSVC

from angcal.losses import (
    Exponential,
    HuberisedHinge,
    Logistic,
    Loss,
    ProbitLikelihood,
    Squared,
    SquaredHinge,
)
from angcal.penalties import (
    ElasticNet,
    Lasso,
    NoPenalty,
    Penalty,
    PseudoHuber,
    Quadratic,
    Ridge,
)
from angcal.problem import LinearFit, SeparableDataError, check_separable
from angcal.solvers.minimize import minimize

LOSSES = [
    Logistic(),
    ProbitLikelihood(),
    Squared(),
    SquaredHinge(),
    HuberisedHinge(),
    Exponential(),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
PENALTIES = ["none", "ridge", "quadratic", "elastic net", "lasso", "pseudo-Huber"]


def penalty_of(kind: str, d: int, strength: float = 0.05) -> Penalty:
    if kind == "quadratic":
        bands = [np.full(d - 1, -0.4), np.linspace(0.8, 2.0, d), np.full(d - 1, -0.4)]
        return Quadratic(strength * sparse.diags_array(bands, offsets=[-1, 0, 1]).toarray())
    return {
        "none": NoPenalty(),
        "ridge": Ridge(strength),
        "elastic net": ElasticNet(strength, 0.5),
        "lasso": Lasso(strength),
        "pseudo-Huber": PseudoHuber(strength, delta=0.3),
    }[kind]


def problem(
    n: int,
    d: int,
    loss: Loss,
    penalty: Penalty,
    *,
    fit_intercept: bool = True,
    weighted: bool = True,
    scarce: bool = False,
    seed: int = 0,
    intercept_strength: float = 0.0,
) -> LinearFit:
    """Noisy labels, so that tall data are not separable; start at zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if scarce:
        X[rng.random(X.shape) < 0.5] = 0.0
    signal = X @ rng.normal(size=d) / np.sqrt(d) + 0.4
    labels = (signal + 1.5 * rng.normal(size=n) > 0).astype(float)
    weights = rng.uniform(0.3, 3.0, size=n) if weighted else np.ones(n)
    matrix = sparse.csr_array(X) if scarce else X
    return LinearFit(
        matrix,
        labels,
        weights,
        np.zeros(d),
        0.0,
        loss,
        penalty,
        fit_intercept,
        intercept_strength,
    )


def smooth_gradient(fit: LinearFit) -> tuple[np.ndarray, float]:
    """∇ of the smooth part of J, written out from the printed objective."""
    X = fit.X.toarray() if sparse.issparse(fit.X) else fit.X
    u = X @ fit.coef + fit.intercept
    slopes = fit.weights * fit.loss.gradient(u, fit.labels) / fit.weights.sum()
    gradient = X.T @ slopes + fit.penalty.gradient(fit.coef)
    return gradient, float(slopes.sum() + fit.intercept_strength * fit.intercept)


def relative_kkt(fit: LinearFit) -> float:
    """Largest violation of the optimality conditions, relative to the slope at w = 0."""
    gradient, intercept = smooth_gradient(fit)
    l1, w = fit.penalty.l1, fit.coef
    violation = np.where(
        w != 0, np.abs(gradient + l1 * np.sign(w)), np.maximum(np.abs(gradient) - l1, 0.0)
    )
    start, start_intercept = smooth_gradient(replace(fit, coef=np.zeros_like(w), intercept=0.0))
    scale = max(np.abs(start).max(), abs(start_intercept) * fit.fit_intercept)
    return max(violation.max(), abs(intercept) * fit.fit_intercept) / scale


# ------------------------------------------------------------------ optimality


@every_loss
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("shape", [(90, 8), (40, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimality_conditions_hold_for_every_loss_and_penalty(
    loss: Loss, kind: str, shape: tuple[int, int], fit_intercept: bool
) -> None:
    n, d = shape
    if kind == "none" and n < d:
        pytest.skip("the data are separable: no unpenalized optimum, or no unique one")
    start = problem(n, d, loss, penalty_of(kind, d), fit_intercept=fit_intercept)
    fit = minimize(start)
    assert relative_kkt(fit) <= 1e-7
    assert fit.objective < start.objective
    assert fit.distance_to_optimum <= 1e-5
    assert (fit.intercept != 0.0) == fit_intercept


@every_loss
@pytest.mark.parametrize("kind", ["ridge", "quadratic", "elastic net", "pseudo-Huber"])
def test_optimality_conditions_hold_for_sparse_data_and_a_penalized_intercept(
    loss: Loss, kind: str
) -> None:
    for n, d in [(90, 8), (40, 60)]:
        start = problem(n, d, loss, penalty_of(kind, d), scarce=True, intercept_strength=0.2)
        sparse_fit = minimize(start)
        assert relative_kkt(sparse_fit) <= 1e-7
        dense_fit = minimize(replace(start, X=start.X.toarray()))
        np.testing.assert_allclose(sparse_fit.scores, dense_fit.scores, atol=1e-6)


@pytest.mark.parametrize("kind", ["elastic net", "lasso"])
def test_l1_zeros_are_exact_and_an_overwhelming_l1_gives_the_null_model(kind: str) -> None:
    fit = minimize(problem(90, 20, Logistic(), penalty_of(kind, 20, 0.15)))
    assert 0 < np.count_nonzero(fit.coef) < 20
    null = minimize(problem(90, 20, Logistic(), penalty_of(kind, 20, 50.0)))
    np.testing.assert_array_equal(null.coef, np.zeros(20))
    share = null.weights @ null.labels / null.weights.sum()
    assert null.intercept == pytest.approx(np.log(share / (1 - share)), abs=1e-7)


# ------------------------------------------------------------------ agreement with others


@every_loss
@pytest.mark.parametrize("kind", ["ridge", "elastic net", "pseudo-Huber"])
def test_no_random_direction_lowers_the_objective(loss: Loss, kind: str) -> None:
    fit = minimize(problem(60, 10, loss, penalty_of(kind, 10)))
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            moved = fit.moved_to(
                fit.coef + size * rng.normal(size=10), fit.intercept + size * rng.normal()
            )
            assert moved.objective > fit.objective - 1e-14


@pytest.mark.parametrize("shape", [(120, 10), (50, 80)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_agrees_with_sklearn_logistic_regression(
    shape: tuple[int, int], fit_intercept: bool, C: float
) -> None:
    n, d = shape
    start = problem(n, d, Logistic(), Ridge(1.0), fit_intercept=fit_intercept)
    # sklearn's sum-loss objective: strength = 1/(N·C), N the total weight.
    fit = minimize(replace(start, penalty=Ridge(1.0 / (start.weights.sum() * C))))
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=5000)
    model.fit(start.X, start.labels, sample_weight=start.weights)
    np.testing.assert_allclose(fit.scores, model.decision_function(start.X), atol=1e-5)


def test_agrees_with_sklearn_l1_logistic_regression() -> None:
    start = problem(120, 30, Logistic(), Lasso(1.0), fit_intercept=False, weighted=False)
    fit = minimize(replace(start, penalty=Lasso(1.0 / (120 * 0.3))))
    # scikit-learn takes the kind of penalty by name before 1.8, and warns about that since.
    by_name = LogisticRegression().get_params().get("penalty", "deprecated") != "deprecated"
    model = LogisticRegression(
        **({"penalty": "l1"} if by_name else {"l1_ratio": 1.0}),
        C=0.3,
        solver="liblinear",
        fit_intercept=False,
        tol=1e-10,
        max_iter=10_000,
    )
    model.fit(start.X, start.labels)
    np.testing.assert_array_equal(fit.coef != 0, model.coef_[0] != 0)
    np.testing.assert_allclose(fit.coef, model.coef_[0], atol=1e-6)


@pytest.mark.parametrize("shape", [(120, 10), (50, 80)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_agrees_with_sklearn_ridge_on_signed_labels(
    shape: tuple[int, int], fit_intercept: bool
) -> None:
    n, d = shape
    start = problem(n, d, Squared(), Ridge(1.0), fit_intercept=fit_intercept)
    alpha = 3.0
    fit = minimize(replace(start, penalty=Ridge(alpha / start.weights.sum())))
    model = SklearnRidge(alpha=alpha, fit_intercept=fit_intercept, solver="cholesky")
    model.fit(start.X, 2 * start.labels - 1, sample_weight=start.weights)
    np.testing.assert_allclose(fit.coef, model.coef_, atol=1e-7)
    assert fit.intercept == pytest.approx(model.intercept_, abs=1e-7)


def test_agrees_with_sklearn_linear_svc_and_its_penalized_intercept() -> None:
    start = problem(120, 10, SquaredHinge(), Ridge(1.0), weighted=False)
    strength = 1.0 / (120 * 0.5)
    fit = minimize(replace(start, penalty=Ridge(strength), intercept_strength=strength))
    model = LinearSVC(C=0.5, dual=False, tol=1e-12, max_iter=100_000)
    model.fit(start.X, start.labels)
    np.testing.assert_allclose(fit.coef, model.coef_[0], atol=1e-6)
    assert fit.intercept == pytest.approx(model.intercept_[0], abs=1e-6)


# ------------------------------------------------------------------ weights and invariances


@every_loss
@pytest.mark.parametrize("kind", ["ridge", "elastic net"])
def test_integer_weights_equal_repeated_rows(loss: Loss, kind: str) -> None:
    start = problem(60, 10, loss, penalty_of(kind, 10))
    counts = np.random.default_rng(3).integers(1, 4, size=60)
    rows = np.repeat(np.arange(60), counts)
    weighted = minimize(replace(start, weights=counts.astype(float)))
    repeated = minimize(
        replace(start, X=start.X[rows], labels=start.labels[rows], weights=np.ones(len(rows)))
    )
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-6)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-10)
    assert weighted.distance_to_optimum < 1e-5


def test_multiplying_all_weights_changes_nothing() -> None:
    start = problem(60, 10, Logistic(), Ridge(0.1))
    fit, scaled = minimize(start), minimize(replace(start, weights=1e3 * start.weights))
    np.testing.assert_allclose(scaled.coef, fit.coef, atol=1e-7)


@every_loss
def test_swapping_the_labels_flips_the_fit(loss: Loss) -> None:
    start = problem(60, 10, loss, Ridge(0.1))
    fit, flipped = minimize(start), minimize(replace(start, labels=1.0 - start.labels))
    np.testing.assert_allclose(flipped.scores, -fit.scores, atol=1e-6)


# ------------------------------------------------------------------ restarts


@every_loss
@pytest.mark.parametrize("kind", ["ridge", "quadratic", "elastic net", "lasso", "pseudo-Huber"])
@pytest.mark.parametrize("shape", [(90, 8), (40, 60)], ids=["tall", "wide"])
def test_polish_from_a_perturbed_start_returns_to_the_same_optimum(
    loss: Loss, kind: str, shape: tuple[int, int]
) -> None:
    n, d = shape
    fit = minimize(problem(n, d, loss, penalty_of(kind, d)))
    rng = np.random.default_rng(2)
    shaken = fit.moved_to(fit.coef + 0.1 * rng.normal(size=d), fit.intercept + 0.3)
    again = minimize(shaken)
    assert relative_kkt(again) <= 1e-7
    assert again.objective == pytest.approx(fit.objective, rel=1e-11)
    np.testing.assert_allclose(again.scores, fit.scores, atol=1e-5 * np.std(fit.scores))


def test_an_optimal_start_is_returned_untouched() -> None:
    fit = minimize(problem(60, 10, Logistic(), Ridge(0.1)))
    assert minimize(fit) is fit


@every_loss
@pytest.mark.parametrize(
    "scale",
    [1e-8, 1e-6, 1e-2, 1e3, 1e6],
)
def test_badly_scaled_data_are_solved_without_a_warning(loss: Loss, scale: float) -> None:
    start = problem(60, 10, loss, Ridge(0.1))
    plain = minimize(start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = minimize(replace(start, X=scale * start.X, penalty=Ridge(0.1 * scale**2)))
    np.testing.assert_allclose(scaled.scores, plain.scores, atol=1e-5 * np.std(plain.scores))


# ------------------------------------------------------------------ distance to the optimum


@pytest.mark.parametrize("shape", [(90, 8), (40, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_distance_is_the_exact_score_move_for_squared_loss_with_ridge(
    shape: tuple[int, int], fit_intercept: bool
) -> None:
    n, d = shape
    best = minimize(problem(n, d, Squared(), Ridge(0.1), fit_intercept=fit_intercept))
    rng = np.random.default_rng(4)
    for size in (1e-4, 1.0, 100.0):
        away = best.moved_to(
            best.coef + size * rng.normal(size=d), best.intercept + size * fit_intercept
        )
        moved = np.sqrt(np.mean((away.scores - best.scores) ** 2)) / np.std(away.scores)
        assert away.distance_to_optimum == pytest.approx(moved, rel=1e-4 if size < 1 else 1e-6)


@every_loss
@pytest.mark.parametrize("kind", ["ridge", "pseudo-Huber", "elastic net"])
def test_distance_is_near_zero_at_the_optimum_and_grows_away_from_it(loss: Loss, kind: str) -> None:
    best = minimize(problem(90, 8, loss, penalty_of(kind, 8)))
    direction = np.where(best.coef != 0, np.random.default_rng(5).normal(size=8), 0.0)
    path = [best.moved_to(best.coef + t * direction, best.intercept) for t in (1e-3, 1e-2, 0.1)]
    distances = [best.distance_to_optimum] + [fit.distance_to_optimum for fit in path]
    assert distances[0] <= 1e-5
    assert distances == sorted(distances)
    actual = np.sqrt(np.mean((path[0].scores - best.scores) ** 2)) / np.std(path[0].scores)
    assert distances[1] == pytest.approx(actual, rel=0.1)


def test_distance_notices_a_lasso_support_that_is_too_small() -> None:
    best = minimize(problem(90, 8, Logistic(), Lasso(0.02)))
    # Drop the largest coefficient and solve on the rest: optimal there, but not in full.
    largest = int(np.argmax(np.abs(best.coef)))
    kept = np.arange(8) != largest
    partial = minimize(replace(best, X=best.X[:, kept], coef=best.coef[kept]))
    coef = np.zeros(8)
    coef[kept] = partial.coef
    assert best.moved_to(coef, partial.intercept).distance_to_optimum > 0.1


def test_distance_of_the_null_model_is_zero_only_if_it_is_optimal() -> None:
    start = problem(90, 8, Logistic(), Lasso(0.02), fit_intercept=False)
    assert start.distance_to_optimum > 0.1
    assert replace(start, penalty=Lasso(50.0)).distance_to_optimum == 0.0


# ------------------------------------------------------------------ derived quantities


def test_fit_quantities_equal_their_printed_formulas() -> None:
    fit = minimize(problem(60, 10, Logistic(), ElasticNet(0.1, 0.5), intercept_strength=0.3))
    u = fit.X @ fit.coef + fit.intercept
    np.testing.assert_allclose(fit.scores, u, rtol=1e-13)
    p = 1 / (1 + np.exp(-u))
    np.testing.assert_allclose(fit.residuals, fit.weights * (fit.labels - p), atol=1e-13)
    np.testing.assert_allclose(fit.curvatures, fit.weights * p * (1 - p), atol=1e-13)
    loss = -np.sum(fit.weights * np.log(np.where(fit.labels == 1, p, 1 - p))) / fit.weights.sum()
    penalty = 0.1 * (0.5 * np.abs(fit.coef).sum() + 0.25 * np.sum(fit.coef**2))
    assert fit.objective == pytest.approx(loss + penalty + 0.15 * fit.intercept**2, rel=1e-12)
    assert fit.shape == (60, 10)


# ------------------------------------------------------------------ separability


def separable(loss: Loss, penalty: Penalty) -> LinearFit:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 3))
    labels = (X[:, 0] > 0).astype(float)
    X[:, 0] += np.where(labels == 1, 0.5, -0.5)
    coef = np.array([5.0, 0.0, 0.0])
    return LinearFit(X, labels, np.ones(40), coef, 0.0, loss, penalty, True)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not isinstance(loss, Squared)])
@pytest.mark.parametrize(
    "penalty",
    [NoPenalty(), Ridge(0.0), PseudoHuber(0.0), ElasticNet(0.0), Quadratic(np.zeros((3, 3)))],
)
def test_separated_classes_without_a_penalty_are_refused(loss: Loss, penalty: Penalty) -> None:
    with pytest.raises(SeparableDataError, match="linearly separable"):
        check_separable(separable(loss, penalty))


@every_loss
@pytest.mark.parametrize(
    "penalty", [Ridge(1e-6), Lasso(1e-6), PseudoHuber(1e-6), Quadratic(np.diag([1.0, 0.0, 0.0]))]
)
def test_any_penalty_makes_separated_classes_acceptable(loss: Loss, penalty: Penalty) -> None:
    check_separable(separable(loss, penalty))


def test_squared_loss_has_an_optimum_on_separated_classes() -> None:
    fit = minimize(separable(Squared(), NoPenalty()))
    check_separable(fit)
    assert relative_kkt(fit) <= 1e-7


@every_loss
def test_overlapping_classes_without_a_penalty_are_accepted(loss: Loss) -> None:
    check_separable(minimize(problem(90, 8, loss, NoPenalty())))


# ------------------------------------------------------------------ bring your own


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """A user's loss: the softplus of 1 − t·u at temperature ½."""

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return 0.5 * np.logaddexp(0.0, 2.0 * (1.0 - (2 * labels - 1) * scores))

    def gradient(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        t = 2 * labels - 1
        return -t / (1.0 + np.exp(-2.0 * (1.0 - t * scores)))

    def hessian(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        p = np.abs(self.gradient(scores, labels))
        return 2.0 * p * (1.0 - p)


@dataclass(frozen=True)
class Quartic(Penalty):
    """A user's penalty: Σ (a w² / 2 + w⁴ / 4)·s, with an optional ℓ₁ part."""

    strength: float
    sparsity: float = 0.0

    def value(self, coef: np.ndarray) -> float:
        return self.strength * float(np.sum(0.05 * coef**2 + 0.25 * coef**4))

    def gradient(self, coef: np.ndarray) -> np.ndarray:
        return self.strength * (0.1 * coef + coef**3)

    def curvature(self, coef: np.ndarray) -> Any:
        return self.strength * (0.1 + 3.0 * coef**2)

    @property
    def l1(self) -> float:
        return self.sparsity


@pytest.mark.parametrize("shape", [(90, 8), (40, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("sparsity", [0.0, 0.03])
@pytest.mark.parametrize("scarce", [False, True])
def test_a_users_own_loss_and_penalty_take_the_same_path(
    shape: tuple[int, int], sparsity: float, scarce: bool
) -> None:
    n, d = shape
    fit = minimize(problem(n, d, SmoothHinge(), Quartic(0.1, sparsity), scarce=scarce))
    assert relative_kkt(fit) <= 1e-7
    assert fit.distance_to_optimum <= 1e-5
    assert np.any(fit.coef == 0) == (sparsity > 0)
    check_separable(fit)
