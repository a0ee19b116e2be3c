"""Calibrated probabilities for linear classifiers when features rival labels.

Examples
--------
  angcal fit patients.csv --target relapse --out model.skops
  angcal predict model.skops new.csv --out probabilities.csv
  angcal report patients.csv --target relapse --out report.html
  angcal inspect model.skops
  angcal demo

angcal COMMAND --help says more. Exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage,
3 a package is missing, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from angcal import __version__
from angcal.cli import demo, fit, inspect, predict, report
from angcal.cli.terminal import Exit, guarded, tell

# Each command is a module with ``add_arguments(parser)`` and ``execute(options)``; its docstring is
# its help. All printing is in `terminal`.
COMMANDS = {
    "fit": (fit, "fit a calibrated classifier to a table"),
    "predict": (predict, "calibrated probabilities of new rows"),
    "report": (report, "a self-contained HTML report on a table"),
    "inspect": (inspect, "what a model file holds, without loading it"),
    "demo": (demo, "calibrate digits from 100 labels"),
}


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; commands turn their errors into sentences."""
    parser = argparse.ArgumentParser(prog="angcal", **_help_of(__doc__))
    parser.add_argument("--version", action="version", version=f"angcal {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, **_help_of(module.__doc__))
        module.add_arguments(command)
        command.set_defaults(execute=guarded(name, module.execute))
    return parser


def _help_of(docstring: str | None) -> dict[str, Any]:
    """What stands before and after the list of options."""
    description, _, examples = (docstring or "").partition("Examples\n--------\n")
    return {
        "description": description,
        "epilog": f"examples:\n{examples}",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


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
        return Exit.WRONG_USAGE
    parser = build_parser()
    options = parser.parse_args(given)
    if "execute" not in options:
        parser.print_help(sys.stderr)
        return Exit.WRONG_USAGE
    try:
        code: int = options.execute(options)
    except KeyboardInterrupt:
        tell("\ninterrupted; no file was left half-written")
        return Exit.INTERRUPTED
    return code
