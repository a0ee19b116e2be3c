"""Markdown of the benchmark on real labels: ranks, costs, tests, duels; log-loss by n/d, tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from studies.datasets import CATALOGUE
from studies.engine.experiment import Frames
from studies.engine.tables import NOTHING, Columns, markdown, table_of, with_error, yes_or_no
from studies.peers.benchmark import SELDOM, SIDES
from studies.peers.compare import (
    CELL,
    CLEAR,
    COMPARED,
    Ranking,
    by_method,
    cell_means,
    cell_of,
    duels,
    everywhere,
    gaps,
    joined,
    ranking,
    regular,
)
from studies.peers.methods import DEFAULT, OWN_NAMES, TUNED, Method
from studies.peers.peers import METHODS
from studies.peers.real import BENCHMARK, LABELED, RealSettings

RANKED = {
    "log_loss": "log-loss",
    "brier": "Brier",
    "ece_debiased": "debiased ECE",
    "smooth_ece": "smooth ECE",
}
SHARE_OF_FITS = 0.1
MOST_REASON = 120


# -- ranks -------------------------------------------------------------------------------------


def summarize_ranks(frames: Frames, settings: RealSettings) -> str:
    """Markdown: mean ranks and costs, tests, and both of angcal's classifiers against each peer."""
    rows = joined(frames)
    values = by_method(rows, "log_loss")
    means = cell_means(values)
    parts = [
        coverage(frames, settings, len(BENCHMARK.trials(settings))),
        "Mean ranks (1 is best). Methods are ranked in each cell, a cell being a task at one size; "
        "a dataset's rank is the mean over its cells:",
        *_ranked(rows, everywhere(means), settings),
        *_later_splits(rows, settings),
        *_costly(rows, settings),
        *(part for own in (TUNED, DEFAULT) for part in duel_table(values, own)),
        remarks(settings),
    ]
    return "\n\n".join(parts) + "\n"


def coverage(frames: Frames, settings: Any, total: int, cell: Sequence[str] = CELL) -> str:
    """What has been run, what could not be, and what failed."""
    splits, failures = frames["splits"], frames["failures"]
    run = splits[splits["not_run"] == ""]
    lines = [
        f"{len(splits)} of {total} trials done; {run.groupby([*cell]).ngroups} cells of "
        f"{run['dataset'].nunique()} datasets, {_split_counts(run, cell)} of {settings.splits} "
        "splits each by both sides."
    ]
    # Trials of the other sides need none of the packages, or leave out a method of their own.
    missing = splits[splits["side"].isin(("peers", SELDOM))]["missing"]
    absent = [package for text in missing.unique() for package in text.split("; ")]
    counts = {package: int(missing.str.contains(package).sum()) for package in absent}
    told = [f"{package} ({n} trials)" for package, n in counts.items() if package]
    if told:
        lines.append(f"Not importable, hence not compared: {', '.join(told)}.")
    lines += [
        f"{method} failed {len(group)} times, first with “{group['reason'].iloc[0][:MOST_REASON]}”."
        for method, group in failures.groupby("method")
    ]
    return " ".join(lines)


def _split_counts(run: pd.DataFrame, cell: Sequence[str]) -> str:
    """How many splits of a cell both sides have run: from the fewest to the most."""
    sides = run[run["side"].isin(COMPARED)].groupby([*cell, "split"])["side"].nunique()
    counts = (sides == len(COMPARED)).groupby(level=[*cell]).sum()
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _ranked(rows: pd.DataFrame, means: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The table of ranks and costs over the cells and methods of ``means``, and its tests."""
    found, inside = ranking(means), rows_of(rows, means)
    remark = {name: "a quarter" if METHODS[name].reduced else "none" for name in means}
    return [
        rank_table(inside, means, RANKED, ("labels held out", remark)),
        tests_of(found),
        _claim(found, settings),
        *_slower(inside, found),
    ]


def rows_of(rows: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
    """Those of the cells of ``means``, or of some splits of cells."""
    return rows.set_index([*means.index.names]).loc[means.index].reset_index()


def rank_table(
    rows: pd.DataFrame,
    means: pd.DataFrame,
    metrics: Mapping[str, str],
    remark: tuple[str, Mapping[str, str]],
) -> str:
    """Ranks by each metric, and costs; one column is the remark's, with its title."""
    found, cell = ranking(means), [*means.index.names]
    others = {
        metric: ranking(cell_means(by_method(rows, metric, cell))[list(means)]).ranks
        for metric in metrics
    }
    cost = dict(iter(rows.groupby("method")))

    def rank_by(metric: str) -> Callable[[Any], str]:
        return lambda name: f"{others[metric][name]:.2f}"

    columns: Columns = {
        "method": str,
        **{title: rank_by(metric) for metric, title in metrics.items()},
        "log-loss, mean over cells": lambda name: f"{found.by_cells[name]:.2f}",
        "mean log-loss": lambda name: f"{means[name].mean():.4f}",
        "fits": lambda name: f"{cost[name]['fits'].iloc[0]}",
        remark[0]: lambda name: remark[1][name],
        "median seconds": lambda name: f"{cost[name]['seconds'].median():.3g}",
        "mean seconds": lambda name: f"{cost[name]['seconds'].mean():.3g}",
        "infinite losses": lambda name: f"{int(cost[name]['infinite'].sum())}",
    }
    return table_of(found.ranks.index, columns)


def tests_of(found: Ranking) -> str:
    """Friedman's and Nemenyi's in a sentence each."""
    friedman = (
        f" Friedman's test over datasets, in log-loss: χ² = {found.statistic:.1f}, p = "
        f"{found.p_value:.2g}."
    )
    return (
        f"{found.n_cells} cells of {found.n_datasets} datasets."
        f"{friedman if found.p_value == found.p_value else ''} Mean ranks further apart "
        f"than {found.critical_difference:.2f} differ at 5 % by Nemenyi's test, which allows for "
        f"all pairs at once; it does not tell {found.best} from: {listed(found.like_the_best)}."
    )


def _slower(rows: pd.DataFrame, found: Ranking) -> list[str]:
    """Where tuned angcal takes longer than the best of the peers, the cells being large."""
    peer = _best_peer(found)
    seconds = by_method(rows, "seconds")[[TUNED, peer]].groupby(level=CELL, sort=False).median()
    entries = (rows["n"] * rows["d"]).groupby([rows[key] for key in CELL], sort=False).first()
    slower = entries[seconds[TUNED] > seconds[peer]]
    if slower.empty:
        return [f"Seconds: {TUNED} takes fewer than {peer} in every cell."]
    return [
        f"Seconds: {TUNED} takes more than {peer} in {len(slower)} of {len(seconds)} cells, of "
        f"{slower.min():,} entries n·d or more."
    ]


def _later_splits(rows: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The first ranks once more without the splits on which curves were compared."""
    later = rows[rows["split"] >= settings.costly_splits]
    if later.empty:
        return []
    means = everywhere(cell_means(by_method(later, "log_loss")))
    found = ranking(means)
    first = "; ".join(f"{name} {found.ranks[name]:.2f}" for name in found.ranks.index[:3])
    return [
        f"Over the splits from number {settings.costly_splits} on alone, on which no choice of "
        f"angcal's was tried out, the first three are: {first}."
    ]


def _claim(found: Ranking, settings: RealSettings) -> str:
    """Whether one of angcal's comes first, and at what share of the best peer's fits."""
    order = "; ".join(f"{name}, {found.ranks[name]:.2f}" for name in found.ranks.index[:4])
    own = next(str(name) for name in found.ranks.index if name in OWN_NAMES)
    told = f"Best mean ranks in log-loss: {order}. Is one of angcal's first? "
    told += yes_or_no(found.best == own)
    return f"{told}. {_share_of_fits(own, _best_peer(found), settings)}"


def _best_peer(found: Ranking) -> str:
    return next(str(name) for name in found.ranks.index if name not in OWN_NAMES)


def _share_of_fits(own: str, other: str, settings: RealSettings) -> str:
    fits, others = (METHODS[name].fits(settings.n_penalties) for name in (own, other))
    answer = yes_or_no(fits < SHARE_OF_FITS * others)
    return f"Has {own} less than a tenth of the fits of {other}? {answer}: {fits} against {others}."


def _costly(rows: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The ranks once more over the cells and splits in which the costly methods were run."""
    values = where_costly(by_method(rows, "log_loss"))
    if values.empty:
        return []
    title = (
        f"{_small(settings)}, where costly methods were run as well. Those that are tuned by folds "
        "search a penalty inside every fold:"
    )
    kept = rows_of(rows, values)
    means = everywhere(cell_means(regular(values)))
    dropped = [name for name in values if name not in means]
    told = f"Not ranked, as it was run on a part of the splits or failed: {listed(dropped)}."
    return [title, *_ranked(kept, means, settings), *([told] if dropped else [])]


def _small(settings: RealSettings) -> str:
    return (
        f"The same over the cells with n·d up to {settings.costly_entries:,} and the first "
        f"{settings.costly_splits} splits"
    )


def where_costly(values: pd.DataFrame, methods: Mapping[str, Method] = METHODS) -> pd.DataFrame:
    """The splits on which costly methods were run as well."""
    costly = [name for name in values if methods[name].costly]
    return values[values[costly].notna().any(axis=1)]


def duel_table(values: pd.DataFrame, own: str) -> list[str]:
    """Win, tie and loss of one method against each of the others."""
    columns: Columns = {
        "against": lambda duel: duel.peer,
        "wins / ties / losses": lambda duel: f"{duel.wins} / {duel.ties} / {duel.losses}",
        "mean difference in log-loss": lambda duel: f"{duel.difference:+.4f}",
        "p (Holm)": lambda duel: f"{duel.p_value:.2g}",
    }
    told = f"**{own}** against each of the others, by cells:"
    return [told, table_of(duels(values, own), columns)]


def remarks(settings: Any) -> str:
    """How the tables are to be read."""
    return (
        f"A cell is won where the mean of the paired differences over its splits exceeds {CLEAR:g} "
        "standard errors; p is that of Wilcoxon's signed-rank test over datasets. Fits are linear "
        f"models fitted; tuned peers choose among {settings.n_penalties} penalties. Seconds are "
        "those of one core, for fit and prediction. The log-loss is clipped at 1e-6; infinite "
        "losses are test rows whose class was given probability 0. Splits of one dataset share "
        "rows, so that "
        "standard errors are too small rather than too large."
    )


def listed(names: Sequence[str]) -> str:
    """Names in a row, or "none"."""
    return "; ".join(names) if names else "none"


# -- log-loss ----------------------------------------------------------------------------------


def excess(means: pd.DataFrame) -> pd.DataFrame:
    """Log-loss above that of the best method of the cell."""
    return means.sub(means.min(axis=1), axis=0)


def complete(means: pd.DataFrame) -> pd.DataFrame:
    """Cells of the datasets that have every size: n/d changes there, and the datasets do not."""
    sizes = means.index.get_level_values("ratio")
    counts = sizes.to_series(index=means.index).groupby(level="dataset").transform("nunique")
    return means[(counts == sizes.nunique()).to_numpy()]


def summarize_losses(frames: Frames, settings: RealSettings) -> str:
    """Markdown: excess log-loss by n/d, the cells that a peer wins, and the tasks."""
    values = by_method(joined(frames), "log_loss")
    parts = [
        coverage(frames, settings, len(BENCHMARK.trials(settings))),
        "Log-loss above that of the best method of the cell, mean over datasets. Columns hold "
        "different datasets, as files have different lengths. Where a file is short, or n would "
        f"exceed {settings.max_train:,}, n/d is smaller than its column says:",
        excess_table(everywhere(cell_means(values)), "ratio", "n/d"),
        *_costly_by_ratio(values, settings),
        *lost_table(
            values,
            TUNED,
            "peers",
            {"dataset": lambda cell: labeled(cell[0]), "n/d": lambda cell: f"{cell[1]:g}"},
        ),
        "Tasks:",
        _tasks(frames["splits"]),
        _left_out(frames["splits"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def excess_table(means: pd.DataFrame, level: str, title: str) -> str:
    """Mean excess of each method at each size, and how many cells there are of it."""
    grouped = excess(means).groupby(level=level)
    table, counts = grouped.mean(), grouped.size()
    order = table.mean().sort_values(kind="stable").index
    lines = [(name, *(f"{value:.4f}" for value in table[name])) for name in order]
    header = (f"{title} = {size:g}" for size in table.index)
    return markdown(("method", *header), [("*cells*", *map(str, counts)), *lines])


def _costly_by_ratio(values: pd.DataFrame, settings: RealSettings) -> list[str]:
    inside = where_costly(values)
    if inside.empty:
        return []
    title = f"{_small(settings)}, with the costly methods:"
    return [title, excess_table(everywhere(cell_means(regular(inside))), "ratio", "n/d")]


def lost_cells(values: pd.DataFrame, own: str) -> list[tuple[Any, str, float, float]]:
    """(cell, best peer, own − peer, standard error) where the best other is clearly better."""
    means = cell_means(values)
    peers = [name for name in means if name not in OWN_NAMES]
    best = means[peers].dropna(how="all").idxmin(axis=1)
    found = {peer: gaps(values, own, peer) for peer in best.unique()}
    lost = []
    for cell, peer in best.items():
        if cell not in found[peer].index:
            continue  # one of the two failed wherever the other was run
        gap = found[peer].loc[cell]
        if gap["mean"] > CLEAR * gap["sem"]:
            lost.append((cell, peer, float(gap["mean"]), float(gap["sem"])))
    return sorted(lost, key=lambda entry: -entry[2])


def lost_table(
    values: pd.DataFrame, own: str, peers: str, cells: Mapping[str, Callable[[Any], str]]
) -> list[str]:
    """A line for each cell in which the best of the peers is clearly better than one of ours."""
    lost = lost_cells(values, own)
    counts = values[own].dropna().groupby(level=cell_of(values)).size()
    once = int((counts < 2).sum())
    told = (
        f"The best of the {peers} is clearly better than {own} in {len(lost)} of "
        f"{len(counts) - once} cells. Choosing the best of many by the same splits flatters "
        "the peers."
    )
    told += f" {once} cells have one split of {own}, which cannot tell." if once else ""
    lines = [
        (*(cell(where) for cell in cells.values()), peer, with_error(mean, error, None))
        for where, peer, mean, error in lost
    ]
    header = (*cells, "best peer", f"log-loss of {own} minus its")
    return [f"{told} These are:", markdown(header, lines)] if lines else [told]


def labeled(dataset: str) -> str:
    """The name of a dataset, with what it is where it is not the published one."""
    standing = CATALOGUE[dataset].standing
    return dataset if standing == "as published" else f"{dataset} ({standing})"


def _tasks(splits: pd.DataFrame) -> str:
    run = splits[splits["not_run"] == ""]
    columns: Columns = {
        "dataset": lambda task: task[0],
        "class 1 against class 0": lambda task: getattr(CATALOGUE[task[0]].labels, "name", NOTHING),
        "file": lambda task: CATALOGUE[task[0]].standing,
        "d": lambda task: f"{task[1]['d'].iloc[0]}",
        "class 1": lambda task: f"{task[1]['positive'].iloc[0]:.0%}",
        "n": lambda task: ", ".join(str(n) for n in sorted(task[1]["n"].unique())),
    }
    return table_of(run.groupby("dataset", sort=False), columns)


def _left_out(splits: pd.DataFrame) -> str:
    """Sets without any size, with the reasons, and sizes that were not run."""
    lines = []
    for name, group in splits[splits["side"].isin(SIDES)].groupby("dataset", sort=False):
        reasons = group[group["not_run"] != ""].groupby("not_run", sort=False)["ratio"].unique()
        lines += [
            f"{name} at n/d = {', '.join(f'{ratio:g}' for ratio in sorted(ratios))}: {reason}"
            for reason, ratios in reasons.items()
        ]
    told = f"Sizes not run: {'; '.join(lines)}." if lines else ""
    unlisted = [
        name
        for name, entry in CATALOGUE.items()
        if entry.labels is not None and name not in LABELED
    ]
    return f"{told} Loader only, hence not part of the benchmark: {listed(unlisted)}.".strip()
