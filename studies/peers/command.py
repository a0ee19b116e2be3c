"""``python -m studies benchmark``: compare with peers, then present it from the CSV files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from studies.engine.command import (
    FAILED,
    WRONG_USAGE,
    add_datasets_argument,
    add_run_arguments,
    carry_out,
    datasets_of,
    known_datasets,
    present_among,
    say,
)
from studies.engine.experiment import Result, Trial

if TYPE_CHECKING:
    from studies.peers.methods import Method

DESCRIPTIONS = {
    "real": """\
Compare angcal's classifiers with those of scikit-learn, probmetrics, netcal, venn-abers and betacal
on binary tasks with real labels: every labeled dataset of studies.datasets that is in ANGCAL_DATA,
in the cache, or packaged with scikit-learn. A run that was stopped goes on where it was; --fresh
runs again what --datasets and --side name. --quick takes scikit-learn's packaged data and needs
neither web nor ANGCAL_DATA.
""",
    "multiclass": """\
Compare calibrators for three to a hundred classes, on real and on simulated labels. A run that was
stopped goes on where it was; --fresh runs again what --datasets and --side name, where the side
"angcal" holds angcal's methods, the plain model and temperature scaling on leave-one-out scores.
--quick needs neither web nor ANGCAL_DATA.
""",
    "curves": """\
Compare variants of the averaged curve, and the best single curve, on the tasks of the benchmark
"real" and on designs whose true probabilities are known.
""",
}


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Describe the command line of one of the benchmarks."""
    parser.description = DESCRIPTIONS[name]
    parser.set_defaults(datasets=None, side=None, splits=None)
    if name != "curves":
        add_datasets_argument(parser)
        parser.add_argument(
            "--side",
            choices=("angcal", "peers", "seldom", "averages", "rivals", "slow"),
            help="run the trials of angcal's methods only, those of the others, or those of "
            "methods that are run on the first splits of small tasks: costly peers, angcal's "
            "averages, and rivals that hold out no labels, fast and slow ones",
        )
        parser.add_argument("--splits", type=int, help="run the first splits only, now")
    add_run_arguments(parser, name)


def results_and_methods(name: str) -> tuple[Sequence[Result], Iterable[Method]]:
    """What a benchmark shows, and what may be missing from it."""
    if name == "real":
        from studies.peers.peers import METHODS
        from studies.peers.real_figures import CLAIMS, LOSSES, RANKS

        return [LOSSES, RANKS, CLAIMS], METHODS.values()
    if name == "multiclass":
        from studies.peers import multiclass, multiclass_tables

        return [multiclass_tables.RESULT], multiclass.METHODS.values()
    from studies.peers.curves import RESULTS

    return RESULTS, ()


def execute(options: argparse.Namespace) -> int:
    """Run what is asked for of the datasets that are here, and present it; the exit code."""
    results, methods = results_and_methods(options.folder)
    listed = datasets_of(results, options.quick)
    if not known_datasets(options, listed, "this benchmark"):
        return WRONG_USAGE
    chosen = present_datasets(options.datasets or listed)
    if not chosen:
        say("none of these datasets is on this machine")
        return FAILED
    if options.side != "angcal":
        announce_missing_peers(methods)

    def wanted(trial: Trial) -> bool:
        now = options.splits is None or trial["split"] < options.splits
        return now and trial["dataset"] in chosen and options.side in (None, trial.get("side"))

    return carry_out(results, options, wanted)


def present_datasets(names: Sequence[str]) -> set[str]:
    """Those that are simulated or can be loaded without the web; the others are named."""
    from studies.datasets import CATALOGUE, available

    return present_among(
        [*available(), *(name for name in names if name not in CATALOGUE)],
        names,
        "not on this machine, trials left undone: {}; set ANGCAL_DATA to a folder with their "
        "files, or load them once with studies.datasets.load",
    )


def announce_missing_peers(methods: Iterable[Method]) -> None:
    """Name the packages whose methods will be left out, on standard error."""
    from studies.peers.peers import missing_packages

    missing = missing_packages(methods)
    if missing:
        named = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
        say(
            f"compared without {named}. To have them: pip install -e '.[peers]', and --fresh for "
            "trials that are done"
        )
