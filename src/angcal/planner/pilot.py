r"""What a pilot shows of itself: leave-one-out losses of its ridge fits, calibrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.observables import honest_scores
from angcal.penalty_path import LooCurves, make_design, observe_path, penalty_shares

PENALTIES = 8
SMALLEST_SHARE = 1e-6
"""Of a label's own class: what a probability is taken to be at least."""


@dataclass(frozen=True)
class Observed:
    """Calibrated leave-one-out losses of ridge logistic regression, averaged over its penalties."""

    n: int  # Labels
    log_loss: float  # Of probabilities that have seen neither the row's label nor a curve that has
    accuracy: float
    log_loss_se: float  # Their standard errors
    accuracy_se: float


def observe_pilot(X: Floats, labels: Floats) -> Observed:
    """Losses of one path of penalties, which are averaged as far as the labels leave them open."""
    n = len(labels)
    curves = _loo_curves(X, labels)
    p = curves.probabilities @ penalty_shares(curves.log_loss, n)
    own = np.where(labels == 1.0, p, 1.0 - p)
    losses = -np.log(np.maximum(own, SMALLEST_SHARE))
    right = float(np.sum((p > 0.5) == (labels == 1.0)))
    # As if one more had been right and one wrong: ten of ten is not certainty.
    share = (right + 1.0) / (n + 2.0)
    return Observed(
        n=n,
        log_loss=float(losses.mean()),
        accuracy=right / n,
        log_loss_se=float(max(losses.std(), 0.05) / np.sqrt(n)),
        accuracy_se=float(np.sqrt(share * (1.0 - share) / n)),
    )


def _loo_curves(X: Floats, labels: Floats) -> LooCurves:
    weights = np.ones(len(labels))
    design = make_design(X, labels, weights, True)
    strengths = 1.0 / design.grid(PENALTIES)
    solution = design.solver(strengths).solve(1e-3)
    observed = observe_path(design, strengths, solution, "auto")
    fits = [design.fit_at(solution, c, 0.0) for c in range(len(strengths))]
    pairs = zip(fits, observed, strict=True)
    return LooCurves(
        np.column_stack([each.calibration_scores for each in observed]),
        np.column_stack([honest_scores(fit, each) for fit, each in pairs]),
        np.column_stack([each.loo_scores for each in observed]),
        labels,
        weights,
    )
