"""``angcal benchmark``: compare with peers, then draw and summarise from the CSV files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from angcal.reproduce.command import add_run_arguments, carry_out, lacks_packages, those_in
from angcal.reproduce.experiment import Trial

FULL_FOLDER, QUICK_FOLDER = Path("benchmarks/real"), Path("benchmarks/real-quick")
SEVERAL_FOLDER, SEVERAL_QUICK_FOLDER = (
    Path("benchmarks/several"),
    Path("benchmarks/several-quick"),
)
DESCRIPTION = """\
Compare angcal's classifiers with those of scikit-learn, probmetrics, netcal, venn-abers and
betacal. "real": binary tasks with real labels from every labelled dataset of angcal.datasets that
is in ANGCAL_DATA, in the cache, or packaged with scikit-learn. A run that was stopped goes on where
it was; --fresh runs again what --datasets and --side name. "several": three and more classes,
simulated and real. --quick takes scikit-learn's packaged data and needs neither web nor
ANGCAL_DATA.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal benchmark``."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", choices=("real", "several"), help="which benchmark")
    parser.add_argument(
        "--datasets",
        nargs="+",
        metavar="DATASET",
        help="run trials of these only, now; tables and pictures show all that was ever run",
    )
    parser.add_argument(
        "--side",
        choices=("angcal", "peers", "seldom"),
        help="run the trials of angcal's methods only, those of the others, or those of the "
        "methods that are run on the first splits of small tasks (real only)",
    )
    add_run_arguments(parser, FULL_FOLDER, QUICK_FOLDER)


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if lacks_packages("benchmark"):
        return 3
    if options.name == "several":
        if options.side is not None:
            print("--side is for the benchmark real only", file=sys.stderr)
            return 2
        return _several(options)
    from angcal.benchmark.real import FULL, QUICK
    from angcal.benchmark.real_figures import LOSSES, RANKS

    listed = (QUICK if options.quick else FULL).datasets
    unknown = [name for name in options.datasets or () if name not in listed]
    if unknown:
        print(
            f"not a dataset of this benchmark: {', '.join(unknown)}; there are {', '.join(listed)}",
            file=sys.stderr,
        )
        return 2
    chosen = present_datasets(options.datasets or listed)
    if not chosen:
        print("none of these datasets is on this machine", file=sys.stderr)
        return 1
    if options.side != "angcal":
        announce_missing_peers()
    folder = QUICK_FOLDER if options.quick else FULL_FOLDER

    def wanted(trial: Trial) -> bool:
        return trial["dataset"] in chosen and options.side in (None, trial["side"])

    return carry_out([LOSSES, RANKS], options, folder, wanted)


def _several(options: argparse.Namespace) -> int:
    """``angcal benchmark several``: simulated tasks, and the real ones that are here."""
    from angcal.benchmark.several import FULL, QUICK
    from angcal.benchmark.several_tables import SEVERAL_RESULT

    settings = QUICK if options.quick else FULL
    named = list(dict.fromkeys(name for name, _ in settings.real))
    unknown = [name for name in options.datasets or () if name not in named]
    if unknown:
        print(
            f"not a dataset of this benchmark: {', '.join(unknown)}; there are {', '.join(named)}",
            file=sys.stderr,
        )
        return 2
    here = present_datasets(options.datasets or named)
    folder = SEVERAL_QUICK_FOLDER if options.quick else SEVERAL_FOLDER

    def wanted(trial: Trial) -> bool:
        simulated = str(trial["task"]).startswith("softmax") and not options.datasets
        return simulated or trial["task"] in here

    return carry_out([SEVERAL_RESULT], options, folder, wanted)


def present_datasets(names: Sequence[str]) -> set[str]:
    """Those that can be loaded without the web; the others are named on standard error."""
    from angcal.datasets import available

    return those_in(
        available(),
        names,
        "not on this machine, trials left undone: {}; set ANGCAL_DATA to a folder with their "
        "files, or load them once with angcal.datasets.load",
    )


def announce_missing_peers() -> None:
    """Name the packages whose methods will be left out, on standard error."""
    from angcal.benchmark.peers import missing_packages

    missing = missing_packages()
    if missing:
        told = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
        print(
            f"compared without {told}. To have them: pip install 'angcal[peers]', and --side peers "
            "--fresh for trials that are done",
            file=sys.stderr,
        )
