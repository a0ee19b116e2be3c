"""``python -m studies benchmark speed``: time, memory, and the page made of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from studies.engine.command import DONE, FAILED, say

DESCRIPTION = """\
Time fits, predictions and penalty paths beside those of scikit-learn, and take their memory: a
selection in under ten minutes on two cores, or everything with --full. Finished cases are kept: the
same command goes on where it was stopped. The full run fills docs/speed.md.
"""
PARTS = ("floor", "fit", "predict", "memory", "growth", "path", "draws")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies benchmark speed``."""
    parser.description = DESCRIPTION
    parser.add_argument("--full", action="store_true", help="everything, not a selection")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="these parts")
    parser.add_argument("--out", type=Path, help="folder of the CSV files")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of BLAS and OpenMP")
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument(
        "--page", action="store_true", help="run nothing; only write tables, pictures and page"
    )


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    from studies.speed.cases import FULL, QUICK
    from studies.speed.plot import present
    from studies.speed.run import forget, run
    from studies.speed.store import RESULTS

    selection = FULL if options.full else QUICK
    folder = options.out or RESULTS / selection.name
    if not options.page:
        if options.fresh:
            forget(folder, options.only)
        try:
            left_out = run(selection, folder, options.threads, options.only)
        except ValueError as error:
            say(str(error))
            return FAILED
        if left_out:
            print(f"Left out after {selection.minutes:g} minutes: {', '.join(left_out)}")
    present(folder, to_page=options.full and options.out is None)
    return DONE
