"""Fit a calibrated classifier to a table, and say how far its probabilities can be believed.

Numbers are standardized and missing ones filled in with the median; categories become one column
for each level. Identifiers, dates, constants and the like are left out and named. A path of ridge
penalties is fitted, the best one is chosen by leave-one-out log-loss, and its probabilities are
calibrated from the scores that each row would get had it been left out. No labels are held out.
There may be two classes or any number more.

Tables are .csv, .tsv, .txt (also .gz), .xlsx, .parquet, .feather, .npz (X, y, feature_names),
.svmlight, .dta, .sav, .sas7bdat, .xpt or .h5ad. A .parquet file may be larger than memory: its rows
are then read in blocks, some thirty times, and its columns are judged by up to a million cells. A
table for --pool is read whole.

Examples
--------
  angcal fit patients.csv --target relapse
  angcal fit patients.csv --target relapse --pool unlabeled.parquet --out model.skops
  angcal fit visits.csv --target relapse --groups patient
  angcal fit patients.xlsx --target diagnosis --positive tumor --id PatNr --drop "date of death"
  angcal fit patients.csv --target relapse --json > verdict.json

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from angcal.cli import terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal fit``."""
    terminal.add_table_arguments(parser, seed_help="kept for scripts: nothing is drawn")
    parser.add_argument(
        "--out", type=Path, help="file for the model, such as model.skops or model.angcal"
    )
    terminal.add_key(parser, "file with a secret to sign the model with; needs --out")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    skops = ["skops"] if options.out and options.out.suffix == ".skops" else []
    terminal.require_packages("fit", "pandas", "rich", *skops)
    if options.out:
        terminal.check_out(options.out, ".skops", ".angcal", ".npz")
    elif options.key:
        raise terminal.UsageError(f"--key {options.key} signs a file; name one with --out.")
    with terminal.stages(3) as begin, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin("reading")
        table, features, y, pool, groups, _ = terminal.read_tables(options, large=True)
        begin(f"fitting {len(y)} rows")
        from angcal.report.findings import plain_words
        from angcal.report.verdict import judge
        from angcal.tables import fit_large, fit_table

        with terminal.threads(options.jobs):
            given = {"pool": pool, "groups": groups}
            if table is None:
                fitted = fit_table(features, y, **given)
            else:
                fitted = fit_large(table, features, **given)
            verdict = judge(fitted, y, pool_rows=0 if pool is None else len(pool))
        begin("saving")
        if options.out:
            _save(fitted, verdict, options)
    _print_outcome(options, fitted, verdict, plain_words(caught))


def _save(fitted: Any, verdict: Any, options: argparse.Namespace) -> None:
    from angcal.persistence import save

    about = {
        "target": options.target,
        "columns": [str(name) for name in fitted.model.steps[0][1].feature_names_in_],
        "classes": [str(label) for label in fitted.classes],
        "rows": fitted.n,
        "id": options.id,
        "positive": options.positive,
        "leave_one_out": verdict.as_json()["leave_one_out"],
    }
    save(fitted.model, options.out, about=about, key=options.key)


def _print_outcome(
    options: argparse.Namespace, fitted: Any, verdict: Any, notes: list[str]
) -> None:
    if options.json:
        from angcal.report.verdict import sentences

        numbers = verdict.as_json() | {
            "target": options.target,
            "verdict": sentences(verdict),
            "dropped": [{"column": name, "reason": reason} for name, reason in fitted.dropped],
            "warnings": notes,
            "model": None if options.out is None else str(options.out),
        }
        terminal.say(json.dumps(numbers, allow_nan=False))
        return
    parts = [in_words(verdict)]
    if fitted.dropped:
        lines = [f"  {name}: {reason}" for name, reason in fitted.dropped[:20]]
        more = len(fitted.dropped) - len(lines)
        lines += [f"  and {more} more"] if more else []
        parts.append("\n".join(["Columns left out:", *lines]))
    parts.extend(terminal.wrap(f"Note: {note}") for note in notes)
    if options.out is None:
        parts.append("Nothing was saved; --out model.skops keeps the model.")
    else:
        parts.append(
            f"Saved {options.out}. Next: angcal predict {options.out} new.csv --out "
            "probabilities.csv"
        )
    terminal.say("\n\n".join(parts))


def in_words(verdict: Any) -> str:
    """The verdict as paragraphs, with a table of its figures."""
    from angcal.report.verdict import sentences, table_rows

    header, *rows = table_rows(verdict)
    headline, about_rows, *others = (terminal.wrap(sentence) for sentence in sentences(verdict))
    return "\n\n".join([headline, about_rows, terminal.text_table(header, rows), *others])
