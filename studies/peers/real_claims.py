"""What is claimed of the benchmark on real labels: on all tasks, and where nothing was chosen."""

from __future__ import annotations

import pandas as pd

from studies.engine.experiment import Frames
from studies.engine.tables import NOTHING, markdown
from studies.peers.compare import (
    by_method,
    cell_means,
    cell_of,
    duels,
    everywhere,
    joined,
    ranking,
    regular,
)
from studies.peers.methods import AVERAGED, OWN_NAMES, TUNED
from studies.peers.peers import BBAI, EVIDENCE, METHODS
from studies.peers.real import RealSettings
from studies.peers.real_tables import lost_cells, rows_of, where_costly
from studies.planner.outcomes import half_of

RIVALS = ("logistic tuned", EVIDENCE, BBAI, "CV temperature, tuned")
"""Whom angcal is tested against; Holm's correction is over these."""
CONTESTS = ((TUNED, False), (TUNED, True), (AVERAGED, True))
"""One of angcal's methods, and whether averages of models are among its competitors."""


def summarize_claims(frames: Frames, settings: RealSettings) -> str:
    """Markdown: ranks and tests over all tasks, the half that choices were made on, the other."""
    rows = joined(frames)
    told = (
        "Tasks are in two halves by a hash of their names (`studies.planner.outcomes.half_of`). "
        "What came after version 0.1.0, the penalty of rare columns and the choice of C, was "
        "chosen on the first half, on splits from number 100 on, which no table has; the second "
        "half is what is claimed. p-values are those of Wilcoxon's signed-rank test over datasets "
        f"in log-loss, with Holm's correction over the {len(RIVALS)} columns. *One model* leaves "
        "out every method that deploys an average:"
    )
    small = where_costly(by_method(rows, "log_loss"))
    size = f"n·d up to {settings.costly_entries:,}"
    scopes = [("all", rows), (size, rows_of(rows, small))]
    if EVIDENCE in small:
        where = small[small[EVIDENCE].notna()]
        scopes.append((f"{size}, where evidence was run", rows_of(rows, where)))
    lines = [
        line
        for title, kept in scopes
        for own, averages in CONTESTS
        for half in ("both", "first", "second")
        if (line := _claim_line(kept, own, averages, half, title)) is not None
    ]
    header = ("cells", "half", "among", "method", "log-loss: rank, next", "Brier: rank, next")
    tests = (f"p: {name}" for name in RIVALS)
    return f"{told}\n\n{markdown((*header, *tests, 'clearly lost'), lines)}\n"


def _claim_line(
    rows: pd.DataFrame, own: str, averages: bool, half: str, title: str
) -> tuple[str, ...] | None:
    kept = rows if half == "both" else rows[rows["dataset"].map(half_of) == half]
    if own not in set(kept["method"]):
        return None
    others = {name for name in OWN_NAMES if name != own}
    names = set(kept["method"]) - others
    names -= set() if averages else {name for name in names if METHODS[name].averages}
    kept = kept[kept["method"].isin(names)]
    values = by_method(kept, "log_loss")
    means = everywhere(cell_means(regular(values)))
    if own not in means:
        return None
    standing = [
        _standing(everywhere(cell_means(regular(by_method(kept, metric)))), own)
        for metric in ("log_loss", "brier")
    ]
    named = [name for name in RIVALS if name in values]
    found = {duel.peer: duel.p_value for duel in duels(values[[own, *named]], own)}
    tests = [f"{found[name]:.2g}" if name in found else NOTHING for name in RIVALS]
    told = int((values[own].dropna().groupby(level=cell_of(values)).size() > 1).sum())
    lost = f"{len(lost_cells(values, own))} of {told}"
    among = "all" if averages else "one model"
    return f"{title}: {len(means)}", half, among, own, *standing, *tests, lost


def _standing(means: pd.DataFrame, own: str) -> str:
    """Mean rank of one method, and the best of the others with its own."""
    ranks = ranking(means).ranks
    other = next(str(name) for name in ranks.index if name != own)
    return f"{ranks[own]:.2f}; {other} {ranks[other]:.2f}"
