"""How often 95 % intervals of the angle hold it: ``python -m studies.coverage``.

d = 80, labels by sigmoid(κt) with κ = 0.5 (weak), 3 and 10 (strong), n/d = 0.25, 1 and 4, and a
penalty that is strong, moderate or hardly there: C = 0.01, 1 and 10⁴ of scikit-learn on columns of
variance 1. A draw is a round over all cells; every fit is asked with labels alone, with Σ and with
a pool of 5d rows, and a path of penalties with labels alone and with Σ. Where an interval says that
it cannot be given as asked (``NOT_GIVEN``) it is counted apart. Rounds that are finished are kept
in ``studies/results/coverage/coverage.csv``; ``--rounds`` says up to which to go, ``--jobs`` how
many run at a time, ``--table`` only writes the table, which docs/fill_study.py puts into
docs/angle.md.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import Angle, AngularCalibratedClassifier, AngularLogisticRegressionCV, Logit
from angcal.files import write_text
from angcal.simulation import simulate
from angcal.simulation.covariances import AutoregressiveCovariance
from studies import RESULTS
from studies.engine.runner import end_with
from studies.engine.store import as_csv, by_cell, read_csv
from studies.engine.tables import markdown

FOLDER = RESULTS / "coverage"
D, POOL, FIRST_SEED = 80, 400, 660_000
DESIGNS: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "AR(0.9)": {"covariance": AutoregressiveCovariance(D, 0.9)},
    "elliptical": {"design": "elliptical"},
    "Rademacher": {"design": "rademacher"},
}
RATIOS, PENALTIES, SIGNALS = (0.25, 1.0, 4.0), (1e-2, 1.0, 1e4), (0.5, 3.0, 10.0)
FITS = ("default", "covariance", "pool")
PATHS = ("path", "path, covariance")
CELL = ("design", "n/d", "C", "signal", "known")
MOSTLY = 0.5
"""Share of the intervals of a cell that say so, from which the cell counts as not given."""
NOT_GIVEN = (
    *("hardly known", "by labels alone", "any strength", "no better than chance"),
    "longer than its confidence",
)
"""What ``angle_.reason`` says where the angle has no 95 % interval but only one that holds it."""


def draw(design: str, ratio: float, signal: float, seed: int) -> Iterator[dict[str, Any]]:
    """All fits to one set of rows and labels."""
    n = int(ratio * D)
    data = simulate(n, D, link=Logit(signal), random_state=seed, **DESIGNS[design])
    if min(data.y.sum(), n - data.y.sum()) < 3:
        return
    known: dict[str, dict[str, Any]] = {
        "default": {},
        "covariance": {"covariance": data.covariance.apply(np.eye(D))},
        "pool": {"pool": data.pool(POOL, random_state=seed)},
    }
    for C, name in itertools.product(PENALTIES, FITS):
        base = LogisticRegression(C=C, tol=1e-6, max_iter=5000)
        model = AngularCalibratedClassifier(base, **known[name]).fit(data.X, data.y)
        yield {"C": f"{C:g}", "known": name, **judged(model.angle_, data.cosine(model.coef_[0]))}
    for name in PATHS:
        options = known["covariance"] if "covariance" in name else {}
        path = AngularLogisticRegressionCV(Cs=10, **options).fit(data.X, data.y)
        yield {"C": "path", "known": name, **judged(path.angle_, data.cosine(path.coef_[0]))}


def judged(angle: Angle, truth: float) -> dict[str, Any]:
    """Whether the interval holds the truth, and how long it is."""
    low, high = angle.interval
    return {
        "held": int(low <= truth <= high),
        "below": int(truth < low),
        "width": high - low,
        "error": angle.cosine - truth,
        "said": int(angle.is_fallback or any(words in angle.reason for words in NOT_GIVEN)),
        "method": angle.method,
    }


def one_round(number: int) -> list[dict[str, Any]]:
    """One draw of every cell."""
    rows, seed = [], FIRST_SEED + number
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for design, ratio, signal in itertools.product(DESIGNS, RATIOS, SIGNALS):
            place = {"design": design, "n/d": f"{ratio:g}", "signal": f"{signal:g}"}
            for found in draw(design, ratio, signal, seed):
                rows.append({"round": number, "seed": seed, **place, **found})
    for row in rows:
        row |= {name: f"{row[name]:.4f}" for name in ("width", "error")}
    return rows


def summary(rows: list[dict[str, str]]) -> str:
    """Markdown: coverage in percent of every cell, and how many intervals cannot be given."""
    cells = by_cell(rows, CELL)

    def cell(place: tuple[str, ...]) -> str:
        mine = cells.get(place, [])
        if not mine:
            return ""
        held, said = (100 * share(mine, field) for field in ("held", "said"))
        return f"{held:.0f}" + (f" ({said:.0f})" if said >= 1 else "")

    lines = []
    for design, ratio, signal in itertools.product(DESIGNS, RATIOS, SIGNALS):
        place = (design, f"{ratio:g}", f"{signal:g}")
        for C in (*(f"{C:g}" for C in PENALTIES), "path"):
            names = PATHS if C == "path" else FITS
            found = [cell((*place[:2], C, place[2], name)) for name in names]
            lines.append((*place, C, *found, *([""] * (3 - len(found)))))
    header = ("design", "n/d", "signal", "C", "labels alone", "covariance", "pool")
    told = f"{headline(rows, list(cells.values()))}\n\n{markdown(header, lines)}\n"
    return told.replace("%", " %").replace("  %", " %")


def share(rows: list[dict[str, str]], field: str) -> float:
    """Of the intervals with this mark."""
    return float(np.mean([row[field] == "1" for row in rows]))


def headline(rows: list[dict[str, str]], cells: list[list[dict[str, str]]]) -> str:
    """Two countings: all intervals of a cell, and only those that do not say so."""
    draws = len({row["round"] for row in rows})
    asked = [mine for mine in cells if share(mine, "said") < MOSTLY]
    others = [share(mine, "held") for mine in cells if share(mine, "said") >= MOSTLY]
    given = [[row for row in mine if row["said"] != "1"] for mine in asked]
    single = [row for row in rows if row["said"] != "1"]

    def counted(parts: list[list[dict[str, str]]]) -> str:
        rates = [share(mine, "held") for mine in parts]
        return (
            f"{sum(0.92 <= rate <= 0.98 for rate in rates)} hold it in 92 to 98 %, "
            f"{sum(rate > 0.98 for rate in rates)} more often, "
            f"{sum(rate < 0.92 for rate in rates)} less often "
            f"(lowest {min(rates, default=1.0):.1%})"
        )

    return (
        f"{draws} draws of {len(cells)} cells; a cell's standard error is "
        f"{np.sqrt(0.95 * 0.05 / draws):.1%}. In {len(others)} cells at least {MOSTLY:.0%} of the "
        "intervals say that they cannot be given as asked; they hold the angle in "
        f"{min(others, default=1.0):.0%} or more. Of the {len(asked)} others {counted(asked)}. "
        f"Without the intervals that say so, of these {len(asked)} {counted(given)}; all "
        f"{len(single)} intervals that do not say so hold it in {share(single, 'held'):.1%}."
    )


def main() -> None:
    """Run the rounds that are missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=300, help="draws of every cell")
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time")
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    path = FOLDER / "coverage.csv"
    # Rounds of other seeds are those of an earlier study, with other penalties.
    rows: list[dict[str, Any]] = [
        dict(row)
        for row in ([] if options.fresh else read_csv(path))
        if row.get("seed") == str(FIRST_SEED + int(row["round"]))
    ]
    done = {int(row["round"]) for row in rows}
    missing = [number for number in range(options.rounds) if number not in done]
    context, watch = multiprocessing.get_context("spawn"), (os.getpid(),)
    with ProcessPoolExecutor(options.jobs, context, end_with, watch) as workers:
        for count, found in enumerate(workers.map(one_round, [] if options.table else missing)):
            rows += found
            if count % 5 == 4 or count == len(missing) - 1:
                write_text(path, as_csv(rows))
    rows = [{name: str(value) for name, value in row.items()} for row in rows]
    write_text(FOLDER / "coverage.md", summary(rows))
    print(summary(rows))


if __name__ == "__main__":
    main()
