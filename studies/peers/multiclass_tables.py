"""Markdown and picture of ``studies benchmark multiclass``: ranks, the guard, leaves, costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from studies.engine.experiment import Frames, Result
from studies.engine.tables import NOTHING, markdown, with_error
from studies.peers.compare import by_method, cell_means, gaps, joined, ranking
from studies.peers.methods import DEFAULT, NO_FOLDS, OWN_NAMES, TUNED
from studies.peers.multiclass import (
    BENCHMARK,
    CELL,
    LEAF_ROWS,
    LEAVES,
    LOO_TEMPERATURE,
    METHODS,
    MULTICLASS,
    PLAIN,
    SIMULATED,
    MulticlassSettings,
)
from studies.peers.real_figures import picture_of_ranks
from studies.peers.real_tables import (
    coverage,
    duel_table,
    excess_table,
    listed,
    lost_table,
    rank_table,
    remarks,
    rows_of,
    tests_of,
    where_costly,
)

RANKED = {
    "log_loss": "log-loss",
    "brier": "Brier",
    "classwise_ece": "classwise ECE",
    "top_label_ece": "top-label ECE",
}
YARDSTICKS = (PLAIN, LOO_TEMPERATURE)
SLACK = 0.02
FOLDED, FOLDED_ENSEMBLE = "CV temperature, one model", "CV temperature"
LARGEST = 12
HEADER = ("dataset", "classes", "n per class", "base")
CELL_COLUMNS = {
    title: lambda cell, place=place: str(cell[place]).strip() for place, title in enumerate(HEADER)
}


def rows_by_kind(
    frames: Frames, settings: MulticlassSettings
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Rows of real labels under one penalty, of tuned ones, and of simulated labels."""
    rows = joined(frames, CELL)
    rows["divergence"] = pd.to_numeric(rows["divergence"])
    rows = rows[rows["per_class"].isin(settings.sizes)]
    made = rows["dataset"].str.startswith(SIMULATED)
    tuned = rows["base"] == "tuned"
    return rows[~made & ~tuned], rows[~made & tuned], rows[made]


def summarize(frames: Frames, settings: MulticlassSettings) -> str:
    """Markdown: ranks and tests, the guard's promise, leaf shapes, simulated labels, costs."""
    fixed, tuned, made = rows_by_kind(frames, settings)
    parts = [
        _coverage(frames, settings),
        *_section("One penalty, C = 1 or 0.01", fixed, DEFAULT, settings),
        *_section("Tuned", tuned, TUNED, settings),
        *_guard(pd.concat([fixed, made[made["base"] != "tuned"]])),
        *_leaves(joined(frames, CELL), settings),
        *_simulated(made),
        *_seconds(fixed),
        remarks(settings),
        "Ranks are over the cells in which all methods of a table gave probabilities. A method "
        "with folds has five, or as many as the rarest class has training rows.",
    ]
    return "\n\n".join(parts) + "\n"


def _coverage(frames: Frames, settings: MulticlassSettings) -> str:
    """What has been run; methods that had no folds are counted apart from those that failed."""
    skipped = frames["failures"]["reason"].str.contains(NO_FOLDS, regex=False)
    counts = frames["failures"][skipped].groupby("method").size()
    others = {**frames, "failures": frames["failures"][~skipped]}
    told = coverage(others, settings, len(BENCHMARK.trials(settings)), CELL)
    if counts.empty:
        return told
    named = listed([f"{method} {count} times" for method, count in counts.items()])
    return f"{told} Skipped, as the rarest class has one training row: {named}."


# -- ranks -------------------------------------------------------------------------------------


def whole(values: pd.DataFrame) -> pd.DataFrame:
    """Cell means of the methods that were run in most cells, over the cells that have them all."""
    means = cell_means(values)
    return means.loc[:, means.notna().mean() > 0.5].dropna()


def one_model(values: pd.DataFrame) -> pd.DataFrame:
    """The methods that deploy one model."""
    return values[[name for name in values if not METHODS[name].averages]]


def _section(title: str, rows: pd.DataFrame, own: str, settings: MulticlassSettings) -> list[str]:
    """Ranks of the methods that deploy one model and of all, lost cells, excess, duels."""
    if rows.empty:
        return []
    values = by_method(rows, "log_loss", CELL)
    usual = values[[name for name in values if not METHODS[name].costly]]
    small = where_costly(values, METHODS)
    parts = [f"### {title}"]
    parts += _ranked("Methods that deploy one model", rows, whole(one_model(usual)))
    if len(one_model(usual).columns) < len(usual.columns):
        parts += _ranked("All methods", rows, whole(usual))
    if len(small):
        kept = rows_of(rows, small)
        parts.append(
            f"The same with the costly methods, where n·d·K is at most {settings.costly_entries:,},"
            f" over the first {settings.costly_splits} splits."
        )
        parts += _ranked("Methods that deploy one model", kept, whole(one_model(small)))
        parts += _ranked("All methods", kept, whole(small))
    parts += [
        "Log-loss above that of the best method of the cell, mean over cells:",
        excess_table(whole(usual), "per_class", "n per class"),
        *lost_table(one_model(usual), own, "peers that deploy one model", CELL_COLUMNS),
        *duel_table(values, own),
    ]
    return parts


def _ranked(title: str, rows: pd.DataFrame, means: pd.DataFrame) -> list[str]:
    if means.empty:
        return []
    deployed = {name: "several" if METHODS[name].averages else "one" for name in means}
    table = rank_table(rows_of(rows, means), means, RANKED, ("models", deployed))
    return [f"{title}, mean ranks (1 is best):", table, tests_of(ranking(means))]


def _cell(cell: tuple[str, int, int, str]) -> tuple[str, ...]:
    return tuple(str(part).strip() for part in cell)


# -- angcal against what it contains -----------------------------------------------------------


def excess_over_yardsticks(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each cell: log-loss of angcal, of the better yardstick, which it is, and their ratio."""
    means = cell_means(by_method(rows, "log_loss", CELL))
    best = means[list(YARDSTICKS)].min(axis=1)
    found = {"ours": means[DEFAULT], "best": best, "which": means[list(YARDSTICKS)].idxmin(axis=1)}
    return pd.DataFrame(found).assign(ratio=means[DEFAULT] / best)


def _guard(rows: pd.DataFrame) -> list[str]:
    found = excess_over_yardsticks(rows)
    ratio = found["ratio"]
    above = found[ratio > 1.0 + SLACK].sort_values("ratio", ascending=False)
    told = (
        f"In {len(above)} of {len(found)} cells {DEFAULT} is more than {100 * SLACK:g} % above the "
        f"better of {' and '.join(YARDSTICKS)}; in {int((ratio < 1.0).sum())} it is below both. "
        f"Its log-loss over theirs has a median of {ratio.median():.3f}, from {ratio.min():.3f} to "
        f"{ratio.max():.3f}."
    )
    values = by_method(rows, "log_loss", CELL)
    lines = []
    for cell, line in above.iterrows():
        gap = gaps(values, DEFAULT, line["which"]).loc[cell]
        number = f"{line['ratio']:.3f}"
        difference = with_error(gap["mean"], gap["sem"], None)
        lines.append((*_cell(cell), f"{line['ours']:.4f}", line["which"], number, difference))
    header = (*HEADER, DEFAULT, "better yardstick", "ratio", "difference")
    title = "### Never much worse than what it starts from"
    return [title, told, markdown(header, lines)] if lines else [title, told]


# -- other tables ------------------------------------------------------------------------------


def _means_table(rows: pd.DataFrame, metric: str, names: tuple[str, ...]) -> str:
    """A line for each cell, a column for each method."""
    means = rows.pivot_table(index=[*CELL], columns="method", values=metric, sort=False)
    shown = [name for name in names if name in means]
    lines = [
        (
            *_cell(cell),
            *(NOTHING if pd.isna(line[name]) else f"{line[name]:.3f}" for name in shown),
        )
        for cell, line in means.iterrows()
    ]
    return markdown((*HEADER, *shown), lines)


def _leaves(rows: pd.DataFrame, settings: MulticlassSettings) -> list[str]:
    """The leaf shapes at 8 rows per class."""
    rows = rows[(rows["dataset"] == LEAVES) & (rows["per_class"] == LEAF_ROWS)]
    if rows.empty:
        return []
    names = (PLAIN, FOLDED_ENSEMBLE, FOLDED, LOO_TEMPERATURE, DEFAULT)
    told = f"Log-loss, mean over {rows['split'].nunique()} splits:"
    return ["### Leaf shapes", told, _means_table(rows, "log_loss", names)]


def _simulated(rows: pd.DataFrame) -> list[str]:
    """Divergence from the true probabilities."""
    if rows.empty:
        return []
    told = "KL(true ‖ predicted), mean over splits; the number behind softmax is that of columns:"
    fixed, tuned = rows[rows["base"] != "tuned"], rows[rows["base"] == "tuned"]
    names = (DEFAULT, LOO_TEMPERATURE, PLAIN, FOLDED, FOLDED_ENSEMBLE, "CV isotonic")
    parts = ["### Simulated labels", told, _means_table(fixed, "divergence", names)]
    if len(tuned):
        every = tuple(name for name in METHODS if "tuned" in name)
        parts.append(_means_table(tuned, "divergence", every))
    return parts


def _seconds(rows: pd.DataFrame) -> list[str]:
    """Seconds of one core in the largest cells."""
    sizes = rows["n"] * rows["d"] * rows["classes"]
    cells = sizes.groupby([rows[key] for key in CELL]).first().nlargest(LARGEST).index
    inside = rows.set_index([*CELL]).loc[cells].reset_index()
    names = (PLAIN, LOO_TEMPERATURE, DEFAULT, FOLDED, FOLDED_ENSEMBLE, "CV isotonic")
    told = f"Of one core, in the {len(cells)} largest cells, mean over splits:"
    return ["### Seconds", told, _means_table(inside, "seconds", names)]


def draw(frames: Frames, settings: MulticlassSettings) -> Figure:
    """Mean ranks of all methods under one penalty."""
    fixed, _, _ = rows_by_kind(frames, settings)
    means = whole(by_method(fixed, "log_loss", CELL))
    kinds = {True: "several models", False: "one model"}
    families = {name: kinds[METHODS[name].averages] for name in means}
    families |= {name: "angcal" for name in means if name in OWN_NAMES}
    return picture_of_ranks(means, families)


RESULT = Result(
    "multiclass", "three to a hundred classes against peers", MULTICLASS, summarize, draw
)
