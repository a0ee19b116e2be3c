"""Markdown of the benchmark on real labels: ranks and costs, duels, and where a peer wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from angcal.benchmark.compare import (
    CELL,
    CLEAR,
    Ranking,
    by_method,
    cell_means,
    duels,
    everywhere,
    gaps,
    joined,
    ranking,
)
from angcal.benchmark.methods import COARSE, DEFAULT, TUNED
from angcal.benchmark.peers import METHODS
from angcal.benchmark.real import LABELLED, OWN_NAMES, RealSettings, trials
from angcal.datasets import CATALOGUE
from angcal.reproduce.experiment import Frames
from angcal.reproduce.tables import NOTHING, markdown, with_error, yes_or_no

if TYPE_CHECKING:
    import pandas as pd

RANKED = {
    "log_loss": "log-loss",
    "brier": "Brier",
    "ece_debiased": "debiased ECE",
    "smooth_ece": "smooth ECE",
}
SHARE_OF_FITS = 0.1
MOST_CELLS = 25
MOST_REASON = 120


# -- ranks -------------------------------------------------------------------------------------


def summarise_ranks(frames: Frames, settings: RealSettings) -> str:
    """Markdown: mean ranks and costs, tests, and both of angcal's classifiers against each peer."""
    rows = joined(frames)
    means = cell_means(by_method(rows, "log_loss"))
    parts = [
        coverage(frames, settings),
        "Mean rank over all cells, a cell being a task at one size (1 is best):",
        *_ranked(rows, everywhere(means).drop(columns=COARSE, errors="ignore"), settings),
        *_coarse(everywhere(means), settings),
        *_costly(rows, settings),
        *(part for own in (TUNED, DEFAULT) for part in _duels(rows, own)),
        _remarks(settings),
    ]
    return "\n\n".join(parts) + "\n"


def coverage(frames: Frames, settings: RealSettings) -> str:
    """What has been run, what could not be, and what failed."""
    splits, failures = frames["splits"], frames["failures"]
    run = splits[splits["not_run"] == ""]
    total = len(trials(settings))
    lines = [
        f"{len(splits)} of {total} trials done; {run.groupby(CELL).ngroups} cells of "
        f"{run['dataset'].nunique()} datasets, {_split_counts(run)} of {settings.splits} splits "
        "each by both sides."
    ]
    # angcal's own trials need none of the packages.
    missing = splits[splits["side"] == "peers"]["missing"]
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


def _split_counts(run: pd.DataFrame) -> str:
    """How many splits of a cell both sides have run: from the fewest to the most."""
    sides = run.groupby([*CELL, "split"])["side"].nunique()
    counts = (sides == run["side"].nunique()).groupby(level=CELL).sum()
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _ranked(rows: pd.DataFrame, means: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The table of ranks and costs over the cells and methods of ``means``, and its tests."""
    found = ranking(means)
    inside = rows.set_index(CELL).loc[means.index].reset_index()
    others = {
        metric: ranking(cell_means(by_method(inside, metric))[list(means)]).ranks
        for metric in RANKED
    }
    cost = inside.groupby("method")
    lines = [
        (
            name,
            *(f"{others[metric][name]:.2f}" for metric in RANKED),
            f"{means[name].mean():.4f}",
            f"{METHODS[name].fits(settings.n_penalties)}",
            "a quarter" if METHODS[name].reduced else "none",
            f"{cost.get_group(name)['seconds'].median():.3g}",
            f"{int(cost.get_group(name)['infinite'].sum())}",
        )
        for name in found.ranks.index
    ]
    header = (
        *("method", *RANKED.values(), "mean log-loss", "fits", "labels held out"),
        *("median seconds", "infinite losses"),
    )
    return [markdown(header, lines), _tests(found), _claim(found, settings)]


def _tests(found: Ranking) -> str:
    return (
        f"{found.n_cells} cells of {found.n_datasets} datasets. Friedman's test over datasets, in "
        f"log-loss: χ² = {found.statistic:.1f}, p = {found.p_value:.2g}. Mean ranks further apart "
        f"than {found.critical_difference:.2f} differ at 5 % by Nemenyi's test."
    )


def _claim(found: Ranking, settings: RealSettings) -> str:
    """Whether tuned angcal comes first, and at what share of the next one's fits."""
    best, other = found.best, found.runner_up
    told = f"Best mean rank in log-loss: {best}, {found.ranks[best]:.2f}; then {other}, "
    told += f"{found.ranks[other]:.2f}. "
    if best != TUNED:
        return told + f"Is {TUNED} first? no."
    return f"{told}Is {TUNED} first? yes. {_share_of_fits(best, other, settings)}"


def _share_of_fits(own: str, other: str, settings: RealSettings) -> str:
    fits, others = (METHODS[name].fits(settings.n_penalties) for name in (own, other))
    answer = yes_or_no(fits < SHARE_OF_FITS * others)
    return f"At less than a tenth of the fits of {other}? {answer}: {fits} against {others}."


def _coarse(means: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The rank of the coarse path where it takes the place of the fine one."""
    if COARSE not in means or TUNED not in means:
        return []
    found = ranking(means.drop(columns=TUNED))
    peer = next(name for name in found.ranks.index if name not in OWN_NAMES)
    gap = float((means[COARSE] - means[TUNED]).mean())
    return [
        f"With half as many penalties, {COARSE} in the place of {TUNED}: mean rank "
        f"{found.ranks[COARSE]:.2f}, the best peer's {found.ranks[peer]:.2f} ({peer}); its mean "
        f"log-loss is that of {TUNED} {gap:+.4f}. {_share_of_fits(COARSE, peer, settings)}"
    ]


def _costly(rows: pd.DataFrame, settings: RealSettings) -> list[str]:
    """The ranks once more over the cells and splits in which the costly methods were run."""
    values = by_method(rows, "log_loss")
    costly = [name for name in values if METHODS[name].costly and values[name].isna().any()]
    if not costly:
        return []
    title = (
        f"The same over the cells with n·d up to {settings.costly_entries:,} and the first "
        f"{settings.costly_splits} splits, where {' and '.join(costly)} were run as well:"
    )
    inside = values[costly[0]].notna()
    kept = rows.set_index([*CELL, "split"]).loc[values.index[inside]].reset_index()
    means = everywhere(cell_means(values[inside])).drop(columns=COARSE, errors="ignore")
    return [title, *_ranked(kept, means, settings)]


def _duels(rows: pd.DataFrame, own: str) -> list[str]:
    """Win, tie and loss of one method against each of the others."""
    values = by_method(rows, "log_loss").drop(columns=COARSE, errors="ignore")
    lines = [
        (
            duel.peer,
            f"{duel.wins} / {duel.ties} / {duel.losses}",
            f"{duel.difference:+.4f}",
            f"{duel.p_value:.2g}",
        )
        for duel in duels(values, own)
    ]
    header = ("against", "wins / ties / losses", "mean difference in log-loss", "p (Holm)")
    return [f"**{own}** against each of the others, by cells:", markdown(header, lines)]


def _remarks(settings: RealSettings) -> str:
    return (
        f"A cell is won where the mean of the paired differences over its splits exceeds {CLEAR:g} "
        "standard errors; p is that of Wilcoxon's signed-rank test over datasets. Fits are linear "
        f"models fitted, {settings.n_penalties} penalties in the tuned ones. Seconds are those of "
        "one core, for fit and prediction. The log-loss is clipped at 1e-6; infinite losses are "
        "test rows whose class was given probability 0. Splits of one dataset share rows, so that "
        "standard errors are too small rather than too large."
    )


# -- log-loss against n/d ----------------------------------------------------------------------


def excess(means: pd.DataFrame) -> pd.DataFrame:
    """Log-loss above that of the best method of the cell."""
    return means.sub(means.min(axis=1), axis=0)


def summarise_losses(frames: Frames, settings: RealSettings) -> str:
    """Markdown: excess log-loss by n/d, the cells that a peer wins, and the tasks."""
    values = by_method(joined(frames), "log_loss")
    parts = [
        coverage(frames, settings),
        "Log-loss above that of the best method of the cell, mean over datasets. Where a file is "
        f"short, or n would exceed {settings.max_train:,}, n/d is smaller than its column says:",
        _by_ratio(cell_means(values)),
        *_lost(values),
        "Tasks:",
        _tasks(frames["splits"]),
        _left_out(frames["splits"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _by_ratio(means: pd.DataFrame) -> str:
    table = excess(means).groupby(level="ratio").mean()
    order = table.mean().sort_values(kind="stable").index
    lines = [
        (name, *(NOTHING if value != value else f"{value:.4f}" for value in table[name]))
        for name in order
    ]
    return markdown(("method", *(f"n/d = {ratio:g}" for ratio in table.index)), lines)


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
        (cell[0], f"{cell[1]:g}", peer, with_error(mean, error, None))
        for cell, peer, mean, error in lost[:MOST_CELLS]
    ]
    if not lines:
        return [told]
    header = ("dataset", "n/d", "best peer", f"log-loss of {TUNED} minus its")
    return [f"{told} The largest differences:", markdown(header, lines)]


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
    for name, group in splits.groupby("dataset", sort=False):
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
    return f"{told} Loader only, hence not part of the benchmark: {_listed(unlisted)}.".strip()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
