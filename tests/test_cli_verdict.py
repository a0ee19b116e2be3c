"""The words of the verdict follow its numbers."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from angcal.cli.fit import in_words
from angcal.metrics import multiclass_log_loss
from angcal.report.figures import Side, softmax_slope
from angcal.report.verdict import AngleFound, OwnPenalty, Verdict, judge
from angcal.tables import fit_table

pd = pytest.importorskip("pandas")

ANGLE = AngleFound(0.5, (0.3, 0.7), 60.0, (45.6, 72.5), 0.95, "observable", "by a pool")
VERDICT = Verdict(
    rows=400,
    columns=32,
    features=30,
    classes={"no": 0.6, "yes": 0.4},
    C=0.5,
    plain=Side(ece=0.2, log_loss=0.8, confidence=0.9, accuracy=0.7),
    plain_at_its_best=OwnPenalty(C=0.1, ece=0.1, log_loss=0.65),
    calibrated=Side(ece=0.05, log_loss=0.6, confidence=0.71, accuracy=0.7),
    gain_error=0.01,
    ece_gain_error=0.02,
    angle=ANGLE,
    slope=0.4,
    slope_error=0.1,
    pool_rows=0,
    groups=0,
)


def words(**changes):
    return " ".join(in_words(replace(VERDICT, **changes)).split())


def test_everything_is_said():
    text = words()
    assert "overconfident" in text
    assert "90% sure on average, and right in 70%" in text
    assert (
        "lowered the log-loss by 0.200 ± 0.010 and took away 75% of the calibration error" in text
    )
    assert "(C = 0.1) has a log-loss of 0.650, 0.050 worse than the calibrated one" in text
    assert "60° from the true ones (95% interval 46° to 72°" in text


@pytest.mark.parametrize(
    ("slope", "error", "leaning"),
    [
        (0.4, 0.1, "overconfident"),
        (1.5, 0.1, "underconfident"),
        (0.85, 0.1, "about right"),
        (1.08, 0.01, "about right"),
        (0.4, 0.5, "about right"),
    ],
)
def test_leaning_is_judged_against_chance(slope, error, leaning):
    """Beyond two standard errors, and by enough to matter."""
    found = {"slope": slope, "slope_error": error}
    assert replace(VERDICT, **found).leaning == leaning
    assert ("neither clearly" in words(**found)) == (leaning == "about right")
    assert f"ought to be {slope:.2f} ± {error:.2f} times" in words(**found)


def test_a_slope_that_says_nothing_is_not_told():
    text = words(slope=47.9, slope_error=37.0)
    assert "These rows cannot tell" in text
    assert "90% sure on average" in text
    assert "47.9" not in text


def test_one_column():
    assert "400 rows, 1 column after" in words(features=1)


def test_nothing_is_praised_that_was_not_bought():
    same = replace(VERDICT.plain, log_loss=0.601)
    assert "changed next to nothing" in words(plain=same)
    assert "lowered" not in words(plain=same)


def test_a_gain_within_chance_is_called_so():
    text = words(gain_error=0.15)
    assert "differ by 0.200 ± 0.150, which is within chance" in text
    assert text.startswith("The plain model looks overconfident, but calibration gains no more")
    about_right = {"slope": 1.0, "slope_error": 0.1}
    assert words(gain_error=0.15, **about_right).startswith("Plain probabilities are about as good")
    assert "lowered" not in text


def test_headline_and_gain_agree():
    worse = replace(VERDICT.calibrated, log_loss=0.85)
    assert words().startswith("Calibration pays here")
    assert words(calibrated=worse).startswith("Plain probabilities did better")
    assert words(angle=None).startswith("These rows show no signal")


def test_an_angle_that_labels_do_not_determine_has_no_point():
    wide = replace(
        ANGLE, degrees=1.0, degrees_interval=(0.0, 66.0), cosine_interval=(0.4, 1.0), method="loo"
    )
    text = words(angle=wide)
    assert "not determined by labels alone; an unlabeled pool would" in text
    assert "interval is 0° to 66° (cosine 0.40 to 1.00)" in text
    assert "1° from" not in text
    assert "1° from the true ones" in words(angle=replace(wide, method="combined"))
    narrow = replace(wide, degrees_interval=(3.0, 18.0), cosine_interval=(0.95, 1.0))
    assert "interval is 3° to 18°" in words(angle=narrow)
    assert "1° from" not in words(angle=narrow)


def test_calibration_that_did_harm_is_not_praised():
    worse = replace(VERDICT.calibrated, log_loss=0.85)
    assert "did not pay here: it raised the log-loss by 0.050" in words(calibrated=worse)


def test_a_plain_model_that_is_better_is_called_better():
    best = OwnPenalty(C=0.1, ece=0.04, log_loss=0.55)
    assert "0.050 better than the calibrated one" in words(plain_at_its_best=best)
    within = words(plain_at_its_best=best, gain_error=0.03)
    assert "as good as the calibrated one within chance" in within


def test_differences_have_their_errors_and_chance_is_named():
    text = words()
    assert "0.200 0.050 −0.150 ± 0.020" in text
    assert "0.800 0.600 −0.200 ± 0.010" in text
    within = words(ece_gain_error=0.1)
    assert "−0.150 ± 0.100, within chance" in within
    assert "The calibration error (ECE) fell by 0.150 ± 0.100, which is within chance" in within
    assert "took away" not in within


def test_a_calibration_error_that_rises_is_told():
    risen = replace(VERDICT.calibrated, ece=0.3)
    assert words(calibrated=risen).startswith("Calibration lowers the log-loss here, but raises")
    assert "(ECE) rose by 0.100 ± 0.020, more than chance explains" in words(calibrated=risen)
    chance = words(calibrated=risen, ece_gain_error=0.1)
    assert chance.startswith("Calibration pays here")
    assert "(ECE) rose by 0.100 ± 0.100, which is within chance" in chance


def test_no_angle():
    assert "No angle could be estimated" in words(angle=None)


def test_numbers_that_are_none_are_null():
    plain = replace(VERDICT.plain, ece=float("nan"))
    assert replace(VERDICT, plain=plain).as_json()["leave_one_out"]["plain"]["ece"] is None


# -- three and more classes --------------------------------------------------------------------

MULTICLASS = replace(
    VERDICT,
    classes={"a": 0.5, "b": 0.3, "c": 0.2},
    map="temperature",
    map_reason="temperature scaling: it has the lower loss",
    angle=None,
    angles={"a": ANGLE, "b": replace(ANGLE, degrees=40.0), "c": replace(ANGLE, degrees=50.0)},
)


def table_of_three(n, signal, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    p = softmax(signal * X[:, :3], axis=1)
    y = np.array(["a", "b", "c"])[(rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)]
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]), y


def test_three_classes_in_words():
    text = " ".join(in_words(MULTICLASS).split())
    assert "overconfident" in text
    assert "lowered the log-loss by 0.200" in text
    assert "ECE of the likeliest class" in text
    assert "The probabilities come from temperature scaling: it has the lower loss." in text
    assert "60° (a), 40° (b), 50° (c) from the true ones" in text
    assert "95% intervals reach from 46° to 72°" in text
    assert "penalty that suits it best (C = 0.1) has a log-loss of 0.650" in text


def test_many_classes_are_not_all_named():
    names = [f"class {k}" for k in range(9)]
    many = replace(
        MULTICLASS,
        classes=dict.fromkeys(names, 1 / 9),
        angles={name: replace(ANGLE, degrees=20.0 + k) for k, name in enumerate(names)},
    )
    text = " ".join(in_words(many).split())
    assert "class 5 (11%) and 3 more" in text
    assert "are 20° to 28° from the true ones" in text


def test_several_classes_without_angles():
    assert "No angle could be estimated" in in_words(replace(MULTICLASS, angles=None))


def test_several_classes_that_share_an_angle():
    wide = replace(ANGLE, method="loo", cosine_interval=(0.4, 1.0))
    text = " ".join(in_words(replace(MULTICLASS, angles=None, angle=wide)).split())
    assert "one for all classes, is not determined by labels alone. Its 95% interval is" in text
    assert "pool" not in text


def test_no_better_than_shares_is_no_signal():
    assert "show no signal" in in_words(replace(MULTICLASS, beats_shares=False))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 5)), columns=list("abcde"))
    y = np.array([f"kind {k}" for k in range(10)])[np.arange(100) % 10]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = judge(fit_table(frame, y, Cs=5), y)
    assert not found.has_signal
    assert found.calibrated.log_loss > np.log(10) - 0.05


def test_a_model_that_misses_nothing_is_not_called_overconfident():
    text = words(plain=replace(VERDICT.plain, accuracy=1.0))
    assert "These rows cannot tell" in text
    assert "overconfident" not in text


def test_with_many_rows_leaving_one_out_changes_little():
    """So the figures are close to those of the model's own probabilities, and to each other."""
    frame, y = table_of_three(1500, 1.5)
    fitted = fit_table(frame, y, Cs=[1.0])
    found = judge(fitted, y)
    codes = np.searchsorted(fitted.classes, y)
    rows = fitted.model[:-1].transform(frame)
    plain = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(rows, codes)
    for side, model in ((found.plain, plain), (found.calibrated, fitted.classifier)):
        p = model.predict_proba(rows)
        assert side.log_loss == pytest.approx(multiclass_log_loss(codes, p), abs=0.02)
        assert side.log_loss > multiclass_log_loss(codes, p), "a row left out is harder to predict"
        assert side.confidence == pytest.approx(p.max(axis=1).mean(), abs=0.01)
        assert side.accuracy == pytest.approx(np.mean(p.argmax(axis=1) == codes), abs=0.02)
    assert found.leaning == "about right"
    assert found.C == 1.0
    assert found.as_json()["angle"]["method"] == "loo"
    said, believed = found.example
    assert abs(said - believed) < 0.05, "nothing is to be corrected"


def test_a_weak_penalty_on_few_rows_is_overconfident_and_mended():
    frame, y = table_of_three(60, 1.0)
    found = judge(fit_table(frame, y, Cs=[1000.0]), y)
    assert found.leaning == "overconfident"
    assert found.plain.confidence > found.plain.accuracy + 0.1
    assert found.calibrated.log_loss < found.plain.log_loss - 0.1
    assert found.calibrated.ece < found.plain.ece


def test_softmax_slope_is_that_of_the_scores():
    rng = np.random.default_rng(0)
    scores = 3.0 * rng.normal(size=(4000, 4))
    p = softmax(0.4 * scores, axis=1)
    codes = (rng.random((4000, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    slope, error = softmax_slope(scores, codes)
    assert abs(slope - 0.4) < 3 * error
    assert 0.003 < error < 0.02
    assert softmax_slope(np.ones((5, 3)), np.array([0, 1, 2, 0, 1])) == (0.0, np.inf)
