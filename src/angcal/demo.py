"""Calibrate a classifier of handwritten digits from 100 labels: ``python -m angcal.demo``.

Even against odd digits, 64 pixels, 100 labels, 800 rows without labels, 897 test rows. Every
contender calibrates the same logistic regression, at three strengths of its penalty, and all that
comes out is printed: where a contender loses, the table says so.
"""

from __future__ import annotations

import argparse
import os
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angcal._typing import Floats
from angcal.arguments import seed
from angcal.displays import STYLES, ReliabilityDisplay
from angcal.estimators import AngularCalibratedClassifier, ScoreCalibratedClassifier
from angcal.metrics import brier_score, expected_calibration_error, log_loss

__all__ = ["main"]

N_LABELS, N_POOL, HOLDOUT_SIZE, N_FOLDS = 100, 800, 0.3, 5
# scikit-learn's default penalty, and a hundred times more and less of it.
PENALTIES = {0.01: "strong penalty", 1.0: "scikit-learn's default", 100.0: "weak penalty"}
DEFAULT_C = 1.0
DEFAULT_OUT = Path("demo_output") / "reliability.png"
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "ECE": expected_calibration_error,
    "log-loss": log_loss,
    "Brier": brier_score,
}
WIDTH = 96  # of the printed text
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled rows, rows whose labels nobody sees, test rows."""

    X: Floats
    y: Floats
    pool: Floats
    X_test: Floats
    y_test: Floats
    seed: int


@dataclass(frozen=True)
class Contender:
    """A way to get probabilities, and what it costs.

    Attributes
    ----------
    name : str
    build : callable
        (base model, split) to an unfitted classifier.
    fits : int
        Fits of the base model.
    held_out : str
        Labels a fit did without, so that they could calibrate it.
    style : int or None
        Entry of `STYLES` in the plot; None is not drawn.
    """

    name: str
    build: Callable[[Any, Split], Any]
    fits: int
    held_out: str
    style: int | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one contender did on one split."""

    model: Any
    y_true: Floats
    y_prob: Floats
    complaints: tuple[str, ...]


# Outcomes by the base model's C and the contender's name, one per split.
Outcomes = dict[float, dict[str, list[Outcome]]]

PLAIN, ANGULAR, ANGULAR_POOL = "uncalibrated", "angcal", "angcal with pool"
CONTENDERS = (
    Contender(PLAIN, lambda base, split: base, 1, "0", style=1),
    Contender(ANGULAR, lambda base, split: AngularCalibratedClassifier(base), 1, "0", style=0),
    Contender(
        ANGULAR_POOL,
        lambda base, split: AngularCalibratedClassifier(base, pool=split.pool),
        1,
        "0",
    ),
    Contender(
        "Platt, leave-one-out",
        lambda base, split: ScoreCalibratedClassifier(base, method="platt", scores="loo"),
        1,
        "0",
    ),
    Contender(
        "Platt, holdout",
        lambda base, split: ScoreCalibratedClassifier(
            base,
            method="platt",
            scores="holdout",
            holdout_size=HOLDOUT_SIZE,
            random_state=split.seed,
        ),
        1,
        f"{HOLDOUT_SIZE * N_LABELS:.0f}",
        style=2,
    ),
    Contender(
        f"CalibratedClassifierCV({N_FOLDS})",
        lambda base, split: CalibratedClassifierCV(base, cv=N_FOLDS),
        N_FOLDS,
        f"{N_LABELS // N_FOLDS} per fit",
        style=3,
    ),
)


def make_split(X: Floats, y: Floats, seed: int, index: int) -> Split:
    """Shuffle the rows and cut them into labelled, unlabelled and test rows."""
    order = np.random.default_rng([seed, index]).permutation(len(y))
    labelled, pool, test = np.split(order, [N_LABELS, N_LABELS + N_POOL])
    return Split(X[labelled], y[labelled], X[pool], X[test], y[test], seed=seed + index)


def base_model(C: float) -> Any:
    """Logistic regression on standardised pixels; the scaler is fitted on the labelled rows."""
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
    return np.array(
        [
            [metric(outcome.y_true, outcome.y_prob) for metric in METRICS.values()]
            for outcome in outcomes
        ]
    )


def table(by_name: dict[str, list[Outcome]]) -> list[str]:
    """Mean ± standard error over splits, per contender and metric; * marks a column's lowest."""
    scores = {name: scores_of(outcomes) for name, outcomes in by_name.items()}
    lowest = np.min([values.mean(axis=0) for values in scores.values()], axis=0)
    header = f"{'':<26}{'fits':>4}  {'labels held out':<15}"
    lines = [header + "".join(f"  {name:<14}" for name in METRICS)]
    for contender in CONTENDERS:
        values = scores[contender.name]
        mean = values.mean(axis=0)
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        cells = [
            f"  {m:.3f} ± {e:.3f}{'*' if m == low else ' '}"
            for m, e, low in zip(mean, error, lowest, strict=True)
        ]
        line = f"{contender.name:<26}{contender.fits:>4}  {contender.held_out:<15}"
        lines.append(line + "".join(cells))
    return [line.rstrip() for line in lines]


def chance_ece(outcomes: Sequence[Outcome], seed: int, n_draws: int = 20) -> float:
    """Mean ECE where labels are drawn from the predictions themselves: what chance alone gives."""
    # A stream of its own: labels drawn with the numbers that made the predictions prove nothing.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    draws = [
        expected_calibration_error(rng.random(len(o.y_prob)) < o.y_prob, o.y_prob)
        for o in outcomes
        for _ in range(n_draws)
    ]
    return float(np.mean(draws))


def complaints(by_name: dict[str, list[Outcome]]) -> list[str]:
    """Warnings raised in fits, once each, with the number of splits that saw them."""
    lines = []
    for name, outcomes in by_name.items():
        for message in sorted({text for outcome in outcomes for text in outcome.complaints}):
            count = sum(message in outcome.complaints for outcome in outcomes)
            lines.append(f"{name} warned in {count} of {len(outcomes)} splits: {message}")
    return lines


def angle_in_words(outcome: Outcome) -> str:
    """The cosine, its interval and the reason, as sentences."""
    angle = outcome.model.angle_
    low, high = angle.interval
    return (
        f"the cosine between fitted and true weights is between {low:.2f} and {high:.2f} with "
        f"{angle.confidence:.0%} confidence; {angle.cosine:.3f} is likeliest, {angle.degrees:.0f}° "
        f"apart. How it was found ({angle.method}): {angle.reason}."
    )


def wrap(text: str, indent: str = "") -> str:
    """Break a paragraph at the width of the tables."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent)


def report(outcomes: Outcomes, seed: int) -> str:
    """All that is printed, except where the plot went."""
    n_splits = len(outcomes[DEFAULT_C][PLAIN])
    n_test = len(outcomes[DEFAULT_C][PLAIN][0].y_true)
    parts = [
        wrap(
            f"scikit-learn's digits, even against odd: {N_LABELS} labels, {N_POOL} unlabelled "
            f"rows, {n_test} test rows. Mean ± standard error over {n_splits} random splits; "
            "lower is better in every column; * is the lowest mean, which within a standard "
            "error or two need not be the best."
        )
    ]
    for C, description in PENALTIES.items():
        title = f"LogisticRegression(C={C:g}), {description}"
        parts.append("\n".join([title, *table(outcomes[C])]))
        parts.extend(wrap(line, "  ") for line in complaints(outcomes[C]))
    chance = chance_ece([outcome for C in PENALTIES for outcome in outcomes[C][ANGULAR]], seed)
    parts.append(
        wrap(
            f"Of each ECE about {chance:.3f} is chance: so much a calibrated predictor shows on "
            f"{n_test} test rows."
        )
    )
    first = outcomes[DEFAULT_C]
    parts.append(
        "\n".join(
            [
                f"The angle on the first split, C={DEFAULT_C:g}",
                *(
                    wrap(f"{name}: {angle_in_words(first[name][0])}", "  ")
                    for name in (ANGULAR, ANGULAR_POOL)
                ),
            ]
        )
    )
    return "\n\n".join(parts)


# -- the plot ----------------------------------------------------------------------------------


def draw(outcomes: Outcomes) -> Any:
    """One reliability diagram per penalty, test rows of all splits pooled.

    There are no bands: a row is in the test set of several splits, so binomial bands would be too
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
        ax.set(xticks=TICKS, yticks=TICKS)
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure under another name first, so that ``path`` is never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        figure.savefig(unfinished, format=path.suffix.lstrip(".") or "png", dpi=130)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


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


def _at_least_two(text: str) -> int:
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError("a standard error needs at least 2 splits")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo.

    Parameters
    ----------
    arguments : sequence of str, optional
        Of the command line; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m angcal.demo", description="Calibrate digits from 100 labels."
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="file of the plot")
    parser.add_argument("--splits", type=_at_least_two, default=10, help="random splits")
    parser.add_argument("--seed", type=seed, default=0, help="of the splits")
    options = parser.parse_args(arguments)

    digits = load_digits()
    even_or_odd = (digits.target % 2).astype(np.float64)
    splits = [
        make_split(digits.data, even_or_odd, options.seed, index) for index in range(options.splits)
    ]
    outcomes = run(splits)
    print(report(outcomes, options.seed))
    print()
    print("\n".join(wrap(line) for line in plot(outcomes, options.out).splitlines()))


if __name__ == "__main__":
    main()
