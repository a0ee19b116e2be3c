r"""|F(s) − table(s)| ≤ sup|F⁗|·h⁴/384 + node errors ≤ 1e-9: the angular predictor, tabulated.

The table is the piecewise cubic that has F's values and slopes at nodes of spacing h.

**Between nodes.** Hermite's remainder is F⁗(ξ)·(s−a)²(b−s)²/24, at most sup|F⁗|·h⁴/384. With
κ the link's scale, v = κ·c·s + offset and τ = κ·√(1−c²), F(s) = G(v) for G(v) = E base(v + τZ), so
sup|F⁗| = (κ|c|)⁴·sup|G⁗|, which `derivative_bound` bounds.

**At the nodes.** Values and slopes come from ``Link.smooth`` and ``smooth_derivative``, or from the
closed form of a mixture of probits, good to ε = 1e-10. Hermite's weights on values are positive and
sum to 1, those on slopes sum to at most h/4, so that their errors add at most ε·(1 + κ|c|h/4); h is
kept below 2/(κ|c|).

**Rounding.** With at most 2¹⁴ cells the position within a cell is known to 5e-12 of its width, and
across a cell F moves by at most 1: 1e-11 covers it.

**Averages.** A curve Σ_k w_kF_k of several has sup|F⁗| ≤ Σ_k w_k·sup|F_k⁗|, and node errors and
slopes that are averages too. To make its table quickly, parts in closed form are evaluated at every
m-th node only, with three derivatives, and a septic of width H = mh gives the nodes in between.
That misses a value by sup|F⁽⁸⁾|·H⁸/10321920 and a slope by sup|F⁽⁸⁾|·H⁷·3√7/21512960 at most (as
Birkhoff & Priver 1967 have it for quintics), of which h/4 counts. Of 0.8e-9, 0.1e-9 goes there, by
weight.

Closed forms are good to 1e-11, and to 1e-10 in derivatives. Between nodes a septic hands errors of
values on to slopes, at most (35/8)/H times as large, and those of derivatives on to values, at most
H/6, H²/60 and H³/700 times as large. κ|c|H stays below the larger of 1 and τ, and errors of
derivatives fall with τ, so this adds less than three times 1e-11, within the 1e-10 that nodes are
allowed.

h is the largest spacing for which this is 0.8e-9 + 1.5e-10 + 1e-11 at most. A table that would need
too many cells is not made, nor one for a link without a bound: no noise and a kink, or a user's
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import perm
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite_e import hermeroots, hermeval

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import namespace_of, placed_like, slices
from angcal.covariance import ScoreScale
from angcal.curve.predictor import CurvePart
from angcal.links import Cauchit, ClippedLinear, ComplementaryLogLog, Link, Logit, Probit
from angcal.links.quadrature import PROMISED_ACCURACY, normal_density

# -- sup over v of |∂^k/∂v^k E base(v + τZ)|: how far a smoothed link can bend ------------------
#
# Two bounds hold, and the smaller one counts:
#
# - from the link: an average over Z stays within the bounds of the base's own derivative;
# - from the noise: base is the distribution function of some L, so E base(v + τZ) = E Φ((v − L)/τ),
#   and its k-th derivative is at most sup|φ^(k−1)|/τ^k.
#
# The fourth is what a cubic misses, the sixth what a quintic does, the eighth what a septic does.


def normal_extremes(order: int) -> Floats:
    """φ^(k) at its extremes: ±He_k·φ where He_(k+1) = 0, as φ^(k) = (−1)^k·He_k·φ."""
    # All roots of a Hermite polynomial are real, whatever the type that eigenvalues come in.
    z = np.real(hermeroots([0.0] * (order + 1) + [1.0]))
    return (-1) ** order * hermeval(z, [0.0] * order + [1.0]) * normal_density(z)


@cache
def normal_bound(order: int) -> float:
    """sup|Φ^(k)| = sup|φ^(k−1)|."""
    return float(np.abs(normal_extremes(order - 1)).max())


def _largest(polynomial: Polynomial, places: Floats) -> float:
    return float(np.abs(polynomial(places)).max())


@cache
def logistic_bound(order: int) -> float:
    """sup|base^(k)| of base = (1 + x)/2, x = tanh(t/2): polynomials in x, as ẋ = (1 − x²)/2."""
    derivative = Polynomial([0.5, 0.5])
    for _ in range(order):
        derivative = derivative.deriv() * Polynomial([0.5, 0.0, -0.5])
    extremes = derivative.deriv().roots()
    return _largest(derivative, extremes[np.isreal(extremes) & (np.abs(extremes) < 1)].real)


@cache
def gumbel_bound() -> float:
    """sup|base⁗| of base = 1 − e^−y, y = e^t: base⁗ = (y − 7y² + 6y³ − y⁴)e^−y = P(y)e^−y.

    Extreme where P′ = P.
    """
    P = Polynomial([0.0, 1.0, -7.0, 6.0, -1.0])
    extremes = (P.deriv() - P).roots()
    y = extremes[np.isreal(extremes)].real
    y = y[y > 0]
    return float(np.max(np.abs(P(y)) * np.exp(-y)))


def cauchy_bound() -> float:
    """sup|base⁗|, the third derivative of 1/(π(1 + t²)): for t = tan a, −(6/π)·sin(4a)·cos⁴(a)."""
    return float(6.0 / np.pi * np.sin(0.4 * np.pi) * np.cos(0.1 * np.pi) ** 4)


@cache
def ramp_bound() -> float:
    """sup|φ″(v/τ) − φ″((v − 1)/τ)| = τ³·sup|G⁗| of a clipped line: φ″ from lowest to highest."""
    return float(np.ptp(normal_extremes(2)))


BOUNDS: dict[int, dict[type[Link], Callable[[np.float64], np.float64]]] = {
    4: {
        Logit: lambda tau: np.minimum(logistic_bound(4), normal_bound(4) / tau**4),
        # Φ smoothed is Φ(v/√(1 + τ²)).
        Probit: lambda tau: normal_bound(4) / (1.0 + tau**2) ** 2,
        ComplementaryLogLog: lambda tau: np.minimum(gumbel_bound(), normal_bound(4) / tau**4),
        Cauchit: lambda tau: np.minimum(cauchy_bound(), normal_bound(4) / tau**4),
        ClippedLinear: lambda tau: np.minimum(ramp_bound() / tau**3, normal_bound(4) / tau**4),
    },
    # Of links whose derivatives have a closed form.
    8: {
        Logit: lambda tau: np.minimum(logistic_bound(8), normal_bound(8) / tau**8),
        Probit: lambda tau: normal_bound(8) / (1.0 + tau**2) ** 4,
    },
}
"""Order -> family -> (τ -> bound). A subclass may have another base, so it is not its parent."""


def derivative_bound(link: Link, spread: float, order: int = 4) -> float:
    """sup over v of |∂^k/∂v^k E base(v + τZ)|, or ∞ where no bound is known."""
    bounds = BOUNDS[order]
    if type(link) not in bounds:
        return float("inf")
    with np.errstate(divide="ignore", over="ignore"):
        return float(bounds[type(link)](np.float64(spread)))


LARGEST_TABLE_ERROR = 1e-9
"""Interpolation may cost 0.8 of it, node errors and rounding share the rest."""

STRIDES = (2, 3, 4, 6, 8, 12, 16, 24, 48)
"""Nodes from one at which a part of an average is evaluated to the next; all divide the last."""

SMALLEST_REACH = 4.0
"""Standard deviations on either side of the mean score that a table is worth its making for."""

MOST_CELLS = 1 << 14
"""A larger table (512 kB) leaves the cache and takes longer to build than it saves."""

# -- where to look ---------------------------------------------------------------------------


def bend(part: CurvePart, order: int = 4) -> float:
    """κ|c|·(sup|∂^kG|)^(1/k), whose k-th power bounds the k-th derivative of F."""
    bound = derivative_bound(part.link, part.link.scale * part.sine, order)
    return part.steepness * float(np.float64(bound) ** (1.0 / order))


def mean_steepness(parts: Sequence[CurvePart]) -> float:
    """Σ_k w_kκ_k|c_k|: how fast the argument of the average moves."""
    return float(sum(part.weight * part.steepness for part in parts))


def largest_spacing(parts: Sequence[CurvePart], budget: float) -> float:
    """h with Σ_k w_k·bend_k⁴·h⁴/384 ≤ budget and Σ_k w_kκ_k|c_k|·h ≤ 2; 0 without a bound."""
    bends = np.array([part.weight**0.25 * bend(part) for part in parts])
    if not np.all(np.isfinite(bends)):
        return 0.0
    largest = float(bends.max())
    with np.errstate(divide="ignore", over="ignore"):
        # Relative to the largest: fourth powers may overflow.
        share = float(np.sum((bends / largest) ** 4)) if largest > 0 else 1.0
        step = (384.0 * budget / share) ** 0.25 / np.float64(largest)
        # Errors of slopes then add at most half of a value's.
        return float(np.minimum(step, 2.0 / np.float64(mean_steepness(parts))))


def largest_stride(part: CurvePart, spacing: float, budget: float) -> int:
    """The largest m with (bend₈·mh)⁸·(1/10321920 + 3√7/(86051840m)) ≤ budget; 1 without a bound."""
    twist = spacing * bend(part, 8)
    for stride in reversed(STRIDES):
        cost = 1.0 / 10321920.0 + 3.0 * np.sqrt(7.0) / (86051840.0 * stride)
        if stride * twist <= (budget / cost) ** (1 / 8):
            return stride
    return 1


@cache
def hermite_basis(known: int) -> Floats:
    """Of 1, t, t², …: what value and derivatives at 0, then at 1, add between them."""
    # The j-th derivative of tᵏ is k!/(k − j)!·tᵏ⁻ʲ.
    numbers = range(2 * known)
    ends = [[perm(k, j) * (end or j == k) for k in numbers] for end in (0, 1) for j in range(known)]
    # Its entries are halves and sixths of whole numbers.
    return np.round(6.0 * np.linalg.inv(np.array(ends)).T) / 6.0


def between(jet: Floats, width: float, stride: int) -> tuple[Floats, Floats]:
    """Values and slopes at all nodes, from F to F‴ at every m-th and septics between those."""
    at_ends = width ** np.arange(4.0)[:, None] * jet
    data = np.concatenate([at_ends[:, :-1], at_ends[:, 1:]])
    t = np.arange(stride) / stride
    powers = t ** np.arange(8)[:, None]
    rates = np.zeros_like(powers)
    rates[1:] = np.arange(1, 8)[:, None] * powers[:-1]
    septics = hermite_basis(4)
    values = data.T @ (septics @ powers)
    slopes = data.T @ (septics @ rates) / width
    return np.append(values.ravel(), jet[0, -1]), np.append(slopes.ravel(), jet[1, -1])


def at_all_nodes(parts: Sequence[CurvePart], nodes: Floats, budget: float) -> tuple[Floats, Floats]:
    """Values and slopes of Σ_k w_kF_k; each part is evaluated as seldom as the budget allows."""
    spacing = float(nodes[1] - nodes[0])
    values, slopes = np.zeros_like(nodes), np.zeros_like(nodes)
    alike: dict[int, list[CurvePart]] = {}
    for part in parts:
        alike.setdefault(largest_stride(part, spacing, budget), []).append(part)
    for part in alike.pop(1, []):
        value, slope = part.values_and_slopes(nodes)
        values += part.weight * value
        slopes += part.weight * slope
    for stride, group in alike.items():
        jets = [part.weight * np.stack(part.jet(nodes[::stride])) for part in group]
        value, slope = between(np.sum(jets, axis=0), stride * spacing, stride)
        values += value
        slopes += slope
    return values, slopes


# -- the table -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CurveTable:
    """p(s) = Σ_k coefficients[k, i]·tᵏ on cell i, t ∈ [0, 1] its position there."""

    coefficients: Floats  # (4, cells)
    # h, the width of a cell in standard deviations of the score; cells are symmetric about 0
    spacing: float
    error: float  # Bound on |p(s) − F(s)| for every |s| ≤ `reach`

    @classmethod
    def build(cls, parts: Sequence[CurvePart]) -> CurveTable | None:
        """The table of Σ_k w_kF_k, or None where none of at most 2¹⁴ cells is good to 1e-9."""
        several = len(parts) > 1
        # Where several curves are averaged, septics may cost an eighth of the interpolation.
        between = 0.1 * LARGEST_TABLE_ERROR if several else 0.0
        spent = 0.8 * LARGEST_TABLE_ERROR - between
        allowed = largest_spacing(parts, spent)
        most = MOST_CELLS - (MOST_CELLS % STRIDES[-1] if several else 0)
        # Scores more than twelve standard deviations out are evaluated exactly.
        reach = min(12.0, 0.5 * allowed * (most - 1))
        if reach < SMALLEST_REACH:
            return None
        # Half a cell more at either end: rounding cannot put a score within reach outside.
        cells = int(np.clip(np.ceil(2.0 * reach / allowed), 1, most - 1)) + 1
        if several:
            cells = STRIDES[-1] * int(np.ceil(cells / STRIDES[-1]))
        spacing = 2.0 * reach / (cells - 1)
        nodes = spacing * (np.arange(cells + 1, dtype=np.float64) - 0.5 * cells)
        made = at_all_nodes(parts, nodes, between) if several else parts[0].values_and_slopes(nodes)
        error = spent * (spacing / allowed) ** 4 + between + 1e-11
        error += PROMISED_ACCURACY * (1.0 + 0.25 * mean_steepness(parts) * spacing)
        return cls(hermite_coefficients(*made, spacing), spacing, float(error))

    @property
    def cells(self) -> int:
        """Number of cubics."""
        return self.coefficients.shape[1]

    @property
    def reach(self) -> float:
        """Largest |s| that the table answers."""
        return 0.5 * self.spacing * (self.cells - 1)

    def suits(self, scale: ScoreScale) -> bool:
        """Whether widths of cells and table, in units of the raw score, are normal numbers."""
        with np.errstate(over="ignore", under="ignore"):
            widths = scale.norm * np.array([self.spacing, 2.0 * self.reach])
        return bool(np.all((widths > np.finfo(np.float64).tiny) & np.isfinite(widths)))

    def evaluate(self, scores: Floats, scale: ScoreScale) -> Floats:
        """p of raw scores in one dimension, all of them within reach.

        Every operation is an elementwise one, so equal scores get equal probabilities to the
        last bit, wherever they stand.
        """
        result = np.empty(scores.size)
        # The temporary arrays stay in the cache.
        longest = min(scores.size, plan.CACHE_ENTRIES)
        positions, terms, numbers = np.empty(longest), np.empty(longest), np.empty(longest, np.intp)
        width, middle = scale.norm * self.spacing, 0.5 * self.cells
        highest_first = self.coefficients[::-1]
        for rows in slices(scores.size, plan.CACHE_ENTRIES):
            p = result[rows]
            t, term, cell = positions[: p.size], terms[: p.size], numbers[: p.size]
            np.subtract(scores[rows], scale.center, out=t)
            np.divide(t, width, out=t)
            np.add(t, middle, out=t)
            np.floor(t, out=term)
            np.copyto(cell, term, casting="unsafe")
            np.subtract(t, term, out=t)
            # mode="clip" only because the default one takes a detour through a buffer.
            np.take(highest_first[0], cell, out=p, mode="clip")
            for coefficient in highest_first[1:]:
                np.multiply(p, t, out=p)
                np.add(p, np.take(coefficient, cell, out=term, mode="clip"), out=p)
            np.clip(p, 0.0, 1.0, out=p)
        return result

    def of_tensor(self, scores: Any, scale: ScoreScale) -> Any:
        """The same polynomials of raw scores on a device; beyond reach, of the nearest cell."""
        xp = namespace_of(scores)
        place = (scores - scale.center) / (scale.norm * self.spacing) + 0.5 * self.cells
        cell = xp.clip(xp.floor(place), 0.0, float(self.cells - 1))
        index, p = xp.astype(cell, xp.int64), xp.zeros_like(scores)
        for coefficient in placed_like(self.coefficients[::-1].copy(), scores):
            p = p * (place - cell) + xp.take(coefficient, index)
        return p


def hermite_coefficients(values: Floats, slopes: Floats, spacing: float) -> Floats:
    """(4, cells): the cubic on every cell, in powers of t = (s − left end)/spacing."""
    rise, left, right = np.diff(values), spacing * slopes[:-1], spacing * slopes[1:]
    return np.stack([values[:-1], left, 3.0 * rise - 2.0 * left - right, left + right - 2.0 * rise])
