"""Pictures of the benchmark on real labels: excess log-loss against n/d, and mean ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from angcal.displays import STYLES
from studies.engine.experiment import Frames, Result
from studies.engine.figures import FULL_WIDTH, letter, new_figure
from studies.peers.compare import (
    by_method,
    cell_means,
    dataset_ranks,
    everywhere,
    joined,
    ranking,
    regular,
)
from studies.peers.methods import AVERAGED, DEFAULT, IN_FOLDS, TUNED
from studies.peers.peers import METHODS, RIVALS, SLOW_RIVALS
from studies.peers.real import REAL, RealSettings
from studies.peers.real_claims import summarize_claims
from studies.peers.real_tables import (
    complete,
    excess,
    summarize_losses,
    summarize_ranks,
    where_costly,
)

OWN = (TUNED, DEFAULT)
# Few enough lines in each to differ without color; angcal's two are in all of them.
PANELS: dict[str, tuple[str, ...]] = {
    "one fit or five folds, C = 1": (
        "logistic",
        "CV sigmoid",
        "CV sigmoid, one model",
        "CV temperature",
        "CV temperature, one model",
    ),
    "steps instead of curves, C = 1": (
        "CV isotonic",
        "CV isotonic, one model",
        "venn-abers, cross",
        "venn-abers",
        "netcal histogram",
    ),
    "a quarter held out, C = 1": (
        "betacal",
        "netcal beta",
        "netcal temperature",
        "probmetrics logistic",
        "probmetrics ts-mix",
    ),
    "C tuned": (
        "logistic tuned",
        "netcal temperature, tuned",
        "probmetrics ts-mix, tuned",
        "probmetrics logistic, tuned",
        "venn-abers, tuned",
    ),
    "a quarter held out, C tuned": (
        "betacal, tuned",
        "netcal beta, tuned",
        "netcal histogram, tuned",
    ),
}
# Small cells, first splits.
COSTLY_PANELS: dict[str, tuple[str, ...]] = {
    "several models, C tuned, small cells": (
        AVERAGED,
        IN_FOLDS,
        "CV sigmoid, tuned",
        "CV temperature, tuned",
        "CV isotonic, tuned",
    ),
    "one curve, C tuned, small cells": (
        "CV sigmoid, one model, tuned",
        "CV temperature, one model, tuned",
        "netcal logistic, tuned",
        "probmetrics logistic-mix, tuned",
        "probmetrics quadratic-scaling, tuned",
    ),
    "steps, C tuned, small cells": (
        "CV isotonic, one model, tuned",
        "venn-abers, cross, tuned",
        "netcal isotonic, tuned",
        "netcal BBQ, tuned",
        "netcal ENIR, tuned",
    ),
    "all labels for the fit, small cells": tuple(method.name for method in RIVALS),
    "the same, slow ones": tuple(method.name for method in SLOW_RIVALS),
}
# A method that is best in every cell has no excess, and a logarithmic axis no zero.
FLOOR = 5e-4


def _line(ax: Axes, losses: pd.Series, style: tuple[str, str, Any], name: str) -> None:
    """Mean over datasets at each n/d, with a band of one standard error of its logarithm."""
    grouped = losses.dropna().groupby(level="ratio")
    mean, error = grouped.mean().clip(lower=FLOOR), grouped.sem().fillna(0.0)
    x, color = mean.index.to_numpy(dtype=float), style[0]
    factor = np.exp(error / mean)
    ax.fill_between(x, mean / factor, mean * factor, color=color, alpha=0.1, lw=0)
    ax.plot(
        x,
        mean,
        color=color,
        marker=style[1],
        ls=style[2],
        ms=3.5,
        lw=2.0 if name in OWN else 1.1,
        label=name,
        zorder=3 if name in OWN else 2,
    )


def draw_losses(frames: Frames, settings: RealSettings) -> Figure:
    """Log-loss above that of the best method of each cell, against n/d, on the same datasets."""
    values = by_method(joined(frames), "log_loss")
    panels = [
        (title, [name for name in names if name in losses], losses)
        for group, part in ((PANELS, values), (COSTLY_PANELS, where_costly(values)))
        for losses in [
            excess(complete(everywhere(cell_means(regular(part))))) if len(part) else part
        ]
        for title, names in group.items()
    ]
    panels = [panel for panel in panels if panel[1] and len(panel[2])]
    n_rows = (len(panels) + 1) // 2
    figure = new_figure(FULL_WIDTH, 3.1 * n_rows)
    axes = figure.subplots(n_rows, 2, squeeze=False)
    for ax, (title, names, losses) in zip(axes.flat, panels, strict=False):
        for name, style in zip((*OWN, *names), STYLES, strict=False):
            _line(ax, losses[name], style, name)
        _finish(ax, settings, title, losses.index.get_level_values("dataset").nunique())
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    letter(axes.flat[: len(panels)])
    return figure


def _finish(ax: Axes, settings: RealSettings, title: str, n_datasets: int) -> None:
    ax.set(xscale="log", yscale="log")
    ax.set_title(title, fontsize=8)
    ax.set_xticks(settings.ratios, labels=[f"{ratio:g}" for ratio in settings.ratios])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("labels per column, n/d")
    ax.set_ylabel(f"excess log-loss, mean of {n_datasets} sets")
    ax.legend(fontsize=6, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=2)


def _family(name: str) -> str:
    """What kind of method it is, in the picture of ranks."""
    method = METHODS[name]
    if name in OWN:
        return "angcal"
    if method.reduced:
        return "a quarter held out"
    return "folds, C tuned" if method.searches else "scikit-learn or folds, C = 1"


def draw_ranks(frames: Frames, settings: RealSettings) -> Figure:
    """Mean rank of every method with one standard error over datasets, best at the top."""
    means = everywhere(cell_means(by_method(joined(frames), "log_loss")))
    return picture_of_ranks(means, {str(name): _family(name) for name in means})


def picture_of_ranks(means: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Mean ranks of the methods of ``means``, each in the color of its family."""
    styles = dict(zip(dict.fromkeys(("angcal", *families.values())), STYLES, strict=False))
    found, errors = ranking(means), dataset_ranks(means).sem().fillna(0.0)
    names = list(found.ranks.index)
    figure = new_figure(FULL_WIDTH, 1.4 + 0.19 * len(names))
    ax = figure.subplots()
    for place, name in enumerate(names):
        color, marker, _ = styles[families[name]]
        rank, error = found.ranks[name], errors[name]
        ax.errorbar(rank, place, xerr=error, color=color, marker=marker, ms=5, capsize=2)
    _critical_bar(ax, found.ranks.iloc[0], found.critical_difference)
    ax.set_yticks(range(len(names)), labels=names)
    ax.set_ylim(len(names) - 0.5, -2.2)
    ax.set_xlabel(f"mean rank in log-loss over {found.n_datasets} datasets, {found.n_cells} cells")
    ax.grid(axis="x", lw=0.4, alpha=0.5)
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="", label=label)
        for label, (color, marker, _) in styles.items()
    ]
    ax.legend(handles=handles, loc="lower left", fontsize=7)
    return figure


def _critical_bar(ax: Axes, best: float, length: float) -> None:
    """Ranks within this bar do not differ from the best at 5 %."""
    ax.plot([best, best + length], [-1, -1], color="black", lw=2.5)
    ax.annotate(
        f"critical difference {length:.1f}",
        (best, -1),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=7,
    )


RANKS = Result(
    "ranks",
    "Mean ranks on real labels, tests, wins and losses, costs",
    REAL,
    summarize_ranks,
    draw_ranks,
)
CLAIMS = Result(
    "claims",
    "Ranks and tests on all tasks, and on the half that nothing was chosen on",
    REAL,
    summarize_claims,
)
LOSSES = Result(
    "log-loss",
    "Log-loss on real labels against n/d, and where a peer wins",
    REAL,
    summarize_losses,
    draw_losses,
)
