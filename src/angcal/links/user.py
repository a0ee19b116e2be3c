"""base(t) = function(t): an inverse link given by any function of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from angcal._typing import Floats
from angcal.links.base import Link, first
from angcal.links.quadrature import PANEL_TOLERANCE, adaptive_expectation

PROBABILITY_SLACK = 1e-12
"""Rounding by which a function may leave [0, 1]."""

DIFFERENCE_STEP = 1e-3
"""Step of the fourth-order differences: balances step⁴/30 against rounding/step."""

CONSTRUCTION_GRID = np.linspace(-60.0, 60.0, 1201)
"""Arguments at which a function is checked when the link is made."""


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
    scale, offset : float
        As in `Link`.

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
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "breakpoints", tuple(sorted(float(t) for t in breakpoints)))
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "offset", offset)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the parameters, and the function on a grid."""
        super().__post_init__()
        if not np.all(np.isfinite(self.breakpoints)):
            raise ValueError(
                f"breakpoints={self.breakpoints!r} must be finite. "
                "Leave out limits at infinity: they need no declaration."
            )
        self.base(np.concatenate([CONSTRUCTION_GRID, self.breakpoints]))

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
        step = DIFFERENCE_STEP * np.maximum(1.0, np.abs(t))
        near = self.base(t + step) - self.base(t - step)
        far = self.base(t + 2.0 * step) - self.base(t - 2.0 * step)
        return np.asarray((8.0 * near - far) / (12.0 * step))

    def _smooth_base(self, centre: Floats, spread: Floats) -> Floats:
        def value(owner: NDArray[np.intp], z: Floats) -> Floats:
            return self.base(centre[owner, None] + spread[owner, None] * z)

        return adaptive_expectation(value, centre, spread, self.breakpoints)

    def _smooth_base_derivative(self, centre: Floats, spread: Floats) -> Floats:
        at_centre = self.base(centre)

        def z_times_change(owner: NDArray[np.intp], z: Floats) -> Floats:
            # E[Z·f(m)] = 0: without the constant the rounding is that of the change alone.
            change = self.base(centre[owner, None] + spread[owner, None] * z)
            return z * (change - at_centre[owner, None])

        # The division by τ below magnifies errors, so small τ asks for more, up to rounding.
        tolerance = PANEL_TOLERANCE * float(np.clip(spread.min(initial=1.0), 1e-3, 1.0))
        moment = adaptive_expectation(z_times_change, centre, spread, self.breakpoints, tolerance)
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
        wrong = ~((values >= -PROBABILITY_SLACK) & (values <= 1.0 + PROBABILITY_SLACK))
        if np.any(wrong):
            raise ValueError(
                f"{self.name} returned {first(values, wrong)} at t = {first(t, wrong)}, "
                "which is not a probability. Clip it to [0, 1] (numpy.clip), and use forms that "
                "do not overflow (scipy.special.expit)."
            )
        return np.clip(values, 0.0, 1.0)
