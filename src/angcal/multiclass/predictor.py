r"""The multi-index angular predictor E_Z g(M·S + β + LZ), LLᵀ = Cov(G) − C R⁻¹ Cᵀ, M = C R⁻¹.

S are fitted scores with Cov(S) = R, G the true indices, C = Cov(G, S). For Gaussian rows G given S
is N(M·S, LLᵀ), so the predictor is E[g(G) | S]: calibrated exactly, and the best function of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from angcal._typing import Floats
from angcal.covariance import RANK_TOLERANCE
from angcal.links.multiclass import MulticlassLink, as_covariance
from angcal.multiclass.class_map import floored
from angcal.multiclass.integration import (
    Noise,
    Rule,
    noise_of,
    rule_for,
    smoothed,
)


@dataclass(frozen=True, eq=False)
class MulticlassPredictor:
    """Scores to class probabilities.

    Parameters
    ----------
    link : MulticlassLink
        g.
    slopes : (K, m) array
        M.
    offset : (K,) array
        β, added to the indices beside the link's own offset.
    noise : Noise
        L.
    center : (m,) array
        Subtracted from scores before M.
    components : tuple of (weight, length, noise length)
        Where angles are estimated, predictions are averages: means and noise are multiplied by the
        lengths of each component, and weights sum to one.
    floor : float, default=0
        Least probability of a class, where the map was estimated from labels: p becomes
        floor + (1 − K·floor)·p.

    See Also
    --------
    angular_predictor : Makes one from known angles.

    Examples
    --------
    >>> from angcal.links.multiclass import Softmax
    >>> angular_predictor(Softmax(2), np.eye(2), np.eye(2), np.eye(2)).noise.spreads
    array([], dtype=float64)
    """

    link: MulticlassLink
    slopes: Floats
    offset: Floats
    noise: Noise
    center: Floats
    components: tuple[tuple[float, float, float], ...] = ((1.0, 1.0, 1.0),)
    floor: float = 0.0

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Nodes of the integral for each component, the same for every row."""
        # Several components average over each other's errors.
        refinement = 1.0 if len(self.components) == 1 else 0.6
        none = np.empty(0)
        return tuple(
            rule_for(noise * self.noise.spreads if noise > 0 else none, refinement)
            for _, _, noise in self.components
        )

    def means(self, scores: ArrayLike) -> Floats:
        """M(S − center) + β.

        Parameters
        ----------
        scores : (n, m) array
            Raw scores.

        Returns
        -------
        (n, K) array
            Means of the indices.
        """
        s = np.asarray(scores, dtype=np.float64)
        if s.ndim != 2 or s.shape[1] != len(self.center):
            raise ValueError(f"scores must have the shape (n, {len(self.center)}); got {s.shape}.")
        return (s - self.center) @ self.slopes.T + self.offset

    def predict(self, scores: ArrayLike) -> Floats:
        """E_Z g(M(S − center) + β + LZ).

        Parameters
        ----------
        scores : (n, m) array
            Raw scores.

        Returns
        -------
        (n, L) array
            Class probabilities.
        """
        return floored(self.at_means(self.means(scores)), self.floor)

    def at_means(self, means: Floats) -> Floats:
        """The same where M(S − center) + β is known.

        Parameters
        ----------
        means : (n, K) array
            Means of the indices.

        Returns
        -------
        (n, L) array
            Class probabilities.
        """
        return self._average(means, self.rules)

    def _average(self, means: Floats, rules: tuple[Rule, ...]) -> Floats:
        total = np.zeros((len(means), self.link.n_outputs))
        for (weight, length, noise), rule in zip(self.components, rules, strict=True):
            total += weight * smoothed(
                self.link, length * means, self.shifts(noise, rule), rule.weights
            )
        # No entry exceeds the sum, so that none exceeds one after the division either.
        return total / total.sum(axis=1, keepdims=True)

    def shifts(self, noise: float, rule: Rule) -> Floats:
        """Noise of the indices at every node of a component's rule.

        Parameters
        ----------
        noise : float
            Its noise length.
        rule : Rule
            Its nodes.

        Returns
        -------
        (r, K) array
            What is added to the means.
        """
        if noise == 0:
            return np.zeros((1, len(self.offset)))
        return noise * self.noise.shifts(rule)

    def integration_error(self, scores: ArrayLike) -> float:
        """An estimate of the largest error of the integral at these scores.

        For product rules the change under a rule of half as many nodes more; for Sobol points the
        standard error over their groups.

        Parameters
        ----------
        scores : (n, m) array
            Raw scores.

        Returns
        -------
        float
            The error.
        """
        means = self.means(scores)
        groups = max(rule.groups for rule in self.rules)
        if groups == 1:
            finer = tuple(
                rule_for(noise * self.noise.spreads if noise > 0 else np.empty(0), 1.5)
                for _, _, noise in self.components
            )
            gap = self._average(means, self.rules) - self._average(means, finer)
            return float(np.abs(gap).max(initial=0.0))
        parts = [
            self._average(means, tuple(_group(rule, g) for rule in self.rules))
            for g in range(groups)
        ]
        spread = np.std(parts, axis=0, ddof=1) / np.sqrt(groups)
        return float(spread.max(initial=0.0))


def _group(rule: Rule, number: int) -> Rule:
    """One of the groups of a rule, as a rule of its own."""
    if rule.groups == 1:
        return rule
    size = len(rule.nodes) // rule.groups
    rows = slice(number * size, (number + 1) * size)
    return Rule(rule.nodes[rows], np.full(size, 1.0 / size))


SeveralPredictor = MulticlassPredictor
"""Its earlier name, which model files may still have."""


def angular_predictor(
    link: MulticlassLink,
    cross_covariance: ArrayLike,
    score_covariance: ArrayLike,
    index_covariance: ArrayLike,
    *,
    offset: ArrayLike | None = None,
    center: ArrayLike | None = None,
) -> MulticlassPredictor:
    """E_Z g(M·S + β + LZ) for known angles.

    Parameters
    ----------
    link : MulticlassLink
        g.
    cross_covariance : (K, m) array
        C = Cov(G, S).
    score_covariance : (m, m) array
        R = Cov(S); singular where scores depend on each other linearly.
    index_covariance : (K, K) array
        Cov(G).
    offset : (K,) array, optional
        Added to the indices.
    center : (m,) array, optional
        Mean of the scores; zero by default.

    Returns
    -------
    MulticlassPredictor
        Maps scores to class probabilities.

    See Also
    --------
    AngularCalibratedClassifier : Estimates the angles from labels.

    Examples
    --------
    >>> from angcal.links.multiclass import Softmax
    >>> blind = angular_predictor(Softmax(2), np.zeros((2, 1)), [[1.0]], np.eye(2))
    >>> blind.predict([[3.0]])
    array([[0.5, 0.5]])
    """
    C, R, gamma = _checked(link, cross_covariance, score_covariance, index_covariance)
    slopes, rest = _given_scores(C, R, gamma)
    return MulticlassPredictor(
        link,
        slopes,
        _numbers("offset", offset, C.shape[0]),
        noise_of(rest),
        _numbers("center", center, C.shape[1]),
    )


def _checked(link: MulticlassLink, *covariances: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """C, R and Cov(G) as matrices that fit each other and the link."""
    C, R, gamma = (np.atleast_2d(np.asarray(each, dtype=np.float64)) for each in covariances)
    K, m = C.shape
    if R.shape != (m, m) or gamma.shape != (K, K) or link.n_indices != K:
        raise ValueError(
            f"cross_covariance has the shape {C.shape}, so score_covariance must be {m} × {m}, "
            f"index_covariance {K} × {K} and the link of {K} indices; got {R.shape}, "
            f"{gamma.shape} and {link.n_indices}."
        )
    if not np.all(np.isfinite(C)):
        raise ValueError("cross_covariance holds NaN or infinity; pass finite numbers.")
    R = as_covariance(R, m, "score_covariance")
    return C, R, as_covariance(gamma, K, "index_covariance")


def _given_scores(C: Floats, R: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """(M, Cov(G) − C R⁻¹ Cᵀ): slopes and covariance of the indices given the scores."""
    # Scores are judged in their own units: a small one may say as much as a large one.
    units = np.sqrt(np.diag(R))
    units = np.where(units > 0, units, 1.0)
    correlation = R / np.outer(units, units)
    slopes = (C / units) @ np.linalg.pinv(correlation, rcond=RANK_TOLERANCE, hermitian=True)
    slopes = slopes / units
    rest = gamma - slopes @ C.T
    values, vectors = np.linalg.eigh(0.5 * (rest + rest.T))
    # Slightly below zero by rounding or by an estimate's error.
    if values[0] < -1e-8 * max(float(np.trace(gamma)), np.finfo(float).tiny):
        raise ValueError(
            f"index_covariance − C R⁻¹ Cᵀ has the eigenvalue {values[0]:.3g}: these three matrices "
            "cannot be covariances of the same rows."
        )
    return slopes, (vectors * np.maximum(values, 0.0)) @ vectors.T


def _numbers(name: str, values: ArrayLike | None, count: int) -> Floats:
    """So many finite numbers; zeros for None."""
    if values is None:
        return np.zeros(count)
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must hold {count} finite numbers; got the shape {numbers.shape}.")
    return numbers
