r"""The losses of every penalty for three and more classes, as `LooCurves` has them for two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from angcal._typing import Floats
from angcal.leverages.groups import Groups
from angcal.multiclass import ClassScores
from angcal.multiclass.posterior import class_posterior
from angcal.observables import Observables
from angcal.penalty_path.choice import PathCurves


@dataclass(frozen=True, eq=False)
class ClassCurves(PathCurves):
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
    def groups(self) -> Groups | None:
        """Rows that were left out together."""
        return self.scores[0].groups

    @property
    def codes(self) -> np.ndarray:
        """Labels as places of classes."""
        return self.labels.astype(np.intp)

    @cached_property
    def probabilities(self) -> list[Floats]:
        """(n, K) of every row under every penalty, without its own label."""
        found = []
        for each in self.scores:
            posterior = class_posterior(each.honest, self.codes, self.weights, groups=self.groups)
            if not (np.isfinite(each.honest).all() and np.isfinite(posterior.map.slopes).all()):
                raise ValueError(
                    "Cs holds penalties so weak for X that scores of rows that were left out are "
                    "no numbers; leave out the largest of Cs, or pass a whole number to have a "
                    "grid made for X."
                )
            found.append(posterior.map.predict(each.honest, -posterior.left_out_steps(self.groups)))
        return found

    @cached_property
    def _plain(self) -> list[Floats]:
        return [each.link(each.honest) for each in self.scores if each.link is not None]

    def _each(self, calibrated: bool) -> list[Floats]:
        return self.probabilities if calibrated else self._plain

    def own(self, calibrated: bool) -> Floats:
        each = np.arange(len(self.codes))
        return np.column_stack([p[each, self.codes] for p in self._each(calibrated)])

    def events(self, calibrated: bool) -> tuple[Floats, Floats]:
        """The largest probability, and whether the label is that class."""
        found = self._each(calibrated)
        hits = [p.argmax(axis=1) == self.codes for p in found]
        return np.column_stack([p.max(axis=1) for p in found]), np.column_stack(hits)

    @property
    def brier_score(self) -> Floats:
        """Mean of Σ_k (y_k − p_k)²."""
        squares = np.column_stack([np.sum(p**2, axis=1) for p in self.probabilities])
        return self.mean(squares - 2.0 * self.own(calibrated=True) + 1.0)

    def sampling_error(self, scoring: str, observables: list[Observables]) -> Floats:
        """|∂loss/∂log ρ| times the relative error of ρ: what sampled leverages leave open."""
        found = []
        for p, each in zip(self.probabilities, observables, strict=True):
            miss = p.copy()
            miss[np.arange(len(p)), self.codes] -= 1.0
            if scoring == "brier_score":
                miss = 2.0 * p * (miss - np.sum(p * miss, axis=1, keepdims=True))
            moved = np.sum(miss * each.slope_steps * each.residuals, axis=1)
            found.append(abs(float(self.mean(moved))) * each.step_error)
        return np.array(found)
