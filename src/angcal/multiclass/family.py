r"""The softmax when Cov(G) is not known: a low-dimensional family fitted to leave-one-out scores.

With leave-one-out scores s, whitened s̃, and the directions h that a softmax can see,

    P = E_Z softmax(A·h),   h = a·s + δ + E·s̃ + √ν·M Z,   M = a·R^½ + E

- a·s is the scores as they are, times a number: temperature scaling. It alone is free.
- δ moves the offsets, E is what else the labels ask for. Each has a ridge, of the strength under
  which the labels are most likely (MacKay's evidence): γ/‖θ‖² with γ the number of parameters that
  the ridge leaves in use. Where labels are few, both vanish. E acts in trusted directions alone
  (:func:`angcal.multiclass.angles.whiten`); elsewhere whitening would blow up each row's own label,
  while a·s has it at its own tiny size.
- ν is the noise that the angle calls for: all indices at one cosine c = 1/√(1 + ν). Labels hardly
  tell ν from a smaller M, so a prior on the indices' standard deviation settles it, as it does for
  two classes (:mod:`angcal.link_posterior`).

Predictions average over the posterior of M's length and of ν: with few labels per class that is
worth more than the best single pair (docs/several.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from angcal._typing import Floats
from angcal.leverages.blocks import left_out
from angcal.link_posterior import BELIEF
from angcal.losses import softmax_curvatures
from angcal.multiclass.angles import Whitened, fitting_rule
from angcal.multiclass.integration import BLOCK_ENTRIES, SmoothedLikelihood

COSINES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
MOST_STEPS, MOST_HALVINGS, SMALLEST_GAIN = 50, 25, 1e-9
# Keeps the free scale from running off where all labels are told: this many labels.
SLIGHT_RIDGE = 1e-3
# Rounds of evidence, the ridge they begin with, its limits, and when it no longer moves.
MOST_ROUNDS, FIRST_RIDGE, RIDGES, SETTLED = 40, 100.0, (1e-2, 1e6), 0.05
# How far, on a log scale, a length is looked for from one ν to the next, and how exactly.
REACH, LENGTH_TOLERANCE, CURVE_STEP, SPREADS = 1.5, 1e-2, 0.1, (1e-3, 0.8)
# Lengths at which a posterior is taken, in its standard deviations; parts that do not matter.
DEVIATIONS, SMALLEST_WEIGHT = (-2.0, -1.0, 0.0, 1.0, 2.0), 0.01
# By how much M may have to be lengthened under noise, for choosing nodes.
LONGER = 1.5
# A logit's difference between two classes has twice the variance of one contrast.
CONTRAST_VARIANCE = 2.0


@dataclass(frozen=True)
class Component:
    """One (length, ν) that the labels find plausible: h = ℓ·(M(s̃ + √ν·Z) + β).

    Attributes
    ----------
    weight : float
        Its share of the posterior.
    length : float
        ℓ.
    noise : float
        ν.
    """

    weight: float
    length: float
    noise: float


@dataclass(frozen=True, eq=False)
class SeveralEstimate:
    """The fitted family.

    Attributes
    ----------
    slopes : (q, m) array
        M, at the most likely length.
    offset : (q,) array
        β, at the same.
    noise : float
        The most likely ν.
    components : tuple of Component
        All lengths and ν that are plausible, relative to M and β; predictions average over them.
    ridges : (2,) array
        Strengths that hold δ and E back.
    parameters : float
        Number of parameters in use.
    log_likelihood : float
        Of the labels, less what the prior costs.
    rises : bool
        Whether the simplest curve rises with the scores: whether there is any signal.
    slope_variance : (q·m, q·m) array
        Of the entries of M, at the chosen ν.
    profile : tuple of (cosine, scale)
        The indices' standard deviation that goes with each cosine.
    left_out_steps : (n, q) array
        By how much leaving a row's label out of this fit lowers the row's own M·s̃ + β.
    """

    slopes: Floats
    offset: Floats
    noise: float
    components: tuple[Component, ...]
    ridges: Floats
    parameters: float
    log_likelihood: float
    rises: bool
    slope_variance: Floats
    profile: tuple[tuple[float, float], ...]
    left_out_steps: Floats

    @property
    def cosine(self) -> float:
        """E c, c = 1/√(1 + ν), over all that is plausible."""
        return float(sum(part.weight / np.sqrt(1.0 + part.noise) for part in self.components))

    @property
    def index_covariance(self) -> Floats:
        """Cov(h) = (1 + ν)MMᵀ."""
        return (1.0 + self.noise) * self.slopes @ self.slopes.T

    def interval(self, n_deviations: float) -> tuple[float, float]:
        """Cosines whose scale of the indices the prior finds plausible."""
        reach = n_deviations * BELIEF.log_scale_sd
        near = [c for c, scale in self.profile if abs(np.log(scale) - BELIEF.log_scale) <= reach]
        return min([*near, self.cosine]), max([*near, self.cosine])


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """P = softmax(A·h), h = Θ·(1, s̃), Θ linear in θ = (a, δ, E): a convex problem.

    Attributes
    ----------
    codes : (n,) array of int
    weights : (n,) array
    whitened : Whitened
        s and s̃.
    contrast : (K, q) array
    project : (q, k) array
        From scores to the directions that a softmax can see.
    inflation : float
        By how much scores that lean on each other raise the variance of the likelihood's slope; the
        likelihood counts for so much less.
    """

    codes: np.ndarray
    weights: Floats
    whitened: Whitened
    contrast: Floats
    project: Floats
    inflation: float

    @cached_property
    def rows(self) -> Floats:
        """(1, s̃_i), (n, 1 + m)."""
        s = self.whitened.values
        return np.column_stack([np.ones(len(s)), s])

    @cached_property
    def unit(self) -> float:
        """Standard deviation of a typical score, so that a does not depend on their units."""
        spread = self.project @ self.whitened.factor
        return float(np.sqrt(np.mean(np.sum(spread**2, axis=1)))) or 1.0

    @cached_property
    def plain(self) -> Floats:
        """Θ of the scores as they are, in their unit: what a multiplies, (q, 1 + m)."""
        center = self.project @ self.whitened.center
        return np.column_stack([center, self.project @ self.whitened.factor]) / self.unit

    @cached_property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in θ of δ and of E, the latter in trusted directions alone."""
        places = 1 + np.arange(self.plain.size).reshape(self.plain.shape)
        return places[:, 0], places[:, 1:][:, self.whitened.trusted].ravel()

    def joined(self, theta: Floats) -> Floats:
        """Θ."""
        return theta[0] * self.plain + theta[1:].reshape(self.plain.shape)

    def unpack(self, theta: Floats) -> tuple[Floats, Floats]:
        """(M, β) with h = M·s̃ + β."""
        joined = self.joined(theta)
        return joined[:, 1:], joined[:, 0]

    def held(self, ridges: Floats) -> Floats:
        """Diagonal of the penalty."""
        held = np.full(1 + self.plain.size, RIDGES[1])
        held[0] = SLIGHT_RIDGE
        for group, strength in zip(self.groups, ridges, strict=True):
            held[group] = strength
        return held

    def evaluate(self, theta: Floats, held: Floats) -> tuple[float, Floats, Floats]:
        """Penalised loss, gradient, and Fisher information without the penalty."""
        A = self.contrast
        logits = (self.rows @ self.joined(theta).T) @ A.T
        logs = log_softmax(logits, axis=1)
        each = np.arange(len(self.codes))
        weights = self.weights / self.inflation
        value = -float(weights @ logs[each, self.codes])
        p = np.exp(logs)
        miss = p.copy()
        miss[each, self.codes] -= 1.0
        miss *= weights[:, None]
        slope = (miss @ A).T @ self.rows
        gradient = np.append(np.sum(slope * self.plain), slope)
        penalty = 0.5 * float(theta @ (held * theta))
        return value + penalty, gradient + held * theta, self._information(p, weights)

    def _information(self, p: Floats, weights: Floats) -> Floats:
        """In θ, from that in Θ: Σ_i ω_i D_i ⊗ (1, s̃_i)(1, s̃_i)ᵀ, some rows at a time."""
        q, m = self.plain.shape
        whole = np.zeros((q, m, q, m))
        step = max(1, BLOCK_ENTRIES // (q * q))
        for start in range(0, len(p), step):
            part = slice(start, start + step)
            rows = self.rows[part]
            D = weights[part, None, None] * softmax_curvatures(p[part], self.contrast)
            for k in range(q):
                for l in range(k + 1):
                    whole[k, :, l] += (rows * D[:, k, l, None]).T @ rows
        for k in range(q):
            for l in range(k):
                whole[l, :, k] = whole[k, :, l]
        flat = whole.reshape(q * m, q * m)
        along = flat @ self.plain.ravel()
        information = np.empty((1 + q * m, 1 + q * m))
        information[0, 0] = self.plain.ravel() @ along
        information[0, 1:] = information[1:, 0] = along
        information[1:, 1:] = flat
        return information

    def solve(self, ridges: Floats, start: Floats) -> tuple[Floats, Floats]:
        """(θ, Fisher information) under given ridges."""
        held, theta = self.held(ridges), start
        value, gradient, information = self.evaluate(theta, held)
        for _ in range(MOST_STEPS):
            step = -np.linalg.solve(information + np.diag(held), gradient)
            gain = -float(gradient @ step)
            if gain < SMALLEST_GAIN:
                break
            for _ in range(MOST_HALVINGS):
                found = self.evaluate(theta + step, held)
                if found[0] <= value:
                    break
                step = 0.5 * step
            else:
                break
            theta, (value, gradient, information) = theta + step, found
        return theta, information

    def by_evidence(self) -> tuple[Floats, Floats, Floats, bool]:
        """(θ, information, ridges, whether the plainest curve rises)."""
        theta = np.zeros(1 + self.plain.size)
        theta[0] = self.unit
        # Offsets are free here: class weights and one-vs-rest heads move them far from the labels'
        # own, which says nothing about the slope.
        theta, information = self.solve(np.array(RIDGES), theta)
        rises = bool(theta[0] > 0)
        ridges = np.full(2, FIRST_RIDGE)
        for _ in range(MOST_ROUNDS):
            theta, information = self.solve(ridges, theta)
            spread = np.diag(np.linalg.inv(information + np.diag(self.held(ridges))))
            fresh = np.empty(2)
            for j, group in enumerate(self.groups):
                used = len(group) - ridges[j] * float(spread[group].sum())
                length = float(theta[group] @ theta[group])
                fresh[j] = np.clip(max(used, 0.0) / max(length, 1e-300), *RIDGES)
            moved = float(np.max(np.abs(np.log(fresh / ridges))))
            ridges = fresh
            if moved < SETTLED:
                break
        theta, information = self.solve(ridges, theta)
        return theta, information, ridges, rises

    def left_out_steps(self, theta: Floats, information: Floats, ridges: Floats) -> Floats:
        """h_i under θ less h_i under θ without row i, (n, q): Γ_iψ_i, as for the base fit."""
        inverse = np.linalg.inv(information + np.diag(self.held(ridges)))
        rows, (q, m) = self.rows, self.plain.shape
        along = rows @ self.plain.T
        with_scale = rows @ inverse[0, 1:].reshape(q, m).T
        G = inverse[0, 0] * along[:, :, None] * along[:, None, :]
        G += along[:, :, None] * with_scale[:, None, :] + with_scale[:, :, None] * along[:, None, :]
        blocks = inverse[1:, 1:].reshape(q, m, q, m)
        for k in range(q):
            for l in range(q):
                G[:, k, l] += np.einsum("np,np->n", rows @ blocks[k, :, l], rows)
        p = softmax((rows @ self.joined(theta).T) @ self.contrast.T, axis=1)
        weights = self.weights / self.inflation
        D = weights[:, None, None] * softmax_curvatures(p, self.contrast)
        missed = -p
        missed[np.arange(len(p)), self.codes] += 1.0
        psi = weights[:, None] * (missed @ self.contrast)
        return np.einsum("nab,nb->na", left_out(G, D), psi)

    def slope_variance(self, information: Floats, ridges: Floats) -> Floats:
        """Variance of the entries of M: H⁻¹IH⁻¹ with I Fisher's and H = I + ridge."""
        inverse = np.linalg.inv(information + np.diag(self.held(ridges)))
        plain = self.plain[:, 1:].ravel()
        corrections = 1 + np.arange(self.plain.size).reshape(self.plain.shape)[:, 1:].ravel()
        lifted = inverse[corrections] + np.outer(plain, inverse[0])
        return lifted @ information @ lifted.T


def estimate_family(
    codes: np.ndarray,
    weights: Floats,
    whitened: Whitened,
    contrast: Floats,
    project: Floats,
    inflation: float = 1.0,
) -> SeveralEstimate:
    """Fit the family of this module.

    Parameters
    ----------
    codes, weights : (n,) arrays
        Weights of mean one.
    whitened : Whitened
        Leave-one-out scores.
    contrast : (K, q) array
    project : (q, k) array
        From scores to the directions that a softmax can see.
    inflation : float, default=1
        As in `LinearFamily`.
    """
    family = LinearFamily(codes, weights, whitened, contrast, project, inflation)
    theta, information, ridges, rises = family.by_evidence()
    M, beta = family.unpack(theta)
    posterior = _with_noise(family, M, beta)
    best = posterior.best
    held = np.diag(family.held(ridges))
    return SeveralEstimate(
        slopes=best.length * M,
        offset=best.length * beta,
        noise=best.noise,
        components=tuple(
            Component(part.weight, part.length / best.length, part.noise)
            for part in posterior.components
        ),
        ridges=ridges,
        parameters=float(np.trace(np.linalg.solve(information + held, information))),
        log_likelihood=posterior.log_likelihood,
        rises=rises,
        slope_variance=best.length**2 * family.slope_variance(information, ridges),
        profile=posterior.profile,
        left_out_steps=best.length * family.left_out_steps(theta, information, ridges),
    )


def index_scale(M: Floats, noise: float) -> float:
    """Typical standard deviation of the difference of two classes' indices."""
    variance = float(np.mean(np.sum(M**2, axis=1))) * (1.0 + noise)
    factor = CONTRAST_VARIANCE if len(M) > 1 else 1.0
    return float(np.sqrt(max(factor * variance, np.finfo(float).tiny)))


@dataclass(frozen=True, eq=False)
class _Posterior:
    """What labels and prior say about the length of M and about ν, jointly."""

    components: tuple[Component, ...]
    best: Component
    log_likelihood: float
    profile: tuple[tuple[float, float], ...]


def _with_noise(family: LinearFamily, M: Floats, beta: Floats) -> _Posterior:
    """Posterior of (ℓ, ν) on a grid: cosines, and at each the lengths that fit the labels."""
    inner = noise_directions(M)
    means = family.whitened.values @ M.T + beta
    found: list[tuple[float, float, float, float]] = []
    profile, start = [], 0.0
    for cosine in COSINES:
        noise = 1.0 / cosine**2 - 1.0
        loss = _loss_of_length(family, means, inner, M, noise)
        start, least, spread = _minimum(loss, start)
        profile.append((cosine, index_scale(float(np.exp(start)) * M, noise)))
        for away in DEVIATIONS:
            place = start + away * spread
            # A place stands for as much of the axis as is between its neighbours.
            found.append((least if away == 0 else loss(place), place, spread, noise))
    losses = np.array([entry[0] for entry in found])
    weights = np.exp(-(losses - losses.min())) * np.array([entry[2] for entry in found])
    weights /= weights.sum()
    best = int(np.argmin(losses))
    components = [
        Component(float(w), float(np.exp(place)), noise)
        for w, (_, place, _, noise) in zip(weights, found, strict=True)
    ]
    kept = [part for part in components if part.weight >= SMALLEST_WEIGHT]
    total = sum(part.weight for part in kept)
    return _Posterior(
        tuple(Component(part.weight / total, part.length, part.noise) for part in kept),
        components[best],
        -float(losses[best] * family.inflation),
        tuple(profile),
    )


def noise_directions(M: Floats) -> Floats:
    """M with its columns turned into at most q directions: MZ and the result have one law."""
    turned, _ = np.linalg.qr(M.T)
    return M @ turned


def _loss_of_length(
    family: LinearFamily, means: Floats, inner: Floats, M: Floats, noise: float
) -> Callable[[float], float]:
    """−log posterior of log ℓ at one ν."""
    # As many directions as M has columns, which may be fewer than a softmax can see.
    rule = fitting_rule(noise * (LONGER * inner).T @ (LONGER * inner))
    none = np.zeros(len(family.contrast))
    likelihood = SmoothedLikelihood(family.codes, family.weights, family.contrast, none, rule)
    map_of_noise = np.sqrt(noise) * inner if noise > 0 else inner[:, :0]

    def loss(log_length: float) -> float:
        length = float(np.exp(log_length))
        value = likelihood.value(length * means, length * map_of_noise) / family.inflation
        off = (np.log(index_scale(length * M, noise)) - BELIEF.log_scale) / BELIEF.log_scale_sd
        return value + 0.5 * float(off**2)

    return loss


def _minimum(loss: Callable[[float], float], start: float) -> tuple[float, float, float]:
    """(place, value, standard deviation) of a loss that is about quadratic."""
    found = minimize_scalar(
        loss, bounds=(start - REACH, start + REACH), options={"xatol": LENGTH_TOLERANCE}
    )
    place, least = float(found.x), float(found.fun)
    bend = (loss(place + CURVE_STEP) + loss(place - CURVE_STEP) - 2.0 * least) / CURVE_STEP**2
    return place, least, float(np.clip(1.0 / np.sqrt(max(bend, 1e-6)), *SPREADS))
