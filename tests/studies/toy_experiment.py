"""A small experiment for the tests of the engine; other processes import it by this name.

The environment says what to do besides: ``TOY_LOG`` is a file that every execution of a trial adds
a line to, ``TOY_FAIL`` the number of a trial that raises.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.engine.experiment import Experiment
from studies.engine.runner import run_experiment, trial_generator


@dataclass(frozen=True)
class ToySettings:
    trials: int = 12
    pause: float = 0.0
    sizes: tuple[int, ...] = (3, 5)
    seed: int = 2025


def trials(settings: ToySettings) -> Sequence[Mapping[str, Any]]:
    return [{"number": number} for number in range(settings.trials)]


def run(settings: ToySettings, trial: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    number = trial["number"]
    log(number)
    if os.environ.get("TOY_FAIL") == str(number):
        raise ArithmeticError(f"trial {number} was told to fail")
    rng = trial_generator(settings.seed, "toy", number)
    time.sleep(settings.pause * rng.uniform(0.5, 1.5))
    rows = [
        {"size": size, "mean": rng.normal(size=size).mean(), "label": f'a "{size}", b'}
        for size in settings.sizes
    ]
    # No row, one or two: a trial need not leave any in a second table.
    return {"": rows, "extra": [{"third": 1 / 3, "whole": k} for k in range(number % 3)]}


def log(number: int) -> None:
    if "TOY_LOG" not in os.environ:
        return
    file = os.open(os.environ["TOY_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{number}\n".encode())
    os.close(file)


TOY = Experiment(
    name="toy",
    full=ToySettings(pause=0.05),
    quick=ToySettings(),
    tables={"": ("size", "mean", "label"), "extra": ("third", "whole")},
    optional_tables=("extra",),
    trials=trials,
    run=run,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trials", type=int, default=TOY.quick.trials)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    settings = replace(TOY.quick, trials=options.trials, pause=options.pause)
    run_experiment(TOY, settings, options.folder, jobs=options.jobs)
