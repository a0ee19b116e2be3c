"""Platt, temperature, isotonic, histogram and beta calibration against independent answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr, logit, ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from angcal.baselines import (
    CALIBRATORS,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    platt_limit,
)
from angcal.links import Cauchit, ClippedLinear, ComplementaryLogLog, Logit, Probit
from angcal.metrics import log_loss

SEPARABLE = (np.arange(10.0) - 4.5, np.repeat([0, 1], 5))


def sample(n=2000, seed=0, slope=1.7, intercept=-0.4):
    rng = np.random.default_rng(seed)
    u = 2.0 * rng.normal(size=n)
    return u, (rng.random(n) < expit(slope * u + intercept)).astype(int)


# --- What all calibrators share --------------------------------------------------------------


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_fits_predicts_clones(name):
    u, y = sample()
    calibrator = CALIBRATORS[name]()
    with pytest.raises(NotFittedError):
        calibrator.predict(u)
    assert calibrator.fit(u, y) is calibrator
    grid = np.linspace(-800, 800, 1001)
    p = calibrator.predict(grid)
    assert p.shape == grid.shape
    assert np.all((p >= 0) & (p <= 1))
    if name == "quadratic":  # a parabola turns somewhere
        grid = np.linspace(-3, 3, 101)
        p = calibrator.predict(grid)
    assert p[-1] - p[0] > 0.8
    if name != "histogram":
        assert np.all(np.diff(p) >= 0)
    copy = clone(calibrator)
    assert copy.get_params() == calibrator.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(u)
    assert log_loss(y, calibrator.predict(u)) < log_loss(y, expit(u)) - 0.005


@pytest.mark.parametrize("name", CALIBRATORS)
def test_weights_are_repetitions(name):
    u, y = sample(n=150, seed=1)
    times = np.random.default_rng(2).integers(0, 4, size=150)
    grid = np.linspace(-5, 5, 31)
    weighted = CALIBRATORS[name]().fit(u, y, sample_weight=times).predict(grid)
    repeated = CALIBRATORS[name]().fit(np.repeat(u, times), np.repeat(y, times)).predict(grid)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    plain = CALIBRATORS[name]().fit(u, y).predict(grid)
    assert np.abs(plain - repeated).max() > 1e-3


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0], [0]), "scores has 2 entries but y has 1"),
        (([0.0, np.nan], [0, 1]), "scores holds nan at position 1"),
        (([0.0, 1.0], [-1, 1]), "y holds the label -1"),
        (([[0.0, 1.0]], [0, 1]), r"scores has shape \(1, 2\)"),
        (([0.0, 1.0], [0, 1], [0, 0]), "sample_weight is all zero"),
    ],
)
def test_bad_input_is_named(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        CALIBRATORS[name]().fit(*arguments)


# --- Platt scaling ---------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e5])
def test_platt_is_unpenalized_logistic_regression(unit):
    u, y = sample()
    shifted = unit * (u + 30.0)
    fitted = PlattScaling().fit(shifted, y)
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky")
    reference.fit(u[:, None], y)
    assert fitted.slope_ * unit == pytest.approx(reference.coef_[0, 0], rel=1e-6)
    intercept = reference.intercept_[0] - 30.0 * reference.coef_[0, 0]
    assert fitted.intercept_ == pytest.approx(intercept, rel=1e-6)


def test_platt_family_of_a_link_is_the_same_curve_in_other_coordinates():
    u, y = sample(seed=3)
    plain = PlattScaling().fit(u, y)
    family = PlattScaling(link=Logit(scale=3.0, offset=1.0)).fit(u, y)
    assert 3.0 * family.slope_ == pytest.approx(plain.slope_, rel=1e-9)
    assert 3.0 * family.intercept_ + 1.0 == pytest.approx(plain.intercept_, rel=1e-9)
    np.testing.assert_allclose(family.predict(u), plain.predict(u), atol=1e-12)


@pytest.mark.parametrize(
    "link",
    [
        Probit(scale=2.0, offset=-0.5),
        ComplementaryLogLog(scale=0.7, offset=0.2),
        Cauchit(scale=1.5, offset=0.1),
    ],
    ids=lambda link: link.name,
)
def test_platt_recovers_the_parameters_of_its_link(link):
    rng = np.random.default_rng(4)
    u = rng.normal(size=40_000)
    y = rng.random(u.size) < link(0.8 * u + 0.3)
    fitted = PlattScaling(link=link).fit(u, y)
    assert fitted.slope_ == pytest.approx(0.8, abs=0.04)
    assert fitted.intercept_ == pytest.approx(0.3, abs=0.04)

    def loss(slope, intercept):
        return log_loss(y, link(slope * u + intercept))

    best = loss(fitted.slope_, fitted.intercept_)
    for step in (-1e-3, 1e-3):
        assert best < loss(fitted.slope_ + step, fitted.intercept_)
        assert best < loss(fitted.slope_, fitted.intercept_ + step)


def test_platt_with_a_clipped_link_is_the_frequency_on_two_scores():
    u, y = [0.0] * 4 + [1.0] * 4, [0, 0, 0, 1, 1, 1, 1, 0]
    fitted = PlattScaling(link=ClippedLinear(scale=0.5, offset=0.5)).fit(u, y)
    np.testing.assert_allclose(fitted.predict([0.0, 1.0]), [0.25, 0.75], atol=1e-6)


def test_platt_with_probit_weighs_a_label_far_in_the_tail():
    # Near slope 1 the stray label has probability Φ(−10) = 1e-23, which 1 − Φ(10) rounds to 0.
    rng = np.random.default_rng(10)
    u = rng.uniform(-1, 1, size=20_000)
    y = (rng.random(u.size) < ndtr(u)).astype(int)
    u, y = np.append(u, 10.0), np.append(y, 0)
    fitted = PlattScaling(link="probit").fit(u, y)

    def loss(theta):
        return -np.mean(log_ndtr((2 * y - 1) * (theta[0] * u + theta[1])))

    best = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-14})
    assert (fitted.slope_, fitted.intercept_) == pytest.approx(tuple(best.x), abs=1e-5)
    assert isinstance(fitted.link_, Probit)


def test_platt_smoothed_targets():
    u, y = [-1.0] * 3 + [1.0] * 5, [0, 0, 1, 0, 1, 1, 1, 1]
    fitted = PlattScaling(smoothed_targets=True).fit(u, y)
    high, low = 6 / 7, 1 / 5  # N₁ = 5, N₀ = 3
    expected = [(2 * low + high) / 3, (low + 4 * high) / 5]
    np.testing.assert_allclose(fitted.predict([-1.0, 1.0]), expected, atol=1e-8)


def test_platt_of_constant_scores_is_the_base_rate():
    fitted = PlattScaling().fit(np.full(4, 0.1), [0, 1, 1, 1])
    assert fitted.slope_ == 0.0
    np.testing.assert_allclose(fitted.predict([0.1, 5.0]), 0.75)


# --- Separable scores ------------------------------------------------------------------------


@pytest.mark.parametrize("link", [None, Probit(scale=2.0), Cauchit()])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_platt_on_separable_scores_warns_and_stays_finite(link, sign):
    u, y = SEPARABLE
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        fitted = PlattScaling(link=link).fit(sign * u, y)
    assert 0.1 < sign * fitted.slope_ < 10.0
    smoothed = PlattScaling(link=link, smoothed_targets=True).fit(sign * u, y)
    assert fitted.slope_ == smoothed.slope_


@pytest.mark.parametrize("name", ["platt", "temperature", "beta"])
def test_touching_scores_are_separable_too(name):
    # The classes share the score 0 only; a step there is the limit of ever likelier slopes.
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        fitted = CALIBRATORS[name]().fit([-1.0, 0.0, 0.0, 1.0], [0, 0, 1, 1])
    p = fitted.predict([-1.0, 0.0, 1.0])
    assert 0.05 < p[0] < p[1] < p[2] < 0.95


@pytest.mark.parametrize("name", ["platt", "beta"])
@pytest.mark.parametrize("label", [0, 1])
def test_one_label_only(name, label):
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        fitted = CALIBRATORS[name]().fit(np.arange(8.0), np.full(8, label))
    np.testing.assert_allclose(fitted.predict([3.0]), 0.9 if label else 0.1, atol=1e-6)


# --- Temperature -----------------------------------------------------------------------------


def test_temperature_is_logistic_regression_through_the_origin():
    u, y = sample(seed=5, slope=0.5, intercept=0.0)
    fitted = TemperatureScaling().fit(u, y)
    reference = LogisticRegression(
        C=np.inf, fit_intercept=False, tol=1e-12, solver="newton-cholesky"
    ).fit(u[:, None], y)
    assert 1.0 / fitted.temperature_ == pytest.approx(reference.coef_[0, 0], rel=1e-8)


def test_temperature_by_hand():
    fitted = TemperatureScaling().fit([3.0] * 4, [1, 1, 1, 0])
    assert fitted.temperature_ == pytest.approx(3.0 / np.log(3.0))


def test_temperature_of_scores_with_the_wrong_sign_is_capped():
    u, y = SEPARABLE
    with pytest.warns(ConvergenceWarning, match="sign"):
        fitted = TemperatureScaling().fit(-u, y)
    assert np.isfinite(fitted.temperature_)
    np.testing.assert_allclose(fitted.predict(u), 0.5, atol=1e-5)


def test_temperature_on_separable_scores_uses_smoothed_targets():
    u, y = SEPARABLE
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        fitted = TemperatureScaling().fit(u, y)
    target = np.where(y == 1, 6 / 7, 1 / 7)
    assert np.mean(u * (fitted.predict(u) - target)) == pytest.approx(0.0, abs=1e-10)


# --- Isotonic and histogram ------------------------------------------------------------------


def test_isotonic_by_hand():
    fitted = IsotonicCalibration().fit([1, 2, 3, 4, 5], [0, 1, 0, 0, 1])
    expected = [0, 0, 1 / 3, 1 / 3, 2 / 3, 1]
    np.testing.assert_allclose(fitted.predict([-9, 1, 2, 4, 4.5, 99]), expected)
    falling = IsotonicCalibration().fit([1, 2, 3, 4], [1, 1, 0, 0])
    np.testing.assert_allclose(falling.predict([0, 2.5, 9]), 0.5)


def test_histogram_quantile_by_hand():
    fitted = HistogramBinning(n_bins=2).fit([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 1, 1])
    np.testing.assert_array_equal(fitted.edges_, [3.0])
    np.testing.assert_allclose(fitted.predict([-5, 3, 3.01, 50]), [1/3, 1/3, 2/3, 2/3])  # fmt: skip
    laplace = HistogramBinning(n_bins=2, laplace=True).fit([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 1, 1])
    np.testing.assert_allclose(laplace.predict([1, 6]), [0.4, 0.6])


def test_histogram_interpolates_empty_bins():
    fitted = HistogramBinning(n_bins=4, strategy="uniform").fit([0, 0.1, 3.9, 4], [0, 0, 0, 1])
    np.testing.assert_allclose(fitted.values_, [0, 1/6, 1/3, 1/2])  # fmt: skip


def test_histogram_is_calibrated_on_its_own_data():
    u, y = sample(seed=6)
    p = HistogramBinning(n_bins=7).fit(u, y).predict(u)
    values = np.unique(p)
    assert values.size == 7
    np.testing.assert_allclose([y[p == value].mean() for value in values], values)


def test_histogram_names_bad_options():
    with pytest.raises(ValueError, match="n_bins=0"):
        HistogramBinning(n_bins=0).fit([0, 1], [0, 1])
    with pytest.raises(ValueError, match="strategy='kmeans'"):
        HistogramBinning(strategy="kmeans").fit([0, 1], [0, 1])


# --- Beta calibration ------------------------------------------------------------------------


def test_beta_recovers_its_parameters():
    rng = np.random.default_rng(7)
    p = rng.uniform(0.01, 0.99, size=60_000)
    u = logit(p)
    y = rng.random(u.size) < expit(0.5 * np.log(p) - 1.5 * np.log1p(-p) + 0.3)
    fitted = BetaCalibration().fit(u, y)
    assert (fitted.a_, fitted.b_, fitted.c_) == pytest.approx((0.5, 1.5, 0.3), abs=0.1)
    # The unconstrained optimum is interior: two-column logistic regression agrees.
    columns = np.column_stack([np.log(p), -np.log1p(-p)])
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(columns, y)
    assert (fitted.a_, fitted.b_) == pytest.approx(tuple(reference.coef_[0]), rel=1e-4)


def test_beta_keeps_its_coefficients_nonnegative():
    rng = np.random.default_rng(8)
    p = rng.uniform(0.01, 0.99, size=5000)
    y = rng.random(p.size) < expit(-0.4 * np.log(p) - 1.5 * np.log1p(-p) - 0.5)
    fitted = BetaCalibration().fit(logit(p), y)
    assert fitted.a_ == 0.0
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky")
    reference.fit(-np.log1p(-p)[:, None], y)
    assert fitted.b_ == pytest.approx(reference.coef_[0, 0], rel=1e-4)


def test_beta_with_the_wrong_sign_is_the_base_rate():
    fitted = BetaCalibration().fit([3.0, 2.0, 1.0, 0.0], [0, 0, 0, 1])
    assert (fitted.a_, fitted.b_) == (0.0, 0.0)
    np.testing.assert_allclose(fitted.predict([-4.0, 9.0]), 0.25, atol=1e-6)


# --- Quadratic scaling ------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
def test_quadratic_is_logistic_regression_on_the_square(unit):
    u, y = sample(n=800)
    fitted = QuadraticScaling().fit(unit * (u + 3.0), y)
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky")
    reference.fit(np.column_stack([u**2, u]), y)
    grid = np.linspace(-4, 4, 9)
    expected = reference.predict_proba(np.column_stack([grid**2, grid]))[:, 1]
    np.testing.assert_allclose(fitted.predict(unit * (grid + 3.0)), expected, atol=1e-7)


def test_quadratic_finds_the_variances_of_two_normals():
    # Log-odds of N(1, 4) against N(0, 1): u²/2 − (u − 1)²/8 − log 2.
    rng = np.random.default_rng(11)
    y = rng.integers(0, 2, size=100_000)
    u = np.where(y == 1, 1.0 + 2.0 * rng.normal(size=y.size), rng.normal(size=y.size))
    fitted = QuadraticScaling().fit(u, y)
    grid = np.linspace(-3, 3, 13)
    expected = expit(grid**2 / 2 - (grid - 1) ** 2 / 8 - np.log(2))
    np.testing.assert_allclose(fitted.predict(grid), expected, atol=0.015)


@pytest.mark.parametrize("y", [[0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]])
def test_quadratic_of_an_interval_is_smoothed(y):
    with pytest.warns(ConvergenceWarning, match="separate the labels"):
        fitted = QuadraticScaling().fit(np.arange(6.0), y)
    p = fitted.predict(np.arange(6.0))
    assert 0.01 < p.min() < p.max() < 0.99


def test_quadratic_of_constant_scores_is_the_base_rate():
    fitted = QuadraticScaling().fit(np.full(4, 0.1), [0, 1, 1, 1])
    np.testing.assert_allclose(fitted.predict([0.1, 0.1]), 0.75)


# --- Limits of Platt scaling -----------------------------------------------------------------


@pytest.mark.parametrize("cosine", [-0.6, 0.0, 0.3, 0.95, 1.0])
def test_platt_limit_is_the_smoothed_probit(cosine):
    link, norm = Probit(scale=2.5, offset=-0.8), 1.7
    slope, intercept = platt_limit(cosine, norm, link)
    u = np.linspace(-6, 6, 101)
    smoothed = link.smooth(cosine * u / norm, np.sqrt(1 - cosine**2))
    np.testing.assert_allclose(link(slope * u + intercept), smoothed, atol=1e-10)


def test_platt_limit_by_hand():
    # cos θ = 0.6, sin²θ = 0.64, α = 5/4: r = √2.
    slope, intercept = platt_limit(0.6, 3.0, Probit(scale=1.25, offset=0.5))
    assert slope == pytest.approx(0.2 / np.sqrt(2))
    assert intercept == pytest.approx(0.4 * (1 / np.sqrt(2) - 1))


def test_platt_scaling_tends_to_its_limit():
    rng = np.random.default_rng(9)
    link, cosine, norm = Probit(scale=2.0, offset=0.5), 0.7, 1.5
    u = norm * rng.normal(size=200_000)
    signal = cosine * u / norm + np.sqrt(1 - cosine**2) * rng.normal(size=u.size)
    y = rng.random(u.size) < ndtr(2.0 * signal + 0.5)
    fitted = PlattScaling(link=link).fit(u, y)
    limit = platt_limit(cosine, norm, link)
    assert (fitted.slope_, fitted.intercept_) == pytest.approx(limit, abs=0.01)


def test_platt_limit_of_a_logit_link_is_approximate():
    link = Logit(scale=3.0, offset=1.0)
    with pytest.raises(ValueError, match="approximate=True"):
        platt_limit(0.6, 1.0, link)
    slope, intercept = platt_limit(0.6, 1.0, link, approximate=True)
    u = np.linspace(-4, 4, 81)
    error = link(slope * u + intercept) - link.smooth(0.6 * u, 0.8)
    assert 1e-6 < np.abs(error).max() < 0.02


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.1, 1.0, Probit()), "cosine=1.1"),
        ((np.nan, 1.0, Probit()), "cosine=nan"),
        ((0.5, 0.0, Probit()), "norm=0.0"),
        ((0.5, 1.0, Cauchit()), "must be Probit or Logit; for others use link.smooth"),
    ],
)
def test_platt_limit_names_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        platt_limit(*arguments)
