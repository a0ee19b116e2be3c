"""Calibrated probabilities for linear classifiers when features rival labels.

Examples
--------
  angcal fit patients.csv --target relapse --out model.skops
  angcal predict model.skops new.csv --out probabilities.csv
  angcal report patients.csv --target relapse --out report.html
  angcal plan patients.csv --target relapse --target-accuracy 0.9
  angcal inspect model.skops
  angcal demo

angcal COMMAND --help says more. Exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage,
3 a package is missing, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from angcal import __version__

if TYPE_CHECKING:
    import argparse

# Each command is a module with ``add_arguments(parser)`` and ``execute(options)``; its docstring is
# its help, and it is imported only when it is called. All printing is in `terminal`.
COMMANDS = {
    "fit": "fit a calibrated classifier to a table",
    "predict": "calibrated probabilities of new rows",
    "report": "a self-contained HTML report on a table",
    "plan": "what more labels will buy, and how many a target needs",
    "inspect": "what a model file holds, without loading it",
    "demo": "tell digits apart with few labels: who is as sure as right?",
}


def build_parser(called: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, or what one call of it needs: the arguments of the command called."""
    import argparse

    from angcal.cli.terminal import guarded

    parser = argparse.ArgumentParser(prog="angcal", **_help_of(__doc__))
    version = f"angcal {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        if called not in (name, None):
            commands.add_parser(name, help=summary)
            continue
        module = import_module(f"angcal.cli.{name}")
        command = commands.add_parser(name, help=summary, **_help_of(module.__doc__))
        module.add_arguments(command)
        command.set_defaults(execute=guarded(name, module.execute))
    return parser


def _help_of(docstring: str | None) -> dict[str, Any]:
    """What stands before and after the list of options."""
    import argparse

    description, _, examples = (docstring or "").partition("Examples\n--------\n")
    return {
        "description": description,
        "epilog": f"examples:\n{examples}",
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, by default that of the process, and return its exit code.

    0 done, 1 failed with a reason printed, 2 wrong usage, 3 a package is missing, 130 interrupted.
    """
    try:
        from angcal.cli.interrupts import end_if_asked, interruptible

        with interruptible(whole_process=arguments is None):
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
            end_if_asked()
            return code
    except KeyboardInterrupt:
        print("\ninterrupted; no file was left half-written", file=sys.stderr)
        return 130


def _run(given: list[str]) -> int:
    from angcal.cli.terminal import Exit, tell

    if given and given[0] in ("reproduce", "benchmark"):
        tell(
            f"angcal {given[0]} is now a command of angcal's repository: clone it, and run "
            f"python -m studies {' '.join(given)}"
        )
        return Exit.WRONG_USAGE
    parser = build_parser(next((word for word in given if word in COMMANDS), ""))
    options = parser.parse_args(given)
    if "execute" not in options:
        parser.print_help(sys.stderr)
        return Exit.WRONG_USAGE
    code: int = options.execute(options)
    return code
