"""The phase diagram: mean ECE of each method over n/d and λ, and who wins in which cell.

A cell's value is the mean over its draws. One method beats another clearly where the mean of the
paired differences exceeds two of its standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from angcal._typing import Floats
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, letter, new_figure
from studies.engine.tables import CLEAR, Columns, markdown, table_of
from studies.paper.phase import CV, CV_SINGLE, METHODS, ROUTES, SPLIT, PhaseSettings

PEERS = {"uncalibrated": "U", "Platt 100": "P", SPLIT: "S", CV: "C", CV_SINGLE: "E"}
CONTENDERS: dict[str, dict[str, str]] = {
    "known link": {"angular, observable": "O", "angular, leave-one-out": "L", **PEERS},
    "unknown link": {"unknown link, observable": "O", "unknown link, leave-one-out": "L", **PEERS},
}
PANELS = (
    "uncalibrated",
    "Platt 100",
    "angular, observable",
    "unknown link, observable",
    "angular, leave-one-out",
    "unknown link, leave-one-out",
    CV,
    CV_SINGLE,
)
# Blue where an angle is used, warm where none is; the letters tell them apart without color.
FILLS = {
    "O": "#56B4E9",
    "L": "#B9E0F7",
    "U": "#FFFFFF",
    "P": "#F0E442",
    "S": "#F8F3AE",
    "C": "#E69F00",
    "E": "#F3C766",
}


# -- numbers ---------------------------------------------------------------------------------


def by_method(frames: Frames, metric: str) -> pd.DataFrame:
    """One row per (n_per_d, ridge, draw), one column per method."""
    rows = frames[""].merge(frames["draws"], on="trial")
    return rows.pivot(index=["n_per_d", "ridge", "draw"], columns="method", values=metric)


def cell_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the draws of each cell."""
    return values.groupby(level=["n_per_d", "ridge"]).mean()


@dataclass(frozen=True)
class Win:
    """The method with the smallest mean in a cell, and its lead over the next one."""

    cell: tuple[float, float]
    method: str
    lead: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether the lead exceeds two standard errors."""
        return self.lead > CLEAR * self.error


def winners(values: pd.DataFrame, contenders: Sequence[str]) -> list[Win]:
    """The winner of each cell."""
    found = []
    for cell, draws in values[list(contenders)].groupby(level=["n_per_d", "ridge"]):
        first, second = draws.mean().sort_values(kind="stable").index[:2]
        gap = draws[second] - draws[first]
        found.append(Win(cell, first, float(gap.mean()), float(gap.sem())))
    return found


def mean_over_cells(values: pd.Series) -> tuple[float, float]:
    """Mean over the cells, and its standard error √(Σ s²_cell/draws)/cells."""
    cells = values.groupby(level=["n_per_d", "ridge"])
    errors = cells.sem().to_numpy()
    return float(cells.mean().mean()), float(np.sqrt(np.sum(errors**2)) / len(errors))


def plus_minus(value: float, error: float) -> str:
    """Value ± error."""
    return f"{value:.4f} ± {error:.4f}"


def _place(cell: tuple[float, float]) -> str:
    return f"n/d = {cell[0]:.3g}, λ = {cell[1]:.3g}"


# -- summary of the diagram ------------------------------------------------------------------


def _overview(frames: Frames) -> str:
    ece, kl = by_method(frames, "ece"), by_method(frames, "kl")
    debiased, means = by_method(frames, "ece_debiased"), cell_means(ece)
    columns: Columns = {
        "method": str,
        "uses": METHODS.__getitem__,
        "ECE": lambda name: plus_minus(*mean_over_cells(ece[name])),
        "debiased ECE": lambda name: plus_minus(*mean_over_cells(debiased[name])),
        "KL above the true angle": lambda name: plus_minus(
            *mean_over_cells(kl[name] - kl["angular, true angle"])
        ),
        "largest ECE of a cell": lambda name: (
            f"{means[name].max():.4f} at {_place(means[name].idxmax())}"
        ),
    }
    return table_of(METHODS, columns)


def _head_to_head(frames: Frames, peer: str) -> str:
    lines = []
    tables = [by_method(frames, metric) for metric in ("ece", "kl")]
    for name in ROUTES:
        counts = []
        for values in tables:
            gap = (values[peer] - values[name]).groupby(level=["n_per_d", "ridge"])
            lead, error = gap.mean(), gap.sem()
            better, worse = int((lead > CLEAR * error).sum()), int((-lead > CLEAR * error).sum())
            counts.append(f"{better} / {len(lead) - better - worse} / {worse}")
        lines.append((name, *counts))
    outcomes = "better / unclear / worse"
    return markdown((f"against {peer}", f"ECE: {outcomes}", f"KL: {outcomes}"), lines)


def _remarks(frames: Frames, settings: PhaseSettings) -> str:
    ece, rows = by_method(frames, "ece"), frames[""]
    same = float((ece["angular, both"] == ece["angular, observable"]).mean())
    complaints = rows.groupby("method")["warnings"].sum()
    named = [f"{name} {complaints[name]}" for name in METHODS if complaints[name]]
    told = "; ".join(named) if named else "none"
    return (
        f"n = {settings.n_samples} labels in every cell, {settings.draws} draws a cell, "
        f"{settings.n_test} test rows a draw, {len(cell_means(ece))} cells; ± is one Monte Carlo "
        f"standard error. The ECE of the true angle is the noise of the test labels. "
        f"“angular, both” had the ECE of “angular, observable” in {same:.0%} of the draws. "
        f"Warnings of solvers and angle estimates: {told}."
    )


def summarize_diagram(frames: Frames, settings: PhaseSettings) -> str:
    """Markdown: each method over all cells, and angcal's against cross-validation cell by cell."""
    parts = [
        "The paper has no such result.",
        _overview(frames),
        f"Cells by paired difference, clear beyond {CLEAR:g} standard errors:",
        _head_to_head(frames, CV),
        _head_to_head(frames, CV_SINGLE),
        _remarks(frames, settings),
    ]
    return "\n\n".join(parts) + "\n"


# -- summary of the winners ------------------------------------------------------------------


def _bands(values: Sequence[float], name: str) -> list[tuple[str, set[float]]]:
    """Thirds of the grid, each with a label that gives its ends."""
    parts = [part for part in np.array_split(np.array(values), 3) if len(part)]
    return [
        (
            f"{name} {p[0]:.3g} to {p[-1]:.3g}" if len(p) > 1 else f"{name} {p[0]:.3g}",
            set(p.tolist()),
        )
        for p in parts
    ]


def _tally(wins: Sequence[Win]) -> str:
    """Winners by number of cells, the clear ones in brackets."""
    counts = {win.method: [0, 0] for win in wins}
    for win in wins:
        counts[win.method][0] += 1
        counts[win.method][1] += win.clear
    ordered = sorted(counts.items(), key=lambda item: -item[1][0])
    return ", ".join(f"{name} {won} ({clear})" for name, (won, clear) in ordered)


def _shares(frames: Frames) -> str:
    lines = []
    for title, contenders in CONTENDERS.items():
        wins = [winners(by_method(frames, metric), list(contenders)) for metric in ("ece", "kl")]
        for name in contenders:
            cells = []
            for found in wins:
                won = [win for win in found if win.method == name]
                clear = sum(win.clear for win in won)
                cells.append(f"{len(won) / len(found):.0%} ({clear / len(found):.0%})")
            lines.append((title, name, *cells))
    header = ("contenders", "method", "cells won by ECE (clearly)", "cells won by KL (clearly)")
    return markdown(header, lines)


def _regions(frames: Frames, settings: PhaseSettings) -> str:
    ece = by_method(frames, "ece")
    lines = []
    wins = [winners(ece, list(contenders)) for contenders in CONTENDERS.values()]
    for columns, ratios in _bands(settings.n_per_d, "n/d"):
        for rows, ridges in _bands(settings.ridges, "λ"):
            inside = [
                [win for win in found if win.cell[0] in ratios and win.cell[1] in ridges]
                for found in wins
            ]
            lines.append((f"{columns}, {rows}", *map(_tally, inside)))
    return markdown(("region", *CONTENDERS), lines)


def _balance(frames: Frames, title: str, contenders: Mapping[str, str]) -> str:
    """How angcal's best method of each cell fares against the best of the others there."""
    ece = by_method(frames, "ece")
    means = cell_means(ece)
    own = [name for name in contenders if name not in PEERS]
    best_own, best_peer = means[own].idxmin(axis=1), means[list(PEERS)].idxmin(axis=1)
    gaps = [ece.loc[cell, best_own[cell]] - ece.loc[cell, best_peer[cell]] for cell in means.index]
    lead = np.array([float(gap.mean()) for gap in gaps])
    error = np.array([float(gap.sem()) for gap in gaps])
    worst = int(np.argmax(lead))
    told = (
        f"With the {title} angcal's methods have the smallest mean ECE in {int(np.sum(lead < 0))} "
        f"of {len(lead)} cells ({int(np.sum(-lead > CLEAR * error))} clearly over the best other) "
        f"and lose {int(np.sum(lead > 0))} ({int(np.sum(lead > CLEAR * error))} clearly)"
    )
    if lead[worst] <= 0:
        return told + "."
    return (
        f"{told}; the largest loss of ECE is {plus_minus(lead[worst], error[worst])}, to "
        f"{best_peer.iloc[worst]} at {_place(means.index[worst])}."
    )


def summarize_winners(frames: Frames, settings: PhaseSettings) -> str:
    """Markdown: shares of cells won, winners by region, and where angcal loses."""
    parts = [
        "The paper has no such result.",
        _shares(frames),
        "Cells won by mean ECE, in brackets those won clearly:",
        _regions(frames, settings),
        " ".join(_balance(frames, title, names) for title, names in CONTENDERS.items()),
        f"A cell is won clearly where the paired lead over the next method exceeds {CLEAR:g} "
        f"standard errors, over {settings.draws} draws. “Platt 100” has 100 labels more than the "
        "others; the observable routes know Σ. Choosing the best of several by the same "
        "draws flatters the larger group: two methods with an angle, five without.",
    ]
    return "\n\n".join(parts) + "\n"


# -- pictures --------------------------------------------------------------------------------


def _grid(means: pd.Series, settings: PhaseSettings) -> Floats:
    """Values with a row per λ and a column per n/d."""
    table = means.unstack("n_per_d").loc[list(settings.ridges), list(settings.n_per_d)]
    return np.asarray(table, dtype=float)


def _ticks(values: Sequence[float]) -> tuple[range, list[str]]:
    """Every other value of a long grid: the round ones."""
    places = range(0, len(values), 2 if len(values) > 6 else 1)
    return places, [f"{values[k]:.3g}" for k in places]


def _label_axes(ax: Axes, settings: PhaseSettings) -> None:
    ax.set_xticks(*_ticks(settings.n_per_d))
    ax.set_yticks(*_ticks(settings.ridges))
    ax.tick_params(length=2)
    ax.set(xlabel="rows per feature, n/d", ylabel="ridge strength λ")
    ax.label_outer()


def _print_values(ax: Axes, values: Floats, dark: float) -> None:
    """Write 1000·ECE into each cell, in white from the value ``dark`` on."""
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value > dark else "black"
        text = f"{1000.0 * value:.0f}"
        ax.text(column, row, text, ha="center", va="center", fontsize=6, color=color)


def _confidence_line(ax: Axes, frames: Frames, settings: PhaseSettings) -> None:
    """Stairs between the cells that are too sure, below, and those not sure enough, above."""
    draws = frames["draws"].groupby(["n_per_d", "ridge"])["overconfidence"].mean()
    too_sure = np.sum(_grid(draws, settings) > 0.0, axis=0)
    edges = np.arange(len(too_sure) + 1) - 0.5
    for width, color in ((3.6, "white"), (1.6, "black")):
        ax.stairs(too_sure - 0.5, edges, baseline=None, color=color, lw=width)


def draw_diagram(frames: Frames, settings: PhaseSettings) -> Figure:
    """Mean ECE over n/d and λ, one map per method, all on one logarithmic scale."""
    means = cell_means(by_method(frames, "ece"))
    shown = means[list(PANELS)].to_numpy()
    low, high = float(shown.min()), float(shown.max())
    figure = new_figure(FULL_WIDTH, 8.0)
    axes = figure.subplots(4, 2, sharex=True, sharey=True)
    for ax, name in zip(axes.flat, PANELS, strict=True):
        values = _grid(means[name], settings)
        norm = LogNorm(low, high)
        image = ax.imshow(values, norm=norm, cmap="cividis_r", origin="lower", aspect="auto")
        _print_values(ax, values, low**0.4 * high**0.6)
        _label_axes(ax, settings)
        ax.set_title(name)
    _confidence_line(axes[0, 0], frames, settings)
    axes[0, 0].set_title("uncalibrated (too sure below the line)")
    letter(axes.flat)
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=60, pad=0.015, shrink=0.7)
    bar.set_label("mean ECE (printed: 1000 × ECE)")
    ticks = [t for t in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if low <= t <= high]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.minorticks_off()
    return figure


def draw_winners(frames: Frames, settings: PhaseSettings) -> Figure:
    """The letter of each cell's winner: bold where its lead is clear, small where it is not."""
    ece = by_method(frames, "ece")
    figure = new_figure(FULL_WIDTH, 4.4)
    axes = figure.subplots(1, len(CONTENDERS), sharex=True, sharey=True)
    for ax, (title, letters) in zip(axes, CONTENDERS.items(), strict=True):
        for win in winners(ece, list(letters)):
            _draw_win(ax, win, letters[win.method], settings)
        ax.set(xlim=(-0.5, len(settings.n_per_d) - 0.5), ylim=(-0.5, len(settings.ridges) - 0.5))
        _label_axes(ax, settings)
        ax.set_title(title)
    letter(axes)
    _explain_letters(figure)
    return figure


def _draw_win(ax: Axes, win: Win, mark: str, settings: PhaseSettings) -> None:
    x, y = settings.n_per_d.index(win.cell[0]), settings.ridges.index(win.cell[1])
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc=FILLS[mark], ec="white", lw=0.8))
    size, weight, color = (9.5, "bold", "black") if win.clear else (7, "normal", "#222222")
    ax.text(x, y, mark, ha="center", va="center", fontsize=size, fontweight=weight, color=color)


def _explain_letters(figure: Figure) -> None:
    pairs = [pair for letters in CONTENDERS.values() for pair in letters.items()]
    handles = []
    for mark, fill in FILLS.items():
        names = " / ".join(dict.fromkeys(name for name, own in pairs if own == mark))
        handles.append(Patch(fc=fill, ec="black", lw=0.5, label=f"{mark}: {names}"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=2,
        frameon=False,
        title="smallest mean ECE; large and bold where the lead exceeds two standard errors",
        title_fontsize=8,
    )
