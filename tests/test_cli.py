"""The command line, tried as a user would."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import pytest

import angcal
from angcal.cli import main
from angcal.reproduce.catalogue import RESULTS


def test_lists_every_result(capsys):
    assert main(["reproduce", "--list"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == list(RESULTS)


def test_unknown_result_is_named(capsys):
    assert main(["reproduce", "sign", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--jobs", "0"], ["--jobs", "-2"], ["--seed", "-1"], ["--jobs", "x"]]
)
def test_bad_numbers(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments])
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_no_command_teaches(capsys):
    assert main([]) == 2
    assert "reproduce" in capsys.readouterr().err


def test_other_seed_in_the_same_folder_is_refused(tmp_path, capsys):
    arguments = ["reproduce", "sign", "--quick", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert main([*arguments, "--seed", "7"]) == 1
    message = capsys.readouterr().err
    assert "seed 2025 there and 7 here" in message
    assert "--fresh" in message
    before = (tmp_path / "draws.csv").read_bytes()
    assert main([*arguments, "--seed", "7", "--fresh"]) == 0
    assert (tmp_path / "draws.csv").read_bytes() != before


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "sign", "--quick", "--out", str(tmp_path / "file" / "x")]) == 1
    assert "pass another --out" in capsys.readouterr().err


def test_missing_package_is_named(capsys, monkeypatch):
    monkeypatch.setattr("angcal.reproduce.command._missing_packages", lambda: ["pandas"])
    assert main(["reproduce", "--list"]) == 3
    assert "pip install 'angcal[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "predict", "report", "demo"])
def test_help_teaches_by_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"\n  angcal {command}" in printed


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    for command in ("fit", "predict", "report", "demo", "reproduce", "benchmark"):
        assert re.search(rf"^    {command}\s", printed, re.MULTILINE)


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"angcal {angcal.__version__}\n"


def test_demo_passes_its_options_on(monkeypatch):
    called = []
    monkeypatch.setattr("angcal.demo.main", called.append)
    assert main(["demo"]) == 0
    assert main(["demo", "--splits", "3", "--out", "x.png", "--seed", "1"]) == 0
    assert called == [[], ["--out=x.png", "--splits=3", "--seed=1"]]


@pytest.mark.parametrize("arguments", [["--splits", "1"], ["--splits", "x"], ["--seed", "-1"]])
def test_demo_refuses_bad_numbers_itself(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["demo", *arguments])
    assert ended.value.code == 2
    assert "usage: angcal demo" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["x.xyz", "x"])
def test_demo_refuses_a_picture_it_cannot_write_before_it_starts(out, capsys, monkeypatch):
    monkeypatch.setattr("angcal.demo.main", lambda arguments: pytest.fail("it started"))
    assert main(["demo", "--out", out]) == 2
    assert "must end in .png or .svg or .pdf" in capsys.readouterr().err


def test_demo_without_its_packages(monkeypatch, capsys):
    monkeypatch.setattr("angcal.commands.outcome.find_spec", lambda name: None)
    assert main(["demo"]) == 3
    assert "pip install 'angcal[cli]'" in capsys.readouterr().err


def test_interruption_says_what_is_left(monkeypatch, capsys):
    def stopped(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("angcal.commands.fit.execute", stopped)
    assert main(["fit", "data.csv", "--target", "y"]) == 130
    assert "no file was left half-written" in capsys.readouterr().err
    monkeypatch.setattr("angcal.reproduce.command.execute", stopped)
    assert main(["reproduce", "--list"]) == 130
    assert "goes on from here" in capsys.readouterr().err


def test_importing_pulls_in_no_optional_package():
    """Nothing comes in that scikit-learn's linear models, which may look for pandas, leave out."""
    script = (
        "import sys, sklearn.linear_model; before = set(sys.modules); "
        "import angcal.cli; "
        "print([name for name in ('pandas', 'skops', 'tqdm', 'matplotlib', 'pyarrow', 'onnx') "
        "if name in set(sys.modules) - before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_quick_study_makes_every_file(tmp_path):
    """All results, in another process as from a shell; each leaves rows, pictures and a table."""
    command = [sys.executable, "-m", "angcal.cli", "reproduce", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar where there is no terminal, no warning
    for name, result in RESULTS.items():
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        summary = (tmp_path / f"{name}.md").read_text()
        assert summary.strip() in done.stdout
        for table, columns in result.experiment.tables.items():
            suffix = f"-{table}" if table else ""
            with (tmp_path / f"{result.experiment.name}{suffix}.csv").open() as file:
                header, *rows = csv.reader(file)
            assert header == ["trial", *columns]
            assert rows
    # Again: nothing to run, and the same files.
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    subprocess.run(command, capture_output=True, check=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
