r"""What follows from cosine, norm and intercept: losses, accuracy and calibration error.

Sums over s ~ N(0, 1) on a fine grid. F is the probability given the score, H the entropy:

    calibrated log-loss E[H(F)]      accuracy E max(F, 1−F)      Brier E[F(1−F)]
    plain log-loss E[−F log p − (1−F) log(1−p)], p = σ(b + σ_b z + q·s), z ~ N(0, 1)
    plain ECE E|p − F|               Brier E[(p − F)² + F(1−F)]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, expit, ndtr

from angcal._typing import Floats
from angcal.losses import Logistic, Loss, ProbitLikelihood
from angcal.theory.channel import ONE, ZERO, Labels, grid, moved


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The best that any map of the score can do, (B,) each."""

    log_loss: Floats
    accuracy: Floats
    brier: Floats


def calibrated(labels: Labels, cosine: Floats, step: float = 0.01) -> Calibrated:
    """Losses and accuracy of F, the probability given the score."""
    s, weights = grid(step)
    F, _ = labels.curve(cosine, s)
    return Calibrated(
        (entr(F) + entr(1.0 - F)) @ weights,
        np.maximum(F, 1.0 - F) @ weights,
        (F * (1.0 - F)) @ weights,
    )


@dataclass(frozen=True, eq=False)
class Plain:
    """What the fit's own probabilities do on new rows, (B,) each; NaN where it has none."""

    log_loss: Floats
    accuracy: Floats
    brier: Floats
    ece: Floats


def plain(
    labels: Labels, cosine: Floats, norm: Floats, b: Floats, b_sd: Floats, step: float = 0.02
) -> Plain:
    """Losses, accuracy and calibration error of σ(b + q·s), averaged over the error of b."""
    s, weights = grid(step)
    F, _ = labels.curve(cosine, s)
    places, shares = np.polynomial.hermite_e.hermegauss(9)
    shares = shares / shares.sum()
    sums = np.zeros((3, len(norm)))
    for z, share in zip(places, shares, strict=True):
        u = (b + z * b_sd)[:, None] + norm[:, None] * s
        p, lost = _probabilities(labels.loss, u, F)
        parts = (lost, (p - F) ** 2 + F * (1.0 - F), np.abs(p - F))
        sums += share * np.array([part @ weights for part in parts])
    # P(u > 0) over the error of b; within the cell where u changes sign it is shared out.
    center = b[:, None] + norm[:, None] * s
    width = np.hypot(b_sd, norm * step / np.sqrt(2.0 * np.pi))[:, None]
    above = ndtr(center / width)
    right = (F * above + (1.0 - F) * (1.0 - above)) @ weights
    return Plain(sums[0], right, sums[1], sums[2])


def _probabilities(loss: Loss, u: Floats, F: Floats) -> tuple[Floats, Floats]:
    """(p, expected log-loss) at scores u: of losses that are likelihoods, NaN of others."""
    if not isinstance(loss, Logistic | ProbitLikelihood):
        return np.full_like(u, np.nan), np.full_like(u, np.nan)
    lost = F * loss.value(u, ONE) + (1.0 - F) * loss.value(u, ZERO)
    return (ndtr(u) if isinstance(loss, ProbitLikelihood) else expit(u)), lost


@dataclass(frozen=True, eq=False)
class InSample:
    """What the training rows show, (B,) each."""

    loss: Floats
    score_sd: Floats


def in_sample(labels: Labels, cosine: Floats, norm: Floats, gamma: Floats, b: Floats) -> InSample:
    """Mean loss and spread of the scores of rows that the fit has seen."""
    s, weights = labels.nodes(norm, cosine, finest=0.05)
    F, _ = labels.curve(cosine, s)
    scores, step, loss = b[:, None] + norm[:, None] * s, gamma[:, None], labels.loss
    u1, u0 = (moved(loss, scores, label, step) for label in (ONE, ZERO))
    value = F * loss.value(u1, ONE) + (1.0 - F) * loss.value(u0, ZERO)
    mean = (F * u1 + (1.0 - F) * u0) @ weights
    square = (F * u1**2 + (1.0 - F) * u0**2) @ weights
    return InSample(value @ weights, np.sqrt(np.maximum(square - mean**2, 0.0)))
