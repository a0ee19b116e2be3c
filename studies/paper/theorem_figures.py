"""The two theorems as pictures: Δ_p over p and its fall with n; Bregman losses over the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from angcal.displays import STYLES
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, LOOKS, legend_below, letter, new_figure
from studies.engine.tables import (
    HEADER,
    NOTHING,
    markdown,
    mean_and_error,
    spelled,
    verdict,
    with_error,
    with_minus,
    yes_or_no,
)
from studies.paper.panels import GAUSSIAN
from studies.paper.setting import PAPER_LINKS
from studies.paper.theorems import (
    BANDWIDTH,
    COVERED,
    GENERATORS,
    OPTIMUM,
    TheoremSettings,
    by_size,
    excesses,
    slope,
)

ESTIMATED = ("angular, observable", "angular, leave-one-out", "angular, both")
"""The predictors that Theorem 1 speaks of: link known, angle estimated."""
UNKNOWN = "angular, link unknown"
UNTREATED = "not treated"
"""In the paper's column: no claim that could hold."""
HALF_BIN: float = GAUSSIAN.full.half_bin
"""The rule of the reliability plots: errors below it count as calibrated, above it as poor."""
MEAN, LARGEST = ("mean_error", "mean size of Δ"), ("largest_error", "largest size of Δ")
DISTANCE = ("distance", "mean squared distance to the optimum")
ERROR_TICKS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MULTIPLES = ("uncalibrated", "Platt 100", "Platt 20000", *ESTIMATED[:2], UNKNOWN)
SIZE_LOOKS: dict[str, Any] = {**LOOKS, "angular, both": STYLES[6], UNKNOWN: STYLES[4]}
LOSS_NAMES = {
    "squared": "squared, $t^2/2$",
    "kl": r"Kullback–Leibler, $t\,\log t$",
    "itakura-saito": r"Itakura–Saito, $-\log t$",
    "exponential": "exponential, $e^t$",
    "power 1.5": "power, $t^{3/2}$",
    "root": r"root, $-2\sqrt{t}$",
    "threshold": r"thresholds, $\log\cosh 10(t-0.3)$",
}
LOSS_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
TOLERANCE = 1e-9
"""Of the grid sums, relative to the loss: an excess below minus this would contradict Theorem 2."""


# --- Theorem 1 -------------------------------------------------------------------------------


def _falls(rate: float, se: float) -> str:
    """Whether a slope is negative by two standard errors."""
    return "yes" if rate + 2.0 * se < 0.0 else "not shown" if rate < 0.0 else "no"


def _fall_row(
    sizes: pd.DataFrame, method: str, quantity: tuple[str, str], claim: str = "tends to 0"
) -> tuple[str, ...]:
    """How an error that ought to vanish falls from the smallest n to the largest."""
    column, name = quantity
    n, mean, se = by_size(sizes, method, column)
    rate, rate_se = slope(n, mean, se)
    first, last = with_error(mean[0], se[0], None), with_error(mean[-1], se[-1], None)
    return (
        f"{name}, {spelled(method)}, n = {n[0]:.0f} to {n[-1]:.0f}",
        claim,
        f"{first} to {last}; slope {with_error(rate, rate_se, None)}",
        NOTHING if claim == UNTREATED else _falls(rate, rate_se),
    )


def _contrast_row(
    sizes: pd.DataFrame, method: str, claim: str, *, calibrated: bool
) -> tuple[str, ...]:
    """Whether a method is calibrated at the largest n, or poorly so, as the claim says."""
    n, mean, se = by_size(sizes, method, "mean_error")
    return (
        f"{MEAN[1]}, {spelled(method)}, n = {n[-1]:.0f}",
        claim,
        with_error(mean[-1], se[-1], None),
        verdict(mean[-1], se[-1], HALF_BIN, below=calibrated),
    )


def summarize_calibration(frames: Frames, settings: TheoremSettings) -> str:
    """Theorem 1, and the paper's words on the methods beside the angular one."""
    sizes = frames["size"]
    rows = [
        *(_fall_row(sizes, method, MEAN) for method in ESTIMATED),
        _fall_row(sizes, ESTIMATED[0], LARGEST),
        _fall_row(sizes, UNKNOWN, MEAN, claim=UNTREATED),
        _contrast_row(sizes, "uncalibrated", "poorly calibrated", calibrated=False),
        _contrast_row(sizes, "Platt 100", "fails to calibrate", calibrated=False),
        _contrast_row(sizes, "Platt 20000", "calibrates", calibrated=True),
    ]
    exact = float(sizes.loc[sizes["method"] == OPTIMUM, "mean_error"].max())
    text = (
        f"Means over {settings.draws} draws per n, with n/d = {settings.ratio:g}. The mean size "
        "of Δ is over the law of the score, the largest over the predictions that "
        f"{100 * COVERED:g} % of the scores reach; both are integrals on a grid, without test "
        "data. Slopes are of log error on log n. An error tends to 0 if its slope is negative by "
        "two standard errors (“not shown”: by less). The mean size of Δ is E|p − F|, and the rule "
        f"is that of the reliability plots: calibrated is below half a bin ({HALF_BIN:.3f}), "
        "poorly calibrated is above, each by two standard errors; in between it is undecided. The "
        f"paper's bound on the angle has the rate n^(−1/2). With the true angle the mean size of Δ "
        f"is at most {exact:.1g} in any draw.\n\n{_rate_sentence(sizes)} "
        f"{_kernel_sentence(frames)}"
    )
    return f"{markdown(HEADER, rows)}\n\n{text}\n"


def _rate_sentence(sizes: pd.DataFrame) -> str:
    """Which methods' errors do not fall with n, and why the uncalibrated one's is what it is."""
    fates = []
    for method in ("uncalibrated", "Platt 100", "Platt 20000"):
        rate, se = slope(*by_size(sizes, method, "mean_error"))
        fate = "falls" if _falls(rate, se) == "yes" else "does not clearly fall"
        fates.append(f"{spelled(method)} ({fate}, slope {with_error(rate, se, None)})")
    sentence = f"The errors of the others with n: {'; '.join(fates)}."
    offset = abs(float(PAPER_LINKS["sigmoid"].smooth(0.0, 1.0)) - 0.5)
    error = by_size(sizes, "uncalibrated", "mean_error")[1]
    if np.allclose(error, offset, atol=5e-4):
        sentence += (
            " The uncalibrated predictor's error is the intercept that the fit lacks: its Δ_p has "
            "one sign at nearly all scores, so that the mean size is the gap between the mean "
            f"prediction, 1/2 by symmetry, and the prevalence, {0.5 + offset:.3f}."
        )
    return sentence


def _kernel_sentence(frames: Frames) -> str:
    """How far Δ_p from labels is from the exact one, in the first draw."""
    both = _first_draw(frames).dropna()
    gap = (both["error_labeled"] - both["error"]).abs()
    return (
        f"In the first draw, Δ_p from labels (kernel width {BANDWIDTH:g}) differs from the exact "
        f"Δ_p by {gap.median():.3f} in the median over levels and methods."
    )


def _first_draw(frames: Frames) -> pd.DataFrame:
    """Exact Δ_p and Δ_p from labels side by side; NaN where the exact one is out of reach."""
    exact = frames["delta"][frames["delta"]["draw"] == 0]
    return exact.merge(frames["labeled"], on=["method", "level"], suffixes=("", "_labeled"))


def draw_calibration(frames: Frames, settings: TheoremSettings) -> Figure:
    """Six panels of Δ_p over p at one n, and two of its size against n."""
    figure = new_figure(FULL_WIDTH, 7.3)
    above, below = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
    panels = above.subplots(2, 3, sharex=True, sharey=True).ravel()
    first = _first_draw(frames)
    for ax, method in zip(panels, MULTIPLES, strict=True):
        _draw_delta(ax, frames["delta"], first, method)
        ax.set_title(spelled(method))
    for ax in panels[3:]:
        ax.set_xlabel("Prediction p")
    for ax in panels[::3]:
        ax.set_ylabel(r"$\Delta_p$")
    above.suptitle(f"n = {settings.detail}, d = {settings.detail / settings.ratio:.0f}", fontsize=9)
    above.legend(*_delta_legend(panels[0]), loc="outside lower center", ncols=4, frameon=False)
    right = below.subplots(1, 2, sharex=True, sharey=True)
    for ax, (column, _) in zip(right, (MEAN, LARGEST), strict=True):
        _draw_sizes(ax, frames["size"], column)
    right[0].set_ylabel(r"Mean of $|\Delta_p|$ over the scores")
    right[1].set_ylabel(r"Largest $|\Delta_p|$")
    title = "in brackets: slope of the mean (panel g) on log axes"
    legend_below(below, right[0], 3, title=title, title_fontsize=7.5)
    letter([*panels, *right])
    return figure


def _draw_delta(ax: Axes, delta: pd.DataFrame, first: pd.DataFrame, method: str) -> None:
    """Median and 10–90 % of the draws at the levels that half of them reach; one draw by labels."""
    color = SIZE_LOOKS[method][0]
    value = delta[delta["method"] == method].pivot_table(
        index="draw", columns="level", values="error", dropna=False
    )
    value = value.loc[:, value.notna().mean() >= 0.5]
    low, middle, high = (value.quantile(q) for q in (0.1, 0.5, 0.9))
    ax.axhline(0.0, color="0.4", lw=0.8, zorder=1)
    ax.fill_between(value.columns, low, high, color=color, alpha=0.25, lw=0, label="10–90 %")
    ax.plot(value.columns, middle, color=color, label="median of the draws")
    one = first[(first["method"] == method) & first["error"].notna()]
    ax.plot(one["level"], one["error"], color="black", lw=0.8, ls="--", label="first draw")
    ax.plot(
        one["level"][::2],
        one["error_labeled"][::2],
        color="black",
        marker="o",
        ms=3,
        mfc="white",
        ls="none",
        label="first draw, from labels",
    )
    ax.set(xlim=(0.0, 1.0))


def _delta_legend(ax: Axes) -> tuple[list[Any], list[str]]:
    """Handles without a method's color, as the six panels have one each."""
    handles, labels = ax.get_legend_handles_labels()
    neutral = {"10–90 %": Patch(color="0.8"), "median of the draws": Line2D([], [], color="0.35")}
    return [
        neutral.get(label, handle) for handle, label in zip(handles, labels, strict=True)
    ], labels


def _draw_sizes(ax: Axes, sizes: pd.DataFrame, column: str) -> None:
    for method in ("uncalibrated", "Platt 100", "Platt 20000", *ESTIMATED, UNKNOWN):
        n, mean, se = by_size(sizes, method, column)
        rate = with_minus(f"{round(slope(n, mean, se)[0], 2) + 0.0:.2f}")
        color, marker, dash = SIZE_LOOKS[method]
        look = {"color": color, "marker": marker, "ls": dash, "markersize": 4, "elinewidth": 0.9}
        ax.errorbar(n, mean, yerr=se, label=f"{spelled(method)} ({rate})", **look)
    n, mean, _ = by_size(sizes, ESTIMATED[0], column)
    guide = np.exp(np.mean(np.log(mean * np.sqrt(n)))) / np.sqrt(n)
    ax.plot(n, guide, color="0.6", lw=3.0, alpha=0.6, label=r"guide: $n^{-1/2}$", zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="n")
    ax.set_xticks(n, [f"{size:.0f}" for size in n])
    low, high = ax.get_ylim()
    ticks = [tick for tick in ERROR_TICKS if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


# --- Theorem 2 -------------------------------------------------------------------------------


def summarize_bregman(frames: Frames, settings: TheoremSettings) -> str:
    """Theorem 2: whether any method beats the true angle in any loss, and by how much it trails."""
    excess = excesses(frames["bregman"])
    smallest, where = excess.min().min(), excess.min().idxmin()
    least = (
        f"least excess loss over the true angle: {len(_methods(excess))} methods, "
        f"{len(GENERATORS)} losses, {settings.draws} draws",
        "≥ 0: no function of ŵᵀx does better",
        f"{100 * smallest:.2g} % ({spelled(where[0])}; {where[1]})",
        yes_or_no(bool(smallest >= -TOLERANCE)),
    )
    claims = [least, *(_fall_row(frames["size"], name, DISTANCE) for name in ESTIMATED)]
    by_method = [
        (spelled(method), *(_cell(excess[method, loss]) for loss in GENERATORS))
        for method in _methods(excess)
    ]
    return (
        f"{markdown(HEADER, claims)}\n\n"
        "Excess of each loss over the true angle's, in per cent, ± standard error:\n\n"
        f"{markdown(('method', *GENERATORS), by_method)}\n\n"
        f"{settings.draws} draws at n = {settings.detail}; the distance to the optimum is "
        "E‖q̂ − q̂_F⋆‖² over the scores. Each loss is E D(q*, f) with q* = σ(w*ᵀx), a sum over a "
        f"grid of score and signal, without test data. {_infinite_sentence(excess)}\n"
    )


def _infinite_sentence(excess: pd.DataFrame) -> str:
    infinite = np.isinf(excess).any()
    names = sorted({method for method, _ in infinite[infinite].index})
    if not names:
        return "Every loss is finite."
    return (
        "A prediction of exactly 0 or 1 makes a loss with φ′(0) = −∞ infinite; it happens to "
        f"{' and '.join(map(spelled, names))}."
    )


def _methods(excess: pd.DataFrame) -> list[str]:
    """Methods from the least squared excess to the greatest."""
    mean = excess.xs("squared", axis=1, level="loss").mean()
    return list(mean.sort_values().index)


def _cell(values: pd.Series) -> str:
    """Mean ± s.e. in per cent, or how often it is infinite."""
    infinite = float(np.isinf(values).mean())
    if infinite > 0.0:
        return f"∞ in {100 * infinite:.0f} % of the draws"
    mean, se = mean_and_error(values)
    return with_error(100 * mean, 100 * se, None)


def draw_bregman(frames: Frames, settings: TheoremSettings) -> Figure:
    """Relative excess of every loss over the true angle's, one row per method."""
    excess = excesses(frames["bregman"])
    methods = _methods(excess)[::-1]
    figure = new_figure(FULL_WIDTH, 5.6)
    ax = figure.subplots()
    offsets = np.linspace(0.36, -0.36, len(GENERATORS))
    for loss, offset, marker, (color, *_) in zip(
        GENERATORS, offsets, LOSS_MARKERS, STYLES, strict=True
    ):
        look = {"color": color, "marker": marker, "markersize": 4, "ls": "none"}
        _draw_loss(ax, excess[[(method, loss) for method in methods]], offset, look)
    for row in range(len(methods)):
        ax.axhline(row + 0.5, color="0.85", lw=0.6, zorder=0)
    ax.set(xscale="log", ylim=(-0.5, len(methods) + 0.5))
    # Room on the right for losses that are infinite.
    ax.set_xlim(right=20.0 * ax.get_xlim()[1])
    ax.set_yticks(range(len(methods) + 1), [*map(spelled, methods), OPTIMUM])
    ax.tick_params(axis="y", length=0)
    note = {"transform": ax.get_yaxis_transform(), "va": "center", "color": "0.25"}
    ax.text(0.02, len(methods), "the optimum: excess 0 in every loss, by definition", **note)
    for row, method in enumerate(methods):
        share = 100 * float(np.isinf(excess[method]).any(axis=1).mean())
        if share:
            ax.text(0.95, row, f"∞ in {share:.0f} % of draws", ha="right", **note)
    ax.set_xlabel("Excess of the mean Bregman loss over the optimum's, in %")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.fill_between((0.96, 1.0), 0, 1, transform=ax.transAxes, color="0.93", lw=0, zorder=0)
    ax.text(0.98, len(methods), "∞", ha="center", **note)
    title = "loss and its generator φ(t), up to a factor"
    legend_below(figure, ax, 3, title=title, title_fontsize=7.5)
    return figure


def _draw_loss(ax: Axes, excess: pd.DataFrame, offset: float, look: dict[str, Any]) -> None:
    """Mean ± s.e. of one loss, a column per method; hollow at the right edge where infinite."""
    points = np.array([mean_and_error(excess[name]) for name in excess.columns])
    rows = offset + np.arange(len(points))
    finite = np.isfinite(points[:, 0])
    mean, se = 100 * points[finite].T
    # A log axis has no place for the lower end of a bar that reaches zero.
    bar = np.minimum(se, 0.99 * mean), se
    label = LOSS_NAMES[excess.columns[0][1]]
    ax.errorbar(mean, rows[finite], xerr=bar, elinewidth=0.9, label=label, **look)
    edge = np.full(int((~finite).sum()), 0.98)
    transform = ax.get_yaxis_transform()
    ax.plot(edge, rows[~finite], transform=transform, mfc="white", **look)
