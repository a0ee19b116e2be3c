r"""The fixed point of channel and spectrum: norm, alignment, step and intercept of a ridge fit.

With λ the penalty of (1/n)Σℓ + (λ/2)‖w‖², μ = λ/v, and ι = 1 for a free intercept,

    γ = (df1 + ι)/(n v)    a = (t/v)·A    q̃² = (t/v)²·B + r²·(df2 + ι)/(n v²)    E[Ψ] = 0

where q̃ is the deviation of a score with the error of its intercept, and a/q̃ its correlation.
The unknowns are (log q̃, artanh(a/q̃), log γ, b). A few plain steps, then Newton's method with
forward differences; all problems of a batch at once, and each leaves when it is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from angcal._typing import Floats
from angcal.theory.channel import Channel
from angcal.theory.spectrum import Spectra


class LabelLaw(Protocol):
    """What the equations ask of labels: the channel of each problem."""

    def channel(self, q: Floats, c: Floats, gamma: Floats, b: Floats) -> Channel:
        """v, r², t and m, for one q, c, γ and b of each problem."""
        ...

    def take(self, chosen: Any) -> Self:
        """The problems of these numbers."""
        ...


@dataclass(frozen=True, eq=False)
class Problems:
    """Fits that are solved together."""

    n: Floats  # (B,): Labels
    strength: Floats  # (B,): λ, or μ where `by_mu`
    spectra: Spectra
    labels: LabelLaw  # Labels, or those of several classes
    intercept: bool = True
    # Whether μ = λ/v is given in place of λ, which takes Σ out of the iteration
    by_mu: bool = False

    def take(self, chosen: Any) -> Problems:
        """The problems of these numbers."""
        return replace(
            self,
            n=self.n[chosen],
            strength=self.strength[chosen],
            spectra=self.spectra.take(chosen),
            labels=self.labels.take(chosen),
        )

    def mu(self, v: Floats) -> Floats:
        """λ/v."""
        return self.strength if self.by_mu else self.strength / v


@dataclass(frozen=True, eq=False)
class Solution:
    """Unknowns of every problem, what followed from them, and how far they are from solved."""

    x: Floats
    residual: Floats

    @property
    def unknowns(self) -> tuple[Floats, Floats, Floats, Floats]:
        """q̃, a/q̃, γ and b."""
        return unknowns(self.x)


def unknowns(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """q̃, a/q̃, γ and b from the four columns of x."""
    return np.exp(x[:, 0]), np.tanh(x[:, 1]), np.exp(x[:, 2]), x[:, 3]


def gaps(problems: Problems, x: Floats) -> Floats:
    """New unknowns less old ones, (B, 4); the last is E[Ψ]/v, a step of the intercept."""
    q, c, gamma, b = unknowns(x)
    found = problems.labels.channel(q, c, gamma, b)
    new_q, new_c, new_gamma = _updated(problems, found)
    new_x = np.column_stack([np.log(new_q), np.arctanh(new_c), np.log(new_gamma)])
    last = found.mean / found.v if problems.intercept else -b
    return np.column_stack([new_x - x[:, :3], last])


def _updated(problems: Problems, found: Channel) -> tuple[Floats, Floats, Floats]:
    iota, n, v = float(problems.intercept), problems.n, found.v
    df1, df2, A, B = problems.spectra.functions(problems.mu(v))
    ratio = found.t / v
    square = ratio**2 * B + found.r2 * (df2 + iota) / (n * v**2)
    new_q = np.sqrt(np.maximum(square, 1e-300))
    # A correlation of one up to rounding has no arctanh.
    new_c = np.clip(ratio * A / new_q, -1.0 + 1e-12, 1.0 - 1e-12)
    return new_q, new_c, np.maximum((df1 + iota) / (n * v), 1e-300)


def distance(x: Floats, g: Floats) -> Floats:
    """max|g| of every problem, the intercept's in units of the scores; infinite where undefined."""
    scaled = np.abs(g) / np.column_stack([np.ones((len(x), 3)), 1.0 + np.exp(x[:, 0])])
    worst = scaled.max(axis=1)
    return np.where(np.isfinite(worst), worst, np.inf)


def solve(
    problems: Problems, start: Floats | None = None, *, rounds: int = 20, tolerance: float = 1e-8
) -> Solution:
    """The fixed point of every problem, from a common start or (B, 4) unknowns of similar problems.

    At most `rounds` steps of Newton's method; the tolerance is the largest gap of the unknowns.
    """
    with np.errstate(all="ignore"):
        x = first_guess(problems) if start is None else start.copy()
        x = _plain_steps(problems, x, 6 if start is None else 3)
        residual = np.full(len(x), np.inf)
        open_ones = np.arange(len(x))
        for _ in range(rounds):
            part = problems.take(open_ones)
            x[open_ones], residual[open_ones] = _newton(part, x[open_ones], tolerance)
            # Scores that run away have no fixed point in reach.
            hopeful = (residual[open_ones] > tolerance) & (x[open_ones, 0] < np.log(299.0))
            open_ones = open_ones[hopeful]
            if not len(open_ones):
                break
    return Solution(x, residual)


def first_guess(problems: Problems) -> Floats:
    """q̃ = 0.5, c = 0.5, γ = min(5·df1(5λ)/n, 20), b = 0."""
    wide = problems.strength * (1.0 if problems.by_mu else 5.0)
    gamma = np.minimum(5.0 * problems.spectra.functions(wide)[0] / problems.n, 20.0)
    constant = np.ones_like(gamma)
    columns = [np.log(0.5) * constant, np.arctanh(0.5) * constant, np.log(gamma), 0.0 * constant]
    return np.column_stack(columns)


def _plain_steps(problems: Problems, x: Floats, count: int) -> Floats:
    for _ in range(count):
        x = _kept(x + np.nan_to_num(np.clip(gaps(problems, x), -1.5, 1.5)))
    return x


def _kept(x: Floats) -> Floats:
    """Unknowns within what can be computed: scores up to 300 wide, cosines up to 1 − 1e-12."""
    limits = np.array([np.log(300.0), 14.0, 12.0, 1e4])
    return np.clip(x, [-50.0, -14.0, -30.0, -1e4], limits)


def _differences(problems: Problems, x: Floats) -> tuple[Floats, Floats]:
    """Gaps and their derivatives in the unknowns, (B, 4) and (B, 4, 4), in one call."""
    size = 1e-5
    stacked = np.concatenate([x] + [x + size * np.eye(4)[k] for k in range(4)])
    g, *shifted = np.split(gaps(problems.take(np.tile(np.arange(len(x)), 5)), stacked), 5)
    return g, np.stack([(other - g) / size for other in shifted], axis=2)


def slopes(problems: Problems, solution: Solution) -> Floats:
    """dx/d log λ of every problem, (B, 4), by the implicit function theorem."""
    size = 1e-4
    with np.errstate(all="ignore"):
        g, jacobian = _differences(problems, solution.x)
        stronger = replace(problems, strength=problems.strength * np.exp(size))
        return _solved(jacobian, -(gaps(stronger, solution.x) - g) / size)


def _newton(problems: Problems, x: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """One step of Newton's method, shortened until the gap falls; four plain steps where not."""
    g, jacobian = _differences(problems, x)
    now = distance(x, g)
    step = _solved(jacobian, -g)
    longest = np.abs(step[:, :3]).max(axis=1)
    step *= np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300))[:, None]
    best, reached, length = x.copy(), now.copy(), 1.0
    waiting = np.flatnonzero(now > tolerance)
    for _ in range(6):
        if not len(waiting):
            break
        trial = _kept(x[waiting] + length * step[waiting])
        found = distance(trial, gaps(problems.take(waiting), trial))
        better = found < now[waiting]
        best[waiting[better]], reached[waiting[better]] = trial[better], found[better]
        waiting, length = waiting[~better], 0.35 * length
    if len(waiting):
        best[waiting] = _plain_steps(problems.take(waiting), x[waiting], 4)
        # Measured at the next step, if there is one.
        reached[waiting] = distance(best[waiting], gaps(problems.take(waiting), best[waiting]))
    return best, reached


def _solved(matrices: Floats, sides: Floats) -> Floats:
    """J⁻¹g for each problem; a plain step, g, where J is no matrix of numbers."""
    usable = np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(sides).all(axis=1)
    steps = np.nan_to_num(np.clip(-sides, -1.5, 1.5))
    for k in np.flatnonzero(usable):
        try:
            steps[k] = np.linalg.solve(matrices[k], sides[k])
        except np.linalg.LinAlgError:
            continue
    return steps
