"""``python -m studies reproduce``: run what is asked for, then present it from its CSV files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from studies.datasets import obtainable
from studies.engine.command import (
    DONE,
    FAILED,
    WRONG_USAGE,
    add_datasets_argument,
    add_run_arguments,
    carry_out,
    datasets_of,
    folder_of,
    known_datasets,
    present_among,
    say,
)
from studies.engine.experiment import Result, Trial
from studies.paper.catalogue import RESULTS

DESCRIPTION = """\
Re-run the experiments of Li & Sur (NeurIPS 2025) from a seed: rows to CSV files, pictures and
tables from the CSV files. A run that was stopped, however rudely, goes on where it was; a result
whose rows are all there is only drawn again. The real-data tables (table-*) look for their data in
the folder that ANGCAL_DATA names, then in the user's cache, and download what is missing. Sets that
have no download and are not there are left out, and named.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies reproduce``."""
    parser.description = DESCRIPTION
    parser.add_argument("names", nargs="*", metavar="NAME", help="results; all when none is named")
    parser.add_argument("--list", action="store_true", help="name the results and stop")
    add_datasets_argument(parser)
    add_run_arguments(parser, "paper")


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if options.list:
        width = max(map(len, RESULTS))
        print("\n".join(f"{name:<{width}}  {result.title}" for name, result in RESULTS.items()))
        return DONE
    unknown = [name for name in options.names if name not in RESULTS]
    if unknown:
        say(f"there is no result called {', '.join(unknown)}; studies reproduce --list names them")
        return WRONG_USAGE
    results = [RESULTS[name] for name in options.names or RESULTS]
    used = datasets_of(results, options.quick)
    if not known_datasets(options, used, "these results"):
        return WRONG_USAGE
    chosen = present_or_downloadable(options.datasets or used)
    results = [result for result in results if _has_rows(result, chosen, options)]
    if not results:
        say("none of these datasets is on this machine or can be downloaded")
        return FAILED

    def wanted(trial: Trial) -> bool:
        named = options.datasets is not None
        return trial["dataset"] in chosen if "dataset" in trial else not named

    return carry_out(results, options, wanted if used else None)


def _has_rows(result: Result, chosen: set[str], options: argparse.Namespace) -> bool:
    """Whether there are rows of a result, or will be."""
    used = datasets_of([result], options.quick)
    if options.datasets is not None:
        return bool(chosen & set(used))
    rows = folder_of(options) / f"{result.experiment.name}.csv"
    return not used or bool(chosen & set(used)) or rows.exists()


def present_or_downloadable(names: Sequence[str]) -> set[str]:
    """Those that are here or have a download; the others are named on standard error."""
    return present_among(
        obtainable(),
        names,
        "not on this machine and without a download, left out: {}; set ANGCAL_DATA to a folder "
        "with their files",
    )
