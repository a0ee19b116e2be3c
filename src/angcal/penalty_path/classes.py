r"""The losses of every penalty for three and more classes, as `LooCurves` has them for two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from angcal._typing import Floats
from angcal.metrics import bin_index
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.multiclass import ClassScores
from angcal.multiclass.posterior import class_posterior
from angcal.observables import Observables
from angcal.penalty_path.choice import ECE_BINS


@dataclass(frozen=True, eq=False)
class ClassCurves:
    """Calibrated maps of all penalties and their leave-one-out losses.

    Attributes
    ----------
    scores : list of ClassScores
        One entry for each penalty.
    labels, weights : (n,) arrays
        Codes of the classes, and case weights.
    """

    scores: list[ClassScores]
    labels: Floats
    weights: Floats

    @property
    def codes(self) -> np.ndarray:
        """Labels as places of classes."""
        return self.labels.astype(np.intp)

    @cached_property
    def probabilities(self) -> list[Floats]:
        """(n, K) of every row under every penalty, without its own label."""
        found = []
        for each in self.scores:
            posterior = class_posterior(each.honest, self.codes, self.weights)
            found.append(posterior.map.predict(each.honest, -posterior.left_out_steps()))
        return found

    def _own_losses(self, probabilities: list[Floats]) -> Floats:
        own = np.column_stack([p[np.arange(len(p)), self.codes] for p in probabilities])
        return -np.log(np.maximum(own, PROBABILITY_FLOOR))

    def _mean(self, values: Floats) -> Floats:
        return self.weights @ values / self.weights.sum()

    @cached_property
    def losses(self) -> Floats:
        """−log P(y_i | p_i), (n, m)."""
        return self._own_losses(self.probabilities)

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
        """Mean of Σ_k (y_k − p_k)²."""
        rows = [
            np.sum(p**2, axis=1) - 2.0 * p[np.arange(len(p)), self.codes] + 1.0
            for p in self.probabilities
        ]
        return self._mean(np.column_stack(rows))

    @cached_property
    def _plain(self) -> list[Floats]:
        return [each.link(each.honest) for each in self.scores if each.link is not None]

    @property
    def uncalibrated_log_loss(self) -> Floats:
        """Mean loss of the model's own probabilities."""
        return self._mean(self._own_losses(self._plain))

    def sampling_error(self, scoring: str, observables: list[Observables]) -> Floats:
        """|∂loss/∂log ρ| times the relative error of ρ: what sampled leverages leave open."""
        found = []
        for p, each in zip(self.probabilities, observables, strict=True):
            miss = p.copy()
            miss[np.arange(len(p)), self.codes] -= 1.0
            if scoring == "brier_score":
                miss = 2.0 * p * (miss - np.sum(p * miss, axis=1, keepdims=True))
            moved = np.sum(miss * each.slope_steps * each.residuals, axis=1)
            found.append(abs(float(self._mean(moved))) * each.step_error)
        return np.array(found)

    def ece(self, calibrated: bool) -> Floats:
        """Expected calibration error of the most likely class under every penalty."""
        return np.array([self._ece(p) for p in (self.probabilities if calibrated else self._plain)])

    def _ece(self, p: Floats) -> float:
        top = p.max(axis=1)
        hit = p.argmax(axis=1) == self.codes
        places = bin_index(top, np.arange(1, ECE_BINS) / ECE_BINS)
        gaps = np.bincount(places, self.weights * (hit - top), ECE_BINS)
        return float(np.abs(gaps).sum() / self.weights.sum())
