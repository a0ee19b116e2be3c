"""Write a report on how far the probabilities of a table's classifier can be believed.

One HTML file with pictures inside: the verdict in words, what to do next, discrimination with a
threshold to move, calibration, decision curve, what more labels would buy, every row with its
interval, the largest weights and how stable they are, what was done to which column, a
cross-validated comparison with uncalibrated models and other calibrators, a checklist for a study
report and a glossary; the fit itself in a folded part for statisticians. It loads nothing from the
network, and only its slider needs a script, so that it can be mailed, printed and archived.

Tables are read as by angcal fit, with two classes or any number more.

Examples
--------
  angcal report patients.csv --target relapse --out report.html
  angcal report patients.csv --target relapse --pool unlabeled.parquet --title "Relapse, 2024"
  angcal report patients.csv --target relapse --positive yes --threshold 0.2 --id PatNr
  angcal report patients.csv --target relapse --json > numbers.json

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import json
import warnings
from datetime import date
from pathlib import Path
from typing import Any

from angcal.cli import terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal report``."""
    terminal.add_table_arguments(parser, seed_help="of folds and bootstrap draws (default: 0)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        help="file for the report (default: report.html); one of that name is replaced",
    )
    parser.add_argument("--title", help="heading of the report")
    parser.add_argument(
        "--threshold",
        type=terminal.between_zero_and_one(0.2),
        default=0.5,
        help="probability from which on one would act (default: 0.5); the page can move it",
    )
    parser.add_argument(
        "--repeats",
        type=terminal.at_least(1, "a number of repetitions from 1 up"),
        help="repetitions of the cross-validation (default: 1 to 4, fewer for larger tables)",
    )


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    terminal.require_packages("report", "jinja2", "matplotlib", "pandas", "rich")
    terminal.check_out(options.out, ".html", ".htm")
    from angcal.files import write_text

    found, html = _make(options)
    write_text(options.out, html)
    _print_outcome(options, found)


def _make(options: argparse.Namespace) -> tuple[Any, str]:
    """(findings, page), with a bar on the terminal meanwhile."""
    with terminal.stages(1) as begin, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        begin("reading")
        _, features, y, pool, groups, row_names = terminal.read_tables(options)
    from angcal.report import examine, page
    from angcal.report.comparison import fold_count, repeats_for
    from angcal.report.findings import Origin, plain_words

    size, n_classes = features.shape[0] * features.shape[1], len(set(y.tolist()))
    repeats = options.repeats or repeats_for(size, n_classes)
    steps = 2 + repeats * fold_count(y, groups)
    with terminal.threads(options.jobs), terminal.stages(steps) as begin:

        def progress(done: int, total: int, what: str) -> None:
            if what == "fitting":
                begin(f"fitting {len(features)} rows")
            elif done < total:
                begin(f"cross-validating, fold {done + 1} of {total}")

        found = examine(
            features,
            y,
            pool=pool,
            title=options.title,
            seed=options.seed,
            target=options.target,
            repeats=repeats,
            notes=plain_words(caught),
            progress=progress,
            groups=groups,
            origin=Origin(
                file=options.data.name,
                date=date.today().isoformat(),
                positive=options.positive,
                threshold=options.threshold,
                row_names=row_names,
            ),
        )
        begin("drawing")
        return found, page(found)


def _print_outcome(options: argparse.Namespace, found: Any) -> None:
    from angcal.report import summary, verdict
    from angcal.report.verdict import finite

    if options.json:
        numbers = finite({**summary(found), "report": str(options.out)})
        terminal.say(json.dumps(numbers, allow_nan=False))
        return
    parts = [terminal.wrap(sentence) for sentence in verdict(found)]
    terminal.say("\n\n".join([*parts, f"The report: {options.out}"]))
