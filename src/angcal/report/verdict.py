"""What was found, in plain words and as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit

from angcal.displays.angle import degrees_of
from angcal.path.confidence import CLEAR
from angcal.path.confidence import confidence_word as word_for
from angcal.report.comparison import ANGCAL, DEFAULT, UNCALIBRATED, Comparison
from angcal.report.findings import Findings, TwoClasses

WIDE_ANGLE = 30.0  # degrees
LONGEST_NAME = 60


def percent(share: float) -> str:
    """A share in whole percent, or "under 1 %" and "over 99 %"."""
    if 0.0 < share < 0.005:
        return "under 1 %"
    if 0.995 < share < 1.0:
        return "over 99 %"
    return f"{share:.0%}".replace("%", " %")


def signed(value: float, always: bool = False) -> str:
    """Two or three decimals with a proper minus; a plus where a difference asks for one."""
    return (f"{value:+.3f}" if always else f"{value:.2f}").replace("-", "−")


def shortened(name: str) -> str:
    """A name that leaves room for the rest of the sentence."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def confidence_word(two: TwoClasses) -> str:
    """Whether the plain model believes itself too much, too little or about right."""
    return word_for(two.slope, two.slope_error)


def headline(found: Findings) -> str:
    """The verdict in one sentence."""
    if found.refusal:
        return "angcal could not calibrate this table."
    if found.two is not None and (
        found.two.model.angle_.is_fallback or found.two.model.angle_.cosine == 0
    ):
        return "These rows show no signal that a linear model could use."
    comparison = found.comparison
    if comparison is None or not comparison.has(ANGCAL, UNCALIBRATED, DEFAULT):
        return "Calibrated probabilities were found; there were too few rows to test them."
    same, same_error = comparison.difference(ANGCAL, UNCALIBRATED)
    default, default_error = comparison.difference(ANGCAL, DEFAULT)
    if same < -CLEAR * same_error:
        return "Calibration pays here: use the calibrated probabilities."
    if same > CLEAR * same_error:
        return "Plain probabilities did better than calibrated ones here."
    if default < -CLEAR * default_error:
        return "Choosing the penalty pays here; calibration on top of it changes little."
    if default > CLEAR * default_error:
        return "scikit-learn's default penalty did better here than the chosen one."
    return "Plain probabilities are about as good here as calibrated ones."


def verdict(found: Findings) -> list[str]:
    """The verdict in a few sentences, the headline first."""
    sentences = [headline(found), _about_rows(found)]
    if found.refusal:
        sentences.append(f"The reason: {found.refusal}")
    if found.two is not None:
        sentences.append(_about_confidence(found.two))
        sentences.append(_about_angle(found.two, found.n_pool))
    if found.comparison is not None and found.comparison.has(ANGCAL, UNCALIBRATED, DEFAULT):
        sentences.append(_about_gain(found.comparison))
    return sentences


def _about_rows(found: Findings) -> str:
    pairs = zip(found.classes, found.counts, strict=True)
    shares = ", ".join(f"{shortened(name)} ({count})" for name, count in pairs)
    if len(found.classes) > 6:
        shares = f"the smallest with {min(found.counts)} rows, the largest with {max(found.counts)}"
    encoded = f", which make {found.n_features} features" if found.n_features else ""
    pool = f" {found.n_pool} rows without labels help." if found.n_pool else ""
    return (
        f"{found.n_rows} rows, {found.n_columns} columns{encoded}; {len(found.classes)} classes of "
        f"{shortened(found.target)}: {shares}.{pool}"
    )


def _about_confidence(two: TwoClasses) -> str:
    word = confidence_word(two)
    level = min(0.9, float(np.quantile(two.plain, 0.95)))
    level = float(np.clip(level, 0.01, 0.99))
    believed = float(two.model.curve_.predict(np.array([logit(level)]))[0])
    meaning = f"where it says {percent(level)}, {percent(believed)} is the calibrated answer"
    right = "about as sure as it should be" if word == "about right" else word
    return (
        f"Plain logistic regression at the chosen penalty is {right}, on rows it has not seen: "
        f"{meaning}."
    )


def _about_angle(two: TwoClasses, n_pool: int) -> str:
    angle = two.model.angle_
    if angle.is_fallback:
        return f"No angle could be estimated: {angle.reason}."
    low, high = sorted(degrees_of(cosine) for cosine in angle.interval)
    sentence = (
        f"The fitted weights point about {angle.degrees:.0f}° away from the true ones "
        f"({percent(angle.confidence)} interval {low:.0f}° to {high:.0f}°)."
    )
    if high - low > WIDE_ANGLE and not n_pool:
        sentence += (
            " That is a wide interval: labels alone hardly tell an angle from a weak link. A pool "
            "of rows without labels would narrow it. The probabilities hardly depend on it."
        )
    return sentence


def _about_gain(comparison: Comparison) -> str:
    loss = dict(zip(comparison.names, comparison.values["log-loss"], strict=True))
    parts = []
    for name, words in (
        (UNCALIBRATED, "the same model uncalibrated"),
        (DEFAULT, "scikit-learn's default penalty uncalibrated"),
    ):
        gap, error = comparison.difference(ANGCAL, name)
        told = "better" if gap < 0 else "worse"
        if abs(gap) <= CLEAR * error:
            told = "no clear difference"
        parts.append(f"{loss[name]:.3f} for {words} ({signed(gap, True)} ± {error:.3f}: {told})")
    return (
        f"On rows left out of the fit, {comparison.folds}-fold cross-validation, the calibrated "
        f"log-loss is {loss[ANGCAL]:.3f}, against {' and '.join(parts)}."
    )


def summary(found: Findings) -> dict[str, Any]:
    """The same as plain numbers, for machines."""
    told: dict[str, Any] = {
        "title": found.title,
        "target": found.target,
        "rows": found.n_rows,
        "columns": found.n_columns,
        "features": found.n_features,
        "pool_rows": found.n_pool,
        "classes": dict(zip(found.classes, found.counts, strict=True)),
        "dropped": [list(entry) for entry in found.dropped],
        "warnings": list(found.complaints),
        "refusal": found.refusal or None,
        "seed": found.seed,
        "verdict": verdict(found),
    }
    if found.two is not None:
        told |= _two_class_numbers(found.two)
    if found.comparison is not None:
        told["comparison"] = [
            {
                "method": method.name,
                "fits": method.fits_several if len(found.classes) > 2 else method.fits,
                "labels": method.labels,
            }
            | {metric: float(values[i]) for metric, values in found.comparison.values.items()}
            | {
                f"{metric} error": float(errors[i])
                for metric, errors in found.comparison.errors.items()
            }
            for i, method in enumerate(found.comparison.methods)
        ]
        told["folds"], told["repeats"] = found.comparison.folds, found.comparison.repeats
    return told


def _two_class_numbers(two: TwoClasses) -> dict[str, Any]:
    angle, diagnostics = two.model.angle_, two.diagnostics
    return {
        "C": two.model.C_,
        "angle": {
            "cosine": angle.cosine,
            "degrees": angle.degrees,
            "interval": list(angle.interval),
            "confidence": angle.confidence,
            "method": angle.method,
            "reason": angle.reason,
        },
        "plain_model": confidence_word(two),
        "slope": two.slope,
        "slope_error": two.slope_error,
        "leave_one_out": {
            kind: {"log-loss": two.log_loss(kind), "ECE": two.ece(kind)}
            for kind in ("calibrated", "plain")
        },
        "skewness": diagnostics.skewness,
        "excess_kurtosis": diagnostics.excess_kurtosis,
        "unevenness": diagnostics.unevenness,
    }
