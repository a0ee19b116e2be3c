"""``angcal report``: a table in, one HTML file out, with the verdict on the terminal."""

from __future__ import annotations

import argparse
import json
import math
import os
import textwrap
import warnings
from pathlib import Path
from typing import Any

from angcal.arguments import seed
from angcal.commands.outcome import (
    DONE,
    PACKAGE_MISSING,
    WRONG_USAGE,
    guarded,
    jobs,
    lacks_packages,
    tell,
    why_not_writable,
)

WIDTH = 96
SUFFIXES = (".html", ".htm")
DESCRIPTION = """\
Write a report on how far the probabilities of a table's classifier can be believed.

One HTML file with pictures inside: the verdict in words, reliability diagrams, the angle between
fitted and true weights, the calibrated curve, the path of penalties, a cross-validated comparison
with uncalibrated models, Platt scaling and CalibratedClassifierCV, and diagnostics. It loads
nothing from the network and runs no script, so that it can be mailed, printed and archived.

Tables are read as by angcal fit.
"""
EPILOG = """\
examples:
  angcal report patients.csv --target relapse --out report.html
  angcal report patients.csv --target relapse --pool unlabelled.parquet --title "Relapse, 2024"
  angcal report patients.csv --target relapse --json > numbers.json

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal report``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", type=Path, help="table with one row for each labelled case")
    parser.add_argument("--target", required=True, help="column with the classes")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        help="file for the report (default: report.html); one of that name is replaced",
    )
    parser.add_argument(
        "--pool",
        type=Path,
        help="table of cases without labels: more rows than columns sharpen the angle",
    )
    parser.add_argument("--title", help="heading of the report")
    parser.add_argument(
        "--repeats",
        type=_repeats,
        help="repetitions of the cross-validation (default: 1 to 4, fewer for larger tables)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument(
        "--seed", type=seed, default=0, help="of folds and bootstrap draws (default: 0)"
    )
    parser.add_argument(
        "--jobs", type=jobs, help="threads of the linear algebra; -1 is one per core"
    )


def _repeats(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number of repetitions from 1 up")
    return number


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    return guarded("report", _execute)(options)


def _execute(options: argparse.Namespace) -> int:
    if lacks_packages("report", "matplotlib", "pandas", "tqdm"):
        return PACKAGE_MISSING
    if reason := why_not_writable(options.out, SUFFIXES):
        tell(reason)
        return WRONG_USAGE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=None if options.jobs in (None, -1) else options.jobs):
        found, html = _make(options)
    write_text(options.out, html)
    _tell_outcome(options, found)
    return DONE


def _make(options: argparse.Namespace) -> tuple[Any, str]:
    """(findings, page), with a bar on the terminal meanwhile."""
    from angcal.commands.progress import stages
    from angcal.report import examine, page
    from angcal.report.comparison import fold_count, repeats_for
    from angcal.report.findings import DEFAULT_TITLE
    from angcal.tables import read_table, split_target

    with stages(1) as begin, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        begin("reading")
        features, y = split_target(read_table(options.data), options.target)
        pool = None if options.pool is None else read_table(options.pool)
    size, n_classes = features.shape[0] * features.shape[1], len(set(y.tolist()))
    repeats = options.repeats or repeats_for(size, n_classes)
    with stages(2 + repeats * fold_count(y)) as begin:

        def progress(done: int, total: int, what: str) -> None:
            if what == "fitting":
                begin(f"fitting {len(features)} rows")
            elif done < total:
                begin(f"cross-validating, fold {done + 1} of {total}")

        found = examine(
            features,
            y,
            pool=pool,
            title=DEFAULT_TITLE if options.title is None else options.title,
            seed=options.seed,
            target=options.target,
            repeats=repeats,
            notes=list(dict.fromkeys(str(entry.message) for entry in caught)),
            progress=progress,
        )
        begin("drawing")
        return found, page(found)


def write_text(path: Path, text: str) -> None:
    """Write under another name, then rename: ``path`` is never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _tell_outcome(options: argparse.Namespace, found: Any) -> None:
    from angcal.report import summary, verdict

    if options.json:
        told = {**summary(found), "report": str(options.out)}
        print(json.dumps(_finite(told), allow_nan=False))
        return
    parts = [textwrap.fill(sentence, WIDTH) for sentence in verdict(found)]
    print("\n\n".join([*parts, f"The report: {options.out}"]))


def _finite(value: Any) -> Any:
    """What is not a number as None: JSON has no word for it."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
