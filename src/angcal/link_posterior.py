r"""What labels say about link and angle together: one measure, whose mean is the curve.

With σ(t) = base(κt + β), a cosine c and leave-one-out scores s in units of ‖ŵ‖_Σ, the calibrated
curve of (κ, β, c) is F(s) = E_Z base(a·s + β + τZ), a = κc, τ = κ√(1−c²). Labels determine slope
and offset of that curve; the noise τ only bends it between its own and the probit's shape, so κ and
c alone are all but unidentified. Everything that is reported comes from

    dπ ∝ p(y | κ, β, c)^½ · N(log κ; log 3, 1) · N(η; 0, 2²) d log κ dη dP(c)

- the curve is its mean, F̄(s) = ∫ F(s) dπ;
- the cosine is its mean, with an interval from its quantiles;
- the link is its mode at that cosine.

How the integral is taken:

- η = β/√(1 + τ²/3) is the offset relative to the width of the curve, which hardly depends on κ.
- c takes the values of ``Belief.cosines``, equally likely, or those that an angle from elsewhere
  allows.
- For each c and κ the offset is nearly normal about its optimum, with variance V. Averaging over it
  is exact: it adds V to τ².
- For each c, log κ takes steps of one posterior standard deviation.
- The labels count for half. Their leave-one-out scores depend on each other, the penalty was chosen
  perhaps by the same labels, and rows are not Gaussian.
- Labels of groups agree beyond what their scores tell: n of them are as many as n over their design
  effect (:meth:`~angcal.leverages.groups.Groups.design_effect`).

Where labels are many, one (a, β) is left and F̄ is its curve. Where they are few, or tell the
classes apart without error, F̄ is less sure than the best curve, as it should be: docs/research.md
has what this was compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.angle import PROBABILITY_FLOOR, Angle
from angcal.curve import CurvePart, noise_share
from angcal.curve.quintics import Quintics
from angcal.leverages.groups import Groups, whole_groups
from angcal.links import Link
from angcal.score_bins import BinnedScores, bin_scores
from angcal.solvers.fisher_scoring import Evaluation, fisher_scoring

# Of log κ, in posterior standard deviations.
DEVIATIONS = (-2.0, -1.0, 0.0, 1.0, 2.0)
HERMITE = tuple(
    (float(node), float(weight / np.sqrt(2.0 * np.pi)))
    for node, weight in zip(*np.polynomial.hermite_e.hermegauss(5), strict=True)
)
"""Nodes and weights of E f(Z), for a cosine that is known up to a normal error."""
HOPELESS = 12.0
"""In units of the log density: what is so much less likely than the best is not looked at."""
LOOSE_GAIN = 1e-2
"""Curves are weighed about the optimum: a tenth of a standard error from it will do."""
LOG_SCALES = (-5.0, 7.0)
"""Bounds of log κ."""


@dataclass(frozen=True)
class Belief:
    """What is held likely before labels are seen, and how much they count against it.

    Attributes
    ----------
    labels_count_for : float
        Power of the likelihood.
    log_scale, log_scale_sd : float
        Mean and standard deviation of log κ: a typical standard deviation of the true logit.
    offset_sd : float
        Standard deviation of η: weak, and there so that a curve that is nearly a step cannot be
        anywhere.
    cosines : tuple of float
        Equally likely values of c, where no angle is known; decreasing.
    """

    labels_count_for: float = 0.5
    log_scale: float = float(np.log(3.0))
    log_scale_sd: float = 1.0
    offset_sd: float = 2.0
    cosines: tuple[float, ...] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03)

    def before_labels(self, known: Angle | None) -> list[tuple[float, float]]:
        """(cosine, probability) of each cosine."""
        if known is None:
            return [(cosine, 1.0 / len(self.cosines)) for cosine in self.cosines]
        if known.standard_error == 0:
            return [(known.cosine, 1.0)]
        # By the influence of rows, which the study was made with; it is never taken to be known
        # better than to 0.005, unless exactly.
        error = max(known.typical_error, 5e-3)
        # Its sign is taken for known: curves that rise are not averaged with curves that fall.
        low, high = (0.0, 1.0) if known.cosine >= 0 else (-1.0, 0.0)
        return [
            (float(np.clip(known.cosine + step * error, low, high)), share)
            for step, share in HERMITE
        ]


BELIEF = Belief()


@dataclass(frozen=True, eq=False)
class Curves:
    """The curves that the measure averages, one entry each.

    Attributes
    ----------
    weights : (k,) array
        Summing to 1.
    cosines : (k,) array
        c.
    slopes, offsets, noises : (k,) arrays
        a, β and τ.
    deviations : (k,) array
        √V, the posterior standard deviation of β.
    """

    weights: Floats
    cosines: Floats
    slopes: Floats
    offsets: Floats
    noises: Floats
    deviations: Floats

    def take(self, kept: np.ndarray) -> Curves:
        """Some of the curves, their weights summing to 1 again."""
        weights = self.weights[kept]
        fields = (self.cosines, self.slopes, self.offsets, self.noises, self.deviations)
        return Curves(weights / weights.sum(), *(field[kept] for field in fields))


@dataclass(frozen=True, eq=False)
class LinkPosterior:
    """π for one family and one set of labels; see the module.

    Attributes
    ----------
    family : Link
        Its scale and offset are ignored.
    bins : BinnedScores
        Leave-one-out scores in units of ‖ŵ‖_Σ with their labels.
    known : Angle or None
        An angle from elsewhere (given, or observable) with its standard error.
    belief : Belief
    effect : float
        Labels that say as much as one independent label; those in the bins are divided by it.
    """

    family: Link
    bins: BinnedScores
    known: Angle | None = None
    belief: Belief = BELIEF
    effect: float = 1.0

    # -- what it says --------------------------------------------------------------------------

    @cached_property
    def curves(self) -> Curves:
        """The curves that are averaged, likely ones only."""
        found: list[Curves] = []
        cosines = self.belief.before_labels(self.known)
        start, best, least = self._start(cosines[0][0]), -np.inf, np.inf
        for cosine, share in cosines:
            value, start, along = self._along(cosine, start, np.log(share), least)
            least = min(least, value)
            found.append(along)
            highest = float(along.weights.max())
            best = max(best, highest)
            # Beyond a cosine that the labels rule out lie others that they rule out more.
            if highest < best - HOPELESS:
                break
        names = ("weights", "cosines", "slopes", "offsets", "noises", "deviations")
        joined = [np.concatenate([getattr(part, name) for part in found]) for name in names]
        weights = np.exp(joined[0] - joined[0].max())
        whole = Curves(weights / weights.sum(), *joined[1:])
        # Flat curves of small weight are what is left of doubt far out, where steep ones are sure.
        return whole.take(whole.weights >= 1e-5)

    @property
    def parts(self) -> tuple[CurvePart, ...]:
        """The same as links and cosines: F̄ is their average."""
        found = self.curves
        noises = np.hypot(found.noises, found.deviations)
        scales = np.hypot(found.slopes, noises)
        return tuple(
            CurvePart(float(weight), self.family.with_parameters(float(scale), float(offset)), c)
            for weight, scale, offset, c in zip(
                found.weights, scales, found.offsets, (found.slopes / scales).tolist(), strict=True
            )
        )

    @property
    def cosine(self) -> float:
        """E c."""
        if self.known is not None and self.known.standard_error == 0:
            return self.known.cosine
        mean = float(self.curves.weights @ self.curves.cosines)
        return min(max(mean, -1.0), 1.0)  # weights sum to one up to rounding

    @property
    def cosine_sd(self) -> float:
        """Standard deviation of c; at least that within the cell of a node, which no node tells."""
        away = self.curves.cosines - self.cosine
        found = float(np.sqrt(self.curves.weights @ away**2))
        if self.known is not None:
            return found
        half = 0.5 * float(np.ptp(self.belief.cosines)) / (len(self.belief.cosines) - 1)
        within = (min(self.cosine + half, 1.0) - self.cosine + half) / np.sqrt(12.0)
        return max(found, float(within))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Quantiles of c, each of its values standing for the cell about it.

        Labels determine κc, so that any belief about κ is one about c. For an interval it is made
        all but void, with a deviation of 3; curves keep theirs, to which c hardly matters.
        """
        found, belief = self.curves, self.belief
        away = np.log(np.hypot(found.slopes, found.noises)) - belief.log_scale
        odds = 0.5 * away**2 * (belief.log_scale_sd**-2 - 3.0**-2)
        weights = found.weights * np.exp(odds - odds.max())
        nodes = np.array(sorted({c for c, _ in belief.before_labels(self.known)}))
        edges = np.concatenate([[0.0], 0.5 * (nodes[1:] + nodes[:-1]), [1.0]])
        place = np.searchsorted(nodes, found.cosines)
        mass = np.bincount(place, weights, minlength=len(nodes))
        below = np.concatenate([[0.0], np.cumsum(mass)])
        tails = np.array([0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)])
        low, high = np.interp(tails * below[-1], below, edges)
        return float(low), float(high)

    @property
    def rises(self) -> bool:
        """Whether labels rise with the scores at all: whether there is a signal."""
        return self.trend > 0

    @property
    def trend(self) -> float:
        """Σ(y_i − ȳ)s_i in standard errors, were the scores independent of each other."""
        bins = self.bins
        total = bins.total
        prevalence = bins.positive.sum() / total.sum()
        away = bins.nodes - total @ bins.nodes / total.sum()
        error = np.sqrt(prevalence * (1.0 - prevalence) * (total @ away**2))
        trend = bins.nodes @ (bins.positive - prevalence * total)
        # Python's numbers: of scores that hardly vary it may be infinite, without a word.
        return float(trend) / max(float(error), float(np.finfo(float).tiny))

    def link_at(self, cosine: float) -> Link:
        """The link of highest density at one cosine."""
        (_, best) = self._optimum(cosine, self._start(cosine), LOOSE_GAIN * 1e-4)
        return self.family.with_parameters(float(np.exp(best[0])), float(best[1]))

    def leave_one_out(
        self, scores: Floats, labels: Floats, weights: Floats, groups: Groups | None = None
    ) -> Floats:
        """F̄₍₋ᵢ₎(s_i): the curve at each row, had its label not been among those that made it.

        Leaving label i out divides the weight of curve k by p_k(y_i)^½, and moves its offset back
        by what the label's own slope had moved it, V_k·½·∂log p_k(y_i)/∂β. The slopes κ and c are
        integrated over a grid that stays where it is.

        Parameters
        ----------
        scores, labels, weights : (n,) arrays
            Standard leave-one-out scores, labels of 0.0 and 1.0, weights of mean one.
        groups : Groups, optional
            Rows whose labels are left out together.

        Returns
        -------
        ndarray of shape (n,)
        """
        found = np.empty(len(scores))
        together = np.arange(len(scores)) if groups is None else groups.codes
        most = max(1, plan.BLOCK_ENTRIES // len(self.curves.slopes))
        for rows in whole_groups(together, np.arange(len(scores)), most):
            given = (scores[rows], labels[rows], weights[rows])
            found[rows] = self._without_own(*given, None if groups is None else together[rows])
        return found

    def _without_own(
        self, scores: Floats, labels: Floats, weights: Floats, together: np.ndarray | None
    ) -> Floats:
        """F̄₍₋ᵢ₎(s_i) of some rows, each without all that have its number in ``together``."""
        found = self.curves
        count = self.belief.labels_count_for / self.effect * weights
        noises = np.hypot(found.noises, found.deviations)
        deviations, shares = found.deviations[:, None], found.weights[:, None]
        centers = np.multiply.outer(found.slopes, scores) + found.offsets[:, None]
        at = _evaluator(self.family, centers, noises, found.deviations)
        p, rates = at(centers)
        p = _floored(p)
        own = np.where(labels == 1.0, p, 1.0 - p)
        pull = (labels - p) * rates / (p * (1.0 - p))
        lost, pull = count * np.log(own), count * pull
        if together is not None:
            _, starts, places = np.unique(together, return_index=True, return_inverse=True)
            lost, pull = (np.add.reduceat(part, starts, axis=1)[:, places] for part in (lost, pull))
        shifts = np.clip(deviations**2 * pull, -deviations, deviations)
        logs = np.log(shares) - lost
        shares = np.exp(logs - logs.max(axis=0))
        shares /= shares.sum(axis=0)
        moved, _ = at(centers - shifts)
        return np.clip(np.sum(shares * moved, axis=0), 0.0, 1.0)

    # -- how it is integrated --------------------------------------------------------------------

    def _start(self, cosine: float) -> Floats:
        """(log κ, β) to begin with; for scores that lie far out, those that bring them back.

        From far out a step of Newton's method may end where every p is at its floor, which has no
        slope to come back by.
        """
        order = np.argsort(self.bins.nodes)
        share = np.cumsum(self.bins.total[order])
        quartiles = np.searchsorted(share, np.array([0.25, 0.5, 0.75]) * share[-1])
        low, median, high = self.bins.nodes[order][quartiles]
        # Quartiles of a normal variable are 1.349 standard deviations apart. In units of ‖ŵ‖_Σ
        # median and spread are small unless center or covariance are not those of these rows.
        spread = (high - low) / 1.349
        if abs(median) <= 2.0 and spread <= 4.0:
            return np.array([self.belief.log_scale, 0.0])
        log_scale = max(self.belief.log_scale - np.log(max(spread, 1.0)), LOG_SCALES[0])
        return np.array([log_scale, -np.exp(log_scale) * cosine * median])

    def _optimum(
        self, cosine: float, start: Floats, gain: float, limit: float = np.inf
    ) -> tuple[Evaluation, Floats]:
        """(evaluation, (log κ, β)) of highest density at one cosine, η's weak prior left out."""
        return fisher_scoring(
            lambda theta: self._density(theta, cosine), start, LOG_SCALES, gain, limit
        )

    def _density(self, theta: Floats, cosine: float) -> tuple[float, Floats, Floats]:
        """−log density of (log κ, β) at one cosine, its gradient and Fisher information.

        ∂F/∂log κ = a·s·F_m + τ²·F_mm, by the heat equation.
        """
        belief, bins = self.belief, self.bins
        scale = float(np.exp(theta[0]))
        slope, noise = scale * cosine, scale * noise_share(cosine)
        part = slope * bins.nodes
        p, dp, bend = self.family.jet(part + theta[1], noise)
        p = _floored(p)
        spread = p * (1.0 - p)
        columns = np.array([part * dp + noise**2 * bend, dp])
        value = -float(bins.positive @ np.log(p) + bins.negative @ np.log1p(-p))
        gradient = columns @ ((bins.total * p - bins.positive) / spread)
        information = columns @ (columns * (bins.total / spread)).T
        count = belief.labels_count_for
        off = (theta[0] - belief.log_scale) / belief.log_scale_sd
        gradient, information = count * gradient, count * information
        gradient[0] += off / belief.log_scale_sd
        information[0, 0] += 1.0 / belief.log_scale_sd**2
        information[1, 1] += np.finfo(float).tiny  # where every p is at its floor, β stays
        return count * value + 0.5 * float(off**2), gradient, information

    def _along(
        self, cosine: float, start: Floats, log_share: float, least: float
    ) -> tuple[float, Floats, Curves]:
        """(−log density, (log κ, β)) of the best at one cosine, and the curves about it.

        ``least`` is the best at other cosines: the search ends where there is no hope to reach it.
        """
        belief = self.belief
        limit = least + 2.0 * HOPELESS
        (value, _, information), best = self._optimum(cosine, start, LOOSE_GAIN, limit)
        (kk, kb), (_, bb) = information
        left = kk - kb**2 / bb if bb > 0 else kk
        deviation = 1.0 / np.sqrt(max(left, 1.0 / belief.log_scale_sd**2))
        log_scales = best[0] + deviation * np.array(DEVIATIONS)
        about = self._about(cosine, log_scales, best, np.log(deviation) + log_share)
        return value, best, about

    def _about(self, cosine: float, log_scales: Floats, best: Floats, log_measure: float) -> Curves:
        """The curve of every κ, averaged over β about its optimum, with its log weight."""
        scales, bins = np.exp(log_scales), self.bins
        slopes, noises = scales * cosine, scales * noise_share(cosine)
        widths, belief, count_for = _width(noises), self.belief, self.belief.labels_count_for
        # The offset grows with the width of the curve.
        offsets = widths * best[1] / _width(np.exp(best[0]) * noise_share(cosine))
        priors = 1.0 / (belief.offset_sd * widths) ** 2
        p, rates = values_and_slopes(
            self.family, slopes[:, None] * bins.nodes + offsets[:, None], noises
        )
        p = _floored(p)
        pulls = rates / (p * (1.0 - p))
        gradients = count_for * np.sum((bins.positive - bins.total * p) * pulls, axis=1)
        gradients -= priors * offsets
        precisions = count_for * ((rates * pulls) @ bins.total) + priors
        deviations = 1.0 / np.sqrt(precisions)
        # A step of Newton's method from a good guess, and its gain without another look; a short
        # one, as curves that are nearly steps have no curvature to go by.
        moves = np.clip(gradients * deviations**2, -deviations, deviations)
        likelihoods = np.log(p) @ bins.positive + np.log1p(-p) @ bins.negative
        with np.errstate(over="ignore"):  # an offset beyond all numbers has no weight
            log_weights = count_for * likelihoods - 0.5 * priors * offsets**2
        log_weights += gradients * moves - 0.5 * precisions * moves**2
        off = (log_scales - belief.log_scale) / belief.log_scale_sd
        log_weights += np.log(deviations / widths) - 0.5 * off**2 + log_measure
        cosines = np.full(len(scales), cosine)
        return Curves(log_weights, cosines, slopes, offsets + moves, noises, deviations)


def link_posterior(
    family: Link,
    standard_scores: Floats,
    labels: Floats,
    case_weights: Floats,
    known: Angle | None = None,
    belief: Belief = BELIEF,
    effect: float = 1.0,
) -> LinkPosterior:
    """π of a family, given labels at their leave-one-out scores.

    Parameters
    ----------
    family : Link
        Its scale and offset are ignored: they are what is estimated.
    standard_scores, labels, case_weights : (n,) arrays
        Leave-one-out scores in units of ‖ŵ‖_Σ.
    known : Angle, optional
        An angle from elsewhere (given, or observable) with its standard error.
    belief : Belief, optional
    effect : float, optional
        Labels that say as much as one independent label.

    Examples
    --------
    >>> from angcal.links import Logit
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=400)
    >>> labels = (rng.random(400) < Logit(2.0)(scores)).astype(float)
    >>> found = link_posterior(Logit(), scores, labels, np.ones(400))
    >>> bool(0.0 < found.interval(0.95)[0] < found.cosine <= 1.0)
    True
    """
    weights = case_weights / np.mean(case_weights)
    base = family.with_parameters(1.0, 0.0)
    bins = bin_scores(standard_scores, labels, weights / effect)
    return LinkPosterior(base, bins, known, belief, effect)


def values_and_slopes(family: Link, centers: Floats, noises: Floats) -> tuple[Floats, Floats]:
    """F and F′ of F(m) = E base(m + τZ) for rows of centers m, each row with a noise τ of its own.

    Good to 1e-8.
    """
    mixture = family.mixture
    if mixture is not None:
        return mixture.values_and_slopes(centers, noises)
    jets = [family.jet(row, float(noise)) for row, noise in zip(centers, noises, strict=True)]
    return np.array([jet[0] for jet in jets]), np.array([jet[1] for jet in jets])


def _evaluator(
    family: Link, centers: Floats, noises: Floats, margins: Floats
) -> Callable[[Floats], tuple[Floats, Floats]]:
    """`values_and_slopes` of these curves at all centers that are moved by at most a margin."""
    if family.mixture is not None:
        ends = centers.min(axis=1) - margins, centers.max(axis=1) + margins
        found = Quintics.where_fewer(family.mixture, *ends, noises, centers.shape[1])
        if found is not None:
            return found.values_and_slopes
    return lambda moved: values_and_slopes(family, moved, noises)


def _floored(p: Floats) -> Floats:
    """One impossible label must not decide everything."""
    return np.minimum(np.maximum(p, PROBABILITY_FLOOR), 1.0 - PROBABILITY_FLOOR)


def _width(noise: Floats) -> Floats:
    """√(1 + τ²/3): how wide a logistic curve is that noise τ has smoothed."""
    return np.sqrt(1.0 + noise**2 / 3.0)
