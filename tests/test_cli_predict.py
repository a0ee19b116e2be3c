"""``angcal predict``, tried as a user would."""

from __future__ import annotations

import io
import json
import os
import sys

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

from angcal import (  # noqa: E402
    AngleWarning,
    AngularCalibratedClassifier,
    Logit,
    with_prevalence,
    with_prevalence_from,
)
from angcal.cli import main  # noqa: E402
from angcal.persistence import load, save  # noqa: E402
from angcal.simulation import simulate  # noqa: E402

DATA = simulate(120, 20, link=Logit(scale=3), random_state=0)
NEW = simulate(30, 20, link=Logit(scale=3), random_state=1).X
NAMES = [f"x{j}" for j in range(20)]


def new_frame(**more):
    return pd.DataFrame(NEW, columns=NAMES).assign(**{"kind": ["a", "b", "a"] * 10} | more)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    labels = np.where(DATA.y == 1, "yes", "no")
    frame = pd.DataFrame(DATA.X, columns=NAMES).assign(kind=["a", "b"] * 60, outcome=labels)
    frame.to_csv(folder / "data.csv", index=False)
    out = folder / "m.skops"
    code = main(["fit", str(folder / "data.csv"), "--target", "outcome", "--out", str(out)])
    assert code == 0
    return out


@pytest.mark.parametrize(
    "more", [(), ("--interval",), ("--plain", "--score"), ("--id", "who"), ("--prevalence", "0.1")]
)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_large_file_is_predicted_block_by_block(more, kind, model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    from angcal.tables import fitting, reading

    new = new_frame(who=[f"={k}" for k in range(30)], extra=1.0)
    new.loc[3, "x0"] = 50.0
    new.to_parquet(tmp_path / "new.parquet")
    for name in ("whole", "blocks"):
        out = tmp_path / f"{name}.{kind}"
        assert run("predict", model, tmp_path / "new.parquet", "--out", out, *more, "--json") == 0
        monkeypatch.setattr(reading, "LARGEST_SHARE", 0.0)
        monkeypatch.setattr(fitting, "BATCH_CELLS", 200)
    read = pd.read_parquet if kind == "parquet" else pd.read_csv
    whole, blocks = (read(tmp_path / f"{name}.{kind}") for name in ("whole", "blocks"))
    pd.testing.assert_frame_equal(blocks, whole, rtol=1e-12)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    same = ("rows", "classes", "rows_outside_training", "target", "leave_one_out")
    assert [told[0][key] for key in same] == [told[1][key] for key in same]
    assert any("of the first" in note and "far outside" in note for note in told[1]["warnings"])


def test_an_error_in_a_later_block_leaves_no_file(model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    from angcal.tables import fitting, reading

    new_frame().to_parquet(tmp_path / "new.parquet")
    monkeypatch.setattr(reading, "LARGEST_SHARE", 0.0)
    monkeypatch.setattr(fitting, "BATCH_CELLS", 200)
    left = iter([{"classes": {}, "rows": 9}])
    monkeypatch.setattr("angcal.cli.predict._counted", lambda table: next(left))
    assert run("predict", model, tmp_path / "new.parquet", "--out", tmp_path / "p.csv") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new.parquet"]


def test_many_classes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    codes = np.arange(240) % 12
    X = rng.normal(size=(12, 6))[codes] + 0.5 * rng.normal(size=(240, 6))
    names = np.array([f"kind {k:02d}" for k in range(12)])
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(kind=names[codes])
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.skops"
    assert run("fit", tmp_path / "data.csv", "--target", "kind", "--out", out) == 0
    assert run("predict", out, tmp_path / "data.csv", "--out", tmp_path / "p.csv") == 0
    told = pd.read_csv(tmp_path / "p.csv")
    assert list(told.columns) == [*(f"p_{name}" for name in names), "predicted", "outside_training"]
    p = told.drop(columns=["predicted", "outside_training"]).to_numpy()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(told["predicted"], names[p.argmax(axis=1)])
    np.testing.assert_allclose(p, load(out).predict_proba(frame))


@pytest.fixture
def rows(tmp_path):
    new_frame().to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def refused(capsys, code, *arguments):
    capsys.readouterr()
    assert run(*arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1
    assert "Traceback" not in printed.err
    return printed.err


def test_probabilities(model, rows, tmp_path, capsys):
    capsys.readouterr()
    assert run("predict", model, rows, "--out", tmp_path / "p.csv") == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
    result = pd.read_csv(tmp_path / "p.csv")
    assert list(result.columns) == ["p_no", "p_yes", "predicted", "outside_training"]
    p = result[["p_no", "p_yes"]].to_numpy()
    np.testing.assert_allclose(p, load(model).predict_proba(new_frame()), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert result["predicted"].tolist() == np.where(p[:, 1] > 0.5, "yes", "no").tolist()


def test_parquet_in_and_out(model, tmp_path):
    pytest.importorskip("pyarrow")
    new_frame().to_parquet(tmp_path / "new.parquet")
    assert run("predict", model, tmp_path / "new.parquet", "--out", tmp_path / "p.parquet") == 0
    result = pd.read_parquet(tmp_path / "p.parquet")
    expected = load(model).predict_proba(new_frame())
    np.testing.assert_array_equal(result[["p_no", "p_yes"]].to_numpy(), expected)


@pytest.mark.parametrize("options", [[], ["--out", "-"]])
def test_to_standard_output(model, rows, capsys, options):
    capsys.readouterr()
    assert run("predict", model, rows, *options) == 0
    result = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert len(result) == 30


def test_identifier(model, tmp_path):
    frame = new_frame(patient=[f"p{j}" for j in range(30)])
    frame.to_csv(tmp_path / "new.csv", index=False)
    options = ["--id", "patient", "--out", tmp_path / "p.csv"]
    assert run("predict", model, tmp_path / "new.csv", *options) == 0
    result = pd.read_csv(tmp_path / "p.csv")
    assert result.columns[0] == "patient"
    assert result["patient"].tolist() == [f"p{j}" for j in range(30)]


def test_an_identifier_is_no_extra_column(model, tmp_path, capsys):
    new_frame(patient=range(30)).to_csv(tmp_path / "new.csv", index=False)
    capsys.readouterr()
    run("predict", model, tmp_path / "new.csv", "--id", "patient", "--out", tmp_path / "p.csv")
    assert capsys.readouterr().err == ""


def test_order_of_columns_and_extra_ones(model, rows, tmp_path, capsys):
    frame = new_frame(outcome="yes", other=1)
    frame[frame.columns[::-1]].to_csv(tmp_path / "other.csv", index=False)
    run("predict", model, rows, "--out", tmp_path / "a.csv")
    capsys.readouterr()
    assert run("predict", model, tmp_path / "other.csv", "--out", tmp_path / "b.csv") == 0
    printed = capsys.readouterr()
    assert "ignored 2 columns" in printed.err
    assert "'outcome'" in printed.err
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_one_row(model, tmp_path, capsys):
    new_frame().iloc[:1].to_csv(tmp_path / "new.csv", index=False)
    capsys.readouterr()
    assert run("predict", model, tmp_path / "new.csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_missing_entries(model, tmp_path, capsys):
    new_frame(x3=np.nan, kind=None).to_csv(tmp_path / "new.csv", index=False)
    capsys.readouterr()
    assert run("predict", model, tmp_path / "new.csv") == 0
    result = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert np.isfinite(result["p_yes"]).all()


def test_infinite_and_enormous_cells_stop_nothing(model, tmp_path, capsys):
    new = new_frame()
    usual = run("predict", model, saved(new, tmp_path / "usual.csv"), "--out", tmp_path / "u.csv")
    new.loc[0, NAMES[0]], new.loc[1, NAMES[1]] = 1e308, np.inf
    assert (
        usual
        == 0
        == run("predict", model, saved(new, tmp_path / "n.csv"), "--out", tmp_path / "p.csv")
    )
    said = capsys.readouterr().err
    assert "1 of" in said
    assert "far outside the training rows" in said
    assert "1 cell without a number" in said
    before, after = pd.read_csv(tmp_path / "u.csv"), pd.read_csv(tmp_path / "p.csv")
    pd.testing.assert_frame_equal(after.iloc[2:], before.iloc[2:])
    assert after["p_yes"].between(0, 1).all()


def saved(frame, path):
    frame.to_csv(path, index=False)
    return path


def test_blocks_change_nothing(model, rows, tmp_path, monkeypatch):
    run("predict", model, rows, "--out", tmp_path / "a.csv")
    monkeypatch.setattr("angcal.cli.predict.ROWS_AT_ONCE", 7)
    run("predict", model, rows, "--out", tmp_path / "b.csv")
    p, q = (
        pd.read_csv(tmp_path / name)[["p_no", "p_yes"]].to_numpy() for name in ("a.csv", "b.csv")
    )
    np.testing.assert_allclose(p, q, rtol=0, atol=1e-14)


def test_svmlight_leaves_zeros_out(tmp_path, capsys):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((80, 12)) < 0.4, rng.normal(size=(80, 12)).round(3), 0.0)
    labels = (dense[:, 0] + dense[:, 1] + 0.3 * rng.normal(size=80) > 0).astype(int)

    def written(name, rows):
        lines = [
            f"{label} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row) if value)
            for label, row in rows
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    data = written("data.svm", zip(labels, dense, strict=True))
    assert run("fit", data, "--target", "y", "--out", tmp_path / "m.skops") == 0
    short = dense[:2].copy()
    short[:, 5:] = 0.0  # so that the last columns are nowhere in the file
    few = written("new.svm", zip([0, 1], short, strict=True))
    capsys.readouterr()
    assert run("predict", tmp_path / "m.skops", few) == 0
    result = pd.read_csv(io.StringIO(capsys.readouterr().out))
    frame = pd.DataFrame(short, columns=[f"f{j + 1}" for j in range(12)])
    expected = load(tmp_path / "m.skops").predict_proba(frame)[:, 1]
    np.testing.assert_allclose(result["p_1"], expected, rtol=1e-10)


def test_a_model_that_knows_no_names(tmp_path, capsys):
    estimator = AngularCalibratedClassifier().fit(DATA.X, DATA.y.astype(int))
    save(estimator, tmp_path / "m.skops")
    np.savez(tmp_path / "new.npz", X=NEW)
    assert run("predict", tmp_path / "m.skops", tmp_path / "new.npz") == 0
    result = pd.read_csv(io.StringIO(capsys.readouterr().out))
    np.testing.assert_allclose(result["p_1"], estimator.predict_proba(NEW)[:, 1], rtol=1e-12)
    np.savez(tmp_path / "few.npz", X=NEW[:, :7])
    message = refused(capsys, 1, "predict", tmp_path / "m.skops", tmp_path / "few.npz")
    assert "has 7 columns" in message
    assert "wants 20" in message


# -- what it refuses ---------------------------------------------------------------------------


def test_missing_columns_are_named(model, tmp_path, capsys):
    new_frame(other=1).drop(columns=["x3", "kind"]).to_csv(tmp_path / "new.csv", index=False)
    message = refused(capsys, 1, "predict", model, tmp_path / "new.csv")
    assert "lacks 2 of the 21 columns" in message
    assert "'x3', 'kind'" in message


def test_words_where_numbers_were(model, tmp_path, capsys):
    new_frame(x3="tall").to_csv(tmp_path / "new.csv", index=False)
    assert "column 'x3' held numbers" in refused(capsys, 1, "predict", model, tmp_path / "new.csv")


def test_no_such_identifier(model, rows, capsys):
    assert "no column called 'who'" in refused(capsys, 1, "predict", model, rows, "--id", "who")


def test_identifier_called_like_a_result(model, tmp_path, capsys):
    new_frame(predicted=1).to_csv(tmp_path / "new.csv", index=False)
    message = refused(capsys, 1, "predict", model, tmp_path / "new.csv", "--id", "predicted")
    assert "rename it" in message


def test_bad_model_files(model, rows, tmp_path, capsys):
    assert "does not exist" in refused(capsys, 1, "predict", tmp_path / "no.skops", rows)
    assert "not a model file" in refused(capsys, 1, "predict", rows, rows)
    cut = tmp_path / "cut.skops"
    cut.write_bytes(model.read_bytes()[:-100])
    assert "damaged" in refused(capsys, 1, "predict", cut, rows)


def test_bad_tables(model, tmp_path, capsys):
    assert "does not exist" in refused(capsys, 1, "predict", model, tmp_path / "no.csv")
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refused(capsys, 1, "predict", model, tmp_path / "empty.csv")
    (tmp_path / "header.csv").write_text("x1,x2\n")
    assert "no rows" in refused(capsys, 1, "predict", model, tmp_path / "header.csv")


@pytest.mark.parametrize("out", ["p.xlsx", "p", "p.skops"])
def test_out_must_be_a_table(model, rows, tmp_path, capsys, out):
    message = refused(capsys, 2, "predict", model, rows, "--out", tmp_path / out)
    assert "must end in .csv or .parquet" in message
    assert not (tmp_path / out).exists()


def test_out_must_not_be_an_input(model, rows, tmp_path, capsys):
    before = rows.read_bytes()
    (tmp_path / "link.csv").symlink_to(rows)
    for out in (rows, rows.parent / "." / rows.name, tmp_path / "link.csv"):
        message = refused(capsys, 2, "predict", model, rows, "--out", out)
        assert "would overwrite its own input" in message
    assert rows.read_bytes() == before


def test_csv_to_an_output_that_is_not_utf8(tmp_path, rows, monkeypatch):
    labels = np.where(DATA.y == 1, "ja, 日本", "nein")
    save(AngularCalibratedClassifier().fit(DATA.X, labels), tmp_path / "m.skops")
    np.savez(tmp_path / "new.npz", X=NEW)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert run("predict", tmp_path / "m.skops", tmp_path / "new.npz") == 0
    sys.stdout.flush()
    assert "p_ja, 日本" in pd.read_csv(io.BytesIO(written.getvalue())).columns


def test_a_failure_leaves_the_earlier_file(model, rows, tmp_path, capsys, monkeypatch):
    out = tmp_path / "p.csv"
    out.write_text("as it was")

    def full(descriptor):
        raise OSError(28, "No space left on device", str(out))

    monkeypatch.setattr("angcal.files.os.fsync", full)
    assert "No space left" in refused(capsys, 1, "predict", model, rows, "--out", out)
    assert out.read_text() == "as it was"
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "p.csv"}


def test_a_reader_that_stops_early(model, rows, monkeypatch):
    """As with ``| head``: no traceback, and nothing left that Python would try to write later."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as nobody_listens:
        monkeypatch.setattr(sys, "stdout", nobody_listens)
        assert run("predict", model, rows) == 1
        nobody_listens.write("goes nowhere")


def test_intervals(model, rows, tmp_path, capsys):
    assert run("predict", model, rows, "--interval", "--out", tmp_path / "p.csv") == 0
    told = pd.read_csv(tmp_path / "p.csv")
    ends = ["low_yes", "high_yes", "row_low_yes", "row_high_yes"]
    assert [name for name in told.columns if "yes" in name] == ["p_yes", *ends]
    assert np.all((told["low_yes"] <= told["p_yes"]) & (told["p_yes"] <= told["high_yes"]))
    pipe = load(model)
    X = pipe[:-1].transform(new_frame())
    for kind, names in (("curve", ends[:2]), ("row", ends[2:])):
        np.testing.assert_allclose(told[names], pipe[-1].predict_interval(X, kind), atol=1e-12)
    assert run("predict", model, rows, "--interval", "0.5", "--out", tmp_path / "half.csv") == 0
    half = pd.read_csv(tmp_path / "half.csv")
    assert np.all(half["row_high_yes"] - half["row_low_yes"] < 1.0)
    assert np.all(half["high_yes"] <= told["high_yes"])


def test_plain_probabilities_and_score(model, rows, tmp_path):
    out = tmp_path / "p.csv"
    assert run("predict", model, rows, "--plain", "--score", "--out", out) == 0
    told, pipe = pd.read_csv(out), load(model)
    X = pipe[:-1].transform(new_frame())
    score = np.asarray(X @ pipe[-1].coef_[0]) + pipe[-1].intercept_[0]
    np.testing.assert_allclose(told["score"], score, atol=1e-12)
    np.testing.assert_allclose(told["plain_yes"], 1 / (1 + np.exp(-score)), atol=1e-12)
    np.testing.assert_allclose(told["plain_yes"] + told["plain_no"], 1.0)
    assert np.all(np.diff(told.sort_values("score")["p_yes"]) >= 0), "the curve rises"


def test_scores_of_three_classes_are_those_that_the_softmax_takes(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(90, 4)), columns=list("abcd"))
    frame["kind"] = np.array(["x", "y", "z"])[frame.to_numpy()[:, :3].argmax(axis=1)]
    frame.to_csv(tmp_path / "d.csv", index=False)
    assert run("fit", tmp_path / "d.csv", "--target", "kind", "--out", tmp_path / "m.skops") == 0
    arguments = ("--plain", "--score", "--out", tmp_path / "p.csv")
    assert run("predict", tmp_path / "m.skops", tmp_path / "d.csv", *arguments) == 0
    told = pd.read_csv(tmp_path / "p.csv")
    scores = np.exp(told[["score_x", "score_y", "score_z"]].to_numpy())
    plain = told[["plain_x", "plain_y", "plain_z"]].to_numpy()
    np.testing.assert_allclose(plain, scores / scores.sum(axis=1, keepdims=True))


def test_plain_of_another_model_is_refused(tmp_path, capsys):
    clf = AngularCalibratedClassifier().fit(DATA.X, DATA.y)
    save(clf, tmp_path / "m.skops")
    np.savez(tmp_path / "new.npz", X=NEW)
    assert run("predict", tmp_path / "m.skops", tmp_path / "new.npz", "--plain") == 1
    assert "--plain and --score are about the logistic" in capsys.readouterr().err


def test_intervals_of_three_classes(tmp_path):
    rng = np.random.default_rng(0)
    codes = np.arange(90) % 3
    X = rng.normal(size=(3, 20))[codes] + 3.0 * rng.normal(size=(90, 20))
    save(AngularCalibratedClassifier().fit(X, codes), tmp_path / "m.skops")
    np.savez(tmp_path / "new.npz", X=X[:4])
    out = tmp_path / "p.csv"
    arguments = (tmp_path / "m.skops", tmp_path / "new.npz", "--interval", "--out", out)
    assert run("predict", *arguments) == 0
    told = pd.read_csv(out)
    for k in range(3):
        assert np.all(told[f"low_{k}"] <= told[f"p_{k}"])
        assert np.all(told[f"row_low_{k}"] <= told[f"row_high_{k}"])


def test_intervals_that_cannot_be(tmp_path, model, rows, capsys):
    from angcal import ScoreCalibratedClassifier

    save(ScoreCalibratedClassifier().fit(NEW, np.arange(30) % 2), tmp_path / "plain.skops")
    np.savez(tmp_path / "new.npz", X=NEW)
    arguments = ("predict", tmp_path / "plain.skops", tmp_path / "new.npz", "--interval")
    assert "ScoreCalibratedClassifier does not have" in refused(capsys, 1, *arguments)
    with pytest.raises(SystemExit):
        run("predict", model, rows, "--interval", "95")
    assert "not between 0 and 1" in capsys.readouterr().err


# -- what may be a mistake ---------------------------------------------------------------------


def test_rows_unlike_all_training_rows_are_told_and_counted(model, tmp_path, capsys):
    frame = new_frame(kind=["a", "b", "new"] * 10)
    frame.loc[0, NAMES] *= 1000  # other units
    frame = frame.astype({"x3": object})
    frame.loc[1:3, "x3"] = ["> 5", "n.d.", None]
    frame.to_csv(tmp_path / "new.csv", index=False)
    capsys.readouterr()
    assert run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv") == 0
    told = capsys.readouterr().err
    assert "1 of 30 rows lie far outside the training rows" in told
    assert "check the units" in told
    assert "10 of 30 rows have categories that no training row has, in 'kind' ('new')" in told
    assert "text among numbers was taken as missing, in 'x3' (2 of 30: '> 5', 'n.d.')" in told
    assert "3 cells without a number, of 30 rows, got the median of the training rows" in told
    counts = pd.read_csv(tmp_path / "p.csv")["outside_training"]
    numbers = pd.read_csv(tmp_path / "new.csv")[NAMES].apply(pd.to_numeric, errors="coerce")
    out = (numbers < DATA.X.min(axis=0)) | (numbers > DATA.X.max(axis=0))
    assert counts.tolist() == (out.sum(axis=1) + (frame["kind"] == "new")).tolist()
    assert counts[0] >= 19


def test_the_identifier_of_the_fit_is_carried_over(tmp_path, capsys):
    labels = np.where(DATA.y == 1, "yes", "no")
    frame = pd.DataFrame(DATA.X, columns=NAMES).assign(PatNr=np.arange(120) * 7, outcome=labels)
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.skops"
    options = ["fit", tmp_path / "data.csv", "--target", "outcome", "--id", "PatNr", "--out", out]
    assert run(*options) == 0
    assert "PatNr: it identifies the rows (--id)" in capsys.readouterr().out
    assert run("predict", out, tmp_path / "data.csv", "--out", tmp_path / "p.csv") == 0
    assert pd.read_csv(tmp_path / "p.csv")["PatNr"].tolist() == frame["PatNr"].tolist()
    frame.drop(columns="PatNr").to_csv(tmp_path / "other.csv", index=False)
    assert run("predict", out, tmp_path / "other.csv", "--out", tmp_path / "p.csv") == 0
    assert pd.read_csv(tmp_path / "p.csv").columns[0] == "p_no"


# -- what it writes ----------------------------------------------------------------------------


def test_formulas_are_made_harmless(model, tmp_path, capsys):
    names = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@sum", "-5", "plain"] * 5
    new_frame(who=names).to_csv(tmp_path / "new.csv", index=False)
    options = ["predict", model, tmp_path / "new.csv", "--id", "who", "--out", tmp_path / "p.csv"]
    capsys.readouterr()
    assert run(*options) == 0
    assert "20 cells that look like formulas" in capsys.readouterr().err
    written = pd.read_csv(tmp_path / "p.csv")["who"].tolist()
    assert written == [name if name in ("-5", "plain") else f"'{name}" for name in names]
    assert run(*options, "--raw-text") == 0
    assert pd.read_csv(tmp_path / "p.csv")["who"].tolist() == names


def test_names_give_no_orders_to_a_terminal(model, tmp_path, capsys):
    new_frame(who="\x1b]0;taken over\x07").to_csv(tmp_path / "new.csv", index=False)
    capsys.readouterr()
    assert run("predict", model, tmp_path / "new.csv", "--id", "who") == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "\N{REPLACEMENT CHARACTER}]0;taken over" in printed.out


def test_a_file_gives_none_either(model, tmp_path, capsys):
    """It was told that control characters were made harmless, and a file still had them."""
    new_frame(who="\x1b]0;taken over\x07").to_csv(tmp_path / "new.csv", index=False)
    options = ["predict", model, tmp_path / "new.csv", "--id", "who", "--out", tmp_path / "p.csv"]
    capsys.readouterr()
    assert run(*options) == 0
    assert "hold control characters were made harmless" in capsys.readouterr().err
    assert not any(byte in (tmp_path / "p.csv").read_bytes() for byte in b"\x1b\x07")
    assert run(*options, "--raw-text") == 0
    assert b"\x1b]0;taken over\x07" in (tmp_path / "p.csv").read_bytes()


def test_the_input_is_overwritten_by_force_alone(model, rows, tmp_path, capsys):
    before = rows.read_bytes()
    (tmp_path / "link.csv").symlink_to(rows)
    for out in (rows, tmp_path / "link.csv"):
        assert "--force" in refused(capsys, 2, "predict", model, rows, "--out", out)
    assert rows.read_bytes() == before
    assert run("predict", model, rows, "--out", rows, "--force") == 0
    assert "p_yes" in pd.read_csv(rows).columns


def test_a_folder_that_is_made_is_told(model, rows, tmp_path, capsys):
    capsys.readouterr()
    assert run("predict", model, rows, "--out", tmp_path / "new" / "p.csv") == 0
    assert f"the folder {tmp_path / 'new'} is not there and will be made" in capsys.readouterr().err


def test_other_separators_and_encodings(model, rows, tmp_path, capsys):
    frame = new_frame(who=["M\xfcller"] * 30)
    path = tmp_path / "new.txt"
    path.write_bytes(frame.to_csv(index=False, sep="|").encode("cp1252"))
    capsys.readouterr()
    assert run("predict", model, path, "--id", "who", "--out", tmp_path / "p.csv") == 0
    assert "read as Windows-1252" in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "p.csv")["who"]) == {"M\xfcller"}


def test_json_has_the_figures_of_the_fit(model, rows, tmp_path, capsys):
    data = model.with_name("data.csv")
    capsys.readouterr()
    assert run("fit", data, "--target", "outcome", "--json") == 0
    fitted = json.loads(capsys.readouterr().out)
    assert run("predict", model, rows, "--out", tmp_path / "p.csv", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["leave_one_out"] == fitted["leave_one_out"]
    assert told["rows"] == sum(told["classes"].values()) == 30
    assert told["rows_outside_training"] == (pd.read_csv(tmp_path / "p.csv").iloc[:, -1] > 0).sum()
    assert "--out" in refused(capsys, 2, "predict", model, rows, "--json")


def test_the_class_that_was_asked_about_stands_first(model, rows, tmp_path, capsys):
    out, data = tmp_path / "m.skops", model.with_name("data.csv")
    assert run("fit", data, "--target", "outcome", "--positive", "yes", "--out", out) == 0
    assert run("predict", out, rows, "--out", tmp_path / "p.csv") == 0
    told, plain = pd.read_csv(tmp_path / "p.csv"), load(model).predict_proba(new_frame())
    assert list(told.columns)[:3] == ["p_yes", "p_no", "predicted"]
    np.testing.assert_allclose(told["p_yes"], plain[:, 1], rtol=1e-12)


# -- other shares of the classes ---------------------------------------------------------------


def test_known_prevalence(model, rows, tmp_path, capsys):
    for shares in ("0.02", "yes=0.02,no=0.98"):
        capsys.readouterr()
        assert run("predict", model, rows, "--prevalence", shares, "--out", tmp_path / "p.csv") == 0
        printed = capsys.readouterr()
        assert printed.err.startswith("note: shares of classes (in training): yes 0.02 (0.")
        p = pd.read_csv(tmp_path / "p.csv")["p_yes"].to_numpy()
        expected = with_prevalence(load(model), 0.02).predict_proba(new_frame())[:, 1]
        np.testing.assert_allclose(p, expected, rtol=1e-12)


def test_prevalence_from_rows(model, rows, tmp_path, capsys):
    capsys.readouterr()
    out = tmp_path / "p.csv"
    assert run("predict", model, rows, "--prevalence-from", rows, "--out", out) == 0
    printed = capsys.readouterr().err
    with pytest.warns(AngleWarning, match="Too few rows of X_target"):
        expected = with_prevalence_from(load(model), new_frame())
    found = expected[-1].prevalence_
    assert f"from 30 rows, standard error {found.standard_error[1]:.2g}, p = " in printed
    assert "note: Too few rows of X_target" in printed
    p = pd.read_csv(out)["p_yes"].to_numpy()
    np.testing.assert_allclose(p, expected.predict_proba(new_frame())[:, 1], rtol=1e-12)


def test_prevalence_that_is_none(model, rows, tmp_path, capsys):
    for shares, words in (
        ("1.5", "strictly between 0 and 1"),
        ("often", "neither a number nor"),
        ("yes=0.5,maybe=0.5", "unknown: ['maybe'], missing: ['no']"),
        ("yes=0.5,no=0.6", "sums to 1.1"),
    ):
        told = refused(capsys, 1, "predict", model, rows, "--prevalence", shares)
        assert "--prevalence: " in told
        assert words in told
    new_frame().head(5).to_csv(tmp_path / "few.csv", index=False)
    told = refused(capsys, 1, "predict", model, rows, "--prevalence-from", tmp_path / "few.csv")
    assert "--prevalence-from: X_target has 5 rows" in told
