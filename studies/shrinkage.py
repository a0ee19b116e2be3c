"""How strongly rare columns are shrunk, how C is chosen, what is averaged: ``studies.shrinkage``.

Variants of `angcal.AngularLogisticRegressionCV` on the cells of the benchmark of real labels with
at most 500,000 entries, on splits that the benchmark does not have. What was chosen, was chosen on
the first half of the sets (`studies.planner.outcomes.half_of`); the second half is the check. The
CSV goes on where it was. The table is ``studies/results/shrinkage/shrinkage.md``, which
docs/fill_study.py puts into docs/research.md.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import numpy as np

from angcal import AngularLogisticRegressionCV
from angcal.files import write_text
from studies import RESULTS
from studies.datasets import available
from studies.engine.runner import trial_generator
from studies.engine.store import Row, as_csv, read_csv
from studies.engine.tables import markdown
from studies.peers.real import FULL
from studies.peers.tasks import SizeError, Split, draw_split, load_task, training_rows
from studies.planner.outcomes import half_of, judged
from studies.rivals import evidence

FOLDER = RESULTS / "shrinkage"
FIRST_SPLIT, MOST_TEST = 100, 3000
RIDGE = "ridge"
KEPT = "as kept"
VARIANTS: dict[str, dict[str, Any]] = {
    KEPT: {},
    RIDGE: {"rarity": 0.0},
    "rarity 1": {"rarity": 1.0},
    "20 penalties": {"Cs": 20},
    "averaged over penalties": {"average": "penalties"},
    "in five folds, 8 penalties": {"average": "folds", "Cs": 8},
}
ALONE = "C by leave-one-out alone"
RIVALS = {
    "ridge by Laplace evidence, moderated": True,
    "ridge by Laplace evidence, plain": False,
}
MOST_RIVAL_ROWS = 300
"""Rivals are run on the first split and so many labels at most, as they take seconds."""


def trial(name: str, ratio: float, split: int) -> list[Row]:
    """A row for each variant on one split; none where the cell is too small or too large."""
    task = load_task(name)
    try:
        n = training_rows(task, ratio, FULL)
    except SizeError:
        return []
    if n * task.X.shape[1] > FULL.costly_entries:
        return []
    rng = trial_generator(FULL.seed, "real", name, ratio, split)
    data = draw_split(task, n, MOST_TEST, rng)
    rows = []
    rivals = RIVALS if split == FIRST_SPLIT and n <= MOST_RIVAL_ROWS else ()
    for variant in (*VARIANTS, ALONE, *rivals):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p, models = predicted(variant, data)
        loss, _ = judged(p, data.y_test)
        key = {"set": name, "ratio": f"{ratio:g}", "n": str(n), "split": str(split)}
        rows.append({**key, "variant": variant, "log_loss": f"{loss:.5g}", "models": str(models)})
    return rows


def predicted(variant: str, data: Split) -> tuple[np.ndarray, int]:
    """P(y = 1) of the test rows by one of the variants, and how many linear models give it."""
    if variant in RIVALS:
        return evidence(data.X_train, data.y_train, data.X_test, RIVALS[variant]), 1
    model = AngularLogisticRegressionCV(**VARIANTS.get(variant, {}))
    model.fit(data.X_train, data.y_train)
    if variant == ALONE:
        C = model.path_.C[np.argmin(model.path_.log_loss + model.path_.sampling_error)]
        model = AngularLogisticRegressionCV([C]).fit(data.X_train, data.y_train)
    kept = getattr(model.average_, "shares", getattr(model.average_, "classifiers", [0]))
    return model.predict_proba(data.X_test)[:, 1], len(kept)


def table(rows: list[Row]) -> str:
    """Of every variant the log-loss over that of what is kept, by halves and cells."""
    return "\n".join(
        _table(half, [row for row in rows if half_of(row["set"]) == half])
        for half in ("first", "second")
        if any(half_of(row["set"]) == half for row in rows)
    )


def _table(half: str, rows: list[Row]) -> str:
    losses: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        cell = losses.setdefault((row["set"], row["ratio"]), {})
        cell.setdefault(row["variant"], {})[row["split"]] = float(row["log_loss"])
    sets = list(dict.fromkeys(name for name, _ in losses))
    lines = []
    for variant in (*VARIANTS, ALONE, *RIVALS):
        ratio = {
            cell: float(sum(own.values()) / sum(found[KEPT][split] for split in own))
            for cell, found in losses.items()
            if (own := found.get(variant))
        }
        of_sets = [
            np.mean([r for (name, _), r in ratio.items() if name == own])
            for own in sets
            if own in {name for name, _ in ratio}
        ]
        worst = max(ratio, key=lambda cell: ratio[cell])
        models = np.median([int(row["models"]) for row in rows if row["variant"] == variant])
        below, above = (sum(sign * (r - 1.0) > 1e-3 for r in ratio.values()) for sign in (-1, 1))
        lines.append(
            (
                variant,
                f"{np.mean(of_sets):.4f}",
                f"{np.std(of_sets, ddof=1) / np.sqrt(len(of_sets)):.4f}",
                f"{below} / {above}",
                f"{ratio[worst]:.3f} ({worst[0]}, n/d = {worst[1]})",
                f"{models:g}",
            )
        )
    splits = len({row["split"] for row in rows})
    told = f"{len(losses)} cells of {len(sets)} sets of the {half} half, up to {splits} splits each"
    header = (
        "variant",
        "mean over sets of the ratio to what is kept",
        "standard error",
        "cells below / above by 0.1 %",
        "largest",
        "models, median",
    )
    return f"{told}:\n\n{markdown(header, lines)}\n"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument("--splits", type=int, default=2)
    options = parser.parse_args()
    path = FOLDER / "shrinkage.csv"
    rows = [] if options.fresh else read_csv(path)
    done = {(row["set"], row["ratio"], row["split"]) for row in rows}
    here = [name for name in FULL.datasets if name in available()]
    for split in range(FIRST_SPLIT, FIRST_SPLIT + options.splits):
        for name, ratio in product(here, FULL.ratios):
            if (name, f"{ratio:g}", str(split)) not in done:
                rows += trial(name, ratio, split)
                write_text(path, as_csv(rows))
    write_text(FOLDER / "shrinkage.md", table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
