r"""What a pilot shows of its own learning curve: leave-one-out losses of all and of part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.observables import honest_scores
from angcal.penalty_path import LooCurves, make_design, observe_path

FRACTIONS = (0.25, 0.35, 0.5, 0.7)
DRAWS = 6
TYPICAL_SLOPE = 0.7
"""Of the error rate in 1/√n: mean of the first half of the real sets of docs/planner.md."""
FEWEST = 16
"""Rows below which a part of the pilot says nothing."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Calibrated leave-one-out losses of ridge logistic regression at its best penalty.

    Attributes
    ----------
    n : (k,) array
        Labels; the last is the whole pilot.
    log_loss, error : (k,) arrays
        Mean loss and share of wrong labels.
    log_loss_se, error_se : float
        Of the whole pilot.
    """

    n: Floats
    log_loss: Floats
    error: Floats
    log_loss_se: float
    error_se: float

    @property
    def law_of_log_loss(self) -> tuple[float, float]:
        """(level at the whole pilot, slope in 1/√n)."""
        return float(self.log_loss[-1]), max(self._slope(self.log_loss), 0.0)

    @property
    def law_of_error(self) -> tuple[float, float]:
        """(level, slope), half way to the slope of a typical set: its own is mostly noise."""
        return float(self.error[-1]), max(0.5 * (self._slope(self.error) + TYPICAL_SLOPE), 0.0)

    def along(self, law: tuple[float, float], n: Floats) -> Floats:
        """level + slope·(1/√n − 1/√n₀), at least 0."""
        level, slope = law
        return np.maximum(level + slope * (1.0 / np.sqrt(n) - 1.0 / np.sqrt(self.n[-1])), 0.0)

    def _slope(self, values: Floats) -> float:
        """In 1/√n, by least squares with weights n."""
        x, weights = 1.0 / np.sqrt(self.n), self.n / self.n.sum()
        x = x - float(weights @ x)
        spread = float(weights @ x**2)
        return float(weights @ (x * values)) / spread if spread > 0 else 0.0


def observe_pilot(X: Floats, labels: Floats, rng: np.random.Generator) -> Observed:
    """Losses of stratified parts of the pilot, and of all of it."""
    n = len(labels)
    found: list[tuple[float, float, float, float, float]] = []
    for fraction in FRACTIONS:
        size = round(fraction * n)
        for _ in range(DRAWS if size >= FEWEST else 0):
            rows = _stratified(labels, size, rng)
            found.append(_losses(X[rows], labels[rows]))
    found.append(_losses(X, labels))
    sizes, losses, errors, loss_se, error_se = np.array(found).T
    return Observed(sizes, losses, errors, float(loss_se[-1]), float(error_se[-1]))


def _stratified(labels: Floats, size: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of a part in which both classes are as common as in the whole, two of each at least."""
    parts = []
    for label in (0.0, 1.0):
        own = np.flatnonzero(labels == label)
        count = min(len(own), max(2, round(size * len(own) / len(labels))))
        parts.append(rng.choice(own, count, replace=False))
    return np.concatenate(parts)


def _losses(X: Floats, labels: Floats) -> tuple[float, float, float, float, float]:
    """(n, log-loss, error, their standard errors) of a path of penalties at its best."""
    weights = np.ones(len(labels))
    design = make_design(X, labels, weights, True)
    strengths = 1.0 / design.grid(8)
    solution = design.solver(strengths).solve(1e-3)
    observed = observe_path(design, strengths, solution, "auto")
    fits = [design.fit_at(solution, c, 0.0) for c in range(len(strengths))]
    pairs = zip(fits, observed, strict=True)
    curves = LooCurves(
        np.column_stack([each.calibration_scores for each in observed]),
        np.column_stack([honest_scores(fit, each) for fit, each in pairs]),
        np.column_stack([each.loo_scores for each in observed]),
        labels,
        weights,
    )
    best = int(np.argmin(curves.log_loss))
    wrong = np.mean((curves.probabilities[:, best] > 0.5) != (labels == 1.0))
    n = len(labels)
    # As if one more had been right and one wrong: ten of ten is not certainty.
    share = (wrong * n + 1.0) / (n + 2.0)
    error_se = np.sqrt(share * (1.0 - share) / n)
    losses = (float(curves.log_loss[best]), float(wrong), float(curves.log_loss_se[best]))
    return (float(n), *losses, float(error_se))
