r"""F and F′ of several curves at many scores, from (F, F′, F″) at fewer nodes.

A mixture of probits is sixteen values of the normal distribution for each score and curve. Its
derivatives have a closed form and a bound,

.. math::
    F(m) = \sum_k w_k \Phi(m/\sqrt{s_k^2 + \tau^2}), \quad
    |F^{(6)}| \le \sup|\Phi^{(6)}| \sum_k w_k (s_k^2 + \tau^2)^{-3},

so that quintics between nodes of spacing h miss F by at most sup|F⁽⁶⁾|·h⁶/46080 and F′ by
sup|F⁽⁶⁾|·h⁵·√5/30000 (:mod:`angcal.curve.table`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from angcal._typing import Floats
from angcal.curve.table import hermite_basis, normal_bound
from angcal.links.base import ProbitMixture
from angcal.links.quadrature import PROMISED_ACCURACY


@dataclass(frozen=True, eq=False)
class Quintics:
    """Curve k on cells of width ``spacing[k]`` from ``low[k]`` on.

    Attributes
    ----------
    coefficients : (6, k, cells) array
        Of powers of the position within a cell.
    low, high, spacing : (k, 1) arrays
        Further out a curve is as at its ends.
    """

    coefficients: Floats
    low: Floats
    high: Floats
    spacing: Floats

    @classmethod
    def where_fewer(
        cls, mixture: ProbitMixture, low: Floats, high: Floats, noises: Floats, n: int
    ) -> Self | None:
        """Curves of noise τ_k between low_k and high_k, where n scores are worth their making."""
        if len(mixture.widths) == 1:
            return None
        # Beyond, F and 1 − F are below 1e-17.
        reach = 40.0 + 9.0 * noises
        low, high = np.clip(low, -reach, reach), np.clip(high, -reach, reach)
        cubes = (mixture.widths**2 + noises[:, None] ** 2) ** -3.0
        bound = normal_bound(6) * (cubes @ mixture.weights)
        # A thirtieth of what the mixture for likelihoods misses itself.
        widest = (46080.0 * PROMISED_ACCURACY / bound) ** (1 / 6)
        cells = int(np.ceil(np.max((high - low) / widest))) + 1
        if 2 * cells > n:
            return None
        spacing = np.maximum((high - low) / cells, np.finfo(float).tiny)
        nodes = low[:, None] + spacing[:, None] * np.arange(cells + 1)
        pairs = zip(nodes, noises.tolist(), strict=True)
        jets = np.array([mixture.smooth(row, noise) for row, noise in pairs])
        jets *= np.stack([np.ones_like(spacing), spacing, spacing**2], axis=1)[:, :, None]
        data = np.concatenate([jets[:, :, :-1], jets[:, :, 1:]], axis=1)
        found = np.tensordot(hermite_basis(3), data, axes=(0, 1))
        return cls(found, low[:, None], high[:, None], spacing[:, None])

    def values_and_slopes(self, centers: Floats) -> tuple[Floats, Floats]:
        """F and F′ at (k, n) centers."""
        _, count, cells = self.coefficients.shape
        t = (np.clip(centers, self.low, self.high) - self.low) / self.spacing
        cell = np.minimum(t.astype(np.intp), cells - 1)
        t -= cell
        cell += cells * np.arange(count)[:, None]
        highest, *others = self.coefficients[::-1].reshape(6, -1)
        values, slopes = highest[cell], np.zeros_like(t)
        for coefficient in others:
            slopes *= t
            slopes += values
            values *= t
            values += coefficient[cell]
        return values, slopes / self.spacing
