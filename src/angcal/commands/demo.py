"""``angcal demo``: real digits, 100 labels, every calibrator side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from angcal.arguments import seed
from angcal.commands.outcome import (
    DONE,
    PACKAGE_MISSING,
    WRONG_USAGE,
    lacks_packages,
    tell,
    why_not_writable,
)

SUFFIXES = (".png", ".svg", ".pdf")
DESCRIPTION = """\
Tell even from odd handwritten digits with 100 labels, and compare angcal with other calibrators:
a table with all their scores is printed, and a reliability diagram saved. It takes a minute and
needs no data of yours and no network.
"""
EPILOG = """\
examples:
  angcal demo
  angcal demo --splits 3 --out reliability.png
"""
OPTIONS = ("out", "splits", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal demo``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--out", type=Path, help="file of the picture (default: demo_output/reliability.png)"
    )
    parser.add_argument("--splits", type=_splits, help="random splits, at least 2 (default: 10)")
    parser.add_argument("--seed", type=seed, help="of the splits (default: 0)")


def _splits(text: str) -> int:
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError("a standard error needs at least 2 splits")
    return number


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if lacks_packages("demo", "matplotlib", "tqdm"):
        return PACKAGE_MISSING
    if options.out is not None and (reason := why_not_writable(options.out, SUFFIXES)):
        tell(reason)
        return WRONG_USAGE
    from angcal.commands.progress import stages
    from angcal.demo import main

    given = {name: getattr(options, name) for name in OPTIONS}
    arguments = [f"--{name}={value}" for name, value in given.items() if value is not None]
    with stages(1) as begin:
        begin("calibrating digits")
        main(arguments)
    return DONE
