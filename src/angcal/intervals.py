r"""Two intervals of a probability: where the curve may lie, and where the row's own one may.

**Of the curve.** F(s), the calibrated probability of rows with score s, is known as well as n
labels tell slope and offset. On the scale of the logit it is nearly normal, with the mean and the
variance that :mod:`angcal.link_posterior` gives it,

    logit F(s) ~ N(m, t·E[V·(∂logit F/∂β)²] + t·(1 + C/I)·Var(logit F))

The first part is the offset's, the second that of slope and noise; t is the power with which labels
count there, and undone here. 1 + C/I is what leave-one-out scores that depend on each other add to
the variance of a slope (:func:`~angcal.angle.loo_information`); an offset has no such part, because
residuals sum to zero. At a known link the cosine is all there is to know, and its standard error is
the source of the variance.

**Of the row.** Given the score, the true index is normal, so that a row's own probability is

    P(y = 1 | x) = base(a·s + β + τZ),   a = κc,  τ = κ√(1 − c²)

and its quantiles are base of those of a mixture of normals over what is known of (a, β, τ). Where
labels alone leave the angle open that mixture is wide; a covariance or a pool narrows it.

**Three and more classes.** The same by draws with a fixed seed from the posterior of the map
softmax(h) (:mod:`angcal.multiclass.posterior`). For a row h is stretched to √(1 + τ²/3)·h and gets
noise of standard deviation τ back, which leaves its mean probability as it is.

**Averages** of several models have the mixture of their models' laws, each with its share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit, ndtr, ndtri, softmax

from angcal._typing import Floats
from angcal.calibrate import Calibration
from angcal.covariance import ScoreScale
from angcal.curve import ConstantCurve, noise_share
from angcal.link_posterior import BELIEF, HERMITE, Curves, values_and_slopes
from angcal.links import Link
from angcal.links.quadrature import normal_density
from angcal.multiclass import ClassCalibration, MulticlassPredictor
from angcal.multiclass.integration import Noise, noise_of, sobol_rule
from angcal.multiclass.posterior import cosine_shares, typical_spread

KINDS = ("curve", "row")
STEPS_MISS = 1.0 / 0.924
"""Five steps of one standard deviation have so much less variance than a normal law."""
ROW_STRETCH = 1.2
"""Of a row's law where labels alone tell the angle. One angle is the true one, and a mixture of
many has more in its middle than any of them: at κ = 3 and few labels it held 45 to 48 % of rows at
a confidence of 50 %, on seeds that no test uses (docs/intervals.md)."""
CLASS_INFLATION, CLASS_ROW_STRETCH = 2.0, 1.5
"""The same for three and more classes, and what their leave-one-out scores, which depend on each
other too, add to the variance of the map. Without either, intervals of the curve held 76 % and
those of rows 90 % at 90 %, and 38 % and 35 % at 50 %, over the same kind of seeds."""
LARGEST_SCALE = float(np.exp(BELIEF.log_scale + 2.0 * BELIEF.log_scale_sd))
"""Of κ for three and more classes: an observable cosine may be lower than any κ allows."""
SURE = 1e-8
"""Logits are taken of probabilities within [this, 1 − this]: the smoothed link is no better."""
DRAWS, DRAW_GROUPS = 64, 4
"""Sobol points in a group, which has their mirror images too, and groups."""
ROWS_AT_ONCE = 1 << 10
TABLE_REACH, TABLE_NODES = 8.0, 2049
"""In standard deviations of the score: ends of more rows are interpolated between so many."""


# -- a law on the scale of the index ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k w_k N(m_k, s_k²), one for each row and class.

    Attributes
    ----------
    weights : (k,) array
        w, summing to 1.
    means, spreads : (..., k) arrays
        m and s; draws have spreads of 0.
    """

    weights: Floats
    means: Floats
    spreads: Floats

    def quantile(self, level: float) -> Floats:
        """q with Σ_k w_k Φ((q − m_k)/s_k) = level."""
        ends = self.means + ndtri(level) * self.spreads
        if len(self.weights) == 1:
            return ends[..., 0]
        if not np.any(self.spreads):
            return self._of_draws(level)
        # It lies between the quantiles of the parts; Newton's method, halving where it leaves.
        low, high = ends.min(axis=-1), ends.max(axis=-1)
        spreads, place = np.maximum(self.spreads, np.finfo(float).tiny), ends @ self.weights
        is_open = np.ones(place.shape, dtype=bool)
        for _ in range(60):
            with np.errstate(over="ignore"):
                steps = (place[..., None] - self.means) / spreads
            miss = ndtr(steps) @ self.weights - level
            low, high = np.where(miss < 0, place, low), np.where(miss < 0, high, place)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                following = place - miss / ((normal_density(steps) / spreads) @ self.weights)
            inside = (following > low) & (following < high)
            following = np.where(inside, following, 0.5 * (low + high))
            # Each row stops by itself, so that its ends do not depend on the rows beside it.
            moved, place = np.abs(following - place), np.where(is_open, following, place)
            is_open &= moved > 1e-7
            if not is_open.any():
                break
        return place

    def _of_draws(self, level: float) -> Floats:
        order = np.argsort(self.means, axis=-1)
        below = np.cumsum(self.weights[order], axis=-1)
        place = np.sum(below < level, axis=-1, keepdims=True)
        place = np.minimum(place, len(self.weights) - 1)
        ranked = np.take_along_axis(order, place, axis=-1)
        return np.take_along_axis(self.means, ranked, axis=-1)[..., 0]


def pooled(shares: Sequence[float], mixtures: Sequence[Mixture]) -> Mixture:
    """Σ_λ π_λ·mixture_λ."""
    if len(mixtures) == 1:
        return mixtures[0]
    weights = [share * each.weights for share, each in zip(shares, mixtures, strict=True)]
    spreads = [np.broadcast_to(each.spreads, each.means.shape) for each in mixtures]
    means = [each.means for each in mixtures]
    return Mixture(
        np.concatenate(weights), np.concatenate(means, axis=-1), np.concatenate(spreads, axis=-1)
    )


class Law(ABC):
    """What a fit knows of F and of a row's own probability, given its scores."""

    @abstractmethod
    def curve(self, scores: Floats) -> Mixture:
        """Of logit F, for each row and class."""

    @abstractmethod
    def row(self, scores: Floats) -> Mixture:
        """Of the index of a row's own probability."""

    def row_probability(self, index: Floats) -> Floats:
        """From that index to the probability; a logit unless said otherwise."""
        return expit(index)


# -- two classes -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TwoClassLaw(Law):
    """What a fit knows of F and of a row's own probability, given the score.

    Attributes
    ----------
    family : Link
        base, of scale 1 and offset 0.
    scale : ScoreScale
    curves : Curves
        (w, c, a, β, τ, √V) of the curves that are averaged.
    offset_share, slope_share : float
        What of the variance of β, and of that between the curves, is the labels' own.
    row_stretch : float
        By how much the law of a row is wider than the mixture.
    """

    family: Link
    scale: ScoreScale
    curves: Curves
    offset_share: float = 1.0
    slope_share: float = 1.0
    row_stretch: float = 1.0

    def curve(self, scores: Floats) -> Mixture:
        """N(m, s²) of logit F."""
        found, s = self.curves, self.scale.standardize(scores)
        centers = np.multiply.outer(found.slopes, s) + found.offsets[:, None]
        p, rates = values_and_slopes(self.family, centers, found.noises)
        p = np.clip(p, SURE, 1.0 - SURE)
        logits, rates = logit(p), rates / (p * (1.0 - p))
        mean = found.weights @ logits
        of_offset = found.weights @ (found.deviations[:, None] * rates) ** 2
        between = found.weights @ (logits - mean) ** 2
        variance = self.offset_share * of_offset + self.slope_share * between
        return Mixture(np.ones(1), mean[:, None], np.sqrt(variance)[:, None])

    def row(self, scores: Floats) -> Mixture:
        """Σ_k w_k N(a_k·s + β_k, τ_k² + V_k) of the index."""
        found, s = self.curves, self.scale.standardize(scores)
        means = np.multiply.outer(s, found.slopes) + found.offsets
        center = (means @ found.weights)[:, None]
        spreads = np.hypot(found.noises, np.sqrt(self.offset_share) * found.deviations)
        stretched = np.broadcast_to(self.row_stretch * spreads, means.shape)
        return Mixture(found.weights, center + self.row_stretch * (means - center), stretched)

    def row_probability(self, index: Floats) -> Floats:
        """base(index)."""
        return self.family.base(index)


def two_class_law(result: Calibration) -> Law:
    """The law of a calibration: by its posterior, its angle, or the prevalence alone."""
    family = result.link.with_parameters(1.0, 0.0)
    if isinstance(result.curve, ConstantCurve):
        labels = len(result.left_out.labels) / result.effect
        return ChanceLaw(np.array(result.curve.prevalence), labels)
    posterior = result.left_out.posterior
    if posterior is None:
        return TwoClassLaw(family, result.scale, _curves_of_angle(result))
    tempered = posterior.belief.labels_count_for
    slope_share = tempered * result.inflation * STEPS_MISS
    stretch = ROW_STRETCH if posterior.known is None else 1.0
    return TwoClassLaw(family, result.scale, posterior.curves, tempered, slope_share, stretch)


def _curves_of_angle(result: Calibration) -> Curves:
    """Those of a known link at cosines within the angle's error of its own."""
    angle, link = result.angle, result.link
    nodes = HERMITE if angle.standard_error > 0 else ((0.0, 1.0),)
    steps, weights = (np.array(part) for part in zip(*nodes, strict=True))
    cosines = np.clip(angle.cosine + angle.standard_error * steps, -1.0, 1.0)
    noises = link.scale * np.array([noise_share(c) for c in cosines])
    slopes = link.scale * cosines
    # A mean of m scores is known to 1/√m of their standard deviation.
    error = 0.0 if result.scale.center_rows == 0 else result.scale.center_rows**-0.5
    offsets = np.full(len(cosines), link.offset)
    return Curves(weights, cosines, slopes, offsets, noises, error * np.abs(slopes))


@dataclass(frozen=True, eq=False)
class ChanceLaw(Law):
    """Where scores say nothing: n labels tell shares, and nothing a row's own probability.

    Attributes
    ----------
    shares : () or (K,) array
        Of the second of two classes, or of each class.
    n_labels : float
        Independent ones: labels of groups over their design effect.
    """

    shares: Floats
    n_labels: float

    def curve(self, scores: Floats) -> Mixture:
        """logit p ± 1/√((n + 2)p(1 − p))."""
        p = np.asarray(self.shares)
        error = 1.0 / np.sqrt((self.n_labels + 2.0) * p * (1.0 - p))
        return _alike(len(scores), np.ones(1), logit(p)[..., None], error[..., None])

    def row(self, scores: Floats) -> Mixture:
        """N(√(1 + κ²/3)·logit p, κ²): a cosine of 0, and κ as before any label."""
        steps, weights = (np.array(part) for part in zip(*HERMITE, strict=True))
        scales = np.exp(BELIEF.log_scale + BELIEF.log_scale_sd * steps)
        means = np.sqrt(1.0 + scales**2 / 3.0) * logit(np.asarray(self.shares))[..., None]
        return _alike(len(scores), weights, means, np.broadcast_to(scales, means.shape))


def _alike(count: int, weights: Floats, means: Floats, spreads: Floats) -> Mixture:
    """The same law for every row."""
    rows = (np.broadcast_to(part, (count, *part.shape)) for part in (means, spreads))
    return Mixture(weights, *rows)


# -- three and more classes ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClassLaw(Law):
    """What a fit knows of softmax(h) and of a row's own probabilities, given its K scores.

    Attributes
    ----------
    theta : (1 + 2K,) array
        (log a, δ, e) of highest density.
    root : (q, q) array
        Its outer square is the covariance of the first q entries.
    means : (K,) array
        m, of the scores about their mean over the classes.
    noise : Noise
        L, whose outer square is the covariance of the scores in units of ``unit``.
    unit : float
        Typical standard deviation of the difference of two scores.
    cosine, cosine_error : float or None
        Of all indices with their scores; None where labels alone tell.
    """

    theta: Floats
    root: Floats
    means: Floats
    noise: Noise
    unit: float
    cosine: float | None
    cosine_error: float | None

    def curve(self, scores: Floats) -> Mixture:
        """Draws of logit F_k."""
        slopes, offsets, _, _ = self._maps()
        return _draws_of(scores, slopes, offsets)

    def row(self, scores: Floats) -> Mixture:
        """Draws of the logit of a row's own probabilities."""
        slopes, offsets, alphas, nodes = self._maps()
        cosines, r = self._cosines(alphas, nodes[:, 0]), len(self.noise.spreads)
        room = cosines**2 - alphas**2 * (1.0 - cosines**2) / 3.0
        taus = alphas * np.sqrt((1.0 - cosines**2) / room)
        widths = np.sqrt(1.0 + taus**2 / 3.0)[:, None]
        noise = taus[:, None] * (nodes[:, 1 : 1 + r] @ self.noise.factor.T)
        stretch = CLASS_ROW_STRETCH if self.cosine is None else 1.0
        maps = (_stretched(part, stretch) for part in (widths * slopes, widths * offsets + noise))
        return _draws_of(scores, *maps)

    def _maps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(slopes, offsets, α = a·unit, normals that are left) of each draw."""
        q, K = len(self.root), len(self.means)
        nodes = sobol_rule(1 + len(self.noise.spreads) + q, DRAWS, DRAW_GROUPS).nodes
        drawn = np.tile(self.theta, (len(nodes), 1))
        drawn[:, :q] += nodes[:, -q:] @ self.root.T
        a, delta, e = np.exp(drawn[:, :1]), drawn[:, 1 : 1 + K], drawn[:, 1 + K :]
        return a * (1.0 + e), delta - a * e * self.means, self.unit * a[:, 0], nodes

    def _cosines(self, alphas: Floats, normals: Floats) -> Floats:
        """A cosine for each draw, at which κ is finite."""
        if self.cosine is None or self.cosine_error is None:
            nodes, shares = cosine_shares(alphas)
            place = np.sum(np.cumsum(shares, axis=1) < ndtr(normals)[:, None], axis=1)
            return nodes[np.minimum(place, len(nodes) - 1)]
        bends = alphas**2 / 3.0
        least = np.sqrt((bends + (alphas / LARGEST_SCALE) ** 2) / (1.0 + bends))
        found = self.cosine + self.cosine_error * normals
        return np.clip(found, np.minimum(least, 1.0), 1.0)


def _stretched(draws: Floats, factor: float) -> Floats:
    """Further from their mean by a factor."""
    mean = draws.mean(axis=0)
    return mean + factor * (draws - mean)


def _draws_of(scores: Floats, slopes: Floats, offsets: Floats) -> Mixture:
    """Logits of each class's softmax(slopes∘u + offsets), one draw for each row of both."""
    u = scores - scores.mean(axis=1, keepdims=True)
    return _class_draws(softmax(u[:, None, :] * slopes + offsets, axis=2))


def _class_draws(p: Floats) -> Mixture:
    """Draws of logits, of (n, draws, K) probabilities."""
    p = np.clip(np.swapaxes(p, 1, 2), np.finfo(float).tiny, 1.0 - np.finfo(float).eps)
    count = p.shape[2]
    return Mixture(np.full(count, 1.0 / count), logit(p), np.zeros(1))


@dataclass(frozen=True, eq=False)
class KnownClassLaw(Law):
    """The same where the link of three and more classes is known.

    Attributes
    ----------
    predictor : MulticlassPredictor
    moved : tuple of MulticlassPredictor
        With angles that are off by one standard error along each axis of their error.
    """

    predictor: MulticlassPredictor
    moved: tuple[MulticlassPredictor, ...]

    def curve(self, scores: Floats) -> Mixture:
        """N(m, s²) of logit F_k, s² = Σ over the axes of (logit F_k − m)²."""
        center = _logit(self.predictor.predict(scores))
        away = [_logit(each.predict(scores)) - center for each in self.moved]
        spread = np.sqrt(np.sum(np.square(away), axis=0)) if away else np.zeros_like(center)
        return Mixture(np.ones(1), center[..., None], spread[..., None])

    def row(self, scores: Floats) -> Mixture:
        """Draws of the logit of g(M·S + β + LZ)."""
        noise = self.predictor.noise
        nodes = sobol_rule(max(len(noise.spreads), 1), DRAWS, DRAW_GROUPS).nodes
        shifts = nodes[:, : len(noise.spreads)] @ noise.factor.T
        means = self.predictor.means(scores)
        n, K = means.shape
        p = self.predictor.link((means[:, None, :] + shifts).reshape(-1, K))
        return _class_draws(p.reshape(n, len(shifts), K))


def _logit(p: Floats) -> Floats:
    return logit(np.clip(p, SURE, 1.0 - SURE))


def class_law(result: ClassCalibration) -> Law:
    """The law of a calibration of three and more classes."""
    posterior, angle = result.posterior, result.angle
    if isinstance(result.map, MulticlassPredictor):
        return KnownClassLaw(result.map, result.moved)
    if posterior is None:
        shares = result.map.predict(np.zeros((1, result.map.slopes.shape[1])))[0]
        return ChanceLaw(shares, len(result.left_out.calibrated) / result.effect)
    theta, information = posterior.mode
    # Scores without bound leave a matrix that is positive definite but for rounding.
    values, vectors = np.linalg.eigh(information)
    root = vectors * np.sqrt(CLASS_INFLATION / np.maximum(values, 1e-14 * values[-1]))
    unit = typical_spread(posterior.scores, posterior.weights)
    cosine: float | None = None
    error: float | None = None
    if angle.method == "observable":
        # One for all: a softmax compares classes, and what noise does to a pair is shared.
        cosine = float(np.diag(angle.cosine).mean())
        error = float(np.diag(angle.standard_error).mean())
    noise = noise_of(posterior.score_covariance / unit**2)
    return ClassLaw(theta, root, posterior.means, noise, unit, cosine, error)


# -- the ends --------------------------------------------------------------------------------


def interval_law(result: Calibration | ClassCalibration) -> Law:
    """What a fitted classifier keeps for its intervals; its size does not grow with the rows."""
    return two_class_law(result) if isinstance(result, Calibration) else class_law(result)


def check_interval(kind: Any, confidence: Any) -> None:
    """Refuse what is no kind of interval or no level."""
    if kind not in KINDS:
        raise ValueError(
            f"kind={kind!r} must be 'curve' (of the calibrated probability of rows with this "
            "score) or 'row' (of the row's own probability)."
        )
    if not isinstance(confidence, Real) or not 0.0 < float(confidence) < 1.0:
        raise ValueError(
            f"confidence={confidence!r} must lie between 0 and 1, for example 0.9 for 90 %."
        )


def interval(
    shares: Sequence[float],
    laws: Sequence[Law],
    scores: Sequence[Floats],
    kind: str,
    confidence: float,
) -> Floats:
    """Equal-tailed ends, (n, 2) or (n, K, 2), of the mixture of several models' laws.

    Parameters
    ----------
    shares : (m,) sequence
        Of the models, summing to 1.
    laws : sequence of Law
    scores : sequence of (n,) or (n, K) arrays
        Each model's.
    kind : {"curve", "row"}
    confidence : float
    """
    first = laws[0]
    if len(laws) == 1 and isinstance(first, TwoClassLaw) and len(scores[0]) > TABLE_NODES:
        found = _by_table(first, scores[0], kind, confidence)
    else:
        starts = range(0, max(len(scores[0]), 1), ROWS_AT_ONCE)
        blocks = [[each[i : i + ROWS_AT_ONCE] for each in scores] for i in starts]
        found = np.concatenate([_ends(shares, laws, each, kind, confidence) for each in blocks])
    return expit(found) if kind == "curve" else first.row_probability(found)


def _ends(
    shares: Sequence[float],
    laws: Sequence[Law],
    scores: Sequence[Floats],
    kind: str,
    confidence: float,
) -> Floats:
    """On the scale of the laws."""
    mixtures = [getattr(law, kind)(each) for law, each in zip(laws, scores, strict=True)]
    mixture = pooled(shares, mixtures)
    levels = (0.5 - 0.5 * confidence, 0.5 + 0.5 * confidence)
    return np.stack([mixture.quantile(level) for level in levels], axis=-1)


def _by_table(law: TwoClassLaw, scores: Floats, kind: str, confidence: float) -> Floats:
    """Of many rows: interpolated between scores a 128th of a standard deviation apart."""
    s = law.scale.standardize(scores)
    inside = np.abs(s) <= TABLE_REACH
    found = np.empty((len(s), 2))
    found[inside] = table_of_ends(law, kind, confidence)(s[inside])
    if not inside.all():
        found[~inside] = _ends([1.0], [law], [scores[~inside]], kind, confidence)
    return found


def table_of_ends(law: TwoClassLaw, kind: str, confidence: float) -> CubicSpline:
    """Both ends, on the scale of the law, from standard scores within `TABLE_REACH`."""
    nodes = np.linspace(-TABLE_REACH, TABLE_REACH, TABLE_NODES)
    raw = law.scale.center + law.scale.norm * nodes
    blocks = np.array_split(raw, TABLE_NODES // ROWS_AT_ONCE + 1)
    at_nodes = np.concatenate([_ends([1.0], [law], [part], kind, confidence) for part in blocks])
    return CubicSpline(nodes, at_nodes)
