"""The study of kills counts runs that were killed, not runs that ended before."""

from __future__ import annotations

import pytest

from studies import kills
from studies.kills import Command, kills_of, trials_of


@pytest.mark.parametrize("resumes", [False, True])
def test_only_kills_count(resumes, tmp_path, monkeypatch):
    moments, finished = [], []

    def trial(command, moment):
        moments.append(moment)
        ended = len(moments) % 2
        return {"ended": ended, "status": 0 if ended else "", "half": 0, "orphans": 0}

    def usual(command):
        finished.append(command)
        return 8.0

    command = Command(lambda: 0, tmp_path / "study" / "target", lambda path: True, resumes)
    monkeypatch.setattr(kills, "command_of", lambda name, folder: command)
    monkeypatch.setattr(kills, "trial", trial)
    monkeypatch.setattr(kills, "usual_time", usual)
    monkeypatch.setattr(kills, "FOLDER", tmp_path)
    monkeypatch.setattr(kills, "KILLS", {"fit": 3})
    rows = []
    trials_of("fit", tmp_path, rows)
    assert kills_of("fit", rows) == 3
    assert len(rows) == 6
    assert [row["ended"] for row in rows] == [1, 0, 1, 0, 1, 0]
    # A run that ended before its moment takes less than that; one that goes on may be shorter.
    assert resumes or max(moments[1:]) <= moments[0]
    # A study that was killed last comes to its end, so that its tables can be compared.
    assert len(finished) == 1 + resumes
    assert [row["same"] for row in rows] == (["1", "", "1", "", "1", "1"] if resumes else [""] * 6)
