"""What more labels will buy: expected accuracy, log-loss, cosine and penalty, and labels needed.

From a table with the labels that there are, a pilot, or from assumptions: how many columns, how
good a linear model with unlimited labels would be (--ceiling), and how common the class is. A table
of cases without labels (--pool) says more about the features. Two classes.

Examples
--------
  angcal plan pilot.csv --target relapse
  angcal plan pilot.csv --target relapse --pool unlabelled.csv --target-accuracy 0.9
  angcal plan pilot.csv --target relapse --labels 500 1000 --json
  angcal plan pilot.csv --target relapse --out curve.png
  angcal plan --columns 400 --ceiling 0.9 --prevalence 0.3 --target-log-loss 0.4

exit codes: 0 done, 1 failed for the reason printed, 2 wrong usage, 3 a package is missing
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

from angcal.cli import terminal

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
    parser.add_argument("--ceiling", type=float, help="accuracy with unlimited labels")
    parser.add_argument("--prevalence", type=float, default=0.5, help="share of the second class")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--target-log-loss", type=float, help="log-loss that is wanted")
    wanted.add_argument("--target-accuracy", type=float, help="accuracy that is wanted")
    wanted.add_argument("--target-cosine", type=float, help="cosine that is wanted")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--out", type=Path, help="file for a picture, such as curve.png")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    _check(options)
    packages = ["rich", *(["pandas"] if options.data else [])]
    terminal.require_packages("plan", *packages, *(["matplotlib"] if options.out else []))
    if options.out:
        read = [path for path in (options.data, options.pool) if path is not None]
        terminal.check_out(options.out, ".png", ".svg", ".pdf", inputs=read)
    plan = _from_table(options) if options.data else _from_assumptions(options)
    name, target = _wanted(options)
    needed = None if name is None else plan.labels_for(**{name: target})
    if options.out:
        _draw(plan, options.out)
    if options.json:
        numbers = plan.as_dict()
        if name is not None:
            found = None if needed is None or math.isinf(needed) else needed
            numbers["needed"] = {"measure": name, "value": target, "labels": found}
        terminal.say(json.dumps(numbers, allow_nan=False))
        return
    parts = [terminal.wrap(plan.sentence()), _table(plan)]
    if name is not None:
        parts.append(terminal.wrap(_needed_sentence(plan, name, target, needed)))
    parts += [terminal.wrap(f"Note: {remark}") for remark in plan.remarks]
    parts += [f"Saved {options.out}."] if options.out else []
    terminal.say("\n\n".join(parts))


def _check(options: argparse.Namespace) -> None:
    if options.data is None and (options.columns is None or options.ceiling is None):
        raise terminal.UsageError(
            "angcal plan needs a table and its --target, or --columns and --ceiling to plan from "
            "assumptions."
        )
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
    frame = read_table(options.data, needed=[options.target], **given)
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

    d = options.columns
    labels = options.labels or [max(factor * d, 10.0) for factor in (0.25, 0.5, 1, 2, 4, 8, 16)]
    return plan_from_assumptions(
        d, ceiling=options.ceiling, n=labels, prevalence=options.prevalence
    )


def _table(plan: Any) -> str:
    header = ("labels", "accuracy", "log-loss", "plain ECE", "cosine", "best C")
    forms = {"accuracy": ".1%", "log_loss": ".3f", "ece": ".3f", "cosine": ".2f", "C": ".2g"}
    rows = []
    for k, n in enumerate(plan.n):
        cells = [f"{n:.0f}"]
        for name, form in forms.items():
            low, high = plan.intervals[name][k]
            between = f" ({low:{form}} to {high:{form}})" if high > low else ""
            cells.append(f"{getattr(plan, name)[k]:{form}}{between}")
        rows.append(cells)
    between = "In brackets: 80 % intervals.\n" if plan.pilot_n else ""
    return between + terminal.text_table(header, rows)


def _needed_sentence(plan: Any, name: str, target: float, needed: float | None) -> str:
    what = f"{name.replace('_', '-')} {target:g}"
    if needed is None or math.isinf(needed):
        return f"For {what} it takes more than {plan.curve.n[-1]:.0f} labels."
    if plan.pilot_n and needed <= plan.pilot_n:
        return f"For {what} the {plan.pilot_n} labels that there are should do."
    return f"For {what} it takes about {needed:.0f} labels."


def _draw(plan: Any, path: Path) -> None:
    from matplotlib.figure import Figure

    from angcal.displays.plan import PlanDisplay

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for ax, name in zip(figure.subplots(1, 2), ("accuracy", "log_loss"), strict=True):
        PlanDisplay.from_plan(plan, name, ax=ax)
    figure.savefig(path, dpi=150)
