"""The report's pictures: displays on figures of one style, as inline SVG.

The SVG is themed by the page's style sheet and described for screen readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from angcal.displays import (
    STYLES,
    AngleDisplay,
    AngleMatrixDisplay,
    ClasswiseReliabilityDisplay,
    ComparisonDisplay,
    DecisionCurveDisplay,
    PenaltyPathDisplay,
    PlanDisplay,
    ReliabilityDisplay,
    SmoothedLinkDisplay,
)
from angcal.report.comparison import Comparison
from angcal.report.figures import Diagnostics, LeaveOneOut
from angcal.report.performance import ClassPerformance
from angcal.report.svg import PART, Words, drawn, hint
from angcal.report.tables import ClassFigures, RowTable, Weight, bins_for
from angcal.tables.errors import clean


def _axes(figure: Any, height: float, width: float = 4.5) -> Any:
    """The only axes of a figure, in inches: small enough to stay readable on a phone."""
    figure.set_size_inches(width, height)
    return figure.subplots()


def _style(calibrated: bool) -> dict[str, Any]:
    color, marker, dash = STYLES[0 if calibrated else 1]
    return {"color": color, "marker": marker, "linestyle": dash}


def _short(name: str) -> str:
    """A name that fits above a small picture."""
    name = clean(name).replace("\n", " ").replace("\t", " ")
    return name if len(name) <= 24 else name[:23] + "…"


@drawn
def reliability(figure: Any, figures: LeaveOneOut, kind: str, names: Sequence[str]) -> Words:
    """Reliability diagram of "calibrated" or "plain" leave-one-out probabilities.

    Of the class that is asked about, the second of `names`, or of the likeliest of more.
    """
    P, calibrated = getattr(figures, kind), kind == "calibrated"
    bins = bins_for(len(P), 10)
    display = ReliabilityDisplay.from_predictions(
        figures.codes,
        P,
        classes=range(P.shape[1]),
        n_bins=bins,
        strategy="quantile",
        name="angcal" if calibrated else "plain",
        ax=_axes(figure, 5.3),
        histogram=True,
        **_style(calibrated),
    )
    curve = display.curve
    cells = zip(curve.mean_predicted, curve.observed, curve.count, strict=True)
    texts = [f"{count} rows: given {p:.0%}, found {seen:.0%}" for p, seen, count in cells]
    hint(figure, display.line_, texts)
    what = (
        f"Observed frequency of {clean(names[1])} against the mean predicted probability"
        if figures.two
        else "Share of rows where the likeliest class is right against its mean probability"
    )
    return (
        f"reliability-{kind}",
        f"Reliability diagram of the {kind} probabilities",
        f"{what} in {len(curve.count)} bins with about as many rows each, with 95% consistency "
        "bands and a histogram of the predictions below. "
        f"The expected calibration error is {figures.side(kind).ece:.3f}.",
    )


def benefit_limits(one: ClassPerformance) -> tuple[float, float]:
    """What the picture of a decision curve shows of the net benefit."""
    highest = max(float(curve.net_benefit.max()) for curve in one.curves.values())
    top = 1.1 * max(highest, float(one.curves["plain"].treat_all.max()), 1e-3)
    return -0.15 * top, top


@drawn
def decision(figure: Any, one: ClassPerformance, threshold: float, name: str) -> Words:
    """Net benefit at every threshold; the script moves the mark."""
    ax = _axes(figure, 3.7)
    for kind in ("calibrated", "plain"):
        label = "angcal" if kind == "calibrated" else "plain"
        DecisionCurveDisplay(one.curves[kind], label).plot(ax, band=kind == "calibrated")
    low, top = benefit_limits(one)
    point = one.at(threshold)
    ax.set(xlim=(0, 1), ylim=(low, top), xlabel="Threshold", ylabel="Net benefit")
    # The corners of the axes tell the script where things are.
    ax.plot([0, 1], [low, top], color="0.4", alpha=0, gid=f"{PART}frame", label="_frame")
    mark: dict[str, Any] = {"color": "0.4", "lw": 1.2, "label": "_mark"}
    ax.plot([point.threshold] * 2, [low, top], gid=f"{PART}line", **mark)
    ax.legend(loc="best", frameon=False)
    return (
        name,
        f"Decision curve of {clean(one.name)}",
        f"Net benefit against the threshold, beside acting on everybody and on nobody. At "
        f"{point.threshold:.0%} it is {point.net_benefit:.3f}; acting on everybody has "
        f"{point.treat_all:.3f}.",
    )


@drawn
def learning(figure: Any, plan: Any, measure: str, name: str) -> Words:
    """Expected accuracy or log-loss against the number of labels."""
    display = PlanDisplay.from_plan(plan, measure, ax=_axes(figure, 3.2))
    display.ax_.set(xlabel="Labels", ylabel=display.name[0].upper() + display.name[1:])
    # Lines and bands fill the axes.
    look: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22), "ncols": 2}
    display.ax_.legend(frameon=False, **look)
    now, then = display.expected[[0, -1]]
    return (
        name,
        f"Learning curve, {display.name}",
        f"Expected {display.name} with an 80% band: {now:.3f} with {plan.pilot_n} labels, "
        f"{then:.3f} with {display.n[-1]:.0f}.",
    )


@drawn
def rows(figure: Any, table: RowTable, names: Sequence[str], positive: int | None) -> Words:
    """Every row with its interval, by falling probability."""
    ax, n = _axes(figure, 3.4, 5.4), len(table.p)
    # More rows than these look the same, and make a large file.
    shown = np.unique(np.linspace(0, n - 1, min(n, 250)).astype(int))
    hits = table.labels == table.predicted if positive is None else table.labels == positive
    ax.vlines(shown + 1, table.low[shown], table.high[shown], color="0.5", lw=1, alpha=0.55)
    styles = ((True, STYLES[0]), (False, STYLES[1]))
    texts = ("right", "wrong") if positive is None else (names[positive], f"not {names[positive]}")
    for (hit, (color, marker, _)), label in zip(styles, texts, strict=True):
        some = shown[hits[shown] == hit]
        (points,) = ax.plot(
            some + 1, table.p[some], color=color, marker=marker, ms=3.5, ls="", label=_short(label)
        )
        hint(figure, points, [_row_text(table, i, names) for i in some])
    what = "the likeliest class" if positive is None else _short(names[positive])
    ax.set(ylim=(-0.02, 1.02), xlim=(0, n + 1), xlabel="Rows by falling probability")
    ax.set_ylabel(f"Probability of {what}")
    ax.legend(loc="best", frameon=False)
    return (
        "rows",
        "Every row with its interval",
        f"Probabilities of {len(shown)} of {n} rows with 90% intervals, from {table.p[0]:.2f} "
        f"down to {table.p[-1]:.2f}. The table has the numbers.",
    )


def _row_text(table: RowTable, i: int, names: Sequence[str]) -> str:
    reach = f"{table.low[i]:.0%} to {table.high[i]:.0%}"
    return f"{table.names[i]}: {table.p[i]:.0%} ({reach}), is {names[table.labels[i]]}"


@drawn
def weights(figure: Any, shown: Sequence[Weight]) -> Words:
    """The largest weights with their range over the fits of the cross-validation."""
    ax = _axes(figure, 0.9 + 0.26 * len(shown), 5.6)
    places = np.arange(len(shown))
    ranged = [(i, one) for i, one in enumerate(shown) if one.fits]
    if ranged:
        lows, highs = ([getattr(one, end) for _, one in ranged] for end in ("low", "high"))
        ax.hlines([i for i, _ in ranged], lows, highs, color="0.5", lw=3, alpha=0.5)
    values = [one.relative for one in shown]
    (points,) = ax.plot(values, places, color=STYLES[0][0], marker="o", ms=5, ls="")
    hint(figure, points, [f"{one.column}: {one.relative:.0f}, {one.toward}" for one in shown])
    ax.axvline(0, color="0.4", lw=1)
    ax.set_yticks(places, [_short(one.column) for one in shown])
    ax.set(ylim=(len(shown) - 0.5, -0.5), xlabel="Weight, in percent of the largest")
    return (
        "weights",
        "The largest weights",
        f"Dots for the {len(shown)} largest weights, bars for their range over the fits of the "
        "cross-validation. The table has the numbers.",
    )


@drawn
def angle(figure: Any, model: Any) -> Words:
    """The angle as an angle."""
    display = AngleDisplay.from_estimator(model, ax=_axes(figure, 4.6))
    low, high = display.degree_interval or (0.0, 180.0)
    mark = (
        f"an arrow {display.degrees:.0f} degrees away for the true ones"
        if display.determined
        else f"a thin line at the posterior mean, {display.degrees:.0f} degrees"
    )
    return (
        "angle",
        "The angle between fitted and true weights",
        f"An arrow for the fitted weights, and {mark}. The interval, a wedge, goes from "
        f"{low:.0f} to {high:.0f} degrees.",
    )


@drawn
def class_angles(figure: Any, model: Any) -> Words:
    """Cosines of classes that each have their own angle."""
    count = len(model.classes_)
    ax = _axes(figure, 1.6 + 0.42 * min(count, 16), 5.6)
    display = AngleMatrixDisplay.from_estimator(model, ax=ax, colorbar=False)
    cosines = np.diagonal(display.matrix)
    return (
        "angle",
        "Cosines between true and fitted weights",
        f"The cosines of {count} classes with their intervals, from {cosines.min():.2f} to "
        f"{cosines.max():.2f}.",
    )


@drawn
def plain_and_calibrated(figure: Any, figures: LeaveOneOut) -> Words:
    """What calibration makes of the plain probability of each row's likeliest class."""
    ax = _axes(figure, 4.9)
    rows, likeliest = np.arange(len(figures.codes)), figures.plain.argmax(axis=1)
    plain, calibrated = figures.plain[rows, likeliest], figures.calibrated[rows, likeliest]
    order = np.argsort(plain, kind="stable")
    # More dots than a thousand show no more, and make a large file.
    shown = order[np.linspace(0, len(order) - 1, min(len(order), 1000)).astype(int)]
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, label="no change", zorder=1)
    look: dict[str, Any] = {"color": STYLES[0][0], "marker": "o", "ms": 3, "ls": "", "alpha": 0.45}
    ax.plot(plain[shown], calibrated[shown], label="a row", **look)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Plain probability of the likeliest class")
    ax.set_ylabel("Calibrated probability of the same class")
    ax.set_aspect("equal", adjustable="box")
    ax.legend(loc="best", frameon=False)
    return (
        "link",
        "From plain to calibrated probability",
        f"A dot for each of {len(shown)} rows. On average the plain probability of the likeliest "
        f"class is {plain.mean():.2f} and the calibrated one {calibrated.mean():.2f}; dots below "
        "the diagonal have become less sure.",
    )


@drawn
def smoothed_link(figure: Any, model: Any) -> Words:
    """F against the raw sigmoid."""
    display = SmoothedLinkDisplay.from_estimator(model, ax=_axes(figure, 4.9))
    low, high = display.calibrated[[0, -1]]
    raw_low, raw_high = display.raw[[0, -1]]
    return (
        "link",
        "From score to probability",
        f"Over the scores of the training rows the calibrated curve rises from {low:.2f} to "
        f"{high:.2f}, the raw sigmoid from {raw_low:.2f} to {raw_high:.2f}. A histogram of the "
        "scores lies below.",
    )


@drawn
def penalty_path(figure: Any, path: Any, metric: str, name: str) -> Words:
    """Leave-one-out "log_loss", "ece" or "cosine" against C, which the reader knows by `name`."""
    PenaltyPathDisplay(path).plot([_axes(figure, 2.9, 3.5)], show=[metric])
    value = getattr(path, metric)[path.index]
    return (
        f"path-{metric}",
        f"{name[0].upper()}{name[1:]} under each penalty",
        f"The leave-one-out {name} under {len(path.C)} penalties from C = {path.C[0]:.2g} to "
        f"{path.C[-1]:.2g}. At the chosen C = {path.C[path.index]:.2g} it is {value:.3f}.",
    )


@drawn
def comparison(figure: Any, found: Comparison, metric: str) -> Words:
    """One metric of every method as dots."""
    ax = _axes(figure, 1.0 + 0.36 * len(found.methods))
    values, errors = found.values[metric], found.errors[metric]
    ComparisonDisplay(found.names, {metric: values}, {metric: errors}).plot([ax])
    return (
        f"comparison-{metric}",
        f"{metric} of every method",
        f"Dots with standard errors, lower is better. The lowest {metric} is that of "
        f"{found.names[int(np.argmin(values))]}. The table has the numbers.",
    )


@drawn
def quantiles(figure: Any, found: Diagnostics) -> Words:
    """Quantiles of the scores against those of a Gaussian."""
    ax, x, y = _axes(figure, 4.0), found.normal_quantiles, found.score_quantiles
    reach = max(1.0, 1.05 * float(np.max(np.abs([x, y]))))
    ax.plot([-reach, reach], [-reach, reach], color="0.4", lw=1, label="Gaussian")
    ax.plot(x, y, color=STYLES[0][0], marker="o", ms=3, ls="", label="scores")
    ax.set(xlabel="Quantiles of a Gaussian", ylabel="Quantiles of the scores")
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.set_aspect("equal", adjustable="box")
    ax.legend(loc="upper left", frameon=False)
    return (
        "quantiles",
        "How Gaussian the scores are",
        "Quantiles of the standardized leave-one-out scores against those of a Gaussian; on the "
        f"diagonal they agree. Skewness {found.skewness:.2f}, excess kurtosis "
        f"{found.excess_kurtosis:.2f}.",
    )


@drawn
def classes(figure: Any, shown: list[ClassFigures]) -> Words:
    """Small reliability diagrams of a few classes."""
    displays = [ReliabilityDisplay(one.curve) for one in shown]
    rows = -(-len(shown) // 2)
    figure.set_size_inches(4.5, 2.4 * rows)
    names = [_short(one.name) for one in shown]
    ClasswiseReliabilityDisplay(displays, names).plot(
        figure.subplots(rows, 2, squeeze=False).ravel(), columns=2, **_style(True)
    )
    return (
        "classes",
        "Reliability class by class",
        f"One small diagram for each of {len(shown)} classes: the frequency of the class against "
        "its mean calibrated probability in bins of rows, with 95% consistency bands.",
    )
