"""base(t) = logit, probit, complementary log-log, cauchit and clipped-linear inverse links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, voigt_profile

from angcal._typing import Floats
from angcal.links.base import Link, piecewise
from angcal.links.mixture import (
    FINE_LOGIT_MIXTURE,
    LOGIT_MIXTURE,
    PROBIT_MIXTURE,
    ProbitMixture,
)
from angcal.links.quadrature import FixedRule, density_rule, noise_rule, normal_density


def logistic_density(t: Floats) -> Floats:
    """expit(t)·expit(−t), which keeps its relative accuracy in both tails."""
    return expit(t) * expit(-t)


LARGEST_EXPONENT = 700.0
"""exp of it is still finite, and exp(−exp(·)) has long been exactly 0."""


def gumbel_density(t: Floats) -> Floats:
    """exp(t − exp(t)), the density of the (minimum) Gumbel distribution."""
    return np.exp(t - np.exp(np.minimum(t, LARGEST_EXPONENT)))


@dataclass(frozen=True)
class DistributionLink(Link):
    """base(t) = P(L ≤ t): E base(m + τZ) = P(L − τZ ≤ m) = E Φ((m − L)/τ).

    Both expectations are trapezoidal sums that converge exponentially. Over Z the strip of
    analyticity is proportional to 1/τ, over L it does not depend on τ: the first serves
    τ ≤ 1, the second τ > 1. Rules of a family are computed once, with the class.
    """

    over_noise: ClassVar[FixedRule]
    over_variable: ClassVar[FixedRule]

    def _smooth_base(self, centre: Floats, spread: Floats) -> Floats:
        return piecewise(spread <= 1.0, self._value_by_noise, self._value_by_cdf, centre, spread)

    def _smooth_base_derivative(self, centre: Floats, spread: Floats) -> Floats:
        return piecewise(spread <= 1.0, self._slope_by_noise, self._slope_by_cdf, centre, spread)

    def _value_by_noise(self, centre: Floats, spread: Floats) -> Floats:
        return self.over_noise.expectation(lambda m, s, z: self.base(m + s * z), centre, spread)

    def _slope_by_noise(self, centre: Floats, spread: Floats) -> Floats:
        return self.over_noise.expectation(
            lambda m, s, z: self.base_derivative(m + s * z), centre, spread
        )

    def _value_by_cdf(self, centre: Floats, spread: Floats) -> Floats:
        return self.over_variable.expectation(lambda m, s, l: ndtr((m - l) / s), centre, spread)

    def _slope_by_cdf(self, centre: Floats, spread: Floats) -> Floats:
        return self.over_variable.expectation(
            lambda m, s, l: normal_density((m - l) / s) / s, centre, spread
        )


@dataclass(frozen=True)
class Logit(DistributionLink):
    """base(t) = 1/(1 + exp(−t)).

    Smoothed by trapezoidal sums, absolute error about 1e-15; small probabilities keep their
    relative accuracy.

    Examples
    --------
    >>> link = Logit(scale=2.0)
    >>> round(float(link.smooth(1.0, 0.8)), 6)
    0.802831
    """

    family: ClassVar[str] = "logit"
    mixture: ClassVar[ProbitMixture | None] = LOGIT_MIXTURE
    fine_mixture: ClassVar[ProbitMixture | None] = FINE_LOGIT_MIXTURE
    # Poles at t = ±iπ; the mass outside [−37, 37] is below 2e-16.
    over_noise: ClassVar[FixedRule] = noise_rule(step=0.45)
    over_variable: ClassVar[FixedRule] = density_rule(logistic_density, -37.0, 37.0, step=0.46)

    def base(self, t: ArrayLike) -> Floats:
        """1/(1 + exp(−t))."""
        return np.asarray(expit(np.asarray(t, dtype=np.float64)))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """exp(−t)/(1 + exp(−t))²."""
        return np.asarray(logistic_density(np.asarray(t, dtype=np.float64)))

    def _value_by_cdf(self, centre: Floats, spread: Floats) -> Floats:
        # Far left the mass of L that matters lies outside the nodes. There the exact identity
        # F(m) = exp(m + τ²/2)·F(−m − τ²) replaces a tiny F by one above 1/2.
        mirrored = -centre - spread**2
        far_left = mirrored > 0
        value = super()._value_by_cdf(np.where(far_left, mirrored, centre), spread)
        return np.where(
            far_left, np.exp(np.where(far_left, centre + 0.5 * spread**2, 0.0)) * value, value
        )


@dataclass(frozen=True)
class ComplementaryLogLog(DistributionLink):
    """base(t) = 1 − exp(−exp(t)).

    Smoothed by trapezoidal sums, absolute error about 1e-15 (probabilities below 1e-12 keep
    few digits where scale·sd > 1).

    Examples
    --------
    >>> round(float(ComplementaryLogLog().smooth(0.0, 1.0)), 6)
    0.618244
    """

    family: ClassVar[str] = "cloglog"
    # No poles, but exp(−exp(t)) explodes beyond |Im t| = π/2; mass outside 1e-17.
    over_noise: ClassVar[FixedRule] = noise_rule(step=0.25)
    over_variable: ClassVar[FixedRule] = density_rule(gumbel_density, -40.0, 4.0, step=0.25)

    def base(self, t: ArrayLike) -> Floats:
        """1 − exp(−exp(t))."""
        capped = np.minimum(np.asarray(t, dtype=np.float64), LARGEST_EXPONENT)
        return np.asarray(-np.expm1(-np.exp(capped)))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """exp(t − exp(t))."""
        return np.asarray(gumbel_density(np.asarray(t, dtype=np.float64)))


@dataclass(frozen=True)
class Probit(Link):
    """base(t) = Φ(t), hence E base(m + τZ) = Φ(m/√(1 + τ²)).

    Examples
    --------
    >>> round(float(Probit().smooth(1.0, 0.0)), 6)
    0.841345
    """

    family: ClassVar[str] = "probit"
    mixture: ClassVar[ProbitMixture | None] = PROBIT_MIXTURE
    fine_mixture: ClassVar[ProbitMixture | None] = PROBIT_MIXTURE

    def base(self, t: ArrayLike) -> Floats:
        """Φ(t)."""
        return np.asarray(ndtr(np.asarray(t, dtype=np.float64)))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """φ(t)."""
        # φ(40) = 0 in double precision: the cap only keeps t² from overflowing.
        return np.asarray(normal_density(np.clip(np.asarray(t, dtype=np.float64), -40.0, 40.0)))

    def _smooth_base(self, centre: Floats, spread: Floats) -> Floats:
        return self.base(centre / np.hypot(1.0, spread))

    def _smooth_base_derivative(self, centre: Floats, spread: Floats) -> Floats:
        widened = np.hypot(1.0, spread)
        return self.base_derivative(centre / widened) / widened


@dataclass(frozen=True)
class Cauchit(Link):
    """base(t) = 1/2 + arctan(t)/π = 1/2 + Im log(1 + it)/π.

    log(1 + it) is analytic below t = i, so the trapezoidal rule for E log(1 + i(m + τZ)) runs
    below the real axis, where the singularity stays away however large τ is. One rule
    serves every m and τ, absolute error about 1e-15. The derivative is Voigt's profile.

    Examples
    --------
    >>> round(float(Cauchit().smooth(1.0, 1.0)), 6)
    0.69356
    """

    family: ClassVar[str] = "cauchit"
    over_noise: ClassVar[FixedRule] = noise_rule(step=0.4, shift=2.5)

    def base(self, t: ArrayLike) -> Floats:
        """1/2 + arctan(t)/π, as an angle that keeps its relative accuracy for t → −∞."""
        return np.asarray(np.arctan2(1.0, -np.asarray(t, dtype=np.float64)) / np.pi)

    def base_derivative(self, t: ArrayLike) -> Floats:
        """1/(π(1 + t²))."""
        # Inverted before it is squared: 1 + t² would overflow.
        return np.asarray((1.0 / np.hypot(1.0, np.asarray(t, dtype=np.float64))) ** 2 / np.pi)

    def _smooth_base(self, centre: Floats, spread: Floats) -> Floats:
        def relative_log(m: Floats, s: Floats, z: NDArray[Any]) -> NDArray[Any]:
            # log(1 + i(m + τz)) − log(1 + im), times −i so that its real part is the angle;
            # the difference keeps rounding errors as small as the correction itself.
            return -1j * np.log(1.0 + (1j * s / (1.0 + 1j * m)) * z)

        return self.base(centre) + self.over_noise.expectation(relative_log, centre, spread) / np.pi

    def _smooth_base_derivative(self, centre: Floats, spread: Floats) -> Floats:
        return np.asarray(voigt_profile(centre, spread, 1.0))


@dataclass(frozen=True)
class ClippedLinear(Link):
    """base(t) = min(max(t, 0), 1), hence E base(m + τZ) = R(m) − R(m − 1).

    R(m) = E max(m + τZ, 0) = mΦ(m/τ) + τφ(m/τ). Absolute error about 1e-16·max(1, τ).

    Examples
    --------
    >>> round(float(ClippedLinear(offset=0.5).smooth(0.2, 0.0)), 6)
    0.7
    """

    family: ClassVar[str] = "clipped-linear"

    def base(self, t: ArrayLike) -> Floats:
        """min(max(t, 0), 1)."""
        return np.asarray(np.clip(np.asarray(t, dtype=np.float64), 0.0, 1.0))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """1 for 0 < t < 1, else 0."""
        t = np.asarray(t, dtype=np.float64)
        return np.asarray(((t > 0.0) & (t < 1.0)).astype(np.float64))

    def _smooth_base(self, centre: Floats, spread: Floats) -> Floats:
        # F(m) = 1 − F(1 − m): in the left half both ramps are small and cancel nothing.
        right_half = centre > 0.5
        left = np.where(right_half, 1.0 - centre, centre)
        value = smoothed_ramp(left, spread) - smoothed_ramp(left - 1.0, spread)
        return np.where(right_half, 1.0 - value, value)

    def _smooth_base_derivative(self, centre: Floats, spread: Floats) -> Floats:
        # In the left half both terms are lower tails, whose difference is accurate.
        left = np.where(centre > 0.5, 1.0 - centre, centre)
        return np.asarray(ndtr(left / spread) - ndtr((left - 1.0) / spread))


def smoothed_ramp(centre: Floats, spread: Floats) -> Floats:
    """E max(m + τZ, 0) = mΦ(m/τ) + τφ(m/τ)."""
    ratio = centre / spread
    return np.asarray(centre * ndtr(ratio) + spread * normal_density(ratio))
