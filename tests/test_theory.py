"""The state of a ridge fit: published values, closed forms, simulation, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import angcal.theory.solve
from angcal.links import Logit, Probit
from angcal.losses import HuberisedHinge, Logistic, ProbitLikelihood, Squared, SquaredHinge
from angcal.problem import SeparableDataError
from angcal.theory import (
    Spectrum,
    best_state,
    labels_needed,
    link_for,
    separability_threshold,
    state_of_classes,
    state_of_fit,
)
from angcal.theory.channel import moved
from angcal.theory.labels import information


def autoregressive(d: int, scale: float = 1.0) -> Spectrum:
    steps = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return Spectrum(scale * np.linalg.eigvalsh(0.5**steps))


def test_sur_and_candes() -> None:
    n = 5000
    link = Logit(np.sqrt(5.0))
    found = state_of_fit(n, Spectrum.isotropic(1000), C=1e12 / n, link=link, fit_intercept=False)
    beside = found.norm * np.sqrt(1.0 - found.cosine**2) * np.sqrt(5.0)
    values = [found.cosine * found.norm / np.sqrt(5.0), beside, found.step]
    np.testing.assert_allclose(values, [1.4994, 4.7436, 3.0269], atol=5e-5)


@pytest.mark.parametrize(
    ("intercept", "expected"),
    [
        (
            False,
            {
                **{"norm": 0.8491, "cosine": 0.5218, "step": 2.9424, "v": 0.1188, "r2": 0.0798},
                **{"t": 0.1990, "log_loss": 0.6302, "calibrated_log_loss": 0.6003},
                **{"bayes_log_loss": 0.3469, "ece": 0.1132, "intercept": 0.0},
            },
        ),
        (
            True,
            {
                **{"norm": 0.8437, "cosine": 0.5333, "intercept": 0.5849, "intercept_sd": 0.0763},
                **{"log_loss": 0.5980, "calibrated_log_loss": 0.5970, "ece": 0.0160},
            },
        ),
    ],
)
def test_the_papers_design(intercept: bool, expected: dict[str, float]) -> None:
    n, d = 1000, 2000
    found = state_of_fit(
        n,
        autoregressive(d, 1.0 / d),
        C=1.0 / (n * 0.5 / d),
        link=Logit(3.0, 1.0),
        fit_intercept=intercept,
    )
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, abs=6e-5), name


def test_thresholds_of_separability() -> None:
    assert separability_threshold(Logit(np.sqrt(5.0))) == pytest.approx(0.32559, abs=5e-6)
    assert 1.0 / separability_threshold(Logit(3.0, 1.0)) == pytest.approx(3.8078, abs=5e-5)
    assert separability_threshold(Logit(1e-9)) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(("cosine", "ratio"), [(0.5, 0.618), (0.8, 2.548), (0.9, 5.245)])
def test_labels_for_a_cosine(cosine: float, ratio: float) -> None:
    d = 300
    n = labels_needed(Spectrum.isotropic(d), link=Logit(3.0), cosine=cosine)
    assert n / d == pytest.approx(ratio, abs=5e-4)
    J = information(Logit(3.0), np.array([cosine]))[0]
    assert n == pytest.approx(d * cosine**2 / ((1.0 - cosine**2) * J), rel=1e-6)
    # The full equations at their best penalty agree; the intercept takes one label's worth.
    found = best_state(n, Spectrum.isotropic(d), link=Logit(3.0), fit_intercept=False)
    assert found.cosine == pytest.approx(cosine, abs=3e-4)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.5])
def test_squared_loss_in_closed_form(p: float) -> None:
    """With D = 1 and n > d: v = 1 − df/n, and w is ridge's; without a penalty all is explicit."""
    n, d, link = 600, 200, Logit(2.0, 0.5)
    spectrum = autoregressive(d).with_power(p)
    found = state_of_fit(n, spectrum, C=np.inf, link=link, loss=Squared(), fit_intercept=False)
    s = np.linspace(-9, 9, 20001)
    weights = np.exp(-0.5 * s * s)
    weights /= weights.sum()
    # Least squares of t = 2y − 1: projection a = E[t·g], and residual variance E[t²] − a².
    a = float((2.0 * link(s) - 1.0) * s @ weights)
    assert found.v == pytest.approx(1.0 - d / n, abs=1e-9)
    assert found.cosine * found.norm == pytest.approx(a, abs=1e-8)
    noise = (1.0 - a * a) * d / (n - d)
    assert found.norm**2 == pytest.approx(a * a + noise, abs=1e-8)
    assert found.training_loss == pytest.approx(0.5 * (1.0 - a * a) * (1.0 - d / n), abs=1e-8)


@pytest.mark.parametrize("loss", [Logistic(), ProbitLikelihood(), SquaredHinge(), HuberisedHinge()])
@pytest.mark.parametrize("gamma", [0.1, 4.0, 200.0])
def test_a_label_moves_its_score_to_the_fixed_point(loss: object, gamma: float) -> None:
    scores = np.linspace(-40.0, 40.0, 801)[None]
    for label in (np.zeros(()), np.ones(())):
        u = moved(loss, scores, label, np.array([[gamma]]))
        gap = u - scores + gamma * loss.gradient(u, label)
        assert np.abs(gap).max() < 1e-10


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_the_best_penalty_has_no_slope(p: float) -> None:
    spectrum = Spectrum(1.0 / np.arange(1, 201.0)).with_power(p)
    best = best_state(200, spectrum, link=Logit(3.0))

    def cosine(factor: float) -> float:
        return state_of_fit(200, spectrum, C=best.C * factor, link=Logit(3.0)).cosine

    slope = (cosine(1.05) - cosine(1 / 1.05)) / (2.0 * np.log(1.05))
    bend = (cosine(1.5) - 2.0 * cosine(1.0) + cosine(1 / 1.5)) / np.log(1.5) ** 2
    assert bend < 0
    assert abs(slope / bend) < 0.1, "the vertex lies within a tenth in log C"


def test_the_slope_of_the_cosine_is_that_of_differences() -> None:
    spectrum, link = Spectrum(1.0 / np.arange(1, 101.0)), Logit(3.0, 0.5)
    found = state_of_fit(150, spectrum, C=0.3, link=link)
    low, high = (
        state_of_fit(150, spectrum, C=0.3 * np.exp(step), link=link).cosine
        for step in (-0.01, 0.01)
    )
    assert found.cosine_slope == pytest.approx((high - low) / 0.02, rel=1e-4)
    assert abs(best_state(150, spectrum, link=link).cosine_slope) < 2e-6


def test_two_of_many_classes_are_two_classes() -> None:
    """Softmax of two scores is a logistic of their difference: κ√2, 2C and norm√2."""
    spectrum = autoregressive(100)
    two = state_of_classes(200, spectrum, n_classes=2, scale=3.0 / np.sqrt(2.0), C=0.02)
    one = state_of_fit(200, spectrum, C=0.04, link=Logit(3.0))
    assert two.converged
    assert two.cosine == pytest.approx(one.cosine, abs=2e-4)
    assert np.sqrt(2.0) * two.norm == pytest.approx(one.norm, rel=2e-3)
    assert two.degrees_of_freedom == pytest.approx(one.degrees_of_freedom, rel=1e-3)
    for name in ("log_loss", "accuracy", "calibrated_log_loss", "bayes_log_loss"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), abs=2e-3), name


def test_several_classes_against_simulation() -> None:
    """Twelve draws of three classes: |mean − prediction| within 3.5 standard errors."""
    n, d, K, kappa, rho = 300, 150, 3, 3.0, 0.3
    values = autoregressive(d).values
    C = 1.0 / (rho * values.sum())
    found = state_of_classes(n, Spectrum(values), n_classes=K, scale=kappa, C=C)
    rng = np.random.default_rng(5)
    seen = []
    for _ in range(12):
        W = rng.normal(size=(d, K)) / np.sqrt(d)
        W -= W.mean(axis=1, keepdims=True)
        # Exactly exchangeable: WᵀΣW = I − 11ᵀ/K.
        left, _, right = np.linalg.svd(np.sqrt(values)[:, None] * W, full_matrices=False)
        W = (left[:, : K - 1] @ right[: K - 1]) / np.sqrt(values)[:, None]
        X = rng.normal(size=(n, d)) * np.sqrt(values)
        y = np.argmax(kappa * X @ W + rng.gumbel(size=(n, K)), axis=1)
        model = LogisticRegression(C=C, tol=1e-6, max_iter=1000).fit(X, y)
        fitted = np.sqrt(values)[:, None] * (model.coef_ - model.coef_.mean(axis=0)).T
        norm = np.linalg.norm(fitted) / np.sqrt(K - 1)
        cosine = np.sum(fitted * np.sqrt(values)[:, None] * W) / (K - 1) / norm
        seen.append((cosine, norm))
    mean, error = np.mean(seen, axis=0), np.std(seen, axis=0, ddof=1) / np.sqrt(len(seen))
    z = (mean - [found.cosine, found.norm]) / error
    assert np.abs(z).max() < 3.5, (z, mean, found.cosine, found.norm)


def test_means_over_data_sets() -> None:
    """With few directions a mean fit is not the mean of fits; with many it is."""
    values = np.concatenate([[50.0, 30.0, 20.0], np.ones(197)])
    shares = np.concatenate([np.full(3, 0.2), np.full(197, 0.4 / 197)])
    for spectrum, low, high in (
        (Spectrum(values, shares=shares), 3e-3, 0.1),
        (Spectrum.isotropic(4000), 0.0, 3e-4),
    ):
        C = 1.0 / spectrum.trace
        point, mean = (
            state_of_fit(100, spectrum, C=C, link=Logit(3.0), finite=finite)
            for finite in (False, True)
        )
        assert low <= abs(mean.cosine - point.cosine) <= high
        assert mean.cosine_sd == point.cosine_sd


def test_calibrated_is_never_worse_and_more_labels_help() -> None:
    states = [best_state(n, autoregressive(100), link=Logit(3.0, -1.0)) for n in (50, 200, 800)]
    for state in states:
        assert state.bayes_log_loss < state.calibrated_log_loss <= state.log_loss + 1e-9
        assert state.calibrated_brier <= state.brier + 1e-9
        assert state.accuracy <= state.calibrated_accuracy + 1e-3
    assert states[0].calibrated_log_loss > states[1].calibrated_log_loss
    assert states[1].calibrated_log_loss > states[2].calibrated_log_loss


def test_units_of_the_features_do_not_matter() -> None:
    one = state_of_fit(150, autoregressive(100), C=0.3, link=Logit(2.0))
    other = state_of_fit(150, autoregressive(100, 25.0), C=0.3 / 25.0, link=Logit(2.0))
    for name in ("cosine", "norm", "log_loss", "ece", "degrees_of_freedom"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-7)


MONTE_CARLO = [(200, 0.1, 0.0), (200, 1.0, 1.0), (800, 0.1, 1.0), (800, 1.0, 0.0)]


@pytest.mark.slow
def test_against_simulation() -> None:
    """Means of 12 draws at d = 400: z = (mean − prediction)/standard error, root mean square."""
    d, kappa, draws = 400, 3.0, 12
    rng = np.random.default_rng(11)
    values = autoregressive(d).values
    w = rng.normal(size=d)
    w /= np.sqrt(values @ w**2)
    spectrum = Spectrum(values, shares=values * w**2)
    fresh = rng.normal(size=(4000, d)) * np.sqrt(values)
    z: dict[str, list[float]] = {}
    for n, rho, beta in MONTE_CARLO:
        C = 1.0 / (rho * spectrum.trace)
        found = state_of_fit(n, spectrum, C=C, link=Logit(kappa, beta))
        truth = Logit(kappa, beta)(fresh @ w)
        seen: dict[str, list[float]] = {}
        for _ in range(draws):
            X = rng.normal(size=(n, d)) * np.sqrt(values)
            y = rng.random(n) < Logit(kappa, beta)(X @ w)
            model = LogisticRegression(C=C, tol=1e-6, max_iter=1000).fit(X, y)
            coef, u = model.coef_[0], fresh @ model.coef_[0] + model.intercept_[0]
            q = np.sqrt(values @ coef**2)
            seen.setdefault("cosine", []).append(float(values * w @ coef / q))
            seen.setdefault("norm", []).append(float(q))
            seen.setdefault("intercept", []).append(float(model.intercept_[0]))
            seen.setdefault("log_loss", []).append(float(np.mean(np.logaddexp(0, u) - truth * u)))
            own = model.decision_function(X)
            seen.setdefault("training_sd", []).append(float(own.std()))
            value = np.mean(np.logaddexp(0.0, np.where(y, -own, own)))
            seen.setdefault("training_loss", []).append(float(value))
        for name, numbers in seen.items():
            error = np.std(numbers, ddof=1) / np.sqrt(draws)
            if name == "log_loss":  # the fresh rows are a sample too
                error = np.hypot(error, 0.5 / np.sqrt(len(fresh)) * 0.5)
            z.setdefault(name, []).append((np.mean(numbers) - getattr(found, name)) / error)
    everything = np.concatenate([np.array(each) for each in z.values()])
    assert np.sqrt(np.mean(everything**2)) < 1.6, z
    assert np.abs(everything).max() < 4.0, z


def test_spectrum_of_few_rows() -> None:
    """df1 of the population from fewer rows than columns; the sample's own is far off."""
    d, n = 300, 150
    rng = np.random.default_rng(3)
    true = autoregressive(d)
    X = rng.normal(size=(n, d)) * np.sqrt(true.values) + 3.0
    found = Spectrum.of_rows(X)
    assert found.size == pytest.approx(d, rel=0.05)
    assert found.trace == pytest.approx(true.trace, rel=0.05)
    losses = [best_state(300, each, link=Logit(3.0)).calibrated_log_loss for each in (true, found)]
    assert losses[0] == pytest.approx(losses[1], abs=0.005)
    sample = np.linalg.eigvalsh(np.cov(X.T))
    raw = best_state(300, Spectrum(sample[sample > 1e-9]), link=Logit(3.0))
    assert abs(raw.calibrated_log_loss - losses[0]) > 0.02


@pytest.mark.parametrize("loss", [Logistic(), ProbitLikelihood(), Squared(), SquaredHinge()])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("rho", [0.003, 10.0])
def test_every_loss_converges(loss: object, ratio: float, rho: float) -> None:
    spectrum = autoregressive(100)
    link = Probit(3.0, 1.0) if isinstance(loss, ProbitLikelihood) else Logit(3.0, 1.0)
    C = 1.0 / (rho * spectrum.trace)
    found = state_of_fit(100 * ratio, spectrum, C=C, link=link, loss=loss)
    assert found.converged
    assert found.residual < 1e-7
    assert 0.0 < found.cosine < 1.0


def test_few_evaluations_of_the_equations_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = 0

    def counted(problems: Any, x: Any) -> Any:
        nonlocal evaluated
        evaluated += len(x)
        return gaps(problems, x)

    gaps = angcal.theory.solve.gaps
    monkeypatch.setattr(angcal.theory.solve, "gaps", counted)
    spectrum = Spectrum.of_rows(np.random.default_rng(0).normal(size=(100, 200)))
    assert state_of_fit(100, spectrum, C=0.01, link=Logit(3.0)).converged
    assert 0 < evaluated <= 40


def test_what_is_refused() -> None:
    spectrum = Spectrum.isotropic(100)
    with pytest.raises(SeparableDataError, match="more than 381 labels"):
        state_of_fit(300, spectrum, C=np.inf, link=Logit(3.0, 1.0))
    assert state_of_fit(600, spectrum, C=np.inf, link=Logit(3.0, 1.0)).converged
    with pytest.raises(ValueError, match="n=1 "):
        state_of_fit(1, spectrum)
    with pytest.raises(ValueError, match="n_classes=1 "):
        state_of_classes(10, spectrum, n_classes=1, scale=1.0)
    with pytest.raises(ValueError, match="C=inf"):
        state_of_classes(10, spectrum, n_classes=3, scale=1.0, C=np.inf)
    with pytest.raises(ValueError, match="C=0"):
        state_of_fit(10, spectrum, C=0)
    with pytest.raises(ValueError, match="values="):
        Spectrum([1.0, -1.0])
    with pytest.raises(ValueError, match="beyond reach"):
        labels_needed(spectrum, link=Logit(3.0), accuracy=0.95)
    with pytest.raises(ValueError, match="needs no model"):
        labels_needed(spectrum, link=Logit(3.0), log_loss=0.7)
    with pytest.raises(ValueError, match="one of cosine"):
        labels_needed(spectrum, link=Logit(3.0))
    with pytest.raises(ValueError, match=r"accuracy=0\.6"):
        link_for(0.6, prevalence=0.3)


def test_links_from_assumptions() -> None:
    link = link_for(0.9, prevalence=0.3)
    s = np.linspace(-9, 9, 20001)
    weights = np.exp(-0.5 * s * s)
    weights /= weights.sum()
    p = link(s)
    assert p @ weights == pytest.approx(0.3, abs=1e-8)
    assert np.maximum(p, 1 - p) @ weights == pytest.approx(0.9, abs=1e-5)


@pytest.mark.parametrize(("name", "target"), [("log_loss", 0.5), ("accuracy", 0.75)])
def test_labels_for_a_target_meet_it(name: str, target: float) -> None:
    spectrum, link = autoregressive(150), Logit(3.0)
    n = labels_needed(spectrum, link=link, **{name: target})
    found = best_state(n, spectrum, link=link)
    reached = getattr(found, f"calibrated_{name}") + (1.0 / n if name == "log_loss" else 0.0)
    assert reached == pytest.approx(target, abs=1e-3)
