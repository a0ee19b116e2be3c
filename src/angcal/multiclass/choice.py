r"""Which map is delivered: the angular one, temperature scaling, or the base model's own.

Each candidate is judged by an honest leave-one-out log-loss:

- at scores that the row's own label has not touched (:attr:`ClassScores.honest_scores`);
- under the map without the row, because its parameters were fitted to the same labels: one Newton
  step from the parameters with it, θ₍₋ᵢ₎ = θ + H⁻¹g_i/(1 − leverage);
- and never below the loss at the fitted scores. These are scores that flatter, so a map that is
  worse on them has learned the labels that leaving a row out writes into its score.

The angular map nests temperature scaling and averages over what labels leave open, which pays most
where labels are few and their leave-one-out losses uncertain. So it stays unless a simpler map is
better by more than the standard error of their difference and by more than one percent.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from angcal._typing import Floats
from angcal.baselines import SoftmaxTemperature
from angcal.links.multiclass import SeveralLink, Softmax
from angcal.multiclass.class_scores import ClassScores
from angcal.multiclass.integration import Noise
from angcal.multiclass.predictor import SeveralPredictor

NAMES = {
    "angular": "the angular map",
    "temperature": "temperature scaling",
    "plain": "the base model's own probabilities",
}
# By how much a simpler map has to be better: standard errors of the difference, and a share of its
# loss. With neither, chance takes a better map away on six of 49 designs (Semeion with 4 labels per
# class: held-out log-loss 1.050 where the angular map has 0.995); with both, on none of them.
STANDARD_ERRORS, SMALLEST_GAIN = 1.0, 0.01
SMALLEST_PROBABILITY = 1e-300
LARGEST_LEVERAGE = 0.99


@dataclass(frozen=True, eq=False)
class MapChoice:
    """Which map from scores to probabilities is used, and why.

    Attributes
    ----------
    method : {"angular", "temperature", "plain", "prevalence"}
        The map.
    reason : str
        One sentence with the losses that decided.
    losses : dict of str to float
        Honest leave-one-out log-loss of each map that was judged.
    """

    method: str
    reason: str
    losses: dict[str, float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A map and what each row loses under it.

    Attributes
    ----------
    method : str
    predictor : SeveralPredictor
    left_out : (n, K) array
        Probabilities of the training rows, each without its own label.
    row_losses : (n,) array
        Honest leave-one-out losses; see the module.
    loss : float
        Their weighted mean.
    """

    method: str
    predictor: SeveralPredictor
    left_out: Floats
    row_losses: Floats
    loss: float


def candidate(
    method: str,
    predictor: SeveralPredictor,
    left_out: Floats,
    fitted: Floats,
    codes: np.ndarray,
    weights: Floats,
) -> Candidate:
    """A candidate from its probabilities of left-out and of fitted rows, (n, K) each."""
    each = np.arange(len(codes))
    losses = [-np.log(np.maximum(p[each, codes], SMALLEST_PROBABILITY)) for p in (left_out, fitted)]
    means = [float(np.average(rows, weights=weights)) for rows in losses]
    worse = int(np.argmax(means))
    return Candidate(method, predictor, left_out, losses[worse], means[worse])


def simpler_maps(heads: ClassScores, codes: np.ndarray, weights: Floats) -> list[Candidate]:
    """Temperature scaling on leave-one-out scores, and the base model's own probabilities."""
    calibration, honest, fitted = (
        scores @ heads.spread.T
        for scores in (heads.scores, heads.honest_scores, heads.fitted_scores)
    )
    with warnings.catch_warnings():
        # Its remarks are for those who ask for temperature scaling; here it is a yardstick.
        warnings.simplefilter("ignore")
        slope = 1.0 / SoftmaxTemperature().fit(calibration, codes, weights).temperature_
    without = _slopes_without(slope, calibration, codes, weights)
    found = [
        candidate(
            "temperature",
            _direct(Softmax(len(heads.contrast)), slope),
            softmax(without[:, None] * honest, axis=1),
            softmax(slope * fitted, axis=1),
            codes,
            weights,
        )
    ]
    if heads.link is not None:
        own = _direct(heads.link, 1.0)
        found.append(
            candidate(
                "plain",
                own,
                heads.link(heads.loo_scores @ heads.spread.T),
                heads.link(fitted),
                codes,
                weights,
            )
        )
    return found


def _direct(link: SeveralLink, slope: float) -> SeveralPredictor:
    """g(slope·u) of the heads' raw scores u."""
    K = link.n_indices
    return SeveralPredictor(
        link, slope * np.eye(K), np.zeros(K), Noise(np.zeros((K, 0))), np.zeros(K)
    )


def _slopes_without(slope: float, logits: Floats, codes: np.ndarray, weights: Floats) -> Floats:
    """β₍₋ᵢ₎ of softmax(βu), one Newton step for each row."""
    p = softmax(slope * logits, axis=1)
    mean = np.sum(p * logits, axis=1)
    gradient = weights * (mean - logits[np.arange(len(codes)), codes])
    curvature = weights * (np.sum(p * logits**2, axis=1) - mean**2)
    total = max(float(curvature.sum()), np.finfo(float).tiny)
    share = np.minimum(curvature / total, LARGEST_LEVERAGE)
    return np.maximum(slope + gradient / (total * (1.0 - share)), 0.0)


def choose(
    angular: Candidate, others: list[Candidate], weights: Floats
) -> tuple[Candidate, MapChoice]:
    """The map that is delivered, and why."""
    best = min(others, key=lambda other: other.loss)
    losses = {each.method: each.loss for each in [angular, *others]}
    gap = angular.row_losses - best.row_losses
    share = weights / weights.sum()
    mean = float(share @ gap)
    error = float(np.sqrt(np.sum(share**2 * (gap - mean) ** 2)))
    if mean <= max(STANDARD_ERRORS * error, SMALLEST_GAIN * best.loss):
        reason = (
            f"{NAMES['angular']}: no simpler map clearly beats its leave-one-out log-loss of "
            f"{angular.loss:.3g} ({NAMES[best.method]} has {best.loss:.3g})"
        )
        return angular, MapChoice("angular", reason, losses)
    reason = (
        f"{NAMES[best.method]}: the leave-one-out log-loss of {NAMES['angular']}, "
        f"{angular.loss:.3g}, does not beat it ({best.loss:.3g})"
    )
    return best, MapChoice(best.method, reason, losses)
