"""Scores on a grid: totals, means and likelihoods survive."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angcal import plan
from angcal.baselines import PlattScaling
from angcal.score_bins import COARSE_SPACING, FINE_SPACING, bin_scores


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(3, n)
    labels = (rng.random(n) < 1 / (1 + np.exp(-1.5 * scores))).astype(float)
    return scores, labels, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("n", [50, 1000, 10_000, 100_000])
def test_weight_and_first_moment_are_kept(n):
    scores, labels, weights = drawn(n)
    bins = bin_scores(scores, labels, weights)
    for kept, part in ((bins.positive, labels), (bins.negative, 1 - labels)):
        assert kept.sum() == pytest.approx((weights * part).sum(), rel=1e-12)
        assert kept @ bins.nodes == pytest.approx((weights * part) @ scores, rel=1e-9, abs=1e-9)
    assert_allclose(bins.total, bins.positive + bins.negative)


@pytest.mark.parametrize(("n", "spacing"), [(4096, COARSE_SPACING), (200_000, FINE_SPACING)])
def test_added_variance_is_that_of_the_spacing(n, spacing):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=n)
    bins = bin_scores(scores, np.ones(n), np.ones(n))
    added = bins.total @ bins.nodes**2 / n - np.mean(scores**2)
    assert added == pytest.approx(spacing**2 / 6, rel=0.1)


def test_few_rows_stay_as_they_are():
    scores, labels, weights = drawn(20)
    assert bin_scores(scores, labels, weights).nodes is scores


def test_outlying_scores_keep_their_node():
    scores = np.append(np.random.default_rng(0).normal(size=2000), [50.0, -1e6])
    labels = np.append(np.zeros(2000), [1.0, 0.0])
    bins = bin_scores(scores, labels, np.ones(2002))
    assert_allclose(np.sort(bins.nodes[np.abs(bins.nodes) > plan.NORMAL_REACH + 1]), [-1e6, 50.0])
    assert bins.positive[bins.nodes == 50.0] == 1.0
    assert len(bins.nodes) < 200


def test_all_scores_outlying():
    bins = bin_scores(np.array([20.0, 30.0]), np.array([0.0, 1.0]), np.ones(2))
    assert_allclose(bins.nodes, [20.0, 30.0])


def test_a_fit_on_bins_is_the_fit_on_rows():
    """Platt's slope moves by about h²/6 of itself, 0.0007 here, his standard error is 0.05."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=4000)
    labels = (rng.random(4000) < 1 / (1 + np.exp(-1.5 * scores))).astype(float)
    bins = bin_scores(scores, labels, np.ones(4000))
    exact = PlattScaling().fit(scores, labels)
    nodes = np.tile(bins.nodes, 2)
    half = len(bins.nodes)
    gathered = PlattScaling().fit(
        nodes,
        np.repeat([1.0, 0.0], half),
        sample_weight=np.concatenate([bins.positive, bins.negative]),
    )
    assert gathered.slope_ == pytest.approx(exact.slope_, rel=2e-3)
    assert gathered.intercept_ == pytest.approx(exact.intercept_, abs=2e-3)
