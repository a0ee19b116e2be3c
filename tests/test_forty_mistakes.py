"""Mistakes that people make with their tables: each gets a sentence that names it."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("openpyxl")

from angcal.cli import main  # noqa: E402

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = np.where(X[:, 0] + RNG.normal(size=N) > 0, "tumour", "normal")


def patients(**columns):
    """A table without mistakes, but for these columns."""
    frame = pd.DataFrame(X, columns=["crp", "ldh", "hb", "age"])
    frame["sex"], frame["y"] = ["m", "f"] * (N // 2), Y
    return frame.assign(**columns)


def with_cells(column, entries):
    """A column of the table with other entries in its first rows."""
    values = list(patients()[column].astype(object))
    values[: len(entries)] = entries
    return {column: values}


def csv(**columns):
    return patients(**columns).to_csv(index=False)


def excel(rows, sheet="Data"):
    def write(path):
        pd.DataFrame(rows).to_excel(path, index=False, header=False, sheet_name=sheet)

    return write


PLAIN = csv()
TITLE = [["Study 7", None, None], ["crp", "ldh", "y"], [1, 2, "a"], [3, 4, "b"]]
NUMBERS = 100_000 + 7 * RNG.permutation(N)
IN_UMLAUTS = csv(sex=["männlich", "weiblich"] * (N // 2)).encode("cp1252")

# What is done, the file's name, what is in it, more arguments, and words of the sentence.
FIT = {
    "a name with a typing error": ("other.csv", PLAIN, [], "table.csv does not exist"),
    "a folder": ("table.csv", None, [], "is a folder; name one file in it"),
    "an old Excel file": ("table.xls", PLAIN, [], "file type .xls; save it as .xlsx"),
    "a Word file": ("table.docx", PLAIN, [], "copy the table into a spreadsheet"),
    "an Excel file called CSV": ("table.csv", b"PK\x03\x04" * 9, [], "call it .xlsx"),
    "an empty file": ("table.csv", "", [], "is empty"),
    "names without rows": ("table.csv", "a,y\n", [], "column names but no rows"),
    "rows without names": (
        "table.csv",
        "5.1,0\n4.9,1\n",
        [],
        "starts with a line of numbers ('5.1', '0'); put a line of column names first",
    ),
    "the same name twice": ("table.csv", "a,a,y\n1,2,x\n3,4,z\n", [], "more than one column"),
    "decimal commas between commas": ("table.csv", "a,y\n1,5,x\n2,5,z\n", [], "3 fields on line 2"),
    "a title above the names": ("table.csv", f"Study 7\n{PLAIN}", [], "lines above the column"),
    "a title in a sheet": ("table.xlsx", excel(TITLE), [], "above the column names"),
    "a sheet that is not there": ("table.xlsx", excel(TITLE), ["--sheet", "A"], "has 'Data'"),
    "an encoding that is not there": ("table.csv", PLAIN, ["--encoding", "x"], "is unknown"),
    "letters of Windows": ("table.csv", IN_UMLAUTS, [], "read as Windows-1252"),
    "a wrong target": ("table.csv", PLAIN, ["--target", "Y"], "did you mean 'y'?"),
    "a quantity as target": ("table.csv", PLAIN, ["--target", "crp"], "looks like a quantity"),
    "names as target": ("table.csv", csv(y=[f"P{j}" for j in range(N)]), [], "looks like names"),
    "one class": ("table.csv", csv(y="normal"), [], "'normal' in every row"),
    "no labels": ("table.csv", csv(y=""), [], "is missing in every row"),
    "some labels missing": ("table.csv", csv(**with_cells("y", [None] * 3)), [], "3 of 60 rows"),
    "a class in two cases": ("table.csv", csv(**with_cells("y", ["Tumour"])), [], "look like one"),
    "a class misspelt": ("table.csv", csv(**with_cells("y", ["tumor"])), [], "look like one"),
    "a blank after a class": ("table.csv", csv(**with_cells("y", ["normal "])), [], "blanks"),
    "an unknown class": ("table.csv", csv(**with_cells("y", ["unknown"])), [], "missing answer"),
    "a class of two rows": ("table.csv", csv(**with_cells("y", ["c"] * 2)), [], "'c' (2 rows)"),
    "a patient number": ("table.csv", csv(PatNr=NUMBERS), [], "PatNr: it numbers the rows"),
    "an unnamed number": ("table.csv", csv(chart=NUMBERS), [], "leave it out with --drop 'chart'"),
    "rows of one patient": (
        "table.csv",
        csv(patient=[f"P{j // 3}" for j in range(N)]),
        [],
        "say --groups 'patient'",
    ),
    "a copy of the target": ("table.csv", csv(code=(Y == "normal") * 1), [], "'code' alone tells"),
    "a copy in words": ("table.csv", csv(icd=np.where(Y == "normal", "Z", "C")), [], "'icd' alone"),
    "text among numbers": (
        "table.csv",
        csv(**with_cells("age", [">80", "n.d."])),
        [],
        "text among numbers was taken as missing, in 'age' (2 of 60: '>80', 'n.d.')",
    ),
    "empty cells": ("table.csv", csv(**with_cells("age", [None] * 7)), [], "7 cells without a num"),
    "codes for missing": ("table.csv", csv(**with_cells("age", [-99] * 2)), [], "-99 in 2 cells"),
    "a constant": ("table.csv", csv(site="A"), [], "site: it is the same in every row (A)"),
    "dates": (
        "table.csv",
        csv(seen=[f"{1 + j % 28}.3.2021" for j in range(N)]),
        [],
        "seen: it holds dates",
    ),
    "free text": ("table.csv", csv(note=[f"text {j}" for j in range(N)]), [], "or free text"),
    "thousands in doubt": (
        "table.csv",
        "".join(f"{j},{500 + j};{'ab'[j % 2]}\n" for j in range(1, N)).join(["wbc;y\n", ""]),
        [],
        "thousands",
    ),
    "a column to drop misspelt": ("table.csv", PLAIN, ["--drop", "crq"], "did you mean 'crp'?"),
    "a class asked for misspelt": ("table.csv", PLAIN, ["--positive", "tumor"], "mean 'tumour'?"),
    "the file's kind in --out": ("table.csv", PLAIN, ["--out", "m.txt"], "must end in .skops"),
    "groups that are all one": ("table.csv", csv(g="A"), ["--groups", "g"], "in every row"),
    "a pool of another table": ("table.csv", PLAIN, ["--pool", "pool.csv"], "lacks 4 of the 5"),
    "two separators": ("table.csv", PLAIN, ["--sep", ";;"], "must be one character"),
}


def run(capsys, *arguments):
    """(exit code, all that was printed, in one line)."""
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).split())
    assert "Traceback" not in text
    assert "Warning:" not in text
    return code, text


def written(folder, name, content):
    path = folder / name
    if content is None:
        path.mkdir()
    elif callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("mistake", FIT)
def test_mistakes_in_a_table_to_fit(mistake, tmp_path, capsys, monkeypatch):
    name, content, more, words = FIT[mistake]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, name, content)
    written(tmp_path, "pool.csv", "crp,other\n1,2\n3,4\n")
    asked = "table.csv" if name == "other.csv" else name
    target = [] if "--target" in more else ["--target", "y"]
    code, text = run(capsys, "fit", tmp_path / asked, *target, *more)
    assert words in text
    # What cannot be meant is refused; what may be is done, and told.
    assert code in (0, 1, 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    written(folder, "table.csv", PLAIN)
    out = folder / "model.skops"
    assert main(["fit", str(folder / "table.csv"), "--target", "y", "--out", str(out)]) == 0
    return out


PREDICT = {
    "a column missing": (patients().drop(columns="ldh"), [], "lacks 1 of the 5 columns"),
    "the target left in": (patients(), [], "ignored 1 column not used by the model: 'y'"),
    "other units": (patients(crp=X[:, 0] * 1000), [], "check the units"),
    "a new category": (patients(sex="d"), [], "categories that no training row has, in 'sex'"),
    "words for numbers": (patients(crp="high"), [], "'crp' held numbers when the model was fitted"),
    "some words for numbers": (patients(**with_cells("hb", ["low"])), [], "in 'hb' (1 of 60"),
    "cells missing": (patients(**with_cells("hb", [None])), [], "1 cell without a number"),
    "no such identifier": (patients(), ["--id", "PatNr"], "no column called 'PatNr'"),
    "the input as output": (patients(), ["--out", "new.csv"], "overwrite its own input"),
    "a formula as name": (patients(who="=1+1"), ["--id", "who"], "look like formulas"),
}


@pytest.mark.parametrize("mistake", PREDICT)
def test_mistakes_in_new_rows(mistake, model, tmp_path, capsys, monkeypatch):
    frame, more, words = PREDICT[mistake]
    monkeypatch.chdir(tmp_path)
    frame.to_csv("new.csv", index=False)
    capsys.readouterr()
    out = [] if "--out" in more else ["--out", "p.csv"]
    assert words in run(capsys, "predict", model, "new.csv", *out, *more)[1]


def test_model_and_table_in_the_wrong_order(model, tmp_path, capsys):
    table = written(tmp_path, "new.csv", PLAIN)
    assert "it is a model; name the table" in run(capsys, "predict", table, model)[1]


def test_a_table_without_mistakes_gets_no_note(tmp_path, capsys):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(240, 4)), columns=["crp", "ldh", "hb", "age"])
    frame["y"] = np.where(frame.crp + rng.normal(size=240) > 0, "ill", "well")
    table = written(tmp_path, "table.csv", frame.to_csv(index=False))
    assert "Note:" not in run(capsys, "fit", table, "--target", "y")[1]


def test_there_are_forty_and_more():
    assert len(FIT) + len(PREDICT) >= 40
