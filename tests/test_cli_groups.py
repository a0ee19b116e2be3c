"""``--groups COLUMN``: rows of a patient are left out together, in fit and report."""

import json

import numpy as np
import pandas as pd
import pytest

from angcal.cli import main
from angcal.tables import TableError, split_groups


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Five visits of each of 30 patients, whose labels share a random effect."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 5)
    X = (rng.normal(size=(150, 20)) + 2.0 * rng.normal(size=(30, 20))[patient]) / np.sqrt(5.0)
    logits = 2.0 * X[:, :4].sum(axis=1) + 2.0 * rng.normal(size=30)[patient]
    table = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(20)])
    table["state"] = np.where(rng.random(150) < 1.0 / (1.0 + np.exp(-logits)), "ill", "well")
    table["patient"] = [f"P{number:03d}" for number in patient]
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    table.to_csv(path, index=False)
    return path


def _numbers(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) in (None, 0)
    return json.loads(capsys.readouterr().out)


def test_fit_and_report_leave_groups_out(visits, tmp_path, capsys):
    grouped = _numbers(capsys, "fit", visits, "--target", "state", "--groups", "patient")
    without = visits.with_name("without.csv")
    pd.read_csv(visits).drop(columns="patient").to_csv(without, index=False)
    alone = _numbers(capsys, "fit", without, "--target", "state")
    assert grouped["groups"] == 30
    assert alone["groups"] == 0
    # Visits of a patient tell each other's labels: leaving one out alone flatters the figures.
    of_groups, of_rows = (told["leave_one_out"]["calibrated"] for told in (grouped, alone))
    assert of_groups["log_loss"] > of_rows["log_loss"] + 0.02
    out = tmp_path / "report.html"
    given = ("--target", "state", "--groups", "patient", "--out", out, "--repeats", "1")
    report = _numbers(capsys, "report", visits, *given)
    assert report["leave_one_out"] == grouped["leave_one_out"]
    assert "Each of the 30 groups of rows was left out whole" in " ".join(
        out.read_text(encoding="utf-8").split()
    )


def test_copies_are_groups_without_a_column(visits, tmp_path, capsys):
    once = pd.read_csv(visits).drop(columns="patient").iloc[::2]
    twice = pd.concat([once, once])
    twice["code"] = np.arange(len(twice))
    given = {"copies": twice, "named": twice.assign(row=np.tile(np.arange(len(once)), 2))}
    found = {}
    for name, table in given.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        told = ("--groups", "copies" if name == "copies" else "row", "--drop", "code")
        found[name] = _numbers(capsys, "fit", tmp_path / f"{name}.csv", "--target", "state", *told)
    assert found["copies"]["groups"] == len(once)
    figures = [{k: v for k, v in one.items() if isinstance(v, float)} for one in found.values()]
    assert figures[0] == pytest.approx(figures[1])
    assert {"C", "slope", "slope_error"} <= set(figures[0])


def test_a_wrong_name_gets_a_hint(visits, capsys):
    assert main(["fit", str(visits), "--target", "state", "--groups", "patien"]) == 1
    assert "did you mean 'patient'?" in capsys.readouterr().err


def test_rows_without_a_group_are_their_own():
    table = pd.DataFrame({"patient": ["a", None, "a", None], "x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.warns(UserWarning, match="2 of 4 rows have no 'patient'"):
        features, groups = split_groups(table, "patient")
    assert list(features.columns) == ["x"]
    assert groups[0] == groups[2]
    assert len(set(groups.tolist())) == 3


def test_one_group_is_refused():
    table = pd.DataFrame({"patient": ["a"] * 4, "x": range(4)})
    with pytest.raises(TableError, match="'a' in every row"):
        split_groups(table, "patient")
