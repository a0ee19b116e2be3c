r"""The link when it is not known: scale κ, offset β and angle from leave-one-out scores.

With σ(t) = base(κt + β) the calibrated curve is

    F(s) = E_Z base(a·s + b + τ·Z),   a = κc,  b = β,  τ = κ√(1−c²)

a smoothed curve with a slope, an offset and a noise level. The labels determine slope and offset;
the noise level only bends the curve between its logistic and its probit shape, so κ and c alone
are all but unidentified while the curve itself is stable. A prior log κ ~ N(log 3, 1) settles
what the labels leave open, and where Σ is known the observable angle, which needs no link,
settles it better. Slope and offset are found by likelihood for each τ; then τ is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import minimize, minimize_scalar

from angcal._typing import Floats
from angcal.angle import PROBABILITY_FLOOR, Angle
from angcal.links import Link
from angcal.prediction import tabulated_probability

# A typical standard deviation of the true logit, and how far a priori it may be from that.
PRIOR_LOG_SCALE, PRIOR_LOG_SCALE_SD = np.log(3.0), 1.0
# An angle from elsewhere settles the scale; then the prior only keeps it from running off.
WIDE_LOG_SCALE_SD = 10.0
NOISE_LEVELS = np.geomspace(0.05, 20.0, 9)
# Spacing 0.1 of the curve's own width: the cubic table is good to 1e-7, far below what labels see.
TABLE_REACH, TABLE_NODES = 30.0, 601
SMALLEST_COSINE_ERROR = 5e-3
# Weights at the optimum of their own fit do not point away from the truth by more than noise, but
# leave-one-out scores without signal do: each row's absence tilts the fit against its label. A
# negative slope is therefore read as none, unless an angle from elsewhere says that it is one.
RISING, FALLING = ((0.0, None), (None, None)), ((None, 0.0), (None, None))


@dataclass(frozen=True)
class LinkEstimate:
    """Link and cosine that maximise the penalised likelihood, and what is known of the cosine.

    Attributes
    ----------
    link : Link
        The family with its fitted scale κ and offset β.
    cosine : float
    profile : tuple of (cosine, scale)
        Best cosine and scale at each noise level.
    """

    link: Link
    cosine: float
    profile: tuple[tuple[float, float], ...]

    def interval(self, n_deviations: float) -> tuple[float, float]:
        """Cosines of all curves whose scale κ the prior finds plausible.

        The labels fit each of these curves about equally well. What little they say of the shape
        rests on the exact tails of the assumed family, which real scores do not have, so it does
        not narrow the interval.
        """
        reach = n_deviations * PRIOR_LOG_SCALE_SD
        plausible = [
            c for c, scale in self.profile if abs(np.log(scale) - PRIOR_LOG_SCALE) <= reach
        ]
        return min([*plausible, self.cosine]), max([*plausible, self.cosine])


@dataclass(frozen=True, eq=False)
class _Curve:
    """F at one noise level τ as a function of m = a·s + b, tabulated."""

    noise: float
    table: CubicHermiteSpline
    reach: float

    def value_and_slope(self, m: Floats) -> tuple[Floats, Floats]:
        inside = np.clip(m, -self.reach, self.reach)
        p = np.clip(self.table(inside), PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        return p, np.where(m == inside, self.table(inside, 1), 0.0)


@lru_cache(maxsize=128)
def _tabulate(family: Link, noise: float) -> _Curve:
    """The curve of one family at one noise level; the grid of levels is the same for every fit."""
    reach = float(TABLE_REACH * np.hypot(1.0, noise))
    nodes = np.linspace(-reach, reach, TABLE_NODES)
    spread = np.full_like(nodes, noise)
    table = CubicHermiteSpline(
        nodes, family.smooth(nodes, spread), family.smooth_derivative(nodes, spread)
    )
    return _Curve(noise, table, reach)


@dataclass(frozen=True, eq=False)
class _Problem:
    family: Link
    scores: Floats
    labels: Floats
    weights: Floats
    known: Angle | None

    @property
    def falls(self) -> bool:
        """Whether the score is known to point away from the truth."""
        return self.known is not None and self.known.cosine < 0

    def prior(self, slope: float, noise: float) -> tuple[float, float]:
        """−log prior of (a, τ) and its derivative in a."""
        scale = np.hypot(slope, noise)
        width = PRIOR_LOG_SCALE_SD if self.known is None else WIDE_LOG_SCALE_SD
        off = (np.log(scale) - PRIOR_LOG_SCALE) / width
        value = 0.5 * off**2
        gradient = off / width * slope / scale**2
        if self.known is not None:
            error = max(self.known.standard_error, SMALLEST_COSINE_ERROR)
            gap = (slope / scale - self.known.cosine) / error
            value += 0.5 * gap**2
            gradient += gap / error * noise**2 / scale**3
        return float(value), float(gradient)

    def loss(self, theta: Floats, curve: _Curve) -> tuple[float, Floats]:
        """Penalised −log likelihood of (a, b) and its gradient."""
        slope, offset = theta
        p, dp = curve.value_and_slope(slope * self.scores + offset)
        value = -float(self.weights @ np.log(np.where(self.labels > 0.5, p, 1.0 - p)))
        pull = self.weights * (p - self.labels) / (p * (1.0 - p)) * dp
        prior, prior_gradient = self.prior(slope, curve.noise)
        gradient = np.array([float(pull @ self.scores) + prior_gradient, float(pull.sum())])
        return value + prior, gradient

    def solve(self, noise: float, start: Floats) -> tuple[float, Floats]:
        """Best (a, b) at one noise level: (penalised loss, (a, b))."""
        curve = _tabulate(self.family, noise)
        result = minimize(
            self.loss,
            start,
            args=(curve,),
            jac=True,
            method="L-BFGS-B",
            bounds=FALLING if self.falls else RISING,
        )
        return float(result.fun), np.asarray(result.x)

    def solve_at(self, cosine: float) -> tuple[float, float]:
        """Best (κ, β) at one cosine, taken as exact: a two-parameter fit."""

        def loss(theta: Floats) -> float:
            link = self.family.with_parameters(float(np.exp(theta[0])), float(theta[1]))
            p = tabulated_probability(link, cosine, self.scores)
            chosen = np.maximum(np.where(self.labels > 0.5, p, 1.0 - p), PROBABILITY_FLOOR)
            off = (theta[0] - PRIOR_LOG_SCALE) / WIDE_LOG_SCALE_SD
            return 0.5 * off**2 - float(self.weights @ np.log(chosen))

        start = np.array([PRIOR_LOG_SCALE, 0.0])
        result = minimize(loss, start, method="L-BFGS-B", bounds=[(-5.0, 7.0), (None, None)])
        return float(np.exp(result.x[0])), float(result.x[1])


def estimate_link(
    family: Link,
    standard_scores: Floats,
    labels: Floats,
    case_weights: Floats,
    known: Angle | None = None,
) -> LinkEstimate:
    """Maximise Σ ω_i log P(y_i | F(s_i)) − prior over (a, b, τ).

    Parameters
    ----------
    family : Link
        Its scale and offset are ignored: they are what is estimated.
    standard_scores, labels, case_weights : (n,) arrays
        Leave-one-out scores in units of ‖ŵ‖_Σ.
    known : Angle, optional
        An angle from elsewhere (given, or observable) with its standard error.
    """
    weights = case_weights / np.mean(case_weights)
    base = family.with_parameters(1.0, 0.0)
    problem = _Problem(base, standard_scores, labels, weights, known)
    if known is not None and known.standard_error == 0:
        scale, offset = problem.solve_at(known.cosine)
        link = family.with_parameters(scale, offset)
        return LinkEstimate(link, known.cosine, ((known.cosine, scale),))
    losses, points = [], []
    start = np.array([-1.0 if problem.falls else 1.0, 0.0])
    for noise in NOISE_LEVELS:
        value, start = problem.solve(float(noise), start)
        losses.append(value)
        points.append(start)
    best = int(np.argmin(losses))
    logs = np.log(NOISE_LEVELS)
    bracket = (logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)])
    refined = minimize_scalar(
        lambda log_noise: problem.solve(float(np.exp(log_noise)), points[best])[0],
        bounds=bracket,
        options={"xatol": 0.02},
    )
    noise = float(np.exp(refined.x))
    value, (slope, offset) = problem.solve(noise, points[best])
    if losses[best] < value:
        noise, (slope, offset), value = float(NOISE_LEVELS[best]), points[best], losses[best]
    scale = float(np.hypot(slope, noise))
    profile = tuple(
        (float(point[0] / np.hypot(point[0], level)), float(np.hypot(point[0], level)))
        for point, level in zip(points, NOISE_LEVELS, strict=True)
    )
    return LinkEstimate(family.with_parameters(scale, float(offset)), float(slope / scale), profile)
