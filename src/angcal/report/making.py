"""From a table to its report in one call."""

from __future__ import annotations

from typing import Any

from angcal.report.findings import DEFAULT_TITLE, Progress, examine
from angcal.report.page import page


def make_report(
    features: Any,
    y: Any,
    *,
    pool: Any = None,
    title: str = DEFAULT_TITLE,
    seed: int = 0,
    target: str = "y",
    repeats: int | None = None,
    progress: Progress | None = None,
) -> str:
    """An HTML page about how to get calibrated probabilities from this table.

    Parameters
    ----------
    features : DataFrame
        One row per case; numbers and categories.
    y : (n,) array or Series
        Classes.
    pool : DataFrame, optional
        Rows without labels, with the columns of `features`.
    title : str
    seed : int
        Of the folds and the bootstrap; the same seed gives the same page.
    target : str
        What `y` is called.
    repeats : int, optional
        Repetitions of the cross-validation; by default fewer for larger tables.
    progress : callable, optional
        Called as ``progress(done, total, what)`` while the page is made.

    Returns
    -------
    str
        HTML with inline pictures: it asks nothing of the network and runs no script.
    """
    found = examine(
        features,
        y,
        pool=pool,
        title=title,
        seed=seed,
        target=target,
        repeats=repeats,
        progress=progress,
    )
    return page(found)
