"""The theorems' rows against closed forms and Monte Carlo, and their pictures from quick runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm

from angcal.links import Logit, Probit
from angcal.metrics import bregman_divergence
from angcal.simulation import simulate
from studies.engine import figures
from studies.engine.runner import read_tables, run_experiment
from studies.paper import sign_bound as sign
from studies.paper import theorem_figures as pictures
from studies.paper import theorems as rows
from studies.paper.command import RESULTS
from studies.paper.setting import PAPER_LINKS, FittedDraw


@pytest.fixture(scope="module")
def fitted():
    return FittedDraw.of(simulate(80, 160, link=PAPER_LINKS["sigmoid"], random_state=3))


@pytest.fixture(scope="module")
def methods(fitted):
    return rows.curves(fitted, (100, 2000), np.random.default_rng(5))


@pytest.fixture(scope="module")
def theorem_run(tmp_path_factory):
    settings = replace(rows.THEOREMS.quick, draws=3)
    folder = tmp_path_factory.mktemp("theorems")
    run_experiment(rows.THEOREMS, settings, folder)
    return read_tables(rows.THEOREMS, settings, folder), settings


@pytest.fixture(scope="module")
def sign_run(tmp_path_factory):
    settings = replace(sign.SIGN_EXPERIMENT.quick, repeats=3000)
    folder = tmp_path_factory.mktemp("sign")
    run_experiment(sign.SIGN_EXPERIMENT, settings, folder)
    return read_tables(sign.SIGN_EXPERIMENT, settings, folder), settings


# --- Theorem 1 -------------------------------------------------------------------------------


def test_delta_is_p_minus_the_truth_at_the_score_that_predicts_p(fitted):
    central = rows.ScoreGrid.of(fitted, rows.CENTRAL_GRID)
    levels = np.array([0.3, 0.5, 0.7])
    for slope, intercept in ((1.3, 0.4), (-0.9, 0.2)):
        error = rows.exact_calibration_error(
            levels, lambda u, a=slope, b=intercept: expit(a * u + b), central
        )
        expected = levels - fitted.truth((logit(levels) - intercept) / slope)
        np.testing.assert_allclose(error, expected, atol=1e-5)


def test_delta_is_nan_beyond_the_central_scores_and_zero_for_the_truth(fitted):
    central = rows.ScoreGrid.of(fitted, rows.CENTRAL_GRID)
    top = float(fitted.truth(fitted.norm * rows.CENTRAL_GRID[-1:])[0])
    assert norm.cdf(rows.CENTRAL_GRID[-1]) == pytest.approx(0.999)
    error = rows.exact_calibration_error(
        np.array([0.6, top - 0.001, top + 0.001]), fitted.truth, central
    )
    np.testing.assert_allclose(error[:2], 0.0, atol=1e-12)
    assert np.isnan(error[2])


def test_a_constant_is_compared_with_the_mean_of_the_truth(fitted):
    whole = rows.ScoreGrid.of(fitted, rows.SCORE_GRID)
    prevalence = float(fitted.data.link.smooth(0.0, 1.0))
    gap = whole.gap(lambda u: np.full_like(u, prevalence + 0.1))
    np.testing.assert_allclose(gap, 0.1, atol=1e-9)


def test_delta_agrees_with_many_labels(fitted, methods):
    rng = np.random.default_rng(0)
    chosen = {"uncalibrated": methods["uncalibrated"]}
    found = pd.DataFrame(rows.labeled_errors(chosen, fitted, 200_000, rng)).set_index("level")
    central = rows.ScoreGrid.of(fitted, rows.CENTRAL_GRID)
    levels = np.array([level for level in rows.LEVELS if 0.25 < level < 0.8])
    exact = rows.exact_calibration_error(levels, methods["uncalibrated"], central)
    np.testing.assert_allclose(found.loc[levels, "error"], exact, atol=0.012)


# --- Theorem 2 -------------------------------------------------------------------------------


def test_generators_are_strictly_convex_with_their_own_gradients():
    t = np.linspace(0.02, 0.98, 97)
    for generator, gradient in rows.GENERATORS.values():
        step = 1e-6
        slope = (generator(t + step) - generator(t - step)) / (2 * step)
        np.testing.assert_allclose(slope, gradient(t), rtol=1e-6, atol=1e-6)
        assert np.all(np.diff(gradient(t)) > 0.0)


def test_losses_split_into_the_optimum_and_the_distance_to_it(fitted, methods):
    """E D(q*, f) = E D(q*, F) + E D(F, f), the second by a sum over the score alone."""
    chosen = {name: methods[name] for name in ("uncalibrated", "Platt 100", rows.OPTIMUM)}
    table = pd.DataFrame(rows.bregman_losses(chosen, fitted)).set_index(["method", "loss"])["value"]
    grid = rows.ScoreGrid.of(fitted, rows.SCORE_GRID)
    for method in ("uncalibrated", "Platt 100"):
        for loss, generator in rows.GENERATORS.items():
            each = bregman_divergence(grid.truth, chosen[method](grid.scores), *generator)
            distance = np.average(each, weights=grid.weight)
            assert table[method, loss] == pytest.approx(
                table[rows.OPTIMUM, loss] + distance, rel=1e-7
            )


def test_squared_loss_agrees_with_fresh_rows(fitted):
    scores, signals = fitted.data.fresh_scores(fitted.fit.coef, 400_000, random_state=1)
    each = (fitted.data.link(signals) - expit(scores)) ** 2
    table = pd.DataFrame(rows.bregman_losses({"uncalibrated": expit}, fitted)).set_index("loss")
    assert table.loc["squared", "value"] == pytest.approx(
        each.mean(), abs=4 * each.std() / np.sqrt(each.size)
    )


def test_sure_predictions_make_only_steep_losses_infinite():
    target, predicted, weight = np.array([0.2, 0.6]), np.array([0.0, 0.5]), np.ones(2)
    values = {
        name: rows.mean_divergence(target, predicted, generator, weight)
        for name, generator in rows.GENERATORS.items()
    }
    infinite = {name for name, value in values.items() if np.isinf(value)}
    assert infinite == {"kl", "itakura-saito", "root"}
    assert values["squared"] == pytest.approx((0.2**2 + 0.1**2) / 2)


# --- Rows and pictures -----------------------------------------------------------------------


def test_a_trial_depends_on_itself_alone():
    settings, trial = rows.THEOREMS.quick, {"n": 60, "draw": 1}
    assert rows.run_trial(settings, trial) == rows.run_trial(settings, dict(trial))


def test_slope_of_a_power_law_and_its_standard_error():
    n = np.array([1.0, 2.0, 4.0])
    rate, se = rows.slope(n, 3.0 * n**-0.5, np.array([0.1, 0.0, 0.0]))
    assert rate == pytest.approx(-0.5)
    assert se == pytest.approx(0.1 / 3.0 / (2.0 * np.log(2.0)))


def test_the_true_angle_is_the_optimum_in_every_row(theorem_run):
    frames, settings = theorem_run
    excess = rows.excesses(frames["bregman"])
    assert excess.shape == (settings.draws, 9 * len(rows.GENERATORS))
    assert excess.min().min() > 0.0
    size = frames["size"]
    assert (size.loc[size["method"] == rows.OPTIMUM, "mean_error"] < 1e-12).all()
    # E|Δ| ≤ sup up to the tails, and (E|Δ|)² ≤ E Δ² = distance/2.
    assert (size["mean_error"] ** 2 <= size["distance"] / 2 + 1e-12).all()


def test_summary_says_no_when_a_method_beats_the_optimum(theorem_run):
    frames, settings = theorem_run
    assert "| yes |" in pictures.summarize_bregman(frames, settings).splitlines()[2]
    bregman = frames["bregman"].copy()
    bregman.loc[bregman["method"] == "Platt 100", "value"] *= 0.5
    text = pictures.summarize_bregman({**frames, "bregman": bregman}, settings)
    assert "| no |" in text.splitlines()[2]


def test_words_on_other_methods_follow_half_a_bin(theorem_run):
    """Calibrated below 1/30, poor above, each by two standard errors; else undecided."""
    frames, settings = theorem_run
    errors = {"poor": (0.06, 0.07, 0.08), "good": (0.01, 0.012, 0.014), "between": (0.0, 0.03, 0.1)}
    expected = {"poor": ("yes", "yes", "no"), "good": ("no", "no", "yes")}
    expected["between"] = ("undecided",) * 3
    for name, values in errors.items():
        size = frames["size"].copy()
        chosen = ~size["method"].str.startswith("angular")
        size.loc[chosen, "mean_error"] = size.loc[chosen, "draw"].map(dict(enumerate(values)))
        text = pictures.summarize_calibration({**frames, "size": size}, settings)
        verdicts = tuple(line.split("|")[-2].strip() for line in text.splitlines()[7:10])
        assert verdicts == expected[name]
        assert "half a bin (0.033)" in text
        assert text.splitlines()[6].endswith("| — |")
        assert "| mean size of Δ, Platt, 20,000 labels, n = 120 |" in text


@pytest.mark.parametrize("result", [RESULTS["calibration-error"], RESULTS["bregman"]])
def test_theorem_pictures_and_summaries(theorem_run, tmp_path, result):
    _check_result(result, *theorem_run, tmp_path)


def test_sign_picture_and_summary(sign_run, tmp_path):
    _check_result(RESULTS["sign-bound"], *sign_run, tmp_path)


def _check_result(result, frames, settings, folder):
    table = [line for line in result.summarize(frames, settings).splitlines() if line[:1] == "|"]
    assert {line.count("|") for line in table[:3]} == {5}
    with matplotlib.rc_context(figures.RC):
        written = figures.save_figure(result.draw(frames, settings), folder / result.name)
    assert all(path.stat().st_size > 10_000 for path in written)


# --- Sign bound ------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [Logit(3.0, 1.0), Probit(2.0, -0.5)])
def test_summand_moments_against_simulation(link):
    rng, cosine = np.random.default_rng(0), 0.4
    u, z = rng.standard_normal((2, 400_000))
    y = rng.random(u.size) < link(cosine * u + np.sqrt(1 - cosine**2) * z)
    for kind, summand in (("paper", u * y), ("centered", u * (y - y.mean()))):
        mean, sd = sign.moments(link, cosine)[kind]
        assert summand.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(u.size))
        assert summand.std() == pytest.approx(sd, rel=0.01)


def test_error_of_one_row_has_a_closed_form():
    """U·y > 0 needs y = 1 and U > 0: for Φ(at) that is an orthant; the centered sum is 0."""
    cosine, scale = 0.5, 2.0
    link, repeats = Probit(scale), 40_000
    errors = sign.count_errors(link, cosine, 1, repeats, np.random.default_rng(1))
    correlation = scale * cosine / np.sqrt(1 + scale**2)
    expected = 1.0 - (0.25 + np.arcsin(correlation) / (2 * np.pi))
    assert errors["paper"] / repeats == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(repeats))
    assert errors["centered"] == repeats


def test_errors_follow_the_gaussian_approximation_in_large_holdouts():
    link, repeats = Logit(3.0, 1.0), 6000
    errors = sign.count_errors(link, 0.1, 200, repeats, np.random.default_rng(2))
    for kind, (mean, sd) in sign.moments(link, 0.1).items():
        expected = norm.cdf(-np.sqrt(200) * mean / sd)
        assert errors[kind] / repeats == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(repeats))


def test_proven_constant_against_adaptive_integrals_of_a_probit():
    """For Φ(at) the label's probability is Φ(a·c·u/√(1 + a²(1−c²))), and E σ′ = a/√(2π(1+a²))."""
    scale, cosine = 2.0, 0.5
    steepness = scale * cosine / np.sqrt(1.0 + scale**2 * (1.0 - cosine**2))

    def log_moment(t):
        def integrand(u):
            p = norm.cdf(steepness * u)
            return norm.pdf(u) * (1.0 - p + p * np.exp(-t * u))

        return np.log(quad(integrand, -12.0, 12.0, epsabs=1e-13)[0])

    exponent = -minimize_scalar(log_moment, bounds=(0.0, 3.0), method="bounded").fun
    assert sign.chernoff_exponent(Probit(scale), cosine) == pytest.approx(exponent, rel=1e-7)
    mean = sign.moments(Probit(scale), cosine)["paper"][0]
    assert mean == pytest.approx(cosine * scale / np.sqrt(2.0 * np.pi * (1.0 + scale**2)))


def test_proven_constant_is_the_least_and_tends_to_the_gaussian_one():
    """As cos θ → 0 the exponent is mean²/(2 E H²), with E H² = P(y = 1) = 1/2 for sigmoid(3t)."""
    pairs = [("sigmoid(3t)", 0.01), ("sigmoid(3t)", 0.5)]
    each = [sign.proven_constant(pd.DataFrame([p], columns=["link", "cosine"])) for p in pairs]
    assert each[0] == pytest.approx(1.0, abs=1e-3)
    both = pd.DataFrame(pairs, columns=["link", "cosine"])
    assert sign.proven_constant(both) == min(each)


def test_cells_are_below_the_proven_bound_and_not_below_a_wrong_one(sign_run):
    frames, settings = sign_run
    cells = sign.measured(frames[""])
    cells = cells[cells["sum"] == "paper"]
    constant = sign.proven_constant(cells)
    assert sign.above_bound(cells, constant).empty
    assert constant < sign.largest_constant(cells)
    assert not sign.above_bound(cells, 3.0 * constant).empty
    worse = frames[""].assign(errors=frames[""]["repeats"] // 2)
    line = sign.summarize({"": worse}, settings).splitlines()[2]
    assert line.endswith("| no |")


def test_typical_cosine_is_the_mean_of_the_papers_setting():
    draws = pd.read_csv(Path(__file__).parents[2] / "studies" / "results" / "paper" / "draws.csv")
    for settings in (sign.SIGN_EXPERIMENT.full, sign.SIGN_EXPERIMENT.quick):
        assert settings.typical_cosine == pytest.approx(draws["cosine"].mean(), abs=0.002)


def test_centering_saves_rows_and_the_printed_error_has_its_cosine(sign_run):
    frames, _ = sign_run
    assert (sign.rows_saved(sign.measured(frames[""])) > 1.5).all()
    link = PAPER_LINKS["sigmoid"]
    cosine = sign.cosine_for(0.0089, 100, link)
    mean, sd = sign.moments(link, cosine)["paper"]
    assert norm.cdf(-10.0 * mean / sd) == pytest.approx(0.0089, rel=1e-6)
