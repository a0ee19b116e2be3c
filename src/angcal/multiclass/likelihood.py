r"""Labels' likelihood under a smoothed softmax, with its gradient, by matrix products alone.

    P_i(k) = Σ_r w_r softmax_k(A(m_i + N z_r) + b)

With a = exp(A m + b), β_r = exp(A N z_r), den_ir = a_i·β_r and posterior weights of the nodes
π_ir ∝ w_r β_r,y/den_ir,

    ∂(−log P_i(y))/∂logits = −(e_y − Σ_r π_ir p_ir),   p_irk = a_ik β_rk/den_ir

and the sum over rows of the gradient in N is that of π_ir(p_ir − e_y)z_rᵀ. The nodes are fixed, so
this is the exact gradient of the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.multiclass.integration import BLOCK_ENTRIES, Rule, smoothed_softmax

# What is less likely than this does not decide a fit; its reciprocal squared still is a number.
TINY = 1e-150


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
        return -float(self.weights @ np.log(np.maximum(own, TINY)))

    def __call__(self, means: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """(−log likelihood, its gradient in each row's mean, its gradient in the noise map).

        Parameters
        ----------
        means : (n, q) array
            m_i.
        noise : (q, r) array
            N.
        """
        z, w = self.rule.nodes, self.rule.weights
        shifts = z @ (self.contrast @ noise).T
        b = np.exp(shifts - shifts.max(axis=1, keepdims=True))
        logits = means @ self.contrast.T + self.offset
        a = np.exp(logits - logits.max(axis=1, keepdims=True))
        value = 0.0
        slopes = np.empty_like(a)
        towards = np.zeros((len(self.offset), len(z)))
        step = max(1, BLOCK_ENTRIES // len(z))
        for start in range(0, len(a), step):
            rows = slice(start, start + step)
            loss, slopes[rows], part = self._block(a[rows], b, w, rows)
            value += loss
            towards += part
        return value, slopes @ self.contrast, self.contrast.T @ (towards @ z)

    def _block(self, a: Floats, b: Floats, w: Floats, rows: slice) -> tuple[float, Floats, Floats]:
        codes, weights = self.codes[rows], self.weights[rows]
        each = np.arange(len(a))
        inverse = 1.0 / np.maximum(a @ b.T, TINY)
        share = w * inverse
        mixed = share @ b
        own = np.maximum(mixed[each, codes], TINY)
        value = -float(weights @ np.log(np.maximum(a[each, codes] * own, TINY)))
        posterior = share * b.T[codes] / own[:, None]
        posterior *= weights[:, None]
        scaled = posterior * inverse
        slopes = a * (scaled @ b)
        slopes[each, codes] -= weights
        towards = (a.T @ scaled) * b.T
        np.subtract.at(towards, codes, posterior)
        return value, slopes, towards
