r"""Logistic curves through the scores of every penalty, 1/(1 + exp(−a·s − b)), a ≥ 0.

All penalties are fitted at once, to scores of rows or to scores that are gathered at nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from angcal._typing import Floats
from angcal.metrics.line import fit_lines, platt_targets


@dataclass(frozen=True, eq=False)
class CurveFit:
    """Logistic curves through scores, one for each penalty, and what is known of them.

    Attributes
    ----------
    slopes, offsets : (m,) arrays
        a and b.
    information : tuple of three (m,) arrays
        Σ D, Σ Ds and Σ Ds², D = ωp(1 − p) with weights of mean one.
    targets : (float, float)
        Platt's, of label 0 and label 1.
    mean_weight : float
    """

    slopes: Floats
    offsets: Floats
    information: tuple[Floats, Floats, Floats]
    targets: tuple[float, float]
    mean_weight: float

    def targets_of(self, labels: Floats) -> Floats:
        """(n, 1)."""
        low, high = self.targets
        return np.where(labels == 1.0, high, low)[:, None]


def curve_fit(scores: Floats, labels: Floats, weights: Floats) -> CurveFit:
    """The curves through scores of rows, (n, m)."""
    omega = weights / weights.mean()
    positive = float(omega @ labels)
    around = scores.mean(axis=0), scores.std(axis=0)
    ends = _targets(len(labels) - positive, positive)
    targets = np.where(labels == 1.0, ends[1], ends[0])
    return _curve_fit(scores, targets, omega[:, None], around, ends, float(weights.mean()))


def binned_curve_fit(
    nodes: Floats, weights: tuple[Floats, Floats], n: int, mean_weight: float
) -> CurveFit:
    """The same through scores that are gathered at nodes, (g, m).

    ``weights`` are those of label 0 and of label 1 at each node.
    """
    negative, positive = (each / mean_weight for each in weights)
    count = float(positive[:, 0].sum())
    ends = _targets(n - count, count)
    total = negative + positive
    center = np.sum(total * nodes, axis=0) / total.sum(axis=0)
    spread = np.sqrt(np.sum(total * (nodes - center) ** 2, axis=0) / total.sum(axis=0))
    both = np.vstack([nodes, nodes]), np.repeat(ends, len(nodes)), np.vstack([negative, positive])
    return _curve_fit(*both, (center, spread), ends, mean_weight)


def _targets(negative: float, positive: float) -> tuple[float, float]:
    """Platt's, of label 0 and of label 1."""
    low, high = platt_targets(np.array([0.0, 1.0]), np.array([negative, positive]))
    return float(low), float(high)


def _curve_fit(
    scores: Floats,
    targets: Floats,
    omega: Floats,
    around: tuple[Floats, Floats],
    ends: tuple[float, float],
    mean_weight: float,
) -> CurveFit:
    a, b = fit_lines(scores, targets, omega, around=around)
    p = expit(a * scores + b)
    D = omega * p * (1.0 - p)
    bent = D * scores
    information = (D.sum(axis=0), bent.sum(axis=0), (bent * scores).sum(axis=0))
    return CurveFit(a, b, information, ends, mean_weight)
