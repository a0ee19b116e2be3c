"""Hand-computed values, invariances and limits of the calibration metrics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from angcal.metrics import (
    BREGMAN_GENERATORS,
    bregman_divergence,
    brier_decomposition,
    brier_score,
    calibration_error_at,
    expected_calibration_error,
    log_loss,
    mean_bregman_divergence,
    reliability_curve,
    smooth_ece,
)

WEIGHTED_METRICS = {
    "ece-uniform": lambda y, p, w: expected_calibration_error(y, p, n_bins=5, sample_weight=w),
    "ece-quantile": lambda y, p, w: expected_calibration_error(
        y, p, n_bins=4, strategy="quantile", sample_weight=w
    ),
    "ece-l2": lambda y, p, w: expected_calibration_error(y, p, norm="l2", sample_weight=w),
    "smooth-ece": lambda y, p, w: smooth_ece(y, p, sample_weight=w),
    "brier": lambda y, p, w: brier_score(y, p, sample_weight=w),
    "log-loss": lambda y, p, w: log_loss(y, p, sample_weight=w),
    "kl": lambda y, p, w: mean_bregman_divergence(0.2 + 0.5 * y, p, sample_weight=w),
    "at": lambda y, p, w: calibration_error_at([0.5], y, p, sample_weight=w)[0],
    "miscalibration": lambda y, p, w: brier_decomposition(y, p, sample_weight=w).miscalibration,
    "discrimination": lambda y, p, w: (
        brier_decomposition(y, p, score="log", sample_weight=w).discrimination
    ),
}


def calibrated_sample(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1.5, 2.0, size=n)
    return (rng.random(n) < p).astype(float), p


# --- Binned calibration error ----------------------------------------------------------------


def test_ece_by_hand():
    y = [0, 1, 1, 1]
    p = [0.1, 0.3, 0.6, 0.8]
    # Bins (0, ½] and (½, 1]: |0.5 − 0.2| and |1 − 0.7|.
    assert expected_calibration_error(y, p, n_bins=2) == pytest.approx(0.3)
    p = [0.1, 0.3, 0.9, 0.9]
    # Gaps 0.3 and 0.1 of equal weight.
    assert expected_calibration_error(y, p, n_bins=2) == pytest.approx(0.2)
    root = np.sqrt((0.09 + 0.01) / 2)
    assert expected_calibration_error(y, p, n_bins=2, norm="l2") == pytest.approx(root)


def test_equal_mass_and_equal_width_by_hand():
    """Five of six predictions are below 0.5; y = 1 for the second and the fifth.

    Equal width, 5 and 1 rows: |2/5 − 0.5/5| = 0.3 and |0 − 0.9|, so (5·0.3 + 0.9)/6 = 0.4.
    Equal mass, 3 and 3 rows: |1/3 − 0.12/3| = 0.88/3 and |1/3 − 1.28/3| = 0.28/3, so 0.58/3.
    """
    y, p = [0, 1, 0, 0, 1, 0], [0.02, 0.04, 0.06, 0.08, 0.3, 0.9]
    assert expected_calibration_error(y, p, n_bins=2) == pytest.approx(0.4)
    got = expected_calibration_error(y, p, n_bins=2, strategy="quantile")
    assert got == pytest.approx(0.58 / 3)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_probabilities_zero_and_one_are_binned(strategy):
    p = np.array([0.0, 0.0, 1.0, 1.0])
    ece = expected_calibration_error([1, 0, 1, 1], p, n_bins=10, strategy=strategy)
    assert ece == pytest.approx(0.25)
    curve = reliability_curve([1, 0, 1, 1], p, n_bins=10, strategy=strategy)
    np.testing.assert_array_equal(curve.mean_predicted, [0.0, 1.0])
    np.testing.assert_array_equal(curve.observed, [0.5, 1.0])
    assert curve.count.sum() == 4


def test_bins_are_closed_on_the_right():
    curve = reliability_curve([0, 1, 1], [0.2, 0.5, 0.6], n_bins=2)
    np.testing.assert_array_equal(curve.count, [2, 1])


def test_quantile_bins_hold_equal_counts_and_keep_ties_together():
    y, p = calibrated_sample(300)
    curve = reliability_curve(y, p, n_bins=15, strategy="quantile")
    np.testing.assert_array_equal(curve.count, np.full(15, 20))
    # Sums of 0.1 round; the bins must not.
    curve = reliability_curve(y, p, n_bins=15, strategy="quantile", sample_weight=np.full(300, 0.1))
    np.testing.assert_array_equal(curve.count, np.full(15, 20))
    tied = np.array([0.2] * 6 + [0.7, 0.8])
    curve = reliability_curve(np.zeros(8), tied, n_bins=4, strategy="quantile")
    np.testing.assert_array_equal(curve.count, [6, 2])


def test_debiased_l2_subtracts_the_noise_variance():
    y, p = [0, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]
    # (0.75 − 0.5)² − 0.75·0.25/3 = 0.0625 − 0.0625.
    assert expected_calibration_error(y, p, norm="l2", debiased=True) == pytest.approx(
        0.0, abs=1e-8
    )
    p = [0.25] * 4
    expected = np.sqrt(0.25 - 0.0625)
    assert expected_calibration_error(y, p, norm="l2", debiased=True) == pytest.approx(expected)


def test_debiased_l2_skips_single_samples():
    assert expected_calibration_error([1], [0.1], norm="l2", debiased=True) == 0.0
    assert expected_calibration_error([1], [0.1], norm="l2") == pytest.approx(0.9)


def test_debiased_l2_is_unbiased_before_the_root():
    rng = np.random.default_rng(1)
    squares, plain = [], []
    for _ in range(2000):
        # One bin, gap 0.3; the debiased square is far from 0, so clipping plays no role.
        y = (rng.random(40) < 0.8).astype(float)
        p = np.full(40, 0.5)
        kwargs = {"n_bins": 1, "norm": "l2"}
        squares.append(expected_calibration_error(y, p, debiased=True, **kwargs) ** 2)
        plain.append(expected_calibration_error(y, p, **kwargs) ** 2)
    error = np.std(squares) / np.sqrt(2000)
    assert abs(np.mean(squares) - 0.09) < 4 * error
    assert np.mean(plain) - 0.09 == pytest.approx(0.8 * 0.2 / 40, abs=4 * error)


def test_debiased_l1_is_the_mean_of_normal_resampling():
    y = np.array([0, 1, 1, 1, 0, 0, 1, 0, 0, 0])
    p = np.array([0.55] * 4 + [0.4] * 6)
    gaps, counts = np.array([0.2, 1 / 6 - 0.4]), np.array([4, 6])
    observed = np.array([0.75, 1 / 6])
    noise = np.sqrt(observed * (1 - observed) / counts)
    resampled = gaps + noise * norm.ppf((np.arange(200_000) + 0.5) / 200_000)[:, None]
    share = counts / 10
    bias = share @ (np.abs(resampled).mean(axis=0) - np.abs(gaps))
    plain = expected_calibration_error(y, p, n_bins=2)
    assert plain == pytest.approx(share @ np.abs(gaps))
    assert plain > bias > 0.01
    got = expected_calibration_error(y, p, n_bins=2, debiased=True)
    assert got == pytest.approx(plain - bias, abs=1e-6)
    # A large gap has next to no bias, and a certain one none.
    assert expected_calibration_error([0, 0], [0.9, 0.9], debiased=True) == pytest.approx(0.9)
    far = expected_calibration_error([1] * 999 + [0], [0.5] * 1000, debiased=True)
    assert far == pytest.approx(0.499)


# --- Weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WEIGHTED_METRICS)
def test_weights_are_repetitions_and_scale_free(name):
    metric = WEIGHTED_METRICS[name]
    y, p = calibrated_sample(60, seed=3)
    times = np.random.default_rng(4).integers(0, 4, size=60)
    repeated = metric(np.repeat(y, times), np.repeat(p, times), None)
    assert metric(y, p, times) == pytest.approx(repeated, rel=1e-9, abs=1e-12)
    assert metric(y, p, 0.3 * times) == pytest.approx(repeated, rel=1e-9, abs=1e-12)
    assert metric(y, p, None) != pytest.approx(repeated, rel=1e-4)


# --- Smooth ECE ------------------------------------------------------------------------------


def test_smooth_ece_against_the_kernel_written_out():
    y, p = calibrated_sample(80, seed=5)
    h, t = 0.07, (np.arange(20_000) + 0.5) / 20_000
    kernel = sum(
        norm.pdf(t[:, None] - sign * p - shift, scale=h) for sign in (1, -1) for shift in (-2, 0, 2)
    )
    direct = np.abs(kernel @ (y - p) / y.size).mean()
    assert smooth_ece(y, p, bandwidth=h) == pytest.approx(direct, abs=2e-4)


def test_smooth_ece_is_its_own_bandwidth():
    y, p = calibrated_sample(500, seed=6)
    value = smooth_ece(y, p)
    assert smooth_ece(y, p, bandwidth=value) == pytest.approx(value, abs=1e-9)


def test_smooth_ece_of_a_constant_offset_is_the_offset():
    # Residuals of one sign lose nothing to smoothing: smECE = |mean residual|.
    p = np.linspace(0.0, 0.9, 50)
    upward = np.ones_like(p)
    assert smooth_ece(upward, p) == pytest.approx(np.mean(1 - p), abs=1e-9)
    y, q = calibrated_sample(100_000, seed=7)
    assert smooth_ece(y, q * 0.8 + 0.2) == pytest.approx(0.2 * np.mean(1 - q), abs=0.01)


def test_smooth_ece_of_calibrated_predictions_vanishes_with_the_sample():
    small, large = (smooth_ece(*calibrated_sample(n, seed=8)) for n in (300, 100_000))
    assert large < 0.012 < small


def test_smooth_ece_extremes():
    assert smooth_ece([0, 1], [0.0, 1.0]) == 0.0
    assert smooth_ece([1, 0], [0.0, 1.0]) < 1.0
    assert smooth_ece([1, 1], [0.0, 0.0]) == pytest.approx(1.0)


# --- Error at a level ------------------------------------------------------------------------


def test_calibration_error_at_known_probabilities():
    p = np.linspace(0, 1, 2001)
    levels = [0.0, 0.25, 0.5, 1.0]
    np.testing.assert_allclose(calibration_error_at(levels, p, p, 0.1), 0.0, atol=1e-14)
    np.testing.assert_allclose(calibration_error_at(levels, p**2, p, 0.002), [0, 0.1875, 0.25, 0],
                               atol=2e-3)  # fmt: skip


def test_calibration_error_at_by_hand():
    # Distances 0 and one bandwidth: kernel weights 1 and e^{−½}, residuals −0.5 and 0.6.
    tail = np.exp(-0.5)
    expected = (-0.5 + 0.6 * tail) / (1 + tail)
    got = calibration_error_at([0.5], [1, 0], [0.5, 0.6], 0.1)
    np.testing.assert_allclose(got, [expected])


def test_calibration_error_at_without_neighbors_is_nan():
    got = calibration_error_at([0.1, 0.9], [1, 0], [0.1, 0.12], 0.05)
    assert np.isfinite(got[0])
    assert np.isnan(got[1])


# --- Scores ----------------------------------------------------------------------------------


def test_scores_by_hand():
    assert brier_score([0, 1, 1], [0.2, 0.7, 1.0]) == pytest.approx((0.04 + 0.09) / 3)
    assert log_loss([0, 1], [0.2, 0.7]) == pytest.approx(-(np.log(0.8) + np.log(0.7)) / 2)
    assert brier_score([0, 0], [0.5, 0.5]) == 0.25
    assert log_loss([1, 1], [0.5, 0.5]) == pytest.approx(np.log(2))


def test_log_loss_clips_at_machine_epsilon():
    assert log_loss([0], [1.0]) == pytest.approx(-np.log(np.finfo(float).eps))


@pytest.mark.parametrize(("name", "metric"), [("brier", brier_score), ("log", log_loss)])
def test_decomposition_adds_up(name, metric):
    y, p = calibrated_sample(200, seed=9)
    weight = np.random.default_rng(10).random(200)
    parts = brier_decomposition(y, p**2, score=name, sample_weight=weight)
    assert parts.score == pytest.approx(metric(y, p**2, sample_weight=weight), abs=1e-15)
    assert min(dataclasses.astuple(parts)) > 0.0
    # A monotone distortion changes the calibration only.
    other = brier_decomposition(y, p, score=name, sample_weight=weight)
    assert other.discrimination == pytest.approx(parts.discrimination)
    assert other.miscalibration < parts.miscalibration


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("brier", (0.275 - 0.125, 0.25 - 0.125, 0.25)),
        ("log", (-np.log(0.2016) / 4, np.log(2) / 2, np.log(2))),
    ],
)
def test_decomposition_by_hand(name, parts):
    """Isotonic fit q = 0, ½, ½, 1 of y = 0, 1, 0, 1, and base rate ȳ = ½.

    Brier: S(p) = (0.01 + 0.64 + 0.09 + 0.36)/4 = 0.275, S(q) = (¼ + ¼)/4 = 0.125, S(ȳ) = ¼.
    Log: S(p) = −ln(0.9·0.2·0.7·0.4)/4 = −ln(0.0504)/4, S(q) = 2·ln 2/4 = ln(4)/4, S(ȳ) = ln 2;
    so S(p) − S(q) = −ln(4·0.0504)/4.
    """
    got = brier_decomposition([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], score=name)
    assert dataclasses.astuple(got) == pytest.approx(parts, rel=1e-12)


# --- Bregman divergences ---------------------------------------------------------------------


def test_bregman_by_hand():
    p, q = 0.3, 0.6
    assert mean_bregman_divergence([p], [q], "squared") == pytest.approx(0.09)
    kl = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert mean_bregman_divergence([p], [q], "kl") == pytest.approx(kl)
    ratio, other = p / q, (1 - p) / (1 - q)
    itakura_saito = ratio - np.log(ratio) + other - np.log(other) - 2
    assert mean_bregman_divergence([p], [q], "itakura-saito") == pytest.approx(itakura_saito)


def test_bregman_of_own_generator():
    # φ = t³ on both entries: 0.125 − 0.001 − 0.03·0.4 + 0.125 − 0.729 + 2.43·0.4.
    got = bregman_divergence([0.5], [0.1], lambda t: t**3, lambda t: 3 * t**2)
    np.testing.assert_allclose(got, [0.48])


@pytest.mark.parametrize("name", BREGMAN_GENERATORS)
def test_bregman_is_positive_and_minimized_by_the_mean(name):
    p = np.array([0.2, 0.4, 0.9])
    at = {q: mean_bregman_divergence(p, np.full(3, q), name) for q in (0.45, 0.5, 0.55)}
    assert at[0.5] < min(at[0.45], at[0.55])
    assert mean_bregman_divergence(p, p, name) == 0.0


def test_bregman_at_the_ends():
    kl = bregman_divergence([0.0, 1.0, 0.0, 0.5], [0.0, 1.0, 0.5, 1.0], *BREGMAN_GENERATORS["kl"])
    np.testing.assert_allclose(kl, [0.0, 0.0, np.log(2), np.inf])
    with pytest.raises(ValueError, match=r"p_pred=0\.0 is undefined.*inside \(0, 1\)"):
        bregman_divergence([0.5], [0.0], *BREGMAN_GENERATORS["itakura-saito"])


def test_mean_divergence_from_labels_is_the_score():
    y, p = calibrated_sample(50, seed=11)
    assert mean_bregman_divergence(y, p, "squared") == pytest.approx(brier_score(y, p))
    assert mean_bregman_divergence(y, p, "kl") == pytest.approx(log_loss(y, p))


# --- Reliability curve -----------------------------------------------------------------------


def test_weighted_reliability_curve_by_hand():
    """Bins of weights 1, 2, 0, 1 and 3, 2; the middle bin has no weight and is left out.

    p̄ = (0.1 + 2·0.2 + 0.3)/4 = 0.2 and (3·0.7 + 2·0.9)/5 = 0.78; ȳ = 2/4 and 3/5;
    n = 4²/(1 + 4 + 1) = 8/3 and 5²/(9 + 4) = 25/13. With z = 1 the half-widths are
    (0.2·0.8·3/8)^½ = 0.06^½ and (0.78·0.22·13/25)^½ = 0.089232^½, beyond 0 below and 1 above.
    """
    curve = reliability_curve(
        [0, 1, 1, 0, 1, 1, 0],
        [0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 0.9],
        n_bins=3,
        sample_weight=[1, 2, 0, 1, 0, 3, 2],
        confidence=norm.cdf(1) - norm.cdf(-1),
    )
    np.testing.assert_allclose(curve.mean_predicted, [0.2, 0.78])
    np.testing.assert_allclose(curve.observed, [0.5, 0.6])
    np.testing.assert_array_equal(curve.count, [3, 2])
    np.testing.assert_allclose(curve.weight, [4, 5])
    np.testing.assert_allclose(curve.lower, [0.0, 0.78 - np.sqrt(0.089232)])
    np.testing.assert_allclose(curve.upper, [0.2 + np.sqrt(0.06), 1.0])


def test_band_of_equal_weights_is_binomial():
    curve = reliability_curve(np.zeros(10), np.full(10, 0.5), n_bins=1, confidence=0.95)
    # P(Bin(10, ½) <= 1) = 0.0107 < 0.025 < 0.0547 = P(Bin <= 2).
    np.testing.assert_allclose([curve.lower, curve.upper], [[0.2], [0.8]])
    scaled = reliability_curve(
        np.zeros(10), np.full(10, 0.5), n_bins=1, sample_weight=np.full(10, 7.0)
    )
    np.testing.assert_allclose(scaled.lower, curve.lower)
    sure = reliability_curve([0, 1], [0.0, 1.0])
    np.testing.assert_array_equal(sure.lower, [0.0, 1.0])
    np.testing.assert_array_equal(sure.upper, [0.0, 1.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_band_covers_calibrated_predictions(weighted):
    inside, total = 0, 0
    rng = np.random.default_rng(12)
    for seed in range(60):
        y, p = calibrated_sample(2000, seed=seed)
        weight = rng.uniform(0.5, 1.5, size=2000) if weighted else None
        curve = reliability_curve(y, p, n_bins=10, confidence=0.9, sample_weight=weight)
        inside += np.sum((curve.observed >= curve.lower) & (curve.observed <= curve.upper))
        total += curve.count.size
    # The binomial's atoms make its band cover somewhat more than asked.
    assert 0.87 < inside / total < (0.94 if weighted else 0.96)


def test_band_excludes_a_miscalibrated_predictor():
    y, p = calibrated_sample(5000, seed=13)
    curve = reliability_curve(y, p**2, n_bins=5)
    assert np.mean((curve.observed < curve.lower) | (curve.observed > curve.upper)) >= 0.8


def test_ece_is_the_curve_in_one_number():
    y, p = calibrated_sample(400, seed=14)
    for strategy in ("uniform", "quantile"):
        curve = reliability_curve(y, p, strategy=strategy)
        gap = np.abs(curve.observed - curve.mean_predicted)
        expected = np.average(gap, weights=curve.weight)
        assert expected_calibration_error(y, p, strategy=strategy) == pytest.approx(expected)


# --- Errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0.5]), r"y_prob has 1 entries but y has 2"),
        (([0, 1], [0.5, 1.2]), r"y_prob holds 1\.2 at position 1, outside \[0, 1\]"),
        (([0, 1], [0.5, np.nan]), r"y_prob holds nan at position 1"),
        (([-1, 1], [0.5, 0.5]), r"y_true holds the label -1\.0.*recode"),
        ((["no", "yes"], [0.5, 0.5]), r"y_true must hold numbers"),
        (([0, 1], [[0.5, 0.5], [0.1, 0.9]]), r"y_prob has shape \(2, 2\).*\[:, 1\]"),
        (([], []), r"y_true is empty"),
        (([0, 1], [0.5, 0.5], [1, -1]), r"sample_weight holds -1\.0 at position 1"),
        (([0, 1], [0.5, 0.5], [0, 0]), r"sample_weight is all zero"),
        (([0, 1], [0.5, 0.5], [1]), r"sample_weight has 1 entries"),
    ],
)
@pytest.mark.parametrize(
    "metric",
    [expected_calibration_error, smooth_ece, brier_score, log_loss, brier_decomposition,
     reliability_curve],
)  # fmt: skip
def test_bad_samples_are_named(metric, arguments, message):
    y, p, *weight = arguments
    with pytest.raises(ValueError, match=message):
        metric(y, p, sample_weight=weight[0] if weight else None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_calibration_error([0], [0.5], n_bins=0), "n_bins=0"),
        (lambda: expected_calibration_error([0], [0.5], n_bins=2.5), "n_bins=2.5"),
        (lambda: expected_calibration_error([0], [0.5], strategy="even"), "strategy='even'"),
        (lambda: expected_calibration_error([0], [0.5], norm="max"), "norm='max'"),
        (lambda: smooth_ece([0], [0.5], bandwidth=0), "bandwidth=0"),
        (lambda: calibration_error_at([0.5], [0], [0.5], -1.0), "bandwidth=-1.0"),
        (lambda: calibration_error_at([2.0], [0], [0.5]), "levels holds 2.0"),
        (lambda: reliability_curve([0], [0.5], confidence=95), "confidence=95"),
        (lambda: brier_decomposition([0], [0.5], score="mse"), "score='mse'"),
        (lambda: mean_bregman_divergence([0.5], [0.5], "tv"), "divergence='tv'"),
        (lambda: mean_bregman_divergence([0.5], [1.5]), "p_pred holds 1.5"),
    ],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
