r"""How far the observable angle errs: the variance of its two quadratic forms, and the interval.

In units in which Σ = I, let q = Xᵀψ/n + v̂ŵ, and split ŵ and q into their parts along w* and
perpendicular to it. With a = ⟨w*, ŵ⟩ and q₁ = ⟨w*, q⟩,

    N = a·q₁ + A,   A = ⟨ŵ_⊥, q_⊥⟩ − mean(γ_iψ_i²)
    T = q₁² + B,    B = ‖q_⊥‖² − (1/n²)Σψ_i²x_iᵀx_i

so that N/√T errs by A and B alone; what a and q₁ do from draw to draw does not matter. The rows
without their part along w*, Z, are independent of the labels, and nA = ⟨Z, F⟩ − div F with
F = ψŵ_⊥ᵀ. Stein's formula of second order gives the variance, E‖F‖² + E Tr(∇F)². With
L_⊥ = ‖ŵ‖²(1 − c²), R = Σψ_i², V_i = D_i − h_iD_i², W = ΣV_i² and η = Tr Ĥ² it is

    n²Var A = (R + W·L_⊥)(L_⊥ + η(R + W·L_⊥))

because ∂ŵ/∂X = Ĥ(ψ − X̃ᵀD·ŵ), and the entries of X̃ĤX̃ᵀ off the diagonal are as large as η says.
∂q = S∂ŵ with S = v̂ + ∇²g, and Ĥ ≈ S⁻¹/n, give those of B and of both in the same way
(`Noise.of_draw`; docs/angle.md). Under a weak penalty every term counts: R alone, the noise of Xᵀψ
at given residuals, is a quarter of it. A pool of m rows adds the noise of ‖ŵ‖_Σ² and Σ̂⁻¹.

The interval holds every c with which some q₁ ≥ 0 explains N and T nearly as well as the best does:
χ²(c) = min over q₁ of (N − c‖ŵ‖q₁, T − q₁²) Var⁻¹ (…)ᵀ is within z² of its least. It needs no T
that is large against its noise, so a weak signal has a wide interval, and not a short one about a
wrong place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.leverages import PenalizedHessian
from angcal.leverages.steps import remaining_curvature
from angcal.observables import Observables
from angcal.problem import LinearFit

SLACK = 0.1
"""Share of each variance that counts as independent of the other form, times d/n.

Terms of higher order blur the law that N and T of a ridge fit to white rows follow together. Over
four designs, two signals and C of 0.01 and 1 the variance of N/√T asked for shares of 0.2 to 0.8 at
n/d = 0.5, 0 to 0.3 at 1, 0 to 0.1 at 2 and at 4 (80 and 150 draws each; the seeds are not those of
docs/angle.md)."""
NEARLY_ONE = 0.9
"""Correlation of N and T beyond which N/√T is told by what is left of them when they cancel, which
the variances overstate: twofold for scikit-learn's C = 1e4 at n/d = 4."""
REACH = 6.0
"""Of the search for q₁², in standard errors of T."""


@dataclass(frozen=True)
class Noise:
    """What the variances of N and T are made of; symbols as in the module.

    Attributes
    ----------
    n, rank : int
        Rows, and dimension of the range of Σ.
    length : float
        ‖ŵ‖_Σ².
    v : float
        v̂, rows weighed by their squared radii.
    residuals, curvatures : float
        R and W, rows weighed by their squared radii.
    coupling : float
        η.
    step : float
        mean γ_i, without the intercept's share.
    overlap, diagonal : float
        mean(γ_iψ_i²) and (1/n²)Σψ_i²x_iᵀΣ⁻¹x_i: ⟨ŵ_⊥, q_⊥⟩ and ‖q_⊥‖².
    score_share, pair_share : float
        mean(ψu) and ‖Σ^-½Xᵀψ‖²/n².
    length_rows, inverse_rows : int
        Rows that gave ‖ŵ‖_Σ² and Σ⁻¹; 0 where they are known.
    tails : float
        (kurtosis of the scores − 1)/2, at least 1: how much noisier squares are than normal ones.
    """

    n: int
    rank: int
    length: float
    v: float
    residuals: float
    curvatures: float
    coupling: float
    step: float
    overlap: float
    diagonal: float
    score_share: float
    pair_share: float
    length_rows: int
    inverse_rows: int
    tails: float

    @property
    def slack(self) -> float:
        """Share of the variances of A and B that counts as independent."""
        return SLACK * self.rank / self.n

    def nearly_cancels(self, cosine: float) -> bool:
        """Whether N and T move together, so that the interval is longer than it has to be."""
        r, _ = _correlation(*self.of_draw(np.asarray(cosine)))
        return bool(r > NEARLY_ONE)

    def of_draw(self, cosine: Floats) -> tuple[Floats, Floats, float]:
        """(Var A, Cov, Var B) of the draw of the training rows, at given cosines."""
        R, W, eta, m = self.residuals, self.curvatures, self.coupling, self.overlap
        across = self.length * (1.0 - cosine**2)
        # Tr HSH and Tr SHSH about their values at H = S⁻¹/n, as η is about Tr S⁻²/n².
        inflation = 1.0 + W * eta
        mixed = self.step / self.n * inflation
        both = self.rank / self.n**2 + (self.step / self.n) ** 2 * W * inflation
        total = R + W * across
        first = total * (across + eta * total)
        second = (R + W * across) * m + W * m * eta * total + R * mixed * total
        last = (
            R * self.diagonal + W * (1.0 + eta * W) * m**2 + 2.0 * R * W * mixed * m + R**2 * both
        )
        return first / self.n**2, second / self.n**2, last / self.n**2

    def of_pool(self, along: Floats) -> tuple[Floats, Floats, float]:
        """The same of the pool's draw, where c·q₁/(2‖ŵ‖) is ``along``."""
        length = _square_noise(self.length, self.length_rows, self.tails)
        inverse = _square_noise(self.pair_share, self.inverse_rows, self.tails)
        if self.inverse_rows:  # an inverse Wishart matrix is noisier than a Wishart one
            inverse *= self.inverse_rows / max(self.inverse_rows - self.rank - 4, 1)
        shared = 0.0
        if self.length_rows and self.inverse_rows:
            # Each is an estimate: together they may ask for more than two variances allow.
            most = np.sqrt(length * inverse)
            shared = min(_square_noise(self.score_share, self.inverse_rows, self.tails), most)
        v, slope = self.v, self.v - along
        cross = slope * (v**2 * length - shared)
        return slope**2 * length, cross, v**4 * length + inverse - 2.0 * v**2 * shared

    def misfit(self, numerator: float, square: float, cosine: Floats) -> Floats:
        """min over q₁ ≥ 0 of χ² of N and T, for each cosine."""
        c = cosine[:, None]
        first, second, last = self.of_draw(c)
        spread = np.sqrt(last + self.of_pool(np.zeros(1))[2])
        low, high = max(square - REACH * spread, 0.0), max(square + REACH * spread, spread)
        q = np.linspace(np.sqrt(low), np.sqrt(high), 201)[None, :]
        pool = self.of_pool(c * q / (2.0 * np.sqrt(self.length)))
        r, limit = _correlation(first, second, last)
        var_n = (1.0 + self.slack) * first + pool[0]
        var_t = (1.0 + self.slack) * last + pool[2]
        both = r * limit + pool[1]
        off_n, off_t = numerator - c * np.sqrt(self.length) * q, square - q**2
        # In units of their own errors: squares of very small variances are no numbers.
        with np.errstate(all="ignore"):
            x, y = off_n / np.sqrt(var_n), off_t / np.sqrt(var_t)
            joint = both / np.sqrt(var_n) / np.sqrt(var_t)
            fit = (x**2 - 2.0 * joint * x * y + y**2) / (1.0 - joint**2)
        found: Floats = np.min(np.where(np.isfinite(fit), fit, np.inf), axis=1)
        return found

    def relative_error(self, numerator: float, square: float, cosine: float) -> float:
        """Standard error of N/√(T·‖ŵ‖²) as a share of it, to first order."""
        first, second, last = self.of_draw(np.asarray(cosine))
        alone = (1.0 + self.slack) * (first / numerator**2 + last / (4.0 * square**2))
        draw = alone - second / (numerator * square)
        pool = self.of_pool(np.asarray(numerator / (2.0 * self.length)))
        more = pool[0] / numerator**2 - pool[1] / (numerator * square) + pool[2] / (4.0 * square**2)
        return float(np.sqrt(max(float(draw), 0.0) + max(float(more), 0.0)))

    def interval(self, numerator: float, square: float, limit: float) -> tuple[float, float]:
        """Cosines whose χ² is within ``limit`` of the least, as an interval.

        All of them where T, which estimates a square, is not positive.
        """
        if square <= 0.0:
            return -1.0, 1.0
        center = float(np.clip(numerator / np.sqrt(square * self.length), -1.0, 1.0))
        near = abs(center) * self.relative_error(numerator, square, min(abs(center), 0.999))
        fine = center + min(near, 0.5) * np.linspace(-8.0, 8.0, 65)
        grid = np.unique(np.clip(np.concatenate([np.linspace(-1.0, 1.0, 41), fine]), -1.0, 1.0))
        # A few at a time, so that less memory is taken than a block of rows has.
        parts = np.array_split(grid, 8)
        misfit = np.concatenate([self.misfit(numerator, square, part) for part in parts])
        if not np.any(np.isfinite(misfit)):
            return -1.0, 1.0
        limit += float(misfit.min())
        inside = np.flatnonzero(misfit <= limit)
        ends = []
        for last, beyond in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
            end = float(grid[last])
            if 0 <= beyond < len(grid):
                share = (limit - misfit[last]) / (misfit[beyond] - misfit[last])
                end += float(share * (grid[beyond] - grid[last]))
            ends.append(end)
        return ends[0], ends[1]


def _correlation(first: Floats, second: Floats, last: float) -> tuple[Floats, Floats]:
    """(r of A and B, √(Var A·Var B))."""
    with np.errstate(all="ignore"):
        limit = np.sqrt(first * last)
        r = np.nan_to_num(np.clip(second / limit, -1.0, 1.0))
    return r, limit


def _square_noise(square: float, rows: int, tails: float) -> float:
    """Variance of a mean of ``rows`` squares; 0 where it is known."""
    return 2.0 * square**2 * tails / rows if rows else 0.0


def squared_radii(squares: Floats, rank: int) -> Floats:
    """r_i² of rows x_i = r_i·(white row), mean one, from x_iᵀΣ⁻¹x_i, drawn together by their noise.

    Squared lengths of normal rows spread by 2/rank on their own. Only what they spread beyond that
    belongs to the radii.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> normal = squared_radii(rng.chisquare(50, 400), 50)
    >>> bool(normal.std() < 0.05)
    True
    >>> uneven = squared_radii(rng.chisquare(50, 400) * np.repeat([0.5, 1.5], 200), 50)
    >>> [round(float(uneven[half].mean()), 1) for half in (slice(200), slice(200, None))]
    [0.6, 1.4]
    """
    relative = squares / max(float(np.mean(squares)), np.finfo(float).tiny)
    spread, own = float(np.var(relative)), 2.0 / (rank + 2.0) * float(np.mean(relative**2))
    share = max(1.0 - own / spread, 0.0) if spread > 0 else 0.0
    return 1.0 + share * (relative - 1.0)


def coupling_of_rows(
    fit: LinearFit, o: Observables, step: float, curvatures: float, rank: int
) -> float:
    """η = Tr(ΣĤΣĤ) from the coupling of rows, at least its value where Ĥ is a multiple of Σ⁻¹."""
    n = o.n_samples
    least = step**2 / rank
    least /= max(1.0 - curvatures * least, 0.05)
    if o.coupling is None:
        return least
    # Rows are coupled by the intercept too, which has no part in the angle.
    common = (float(np.mean(o.loo_steps - o.slope_steps)) * n / max(n - 2, 1)) ** 2
    found = float(np.mean(o.coupling)) / max(n - 1, 1)
    return max(found - common if found > 2.0 * common else _coupling_of_slopes(fit, o), least)


def _coupling_of_slopes(fit: LinearFit, o: Observables) -> float:
    """η where the penalty is so strong that rows are coupled by little but the intercept.

    X̃ĤX̃ᵀ is the slopes' own matrix and a constant, which a vector of mean zero does not see.
    """
    if fit.rows.far or not isinstance(fit.hessian, PenalizedHessian):
        return 0.0
    n, left = o.n_samples, remaining_curvature(o.leverages, o.curvatures)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, 32)) / left[:, None]
    images = fit.hessian.smooth(signs - signs.mean(axis=0))
    own = np.maximum(o.leverages - o.intercept_leverage, 0.0)
    rows = (np.mean(images**2, axis=1) - (own / left) ** 2) / left**2
    return max(float(np.mean(rows)), 0.0) / max(n - 1, 1)
