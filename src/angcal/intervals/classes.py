"""What a fit of three and more classes knows, by draws; see :mod:`angcal.intervals`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit, ndtr, softmax

from angcal._typing import Floats
from angcal.intervals.mixture import Law, Mixture
from angcal.intervals.two_classes import SURE, ChanceLaw
from angcal.link_posterior import BELIEF
from angcal.multiclass import ClassCalibration, MulticlassPredictor
from angcal.multiclass.integration import Noise, noise_of, sobol_rule
from angcal.multiclass.posterior import cosine_shares, typical_spread

CLASS_INFLATION, CLASS_ROW_STRETCH = 2.0, 1.5
"""What leave-one-out scores, which depend on each other, add to the variance of the map; and as
`ROW_STRETCH` of two classes. Without either, intervals of the curve held 76 % and those of rows
90 % at 90 %, and 38 % and 35 % at 50 %, over the same kind of seeds."""
LARGEST_SCALE = float(np.exp(BELIEF.log_scale + 2.0 * BELIEF.log_scale_sd))
"""Of κ for three and more classes: an observable cosine may be lower than any κ allows."""
DRAWS, DRAW_GROUPS = 64, 4
"""Sobol points in a group, which has their mirror images too, and groups."""


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
