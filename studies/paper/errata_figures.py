"""Pictures and summaries of the paper's gaps: finite pools and intercepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from angcal._typing import Floats
from angcal.displays import STYLES
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, LOOKS, legend_below, letter, new_figure
from studies.engine.tables import (
    HEADER,
    chosen,
    markdown,
    mean_and_error,
    mean_text,
    rmse_and_error,
    rmse_text,
    with_error,
    yes_or_no,
)
from studies.paper.setting import RIDGE

SMALL_BIAS = 0.05
"""A bias of ĉ below this is small beside the spread of ĉ over draws of this size."""
LARGEST_RATIO = 2.0
"""A formula is usable while its RMSE is at most this many times that of the observable angle."""
POOR = 2.0
"""A predictor is poorly calibrated if its ECE is this many times that of the exact curve."""
PAPER_RATIO, PAPER_OFFSET = 1.8, 1.0
ECE_TICKS = (0.003, 0.01, 0.03, 0.1, 0.3)

Look = tuple[str, str, Any]
POOL_METHODS: dict[str, tuple[str, Look]] = {
    "paper": ("paper's formula, Σ̂⁻¹ as it is", LOOKS["uncalibrated"]),
    "paper, corrected": ("paper's formula, Σ̂⁻¹ deflated", STYLES[4]),
    "angular, observable": ("angcal, observable angle", LOOKS["angular, observable"]),
    "angular, both": ("angcal, both routes", STYLES[2]),
}
INTERCEPT_METHODS: dict[str, tuple[str, Look]] = {
    "paper, intercept in Xŵ": ("paper's formula, b̂ in Xŵ", LOOKS["uncalibrated"]),
    "paper, intercept left out": ("paper's formula, b̂ left out", STYLES[4]),
    "angular, observable": ("angcal, observable angle", LOOKS["angular, observable"]),
}
FIT_LOOKS: tuple[Look, ...] = (STYLES[1], STYLES[0], STYLES[3])


def _errors(table: pd.DataFrame, **where: Any) -> Floats:
    """ĉ − c in the rows with the given values."""
    rows = chosen(table, **where)
    return np.asarray(rows["cosine"] - rows["true"], dtype=float)


def _nearest(values: Sequence[float], wanted: float) -> float:
    return min(values, key=lambda value: abs(value - wanted))


# -- finite pools ----------------------------------------------------------------------------------


def summarize_pools(frames: Frames, settings: Any) -> str:
    """What a pool of m rows does to the paper's estimate, size by size."""
    table = frames[""]
    ratio = _nearest(settings.ratios, PAPER_RATIO)
    at = {name: _errors(table, method=name, ratio=ratio) for name in POOL_METHODS}
    known = {
        name: _errors(table, method=name, ratio=np.inf) for name in ("paper", "angular, observable")
    }
    harmed = not _is_small(at["paper"])
    rows = [
        (
            "bias of ĉ by eq. (bellec), Σ known",
            "consistent",
            mean_text(known["paper"]),
            yes_or_no(_is_small(known["paper"])),
        ),
        (
            f"bias of ĉ by eq. (bellec), Σ̂ from m = {ratio:g} d Gaussian rows",
            "“unstable” on real data, for its “random-matrix-theoretic assumptions”",
            mean_text(at["paper"]),
            "no: it fails where they hold" if harmed else "not refuted",
        ),
        *(
            (f"RMSE of ĉ, {label}, m = {ratio:g} d", "—", rmse_text(at[name]), "—")
            for name, (label, _) in POOL_METHODS.items()
        ),
        (
            "RMSE of ĉ, angcal, observable angle, Σ known",
            "—",
            rmse_text(known["angular, observable"]),
            "—",
        ),
    ]
    verdict = _pool_verdict(harmed, _is_small(at["paper, corrected"]), settings)
    return "\n\n".join((markdown(HEADER, rows), _by_ratio(table, settings), verdict))


def _is_small(errors: Floats) -> bool:
    bias, error = mean_and_error(errors)
    return abs(bias) <= max(SMALL_BIAS, 2.0 * error)


def _by_ratio(table: pd.DataFrame, settings: Any) -> str:
    """Bias of every method at every size of pool."""
    rows = []
    for ratio in (*settings.ratios, np.inf):
        pools = [chosen(table, method=name, ratio=ratio) for name in POOL_METHODS]
        rows.append(["Σ known" if np.isinf(ratio) else f"{ratio:g}", *map(_bias_cell, pools)])
    return markdown(["bias of ĉ at m/d", *(label for label, _ in POOL_METHODS.values())], rows)


def _bias_cell(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "—"
    count = int(frame["gave_up"].sum())
    return mean_text(_errors(frame), 3) + (f" ({count} gave up)" if count else "")


def _pool_verdict(harmed: bool, repaired: bool, settings: Any) -> str:
    first = (
        f"{settings.draws} draws of {settings.samples} × {settings.features} Gaussian rows; an "
        f"estimate that gave up counts as ĉ = 0. A bias counts as small below {SMALL_BIAS} or two "
        "standard errors."
    )
    if not harmed:
        return f"{first} By that rule the finite pool does no harm here."
    second = "So the estimate fails with a finite pool where all other assumptions hold"
    third = "deflating Σ̂⁻¹ removes the bias" if repaired else "deflating Σ̂⁻¹ does not remove it"
    return f"{first} {second}; {third}."


def draw_pools(frames: Frames, settings: Any) -> Figure:
    """Bias and RMSE of ĉ against m/d, with Σ known at the right edge."""
    table = frames[""]
    figure = new_figure(FULL_WIDTH, 3.4)
    axes = figure.subplots(1, 2)
    for ax, statistic in zip(axes, (mean_and_error, rmse_and_error), strict=True):
        for name, (label, look) in POOL_METHODS.items():
            _pool_curve(ax, table, settings, name, label, look, statistic)
        _pool_axis(ax, settings)
    axes[0].axhline(0.0, color="0.4", lw=0.8, zorder=0)
    axes[0].set_ylabel("bias of ĉ")
    axes[1].set_ylabel("root mean squared error of ĉ")
    axes[1].set_ylim(bottom=0.0)
    legend_below(figure, axes[0], 2)
    letter(axes)
    return figure


def _pool_curve(
    ax: Any, table: pd.DataFrame, settings: Any, name: str, label: str, look: Look, statistic: Any
) -> None:
    color, marker, dash = look
    style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "capsize": 2}
    # Methods that agree stand beside each other rather than behind.
    beside = 1.025 ** (list(POOL_METHODS).index(name) - 1.5)
    found = [statistic(_errors(table, method=name, ratio=ratio)) for ratio in settings.ratios]
    value, error = np.transpose(found)
    label = label.replace("Σ̂⁻¹", r"$\hat{\Sigma}^{-1}$")
    ax.errorbar(beside * np.array(settings.ratios), value, error, ls=dash, label=label, **style)
    known = _errors(table, method=name, ratio=np.inf)
    if len(known):
        value, error = statistic(known)
        ax.errorbar([beside**2 * _edge(settings)], [value], [error], ls="none", **style)


def _edge(settings: Any) -> float:
    """Where Σ known is drawn on the axis of m/d."""
    return 2.0 * max(settings.ratios)


def _pool_axis(ax: Any, settings: Any) -> None:
    edge = _edge(settings)
    ax.set_xscale("log")
    ax.axvline(edge / np.sqrt(2.0), color="0.7", lw=0.8, zorder=0)
    ax.set_xticks([*settings.ratios, edge])
    ax.set_xticklabels([*_spaced_labels(settings.ratios), "Σ\nknown"])
    ax.minorticks_off()
    ax.set_xlim(min(settings.ratios) / 1.15, edge * 1.3)
    ax.set_xlabel("rows of the pool per column, m/d")


def _spaced_labels(ratios: Sequence[float]) -> list[str]:
    """Labels of the ticks, empty where they would touch the one before."""
    labels, last = [], 0.0
    for ratio in ratios:
        free = ratio >= 1.35 * last
        labels.append(f"{ratio:g}" if free else "")
        last = ratio if free else last
    return labels


# -- intercept -------------------------------------------------------------------------------------


def _fits(settings: Any) -> dict[tuple[str, float], str]:
    """Fits by name and ridge strength, with their labels."""
    weak = settings.weak_ridge
    return {
        ("no intercept", RIDGE): f"no intercept, λ = {RIDGE:g} (the paper's fit)",
        ("intercept", RIDGE): f"intercept, λ = {RIDGE:g}",
        ("intercept", weak): f"intercept, λ = {weak:g}",
    }


def _calibration(table: pd.DataFrame, fit: tuple[str, float], offset: float) -> pd.DataFrame:
    return chosen(table, fit=fit[0], ridge=fit[1], offset=offset)


def summarize_intercept(frames: Frames, settings: Any) -> str:
    """What an intercept does to the paper's formula, and its absence to the predictions."""
    table, calibration = frames[""], frames["calibration"]
    offset = _nearest(settings.offsets, PAPER_OFFSET)
    paper_fit = next(iter(_fits(settings)))
    rows = [
        *_angle_lines(table, settings),
        *_cause_lines(_calibration(calibration, paper_fit, offset), offset),
    ]
    return "\n\n".join(
        (
            markdown(HEADER, rows),
            _by_fit(calibration, settings),
            _explanation(calibration, settings, offset),
        )
    )


def _angle_lines(table: pd.DataFrame, settings: Any) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for offset in settings.offsets:
        reference, _ = rmse_and_error(_errors(table, method="angular, observable", offset=offset))
        for name, (label, _) in INTERCEPT_METHODS.items():
            rows = chosen(table, method=name, offset=offset)
            rmse, error = rmse_and_error(_errors(rows))
            naive = name == "paper, intercept in Xŵ"
            usable = "usable" if rmse <= LARGEST_RATIO * reference else "not usable"
            lines.append(
                (
                    f"RMSE of ĉ at b = {offset:g}, {label}",
                    "fits with an intercept are not treated" if naive else "—",
                    with_error(rmse, error) + f"; bias {_bias_cell(rows)}",
                    usable if naive else "—",
                )
            )
    return lines


def _cause_lines(fit: pd.DataFrame, offset: float) -> list[Sequence[str]]:
    def cell(column: str) -> str:
        return mean_text(fit[column])

    poorly = np.mean(fit["ece"]) > POOR * np.mean(fit["floor"])
    return [
        (
            f"ECE of the fit without intercept, b = {offset:g}",
            "“poorly calibrated”",
            f"{cell('ece')} (of F: {cell('floor')})",
            yes_or_no(bool(poorly)),
        ),
        ("its slope A in sigmoid(A·u + B)", "—", cell("slope"), "—"),
        ("its shift B", "—", cell("shift"), "—"),
        ("its ECE with the shift alone refitted", "—", cell("ece_shift"), "—"),
        ("its ECE with the slope alone refitted", "—", cell("ece_slope"), "—"),
    ]


def _by_fit(calibration: pd.DataFrame, settings: Any) -> str:
    columns = ("ece", "ece_shift", "ece_slope", "floor", "slope", "shift")
    names = ("ECE", "shift refitted", "slope refitted", "F", "slope A", "shift B")
    rows = []
    for fit, label in _fits(settings).items():
        for offset in settings.offsets:
            fits = _calibration(calibration, fit, offset)
            cells = [mean_text(fits[column], 3) for column in columns]
            rows.append([label, f"{offset:g}", *cells])
    return markdown(["fit", "b", *names], rows)


def _explanation(calibration: pd.DataFrame, settings: Any, offset: float) -> str:
    first = (
        f"{settings.draws} draws of {settings.samples} × {settings.features} rows per offset b of "
        f"sigmoid(3t + b); ECE on {settings.test_rows:,} fresh rows, A and B from "
        f"{settings.refit_rows:,} others. ĉ is not cut to [−1, 1] here, and is 0 where a method "
        f"gave up. A formula is usable while its RMSE is at most {LARGEST_RATIO:g} times that of "
        f"the observable angle; an ECE is poor above {POOR:g} times that of the exact curve F."
    )
    fit = _calibration(calibration, next(iter(_fits(settings))), offset)
    excess = np.mean(fit["ece"] - fit["floor"])
    lost = {
        name: 1.0 - float(np.mean(fit[f"ece_{name}"] - fit["floor"]) / excess)
        for name in ("shift", "slope")
    }
    cause = "the missing intercept" if lost["shift"] > lost["slope"] else "the slope"
    second = (
        f"At b = {offset:g} a shift alone removes {lost['shift']:.0%} of what the ECE of the fit "
        f"without intercept has beyond that of F, and a slope alone {lost['slope']:.0%}: {cause} "
        f"causes most of it, at a slope of {mean_text(fit['slope'], 3)} where 1 "
        "is neither over- nor underconfident."
    )
    return f"{first} {second}"


def draw_intercept(frames: Frames, settings: Any) -> Figure:
    """Error of ĉ by method; ECE and refitted slope by fit; each against the offset b."""
    figure = new_figure(FULL_WIDTH, 3.3)
    axes = figure.subplots(1, 3, width_ratios=(1.25, 1.0, 1.0))
    _draw_angle_errors(axes[0], frames[""], settings)
    _draw_fits(axes[1], frames["calibration"], settings, "ece")
    _draw_fits(axes[2], frames["calibration"], settings, "slope")
    axes[0].set_ylabel("error of the cosine, ĉ − c")
    axes[1].set_ylabel("expected calibration error")
    axes[1].set_yscale("log")
    axes[1].minorticks_off()
    axes[1].set_yticks(ECE_TICKS, labels=[f"{tick:g}" for tick in ECE_TICKS])
    axes[2].set_ylabel("slope A of a refit sigmoid(Au + B)")
    axes[2].set_ylim(bottom=0.0)
    axes[2].axhline(1.0, color="0.4", lw=0.8, zorder=0)
    for ax in axes:
        ax.set_xticks(range(len(settings.offsets)))
        ax.set_xticklabels([f"{offset:g}" for offset in settings.offsets])
        ax.set_xlim(-0.5, len(settings.offsets) - 0.5)
        ax.set_xlabel("offset b of the link")
    for ax, side, columns in ((axes[0], "left", 1), (axes[1], "right", 2)):
        handles, labels = ax.get_legend_handles_labels()
        place = f"outside lower {side}"
        figure.legend(handles, labels, loc=place, ncols=columns, frameon=False)
    letter(axes)
    return figure


def _positions(settings: Any, index: int, of: int) -> Floats:
    """Beside each other around each offset."""
    shift = 0.5 * (index - (of - 1) / 2) / of
    return np.arange(len(settings.offsets), dtype=np.float64) + shift


def _draw_angle_errors(ax: Any, table: pd.DataFrame, settings: Any) -> None:
    """Every draw as a dot, their mean as a marker."""
    ax.axhline(0.0, color="0.4", lw=0.8, zorder=0)
    for index, (name, (label, (color, marker, _))) in enumerate(INTERCEPT_METHODS.items()):
        places = _positions(settings, index, len(INTERCEPT_METHODS))
        samples = [_errors(table, method=name, offset=offset) for offset in settings.offsets]
        for place, sample in zip(places, samples, strict=True):
            spread = 0.06 * np.linspace(-1.0, 1.0, len(sample))
            ax.plot(place + spread, sample, ".", color=color, ms=3, alpha=0.35, mew=0)
        means = [float(np.mean(sample)) for sample in samples]
        ax.plot(places, means, marker, color=color, ms=5, mec="white", mew=0.6, label=label)


def _draw_fits(ax: Any, table: pd.DataFrame, settings: Any, column: str) -> None:
    fits = _fits(settings)
    for index, ((fit, label), (color, marker, _)) in enumerate(
        zip(fits.items(), FIT_LOOKS, strict=True)
    ):
        places = _positions(settings, index, len(fits))
        groups = [_calibration(table, fit, offset) for offset in settings.offsets]
        style: dict[str, Any] = {"color": color, "marker": marker, "ls": "none", "capsize": 2}
        value, error = np.transpose([mean_and_error(group[column]) for group in groups])
        ax.errorbar(places, value, error, ms=5, label=label, **style)
        if column == "ece":
            value, error = np.transpose([mean_and_error(group["ece_shift"]) for group in groups])
            ax.errorbar(places, value, error, ms=4, mfc="white", zorder=3, **style)
    if column == "ece":
        floor = [float(table[table["offset"] == b]["floor"].mean()) for b in settings.offsets]
        ax.plot(range(len(floor)), floor, "_", color="k", ms=18, mew=1.0, label="exact curve F")
        ax.plot([], [], "o", color="0.3", mfc="white", ms=4, label="hollow: shift alone refitted")
