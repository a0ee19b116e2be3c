r"""Which penalty: the leave-one-out log-loss of a calibrated curve under each of them.

For every penalty a logistic curve p(u) = 1/(1 + exp(−a·u − b)), a ≥ 0, is fitted to the labels at
their leave-one-out scores z̃, and

    log-loss = −(1/N) Σ ω_i [y_i log p_i + (1 − y_i) log(1 − p_i)],   p_i = p₍₋ᵢ₎(ũ_i)

Neither curve nor score have seen the label that they are judged by: p₍₋ᵢ₎ has the parameters
without row i, one Newton step from those with it, and ũ_i is a score that its label has not
touched (:func:`~angcal.observables.honest_scores`). The full calibration, with its angle and link,
is left for the penalty that is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from angcal._typing import Floats, Matrix
from angcal.arrays import product
from angcal.link_posterior import BELIEF
from angcal.metrics import bin_index
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.observables import Observables

MOST_STEPS, MOST_HALVINGS, SMALLEST_GAIN = 50, 20, 1e-8
ECE_BINS = 15
# A row that determines its own curve is judged as if it did so almost.
LARGEST_LEVERAGE = 0.99
# How much a loss is raised for each standard error that sampled leverages leave it. Sparse rows
# need more: on one-hot columns under weak penalties losses were off by seven of them.
SAMPLING_WEIGHT, SPARSE_SAMPLING_WEIGHT = 2.0, 8.0
SCORINGS = ("log_loss", "brier_score")


@dataclass(frozen=True, eq=False)
class PenaltyPath:
    """What each penalty would give, from the strongest to the weakest; all by leave-one-out.

    Attributes
    ----------
    C : (m,) array
        Inverse strengths, increasing.
    log_loss, log_loss_se : (m,) arrays
        Of the calibrated curve, and the standard error of that mean.
    sampling_error : (m,) array
        What sampled leverages leave open of the loss that was minimised; 0 where they are exact.
    brier_score : (m,) array
    ece : (m,) array
        Expected calibration error of the calibrated curve, 15 bins.
    uncalibrated_log_loss, uncalibrated_ece : (m,) arrays
        Of the logistic model's own probabilities for rows that it has not seen.
    cosine : (m,) array
        Of the angle between fitted and true weights, by likelihood under the one link that the
        chosen penalty's calibration found or was given; NaN where there is no angle.
    cosine_interval : (m, 2) array
        Its interval, given that link.
    degrees_of_freedom : (m,) array
    index : int
        The chosen penalty.
    """

    C: Floats
    log_loss: Floats
    log_loss_se: Floats
    sampling_error: Floats
    brier_score: Floats
    ece: Floats
    uncalibrated_log_loss: Floats
    uncalibrated_ece: Floats
    cosine: Floats
    cosine_interval: Floats
    degrees_of_freedom: Floats
    index: int


@dataclass(frozen=True, eq=False)
class LooCurves:
    """The logistic curves through the leave-one-out scores of every penalty.

    Attributes
    ----------
    scores : (n, m) array
        z̃, which curves are fitted to.
    honest : (n, m) array
        Scores that curves are judged by.
    own : (n, m) array
        ũ, which the model's own probabilities are judged by.
    labels, weights : (n,) arrays
    """

    scores: Floats
    honest: Floats
    own: Floats
    labels: Floats
    weights: Floats

    @cached_property
    def parameters(self) -> tuple[Floats, Floats]:
        """(a, b) of every curve."""
        return fit_curves(self.scores, self.labels, self.weights)

    @cached_property
    def probabilities(self) -> Floats:
        """p_i of every row under every penalty, without its own label, (n, m)."""
        a, b = self._parameters_without()
        return expit(a * self.honest + b)

    def _parameters_without(self) -> tuple[Floats, Floats]:
        """(a, b) of every curve without each row, (n, m) each, by one Newton step."""
        (a, b), s = self.parameters, self.scores
        omega = (self.weights / self.weights.mean())[:, None]
        p = expit(a * s + b)
        D = omega * p * (1.0 - p)
        one, first, second = D.sum(axis=0), (D * s).sum(axis=0), (D * s * s).sum(axis=0)
        determinant = np.maximum(one * second - first**2, np.finfo(float).tiny)
        in_a, in_b = (one * s - first) / determinant, (second - first * s) / determinant
        leverage = np.minimum(D * (in_a * s + in_b), LARGEST_LEVERAGE)
        step = omega * (p - platt_targets(self.labels, self.weights)) / (1.0 - leverage)
        return np.maximum(a + in_a * step, 0.0), b + in_b * step

    def _mean(self, values: Floats) -> Floats:
        return self.weights @ values / self.weights.sum()

    @cached_property
    def losses(self) -> Floats:
        """−log P(y_i | p_i), (n, m)."""
        return _losses(self.probabilities, self.labels)

    @property
    def log_loss(self) -> Floats:
        """Mean loss under every penalty."""
        return self._mean(self.losses)

    @property
    def log_loss_se(self) -> Floats:
        """√(Σ ω_i²(loss_i − mean)²)/N."""
        deviations = self.weights[:, None] * (self.losses - self.log_loss)
        return np.sqrt(np.sum(deviations**2, axis=0)) / self.weights.sum()

    @property
    def brier_score(self) -> Floats:
        """Mean of (y − p)²."""
        return self._mean((self.labels[:, None] - self.probabilities) ** 2)

    @property
    def uncalibrated_log_loss(self) -> Floats:
        """Mean loss of the model's own p = 1/(1 + exp(−ũ))."""
        return self._mean(_losses(expit(self.own), self.labels))

    def sampling_error(self, scoring: str, observables: list[Observables]) -> Floats:
        """|∂loss/∂log ρ| times the relative error of ρ: what sampled leverages leave open.

        ∂z̃_i/∂log ρ = −γ_iψ_i. Under weak penalties γψ is large, and a low ρ flatters the loss.
        """
        p = self.probabilities
        pull = (p - self.labels[:, None]) * self.parameters[0]
        if scoring == "brier_score":
            pull *= 2.0 * p * (1.0 - p)
        moves = np.column_stack([found.slope_steps * found.residuals for found in observables])
        errors = np.array([found.step_error for found in observables])
        return np.abs(self._mean(pull * moves)) * errors

    def ece(self, calibrated: bool) -> Floats:
        """Expected calibration error under every penalty."""
        p = self.probabilities if calibrated else expit(self.own)
        m = p.shape[1]
        # Σ_b (W_b/W)|ȳ_b − p̄_b| = Σ_b |Σ_{i in b} ω_i(y_i − p_i)|/W, all penalties in one sum.
        edges = np.arange(1, ECE_BINS) / ECE_BINS
        places = bin_index(p.ravel(), edges) + ECE_BINS * np.tile(np.arange(m), len(p))
        gaps = (self.weights[:, None] * (self.labels[:, None] - p)).ravel()
        sums = np.bincount(places, gaps, ECE_BINS * m).reshape(m, ECE_BINS)
        return np.abs(sums).sum(axis=1) / self.weights.sum()


def _losses(p: Floats, labels: Floats) -> Floats:
    p = np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
    return -np.log(np.where(labels[:, None] == 1.0, p, 1.0 - p))


def platt_targets(labels: Floats, weights: Floats) -> Floats:
    """(N₁ + 1)/(N₁ + 2) for label 1 and 1/(N₀ + 2) for label 0, (n, 1)."""
    positive = float((weights / weights.mean()) @ labels)
    high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (len(labels) - positive + 2.0)
    return np.where(labels == 1.0, high, low)[:, None]


def fit_curves(scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """(a, b), a ≥ 0, of a logistic curve for each column of scores: Fisher scoring on all at once.

    Targets are Platt's, (N₁ + 1)/(N₁ + 2) and 1/(N₀ + 2), which keep the slope finite where the
    classes do not overlap.
    """
    center, spread = scores.mean(axis=0), scores.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    s = (scores - center) / spread
    omega = (weights / weights.mean())[:, None]
    targets = platt_targets(labels, weights)
    share = float(np.mean(omega * targets))
    a, b = np.zeros(s.shape[1]), np.full(s.shape[1], np.log(share / (1.0 - share)))

    def loss(a: Floats, b: Floats) -> Floats:
        u = a * s + b
        softplus = np.log1p(np.exp(-np.abs(u))) + np.maximum(u, 0.0)
        return np.sum(omega * (softplus - targets * u), axis=0)

    value = loss(a, b)
    for _ in range(MOST_STEPS):
        p = expit(a * s + b)
        pull, curvature = omega * (p - targets), omega * p * (1.0 - p)
        ga, gb = np.sum(pull * s, axis=0), np.sum(pull, axis=0)
        bent = curvature * s
        haa, hab, hbb = np.sum(bent * s, axis=0), np.sum(bent, axis=0), np.sum(curvature, axis=0)
        held = (a <= 0.0) & (ga >= 0.0)
        determinant = np.maximum(haa * hbb - hab**2, np.finfo(float).tiny)
        da = np.where(held, 0.0, (hab * gb - hbb * ga) / determinant)
        db = -(gb + hab * da) / np.maximum(hbb, np.finfo(float).tiny)
        if np.all(-(ga * da + gb * db) < SMALLEST_GAIN):
            break
        size = np.ones_like(a)
        for _ in range(MOST_HALVINGS):
            trial_a, trial_b = np.maximum(a + size * da, 0.0), b + size * db
            found = loss(trial_a, trial_b)
            worse = ~(found <= value + 1e-12 * np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        a, b = np.where(worse, a, trial_a), np.where(worse, b, trial_b)
        value = np.where(worse, value, found)
    return a / spread, b - a * center / spread


def with_doubt(losses: Floats, errors: Floats, *, is_sparse: bool = False) -> Floats:
    """Losses that count for more than they are where sampled leverages leave them open.

    The weaker the penalty the more they leave open, and the luckiest of many wide guesses would
    win.
    """
    weight = SPARSE_SAMPLING_WEIGHT if is_sparse else SAMPLING_WEIGHT
    return losses + weight * errors


def choose(losses: Floats, errors: Floats, *, is_sparse: bool = False) -> int:
    """The penalty of the smallest loss; of equal ones the first, which is the strongest."""
    return int(np.argmin(with_doubt(losses, errors, is_sparse=is_sparse)))


# Differences below two standard errors are not told from chance.
CLEAR = 2.0
# A slope within this of 1 changes no probability by much.
SLOPE_MARGIN = 0.1


def calibration_slope(scores: Floats, labels: Floats) -> tuple[float, float]:
    """a ≥ 0 of the likeliest P(y = 1) = σ(a·score + b), and its standard error.

    Parameters
    ----------
    scores : (n,) array
        Of rows that the model has not seen; leave-one-out ones will do.
    labels : (n,) array of 0.0 and 1.0
    """
    if np.ptp(scores) == 0:
        return 0.0, float("inf")
    slopes, offsets = fit_curves(scores[:, None], labels, np.ones_like(scores))
    p = expit(slopes[0] * scores + offsets[0])
    weights = p * (1.0 - p)
    center = np.average(scores, weights=weights)
    information = float(weights @ (scores - center) ** 2)
    return float(slopes[0]), 1.0 / np.sqrt(information) if information > 0 else float("inf")


def confidence_word(slope: float, error: float) -> str:
    """Whether a model with this slope believes itself too much, too little or about right.

    Confidence against accuracy does not tell: a model that is half right by chance and half sure of
    it can still be far off row by row.

    Examples
    --------
    >>> confidence_word(0.3, 0.05), confidence_word(0.95, 0.05)
    ('overconfident', 'about right')
    """
    if not abs(slope - 1.0) > max(CLEAR * error, SLOPE_MARGIN):
        return "about right"
    return "overconfident" if slope < 1.0 else "underconfident"


# Less than this moves no probability by as much.
SMALLEST_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class PenaltyAverage:
    """Linear models under several penalties with their curves and shares.

    Attributes
    ----------
    shares : (k,) array
        π, summing to 1.
    coefs : (k, d) or (k, K, d) array
    intercepts : (k,) or (k, K) array
    curves : list
        F of each.
    """

    shares: Floats
    coefs: Floats
    intercepts: Floats
    curves: list[Any]

    def predict(self, rows: Matrix) -> Floats:
        """Σ_λ π_λ·F_λ of the rows: P(y = 1), or P of each of K > 2 classes."""
        parts = zip(self.shares, self.coefs, self.intercepts, self.curves, strict=True)
        p = sum(
            share * curve.predict(product(rows, coef.T) + intercept)
            for share, coef, intercept, curve in parts
        )
        return np.clip(p, 0.0, 1.0)


def penalty_shares(losses: Floats, n_labels: int) -> Floats:
    """π of every penalty; 0 where it is negligible.

    Examples
    --------
    >>> penalty_shares(np.array([0.50, 0.50, 0.60]), 200).round(4)
    array([0.5, 0.5, 0. ])
    """
    shares = np.exp(-BELIEF.labels_count_for * n_labels * (losses - losses.min()))
    shares /= shares.sum()
    shares[shares < SMALLEST_SHARE] = 0.0
    return shares / shares.sum()
