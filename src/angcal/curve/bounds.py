r"""sup over v of |∂^k/∂v^k E base(v + τZ)|: how far a smoothed link can bend.

Two bounds hold, and the smaller one counts:

- from the link: an average over Z stays within the bounds of the base's own derivative;
- from the noise: base is the distribution function of some L, so E base(v + τZ) = E Φ((v − L)/τ),
  and its k-th derivative is at most sup|φ^(k−1)|/τ^k.

The fourth is what a cubic misses, the sixth what a quintic does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite_e import hermeroots, hermeval

from angcal._typing import Floats
from angcal.links import Cauchit, ClippedLinear, ComplementaryLogLog, Link, Logit, Probit
from angcal.links.quadrature import normal_density


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
    # Of links whose second derivative has a closed form.
    6: {
        Logit: lambda tau: np.minimum(logistic_bound(6), normal_bound(6) / tau**6),
        Probit: lambda tau: normal_bound(6) / (1.0 + tau**2) ** 3,
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
