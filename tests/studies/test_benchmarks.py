"""The speed benchmarks at tiny sizes, and the arithmetic of their tables."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import replace
from pathlib import Path

import fill_speed as page
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from studies.engine.tables import BLOCK, markdown
from studies.speed import cases, memory, parts, run, tables
from studies.speed.accuracy import curve_standard_error, expected_log_loss
from studies.speed.cases import FULL, QUICK, Case, make
from studies.speed.contenders import (
    BASE,
    CROSS_FITTED,
    OURS,
    OURS_EXACT,
    LinearPart,
    linear_parts,
    suited,
)
from studies.speed.measure import gradient_norm, measure, order, timed
from studies.speed.store import Store, describe_machine

ROOT = Path(__file__).resolve().parents[2]
TINY = replace(
    QUICK,
    name="tiny",
    fits=(Case(90, 20), Case(80, 200, 0.5, "one-hot")),
    predict_rows=300,
    predict_columns=10,
    memory=(),
    growth=(("ridge 0.5", (2500, 10_000)),),
    tuning_entries=0,
    exact_side=100,
    bandwidth_side=40,
    repeats=2,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One run through the whole pipeline."""
    folder = tmp_path_factory.mktemp("speed") / "tiny"
    some = [part for part in run.PARTS if part not in ("path", "real")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "TRUTH_ROWS", 2000)
        assert run.run(TINY, folder, threads=1, only=some) == []
    return folder


# -- the pipeline ------------------------------------------------------------------------------


def test_every_case_and_contender_is_in_the_csv_as_often_as_asked(results):
    fits = tables.load(results, "fit")
    for case in TINY.fits:
        counts = fits[fits["case"] == case.name]["contender"].value_counts()
        assert dict(counts) == {contender.name: 2 for contender in suited(case, TINY)}
    assert {"wall", "process", "gradient_norm", "threads"} <= set(fits.columns)
    assert (fits["wall"] > 0).all()
    assert (fits["threads"] == 1).all()


def test_all_contenders_of_the_same_model_end_below_the_tolerance(results):
    fits = tables.load(results, "fit")
    assert (fits["gradient_norm"] <= fits["tol"]).all()
    norms = fits[fits["contender"].isin([BASE, OURS, OURS_EXACT])].groupby("case")["gradient_norm"]
    assert (norms.nunique() == 1).all()


def test_a_second_run_measures_nothing_again(results, monkeypatch):
    before = {path.name: path.read_bytes() for path in results.glob("*.csv")}
    monkeypatch.setattr(run, "measure", None)
    monkeypatch.setattr(run, "measure_floors", None)
    run.run(TINY, results, threads=1, only=["fit", "floor"])
    assert {path.name: path.read_bytes() for path in results.glob("*.csv")} == before


def test_the_time_limit_names_what_it_leaves_out(tmp_path):
    none = replace(TINY, minutes=-1.0)
    left_out = run.run(none, tmp_path, threads=1, only=["fit"])
    assert left_out == [f"fit {case.name}" for case in TINY.fits]


def test_pictures_and_page_are_made(results, tmp_path):
    page.draw(results, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"speed_{part}.{suffix}" for part in ("fit", "growth") for suffix in ("png", "svg")
    }
    text = page.filled((ROOT / "docs" / "speed.md").read_text(), results)
    assert "| 90x20 C=1 | " in text
    assert "](speed_fit.png)" in text
    # Only the memory and path parts were not run.
    assert set(re.findall(r"Not measured yet: (\w+)", text)) == {"memory", "path"}
    assert page.filled(text, results) == text


def test_every_block_of_the_page_can_be_filled_and_every_table_has_a_place():
    text = (ROOT / "docs" / "speed.md").read_text()
    names = [found[1] for found in BLOCK.findall(text)]
    assert len(names) == len(set(names))
    assert set(names) == {*tables.TABLES, *page.PICTURES, "losses"}


def test_results_name_no_host_and_no_folder(results):
    text = "".join(path.read_text() for path in results.iterdir())
    assert platform.node() not in text
    assert str(ROOT) not in text
    assert str(results) not in text
    machine = json.loads((results / "machine.json").read_text())
    assert {"cpu", "cores", "memory_gib", "threads", "blas", "versions", "sources", "date"} <= set(
        machine
    )


def test_results_of_another_machine_are_not_added_to(tmp_path):
    machine = describe_machine(1)
    Store(tmp_path, machine, ["fit"]).add("fit", [{"case": "a", "wall": 1.0}])
    Store(tmp_path, machine | {"date": "another day"}, ["fit"])
    with pytest.raises(ValueError, match=r"another cpu.*--fresh"):
        Store(tmp_path, machine | {"cpu": "another"}, ["predict"])
    run.forget(tmp_path, ["fit"])  # as --fresh does
    Store(tmp_path, machine | {"cpu": "another"}, ["predict"])


def test_each_part_comes_from_one_state_of_the_source(tmp_path):
    machine = describe_machine(1)
    Store(tmp_path, machine, ["fit"]).add("fit", [{"case": "a", "wall": 1.0}])
    later = machine | {"source": "later"}
    Store(tmp_path, later, ["predict"]).add("predict", [{"case": "a", "wall": 1.0}])
    with pytest.raises(ValueError, match=r"another source of fit.*--fresh"):
        Store(tmp_path, later, ["fit"])
    sources = json.loads((tmp_path / "machine.json").read_text())["sources"]
    assert sources == {"fit": machine["source"], "predict": "later"}
    run.forget(tmp_path, ["fit"])
    assert [path.name for path in tmp_path.glob("*.csv")] == ["predict.csv"]
    Store(tmp_path, later, ["fit"])


def test_what_an_interrupted_run_left_of_a_case_is_replaced(tmp_path):
    store = Store(tmp_path, describe_machine(1), ["fit"])
    store.add("fit", [{"case": "a", "wall": 1.0}, {"case": "b", "wall": 2.0}])
    store.add("fit", [{"case": "a", "wall": 3.0, "note": "more"}])
    assert store.has("fit", "a")
    assert not store.has("fit", "c")
    assert [(row["case"], float(row["wall"]), row["note"]) for row in store.rows("fit")] == [
        ("b", 2.0, ""),
        ("a", 3.0, "more"),
    ]


def test_growth_ends_where_the_fast_path_gave_up(tmp_path):
    store = Store(tmp_path, describe_machine(1), ["fit"])
    store.add("growth", [{"case": "2e+03 ridge 0.5", "penalty": "ridge 0.5", "side": "dual"}])
    assert list(run.tasks("growth", TINY, store, 1)) == []


def test_the_selections_hold_the_sizes_of_the_specification():
    dense = {(800, 384), (1000, 2000), (4000, 4000), (10_000, 2000), (100_000, 500)}
    for C in (1.0, 0.01):
        found = {(c.n, c.d, c.kind) for c in FULL.fits if c.C == C}
        assert found == {(n, d, "dense") for n, d in dense} | {(10_000, 20_000, "one-hot")}
    assert (FULL.predict_rows, FULL.predict_columns) == (1_000_000, 500)
    assert (Case(20_000, 20_000, 0.01, dtype="float32"), "randomised") in FULL.memory
    assert FULL.growth[0][1] == (10**5, 10**6, 10**7, 10**8, 10**9)
    assert min(FULL.repeats, QUICK.repeats) >= 5
    assert set(QUICK.fits) <= set(FULL.fits)


# -- data and measurement ----------------------------------------------------------------------


def test_dense_data_has_the_correlation_and_the_labels_it_should():
    problem = make(Case(20_000, 5))
    correlation = np.corrcoef(problem.X, rowvar=False)
    expected = 0.5 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    # 20,000 rows: a standard error of 0.007.
    np.testing.assert_allclose(correlation, expected, atol=0.03)
    np.testing.assert_allclose(problem.X.var(axis=0), 1.0, atol=0.05)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    rate = weights @ expit(3 * nodes + 1) / weights.sum()
    assert abs(problem.y.mean() - rate) < 0.015


def test_one_hot_rows_have_one_level_per_category():
    X = cases.one_hot_rows(500, 100, "float32", np.random.default_rng(0))
    assert sparse.issparse(X)
    groups = X.toarray().reshape(500, 20, 5)
    np.testing.assert_array_equal(groups.sum(axis=2), 1.0)
    share = groups.mean(axis=(0, 1))
    zipf = 1 / np.arange(1, 6)
    np.testing.assert_allclose(share, zipf / zipf.sum(), atol=0.02)
    with pytest.raises(ValueError, match="d=101 must be a multiple of 20"):
        cases.one_hot_rows(5, 101, "float64", np.random.default_rng(0))


def test_binned_truth_agrees_with_the_closed_form(monkeypatch):
    monkeypatch.setattr(cases, "TRUTH_ROWS", 100_000)
    problem = make(Case(50, 30))
    coef = np.random.default_rng(1).normal(size=30)
    scores, signal = problem.fresh(coef, 0.3)
    closed = problem.true_curve(scores, signal, coef, 0.3)
    binned = replace(problem, truth=None).true_curve(scores, signal, coef, 0.3)
    assert np.mean(np.abs(closed - binned)) < 0.01


def test_the_gradient_norm_is_that_of_the_objective_by_finite_differences():
    problem = make(Case(60, 4, C=0.3))
    coef, b, step = np.array([0.3, -0.2, 0.1, 0.5]), 0.2, 1e-6

    def objective(theta):
        u = problem.X @ theta[:4] + theta[4]
        loss = np.mean(np.logaddexp(0.0, u) - problem.y * u)
        return loss + theta[:4] @ theta[:4] / (2 * 0.3 * 60)

    theta = np.append(coef, b)
    slopes = [
        (objective(theta + step * e) - objective(theta - step * e)) / (2 * step) for e in np.eye(5)
    ]
    norm = gradient_norm([LinearPart(coef, b, 0.3)], problem)
    assert norm == pytest.approx(np.abs(slopes).max(), abs=1e-8)


def test_the_gradient_norm_falls_with_the_tolerance():
    problem = make(Case(200, 10))
    norms = [
        gradient_norm(
            linear_parts(LogisticRegression(tol=tol).fit(problem.X, problem.y), problem), problem
        )
        for tol in (1e-2, 1e-7)
    ]
    assert norms[0] <= 1e-2
    assert norms[1] <= 1e-7


def test_the_folds_of_cross_fitting_are_at_their_own_optimum():
    case = Case(150, 10, tol=1e-8)
    problem = make(case)
    contender = next(c for c in suited(case, TINY) if c.name == CROSS_FITTED)
    _, fitted = measure([contender], problem, 1, 1)
    parts = linear_parts(fitted[CROSS_FITTED], problem)
    assert [len(part.rows) for part in parts] == [120] * 5
    assert gradient_norm(parts, problem) < 1e-7
    on_all_rows = [replace(part, rows=None) for part in parts]
    assert gradient_norm(on_all_rows, problem) > 1e-4


def test_nobody_is_always_first_or_always_after_the_same_one():
    orders = [order(4, repeat) for repeat in range(8)]
    assert all(sorted(positions) == [0, 1, 2, 3] for positions in orders)
    assert {positions[0] for positions in orders} == {0, 1, 2, 3}
    before = {positions[positions.index(2) - 1] for positions in orders if positions[0] != 2}
    assert len(before) > 1


def test_time_is_taken_on_both_clocks():
    _, timing = timed(lambda: sum(i * i for i in range(300_000)))
    assert 0 < timing["process"] <= 1.5 * timing["wall"] + 0.05
    assert timing["warnings"] == ""


def test_peak_memory_sees_an_array_that_was_freed_again():
    def call():
        np.ones(6_000_000).sum()

    extra, method = memory.extra_bytes(call)
    assert method in ("VmHWM", "ru_maxrss")
    if method == "VmHWM":
        assert 47e6 < extra < 60e6


def test_memory_is_measured_in_a_process_of_its_own():
    row = memory.measure_apart(Case(400, 300), "exact", "angular", threads=1)
    assert row["side"] == "primal"
    assert row["bytes"] == 400 * 300 * 8
    assert row["square_bytes"] == 300**2 * 8
    assert 0 < row["extra"] < 100e6


def test_a_failing_process_is_reported():
    with pytest.raises(RuntimeError, match="angular on 100x30 C=-1 ended with status"):
        memory.measure_apart(Case(100, 30, C=-1.0), "exact", "angular", threads=1)


# -- the arithmetic of the tables --------------------------------------------------------------


def rows(*values):
    columns = ["case", "contender", "wall"]
    return pd.DataFrame(values, columns=columns).assign(repeat=0, process=1.0)


def test_medians_and_ratios_by_hand():
    frame = rows(
        ("b", BASE, 2.0),
        ("b", BASE, 9.0),
        ("b", BASE, 1.0),
        ("b", OURS, 5.0),
        ("b", OURS, 3.0),
        ("a", BASE, 10.0),
        ("a", OURS, 25.0),
    )
    medians = tables.medians(frame)
    assert list(medians.index) == ["b", "a"]
    assert medians.loc["b", BASE] == 2.0
    assert medians.loc["b", OURS] == 4.0
    assert list(tables.ratios(frame)[OURS]) == [2.0, 2.5]


def test_slope_of_a_power_law():
    entries = np.array([1e5, 1e6, 1e8])
    assert tables.slope(entries, 3e-9 * entries**1.07) == pytest.approx(1.07, abs=1e-12)
    frame = pd.DataFrame({"entries": [10**5, 10**7, 10**9], "wall": [1.0, 1.0, 100.0]})
    slopes = tables.growth_slopes(frame.assign(penalty="p", contender=OURS))
    assert slopes["slope"].item() == pytest.approx(0.5)
    assert slopes["large"].item() == pytest.approx(1.0)


def test_operations_and_passes_by_hand():
    assert parts.base_passes(10) == 22
    # 3×2: Gram 3·2·2, Cholesky 8/3, solves 3·4. 2×3: Gram 2·3·2, Cholesky and inverse 8/3 each.
    assert parts.exact_operations(3, 2) == pytest.approx(12 + 8 / 3 + 12)
    assert parts.exact_operations(2, 3) == pytest.approx(12 + 16 / 3)
    assert parts.exact_operations(2, 3, sparse=True) == pytest.approx(16 / 3)


def test_floors_by_hand():
    rates = {("gemv", "float64"): 8.0, ("gemv", "float32"): 4.0, ("gemm", "float64"): 10.0}
    stage = pd.Series({"iterations": 9, "side": "randomised", "passes": 5})

    def both(stage, stored):
        return tables.floor_seconds(stage, lambda q, t: rates[q, t], 1000, 1000, stored)

    # 20 passes over 8 MB at 8 GB/s; 5 passes over 4 MB at 4 GB/s.
    assert both(stage, None) == pytest.approx((0.02, 0.005))
    # Sparse entries carry a column number of 4 bytes: 12 and 8 bytes each.
    assert both(stage, 1000) == pytest.approx((20 * 12e3 / 8e9, 5 * 8e3 / 4e9))
    dual = parts.exact_operations(1000, 1000) / 10e9
    assert both(stage.replace("randomised", "dual"), None)[1] == pytest.approx(dual)


def test_memory_allowance_by_hand():
    row = pd.Series({"bytes": 1000, "square_bytes": 300, "side": "randomised"})
    assert tables.memory_allowance(row) == 500
    assert tables.memory_allowance(row.replace("randomised", "dual")) == 800


def test_verdicts_and_losses():
    assert tables.mark(1.999, 2.0) == "2.00 met"
    assert tables.mark(2.01, 2.0) == "2.01 **missed**"
    text = markdown(
        ["case", "time", "ratio"], [["a", "1", "3.00 **missed**"], ["b", "", "1.00 met"]]
    )
    assert text.splitlines()[1] == "| --- | --- | --- |"
    assert list(page.missed_in("bars", text)) == ["- a: ratio 3.00\n"]
    assert tables.added_error(0.75) == pytest.approx(0.25)


def test_an_unknown_table_is_named():
    with pytest.raises(KeyError, match="'speeds'; there are machine, bars"):
        tables.table("speeds", Path())


def test_the_curves_standard_error_is_that_of_repeated_fits():
    """400 draws of labels at fixed scores: spread of the fitted curve against the delta method."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=300)
    p = expit(1.2 * scores + 0.4)
    curves = []
    for _ in range(400):
        y = rng.random(300) < p
        fit = LogisticRegression(C=1e6, tol=1e-6).fit(scores[:, None], y)
        curves.append(fit.predict_proba(scores[:, None])[:, 1])
    spread = np.sqrt(np.var(curves, axis=0).mean())
    assert curve_standard_error(p, scores, 300) == pytest.approx(spread, rel=0.1)
    assert curve_standard_error(p, scores, 1200) == pytest.approx(
        curve_standard_error(p, scores, 300) / 2
    )


def test_expected_log_loss_by_hand():
    p, truth = np.array([0.5, 0.2]), np.array([1.0, 0.0])
    assert expected_log_loss(p, truth) == pytest.approx(-(np.log(0.5) + np.log(0.8)) / 2)
    grid = np.linspace(0.01, 0.99, 99)
    losses = [expected_log_loss(np.array([q]), np.array([0.3])) for q in grid]
    assert grid[np.argmin(losses)] == pytest.approx(0.3)
