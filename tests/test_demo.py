import re
import sys
from functools import partial

import numpy as np
import pytest

from angcal.cli import demo
from angcal.report.comparison import chance_ece

SPLITS = 2
ROW = re.compile(r"^(?P<name>\S.*?)\s{2,}(?P<fits>\d+)\s+(?P<held>\d+%?)\s+(?P<rest>.*)$")


def rows_of(text):
    """(name, fits, held out, means, errors) of every printed table row."""
    rows = []
    for line in text.splitlines():
        match = ROW.match(line)
        if match and "±" in line:
            cells = [
                tuple(float(part) for part in cell.split("±"))
                for cell in re.findall(r"[\d.]+ ± [\d.]+", match["rest"])
            ]
            means, errors = zip(*cells, strict=True)
            rows.append((match["name"], int(match["fits"]), match["held"], means, errors))
    return rows


def run_demo(capsys, *arguments):
    demo.main([f"--splits={SPLITS}", *map(str, arguments)])
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def outcomes():
    return demo.run(SPLITS, 0, demo.TASKS[:2])


def test_command_prints_the_tables_and_saves_a_png(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", partial(demo.run, tasks=demo.TASKS[:1]))
    out = tmp_path / "new" / "plot.png"
    text = run_demo(capsys, "--out", out)
    rows = rows_of(text)
    assert [row[0] for row in rows] == [contender.name for contender in demo.CONTENDERS]
    for _, fits, held, means, errors in rows:
        assert len(means) == len(demo.LOWER_IS_BETTER)
        assert fits in (1, 5)
        assert held in ("0", "30%", "20%")
        assert all(0 < mean < 2 for mean in means)
        assert all(0 <= error < 1 for error in errors)
    assert "sure and" in text
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert list(out.parent.iterdir()) == [out]
    assert str(out) in text.replace("\n", "")


def test_the_difference_is_plain(outcomes):
    """Few labels: the plain model is far surer than right; of ten classes the usual remedy too."""
    two, ten = (outcomes[task.name] for task in demo.TASKS[:2])

    def gap(by_name, name):
        sure, right, *_ = demo.scores_of(by_name[name]).mean(axis=0)
        return sure - right

    assert gap(two, "uncalibrated") > 0.08
    assert gap(ten, "CalibratedClassifierCV") < -0.3
    assert abs(gap(two, "angcal")) < 0.05
    assert abs(gap(ten, "angcal")) < 0.05


def test_same_seed_same_text_other_seed_other_text(outcomes):
    again = demo.run(SPLITS, 0, demo.TASKS[:1])
    first = {name: outcomes[name] for name in again}
    assert demo.report(again, 0) == demo.report(first, 0)
    digits = demo.load_digits()
    one, other = (
        demo.make_split(demo.TASKS[0], digits.data, digits.target, seed, 0) for seed in (0, 1)
    )
    assert not np.array_equal(one.X, other.X)


def test_table_shows_mean_and_standard_error_of_the_metrics(outcomes):
    by_name = outcomes[demo.TASKS[0].name]
    values = demo.scores_of(by_name["uncalibrated"])[:, 2:]
    row = rows_of("\n".join(demo.table(by_name)))[0]
    assert row[3] == pytest.approx(values.mean(axis=0), abs=5.1e-4)
    assert row[4] == pytest.approx(np.ptp(values, axis=0) / 2, abs=5.1e-4)


def test_splits_share_no_rows():
    X = np.arange(1797.0)[:, None]
    digits = np.arange(1797) % 10
    split = demo.make_split(demo.TASKS[1], X, digits, 3, 1)
    assert len(split.X) == 100
    assert set(np.bincount(split.y)) == {10}
    both = np.concatenate([split.X.ravel(), split.X_test.ravel()])
    np.testing.assert_array_equal(np.sort(both), X.ravel())
    np.testing.assert_array_equal(split.X_test.ravel() % 10, split.y_test)


def test_the_costs_in_the_table_are_those_paid(outcomes):
    by_name = outcomes[demo.TASKS[0].name]
    paid = {contender.name: contender for contender in demo.CONTENDERS}
    folds = by_name["CalibratedClassifierCV"][0].model.calibrated_classifiers_
    assert len(folds) == paid["CalibratedClassifierCV"].fits


def test_warnings_in_fits_are_told():
    noisy = demo.Outcome(None, np.zeros(2), np.zeros(2), ("it did not converge",))
    quiet = demo.Outcome(None, np.zeros(2), np.zeros(2), ())
    told = demo.complaints({"method": [noisy, quiet, noisy]})
    assert told == ["method warned in 2 of 3 splits: it did not converge"]


def test_chance_ece_shrinks_with_the_test_set():
    def predictions(size):
        return np.random.default_rng(0).random(size)

    small, large = (chance_ece([predictions(size)], seed=0) for size in (500, 50_000))
    # The same number of bins over a hundred times the rows: a tenth of the noise.
    assert large == pytest.approx(small / 10, rel=0.25)


@pytest.mark.parametrize("earlier", [None, b"an earlier plot"])
def test_failed_plot_leaves_no_half_written_file(tmp_path, earlier):
    class FullDisk:
        def savefig(self, target, **options):
            target.write(b"\x89PNG half")
            raise OSError("no space left on device")

    out = tmp_path / "plot.png"
    if earlier is not None:
        out.write_bytes(earlier)
    with pytest.raises(OSError, match="no space left"):
        demo.save(FullDisk(), out)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([earlier] if earlier else [])


def test_without_matplotlib_the_table_comes_with_advice(tmp_path, monkeypatch, outcomes):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    sentence = demo.plot(outcomes, tmp_path / "plot.png")
    assert "pip install 'angcal[plot]'" in sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--splits", "1"], ["--seed", "-1"], ["--splits", "many"]])
def test_impossible_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        demo.main(arguments)
    assert stopped.value.code == 2
    assert "argument --" in capsys.readouterr().err
