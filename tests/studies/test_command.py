"""The command line of the studies, tried as a user would."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from studies.__main__ import main
from studies.paper.command import RESULTS

ROOT = Path(__file__).resolve().parents[2]


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
    monkeypatch.setattr("studies.__main__.missing_packages", lambda: ["pandas"])
    assert main(["reproduce", "--list"]) == 3
    assert "pip install -e '.[study]'" in capsys.readouterr().err


@pytest.mark.slow
def test_quick_study_makes_every_file(tmp_path):
    """All results, in another process as from a shell; each leaves rows, pictures and a table."""
    command = [sys.executable, "-m", "studies", "reproduce", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
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
    subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_interruption_says_how_to_go_on(monkeypatch, capsys):
    def stopped(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.paper.command.execute", stopped)
    assert main(["reproduce", "--list"]) == 130
    assert "goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["reproduce"], ["benchmark"], ["benchmark", "real"]])
def test_help_teaches(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert "usage: studies" in capsys.readouterr().out


def test_help_names_every_benchmark(capsys):
    with pytest.raises(SystemExit):
        main(["benchmark", "--help"])
    printed = capsys.readouterr().out
    assert all(f"\n    {name}" in printed for name in ("real", "multiclass", "curves", "speed"))
