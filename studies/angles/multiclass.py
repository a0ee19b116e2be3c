"""How well cross-index angles are found: ``python -m studies.angles.multiclass``.

Softmax labels on Gaussian rows with a known Cov(G), ridge multinomial regression, many draws.
Writes ``studies/results/angles/several_angles.csv`` and ``.md``, which
docs/fill_study.py puts into docs/multiclass.md. Finished designs are kept; ``--fresh`` starts over.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import plan
from angcal.files import write_text
from angcal.links.multiclass import contrasts, index_map
from angcal.multiclass import read_class_scores
from angcal.multiclass.known import estimate_known, stein_covariance, whiten
from angcal.simulation import AutoregressiveCovariance, simulate_several
from studies import RESULTS
from studies.engine.store import by_cell, numbers, resumed
from studies.engine.tables import markdown, mean_and_error, with_error

FOLDER = RESULTS / "angles"
# n, d, K, standard deviation of an index, C, draws, bar on the relative error
DESIGNS = [
    (1500, 500, 3, 3.0, 0.1, 20, 0.06),
    (1000, 1000, 3, 3.0, 0.1, 20, 0.10),
    (1500, 500, 3, 2.0, 0.1, 20, None),
    (1000, 1000, 3, 2.0, 0.1, 20, None),
    (1500, 500, 3, 3.0, 0.01, 20, None),
    (1000, 1000, 3, 3.0, 0.01, 20, None),
    (375, 125, 3, 3.0, 0.1, 20, None),
    (750, 250, 3, 3.0, 0.1, 20, None),
    (3000, 1000, 3, 3.0, 0.1, 10, None),
    (5000, 500, 10, 3.0, 0.01, 3, None),
]
COLUMNS = ("n", "d", "K", "signal", "C", "draw", "stein", "likelihood", "z", "side", "seconds")


def draw(n: int, d: int, K: int, signal: float, C: float, number: int) -> list[list[object]]:
    """Relative errors of C by both routes, root mean square z-score, seconds of this process."""
    covariance = AutoregressiveCovariance(d, 0.5, variance=1.0)
    drawn: dict[str, Any] = {"n_indices": K, "signal": signal, "covariance": covariance}
    data = simulate_several(n, **drawn, random_state=1000 + number)
    weights = np.ones(n)
    start = time.process_time()
    model = LogisticRegression(C=C, tol=1e-5, max_iter=3000).fit(data.X, data.y)
    read = read_class_scores(model, data.X, data.y, weights)
    whitened = whiten(read.calibration, weights, read.fitted)
    A = contrasts(K)
    seen = index_map(A)
    gamma = seen @ data.index_covariance @ seen.T
    found = estimate_known(data.y, weights, whitened, A, np.zeros(K), gamma)
    seconds = time.process_time() - start
    stein = stein_covariance(data.y, weights, whitened, A, np.zeros(K), gamma)
    # Scores in units of their standard deviation, indices about their mean over classes.
    units = whitened.factor / np.sqrt(np.sum(whitened.factor**2, axis=1, keepdims=True))
    true = (np.eye(K) - 1.0 / K) @ data.cross_covariance(model.coef_)
    size = np.linalg.norm(true)
    in_scores = seen @ (data.cross_covariance(model.coef_) * data.norms(model.coef_))
    gap = found.covariance - in_scores @ whitened.inverse.T
    z = gap.ravel() / np.sqrt(np.diag(found.variance))
    side = "randomised" if plan.samples(n, d) else "exact"
    errors = [
        float(np.linalg.norm(A @ estimate @ units.T - true) / size)
        for estimate in (stein, found.covariance)
    ]
    return [[*errors, float(np.sqrt(np.mean(z**2))), side, seconds]]


def summary(rows: list[dict[str, str]]) -> str:
    """Markdown: one line for each design, and the slope in n at n = 3d."""
    lines, at_three, cells = [], [], by_cell(rows, COLUMNS[:5])
    for n, d, K, signal, C, _, bar in DESIGNS:
        mine = cells.get((str(n), str(d), str(K), str(signal), str(C)), [])
        if not mine:
            continue
        stein, likely, z, seconds = (
            mean_and_error(numbers(mine, name)) for name in ("stein", "likelihood", "z", "seconds")
        )
        verdict = "" if bar is None else f"{bar:.2f} {'met' if likely[0] <= bar else 'missed'}"
        lines.append(
            (
                f"{n}×{d}, K={K}",
                f"{signal:g}",
                f"{C:g}",
                f"{len(mine)}",
                with_error(*stein, 3),
                with_error(*likely, 3),
                verdict,
                f"{z[0]:.2f}",
                mine[0]["side"],
                f"{seconds[0]:.2g}",
            )
        )
        if n == 3 * d and signal == 3.0 and C == 0.1:
            at_three.append((n, likely[0]))
    header = (
        *("design", "sd of an index", "C", "draws", "error, Stein", "error, likelihood", "bar"),
        *("rms z", "blocks", "seconds of one core"),
    )
    text = markdown(header, lines)
    if len(at_three) > 2:
        sizes, errors = zip(*sorted(at_three), strict=True)
        slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        text += (
            f"\n\nAt n = 3d, from n = {sizes[0]} to {sizes[-1]}, the error falls like n to the "
            f"power {slope:.2f}.\n"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    options = parser.parse_args()
    designs = [(*design[:5], number) for design in DESIGNS for number in range(design[5])]
    rows = resumed(FOLDER / "several_angles.csv", COLUMNS, designs, draw, options.fresh)
    write_text(FOLDER / "several_angles.md", summary(rows))
    print(summary(rows))


if __name__ == "__main__":
    main()
