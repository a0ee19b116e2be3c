"""Numbers of a trial against closed forms, and summaries and pictures from the quick settings."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import linalg, stats
from scipy.optimize import minimize
from scipy.special import expit

from angcal.baselines import platt_limit
from angcal.metrics import expected_calibration_error
from angcal.simulation import simulate
from studies.engine.figures import RC, save_figure, with_numbered_clips
from studies.engine.runner import read_tables, run_experiment
from studies.engine.tables import (
    exact_interval,
    markdown,
    mean_and_error,
    mean_text,
    spelled,
    verdict,
    with_error,
)
from studies.paper import panel_figures as figures
from studies.paper import panels
from studies.paper.command import RESULTS as EVERY
from studies.paper.setting import PAPER_LINKS, FittedDraw, population_platt

EXPERIMENTS = (panels.GAUSSIAN, panels.RADEMACHER, panels.UNIFORM)
RESULTS = tuple(
    EVERY[name]
    for name in (
        "platt-convergence",
        "reliability",
        "universality-rademacher",
        "universality-uniform",
    )
)


def small(experiment, **changes):
    sizes = {"n_samples": 80, "n_features": 120, "n_draws": 2, "n_test": 1000}
    return replace(experiment.quick, **(sizes | changes))


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Tables of every experiment, at sizes smaller than the quick ones."""
    folder = tmp_path_factory.mktemp("panels")
    read = {}
    for experiment in EXPERIMENTS:
        run_experiment(experiment, small(experiment), folder)
        read[experiment.name] = read_tables(experiment, small(experiment), folder)
    return read


class TestTrial:
    def test_every_table_has_its_rows(self, frames):
        settings = small(panels.GAUSSIAN)
        cells = 2 * settings.n_draws
        platt = frames["gaussian"]["platt"]
        assert len(platt) == cells * (len(settings.holdout_sizes) + 1)
        assert len(frames["gaussian"]["curve"]) == cells
        assert len(frames["gaussian"]["scores"]) == cells * len(figures.METHODS)
        bins = frames["gaussian"]["bins"]
        assert set(bins["draw"]) == {0}
        assert set(bins.groupby(["link", "method"])["count"].sum()) == {settings.n_test}

    def test_a_trial_is_the_same_alone(self, frames):
        settings = small(panels.RADEMACHER)
        alone = panels.run_trial(settings, {"link": "clipped", "draw": 1})["platt"]
        found = panels.chosen(frames["rademacher"]["platt"], link="clipped", draw=1)
        np.testing.assert_allclose([row["slope"] for row in alone], found["slope"], rtol=1e-9)

    @pytest.mark.parametrize("name", ["rademacher", "uniform"])
    def test_non_gaussian_rows_are_colored_by_the_symmetric_root(self, name):
        covariance = panels._covariance(name, 6)
        lags = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
        np.testing.assert_allclose(
            covariance.color(np.eye(6)), linalg.sqrtm(0.5**lags / 6), atol=1e-12
        )

    def test_uncalibrated_error_is_the_missing_prevalence(self, frames):
        # sigmoid(3t + 1) lies above sigmoid(u) wherever the score is likely, so that
        # E|p − F| = E F − E p = P(y = 1) − 1/2, whatever the angle.
        scores = panels.chosen(frames["gaussian"]["scores"], link="sigmoid", method="uncalibrated")
        prevalence = stats.norm.expect(lambda z: expit(3 * z + 1))
        np.testing.assert_allclose(scores["mean_distance"], prevalence - 0.5, atol=2e-3)

    def test_true_angle_has_no_error_and_both_tables_agree(self, frames):
        scores, platt = frames["gaussian"]["scores"], frames["gaussian"]["platt"]
        exact = panels.chosen(scores, method="angular, true angle")["mean_distance"]
        assert exact.max() < 1e-10
        np.testing.assert_allclose(
            panels.chosen(scores, method="Platt 100")["mean_distance"],
            panels.chosen(platt, n_ho=100)["mean_distance"],
        )

    def test_ece_is_that_of_the_bins(self, frames):
        scores = panels.chosen(frames["uniform"]["scores"], draw=0).set_index(["link", "method"])
        for key, bins in frames["uniform"]["bins"].groupby(["link", "method"]):
            gap = (bins["observed"] - bins["mean_predicted"]).abs()
            ece = (gap * bins["count"]).sum() / bins["count"].sum()
            assert scores.loc[key, "ece"] == pytest.approx(ece, rel=1e-8)


class TestPlatt:
    def test_population_fit_of_the_probit_link_is_the_theorem(self, frames):
        found = frames["gaussian"]
        rows = panels.chosen(found["platt"], link="probit", n_ho=np.inf)
        curve = panels.chosen(found["curve"], link="probit")
        expected = [
            platt_limit(c, norm, PAPER_LINKS["probit"])
            for c, norm in zip(curve["cosine"], curve["norm"], strict=True)
        ]
        np.testing.assert_allclose(rows[["slope", "intercept"]], expected, atol=1e-6)
        assert rows["sup_true_angle"].max() < 1e-6

    def test_population_fit_of_the_sigmoid_link_minimizes_the_entropy(self):
        draw = FittedDraw.of(simulate(80, 120, link=PAPER_LINKS["sigmoid"], random_state=6))
        cosine, norm = draw.cosine, draw.norm
        z, weight = np.polynomial.hermite_e.hermegauss(80)
        truth = PAPER_LINKS["sigmoid"].smooth(cosine * z, np.sqrt(1 - cosine**2))

        def entropy(parameters):
            odds = parameters[0] * norm * z + parameters[1]
            return weight @ (np.logaddexp(0.0, odds) - truth * odds)

        expected = minimize(entropy, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
        found = population_platt(draw, panels.platt_link("sigmoid"))
        np.testing.assert_allclose([found.slope_, found.intercept_], expected, atol=1e-5)

    def test_supremum_covers_the_whole_line(self, frames):
        # A flat curve is as far from F as F's limits 0 and 1 allow.
        link, cosines = PAPER_LINKS["sigmoid"], {"cosine": 0.5, "cosine_observable": 0.5}
        flat = panels.PlattScaling().fit([0.0, 0.0], [0, 1])
        (row,) = panels._platt_rows(link, 1.0, cosines, {2.0: flat})
        assert row["sup_true_angle"] == pytest.approx(0.5, abs=1e-4)

    def test_distance_falls_with_labels(self, frames):
        wide = panels.distances(frames["gaussian"], "probit").mean()
        assert wide[panels.MANY] < 0.5 * wide[panels.FEW]


class TestNumbers:
    def test_rate_is_recovered_from_a_power_law(self):
        rng = np.random.default_rng(0)
        sizes = np.array([100.0, 1000.0, 10_000.0, 100_000.0, np.inf])
        noise = np.exp(0.3 * rng.standard_normal((40, 1)))
        wide = pd.DataFrame(noise * np.append(sizes[:-1] ** -0.5, 0.0), columns=sizes)
        wide[100.0] = 1.0  # not part of the fit
        slope, intercept, error = panels.fitted_rate(wide, seed=0)
        assert slope == pytest.approx(-0.5, abs=1e-12)
        assert np.exp(intercept) == pytest.approx(noise.mean())
        assert error < 1e-12

    def test_rate_error_is_that_of_independent_draws(self):
        rng = np.random.default_rng(1)
        sizes = np.geomspace(1000.0, 100_000.0, 5)

        def wide():
            law = sizes**-0.5 * np.exp(0.4 * rng.standard_normal((60, sizes.size)))
            return pd.DataFrame(law, columns=sizes)

        slopes = [panels.fitted_rate(wide(), seed=0)[0] for _ in range(60)]
        error = panels.fitted_rate(wide(), seed=0)[2]
        assert error == pytest.approx(np.std(slopes), rel=0.4)

    def test_expected_ece_of_calibrated_predictions(self):
        rng = np.random.default_rng(2)
        p = np.repeat([0.1, 0.5, 0.75], 400)
        bins = pd.DataFrame({"mean_predicted": [0.1, 0.5, 0.75], "count": 400})
        drawn = [expected_calibration_error(rng.random(p.size) < p, p) for _ in range(400)]
        error = np.std(drawn) / np.sqrt(len(drawn))
        assert (
            abs(np.mean(drawn) - panels.expected_ece(bins["mean_predicted"], bins["count"]))
            < 4 * error
        )

    def test_verdicts(self):
        assert verdict(0.02, 0.001, 0.03, below=True) == "yes"
        assert verdict(0.02, 0.001, 0.03, below=False) == "no"
        assert verdict(0.029, 0.001, 0.03, below=True) == "undecided"
        assert verdict(0.02, np.nan, 0.03, below=True) == "undecided"

    def test_figures_with_their_errors(self):
        assert mean_text([-1.0, -1.0]) == "−1.0000 ± less than 0.0001"
        assert with_error(0.11325, 1e-7, None) == "0.11325 ± less than 0.00001"
        assert with_error(-12.345, 0.678, None) == "−12.35 ± 0.68"
        assert with_error(0.5, 0.00006) == "0.5000 ± 0.0001"
        mean, error = mean_and_error([1.0, np.inf])
        assert np.isinf(mean)
        assert np.isnan(error)

    def test_minus_signs_and_names(self):
        assert markdown(("a",), [("-0.5 to (-.2), 1e-05, leave-one-out, 3-4",)]).endswith(
            "| −0.5 to (−.2), 1e-05, leave-one-out, 3-4 |"
        )
        assert spelled("Platt 20000") == "Platt, 20,000 labels"
        assert spelled("angular, true angle") == "angular, true angle"

    def test_exact_intervals_of_several_shares(self):
        low, high = exact_interval([0, 3, 10], [10, 10, 10])
        test = stats.binomtest(3, 10).proportion_ci(0.95, method="exact")
        assert (low[0], high[2]) == (0.0, 1.0)
        assert (low[1], high[1]) == pytest.approx((test.low, test.high))
        assert high[0] == pytest.approx(1.0 - 0.025**0.1)
        assert exact_interval(3, 10) == pytest.approx((test.low, test.high))

    @pytest.mark.parametrize(
        ("cosine_observable", "words"), [(0.2, "is larger"), (0.5, "is smaller")]
    )
    def test_angle_and_family_are_compared_by_themselves(self, frames, cosine_observable, words):
        found = dict(frames["gaussian"])
        cosines = {"cosine": 0.5, "cosine_observable": cosine_observable}
        found["curve"] = found["curve"].assign(**cosines)
        z = np.linspace(-40.0, 40.0, 8001)
        pair = [PAPER_LINKS["sigmoid"].smooth(c * z, np.sqrt(1 - c**2)) for c in cosines.values()]
        expected = np.abs(pair[0] - pair[1]).max()
        distance = panels.angle_distances(found, "sigmoid")
        np.testing.assert_allclose(distance, expected, atol=1e-5)
        assert words in figures.summarize_convergence(found, small(panels.GAUSSIAN))


class TestResults:
    @pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
    def test_summary_and_picture(self, result, frames, tmp_path):
        settings, found = small(result.experiment), frames[result.experiment.name]
        summary = result.summarize(found, settings)
        assert summary.startswith("| quantity | paper |")
        assert "nan" not in summary
        with mpl.rc_context(RC):
            written = save_figure(result.draw(found, settings), tmp_path / result.name)
        assert all(path.stat().st_size > 10_000 for path in written)

    def test_summary_follows_the_data(self, frames):
        settings, found = small(panels.GAUSSIAN), dict(frames["gaussian"])
        scores = found["scores"].copy()
        angular = scores["method"] == "angular, observable"
        scores.loc[angular, "mean_distance"] = [0.2, 0.22] * 2
        summary = figures.summarize_reliability(found | {"scores": scores}, settings)
        line = next(row for row in summary.splitlines() if "angular, observable" in row)
        assert "0.2100 ± 0.0100" in line
        assert line.endswith("| no |")

    def test_refit_names_the_fault(self, frames):
        settings, found = small(panels.GAUSSIAN), dict(frames["gaussian"])
        for slope, intercept, expected in (
            (0.5, 0.0, "overconfident, and needs hardly any intercept"),
            (1.0, 0.5, "right in slope to a tenth, but off by the missing intercept"),
        ):
            platt = found["platt"].assign(slope=slope, intercept=intercept)
            assert expected in figures.summarize_reliability(found | {"platt": platt}, settings)

    def test_panels_show_the_rows(self, frames):
        settings, found = small(panels.RADEMACHER), frames["rademacher"]
        figure = figures.draw_universality(found, settings)
        assert len(figure.axes) == 6
        bins = panels.chosen(found["bins"], link="clipped", method="Platt 20000")
        lines = [
            line for line in figure.axes[4].lines if line.get_label() == "Platt, 20,000 labels"
        ]
        np.testing.assert_allclose(lines[0].get_ydata(), bins["observed"])
        curve = panels.chosen(found["platt"], link="clipped", draw=0, n_ho=100).iloc[0]
        (drawn,) = (x for x in figure.axes[5].lines if x.get_label() == "Platt, 100 labels")
        scores = drawn.get_xdata()
        np.testing.assert_allclose(
            drawn.get_ydata(), expit(curve["slope"] * scores + curve["intercept"])
        )


def test_clip_paths_are_numbered_in_order_of_use():
    svg = (
        '<g clip-path="url(#p0123456789)"/><g clip-path="url(#pabcdef0123)"/>'
        '<g clip-path="url(#p0123456789)"/><clipPath id="pabcdef0123"/><use id="p0123456789"/>'
    )
    assert with_numbered_clips(svg) == (
        '<g clip-path="url(#clip1)"/><g clip-path="url(#clip2)"/>'
        '<g clip-path="url(#clip1)"/><clipPath id="clip2"/><use id="p0123456789"/>'
    )
