"""What a pool of unlabeled rows is worth: ``python -m studies.pool``.

For every real set of two classes with enough rows, n = 100 and 300 labels, and every split: methods
with and without up to 2,000 unlabeled rows, judged on further rows. The CSV goes on where it was
(``--fresh`` starts again; ``--methods`` runs some only). The table is
``studies/results/pool/pool.md``, which docs/fill_study.py puts into docs/pool.md.

Sets are in two halves by a hash of their names (`studies.planner.outcomes.half_of`). Exponents and
prior of `angcal.penalty_path.spectrum` were chosen on eight other splits of the first half.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from angcal import AngularLogisticRegressionCV
from angcal._typing import Floats
from angcal.arrays import dense
from angcal.files import write_text
from studies import RESULTS
from studies.datasets import available
from studies.engine.store import Row, as_csv, by_cell, numbers, read_csv
from studies.engine.tables import markdown
from studies.peers.methods import Training
from studies.peers.real import LABELED
from studies.peers.tasks import LEAST_CLASS, Task, load_task
from studies.planner.outcomes import half_of, judged
from studies.rivals import RIVALS

FOLDER = RESULTS / "pool"
SIZES = (100, 300)
MOST_POOL, MOST_TEST, LEAST_REST = 2000, 3000, 400
BARS = {100: 0.97, 300: 0.985}
WORST = 1.01
COLUMNS = ("set", "half", "n", "d", "pool", "split", "method", "log_loss", "exponent", "seconds")


@dataclass(frozen=True, eq=False)
class Draw:
    """Labeled rows, unlabeled rows and test rows, scaled by the labeled ones."""

    X: Any
    y: np.ndarray
    pool: Any
    X_test: Any
    y_test: np.ndarray

    @property
    def by_all(self) -> tuple[Floats, Floats, Floats]:
        """(X, pool, X_test) as arrays scaled by labeled and unlabeled rows together.

        What the n rows scale up, because they hardly have it, would be all that methods see which
        go by distances or by variance.
        """
        rows = [dense(each) for each in (self.X, self.pool, self.X_test)]
        scaler = StandardScaler().fit(np.vstack(rows[:2]))
        X, pool, X_test = (scaler.transform(each) for each in rows)
        return X, pool, X_test


def suits(task: Task, n: int) -> bool:
    """Whether a set has rows for pool and test, and labels of both classes."""
    return len(task.y) - n >= LEAST_REST and n * task.rarer >= LEAST_CLASS


def draw(task: Task, n: int, seed: int) -> Draw:
    """n labeled rows; of the others half for the pool and half for the test, 2,000 and 3,000."""
    y, rest = task.y, len(task.y) - n
    pool = min(MOST_POOL, rest // 2)
    test = min(MOST_TEST, rest - pool)
    every = np.arange(len(y))
    own, others = train_test_split(every, train_size=n, stratify=y, random_state=seed)
    parts = {"train_size": test, "test_size": pool, "random_state": seed}
    for_test, for_pool = train_test_split(others, stratify=y[others], **parts)
    scaler = StandardScaler(with_mean=not sparse.issparse(task.X)).fit(task.X[own])
    X, unlabeled, X_test = (scaler.transform(task.X[k]) for k in (own, for_pool, for_test))
    return Draw(X, y[own], unlabeled, X_test, y[for_test])


# -- methods -------------------------------------------------------------------------------------

Answer = tuple[Floats, float]
"""P(y = 1) of the test rows, and the exponent."""


def angcal(with_pool: bool, **options: Any) -> Callable[[Draw], Answer]:
    """The path of penalties, with the pool or without."""

    def answer(data: Draw) -> Answer:
        model = AngularLogisticRegressionCV(**options)
        model.fit(data.X, data.y, pool=data.pool if with_pool else None)
        mean = float(model.exponent_shares_ @ model.exponents_)
        return model.predict_proba(data.X_test)[:, 1], mean

    return answer


def by_itself(data: Draw) -> Answer:
    """The training rows as a pool of their own."""
    return angcal(True)(replace(data, pool=data.X))


def rival(fit: Callable[..., Floats]) -> Callable[[Draw], Answer]:
    """A method of `studies.rivals`, without the pool."""
    return lambda data: (fit(data.X, data.y, data.X_test), 1.0)


def logistic(X: Any, y: np.ndarray) -> Any:
    """scikit-learn's own search for the penalty, fitted."""
    return Training(X, y, 0, 20).model("tuned").fit(X, y)


def _probability(model: Any, X: Any) -> Answer:
    return np.asarray(model.predict_proba(X))[:, 1], 1.0


def _logistic(data: Draw) -> Answer:
    return _probability(logistic(data.X, data.y), data.X_test)


def _self_training(data: Draw) -> Answer:
    X, pool, X_test = data.by_all
    C = float(np.ravel(logistic(X, data.y).C_)[0])
    model = SelfTrainingClassifier(LogisticRegression(C=C, max_iter=1000))
    labels = np.concatenate([data.y, np.full(len(pool), -1)])
    return _probability(model.fit(np.vstack([X, pool]), labels), X_test)


def _label_spreading(data: Draw) -> Answer:
    X, pool, X_test = data.by_all
    labels = np.concatenate([data.y, np.full(len(pool), -1)])
    model = LabelSpreading(kernel="knn").fit(np.vstack([X, pool]), labels)
    p, exponent = _probability(model, X_test)
    # Rows that no label reaches have no probability; they get the prevalence.
    return np.where(np.isfinite(p), p, data.y.mean()), exponent


def _principal(data: Draw, whiten: bool) -> Answer:
    """Directions of all rows; without whitening as many as five folds find best."""
    X, pool, X_test = data.by_all
    both = np.vstack([X, pool])
    most = min(both.shape)
    sizes = [most] if whiten else [k for k in (5, 20, 80) if k < most] or [most]
    rotation = PCA(max(sizes), whiten=whiten, random_state=0).fit(both)
    Z, Z_test = rotation.transform(X), rotation.transform(X_test)
    tried = [logistic(Z[:, :k], data.y) for k in sizes]
    scores = [float(np.asarray(model.scores_).mean(axis=0).max()) for model in tried]
    best = int(np.argmax(scores))
    return _probability(tried[best], Z_test[:, : sizes[best]])


WITHOUT, WITH, ONE = "angcal", "angcal, pool", "angcal, pool, one model"
PLAIN = "angcal, plain ridge"
METHODS: dict[str, Callable[[Draw], Answer]] = {
    WITHOUT: angcal(False),
    PLAIN: angcal(False, rarity=0.0),
    "angcal, pool for the angle alone": angcal(True, spectrum=None),
    ONE: angcal(True, spectrum="one"),
    WITH: angcal(True),
    "angcal, averaged over penalties": angcal(False, average="penalties"),
    "angcal, pool, averaged over penalties": angcal(True, average="penalties"),
    "angcal, its own rows as the pool": by_itself,
    "LogisticRegressionCV": _logistic,
    "self-training": _self_training,
    "label spreading": _label_spreading,
    "PCA of all rows, LogisticRegressionCV": partial(_principal, whiten=False),
    "whitening by all rows, LogisticRegressionCV": partial(_principal, whiten=True),
    **{name: rival(fit) for name, fit in RIVALS.items()},
}


def trial(name: str, n: int, split: int, methods: list[str]) -> list[Row]:
    """A row for each method on one split; none where the set is too small."""
    task = load_task(name)
    if not suits(task, n):
        return []
    data = draw(task, n, split)
    rows = []
    for method in methods:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p, exponent = METHODS[method](data)
        seconds = time.process_time() - start
        loss, _ = judged(p, data.y_test)
        key = (name, half_of(name), n, data.X.shape[1], data.pool.shape[0], split, method)
        numbers = (f"{value:.5g}" for value in (loss, exponent, seconds))
        rows.append(dict(zip(COLUMNS, [*map(str, key), *numbers], strict=True)))
    return rows


# -- tables --------------------------------------------------------------------------------------


def ratios(
    rows: list[Row], n: int, method: str, base: str = WITHOUT
) -> dict[str, tuple[float, float]]:
    """Of every set: mean log-loss over that of angcal without a pool, and its standard error.

    Over the splits that both have.
    """
    losses: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row["n"] == str(n) and row["method"] in (method, base):
            of_set = losses.setdefault(row["set"], {})
            of_set.setdefault(row["split"], {})[row["method"]] = float(row["log_loss"])
    found = {}
    for name, splits in losses.items():
        both = (each for each in splits.values() if method in each and base in each)
        pairs = [(each[method], each[base]) for each in both]
        if not pairs:
            continue
        own, plain = np.array(pairs).T
        ratio = float(own.mean() / plain.mean())
        spread = np.std(own - ratio * plain, ddof=1) if len(own) > 1 else np.nan
        found[name] = ratio, float(spread / np.sqrt(len(own)) / plain.mean())
    return found


def overview(rows: list[Row], names: set[str]) -> str:
    """Mean, largest and number of ratios above 1.01, for every method and number of labels."""
    header = ["method"]
    for n in SIZES:
        header += [f"n = {n}: mean ratio", "largest", f"above {WORST:g}", "splits"]
    lines = []
    made = {row["method"] for row in rows}
    for method in [*(name for name in METHODS if name in made), *sorted(made - set(METHODS))]:
        cells = []
        for n in SIZES:
            found = {k: v for k, v in ratios(rows, n, method).items() if k in names}
            values = np.array([ratio for ratio, _ in found.values()])
            if not len(values):
                cells += ["", "", "", ""]
                continue
            worst = list(found)[int(np.argmax(values))]
            splits = {r["split"] for r in rows if r["method"] == method and r["n"] == str(n)}
            above = f"{int(np.sum(values > WORST))} of {len(values)}"
            error = found[worst][1]
            spread = "" if np.isnan(error) else f" ± {error:.3f}"
            largest = f"{found[worst][0]:.3f}{spread} ({worst})"
            cells += [f"{values.mean():.3f}", largest, above, str(len(splits))]
        lines.append((method, *cells))
    return markdown(header, lines)


def by_set(rows: list[Row]) -> str:
    """A line for each set: the ratios of the default with a pool, and its mean exponent."""
    header = ["set", "half", "columns"]
    for n in SIZES:
        header += [f"n = {n}: without", "with over without", "one model", "mean exponent"]
    lines = []
    for (name,), mine in sorted(by_cell(rows, ("set",)).items()):
        cells = []
        for n in SIZES:
            at = [row for row in mine if row["n"] == str(n)]
            found, one = ratios(at, n, WITH), ratios(at, n, ONE)
            if name not in found:
                cells += ["", "", "", ""]
                continue
            of_methods = by_cell(at, ("method",))
            plain = numbers(of_methods[WITHOUT,], "log_loss").mean()
            mean = numbers(of_methods[WITH,], "exponent").mean()
            cells += [
                f"{plain:.4f}",
                f"{found[name][0]:.3f} ± {found[name][1]:.3f}",
                f"{one[name][0]:.3f}" if name in one else "",
                f"{mean:.2f}",
            ]
        lines.append((name, half_of(name), mine[0]["d"], *cells))
    return markdown(header, lines)


def table(rows: list[Row]) -> str:
    """The overview of all sets and of each half, the bars, and a line for each set."""
    every = {row["set"] for row in rows}
    text = []
    for title, names in (
        ("All sets", every),
        ("First half, on other splits of which exponents and prior were chosen", None),
        ("Second half, on which nothing was chosen", None),
    ):
        half = title.split()[0].lower()
        chosen = every if names is not None else {k for k in every if half_of(k) == half}
        listed = f" ({len(chosen)}: {', '.join(sorted(chosen))})" if names is None else ""
        text.append(f"{title}{listed}:\n\n{overview(rows, chosen)}")
    for n, bar in BARS.items():
        for base, told in (
            (WITHOUT, "the default without one"),
            (PLAIN, "plain ridge without one"),
        ):
            values = [ratio for ratio, _ in ratios(rows, n, WITH, base).values()]
            mean, worst = float(np.mean(values)), max(values)
            text.append(
                f"Bar at n = {n}, over {told}: mean at most {bar:g}, none above {WORST:g}. "
                f"Reached: {mean:.3f}, largest {worst:.3f}: "
                f"{'yes' if mean <= bar and worst <= WORST else 'no'}."
            )
    text.append(by_set(rows))
    return "\n\n".join(text) + "\n"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    path = FOLDER / "pool.csv"
    rows = [] if options.fresh else read_csv(path)
    done = {(row["set"], row["n"], row["split"], row["method"]) for row in rows}
    here = [name for name in LABELED if name in available()]
    for split in range(options.splits):
        for name, n in product(options.sets or here, SIZES):
            key = (name, str(n), str(split))
            left = [method for method in options.methods if (*key, method) not in done]
            found = trial(name, n, split, left) if left else []
            rows += found
            if found:
                write_text(path, as_csv(rows))
        print(f"split {split}", flush=True)
    write_text(FOLDER / "pool.md", table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
