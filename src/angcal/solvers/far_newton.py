r"""Newton's method where passes over the rows are what costs: nothing of length n is kept.

The same problems as :class:`~angcal.solvers.newton_cg.NewtonCG` solves. Each pass has the point V
in it and computes scores, residuals and curvatures anew while a block is at hand:

    look       Σ ω_iℓ(u_i),  X̃ᵀψ                   one look at a point
    product    X̃ᵀD(V)X̃P                            one step of conjugate gradients, P of any width

Conjugate gradients run in the eigenbasis of the rows' scatter Σ ω_i(x_i − x̄)(x_i − x̄)ᵀ, which one
pass brings, where d is not too large: a Hessian of a likelihood is nearly diagonal there, for every
penalty and every class. One score with one penalty has fewer passes by
:class:`~angcal.solvers.far_matrix.MatrixNewton`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg

from angcal import plan
from angcal._typing import Floats
from angcal.leverages.far import grams_of_block
from angcal.losses import BlockLoss
from angcal.rows import FarRows, Rows, dense_parts
from angcal.solvers.conjugate_gradients import ResidualDrop, conjugate_gradients
from angcal.solvers.newton_cg import (
    NewtonCG,
    RidgeProblems,
    Solution,
)

Watch = Callable[[Floats], None]
"""Gets the point, (d + 1, scores · penalties), after each Newton step."""


def solver_for(
    rows: Rows,
    labels: Floats,
    weights: Floats,
    strengths: Floats,
    loss: BlockLoss | None = None,
    moments: Any = None,
    watch: Watch | None = None,
) -> NewtonCG | FarNewton:
    """Newton's method for rows of any kind; ``moments`` are a `Scatter` where rows are far."""
    if isinstance(rows, FarRows):
        return FarNewton(rows, labels, weights, strengths, loss, moments, watch)
    return NewtonCG(rows, labels, weights, strengths, loss, moments)


@dataclass(frozen=True, eq=False)
class Scatter:
    """Coordinates in which Hessians are nearly diagonal: V = TṼ.

    Attributes
    ----------
    moments : (d + 1,) array
        Diagonal of TᵀX̃ᵀωX̃T.
    columns : (d,) array
        Σ_i ω_i(x_ij − x̄_j)² of the columns of X, or about 0 without an intercept.
    transform : (d + 1, d + 1) array or None
        T; None for coordinates as they are.
    """

    moments: Floats
    columns: Floats
    transform: Floats | None

    def out(self, V: Floats) -> Floats:
        """TV."""
        return V if self.transform is None else self.transform @ V

    def back(self, G: Floats) -> Floats:
        """TᵀG."""
        return G if self.transform is None else self.transform.T @ G


def scatter_of(rows: FarRows, weights: Floats) -> Scatter:
    """The eigenbasis by one pass, or the columns' own moments where d is too large for that."""
    d = rows.shape[1]
    if not plan.takes_matrices(d, rows.streamed):
        moments, _ = rows.column_squares(weights)
        center = rows.pull(weights)[:d] / weights.sum() if rows.intercept else np.zeros(d)
        require_finite(moments)
        total, columns = weights.sum(), moments - weights.sum() * center**2
        _refuse_single(rows, moments, columns, total)
        return Scatter(np.append(moments, [total] * rows.intercept), columns, None)
    gram = rows.sum(partial(grams_of_block, rows.intercept), (), (weights[:, None],))[0]
    require_finite(gram)
    inner, T = gram[:d, :d], np.eye(rows.width)
    if rows.intercept:
        center = gram[:d, d] / gram[d, d]
        inner = inner - gram[d, d] * np.outer(center, center)
    values, T[:d, :d] = linalg.eigh(inner, driver="evd", check_finite=False)
    if rows.intercept:
        T[d, :d] = -center @ T[:d, :d]
    whole = np.append(np.maximum(values, 0.0), [gram[-1, -1]] * rows.intercept)
    columns = np.diag(inner).copy()
    _refuse_single(rows, np.diag(gram)[:d], columns, weights.sum())
    return Scatter(whole, columns, T)


def _refuse_single(rows: FarRows, moments: Floats, columns: Floats, total: float) -> None:
    """Where a mean is above a thousand deviations, or squares are near the ends of its range."""
    largest = float(moments.max(initial=0.0)) / total
    apart = np.all(moments <= 1e6 * np.maximum(columns, 0.0))
    if not (1e-24 < largest < 1e24 and apart):
        rows.refuse_single()


def require_finite(values: Floats) -> None:
    """Refuse rows whose sums are not numbers."""
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "X contains NaN or infinity; impute or drop those rows first. Numbers beyond 1e150, "
            "whose squares are infinite, have to be scaled."
        )


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass finds at a point of some problems, in the coordinates of a `Scatter`.

    Attributes
    ----------
    V, gradient : (d + 1, q·m) arrays
        With the penalty in the gradient.
    value : (m,) array
        J.
    totals : (q·m,) array
        Σ_i of the curvatures.
    """

    V: Floats
    gradient: Floats
    value: Floats
    totals: Floats


class FarNewton(RidgeProblems):
    """The problems J_c of one design whose rows are far.

    Parameters
    ----------
    rows : FarRows
    labels, weights, strengths, loss
        As in :class:`NewtonCG`.
    scatter : Scatter, optional
        Found by a pass where it is needed and not given.
    watch : callable, optional
        Called with the point after each Newton step.
    """

    def __init__(
        self,
        rows: FarRows,
        labels: Floats,
        weights: Floats,
        strengths: Floats,
        loss: BlockLoss | None = None,
        scatter: Scatter | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(rows, labels, weights, strengths, loss)
        self.rows: FarRows = rows
        self._given_scatter, self._watch = scatter, watch
        self._is_rough = rows.narrows  # whether products of steps are in single precision

    @cached_property
    def scatter(self) -> Scatter:
        """The coordinates of steps."""
        return self._given_scatter or scatter_of(self.rows, self.weights)

    # -- what is asked of it -----------------------------------------------------------------

    def solve(
        self, tol: float = 1e-3, gradient_tol: float = 0.0, start: Floats | None = None
    ) -> Solution:
        """Minimize every J_c, from zero or from a (d + 1, q·m) point; as `NewtonCG.solve`."""
        if start is None:
            V = self.start()
        else:
            V = self._own_coordinates(np.reshape(start, (self.rows.width, self.q * self.m)))
        return self._descend(V, tol, gradient_tol)

    def continued(self, found: Solution, tol: float) -> Solution:
        """The same from where another solution ended."""
        return self._descend(self._own_coordinates(self.stacked(found)), tol, 0.0)

    def distances(self, found: Solution, forcing: float = RidgeProblems.TIGHT) -> Floats:
        """rms(X̃δ)/sd(u) for the Newton step δ of each problem, as `NewtonCG.distances`."""
        look = self._look(self._own_coordinates(self.stacked(found)), self.strengths)
        step = self._step_with(self.rows, look, self.strengths, forcing)
        V = np.hstack([self.scatter.out(step), self.stacked(found)])
        image, scores = np.hsplit(self.rows.forward(V), 2)
        return self.share_moved(image, scores, found.coef)

    # -- with conjugate gradients ------------------------------------------------------------

    def _descend(self, V: Floats, tol: float, gradient_tol: float) -> Solution:
        left, V = np.arange(self.m), V.copy()
        look = self._look(V, self.strengths)
        converged, gradient, steps = np.zeros(self.m, bool), np.zeros(self.m), 0
        last = np.full(2, np.inf)
        for steps in range(self.MOST_STEPS + 1):
            size, largest = self._size(look, left), self.largest(look.gradient)
            left_over = np.array([largest.max(), size.max()])
            self._is_rough &= not np.all(left_over > self.SLOW * last)
            last = left_over
            gradient[left] = largest
            done = self._is_small(look, size, tol) | (largest <= gradient_tol)
            converged[left[done]] = True
            left, look = left[~done], self._only(look, ~done)
            if not len(left) or steps == self.MOST_STEPS:
                break
            strengths = self.strengths[left]
            step = self._newton_step(look, strengths, self.LOOSE)
            look, share = self._moved(look, step, strengths)
            V[:, self.columns_of(left, self.m)] = look.V
            self._tell(V)
            kept = share > 0  # rounding leaves the others nothing to gain
            gradient[left] = self.largest(look.gradient)
            left, look = left[kept], self._only(look, kept)
            if not len(left):
                break
        return self._solution(V, converged, gradient, steps)

    def _newton_step(self, look: Look, strengths: Floats, forcing: float) -> Floats:
        """δ by conjugate gradients, in single precision where that is kept and holds it."""
        rows = self.rows.single() if self._is_rough else self.rows
        return self._step_with(rows, look, strengths, forcing)

    def _step_with(self, rows: FarRows, look: Look, strengths: Floats, forcing: float) -> Floats:
        m, width, q = len(strengths), self.rows.width, self.q
        unit = self.largest(look.gradient) * self.total
        unit = self.per_column(np.where(unit > 0, unit, 1.0))
        penalty, point = self.penalty(strengths), self.scatter.out(look.V).astype(rows.dtype)
        f = partial(_product_of_block, self.loss, rows.intercept)

        def apply(P: Floats) -> tuple[Floats, None]:
            columns = P.reshape(width, q * m)
            placed = self.scatter.out(columns).astype(rows.dtype)
            out = rows.sum(f, (point, placed), (self.labels, self.weights))
            return (self.scatter.back(out) + penalty * columns).reshape(width * q, m), None

        rhs, scale = -look.gradient / unit, 1.0 / self._diagonal(look, strengths)
        shape, stop = (width * q, m), ResidualDrop(forcing**2)
        found = conjugate_gradients(
            apply, rhs.reshape(shape), scale.reshape(shape), stop, self.MOST_CG_STEPS
        )
        return unit * found.values.reshape(width, q * m)

    # -- points ------------------------------------------------------------------------------

    def _look(self, V: Floats, strengths: Floats) -> Look:
        f = partial(_look_of_block, self.loss, self.rows.intercept)
        found = self.rows.sum(f, (self.scatter.out(V),), (self.labels, self.weights))
        value, gradient, totals = found
        return Look(
            V,
            self.scatter.back(gradient) + self.penalty(strengths) * V,
            value + 0.5 * strengths * self.squares(V),
            totals,
        )

    def _moved(self, look: Look, step: Floats, strengths: Floats) -> tuple[Look, Floats]:
        """The point after the largest share 1, ½, ¼ … of the step that does not raise J."""
        share = np.ones(len(strengths))
        for _ in range(self.MOST_HALVINGS):
            new = self._look(look.V + self.per_column(share) * step, strengths)
            higher = ~self.is_lower(new.value, look.value)
            if not higher.any():
                return new, share
            share[higher] *= 0.5
        share[higher] = 0.0
        return self._look(look.V + self.per_column(share) * step, strengths), share

    def _only(self, look: Look, kept: np.ndarray) -> Look:
        """The same for fewer problems."""
        if kept.all():
            return look
        own = self.columns_of(np.flatnonzero(kept), len(kept))
        return Look(look.V[:, own], look.gradient[:, own], look.value[kept], look.totals[own])

    def _diagonal(self, look: Look, strengths: Floats) -> Floats:
        """Of the Hessians, each curvature taken as the same share of ω for all rows."""
        totals = np.maximum(look.totals, 1e-300)
        return self.scatter.moments[:, None] * (totals / self.total) + self.penalty(strengths)

    def _size(self, look: Look, left: np.ndarray) -> Floats:
        """Length of the next step of each problem, by the Hessian's diagonal."""
        step = look.gradient / self._diagonal(look, self.strengths[left])
        return np.sqrt(self.squares(step))

    def _is_small(self, look: Look, size: Floats, tol: float) -> np.ndarray:
        small = size <= tol * np.sqrt(self.squares(look.V))
        if not self.rows.intercept:
            return small
        d = self.rows.shape[1]
        level = np.abs(look.gradient[d]) / np.maximum(look.totals, 1e-300)
        spread = np.sqrt(self.scatter.moments[:d] @ look.V[:d] ** 2 / self.total)
        close = level <= tol * np.maximum(spread, tol)
        return small & np.all(close.reshape(self.q, -1), axis=0)

    def _own_coordinates(self, V: Floats) -> Floats:
        """T⁻¹V: B of T = [B 0; −x̄ᵀB 1] is orthogonal."""
        T, d = self.scatter.transform, self.rows.shape[1]
        if T is None:
            return np.array(V, dtype=np.float64)
        slopes = T[:d, :d].T @ V[:d]
        return np.vstack([slopes, V[d:] - T[d:, :d] @ slopes])

    def _tell(self, V: Floats) -> None:
        if self._watch is not None:
            self._watch(self.scatter.out(V))

    def _solution(self, V: Floats, converged: np.ndarray, gradient: Floats, steps: int) -> Solution:
        out, d = self.scatter.out(V), self.rows.shape[1]
        if self.rows.intercept and self.q > 1:
            # A softmax leaves the mean of its intercepts open.
            level = out[d].reshape(self.q, -1)
            out[d] = (level - level.mean(axis=0)).ravel()
        scores = self.rows.image_and_marks(out) if self.m == 1 else None
        intercepts = out[d] if self.rows.intercept else np.zeros(self.q * self.m)
        return Solution(out[:d], intercepts, scores, converged, gradient, steps, self.rows.passes)


# -- functions of a block --------------------------------------------------------------------


def scores_of_block(X: Floats, V: Floats, intercept: bool) -> Floats:
    """X̃V."""
    d = X.shape[1]
    return X @ V[:d] + V[d:] if intercept else X @ V


def pulled(X: Floats, U: Floats, intercept: bool) -> Floats:
    """X̃ᵀU."""
    slopes = X.T @ U
    return np.vstack([slopes, U.sum(axis=0)]) if intercept else slopes


def _look_of_block(
    loss: BlockLoss, intercept: bool, X: Any, V: Floats, y: Floats, omega: Floats
) -> tuple[Any, Floats, Floats]:
    """(Σωℓ, X̃ᵀψ, ΣD) of every problem."""
    value: Any = 0.0
    gradient, totals = np.zeros(V.shape), np.zeros(V.shape[1])
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, reuse=True):
        labels, weights = y[part, None], omega[part, None]
        U = scores_of_block(x, V, intercept)
        residual, curvature = loss.terms(U, labels, np)
        curvature = loss.weighted(curvature, weights)
        value = value + np.sum(weights * loss.values(U, labels, np), axis=0)
        gradient += pulled(x, weights * residual, intercept)
        totals += loss.totals(curvature, np)
    return value, gradient, totals


def _product_of_block(
    loss: BlockLoss, intercept: bool, X: Any, V: Floats, P: Floats, y: Floats, omega: Floats
) -> Floats:
    """X̃ᵀD(V)X̃P, in the precision of P."""
    total = np.zeros(P.shape)
    if P.shape[1] == 1:
        # Products with one column at a time are faster than with two, on rows in the cache.
        for part, x in dense_parts(X, plan.PIECE_ENTRIES, P.dtype, reuse=True):
            U, images = (scores_of_block(x, v, intercept) for v in (V, P))
            _, curvature = loss.terms(U, y[part, None], np)
            images *= loss.weighted(curvature, omega[part, None])
            total += pulled(x, images, intercept)
        return total
    for part, x in dense_parts(X, plan.PIECE_ENTRIES, P.dtype, reuse=True):
        both = scores_of_block(x, np.hstack([V, P]), intercept)
        U, images = both[:, : V.shape[1]], both[:, V.shape[1] :]
        # Blocks of some losses are views of several axes, which takes whole arrays.
        _, curvature = loss.terms(np.ascontiguousarray(U), y[part, None], np)
        D = loss.weighted(curvature, omega[part, None])
        weighed = loss.weigh(D, np.ascontiguousarray(images)).astype(P.dtype, copy=False)
        total += pulled(x, weighed, intercept)
    return total
