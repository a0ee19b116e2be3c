"""The atomic writer: a file is the old one or the new one, never half of it."""

from __future__ import annotations

import os
import stat

import pytest

from angcal.files import SUFFIX, sweep, write_text, written


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


def test_the_name_meanwhile_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(3):
        with written(tmp_path / "file"):
            names |= {path.name for path in tmp_path.iterdir() if path.name.endswith(SUFFIX)}
    assert len(names) == 3
    assert not any(str(os.getpid()) == name.split(".")[2] for name in names)


def test_a_file_that_is_in_the_way_is_not_written_through(tmp_path, monkeypatch):
    """As a link that somebody else has put there would be."""
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


def test_line_ends_stay_as_they_are(tmp_path):
    write_text(tmp_path / "file", "a\r\nb\nγ")
    assert (tmp_path / "file").read_bytes() == "a\r\nb\nγ".encode()


def test_what_a_kill_has_left_is_swept(tmp_path):
    left, other = tmp_path / f".file.0123{SUFFIX}", tmp_path / f".file2.0123{SUFFIX}"
    left.touch()
    other.touch()
    sweep(tmp_path, "file")
    assert list(tmp_path.iterdir()) == [other]
