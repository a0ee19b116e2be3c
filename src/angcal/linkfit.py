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

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import minimize, minimize_scalar

from angcal._typing import Floats
from angcal.angle import PROBABILITY_FLOOR, Angle
from angcal.links import Link
from angcal.links.mixture import ProbitMixture
from angcal.prediction import noise_share, tabulated_probability
from angcal.score_bins import BinnedScores, bin_scores

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
LOG_SCALES = (-5.0, 7.0)
MOST_SCORING_STEPS, MOST_HALVINGS = 60, 30
# A loss within this of its minimum is 1e-4 standard errors away from it.
SMALLEST_GAIN = 1e-8
# Noise levels are compared by their losses, which need not be better than this.
SCAN_GAIN = 1e-3


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
    """F at one noise level τ as a function of m = a·s + b, tabulated, where no closed form is."""

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
class LinkProblem:
    """Penalised likelihood of a family's parameters, given scores with labels.

    Attributes
    ----------
    family : Link
        With scale 1 and offset 0.
    bins : BinnedScores
    known : Angle or None
        An angle from elsewhere.
    """

    family: Link
    bins: BinnedScores
    known: Angle | None

    @property
    def falls(self) -> bool:
        """Whether the score is known to point away from the truth."""
        return self.known is not None and self.known.cosine < 0

    def prior(self, slope: float, noise: float) -> tuple[float, float, float]:
        """−log prior of (a, τ), its derivative in a, and its Gauss–Newton curvature."""
        scale = np.hypot(slope, noise)
        width = PRIOR_LOG_SCALE_SD if self.known is None else WIDE_LOG_SCALE_SD
        terms = [((np.log(scale) - PRIOR_LOG_SCALE) / width, slope / scale**2 / width)]
        if self.known is not None:
            error = max(self.known.standard_error, SMALLEST_COSINE_ERROR)
            gap = (slope / scale - self.known.cosine) / error
            terms.append((gap, noise**2 / scale**3 / error))
        return (
            float(sum(0.5 * off**2 for off, _ in terms)),
            float(sum(off * rate for off, rate in terms)),
            float(sum(rate**2 for _, rate in terms)),
        )

    def likelihood(self, p: Floats, columns: Floats) -> tuple[float, Floats, Floats]:
        """−log likelihood, its gradient and Fisher information; columns are ∂p/∂parameters."""
        p = np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        spread = p * (1.0 - p)
        bins = self.bins
        value = -float(bins.positive @ np.log(p) + bins.negative @ np.log1p(-p))
        gradient = columns.T @ ((bins.total * p - bins.positive) / spread)
        return value, gradient, columns.T @ (columns * (bins.total / spread)[:, None])

    def at_noise(self, theta: Floats, noise: float) -> tuple[float, Floats, Floats]:
        """Penalised loss of (a, b) at one τ, its gradient and information."""
        slope, offset = theta
        p, dp = _curve(self.family, slope * self.bins.nodes + offset, noise)
        columns = np.column_stack([dp * self.bins.nodes, dp])
        value, gradient, information = self.likelihood(p, columns)
        prior, rate, curvature = self.prior(slope, noise)
        gradient[0] += rate
        information[0, 0] += curvature
        return value + prior, gradient, information

    def at_cosine(
        self,
        theta: Floats,
        cosine: float,
        mixture: ProbitMixture,
        prior: tuple[float, float] = (PRIOR_LOG_SCALE, WIDE_LOG_SCALE_SD),
        count_for: float = 1.0,
    ) -> tuple[float, Floats, Floats]:
        """Penalised loss of (log κ, β) at one cosine, its gradient and information.

        ∂F/∂log κ = a·s·F_m + τ²·F_mm, by the heat equation. ``prior`` holds mean and
        standard deviation of log κ, and each label counts for so many.
        """
        scale = float(np.exp(theta[0]))
        slope, noise = scale * cosine, scale * noise_share(cosine)
        part = slope * self.bins.nodes
        p, dp, bend = mixture.smooth(part + theta[1], noise)
        columns = np.column_stack([part * dp + noise**2 * bend, dp])
        value, gradient, information = self.likelihood(p, columns)
        gradient, information = count_for * gradient, count_for * information
        mean, width = prior
        off = (theta[0] - mean) / width
        gradient[0] += off / width
        information[0, 0] += 1.0 / width**2
        return count_for * value + 0.5 * off**2, gradient, information

    def solve(
        self, noise: float, start: Floats, gain: float = SMALLEST_GAIN
    ) -> tuple[float, Floats]:
        """Best (a, b) at one noise level: (penalised loss, (a, b))."""
        bounds = (-np.inf, 0.0) if self.falls else (0.0, np.inf)
        (value, *_), best = fisher_scoring(
            lambda theta: self.at_noise(theta, noise), start, bounds, gain
        )
        return value, best

    def solve_at(self, cosine: float) -> tuple[float, float]:
        """Best (κ, β) at one cosine, taken as exact: a two-parameter fit."""
        start = np.array([PRIOR_LOG_SCALE, 0.0])
        mixture = self.family.mixture
        if mixture is not None:
            _, best = fisher_scoring(
                lambda theta: self.at_cosine(theta, cosine, mixture), start, LOG_SCALES
            )
        else:
            bounds = [LOG_SCALES, (None, None)]
            best = minimize(
                self._loss_at_cosine, start, args=(cosine,), method="L-BFGS-B", bounds=bounds
            ).x
        return float(np.exp(best[0])), float(best[1])

    def _loss_at_cosine(self, theta: Floats, cosine: float) -> float:
        link = self.family.with_parameters(float(np.exp(theta[0])), float(theta[1]))
        p = tabulated_probability(link, cosine, self.bins.nodes)
        off = (theta[0] - PRIOR_LOG_SCALE) / WIDE_LOG_SCALE_SD
        return 0.5 * off**2 + self.likelihood(p, np.zeros((len(p), 1)))[0]


def _curve(family: Link, m: Floats, noise: float) -> tuple[Floats, Floats]:
    """F(m) and F'(m) at one noise level, in closed form where the family has one."""
    if family.mixture is None:
        return _tabulate(family, noise).value_and_slope(m)
    return family.mixture.value_and_slope(m, noise)


Evaluation = tuple[float, Floats, Floats]


def fisher_scoring(
    evaluate: Callable[[Floats], Evaluation],
    start: Floats,
    bounds: tuple[float, float],
    gain: float = SMALLEST_GAIN,
) -> tuple[Evaluation, Floats]:
    """Minimise a loss in two parameters, the first within bounds: (evaluation, parameters).

    Newton's method with the Fisher information, which is never indefinite, and halved steps where
    a whole one does not lower the loss.
    """
    theta = np.array([np.clip(start[0], *bounds), start[1]])
    here = evaluate(theta)
    for _ in range(MOST_SCORING_STEPS):
        value, gradient, information = here
        held = theta[0] in bounds and gradient[0] * (1.0 if theta[0] == bounds[0] else -1.0) > 0
        step = _scoring_step(gradient, information, held)
        # Half the squared length of the step in standard errors: what is left to gain.
        if -float(gradient @ step) < gain:
            break
        for _ in range(MOST_HALVINGS):
            trial = theta + step
            trial[0] = np.clip(trial[0], *bounds)
            found = evaluate(trial)
            if found[0] <= value:
                break
            step = 0.5 * step
        else:
            break
        theta, here = trial, found
    return here, theta


def _scoring_step(gradient: Floats, information: Floats, held: bool) -> Floats:
    (aa, ab), (_, bb) = information
    if held:
        return np.array([0.0, -gradient[1] / bb if bb > 0 else 0.0])
    # A ridge of rounding size keeps a flat direction from running off.
    aa, bb = aa * (1.0 + 1e-12) + 1e-300, bb * (1.0 + 1e-12) + 1e-300
    determinant = aa * bb - ab * ab
    return np.array(
        [
            (ab * gradient[1] - bb * gradient[0]) / determinant,
            (ab * gradient[0] - aa * gradient[1]) / determinant,
        ]
    )


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
    problem = LinkProblem(base, bin_scores(standard_scores, labels, weights), known)
    if known is not None and known.standard_error == 0:
        scale, offset = problem.solve_at(known.cosine)
        link = family.with_parameters(scale, offset)
        return LinkEstimate(link, known.cosine, ((known.cosine, scale),))
    losses, points = [], []
    start = np.array([-1.0 if problem.falls else 1.0, 0.0])
    for noise in NOISE_LEVELS:
        value, start = problem.solve(float(noise), start, SCAN_GAIN)
        losses.append(value)
        points.append(start)
    best = int(np.argmin(losses))
    logs = np.log(NOISE_LEVELS)
    bracket = (logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)])
    refined = minimize_scalar(
        lambda log_noise: problem.solve(float(np.exp(log_noise)), points[best], SCAN_GAIN)[0],
        bounds=bracket,
        options={"xatol": 0.05},
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
