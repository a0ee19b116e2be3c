"""The command ``angcal``: its subcommands, and what its exit codes mean.

Each subcommand is a module with ``add_arguments(parser)`` and ``execute(options)``; all printing is
in `terminal`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from angcal import __version__
from angcal.cli import demo, fit, predict, report
from angcal.cli.terminal import INTERRUPTED, WRONG_USAGE, guarded, tell

EPILOG = """\
examples:
  angcal fit patients.csv --target relapse --out model.skops
  angcal predict model.skops new.csv --out probabilities.csv
  angcal report patients.csv --target relapse --out report.html
  angcal demo

angcal COMMAND --help says more. Exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage,
3 a package is missing, 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="angcal",
        description="Calibrated probabilities for linear classifiers when features rival labels.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"angcal {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add(commands, "fit", "fit a calibrated classifier to a table", fit)
    _add(commands, "predict", "calibrated probabilities of new rows", predict)
    _add(commands, "report", "a self-contained HTML report on a table", report)
    _add(commands, "demo", "calibrate digits from 100 labels", demo)
    return parser


def _add(commands: Any, name: str, help_text: str, module: Any) -> None:
    """A subcommand that turns its errors into sentences."""
    parser = commands.add_parser(
        name,
        help=help_text,
        description=module.DESCRIPTION,
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.set_defaults(execute=guarded(name, module.execute))


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
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("reproduce", "benchmark"):
        tell(
            f"angcal {given[0]} is now a command of angcal's repository: clone it, and run "
            f"python -m studies {' '.join(given)}"
        )
        return WRONG_USAGE
    parser = build_parser()
    options = parser.parse_args(given)
    if "execute" not in options:
        parser.print_help(sys.stderr)
        return WRONG_USAGE
    try:
        code: int = options.execute(options)
    except KeyboardInterrupt:
        tell("\ninterrupted; no file was left half-written")
        return INTERRUPTED
    return code
