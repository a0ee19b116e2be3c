"""base(t) = logit, probit, complementary log-log, cauchit, clipped-linear, or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, voigt_profile

from angcal._typing import Floats
from angcal.links.base import (
    Link,
    LogisticMixture,
    ProbitMixture,
    far_left,
    first,
    logit_nodes,
    piecewise,
)
from angcal.links.quadrature import (
    FixedRule,
    Integrand,
    adaptive_expectation,
    density_rule,
    noise_rule,
    normal_density,
)


def logistic_density(t: Floats) -> Floats:
    """expit(t)·expit(−t), which keeps its relative accuracy in both tails."""
    return expit(t) * expit(-t)


def finite_exp(t: Floats) -> Floats:
    """exp(t), capped at t = 700, where it is still finite and exp(−exp(t)) long exactly 0."""
    return np.exp(np.minimum(t, 700.0))


def gumbel_density(t: Floats) -> Floats:
    """exp(t − exp(t)), the density of the (minimum) Gumbel distribution."""
    return np.exp(t - finite_exp(t))


@dataclass(frozen=True)
class MixtureLink(Link):
    """base(t) = Σ_k w_k Φ(t/s_k), hence E base(m + τZ) = Σ_k w_k Φ(m/√(s_k² + τ²))."""

    over_widths: ClassVar[FixedRule]

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        return self.over_widths.expectation(
            lambda m, s, k: ndtr(m / np.hypot(k, s)), center, spread
        )

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        def slope(m: Floats, s: Floats, k: NDArray[Any]) -> Floats:
            widened = np.hypot(k, s)
            return normal_density(m / widened) / widened

        return self.over_widths.expectation(slope, center, spread)


@dataclass(frozen=True)
class Logit(MixtureLink):
    """base(t) = 1/(1 + exp(−t)).

    Smoothed as a mixture of 29 probits, absolute error about 1e-15; small probabilities keep their
    relative accuracy.

    Parameters
    ----------
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

    Examples
    --------
    >>> link = Logit(scale=2.0)
    >>> round(float(link.smooth(1.0, 0.8)), 6)
    0.802831
    """

    family: ClassVar[str] = "logit"
    mixture = ProbitMixture(*logit_nodes(0.2, -1.6, 1.4))
    fine_mixture = LogisticMixture(*logit_nodes(0.16, -1.6, 1.44))
    over_widths: ClassVar[FixedRule] = FixedRule(*logit_nodes(0.12, -1.8, 1.6)[::-1])

    def base(self, t: ArrayLike) -> Floats:
        """1/(1 + exp(−t))."""
        return np.asarray(expit(np.asarray(t, dtype=np.float64)))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """exp(−t)/(1 + exp(−t))²."""
        return np.asarray(logistic_density(np.asarray(t, dtype=np.float64)))

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        is_far, at, factor = far_left(center, spread)
        value = super()._smooth_base(at, spread)
        value[is_far] *= factor
        return value

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        is_far, at, factor = far_left(center, spread)
        slope = super()._smooth_base_derivative(at, spread)
        value = super()._smooth_base(at[is_far], spread[is_far])
        slope[is_far] = factor * (value - slope[is_far])
        return slope


@dataclass(frozen=True)
class ComplementaryLogLog(Link):
    """base(t) = 1 − exp(−exp(t)).

    With L of the Gumbel distribution, base(t) = P(L ≤ t), so that E base(m + τZ) = E Φ((m − L)/τ).
    Both expectations are smoothed by trapezoidal sums that converge exponentially, with an absolute
    error of about 1e-15 (probabilities below 1e-12 keep few digits where scale·sd > 1). Over Z the
    strip of analyticity is proportional to 1/τ, over L it does not depend on τ: the first serves
    τ ≤ 1, the second τ > 1.

    Parameters
    ----------
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

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
        return np.asarray(-np.expm1(-finite_exp(np.asarray(t, dtype=np.float64))))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """exp(t − exp(t))."""
        return np.asarray(gumbel_density(np.asarray(t, dtype=np.float64)))

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        return self._by_size(self.base, lambda m, s, l: ndtr((m - l) / s), center, spread)

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        def bell(m: Floats, s: Floats, l: NDArray[Any]) -> Floats:
            return normal_density((m - l) / s) / s

        return self._by_size(self.base_derivative, bell, center, spread)

    def _by_size(
        self, f: Callable[[Floats], Floats], of_variable: Integrand, center: Floats, spread: Floats
    ) -> Floats:
        def by_noise(m: Floats, s: Floats) -> Floats:
            return self.over_noise.expectation(lambda m, s, z: f(m + s * z), m, s)

        def by_variable(m: Floats, s: Floats) -> Floats:
            return self.over_variable.expectation(of_variable, m, s)

        return piecewise(spread <= 1.0, by_noise, by_variable, center, spread)


@dataclass(frozen=True)
class Probit(MixtureLink):
    """base(t) = Φ(t), hence E base(m + τZ) = Φ(m/√(1 + τ²)).

    Parameters
    ----------
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

    Examples
    --------
    >>> round(float(Probit().smooth(1.0, 0.0)), 6)
    0.841345
    """

    family: ClassVar[str] = "probit"
    mixture = fine_mixture = ProbitMixture(np.ones(1), np.ones(1))
    over_widths: ClassVar[FixedRule] = FixedRule(np.ones(1), np.ones(1))

    def base(self, t: ArrayLike) -> Floats:
        """Φ(t)."""
        return np.asarray(ndtr(np.asarray(t, dtype=np.float64)))

    def base_derivative(self, t: ArrayLike) -> Floats:
        """φ(t)."""
        # φ(40) = 0 in double precision: the cap only keeps t² from overflowing.
        return np.asarray(normal_density(np.clip(np.asarray(t, dtype=np.float64), -40.0, 40.0)))


@dataclass(frozen=True)
class Cauchit(Link):
    """base(t) = 1/2 + arctan(t)/π = 1/2 + Im log(1 + it)/π.

    log(1 + it) is analytic below t = i, so the trapezoidal rule for E log(1 + i(m + τZ)) runs
    below the real axis, where the singularity stays away however large τ is. One rule
    serves every m and τ, absolute error about 1e-15. The derivative is Voigt's profile.

    Parameters
    ----------
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

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

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        def relative_log(m: Floats, s: Floats, z: NDArray[Any]) -> NDArray[Any]:
            # log(1 + i(m + τz)) − log(1 + im), times −i so that its real part is the angle;
            # the difference keeps rounding errors as small as the correction itself.
            return -1j * np.log(1.0 + (1j * s / (1.0 + 1j * m)) * z)

        return self.base(center) + self.over_noise.expectation(relative_log, center, spread) / np.pi

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        return np.asarray(voigt_profile(center, spread, 1.0))


@dataclass(frozen=True)
class ClippedLinear(Link):
    """base(t) = min(max(t, 0), 1), hence E base(m + τZ) = R(m) − R(m − 1).

    R(m) = E max(m + τZ, 0) = mΦ(m/τ) + τφ(m/τ). Absolute error about 1e-16·max(1, τ).

    Parameters
    ----------
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

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

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        # F(m) = 1 − F(1 − m): in the left half both ramps are small and cancel nothing.
        right_half = center > 0.5
        left = np.where(right_half, 1.0 - center, center)
        value = smoothed_ramp(left, spread) - smoothed_ramp(left - 1.0, spread)
        return np.where(right_half, 1.0 - value, value)

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        # In the left half both terms are lower tails, whose difference is accurate.
        left = np.where(center > 0.5, 1.0 - center, center)
        return np.asarray(ndtr(left / spread) - ndtr((left - 1.0) / spread))


def smoothed_ramp(center: Floats, spread: Floats) -> Floats:
    """E max(m + τZ, 0) = mΦ(m/τ) + τφ(m/τ)."""
    ratio = center / spread
    return np.asarray(center * ndtr(ratio) + spread * normal_density(ratio))


@dataclass(frozen=True, init=False)
class CallableLink(Link):
    """base(t) = function(t), smoothed by adaptive quadrature.

    Parameters
    ----------
    function : callable
        Maps a one-dimensional float array to probabilities of the same shape.
    breakpoints : sequence of float, default=()
        Arguments of `function` at which it jumps or has a kink. Optional: undeclared kinks and
        jumps are found by bisection, only at more cost.
    scale, offset : float, default=1.0 and 0.0
        As in `Link`.

    See Also
    --------
    Link : What every link can do.

    Notes
    -----
    `smooth` has an absolute error of about 1e-12 and warns where it could not reach 1e-10. The
    first panels are at most 4 wide in the argument of `function`, so a bump narrower
    than 0.3 that returns to its surroundings must be declared by breakpoints, as must
    any bump where scale·sd exceeds 200; steps from one level to another are always seen.

    `base_derivative` is a fourth-order difference: error about 1e-12 where `function` is
    smooth within 2e-3 of t (relative to max(1, abs(t))), meaningless at a jump.
    `smooth_derivative` uses E σ' = E[Zσ(mean + sd·Z)]/sd, which stays true across jumps
    and kinks; its error is about scale·1e-12, and rounding adds 1e-16/sd as sd → 0.

    Examples
    --------
    >>> link = CallableLink(lambda t: np.where(t < 0.0, 0.25, 0.75), breakpoints=(0.0,))
    >>> link.smooth([-1.0, 0.0, 1.0], 1.0).round(6).tolist()
    [0.329328, 0.5, 0.670672]
    """

    # kw_only lifts the rule that fields without default precede those of Link; the order of
    # arguments is that of __init__ below.
    function: Callable[[Any], Any] = field(kw_only=True)
    breakpoints: tuple[float, ...] = field(kw_only=True)

    def __init__(
        self,
        function: Callable[[Any], Any],
        breakpoints: Sequence[float] = (),
        scale: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"function={function!r} must be callable. Pass a function of an array, "
                "or a name to as_link."
            )
        kinks = tuple(sorted(float(t) for t in breakpoints))
        vars(self).update(function=function, breakpoints=kinks, scale=scale, offset=offset)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(np.isfinite(self.breakpoints)):
            raise ValueError(
                f"breakpoints={self.breakpoints!r} must be finite. "
                "Leave out limits at infinity: they need no declaration."
            )
        self.base(np.concatenate([np.linspace(-60.0, 60.0, 1201), self.breakpoints]))

    @property
    def name(self) -> str:
        """``"callable:"`` and the name of the function."""
        return f"callable:{getattr(self.function, '__name__', type(self.function).__name__)}"

    def base(self, t: ArrayLike) -> Floats:
        """function(t), checked to be probabilities and clipped to [0, 1]."""
        t = np.asarray(t, dtype=np.float64)
        return self._checked_values(t.ravel()).reshape(t.shape)

    def base_derivative(self, t: ArrayLike) -> Floats:
        """(f(t − 2h) − 8f(t − h) + 8f(t + h) − f(t + 2h))/(12h), h = 1e-3·max(1, abs(t))."""
        t = np.asarray(t, dtype=np.float64)
        # The step balances the error step⁴/30 against rounding/step.
        step = 1e-3 * np.maximum(1.0, np.abs(t))
        near = self.base(t + step) - self.base(t - step)
        far = self.base(t + 2.0 * step) - self.base(t - 2.0 * step)
        return np.asarray((8.0 * near - far) / (12.0 * step))

    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        return adaptive_expectation(
            lambda m, s, z: self.base(m + s * z), center, spread, self.breakpoints
        )

    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        def z_times_change(m: Floats, s: Floats, z: Floats) -> Floats:
            # E[Z·f(m)] = 0: without the constant the rounding is that of the change alone.
            return z * (self.base(m + s * z) - self.base(m))

        # The division by τ below magnifies errors, so small τ asks for more, up to rounding.
        tolerance = 1e-13 * float(np.clip(spread.min(initial=1.0), 1e-3, 1.0))
        moment = adaptive_expectation(z_times_change, center, spread, self.breakpoints, tolerance)
        return np.asarray(moment / spread)

    def _checked_values(self, t: Floats) -> Floats:
        """function(t) as float64 in [0, 1], or a ValueError that says where and why not."""
        if t.size == 0:
            return t
        try:
            # Overflow inside the function is harmless or ends in a value rejected below.
            with np.errstate(all="ignore"):
                returned = np.asarray(self.function(t))
            values = returned.astype(np.float64, casting="same_kind")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} failed on an array of shape {t.shape}: {error}. "
                "Use NumPy operations, or wrap a scalar function in numpy.vectorize."
            ) from error
        if values.shape != t.shape:
            raise ValueError(
                f"{self.name} returned shape {values.shape} for an argument of shape {t.shape}. "
                "It must return one probability per entry."
            )
        wrong = ~((values >= -1e-12) & (values <= 1.0 + 1e-12))  # rounding is granted
        if np.any(wrong):
            raise ValueError(
                f"{self.name} returned {first(values, wrong)} at t = {first(t, wrong)}, "
                "which is not a probability. Clip it to [0, 1] (numpy.clip), and use forms that "
                "do not overflow (scipy.special.expit)."
            )
        return np.clip(values, 0.0, 1.0)
