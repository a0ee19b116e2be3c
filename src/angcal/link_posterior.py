r"""The curve when the link is not known: an average over all that the labels leave open.

With σ(t) = base(κt + β), a cosine c and leave-one-out scores s, the calibrated curve of
(κ, β, c) is F(s) = E_Z base(a·s + β + τZ), a = κc, τ = κ√(1−c²). Instead of the best of these
curves, predictions take

    F̄(s) = ∫ F(s) dπ,   dπ ∝ p(y | κ, β, c)^½ · N(log κ; log 3, 1) · N(η; 0, 2²) d log κ dη dP(c)

- η = β/√(1 + τ²/3) is the offset relative to the width of the curve, which hardly depends on κ.
- c takes the values of ``Belief.cosines``, equally likely, or those that an angle from elsewhere
  allows.
- For each c and κ the offset is nearly normal about its optimum, with variance V. Averaging over it
  is exact: it adds V to τ².
- For each c, log κ takes steps of one posterior standard deviation.
- The labels count for half. Their leave-one-out scores lean on each other, the penalty was perhaps
  chosen by the same labels, and rows are not Gaussian.

Where labels are many, one (a, β) is left and F̄ is its curve. Where they are few, or tell the
classes apart without error, F̄ is less sure than the best curve, as it should be: docs/research.md
has what this was compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.angle import PROBABILITY_FLOOR, Angle
from angcal.linkfit import (
    LOG_SCALES,
    PRIOR_LOG_SCALE,
    PRIOR_LOG_SCALE_SD,
    SMALLEST_COSINE_ERROR,
    LinkProblem,
    fisher_scoring,
)
from angcal.links import Link
from angcal.links.mixture import ProbitMixture
from angcal.prediction import CurvePart, noise_share
from angcal.score_bins import BinnedScores, bin_scores

# Of log κ, in posterior standard deviations.
DEVIATIONS = (-2.0, -1.0, 0.0, 1.0, 2.0)
# Flat curves of small weight are what is left of doubt far out, where steep ones are sure.
SMALLEST_WEIGHT, HOPELESS = 1e-5, 12.0
# Curves are weighed about the optimum, which need not be known to better than a tenth of a
# standard error.
LOOSE_GAIN = 1e-2
# Of median and spread of the scores, in units of ‖ŵ‖_Σ: beyond, their centre or their covariance is
# not that of the labelled rows.
LARGEST_MEDIAN, LARGEST_SPREAD = 2.0, 4.0
# Distance of a normal variable's quartiles, in standard deviations.
NORMAL_QUARTILES = 1.349
# Gauss–Hermite with three nodes, for a cosine that is known up to a normal error.
HERMITE = ((-np.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (np.sqrt(3.0), 1 / 6))


@dataclass(frozen=True)
class Belief:
    """What is held likely before labels are seen, and how much they count against it.

    Attributes
    ----------
    labels_count_for : float
        Power of the likelihood.
    log_scale, log_scale_sd : float
        Mean and standard deviation of log κ.
    offset_sd : float
        Standard deviation of η: weak, and there so that a curve that is nearly a step cannot be
        anywhere.
    cosines : tuple of float
        Equally likely values of c, where no angle is known; decreasing.
    """

    labels_count_for: float = 0.5
    log_scale: float = PRIOR_LOG_SCALE
    log_scale_sd: float = PRIOR_LOG_SCALE_SD
    offset_sd: float = 2.0
    cosines: tuple[float, ...] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03)

    def before_labels(self, known: Angle | None) -> list[tuple[float, float]]:
        """(cosine, probability) of each cosine."""
        if known is None:
            return [(cosine, 1.0 / len(self.cosines)) for cosine in self.cosines]
        if known.standard_error == 0:
            return [(known.cosine, 1.0)]
        error = max(known.standard_error, SMALLEST_COSINE_ERROR)
        # Its sign is taken for known: curves that rise are not averaged with curves that fall.
        low, high = (0.0, 1.0) if known.cosine >= 0 else (-1.0, 0.0)
        return [
            (float(np.clip(known.cosine + step * error, low, high)), share)
            for step, share in HERMITE
        ]


BELIEF = Belief()


def average_curves(
    family: Link,
    standard_scores: Floats,
    labels: Floats,
    case_weights: Floats,
    known: Angle | None = None,
    belief: Belief = BELIEF,
) -> tuple[CurvePart, ...]:
    """The curves that F̄ averages, with their weights; none where the family has no closed form.

    Parameters
    ----------
    family : Link
        Its scale and offset are ignored.
    standard_scores, labels, case_weights : (n,) arrays
        Leave-one-out scores in units of ‖ŵ‖_Σ.
    known : Angle, optional
        An angle from elsewhere (given, or observable) with its standard error.
    belief : Belief, optional
    """
    if family.mixture is None:
        return ()
    weights = case_weights / np.mean(case_weights)
    bins = bin_scores(standard_scores, labels, weights)
    return _Posterior(family, family.mixture, bins, belief).parts(belief.before_labels(known))


def _width(cosine: float, log_scale: float) -> float:
    """√(1 + τ²/3): how wide a logistic curve is that noise τ = κ√(1−c²) has smoothed."""
    return float(np.sqrt(1.0 + np.exp(2.0 * log_scale) * (1.0 - cosine**2) / 3.0))


class _Posterior:
    """π for one family and one set of labels."""

    def __init__(
        self, family: Link, mixture: ProbitMixture, bins: BinnedScores, belief: Belief
    ) -> None:
        self.family, self.mixture, self.bins, self.belief = family, mixture, bins, belief
        self.problem = LinkProblem(family.with_parameters(1.0, 0.0), bins, None)

    def parts(self, cosines: list[tuple[float, float]]) -> tuple[CurvePart, ...]:
        """The curves that are averaged, likely ones only."""
        found: list[tuple[float, float, float, float]] = []
        start, best = self._start(cosines[0][0]), -np.inf
        for cosine, share in cosines:
            start, along = self._at(cosine, start, np.log(share))
            found += along
            highest = max(entry[0] for entry in along)
            best = max(best, highest)
            # Beyond a cosine that the labels rule out lie others that they rule out more.
            if highest < best - HOPELESS:
                break
        log_weights = np.array([entry[0] for entry in found])
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        kept = weights >= SMALLEST_WEIGHT
        weights = np.where(kept, weights, 0.0) / weights[kept].sum()
        return tuple(
            self._part(float(weight), *curve)
            for weight, (_, *curve) in zip(weights, found, strict=True)
            if weight > 0
        )

    def _start(self, cosine: float) -> Floats:
        """(log κ, β) to begin with; for scores that lie far out, those that bring them back.

        From far out a step of Newton's method may end where every p is at its floor, which has no
        slope to come back by.
        """
        order = np.argsort(self.bins.nodes)
        share = np.cumsum(self.bins.total[order])
        quartiles = np.searchsorted(share, np.array([0.25, 0.5, 0.75]) * share[-1])
        low, median, high = self.bins.nodes[order][quartiles]
        spread = (high - low) / NORMAL_QUARTILES
        if abs(median) <= LARGEST_MEDIAN and spread <= LARGEST_SPREAD:
            return np.array([self.belief.log_scale, 0.0])
        log_scale = max(self.belief.log_scale - np.log(max(spread, 1.0)), LOG_SCALES[0])
        return np.array([log_scale, -np.exp(log_scale) * cosine * median])

    def _at(
        self, cosine: float, start: Floats, log_share: float
    ) -> tuple[Floats, list[tuple[float, float, float, float]]]:
        """Best (log κ, β) at one cosine, and (log weight, a, β, τ) of the curves about it."""
        belief = self.belief

        def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
            prior = belief.log_scale, belief.log_scale_sd
            return self.problem.at_cosine(
                theta, cosine, self.mixture, prior, belief.labels_count_for
            )

        _, best = fisher_scoring(evaluate, start, LOG_SCALES, LOOSE_GAIN)
        (kk, kb), (_, bb) = evaluate(best)[2]
        left = kk - kb**2 / bb if bb > 0 else kk
        deviation = 1.0 / np.sqrt(max(left, 1.0 / belief.log_scale_sd**2))
        relative_offset = best[1] / _width(cosine, best[0])
        log_measure = np.log(deviation) + log_share
        along = [
            self._about(cosine, best[0] + step * deviation, relative_offset, log_measure)
            for step in DEVIATIONS
        ]
        return best, along

    def _about(
        self, cosine: float, log_scale: float, relative_offset: float, log_measure: float
    ) -> tuple[float, float, float, float]:
        """(log weight, a, β, τ) of one κ, averaged over β about its optimum."""
        scale, bins, width = float(np.exp(log_scale)), self.bins, _width(cosine, log_scale)
        slope, noise = scale * cosine, scale * noise_share(cosine)
        belief, count_for = self.belief, self.belief.labels_count_for
        offset, prior = relative_offset * width, 1.0 / (belief.offset_sd * width) ** 2
        p, rate = self.mixture.value_and_slope(slope * bins.nodes + offset, noise)
        p = np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        pull = rate / (p * (1.0 - p))
        gradient = count_for * float((bins.positive - bins.total * p) @ pull)
        gradient -= prior * offset
        precision = count_for * float(bins.total @ (rate * pull)) + prior
        deviation = 1.0 / np.sqrt(precision)
        # A step of Newton's method from a good guess, and its gain without another look; a short
        # one, as curves that are nearly steps have no curvature to go by.
        move = float(np.clip(gradient * deviation**2, -deviation, deviation))
        likelihood = float(bins.positive @ np.log(p) + bins.negative @ np.log1p(-p))
        log_weight = count_for * likelihood - 0.5 * prior * offset**2
        log_weight += gradient * move - 0.5 * precision * move**2
        off = (log_scale - belief.log_scale) / belief.log_scale_sd
        log_weight += np.log(deviation / width) - 0.5 * off**2 + log_measure
        return float(log_weight), slope, offset + move, float(np.hypot(noise, deviation))

    def _part(self, weight: float, slope: float, offset: float, noise: float) -> CurvePart:
        scale = float(np.hypot(slope, noise))
        link = self.family.with_parameters(scale, float(offset))
        return CurvePart(weight, link, float(slope / scale))
