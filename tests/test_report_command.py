"""``angcal report`` at the command line: files, exit codes, sentences instead of tracebacks."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from angcal.cli import main
from angcal.files import write_text


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame["y"] = np.where(frame["a"] + rng.normal(size=60) > 0, "yes", "no")
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    return path


def run(*arguments):
    return main(["report", *(str(argument) for argument in arguments)])


def test_report_is_written_and_the_verdict_printed(csv, tmp_path, capsys):
    out = tmp_path / "new" / "report.html"
    assert run(csv, "--target", "y", "--out", out, "--repeats", 1, "--title", "Mine") == 0
    html = out.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "<h1>Mine</h1>" in html
    printed = capsys.readouterr()
    assert f"The report: {out}" in printed.out
    assert "60 rows, 4 columns" in printed.out
    assert printed.err == f"note: the folder {out.parent} is not there and will be made\n"
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_json_is_one_object_also_with_pool_and_rows_without_label(csv, tmp_path, capsys):
    frame = pd.read_csv(csv)
    pool = tmp_path / "pool.csv"
    frame.drop(columns="y").to_csv(pool, index=False)
    frame.loc[:4, "y"] = None
    frame.to_csv(csv, index=False)
    out = tmp_path / "r.html"
    options = ["--pool", pool, "--out", out, "--repeats", 1, "--json"]
    assert run(csv, "--target", "y", *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(out)
    assert told["rows"] == 55
    assert -1 <= told["angle"]["cosine"] <= 1
    assert len(told["comparison"]) == 6
    html = out.read_text(encoding="utf-8")
    assert "60 rows without labels help" in html
    assert "5 of 60 rows have no" in html


@pytest.mark.parametrize(
    ("change", "arguments", "code", "sentence"),
    [
        (None, ["--target", "z"], 1, "no column called 'z'"),
        ("", ["--target", "y"], 1, ""),
        ("a,y\n1,0\n", ["--target", "y"], 1, ""),
        (None, ["--target", "y", "--out", "report.txt"], 2, "must end in .html"),
    ],
)
def test_failures_are_one_sentence(csv, tmp_path, capsys, change, arguments, code, sentence):
    if change is not None:
        csv.write_text(change)
    if "--out" not in arguments:
        arguments = [*arguments, "--out", tmp_path / "r.html"]
    assert run(csv, *arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert "Traceback" not in printed.err
    assert not (tmp_path / "r.html").exists()


def test_fit_and_report_agree_on_figures_and_headline(csv, tmp_path, capsys):
    out = tmp_path / "r.html"
    assert run(csv, "--target", "y", "--out", out, "--repeats", 1, "--json") == 0
    reported = json.loads(capsys.readouterr().out)
    assert main(["fit", str(csv), "--target", "y", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    same = set(reported) & set(fitted)
    shared = "rows columns features classes C leave_one_out slope angle plain_model_is headline"
    assert same >= {*shared.split(), "dropped", "warnings", "target"}
    for name in same - {"verdict"}:
        assert reported[name] == fitted[name], name
    assert set(fitted["leave_one_out"]["calibrated"]) >= {"log_loss", "ece"}
    n = len(fitted["verdict"])
    assert reported["verdict"][:n] == fitted["verdict"], "a report adds cross-validation at most"
    assert set(reported["comparison"][0]) >= {"log_loss", "brier", "ece", "log_loss_error"}


def test_what_fit_and_report_print_agrees_to_the_last_digit(csv, tmp_path, capsys):
    out = tmp_path / "r.html"
    assert run(csv, "--target", "y", "--out", out, "--repeats", 1) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert main(["fit", str(csv), "--target", "y"]) == 0
    paragraphs = capsys.readouterr().out.split("\n\n")
    table = next(part for part in paragraphs if part.startswith("leave-one-out"))
    page = " ".join(re.sub(r"<[^>]*>", " ", out.read_text(encoding="utf-8")).split())
    for line in table.splitlines()[1:]:
        assert " ".join(line.split()) in page
    told = [part for part in paragraphs if part != table and not part.startswith("Nothing")]
    assert len(told) >= 4
    for part in told:
        note = part.startswith("Note: ")  # of these the page has the words
        assert " ".join(part.removeprefix("Note: ").split()) in (page if note else reported)


def test_file_date_rows_and_threshold_are_on_the_page(csv, tmp_path, capsys):
    frame = pd.read_csv(csv)
    frame.insert(0, "PatNr", [f"case {i}" for i in range(len(frame))])
    frame.to_csv(csv, index=False)
    out = tmp_path / "r.html"
    given = ["--id", "PatNr", "--positive", "no", "--threshold", "0.2", "--repeats", 1, "--json"]
    assert run(csv, "--target", "y", "--out", out, *given) == 0
    told = json.loads(capsys.readouterr().out)
    (name,) = told["performance"]
    assert name == "no"
    assert told["performance"]["no"]["at_threshold"]["threshold"] == 0.2
    low, high = (told["performance"]["no"]["auc"][end] for end in ("low", "high"))
    assert low < told["performance"]["no"]["auc"]["value"] < high
    html = out.read_text(encoding="utf-8")
    assert re.search(r"from data\.csv, \d{4}-\d\d-\d\d, by angcal", html)
    assert "case 17" in html
    assert "Acting: from a threshold of 20% on" in html


@pytest.mark.parametrize("threshold", ["0", "1", "1.5", "half"])
def test_thresholds_are_probabilities(csv, capsys, threshold):
    with pytest.raises(SystemExit):
        run(csv, "--target", "y", "--threshold", threshold)
    assert "--threshold" in capsys.readouterr().err


def test_missing_file(tmp_path, capsys):
    assert run(tmp_path / "none.csv", "--target", "y", "--out", tmp_path / "r.html") == 1
    assert "none.csv" in capsys.readouterr().err


def test_missing_package(csv, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("angcal.cli.terminal.find_spec", lambda name: None)
    assert run(csv, "--target", "y", "--out", tmp_path / "r.html") == 3
    assert "pip install" in capsys.readouterr().err


def test_stopped_writing_leaves_the_old_file(tmp_path, monkeypatch):
    from pathlib import Path

    out = tmp_path / "r.html"
    out.write_text("old")

    def stop(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_text(out, "new")
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    for word in ("--target", "--pool", "--json", "--seed", "--out", "exit codes", "examples"):
        assert word in text
