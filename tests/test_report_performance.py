"""Figures about acting on a model, against brute force and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from angcal.metrics import calibration_line, cost_optimal_threshold
from angcal.report.page import miss_in_false_alarms
from angcal.report.performance import auc, share


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    return (rng.random(400) < p).astype(float), p


def test_auc_is_that_of_scikit_learn_and_its_error_that_of_a_bootstrap(drawn):
    y, p = drawn
    p = p.round(1)  # ties count half
    found = auc(y > 0, p)
    assert found.value == pytest.approx(roc_auc_score(y, p))
    rng = np.random.default_rng(1)
    picks = rng.integers(0, len(y), (400, len(y)))
    spread = np.std([roc_auc_score(y[i], p[i]) for i in picks])
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(spread, rel=0.1)


def test_copies_of_rows_add_nothing_where_they_are_a_group(drawn):
    y, p = drawn
    once, groups = auc(y > 0, p), np.tile(np.arange(len(y)), 3)
    thrice = auc(np.tile(y, 3) > 0, np.tile(p, 3), groups)
    assert thrice.low == pytest.approx(once.low, abs=2e-3)
    share_once, share_thrice = share(y), share(np.tile(y, 3), groups)
    assert share_thrice.low == pytest.approx(share_once.low, abs=1e-6)
    line, lines = calibration_line(y, p), calibration_line(np.tile(y, 3), np.tile(p, 3))
    grouped = calibration_line(np.tile(y, 3), np.tile(p, 3), groups=groups)
    assert grouped.slope == pytest.approx(line.slope)
    assert lines.slope_error < 0.65 * line.slope_error
    assert grouped.slope_error == pytest.approx(line.slope_error, rel=0.1)
    assert grouped.in_the_large_error == pytest.approx(line.in_the_large_error, rel=0.1)


def test_shares_have_wilsons_interval():
    found = share(np.array([1.0] * 8 + [0.0] * 2))
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    sure = share(np.ones(20))
    assert (sure.value, sure.high) == (1.0, 1.0)
    assert sure.low == pytest.approx(20 / (20 + 1.959964**2))
    assert np.isnan(share(np.array([])).value)


def test_perfect_order_leaves_room_for_doubt():
    found = auc(np.arange(20) >= 10, np.linspace(0, 1, 20))
    assert found.value == 1.0
    assert found.low == pytest.approx(0.05 ** (1 / 10))
    assert np.isnan(auc(np.ones(5), np.ones(5)).value)


def test_groups_have_one_entry_for_each_row(drawn):
    y, p = drawn
    with pytest.raises(ValueError, match="groups has 3 entries for 400 rows"):
        calibration_line(y, p, groups=[1, 2, 3])


@pytest.mark.parametrize("miss", [1, 4, 19])
def test_the_threshold_that_costs_least_is_named(miss):
    threshold = cost_optimal_threshold(false_positive=1, false_negative=miss)
    assert miss_in_false_alarms(threshold) == f"{miss} false alarm" + "s" * (miss > 1)
