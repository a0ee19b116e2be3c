r"""|F(s) − table(s)| ≤ sup|F⁗|·h⁴/384 + node errors ≤ 1e-9: the angular predictor, tabulated.

The table is the piecewise cubic that has F's values and slopes at nodes of spacing h.

**Between nodes.** Hermite's remainder is F⁗(ξ)·(s−a)²(b−s)²/24, at most sup|F⁗|·h⁴/384. With
κ the link's scale, v = κ·c·s + offset and τ = κ·√(1−c²), F(s) = G(v) for G(v) = E base(v + τZ), so
sup|F⁗| = (κ|c|)⁴·sup|G⁗|. Two bounds hold for sup|G⁗|, and the smaller one counts:

- from the link: an average over Z stays within the bounds of base⁗, so sup|G⁗| ≤ sup|base⁗|;
- from the noise: base is the distribution function of some L, so G(v) = E Φ((v − L)/τ) and
  sup|G⁗| ≤ sup|φ‴|/τ⁴.

**At the nodes.** Values and slopes come from ``Link.smooth`` and ``smooth_derivative``, or from the
closed form of a mixture of probits, good to ε = 1e-10. Hermite's weights on values are positive and
sum to 1, those on slopes sum to at most h/4, so that their errors add at most ε·(1 + κ|c|h/4); h is
kept below 2/(κ|c|).

**Rounding.** With at most 2¹⁴ cells the position within a cell is known to 5e-12 of its width, and
across a cell F moves by at most 1: 1e-11 covers it.

**Averages.** A curve Σ_k w_kF_k of several has sup|F⁗| ≤ Σ_k w_k·sup|F_k⁗|, and node errors and
slopes that are averages too. Its flat parts need fewer nodes than its steep ones. A part that is
evaluated at every m-th node only, with a cubic in between, is the same cubic on the cells in
between: it adds w_k·sup|F_k⁗|·(mh)⁴/384 and is not interpolated twice. Of the 0.8e-9, 0.5e-9 decide
h and the rest is shared by the parts for their m.

h is the largest spacing for which this is 0.8e-9 + 1.5e-10 + 1e-11 at most. A table that would need
too many cells is not made, nor one for a link without a bound: no noise and a kink, or a user's
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from angcal._typing import Floats
from angcal.covariance import ScoreScale
from angcal.links import Cauchit, ClippedLinear, ComplementaryLogLog, Link, Logit, Probit
from angcal.links.quadrature import PROMISED_ACCURACY
from angcal.prediction.parts import CurvePart

LARGEST_TABLE_ERROR = 1e-9
INTERPOLATION_ERROR = 0.8 * LARGEST_TABLE_ERROR
"""What h⁴ may cost; node errors and rounding share the rest."""

SPACING_ERROR = 0.5 * LARGEST_TABLE_ERROR
"""Of that, what the spacing itself may cost where several curves are averaged."""

LARGEST_STRIDE = 16
"""Nodes from one at which a flat part of an average is evaluated to the next."""

LARGEST_STEP = 2.0
"""Of the link's argument from node to node: errors of slopes then add at most half of a value's."""

WIDEST_REACH, SMALLEST_REACH = 12.0, 4.0
"""Standard deviations on either side of the mean score. Scores outside are evaluated exactly."""

MOST_CELLS = 1 << 14
"""A larger table (512 kB) leaves the cache and takes longer to build than it saves."""

SCORES_AT_ONCE = 1 << 13
"""Scores per block, so that its temporary arrays (64 kB each) stay in the cache."""

ROUNDING_ERROR = 1e-11


# -- sup|G⁗| ---------------------------------------------------------------------------------


def normal_bound() -> float:
    """sup|φ‴| of φ‴(z) = (3z − z³)φ(z), extreme at z² = 3 − √6."""
    z = np.sqrt(3.0 - np.sqrt(6.0))
    return float(np.sqrt(6.0) * z * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))


def logistic_bound() -> float:
    """sup|base⁗| of base = (1 + x)/2, x = tanh(t/2): base⁗ = x(1 − x²)(3x² − 2)/4.

    Extreme at x² = (15 − √105)/30.
    """
    square = (15.0 - np.sqrt(105.0)) / 30.0
    return float(np.sqrt(square) * (1.0 - square) * (2.0 - 3.0 * square) / 4.0)


def gumbel_bound() -> float:
    """sup|base⁗| of base = 1 − e^−y, y = e^t: base⁗ = (y − 7y² + 6y³ − y⁴)e^−y = P(y)e^−y.

    Extreme where P′ = P.
    """
    P = Polynomial([0.0, 1.0, -7.0, 6.0, -1.0])
    extremes = (P.deriv() - P).roots()
    y = extremes[np.isreal(extremes)].real
    y = y[y > 0]
    return float(np.max(np.abs(P(y)) * np.exp(-y)))


# base⁗ is the third derivative of 1/(π(1 + t²)): with t = tan a, −(6/π)·sin(4a)·cos⁴(a).
CAUCHY_BOUND = float(6.0 / np.pi * np.sin(0.4 * np.pi) * np.cos(0.1 * np.pi) ** 4)
NORMAL_BOUND, LOGISTIC_BOUND, GUMBEL_BOUND = normal_bound(), logistic_bound(), gumbel_bound()
# Clipped line: G⁗ = (φ″(v/τ) − φ″((v − 1)/τ))/τ³, and φ″ runs from −φ(0) to 2φ(√3).
RAMP_BOUND = float((1.0 + 2.0 * np.exp(-1.5)) / np.sqrt(2.0 * np.pi))

BOUNDS: dict[type[Link], Callable[[np.float64], np.float64]] = {
    Logit: lambda tau: np.minimum(LOGISTIC_BOUND, NORMAL_BOUND / tau**4),
    # Φ smoothed is Φ(v/√(1 + τ²)).
    Probit: lambda tau: NORMAL_BOUND / (1.0 + tau**2) ** 2,
    ComplementaryLogLog: lambda tau: np.minimum(GUMBEL_BOUND, NORMAL_BOUND / tau**4),
    Cauchit: lambda tau: np.minimum(CAUCHY_BOUND, NORMAL_BOUND / tau**4),
    ClippedLinear: lambda tau: np.minimum(RAMP_BOUND / tau**3, NORMAL_BOUND / tau**4),
}
"""Family -> (τ -> sup|G⁗|). A subclass may have another base, so it is not taken for its parent."""


def fourth_derivative_bound(link: Link, spread: float) -> float:
    """sup over v of |∂⁴/∂v⁴ E base(v + τZ)|, or ∞ where no bound is known."""
    if type(link) not in BOUNDS:
        return float("inf")
    with np.errstate(divide="ignore", over="ignore"):
        return float(BOUNDS[type(link)](np.float64(spread)))


def bend(part: CurvePart) -> float:
    """κ|c|·(w·sup|G⁗|)^¼, whose fourth power bounds w·|F⁗|."""
    bound = fourth_derivative_bound(part.link, part.link.scale * part.sine)
    return part.steepness * float((part.weight * np.float64(bound)) ** 0.25)


def mean_steepness(parts: Sequence[CurvePart]) -> float:
    """Σ_k w_kκ_k|c_k|: how fast the argument of the average moves."""
    return float(sum(part.weight * part.steepness for part in parts))


def largest_spacing(parts: Sequence[CurvePart], budget: float = INTERPOLATION_ERROR) -> float:
    """h with Σ_k bend_k⁴·h⁴/384 ≤ budget and Σ_k w_kκ_k|c_k|·h ≤ 2; 0 without a bound."""
    bends = np.array([bend(part) for part in parts])
    if not np.all(np.isfinite(bends)):
        return 0.0
    largest = float(bends.max())
    with np.errstate(divide="ignore", over="ignore"):
        # Relative to the largest: fourth powers may overflow.
        share = float(np.sum((bends / largest) ** 4)) if largest > 0 else 1.0
        step = (384.0 * budget / share) ** 0.25 / np.float64(largest)
        return float(np.minimum(step, LARGEST_STEP / np.float64(mean_steepness(parts))))


def largest_stride(part: CurvePart, spacing: float, budget: float) -> int:
    """The largest m of 1, 2, 4, … with bend⁴·(mh)⁴/384 ≤ budget and κ|c|mh ≤ 1."""
    stride = LARGEST_STRIDE
    step = (384.0 * budget) ** 0.25
    while stride > 1 and stride * spacing * max(bend(part) / step, part.steepness) > 1.0:
        stride //= 2
    return stride


def between(values: Floats, slopes: Floats, width: float, stride: int) -> tuple[Floats, Floats]:
    """Values and slopes at all nodes, from every m-th and the cubics between those."""
    if stride == 1:
        return values, slopes
    t = np.arange(stride) / stride
    start, end = (1.0 + 2.0 * t) * (1.0 - t) ** 2, t * t * (3.0 - 2.0 * t)
    leaving, coming = t * (1.0 - t) ** 2, t * t * (t - 1.0)
    rise = 6.0 * t * (1.0 - t)
    left, right = values[:-1, None], values[1:, None]
    at_left, at_right = slopes[:-1, None], slopes[1:, None]
    value = start * left + end * right + width * (leaving * at_left + coming * at_right)
    slope = rise * (right - left) / width
    slope = slope + (1.0 - t) * (1.0 - 3.0 * t) * at_left + t * (3.0 * t - 2.0) * at_right
    return np.append(value.ravel(), values[-1]), np.append(slope.ravel(), slopes[-1])


# -- the table -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CurveTable:
    """p(s) = Σ_k coefficients[k, i]·tᵏ on cell i, t ∈ [0, 1] its position there.

    Attributes
    ----------
    coefficients : (4, cells) array
    spacing : float
        h, the width of a cell in standard deviations of the score. Cells lie symmetrically
        around s = 0.
    error : float
        Bound on |p(s) − F(s)| for every |s| ≤ `reach`.
    """

    coefficients: Floats
    spacing: float
    error: float

    @classmethod
    def build(cls, parts: Sequence[CurvePart]) -> CurveTable | None:
        """The table of Σ_k w_kF_k, or None where none of at most 2¹⁴ cells is good to 1e-9."""
        several = len(parts) > 1
        spent = SPACING_ERROR if several else INTERPOLATION_ERROR
        allowed = largest_spacing(parts, spent)
        reach = min(WIDEST_REACH, 0.5 * allowed * (MOST_CELLS - 1))
        if reach < SMALLEST_REACH:
            return None
        # Half a cell more at either end: rounding cannot put a score within reach outside.
        cells = int(np.clip(np.ceil(2.0 * reach / allowed), 1, MOST_CELLS - 1)) + 1
        if several:
            cells = LARGEST_STRIDE * int(np.ceil(cells / LARGEST_STRIDE))
        spacing = 2.0 * reach / (cells - 1)
        nodes = spacing * (np.arange(cells + 1, dtype=np.float64) - 0.5 * cells)
        # Whole budgets, where a little less may have been used.
        error = INTERPOLATION_ERROR if several else spent * (spacing / allowed) ** 4
        # In an average, a part may move by 1 from one of its nodes to the next.
        step = max(mean_steepness(parts) * spacing, float(several))
        error += PROMISED_ACCURACY * (1.0 + 0.25 * step) + ROUNDING_ERROR
        values, slopes = np.zeros_like(nodes), np.zeros_like(nodes)
        for part in parts:
            left = (INTERPOLATION_ERROR - spent) / len(parts)
            stride = largest_stride(part, spacing, left) if several else 1
            found = part.values_and_slopes(nodes[::stride])
            value, slope = between(*found, stride * spacing, stride)
            values += part.weight * value
            slopes += part.weight * slope
        return cls(hermite_coefficients(values, slopes, spacing), spacing, float(error))

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
        longest = min(scores.size, SCORES_AT_ONCE)
        positions, terms, numbers = np.empty(longest), np.empty(longest), np.empty(longest, np.intp)
        width, middle = scale.norm * self.spacing, 0.5 * self.cells
        highest_first = self.coefficients[::-1]
        for start in range(0, scores.size, SCORES_AT_ONCE):
            p = result[start : start + SCORES_AT_ONCE]
            t, term, cell = positions[: p.size], terms[: p.size], numbers[: p.size]
            np.subtract(scores[start : start + SCORES_AT_ONCE], scale.center, out=t)
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


def hermite_coefficients(values: Floats, slopes: Floats, spacing: float) -> Floats:
    """(4, cells): the cubic on every cell, in powers of t = (s − left end)/spacing."""
    rise, left, right = np.diff(values), spacing * slopes[:-1], spacing * slopes[1:]
    return np.stack([values[:-1], left, 3.0 * rise - 2.0 * left - right, left + right - 2.0 * rise])
