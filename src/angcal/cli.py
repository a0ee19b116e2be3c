"""The command ``angcal``: its subcommands, and what its exit codes mean."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from angcal.benchmark import command as benchmark
from angcal.reproduce import command as reproduce

INTERRUPTED = 130  # as shells have it for a process that ends by Ctrl-C


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="angcal",
        description="Calibrated probabilities for linear classifiers when features rival labels.",
    )
    commands = parser.add_subparsers(metavar="COMMAND")
    study = commands.add_parser("reproduce", help="re-run the paper's simulated study")
    reproduce.add_arguments(study)
    study.set_defaults(execute=reproduce.execute)
    against = commands.add_parser("benchmark", help="compare with peers on real labels")
    benchmark.add_arguments(against)
    against.set_defaults(execute=benchmark.execute)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Of the command line; those of the process by default.

    Returns
    -------
    int
        Exit code: 0 done, 1 failed with a reason printed, 2 wrong usage, 3 a package is missing,
        130 interrupted.
    """
    parser = build_parser()
    options = parser.parse_args(arguments)
    if "execute" not in options:
        parser.print_help(sys.stderr)
        return 2
    try:
        code: int = options.execute(options)
    except KeyboardInterrupt:
        message = "interrupted; the same command, without --fresh, goes on from here"
        print(f"\n{message}", file=sys.stderr)
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
