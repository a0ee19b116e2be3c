import warnings
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from angcal.simulation import simulate
from studies.engine import figures
from studies.engine.runner import read_tables, run_experiment, trial_generator
from studies.paper.command import RESULTS
from studies.paper.phase import (
    CV,
    CV_SINGLE,
    FULL,
    METHODS,
    PHASE,
    QUICK,
    ROUTES,
    SPLIT,
    Prediction,
    counted,
    cross_validated_probability,
    fit_peers,
    joint_scores,
    logistic,
    measured,
    run_trial,
    true_curve,
    unit_variance,
)
from studies.paper.phase_figures import (
    CONTENDERS,
    FILLS,
    PANELS,
    by_method,
    mean_over_cells,
    winners,
)
from studies.paper.setting import PAPER_LINKS, FittedDraw

PHASE_DIAGRAM, PHASE_WINNERS = RESULTS["phase-diagram"], RESULTS["phase-winners"]
SMALL = replace(QUICK, n_per_d=(0.5, 4.0), ridges=(0.001, 10.0), n_test=4000)


@pytest.fixture(scope="module")
def data():
    return simulate(240, 120, link=PAPER_LINKS["sigmoid"], random_state=3)


@pytest.fixture(scope="module")
def fitted(data):
    return FittedDraw.of(data, 0.1, intercept=True)


@pytest.fixture(scope="module")
def peers(data):
    return fit_peers(data, 0.1)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phase")
    run_experiment(PHASE, SMALL, folder)
    return read_tables(PHASE, SMALL, folder)


# -- the grid


def test_full_grid_is_the_one_of_the_study():
    assert len(PHASE.trials(FULL)) == 11 * 9 * 20
    ratios, ridges = np.array(FULL.n_per_d), np.array(FULL.ridges)
    assert (ratios[0], ratios[-1]) == (0.25, 8.0)
    np.testing.assert_allclose(ratios[1:] / ratios[:-1], np.sqrt(2), rtol=1e-3)
    np.testing.assert_allclose(ridges[1:] / ridges[:-1], np.sqrt(10), rtol=2e-3)


# -- scikit-learn's side


def test_scikit_learn_minimizes_the_same_objective(data, fitted):
    model = logistic(240, 0.1).fit(unit_variance(data.X), data.y)
    coef = np.sqrt(120) * model.coef_[0]
    assert data.norm(coef - fitted.fit.coef) < 1e-3 * fitted.norm
    assert model.intercept_[0] == pytest.approx(fitted.fit.intercept, abs=1e-3)


@pytest.mark.parametrize("kind", [CV, CV_SINGLE])
def test_probabilities_from_scores_are_those_of_predict_proba(data, peers, kind):
    classifier = peers[kind][0]
    X, _ = data.sample(50, random_state=1)
    X = unit_variance(X)
    pairs = classifier.calibrated_classifiers_
    assert len(pairs) == (5 if kind == CV else 1)
    scores = np.column_stack([X @ p.estimator.coef_[0] + p.estimator.intercept_ for p in pairs])
    expected = classifier.predict_proba(X)[:, 1]
    np.testing.assert_allclose(cross_validated_probability(classifier, scores), expected, 1e-12)


def test_the_held_out_rows_are_not_fitted(data, peers):
    model = logistic(240, 0.1).fit(unit_variance(data.X)[100:], data.y[100:])
    np.testing.assert_array_equal(peers[SPLIT][0].coef_, model.coef_)
    # C stays that of all rows.
    assert peers[SPLIT][0].C == pytest.approx(1 / (240 * 0.1))


def test_counted_counts_one_category_and_passes_others_on():
    def complain():
        with counted(ConvergenceWarning) as count:
            warnings.warn("dropped", ConvergenceWarning, stacklevel=1)
            warnings.warn("dropped", ConvergenceWarning, stacklevel=1)
            warnings.warn("kept", UserWarning, stacklevel=1)
        return count[0]

    with pytest.warns(UserWarning, match="kept") as caught:
        n_counted = complain()
    assert (n_counted, len(caught)) == (2, 1)


# -- fresh rows


def test_joint_scores_have_the_covariance_of_their_models(data):
    rng = np.random.default_rng(0)
    coefs = rng.standard_normal((120, 2))
    coefs = np.column_stack([coefs, coefs[:, 0]])  # a model twice: a singular covariance
    intercepts = np.array([1.0, -2.0, 0.5])
    signal, scores = joint_scores(data, coefs, intercepts, 200_000, rng)
    directions = np.column_stack([data.weights, coefs])
    expected = directions.T @ data.covariance.matrix() @ directions
    found = np.cov(np.column_stack([signal, scores]).T)
    np.testing.assert_allclose(found, expected, atol=0.015 * expected.max())
    np.testing.assert_allclose(scores.mean(axis=0), intercepts, atol=0.02)
    np.testing.assert_allclose(scores[:, 2] - scores[:, 0], -0.5, atol=1e-6)


def test_the_tabulated_truth_is_the_exact_one(fitted):
    scores = np.linspace(-6, 6, 3000)
    np.testing.assert_allclose(true_curve(fitted, scores), fitted.truth(scores), atol=1e-5)


# -- measurements


def test_measured_by_hand():
    prediction = Prediction(np.array([0.2, 0.7]), warnings=3)
    row = measured(prediction, np.array([0.0, 1.0]), np.array([0.5, 0.5]), np.array([0.3, 0.5]))
    kl = 0.5 * (
        0.5 * np.log(0.25 / (0.2 * 0.8)) + 0.5 * np.log(0.25 / (0.7 * 0.3))
    )  # KL(½‖q) = ½ log(¼/(q(1−q)))
    assert row["ece"] == pytest.approx(0.25)
    assert row["kl"] == pytest.approx(kl, rel=1e-4)
    assert row["distance"] == pytest.approx(0.15)
    assert row["warnings"] == 3


def test_measured_of_a_saturated_prediction_is_finite():
    sure = Prediction(np.array([0.0, 1.0]), of_main_score=False)
    row = measured(sure, np.array([1.0, 1.0]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    assert np.isfinite(row["kl"])
    assert np.isnan(row["distance"])


def test_a_trial_gives_the_same_rows_whatever_ran_before():
    first, second = PHASE.trials(SMALL)[0], PHASE.trials(SMALL)[-1]
    before = run_trial(SMALL, second)
    run_trial(SMALL, first)
    pd.testing.assert_frame_equal(
        pd.DataFrame(before[""]), pd.DataFrame(run_trial(SMALL, second)[""])
    )


def test_rows_of_the_trials(frames):
    assert list(frames[""]["method"][: len(METHODS)]) == list(METHODS)
    assert len(frames[""]) == len(METHODS) * len(PHASE.trials(SMALL))
    distance = by_method(frames, "distance")
    assert (distance["angular, true angle"] == 0).all()
    assert distance["CalibratedClassifierCV"].isna().all()
    kl = by_method(frames, "kl")
    # Among functions of the main score none beats the true curve by more than test noise.
    for name in ["uncalibrated", *ROUTES, "Platt 100"]:
        assert (kl[name] - kl["angular, true angle"] > -2e-3).all()


def test_weak_ridge_is_overconfident_and_strong_ridge_is_not(frames):
    mean = frames["draws"].groupby("ridge")["overconfidence"].mean()
    assert mean[0.001] > 0.05
    assert mean[10.0] < -0.05


def test_uncalibrated_error_by_quadrature(frames):
    # E|expit(u) − F(u)| depends on the fit only through cosine, norm and intercept.
    trial = PHASE.trials(SMALL)[0]
    rng = trial_generator(SMALL.seed, "phase", trial["n_per_d"], trial["ridge"], trial["draw"])
    data = simulate(SMALL.n_samples, 400, link=PAPER_LINKS["sigmoid"], random_state=rng)
    fitted = FittedDraw.of(data, trial["ridge"], intercept=True)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    u = fitted.norm * nodes + fitted.fit.intercept
    expected = weights @ np.abs(expit(u) - fitted.truth(u)) / weights.sum()
    found = by_method(frames, "distance")["uncalibrated"].loc[0.5, 0.001, 0]
    assert found == pytest.approx(expected, rel=0.03)


# -- numbers of the summary


def _values(columns):
    index = pd.MultiIndex.from_product(
        [[1.0, 2.0], [0.1], [0, 1]], names=["n_per_d", "ridge", "draw"]
    )
    return pd.DataFrame(columns, index=index)


def test_winners_by_hand():
    values = _values({"a": [1.0, 3.0, 5.0, 5.0], "b": [2.0, 4.0, 1.0, 6.0], "c": [9.0] * 4})
    first, second = winners(values, ["a", "b", "c"])
    assert (first.cell, first.method, first.lead, first.error) == ((1.0, 0.1), "a", 1.0, 0.0)
    assert first.clear
    # Differences 4 and −1: a lead of 1.5 with a standard error of 2.5.
    assert (second.method, second.lead) == ("b", 1.5)
    assert second.error == pytest.approx(2.5)
    assert not second.clear


def test_a_tie_is_not_clear():
    values = _values({"a": [1.0] * 4, "b": [1.0] * 4})
    assert not any(win.clear for win in winners(values, ["a", "b"]))


def test_mean_over_cells_by_hand():
    mean, error = mean_over_cells(_values({"a": [1.0, 3.0, 5.0, 5.0]})["a"])
    assert mean == 3.5
    assert error == pytest.approx(0.5)  # cell errors 1 and 0, over two cells


def test_contenders_and_panels_are_methods():
    for letters in CONTENDERS.values():
        assert set(letters) <= set(METHODS)
        assert len(set(letters.values())) == len(letters)
        assert set(letters.values()) <= set(FILLS)
    assert set(PANELS) <= set(METHODS)


@pytest.mark.parametrize("result", [PHASE_DIAGRAM, PHASE_WINNERS], ids=lambda r: r.name)
def test_summary_and_picture(frames, result, tmp_path):
    text = result.summarize(frames, SMALL)
    assert "nan" not in text
    names = METHODS if result is PHASE_DIAGRAM else {n for ls in CONTENDERS.values() for n in ls}
    assert all(f"| {name} |" in text for name in names)
    with matplotlib.rc_context(figures.RC):
        figure = result.draw(frames, SMALL)
        written = figures.save_figure(figure, tmp_path / result.name)
    assert all(path.stat().st_size > 10_000 for path in written)


def test_printed_values_are_the_cell_means(frames):
    figure = PHASE_DIAGRAM.draw(frames, SMALL)
    ece = by_method(frames, "ece")["uncalibrated"]
    printed = {(t.get_position()): t.get_text() for t in figure.axes[0].texts}
    # Column 1 is n/d = 4, row 0 is λ = 0.001.
    assert printed[(1, 0)] == f"{1000 * ece.loc[4.0, 0.001].mean():.0f}"


def test_letters_drawn_are_the_winners(frames):
    figure = PHASE_WINNERS.draw(frames, SMALL)
    for ax, letters in zip(figure.axes, CONTENDERS.values(), strict=True):
        drawn = [text.get_text() for text in ax.texts]
        wins = winners(by_method(frames, "ece"), list(letters))
        assert drawn == [letters[win.method] for win in wins]
