r"""Ridge-penalized likelihoods by Newton's method with conjugate gradients, over any storage.

    J_c(V) = Σ_i ω_i ℓ(y_i, u_i) + ½ λ_c ‖V‖²,   u = X̃V ∈ R^q,   c = 1 … m

for m penalties at once and q scores: q = 1 for two classes, q = K beyond. Every problem has its
own Newton steps, its own step lengths and its own end; they only share products with X. A product
with twenty columns costs hardly more than one with a single column, so that a path costs a few
fits. Steps are solved for in single precision, which is all that a rough solution needs; gradients
and scores are those of the rows' own precision. The intercept, the last line of V, is free.

Columns are ordered score by score: column k·m + c holds score k of problem c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.arrays import concatenate, factor_like, namespace_of, on_host
from angcal.losses import BlockLoss, Logistic
from angcal.rows import Rows
from angcal.solvers.conjugate_gradients import ResidualDrop, conjugate_gradients


@dataclass(frozen=True, eq=False)
class Solution:
    """Where each problem ended.

    Attributes
    ----------
    coef : (d, q·m) array
    intercepts : (q·m,) array
    scores : (n, q·m) array or None
        None for several problems on rows that are read anew: as many numbers as rows, for each.
    converged : (m,) array of bool
    gradient : (m,) array
        Largest entry of |∇J| over Σω: comparable to scikit-learn's ``tol``.
    newton_steps, passes : int
        Rounds of Newton's method, and products with X or its transpose, of any width.
    """

    coef: Any
    intercepts: Any
    scores: Any
    converged: np.ndarray
    gradient: Floats
    newton_steps: int
    passes: int

    def column(self, index: int) -> Solution:
        """One problem's part."""
        m = len(self.converged)
        one, own = slice(index, index + 1), slice(index, None, m)
        return Solution(
            self.coef[:, own],
            self.intercepts[own],
            None if self.scores is None else self.scores[:, own],
            self.converged[one],
            self.gradient[one],
            self.newton_steps,
            self.passes,
        )

    def part(self, problems: slice, scores: Any = None) -> Solution:
        """Several problems' part, on the host, with scores where they are at hand."""
        m = len(self.converged)
        own = np.arange(self.coef.shape[1]).reshape(-1, m)[:, problems].ravel()
        each = (self.converged[problems], self.gradient[problems])
        return Solution(
            self.coef[:, own], self.intercepts[own], scores, *each, self.newton_steps, self.passes
        )

    def problem(self, index: int) -> tuple[Any, Any, Any]:
        """(weights, intercept, scores) of one problem: (d,), a number and (n,), or K of each."""
        own = self.column(index)
        coef, intercepts = on_host(own.coef), on_host(own.intercepts)
        scores = None if own.scores is None else on_host(own.scores)
        if coef.shape[1] == 1:
            return coef[:, 0], float(intercepts[0]), None if scores is None else scores[:, 0]
        return coef.T, intercepts, None if scores is None else np.ascontiguousarray(scores)


LARGEST_SCALE = 1e30
"""Inverse of a curvature that single precision has room to compute with."""


class RidgeProblems:
    """The problems J_c of one design, and what every way to solve them shares.

    Parameters
    ----------
    rows : Rows
    labels : (n,) array
        Of 0.0 and 1.0, or the classes' codes for q > 1.
    weights : (n,) array
        ω, positive.
    strengths : (m,) array
        λ, positive.
    loss : BlockLoss, default=Logistic()
    """

    MOST_STEPS, MOST_CG_STEPS, MOST_HALVINGS = 80, 250, 30
    # Share of a Newton step's residual that its solution may leave, on the way and where it says
    # how far there is to go. A tighter one on the way saves a step, and takes more products.
    LOOSE, TIGHT = 0.3, 0.03
    # Of the scores' spread: what a fit may have left to move where its gradient is small enough.
    LARGEST_MOVE = 0.01
    # Of the last gradient, by either measure: where so much is left products are too rough.
    SLOW = 0.7

    def __init__(
        self,
        rows: Rows,
        labels: Floats,
        weights: Floats,
        strengths: Floats,
        loss: BlockLoss | None = None,
    ) -> None:
        self.rows, self.labels, self.weights = rows, labels, weights
        self.loss: BlockLoss = Logistic() if loss is None else loss
        self.strengths = np.asarray(strengths, dtype=np.float64)
        self.m, self.q, self.total = len(self.strengths), self.loss.n_scores, float(weights.sum())

    def start(self) -> Floats:
        """The best constant fit, (d + 1, q·m)."""
        V = np.zeros((self.rows.width, self.q * self.m))
        if self.rows.intercept:
            constant = self.loss.constant_scores(self.labels, self.weights)
            V[-1] = np.repeat(np.atleast_1d(constant), self.m)
        return V

    def stacked(self, found: Solution) -> Any:
        """The point where a solution ended."""
        if not self.rows.intercept:
            return found.coef
        return concatenate([found.coef, found.intercepts[None, :]], self.rows.xp)

    def penalty(self, strengths: Floats) -> Floats:
        """λ of every entry of V, 0 for intercepts."""
        penalty = np.tile(self.per_column(strengths), (self.rows.width, 1))
        if self.rows.intercept:
            penalty[-1] = 0.0
        return penalty

    def per_problem(self, values: Floats) -> Floats:
        """Sums over the scores of each problem, (·, q·m) -> (·, m)."""
        # Not −1 for m: there may be no row at all, where X has no column that varies.
        m = values.shape[1] // self.q
        return values if self.q == 1 else values.reshape(len(values), self.q, m).sum(axis=1)

    def per_column(self, values: Floats) -> Floats:
        """A number of each problem for each of its columns."""
        return values if self.q == 1 else np.tile(values, self.q)

    def columns_of(self, problems: np.ndarray, m: int) -> np.ndarray:
        """Columns that hold these of m problems."""
        return (m * np.arange(self.q)[:, None] + problems).ravel()

    def squares(self, V: Any) -> Floats:
        """‖·‖² of the slopes of each problem."""
        slopes = V[: self.rows.shape[1]]
        return self.per_problem(on_host(self.rows.xp.sum(slopes * slopes, axis=0))[None, :])[0]

    def largest(self, gradient: Any) -> Floats:
        """Largest |∂J| over Σω of each problem."""
        xp = self.rows.xp
        columns = on_host(xp.max(xp.abs(gradient), axis=0)).reshape(self.q, -1)
        return columns.max(axis=0) / self.total

    def is_lower(self, value: Any, before: Any) -> Any:
        """Whether J has not risen; near the optimum it changes by less than its sum's rounding."""
        return value <= before + 1e-13 * np.abs(before)

    def share_moved(self, image: Any, scores: Any, coef: Floats | None = None) -> Floats:
        """rms(X̃δ)/sd(u) of each problem; NaN where every weight of ``coef`` is zero."""
        xp = namespace_of(image)
        squares = self.per_problem(on_host(xp.mean(image * image, axis=0))[None, :])[0]
        spread = self.per_problem(on_host(xp.std(scores, axis=0))[None, :] ** 2)[0]
        with np.errstate(over="ignore"):  # scores that do not differ are infinitely far from it
            share = np.sqrt(squares) / np.maximum(np.sqrt(spread), np.finfo(float).tiny)
        if coef is None:
            return share
        return np.where(self.per_problem(np.abs(coef)).any(axis=0), share, np.nan)


class NewtonCG(RidgeProblems):
    """The problems J_c of one design, solved where X and its scores are at hand.

    Parameters
    ----------
    rows, labels, weights, strengths, loss
        As in :class:`RidgeProblems`.
    moments : (d,) array, optional
        Σ_i ω_i x_ij², by which steps are scaled; computed where it is not given.
    """

    def __init__(
        self,
        rows: Rows,
        labels: Floats,
        weights: Floats,
        strengths: Floats,
        loss: BlockLoss | None = None,
        moments: Floats | None = None,
    ) -> None:
        super().__init__(rows, labels, weights, strengths, loss)
        self._y, self._omega = rows.place(labels)[:, None], rows.place(weights)[:, None]
        self._single = rows.single()
        if moments is None:
            # They only scale steps, for which rough ones do.
            source = self._single if self._single.is_rough else rows
            moments = source.column_squares(weights)[0]
        self._moments = moments if rows.has_own_columns else np.full_like(moments, moments.mean())

    @property
    def passes(self) -> int:
        """Products with X so far."""
        return self.rows.passes + (self._single.passes if self._single is not self.rows else 0)

    # -- what is asked of it -----------------------------------------------------------------

    def solve(self, tol: float = 1e-3, gradient_tol: float = 0.0) -> Solution:
        """Minimize every J_c from zero.

        Parameters
        ----------
        tol : float
            A problem is solved when its next step, by the Hessian's diagonal, is ``tol``·‖V‖.
        gradient_tol : float, default=0
            Or when the largest entry of its mean gradient is at most this, and scores have no more
            than a small share of their spread to move.
        """
        V, place, xp = self.start(), self.rows.place, self.rows.xp
        # Made where the rows are: it is as large as n × q·m.
        shape = (self.rows.shape[0], V.shape[1])
        U = xp.broadcast_to(place(V[-1:] * self.rows.intercept), shape) + 0.0
        return self._descend(place(V), U, tol, gradient_tol)

    def continued(self, found: Solution, tol: float) -> Solution:
        """The same from where another solution ended."""
        V = self.stacked(found)
        return self._descend(V, self.rows.forward(V), tol, 0.0)

    def distances(self, found: Solution, forcing: float = RidgeProblems.TIGHT) -> Floats:
        """rms(X̃δ)/sd(u) for the Newton step δ of each problem: how far scores still have to move.

        As `LinearFit.distance_to_optimum`, which rotations do not change; NaN where every weight
        is zero. ``forcing`` is the share of the residual that δ may leave.
        """
        state = _State(self, self.strengths, self.stacked(found), found.scores)
        _, image = state.newton_step(forcing)
        return self.share_moved(on_host(image), on_host(found.scores), on_host(found.coef))

    # -- the iteration -----------------------------------------------------------------------

    def _factor(self, values: Floats) -> Any:
        """A number of each problem as a factor of its columns."""
        columns = self.per_column(values)
        return factor_like(columns, self._y) if self.rows.xp is not np else columns

    def take(self, values: Any, kept: np.ndarray) -> Any:
        """Columns of the problems at ``kept``, a mask."""
        if kept.all():
            return values
        index = self.columns_of(np.flatnonzero(kept), len(kept))
        if self.rows.xp is np:
            return values[:, index]
        return self.rows.xp.take(values, self.rows.xp.asarray(index, device=values.device), axis=1)

    def _descend(self, V: Any, U: Any, tol: float, gradient_tol: float) -> Solution:
        left, strengths = np.arange(self.m), self.strengths
        value = self.objective(U, V, strengths)
        finished: dict[int, tuple[Any, Any, bool, float]] = {}
        steps, last = 0, np.full(2, np.inf)
        moved, size_before = np.array(1.0), np.array(0.0)  # no step yet
        for steps in range(self.MOST_STEPS + 1):
            state = _State(self, strengths, V, U)
            left_over = np.array([state.mean_gradient.max(), state.size.max()])
            if self._single.is_rough and np.all(left_over > self.SLOW * last):
                self._single = self.rows
            last = left_over
            # Newton's steps shrink with the gradient; a small one alone does not say that scores
            # are those of the optimum.
            settled = moved * state.size <= self.LARGEST_MOVE * size_before
            done = state.is_small(tol) | ((state.mean_gradient <= gradient_tol) & settled)
            kept = ~done & (steps < self.MOST_STEPS)
            self._store(finished, left, ~kept, V, U, done, state.mean_gradient)
            if not kept.any():
                break
            state, left, strengths = state.only(kept), left[kept], strengths[kept]
            V, U, value = self.take(V, kept), self.take(U, kept), value[kept]
            step, image = state.newton_step(self.LOOSE)
            share, value = self._search(strengths, V, U, step, image, value)
            placed = self._factor(share)
            V = V + placed * step
            # Scores that are moved along with steps in single precision are good to this.
            if tol < 1e-5 or self._single.is_rough:
                U = self.rows.forward(V)
                value = self.objective(U, V, strengths)
            else:
                U = U + placed * image
            kept = share > 0  # rounding leaves the others nothing to gain
            if gradient_tol > 0:
                moved, size_before = self.share_moved(placed * image, U)[kept], state.size[kept]
            self._store(finished, left, ~kept, V, U, np.zeros(len(left), bool), state.mean_gradient)
            if not kept.any():
                break
            V, U = self.take(V, kept), self.take(U, kept)
            left, strengths, value = left[kept], strengths[kept], value[kept]
        return self._assembled(finished, steps)

    def _store(
        self,
        finished: dict[int, tuple[Any, Any, bool, float]],
        left: np.ndarray,
        ending: np.ndarray,
        V: Any,
        U: Any,
        converged: np.ndarray,
        gradient: Floats,
    ) -> None:
        for place in np.flatnonzero(ending):
            only = np.arange(len(left)) == place
            finished[int(left[place])] = (
                self.take(V, only),
                self.take(U, only),
                bool(converged[place]),
                float(gradient[place]),
            )

    def _assembled(self, finished: dict[int, tuple[Any, Any, bool, float]], steps: int) -> Solution:
        parts = [finished[problem] for problem in range(self.m)]
        V, U = (concatenate([part[k] for part in parts], self.rows.xp, axis=1) for k in (0, 1))
        if self.q > 1:
            # Problem by problem so far; score by score is the rule.
            order = np.arange(self.q * self.m).reshape(self.m, self.q).T.ravel()
            V, U = V[:, order], U[:, order]
        d = self.rows.shape[1]
        intercepts = V[d] if self.rows.intercept else self.rows.place(np.zeros(self.q * self.m))
        converged = np.array([part[2] for part in parts])
        gradient = np.array([part[3] for part in parts])
        return Solution(V[:d], intercepts, U, converged, gradient, steps, self.passes)

    def objective(self, U: Any, V: Any, strengths: Floats) -> Floats:
        """J_c at scores U."""
        xp = self.rows.xp
        loss = on_host(xp.sum(self._omega * self.loss.values(U, self._y, xp), axis=0))
        return loss + 0.5 * strengths * self.squares(V)

    def _search(
        self, strengths: Floats, V: Any, U: Any, step: Any, image: Any, value: Floats
    ) -> tuple[Floats, Floats]:
        """For each problem the largest share 1, ½, ¼ … of the step that does not raise J, and J."""
        share, reached = np.ones(len(value)), value.copy()
        left = np.ones(len(value), dtype=bool)
        for _ in range(self.MOST_HALVINGS):
            placed = self._factor(share[left])
            moved = self.objective(
                self.take(U, left) + placed * self.take(image, left),
                self.take(V, left) + placed * self.take(step, left),
                strengths[left],
            )
            lower = self.is_lower(moved, value[left])
            where = np.flatnonzero(left)
            reached[where[lower]] = moved[lower]
            left[where[lower]] = False
            if not left.any():
                return share, reached
            share[left] *= 0.5
        share[left] = 0.0
        return share, reached


class _State:
    """Gradient and Hessian of some problems at one point."""

    def __init__(
        self,
        solver: NewtonCG,
        strengths: Floats,
        V: Any,
        U: Any,
        derivatives: tuple[Any, Any] | None = None,
    ) -> None:
        self._solver, self._V, self._U, self._strengths = solver, V, U, strengths
        self._gradient, self._D = self._derivatives() if derivatives is None else derivatives
        self._prepare()

    def _derivatives(self) -> tuple[Any, Any]:
        """∇J and D at this point."""
        solver, rows, V = self._solver, self._solver.rows, self._V
        residual, curvature = solver.loss.terms(self._U, solver._y, rows.xp)
        residual = solver._omega * residual
        D = solver.loss.weighted(curvature, solver._omega)
        gradient = rows.backward(residual)
        penalty = rows.place(np.append(np.ones(rows.shape[1]), [0.0] * rows.intercept))[:, None]
        return gradient + penalty * solver._factor(self._strengths) * V, D

    def _prepare(self) -> None:
        """The diagonal that scales steps, and sizes on the host."""
        solver, rows = self._solver, self._solver.rows
        # Σ D_i x_ij², taken as the same share of Σ ω_i x_ij² in every column.
        totals = np.maximum(solver.loss.totals(self._D, rows.xp), 1e-300)
        moments = solver._moments[:, None] * (totals / solver.total)
        diagonal = moments + solver.per_column(self._strengths)
        if rows.intercept:
            diagonal = np.vstack([diagonal, totals])
        self._totals, self._scale = totals, rows.place(1.0 / diagonal)

    def only(self, kept: np.ndarray) -> _State:
        """The same for fewer problems."""
        if kept.all():
            return self
        solver, take = self._solver, self._solver.take
        return _State(
            solver,
            self._strengths[kept],
            take(self._V, kept),
            take(self._U, kept),
            (take(self._gradient, kept), solver.loss.taken(self._D, kept, take)),
        )

    @cached_property
    def size(self) -> Floats:
        """‖M⁻¹∇J‖ with the Hessian's diagonal M: length of the next step, roughly."""
        return np.sqrt(self._solver.squares(self._scale * self._gradient))

    @cached_property
    def mean_gradient(self) -> Floats:
        """Largest |∂J| over Σω of each problem."""
        return self._solver.largest(self._gradient)

    def is_small(self, tol: float) -> np.ndarray:
        """Whether the next step of each problem is below the tolerance."""
        solver = self._solver
        small = self.size <= tol * np.sqrt(solver.squares(self._V))
        if not solver.rows.intercept:
            return small
        level = np.abs(on_host(self._gradient[-1])) / self._totals
        spread = np.maximum(on_host(solver.rows.xp.std(self._U, axis=0)), tol)
        return small & np.all((level <= tol * spread).reshape(solver.q, -1), axis=0)

    def newton_step(self, forcing: float) -> tuple[Any, Any]:
        """(δ, X̃δ) by conjugate gradients, scaled by the Hessian's diagonal."""
        solver, single = self._solver, self._solver._single
        m, width, q = len(self._strengths), solver.rows.width, solver.q
        # Of unit size, so that single precision has room on both sides.
        unit = self.mean_gradient * solver.total
        unit = np.where(unit > 0, unit, 1.0)
        per_column = solver._factor(unit)
        rhs = _converted(-self._gradient / per_column, single)
        # Where no curvature is left, infinity times a gradient of zero would be no number.
        scale = self._scale if single.xp is not np else np.minimum(self._scale, LARGEST_SCALE)
        scale, D = _converted(scale, single), solver.loss.converted(self._D, single)
        penalty = single.place(solver.penalty(self._strengths))

        def joined(values: Any) -> Any:
            return values.reshape(width * q, m)

        def apply(P: Any) -> tuple[Any, Any]:
            columns = P.reshape(width, q * m)
            image = single.forward(columns)
            back = single.backward(solver.loss.weigh(D, image))
            return joined(back + penalty * columns), image.reshape(-1, m)

        stop = ResidualDrop(forcing**2)
        most = solver.MOST_CG_STEPS
        found = conjugate_gradients(apply, joined(rhs), joined(scale), stop, most)
        values = found.values.reshape(width, q * m)
        # Without images no step was taken: the residual is zero to begin with.
        images = single.forward(values) if found.images is None else found.images
        return per_column * values, per_column * images.reshape(-1, q * m)


def _converted(values: Any, single: Rows) -> Any:
    with np.errstate(over="ignore"):  # infinity is refused by those who use the result
        return values.astype(single.dtype) if single.xp is np else values
