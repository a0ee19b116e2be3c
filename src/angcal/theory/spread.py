r"""How a fit scatters over data sets: the law of its weights, and means over it.

In every eigen-direction of Σ, with f_j = s_j/(λ + v s_j) and ξ_j ~ N(0, 1),

    √s_j ŵ_j = f_j·(t·√s_j w*_j + (r/√n)·ξ_j)

so that a = ŵᵀΣw* and Q = ŵᵀΣŵ have, with δ² = r²/n,

    Var a = δ²Σ f_j² e_j    Var Q = Σ f_j⁴(4t²δ²e_j + 2δ⁴m_j)    Cov(a, Q) = 2tδ²Σ f_j³ e_j

Where few directions carry much, this scatter moves means: E[c] is not the c of the mean fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.theory.channel import Channel, Labels
from angcal.theory.outcomes import Calibrated, Plain, calibrated, plain
from angcal.theory.spectrum import Spectra


@dataclass(frozen=True, eq=False)
class Scatter:
    """Nine places of (cosine, norm) that stand for the law over data sets, (9, B) each."""

    cosine: Floats  # (9, B)
    norm: Floats  # (9, B)
    weights: Floats  # (9,): Their shares

    def mean(self, values: Floats) -> Floats:
        """Mean of values at the nine places, (9, B) to (B,)."""
        return self.weights @ values

    def averaged(self, labels: Labels, b: Floats, b_sd: Floats) -> tuple[Plain, Calibrated]:
        """Losses on new rows, means over the nine places."""
        own = [plain(labels, c, q, b, b_sd) for c, q in zip(self.cosine, self.norm, strict=True)]
        best = [calibrated(labels, c) for c in self.cosine]
        return (
            Plain(*(self._mean_of(own, field.name) for field in fields(Plain))),
            Calibrated(*(self._mean_of(best, field.name) for field in fields(Calibrated))),
        )

    def _mean_of(self, results: Sequence[Any], name: str) -> Floats:
        return self.mean(np.stack([getattr(each, name) for each in results]))

    @property
    def cosine_sd(self) -> Floats:
        """Deviation of the cosine over data sets, (B,)."""
        off = self.cosine - self.mean(self.cosine)
        return np.sqrt(self.mean(off**2))


def scatter_of(spectra: Spectra, n: Floats, mu: Floats, found: Channel) -> Scatter:
    """The law of a and Q of every problem, as a normal and a log-normal variable."""
    f = spectra.values / (spectra.values + mu[:, None]) / found.v[:, None]
    e, t, noise = spectra.shares, found.t, found.r2 / n
    a = t * (f * e).sum(axis=1)
    Q = t**2 * (f**2 * e).sum(axis=1) + noise * (f**2 @ spectra.counts)
    var_a = noise * (f**2 * e).sum(axis=1)
    var_Q = 4.0 * t**2 * noise * (f**4 * e).sum(axis=1) + 2.0 * noise**2 * (f**4 @ spectra.counts)
    cov = 2.0 * t * noise * (f**3 * e).sum(axis=1)
    # log Q is closer to normal, and never without a square root.
    log_var = np.log1p(var_Q / Q**2)
    log_mean = np.log(Q) - 0.5 * log_var
    slope = cov / Q / log_var
    beside = np.sqrt(np.maximum(var_a - slope**2 * log_var, 0.0))
    places, shares = np.polynomial.hermite_e.hermegauss(3)
    first, second = (part.ravel() for part in np.meshgrid(places, places, indexing="ij"))
    shares = np.outer(shares, shares).ravel() / shares.sum() ** 2
    log_Q = log_mean + first[:, None] * np.sqrt(log_var)
    alignment = a + slope * (log_Q - log_mean) + second[:, None] * beside
    norm = np.exp(0.5 * log_Q)
    return Scatter(np.clip(alignment / norm, -1.0, 1.0), norm, shares)
