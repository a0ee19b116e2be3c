"""What more labels will buy: expected accuracy, log-loss, cosine and penalty, and labels needed.

From a table with the labels that there are, a pilot, or from assumptions: how many columns, how
good a linear model with unlimited labels would be (--ceiling), and how common the class is. A table
of cases without labels (--pool) says more about the features; without a pilot it stands for
--columns. Two classes.

Examples
--------
  angcal plan pilot.csv --target relapse
  angcal plan pilot.csv --target relapse --pool unlabeled.csv --target-accuracy 0.9
  angcal plan pilot.csv --target relapse --labels 500 1000 --json
  angcal plan pilot.csv --target relapse --out curve.png
  angcal plan --columns 400 --ceiling 0.9 --prevalence 0.3 --target-log-loss 0.4
  angcal plan --pool unlabeled.csv --ceiling 0.9 --out plan.html

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import html
import io
import json
import math
import warnings
from pathlib import Path
from typing import Any

from angcal.cli import terminal
from angcal.files import write_text, written

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Learning curve</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
svg {{ max-width: 100%; height: auto }} pre {{ overflow-x: auto }}
</style></head><body><h1>What more labels will buy</h1>
{text}
<figure role="img" aria-label="Expected accuracy and log-loss against labels">{picture}</figure>
<pre>{table}</pre>
</body></html>
"""
TARGETS = {"log_loss": "target_log_loss", "accuracy": "target_accuracy", "cosine": "target_cosine"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal plan``."""
    parser.add_argument("data", type=Path, nargs="?", help="table with the labels that there are")
    parser.add_argument("--target", help="column with the two classes")
    parser.add_argument("--pool", type=Path, help="table of cases without labels")
    parser.add_argument(
        "--positive", metavar="CLASS", help="the class that is asked about, against all others"
    )
    terminal.add_reading_arguments(parser)
    parser.add_argument("--labels", type=float, nargs="+", metavar="N", help="numbers to plan for")
    parser.add_argument("--columns", type=float, help="without data: number of features")
    parser.add_argument(
        "--decay",
        type=float,
        default=0.0,
        help="with --columns: variances of the principal components fall off as 1/j^DECAY",
    )
    parser.add_argument("--ceiling", type=float, help="accuracy with unlimited labels")
    parser.add_argument("--prevalence", type=float, default=0.5, help="share of the second class")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--target-log-loss", type=float, help="log-loss that is wanted")
    wanted.add_argument("--target-accuracy", type=float, help="accuracy that is wanted")
    wanted.add_argument("--target-cosine", type=float, help="cosine that is wanted")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--out", type=Path, help="picture (.png, .svg, .pdf) or page (.html)")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    _check(options)
    packages = ["rich", *(["pandas"] if options.data else [])]
    terminal.require_packages("plan", *packages, *(["matplotlib"] if options.out else []))
    if options.out:
        read = [path for path in (options.data, options.pool) if path is not None]
        terminal.check_out(options.out, ".png", ".svg", ".pdf", ".html", inputs=read)
    plan = _from_table(options) if options.data else _from_assumptions(options)
    name, target = _wanted(options)
    needed = None if name is None else plan.labels_for(**{name: target})
    if name is not None:
        sentence = _needed_sentence(plan, name, target, needed)
    if options.out:
        _draw(plan, options.out, "" if name is None else sentence)
    if options.json:
        numbers = plan.as_dict()
        if name is not None:
            found = None if needed is None or math.isinf(needed) else needed
            numbers["needed"] = {"measure": name, "value": target, "labels": found}
        terminal.say(json.dumps(numbers, allow_nan=False))
        return
    parts = [terminal.wrap(plan.sentence()), plan.table()]
    parts += [terminal.wrap(sentence)] if name is not None else []
    parts += [terminal.wrap(plan.criteria_sentence())] if plan.criteria else []
    parts += [terminal.wrap(f"Note: {remark}") for remark in plan.remarks]
    parts += [f"Saved {options.out}."] if options.out else []
    terminal.say("\n\n".join(parts))


def _check(options: argparse.Namespace) -> None:
    features = options.columns is not None or options.pool is not None
    if options.data is None and (not features or options.ceiling is None):
        raise terminal.UsageError(
            "angcal plan needs a table and its --target, or --columns (or --pool) and --ceiling to "
            "plan from assumptions."
        )
    if options.data is None and options.columns is not None and options.pool is not None:
        raise terminal.UsageError("Give --columns or --pool to plan from assumptions, not both.")
    if options.data is not None and options.target is None:
        raise terminal.UsageError("angcal plan needs --target, the column with the classes.")
    if options.data is not None and (options.columns or options.ceiling):
        raise terminal.UsageError("--columns and --ceiling are for a plan without a table.")


def _wanted(options: argparse.Namespace) -> tuple[str | None, float]:
    """The measure of the target and its value."""
    for name, argument in TARGETS.items():
        value = getattr(options, argument)
        if value is not None:
            return name, value
    return None, math.nan


def _from_table(options: argparse.Namespace) -> Any:
    from angcal.tables import fit_table, read_table, split_target

    given = terminal.reading_options(options)
    frame = read_table(options.data, target=options.target, **given)
    features, y = split_target(frame, options.target, positive=options.positive)
    given |= {"sheet": None}  # of the table, not of the pool
    pool = None if options.pool is None else read_table(options.pool, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = fit_table(features, y, pool=pool)
    labels = options.labels or [factor * fitted.n for factor in (1, 2, 3, 4, 8)]
    return fitted.classifier.plan(labels)


def _from_assumptions(options: argparse.Namespace) -> Any:
    from angcal.planner import plan_from_assumptions

    spectrum = _assumed_spectrum(options)
    d = spectrum.size
    labels = options.labels or [max(factor * d, 10.0) for factor in (0.25, 0.5, 1, 2, 4, 8, 16)]
    return plan_from_assumptions(
        spectrum, ceiling=options.ceiling, n=labels, prevalence=options.prevalence
    )


def _assumed_spectrum(options: argparse.Namespace) -> Any:
    """Of so many columns, or of a table's numbers, each scaled to variance 1."""
    import numpy as np

    from angcal.theory import Spectrum

    if options.pool is None:
        d = options.columns
        if not (math.isfinite(d) and 1 <= d <= 1e6):
            raise ValueError(f"--columns {d:g} must be a number of features, 1 to a million.")
        if not 0.0 <= options.decay <= 5.0:
            raise ValueError(f"--decay {options.decay:g} must lie between 0 and 5.")
        return Spectrum(np.arange(1.0, round(d) + 1.0) ** -options.decay)
    from angcal.tables import read_table

    numbers = read_table(options.pool, **terminal.reading_options(options)).select_dtypes("number")
    rows = numbers.fillna(numbers.mean()).to_numpy(dtype=np.float64)
    rows = rows[:, rows.std(axis=0) > 0] if rows.size else rows
    if rows.shape[0] < 3 or not rows.shape[1]:
        raise ValueError(
            f"{options.pool} has no columns of numbers that vary in three rows or more; give "
            "--columns."
        )
    return Spectrum.of_rows((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _needed_sentence(plan: Any, name: str, target: float, needed: float | None) -> str:
    what = f"{name.replace('_', '-')} {target:g}"
    if needed is None or math.isinf(needed):
        return f"For {what} it takes more than {plan.curve.n[-1]:.0f} labels."
    if plan.pilot_n and needed <= plan.pilot_n:
        return f"For {what} the {plan.pilot_n} labels that there are should do."
    return f"For {what} it takes about {needed:.0f} labels."


def _draw(plan: Any, path: Path, needed: str) -> None:
    from matplotlib.figure import Figure

    from angcal.displays.curves import PlanDisplay

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for ax, name in zip(figure.subplots(1, 2), ("accuracy", "log_loss"), strict=True):
        PlanDisplay.from_plan(plan, name, ax=ax)
    kind = path.suffix.lower()[1:]
    if kind != "html":
        with written(path) as file:
            figure.savefig(file, dpi=150, format=kind)
        return
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    picture = drawn.getvalue()
    said = (plan.sentence(), needed, plan.criteria_sentence(), *plan.remarks)
    text = "\n".join(f"<p>{html.escape(each)}</p>" for each in said if each)
    page = PAGE.format(
        text=text, table=html.escape(plan.table()), picture=picture[picture.index("<svg") :]
    )
    write_text(path, page)
