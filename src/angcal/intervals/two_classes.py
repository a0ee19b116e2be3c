"""What a fit of two classes knows of its curve and of rows; see :mod:`angcal.intervals`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from angcal._typing import Floats
from angcal.calibrate import Calibration
from angcal.covariance import ScoreScale
from angcal.curve import ConstantCurve, noise_share
from angcal.intervals.mixture import Law, Mixture
from angcal.link_posterior import BELIEF, DEVIATIONS, HERMITE, Curves, values_and_slopes
from angcal.links import Link
from angcal.links.quadrature import normal_density

ROW_STRETCH = 1.2
"""Of a row's law where labels alone tell the angle. One angle is the true one, and a mixture of
many has more in its middle than any of them: at κ = 3 and few labels it held 45 to 48 % of rows at
a confidence of 50 %, on seeds that no test uses (docs/intervals.md)."""
SURE = 1e-8
"""Logits are taken of probabilities within [this, 1 − this]: the smoothed link is no better."""


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
    slope_share = tempered * result.inflation / _variance_of_steps()
    stretch = ROW_STRETCH if posterior.known is None else 1.0
    return TwoClassLaw(family, result.scale, posterior.curves, tempered, slope_share, stretch)


def _variance_of_steps() -> float:
    """Of steps of one standard deviation, weighed as by a normal law, which has more: 1."""
    steps = np.array(DEVIATIONS)
    weights = normal_density(steps)
    return float(weights @ steps**2 / weights.sum())


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
