"""Seconds of two source trees of angcal, in alternating processes.

    python -m studies.speed.trees --before OLD/src --after src

Each round fits every case a few times in a fresh process of one tree, then in one of the other, so
that whatever else the machine does falls on both. The median over all fits of a case is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FITS, ROUNDS = 5, 4


def cases() -> dict[str, Callable[[], Any]]:
    """Fits by name; data are drawn before the clock starts."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV

    def rows(n: int, d: int, classes: int = 2) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        logits = 3.0 * X @ rng.normal(size=(d, classes)) / np.sqrt(d)
        return X, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)

    def one(n: int, d: int, C: float, classes: int = 2, **options: Any) -> Callable[[], Any]:
        X, y = rows(n, d, classes)
        model = LogisticRegression(C=C, max_iter=1000)
        return lambda: AngularCalibratedClassifier(model, **options).fit(X, y)

    def path(X: Any, y: Any, **options: Any) -> Callable[[], Any]:
        return lambda: AngularLogisticRegressionCV(**options).fit(X, y)

    digits = load_digits(return_X_y=True)
    fitted = one(2000, 100, 0.1)()
    many = np.random.default_rng(1).normal(size=(200_000, 100))
    return {
        "fit 200x50, C=1": one(200, 50, 1.0),
        "fit 800x384, C=1": one(800, 384, 1.0),
        "fit 800x384, C=0.01": one(800, 384, 0.01),
        "fit 5000x100, C=0.1": one(5000, 100, 0.1),
        "fit 400x1500, C=0.01": one(400, 1500, 0.01),
        "fit 1000x2000, C=0.01": one(1000, 2000, 0.01),
        "fit 3000x1000, C=0.01": one(3000, 1000, 0.01),
        "fit 800x384, pool": one(800, 384, 1.0, pool=rows(1600, 384)[0]),
        "fit 300x60, 3 classes": one(300, 60, 1.0, 3),
        "fit 1000x64, 10 classes": one(1000, 64, 1.0, 10),
        "path 200x50": path(*rows(200, 50)),
        "path 800x384": path(*rows(800, 384)),
        "path 1000x2000": path(*rows(1000, 2000)),
        "path of digits": path(digits[0], digits[1] % 2),
        "average of penalties 150x60": path(*rows(150, 60), average="penalties"),
        "predict 200000x100": lambda: fitted.predict_proba(many),
    }


def measure(only: str | None) -> dict[str, list[float]]:
    """Seconds of every fit in this process, after one that warms up."""
    found: dict[str, list[float]] = {}
    warnings.simplefilter("ignore")
    for name, fit in cases().items():
        if only is not None and only not in name:
            continue
        fit()
        for _ in range(FITS):
            start = time.perf_counter()
            fit()
            found.setdefault(name, []).append(time.perf_counter() - start)
    return found


def run_tree(source: Path, only: str | None) -> dict[str, list[float]]:
    """The same in a fresh process that imports angcal from one tree."""
    command = [sys.executable, __file__, "--measure", *(["--only", only] if only else [])]
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> None:
    """Compare two trees, and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path, default=Path("src"))
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        print(json.dumps(measure(chosen.only)))
        return
    seconds: dict[str, dict[str, list[float]]] = {"before": {}, "after": {}}
    for _ in range(ROUNDS):
        for side, source in (("before", chosen.before), ("after", chosen.after)):
            for name, values in run_tree(source, chosen.only).items():
                seconds[side].setdefault(name, []).extend(values)
    print(f"{'case':30} {'before':>10} {'after':>10} {'ratio':>7}")
    for name in seconds["before"]:
        before, after = (float(np.median(seconds[side][name])) for side in ("before", "after"))
        print(f"{name:30} {1e3 * before:8.1f}ms {1e3 * after:8.1f}ms {after / before:7.2f}")


if __name__ == "__main__":
    main()
