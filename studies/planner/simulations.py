"""The equations against simulated fits at d = 400: 240 cells, all with their own draws of rows.

Gaussian rows in the eigenbasis of Σ, logistic labels σ(κg + β), ridge logistic regression with an
intercept, fitted by :mod:`angcal.penalty_path`, which shares a draw over four penalties. What a fit
does on new rows is an integral over one normal variable once its cosine, norm and intercept are
known, so that no test rows are drawn. Rows go to ``simulations.csv``, a mean and its standard error
for each quantity; predictions are made when the table is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.special import entr, expit

from angcal._typing import Floats
from angcal.files import write_text
from angcal.links import Logit
from angcal.penalty_path import make_design
from angcal.theory import FitState, Spectrum, state_of_fit
from studies.engine.store import Row, as_csv, by_cell, numbers, read_csv
from studies.engine.tables import markdown
from studies.planner.outcomes import FOLDER

D = 400
DRAWS, BLOCKS = 60, 4
"""Draws of a block, as many as the design of the study had, and blocks with draws of their own."""
PENALTIES = (0.001, 0.1, 1.0, 10.0)
"""ρ = 1/(C·tr Σ)."""
DESIGNS = tuple(
    product(("identity", "AR(0.5)", "spiked"), (0.25, 0.5, 1.0, 2.0, 4.0), (1.0, 3.0), (0.0, 1.0))
)
QUANTITIES = {
    "cosine": "cosine",
    "norm": "norm",
    "intercept": "intercept",
    "degrees_of_freedom": "degrees of freedom",
    "training_sd": "spread of training scores",
    "training_loss": "training log-loss",
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "ece": "calibration error",
    "calibrated_log_loss": "calibrated log-loss",
    "calibrated_accuracy": "calibrated accuracy",
    "calibrated_brier": "calibrated Brier score",
}
ROUNDING = 1e-5
"""Of the sums over s, in which F is read between 301 places."""


def spectrum_of(name: str) -> Spectrum:
    """Eigenvalues and shares of the signal; 40 % of it in the five spikes, if there are any."""
    if name == "identity":
        return Spectrum(np.ones(D))
    if name == "AR(0.5)":
        steps = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
        return Spectrum(np.asarray(np.linalg.eigvalsh(0.5**steps), dtype=np.float64))
    values: Floats = np.concatenate([[50.0, 30.0, 20.0, 10.0, 5.0], np.ones(D - 5)])
    return Spectrum(
        values, shares=np.concatenate([np.full(5, 0.08), np.full(D - 5, 0.6 / (D - 5))])
    )


# -- one draw ------------------------------------------------------------------------------------


def drawn(
    rng: np.random.Generator, spectrum: Spectrum, n: int, link: Logit
) -> list[dict[str, float]]:
    """Every quantity under every penalty, of one draw of rows and labels."""
    roots = np.sqrt(spectrum.values)
    X = rng.normal(size=(n, D)) * roots
    w = rng.choice([-1.0, 1.0], D) * np.sqrt(spectrum.shares) / roots
    labels = (rng.random(n) < link(X @ w)).astype(float)
    design = make_design(X, labels, np.ones(n), True)
    strengths = np.array(PENALTIES) * spectrum.trace
    solution = design.solver(strengths).solve(1e-7)
    found = []
    for column, strength in enumerate(strengths):
        fit = design.fit_at(solution, column, strength)
        coef, b = design.restore(fit.coef, fit.intercept)
        u = X @ coef + float(b)
        q = float(np.sqrt(spectrum.values @ coef**2))
        cosine = float(spectrum.values * w @ coef / q)
        seen = {
            "cosine": cosine,
            "norm": q,
            "intercept": float(b),
            "degrees_of_freedom": degrees_of_freedom(X, u, strength),
            "training_sd": float(u.std()),
            "training_loss": float(np.mean(np.logaddexp(0.0, np.where(labels == 1.0, -u, u)))),
        }
        found.append(seen | on_new_rows(cosine, q, float(b), link))
    return found


def degrees_of_freedom(X: Floats, u: Floats, strength: float) -> float:
    """tr XᵀDX(XᵀDX + λI)⁻¹ with the intercept taken out, D the curvatures."""
    curvature = expit(u) * expit(-u)
    rows = np.sqrt(curvature)[:, None] * (X - curvature @ X / curvature.sum())
    gram = rows @ rows.T if len(X) < D else rows.T @ rows
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return float(np.sum(values / (values + strength)))


S = np.arange(-7.5, 7.5001, 0.005)
WEIGHTS = np.exp(-0.5 * S * S) / np.exp(-0.5 * S * S).sum()
Z, SHARES = np.polynomial.hermite_e.hermegauss(41)


def on_new_rows(cosine: float, q: float, b: float, link: Logit) -> dict[str, float]:
    """Losses of a fit and of its calibrated scores, by sums over s ~ N(0, 1)."""
    coarse = np.linspace(S[0], S[-1], 301)
    noise = np.sqrt(max(1.0 - cosine**2, 0.0))
    curve = link(cosine * coarse[:, None] + noise * Z) @ (SHARES / SHARES.sum())
    F = np.interp(S, coarse, curve)
    u = b + q * S
    p = expit(u)
    values = {
        "log_loss": np.logaddexp(0.0, u) - F * u,
        "accuracy": np.where(u > 0, F, 1.0 - F),
        "brier": (p - F) ** 2 + F * (1.0 - F),
        "ece": np.abs(p - F),
        "calibrated_log_loss": entr(F) + entr(1.0 - F),
        "calibrated_accuracy": np.maximum(F, 1.0 - F),
        "calibrated_brier": F * (1.0 - F),
    }
    return {name: float(each @ WEIGHTS) for name, each in values.items()}


# -- all of them ---------------------------------------------------------------------------------


def rows_of(number: int, block: int) -> Iterator[Row]:
    """Mean and standard error of every quantity, a row for each penalty of a design."""
    name, ratio, kappa, beta = DESIGNS[number]
    spectrum, n = spectrum_of(name), round(ratio * D)
    seeds = np.random.SeedSequence([20261118, number, block]).spawn(DRAWS)
    found = [drawn(np.random.default_rng(seed), spectrum, n, Logit(kappa, beta)) for seed in seeds]
    for k, rho in enumerate(PENALTIES):
        row = {"spectrum": name, "n": str(n), "kappa": f"{kappa:g}", "beta": f"{beta:g}"}
        row |= {"rho": f"{rho:g}", "block": str(block)}
        for quantity in QUANTITIES:
            values = np.array([each[k][quantity] for each in found])
            row[quantity] = f"{values.mean():.8g}"
            row[f"{quantity}_se"] = f"{values.std(ddof=1) / np.sqrt(DRAWS):.4g}"
        yield row


def all_rows() -> list[Row]:
    """Rows of every block and design; what is missing is made and kept."""
    path = FOLDER / "simulations.csv"
    rows = read_csv(path)
    for place in range(len(rows) // len(PENALTIES), BLOCKS * len(DESIGNS)):
        rows += rows_of(place % len(DESIGNS), place // len(DESIGNS))
        write_text(path, as_csv(rows))
    return rows


def predicted(row: Row) -> FitState:
    """The state of a row's cell."""
    spectrum = spectrum_of(row["spectrum"])
    C = 1.0 / (float(row["rho"]) * spectrum.trace)
    link = Logit(float(row["kappa"]), float(row["beta"]))
    return state_of_fit(float(row["n"]), spectrum, C=C, link=link, finite=True)


# -- tables --------------------------------------------------------------------------------------


def merged(rows: list[Row]) -> list[Row]:
    """One row for each cell: means of its blocks."""
    found = []
    for blocks in by_cell(rows, ("spectrum", "n", "kappa", "beta", "rho")).values():
        whole = dict(blocks[0])
        for quantity in QUANTITIES:
            whole[quantity] = f"{numbers(blocks, quantity).mean():.8g}"
            error = np.linalg.norm(numbers(blocks, f"{quantity}_se"))
            whole[f"{quantity}_se"] = f"{error / len(blocks):.4g}"
        found.append(whole)
    return found


def rare(row: Row, state: FitState) -> dict[str, float]:
    """Standard errors of both accuracies by the law of cosine and intercept.

    Where nearly every fit says the same class, the draws that would not are too few to show in the
    spread of sixty.
    """
    link = Logit(float(row["kappa"]), float(row["beta"]))
    z = np.linspace(-4.0, 4.0, 33)
    weights = np.exp(-0.5 * z * z)
    weights /= weights.sum()
    variance = {"accuracy": 0.0, "calibrated_accuracy": 0.0}
    for c_sd, b_sd in ((state.cosine_sd, 0.0), (0.0, state.intercept_sd)):
        cosines = np.clip(state.cosine + c_sd * z, -1.0, 1.0)
        found = [
            on_new_rows(float(c), state.norm, float(b), link)
            for c, b in zip(cosines, state.intercept + b_sd * z, strict=True)
        ]
        for name in variance:
            values = np.array([each[name] for each in found])
            variance[name] += float(weights @ (values - weights @ values) ** 2)
    return {name: float(np.sqrt(each)) for name, each in variance.items()}


def compared(
    rows: list[Row], quantity: str, states: list[FitState], draws: int
) -> tuple[Floats, Floats]:
    """(z, relative error) of every cell."""
    measured, error = numbers(rows, quantity), numbers(rows, f"{quantity}_se")
    expected = np.array([getattr(state, quantity) for state in states])
    if quantity in ("accuracy", "calibrated_accuracy"):
        law = [rare(row, state)[quantity] for row, state in zip(rows, states, strict=True)]
        error = np.maximum(error, np.array(law) / np.sqrt(draws))
    error = np.maximum(error, ROUNDING)
    size = np.where(np.abs(expected) > 1e-6, np.abs(expected), np.nan)
    return (measured - expected) / error, np.abs(measured - expected) / size


def table(rows: list[Row]) -> str:
    """Errors of every quantity: of the first block of draws, and of all blocks together."""
    first = [row for row in rows if row["block"] == "0"]
    whole, blocks = merged(rows), len({row["block"] for row in rows})
    states = [predicted(row) for row in first]
    lines = []
    for quantity, name in QUANTITIES.items():
        z, relative = compared(first, quantity, states, DRAWS)
        z_all, relative_all = compared(whole, quantity, states, DRAWS * blocks)
        lines.append(
            (
                name,
                f"{np.sqrt(np.mean(z**2)):.2f}",
                f"{np.nanmedian(relative):.2%}",
                f"{np.sqrt(np.mean(z_all**2)):.2f}",
                f"{np.nanmedian(relative_all):.2%}",
            )
        )
    many = f"{DRAWS * blocks} draws"
    counts = (f"{DRAWS} draws", many)
    columns = [f"{what}, {count}" for count in counts for what in ("rms z", "error")]
    solved = sum(state.converged for state in states)
    return (
        f"{markdown(('quantity', *columns), lines)}\n\n"
        f"{len(states)} cells at d = {D}, {solved} of them solved; z = (mean of draws − "
        "prediction)/standard error of the mean, error = median of |mean/prediction − 1|.\n"
    )


def write_table() -> str:
    """Run what is missing and write the table."""
    text = table(all_rows())
    write_text(FOLDER / "theory.md", text)
    return text
