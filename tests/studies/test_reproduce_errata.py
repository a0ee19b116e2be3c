"""The experiments behind the errata: finite pools and intercepts."""

from __future__ import annotations

import warnings
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from scipy.special import expit

from angcal import AngleWarning
from angcal.simulation import simulate
from studies.engine import figures
from studies.engine.runner import read_tables, run_experiment, trial_generator
from studies.paper import errata
from studies.paper.command import RESULTS as EVERY
from studies.paper.errata import (
    INTERCEPT,
    POOLS,
    InterceptSettings,
    PoolSettings,
    calibration_of,
    run_intercept,
    run_pools,
    shift_alone,
)
from studies.paper.errata_figures import _spaced_labels
from studies.paper.setting import FittedDraw

RESULTS = (EVERY["finite-pool"], EVERY["intercept"])

POOL = PoolSettings(samples=80, features=120, ratios=(1.5, 6.0), draws=2)
SMALL = InterceptSettings(samples=80, features=120, test_rows=3000, refit_rows=6000, draws=1)


def dense_paper_cosine(fit, sigma, norm, *, intercept_in=False, deflate=False):
    """|ĉ| by eq. (bellec), every matrix written out."""
    X, n, d = fit.X, *fit.shape
    ones = np.ones((n, 1)) if fit.fit_intercept else np.empty((n, 0))
    design = np.hstack([X, ones])
    u = X @ fit.coef + fit.intercept
    p = expit(u)
    psi, D = fit.labels - p, np.diag(p * (1 - p))
    ridge = np.diag([*np.full(d, n * 0.5 / d), *np.zeros(ones.shape[1])])
    A = design @ np.linalg.inv(design.T @ D @ design + ridge) @ design.T
    v = np.trace(D - D @ A @ D) / n
    gamma = np.trace(A @ D) / (n * v)
    if not intercept_in:
        u = X @ fit.coef
    inverse = np.linalg.inv(sigma)
    if deflate:
        inverse = inverse * d / np.mean(np.sum((X @ inverse) * X, axis=1))
    r2, length = psi @ psi / n, np.sum((u - gamma * psi) ** 2) / n
    numerator = v * length + psi @ u / n - gamma * r2
    t2 = psi @ X @ inverse @ X.T @ psi / n**2 + 2 * v * psi @ u / n + v**2 * length - d / n * r2
    return abs(numerator) / np.sqrt(t2) / norm


def remade_pool_draw(settings, draw):
    """The data of a trial and its largest pool, drawn again from the trial's own labels."""
    rng = trial_generator(settings.seed, "pools", draw)
    link = errata.Logit(scale=3.0, offset=1.0)
    data = simulate(settings.samples, settings.features, link=link, random_state=rng)
    rows = round(max(settings.ratios) * settings.features)
    return FittedDraw.of(data), data.pool(rows, random_state=rng)


def chosen(rows, **values):
    (row,) = [row for row in rows if all(row[name] == value for name, value in values.items())]
    return row


@pytest.fixture(scope="module")
def pool_rows():
    return run_pools(POOL, {"draw": 0})[""]


def test_paper_formula_with_a_pool_is_the_one_written_out(pool_rows):
    draw, pool = remade_pool_draw(POOL, 0)
    for ratio in POOL.ratios:
        rows = pool[: round(ratio * POOL.features)]
        sigma = rows.T @ rows / (len(rows) - 1)
        norm = np.sqrt(np.mean((rows @ draw.fit.coef) ** 2))
        for method, deflate in (("paper", False), ("paper, corrected", True)):
            row = chosen(pool_rows, ratio=ratio, method=method)
            expected = dense_paper_cosine(draw.fit, sigma, norm, deflate=deflate)
            expected = 0.0 if np.isnan(expected) else min(expected, 1.0)
            assert abs(row["cosine"]) == pytest.approx(expected, rel=1e-6)
            assert row["true"] == pytest.approx(draw.cosine)
            assert row["pool_rows"] == len(rows)


def test_paper_formula_with_sigma_known_is_the_one_written_out(pool_rows):
    draw, _ = remade_pool_draw(POOL, 0)
    d = POOL.features
    sigma = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))) / d
    expected = dense_paper_cosine(draw.fit, sigma, np.sqrt(draw.fit.coef @ sigma @ draw.fit.coef))
    row = chosen(pool_rows, ratio=np.inf, method="paper")
    assert abs(row["cosine"]) == pytest.approx(min(expected, 1.0), rel=1e-6)
    assert not [r for r in pool_rows if r["ratio"] == np.inf and r["method"] == "paper, corrected"]


@pytest.mark.parametrize("ratio", [1.5, 6.0, np.inf])
def test_library_methods_are_what_the_library_gives(pool_rows, ratio):
    draw, pool = remade_pool_draw(POOL, 0)
    given = (
        {}
        if np.isinf(ratio)
        else {"covariance": None, "pool": pool[: round(ratio * POOL.features)]}
    )
    for method, angle in (("angular, observable", "observable"), ("angular, both", "auto")):
        row = chosen(pool_rows, ratio=ratio, method=method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AngleWarning)
            found = draw.calibrated(angle, **given).angle
        gave_up = method == "angular, observable" and found.method != "observable"
        assert row["gave_up"] == gave_up
        assert row["cosine"] == pytest.approx(0.0 if gave_up else found.cosine, abs=1e-9)


def test_giving_up_counts_as_zero():
    assert errata._angle_row("m", 0.5, float("nan")) == {
        "method": "m",
        "true": 0.5,
        "cosine": 0.0,
        "gave_up": True,
    }
    assert errata._angle_row("m", 0.5, 1.7)["cosine"] == 1.0
    assert errata._angle_row("m", 0.5, 1.7, cut=False)["cosine"] == 1.7


def test_plug_in_is_biased_by_a_small_pool_and_deflating_repairs_it():
    settings = replace(POOL, samples=200, features=160, ratios=(1.8,))
    rows = [row for draw in range(12) for row in run_pools(settings, {"draw": draw})[""]]

    def bias(method):
        errors = [r["cosine"] - r["true"] for r in rows if (r["ratio"], r["method"]) == method]
        return np.mean(errors), np.std(errors) / np.sqrt(len(errors))

    plain, plain_error = bias((1.8, "paper"))
    corrected, corrected_error = bias((1.8, "paper, corrected"))
    assert plain < -0.1 - 3 * plain_error
    assert abs(corrected) < 0.05 + 3 * corrected_error


def test_intercept_rows_are_the_formula_written_out():
    trial = {"offset": 1.0, "draw": 0}
    rng = trial_generator(SMALL.seed, "intercept", 1.0, 0)
    link = errata.Logit(scale=3.0, offset=1.0)
    data = simulate(SMALL.samples, SMALL.features, link=link, random_state=rng)
    draw = FittedDraw.of(data, 0.5, intercept=True)
    d = SMALL.features
    sigma = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))) / d
    rows = run_intercept(SMALL, trial)[""]
    for method, intercept_in in (
        ("paper, intercept in Xŵ", True),
        ("paper, intercept left out", False),
    ):
        expected = dense_paper_cosine(draw.fit, sigma, draw.norm, intercept_in=intercept_in)
        row = chosen(rows, method=method)
        assert row["true"] == pytest.approx(draw.cosine)
        assert abs(row["cosine"]) == pytest.approx(0 if np.isnan(expected) else expected, rel=1e-6)
    row = chosen(rows, method="angular, observable")
    assert row["cosine"] == pytest.approx(draw.calibrated("observable").angle.cosine, abs=1e-9)


def test_intercept_left_in_ruins_the_formula_and_not_the_library():
    settings = replace(SMALL, samples=300, features=300, test_rows=500, refit_rows=500)
    errors = {"paper, intercept in Xŵ": [], "angular, observable": []}
    for draw in range(6):
        for row in run_intercept(settings, {"offset": 3.0, "draw": draw})[""]:
            errors.get(row["method"], []).append(row["cosine"] - row["true"])
    naive, library = (float(np.sqrt(np.mean(np.square(e)))) for e in errors.values())
    assert naive > 0.4
    assert library < 0.25


def test_calibration_of_separates_shift_from_slope():
    """For the exact curve of a fit without intercept: the slope is near 1, the shift is not 0."""
    settings = InterceptSettings(test_rows=20_000, refit_rows=50_000)
    rng = np.random.default_rng(3)
    link = errata.Logit(scale=3.0, offset=1.0)
    data = simulate(300, 600, link=link, random_state=rng)
    paper = FittedDraw.of(data)
    found = calibration_of(paper, settings, rng)
    assert found["fitted_intercept"] == 0.0
    # The curve in closed form: logit F is near A·u + B over the scores.
    u = np.linspace(-2, 2, 41) * paper.norm
    F = paper.truth(u)
    slope, shift = np.polyfit(u, np.log(F / (1 - F)), 1)
    assert found["slope"] == pytest.approx(slope, abs=0.08)
    assert found["shift"] == pytest.approx(shift, abs=0.04)
    # E|sigmoid(u) − F(u)| is what the bins estimate, from below but for noise.
    scores = paper.norm * np.random.default_rng(0).normal(size=200_000)
    exact = np.mean(np.abs(expit(scores) - paper.truth(scores)))
    assert found["ece"] == pytest.approx(exact, abs=0.01)
    assert found["floor"] < 0.02
    assert found["ece_shift"] < 0.03 < found["ece_slope"]


def test_shift_alone_solves_its_equation():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=4000)
    labels = (rng.random(4000) < expit(scores + 0.7)).astype(float)
    shift = shift_alone(scores, labels)
    assert np.mean(expit(scores + shift)) == pytest.approx(labels.mean(), abs=1e-9)
    assert shift == pytest.approx(0.7, abs=0.15)


@pytest.mark.parametrize("experiment", [POOLS, INTERCEPT], ids=lambda e: e.name)
def test_trials_do_not_depend_on_what_ran_before(experiment):
    settings = POOL if experiment is POOLS else SMALL
    trials = experiment.trials(settings)
    first = experiment.run(settings, trials[0])
    experiment.run(settings, trials[1])
    assert experiment.run(settings, trials[0]) == first
    assert experiment.run(settings, trials[1]) != first
    for table, columns in experiment.tables.items():
        assert all(set(row) == set(columns) for row in first[table])


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_summary_and_picture_come_from_the_tables(result, tmp_path):
    settings = replace(POOL, draws=3) if result.experiment is POOLS else replace(SMALL, draws=2)
    run_experiment(result.experiment, settings, tmp_path)
    frames = read_tables(result.experiment, settings, tmp_path)
    text = result.summarize(frames, settings)
    assert text.startswith("| quantity | paper | measured (± standard error) | holds? |")
    assert f"{settings.draws} draws" in text
    with matplotlib.rc_context(figures.RC):
        written = figures.save_figure(result.draw(frames, settings), tmp_path / result.name)
    assert all(path.stat().st_size > 5000 for path in written)


def pools_frame(bias):
    """Tables in which every method is off by a known amount."""
    import pandas as pd

    rows = [
        {"ratio": ratio, "method": method, "true": 0.5, "cosine": 0.5 + off + e, "gave_up": 0}
        for method, off in bias.items()
        for ratio in (*POOL.ratios, np.inf)
        for e in (-0.01, 0.01)
    ]
    return {"": pd.DataFrame(rows)}


def test_verdict_on_pools_follows_the_numbers():
    summarize = RESULTS[0].summarize
    methods = ("paper", "paper, corrected", "angular, observable", "angular, both")
    harmless = summarize(pools_frame(dict.fromkeys(methods, 0.0)), POOL)
    assert "does no harm" in harmless
    assert "not refuted" in harmless
    harmed = pools_frame(dict.fromkeys(methods, 0.0) | {"paper": -0.3})
    text = summarize(harmed, POOL)
    assert "−0.3000 ± 0.0100" in text
    assert "it fails where they hold" in text
    assert "removes the bias" in text
    both = pools_frame(dict.fromkeys(methods, 0.0) | {"paper": -0.3, "paper, corrected": 0.2})
    assert "does not remove it" in summarize(both, POOL)


def test_tick_labels_keep_their_distance():
    assert _spaced_labels((1.2, 1.5, 1.8, 2.5)) == ["1.2", "", "1.8", "2.5"]
