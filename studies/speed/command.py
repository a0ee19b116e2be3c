"""``python -m studies benchmark speed``: time, memory, and the page made of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from angcal.files import write_text
from studies.engine.command import DONE, FAILED, say

DESCRIPTION = """\
Time fits, predictions and penalty paths beside those of scikit-learn, and take their memory: a
selection in under ten minutes on two cores, or everything with --full. Finished cases are kept: the
same command goes on where it was stopped. docs/fill_speed.py makes docs/speed.md of the full run.
"""
PARTS = ("floor", "fit", "predict", "memory", "growth", "path", "draws", "real")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies benchmark speed``."""
    parser.description = DESCRIPTION
    parser.add_argument("--full", action="store_true", help="everything, not a selection")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="these parts")
    parser.add_argument("--out", type=Path, help="folder of the CSV files")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of BLAS and OpenMP")
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    from studies.speed.cases import FULL, QUICK
    from studies.speed.run import forget, run
    from studies.speed.store import RESULTS
    from studies.speed.tables import all_tables

    selection = FULL if options.full else QUICK
    folder = options.out or RESULTS / selection.name
    if options.fresh:
        forget(folder, options.only)
    try:
        left_out = run(selection, folder, options.threads, options.only)
    except ValueError as error:
        say(str(error))
        return FAILED
    if left_out:
        print(f"Left out after {selection.minutes:g} minutes: {', '.join(left_out)}")
    write_text(folder / "tables.md", all_tables(folder))
    print(all_tables(folder))
    return DONE
