"""``angcal fit``: a table in, a calibrated model and a verdict in words out."""

from __future__ import annotations

import argparse
import json
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from angcal.arguments import seed
from angcal.commands.outcome import (
    DONE,
    PACKAGE_MISSING,
    WRONG_USAGE,
    jobs,
    lacks_packages,
    tell,
    why_not_writable,
)

WIDTH = 96
DESCRIPTION = """\
Fit a calibrated classifier to a table, and say how far its probabilities can be believed.

Numbers are standardised and missing ones filled in with the median; categories become one column
for each level. Identifiers, dates, constants and the like are left out and named. A path of ridge
penalties is fitted, the best one is chosen by leave-one-out log-loss, and its probabilities are
calibrated by the angle between fitted and true weights. No labels are held out. With three or more
classes the penalty is chosen by cross-validation.

Tables are .csv, .tsv (also .gz), .parquet, .feather, .npz (X, y, feature_names) or .svmlight.
"""
EPILOG = """\
examples:
  angcal fit patients.csv --target relapse
  angcal fit patients.csv --target relapse --pool unlabelled.parquet --out model.skops
  angcal fit patients.csv --target relapse --json > verdict.json

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal fit``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", type=Path, help="table with one row for each labelled case")
    parser.add_argument("--target", required=True, help="column with the classes")
    parser.add_argument(
        "--pool",
        type=Path,
        help="table of cases without labels: more rows than columns sharpen the angle",
    )
    parser.add_argument("--out", type=Path, help="file for the model, such as model.skops")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--seed", type=seed, default=0, help="of random folds (default: 0)")
    parser.add_argument(
        "--jobs", type=jobs, help="threads of the linear algebra; -1 is one per core"
    )


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if lacks_packages("fit", "pandas", "tqdm", *(["skops"] if options.out else [])):
        return PACKAGE_MISSING
    if options.out and (reason := why_not_writable(options.out, (".skops",))):
        tell(reason)
        return WRONG_USAGE
    from angcal.commands.progress import stages

    with stages(3) as begin, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted, y = _fit(options, begin)
        begin("saving")
        if options.out:
            _save(fitted, options)
    _report(options, fitted, y, plain_words(caught))
    return DONE


def _fit(options: argparse.Namespace, begin: Any) -> tuple[Any, Any]:
    from angcal.tables import fit_table, read_table, split_target

    begin("reading")
    features, y = split_target(read_table(options.data), options.target)
    pool = None if options.pool is None else read_table(options.pool)
    begin(f"fitting {len(features)} rows")
    with _threads(options.jobs):
        return fit_table(features, y, pool=pool, seed=options.seed), y


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """At most so many threads of BLAS and OpenMP; as many as there are for None and -1."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=None if number in (None, -1) else number):
        yield


def _save(fitted: Any, options: argparse.Namespace) -> None:
    from angcal.persistence import save

    columns = [str(name) for name in fitted.model.steps[0][1].feature_names_in_]
    about = {
        "target": options.target,
        "columns": columns,
        "classes": [str(label) for label in fitted.classes],
        "rows": fitted.n,
    }
    save(fitted.model, options.out, about=about)


def plain_words(caught: list[warnings.WarningMessage]) -> list[str]:
    """Each warning once, in words for someone who has a file and not a program."""
    from angcal import OptimalityWarning, PoolWarning, RepeatedRowsWarning

    ways_out = {
        PoolWarning: "Check that --pool has the same columns in the same units.",
        RepeatedRowsWarning: "Drop the copies from the table.",
        OptimalityWarning: "The figures are less certain than they look.",
    }
    told = []
    for entry in caught:
        if issubclass(entry.category, DeprecationWarning | FutureWarning | ResourceWarning):
            continue  # for programmers
        text = " ".join(str(entry.message).split())
        for category, way_out in ways_out.items():
            if issubclass(entry.category, category):
                # What follows the first sentence speaks of the library.
                text = f"{text.split('. ')[0].rstrip('.')}. {way_out}"
        told.append(text)
    return list(dict.fromkeys(told))


def _report(options: argparse.Namespace, fitted: Any, y: Any, notes: list[str]) -> None:
    from angcal.commands.verdict import in_words, judge

    verdict = judge(fitted, y)
    if options.json:
        told = verdict.as_json() | {
            "target": options.target,
            "dropped": [{"column": name, "reason": reason} for name, reason in fitted.dropped],
            "warnings": notes,
            "model": None if options.out is None else str(options.out),
        }
        print(json.dumps(told, allow_nan=False))
        return
    parts = [in_words(verdict)]
    if fitted.dropped:
        left_out = [f"  {name}: {reason}" for name, reason in fitted.dropped]
        parts.append("\n".join(["Columns left out:", *_shortened(left_out)]))
    parts.extend(textwrap.fill(f"Note: {note}", WIDTH) for note in notes)
    if options.out is None:
        parts.append("Nothing was saved; --out model.skops keeps the model.")
    else:
        parts.append(
            f"Saved {options.out}. Next: angcal predict {options.out} new.csv --out "
            "probabilities.csv"
        )
    print("\n\n".join(parts))


def _shortened(lines: list[str], most: int = 20) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], f"  and {more} more"] if more > 0 else lines
