"""Plans: from pilots, from assumptions, on the command line, and what they refuse."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.cli import main
from angcal.links import Logit
from angcal.planner import criteria_of_riley, plan_from_assumptions, plan_from_pilot
from angcal.planner.forecast import MULTIPLES, Learning, Observed, _ceiling, learning_of, posterior
from angcal.planner.result import Curve
from angcal.theory import Spectrum, best_state, labels_needed, link_for


def drawn(n: int, d: int = 60, kappa: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < expit(kappa * X @ w)).astype(int)


# -- equations on cells --------------------------------------------------------------------------


def test_cells_agree_with_the_full_search() -> None:
    """A ridge of the scalar equation and two Newton steps against a search for the penalty."""
    spectrum = Spectrum(1.0 / np.arange(1, 101.0))
    kappas, powers, n = np.array([1.0, 4.0, 12.0]), np.array([0.8, 3.0]), np.array([100.0, 400.0])
    found = learning_of(kappas, powers, spectrum, 0.4, n)
    for (i, kappa), (j, p) in itertools.product(enumerate(kappas), enumerate(powers)):
        link = link_for(prevalence=0.4, scale=float(kappa))
        for k, each in enumerate(n):
            best = best_state(float(each), spectrum.with_power(float(p)), link=link)
            assert found.values["cosine"][i, j, k] == pytest.approx(best.cosine, abs=0.004)
            loss = best.calibrated_log_loss + 1.0 / each
            assert found.values["log_loss"][i, j, k] == pytest.approx(loss, abs=0.004)
            accuracy = found.values["accuracy"][i, j, k]
            assert accuracy == pytest.approx(best.calibrated_accuracy, abs=0.004)
        assert found.truth["log_loss"][i] == pytest.approx(best.bayes_log_loss, abs=1e-4)


def test_a_louder_pilot_has_a_stronger_signal() -> None:
    spectrum = Spectrum.isotropic(60)
    learning = learning_of(
        np.geomspace(0.5, 40.0, 5), np.array([0.8, 1.6, 3.0]), spectrum, 0.5, 100.0 * MULTIPLES
    )
    means = []
    for loss in (0.68, 0.55, 0.3):
        weights = posterior(learning, Observed(100, loss, 0.7, 0.03, 0.04))
        assert weights.sum() == pytest.approx(1.0)
        means.append(float(weights.sum(axis=1) @ np.log(learning.kappa)))
    assert means[0] < means[1] < means[2]


# -- pilots --------------------------------------------------------------------------------------


def test_forecast_of_a_known_curve() -> None:
    """Five pilots at four times their labels: far closer to the truth than no change at all."""
    d, n0 = 60, 120
    true = best_state(4 * n0, Spectrum.isotropic(d), link=Logit(3.0)).calibrated_log_loss
    found, unchanged, inside = [], [], []
    for seed in range(5):
        X, y = drawn(n0, d, seed=seed)
        plan = plan_from_pilot(X, y.astype(float), [4 * n0], random_state=seed)
        found.append(plan.log_loss[0] - true)
        unchanged.append(plan.pilot["log_loss"] - true)
        low, high = plan.intervals["log_loss"][0]
        inside.append(low <= true <= high)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 3.0 * error
    assert np.mean(np.square(found)) < 0.5 * np.mean(np.square(unchanged))
    assert np.mean(inside) >= 0.6


@pytest.fixture(scope="module")
def fitted() -> AngularLogisticRegressionCV:
    X, y = drawn(100)
    return AngularLogisticRegressionCV(Cs=8).fit(X, np.where(y == 1, "yes", "no"))


def test_plan_of_a_fitted_classifier(fitted: AngularLogisticRegressionCV) -> None:
    plan = fitted.plan([100, 200, 400])
    assert plan.n.tolist() == [100, 200, 400]
    assert np.all(np.diff(plan.log_loss) <= 0)
    assert np.all(np.diff(plan.accuracy) >= 0)
    assert np.all(np.diff(plan.cosine) > 0)
    for name in ("log_loss", "accuracy", "ece", "cosine", "C"):
        low, high = plan.intervals[name].T
        assert np.all((low <= getattr(plan, name)) & (getattr(plan, name) <= high)), name
    assert "With 400 labels instead of 100 expect" in plan.sentence()
    assert json.loads(json.dumps(plan.as_dict()))["pilot_n"] == 100
    needed = plan.labels_for(accuracy=0.5 * (plan.accuracy[0] + plan.accuracy[1]))
    assert 100 < needed < 200
    again = fitted.plan([400])
    assert again.log_loss[0] == plan.log_loss[2]


def test_plan_around_a_pipeline_sees_its_rows() -> None:
    X, y = drawn(80)
    scaled = AngularLogisticRegressionCV(Cs=8).fit(StandardScaler().fit_transform(X * 100.0), y)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    around = AngularCalibratedClassifier(model).fit(X * 100.0, y)
    one, other = scaled.plan([160]), around.plan([160])
    assert one.log_loss[0] == pytest.approx(other.log_loss[0], abs=1e-6)


def test_files_and_copies_hold_no_rows(fitted: AngularLogisticRegressionCV) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="pass them"):
        copy.plan([200])
    X, y = drawn(100)
    plan = copy.plan([200], X, np.where(y == 1, "yes", "no"))
    assert plan.log_loss[0] == fitted.plan([200]).log_loss[0]


@pytest.mark.filterwarnings("ignore::angcal.AngleWarning")
def test_what_is_refused(fitted: AngularLogisticRegressionCV) -> None:
    with pytest.raises(ValueError, match="below the pilot's 100 labels"):
        fitted.plan([50])
    with pytest.raises(ValueError, match="numbers of labels"):
        fitted.plan([np.nan])
    with pytest.raises(ValueError, match="beyond reach"):
        fitted.plan([200]).labels_for(log_loss=0.0)
    with pytest.raises(ValueError, match="Give one of"):
        fitted.plan([200]).labels_for()
    X, y = drawn(10)
    with pytest.raises(ValueError, match="pilot of 10 labels"):
        plan_from_pilot(X, np.repeat([0.0, 1.0], 5), [20])
    with pytest.raises(ValueError, match="three labels of each class"):
        plan_from_pilot(*drawn(40)[:1], np.eye(1, 40)[0], [80])
    X, y = drawn(60)
    three = AngularLogisticRegressionCV(Cs=4).fit(X, np.argmax(X[:, :3], axis=1))
    with pytest.raises(ValueError, match="two classes"):
        three.plan([100])
    weighted = AngularLogisticRegressionCV(Cs=4).fit(X, y, sample_weight=1.0 + np.arange(60) % 2)
    with pytest.raises(ValueError, match="sample_weight"):
        weighted.plan([100])


def test_a_pilot_without_signal_says_so() -> None:
    X, _ = drawn(60)
    y = np.random.default_rng(5).integers(0, 2, 60).astype(float)
    plan = plan_from_pilot(X, y, [120])
    assert any("no clear signal" in remark for remark in plan.remarks)


# -- assumptions ---------------------------------------------------------------------------------


def test_assumptions_agree_with_theory() -> None:
    plan = plan_from_assumptions(200, ceiling=0.85, n=[100, 400], prevalence=0.3)
    link = link_for(0.85, prevalence=0.3)
    best = best_state(400, Spectrum.isotropic(200), link=link)
    assert plan.accuracy[1] == pytest.approx(best.calibrated_accuracy, abs=1e-9)
    needed = labels_needed(Spectrum.isotropic(200), link=link, accuracy=0.8)
    assert plan.labels_for(accuracy=0.8) == pytest.approx(needed, rel=0.05)
    with pytest.raises(ValueError, match="beyond reach"):
        plan.labels_for(accuracy=0.9)
    with pytest.raises(ValueError, match="columns="):
        plan_from_assumptions(0, ceiling=0.9, n=[10])


# -- command line --------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    X, y = drawn(100, 20)
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(20)])
    frame.assign(y=np.where(y == 1, "yes", "no")).to_csv(tmp_path / "pilot.csv", index=False)
    pool = pd.DataFrame(drawn(300, 20, seed=1)[0], columns=frame.columns)
    pool.to_csv(tmp_path / "pool.csv", index=False)
    return tmp_path / "pilot.csv"


def test_command(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = table.parent / "new" / "curve.png"  # the folder was promised, and not made
    arguments = ["plan", str(table), "--target", "y", "--pool", str(table.parent / "pool.csv")]
    assert main([*arguments, "--target-accuracy", "0.7", "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "With 800 labels instead of 100 expect" in printed
    assert "For accuracy 0.7" in printed
    assert picture.stat().st_size > 10_000
    assert main([*arguments, "--labels", "300", "--target-cosine", "0.8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == [300.0]
    assert found["needed"]["measure"] == "cosine"


def test_command_without_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--columns", "400", "--ceiling", "0.9", "--prevalence", "0.3"]
    assert main([*arguments, "--target-log-loss", "0.4"]) == 0
    assert "For log-loss 0.4 it takes about" in capsys.readouterr().out


def test_command_without_labels_from_a_pool(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = table.parent / "plan.html"
    arguments = ["plan", "--pool", str(table.parent / "pool.csv"), "--ceiling", "0.85"]
    assert main([*arguments, "--out", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "pmsampsize" in printed
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "best C" in text
    flat, steep = [], []
    for decay, kept in (("0", flat), ("2", steep)):
        given = ["plan", "--columns", "100", "--decay", decay, "--ceiling", "0.85", "--json"]
        assert main(given) == 0
        kept.append(json.loads(capsys.readouterr().out)["accuracy"][0])
    assert steep[0] > flat[0] + 0.05, "few large components are learned sooner"


def test_criteria_of_pmsampsize() -> None:
    """The example of its manual, type "b": 24 parameters, R² 0.288, prevalence 0.174."""
    found = criteria_of_riley(24, 0.288, 0.174)
    assert found == {"shrinkage": 623, "optimism": 662, "overall risk": 221}
    with pytest.raises(ValueError, match=r"r2=0\.7 must lie between 0 and 0\.6"):
        criteria_of_riley(24, 0.7, 0.174)
    plan = plan_from_assumptions(24, ceiling=0.87, n=[100], prevalence=0.174)
    assert plan.criteria["overall risk"] == 221
    assert "pmsampsize" in str(plan)


def test_a_plan_prints_as_sentence_and_table(fitted: AngularLogisticRegressionCV) -> None:
    shown = str(fitted.plan([200, 400])).splitlines()
    assert shown[0].startswith("With 400 labels instead of 100 expect")
    assert any(line.startswith("labels") and "best C" in line for line in shown)
    assert sum(line.startswith(("200 ", "400 ")) for line in shown) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--columns", "10", "--pool", "x.csv", "--ceiling", "0.9"], 2, "not both"),
        (["--columns", "0", "--ceiling", "0.9"], 1, "number of features"),
        ([], 2, "needs a table"),
        (["--columns", "10"], 2, "--ceiling"),
        (["{table}"], 2, "--target"),
        (["{table}", "--target", "y", "--columns", "3"], 2, "without a table"),
        (["{table}", "--target", "y", "--labels", "50"], 1, "below the pilot's"),
        (["{table}", "--target", "y", "--target-accuracy", "1.0"], 1, "beyond reach"),
        (["--columns", "10", "--ceiling", "0.4"], 1, "must lie between"),
    ],
)
def test_command_says_what_is_wrong(
    table: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    given = [each.format(table=table) for each in arguments]
    assert main(["plan", *given]) == code
    assert words in capsys.readouterr().err


def test_no_number_of_labels_is_beyond_the_ceiling():
    truth = {"accuracy": np.array([0.8, 0.9]), "log_loss": np.array([0.4, 0.2])}
    learning = Learning(np.array([1.0, 3.0]), {}, truth)
    weights = np.array([[0.5], [0.5]])
    curve = Curve(np.array([50.0, 400.0]), {"accuracy": [0.8, 0.88], "log_loss": [0.4, 0.25]}, {})
    found = _ceiling(learning, weights, curve)
    assert found["accuracy"][0] == 0.88
    assert found["log_loss"][0] == 0.25
    lower = Curve(curve.n, {"accuracy": [0.7, 0.8], "log_loss": [0.5, 0.4]}, {})
    found = _ceiling(learning, weights, lower)
    assert found["accuracy"][0] == pytest.approx(0.85)
    assert found["log_loss"][0] == pytest.approx(0.3)
