"""What the model is worth to who uses it: discrimination, calibration line, acting at a threshold.

All figures are leave-one-out. Where rows belong to groups, groups are the units of every interval.
What more labels would gain is the learning curve of two classes, or of each class of more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from angcal._typing import Floats
from angcal.metrics import CalibrationLine, DecisionCurve, calibration_line, decision_curve
from angcal.metrics.scores import mean_and_error
from angcal.planner import Plan, plan_from_pilot
from angcal.report.figures import LeaveOneOut

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + 0.5 * CONFIDENCE))
# Thresholds of the printed table; the page's slider has every percent.
SHOWN = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval; NaN where no row could tell."""

    value: float
    low: float
    high: float


NOTHING = Estimate(float("nan"), float("nan"), float("nan"))


def share(hits: Floats, groups: Any = None) -> Estimate:
    """Mean of zeros and ones with Wilson's interval, for as many rows as they count.

    Rows of a group are not independent: n becomes p(1 − p)/(standard error)².
    """
    n = float(len(hits))
    if n == 0:
        return NOTHING
    p, error = mean_and_error(hits, np.ones(len(hits)), groups)
    if groups is not None:
        n = min(n, p * (1.0 - p) / error**2) if error > 0 else float(len(np.unique(groups)))
    center = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    reach = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return Estimate(p, float(max(center - reach, 0.0)), float(min(center + reach, 1.0)))


def auc(positive: Any, p: Floats, groups: Any = None) -> Estimate:
    """P(p of a positive row > p of a negative one), ties by half, with DeLong's interval.

    Its variance is that of the placements V of the rows, φ_i = (V_i − AUC)/n_class: the sum over
    groups of (Σ φ_i)². The interval is symmetric in the log-odds of the AUC.
    """
    positive = np.asarray(positive, dtype=bool)
    m, n = int(positive.sum()), int((~positive).sum())
    if min(m, n) == 0:
        return NOTHING
    ranks = rankdata(p)
    placement = np.empty(len(p))
    placement[positive] = (ranks[positive] - rankdata(p[positive])) / n
    placement[~positive] = 1.0 - (ranks[~positive] - rankdata(p[~positive])) / m
    value = float(placement[positive].mean())
    size = np.where(positive, m, n)
    # The n/(n − 1) of a sample variance, within each class.
    parts = (placement - value) / size * np.sqrt(size / np.maximum(size - 1, 1))
    if groups is not None:
        parts = np.bincount(groups, parts)
    error = float(np.sqrt(np.sum(parts**2)))
    if not 0.0 < value < 1.0 or error == 0.0:  # then log-odds say nothing: the rule of three
        reach = 1.0 - 0.05 ** (1.0 / min(m, n))
        return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0))
    reach = Z * error / (value * (1.0 - value))
    return Estimate(value, *(float(expit(logit(value) + side * reach)) for side in (-1, 1)))


@dataclass(frozen=True)
class OperatingPoint:
    """Acting on a class where its probability is at least the threshold."""

    threshold: float
    # Rows acted on rightly, acted on wrongly, missed, and rightly let be
    counts: tuple[int, int, int, int]
    sensitivity: Estimate
    specificity: Estimate
    ppv: Estimate
    npv: Estimate
    net_benefit: float  # In units of all rows; of acting by the model, and of acting on every row
    treat_all: float


@dataclass(frozen=True, eq=False)
class ClassPerformance:
    """One class against all others."""

    name: str
    auc: Estimate
    observed: float  # Share of the class among the rows, and its mean calibrated probability
    predicted: float
    # Of the "calibrated" and the "plain" probabilities
    lines: dict[str, CalibrationLine]
    points: tuple[OperatingPoint, ...]  # At every percent, and at the chosen threshold
    curves: dict[str, DecisionCurve]  # At the same thresholds, of both

    def at(self, threshold: float) -> OperatingPoint:
        """The point nearest to a threshold."""
        return min(self.points, key=lambda point: abs(point.threshold - threshold))


@dataclass(frozen=True, eq=False)
class Performance:
    """All classes that somebody may act on: the one asked about, or each of three and more."""

    classes: tuple[ClassPerformance, ...]
    threshold: float  # Where the page begins
    accuracy: Estimate  # Share of rows whose likeliest class is right
    # (K, K) int: Rows of each class, in the order of the model, by their likeliest class
    confusion: Any

    @property
    def mean_auc(self) -> float:
        """Over the classes, each against the others."""
        return float(np.mean([one.auc.value for one in self.classes]))


def performance(
    figures: LeaveOneOut, names: Sequence[str], positive: int, threshold: float
) -> Performance:
    """Everything about acting on probabilities: on one of two classes, or on each of more."""
    K = len(names)
    acted = [positive] if K == 2 else range(K)
    likeliest = figures.calibrated.argmax(axis=1)
    right = (likeliest == figures.codes).astype(np.float64)
    pairs = figures.codes * K + likeliest
    return Performance(
        classes=tuple(_of_class(figures, k, names[k], threshold) for k in acted),
        threshold=threshold,
        accuracy=share(right, figures.groups),
        confusion=np.bincount(pairs, minlength=K * K).reshape(K, K),
    )


def _of_class(figures: LeaveOneOut, k: int, name: str, threshold: float) -> ClassPerformance:
    labels = (figures.codes == k).astype(np.float64)
    p = {kind: getattr(figures, kind)[:, k] for kind in ("calibrated", "plain")}
    thresholds = np.unique(np.append(np.arange(1, 100) / 100.0, threshold))
    options = {"thresholds": thresholds, "groups": figures.groups}
    curves = {kind: decision_curve(labels, each, **options) for kind, each in p.items()}
    points = tuple(
        _point(labels, p["calibrated"], t, figures.groups, curves["calibrated"], i)
        for i, t in enumerate(thresholds)
    )
    return ClassPerformance(
        name=name,
        auc=auc(labels > 0, p["calibrated"], figures.groups),
        observed=float(labels.mean()),
        predicted=float(p["calibrated"].mean()),
        lines={
            kind: calibration_line(labels, each, groups=figures.groups) for kind, each in p.items()
        },
        points=points,
        curves=curves,
    )


def _point(
    labels: Floats, p: Floats, threshold: float, groups: Any, curve: DecisionCurve, place: int
) -> OperatingPoint:
    acted, positive = p >= threshold, labels > 0

    def among(rows: Any, hits: Any) -> Estimate:
        return share(hits[rows].astype(np.float64), None if groups is None else groups[rows])

    counts = tuple(
        int(np.sum(each))
        for each in (acted & positive, acted & ~positive, ~acted & positive, ~acted & ~positive)
    )
    return OperatingPoint(
        threshold=float(threshold),
        counts=(counts[0], counts[1], counts[2], counts[3]),
        sensitivity=among(positive, acted),
        specificity=among(~positive, ~acted),
        ppv=among(acted, positive),
        npv=among(~acted, ~positive),
        net_benefit=float(curve.net_benefit[place]),
        treat_all=float(curve.treat_all[place]),
    )


def performance_numbers(found: Performance) -> dict[str, Any]:
    """The same for machines: by class, one where there are two."""

    def ends(estimate: Estimate) -> dict[str, float]:
        return asdict(estimate)

    by_class = {}
    for one in found.classes:
        point, line = one.at(found.threshold), one.lines["calibrated"]
        rates = ("sensitivity", "specificity", "ppv", "npv")
        by_class[one.name] = {
            "auc": ends(one.auc),
            "observed": one.observed,
            "predicted": one.predicted,
            "calibration": {
                name: {"value": getattr(line, name), "interval": getattr(line, f"{name}_interval")}
                for name in ("slope", "intercept", "in_the_large")
            },
            "at_threshold": {rate: ends(getattr(point, rate)) for rate in rates}
            | {
                "threshold": point.threshold,
                "net_benefit": point.net_benefit,
                "confusion": dict(zip(("tp", "fp", "fn", "tn"), point.counts, strict=True)),
            },
        }
    return {"performance": by_class, "accuracy": ends(found.accuracy)}


# -- what more labels would gain -----------------------------------------------------------------


MORE = 100
# A plan takes the rows as one dense array.
MOST_CELLS = 50_000_000


@dataclass(frozen=True, eq=False)
class Learning:
    """Plans, or why there are none."""

    # By class; of three and more, each against the others
    plans: dict[str, Plan]
    reason: str = ""  # Why there is none; empty where there is one

    @property
    def sentences(self) -> list[str]:
        """What to expect of a hundred more labels, and of four times as many."""
        many = len(self.plans) > 1
        sentences = []
        for name, plan in self.plans.items():
            start = f"“{name}” against the others: " if many else ""
            sentences.append(start + plan.sentence(plan.pilot_n + MORE))
        return sentences


def learning_curves(
    rows: Any, figures: LeaveOneOut, names: Sequence[str], positive: int, pool: Any = None
) -> Learning:
    """Plans for the class that is asked about, or for the most frequent classes of more.

    Rows and pool are prepared as the model sees them.
    """
    if figures.groups is not None:
        return Learning({}, "Rows come in groups, and a forecast counts every row as a new one.")
    if rows.shape[0] * rows.shape[1] > MOST_CELLS:
        return Learning({}, "The table is too large for it; angcal plan takes a part of the rows.")
    n, counts = len(figures.codes), np.bincount(figures.codes, minlength=len(names))
    wanted = sorted([n, n + MORE, 2 * n, 4 * n])
    # Each class of three and more takes a plan of its own, about half a second each.
    often = [positive] if figures.two else np.argsort(-counts, kind="stable")[:3].tolist()
    plans, reason = {}, ""
    for k in often:
        labels = (figures.codes == k).astype(np.float64)
        try:
            plans[str(names[k])] = plan_from_pilot(rows, labels, wanted, pool=pool)
        except ValueError as error:
            reason = str(error)
    return Learning(plans, "" if plans else reason)
