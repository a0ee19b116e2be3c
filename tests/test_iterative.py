"""Leverages from sampled rows and conjugate gradients, against the factorized Hessian."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from angcal import Logistic, Logit, Ridge, plan
from angcal.leverages import (
    HessianOrFallback,
    NotConvergedError,
    PenalizedHessian,
    SampledHessian,
    factorize,
    sampled,
)
from angcal.leverages.factorized import factorize_exactly
from angcal.leverages.steps import remaining_curvature
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.rows import as_rows
from angcal.simulation import simulate
from angcal.solvers.minimize import minimize


def problem(n, d, strength=0.5, intercept=True, design="gaussian", seed=0):
    data = simulate(n, d, link=Logit(3.0, 1.0), design=design, random_state=seed)
    start = LinearFit(
        data.X,
        data.y.astype(float),
        np.ones(n),
        np.zeros(d),
        0.0,
        Logistic(),
        Ridge(strength / d),
        intercept,
    )
    return minimize(start, tol=1e-6)


def one_hot(n=1500, columns=15, levels=80, seed=0):
    """Rare and common levels: rows of very unequal leverage."""
    rng = np.random.default_rng(seed)
    codes = [rng.zipf(1.5, n) % levels for _ in range(columns)]
    blocks = [
        sparse.csr_array((np.ones(n), (np.arange(n), code)), shape=(n, levels)) for code in codes
    ]
    X = sparse.hstack(blocks).tocsr()
    score = X @ rng.normal(size=X.shape[1])
    y = (rng.random(n) < 1 / (1 + np.exp(-(score - score.mean())))).astype(float)
    start = LinearFit(X, y, np.ones(n), np.zeros(X.shape[1]), 0.0, Logistic(), Ridge(1 / n), True)
    return minimize(start, tol=1e-6)


def rare_flags(n=1500, common=180, rare=20, seed=0):
    """Dense rows with flags of two or three rows each, standardized: a few rows reach very far."""
    rng = np.random.default_rng(seed)
    flags = (rng.random((n, rare)) < 2.0 / n).astype(float)
    flags[np.arange(rare), np.arange(rare)] = 1.0
    X = np.column_stack([rng.normal(size=(n, common)), (flags - flags.mean(0)) / flags.std(0)])
    score = X @ rng.normal(size=common + rare) / np.sqrt(common + rare)
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * score))).astype(float)
    start = LinearFit(X, y, np.ones(n), np.zeros(X.shape[1]), 0.0, Logistic(), Ridge(1 / n), True)
    return minimize(start, tol=1e-6)


def both(fit):
    d = fit.shape[1]
    Q = np.full(d, fit.total_weight * float(np.ravel(fit.penalty.curvature(fit.coef))[0]))
    iterative = SampledHessian(as_rows(fit.X, fit.fit_intercept), fit.curvatures, Q)
    exact = factorize(fit.X, fit.curvatures, Q, fit_intercept=fit.fit_intercept)
    return iterative, exact


CASES = {
    "wide": lambda: problem(300, 700),
    "tall": lambda: problem(900, 300),
    "tall, weak penalty": lambda: problem(900, 300, strength=0.01),
    "no intercept": lambda: problem(400, 400, intercept=False),
    "elliptical": lambda: problem(400, 600, design="elliptical"),
    "one-hot": one_hot,
}


@pytest.mark.parametrize("case", CASES)
def test_steps_agree_with_the_factorization(case):
    """Mean γ within three of its own standard errors plus 0.2 % for unfinished solves."""
    fit = CASES[case]()
    iterative, exact = both(fit)
    D = fit.curvatures
    h, true = iterative.leverages(), exact.leverages()
    steps, true_steps = h / (1 - h * D), true / (1 - true * D)
    assert abs(steps.mean() / true_steps.mean() - 1) < 3 * iterative.survey.relative_error + 0.002
    assert iterative.survey.relative_error < 0.7 / np.sqrt(fit.shape[0]) + 1e-3
    assert np.std(steps / true_steps) < 0.15
    rows = iterative.survey.rows
    assert_allclose(h[rows], true[rows], rtol=0.01)
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("case", CASES)
def test_coupling_agrees_with_random_signs(case):
    fit = CASES[case]()
    iterative, exact = both(fit)
    h = exact.leverages()
    expected = exact.coupling(h, remaining_curvature(h, fit.curvatures))
    assert iterative.coupling().sum() == pytest.approx(expected.sum(), rel=0.35)


@pytest.mark.parametrize("case", ["wide", "tall", "one-hot"])
def test_solve_before_and_after_the_survey(case):
    fit = CASES[case]()
    rng = np.random.default_rng(0)
    gradient = np.asarray(fit.X.T @ rng.normal(size=fit.shape[0]))
    first, exact = both(fit)
    expected, expected_b = exact.solve(gradient, 2.0)
    images = fit.X @ expected + expected_b
    for hessian in (first, first):  # with the survey, then without
        step, intercept = hessian.solve(gradient, 2.0)
        found = fit.X @ step + intercept
        assert np.linalg.norm(found - images) < 0.3 * np.linalg.norm(images)
        assert gradient @ step == pytest.approx(gradient @ expected, rel=0.1)


def test_a_zero_gradient_has_a_zero_step():
    iterative, _ = both(CASES["wide"]())
    step, intercept = iterative.solve(np.zeros(700), 0.0)
    assert not step.any()
    assert intercept == 0.0
    assert iterative.survey.relative_error > 0


def test_auto_chooses_by_the_smaller_side(monkeypatch):
    fit = problem(300, 200)
    arguments = (fit.X, fit.curvatures, np.full(200, 1.0))
    assert isinstance(factorize(*arguments, fit_intercept=True, method="auto"), PenalizedHessian)
    monkeypatch.setattr("angcal.plan.SMALLEST_SAMPLED_SIDE", 150)
    assert isinstance(factorize(*arguments, fit_intercept=True, method="auto"), HessianOrFallback)


def test_randomised_needs_a_ridge_everywhere():
    fit = problem(300, 200)
    partly = np.ones(200)
    partly[3] = 0.0
    with pytest.raises(ValueError, match="not a positive diagonal"):
        factorize(fit.X, fit.curvatures, partly, fit_intercept=True, method="randomised")
    active = np.arange(200) < 150
    with pytest.raises(ValueError, match="active set"):
        factorize(
            fit.X,
            fit.curvatures,
            np.ones(200),
            fit_intercept=True,
            active=active,
            method="randomised",
        )


def test_rows_that_sizes_do_not_explain_are_factorized():
    """Two kinds of rows of the same length: one kind in a crowded subspace, one in an empty one."""
    rng = np.random.default_rng(0)
    n, d = 400, 300
    X = np.zeros((n, d))
    X[:200, :5] = rng.normal(size=(200, 5)) * np.sqrt(d / 5)
    X[200:, 5:] = rng.normal(size=(200, d - 5)) * np.sqrt(d / (d - 5))
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X, D = X @ rotation, np.full(n, 0.25)
    exact = factorize_exactly(X, D, np.ones(d), True, 0.0, np.arange(d), d)
    sampled = factorize(X, D, np.ones(d), fit_intercept=True, method="randomised")
    assert_allclose(sampled.leverages(), exact.leverages())
    assert sampled.side == "primal"
    assert "row sizes do not predict the leverages" in sampled.remark
    assert sampled.relative_error == 0.0
    h = exact.leverages()
    remaining = remaining_curvature(h, D)
    assert_allclose(sampled.coupling(h, remaining), exact.coupling(h, remaining))
    gradient = rng.normal(size=d)
    assert_allclose(sampled.solve(gradient, 1.0)[0], exact.solve(gradient, 1.0)[0])


def test_observables_say_how_they_were_found():
    from dataclasses import replace

    fit = problem(300, 700)
    sampled = observe(replace(fit, hessian_method="randomised"))
    assert sampled.side == "randomised"
    assert 0 < sampled.step_error < 0.05
    exact = observe(fit)
    assert exact.side == "dual"
    assert exact.step_error == 0.0
    spread = np.std(exact.calibration_scores)
    assert np.std(sampled.calibration_scores - exact.calibration_scores) < 0.1 * spread


def test_a_fit_is_a_function_of_its_data():
    first, _ = both(CASES["wide"]())
    second, _ = both(CASES["wide"]())
    assert_allclose(first.leverages(), second.leverages(), rtol=0, atol=0)


def test_rows_with_rare_flags_have_about_their_own_steps():
    """The share of a flag's moment that is the row's own is left out: no step is off by much."""
    fit = rare_flags()
    iterative, exact = both(fit)
    steps = [
        h / remaining_curvature(h, fit.curvatures)
        for h in (iterative.leverages(), exact.leverages())
    ]
    ratio = steps[0] / steps[1]
    assert 0.7 < ratio.min() < ratio.max() < 1.4
    assert abs(np.median(ratio) - 1.0) < 0.02


@pytest.mark.parametrize("shape", [(240, 120), (160, 240)], ids=str)
def test_the_stated_error_of_the_ratio_is_its_error(shape):
    """z-scores over 40 draws: their rms is about one, and hardly any exceeds three."""
    scores = []
    for seed in range(40):
        fit = problem(*shape, seed=seed)
        iterative, exact = both(fit)
        h = exact.leverages()
        steps = h / remaining_curvature(h, fit.curvatures)
        ratio = steps.sum() / iterative.sizes.sum()
        survey = iterative.survey
        scores.append((survey.ratio / ratio - 1.0) / survey.relative_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.6
    assert np.mean(np.abs(scores) > 3.0) < 0.08


def test_rows_without_entries_are_no_sample():
    fit = problem(400, 100, intercept=False)
    X = fit.X.copy()
    X[::3] = 0.0
    iterative = SampledHessian(as_rows(X, False), fit.curvatures, np.full(100, 5.0))
    exact = factorize_exactly(X, fit.curvatures, np.full(100, 5.0), False, 0.0, np.arange(100), 100)
    assert np.isfinite(iterative.survey.scatter)
    assert_allclose(iterative.leverages()[::3], 0.0, atol=1e-12)
    assert_allclose(iterative.leverages().sum(), exact.leverages().sum(), rtol=0.1)


def test_what_single_precision_cannot_hold_is_factorized():
    fit = problem(300, 80)
    X = fit.X.copy()
    X[:, 0] *= 1e39
    found = factorize(X, fit.curvatures, 1.0, fit_intercept=True, method="randomised")
    h = found.leverages()
    assert found.side == "primal"
    assert "factorized" in found.remark
    assert np.all(np.isfinite(h))


def test_large_columns_that_single_precision_holds_are_sampled():
    """Their squares are beyond it."""
    fit = problem(300, 80)
    X = fit.X.copy()
    X[:, 0] *= 1e37
    sampled, exact = (
        factorize(X, fit.curvatures, 1.0, fit_intercept=True, method=method)
        for method in ("randomised", "exact")
    )
    assert_allclose(sampled.leverages().sum(), exact.leverages().sum(), rtol=0.1)
    assert sampled.side == "randomised"


def test_a_factorization_that_would_not_fit_is_not_begun(monkeypatch):
    monkeypatch.setattr("angcal.plan.LARGEST_FACTORIZED_SIDE", 50)
    fit = problem(300, 80)
    X = fit.X.copy()
    X[:, 0] *= 1e39
    found = factorize(X, fit.curvatures, 1.0, fit_intercept=True, method="randomised")
    with pytest.raises(ValueError, match=r"cannot be sampled.*Strengthen the penalty"):
        found.leverages()


def test_a_tolerance_that_is_missed_is_remarked(monkeypatch):
    monkeypatch.setattr("angcal.plan.STEP_TOLERANCE", 1e-3)
    fit = problem(700, 650)
    found = factorize(fit.X, fit.curvatures, 1.0, fit_intercept=True, method="randomised")
    assert found.remark == ""
    found.leverages()
    assert "common error of" in found.remark


@pytest.fixture
def few_draws(monkeypatch):
    """Fails where rows are drawn a hundred times: sampling would never end."""
    spread, calls = sampled._spread_rows, []

    def counted(*arguments, **options):
        calls.append(1)
        assert len(calls) < 100, "the same rows are drawn again and again"
        return spread(*arguments, **options)

    monkeypatch.setattr(sampled, "_spread_rows", counted)


@pytest.mark.parametrize("usable", [5, 12, 30])
def test_sampling_ends_where_single_precision_leaves_few_rows(usable, few_draws):
    X = np.random.default_rng(0).normal(size=(200, 250))
    X[usable:, 0] = 1e39
    hessian = SampledHessian(as_rows(X, True), np.full(200, 0.25), np.ones(250))
    with pytest.raises(NotConvergedError):
        hessian.leverages()


def test_sampling_ends_where_all_candidates_are_taken(few_draws, monkeypatch):
    # Nine rows have entries: too few for the error that is asked for, and there are no more.
    monkeypatch.setattr("angcal.plan.STEP_TOLERANCE", 1e-9)
    X = np.zeros((300, 40))
    X[:9] = np.random.default_rng(1).normal(size=(9, 40))
    hessian = SampledHessian(as_rows(X, False), np.full(300, 0.25), np.full(40, 20.0))
    assert len(hessian.survey.rows) == 9
    assert np.all(np.isfinite(hessian.leverages()))


def correlated(n, d):
    """Rows of a few strong factors, and curvatures of which many are next to nothing."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 8)) @ rng.normal(size=(8, d)) + rng.normal(size=(n, d))
    return X, 0.25 * rng.random(n) ** 8


@pytest.mark.parametrize(("shape", "side"), [((1300, 1050), "primal"), ((1050, 1300), "dual")])
def test_correlated_columns_are_factorized_in_single_precision(shape, side, monkeypatch):
    X, D = correlated(*shape)
    monkeypatch.setattr(SampledHessian, "_run_survey", None)  # no round of sampling is wasted
    found = factorize(X, D, 20.0, fit_intercept=True, method="auto")
    exact = factorize(X, D, 20.0, fit_intercept=True, method="exact")
    assert (found.side, found.remark) == (side, "factorized in single precision")
    h = exact.leverages()
    np.testing.assert_allclose(found.leverages(), h, rtol=0.02)
    # What leaving a row out moves: a part of it that no curve can tell.
    np.testing.assert_allclose(found.leverages() * D, h * D, atol=1e-5)
    g = np.random.default_rng(0).normal(size=shape[1])
    step, expected = found.solve(1e-30 * g, 1e-30), exact.solve(1e-30 * g, 1e-30)
    np.testing.assert_allclose(step[0], expected[0], atol=1e-3 * np.abs(expected[0]).max())


def sketched(n, d, pulls, strength=20.0):
    """h as sketched and as computed row by row, with the share that all may be off together."""
    X, D = correlated(n, d)
    single = as_rows(X, True).single
    common = (X, D, np.full(d, strength), True, 0.0, np.arange(d), d)
    found = factorize_exactly(*common, single=single)
    return found.leverages(pulls), found.relative_error, factorize_exactly(*common).leverages(), D


def test_leverages_of_rows_that_hardly_move_are_sketched():
    """Each has a relative standard error of √(2/k), and decisive rows are exact."""
    rng = np.random.default_rng(0)
    pulls = np.where(rng.random(4000) < 0.2, 1.0, 1e-6)
    h, error, exact, D = sketched(4000, 800, pulls)
    decisive, k = pulls == 1.0, plan.FEWEST_DIRECTIONS
    assert 0.0 < error < 0.6 / np.sqrt(4000)
    assert_allclose(h[decisive], exact[decisive], rtol=0.02)
    off = h[~decisive] / exact[~decisive] - 1.0
    # A relative deviation of √(2/k), which k directions that all rows share let vary by a tenth.
    assert 0.8 < np.std(off) / np.sqrt(2.0 / k) < 1.2
    assert abs((h - exact) @ D) < 3.0 * error * (exact @ D)


def test_sketched_leverages_are_unbiased_where_residuals_choose_the_exact_ones(monkeypatch):
    """Rows are chosen by directions of their own: else those that came out too low would stay."""
    rng = np.random.default_rng(0)
    n, d = 3200, 700
    factors = rng.normal(size=(n, 20))
    X = 0.5 * factors @ rng.normal(size=(20, d)) + rng.normal(size=(n, d))
    y = 2.0 * factors[:, 0] + X[:, 0] + rng.logistic(size=n) > 0
    model = LogisticRegression(C=1e-3, solver="newton-cholesky", tol=1e-8).fit(X, y)
    p, scores = model.predict_proba(X)[:, 1], model.decision_function(X)
    D, pulls = p * (1.0 - p), np.abs(y - p) / scores.std()
    common = (X, D, np.full(d, 1e3), True, 0.0, np.arange(d), d)
    found = factorize_exactly(*common, single=as_rows(X, True).single)
    exact, off, told = found.leverages(), [], []
    for seed in range(12):
        monkeypatch.setattr(plan, "SEED", seed)
        off.append(float((found.leverages(pulls) - exact) @ D / (exact @ D)))
        told.append(found.relative_error)
    assert abs(np.mean(off)) < 3.0 * np.max(told) / np.sqrt(12)
    assert np.std(off) < 1.5 * np.mean(told)
    assert 0.0 < np.max(told) < plan.STEP_TOLERANCE / np.sqrt(n)


def test_rows_without_any_curvature_are_not_sketched():
    X, _ = correlated(4000, 800)
    common = (X, np.zeros(4000), np.full(800, 2.0), False, 0.0, np.arange(800), 800)
    found = factorize_exactly(*common, single=as_rows(X, False).single)
    assert_allclose(found.leverages(np.zeros(4000)), np.sum(X**2, axis=1) / 2.0, rtol=1e-4)
    assert found.relative_error == 0.0


def test_what_a_fallback_sketches_is_told():
    X, D = correlated(60, 5)
    exact = factorize_exactly(X, D, np.ones(5), True, 0.0, np.arange(5), 5)
    both = HessianOrFallback(SampledHessian(as_rows(X, True), D, np.ones(5)), lambda: exact)
    both._exact = exact
    exact.engine.relative_error = 0.25
    assert both.relative_error == 0.25


@pytest.mark.parametrize("pulls", [np.full(4000, 1.0), np.full(4000, np.nan), None])
def test_leverages_of_rows_that_move_are_not_sketched(pulls):
    h, error, exact, _ = sketched(4000, 800, pulls)
    assert error == 0.0
    assert_allclose(h, exact, rtol=0.02)


def test_exact_leverages_are_never_sketched():
    X, D = correlated(4000, 800)
    found = factorize(X, D, 20.0, fit_intercept=True, method="exact")
    assert_allclose(found.leverages(np.zeros(4000)), found.leverages(), rtol=1e-12)
    assert found.relative_error == 0.0


def test_independent_columns_are_sampled():
    fit = problem(700, 650)
    found = factorize(fit.X, fit.curvatures, 1.0, fit_intercept=True, method="auto")
    found.leverages()
    assert found.side == "randomised"
