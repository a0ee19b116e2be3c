"""The command line, tried as a user would."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import angcal
from angcal.cli import main
from angcal.cli.terminal import stages

# As this process finds angcal, from any folder.
HERE = os.environ | {"PYTHONPATH": str(Path(angcal.__file__).parents[1])}


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--version"], f"angcal {angcal.__version__}"),
        (["fit", "none.csv", "--target", "y"], "does not exist"),
        (["fit", "t.csv", "--target", "z"], "no column called 'z'"),
        (["fit", "t.csv", "--target", "y", "--pool", "none.csv"], "none.csv does not exist"),
        (["fit", "t.docx", "--target", "y"], "unsupported file type .docx"),
        (["fit", "ragged.csv", "--target", "y"], "3 fields on line 3"),
        (["report", "t.csv", "--target", "y", "--out", "r.txt"], "must end in .html"),
        (["predict", "none.skops", "t.csv"], "none.skops does not exist"),
        (["fit", "t.csv"], "required: --target"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refusals_load_nothing_heavy(arguments, words, tmp_path):
    """So that each takes under 0.3 s of CPU; loading scikit-learn alone takes more than one."""
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n3,0\n")
    (tmp_path / "ragged.csv").write_text("a,y\n1,0\n2,1,5\n")
    script = (
        "import sys; from angcal.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'pandas', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=tmp_path,
        env=HERE,
    )  # fmt: skip
    assert words in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_all_public_names_are_found_where_they_are_asked_for():
    for name in angcal.__all__:
        assert getattr(angcal, name).__name__ == name
    assert set(angcal.__all__) <= set(dir(angcal))
    assert angcal.metrics.log_loss
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        angcal.nothing  # noqa: B018


INTERRUPTED = """
import os, runpy, signal, sys, threading, time
delay = float(sys.argv.pop(1))
threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
from angcal.cli import main
sys.exit(main())
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("delay", [0.15, 0.4, 0.7, 1.0, 1.5, 2.2])
def test_an_interrupt_at_any_moment_is_one_sentence(delay, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 300))
    np.savez(tmp_path / "t.npz", X=X, y=(X[:, 0] > 0).astype(int))
    # Long enough to be met by any of them on any machine: 20 penalties, then cross-validation.
    command = ["report", "t.npz", "--target", "y", "--repeats", "50"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(delay), *command],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
        env=HERE,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "interrupted; no file was left half-written"
    assert [path.name for path in tmp_path.iterdir()] == ["t.npz"]


def test_an_interrupt_that_a_library_turns_into_another_error_is_one_still(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["angcal", "fit", "data.csv", "--target", "y"])
    # A shell that starts the tests in the background has them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def failing(options):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("half imported") from error

    monkeypatch.setattr("angcal.cli.fit.execute", failing)
    try:
        assert main() == 130
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = sys.__unraisablehook__
    assert capsys.readouterr().err.strip() == "interrupted; no file was left half-written"


def test_an_interrupt_that_a_library_swallows_ends_the_command_at_its_next_stage(
    monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["angcal", "fit", "data.csv", "--target", "y"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    reached = []

    def swallowing(options):
        with stages(2) as begin:
            begin("one")
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            reached.append("one")
            begin("two")
            reached.append("two")

    monkeypatch.setattr("angcal.cli.fit.execute", swallowing)
    try:
        assert main() == 130
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = sys.__unraisablehook__
    assert reached == ["one"]
    assert capsys.readouterr().err.strip() == "interrupted; no file was left half-written"


def test_demo_passes_its_options_on(monkeypatch):
    called = []
    monkeypatch.setattr("angcal.cli.demo.demonstrate", lambda *options: called.append(options))
    assert main(["demo"]) == 0
    assert main(["demo", "--splits", "3", "--out", "x.png", "--seed", "1"]) == 0
    assert called == [(Path("demo_output/reliability.png"), 5, 0), (Path("x.png"), 3, 1)]


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
