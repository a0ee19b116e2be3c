"""Separate even from odd handwritten digits with 100 labels, and compare angcal with other
calibrators: a table with all their scores is printed, and a reliability diagram saved. It takes a
minute and needs no data of yours and no network.

Examples
--------
  angcal demo
  angcal demo --splits 3 --out reliability.png
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal._typing import Floats
from angcal.arguments import seed
from angcal.cli import terminal
from angcal.displays import STYLES, ReliabilityDisplay
from angcal.estimators import AngularCalibratedClassifier, ScoreCalibratedClassifier
from angcal.files import written
from angcal.metrics import brier_score, expected_calibration_error, log_loss
from angcal.report.comparison import chance_ece
from angcal.report.verdict import angle_sentence, found_angles

N_LABELS, N_POOL = 100, 800
# scikit-learn's default penalty, and a hundred times more and less of it.
PENALTIES = {0.01: "strong penalty", 1.0: "scikit-learn's default", 100.0: "weak penalty"}
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "ECE": expected_calibration_error,
    "log-loss": log_loss,
    "Brier": brier_score,
}


class Split(NamedTuple):
    """Labelled rows, rows whose labels nobody sees, test rows."""

    X: Floats
    y: Floats
    pool: Floats
    X_test: Floats
    y_test: Floats
    seed: int


class Outcome(NamedTuple):
    """What one contender did on one split; `complaints` are the warnings of its fit."""

    model: Any
    y_true: Floats
    y_prob: Floats
    complaints: tuple[str, ...]


class Contender(NamedTuple):
    """A way to get probabilities, and what it costs.

    Attributes
    ----------
    name : str
    fits : int
        Fits of the base model.
    held_out : str
        Labels a fit did without, so that they could calibrate it.
    build : callable
        (base model, split) to an unfitted classifier.
    style : int or None
        Entry of `STYLES` in the plot; None is not drawn.
    """

    name: str
    fits: int
    held_out: str
    build: Callable[[Any, Split], Any]
    style: int | None = None


# Outcomes by the base model's C and the contender's name, one per split.
Outcomes = dict[float, dict[str, list[Outcome]]]


def _platt(scores: str) -> Callable[[Any, Split], Any]:
    return lambda base, split: ScoreCalibratedClassifier(
        base, method="platt", scores=scores, holdout_size=0.3, random_state=split.seed
    )


# All calibrate the same logistic regression, and the table says where one loses.
CONTENDERS = (
    Contender("uncalibrated", 1, "0", lambda base, split: base, style=1),
    Contender("angcal", 1, "0", lambda base, split: AngularCalibratedClassifier(base), style=0),
    Contender(
        "angcal with pool",
        1,
        "0",
        lambda base, split: AngularCalibratedClassifier(base, pool=split.pool),
    ),
    Contender("Platt, leave-one-out", 1, "0", _platt("loo")),
    Contender("Platt, holdout", 1, "30", _platt("holdout"), style=2),
    Contender(
        "CalibratedClassifierCV(5)",
        5,
        "20 per fit",
        lambda base, split: CalibratedClassifierCV(base, cv=5),
        style=3,
    ),
)


def make_split(X: Floats, y: Floats, seed: int, index: int) -> Split:
    """Shuffle the rows and cut them into labelled, unlabelled and test rows."""
    order = np.random.default_rng([seed, index]).permutation(len(y))
    labelled, pool, test = np.split(order, [N_LABELS, N_LABELS + N_POOL])
    return Split(X[labelled], y[labelled], X[pool], X[test], y[test], seed=seed + index)


def base_model(C: float) -> Any:
    """Logistic regression on standardized pixels; the scaler is fitted on the labelled rows."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=C, tol=1e-6, max_iter=10_000))


def evaluate(contender: Contender, C: float, split: Split) -> Outcome:
    """Fit one contender on a split and predict its test rows; warnings are kept, not shown."""
    model = contender.build(base_model(C), split)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(split.X, split.y)
    y_prob = model.predict_proba(split.X_test)[:, 1]
    return Outcome(model, split.y_test, y_prob, tuple(str(entry.message) for entry in caught))


def run(splits: Sequence[Split]) -> Outcomes:
    """Every contender at every penalty on every split."""
    return {
        C: {
            contender.name: [evaluate(contender, C, split) for split in splits]
            for contender in CONTENDERS
        }
        for C in PENALTIES
    }


# -- the table ---------------------------------------------------------------------------------


def scores_of(outcomes: Sequence[Outcome]) -> Floats:
    """One row per split, one column per metric."""
    return np.array([[metric(o.y_true, o.y_prob) for metric in METRICS.values()] for o in outcomes])


def table(by_name: dict[str, list[Outcome]]) -> list[str]:
    """Mean ± standard error over splits, per contender and metric; * marks a column's lowest."""
    scores = [scores_of(by_name[contender.name]) for contender in CONTENDERS]
    lowest = np.min([values.mean(axis=0) for values in scores], axis=0)
    rows = []
    for contender, values in zip(CONTENDERS, scores, strict=True):
        mean = values.mean(axis=0)
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        cells = [
            f"{m:.3f} ± {e:.3f}{'*' if m == low else ''}"
            for m, e, low in zip(mean, error, lowest, strict=True)
        ]
        rows.append([contender.name, str(contender.fits), contender.held_out, *cells])
    header = ["", "fits", "labels held out", *METRICS]
    return terminal.text_table(header, rows, left=len(header)).splitlines()


def complaints(by_name: dict[str, list[Outcome]]) -> list[str]:
    """Warnings raised in fits, once each, with the number of splits that saw them."""
    lines = []
    for name, outcomes in by_name.items():
        for message in sorted({text for outcome in outcomes for text in outcome.complaints}):
            count = sum(message in outcome.complaints for outcome in outcomes)
            lines.append(f"{name} warned in {count} of {len(outcomes)} splits: {message}")
    return lines


def report(outcomes: Outcomes, seed: int) -> str:
    """All that is printed, except where the plot went."""
    by_default = outcomes[1.0]
    n_splits, n_test = len(by_default["angcal"]), len(by_default["angcal"][0].y_true)
    parts = [
        terminal.wrap(
            f"scikit-learn's digits, even against odd: {N_LABELS} labels, {N_POOL} unlabelled "
            f"rows, {n_test} test rows. Mean ± standard error over {n_splits} random splits; "
            "lower is better in every column; * is the lowest mean, which within a standard "
            "error or two need not be the best."
        )
    ]
    for C, description in PENALTIES.items():
        title = f"LogisticRegression(C={C:g}), {description}"
        parts.append("\n".join([title, *table(outcomes[C])]))
        parts.extend(terminal.wrap(line, "  ") for line in complaints(outcomes[C]))
    predictions = [outcome.y_prob for C in PENALTIES for outcome in outcomes[C]["angcal"]]
    chance = chance_ece(predictions, seed)
    parts.append(
        terminal.wrap(
            f"Of each ECE about {chance:.3f} is chance: a calibrated predictor shows it on "
            f"{n_test} test rows."
        )
    )
    lines = ["The angle on the first split, C=1"]
    for name in ("angcal", "angcal with pool"):
        angle, _ = found_angles(by_default[name][0].model.angle_)
        lines.append(terminal.wrap(f"{name}: {angle_sentence(angle)}", "  "))
    parts.append("\n".join(lines))
    return "\n\n".join(parts)


# -- the plot ----------------------------------------------------------------------------------


def draw(outcomes: Outcomes) -> Any:
    """One reliability diagram per penalty, test rows of all splits pooled.

    There are no bands: a row is a test row in more than one split, so binomial bands would be too
    narrow.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(12.0, 4.75), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    axes = figure.subplots(1, len(PENALTIES), sharey=True)
    for ax, (C, description) in zip(axes, PENALTIES.items(), strict=True):
        for contender in CONTENDERS:
            if contender.style is None:
                continue
            pooled = outcomes[C][contender.name]
            color, marker, dash = STYLES[contender.style]
            ReliabilityDisplay.from_predictions(
                np.concatenate([outcome.y_true for outcome in pooled]),
                np.concatenate([outcome.y_prob for outcome in pooled]),
                n_bins=10,
                name=contender.name,
                ax=ax,
                band=False,
                color=color,
                marker=marker,
                linestyle=dash,
            )
        ax.set_title(f"C = {C:g}: {description}", fontsize=11)
        ax.get_legend().remove()
        ax.set(xticks=np.linspace(0, 1, 5), yticks=np.linspace(0, 1, 5))
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure so that ``path`` is never half a file."""
    with written(path) as file:
        figure.savefig(file, format=path.suffix.lstrip(".") or "png", dpi=130)


def plot(outcomes: Outcomes, path: Path) -> str:
    """Draw and save the plot; returns a sentence that says where it is, or how to get it."""
    try:
        figure = draw(outcomes)
    except ImportError:
        return "There is no plot without matplotlib; pip install 'angcal[plot]' and run this again."
    save(figure, path)
    return (
        f"Reliability diagrams, all splits pooled: {path}\n"
        "They show errors that all splits share; those that differ from split to split, as with a "
        "small holdout, cancel in them and count in the table."
    )


# -- the command -------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal demo``."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo_output") / "reliability.png",
        help="file of the picture (default: demo_output/reliability.png)",
    )
    parser.add_argument(
        "--splits",
        type=terminal.at_least(2, "a standard error needs at least 2 splits"),
        default=10,
        help="random splits, at least 2 (default: 10)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the splits (default: 0)")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    terminal.require_packages("demo", "matplotlib", "rich")
    terminal.check_out(options.out, ".png", ".svg", ".pdf")
    demonstrate(options.out, options.splits, options.seed)


def demonstrate(out: Path, n_splits: int, seed: int) -> None:
    """Fit all contenders, print the outcome, save the plot."""
    digits = load_digits()
    labels = (digits.target % 2).astype(np.float64)
    with terminal.stages(1) as begin:
        begin("calibrating digits")
        outcomes = run([make_split(digits.data, labels, seed, i) for i in range(n_splits)])
    terminal.say(report(outcomes, seed) + "\n")
    terminal.say("\n".join(terminal.wrap(line) for line in plot(outcomes, out).splitlines()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo.

    Parameters
    ----------
    arguments : sequence of str, optional
        Of the command line; those of the process by default.
    """
    about = "Calibrate digits from 100 labels."
    parser = argparse.ArgumentParser(prog="python -m angcal.demo", description=about)
    add_arguments(parser)
    options = parser.parse_args(arguments)
    terminal.require_packages("demo", "rich")  # rather now than after a minute's work
    demonstrate(options.out, options.splits, options.seed)
