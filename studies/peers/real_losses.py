"""Markdown of the benchmark on real labels: log-loss by n/d, where a peer wins, and the tasks."""

from __future__ import annotations

import pandas as pd

from studies.datasets import CATALOGUE
from studies.engine.experiment import Frames
from studies.engine.tables import NOTHING, markdown, with_error
from studies.peers.compare import CLEAR, by_method, cell_means, everywhere, gaps, joined
from studies.peers.methods import COARSE, TUNED
from studies.peers.real import LABELLED, OWN_NAMES, SELDOM, RealSettings
from studies.peers.real_tables import coverage, listed, where_costly


def excess(means: pd.DataFrame) -> pd.DataFrame:
    """Log-loss above that of the best method of the cell."""
    return means.sub(means.min(axis=1), axis=0)


def complete(means: pd.DataFrame) -> pd.DataFrame:
    """Cells of the datasets that have every size: n/d changes there, and the datasets do not."""
    sizes = means.index.get_level_values("ratio")
    counts = sizes.to_series(index=means.index).groupby(level="dataset").transform("nunique")
    return means[(counts == sizes.nunique()).to_numpy()]


def summarise_losses(frames: Frames, settings: RealSettings) -> str:
    """Markdown: excess log-loss by n/d, the cells that a peer wins, and the tasks."""
    values = by_method(joined(frames), "log_loss")
    parts = [
        coverage(frames, settings),
        "Log-loss above that of the best method of the cell, mean over datasets. Columns hold "
        "different datasets, as files have different lengths. Where a file is short, or n would "
        f"exceed {settings.max_train:,}, n/d is smaller than its column says:",
        _by_ratio(everywhere(cell_means(values))),
        *_costly_by_ratio(values, settings),
        *_lost(values),
        "Tasks:",
        _tasks(frames["splits"]),
        _left_out(frames["splits"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _by_ratio(means: pd.DataFrame) -> str:
    grouped = excess(means.drop(columns=COARSE, errors="ignore")).groupby(level="ratio")
    table, counts = grouped.mean(), grouped.size()
    order = table.mean().sort_values(kind="stable").index
    lines = [(name, *(f"{value:.4f}" for value in table[name])) for name in order]
    header = (f"n/d = {ratio:g}" for ratio in table.index)
    return markdown(("method", *header), [("*datasets*", *map(str, counts)), *lines])


def _costly_by_ratio(values: pd.DataFrame, settings: RealSettings) -> list[str]:
    inside = where_costly(values)
    if inside.empty:
        return []
    title = (
        f"The same over the cells with n·d up to {settings.costly_entries:,} and the first "
        f"{settings.costly_splits} splits, with the costly methods:"
    )
    return [title, _by_ratio(everywhere(cell_means(inside)))]


def lost_cells(values: pd.DataFrame, own: str) -> list[tuple[tuple[str, float], str, float, float]]:
    """(cell, best peer, own − peer, standard error) where the best other is clearly better."""
    means = cell_means(values)
    peers = [name for name in means if name not in OWN_NAMES]
    best = means[peers].idxmin(axis=1)
    found = {peer: gaps(values, own, peer) for peer in best.unique()}
    lost = []
    for cell, peer in best.items():
        if cell not in found[peer].index:
            continue  # one of the two failed wherever the other was run
        gap = found[peer].loc[cell]
        if gap["mean"] > CLEAR * gap["sem"]:
            lost.append((cell, peer, float(gap["mean"]), float(gap["sem"])))
    return sorted(lost, key=lambda entry: -entry[2])


def _lost(values: pd.DataFrame) -> list[str]:
    lost, n_cells = lost_cells(values, TUNED), len(cell_means(values))
    told = (
        f"The best of the peers is clearly better than {TUNED} in {len(lost)} of {n_cells} cells. "
        "Choosing the best of many by the same splits flatters the peers."
    )
    lines = [
        (labelled(cell[0]), f"{cell[1]:g}", peer, with_error(mean, error, None))
        for cell, peer, mean, error in lost
    ]
    if not lines:
        return [told]
    header = ("dataset", "n/d", "best peer", f"log-loss of {TUNED} minus its")
    return [f"{told} These are:", markdown(header, lines)]


def labelled(dataset: str) -> str:
    """The name of a dataset, with what it is where it is not the published one."""
    standing = CATALOGUE[dataset].standing
    return dataset if standing == "as published" else f"{dataset} ({standing})"


def _tasks(splits: pd.DataFrame) -> str:
    run = splits[splits["not_run"] == ""]
    lines = [
        (
            name,
            _task_of(name),
            CATALOGUE[name].standing,
            f"{group['d'].iloc[0]}",
            f"{group['positive'].iloc[0]:.0%}",
            ", ".join(str(n) for n in sorted(group["n"].unique())),
        )
        for name, group in run.groupby("dataset", sort=False)
    ]
    header = ("dataset", "class 1 against class 0", "file", "d", "class 1", "n")
    return markdown(header, lines)


def _task_of(dataset: str) -> str:
    rule = CATALOGUE[dataset].labels
    return rule.name if rule is not None else NOTHING


def _left_out(splits: pd.DataFrame) -> str:
    """Sets without any size, with the reasons, and sizes that were not run."""
    lines = []
    for name, group in splits[splits["side"] != SELDOM].groupby("dataset", sort=False):
        reasons = group[group["not_run"] != ""].groupby("not_run", sort=False)["ratio"].unique()
        lines += [
            f"{name} at n/d = {', '.join(f'{ratio:g}' for ratio in sorted(ratios))}: {reason}"
            for reason, ratios in reasons.items()
        ]
    told = f"Sizes not run: {'; '.join(lines)}." if lines else ""
    unlisted = [
        name
        for name, entry in CATALOGUE.items()
        if entry.labels is not None and name not in LABELLED
    ]
    return f"{told} Loader only, hence not part of the benchmark: {listed(unlisted)}.".strip()
