r"""E g(m + LZ), Z ~ N(0, I_r): the same nodes for every row, so that a prediction is never noisy.

One direction of noise takes equal steps, two or three a product of Gauss–Hermite rules, denser
where there is more noise. Beyond that the nodes are scrambled Sobol points with their mirror
images, in groups with fixed seeds: the mean over all is the integral, the spread of the groups its
error.

For the softmax exp(m_k + ν_k) = exp(m_k)·exp(ν_k), so that with a = exp(m), b = exp(ν)

    E softmax_k = a_k Σ_r w_r b_rk/(a·b_r)

is two matrix products for all rows and nodes at once, without an exponential per pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from inspect import signature

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtri
from scipy.stats import qmc

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.links.multiclass import MulticlassLink, Softmax


@dataclass(frozen=True, eq=False)
class Rule:
    """Nodes z and weights of E f(Z) ≈ Σ_r w_r f(z_r).

    Attributes
    ----------
    nodes : (r, q) array
    weights : (r,) array
        They sum to one.
    groups : int
        Equal groups of successive nodes that each are a rule of their own; 1 for a product rule.
    """

    nodes: Floats
    weights: Floats
    groups: int = 1


@lru_cache(maxsize=64)
def _hermite(count: int) -> tuple[Floats, Floats]:
    nodes, weights = hermegauss(count)
    # What carries no weight in double precision is not worth a column.
    kept = weights > 1e-18 * weights.max()
    return nodes[kept], weights[kept] / weights[kept].sum()


@lru_cache(maxsize=16)
def sobol_rule(directions: int, group_size: int = 64, groups: int = 8) -> Rule:
    """Scrambled Sobol points with their mirror images, in groups."""
    # SciPy renames the argument of its generators; either name means the same here.
    name = "rng" if "rng" in signature(qmc.Sobol.__init__).parameters else "seed"
    parts = []
    for group in range(groups):
        sampler = qmc.Sobol(directions, scramble=True, **{name: 77_001 + group})
        z = ndtri(np.clip(sampler.random(group_size), 1e-12, 1.0 - 1e-12))
        parts += [z, -z]
    nodes = np.concatenate(parts)
    return Rule(nodes, np.full(len(nodes), 1.0 / len(nodes)), groups)


def tensor_rule(counts: tuple[int, ...]) -> Rule:
    """Product of Gauss–Hermite rules with so many nodes each."""
    parts = [_hermite(count) for count in counts]
    grids = np.meshgrid(*[nodes for nodes, _ in parts], indexing="ij")
    weights = parts[0][1]
    for _, more in parts[1:]:
        weights = np.multiply.outer(weights, more)
    nodes = np.column_stack([grid.ravel() for grid in grids])
    flat = weights.ravel()
    kept = flat > 1e-16 * flat.max()
    return Rule(nodes[kept], flat[kept] / flat[kept].sum())


def equal_steps(spread: float, refinement: float = 1.0) -> Rule:
    """The trapezoidal rule for one direction of noise: it needs fewer nodes than Gauss–Hermite.

    Its error is exp(−2π·distance/step), the poles of a difference of two indices are π/√2 standard
    deviations away, and 1e-9 is e^-21.
    """
    distance = np.pi / (np.sqrt(2.0) * max(spread, 1e-12))
    step = min(0.5, 2.0 * np.pi * distance / 23.0) / refinement
    count = int(np.ceil(7.0 / step))
    nodes = step * np.arange(-count, count + 1)
    weights = np.exp(-0.5 * nodes**2)
    return Rule(nodes[:, None], weights / weights.sum())


def rule_for(spreads: Floats, refinement: float = 1.0) -> Rule:
    """A rule for independent noise of these deviations, the largest first, in the link's argument.

    A refinement above 1 takes more nodes by this factor, to see what the rule leaves.
    """
    q = len(spreads)
    if q == 0:
        return Rule(np.zeros((1, 0)), np.ones(1))
    if q == 1:
        return equal_steps(float(spreads[0]), refinement)
    if q > 3:
        return sobol_rule(q, int(64 * 2.0 ** np.round(np.log2(refinement))))
    # Nodes without noise, for each unit of its variance, and at most: the poles of a logistic curve
    # come nearer by the noise's standard deviation, and the error of n nodes falls like
    # exp(−2√(2n)·distance). Products of such rules are good to about 1e-6.
    fewest, per_variance, most = (10, 6.0, 61) if q == 2 else (9, 4.0, 23)
    wanted = np.minimum(fewest + per_variance * np.asarray(spreads) ** 2, most)
    return tensor_rule(tuple(int(np.ceil(refinement * count)) for count in wanted))


@dataclass(frozen=True, eq=False)
class Noise:
    """Gaussian noise of a covariance, along its own axes.

    Attributes
    ----------
    factor : (q, r) array
        L with LLᵀ = covariance; columns are its axes, those without noise left out.
    """

    factor: Floats

    @property
    def spreads(self) -> Floats:
        """Standard deviation along each axis."""
        return np.sqrt(np.sum(self.factor**2, axis=0))

    def shifts(self, rule: Rule) -> Floats:
        """Lz for every node."""
        return rule.nodes @ self.factor.T


def noise_of(covariance: Floats) -> Noise:
    """Axes of a covariance, singular or not, the noisiest first."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = max(float(values[0]), 0.0) if len(values) else 0.0
    # Less noise moves no probability by more than rounding does.
    kept = values > max(1e-9 * largest, np.finfo(float).tiny)
    axes = vectors[:, kept]
    # Signs fixed, so that the same covariance has the same nodes on every machine.
    if axes.size:
        largest_entries = axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])]
        axes = axes * np.where(largest_entries < 0, -1.0, 1.0)
    return Noise(axes * np.sqrt(values[kept]))


def smoothed_softmax(logits: Floats, shifts: Floats, weights: Floats) -> Floats:
    """Σ_r w_r softmax(logits + shifts_r), by two products; see the module."""
    a = np.exp(logits - logits.max(axis=1, keepdims=True))
    b = np.exp(shifts - shifts.max(axis=1, keepdims=True))
    out = np.empty_like(a)
    for rows in slices(len(a), 2 * plan.BLOCK_ENTRIES, len(b)):
        # Above zero where a class is impossible at a node.
        total = np.maximum(a[rows] @ b.T, np.finfo(float).tiny)
        out[rows] = a[rows] * ((weights / total) @ b)
    return out / out.sum(axis=1, keepdims=True)


def smoothed(link: MulticlassLink, means: Floats, shifts: Floats, weights: Floats) -> Floats:
    """Σ_r w_r g(means + shifts_r) for every row."""
    if isinstance(link, Softmax):
        return smoothed_softmax(means + np.asarray(link.offset), shifts, weights)
    n, K = means.shape
    total = np.zeros((n, link.n_outputs))
    for part in slices(len(shifts), 2 * plan.BLOCK_ENTRIES, n * K):
        values = link((means[:, None, :] + shifts[None, part, :]).reshape(-1, K))
        values = values.reshape(n, len(shifts[part]), -1)
        total += np.einsum("nrl,r->nl", values, weights[part])
    return total


LEAST = float(np.sqrt(np.finfo(float).tiny))
"""What is less likely than this does not decide a fit; its reciprocal squared still is a number."""


@dataclass(frozen=True, eq=False)
class SmoothedLikelihood:
    """The labels, and the nodes they are judged with.

    Attributes
    ----------
    codes : (n,) array of int
    weights : (n,) array
    contrast : (K, q) array
        A.
    offset : (K,) array
        b.
    rule : Rule
        Nodes z of dimension r.
    """

    codes: np.ndarray
    weights: Floats
    contrast: Floats
    offset: Floats
    rule: Rule

    def value(self, means: Floats, noise: Floats) -> float:
        """−log likelihood alone."""
        shifts = self.rule.nodes @ (self.contrast @ noise).T
        p = smoothed_softmax(means @ self.contrast.T + self.offset, shifts, self.rule.weights)
        own = p[np.arange(len(self.codes)), self.codes]
        return -float(self.weights @ np.log(np.maximum(own, LEAST)))

    def __call__(self, means: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """(−log likelihood, its gradient in each row's mean m_i, and in the noise map N)."""
        z, w = self.rule.nodes, self.rule.weights
        shifts = z @ (self.contrast @ noise).T
        b = np.exp(shifts - shifts.max(axis=1, keepdims=True))
        logits = means @ self.contrast.T + self.offset
        a = np.exp(logits - logits.max(axis=1, keepdims=True))
        value = 0.0
        slopes = np.empty_like(a)
        towards = np.zeros((len(self.offset), len(z)))
        for rows in slices(len(a), 2 * plan.BLOCK_ENTRIES, len(z)):
            loss, slopes[rows], part = self._block(a[rows], b, w, rows)
            value += loss
            towards += part
        return value, slopes @ self.contrast, self.contrast.T @ (towards @ z)

    def _block(self, a: Floats, b: Floats, w: Floats, rows: slice) -> tuple[float, Floats, Floats]:
        codes, weights = self.codes[rows], self.weights[rows]
        each = np.arange(len(a))
        inverse = 1.0 / np.maximum(a @ b.T, LEAST)
        share = w * inverse
        mixed = share @ b
        own = np.maximum(mixed[each, codes], LEAST)
        value = -float(weights @ np.log(np.maximum(a[each, codes] * own, LEAST)))
        posterior = share * b.T[codes] / own[:, None]
        posterior *= weights[:, None]
        scaled = posterior * inverse
        slopes = a * (scaled @ b)
        slopes[each, codes] -= weights
        towards = (a.T @ scaled) * b.T
        np.subtract.at(towards, codes, posterior)
        return value, slopes, towards
