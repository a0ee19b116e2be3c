"""The paper's real-data tables beside ours: numbers and reliability grids from the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from studies.datasets import CATALOGUE
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, TICKS, new_figure
from studies.engine.tables import NOTHING, markdown, mean_text, rmse_and_error
from studies.paper.panels import expected_ece
from studies.paper.semireal import (
    AS_MANY,
    AUTO,
    FEW,
    GRID_SPLIT,
    MANY,
    ORACLE,
    OUR_METHODS,
    PAPER_METHODS,
    SemirealSettings,
)

PLATT_FEW, PLATT_MANY = f"Platt {FEW}", f"Platt {MANY}"
# Marker and color of each method in the grids.
GRID_LOOKS = {
    "uncalibrated": ("#0072B2", "o"),
    AUTO: ("#009E73", "D"),
    ORACLE: ("#000000", "x"),
    PLATT_FEW: ("#D55E00", "s"),
}
GRID_COLUMNS = 5
TITLES = {
    "dl": "pretrained representations",
    "uci": "UCI benchmarks",
    "uci-extended": "twenty UCI and OpenML datasets",
}


# -- numbers ---------------------------------------------------------------------------------


def label(name: str, standing: str) -> str:
    """The title of a dataset, with what was really run where that is not the published set."""
    title = CATALOGUE[name].title
    return title if standing == "as published" else f"{title} ({standing})"


def per_split(frames: Frames, metric: str) -> pd.DataFrame:
    """One row per (dataset, split), one column per method."""
    return frames[""].pivot(index=["dataset", "split"], columns="method", values=metric)


def means(frames: Frames, metric: str) -> pd.DataFrame:
    """Mean over splits: a row per dataset, a column per method."""
    return per_split(frames, metric).groupby(level="dataset", sort=False).mean()


def cosine_errors(frames: Frames) -> pd.DataFrame:
    """RMSE of the cosine by each route, with n: a row per dataset."""
    rows = {}
    for name, group in frames["angles"].groupby("dataset", sort=False):
        errors = {
            route: rmse_and_error(group[route] - group["true_cosine"])[0]
            for route in ("auto", "loo", "observable")
        }
        inside = group["true_cosine"].between(group["auto_low"], group["auto_high"])
        rows[name] = {"n": group["n"].iloc[0], **errors, "coverage": float(inside.mean())}
    return pd.DataFrame.from_dict(rows, orient="index")


def noise_floors(frames: Frames) -> pd.Series:
    """The ECE that chance alone gives the true angle, on the split that was drawn."""
    bins = frames["reliability"].query("method == @ORACLE").groupby("dataset", sort=False)
    return pd.Series({name: expected_ece(part["mean"], part["count"]) for name, part in bins})


def about(frames: Frames) -> pd.DataFrame:
    """What was run, and its sizes: a row per dataset."""
    columns = ["standing", "n", "d", "n_pool", "n_test"]
    return frames["angles"].groupby("dataset", sort=False)[columns].first()


# -- summaries -------------------------------------------------------------------------------


def paper_table(frames: Frames, settings: SemirealSettings, table: str) -> str:
    """ECE of the paper's methods, measured and as printed."""
    values, facts, floors = per_split(frames, "ece"), about(frames), noise_floors(frames)
    rows = []
    for name, group in values.groupby(level="dataset", sort=False):
        sizes = facts.loc[name]
        row = [label(str(name), sizes["standing"]), f"{sizes['n']}×{sizes['d']}"]
        row.append(f"{floors[name]:.4f}")
        for method, printed in PAPER_METHODS.items():
            value = CATALOGUE[str(name)].printed.get(printed)
            row.append(mean_text(group[method]))
            row.append(NOTHING if value is None else f"{value:.4f}")
        rows.append(row)
    rows += [
        [
            f"{dataset.title} (loader only)",
            *[NOTHING, NOTHING],
            *(cell for value in printed for cell in ("not run", f"{value:.4f}")),
        ]
        for dataset in CATALOGUE.values()
        if dataset.table == table and dataset.standing == "loader only"
        for printed in [[dataset.printed[key] for key in PAPER_METHODS.values()]]
    ]
    columns = [part for method in PAPER_METHODS for part in (method, "paper")]
    return markdown(["dataset", "n×d", "noise floor", *columns], rows)


def our_table(frames: Frames, metric: str) -> str:
    """One metric of our methods beside the oracle and Platt on a holdout."""
    methods = [ORACLE, PLATT_FEW, PLATT_MANY, AS_MANY, *OUR_METHODS]
    if metric == "error":
        methods.remove(ORACLE)
    facts = about(frames)
    rows = [
        [
            label(str(name), facts.loc[name, "standing"]),
            *(mean_text(group[method]) for method in methods),
        ]
        for name, group in per_split(frames, metric).groupby(level="dataset", sort=False)
    ]
    average = means(frames, metric).mean()
    rows.append(["**mean**", *(f"**{average[method]:.4f}**" for method in methods)])
    return markdown(["dataset", *methods], rows)


def angle_table(frames: Frames) -> str:
    """True cosine, RMSE of each route, coverage of the interval, and what the design is like."""
    errors = cosine_errors(frames)
    rows = []
    for name, group in frames["angles"].groupby("dataset", sort=False):
        first, error = group.iloc[0], errors.loc[name]
        better = min(error["loo"], error["observable"])
        rows.append(
            [
                label(str(name), first["standing"]),
                f"{first['n']}×{first['d']}, pool {first['n_pool']}",
                f"{group['true_cosine'].mean():.3f}",
                f"{group['best_cosine'].mean():.3f}",
                *(f"{error[route]:.3f}" for route in ("observable", "loo", "auto")),
                f"{error['auto'] / better:.2f}",
                f"{error['coverage']:.2f}",
                f"{group['unevenness'].mean():.2f}",
                f"{group['score_kurtosis'].mean():.1f}",
            ]
        )
    header = ["dataset", "sizes", "true cosine", "c°", "RMSE observable", "RMSE leave-one-out"]
    header += ["RMSE auto", "auto to better", "coverage", "unevenness", "kurtosis of scores"]
    return markdown(header, rows)


def summarize_table(frames: Frames, settings: SemirealSettings, table: str) -> str:
    """Everything about one of the paper's tables."""
    ours = {
        "ece": "ECE of what needs no oracle, beside it:",
        "ece_debiased": "Debiased ECE, which takes off a part of that noise:",
        "error": "E∣p − F∣, F the angular curve at the true angle:",
        "error_best": "E∣p − F°∣, F° the angular curve nearest to the true probabilities:",
        "kl": "Kullback–Leibler divergence from the true probabilities:",
        "brier": "Brier score against the true probabilities, E(p − P(y = 1))²:",
    }
    parts = [
        f"ECE with {settings.n_bins} bins, mean over {settings.n_splits} splits ± standard error; "
        "beside it what the paper prints, from one split. The noise floor is the ECE that a "
        "perfectly calibrated predictor has by chance.",
        paper_table(frames, settings, table),
        *(part for metric, title in ours.items() for part in (title, our_table(frames, metric))),
        "The cosine:",
        angle_table(frames),
    ]
    return "\n\n".join(parts)


# -- pictures --------------------------------------------------------------------------------


def draw_grid(frames: Frames, settings: SemirealSettings) -> Figure:
    """A reliability diagram for each dataset, of one split."""
    points = frames["reliability"].query(f"split == {GRID_SPLIT}")
    standings = about(frames)["standing"]
    names = list(points["dataset"].unique())
    columns = min(GRID_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(FULL_WIDTH, FULL_WIDTH / columns * lines + 0.5)
    axes = np.atleast_1d(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False))
    for ax in axes.ravel()[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes.ravel(), names, strict=False):
        ax.plot([0, 1], [0, 1], color="0.6", lw=0.8)
        for method, (color, marker) in GRID_LOOKS.items():
            rows = points.query("dataset == @name and method == @method")
            area = 2.0 + 40.0 * rows["count"] / rows["count"].sum()
            ax.scatter(
                rows["mean"],
                rows["observed"],
                s=area,
                color=color,
                marker=marker,
                label=method,
                linewidths=0.8,
                alpha=0.85,
            )
        ax.set(xticks=TICKS[::2], yticks=TICKS[::2], aspect="equal")
        ax.set_title(label(name, standings[name]), fontsize=6.5)
    handles, texts = axes.ravel()[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper center", ncols=len(GRID_LOOKS))
    figure.supxlabel("predicted probability", fontsize=8)
    figure.supylabel("observed frequency", fontsize=8)
    return figure
