"""Tests of calibration, the calibration line, net benefit and costs: by hand and under the null."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

matplotlib.use("Agg")

from matplotlib.figure import Figure

from angcal import AngularCalibratedClassifier, Logit
from angcal.baselines import PlattScaling
from angcal.displays import DecisionCurveDisplay
from angcal.metrics import (
    calibration_line,
    cost_optimal_threshold,
    decision_curve,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    mean_cost,
    spiegelhalter_test,
    squared_kernel_calibration_error,
)
from angcal.simulation import simulate


def calibrated(rng, n, sd=1.5):
    """Labels by p, and p."""
    p = expit(rng.normal(-0.3, sd, size=n))
    return (rng.random(n) < p).astype(int), p


def classes_by(rng, P):
    return np.sum(rng.random((len(P), 1)) > np.cumsum(P, axis=1)[:, :-1], axis=1)


def assert_uniform(p_values):
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def by_groups(rng, count, size, agree, sd=1.5):
    """(labels, p, groups): p holds for each row, and labels of a group agree beyond that."""
    groups = np.repeat(np.arange(count), size)
    p = expit(sd * (rng.normal(size=count)[groups] + rng.normal(size=len(groups))) / np.sqrt(2))
    z = np.sqrt(agree) * rng.normal(size=count)[groups]
    z += np.sqrt(1 - agree) * rng.normal(size=len(groups))
    return (stats.norm.cdf(z) < p).astype(int), p, groups


GROUP_TESTS = {
    "spiegelhalter": spiegelhalter_test,
    "hosmer-lemeshow": lambda *pair, **given: hosmer_lemeshow_test(*pair, n_bins=5, **given),
    "kernel": lambda *pair, **given: kernel_calibration_test(
        *pair, n_resamples=99, random_state=0, **given
    ),
}


# -- groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", GROUP_TESTS)
def test_labels_of_groups_that_agree_are_not_rejected_more_often(test):
    """10 % of 300 draws, standard error 1.7 %; Rao and Scott's χ² is cautious with few groups."""
    rng, of_groups, of_rows = np.random.default_rng(11), [], []
    for _ in range(300):
        y, p, groups = by_groups(rng, 40, 5, 0.6)
        of_groups.append(GROUP_TESTS[test](y, p, groups=groups).p_value)
        of_rows.append(GROUP_TESTS[test](y, p).p_value)
    share = np.mean(np.array(of_groups) <= 0.1)
    assert 0.1 - 3 * 0.017 < share < 0.1 + 3 * 0.017
    assert np.mean(np.array(of_rows) <= 0.1) > share + 3 * 0.017


@pytest.mark.parametrize("test", GROUP_TESTS)
def test_groups_do_not_hide_what_is_wrong(test):
    rng, found = np.random.default_rng(12), []
    for _ in range(20):
        y, p, groups = by_groups(rng, 100, 5, 0.3)
        found.append(GROUP_TESTS[test](y, expit(3 * logit(p)), groups=groups).p_value)
    assert np.mean(np.array(found) < 0.05) > 0.9


@pytest.mark.parametrize("test", ["spiegelhalter", "hosmer-lemeshow"])
def test_copies_are_no_more_evidence(test):
    y, p, _ = by_groups(np.random.default_rng(13), 60, 1, 0.0)
    single = GROUP_TESTS[test](y, p, groups=np.arange(60))
    copied = GROUP_TESTS[test](*(np.repeat(v, 4) for v in (y, p)), groups=np.arange(240) // 4)
    assert copied.statistic == pytest.approx(single.statistic, rel=1e-9)
    assert copied.p_value == pytest.approx(single.p_value, rel=1e-9)
    # Groups of one row: the design effect is one.
    assert single.statistic == pytest.approx(GROUP_TESTS[test](y, p).statistic, rel=1e-9)


def test_kernel_statistic_is_over_pairs_of_different_groups():
    y, p, groups = by_groups(np.random.default_rng(14), 6, 3, 0.0)
    r, w = np.column_stack([p - y, y - p]), np.arange(1.0, 19.0)
    kernel = np.exp(-np.abs(p[:, None] - p) / 0.2)
    apart = np.outer(w, w) * (groups[:, None] != groups)
    expected = np.sum(apart * kernel * (r @ r.T)) / apart.sum()
    found = kernel_calibration_test(y, p, groups=groups, sample_weight=w, n_resamples=1)
    assert found.statistic == pytest.approx(expected, rel=1e-12)


def test_groups_that_say_nothing_are_refused():
    y, p, groups = by_groups(np.random.default_rng(15), 6, 3, 0.0)
    for test in GROUP_TESTS.values():
        with pytest.raises(ValueError, match="groups has one value only"):
            test(y, p, groups=np.zeros(18))
        with pytest.raises(ValueError, match="groups has 5 entries for 18 rows"):
            test(y, p, groups=np.zeros(5))
    with pytest.raises(ValueError, match="fitted=True counts rows as independent"):
        hosmer_lemeshow_test(y, p, fitted=True, groups=groups)


# -- Spiegelhalter -----------------------------------------------------------------------------


def test_spiegelhalter_by_hand():
    y, p = np.array([1, 0, 1, 0]), np.array([0.7, 0.2, 0.4, 0.9])
    z = np.sum((y - p) * (1 - 2 * p)) / np.sqrt(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))
    found = spiegelhalter_test(y, p)
    assert found.statistic == pytest.approx(z, rel=1e-12)
    assert found.p_value == pytest.approx(2 * stats.norm.cdf(-abs(z)), rel=1e-12)
    both = spiegelhalter_test(y, np.column_stack([1 - p, p]))
    assert both.statistic == pytest.approx(z, rel=1e-12)
    # A weight of two is a row twice, but for the variance, which weights enter squared.
    weighted = spiegelhalter_test(y, p, sample_weight=[3.0, 3.0, 3.0, 3.0])
    assert weighted.statistic == pytest.approx(z, rel=1e-12)


def test_spiegelhalter_is_the_brier_score_in_its_own_units():
    """Of K classes: (B − E B)/sd(B), with moments summed over all labels."""
    P = np.random.default_rng(0).dirichlet([1, 2, 3, 4], size=30)
    y = np.arange(30) % 4
    brier = np.sum((np.eye(4)[None] - P[:, None, :]) ** 2, axis=2)  # row, label
    mean = np.sum(P * brier, axis=1)
    variance = np.sum(P * (brier - mean[:, None]) ** 2, axis=1)
    z = (brier[np.arange(30), y] - mean).sum() / np.sqrt(variance.sum())
    assert spiegelhalter_test(y, P).statistic == pytest.approx(z, rel=1e-10)


def test_spiegelhalter_under_the_null_and_off_it():
    rng = np.random.default_rng(0)
    assert_uniform([spiegelhalter_test(*calibrated(rng, 200)).p_value for _ in range(500)])
    P = rng.dirichlet([0.5, 1, 2], size=300)
    assert_uniform([spiegelhalter_test(classes_by(rng, P), P).p_value for _ in range(500)])
    y, p = calibrated(rng, 2000)
    assert spiegelhalter_test(y, expit(2 * logit(p))).statistic > 5
    assert spiegelhalter_test(y, expit(0.5 * logit(p))).statistic < -5


def test_spiegelhalter_where_labels_cannot_contradict():
    assert spiegelhalter_test([0, 1], [0.5, 0.5]).p_value == 1.0
    assert spiegelhalter_test([0, 1, 2], np.full((3, 3), 1 / 3)).p_value == 1.0
    assert spiegelhalter_test([0, 1], [0.0, 1.0]).p_value == 1.0
    assert spiegelhalter_test([0, 1], [0.0, 0.0]).p_value == 0.0


# -- Hosmer and Lemeshow -----------------------------------------------------------------------


def test_hosmer_lemeshow_by_hand():
    rng = np.random.default_rng(1)
    y, p = calibrated(rng, 100)
    order = np.argsort(p)
    H = sum((y[b] - p[b]).sum() ** 2 / (p[b] * (1 - p[b])).sum() for b in np.array_split(order, 5))
    found = hosmer_lemeshow_test(y, p, n_bins=5)
    assert found.statistic == pytest.approx(H, rel=1e-12)
    assert (found.degrees_of_freedom, found.p_value) == (5, pytest.approx(stats.chi2.sf(H, 5)))
    fitted = hosmer_lemeshow_test(y, p, n_bins=5, fitted=True)
    assert (fitted.degrees_of_freedom, fitted.p_value) == (3, pytest.approx(stats.chi2.sf(H, 3)))


def test_hosmer_lemeshow_where_bins_end():
    with pytest.raises(ValueError, match="2 bins"):
        hosmer_lemeshow_test([0, 1, 0, 1], [0.2, 0.2, 0.7, 0.7], fitted=True)
    assert hosmer_lemeshow_test([0, 0, 1], [0.0, 0.0, 0.5], n_bins=2).statistic == pytest.approx(1)
    assert hosmer_lemeshow_test([1, 0, 1], [0.0, 0.0, 0.5], n_bins=2).p_value == 0.0


def test_hosmer_lemeshow_under_the_null():
    """New rows have g degrees of freedom, those of a fitted curve g − 2, and neither the other."""
    rng = np.random.default_rng(2)
    new, of_fit, mistaken = [], [], []
    for _ in range(500):
        y, p = calibrated(rng, 500)
        new.append(hosmer_lemeshow_test(y, p).p_value)
        mistaken.append(hosmer_lemeshow_test(y, p, fitted=True).p_value)
        scores = logit(p)
        q = PlattScaling().fit(scores, y).predict(scores)
        of_fit.append(hosmer_lemeshow_test(y, q, fitted=True).p_value)
    assert_uniform(new)
    assert_uniform(of_fit)
    assert np.mean(np.array(mistaken) < 0.05) > 0.08


def test_left_out_probabilities_count_as_new():
    found = []
    for seed in range(100):
        data = simulate(300, 150, link=Logit(2.0), random_state=seed)
        clf = AngularCalibratedClassifier(LogisticRegression(C=0.02)).fit(data.X, data.y)
        found.append(hosmer_lemeshow_test(data.y, clf.loo_proba_[:, 1], n_bins=6).p_value)
    # 0.1 ± 3·√(0.09/100)
    assert abs(np.mean(np.array(found) < 0.1) - 0.1) < 0.09


# -- the kernel test ---------------------------------------------------------------------------


def test_kernel_test_under_the_null_and_off_it():
    rng = np.random.default_rng(3)
    two, three = [], []
    for seed in range(300):
        y, p = calibrated(rng, 60)
        two.append(kernel_calibration_test(y, p, n_resamples=99, random_state=seed).p_value)
        P = rng.dirichlet([1, 1, 2], size=50)
        codes = classes_by(rng, P)
        three.append(kernel_calibration_test(codes, P, n_resamples=99, random_state=seed).p_value)
    for found in (two, three):  # spread over the hundred values that it can take
        assert_uniform(np.array(found) - rng.random(300) / 100)
    y, p = calibrated(rng, 500)
    wrong = kernel_calibration_test(y, expit(logit(p) + 1), n_resamples=199, random_state=0)
    assert wrong.p_value == 1 / 200


def test_kernel_test_is_exact_by_enumeration():
    """Of three rows all eight labels: the share of probability that is as far out."""
    p, y = np.array([0.2, 0.5, 0.9]), np.array([1, 0, 0])
    P = np.column_stack([1 - p, p])

    def value(labels):
        return squared_kernel_calibration_error(labels, P)

    exact = 0.0
    for labels in np.ndindex(2, 2, 2):
        chance = np.prod(np.where(labels, p, 1 - p))
        exact += chance * (value(np.array(labels)) >= value(y) - 1e-12)
    found = kernel_calibration_test(y, p, n_resamples=20_000, random_state=0)
    assert found.statistic == pytest.approx(value(y), rel=1e-12)
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_kernel_test_refuses():
    with pytest.raises(ValueError, match="n_resamples=0"):
        kernel_calibration_test([0, 1], [0.5, 0.5], n_resamples=0)
    with pytest.raises(ValueError, match="bandwidth"):
        kernel_calibration_test([0, 1], [0.5, 0.5], bandwidth=0.0)


# -- slope and intercept -----------------------------------------------------------------------


def test_line_is_scikit_learns_without_penalty():
    rng = np.random.default_rng(4)
    y, p = calibrated(rng, 300)
    q = expit(0.5 * logit(p) + 0.7)
    weight = rng.random(300)
    line = calibration_line(y, q, sample_weight=weight)
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    model.fit(logit(q)[:, None], y, weight)
    assert line.slope == pytest.approx(model.coef_[0, 0], rel=1e-6)
    assert line.intercept == pytest.approx(model.intercept_[0], rel=1e-6)


def test_line_in_closed_form():
    """Two values of p are fitted exactly; errors are those of log odds, √(1/a + 1/b)."""
    y = np.repeat([0, 1, 0, 1], [30, 10, 20, 40])
    p = np.repeat([0.2, 0.5], [40, 60])
    line = calibration_line(y, p, confidence=0.9)
    assert line.intercept == pytest.approx(np.log(40 / 20), rel=1e-9)  # logit 0.5 = 0
    assert line.intercept_error == pytest.approx(np.sqrt(1 / 40 + 1 / 20), rel=1e-9)
    rise, run = np.log(40 / 20) - np.log(10 / 30), logit(0.5) - logit(0.2)
    assert line.slope == pytest.approx(rise / run, rel=1e-9)
    error = np.sqrt(1 / 40 + 1 / 20 + 1 / 10 + 1 / 30) / run
    assert line.slope_error == pytest.approx(error, rel=1e-9)
    assert line.slope_interval[1] - line.slope == pytest.approx(stats.norm.ppf(0.95) * error)
    assert expit(logit(p) + line.in_the_large).mean() == pytest.approx(y.mean(), abs=1e-10)


def test_line_covers_and_its_test_is_uniform():
    rng, found = np.random.default_rng(5), []
    for _ in range(400):
        y, p = calibrated(rng, 300)
        line = calibration_line(y, p, confidence=0.9)
        covers = [
            low < truth < high
            for truth, (low, high) in (
                (1.0, line.slope_interval),
                (0.0, line.intercept_interval),
                (0.0, line.in_the_large_interval),
            )
        ]
        found.append([line.p_value, *covers])
    found = np.array(found)
    assert_uniform(found[:, 0])
    # 0.9 ± 3·√(0.09/400)
    assert np.all(np.abs(found[:, 1:].mean(axis=0) - 0.9) < 0.045)


def test_line_without_an_end():
    apart = calibration_line([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8])
    assert np.isfinite([apart.slope, apart.slope_error, apart.in_the_large]).all()
    assert apart.slope > 0
    one = calibration_line([1, 1, 1], [0.2, 0.5, 0.6])
    assert np.isfinite([one.slope, one.in_the_large]).all()
    flat = calibration_line([0, 1, 1, 1], [0.5] * 4)
    assert (flat.slope, flat.slope_error) == (0.0, np.inf)
    assert flat.in_the_large == pytest.approx(np.log(3))
    extreme = calibration_line([0, 1, 0, 1], [0.0, 0.3, 0.4, 1.0])
    assert np.isfinite(extreme.slope)
    with pytest.raises(ValueError, match="confidence=1"):
        calibration_line([0, 1], [0.2, 0.8], confidence=1)


# -- decisions ---------------------------------------------------------------------------------


def test_net_benefit_is_that_of_the_confusion_matrix():
    rng = np.random.default_rng(6)
    y, p = calibrated(rng, 200)
    weight = rng.integers(1, 4, size=200)
    curve = decision_curve(y, p, sample_weight=weight)
    # Rows that come twice, with a name for both: the errors of single rows.
    twice = decision_curve(
        *(np.repeat(v, 2) for v in (y, p)),
        sample_weight=np.repeat(weight, 2),
        groups=np.repeat(np.arange(len(y)), 2),
    )
    np.testing.assert_allclose(twice.standard_error, curve.standard_error)
    np.testing.assert_allclose(curve.thresholds, np.arange(1, 100) / 100)
    for t, benefit in zip(curve.thresholds, curve.net_benefit, strict=True):
        (_, fp), (_, tp) = confusion_matrix(y, p >= t, sample_weight=weight, labels=[0, 1])
        assert benefit == pytest.approx((tp - fp * t / (1 - t)) / weight.sum(), abs=1e-12)
    share = np.average(y, weights=weight)
    odds = curve.thresholds / (1 - curve.thresholds)
    np.testing.assert_allclose(curve.treat_all, share - (1 - share) * odds)
    assert not curve.treat_none.any()
    with pytest.raises(ValueError, match="leave it out"):
        decision_curve(y, p, thresholds=[0.5, 1.0])


def test_calibrated_predictions_are_worth_the_most():
    """E NB(t) = E[(p − t)₊]/(1 − t), and any monotone change of p has no more."""
    rng = np.random.default_rng(7)
    y, p = calibrated(rng, 20_000)
    curve = decision_curve(y, p, thresholds=[0.1, 0.3, 0.6])
    expected = [np.mean(np.maximum(p - t, 0)) / (1 - t) for t in curve.thresholds]
    assert np.all(np.abs(curve.net_benefit - expected) < 4 * curve.standard_error)
    for wrong in (expit(3 * logit(p)), expit(logit(p) + 1.5)):
        other = decision_curve(y, wrong, thresholds=curve.thresholds)
        assert np.all(other.net_benefit < curve.net_benefit + 1e-9)


def test_threshold_is_the_cheapest():
    assert cost_optimal_threshold(1, 1) == 0.5
    assert cost_optimal_threshold(2, 8) == pytest.approx(0.2)
    rng = np.random.default_rng(8)
    p = expit(rng.normal(size=5000))
    costs = {"false_positive": 3, "false_negative": 5, "true_positive": 1, "true_negative": -0.5}
    best = cost_optimal_threshold(**costs)
    grid = np.linspace(0.01, 0.99, 99)
    expected = [
        np.mean(np.where(p >= t, p * 1 + (1 - p) * 3, p * 5 + (1 - p) * -0.5)) for t in grid
    ]
    assert grid[np.argmin(expected)] == pytest.approx(best, abs=0.01)
    for wrong in ((0, 1), (1, -1), (float("nan"), 1)):
        with pytest.raises(ValueError, match="must be finite and cost more"):
            cost_optimal_threshold(*wrong)


def test_thresholds_work_with_scikit_learn():
    data = simulate(1500, 30, link=Logit(2.0, -1.0), random_state=0)
    labels = np.where(data.y == 1, "sick", "well")
    clf = AngularCalibratedClassifier(LogisticRegression()).fit(data.X, labels)
    costs = {"false_positive": 1.0, "false_negative": 4.0}
    t = cost_optimal_threshold(**costs)
    column = clf.classes_.tolist().index("sick")
    fixed = FixedThresholdClassifier(
        FrozenEstimator(clf), threshold=t, pos_label="sick", response_method="predict_proba"
    ).fit(data.X, labels)
    acted = clf.predict_proba(data.X)[:, column] >= t
    np.testing.assert_array_equal(fixed.predict(data.X) == "sick", acted)
    cost = make_scorer(mean_cost, greater_is_better=False, pos_label="sick", **costs)
    tuned = TunedThresholdClassifierCV(
        clf, scoring=cost, response_method="predict_proba", random_state=0
    ).fit(data.X, labels)
    X_new, y_new = data.sample(20_000, random_state=1)
    truth = np.where(y_new == 1, "sick", "well")
    # No search is needed: the costs of both are the same but for chance.
    searched = mean_cost(truth, tuned.predict(X_new), pos_label="sick", **costs)
    assert mean_cost(truth, fixed.predict(X_new), pos_label="sick", **costs) < 1.02 * searched


def test_mean_cost_by_hand():
    y, d = ["a", "b", "b", "a"], ["b", "b", "a", "a"]
    costs = {"false_positive": 1, "false_negative": 10, "true_positive": 2, "true_negative": 4}
    assert mean_cost(y, d, pos_label="b", **costs) == (1 + 2 + 10 + 4) / 4
    weighted = mean_cost(y, d, pos_label="b", sample_weight=[1, 1, 2, 0], **costs)
    assert weighted == (1 + 2 + 20) / 4
    with pytest.raises(ValueError, match="y_pred has 1"):
        mean_cost(y, ["a"], **costs)


# -- the picture -------------------------------------------------------------------------------


def test_display_draws_the_curve():
    y, p = calibrated(np.random.default_rng(9), 400)
    ax = Figure().subplots()
    first = DecisionCurveDisplay.from_predictions(y, p, name="model", ax=ax)
    curve = decision_curve(y, p)
    np.testing.assert_array_equal(first.line_.get_ydata(), curve.net_benefit)
    np.testing.assert_array_equal(first.line_.get_xdata(), curve.thresholds)
    assert first.band_ is not None
    second = DecisionCurveDisplay.from_predictions(y, p**2, name="other", band=False, ax=ax)
    assert second.band_ is None
    assert first.line_.get_color() != second.line_.get_color()
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["treat all", "treat none", "model", "other"]
    low, high = ax.get_ylim()
    assert low < 0 < curve.net_benefit.max() < high


def test_display_of_an_estimator():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.5, "b", np.where(X[:, 1] > 0, "a", "c"))
    two = LogisticRegression().fit(X, y == "b")
    display = DecisionCurveDisplay.from_estimator(two, X, y == "b", ax=Figure().subplots())
    expected = decision_curve((y == "b").astype(int), two.predict_proba(X)[:, 1]).net_benefit
    np.testing.assert_array_equal(display.line_.get_ydata(), expected)
    assert display.line_.get_label() == "LogisticRegression"
    three = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="3 classes; name the one"):
        DecisionCurveDisplay.from_estimator(three, X, y)
    with pytest.raises(ValueError, match="none of the classes"):
        DecisionCurveDisplay.from_estimator(three, X, y, pos_label="d")
    named = DecisionCurveDisplay.from_estimator(
        three, X, y, pos_label="c", ax=Figure().subplots(), band=False
    )
    expected = decision_curve((y == "c").astype(int), three.predict_proba(X)[:, 2]).net_benefit
    np.testing.assert_array_equal(named.line_.get_ydata(), expected)
