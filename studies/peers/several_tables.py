"""Tables and pictures of ``studies benchmark several``, from its CSV files."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from angcal.displays import STYLES
from studies.engine.experiment import Frames, Result
from studies.engine.figures import FULL_WIDTH, new_figure
from studies.engine.tables import markdown, with_error
from studies.peers.several import OURS, SEVERAL, SeveralSettings

CELL = ["task", "n", "C"]
# How much worse than the best peer angcal may be on real data.
SLACK = 1.02
TICKS = (0.9, 1.0, 1.2, 1.5, 2.0, 3.0)
ENSEMBLES = ("CV sigmoid", "CV isotonic", "CV temperature")
SHOWN = ("log_loss", "classwise_ece", "top_label_ece", "divergence")
TITLES = {
    "log_loss": "log-loss",
    "classwise_ece": "classwise ECE",
    "top_label_ece": "top-label ECE",
    "divergence": "KL to the truth",
}


def joined(frames: Frames) -> pd.DataFrame:
    """Rows with their trial's task, n, C and split."""
    splits = frames["splits"].set_index("trial")[[*CELL, "split", "d", "classes"]]
    rows = frames[""].join(splits, on="trial")
    rows["divergence"] = pd.to_numeric(rows["divergence"], errors="coerce")
    return rows


def cell_table(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean over splits, one line for each cell, one column for each method."""
    return rows.pivot_table(index=CELL, columns="method", values=metric, sort=False)


def verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    """Log-loss of angcal and of the best peer of each cell, and their paired difference."""
    means = cell_table(rows, "log_loss")
    peers = [name for name in means if name != OURS]
    by_split = rows.pivot_table(
        index=[*CELL, "split"], columns="method", values="log_loss", sort=False
    )
    lines = []
    for cell, line in means.iterrows():
        best = line[peers].idxmin()
        gap = (by_split.loc[cell][OURS] - by_split.loc[cell][best]).dropna()
        lines.append(
            {
                **dict(zip(CELL, cell, strict=True)),
                "ours": line[OURS],
                "peer": best,
                "theirs": line[best],
                "gap": gap.mean(),
                "error": gap.sem(),
                "simulated": str(cell[0]).startswith("softmax"),
            }
        )
    return pd.DataFrame(lines)


def summarise(frames: Frames, settings: SeveralSettings) -> str:
    """Markdown: angcal against the best peer of every cell, then every metric."""
    rows = joined(frames)
    found = verdicts(rows)
    lines = [
        (
            line.task,
            f"{line.n}",
            f"{line.C:g}",
            f"{line.ours:.4f}",
            f"{line.peer}, {line.theirs:.4f}",
            with_error(line.gap, line.error, None),
            f"{line.ours / line.theirs:.3f}",
        )
        for line in found.itertuples()
    ]
    header = ("task", "n", "C", OURS, "best peer", "difference", "ratio")
    real, made = found[~found["simulated"]], found[found["simulated"]]
    parts = [
        f"{int(frames['splits']['split'].max()) + 1} splits. The best peer is chosen after the "
        "fact, in each cell anew, which flatters the peers.",
        markdown(header, lines),
        f"Simulated: {OURS} has the lowest log-loss in {int((made.gap < 0).sum())} of {len(made)} "
        f"cells. Real: it is within 2 % of the best peer in "
        f"{int((real.ours <= SLACK * real.theirs).sum())} of {len(real)} cells, and has the lowest "
        f"log-loss in {int((real.gap < 0).sum())}.",
        _one_model(rows),
        *(_metric(rows, metric) for metric in SHOWN),
        _costs(rows),
        _failures(frames),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _one_model(rows: pd.DataFrame) -> str:
    """The same against peers that deploy one model, as angcal does."""
    found = verdicts(rows[~rows["method"].isin(ENSEMBLES)])
    real, made = found[~found["simulated"]], found[found["simulated"]]
    return (
        f"Among methods that deploy one model (all but {', '.join(ENSEMBLES)}, which average "
        f"five): simulated, lowest in {int((made.gap < 0).sum())} of {len(made)} cells, at most "
        f"{made.gap.max():.4f} above the best; real, within 2 % of the best in "
        f"{int((real.ours <= SLACK * real.theirs).sum())} of {len(real)}, lowest in "
        f"{int((real.gap < 0).sum())}."
    )


def _metric(rows: pd.DataFrame, metric: str) -> str:
    means = cell_table(rows[rows[metric].notna()], metric)
    order = means.mean().sort_values(kind="stable").index
    header = ("task", "n", "C", *order)
    lines = [
        (
            str(task),
            f"{n}",
            f"{C:g}",
            *(f"{value:.4f}" if value == value else "–" for value in line[order]),
        )
        for (task, n, C), line in means.iterrows()
    ]
    return f"**{TITLES[metric]}**, mean over splits:\n\n{markdown(header, lines)}"


def _costs(rows: pd.DataFrame) -> str:
    grouped = rows.groupby("method", sort=False)
    lines = [
        (name, f"{group['fits'].iloc[0]}", f"{group['seconds'].median():.3g}")
        for name, group in grouped
    ]
    return "**Costs**\n\n" + markdown(("method", "fits", "median seconds of one core"), lines)


def _failures(frames: Frames) -> str:
    failed = frames["failures"]
    if not len(failed):
        return "No method failed."
    counts = failed.groupby(["method", "reason"]).size()
    return "Failures: " + "; ".join(
        f"{method}: {count} × {reason}" for (method, reason), count in counts.items()
    )


def draw(frames: Frames, settings: SeveralSettings) -> Figure:
    """Log-loss of every method over that of angcal, cell by cell."""
    means = cell_table(joined(frames), "log_loss")
    ratios = means.div(means[OURS], axis=0)
    figure = new_figure(FULL_WIDTH, 0.32 * len(ratios) + 1.6)
    ax = figure.subplots()
    places = np.arange(len(ratios))[::-1]
    shown = [name for name in ratios if name != OURS]
    for number, name in enumerate(shown):
        colour, marker, _ = STYLES[(number + 1) % len(STYLES)]
        filled = "none" if number >= len(STYLES) - 1 else colour
        ax.plot(ratios[name], places, marker, color=colour, mfc=filled, ms=5, label=name, ls="none")
    ax.axvline(1.0, color=STYLES[0][0], lw=1.5, label=OURS)
    ax.set_xscale("log")
    ax.set_xlim(0.85, float(np.nanquantile(ratios[shown], 0.98)) * 1.1)
    ax.set_yticks(places, [f"{task}, n={n}, C={C:g}" for task, n, C in ratios.index])
    ax.set_xlabel("log-loss over that of angcal (right of the line: angcal is better)")
    ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    ax.set_xticks([], minor=True)
    ax.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


SEVERAL_RESULT = Result(
    name="several",
    title="three and more classes against peers",
    experiment=SEVERAL,
    summarise=summarise,
    draw=draw,
)
