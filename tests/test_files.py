"""The atomic writer: a file is the old one or the new one, never half of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from angcal.files import ABANDONED, SUFFIX, _without_name, sweep, write_text, written


def test_a_file_appears_whole_with_its_folder(tmp_path):
    target = tmp_path / "new" / "file.txt"
    with written(target) as file:
        file.write(b"half")
        assert not target.exists()
        file.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert list(target.parent.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(TypeError), written(target) as file:
        file.write("text in a binary file")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.fixture
def named(monkeypatch):
    """As on a file system where every file has a name."""
    monkeypatch.setattr("angcal.files._without_name", lambda folder: None)


def test_the_name_meanwhile_cannot_be_guessed(tmp_path, named):
    names = set()
    for _ in range(3):
        with written(tmp_path / "file"):
            names |= {path.name for path in tmp_path.iterdir() if path.name.endswith(SUFFIX)}
    assert len(names) == 3
    assert not any(str(os.getpid()) == name.split(".")[2] for name in names)


@pytest.mark.parametrize("kind", ["named", None])
def test_a_file_that_is_in_the_way_is_not_written_through(kind, tmp_path, monkeypatch, request):
    """As a link that somebody else has put there would be."""
    if kind:
        request.getfixturevalue(kind)
    monkeypatch.setattr("angcal.files.secrets.token_hex", lambda size: "guessed")
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / f".file.guessed{SUFFIX}").symlink_to(tmp_path / "theirs")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "file", "ours")
    assert (tmp_path / "theirs").read_text() == "theirs"


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_text(tmp_path / "file", "")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "file")]
    assert modes[0] == modes[1]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
@pytest.mark.parametrize("nameless", [True, False])
def test_permissions_of_a_file_that_is_there_stay(mode, nameless, tmp_path, monkeypatch):
    if not nameless:
        monkeypatch.setattr("angcal.files._without_name", lambda folder: None)
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(mode)
    with written(target) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode  # nobody reads it before
        file.write(b"new")
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_file_is_replaced(there, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    if there:
        target.write_text("old")
    link.symlink_to(os.path.join("folder", "file"))
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert not target.is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted([link, tmp_path / "folder"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_to(linked, tmp_path):
    """Before, a file took its place, and who read from it waited forever."""
    pipe, target = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    target = target if linked else pipe
    if linked:
        target.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(target, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_refused_before_any_work(tmp_path):
    reached = False
    with pytest.raises(OSError, match=str(tmp_path.name)), written(tmp_path):
        reached = True
    assert not reached


def test_line_ends_stay_as_they_are(tmp_path):
    write_text(tmp_path / "file", "a\r\nb\nγ")
    assert (tmp_path / "file").read_bytes() == "a\r\nb\nγ".encode()


def test_what_a_kill_has_left_is_swept(tmp_path):
    left, other = tmp_path / f".file.0123{SUFFIX}", tmp_path / f".file2.0123{SUFFIX}"
    left.touch()
    other.touch()
    sweep(tmp_path, "file")
    assert list(tmp_path.iterdir()) == [other]


def test_a_name_is_no_pattern(tmp_path):
    left, other = tmp_path / f".a[b].0123{SUFFIX}", tmp_path / f".ab.0123{SUFFIX}"
    left.touch()
    other.touch()
    sweep(tmp_path, "a[b]")
    assert list(tmp_path.iterdir()) == [other]


def test_writing_deletes_what_was_abandoned_and_not_what_is_being_written(tmp_path, named):
    old, new = (tmp_path / f".file.{mark}{SUFFIX}" for mark in ("old", "new"))
    for path, age in ((old, 2.0 * ABANDONED), (new, 0.0)):
        path.touch()
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    write_text(tmp_path / "file", "text")
    assert sorted(tmp_path.iterdir()) == sorted([new, tmp_path / "file"])


def _has_nameless_files(folder):
    file = _without_name(folder)
    if file is not None:
        file.close()
    return file is not None


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name")
@pytest.mark.parametrize("there", [False, True])
def test_a_kill_leaves_nothing(there, tmp_path):
    """Before, a hidden file stayed that nobody deleted."""
    if not _has_nameless_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    target = tmp_path / "file"
    if there:
        target.write_text("old")
    code = (
        "import os, pathlib, signal, sys\n"
        "from angcal.files import written\n"
        "with written(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(bytes(100_000))\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == ([target] if there else [])
    assert not there or target.read_text() == "old"
