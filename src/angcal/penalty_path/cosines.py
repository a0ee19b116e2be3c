r"""The angle under every penalty, for the one link that all of them share.

ĉ = argmax_c Σ_i ω_i log P(y_i | F_c(s_i)),   F_c(s) = E_Z σ(c·s + √(1−c²)Z)

as :func:`angcal.angle.loo_angle`, and its error as :func:`angcal.angle.loo_information`. The link
belongs to the population and not to the penalty, so log F and log(1 − F) are tabulated once over
(c, s); the likelihoods of all penalties at all c are then two products of small matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from angcal._typing import Floats
from angcal.angle import LARGEST_COSINE, LooInformation, likelihood_curve, quantile
from angcal.covariance import score_scale
from angcal.leverages.groups import label_effects
from angcal.links import Link
from angcal.observables import Observables
from angcal.score_bins import BinnedScores

# Weights at the optimum of their own fit do not point away from the truth by more than noise.
COSINES = np.linspace(-0.4, LARGEST_COSINE, 51)
# Scores in units of their standard deviation; those further out count as the last node. Both grids
# together move a cosine by about a fortieth of its standard error at n = 500.
NODES = np.linspace(-5.0, 5.0, 101)


@dataclass(frozen=True, eq=False)
class CosineEvidence:
    """What the fits of m penalties say of their angles; nothing of it belongs to a row.

    Attributes
    ----------
    plain : BinnedScores
        Weights of the rows by their standard scores, (m, nodes) for each label.
    leaning : BinnedScores
        The same, times residuals and couplings.
    couplings : (m,) array
        Σ c_i.
    effects : (m,) array or 1
        Labels that say as much of the cosine as one independent label.
    """

    plain: BinnedScores
    leaning: BinnedScores
    couplings: Floats
    effects: Floats | float = 1.0


def cosines_under(
    link: Link,
    observables: list[Observables],
    labels: Floats,
    weights: Floats,
    confidence: float,
) -> tuple[Floats, Floats]:
    """(m,) cosines and their (m, 2) intervals, given the link."""
    return cosines_of(link, evidence_of(observables, labels, weights), confidence)


def cosines_of(link: Link, found: CosineEvidence, confidence: float) -> tuple[Floats, Floats]:
    """As `cosines_under`."""
    gathered, leaning = found.plain, found.leaning
    total = np.maximum(found.couplings, np.finfo(float).tiny)
    F = np.array([likelihood_curve(link, c, NODES) for c in COSINES])
    log_p, log_q = np.log(F), np.log1p(-F)
    likelihood = gathered.positive @ log_p.T + gathered.negative @ log_q.T
    place = _peaks(likelihood)
    cosine = COSINES[0] + (COSINES[1] - COSINES[0]) * place
    slope = np.gradient(F, COSINES, axis=0)
    fisher = _at(place, gathered.total @ (slope**2 / (F * (1.0 - F))).T) / found.effects
    # ∂²log P/∂c∂s for either label.
    mixed = [
        np.gradient(np.gradient(part, COSINES, axis=0), NODES, axis=1) for part in (log_p, log_q)
    ]
    lean = _at(place, leaning.positive @ mixed[0].T + leaning.negative @ mixed[1].T)
    error = np.array(
        [
            LooInformation(float(information), float(pull**2 / sum_)).standard_error
            for information, pull, sum_ in zip(fisher, lean, total, strict=True)
        ]
    )
    half = quantile(confidence) * error
    interval = np.column_stack([np.maximum(cosine - half, -1.0), np.minimum(cosine + half, 1.0)])
    missing = ~np.isfinite(likelihood).all(axis=1)
    cosine[missing], interval[missing] = np.nan, np.nan
    return cosine, interval


def evidence_of(observables: list[Observables], labels: Floats, weights: Floats) -> CosineEvidence:
    """Evidence of fits whose observables are at hand."""
    weights = weights / weights.mean()
    shape = (len(observables), len(NODES))
    plain = BinnedScores(NODES, np.full(shape, np.nan), np.full(shape, np.nan))
    leaning = BinnedScores(NODES, np.zeros(shape), np.zeros(shape))
    total, effects = np.ones((2, len(observables)))
    for c, o in enumerate(observables):
        scale = score_scale(o, np.zeros(0), 0.0, case_weights=weights)
        if not (np.isfinite(scale.norm) and scale.norm > 0):
            continue  # a score that does not vary has no angle
        scores = scale.standardize(o.calibration_scores)
        lean = weights * o.residuals * o.coupling / scale.norm
        if o.groups is not None:
            lean *= o.groups.mass_shares(weights)
        total[c] = float(o.coupling.sum())
        effects[c] = label_effects(o.groups, scores, labels, weights)[1]
        for target, row_weights in ((plain, weights), (leaning, lean)):
            target.positive[c] = at_nodes(scores, row_weights * labels)
            target.negative[c] = at_nodes(scores, row_weights * (1.0 - labels))
    return CosineEvidence(plain, leaning, total, effects)


def at_nodes(scores: Floats, weights: Floats) -> Floats:
    """Each row's weight shared between the two nodes around its score."""
    place = np.clip((scores - NODES[0]) / (NODES[1] - NODES[0]), 0.0, len(NODES) - 1.001)
    below = place.astype(np.intp)
    share = place - below
    lower = np.bincount(below, weights * (1.0 - share), len(NODES))
    upper = np.bincount(below + 1, weights * share, len(NODES))
    return np.asarray(lower + upper, dtype=np.float64)


def _peaks(likelihood: Floats) -> Floats:
    """Where each row is largest, between nodes: the vertex of a parabola through three of them."""
    top = np.clip(np.argmax(likelihood, axis=1), 1, likelihood.shape[1] - 2)
    rows = np.arange(len(top))
    left, middle, right = (likelihood[rows, top + shift] for shift in (-1, 0, 1))
    bend = 2.0 * middle - left - right
    shift = np.divide(0.5 * (right - left), bend, out=np.zeros_like(bend), where=bend > 0)
    return top.astype(np.float64) + np.clip(shift, -1.0, 1.0)


def _at(place: Floats, table: Floats) -> Floats:
    """Each row's value at its place, linear between nodes."""
    below = np.minimum(place.astype(np.intp), table.shape[1] - 2)
    rows, share = np.arange(len(place)), place - below
    return (1.0 - share) * table[rows, below] + share * table[rows, below + 1]
