"""The engine of the study: nothing finished is lost, repeated or changed by being interrupted."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from angcal.files import write_text
from studies.engine.command import on_cluster
from studies.engine.experiment import Experiment
from studies.engine.runner import read_tables, run_experiment, trial_generator
from studies.engine.store import Store, StoreError, formatted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from toy_experiment import TOY, ToySettings, run  # noqa: E402

START = "import toy_experiment; toy_experiment.main()"
SETTINGS = TOY.quick
posix = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")


# -- helpers -----------------------------------------------------------------------------------


def start(folder: Path, log: Path, *options: str, fail: int | None = None) -> subprocess.Popen:
    places = [str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "TOY_LOG": str(log)}
    if fail is not None:
        environment["TOY_FAIL"] = str(fail)
    return subprocess.Popen(
        [sys.executable, "-c", START, str(folder), *options],
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(folder: Path, log: Path, *options: str) -> None:
    process = start(folder, log, *options)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()


def logged(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def journalled(folder: Path) -> list[int]:
    """Numbers of the trials whose whole lines are in the journal, read without the engine."""
    path = folder / ".toy.journal"
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
    return [json.loads(line.split(b" ", 1)[1])[0] for line in whole if line]


def in_csv(folder: Path) -> set[int]:
    path = folder / "toy.csv"
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {int(row["trial"]) for row in csv.DictReader(file)}


def finished(folder: Path) -> set[int]:
    return set(journalled(folder)) | in_csv(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def wait_for(condition, process: subprocess.Popen) -> None:
    until = time.monotonic() + 180
    while not condition() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def stop(process: subprocess.Popen, number: int) -> None:
    """Signal the whole process group, as a terminal or a scheduler does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    process.communicate(timeout=120)


def half_done(folder: Path, done: int = 6) -> Path:
    """A folder in which the first trials were journalled and then the run was killed."""
    store = Store(folder, TOY, SETTINGS)
    with store.opened():
        for index in range(done):
            store.add(index, run(SETTINGS, {"number": index}))
        journal = store.journal.read_bytes()
    for table in TOY.tables:
        store.path(table).unlink()
    store.journal.write_bytes(journal)
    return store.journal


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_experiment(TOY, SETTINGS, folder)
    return contents(folder)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Executions of trials in this process."""
    path = tmp_path / "executions.log"
    monkeypatch.setenv("TOY_LOG", str(path))
    return path


# -- an undisturbed run ------------------------------------------------------------------------


def test_files_of_a_whole_run_hold_what_the_trials_returned(undisturbed):
    assert set(undisturbed) == {"toy.csv", "toy-extra.csv", "toy.json"}
    rows = list(csv.reader(undisturbed["toy.csv"].decode().splitlines()))
    assert rows[0] == ["trial", "size", "mean", "label"]
    expected = [
        [str(number), str(row["size"]), f"{row['mean']:.10g}", row["label"]]
        for number in range(SETTINGS.trials)
        for row in run(SETTINGS, {"number": number})[""]
    ]
    assert rows[1:] == expected
    extra = undisturbed["toy-extra.csv"].decode().splitlines()
    assert extra[:4] == [
        "trial,third,whole",
        "1,0.3333333333,0",
        "2,0.3333333333,0",
        "2,0.3333333333,1",
    ]
    assert json.loads(undisturbed["toy.json"]) == {
        "experiment": "toy", "trials": 12, "pause": 0.0, "sizes": [3, 5], "seed": 2025,
    }  # fmt: skip


def test_tables_are_read_back_as_they_were_written(tmp_path):
    run_experiment(TOY, SETTINGS, tmp_path)
    frames = read_tables(TOY, SETTINGS, tmp_path)
    assert set(frames) == {"", "extra"}
    first = run(SETTINGS, {"number": 0})[""][0]
    assert frames[""]["mean"][0] == float(f"{first['mean']:.10g}")
    assert frames[""]["label"][0] == first["label"]
    assert len(frames["extra"]) == sum(number % 3 for number in range(SETTINGS.trials))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 3, "0.3333333333"),
        (np.float64(2 / 3), "0.6666666667"),
        (1e-20 / 7, "1.428571429e-21"),
        (0.5, "0.5"),
        (float("nan"), "nan"),
        (-np.inf, "-inf"),
        (7, "7"),
        (np.int64(12345678901), "12345678901"),
        (True, "1"),
        (np.False_, "0"),
        ("a, b", "a, b"),
    ],
)
def test_cells_have_ten_significant_digits(value, text):
    assert formatted(value) == text


@posix
def test_number_of_processes_does_not_change_a_byte(tmp_path, undisturbed):
    finish(tmp_path / "two", tmp_path / "log", "--jobs", "2")
    assert contents(tmp_path / "two") == undisturbed
    assert sorted(logged(tmp_path / "log")) == list(range(SETTINGS.trials))


def test_order_in_which_trials_end_does_not_change_a_byte(tmp_path, undisturbed):
    order = np.random.default_rng(0).permutation(SETTINGS.trials).tolist()
    for part in (order[:5], order[5:]):
        with Store(tmp_path, TOY, SETTINGS).opened() as store:
            for index in part:
                store.add(index, run(SETTINGS, {"number": index}))
    assert contents(tmp_path) == undisturbed


def test_complete_run_is_not_run_again(tmp_path, log):
    run_experiment(TOY, SETTINGS, tmp_path / "out")
    before, executions = contents(tmp_path / "out"), logged(log)
    run_experiment(TOY, SETTINGS, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    assert logged(log) == executions == list(range(SETTINGS.trials))


def test_fresh_runs_everything_again(tmp_path, log, undisturbed):
    out = tmp_path / "out"
    run_experiment(TOY, replace(SETTINGS, seed=1), out)
    assert contents(out)["toy.csv"] != undisturbed["toy.csv"]
    run_experiment(TOY, SETTINGS, out, fresh=True)
    assert contents(out) == undisturbed
    assert logged(log) == 2 * list(range(SETTINGS.trials))


# -- kills ---------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(("jobs", "kills"), [(1, 5), (2, 3)])
def test_killed_and_resumed_run_gives_the_same_bytes(tmp_path, monkeypatch, jobs, kills):
    settings = replace(SETTINGS, trials=24, pause=0.03)
    options = ("--jobs", str(jobs), "--trials", "24", "--pause", "0.03")
    out, rng = tmp_path / "out", np.random.default_rng(jobs)
    killed_midway = 0
    for kill in range(kills):
        known, log = finished(out), tmp_path / f"log{kill}"
        process = start(out, log, *options)
        wait_for(log.exists, process)
        time.sleep(rng.uniform(0.0, 0.2))
        killed_midway += process.poll() is None
        stop(process, signal.SIGKILL)
        assert not known & set(logged(log)), "a finished trial was executed again"
        assert len(set(logged(log))) == len(logged(log))
        assert len(set(journalled(out))) == len(journalled(out))
    assert killed_midway >= 2
    known = finished(out)
    assert known, "some trial should have been finished before the kills"
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "last"))
    run_experiment(TOY, settings, out)
    assert logged(tmp_path / "last") == sorted(set(range(24)) - known)
    run_experiment(TOY, settings, tmp_path / "undisturbed")
    assert contents(out) == contents(tmp_path / "undisturbed")
    assert set(contents(out)) == {"toy.csv", "toy-extra.csv", "toy.json"}


@posix
def test_kill_before_the_first_trial_leaves_nothing_in_the_way(tmp_path, undisturbed):
    out, log = tmp_path / "out", tmp_path / "log"
    process = start(out, log)
    wait_for(out.exists, process)
    stop(process, signal.SIGKILL)
    run_experiment(TOY, SETTINGS, out)
    assert contents(out) == undisturbed


@pytest.mark.parametrize("written", [0, 1])
def test_kill_between_the_files_of_a_finished_run(tmp_path, log, undisturbed, written):
    """All trials are journalled, and the kill came before a file, or between two."""
    out = tmp_path / "out"
    half_done(out, SETTINGS.trials)
    for name in ("toy.csv", "toy-extra.csv")[:written]:
        (out / name).write_bytes(undisturbed[name])
    log.unlink()
    run_experiment(TOY, SETTINGS, out)
    assert contents(out) == undisturbed
    assert logged(log) == []


def test_kill_between_the_files_of_two_runs(tmp_path, log, undisturbed):
    """One file is of the second run and one of the first; the journal has what is missing."""
    out = tmp_path / "out"
    half_done(out, 8)
    # Eight trials with two rows each; three trials with none, one and two rows.
    (out / "toy.csv").write_bytes(b"".join(undisturbed["toy.csv"].splitlines(True)[:17]))
    (out / "toy-extra.csv").write_bytes(b"".join(undisturbed["toy-extra.csv"].splitlines(True)[:4]))
    log.unlink()
    run_experiment(TOY, SETTINGS, out)
    assert contents(out) == undisturbed
    assert logged(log) == [8, 9, 10, 11]


def test_torn_last_line_is_survived_at_every_byte(tmp_path, undisturbed):
    journal = half_done(tmp_path, 3)
    whole = journal.read_bytes()
    last = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for cut in range(last, len(whole) + 1):
        journal.write_bytes(whole[:cut])
        store = Store(tmp_path, TOY, SETTINGS)
        with store.opened():
            complete = cut == len(whole)
            assert store.pending == list(range(3 if complete else 2, SETTINGS.trials))
            assert store.journal.read_bytes() == (whole if complete else whole[:last])
            for index in store.pending[:1]:
                store.add(index, run(SETTINGS, {"number": index}))
            assert journalled(tmp_path) == list(range(4 if complete else 3))
        for table in TOY.tables:
            store.path(table).unlink()
    journal.write_bytes(whole[: len(whole) - 5])
    run_experiment(TOY, SETTINGS, tmp_path)
    assert contents(tmp_path) == undisturbed


@pytest.mark.parametrize("position", [0, 4, 9, 30])
def test_reading_stops_at_a_wrong_checksum(tmp_path, undisturbed, position):
    journal = half_done(tmp_path, 6)
    lines = journal.read_bytes().splitlines(keepends=True)
    broken = bytearray(lines[2])
    broken[position] ^= 1
    journal.write_bytes(b"".join([*lines[:2], bytes(broken), *lines[3:]]))
    store = Store(tmp_path, TOY, SETTINGS)
    with store.opened():
        assert store.pending == list(range(2, SETTINGS.trials))
    run_experiment(TOY, SETTINGS, tmp_path)
    assert contents(tmp_path) == undisturbed


@pytest.mark.parametrize("done", [1, 5, 11])
def test_partial_csv_without_journal_is_continued(tmp_path, log, undisturbed, done):
    """A fresh clone has the CSV files and the settings, and no journal."""
    out = tmp_path / "out"
    half_done(out, done)
    with Store(out, TOY, SETTINGS).opened():
        pass
    (out / ".toy.journal").unlink()
    assert in_csv(out) == set(range(done))
    log.unlink()
    run_experiment(TOY, SETTINGS, out)
    assert contents(out) == undisturbed
    assert logged(log) == list(range(done, SETTINGS.trials))


def test_what_a_kill_left_under_another_name_is_removed(tmp_path, undisturbed):
    """A kill in the middle of writing leaves the half-written file of a process now gone."""
    half_done(tmp_path)
    for name in ("toy.csv", "toy-extra.csv", "toy.json"):
        (tmp_path / f".{name}.999999.unfinished").write_text("half a f")
    run_experiment(TOY, SETTINGS, tmp_path)
    assert contents(tmp_path) == undisturbed


def test_write_text_replaces_whole_files_only(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "first\n")
    assert path.read_bytes() == b"first\n"

    def full_disk(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_text(path, "second\n")
    assert contents(path.parent) == {"file.txt": b"first\n"}


# -- interrupts and exceptions -------------------------------------------------------------------


@posix
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupt_writes_what_is_done(tmp_path, log, jobs):
    settings, out = replace(SETTINGS, pause=0.25), tmp_path / "out"
    process = start(out, tmp_path / "first", "--jobs", str(jobs), "--pause", "0.25")
    wait_for(lambda: len(journalled(out)) >= 3, process)
    stop(process, signal.SIGINT)
    assert process.returncode != 0
    done = set(journalled(out))
    assert 3 <= len(done) < SETTINGS.trials
    assert in_csv(out) == done
    assert not list(out.glob(".*.unfinished"))
    run_experiment(TOY, settings, out)
    assert logged(log) == sorted(set(range(SETTINGS.trials)) - done)
    run_experiment(TOY, settings, tmp_path / "undisturbed")
    assert contents(out) == contents(tmp_path / "undisturbed")


def test_exception_in_a_trial_keeps_the_finished_ones(tmp_path, log, monkeypatch, undisturbed):
    out = tmp_path / "out"
    monkeypatch.setenv("TOY_FAIL", "7")
    with pytest.raises(ArithmeticError, match="trial 7 was told to fail"):
        run_experiment(TOY, SETTINGS, out)
    assert in_csv(out) == set(journalled(out)) == set(range(7))
    monkeypatch.delenv("TOY_FAIL")
    run_experiment(TOY, SETTINGS, out)
    assert contents(out) == undisturbed
    assert logged(log) == [*range(8), *range(7, 12)]


@posix
def test_exception_in_another_process_keeps_the_finished_ones(tmp_path, log):
    settings, out = replace(SETTINGS, pause=0.05), tmp_path / "out"
    process = start(out, tmp_path / "first", "--jobs", "2", "--pause", "0.05", fail=9)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"trial 9 was told to fail" in errors
    done = set(journalled(out))
    assert in_csv(out) == done
    # Which of the others are done depends on which process was sooner up.
    assert done
    assert 9 not in done
    run_experiment(TOY, settings, out)
    assert logged(log) == sorted(set(range(SETTINGS.trials)) - done)


@pytest.mark.parametrize("tables", [{}, {"": []}, {"unknown": [{"size": 1}]}])
def test_trial_without_rows_or_with_unknown_table_is_refused(tmp_path, tables):
    with Store(tmp_path, TOY, SETTINGS).opened() as store, pytest.raises(StoreError, match="toy"):
        store.add(0, tables)


def test_trial_cannot_be_added_twice(tmp_path):
    rows = run(SETTINGS, {"number": 0})
    with Store(tmp_path, TOY, SETTINGS).opened() as store:
        store.add(0, rows)
        with pytest.raises(StoreError, match="twice"):
            store.add(0, rows)


# -- refusals ------------------------------------------------------------------------------------


def refused(folder: Path, settings: ToySettings = SETTINGS) -> str:
    """The refusal, having checked that nothing was changed by it."""
    before = contents(folder)
    with pytest.raises(StoreError) as error:
        run_experiment(TOY, settings, folder)
    assert contents(folder) == before
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed 2025 there and 1 here"),
        ({"trials": 13}, "trials 12 there and 13 here"),
        ({"sizes": (3, 6)}, "sizes [3, 5] there and [3, 6] here"),
    ],
)
def test_other_settings_are_refused(tmp_path, change, named):
    run_experiment(TOY, SETTINGS, tmp_path)
    message = refused(tmp_path, replace(SETTINGS, **change))
    assert str(tmp_path / "toy.json") in message
    assert named in message
    assert "--fresh" in message
    assert "--out" in message


def test_other_settings_are_refused_while_only_a_journal_exists(tmp_path):
    half_done(tmp_path)
    assert "seed" in refused(tmp_path, replace(SETTINGS, seed=1))


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\udcff"])
def test_broken_settings_are_refused(tmp_path, text):
    run_experiment(TOY, SETTINGS, tmp_path)
    (tmp_path / "toy.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    message = refused(tmp_path)
    assert str(tmp_path / "toy.json") in message
    assert "--fresh" in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"trial,size", b"trial,sizes"),
        (b"trial,size,", b"trial,"),
        (b"trial,size", b""),
        (b"\n3,3,", b"\n3,"),
        (b"\n3,3,", b"\nx,3,"),
        (b"\n3,3,", b"\n\n3,3,"),
        (b"\n3,3,", b"\n\xff,3,"),
        (b"\n3,3,", "\n²,3,".encode()),
        (b"\n3,3,", b"\n99,3,"),
    ],
)
def test_broken_csv_is_refused(tmp_path, undisturbed, old, new):
    run_experiment(TOY, SETTINGS, tmp_path)
    (tmp_path / "toy.csv").write_bytes(undisturbed["toy.csv"].replace(old, new, 1))
    message = refused(tmp_path)
    assert str(tmp_path / "toy.csv") in message
    assert "--fresh" in message


@pytest.mark.parametrize("fresh", [False, True])
def test_second_run_in_the_same_folder_is_refused(tmp_path, fresh, undisturbed):
    first = Store(tmp_path, TOY, SETTINGS)
    with first.opened():
        first.add(0, run(SETTINGS, {"number": 0}))
        before = contents(tmp_path)
        with pytest.raises(StoreError, match=r"another run .*--out") as error:
            run_experiment(TOY, SETTINGS, tmp_path, fresh=fresh)
        assert str(tmp_path) in str(error.value)
        assert contents(tmp_path) == before
    run_experiment(TOY, SETTINGS, tmp_path)
    assert contents(tmp_path) == undisturbed


@posix
def test_lock_ends_with_the_process_that_held_it(tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    process = start(out, log, "--pause", "5")
    wait_for(log.exists, process)
    with pytest.raises(StoreError, match="another run"):
        run_experiment(TOY, replace(SETTINGS, pause=5.0), out)
    stop(process, signal.SIGKILL)
    with Store(out, TOY, replace(SETTINGS, pause=5.0)).opened() as store:
        assert store.pending == list(range(SETTINGS.trials))


# -- random numbers ------------------------------------------------------------------------------


def test_generator_depends_on_seed_and_labels_alone():
    def first(*arguments) -> float:
        return trial_generator(*arguments).random()

    reference = first(1, "toy", 3)
    trial_generator(1, "toy", 2).random(100)
    assert first(1, "toy", 3) == reference
    others = [first(2, "toy", 3), first(1, "toy", 4), first(1, "other", 3), first(1, 3, "toy")]
    assert len({reference, *others}) == 5


def test_rows_of_a_trial_do_not_depend_on_the_order_of_trials():
    forwards = [run(SETTINGS, {"number": number}) for number in range(4)]
    backwards = [run(SETTINGS, {"number": number}) for number in reversed(range(4))]
    assert forwards == backwards[::-1]


def test_generators_of_many_trials_differ():
    draws = {trial_generator(2025, "sign", draw).integers(2**63) for draw in range(5000)}
    assert len(draws) == 5000


def two_tables(settings, trial):
    rows = [{"x": trial["k"]}]
    return {"": rows, "other": rows, "rare": rows if trial["k"] == 0 else []}


TWO = Experiment(
    "two",
    ToySettings(),
    ToySettings(),
    {"": ("x",), "other": ("x",), "rare": ("x",)},
    lambda settings: [{"k": 0}, {"k": 1}],
    two_tables,
    optional_tables=("rare", ""),
)


def test_a_table_that_lost_a_trial_is_refused(tmp_path):
    """A merge or an edit may drop rows of one table only; the means would then be of fewer."""
    run_experiment(TWO, TWO.full, tmp_path)
    path = tmp_path / "two-other.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(StoreError, match=r"two-other.csv has lost the rows of trial 1"):
        run_experiment(TWO, TWO.full, tmp_path)


def test_kill_while_trials_are_forgotten(tmp_path, monkeypatch):
    """One file has forgotten the trial and the next has not: it is still to be run."""
    run_experiment(TWO, TWO.full, tmp_path)
    written = contents(tmp_path)

    def killed(path, text):
        if path.name == "two-other.csv":
            raise KeyboardInterrupt
        write_text(path, text)

    with monkeypatch.context() as patch:
        patch.setattr("studies.engine.store.write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(TWO, TWO.full, tmp_path, fresh=True, only=lambda trial: trial["k"] == 1)
    with Store(tmp_path, TWO, TWO.full).opened() as store:
        assert store.pending == [1]
    run_experiment(TWO, TWO.full, tmp_path)
    assert contents(tmp_path) == written


def test_a_fresh_start_with_all_trials_replaces_other_settings(tmp_path):
    run_experiment(TOY, TOY.quick, tmp_path)
    other = replace(TOY.quick, seed=1)
    with pytest.raises(StoreError, match="other settings"):
        run_experiment(TOY, other, tmp_path, fresh=True, only=lambda trial: trial["number"] > 0)
    run_experiment(TOY, other, tmp_path, fresh=True, only=lambda trial: True)
    with Store(tmp_path, TOY, other).opened() as store:
        assert not store.pending


def test_a_cluster_runs_the_same_trials(tmp_path):
    distributed = pytest.importorskip("distributed")
    run_experiment(TOY, SETTINGS, tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    ) as cluster:
        with on_cluster(cluster.scheduler_address):
            run_experiment(TOY, SETTINGS, tmp_path / "there")
        done = [len(worker.state.log) for worker in cluster.workers.values()]
        assert all(done)
    here, there = (read_tables(TOY, SETTINGS, tmp_path / name) for name in ("here", "there"))
    for table in TOY.tables:
        assert here[table].equals(there[table])
