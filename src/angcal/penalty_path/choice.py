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

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import expit

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import linear_scores
from angcal.leverages.groups import Groups, label_effects
from angcal.link_posterior import BELIEF
from angcal.metrics import bin_index
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.observables import Observables, honest_scores
from angcal.penalty_path.curve_fits import CurveFit, curve_fit
from angcal.problem import LinearFit

SCORINGS = ("log_loss", "brier_score")
APART = 30.0
"""Factor between penalties that are averaged: on development tasks a factor of five gives the same
log-loss with three times as many models."""


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
        What sampled leverages leave open of the score; 0 where they are exact.
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
    criterion : (m,) array
        What the chosen penalty minimizes; see :mod:`angcal.penalty_path.evidence`.
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
    criterion: Floats | None = None


class PathCurves(ABC):
    """Calibrated curves of all penalties, judged by leave-one-out; columns are penalties.

    Attributes
    ----------
    labels, weights : (n,) arrays
        Labels or codes of classes, and case weights.
    """

    labels: Floats
    weights: Floats

    @property
    @abstractmethod
    def groups(self) -> Groups | None:
        """Rows that belong together."""

    @abstractmethod
    def own(self, calibrated: bool) -> Floats:
        """P of each row's own label, calibrated or the model's own, (n, m)."""

    @abstractmethod
    def events(self, calibrated: bool) -> tuple[Floats, Floats]:
        """(p, y): probabilities of an event that the ECE is taken of, and whether it came true."""

    def mean(self, values: Floats) -> Floats:
        """Σ ω_i v_i/N of every column."""
        return self.weights @ values / self.weights.sum()

    @cached_property
    def losses(self) -> Floats:
        """−log P(y_i | p_i), (n, m)."""
        return _losses(self.own(calibrated=True))

    @property
    def log_loss(self) -> Floats:
        """Mean loss under every penalty."""
        return self.mean(self.losses)

    @property
    def log_loss_se(self) -> Floats:
        """√(Σ ω_i²(loss_i − mean)²)/N; with groups, of their sums."""
        deviations = self.weights[:, None] * (self.losses - self.log_loss)
        sums = deviations if self.groups is None else self.groups.sums(deviations)
        return np.sqrt(np.sum(sums**2, axis=0)) / self.weights.sum()

    @property
    def uncalibrated_log_loss(self) -> Floats:
        """Mean loss of the model's own probabilities."""
        return self.mean(self.plain_losses)

    @property
    def plain_losses(self) -> Floats:
        """Those of the model's own probabilities, (n, m)."""
        return _losses(self.own(calibrated=False))

    def independent_labels(self, index: int) -> float:
        """n, or what n labels of groups are worth under one penalty."""
        if self.groups is None:
            return float(len(self.labels))
        p, true = self.events(calibrated=True)
        residuals = np.broadcast_to(true, p.shape)[:, index] - p[:, index]
        return len(self.labels) / self.groups.design_effect(residuals, self.weights)

    def distinct_labels(self, index: int) -> float:
        """n, or rows of groups less those that are copies of others, under one penalty."""
        return self.independent_labels(index)

    def ece(self, calibrated: bool) -> Floats:
        """Expected calibration error under every penalty, 15 bins."""
        # Σ_b (W_b/W)|ȳ_b − p̄_b| = Σ_b |Σ_{i in b} ω_i(y_i − p_i)|/W.
        return np.abs(self.gaps(calibrated)).sum(axis=1) / self.weights.sum()

    def gaps(self, calibrated: bool) -> Floats:
        """Σ_{i in b} ω_i(y_i − p_i) of every penalty and bin b, in one sum."""
        (p, true), bins = self.events(calibrated), 15
        m = p.shape[1]
        edges = np.arange(1, bins) / bins
        places = bin_index(p.ravel(), edges) + bins * np.tile(np.arange(m), len(p))
        gaps = (self.weights[:, None] * (true - p)).ravel()
        return np.bincount(places, gaps, bins * m).reshape(m, bins).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LooCurves(PathCurves):
    """The logistic curves through the leave-one-out scores of every penalty.

    Attributes
    ----------
    scores : (n, m) array
        z̃, which curves are fitted to.
    honest : (n, m) array
        Scores that curves are judged by.
    bare : (n, m) array
        ũ, which the model's own probabilities are judged by.
    labels, weights : (n,) arrays
    groups : Groups or None
        Rows that were left out together.
    known_fit : CurveFit, optional
        The curves, where these are some of the rows that they were fitted to.
    """

    scores: Floats
    honest: Floats
    bare: Floats
    labels: Floats
    weights: Floats
    groups: Groups | None = None
    known_fit: CurveFit | None = None

    @classmethod
    def of(cls, fits: list[LinearFit], observed: list[Observables], weights: Floats) -> Self:
        """Of fits under every penalty and what each reveals; weights are those of cases."""
        pairs = zip(fits, observed, strict=True)
        return cls(
            np.column_stack([found.calibration_scores for found in observed]),
            np.column_stack([honest_scores(fit, found) for fit, found in pairs]),
            np.column_stack([found.loo_scores for found in observed]),
            fits[0].labels,
            weights,
            observed[0].groups,
        )

    @cached_property
    def fit(self) -> CurveFit:
        """The curves."""
        if self.known_fit is not None:
            return self.known_fit
        return curve_fit(self.scores, self.labels, self.weights)

    @cached_property
    def probabilities(self) -> Floats:
        """p_i of every row under every penalty, without its own label, (n, m)."""
        a, b = self._parameters_without()
        return expit(a * self.honest + b)

    def _parameters_without(self) -> tuple[Floats, Floats]:
        """(a, b) of every curve without each row, (n, m) each, by one Newton step."""
        fit, s = self.fit, self.scores
        a, b, (one, first, second) = fit.slopes, fit.offsets, fit.information
        omega = (self.weights / fit.mean_weight)[:, None]
        p = expit(a * s + b)
        D = omega * p * (1.0 - p)
        # No less than its own rounding: one row may hold nearly all of the curvature.
        least = np.maximum(np.finfo(float).eps * one * second, np.finfo(float).tiny)
        determinant = np.maximum(one * second - first**2, least)
        in_a, in_b = (one * s - first) / determinant, (second - first * s) / determinant
        if self.groups is not None:
            pulls = omega * (p - fit.targets_of(self.labels))
            in_group = [self.groups.sums(pulls * part)[self.groups.codes] for part in (in_a, in_b)]
            return np.maximum(a + in_group[0], 0.0), b + in_group[1]
        # A row that determines its own curve is judged as if it did so almost.
        leverage = np.minimum(D * (in_a * s + in_b), 0.99)
        step = omega * (p - fit.targets_of(self.labels)) / (1.0 - leverage)
        return np.maximum(a + in_a * step, 0.0), b + in_b * step

    def distinct_labels(self, index: int) -> float:
        """By the design effect of the slope, as labels count for columns where these differ."""
        n = float(len(self.labels))
        if self.groups is None:
            return n
        found = label_effects(self.groups, self.scores[:, index], self.labels, self.weights)
        return n * self.groups.distinct_share(found[1], self.weights)

    def events(self, calibrated: bool) -> tuple[Floats, Floats]:
        """P(y = 1), and y."""
        return (self.probabilities if calibrated else expit(self.bare)), self.labels[:, None]

    def own(self, calibrated: bool) -> Floats:
        p, y = self.events(calibrated)
        return np.where(y == 1.0, p, 1.0 - p)

    @property
    def brier_score(self) -> Floats:
        """Mean of (y − p)²."""
        return self.mean((self.labels[:, None] - self.probabilities) ** 2)

    def sampling_error(self, scoring: str, observables: list[Observables]) -> Floats:
        """|∂loss/∂log ρ| times the relative error of ρ: what sampled leverages leave open.

        ∂z̃_i/∂log ρ = −γ_iψ_i. Under weak penalties γψ is large, and a low ρ flatters the loss.
        """
        p = self.probabilities
        pull = (p - self.labels[:, None]) * self.fit.slopes
        if scoring == "brier_score":
            pull *= 2.0 * p * (1.0 - p)
        moves = np.column_stack([found.slope_steps * found.residuals for found in observables])
        errors = np.array([found.step_error for found in observables])
        return np.abs(self.mean(pull * moves)) * errors


def _losses(own: Floats) -> Floats:
    return -np.log(np.maximum(own, PROBABILITY_FLOOR))


def confidence_word(slope: float, error: float) -> str:
    """Whether a model with this slope believes itself too much, too little or about right.

    Confidence against accuracy does not tell: a model that is half right by chance and half sure of
    it can still be far off row by row.

    Examples
    --------
    >>> confidence_word(0.3, 0.05), confidence_word(0.95, 0.05)
    ('overconfident', 'about right')
    """
    # A tenth changes no probability by much.
    if not abs(slope - 1.0) > max(plan.CLEAR * error, 0.1):
        return "about right"
    return "overconfident" if slope < 1.0 else "underconfident"


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
    laws : list
        What each knows for intervals (:mod:`angcal.intervals`).
    """

    shares: Floats
    coefs: Floats
    intercepts: Floats
    curves: list[Any]
    laws: list[Any]

    def predict(self, rows: Matrix) -> Floats:
        """Σ_λ π_λ·F_λ of the rows: P(y = 1), or P of each of K > 2 classes."""
        parts = zip(self.shares, self.curves, self.scores(rows), strict=True)
        p = sum(share * curve.predict(scores) for share, curve, scores in parts)
        return np.clip(p, 0.0, 1.0)

    def scores(self, rows: Matrix) -> Iterator[Floats]:
        """(n,) or (n, K) scores of the rows under each model."""
        for coef, intercept in zip(self.coefs, self.intercepts, strict=True):
            yield linear_scores(rows, coef.T, intercept)


@dataclass(frozen=True, eq=False)
class LeftOutAverage:
    """Σ_λ π_λ·P_λ of each training row without its own label.

    Attributes
    ----------
    shares : (k,) array
        π, summing to 1.
    parts : list
        What each of the averaged models says of rows that were left out.
    chosen : object
        The same of the one chosen model, which plain probabilities are of.
    """

    shares: Floats
    parts: list[Any]
    chosen: Any

    def probabilities(self) -> Floats:
        """(n, K), one column for each class."""
        pairs = zip(self.shares, self.parts, strict=True)
        return np.sum([share * part.probabilities() for share, part in pairs], axis=0)

    def plain(self) -> Floats:
        """(n, K) probabilities of the chosen linear model itself."""
        found: Floats = self.chosen.plain()
        return found


def apart(Cs: Floats, index: int) -> np.ndarray:
    """Places of penalties that are worth averaging: the chosen one, and others a factor apart.

    Neighbors on a fine grid make the same predictions. Every third of 20 averages as well as all.

    Examples
    --------
    >>> apart(np.geomspace(1e-4, 1e4, 9), 4)
    array([0, 2, 4, 6, 8])
    """
    kept = [index]
    for step in (-1, 1):
        last = index
        for k in range(index + step, len(Cs) if step > 0 else -1, step):
            if abs(np.log(Cs[k] / Cs[last])) >= np.log(APART):
                kept.append(k)
                last = k
    return np.sort(kept)


def penalty_shares(losses: Floats, n_labels: float) -> Floats:
    """π of every penalty; 0 where it is negligible.

    Examples
    --------
    >>> penalty_shares(np.array([0.50, 0.50, 0.60]), 200).round(4)
    array([0.5, 0.5, 0. ])
    """
    shares = np.exp(-BELIEF.labels_count_for * n_labels * (losses - losses.min()))
    shares /= shares.sum()
    shares[shares < 1e-3] = 0.0  # moves no probability by as much
    return shares / shares.sum()
