r"""base(t) = Σ_k w_k Φ(t/s_k): links that are mixtures of probits, smoothed in closed form.

E base(m + τZ) = Σ_k w_k Φ(m/√(s_k² + τ²)) for every τ at once, so a likelihood can move its noise
level without another quadrature. The probit is a mixture of one. The logistic distribution is that
of 2K·Z with Z standard normal and K of Kolmogorov's law, independent (Andrews & Mallows 1974), so

    expit(t) = E Φ(t/(2K)) ≈ h·Σ_j k_j f(k_j) Φ(t/(2k_j)),   k_j = exp(h·j),

f the density of K. In log k that density falls off doubly exponentially on both sides and the
integrand is analytic in a strip, so the trapezoidal rule converges exponentially: 16 nodes are good
to 3e-9, which is enough for likelihoods, and 20 to 1e-11. Far to the left the identity
F(m) = exp(m + τ²/2)·F(−m − τ²) of the logistic link keeps the relative accuracy of small
probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from angcal._typing import Floats
from angcal.links.quadrature import normal_density


@dataclass(frozen=True, eq=False)
class ProbitMixture:
    """Weights w_k and widths s_k of base(t) = Σ_k w_k Φ(t/s_k)."""

    weights: Floats
    widths: Floats

    def values_and_slopes(self, centers: Floats, spreads: Floats) -> tuple[Floats, Floats]:
        """F and ∂F/∂m of F(m) = E base(m + τZ) for rows of centers m, each with its spread τ."""
        widened = np.hypot(self.widths, spreads[:, None])
        ratio = centers[:, :, None] / widened[:, None, :]
        slopes = normal_density(ratio) @ (self.weights / widened)[:, :, None]
        return ndtr(ratio) @ self.weights, slopes[:, :, 0]

    def smooth(self, center: Floats, spread: float) -> tuple[Floats, Floats, Floats]:
        """F, ∂F/∂m and ∂²F/∂m² of F(m) = E base(m + τZ), at every center m for one spread τ.

        The heat equation gives the derivative in τ from the last: ∂F/∂τ = τ·∂²F/∂m².
        """
        widened = np.hypot(self.widths, spread)
        ratio = center[:, None] / widened
        value = ndtr(ratio) @ self.weights
        bells = normal_density(ratio)
        slope = bells @ (self.weights / widened)
        bend = -(bells * ratio) @ (self.weights / widened / widened)
        return value, slope, bend


class LogisticMixture(ProbitMixture):
    """A mixture for the logistic link, with its identity for the left tail."""

    def smooth(self, center: Floats, spread: float) -> tuple[Floats, Floats, Floats]:
        """F, ∂F/∂m and ∂²F/∂m², small ones to full relative accuracy."""
        # Capped so that it does not overflow: no score is as far to the left as −1e200.
        square = min(spread, 1e100) ** 2
        far_left = center < -square
        mirrored = np.where(far_left, -center - square, center)
        # Beyond, 1 − F is below 1e-17: most nodes of a steep curve need no sum.
        unsure = mirrored <= 40.0 + 9.0 * spread
        value = np.ones_like(mirrored)
        slope, bend = np.zeros_like(mirrored), np.zeros_like(mirrored)
        value[unsure], slope[unsure], bend[unsure] = super().smooth(mirrored[unsure], spread)
        factor = np.exp(np.where(far_left, center + 0.5 * square, 0.0))
        return (
            factor * value,
            np.where(far_left, factor * (value - slope), slope),
            np.where(far_left, factor * (value - 2.0 * slope + bend), bend),
        )


def kolmogorov_density(k: Floats) -> Floats:
    """f(k) = 8k Σ_j (−1)^(j−1) j² exp(−2j²k²), by its theta transform where k is small."""
    j = np.arange(1, 60)[:, None]
    large = np.maximum(k, 0.5)
    alternating = (-1.0) ** (j - 1) * j**2 * np.exp(-2.0 * j**2 * large**2)
    odd = np.arange(1, 12, 2)[:, None]
    small = np.minimum(k, 0.5)
    rate = (odd * np.pi) ** 2
    terms = np.exp(-rate / (8.0 * small**2)) * (rate / (4.0 * small**4) - 1.0 / small**2)
    by_theta = np.sqrt(2.0 * np.pi) * terms.sum(axis=0)
    return np.where(k > 0.5, 8.0 * k * alternating.sum(axis=0), by_theta)


def logit_nodes(step: float, lowest: float, highest: float) -> tuple[Floats, Floats]:
    """Weights and widths of the logistic link on a grid of log k with this step and range."""
    nodes = np.exp(step * np.arange(round(lowest / step), round(highest / step) + 1))
    weights = step * nodes * kolmogorov_density(nodes)
    return weights / weights.sum(), 2.0 * nodes
