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


def _width(noise: Floats) -> Floats:
    """√(1 + τ²/3): how wide a logistic curve is that noise τ has smoothed."""
    return np.sqrt(1.0 + noise**2 / 3.0)


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

        (_, _, information), best = fisher_scoring(evaluate, start, LOG_SCALES, LOOSE_GAIN)
        (kk, kb), (_, bb) = information
        left = kk - kb**2 / bb if bb > 0 else kk
        deviation = 1.0 / np.sqrt(max(left, 1.0 / belief.log_scale_sd**2))
        log_scales = best[0] + deviation * np.array(DEVIATIONS)
        return best, self._about(cosine, log_scales, best, np.log(deviation) + log_share)

    def _about(
        self, cosine: float, log_scales: Floats, best: Floats, log_measure: float
    ) -> list[tuple[float, float, float, float]]:
        """(log weight, a, β, τ) of every κ, averaged over β about its optimum."""
        scales, bins = np.exp(log_scales), self.bins
        slopes, noises = scales * cosine, scales * noise_share(cosine)
        widths, belief, count_for = _width(noises), self.belief, self.belief.labels_count_for
        # The offset grows with the width of the curve.
        offsets = widths * best[1] / _width(np.exp(best[0]) * noise_share(cosine))
        priors = 1.0 / (belief.offset_sd * widths) ** 2
        centres = slopes[:, None] * bins.nodes + offsets[:, None]
        p, rates = self.mixture.values_and_slopes(centres, noises)
        p = np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        pulls = rates / (p * (1.0 - p))
        gradients = count_for * np.sum((bins.positive - bins.total * p) * pulls, axis=1)
        gradients -= priors * offsets
        precisions = count_for * ((rates * pulls) @ bins.total) + priors
        deviations = 1.0 / np.sqrt(precisions)
        # A step of Newton's method from a good guess, and its gain without another look; a short
        # one, as curves that are nearly steps have no curvature to go by.
        moves = np.clip(gradients * deviations**2, -deviations, deviations)
        likelihoods = np.log(p) @ bins.positive + np.log1p(-p) @ bins.negative
        log_weights = count_for * likelihoods - 0.5 * priors * offsets**2
        log_weights += gradients * moves - 0.5 * precisions * moves**2
        off = (log_scales - belief.log_scale) / belief.log_scale_sd
        log_weights += np.log(deviations / widths) - 0.5 * off**2 + log_measure
        columns = log_weights, slopes, offsets + moves, np.hypot(noises, deviations)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _part(self, weight: float, slope: float, offset: float, noise: float) -> CurvePart:
        scale = float(np.hypot(slope, noise))
        link = self.family.with_parameters(scale, float(offset))
        return CurvePart(weight, link, float(slope / scale))
