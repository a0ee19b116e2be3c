"""The study of coverage counts cells and single intervals, and takes C in scikit-learn's units."""

from __future__ import annotations

import json

import pytest
from sklearn.linear_model import LogisticRegression

from studies import coverage
from studies.coverage import PENALTIES, D, headline


def intervals(held, said):
    pairs = zip(held, said, strict=True)
    return [
        {"round": str(k), "held": str(one), "said": str(other)}
        for k, (one, other) in enumerate(pairs)
    ]


def test_intervals_that_say_so_are_counted_apart():
    """Of ten of one cell four say so, and hold; of the six others one does not."""
    mixed = intervals([1] * 9 + [0], [1] * 4 + [0] * 6)
    silent = intervals([1] * 10, [1] * 10)
    told = headline(mixed + silent, [mixed, silent])
    assert "10 draws of 2 cells" in told
    assert "In 1 cells at least 50% of the intervals say" in told
    assert "Of the 1 others 0 hold it in 92 to 98 %, 0 more often, 1 less often" in told
    assert "(lowest 90.0%)" in told
    assert "of these 1 0 hold it in 92 to 98 %, 0 more often, 1 less often (lowest 83.3%)" in told
    assert "all 6 intervals that do not say so hold it in 83.3%" in told


def test_penalties_are_those_of_scikit_learn_and_differ(monkeypatch):
    """C = 0.01 and 1 were C/80, all but the same fit."""
    asked = []

    def spied(C, **options):
        asked.append(C)
        return LogisticRegression(C=C, **options)

    monkeypatch.setattr(coverage, "LogisticRegression", spied)
    monkeypatch.setattr(coverage, "RATIOS", (1.0,))
    monkeypatch.setattr(coverage, "PATHS", ())
    found = list(coverage.draw("Gaussian", 1.0, 3.0, 1))
    assert sorted(set(asked)) == sorted(PENALTIES)
    errors = {row["C"]: row["error"] for row in found if row["known"] == "covariance"}
    assert len(found) == 9
    assert abs(errors["0.01"] - errors["1"]) > 1e-3
    assert D == 80
    json.dumps(found)


@pytest.mark.filterwarnings("ignore")
def test_a_round_says_its_seed(monkeypatch):
    monkeypatch.setattr(coverage, "DESIGNS", {"Gaussian": {}})
    monkeypatch.setattr(coverage, "RATIOS", (0.25,))
    monkeypatch.setattr(coverage, "SIGNALS", (3.0,))
    rows = coverage.one_round(2)
    assert {row["seed"] for row in rows} == {coverage.FIRST_SEED + 2}
