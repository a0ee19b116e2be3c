"""The words of the verdict follow its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from angcal.commands.verdict import AngleFound, OwnPenalty, Side, Verdict, in_words

ANGLE = AngleFound(0.5, (0.3, 0.7), 60.0, (45.6, 72.5), 0.95, "loo", "by likelihood")
VERDICT = Verdict(
    rows=400,
    columns=30,
    classes={"no": 0.6, "yes": 0.4},
    C=0.5,
    plain=Side(ece=0.2, log_loss=0.8, confidence=0.9, accuracy=0.7),
    plain_at_its_best=OwnPenalty(C=0.1, ece=0.1, log_loss=0.65),
    calibrated=Side(ece=0.05, log_loss=0.6, confidence=0.71, accuracy=0.7),
    angle=ANGLE,
)


def words(**changes):
    return " ".join(in_words(replace(VERDICT, **changes)).split())


def test_everything_is_said():
    text = words()
    assert "overconfident" in text
    assert "90% sure on average, and right in 70%" in text
    assert "lowered the log-loss by 0.200 and took away 75% of the calibration error" in text
    assert "(C = 0.1) has a log-loss of 0.650, 0.050 worse than the calibrated one" in text
    assert "60° from the true ones (95% interval 46° to 72°" in text


@pytest.mark.parametrize(
    ("confidence", "leaning"),
    [(0.9, "overconfident"), (0.5, "underconfident"), (0.72, "about right")],
)
def test_leaning_is_judged_against_chance(confidence, leaning):
    """With 400 rows and 70 % right two standard errors are 4.6 points."""
    plain = replace(VERDICT.plain, confidence=confidence)
    assert replace(VERDICT, plain=plain).leaning == leaning
    assert ("neither clearly" in words(plain=plain)) == (leaning == "about right")


def test_nothing_is_praised_that_was_not_bought():
    same = replace(VERDICT.plain, log_loss=0.601)
    assert "bought next to nothing" in words(plain=same)
    assert "lowered" not in words(plain=same)


def test_a_plain_model_that_is_better_is_called_better():
    best = OwnPenalty(C=0.1, ece=0.04, log_loss=0.55)
    assert "0.050 better than the calibrated one" in words(plain_at_its_best=best)


def test_no_angle():
    assert "No angle could be estimated" in words(angle=None)


def test_numbers_that_are_none_are_null():
    plain = replace(VERDICT.plain, ece=float("nan"))
    assert replace(VERDICT, plain=plain).as_json()["plain"]["ece"] is None
