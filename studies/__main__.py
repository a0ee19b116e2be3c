"""``python -m studies``: the command line of all studies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

PACKAGES = ("matplotlib", "pandas", "pooch", "rich")
PACKAGE_MISSING, INTERRUPTED = 3, 130
EPILOG = """\
examples:
  python -m studies reproduce --list
  python -m studies reproduce sign --jobs 2
  python -m studies benchmark real --quick
  python -m studies benchmark speed

Exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing,
130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    # Here, as they import what may be missing.
    from studies.paper import command as paper
    from studies.peers import command as peers
    from studies.speed import command as speed

    parser = argparse.ArgumentParser(
        prog="studies",
        description="Re-run the studies of angcal, from the repository.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "reproduce", "the paper's study", paper.add_arguments, paper.execute)
    benchmark = commands.add_parser("benchmark", help="compare with peers, and with the clock")
    which = benchmark.add_subparsers(metavar="BENCHMARK", required=True)
    for name, text in (
        ("real", "real labels, two classes"),
        ("multiclass", "three to a hundred classes"),
        ("curves", "variants of the curve"),
    ):
        _add(which, name, text, partial(peers.add_arguments, name=name), peers.execute)
    _add(which, "speed", "seconds and memory", speed.add_arguments, speed.execute)
    return parser


def _add(commands: Any, name: str, text: str, add_arguments: Any, execute: Any) -> None:
    parser = commands.add_parser(
        name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.set_defaults(execute=execute)


def missing_packages() -> list[str]:
    """Packages that every study needs and that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study; returns the exit code."""
    if missing := missing_packages():
        needed = " and ".join(missing)
        print(f"studies need {needed}; run: pip install -e '.[study]'", file=sys.stderr)
        return PACKAGE_MISSING
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.execute(options)
    except KeyboardInterrupt:
        goes_on = "interrupted; the same command, without --fresh, goes on from here"
        print(f"\n{goes_on}", file=sys.stderr)
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
