r"""Learning curves of many signals at once: strength κ, and exponent p of where it lies.

Directions of eigenvalue s hold a share ∝ s^p of the signal. For each κ, p and number of labels the
ridge that maximizes the cosine is that of one scalar equation, c² = max over μ of
A(μ)²/(B(μ) + df2(μ)/(n·J(c))) (:mod:`angcal.theory.labels`). The full equations are then solved at
that μ, from a start that the cosine gives: near the best ridge the cosine hardly depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from angcal._typing import Floats
from angcal.links import Logit
from angcal.losses import Logistic
from angcal.theory.channel import Labels, calibrated, plain
from angcal.theory.labels import information_of, link_for, mu_grid, reached
from angcal.theory.solve import Problems, solve
from angcal.theory.spectrum import Spectra, Spectrum
from angcal.theory.state import spread_and_cosine


@dataclass(frozen=True, eq=False)
class Learning:
    """Measures for every κ, p and n, and what the truth of each κ reaches."""

    kappa: Floats  # (K,)
    # (K, P, N) each: ``log_loss``, ``accuracy``, ``ece``, ``cosine``, and ``C`` as
    # a logarithm
    values: dict[str, Floats]
    # (K,) each: ``log_loss`` and ``accuracy`` with unlimited labels
    truth: dict[str, Floats]

    def refined(self, kappa: Floats) -> Learning:
        """The same at other κ, by splines in log κ."""
        at, known = np.log(kappa), np.log(self.kappa)
        values = {name: CubicSpline(known, each)(at) for name, each in self.values.items()}
        truth = {name: CubicSpline(known, each)(at) for name, each in self.truth.items()}
        return Learning(kappa, values, truth)


def learning_of(
    kappa: Floats, power: Floats, spectrum: Spectrum, prevalence: float, n: Floats
) -> Learning:
    """The curves, at the best penalty of each point."""
    shape = (len(kappa), len(power), len(n))
    offsets = np.array([link_for(prevalence=prevalence, scale=float(k)).offset for k in kappa])
    shares = np.stack([spectrum.with_power(float(p)).shares for p in power])
    spectra = Spectra(spectrum.values, spectrum.counts, shares)
    truths = Labels(Logit(), kappa, offsets, Logistic())
    cosine, mu = _scalar_equation(spectra, truths, mu_grid(spectrum, 60), n)
    k, p, place = (part.ravel() for part in np.indices(shape))
    labels = truths.take(k)
    problems = Problems(n[place], mu.ravel(), spectra.take(p), labels, by_mu=True)
    solution = solve(problems, _start(problems, labels, cosine.ravel()), rounds=2, tolerance=1e-3)
    found = labels.channel(*solution.unknowns)
    q, solved = spread_and_cosine(problems, found)
    # Where the gap is larger, the scalar equation's cosine stays.
    solved = np.where(solution.residual < 0.05, solved, cosine.ravel())
    b_sd = np.sqrt(found.r2 / problems.n) / found.v
    worth = calibrated(labels, solved, 0.1)
    own = plain(labels, solved, q, solution.unknowns[3], b_sd, 0.15)
    values = {
        "log_loss": worth.log_loss + 1.0 / n[place],
        "accuracy": worth.accuracy,
        "ece": own.ece,
        "cosine": solved,
        "C": -np.log(problems.n * mu.ravel() * found.v),
    }
    best = calibrated(truths, np.ones(len(kappa)), 0.02)
    return Learning(
        kappa,
        {name: each.reshape(shape) for name, each in values.items()},
        {"log_loss": best.log_loss, "accuracy": best.accuracy},
    )


def _scalar_equation(
    spectra: Spectra, truths: Labels, mu: Floats, n: Floats
) -> tuple[Floats, Floats]:
    """(c, μ) with c² = R_p(n·J(c)) for every κ, p and n, by bisection in c."""
    # Even in log(1 − c²): near c = 1 a strong signal's labels say more and more.
    grid = np.sqrt(-np.expm1(-np.linspace(0.0, 8.0, 25)))
    count = len(truths.scale)
    tiled = truths.take(np.repeat(np.arange(count), len(grid)))
    J = information_of(tiled, np.tile(grid, count), 0.2).reshape(count, -1)
    x = np.geomspace(1e-3 * n.min() * J.min() + 1e-12, 1e1 * n.max() * J.max(), 60)
    squares, ridges = reached(spectra, x, mu)
    cosine = np.empty((count, len(squares), len(n)))
    ridge = np.empty_like(cosine)
    for k, p in np.ndindex(cosine.shape[:2]):
        low, high = np.zeros(len(n)), np.full(len(n), grid[-1])
        for _ in range(20):
            middle = 0.5 * (low + high)
            log_x = np.log(n * np.interp(middle, grid, J[k]))
            above = np.interp(log_x, np.log(x), squares[p]) > middle**2
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        cosine[k, p] = 0.5 * (low + high)
        ridge[k, p] = np.exp(np.interp(log_x, np.log(x), np.log(ridges[p])))
    return np.clip(cosine, 1e-3, grid[-1]), ridge


def _start(problems: Problems, labels: Labels, cosine: Floats) -> Floats:
    """Unknowns of a fit that is calibrated and has this cosine."""
    noise = np.sqrt(1.0 + np.pi / 8.0 * labels.scale**2 * (1.0 - cosine**2))
    q, b = labels.scale * cosine / noise, labels.offset / noise
    # p(1 − p) of a normal score, about; each label of a row takes part of it away.
    flat = 0.25 / np.sqrt(1.0 + np.pi / 8.0 * (q**2 + b**2))
    df1 = problems.spectra.functions(problems.strength)[0] + 1.0
    gamma = df1 / problems.n / flat
    gamma = df1 / problems.n / flat * (1.0 + np.minimum(gamma * flat, 3.0))
    wide = np.sqrt(q**2 + gamma * flat / problems.n)
    c_wide = np.clip(cosine * q / wide, -0.9999, 0.9999)
    return np.column_stack([np.log(wide), np.arctanh(c_wide), np.log(gamma), b])
