"""How well each route finds the cosine, over simulated and real designs.

    python -m studies.angles.designs            # simulated designs and scikit-learn's own data
    ANGCAL_DATA=... python -m studies.angles.designs   # further real designs found there

Known link sigmoid(3t + 1), ridge λ = 0.5, simulated labels; Σ is known for simulated designs and
comes from a pool for real ones. Writes ``studies/results/angles/angle_designs.csv`` and prints it.
The column ``paper`` is the paper's estimator with γ̂ = df/(n v̂), the finite-pool factor and
the sign of the training rows: what the observable route would be without this library's changes to
it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from angcal import Logit
from angcal.angle import (
    Angle,
    AngleError,
    combine,
    loo_angle,
    make_angle,
    observable_angle,
    training_sign,
)
from angcal.arrays import dense
from angcal.covariance import precision, score_scale
from angcal.files import write_text
from angcal.observables import observe
from angcal.problem import LinearFit
from angcal.simulation import simulate, simulate_labels
from studies import RESULTS
from studies.datasets.preparing import read
from studies.engine.store import as_csv
from studies.engine.tables import markdown
from studies.paper.setting import paper_inner_product, ridge_fit

Draw = tuple[float, dict[str, Angle]]

LINK, STRENGTH = Logit(3.0, 1.0), 0.5
METHODS = ("paper", "observable", "loo", "auto")
OUT = RESULTS / "angles" / "angle_designs.csv"

# design, n, d, pool rows (None: Σ known), draws
SIMULATED = [
    (design, n, d, None, 200)
    for design in ("gaussian", "rademacher", "uniform", "student", "elliptical")
    for n, d in ((300, 512), (400, 200))
] + [
    ("gaussian", 300, 500, 900, 200),
    ("gaussian", 300, 500, 2000, 200),
    ("gaussian", 1000, 2000, None, 100),
]
# name, n, pool rows, draws; sizes of the paper's tables
REAL = [
    ("digits", 100, 800, 100),
    ("breast_cancer", 60, 300, 100),
    ("image_patches", 300, 3000, 100),
    ("madelon", 300, 900, 100),
    ("semeion", 128, 365, 100),
    ("splice", 100, 2000, 100),
    ("usps", 512, 7086, 40),
    ("plants_shape", 128, 372, 100),
    ("covertype", 196, 20000, 40),
    ("ada", 645, 1623, 40),
    ("newsgroups_minilm", 800, 3000, 40),
    ("tox21_smilesbert", 800, 3000, 40),
]


def load(name: str) -> np.ndarray | None:
    """Rows of a real design, or None where it is not available."""
    if name == "digits":
        return load_digits().data
    if name == "breast_cancer":
        return load_breast_cancer().data
    if name == "image_patches":
        images = load_sample_images().images
        sets = [
            extract_patches_2d(i / 255.0, (8, 8), max_patches=5000, random_state=0) for i in images
        ]
        return np.concatenate(sets).reshape(10_000, -1)
    path = Path(os.environ.get("ANGCAL_DATA", "")) / f"{name}.npz"
    if "ANGCAL_DATA" not in os.environ or not path.exists():
        return None
    return dense(read(path, None).rows)


def paper_angle(fit: LinearFit, inverse: Any, norm: float, sign: float) -> Angle:
    """The paper's eq. (bellec) as printed, but for γ̂ and the finite-pool factor."""
    inner = paper_inner_product(observe(fit), fit, inverse, deflate=inverse.estimated)
    cosine = np.nan_to_num(inner) / norm  # no estimate counts as 0
    return make_angle(sign * cosine, 0.0, 0.0, "paper", "", 0.95)


def angles(fit: LinearFit, covariance: Any, pool: Any) -> dict[str, Angle]:
    ones, o = np.ones(fit.shape[0]), observe(fit)
    scale = score_scale(o, fit.coef, 0.0, case_weights=ones, covariance=covariance, pool=pool)
    sign = training_sign(o.calibration_scores, fit.labels, ones)
    inverse: Any = precision(covariance, pool, fit.X)
    found = {
        "paper": paper_angle(fit, inverse, scale.norm, sign),
        "loo": loo_angle(o, fit.labels, ones, scale, LINK),
    }
    try:
        found["observable"] = observable_angle(fit, o, inverse, scale, sign=sign)
        found["auto"] = combine(found["observable"], found["loo"])
    except AngleError:
        found["observable"] = make_angle(0.0, 1.0, 0.0, "observable", "gave up", 0.95)
        found["auto"] = found["loo"]
    return found


def simulated_draw(design: str, n: int, d: int, pool_rows: int | None, seed: int) -> Draw:
    data = simulate(n, d, link=LINK, design=design, random_state=seed)
    fit = ridge_fit(data.X, data.y, STRENGTH, False)
    pool = None if pool_rows is None else data.pool(pool_rows, random_state=seed)
    return data.cosine(fit.coef), angles(fit, data.covariance if pool is None else None, pool)


def real_draw(X: np.ndarray, n: int, m: int, seed: int) -> Draw:
    truth = simulate_labels(X, link=LINK, random_state=seed)
    order = np.random.default_rng([seed, 7]).permutation(len(X))
    train, pool, unseen = order[:n], order[n : n + m], order[n:]
    fit = ridge_fit(X[train], truth.y[train], STRENGTH, False)
    cosine = np.corrcoef(X[unseen] @ fit.coef, truth.signal[unseen])[0, 1]
    return cosine, angles(fit, None, X[pool])


def standardized(rows: np.ndarray) -> np.ndarray:
    spread = rows.std(axis=0)
    rows = rows[:, spread > 1e-6 * spread.max()]
    return (rows - rows.mean(axis=0)) / rows.std(axis=0) / np.sqrt(rows.shape[1])


def summarize(name: str, n: int, d: int, pool: int | None, draws: list) -> dict[str, object]:
    true = np.array([cosine for cosine, _ in draws])
    row: dict[str, object] = {
        "design": name,
        "n": n,
        "d": d,
        "pool": pool or "known",
        "draws": len(draws),
    }
    row["cosine"] = f"{true.mean():.3f}"
    errors = {m: np.array([found[m].cosine for _, found in draws]) - true for m in METHODS}
    size = {m: float(np.sqrt(np.mean(errors[m] ** 2))) for m in METHODS}
    row |= {f"rmse_{m}": f"{size[m]:.4f}" for m in METHODS}
    shared = np.corrcoef(errors["observable"], errors["loo"])[0, 1]
    row["error_correlation"] = f"{shared:.2f}"
    row["auto_to_better"] = f"{size['auto'] / min(size['observable'], size['loo']):.2f}"
    for method in ("observable", "loo", "auto"):
        inside = [
            found[method].interval[0] <= cosine <= found[method].interval[1]
            for cosine, found in draws
        ]
        row[f"coverage_{method}"] = f"{np.mean(inside):.2f}"
    return row


def main() -> None:
    rows = []
    for design, n, d, pool, draws in SIMULATED:
        results = [simulated_draw(design, n, d, pool, seed) for seed in range(draws)]
        rows.append(summarize(design, n, d, pool, results))
        print(*rows[-1].values(), sep="\t", flush=True)
    for name, n, m, draws in REAL:
        X = load(name)
        if X is None:
            print(f"{name}: not here (set ANGCAL_DATA)", file=sys.stderr)
            continue
        X = standardized(X)
        m = min(m, len(X) - n - 200)
        results = [real_draw(X, n, m, seed) for seed in range(draws)]
        rows.append(summarize(name, n, X.shape[1], m, results))
        print(*rows[-1].values(), sep="\t", flush=True)
    header = [name.replace("_", " ") for name in rows[0]]
    print(markdown(header, [[str(value) for value in row.values()] for row in rows]))
    write_text(OUT, as_csv(rows))


if __name__ == "__main__":
    main()
