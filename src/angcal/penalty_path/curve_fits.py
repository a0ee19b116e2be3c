r"""Logistic curves through the scores of every penalty, 1/(1 + exp(−a·s − b)), a ≥ 0.

All penalties are fitted at once, to scores of rows or to scores that are gathered at nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from angcal._typing import Floats


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


def platt_targets(n: float, positive: float) -> tuple[float, float]:
    """1/(N₀ + 2) for label 0 and (N₁ + 1)/(N₁ + 2) for label 1."""
    return 1.0 / (n - positive + 2.0), (positive + 1.0) / (positive + 2.0)


def curve_fit(scores: Floats, labels: Floats, weights: Floats) -> CurveFit:
    """The curves through scores of rows, (n, m)."""
    omega = weights / weights.mean()
    low, high = platt_targets(len(labels), float(omega @ labels))
    targets = np.where(labels == 1.0, high, low)[:, None]
    given = (scores, omega[:, None], targets, scores.mean(axis=0), scores.std(axis=0))
    return _curve_fit(given, (low, high), float(weights.mean()))


def binned_curve_fit(
    nodes: Floats, weights: tuple[Floats, Floats], n: int, mean_weight: float
) -> CurveFit:
    """The same through scores that are gathered at nodes, (g, m).

    ``weights`` are those of label 0 and of label 1 at each node.
    """
    negative, positive = (each / mean_weight for each in weights)
    low, high = platt_targets(n, float(positive[:, 0].sum()))
    total = negative + positive
    center = np.sum(total * nodes, axis=0) / total.sum(axis=0)
    spread = np.sqrt(np.sum(total * (nodes - center) ** 2, axis=0) / total.sum(axis=0))
    targets = np.repeat([low, high], len(nodes))[:, None]
    both = np.vstack([nodes, nodes]), np.vstack([negative, positive])
    return _curve_fit((*both, targets, center, spread), (low, high), mean_weight)


def _curve_fit(given: tuple[Floats, ...], targets: tuple[float, float], mean: float) -> CurveFit:
    a, b = fit_curves(*given)
    scores, omega = given[:2]
    p = expit(a * scores + b)
    D = omega * p * (1.0 - p)
    bent = D * scores
    information = (D.sum(axis=0), bent.sum(axis=0), (bent * scores).sum(axis=0))
    return CurveFit(a, b, information, targets, mean)


def fit_curves(
    scores: Floats, omega: Floats, targets: Floats, center: Floats, spread: Floats
) -> tuple[Floats, Floats]:
    """(a, b), a ≥ 0, of a logistic curve for each column of scores: Fisher scoring on all at once.

    Targets are Platt's, which keep the slope finite where the classes do not overlap.

    Parameters
    ----------
    scores : (n, m) array
    omega : (n, 1) or (n, m) array
        Weights, of mean one over rows.
    targets : (n, 1) array
    center, spread : (m,) arrays
        Of the scores: the coordinates of the steps.
    """
    spread = np.where(spread > 0, spread, 1.0)
    s = (scores - center) / spread
    share = np.sum(omega * targets, axis=0) / np.sum(omega, axis=0)
    a = np.zeros(s.shape[1])
    b = a + np.log(share / (1.0 - share))

    def loss(a: Floats, b: Floats) -> Floats:
        u = a * s + b
        softplus = np.log1p(np.exp(-np.abs(u))) + np.maximum(u, 0.0)
        return np.sum(omega * (softplus - targets * u), axis=0)

    value = loss(a, b)
    for _ in range(50):
        p = expit(a * s + b)
        pull, curvature = omega * (p - targets), omega * p * (1.0 - p)
        ga, gb = np.sum(pull * s, axis=0), np.sum(pull, axis=0)
        bent = curvature * s
        haa, hab, hbb = np.sum(bent * s, axis=0), np.sum(bent, axis=0), np.sum(curvature, axis=0)
        held = (a <= 0.0) & (ga >= 0.0)
        determinant = np.maximum(haa * hbb - hab**2, np.finfo(float).tiny)
        da = np.where(held, 0.0, (hab * gb - hbb * ga) / determinant)
        db = -(gb + hab * da) / np.maximum(hbb, np.finfo(float).tiny)
        if np.all(-(ga * da + gb * db) < 1e-8):
            break
        size = np.ones_like(a)
        for _ in range(20):
            trial_a, trial_b = np.maximum(a + size * da, 0.0), b + size * db
            found = loss(trial_a, trial_b)
            worse = ~(found <= value + 1e-12 * np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        a, b = np.where(worse, a, trial_a), np.where(worse, b, trial_b)
        value = np.where(worse, value, found)
    return a / spread, b - a * center / spread
