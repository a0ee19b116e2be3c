"""``angcal fit``, tried as a user would."""

from __future__ import annotations

import io
import json
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

from angcal import Logit, persistence  # noqa: E402
from angcal.cli import main  # noqa: E402
from angcal.metrics import expected_calibration_error, log_loss  # noqa: E402
from angcal.persistence import about, load  # noqa: E402
from angcal.simulation import simulate  # noqa: E402
from angcal.tables import fit_table  # noqa: E402

DATA = simulate(150, 60, link=Logit(scale=3), random_state=0)
NAMES = [f"x{j}" for j in range(60)]


def frame_of(data=DATA, **more):
    labels = np.where(data.y == 1, "yes", "no")
    return pd.DataFrame(data.X, columns=NAMES).assign(**more, outcome=labels)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    frame_of().to_csv(path, index=False)
    return path


def run(*arguments):
    return main([str(argument) for argument in arguments])


def refused(capsys, code, *arguments):
    """What a command that fails says: one line on standard error, nothing else anywhere."""
    assert run(*arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1
    assert "Traceback" not in printed.err
    return printed.err


# -- what it says ------------------------------------------------------------------------------


def test_verdict_in_words(table, capsys):
    assert run("fit", table, "--target", "outcome") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for part in ("150 rows, 60 columns", "plain logistic regression", "log-loss", "°", "cosine"):
        assert part in printed.out
    assert "Nothing was saved" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 96


def test_json_and_nothing_else(table, tmp_path, capsys):
    out = tmp_path / "m.skops"
    assert run("fit", table, "--target", "outcome", "--json", "--out", out) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    told = json.loads(printed.out)
    model = load(out)
    classifier = model.named_steps["classify"]
    assert told["rows"] == 150
    assert told["C"] == classifier.C_
    assert told["angle"]["cosine"] == classifier.angle_.cosine
    assert told["angle"]["cosine_interval"] == list(classifier.angle_.interval)
    labels = DATA.y  # "yes" is 1, the second class
    # The file does not hold what belongs to the training rows.
    again = fit_table(frame_of().drop(columns="outcome"), frame_of()["outcome"].to_numpy())
    p = again.classifier.loo_proba_[:, 1]
    figures = told["leave_one_out"]
    assert figures["calibrated"]["ece"] == pytest.approx(expected_calibration_error(labels, p))
    assert figures["calibrated"]["log_loss"] == pytest.approx(log_loss(labels, p))
    plain = again.classifier.plain_loo_proba_[:, 1]
    assert figures["plain"]["log_loss"] == pytest.approx(log_loss(labels, plain))
    gain = figures["plain"]["log_loss"] - figures["calibrated"]["log_loss"]
    assert figures["gain"]["log_loss"] == pytest.approx(gain)
    best = np.argmin(classifier.path_.uncalibrated_log_loss)
    assert told["plain_at_its_best"] == {
        "C": classifier.path_.C[best],
        "ece": classifier.path_.uncalibrated_ece[best],
        "log_loss": classifier.path_.uncalibrated_log_loss[best],
    }
    assert told["model"] == str(out)
    assert told["dropped"] == []
    assert sum(told["classes"].values()) == 150
    assert (told["columns"], told["features"]) == (60, 60)


def test_degrees_are_those_of_the_cosine(table, capsys):
    run("fit", table, "--target", "outcome", "--json")
    angle = json.loads(capsys.readouterr().out)["angle"]
    assert np.cos(np.radians(angle["degrees"])) == pytest.approx(angle["cosine"])
    low, high = angle["degrees_interval"]
    assert low <= angle["degrees"] <= high
    assert np.cos(np.radians([high, low])) == pytest.approx(angle["cosine_interval"])


def test_dropped_columns_are_named(tmp_path, capsys):
    frame = frame_of(who=[f"person {j}" for j in range(150)], when="2020-01-01")
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "outcome") == 0
    printed = capsys.readouterr().out
    assert "who: it has as many different values as rows" in printed
    assert "when: it holds dates" in printed


def test_missing_labels_are_told(tmp_path, capsys):
    frame = frame_of()
    frame.loc[:9, "outcome"] = None
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "outcome", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 140
    assert told["warnings"] == ["10 of 150 rows have no 'outcome' and were left out."]


def test_copies_are_told_in_plain_words(tmp_path, capsys):
    frame = frame_of(simulate(60, 60, link=Logit(scale=3), random_state=0))
    pd.concat([frame, frame]).to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "outcome") == 0
    printed = capsys.readouterr().out
    assert "Note: 120 of 120 rows of X have exact or near copies. Drop the copies" in printed
    assert "sample_weight" not in printed


def test_a_pool_that_is_unlike_is_told_in_plain_words(table, tmp_path, capsys):
    pool = simulate(200, 60, link=Logit(scale=3), random_state=2).X * 50 + 1000
    pd.DataFrame(pool, columns=NAMES).to_csv(tmp_path / "pool.csv", index=False)
    assert run("fit", table, "--target", "outcome", "--pool", tmp_path / "pool.csv") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "The pool does not look like X" in printed
    assert "same columns in the same units" in printed
    assert "make_pipeline" not in printed


def test_no_signal_is_told(tmp_path, capsys):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40, 30))).assign(y=[0, 1] * 20)
    frame.columns = [f"x{name}" for name in frame.columns[:-1]] + ["y"]
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "y", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) >= {"leave_one_out", "angle", "warnings"}


def test_too_few_of_a_class_for_an_angle(tmp_path, capsys):
    frame = frame_of().assign(outcome=["yes"] * 2 + ["no"] * 148)
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "outcome") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "No angle could be estimated" in printed
    assert "the smaller class has 2 rows" in printed


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin1"])
def test_an_output_that_is_not_utf8_loses_no_verdict(table, encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert run("fit", table, "--target", "outcome") == 0
    sys.stdout.flush()
    printed = written.getvalue().decode(encoding)
    assert "not determined by labels alone" in printed
    assert "+/-" in printed or "±" in printed


def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path, capsys):
    frame = frame_of(**{"\x1b]0;taken over\x07": 1.0})
    frame["outcome"] = frame["outcome"].replace({"yes": "\x1b[2Jyes"})
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "outcome") == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "�[2Jyes" in printed
    assert "�]0;taken over�: it is the same" in printed


# -- what it takes -----------------------------------------------------------------------------


def test_pool(table, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    pool = simulate(400, 60, link=Logit(scale=3), random_state=1).X
    pd.DataFrame(pool, columns=NAMES).to_parquet(tmp_path / "pool.parquet")
    options = ["fit", table, "--target", "outcome", "--json"]
    assert run(*options) == 0
    alone = json.loads(capsys.readouterr().out)["angle"]
    assert run(*options, "--pool", tmp_path / "pool.parquet") == 0
    helped = json.loads(capsys.readouterr().out)["angle"]
    assert (alone["method"], helped["method"]) == ("loo", "observable")


def test_arrays(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", X=DATA.X, y=DATA.y.astype(int))
    assert run("fit", tmp_path / "data.npz", "--target", "y") == 0
    assert "150 rows, 60 columns" in capsys.readouterr().out


def test_svmlight(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = []
    for row in range(80):
        columns = sorted(rng.choice(np.arange(1, 200), 10, replace=False))
        lines.append(f"{row % 2} " + " ".join(f"{j}:{1 + rng.random():.3f}" for j in columns))
    (tmp_path / "data.svm").write_text("\n".join(lines) + "\n")
    assert run("fit", tmp_path / "data.svm", "--target", "y", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 80


@pytest.mark.parametrize("jobs", ["1", "2", "-1"])
def test_jobs_and_seed_do_not_change_the_answer(table, capsys, jobs):
    options = ["fit", table, "--target", "outcome", "--json"]
    run(*options)
    first = json.loads(capsys.readouterr().out)
    assert run(*options, "--jobs", jobs, "--seed", "7") == 0
    assert json.loads(capsys.readouterr().out)["C"] == pytest.approx(first["C"])


def test_the_model_file_knows_its_columns(table, tmp_path, capsys):
    out = tmp_path / "new folder" / "m.skops"
    assert run("fit", table, "--target", "outcome", "--out", out) == 0
    assert f"angcal predict {out}" in capsys.readouterr().out
    told = about(out)
    assert told["columns"] == NAMES
    assert told["target"] == "outcome"
    assert told["classes"] == ["no", "yes"]


# -- what it refuses ---------------------------------------------------------------------------


def test_missing_file(tmp_path, capsys):
    assert "does not exist" in refused(capsys, 1, "fit", tmp_path / "no.csv", "--target", "y")


def test_missing_pool(table, tmp_path, capsys):
    options = ["fit", table, "--target", "outcome", "--pool", tmp_path / "no.csv"]
    assert "no.csv does not exist" in refused(capsys, 1, *options)


def test_missing_target(table, capsys):
    assert "did you mean 'outcome'?" in refused(capsys, 1, "fit", table, "--target", "Outcomes")


def test_quantity_as_target(table, capsys):
    assert "looks like a quantity" in refused(capsys, 1, "fit", table, "--target", "x3")


def test_pool_lacks_columns(table, tmp_path, capsys):
    frame_of().drop(columns=["x1", "x2"]).to_csv(tmp_path / "pool.csv", index=False)
    options = ["fit", table, "--target", "outcome", "--pool", tmp_path / "pool.csv"]
    assert "lacks 2 of the 60 columns" in refused(capsys, 1, *options)


def test_nothing_to_learn_from(tmp_path, capsys):
    (tmp_path / "data.csv").write_text("name,y\n" + "".join(f"n{j},{j % 2}\n" for j in range(20)))
    message = refused(capsys, 1, "fit", tmp_path / "data.csv", "--target", "y")
    assert "no column can be used" in message


def test_very_few_rows(tmp_path, capsys):
    (tmp_path / "data.csv").write_text("a,y\n0.3,0\n1.7,1\n0.4,0\n")
    assert "at least 5" in refused(capsys, 1, "fit", tmp_path / "data.csv", "--target", "y")


def test_three_classes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    codes = np.arange(150) % 3
    frame = pd.DataFrame(rng.normal(size=(150, 6)), columns=list("abcdef"))
    frame["a"] += codes
    frame["y"] = np.array(["low", "middle", "high"])[codes]
    frame.to_csv(tmp_path / "data.csv", index=False)
    options = ["fit", tmp_path / "data.csv", "--target", "y"]
    assert run(*options) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "150 rows, 6 columns after preparation; classes high (33%), low (33%)" in printed
    assert "ECE of the likeliest class" in printed
    assert "one for all classes, is not determined by labels alone" in printed
    assert "The probabilities come from" in printed
    assert run(*options, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["leave_one_out"]["plain"]["log_loss"] < np.log(3)
    assert told["leave_one_out"]["calibrated"]["log_loss"] < np.log(3)
    assert told["angle"]["method"] == "loo"
    assert told["map"] in told["map_reason"] or told["map_reason"].startswith("the base model")
    pool = pd.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    pool["a"] += np.arange(300) % 3
    pool.to_csv(tmp_path / "pool.csv", index=False)
    assert run(*options, "--json", "--pool", tmp_path / "pool.csv") == 0
    assert json.loads(capsys.readouterr().out)["pool_rows"] == 300


@pytest.mark.parametrize("out", ["model.pkl", "model", "data.csv"])
def test_out_must_be_a_model_file(table, tmp_path, capsys, out):
    before = table.read_bytes()
    options = ["fit", table, "--target", "outcome", "--out", tmp_path / out]
    assert "must end in .skops" in refused(capsys, 2, *options)
    assert table.read_bytes() == before


def test_out_below_a_file(table, capsys):
    options = ["fit", table, "--target", "outcome", "--out", table / "m.skops"]
    assert "cannot be written" in refused(capsys, 2, *options)


def test_out_is_a_folder(table, tmp_path, capsys):
    (tmp_path / "m.skops").mkdir()
    options = ["fit", table, "--target", "outcome", "--out", tmp_path / "m.skops"]
    assert "is a folder" in refused(capsys, 2, *options)


@pytest.mark.parametrize(
    "arguments", [[], ["--target"], ["--jobs", "0"], ["--seed", "-1"], ["--nonsense"]]
)
def test_wrong_usage(table, capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        run("fit", table, *arguments)
    assert ended.value.code == 2
    assert "usage: angcal fit" in capsys.readouterr().err


def test_missing_packages_are_named(table, capsys, monkeypatch):
    monkeypatch.setattr("angcal.cli.terminal.find_spec", lambda name: None)
    message = refused(capsys, 3, "fit", table, "--target", "outcome", "--out", "m.skops")
    assert "pandas and rich and skops" in message
    assert "pip install 'angcal[cli]'" in message


def test_what_nobody_foresaw_is_told_in_a_sentence(table, capsys, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("angcal.tables.fit_table", broken)
    message = refused(capsys, 1, "fit", table, "--target", "outcome")
    assert "ZeroDivisionError: of all things" in message
    monkeypatch.setenv("ANGCAL_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("fit", table, "--target", "outcome")


# -- interruption ------------------------------------------------------------------------------


@pytest.fixture
def interruptible():
    """Control-C as at a terminal, whatever the test runner does with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_control_c_leaves_no_half_file(table, tmp_path, capsys, monkeypatch, interruptible):
    """Stopped by the signal in the middle of writing: the earlier file as it was, and no other."""
    out = tmp_path / "models" / "m.skops"
    out.parent.mkdir()
    out.write_bytes(b"as it was")
    original = persistence.written

    class Halfway:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            self.file.write(bytes(data)[:100])
            self.file.flush()
            assert out.read_bytes() == b"as it was"
            signal.raise_signal(signal.SIGINT)

    @contextmanager
    def interrupted(path):
        with original(path) as file:
            yield Halfway(file)

    monkeypatch.setattr(persistence, "written", interrupted)
    assert run("fit", table, "--target", "outcome", "--out", out) == 130
    printed = capsys.readouterr()
    assert "interrupted" in printed.err
    assert "Traceback" not in printed.err
    assert list(out.parent.iterdir()) == [out]
    assert out.read_bytes() == b"as it was"


def test_interrupted_before_there_was_a_file(table, tmp_path, capsys, monkeypatch):
    def stopped(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("angcal.files.os.fsync", stopped)
    out = tmp_path / "models" / "m.skops"
    assert run("fit", table, "--target", "outcome", "--out", out) == 130
    assert "no file was left half-written" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []
