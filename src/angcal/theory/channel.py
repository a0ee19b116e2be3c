r"""What one label does: expectations over the score of a row that the fit has not seen.

A fresh row has the score ũ = b + q·s, s ~ N(0, 1), correlated c with w*ᵀx, so that

    F(s) = P(y = 1 | s) = E_Z σ(c·s + √(1−c²)·Z)        G(s) = E_Z σ′(c·s + √(1−c²)·Z)

In the fit its own label y moves it to the u that solves u = ũ + γψ_y(u), ψ = −ℓ′; with Ψ_y = ψ_y(u)

    v = E[−∂Ψ/∂ũ]    r² = E[Ψ²]    t = E[G·(Ψ₁ − Ψ₀)]    m = E[Ψ]

Everything here is for many problems at once, one for each row of an array.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import entr, expit, ndtr

from angcal import plan
from angcal._typing import Floats
from angcal.links import Link
from angcal.losses import Exponential, Logistic, Loss, ProbitLikelihood, Squared

SMOOTH = (Logistic, ProbitLikelihood, Squared, Exponential)
"""Losses that are analytic, so that sums over equal steps converge exponentially."""
ZERO, ONE = np.zeros(()), np.ones(())
"""The two labels, as losses take them."""


def grid(step: float) -> tuple[Floats, Floats]:
    """Places s and weights φ(s)·step of a sum over a standard normal variable."""
    half = int(np.ceil(plan.NORMAL_REACH / step))
    s = np.asarray(step * np.arange(-half, half + 1), dtype=np.float64)
    weights = np.exp(-0.5 * s * s)
    return s, np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Labels:
    """P(y = 1 | w*ᵀx = g) = base(κg + β) of many problems, and the loss that is fitted."""

    link: Link  # The family
    scale: Floats  # (B,): κ and β
    offset: Floats  # (B,)
    loss: Loss

    def take(self, chosen: Any) -> Labels:
        """The problems of these numbers."""
        return replace(self, scale=self.scale[chosen], offset=self.offset[chosen])

    def curve(self, cosine: Floats, nodes: Floats) -> tuple[Floats, Floats]:
        """F and G at these nodes, (B, N) each."""
        # Differences in the other unknowns leave F alone: it is made once for each cosine.
        given = np.column_stack([cosine, self.scale, self.offset])
        distinct, places = np.unique(given, axis=0, return_inverse=True)
        if len(distinct) < len(given):
            few = replace(self, scale=distinct[:, 1], offset=distinct[:, 2])
            F, G = few.curve(distinct[:, 0], nodes)
            return F[places.ravel()], G[places.ravel()]
        center = (self.scale * cosine)[:, None] * nodes + self.offset[:, None]
        spread = self.scale * np.sqrt(np.maximum(1.0 - cosine**2, 0.0))
        if self.link.mixture is not None:
            F, slope = self.link.mixture.values_and_slopes(center, spread)
        else:
            unit = self.link.with_parameters(1.0, 0.0)
            F = unit.smooth(center, spread[:, None])
            slope = unit.smooth_derivative(center, spread[:, None])
        return np.clip(F, 0.0, 1.0), self.scale[:, None] * slope

    def steepness(self, cosine: Floats) -> Floats:
        """Slope of logit F, about."""
        noise = np.pi / 8.0 * self.scale**2 * (1.0 - cosine**2)
        return self.scale * np.abs(cosine) / np.sqrt(1.0 + noise)

    def channel(self, q: Floats, c: Floats, gamma: Floats, b: Floats) -> Channel:
        """v, r², t and m, for one q, c, γ and b of each problem."""
        return channel(self, q, c, gamma, b)

    def moved(self, norm: Floats, gamma: Floats, b: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Where the labels 1 and 0 take the scores b + norm·s, (B, N) each."""
        scores, step = b[:, None] + norm[:, None] * s, gamma[:, None]
        return moved(self.loss, scores, ONE, step), moved(self.loss, scores, ZERO, step)

    def nodes(self, norm: Floats, cosine: Floats, finest: float = 0.45) -> tuple[Floats, Floats]:
        """Places s and weights φ(s)·step that resolve every problem."""
        steepest = float(np.max(np.maximum(norm, self.steepness(cosine))))
        step = min(finest if isinstance(self.loss, SMOOTH) else 0.02, 1.1 / steepest)
        # Further ones would take seconds; such a fit has no meaning left.
        step = max(step, 2.0 * plan.NORMAL_REACH / 8000.0)
        return grid(step)


def moved(loss: Loss, scores: Floats, label: Floats, step: Floats) -> Floats:
    """u with u = ũ + γψ_y(u): where a label of its own takes each score.

    Newton's method between ũ and ũ + γψ(ũ). A step is bisected only where it leaves that bracket
    strictly: a converged score sits on its own end of it.
    """
    shape, base = scores.shape, scores.ravel()
    gamma = np.broadcast_to(step, shape).ravel()
    pull = -gamma * loss.gradient(base, label)
    low, high = np.minimum(base, base + pull), np.maximum(base, base + pull)
    u = base + pull / (1.0 + gamma * loss.hessian(base, label))
    last = np.full_like(u, np.inf)
    result, open_ones = u.copy(), np.arange(len(u))
    for _ in range(60):
        gap = u - base + gamma * loss.gradient(u, label)
        low, high = np.where(gap < 0, u, low), np.where(gap > 0, u, high)
        newer = u - gap / (1.0 + gamma * loss.hessian(u, label))
        size = np.abs(gap)
        # Steps that gain little go to and fro between the ends, but for rounding.
        idle = (size > 0.5 * last) & (size > 1e-10 * (1.0 + np.abs(base)))
        newer = np.where(idle | (newer < low) | (newer > high), 0.5 * (low + high), newer)
        result[open_ones] = newer
        moving = np.abs(newer - u) > 1e-11 * (1.0 + np.abs(u))
        if not moving.any():
            break
        u, last = newer[moving], size[moving]
        base, gamma, low, high = base[moving], gamma[moving], low[moving], high[moving]
        open_ones = open_ones[moving]
    return result.reshape(shape)


@dataclass(frozen=True, eq=False)
class Channel:
    """v, r², t and m of many problems, each (B,)."""

    v: Floats
    r2: Floats
    t: Floats
    mean: Floats


def channel(labels: Labels, q: Floats, c: Floats, gamma: Floats, b: Floats) -> Channel:
    """The expectations above, for one q, c, γ and b of each problem."""
    found = np.empty((4, len(q)))
    # Steep problems need many nodes, which the others are spared.
    group = np.ceil(np.log2(np.maximum(q, labels.steepness(c)) / 2.4).clip(0.0))
    for number in np.unique(group):
        own = group == number
        found[:, own] = _channel(labels.take(own), q[own], c[own], gamma[own], b[own])
    return Channel(*found)


def _channel(
    labels: Labels, q: Floats, c: Floats, gamma: Floats, b: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    s, weights = labels.nodes(q, c)
    F, G = labels.curve(c, s)
    step, loss, (u1, u0) = gamma[:, None], labels.loss, labels.moved(q, gamma, b, s)
    psi1, psi0 = -loss.gradient(u1, ONE), -loss.gradient(u0, ZERO)
    mean = F * psi1 + (1.0 - F) * psi0
    t = (G * (psi1 - psi0)) @ weights
    D1, D0 = loss.hessian(u1, ONE), loss.hessian(u0, ZERO)
    direct = (F * D1 / (1.0 + step * D1) + (1.0 - F) * D0 / (1.0 + step * D0)) @ weights
    # Stein's identity: the same without D, which jumps for losses with a corner.
    by_parts = (c * t - (mean * s) @ weights) / q
    smooth = isinstance(loss, SMOOTH)
    v = direct if smooth else np.where(q > 0.05, by_parts, direct)
    r2 = (F * psi1**2 + (1.0 - F) * psi0**2) @ weights
    # Where no label moves any score, the step is unbounded; a floor keeps it a number.
    return np.maximum(v, 1e-12), r2, t, mean @ weights


# -- What follows from cosine, norm and intercept: losses, accuracy and calibration error -------
#
# Sums over s ~ N(0, 1) on a fine grid. F is the probability given the score, H the entropy:
#
#     calibrated log-loss E[H(F)]      accuracy E max(F, 1−F)      Brier E[F(1−F)]
#     plain log-loss E[−F log p − (1−F) log(1−p)], p = σ(b + σ_b z + q·s), z ~ N(0, 1)
#     plain ECE E|p − F|               Brier E[(p − F)² + F(1−F)]


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
    loss, (u1, u0) = labels.loss, labels.moved(norm, gamma, b, s)
    value = F * loss.value(u1, ONE) + (1.0 - F) * loss.value(u0, ZERO)
    mean = (F * u1 + (1.0 - F) * u0) @ weights
    square = (F * u1**2 + (1.0 - F) * u0**2) @ weights
    return InSample(value @ weights, np.sqrt(np.maximum(square - mean**2, 0.0)))
