"""Tell handwritten digits apart with few labels, and compare how sure each way is with how often it
is right: even from odd with 60 labels, all ten with 100, and even from odd with 1000, where there
is little to gain. Tables are printed and a picture is saved. It takes half a minute and needs no
data of yours and no network.

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
from sklearn.model_selection import train_test_split

from angcal._typing import Floats
from angcal.cli import terminal
from angcal.displays import STYLES, ReliabilityDisplay
from angcal.estimators import AngularCalibratedClassifier, ScoreCalibratedClassifier
from angcal.files import written
from angcal.metrics import expected_calibration_error
from angcal.metrics.scores import judged, row_losses
from angcal.report.comparison import HAS_TEMPERATURE, chance_ece

FEATURES = 64


class Task(NamedTuple):
    """Which classes are separated, from how many labels."""

    name: str
    labels: int
    ten: bool

    def targets(self, digits: Any) -> Any:
        """Classes 0, 1, … of the digits."""
        return digits if self.ten else digits % 2


TASKS = (
    Task("Even or odd, 60 labels", 60, ten=False),
    Task("Which of ten, 100 labels", 100, ten=True),
    Task("Even or odd, 1000 labels", 1000, ten=False),
)


class Split(NamedTuple):
    """Labeled rows, test rows."""

    X: Floats
    y: Any
    X_test: Floats
    y_test: Any
    seed: int


class Outcome(NamedTuple):
    """What one contender did on one split; `complaints` are the warnings of its fit."""

    model: Any
    y_true: Any
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
        Share of the labels that a fit did without, so that they could calibrate it.
    build : callable
        (base model, seed) to an unfitted classifier.
    style : int or None
        Entry of `STYLES` in the plot; None is not drawn.
    """

    name: str
    fits: int
    held_out: str
    build: Callable[[Any, int], Any]
    style: int | None = None


# Outcomes by the task's and the contender's name, one per split.
Outcomes = dict[str, dict[str, list[Outcome]]]


def _on_scores(scores: str) -> Callable[[Any, int], Any]:
    return lambda base, seed: ScoreCalibratedClassifier(
        base, method="temperature", scores=scores, holdout_size=0.3, random_state=seed
    )


def _folds(method: str) -> Callable[[Any, int], Any]:
    return lambda base, seed: CalibratedClassifierCV(base, method=method, cv=5)


# All calibrate the same logistic regression, and the table says where one loses.
CONTENDERS = (
    Contender("uncalibrated", 1, "0", lambda base, seed: base, style=1),
    Contender("angcal", 1, "0", lambda base, seed: AngularCalibratedClassifier(base), style=0),
    Contender("temperature, leave-one-out", 1, "0", _on_scores("loo")),
    Contender("temperature, holdout", 1, "30%", _on_scores("holdout")),
    Contender("CalibratedClassifierCV", 5, "20%", _folds("sigmoid"), style=3),
    *(
        (Contender("CalibratedClassifierCV, temperature", 5, "20%", _folds("temperature")),)
        if HAS_TEMPERATURE
        else ()
    ),
)


def make_split(task: Task, X: Floats, digits: Any, seed: int, index: int) -> Split:
    """So many labeled rows, as many of each class as can be; the others are test rows."""
    y = task.targets(digits)
    draw = np.random.default_rng([seed, index]).integers(2**31)
    parts = train_test_split(X, y, train_size=task.labels, stratify=y, random_state=int(draw))
    return Split(parts[0], parts[2], parts[1], parts[3], seed=seed + index)


def base_model() -> Any:
    """Logistic regression as it comes, run to its end."""
    return LogisticRegression(tol=1e-6, max_iter=10_000)


def evaluate(contender: Contender, split: Split) -> Outcome:
    """Fit one contender on a split and predict its test rows; warnings are kept, not shown."""
    model = contender.build(base_model(), split.seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(split.X, split.y)
    y_prob = model.predict_proba(split.X_test)
    return Outcome(model, split.y_test, y_prob, tuple(str(entry.message) for entry in caught))


def run(
    n_splits: int,
    seed: int,
    tasks: Sequence[Task] = TASKS,
    begin: Callable[[str], object] = str,
) -> Outcomes:
    """Every contender on every split of every task."""
    digits = load_digits()
    outcomes: Outcomes = {}
    for task in tasks:
        begin(task.name)
        splits = [make_split(task, digits.data, digits.target, seed, i) for i in range(n_splits)]
        outcomes[task.name] = {
            one.name: [evaluate(one, split) for split in splits] for one in CONTENDERS
        }
    return outcomes


# -- the table ---------------------------------------------------------------------------------


def _sure(y: Any, P: Floats) -> float:
    return float(P.max(axis=1).mean())


def _right(y: Any, P: Floats) -> float:
    return float((P.argmax(axis=1) == y).mean())


def _ece(y: Any, P: Floats) -> float:
    return float(expected_calibration_error(*judged(P, y)))


def _log_loss(y: Any, P: Floats) -> float:
    return float(row_losses(P, y).mean())


METRICS: dict[str, Callable[[Any, Floats], float]] = {
    "sure": _sure,
    "right": _right,
    "ECE": _ece,
    "log-loss": _log_loss,
}
LOWER_IS_BETTER = ("ECE", "log-loss")


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
            f"{m:.3f} ± {e:.3f}{'*' if m == low else ''}" if name in LOWER_IS_BETTER else f"{m:.1%}"
            for name, m, e, low in zip(METRICS, mean, error, lowest, strict=True)
        ]
        rows.append([contender.name, str(contender.fits), contender.held_out, *cells])
    header = ["", "fits", "labels held out", *METRICS]
    return terminal.text_table(header, rows, left=len(header)).splitlines()


def complaints(by_name: dict[str, list[Outcome]]) -> list[str]:
    """Warnings raised in fits, once each, with the number of splits that saw them."""
    lines = []
    for name, outcomes in by_name.items():
        # What follows a colon has numbers, other ones in each split.
        said = [{text.split(":")[0] for text in outcome.complaints} for outcome in outcomes]
        for message in sorted(set().union(*said)):
            count = sum(message in some for some in said)
            lines.append(f"{name} warned in {count} of {len(outcomes)} splits: {message}")
    return lines


def report(outcomes: Outcomes, seed: int) -> str:
    """All that is printed, except where the plot went."""
    n_splits = len(next(iter(outcomes.values()))["angcal"])
    parts = [
        terminal.wrap(
            f"scikit-learn's digits, {FEATURES} pixels each, and its LogisticRegression() as it "
            f"comes. Mean over {n_splits} random splits, ± standard error; “sure” is the mean "
            "probability of the likeliest class, “right” how often it is the true one: the two "
            "should agree. * is the lowest mean, which within a standard error or two need not be "
            "the best."
        )
    ]
    for name, by_name in outcomes.items():
        parts.append("\n".join([name, *table(by_name)]))
        parts.append(terminal.wrap(in_words(by_name, seed)))
        parts.extend(terminal.wrap(line, "  ") for line in complaints(by_name))
    return "\n\n".join(parts)


def in_words(by_name: dict[str, list[Outcome]], seed: int) -> str:
    """How far being sure and being right are apart, with and without angcal, and what is chance."""
    sentences = []
    for name in ("uncalibrated", "angcal"):
        sure, right, *_ = scores_of(by_name[name]).mean(axis=0)
        sentences.append(f"{name} is {sure:.0%} sure and {right:.0%} right")
    ours = by_name["angcal"]
    chance = chance_ece([judged(one.y_prob, one.y_true)[1] for one in ours], seed)
    n_test = len(ours[0].y_true)
    return f"{'; '.join(sentences)}. Of each ECE {chance:.3f} is chance, on {n_test} test rows."


# -- the plot ----------------------------------------------------------------------------------


def draw(outcomes: Outcomes) -> Any:
    """One reliability diagram per task, test rows of all splits pooled.

    There are no bands: a row is a test row in more than one split, so binomial bands would be too
    narrow.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(4.0 * len(outcomes), 4.75), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    axes = figure.subplots(1, len(outcomes), squeeze=False)[0]
    for ax, (name, by_name) in zip(axes, outcomes.items(), strict=True):
        for contender in CONTENDERS:
            if contender.style is None:
                continue
            pooled = by_name[contender.name]
            color, marker, dash = STYLES[contender.style]
            ReliabilityDisplay.from_predictions(
                np.concatenate([outcome.y_true for outcome in pooled]),
                np.concatenate([outcome.y_prob for outcome in pooled]),
                n_bins=10,
                strategy="quantile",
                name=contender.name,
                ax=ax,
                band=False,
                color=color,
                marker=marker,
                linestyle=dash,
            )
        ax.set_title(name, fontsize=11)
        ax.get_legend().remove()
        ax.set(xticks=np.linspace(0, 1, 5), yticks=np.linspace(0, 1, 5))
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
        default=5,
        help="random splits, at least 2 (default: 5)",
    )
    parser.add_argument("--seed", type=terminal.seed, default=0, help="of the splits (default: 0)")


def execute(options: argparse.Namespace) -> None:
    """Carry out a parsed command line."""
    terminal.require_packages("demo", "matplotlib", "rich")
    terminal.check_out(options.out, ".png", ".svg", ".pdf")
    demonstrate(options.out, options.splits, options.seed)


def demonstrate(out: Path, n_splits: int, seed: int) -> None:
    """Fit all contenders, print the outcome, save the plot."""
    with terminal.stages(len(TASKS)) as begin:
        outcomes = run(n_splits, seed, begin=begin)
    terminal.say(report(outcomes, seed) + "\n")
    terminal.say("\n".join(terminal.wrap(line) for line in plot(outcomes, out).splitlines()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo; the arguments are by default those of the process."""
    about = "Tell digits apart with few labels."
    parser = argparse.ArgumentParser(prog="python -m angcal.demo", description=about)
    add_arguments(parser)
    options = parser.parse_args(arguments)
    terminal.require_packages("demo", "rich")  # rather now than after a minute's work
    demonstrate(options.out, options.splits, options.seed)
