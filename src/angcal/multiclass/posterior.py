r"""What labels say about the map from scores to probabilities, and what to average it over.

With s_i the scores of row i without its own label, about their mean over the classes,

    P(y = k | s) = softmax_k(h),   h_k = a·(s_k + e_k(s_k − m_k)) + δ_k,   m_k the mean of s_k

    log a ~ N(0, 0.7²) below 0 and N(0, 1.5²) above,   δ_k ~ N(0, ½²),   e_k ~ N(0, 0.1²)

The prior is the base model's own map, a = 1 and δ = e = 0; labels move it as far as they are many.
It is wider above: a strong penalty shrinks scores without bound, overfitting stretches them less.
a alone is temperature scaling. Where labels are few, δ and e stay near zero.

Noise that an angle calls for, E_Z softmax(h + LZ), is left out: labels cannot tell it from a
smaller a, and no probability is the better for it (docs/multiclass.md). Predictions average over a,
at steps of its posterior standard deviation, δ and e moving along with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import softmax

from angcal import plan
from angcal._typing import Floats
from angcal.leverages.groups import Groups
from angcal.link_posterior import BELIEF, DEVIATIONS
from angcal.links.multiclass import Softmax
from angcal.multiclass.class_map import ClassMap
from angcal.solvers.fisher_scoring import fisher_scoring


@dataclass(frozen=True, eq=False)
class ClassPosterior:
    """The posterior of (log a, δ, e); see the module.

    Attributes
    ----------
    scores : (n, K) array
        s.
    codes : (n,) array of int
    weights : (n,) array
        Of mean one.
    log_slope : float, default=0
        Where log a is expected: 0 for scores that are logits of the classes.
    """

    scores: Floats
    codes: np.ndarray
    weights: Floats
    log_slope: float = 0.0

    @cached_property
    def _centered(self) -> Floats:
        return self.scores - self.scores.mean(axis=1, keepdims=True)

    @cached_property
    def means(self) -> Floats:
        """m."""
        return np.average(self._centered, axis=0, weights=self.weights)

    @property
    def score_covariance(self) -> Floats:
        """(K, K), of the scores about their mean over the classes."""
        away = self._centered - self.means
        return (away * self.weights[:, None]).T @ away / self.weights.sum()

    @property
    def n_classes(self) -> int:
        """K."""
        return self.scores.shape[1]

    @cached_property
    def _own(self) -> Floats:
        own = np.zeros(self.scores.shape)
        own[np.arange(len(own)), self.codes] = 1.0
        return own

    def _precisions(self, theta: Floats) -> Floats:
        """Diagonal of the prior's precision, on this side of the expected slope."""
        # Deviations of log a, below what is expected and above, of δ and of e. Chosen on 44
        # designs of 14 datasets (4 to 80 labels per class, 3 to 50 classes): mean held-out log-loss
        # over the better of plain and temperature scaling 0.984. δ within ±0.3 or ±1: +0.4 and 0 %;
        # without e +0.2 %, e within ±0.2 or ±0.4: +0.2 and +0.9 %; a about a typical scale: +0.1 %.
        # log a on 48 designs of 4 to 60 labels per class, 8 draws each: 0.936 at (0.7, 1.5); (1, 1)
        # 0.944, (1.5, 1.5) 0.938, (2, 2) 0.940, (1, 1.5) 0.937, (0.7, 2) 0.936, (0.5, 1.5) 0.935.
        slope_sd = 0.7 if theta[0] <= self.log_slope else 1.5
        K = self.n_classes
        return np.repeat([slope_sd, 0.5, 0.1], [1, K, K]) ** -2.0

    @property
    def _free(self) -> slice:
        """Entries of θ that are estimated: a alone where there are very many classes."""
        return slice(None if self.n_classes <= plan.MOST_SHIFTED_CLASSES else 1)

    @property
    def rises(self) -> bool:
        """Whether labels rise with the scores at all: whether there is a signal."""
        share = self.weights @ self._own / self.weights.sum()
        return bool(np.sum(self.weights[:, None] * (self._own - share) * self._centered) > 0)

    # -- the density ---------------------------------------------------------------------------

    def _parts(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """(h, ∂h/∂log a, ∂h/∂e), (n, K) each."""
        K, a = self.n_classes, float(np.exp(theta[0]))
        away = a * (self._centered - self.means)
        along = a * self._centered + theta[1 + K :] * away
        return along + theta[1 : 1 + K], along, away

    def _likely(self, theta: Floats) -> tuple[float, Floats, tuple[Floats, Floats, Floats]]:
        """−log density, its gradient, and (p, ∂h/∂log a, ∂h/∂e)."""
        h, along, away = self._parts(theta)
        h -= h.max(axis=1, keepdims=True)
        p = np.exp(h)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        value = float(self.weights @ (np.log(total[:, 0]) - h[np.arange(len(h)), self.codes]))
        miss = self.weights[:, None] * (p - self._own)
        slopes = ([np.sum(miss * along)], miss.sum(axis=0), np.sum(miss * away, axis=0))
        off = theta.copy()
        off[0] -= self.log_slope
        pull = self._precisions(theta) * off
        return value + 0.5 * float(off @ pull), np.concatenate(slopes) + pull, (p, along, away)

    def _evaluate(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """−log density of the entries that are estimated, its gradient and Fisher information."""
        whole = np.zeros(1 + 2 * self.n_classes)
        whole[self._free] = theta
        value, gradient, parts = self._likely(whole)
        information = self._information(*parts)
        information[np.diag_indices_from(information)] += self._precisions(whole)[self._free]
        return value, gradient[self._free], information

    def _information(self, p: Floats, along: Floats, away: Floats) -> Floats:
        """Σ_i ω_i Jᵀ(diag p − ppᵀ)J."""
        K = self.n_classes
        half = np.sqrt(self.weights)[:, None]
        pushed = half * p * (along - np.sum(p * along, axis=1, keepdims=True))
        first = np.sum(pushed * half * along)
        if self._free.stop == 1:
            return np.full((1, 1), first)
        found = np.empty((1 + 2 * K, 1 + 2 * K))
        found[0, 0] = first
        found[0, 1 : 1 + K] = np.sum(pushed * half, axis=0)
        found[0, 1 + K :] = np.sum(pushed * half * away, axis=0)
        rooted = half * p
        both = np.concatenate([rooted, rooted * away], axis=1)
        np.negative(both.T @ both, out=found[1:, 1:])
        each = half * rooted
        d, e = np.arange(1, 1 + K), np.arange(1 + K, 1 + 2 * K)
        found[d, d] += each.sum(axis=0)
        mixed = np.sum(each * away, axis=0)
        found[d, e] += mixed
        found[e, d] += mixed
        found[e, e] += np.sum(each * away**2, axis=0)
        found[1:, 0] = found[0, 1:]
        return found

    # -- what it says --------------------------------------------------------------------------

    @cached_property
    def mode(self) -> tuple[Floats, Floats]:
        """(θ, information) of highest density, by Newton's method."""
        start = np.zeros(1 + 2 * self.n_classes)
        start[0] = self.log_slope
        unbounded = (-np.inf, np.inf)
        (_, _, information), found = fisher_scoring(
            self._evaluate, start[self._free], unbounded, gain=1e-6
        )
        start[self._free] = found
        return start, information

    @cached_property
    def averaged(self) -> tuple[Floats, Floats]:
        """(shares, θ) of what predictions average over."""
        theta, information = self.mode
        along = np.zeros_like(theta)
        # No less than what was known before: a huge weight leaves of the rest its own rounding.
        values, vectors = np.linalg.eigh(information)
        values = np.maximum(values, self._precisions(theta)[self._free].min())
        along[self._free] = vectors @ (vectors[0] / values)
        # δ and e move along with a, as the normal law about the mode has them.
        places = theta + np.outer(np.array(DEVIATIONS) / np.sqrt(along[0]), along)
        losses = np.array([self._likely(place)[0] for place in places])
        return softmax(-losses), places

    @cached_property
    def map(self) -> ClassMap:
        """Mean of the map over the posterior of a."""
        shares, places = self.averaged
        K, a = self.n_classes, np.exp(places[:, :1])
        e, delta = places[:, 1 + K :], places[:, 1 : 1 + K]
        offsets = delta - a * e * self.means
        return ClassMap(Softmax(K), shares, a * (1.0 + e), offsets)

    def left_out_steps(self, groups: Groups | None = None) -> Floats:
        """By how much leaving a row's label out of this fit lowers the row's own h, (n, K).

        With groups, leaving out the labels of its group.

        J_iΩ⁻¹g_i/(1 − l_i), with g_i the row's part of the gradient, J_i = ∂h_i/∂θ, Ω the
        information, and l_i the share of the row's curvature along that step. From g_i the mean
        over the rows of its class is subtracted: another row of that class takes its place, so
        that counts of classes stay, as they do in the scores. Of a group what takes its place
        weighs what it does, as its rows may be one patient's however many they are.
        """
        theta, information = self.mode
        h, along, away = self._parts(theta)
        p, weights = softmax(h, axis=1), self.weights[:, None]
        pull = weights * (self._own - p)
        gradients = np.column_stack([np.sum(pull * along, axis=1), pull, pull * away])
        K, counts = self.n_classes, np.bincount(self.codes, minlength=self.n_classes)
        places = np.ones_like(weights) if groups is None else weights
        masses = np.maximum(places[:, 0] @ self._own, np.finfo(float).tiny)
        means = self._own.T @ gradients / masses[:, None]
        gradients = gradients - (counts > 1)[self.codes, None] * places * means[self.codes]
        if groups is not None:
            gradients = groups.sums(gradients)[groups.codes]
        moves = np.zeros_like(gradients)
        moves[:, self._free] = np.linalg.solve(information, gradients[:, self._free].T).T
        steps = moves[:, :1] * along + moves[:, 1 : 1 + K] + moves[:, 1 + K :] * away
        if groups is not None:
            return steps
        curved = weights * p * (steps - np.sum(p * steps, axis=1, keepdims=True))
        size = np.maximum(np.sum(pull**2, axis=1), np.finfo(float).tiny)
        share = np.clip(np.sum(curved * pull, axis=1) / size, 0.0, 0.9)
        return steps / (1.0 - share)[:, None]

    def cosines(self, unit: float) -> tuple[Floats, Floats]:
        r"""(values of c, probabilities): all indices at one cosine from their scores.

        A curve of the logistic link's scale κ at cosine c has the slope of

            α = κc/√(1 + κ²(1 − c²)/3)

        labels determine α = a·unit, and c is then as likely as the κ that goes with it.
        """
        shares, places = self.averaged
        nodes, likely = cosine_shares(unit * np.exp(places[:, 0]))
        return nodes, shares @ likely


def cosine_shares(alphas: Floats) -> tuple[Floats, Floats]:
    """(values of c, (m, values) shares): how likely each is at every slope α."""
    smallest = np.finfo(float).tiny  # of scores without a spread
    cosines, alpha = np.array(BELIEF.cosines), np.maximum(alphas, smallest)[:, None]
    room = cosines**2 - alpha**2 * (1.0 - cosines**2) / 3.0
    possible = room > 0
    kappa = alpha / np.sqrt(np.where(possible, room, 1.0))
    off = (np.log(kappa) - BELIEF.log_scale) / BELIEF.log_scale_sd
    # By logarithms: far from every expected scale all densities are no numbers.
    density = np.log1p(kappa**2 * (1.0 - cosines**2) / 3.0) - 0.5 * off**2
    return cosines, softmax(np.where(possible, density, -np.inf), axis=1)


def typical_spread(scores: Floats, weights: Floats) -> float:
    """Typical standard deviation of the difference of two classes' scores."""
    centered = scores - scores.mean(axis=1, keepdims=True)
    away = centered - np.average(centered, axis=0, weights=weights)
    variance = float(np.sum(weights @ away**2) / weights.sum()) / (scores.shape[1] - 1.0)
    return float(np.sqrt(2.0 * variance))


def class_posterior(
    scores: Floats,
    codes: np.ndarray,
    weights: Floats,
    *,
    are_logits: bool = True,
    groups: Groups | None = None,
) -> ClassPosterior:
    """The posterior, from as many rows as it takes: (n, K) scores that own labels have not touched.

    Scores that are no logits are expected on a typical scale. Labels of groups count for less.
    """
    weights = weights / np.mean(weights)
    log_slope = 0.0
    if not are_logits:
        unit = max(typical_spread(scores, weights), np.finfo(float).tiny)
        log_slope = BELIEF.log_scale - float(np.log(unit))
    found = ClassPosterior(scores, codes, weights, log_slope)
    if groups is None:
        return found
    left_out = found.map.predict(scores, -found.left_out_steps(groups))
    effect = groups.design_effect(np.eye(scores.shape[1])[codes] - left_out, weights)
    return replace(found, weights=weights / effect)
