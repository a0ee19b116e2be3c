"""``python -m studies reproduce``: run what is asked for, then present it from its CSV files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from studies.datasets import obtainable
from studies.engine.command import (
    DONE,
    FAILED,
    WRONG_USAGE,
    add_datasets_argument,
    add_run_arguments,
    carry_out,
    datasets_of,
    folder_of,
    known_datasets,
    present_among,
    say,
)
from studies.engine.experiment import Result, Trial
from studies.paper import draw_figures as numbers
from studies.paper import errata_figures as gaps
from studies.paper import panel_figures as panels
from studies.paper import phase_figures as phase
from studies.paper import semireal_tables as real
from studies.paper import sign_bound
from studies.paper import theorem_figures as theorems
from studies.paper.draws import DRAWS
from studies.paper.errata import INTERCEPT, POOLS
from studies.paper.panels import GAUSSIAN, RADEMACHER, UNIFORM
from studies.paper.phase import PHASE
from studies.paper.semireal import TABLES
from studies.paper.theorems import THEOREMS

# -- Every result of the study by name, in the order of the documentation -----------------------


RESULTS: dict[str, Result] = {
    result.name: result
    for result in (
        Result(
            "platt-convergence",
            "Platt scaling converges to the angular predictor as labels grow (figure asymp)",
            *(GAUSSIAN, panels.summarize_convergence, panels.draw_convergence),
        ),
        Result(
            "reliability",
            "Reliability plots: uncalibrated, angular, Platt (figure combinedcalib)",
            *(GAUSSIAN, panels.summarize_reliability, panels.draw_reliability),
        ),
        Result(
            "inner-product",
            "⟨w*, ŵ⟩ estimated against true, and where the paper's pair falls",
            *(DRAWS, numbers.summarize_inner, numbers.draw_inner),
        ),
        Result(
            "platt-coefficients",
            "Platt's fitted (A, B) at 20,000 labels against their limit",
            *(DRAWS, numbers.summarize_platt, numbers.draw_platt),
        ),
        Result(
            "sign",
            "how often the sign of the angle is wrong, with and without a holdout",
            *(DRAWS, numbers.summarize_sign, numbers.draw_sign),
        ),
        *(
            Result(
                f"universality-{experiment.name}",
                f"The same panels for {experiment.name} entries and two links (figure {figure})",
                *(experiment, panels.summarize_universality, panels.draw_universality),
            )
            for experiment, figure in ((RADEMACHER, "Rad"), (UNIFORM, "Unif"))
        ),
        Result(
            "calibration-error",
            "Theorem 1: the calibration error Δ_p over p, and its fall with n",
            *(THEOREMS, theorems.summarize_calibration, theorems.draw_calibration),
        ),
        Result(
            "bregman",
            "Theorem 2: every Bregman loss of every method over the angular one",
            *(THEOREMS, theorems.summarize_bregman, theorems.draw_bregman),
        ),
        Result(
            sign_bound.NAME,
            "The proposition's bound on the sign error against the measured error",
            *(sign_bound.SIGN_EXPERIMENT, sign_bound.summarize, sign_bound.draw),
        ),
        Result(
            "finite-pool",
            "the paper's angle estimate with Σ from m unlabeled rows, and its correction",
            *(POOLS, gaps.summarize_pools, gaps.draw_pools),
        ),
        Result(
            "intercept",
            "the angle of a fit with an intercept, and what a fit without one predicts",
            *(INTERCEPT, gaps.summarize_intercept, gaps.draw_intercept),
        ),
        Result(
            "phase-diagram",
            "Beyond the paper: ECE of every method over n/d and ridge strength",
            *(PHASE, phase.summarize_diagram, phase.draw_diagram),
        ),
        Result(
            "phase-winners",
            "Beyond the paper: which method calibrates best over n/d and ridge strength",
            *(PHASE, phase.summarize_winners, phase.draw_winners),
        ),
        *(
            Result(
                f"table-{table}",
                f"calibration errors on real covariates: {real.TITLES[table]}",
                *(experiment, partial(real.summarize_table, table=table), real.draw_grid),
            )
            for table, experiment in TABLES.items()
        ),
    )
}


DESCRIPTION = """\
Re-run the experiments of Li & Sur (NeurIPS 2025) from a seed: rows to CSV files, pictures and
tables from the CSV files. A run that was stopped, however rudely, goes on where it was; a result
whose rows are all there is only drawn again. The real-data tables (table-*) look for their data in
the folder that ANGCAL_DATA names, then in the user's cache, and download what is missing. Sets that
have no download and are not there are left out, and named.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``studies reproduce``."""
    parser.description = DESCRIPTION
    parser.add_argument("names", nargs="*", metavar="NAME", help="results; all when none is named")
    parser.add_argument("--list", action="store_true", help="name the results and stop")
    add_datasets_argument(parser)
    add_run_arguments(parser, "paper")


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if options.list:
        width = max(map(len, RESULTS))
        print("\n".join(f"{name:<{width}}  {result.title}" for name, result in RESULTS.items()))
        return DONE
    unknown = [name for name in options.names if name not in RESULTS]
    if unknown:
        say(f"there is no result called {', '.join(unknown)}; studies reproduce --list names them")
        return WRONG_USAGE
    results = [RESULTS[name] for name in options.names or RESULTS]
    used = datasets_of(results, options.quick)
    if not known_datasets(options, used, "these results"):
        return WRONG_USAGE
    chosen = present_or_downloadable(options.datasets or used)
    results = [result for result in results if _has_rows(result, chosen, options)]
    if not results:
        say("none of these datasets is on this machine or can be downloaded")
        return FAILED

    def wanted(trial: Trial) -> bool:
        named = options.datasets is not None
        return trial["dataset"] in chosen if "dataset" in trial else not named

    return carry_out(results, options, wanted if used else None)


def _has_rows(result: Result, chosen: set[str], options: argparse.Namespace) -> bool:
    """Whether there are rows of a result, or will be."""
    used = datasets_of([result], options.quick)
    if options.datasets is not None:
        return bool(chosen & set(used))
    rows = folder_of(options) / f"{result.experiment.name}.csv"
    return not used or bool(chosen & set(used)) or rows.exists()


def present_or_downloadable(names: Sequence[str]) -> set[str]:
    """Those that are here or have a download; the others are named on standard error."""
    return present_among(
        obtainable(),
        names,
        "not on this machine and without a download, left out: {}; set ANGCAL_DATA to a folder "
        "with their files",
    )
