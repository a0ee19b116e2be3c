"""The paper's real-data tables beside ours: numbers and reliability grids from the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from studies.datasets import CATALOGUE
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, TICKS, new_figure
from studies.engine.tables import (
    NOTHING,
    markdown,
    mean_text,
    rmse_and_error,
    with_minus,
    yes_or_no,
)
from studies.paper.panels import expected_ece
from studies.paper.semireal import (
    AS_MANY,
    AUTO,
    ESTIMATED,
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


# -- What is claimed of the real-data tables, over all of their datasets, and where it fails ----


METRICS = {
    "error": "E∣p − F∣",
    "error_best": "E∣p − F°∣",
    "ece": "ECE",
    "ece_debiased": "debiased ECE",
    "kl": "KL to the truth",
    "brier": "Brier to the truth",
}
WORSE = 1.15
"""An estimated angle whose ECE is above this times that of the true one is listed."""
SMALLEST_SAMPLE, LARGEST_RMSE, LARGEST_RATIO = 200, 0.2, 1.1
FEW_LABELS, LOW_COVERAGE = 250, 0.85
FAR = 2.0
"""Standard deviations of one split, beyond which the paper's value is another one than ours."""
PAPER_COMPARED = tuple(
    (method, PAPER_METHODS[method]) for method in ("uncalibrated", ORACLE, PLATT_MANY)
)
Claim = tuple[str, str, float, bool]
"""What is claimed, its bar, what was measured, and whether it holds."""


def overall(every: Sequence[Frames]) -> str:
    """The claims over all runnable datasets, and where they fail."""
    frames = {key: pd.concat([part[key] for part in every]) for key in every[0]}
    values = {metric: means(frames, metric) for metric in METRICS}
    cosines = cosine_errors(frames)
    ratio = cosines["auto"] / cosines[["loo", "observable"]].min(axis=1)
    mean_ece = values["ece"].mean()
    to_oracle = mean_ece[AUTO] / mean_ece[ORACLE]
    claims = [
        *_error_claims(values["error"], "F"),
        *_error_claims(values["error_best"], "F°"),
        ("mean ECE over that of the true angle", "≤ 1.10", to_oracle, to_oracle <= 1.10),
        *_cosine_claims(cosines, ratio),
    ]
    table = markdown(
        ["claim", "bar", "measured", "holds?"],
        [[name, bar, f"{value:.4f}", yes_or_no(bool(holds))] for name, bar, value, holds in claims],
    )
    return "\n\n".join(
        [
            f"Over {len(cosines)} datasets; F is the angular curve at the true angle, F° the one "
            "nearest to the true probabilities:",
            table,
            "Means over datasets:",
            _means_table(values),
            by_sample_size(values["error"], cosines["n"]),
            _losses(values, ratio, cosines["coverage"], about(frames)["standing"]),
            *against_paper(frames),
        ]
    )


def _error_claims(error: pd.DataFrame, curve: str) -> list[Claim]:
    mean = error.mean()
    to_platt = mean[AUTO] / mean[PLATT_MANY]
    unknown = mean[ESTIMATED] / mean[PLATT_MANY]
    limit = mean[AS_MANY] / mean[PLATT_MANY]
    few = float((error[AUTO] < error[PLATT_FEW]).mean())
    many = float((error[AUTO] < error[PLATT_MANY]).mean())
    distance = f"E∣p − {curve}∣"
    return [
        (f"mean {distance}, link known", "≤ 0.016", mean[AUTO], mean[AUTO] <= 0.016),
        (f"mean {distance} over that of {PLATT_MANY}", "≤ 0.7", to_platt, to_platt <= 0.7),
        (f"share of datasets with {distance} below {PLATT_FEW}", "≥ 0.95", few, few >= 0.95),
        (f"share of datasets with {distance} below {PLATT_MANY}", "≥ 0.75", many, many >= 0.75),
        (
            f"link unknown: mean {distance} over {PLATT_MANY} ({AS_MANY}: {limit:.2f})",
            *("≤ 1", unknown, unknown <= 1.0),
        ),
    ]


def _cosine_claims(cosines: pd.DataFrame, ratio: pd.Series) -> list[Claim]:
    share = float((ratio <= LARGEST_RATIO).mean())
    largest = float(cosines[cosines["n"] >= SMALLEST_SAMPLE]["auto"].max())
    name = "share of datasets with RMSE of auto at most 1.1 times the better route's"
    return [
        (name, "≥ 0.9", share, share >= 0.9),
        ("largest RMSE of auto, n ≥ 200", "≤ 0.2", largest, largest <= LARGEST_RMSE),
    ]


def _means_table(values: Mapping[str, pd.DataFrame]) -> str:
    methods = [*PAPER_METHODS, AS_MANY, *OUR_METHODS]
    rows = [
        [method, *(f"{frame[method].mean():.4f}" for frame in values.values())]
        for method in methods
    ]
    return markdown(["method", *METRICS.values()], rows)


def by_sample_size(error: pd.DataFrame, n: pd.Series) -> str:
    """E∣p − F∣ of the larger and of the smaller samples: how much of it is a matter of labels."""
    told = []
    for words, names in (
        ("more than", n.index[n > FEW_LABELS]),
        ("at most", n.index[n <= FEW_LABELS]),
    ):
        mean = error.loc[names].mean()
        told.append(
            f"{mean[AUTO]:.4f} over the {len(names)} datasets with {words} {FEW_LABELS} "
            f"labels ({mean[AUTO] / mean[PLATT_MANY]:.2f} of {PLATT_MANY})"
        )
    return f"Mean E∣p − F∣, link known: {', '.join(told)}."


def _losses(
    values: Mapping[str, pd.DataFrame], ratio: pd.Series, coverage: pd.Series, standings: pd.Series
) -> str:
    """Where a peer wins, or the estimated angle costs much."""
    error, ece, kl = (values[name] for name in ("error", "ece", "kl"))
    found = {
        f"{PLATT_FEW} is nearer to F on": error.index[error[AUTO] >= error[PLATT_FEW]],
        f"{PLATT_MANY} is nearer to F on": error.index[error[AUTO] >= error[PLATT_MANY]],
        "ECE more than 15 % above that of the true angle on": ece.index[
            ece[AUTO] > WORSE * ece[ORACLE]
        ],
        "Nearer to the truth (KL) than the true angle on": kl.index[kl[AUTO] < kl[ORACLE]],
        "RMSE of auto more than 1.1 times the better route's on": ratio.index[
            ratio > LARGEST_RATIO
        ],
        "The 95 % interval of auto holds the true cosine in fewer than 85 % of the splits on": (
            coverage.index[coverage < LOW_COVERAGE]
        ),
    }
    return "\n".join(f"- {words}: {_names(names, standings)}." for words, names in found.items())


def _names(names: Sequence[str], standings: pd.Series) -> str:
    return "; ".join(label(str(name), standings[name]) for name in names) or "none"


# -- the paper's numbers -----------------------------------------------------------------------


def against_paper(frames: Frames) -> list[str]:
    """How far the paper's printed values lie from ours, in standard deviations of one split."""
    values, standings = per_split(frames, "ece"), about(frames)["standing"]
    names = list(standings.index)
    lines = [_distances(values[method], printed, standings) for method, printed in PAPER_COMPARED]
    floors = noise_floors(frames)
    printed = [CATALOGUE[str(name)].printed.get(PAPER_METHODS[ORACLE]) for name in names]
    known = [(name, value) for name, value in zip(names, printed, strict=True) if value is not None]
    below = sum(value < floors[name] for name, value in known)
    half = sum(value < 0.5 * floors[name] for name, value in known)
    return [
        "Beside the paper, whose values come from one split: its distance from our mean, over the "
        "standard deviation of our splits.",
        "\n".join(lines),
        f"Of its {len(known)} values for the true angle, {below} lie below the noise floor and "
        f"{half} below half of it.",
    ]


def _distances(values: pd.Series, printed: str, standings: pd.Series) -> str:
    """One method: how many datasets agree, and which do not."""
    grouped = values.groupby(level="dataset", sort=False)
    spread, mean = grouped.std(), grouped.mean()
    paper = {name: CATALOGUE[str(name)].printed.get(printed) for name in mean.index}
    z = {
        name: (value - mean[name]) / spread[name]
        for name, value in paper.items()
        if value is not None
    }
    off = [
        f"{label(str(name), standings[name])} {z[name]:+.1f}"
        for name in sorted(z, key=lambda name: -abs(z[name]))
        if abs(z[name]) > FAR
    ]
    agreeing = len(z) - len(off)
    told = with_minus("; ".join(off)) or "none"
    return f"- {values.name}: within {FAR:g} on {agreeing} of {len(z)} datasets; others: {told}."
