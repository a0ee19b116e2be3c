"""Σ_k w_k N(m_k, s_k²) and its quantiles, and what gives one for each row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, ndtri

from angcal._typing import Floats
from angcal.links.quadrature import normal_density


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

    def tilted(self, factors: Floats) -> Mixture:
        """Logits of p_k·f_k/Σ_j p_j·f_j, of (n, K, k) logits of K classes.

        Exact of draws; where spreads are left, the other classes keep their odds to each other.
        """
        p, f = expit(self.means), factors[:, None]
        pulled, tiny = p * f, np.finfo(float).tiny
        others = pulled.sum(axis=1, keepdims=True) - pulled
        others /= np.maximum(p.sum(axis=1, keepdims=True) - p, tiny)
        # A mean of factors, of which rounding leaves nothing beside a p of 1.
        others = np.clip(others, factors.min(), factors.max())
        return Mixture(self.weights, self.means + np.log(f / others), self.spreads)

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
