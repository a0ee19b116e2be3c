r"""Σ̂⁻¹ of a pool that is never written out: Σ̂V = P̃ᵀ(P̃V)/(m−1), one pass over the pool.

P̃ are the pool's rows less their mean. Solves are conjugate gradients, a step per pass for all
right-hand sides together. The squares x_iᵀΣ̂⁻¹x_i would take a solve per training row; random
signs g over the pool's rows do it for all: y = Σ̂⁻¹P̃ᵀg/√(m−1) has E yyᵀ = Σ̂⁻¹, so

    x_iᵀΣ̂⁻¹x_i = E (x_iᵀy)²     and     rank Σ̂ = tr Σ̂⁻¹Σ̂ = E yᵀΣ̂y,

each from the same few probes. The angle needs Σ̂⁻¹ with its inflation taken out, that is the ratio
of rank to the mean square, in which the noise of the probes mostly cancels
(:func:`probes_needed`).

How accurate? A relative error ε of that ratio moves T (:mod:`angcal.angle`) by ε(d/n)r̂² plus
ε times the signal, where T is known to r̂²√(2d)/n at best and the cosine to about 1/√n of itself.
A tenth of a standard error therefore allows ε = 0.1·min(√(2/d), 2/√n). Solves, whose error is a
bias, are held to less than a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.pools import Pool, row_slices
from angcal.solvers.conjugate_gradients import DelayedAccuracy, Solution, conjugate_gradients

# Shares of a standard error that the angle may move by: probe noise, and unfinished solves (a
# hundredth, less a margin, as what a solve still lacks is itself estimated).
PROBE_SHARE, SOLVE_SHARE = 0.1, 0.003
MOST_PROBES = 256


class StagnationError(ValueError):
    """Conjugate gradients did not get there; the message is the reason."""


def allowed_error(n_rows: int, n_features: int, share: float) -> float:
    """share·min(√(2/d), 2/√n): relative error of Σ̂⁻¹'s scale that the angle does not notice."""
    return share * min(np.sqrt(2.0 / n_features), 2.0 / np.sqrt(n_rows))


def probes_needed(n_rows: int, pool_rows: int, n_features: int) -> int:
    """s = 2v/(d·ε²), where v = (y+z−yz)/(1−z) with y = d/n, z = d/m, and ε the allowed error.

    v is the relative variance of the eigenvalues of Σ̂⁻¹XᵀX for Gaussian rows: what is left of the
    probes' noise in the ratio of rank to mean square.
    """
    y, z = n_features / n_rows, n_features / pool_rows
    spread = (y + z - y * z) / (1.0 - z)
    allowed = allowed_error(n_rows, n_features, PROBE_SHARE)
    needed = 2.0 * spread / (n_features * allowed**2)
    return int(np.clip(np.ceil(needed), 16, MOST_PROBES))


class PoolInverse:
    """Σ̂⁻¹ of a pool as an operator, for a training set X."""

    def __init__(self, pool: Pool, X: Matrix, *, centered: bool, random_state: int = 0) -> None:
        pool.require_many_passes("conjugate gradients")
        self.pool, self._n = pool, X.shape[0]
        diagonal = pool.second_moments(centered)
        self._mean = pool.columns.mean if centered else np.zeros(pool.n_features)
        kept = diagonal > 0
        self._inverse_diagonal = np.where(kept, 1.0 / np.where(kept, diagonal, 1.0), 0.0)
        self.rank = int(kept.sum())
        self.accuracy = allowed_error(self._n, max(self.rank, 1), SOLVE_SHARE)
        self.steps, self._direction = 0, np.zeros((pool.n_features, 0))
        self._total: Floats | None = None
        self._rng = np.random.default_rng(random_state)
        self.probes, self._ranks = np.zeros((pool.n_features, 0)), np.zeros(0)
        self._lengths, self.probe_error = np.zeros(0), np.inf

    @property
    def n_probes(self) -> int:
        """How many random right-hand sides were solved for."""
        return self.probes.shape[1]

    def apply(self, V: Floats) -> Floats:
        """Σ̂V, one pass over the pool."""
        return self._adjoint(lambda block: np.asarray(block @ V) - self._mean @ V, V.shape[1])

    def solve(self, V: Floats, accuracy: float | None = None) -> Floats:
        """Σ̂⁻¹V on Σ̂'s range, every vᵀΣ̂⁻¹v to a relative ``accuracy``."""
        return self._solve(V, self.accuracy if accuracy is None else accuracy).values

    def prepare(self, X: Matrix, shift: Floats, residuals: Floats | None = None) -> None:
        """Solve for Xᵀψ and for probes, until these are accurate enough.

        Without ψ random signs stand in for it, so that training rows which leave the pool's range
        are found out here and not later.
        """
        psi = self._signs(self._n, 1)[:, 0] if residuals is None else residuals
        self._total = _total(X, shift, psi)
        self._add_probes(probes_needed(self._n, self.pool.n_rows, self.rank), X, shift, self._total)
        allowed = allowed_error(self._n, self.rank, PROBE_SHARE)
        needed = self.n_probes * (self.probe_error / allowed) ** 2
        more = int(min(np.ceil(needed), MOST_PROBES)) - self.n_probes
        # A shortfall of a fifth is within what the estimate of the error itself is uncertain by.
        if more > 0.2 * self.n_probes:
            self._add_probes(more, X, shift)
        mean = float(np.mean(self._ranks))
        uncertainty = float(np.std(self._ranks)) / np.sqrt(self.n_probes)
        # Lower by three standard errors is lower.
        if mean < self.rank - 3.0 * uncertainty - 0.5:
            self.rank = round(mean)

    def products(self, X: Matrix, shift: Floats, residuals: Floats) -> tuple[Floats, Floats]:
        """(x_iᵀΣ̂⁻¹Xᵀψ)_i, and (x_iᵀΣ̂⁻¹x_i)_i as estimated by the probes."""
        total = _total(X, shift, residuals)
        if self._total is None or not np.array_equal(self._total, total):
            self._direction, self._total = self.solve(total[:, None]), total
        along, squares = np.empty(X.shape[0]), np.empty(X.shape[0])
        for rows in row_slices(X):
            along[rows] = _project(X[rows], shift, self._direction)[:, 0]
            squares[rows] = np.mean(_project(X[rows], shift, self.probes) ** 2, axis=1)
        # In units in which the probes find the rank exactly: their common noise cancels.
        return along, squares * (self.rank / float(np.mean(self._ranks)))

    def _add_probes(
        self, count: int, X: Matrix, shift: Floats, extra: Floats | None = None
    ) -> None:
        """Solve for more probes, and for the vector ``extra`` in the same passes."""
        scale = np.sqrt(self.pool.n_rows - 1)
        right = scale * self._adjoint(lambda block: self._signs(block.shape[0], count), count)
        if extra is not None:
            right = np.column_stack([right, extra])
        found = self._solve(right, self.accuracy)
        new = found.values[:, :count]
        if extra is not None:
            self._direction = found.values[:, count:]
        squares = [np.sum(_project(X[r], shift, new) ** 2, axis=0) for r in row_slices(X)]
        self.probes = np.column_stack([self.probes, new])
        self._ranks = np.append(self._ranks, found.forms[:count])
        self._lengths = np.append(self._lengths, np.sum(squares, axis=0) / self._n)
        # Error of a ratio of means, by its linearization.
        gaps = self._ranks / self._ranks.mean() - self._lengths / self._lengths.mean()
        self.probe_error = float(np.std(gaps, ddof=1)) / np.sqrt(self.n_probes)

    def _signs(self, rows: int, count: int) -> Floats:
        return self._rng.choice(np.array([-1.0, 1.0]), size=(rows, count))

    def _adjoint(self, inner: Callable[[Matrix], Floats], count: int) -> Floats:
        """P̃ᵀU/(m−1) where ``inner`` gives U's rows for a block; P̃ is never centered in place."""
        result, total = np.zeros((self.pool.n_features, count)), np.zeros(count)
        for block in self.pool.blocks():
            values = inner(block)
            result += np.asarray(block.T @ values)
            total += values.sum(axis=0)
        result -= np.outer(self._mean, total)
        return result / (self.pool.n_rows - 1)

    def _solve(self, right: Floats, accuracy: float) -> Solution:
        rule = DelayedAccuracy(accuracy)
        found = conjugate_gradients(
            lambda V: (self.apply(V), None),
            right,
            self._inverse_diagonal[:, None],
            rule,
            most_steps=500,
        )
        self.steps += found.steps
        if not found.converged:
            raise StagnationError(
                f"conjugate gradients on the pool's covariance stopped after {found.steps} passes "
                f"short of their accuracy (error {rule.error:.2g}, asked for {accuracy:.2g}), so "
                "its columns are nearly or fully dependent"
            )
        return found


def _total(X: Matrix, shift: Floats, residuals: Floats) -> Floats:
    """Xᵀψ for centered rows, in slices: a product of mixed precision copies what it is given."""
    total = -np.asarray(shift, dtype=np.float64) * residuals.sum()
    for rows in row_slices(X):
        total += np.asarray(X[rows].T @ residuals[rows])
    return total


def _project(X: Matrix, shift: Floats, V: Floats) -> Floats:
    """X V for centered rows."""
    return np.asarray(X @ V, dtype=np.float64) - shift @ V
