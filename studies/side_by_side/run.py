"""The same task in angcal, scikit-learn, netcal, probmetrics and MAPIE, from what a user writes.

    pip install -e '.[peers]'
    python -m studies.side_by_side.run             # 20 splits, writes results.csv
    python -m studies.side_by_side.run --splits 2  # a look; writes nothing

``docs/fill_side_by_side.py`` makes the page. Each file in ``docs/snippets`` is run as it stands, on
the arrays of a task. Fits of the features are counted by watching ``LogisticRegression``; the
labels that a package withholds are those that the models behind its predictions have not seen.
Seconds are of this process, imports apart: every snippet runs once before.
"""

from __future__ import annotations

import argparse
import ast
import functools
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from angcal import Logit
from angcal._typing import Floats
from angcal.files import write_text
from angcal.metrics import expected_calibration_error, log_loss
from angcal.simulation import simulate
from studies import RESULTS
from studies.engine.store import as_csv
from studies.peers.tasks import Split, scaled_by_first

# -- what is compared on: packaged data with few labels, and a simulation with n = d ---------------

N_TEST = 5000


def packaged(X: Floats, y: np.ndarray, n: int, seed: int) -> Split:
    """n labeled rows; all others are test rows."""
    X_train, X_new, y_train, y_new = train_test_split(
        X, y, train_size=n, stratify=y, random_state=seed
    )
    X_train, X_new = scaled_by_first(X_train, X_new)
    return Split(X_train, y_train, X_new, y_new)


def digits(seed: int) -> Split:
    X, y = load_digits(return_X_y=True)
    return packaged(X, y % 2, 100, seed)


def breast_cancer(seed: int) -> Split:
    X, y = load_breast_cancer(return_X_y=True)
    return packaged(X, y, 60, seed)


def simulated(seed: int) -> Split:
    data = simulate(300, 300, link=Logit(3.0, 1.0), random_state=seed)
    # Columns of variance 1/d become columns of variance 1, as a scaler would have them.
    factor = np.sqrt(300.0)
    X_new, y_new = data.sample(N_TEST, random_state=seed)
    return Split(data.X * factor, data.y, X_new * factor, y_new)


TASKS: dict[str, Callable[[int], Split]] = {
    "digits, even or odd: 100 × 64": digits,
    "breast cancer: 60 × 30": breast_cancer,
    "simulated: 300 × 300": simulated,
}

# -- what is run ---------------------------------------------------------------------------------

OUT = RESULTS / "side_by_side" / "results.csv"
CODE = Path(__file__).resolve().parents[2] / "docs" / "snippets"

SNIPPETS = {
    "uncalibrated": "uncalibrated",
    "angcal": "with_angcal",
    "angcal, tuned": "with_angcal_tuned",
    "scikit-learn": "with_scikit_learn",
    "scikit-learn, one model": "with_scikit_learn_one",
    "netcal": "with_netcal",
    "probmetrics": "with_probmetrics",
    "MAPIE": "with_mapie",
    "MAPIE, cross": "with_mapie_cross",
}
ANSWERS = ("decision_function", "predict_proba")
Row = dict[str, Any]


def source_of(contender: str) -> str:
    return (CODE / f"{SNIPPETS[contender]}.py").read_text()


def lines_written(source: str) -> int:
    """Lines that a user types: no blank ones, no docstring, not the data's import."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in tree.body:
        own_data = isinstance(node, ast.ImportFrom) and node.module == "task"
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if own_data or docstring:
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in skipped
        for number, line in lines
    )


@dataclass
class Watch:
    """What becomes of logistic regressions: rows of each fit, and of those that predict."""

    n_features: int
    n_new: int
    fitted: list[int] = field(default_factory=list)
    predicting: list[int] = field(default_factory=list)

    def saw_fit(self, model: Any, X: Any, y: Any) -> None:
        # A calibrator may be a logistic regression too, of one score; that is no fit of the model.
        if np.shape(X)[1] == self.n_features:
            model.rows_seen_ = len(y)
            self.fitted.append(len(y))

    def saw_prediction(self, model: Any, X: Any) -> None:
        if np.shape(X) == (self.n_new, self.n_features):
            self.predicting.append(model.rows_seen_)

    @property
    def rows(self) -> int:
        """Rows behind the predictions: of the models asked, else of the fit whose weights serve."""
        return max(self.predicting or self.fitted)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Every LogisticRegression reports to the watch meanwhile."""
    originals = {name: getattr(LogisticRegression, name) for name in ("fit", *ANSWERS)}

    def reporting(name: str) -> Any:
        original = originals[name]

        @functools.wraps(original)
        def method(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
            if name == "fit":
                watch.saw_fit(self, X, arguments[0] if arguments else options["y"])
            else:
                watch.saw_prediction(self, X)
            return original(self, X, *arguments, **options)

        return method

    for name in originals:
        setattr(LogisticRegression, name, reporting(name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(LogisticRegression, name, original)


def execute(contender: str, split: Split) -> tuple[dict[str, Any], float, Watch]:
    """(names that the snippet leaves behind, seconds, what was fitted)."""
    stand_in = types.ModuleType("task")
    vars(stand_in).update(X_train=split.X_train, y_train=split.y_train, X_new=split.X_test)
    code = compile(source_of(contender), f"{SNIPPETS[contender]}.py", "exec")
    names: dict[str, Any] = {"__name__": "snippet"}
    watch = Watch(n_features=split.X_test.shape[1], n_new=len(split.X_test))
    sys.modules["task"] = stand_in
    try:
        with watching(watch), warnings.catch_warnings(action="ignore"):
            # What a package says of its own dependencies is not part of the comparison.
            start = time.process_time()
            exec(code, names)
            seconds = time.process_time() - start
    finally:
        del sys.modules["task"]
    return names, seconds, watch


def measure(task: str, number: int, contender: str, split: Split) -> Row:
    """One snippet on one split."""
    names, seconds, watch = execute(contender, split)
    p = np.clip(np.asarray(names["p"], dtype=float).ravel(), 0.0, 1.0)
    # A path fits one model a penalty, by a solver of its own, each on all rows.
    path = getattr(names["model"], "Cs_", [])
    return {
        "task": task,
        "split": number,
        "contender": contender,
        "lines": lines_written(source_of(contender)),
        "fits": len(watch.fitted) + len(path),
        "labels": len(split.y_train),
        "withheld": 0 if len(path) else len(split.y_train) - watch.rows,
        "seconds": round(seconds, 5),
        "ece": expected_calibration_error(split.y_test, p),
        "log_loss": log_loss(split.y_test, p),
    }


def run(splits: int) -> list[Row]:
    # A fair clock: no package gets more threads than another, or waits for them.
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        for contender in SNIPPETS:
            execute(contender, next(iter(TASKS.values()))(0))
        return [row for task in TASKS for row in run_task(task, splits)]


def run_task(task: str, splits: int) -> Iterator[Row]:
    for number in range(splits):
        split = TASKS[task](number)
        for contender in SNIPPETS:
            yield measure(task, number, contender, split)
        print(f"\r{task}: {number + 1} of {splits}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the same task in five packages.")
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    rows = run(options.splits)
    if options.splits < 20:
        print(*rows, sep="\n")
        return
    write_text(OUT, as_csv(rows))


if __name__ == "__main__":
    main()
