"""``angcal demo``: real digits, 100 labels, every calibrator side by side."""

from __future__ import annotations

import argparse

from angcal.commands.outcome import DONE, PACKAGE_MISSING, lacks_packages

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
    """Describe the command line of ``angcal demo``; the demo itself checks the values."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", help="file of the picture (default: demo_output/reliability.png)")
    parser.add_argument("--splits", help="random splits, at least 2 (default: 10)")
    parser.add_argument("--seed", help="of the splits (default: 0)")


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if lacks_packages("demo", "matplotlib", "tqdm"):
        return PACKAGE_MISSING
    from angcal.commands.progress import stages
    from angcal.demo import main

    given = {name: getattr(options, name) for name in OPTIONS}
    arguments = [f"--{name}={value}" for name, value in given.items() if value is not None]
    with stages(1) as begin:
        begin("calibrating digits")
        main(arguments)
    return DONE
