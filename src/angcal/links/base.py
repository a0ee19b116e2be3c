"""σ(t) = base(scale·t + offset): what every inverse link can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from angcal._typing import Floats
from angcal.links.quadrature import normal_density

# -- base(t) = Σ_k w_k Φ(t/s_k): links that are mixtures of probits, smoothed in closed form ----
#
# E base(m + τZ) = Σ_k w_k Φ(m/√(s_k² + τ²)) for every τ at once, so a likelihood can move its noise
# level without another quadrature. The probit is a mixture of one. The logistic distribution is
# that of 2K·Z with Z standard normal and K of Kolmogorov's law, independent (Andrews & Mallows
# 1974), so
#
#     expit(t) = E Φ(t/(2K)) ≈ h·Σ_j k_j f(k_j) Φ(t/(2k_j)),   k_j = exp(h·j),
#
# f the density of K. In log k that density falls off doubly exponentially on both sides and the
# integrand is analytic in a strip, so the trapezoidal rule converges exponentially: 16 nodes are
# good to 3e-9, which is enough for likelihoods, 20 to 1e-11, and 29 to the last digit. Far to the
# left the identity F(m) = exp(m + τ²/2)·F(−m − τ²) of the logistic link keeps the relative accuracy
# of small probabilities.


@dataclass(frozen=True, eq=False)
class ProbitMixture:
    """Weights w_k and widths s_k of base(t) = Σ_k w_k Φ(t/s_k)."""

    weights: Floats
    widths: Floats

    def values(self, center: Floats, spread: float) -> Floats:
        """F of F(m) = E base(m + τZ), at every center m for one spread τ."""
        return ndtr(center[:, None] / np.hypot(self.widths, spread)) @ self.weights

    def values_and_slopes(self, centers: Floats, spreads: Floats) -> tuple[Floats, Floats]:
        """F and ∂F/∂m of F(m) = E base(m + τZ) for rows of centers m, each with its spread τ."""
        widened = np.hypot(self.widths, spreads[:, None])
        ratio = centers[:, :, None] / widened[:, None, :]
        slopes = normal_density(ratio) @ (self.weights / widened)[:, :, None]
        return ndtr(ratio) @ self.weights, slopes[:, :, 0]

    def smooth(self, center: Floats, spread: float, order: int = 2) -> list[Floats]:
        """F, ∂F/∂m and ∂²F/∂m² of F(m) = E base(m + τZ), at every center m for one spread τ.

        ∂³F/∂m³ too where the order is 3. The heat equation gives the derivative in τ from the
        second: ∂F/∂τ = τ·∂²F/∂m².
        """
        widened = np.hypot(self.widths, spread)
        ratio, shares = center[:, None] / widened, self.weights / widened
        bells = normal_density(ratio)
        found = [ndtr(ratio) @ self.weights, bells @ shares, -(bells * ratio) @ (shares / widened)]
        if order == 3:
            found.append((bells * (ratio * ratio - 1.0)) @ (shares / widened / widened))
        return found


def far_left(center: Floats, spread: Floats | float) -> tuple[np.ndarray, Floats, Floats]:
    """Where m < −τ²; −m − τ² there and m elsewhere; and exp(m + τ²/2) of those there."""
    square = np.broadcast_to(spread, center.shape) ** 2
    is_far = center < -square
    factor = np.exp(center[is_far] + 0.5 * square[is_far])
    return is_far, np.where(is_far, -center - square, center), factor


class LogisticMixture(ProbitMixture):
    """A mixture for the logistic link, with its identity for the left tail."""

    def smooth(self, center: Floats, spread: float, order: int = 2) -> list[Floats]:
        """F, ∂F/∂m, ∂²F/∂m² and perhaps ∂³F/∂m³, small ones to full relative accuracy."""
        # Capped so that it does not overflow: no score is as far to the left as −1e200.
        is_far, mirrored, factor = far_left(center, min(spread, 1e100))
        # Beyond, 1 − F is below 1e-17: most nodes of a steep curve need no sum.
        unsure = mirrored <= 40.0 + 9.0 * spread
        found = np.zeros((order + 1, len(center)))
        found[0] = 1.0
        found[:, unsure] = super().smooth(mirrored[unsure], spread, order)
        # The k-th derivative of exp(m + τ²/2)·G(−m − τ²) is that factor times (1 − ∂)ᵏG.
        turned = found[:, is_far]
        for k in range(1, order + 1):
            turned[k:] = turned[k - 1 : -1] - turned[k:]
        found[:, is_far] = turned * factor
        return list(found)


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


Kernel = Callable[[Floats, Floats], Floats]
"""(center, spread) -> value, on one-dimensional arrays."""


@dataclass(frozen=True)
class Link(ABC):
    """σ(t) = base(scale·t + offset), an inverse link with values in [0, 1].

    Parameters
    ----------
    scale : float, default=1.0
        Signal strength: finite and positive.
    offset : float, default=0.0
        Intercept: finite.

    See Also
    --------
    Logit, Probit, ComplementaryLogLog, Cauchit, ClippedLinear, CallableLink : Its families.

    Notes
    -----
    A family defines `base`, `base_derivative` and their Gaussian expectations on
    one-dimensional arrays with positive spread (`_smooth_base`, `_smooth_base_derivative`);
    scale, offset, broadcasting and the limit sd = 0 are handled here, once.

    Examples
    --------
    >>> from angcal.links import Probit
    >>> Probit(scale=2.0).smooth(0.0, 1.0)
    array(0.5)
    """

    scale: float = 1.0
    offset: float = 0.0

    family: ClassVar[str] = "link"
    # What makes likelihoods in the noise level cheap, for families that are such mixtures.
    mixture: ClassVar[ProbitMixture | None] = None
    # The same to the last digits, for tables of the curve.
    fine_mixture: ClassVar[ProbitMixture | None] = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"scale={self.scale!r} must be finite and > 0. "
                "For a decreasing link swap the two classes instead of the sign."
            )
        if not np.isfinite(self.offset):
            raise ValueError(
                f"offset={self.offset!r} must be finite. Use offset=0.0 for no intercept."
            )

    @property
    def name(self) -> str:
        """Readable name of the family, for example ``"logit"``."""
        return self.family

    @abstractmethod
    def base(self, t: ArrayLike) -> Floats:
        """base(t), the standard inverse link: no scale, no offset.

        Parameters
        ----------
        t : array-like
            Arguments.

        Returns
        -------
        ndarray
            Probabilities, in the shape of `t`.
        """

    @abstractmethod
    def base_derivative(self, t: ArrayLike) -> Floats:
        """base'(t), the derivative of the standard inverse link.

        Parameters
        ----------
        t : array-like
            Arguments.

        Returns
        -------
        ndarray
            Slopes, in the shape of `t`.
        """

    @abstractmethod
    def _smooth_base(self, center: Floats, spread: Floats) -> Floats:
        """E base(center + spread·Z) for one-dimensional arrays, spread > 0."""

    @abstractmethod
    def _smooth_base_derivative(self, center: Floats, spread: Floats) -> Floats:
        """∂/∂center E base(center + spread·Z) for one-dimensional arrays, spread > 0."""

    def __call__(self, t: ArrayLike) -> Floats:
        """σ(t) = base(scale·t + offset)."""
        return self.base(self._argument(t))

    def derivative(self, t: ArrayLike) -> Floats:
        """σ'(t) = scale·base'(scale·t + offset).

        Parameters
        ----------
        t : array-like
            Signal w*ᵀx.

        Returns
        -------
        ndarray
            Slopes, in the shape of `t`.
        """
        return np.asarray(self.scale * self.base_derivative(self._argument(t)))

    def smooth(self, mean: ArrayLike, sd: ArrayLike) -> Floats:
        """E σ(mean + sd·Z), Z ~ N(0, 1).

        Parameters
        ----------
        mean : array-like
            Mean of the signal given the score, finite.
        sd : array-like
            Its standard deviation, finite and ≥ 0; broadcast against `mean`.
            Where it is 0 the result is σ(mean) exactly.

        Returns
        -------
        ndarray
            Probabilities in [0, 1], absolute error below 1e-10 (usually 1e-14).
        """
        smoothed = self._smoothed(self._smooth_base, self.base, mean, sd)
        return np.asarray(np.clip(smoothed, 0.0, 1.0))

    def smooth_derivative(self, mean: ArrayLike, sd: ArrayLike) -> Floats:
        """∂/∂mean E σ(mean + sd·Z) = E σ'(mean + sd·Z), Z ~ N(0, 1).

        Parameters
        ----------
        mean, sd : array-like
            As in `smooth`.

        Returns
        -------
        ndarray
            Slopes of the smoothed link with respect to `mean`.
        """
        slope = self._smoothed(self._smooth_base_derivative, self.base_derivative, mean, sd)
        return np.asarray(self.scale * slope)

    def jet(self, center: Floats, spread: float) -> tuple[Floats, Floats, Floats]:
        """F, F′ and F″ of F(m) = E base(m + τZ): for likelihoods, good to 1e-7.

        Parameters
        ----------
        center : ndarray of shape (n,)
            m.
        spread : float
            τ, at least 0.

        Returns
        -------
        tuple of ndarray of shape (n,)
            Values, slopes and second derivatives.
        """
        if self.mixture is not None:
            value, slope, bend = self.mixture.smooth(center, spread)
            return value, slope, bend
        step = 1e-4 * np.hypot(1.0, spread)
        noise = np.full(3 * len(center), spread)
        moved = np.concatenate([center, center + step, center - step])
        unit = self.with_parameters(1.0, 0.0)
        slope, above, below = np.split(unit.smooth_derivative(moved, noise), 3)
        value = unit.smooth(center, noise[: len(center)])
        return value, slope, (above - below) / (2.0 * step)

    def with_parameters(self, scale: float, offset: float) -> Self:
        """Same family, σ(t) = base(scale·t + offset) with other parameters.

        Parameters
        ----------
        scale, offset : float
            The parameters.

        Returns
        -------
        Link
            A new link.

        Examples
        --------
        >>> from angcal.links import Logit
        >>> Logit().with_parameters(scale=2.0, offset=-1.0)
        Logit(scale=2.0, offset=-1.0)
        """
        return replace(self, scale=scale, offset=offset)

    def _argument(self, t: ArrayLike) -> Floats:
        """scale·t + offset, the argument of `base`."""
        return np.asarray(self.scale * np.asarray(t, dtype=np.float64) + self.offset)

    def _smoothed(
        self, kernel: Kernel, at: Callable[[Floats], Floats], mean: ArrayLike, sd: ArrayLike
    ) -> Floats:
        """kernel(center, spread) where the spread is positive, at(center) where it is zero."""
        with np.errstate(over="ignore"):
            center, spread = np.broadcast_arrays(
                self._argument(mean), self.scale * np.asarray(sd, dtype=np.float64)
            )
        if not np.all(np.isfinite(center)):
            raise ValueError(
                f"scale·mean + offset must be finite, got {first(center, ~np.isfinite(center))}. "
                "Remove missing or infinite scores before smoothing."
            )
        invalid = ~(np.isfinite(spread) & (spread >= 0))
        if np.any(invalid):
            raise ValueError(
                f"scale·sd must be finite and >= 0, got {first(spread, invalid)}. "
                "With a cosine c use sd = sqrt(max(0, 1 - c**2))."
            )
        m, s = center.ravel(), spread.ravel()
        with np.errstate(over="ignore", under="ignore"):
            return piecewise(s > 0, kernel, lambda m, s: at(m), m, s).reshape(center.shape)


def piecewise(
    condition: np.ndarray, if_true: Kernel, if_false: Kernel, center: Floats, spread: Floats
) -> Floats:
    """if_true(center, spread) where condition, else if_false(center, spread); each on its part.

    Unlike ``numpy.where`` neither kernel sees the other's arguments, so neither divides by
    a zero spread nor spends time on results that are thrown away.
    """
    if condition.all():
        return if_true(center, spread)
    result = np.empty_like(center)
    for part, kernel in ((condition, if_true), (~condition, if_false)):
        if part.any():
            result[part] = kernel(center[part], spread[part])
    return result


def first(values: Floats, condition: np.ndarray) -> float:
    """First value at which the condition holds, for error messages."""
    return float(values[condition].flat[0])
