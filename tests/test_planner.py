"""Plans: from pilots, from assumptions, on the command line, and what they refuse."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
from angcal.cli import main
from angcal.links import Logit
from angcal.planner import plan_from_assumptions, plan_from_pilot
from angcal.planner.evidence import directions_of, evidence_grid, log_evidence
from angcal.planner.forecast import Cells, equations
from angcal.theory import Spectrum, best_state, labels_needed, link_for


def drawn(n: int, d: int = 60, kappa: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < expit(kappa * X @ w)).astype(int)


# -- evidence ------------------------------------------------------------------------------------


def test_evidence_of_two_labels_is_an_orthant() -> None:
    """Φ(f₁)Φ(f₂) on average is P(both of two correlated normals are positive)."""
    K = np.array([[2.0, 0.9], [0.9, 1.5]])
    exact = multivariate_normal(np.zeros(2), K + np.eye(2)).cdf(np.zeros(2))
    for signs in (np.array([1.0, 1.0]), np.array([-1.0, -1.0])):
        assert log_evidence(K, signs)[0] == pytest.approx(np.log(exact), abs=2e-3)


def test_evidence_of_independent_labels() -> None:
    K = np.diag([0.5, 3.0, 10.0])
    assert log_evidence(K, np.array([1.0, -1.0, 1.0]))[0] == pytest.approx(
        3 * np.log(0.5), abs=1e-6
    )


def test_evidence_finds_the_strength() -> None:
    X, y = drawn(400, kappa=3.0)
    kappas = np.array([0.3, 3.0, 30.0])
    found = evidence_grid(directions_of(X, None), y.astype(float), kappas, np.array([1.0]))
    assert np.argmax(found[:, 0]) == 1


# -- equations on cells --------------------------------------------------------------------------


@pytest.mark.parametrize(("kappa", "p"), [(1.0, 1.0), (3.0, 2.0), (8.0, 1.0), (5.0, 3.5)])
def test_cells_agree_with_the_full_search(kappa: float, p: float) -> None:
    spectrum = Spectrum(1.0 / np.arange(1, 101.0))
    n = np.array([100.0, 400.0])
    found = equations(Cells(np.array([kappa]), np.array([p]), np.ones(1)), spectrum, 0.4, n)
    link = link_for(prevalence=0.4, scale=kappa)
    for k, each in enumerate(n):
        best = best_state(each, spectrum.with_power(p), link=link)
        assert found.values["cosine"][0, k] == pytest.approx(best.cosine, abs=0.004)
        loss = best.calibrated_log_loss + 1.0 / each
        assert found.values["log_loss"][0, k] == pytest.approx(loss, abs=0.003)
        assert found.values["accuracy"][0, k] == pytest.approx(best.calibrated_accuracy, abs=0.003)


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
    picture = table.parent / "curve.png"
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


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
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
