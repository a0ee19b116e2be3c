"""``python -m studies benchmark``: compare with peers, then present it from the CSV files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from studies.engine.command import (
    FAILED,
    WRONG_USAGE,
    add_datasets_argument,
    add_run_arguments,
    carry_out,
    known_datasets,
    present_among,
    say,
)
from studies.engine.experiment import Trial

REAL = """\
Compare angcal's classifiers with those of scikit-learn, probmetrics, netcal, venn-abers and betacal
on binary tasks with real labels: every labelled dataset of studies.datasets that is in ANGCAL_DATA,
in the cache, or packaged with scikit-learn. A run that was stopped goes on where it was; --fresh
runs again what --datasets and --side name. --quick takes scikit-learn's packaged data and needs
neither web nor ANGCAL_DATA.
"""
SEVERAL = """\
Compare calibrators for three and more classes, on simulated and on real labels. --quick needs
neither web nor ANGCAL_DATA.
"""
CURVES = """\
Compare variants of the averaged curve, and the best single curve, on the tasks of the benchmark
"real" and on designs whose true probabilities are known.
"""
OWNER = "this benchmark"


def add_real_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies benchmark real``."""
    parser.description = REAL
    add_datasets_argument(parser)
    parser.add_argument(
        "--side",
        choices=("angcal", "peers", "seldom"),
        help="run the trials of angcal's methods only, those of the others, or those of the "
        "methods that are run on the first splits of small tasks",
    )
    add_run_arguments(parser, "real")


def execute_real(options: argparse.Namespace) -> int:
    """``studies benchmark real``; returns the exit code."""
    from studies.peers.real import FULL, QUICK
    from studies.peers.real_figures import LOSSES, RANKS

    listed = (QUICK if options.quick else FULL).datasets
    if not known_datasets(options, listed, OWNER):
        return WRONG_USAGE
    chosen = present_datasets(options.datasets or listed)
    if not chosen:
        say("none of these datasets is on this machine")
        return FAILED
    if options.side != "angcal":
        announce_missing_peers()

    def wanted(trial: Trial) -> bool:
        return trial["dataset"] in chosen and options.side in (None, trial["side"])

    return carry_out([LOSSES, RANKS], options, wanted)


def add_several_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies benchmark several``."""
    parser.description = SEVERAL
    add_datasets_argument(parser)
    add_run_arguments(parser, "several")


def execute_several(options: argparse.Namespace) -> int:
    """``studies benchmark several``: simulated tasks, and the real ones that are here."""
    from studies.peers.several import FULL, QUICK
    from studies.peers.several_tables import SEVERAL_RESULT

    settings = QUICK if options.quick else FULL
    named = list(dict.fromkeys(name for name, _ in settings.real))
    if not known_datasets(options, named, OWNER):
        return WRONG_USAGE
    here = present_datasets(options.datasets or named)

    def wanted(trial: Trial) -> bool:
        simulated = str(trial["task"]).startswith("softmax") and not options.datasets
        return simulated or trial["task"] in here

    return carry_out([SEVERAL_RESULT], options, wanted)


def add_curves_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies benchmark curves``."""
    parser.description = CURVES
    add_run_arguments(parser, "curves")


def execute_curves(options: argparse.Namespace) -> int:
    """``studies benchmark curves``; returns the exit code."""
    from studies.peers.curves import DESIGNS, LABELLED, QUICK, RESULTS

    named = QUICK.datasets if options.quick else tuple(dict.fromkeys((*LABELLED, *DESIGNS)))
    here = present_datasets(named)
    return carry_out(RESULTS, options, lambda trial: trial["dataset"] in here)


def present_datasets(names: Sequence[str]) -> set[str]:
    """Those that can be loaded without the web; the others are named on standard error."""
    from studies.datasets import available

    return present_among(
        available(),
        names,
        "not on this machine, trials left undone: {}; set ANGCAL_DATA to a folder with their "
        "files, or load them once with studies.datasets.load",
    )


def announce_missing_peers() -> None:
    """Name the packages whose methods will be left out, on standard error."""
    from studies.peers.peers import missing_packages

    missing = missing_packages()
    if missing:
        named = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
        say(
            f"compared without {named}. To have them: pip install -e '.[peers]', and --side peers "
            "--fresh for trials that are done"
        )
