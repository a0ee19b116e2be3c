"""Hand-computed values, binary limits, invariances and expectations of the multi-class metrics."""

from __future__ import annotations

import dataclasses
from inspect import signature
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from angcal.metrics import (
    brier_score,
    classwise_ece,
    classwise_reliability,
    expected_calibration_error,
    full_ece,
    log_loss,
    mean_bregman_divergence,
    multiclass_brier_score,
    multiclass_log_loss,
    reliability_curve,
    squared_kernel_calibration_error,
    top_label_ece,
    true_probability_divergence,
)
from angcal.metrics.calibration import _cell_count, _default_bins, _simplex_cells

SCALARS = {
    "log-loss": multiclass_log_loss,
    "brier": multiclass_brier_score,
    "top": top_label_ece,
    "top-quantile": lambda y, P, **o: top_label_ece(y, P, strategy="quantile", n_bins=4, **o),
    "classwise": classwise_ece,
    "classwise-debiased": lambda y, P, **o: classwise_ece(y, P, debiased=True, n_bins=3, **o),
    "full": lambda y, P, **o: full_ece(y, P, n_bins=4, **o),
    "full-debiased": lambda y, P, **o: full_ece(y, P, n_bins=2, debiased=True, **o),
    "kernel": squared_kernel_calibration_error,
}
every_scalar = pytest.mark.parametrize("metric", SCALARS.values(), ids=SCALARS)


def sample(n=300, K=4, seed=0, sharpen=1.0):
    """Labels drawn from P, and P sharpened: calibrated at ``sharpen=1``."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.5, 1.5, K), size=n)
    y = (P.cumsum(axis=1)[:, :-1] <= rng.random(n)[:, None]).sum(axis=1)
    Q = P**sharpen
    return y, Q / Q.sum(axis=1, keepdims=True)


# --- By hand ---------------------------------------------------------------------------------

HAND_Y = [0, 1, 2, 0]
HAND_P = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6]])


def test_scores_by_hand():
    expected = -np.log(0.6 * 0.3 * 0.6 * 0.2) / 4
    assert multiclass_log_loss(HAND_Y, HAND_P) == pytest.approx(expected, rel=1e-14)
    squares = [0.16 + 0.09 + 0.01, 0.36 + 0.49 + 0.01, 0.04 + 0.04 + 0.16, 0.64 + 0.04 + 0.36]
    assert multiclass_brier_score(HAND_Y, HAND_P) == pytest.approx(np.mean(squares) / 2)
    plain = multiclass_brier_score(HAND_Y, HAND_P, scale_by_half=False)
    assert plain == pytest.approx(np.mean(squares))


def test_errors_by_hand():
    # Every confidence is 0.6 and half the rows are hits.
    assert top_label_ece(HAND_Y, HAND_P) == pytest.approx(0.1)
    # Class 0: |½ − 0.6|, |½ − 0.2|; class 1: |½ − 0.3|, |0 − 0.2|; class 2: 0.1 and |½ − 0.6|.
    each = classwise_ece(HAND_Y, HAND_P, per_class=True)
    np.testing.assert_allclose(each, [0.2, 0.2, 0.1])
    assert classwise_ece(HAND_Y, HAND_P) == pytest.approx(0.5 / 3)
    # Two cells, gaps (−0.1, 0.2, −0.1) and (0.3, −0.2, −0.1); half their absolute sums.
    assert full_ece(HAND_Y, HAND_P, n_bins=7) == pytest.approx((0.2 + 0.3) / 2)
    # One cell: the frequencies (½, ¼, ¼) against the mean prediction (0.4, 0.25, 0.35).
    assert full_ece(HAND_Y, HAND_P, n_bins=1) == pytest.approx(0.1)


def test_kernel_error_by_hand():
    y, P = [0, 1], [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]
    product = 0.4 * -0.2 + -0.3 * 0.8 + -0.1 * -0.6
    expected = product * np.exp(-0.5 / 0.4)
    value = squared_kernel_calibration_error(y, P, bandwidth=0.4)
    assert value == pytest.approx(expected, rel=1e-13)


def test_divergences_by_hand():
    found = true_probability_divergence([[0.5, 0.5, 0.0]], [[0.25, 0.5, 0.25]])
    assert found.kl == pytest.approx(0.5 * np.log(2))
    assert found.brier == pytest.approx(0.0625)
    assert found.total_variation == pytest.approx(0.25)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.kl = 0.0


def test_divergence_is_infinite_only_where_it_counts():
    p, q = [[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]
    assert true_probability_divergence(p, q).kl == np.inf
    assert true_probability_divergence(p, q, sample_weight=[0, 1]).kl == 0.0


def test_a_sure_miss_costs_36_nats():
    assert multiclass_log_loss([1], [[1.0, 0.0, 0.0]]) == pytest.approx(36.04, abs=0.01)


# --- Two classes, and other libraries --------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_give_the_binary_metrics(weighted):
    y, P = sample(K=2, sharpen=1.7)
    p = P[:, 1]
    w = np.random.default_rng(1).exponential(size=y.size) if weighted else None
    for several, binary, options in [
        (multiclass_log_loss, log_loss, {}),
        (multiclass_brier_score, brier_score, {}),
        (classwise_ece, expected_calibration_error, {}),
        (classwise_ece, expected_calibration_error, {"n_bins": 6, "norm": "l2", "debiased": True}),
        (full_ece, expected_calibration_error, {}),
        (full_ece, expected_calibration_error, {"n_bins": 5, "debiased": True}),
    ]:
        expected = binary(y, p, sample_weight=w, **options)
        assert several(y, P, sample_weight=w, **options) == pytest.approx(expected, rel=1e-10)
    # Away from 0 and 1, where the binary metric loses the digits of 1 − p.
    P = 0.02 + 0.96 * P
    p, truth = P[:, 1], np.column_stack([0.7 - 0.4 * p, 0.3 + 0.4 * p])
    found = true_probability_divergence(truth, P, sample_weight=w)
    kl = mean_bregman_divergence(truth[:, 1], p, "kl", sample_weight=w)
    squared = mean_bregman_divergence(truth[:, 1], p, "squared", sample_weight=w)
    assert found.kl == pytest.approx(kl, rel=1e-10)
    assert found.brier == pytest.approx(squared, rel=1e-10)


def test_full_error_of_two_classes_is_binary_on_the_edges_too():
    y, p = [0, 1, 1, 0, 1], np.array([0.2, 0.1, 0.4, 0.8, 0.6])
    binary = expected_calibration_error(y, p, n_bins=5)
    assert full_ece(y, np.column_stack([1 - p, p]), n_bins=5) == pytest.approx(binary, rel=1e-14)


def test_curves_and_top_label_are_binary_metrics_of_a_column():
    y, P = sample(sharpen=1.5)
    curves = classwise_reliability(y, P, n_bins=6, confidence=0.9, strategy="quantile")
    assert len(curves) == P.shape[1]
    for k, curve in enumerate(curves):
        binary = reliability_curve(y == k, P[:, k], n_bins=6, confidence=0.9, strategy="quantile")
        for name in ("mean_predicted", "observed", "count", "lower", "upper"):
            np.testing.assert_array_equal(getattr(curve, name), getattr(binary, name))
    hit = expected_calibration_error(P.argmax(axis=1) == y, P.max(axis=1), n_bins=9, debiased=True)
    assert top_label_ece(y, P, n_bins=9, debiased=True) == hit


def test_scores_are_scikit_learns():
    y, P = sample(sharpen=2.0)
    w = np.random.default_rng(1).exponential(size=y.size)
    labels = range(P.shape[1])
    expected = sklearn_log_loss(y, P, sample_weight=w, labels=labels)
    assert multiclass_log_loss(y, P, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    ours = multiclass_brier_score(y, P, sample_weight=w)
    each = [brier_score_loss(y == k, P[:, k], sample_weight=w) for k in labels]
    assert ours == pytest.approx(sum(each) / 2, rel=1e-12)
    if "scale_by_half" in signature(brier_score_loss).parameters:  # since scikit-learn 1.7
        expected = brier_score_loss(y, P, sample_weight=w, labels=labels, scale_by_half=True)
        assert ours == pytest.approx(expected, rel=1e-12)


# --- Invariances -----------------------------------------------------------------------------


@every_scalar
def test_order_of_classes_does_not_matter(metric):
    y, P = sample(sharpen=1.6)
    order = np.array([2, 0, 3, 1])
    position = np.argsort(order)
    assert metric(position[y], P[:, order]) == pytest.approx(metric(y, P), rel=1e-11)
    each = classwise_ece(y, P, per_class=True)
    moved = classwise_ece(position[y], P[:, order], per_class=True)
    np.testing.assert_allclose(moved, each[order], rtol=1e-11)


@every_scalar
def test_labels_may_have_names(metric):
    y, P = sample()
    names = np.array(["rose", "lily", "iris", "aster"])
    assert metric(names[y], P, classes=names) == metric(y, P)
    assert metric(list(names[y]), P, classes=list(names)) == metric(y, P)
    assert metric(y.astype(float), P) == metric(y, P)


@every_scalar
def test_only_ratios_of_weights_matter_and_zero_drops_a_row(metric):
    y, P = sample(sharpen=1.4)
    w = np.random.default_rng(2).exponential(size=y.size)
    w[::3] = 0.0
    value = metric(y, P, sample_weight=w)
    assert metric(y, P, sample_weight=5 * w) == pytest.approx(value, rel=1e-10)
    kept = w > 0
    assert metric(y[kept], P[kept], sample_weight=w[kept]) == pytest.approx(value, rel=1e-10)
    assert abs(metric(y, P) - value) > 1e-6


# A debiased error takes a row that counts thrice for more noise than three rows.
@pytest.mark.parametrize("name", ["log-loss", "brier", "top", "top-quantile", "classwise", "full"])
def test_weights_are_repetitions(name):
    y, P = sample(sharpen=1.4)
    times = np.random.default_rng(3).integers(1, 4, size=y.size)
    repeated = SCALARS[name](np.repeat(y, times), np.repeat(P, times, axis=0))
    assert SCALARS[name](y, P, sample_weight=times) == pytest.approx(repeated, rel=1e-10)


def test_truth_has_the_lowest_expected_score():
    y, P = sample(n=20_000, K=3, seed=5)
    for sharpen in (0.6, 1.5):
        Q = P**sharpen
        Q /= Q.sum(axis=1, keepdims=True)
        excess = true_probability_divergence(P, Q)
        rows = np.arange(y.size)
        each = np.log(P[rows, y]) - np.log(Q[rows, y])
        error = each.std() / np.sqrt(y.size)
        assert excess.kl > 0.01
        found = multiclass_log_loss(y, Q) - multiclass_log_loss(y, P)
        assert abs(found - excess.kl) < 4 * error
        square = ((Q - np.eye(3)[y]) ** 2 - (P - np.eye(3)[y]) ** 2).sum(axis=1) / 2
        found = multiclass_brier_score(y, Q) - multiclass_brier_score(y, P)
        assert abs(found - excess.brier) < 4 * square.std() / np.sqrt(y.size)


# --- The whole vector ------------------------------------------------------------------------


def jointly_wrong():
    """Rows whose every column and top label are calibrated while the vectors are off by TV 0.1.

    The six orders of (0.1, 0.3, 0.6), with errors ±(0.05, 0.05, −0.1) by the sign of the order.
    Each value of a column occurs in one even and one odd order, so its errors cancel.
    """
    y, P = [], []
    for order in permutations(range(3)):
        sign = np.linalg.det(np.eye(3)[list(order)])
        p = np.array([0.1, 0.3, 0.6])[list(order)]
        counts = np.rint(100 * (p + sign * np.array([0.05, 0.05, -0.1]))).astype(int)
        y.extend(np.repeat(np.arange(3), counts))
        P.extend([p] * 100)
    return np.array(y), np.array(P)


def test_full_error_sees_what_columns_hide():
    y, P = jointly_wrong()
    assert y.size == 600
    assert classwise_ece(y, P, n_bins=7) == pytest.approx(0.0, abs=1e-12)
    assert top_label_ece(y, P, n_bins=7) == pytest.approx(0.0, abs=1e-12)
    assert full_ece(y, P, n_bins=7) == pytest.approx(0.1, rel=1e-10)
    assert squared_kernel_calibration_error(y, P, bandwidth=0.1) > 5e-4


@pytest.mark.parametrize(("m", "K", "count"), [(1, 3, 1), (4, 3, 16), (2, 6, 7), (3, 4, 15)])
def test_cells_are_those_of_the_simplex(m, K, count):
    assert _cell_count(m, K) == count
    # Every cell here has more than a hundredth of the simplex.
    P = np.random.default_rng(0).dirichlet(np.ones(K), size=20_000)
    assert np.unique(_simplex_cells(P, m)).size == count


def test_counts_named_in_the_documentation():
    assert (_cell_count(5, 10), _cell_count(10, 10)) == (1001, 92_377)


def test_default_cells_depend_on_rows_and_classes_alone():
    assert [_default_bins(n, 2) for n in (1, 10**6)] == [15, 15]
    # At K = 3 there are m² cells.
    assert [_default_bins(n, 3) for n in (5, 40, 359, 360, 10**6)] == [1, 2, 5, 6, 15]
    assert _default_bins(2000, 10) == 3
    y, P = sample(n=360, K=3)
    assert full_ece(y, P) == full_ece(y, P, n_bins=6)


def test_single_rows_in_cells_say_nothing_about_calibration():
    y, P = sample(n=200, sharpen=3.0)
    misses = 1.0 - P[np.arange(y.size), y]
    assert full_ece(y, P, n_bins=10**6) == pytest.approx(misses.mean(), rel=1e-12)


def noisy_errors(repetitions=300, per_cell=150):
    """Raw and debiased full errors of calibrated labels on thirty distinct predictions."""
    rng = np.random.default_rng(8)
    distinct = rng.dirichlet([4.0, 4.0, 4.0], size=30)
    P = np.repeat(distinct, per_cell, axis=0)
    drawn = []
    for _ in range(repetitions):
        y = (P.cumsum(axis=1)[:, :-1] <= rng.random(len(P))[:, None]).sum(axis=1)
        drawn.append([full_ece(y, P, n_bins=1000, debiased=flag) for flag in (False, True)])
    noise = 0.5 * np.sqrt(2 * distinct * (1 - distinct) / (np.pi * per_cell)).sum(axis=1).mean()
    return np.array(drawn), noise


@pytest.mark.slow
def test_noise_of_the_full_error_is_the_documented_one():
    drawn, noise = noisy_errors()
    standard_error = drawn.std(axis=0) / np.sqrt(len(drawn))
    # The folded normal replaces a binomial, which moves it by less than a hundredth here.
    assert abs(drawn[:, 0].mean() - noise) < 4 * standard_error[0] + 0.01 * noise
    # Where a gap is all noise, the part √2 − 1 of the bias goes: 0.586 stays, before clipping.
    assert abs(drawn[:, 1].mean() - (2 - np.sqrt(2)) * noise) < 4 * standard_error[1] + 0.01 * noise


@pytest.mark.slow
def test_kernel_error_has_no_bias():
    values = [squared_kernel_calibration_error(*sample(n=40, K=5, seed=s)) for s in range(600)]
    standard_error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values)) < 4 * standard_error
    assert np.min(values) < 0
    sharp = [
        squared_kernel_calibration_error(*sample(n=40, K=5, seed=s, sharpen=3.0))
        for s in range(100)
    ]
    assert np.mean(sharp) > 10 * standard_error


def test_kernel_error_does_not_depend_on_blocks(monkeypatch):
    y, P = sample(n=101)
    whole = squared_kernel_calibration_error(y, P)
    monkeypatch.setattr("angcal.plan.BLOCK_ENTRIES", 7 * 101)
    assert squared_kernel_calibration_error(y, P) == pytest.approx(whole, rel=1e-12)


# --- Bad input -------------------------------------------------------------------------------

GOOD = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])


@every_scalar
@pytest.mark.parametrize(
    ("y", "P", "options", "message"),
    [
        ([0, 1], [[0.5, 0.3, 0.2], [0.2, 0.2, 0.5]], {}, "row 1 of y_prob sums to 0.9, not to 1"),
        ([0, 1], [[0.5, 0.3, 0.2], [1.2, -0.2, 0.0]], {}, "-0.2 at row 1, column 1, below zero"),
        ([0, 1], [[0.5, np.nan, 0.2], [0.2, 0.2, 0.6]], {}, "nan at row 0, column 1"),
        ([0, 1], [0.5, 0.5], {}, r"shape \(2,\) but must be \(n, K\)"),
        ([0, 1], [[1.0], [1.0]], {}, r"shape \(2, 1\)"),
        ([], np.empty((0, 3)), {}, "y_prob is empty"),
        ([0, 1], [["a", "b"], ["c", "d"]], {}, "y_prob must hold numbers"),
        ([0, 1, 1], GOOD, {}, "y_prob has 2 rows but y has 3"),
        ([0, 3], GOOD, {}, r"label 3 at position 1, .* classes 0, 1, 2; pass classes="),
        ([0, np.nan], GOOD, {}, "label nan at position 1"),
        (["a", "b"], GOOD, {}, "label a at position 0"),
        ([[0, 1]], GOOD, {}, r"y_true has shape \(1, 2\)"),
        ([0, 1], GOOD, {"classes": [0, 1]}, "must name 3 different labels"),
        ([0, 1], GOOD, {"classes": [0, 1, 1]}, "must name 3 different labels"),
        ([0, 7], GOOD, {"classes": [0, 1, 2]}, "label 7 at position 1"),
        ([0, 1], GOOD, {"sample_weight": [1, -1]}, "sample_weight holds -1.0"),
        ([0, 1], GOOD, {"sample_weight": [1, 1, 1]}, "sample_weight has 3 entries"),
    ],
)
def test_bad_input_is_named(metric, y, P, options, message):
    with pytest.raises(ValueError, match=message):
        metric(y, P, **options)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="n_bins=0"):
        full_ece([0, 1], GOOD, n_bins=0)
    with pytest.raises(ValueError, match="bandwidth=0"):
        squared_kernel_calibration_error([0, 1], GOOD, bandwidth=0)
    with pytest.raises(ValueError, match="fewer than two rows"):
        squared_kernel_calibration_error([0, 1], GOOD, sample_weight=[1, 0])
    with pytest.raises(ValueError, match=r"p_pred has shape \(2, 3\) but p_true has \(1, 3\)"):
        true_probability_divergence(GOOD[:1], GOOD)
    with pytest.raises(ValueError, match="row 0 of p_true sums to 2"):
        true_probability_divergence([[1.0, 1.0]], [[0.5, 0.5]])


def test_single_precision_rows_pass():
    P = np.random.default_rng(0).dirichlet(np.ones(50), size=100).astype(np.float32)
    assert np.isfinite(classwise_ece(np.arange(100) % 50, P))
