"""E f(center + spread·Z) by quadrature: fixed rules for analytic f, a work-list for any f."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.notices import warn

PROMISED_ACCURACY = 1e-10
"""Remaining error estimate per score above which a warning is raised."""

Integrand = Callable[[Floats, Floats, NDArray[Any]], NDArray[Any]]
"""(center, spread, z) -> values; the first two are columns, with a row for each score."""


def normal_density(z: NDArray[Any]) -> NDArray[Any]:
    """φ(z) = exp(−z²/2)/√(2π), for real or complex z."""
    with np.errstate(over="ignore"):  # exp(−∞) = 0
        return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


@dataclass(frozen=True)
class FixedRule:
    """Σ_k weights[k]·f(nodes[k]), one set of nodes for every score."""

    nodes: NDArray[Any]
    weights: NDArray[Any]

    def expectation(
        self,
        function: Integrand,
        center: Floats,
        spread: Floats,
    ) -> Floats:
        """Re Σ_k weights[k]·function(center, spread, nodes[k]) for every (center, spread)."""
        result = np.empty_like(center)
        for part in slices(center.size, plan.CACHE_ENTRIES, self.nodes.size):
            values = function(center[part, None], spread[part, None], self.nodes)
            # Not values @ weights: BLAS rounds a row according to its place in the matrix, and
            # equal scores must get equal probabilities, to the last bit.
            result[part] = (values * self.weights).sum(axis=1).real
        return result


def noise_rule(step: float, shift: float = 0.0) -> FixedRule:
    """E f(Z) ≈ step·Σ_k φ(z_k) f(z_k), z_k = k·step − i·shift: the trapezoidal rule.

    Its error is about exp(p²/2 − 2πp/step) for a singularity at distance p from the
    real axis. If f has none below the axis, `shift` moves the nodes away from those above
    it at the price of weights that grow as exp(shift²/2) and alternate.
    """
    count = int(np.ceil(plan.NORMAL_REACH / step))
    real_nodes = step * np.arange(-count, count + 1)
    nodes = real_nodes - 1j * shift if shift else real_nodes
    weights = normal_density(nodes)
    return FixedRule(nodes, weights / weights.sum())


def density_rule(
    density: Callable[[Floats], Floats], lowest: float, highest: float, step: float
) -> FixedRule:
    """E f(L) ≈ step·Σ_k density(l_k) f(l_k), l_k = k·step in [lowest, highest]."""
    nodes = step * np.arange(np.ceil(lowest / step), np.floor(highest / step) + 1)
    weights = density(nodes)
    return FixedRule(nodes, weights / weights.sum())


# --- The adaptive rule -----------------------------------------------------------------------
# scipy's quad_vec shares one subdivision among all scores, so that one kink at a different place
# for every score refines all of them everywhere; scipy's tanhsinh bisects nothing and loses its
# order at an interior kink. Hence a work-list of panels, each belonging to one score, refined
# together in vectorized passes.


@cache
def panel_rule() -> tuple[Floats, Floats, Floats]:
    """Nodes and weights of a panel on [−1, 1], and null rules that estimate its error.

    The weights are those of Gauss–Legendre with 21 nodes. Two sentinels next to the ends have
    no weight: they only show a kink or jump between the last Gauss node and the end. They
    stay off the ends because the end may be a declared jump, with a value of the other side.

    The three null rules are orthonormal, annihilate every polynomial of degree < 20 and are scaled
    to the norm of the weights: on noise they are as large as the error itself. More than one,
    because the difference of just two rules vanishes by accident for some kink positions.
    """
    gauss_nodes, gauss_weights = legendre.leggauss(21)
    sentinel = 1.0 - 1e-11
    nodes = np.concatenate([[-sentinel], gauss_nodes, [sentinel]])
    weights = np.concatenate([[0.0], gauss_weights, [0.0]])
    polynomials = legendre.legvander(nodes, nodes.size - 4)
    complement = np.linalg.qr(polynomials, mode="complete").Q[:, -3:]
    return nodes, weights, complement * np.linalg.norm(weights)


@dataclass(frozen=True)
class Panels:
    """Work-list: panel j is [left[j], right[j]] in z and belongs to score owner[j]."""

    owner: NDArray[np.intp]
    left: Floats
    right: Floats

    def take(self, chosen: Any) -> Panels:
        """The chosen panels."""
        return Panels(self.owner[chosen], self.left[chosen], self.right[chosen])

    def bisect(self) -> Panels:
        """Both halves of every panel."""
        middle = 0.5 * (self.left + self.right)
        return Panels(
            np.concatenate([self.owner, self.owner]),
            np.concatenate([self.left, middle]),
            np.concatenate([middle, self.right]),
        )

    def integrate(
        self, function: Integrand, center: Floats, spread: Floats
    ) -> tuple[Floats, Floats]:
        """∫ function(center, spread, z) φ(z) dz over every panel, and its error estimate."""
        value, error = np.empty_like(self.left), np.empty_like(self.left)
        nodes, weights, null_rules = panel_rule()
        for part in slices(self.left.size, plan.CACHE_ENTRIES, nodes.size):
            half_width = 0.5 * (self.right[part] - self.left[part])
            middle = 0.5 * (self.right[part] + self.left[part])
            z = middle[:, None] + half_width[:, None] * nodes
            owner = self.owner[part, None]
            values = function(center[owner], spread[owner], z) * normal_density(z)
            value[part] = half_width * (values * weights).sum(axis=1)
            error[part] = half_width * np.linalg.norm(values @ null_rules, axis=1)
        return value, error


def adaptive_expectation(
    function: Integrand,
    center: Floats,
    spread: Floats,
    breakpoints: Sequence[float] = (),
    tolerance: float = 1e-13,
) -> Floats:
    """E function(center, spread, Z) for every score, by bisection of panels of too large an error.

    Spreads are positive. Panels end where center + spread·z is a breakpoint. The tolerance is the
    accepted error estimate per panel; a kink or jump leaves one or two panels near it. It warns
    where the subdivision stops at its limits with an error estimate above 1e-10.
    """
    total = np.empty_like(center)
    remaining = 0.0
    # Panels at most 4 wide in the argument of f, hence nodes at most 0.3 apart.
    widest = 2.0 * plan.NORMAL_REACH * float(np.max(spread, initial=0.0))
    panel_count = int(np.clip(np.ceil(widest / 4.0), 6, 1024))
    nodes = len(panel_rule()[0]) * (panel_count + len(breakpoints))
    for part in slices(center.size, plan.CACHE_ENTRIES, nodes):
        m, s = center[part], spread[part]
        panels = initial_panels(m, s, breakpoints, panel_count)
        total[part], error = refine(function, m, s, panels, tolerance)
        remaining = max(remaining, error)
    if remaining > PROMISED_ACCURACY:
        warn(
            f"Gaussian smoothing stopped with an estimated error of {remaining:.1e}. "
            "Declare jumps and kinks as breakpoints, or use a function without noise.",
            RuntimeWarning,
        )
    return total


def initial_panels(
    center: Floats, spread: Floats, breakpoints: Sequence[float], panel_count: int
) -> Panels:
    """Equal panels of the noise, split where the argument is a breakpoint."""
    equal = np.linspace(-plan.NORMAL_REACH, plan.NORMAL_REACH, panel_count + 1)
    splits = (np.asarray(breakpoints, dtype=np.float64) - center[:, None]) / spread[:, None]
    edges = np.concatenate(
        [
            np.broadcast_to(equal, (center.size, equal.size)),
            np.clip(splits, -plan.NORMAL_REACH, plan.NORMAL_REACH),
        ],
        axis=1,
    )
    edges.sort(axis=1)
    owner = np.repeat(np.arange(center.size), edges.shape[1] - 1)
    panels = Panels(owner, edges[:, :-1].ravel(), edges[:, 1:].ravel())
    return panels.take(panels.right > panels.left)


def refine(
    function: Integrand, center: Floats, spread: Floats, panels: Panels, tolerance: float
) -> tuple[Floats, float]:
    """Integral per score, and the largest error estimate left where bisection was stopped."""

    def by_score(chosen: Any, values: Floats) -> Any:
        return np.bincount(panels.owner[chosen], values[chosen], minlength=center.size)

    total = np.zeros(center.size)
    # After 50 bisections a panel is as narrow as the rounding of its end points.
    for level in range(51):
        value, error = panels.integrate(function, center, spread)
        open_panels = error > tolerance
        # So many are noise that no subdivision resolves.
        too_many = np.count_nonzero(open_panels) > plan.CACHE_ENTRIES
        if level == 50 or too_many or not open_panels.any():
            break
        total += by_score(~open_panels, value)
        panels = panels.take(open_panels).bisect()
    total += by_score(slice(None), value)
    return total, float(by_score(open_panels, error).max(initial=0.0))
