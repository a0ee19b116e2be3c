"""The command line, tried as a user would."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import angcal
from angcal.cli import main
from angcal.cli.terminal import stages


def test_no_command_teaches(capsys):
    assert main([]) == 2
    assert "predict" in capsys.readouterr().err


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
    for command in ("fit", "predict", "report", "demo"):
        assert re.search(rf"^    {command}\s", printed, re.MULTILINE)


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"angcal {angcal.__version__}\n"


def test_demo_passes_its_options_on(monkeypatch):
    called = []
    monkeypatch.setattr("angcal.cli.demo.demonstrate", lambda *options: called.append(options))
    assert main(["demo"]) == 0
    assert main(["demo", "--splits", "3", "--out", "x.png", "--seed", "1"]) == 0
    assert called == [(Path("demo_output/reliability.png"), 10, 0), (Path("x.png"), 3, 1)]


@pytest.mark.parametrize("arguments", [["--splits", "1"], ["--splits", "x"], ["--seed", "-1"]])
def test_demo_refuses_bad_numbers_itself(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["demo", *arguments])
    assert ended.value.code == 2
    assert "usage: angcal demo" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["x.xyz", "x"])
def test_demo_refuses_a_picture_it_cannot_write_before_it_starts(out, capsys, monkeypatch):
    monkeypatch.setattr("angcal.cli.demo.demonstrate", lambda *options: pytest.fail("it started"))
    assert main(["demo", "--out", out]) == 2
    assert "must end in .png or .svg or .pdf" in capsys.readouterr().err


def test_demo_without_its_packages(monkeypatch, capsys):
    monkeypatch.setattr("angcal.cli.terminal.find_spec", lambda name: None)
    assert main(["demo"]) == 3
    assert "pip install 'angcal[cli]'" in capsys.readouterr().err


def test_interruption_says_what_is_left(monkeypatch, capsys):
    def stopped(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("angcal.cli.fit.execute", stopped)
    assert main(["fit", "data.csv", "--target", "y"]) == 130
    assert "no file was left half-written" in capsys.readouterr().err


def test_importing_pulls_in_no_optional_package():
    """Nothing comes in that scikit-learn's linear models, which may look for pandas, leave out."""
    script = (
        "import sys, sklearn.linear_model; before = set(sys.modules); "
        "import angcal.cli; "
        "names = ('pandas', 'skops', 'rich', 'jinja2', 'matplotlib', 'pyarrow', 'onnx'); "
        "print([name for name in names if name in set(sys.modules) - before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_appears_only_at_a_terminal_and_only_with_time(monkeypatch):
    monkeypatch.setattr("angcal.cli.terminal.PATIENCE", 0.05)
    for screen, seconds, seen in ((Terminal(), 0.4, True), (Terminal(), 0.0, False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with stages(3) as begin:
            begin("reading")
            begin("fitting [bold]\x1b rows")
            time.sleep(seconds)
        assert ("fitting [bold]� rows" in screen.getvalue()) == seen
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with stages(1) as begin:
        begin("reading")
        time.sleep(0.2)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize("command", [["reproduce", "--list"], ["benchmark", "real", "--quick"]])
def test_a_study_is_sent_to_the_repository(command, capsys):
    assert main(command) == 2
    message = capsys.readouterr().err
    assert f"python -m studies {' '.join(command)}" in message
    assert message.count("\n") == 1
