r"""A penalized problem at a point: scores, residuals, curvatures, and the distance to its optimum.

The objective, with sample weights ω_i and N = Σ ω_i, is the one of :mod:`angcal.penalties`:

    J(w, b) = (1/N) Σ_i ω_i ℓ_{y_i}(x_iᵀw + b) + g(w) + ½ q₀ ‖b‖²

with one score u_i = x_iᵀw + b for two classes, and one for each of K > 2 (w is then a (K, d)
matrix). A :class:`LinearFit` is a point (ŵ, b̂) together with the problem it is meant to solve. It
may come from :func:`angcal.solvers.minimize` or be read off a model that was trained elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import largest_entry
from angcal.leverages import (
    FarHessian,
    HessianOrFallback,
    Leverages,
    PenalizedHessian,
    SingularHessianError,
    factorize,
    many_leverages,
)
from angcal.leverages.group_rounds import Staying, settled_moves
from angcal.leverages.groups import GroupMoves, Groups, leave_groups_out, stacked_moves
from angcal.leverages.many_groups import leverages_of_far
from angcal.leverages.steps import remaining_curvature
from angcal.losses import BlockLoss, Loss, Multinomial
from angcal.penalties import NoPenalty, Penalty, Ridge
from angcal.rows import Rows, as_rows, rotate
from angcal.solvers.far_newton import solver_for
from angcal.solvers.newton_cg import RidgeProblems, Solution


class SeparableDataError(ValueError):
    """A hyperplane separates the classes and nothing holds the weights back."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A point (ŵ, b̂) and the penalized problem it solves.

    Attributes
    ----------
    X : (n, d) array, sparse matrix, tensor or Rows
    labels : (n,) array
        Of 0.0 and 1.0, or the codes of K > 2 classes.
    weights : (n,) array
        Positive sample weights ω; class weights are folded in.
    coef : (d,) or (K, d) array
        ŵ.
    intercept : float or (K,) array
        b̂.
    loss, penalty : the problem
    fit_intercept : bool
    intercept_strength : float
        q₀; zero for a free intercept, positive where a solver penalizes it (liblinear).
    iterations : int
        Solver iterations that led to this point; 0 for one that was given.
    hessian_method : {"exact", "single", "randomised", "auto"}
        How the Hessian is inverted; see `angcal.leverages.factorize`.
    known_scores : (n,) or (n, K) array, optional
        u, where whoever fitted it has them at hand.
    known_hessian : optional
        As `hessian`, where whoever fitted it has it at hand.
    """

    X: Matrix
    labels: Floats
    weights: Floats
    coef: Floats
    intercept: Any
    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    intercept_strength: float = 0.0
    iterations: int = 0
    hessian_method: str = "exact"
    known_scores: Floats | None = None
    known_hessian: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.X.shape[0], self.X.shape[1]

    @cached_property
    def rows(self) -> Rows:
        """X̃, wherever it is stored."""
        return as_rows(self.X, self.fit_intercept)

    def image(self, coef: Floats, intercept: Any) -> Floats:
        """x_iᵀw + b of every row."""
        rows = self.rows
        if rows.intercept:
            last = np.asarray(intercept, dtype=np.float64)
            return rows.image(np.concatenate([coef, last[..., None]], axis=-1).T)
        return rows.image(coef.T) + intercept

    def pull(self, residuals: Floats) -> tuple[Floats, Any]:
        """Σ_i x_i r_iᵀ and Σ_i r_i, of the shapes of the weights and the intercept."""
        total = self.rows.pull(residuals)
        if not self.rows.intercept:
            return total.T, 0.0 * residuals.sum(axis=0)
        return total[:-1].T, total[-1]

    def per_row(self, values: Floats) -> Floats:
        """ω_i times values of any shape (n, …)."""
        return self.weights.reshape(-1, *[1] * (values.ndim - 1)) * values

    @cached_property
    def scores(self) -> Floats:
        """u_i = x_iᵀŵ + b̂."""
        if self.known_scores is not None:
            return self.known_scores
        return self.image(self.coef, self.intercept)

    @cached_property
    def residuals(self) -> Floats:
        """ψ_i = −ω_i ℓ'(u_i)."""
        return -self.per_row(self.loss.gradient(self.scores, self.labels))

    @cached_property
    def curvatures(self) -> Floats:
        """D_i = ω_i ℓ''(u_i): a number, or one for each class."""
        return self.per_row(self.loss.hessian(self.scores, self.labels))

    @property
    def total_weight(self) -> float:
        """N = Σ ω_i."""
        return float(self.weights.sum())

    @cached_property
    def objective(self) -> float:
        """J(ŵ, b̂)."""
        loss = float(self.weights @ self.loss.value(self.scores, self.labels)) / self.total_weight
        penalty = self.penalty.value(self.coef) + self.penalty.l1 * float(np.abs(self.coef).sum())
        return loss + penalty + 0.5 * self.intercept_strength * float(np.sum(self.intercept**2))

    @cached_property
    def kkt_residual(self) -> tuple[Floats, Any]:
        """Smallest-norm subgradient of J at (ŵ, b̂): zero exactly at the optimum."""
        N, l1 = self.total_weight, self.penalty.l1
        slopes, level = self.pull(self.residuals)
        gradient = -slopes / N + self.penalty.gradient(self.coef)
        if l1 > 0:
            pinned = self.coef == 0
            gradient = np.where(
                pinned,
                np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0),
                gradient + l1 * np.sign(self.coef),
            )
        intercept = -level / N + self.intercept_strength * self.intercept
        return gradient, intercept if self.fit_intercept else 0.0 * level

    @cached_property
    def hessian(self) -> Any:
        """X̃ᵀDX̃ + N∇²g of one score, factorized on the smaller side, on the active set."""
        if self.known_hessian is not None:
            return self.known_hessian
        return self._factorized(self.curvatures, self.coef)

    def _factorized(
        self, curvatures: Floats, coef: Floats, method: str | None = None
    ) -> PenalizedHessian | FarHessian | HessianOrFallback:
        N = self.total_weight
        try:
            return factorize(
                self.X,
                curvatures,
                N * np.asarray(self.penalty.curvature(coef)),
                fit_intercept=self.fit_intercept,
                intercept_curvature=N * self.intercept_strength,
                active=self.penalty.active(coef),
                method=self.hessian_method if method is None else method,
            )
        except SingularHessianError as error:
            known = isinstance(self.X, np.ndarray) or sparse.issparse(self.X)
            largest = largest_entry(self.X) if known else 1.0
            if not (largest > 1e6 or largest < 1e-6):
                raise
            raise SingularHessianError(
                f"{error} The entries of X reach {largest:.1e}: scale it, for example with "
                "StandardScaler."
            ) from error

    def group_leverages(
        self, D: Floats, groups: Groups, intercept_leverage: Any, rounds: bool = False
    ) -> Leverages:
        """As `leverages`, factorized, with the moves of rows whose groups are left out.

        ``rounds`` has the moves follow curvatures that change
        (:mod:`angcal.leverages.group_rounds`).
        """
        if self.rows.far:
            far = self.hessian if D is self.curvatures else None
            far = far if isinstance(far, FarHessian) else self._factorized(D, self.coef, "exact")
            assert isinstance(far, FarHessian)
            return leverages_of_far(far, groups, self.residuals, intercept_leverage, True)
        if D.ndim == 1:
            hessian = self._factor_of(D, self.coef)
            given = (groups, D, self.residuals, intercept_leverage)
            moves, h = leave_groups_out(hessian.engine, *given)
            if rounds:
                moves = self._settled(moves, D, [hessian.engine], intercept_leverage)
            coupling = hessian.coupling(moves.within, moves.remaining)
            return Leverages(h, coupling, hessian.side, 0.0, hessian.remark, moves)
        found, engines = [], []
        for k, coef in enumerate(self.coef):
            hessian = self._factor_of(np.ascontiguousarray(D[:, k]), coef)
            given = (groups, D[:, k], self.residuals[:, k], intercept_leverage[k])
            found.append(leave_groups_out(hessian.engine, *given))
            engines.append(hessian.engine)
        h = np.column_stack([own for _, own in found])
        moves = stacked_moves([own for own, _ in found])
        if rounds:
            moves = self._settled(moves, D, engines, intercept_leverage)
        return Leverages(h, None, hessian.side, 0.0, hessian.remark, moves)

    def _settled(
        self, moves: GroupMoves, D: Floats, known: list[Any], intercept_leverage: Any
    ) -> GroupMoves:
        """The moves after rounds, for likelihoods of classes; others keep the one step."""
        if not isinstance(self.loss, BlockLoss):
            return moves
        n = len(self.labels)
        u, psi, D = (values.reshape(n, -1) for values in (self.scores, self.residuals, D))
        staying = Staying(self.loss, self.labels, self.weights, u, psi, D, known)
        return settled_moves(moves, staying, np.atleast_1d(intercept_leverage))

    def shared_group_moves(
        self, D: Floats, ratio: float, groups: Groups, intercept_leverage: Any
    ) -> GroupMoves:
        """Moves of K scores by one Hessian that they share, times a ratio; D is (n,)."""
        residuals, levels = ratio * self.residuals, np.asarray(intercept_leverage) / ratio
        if self.rows.far:
            hessian = FarHessian(self.rows, D, [self.ridge], with_coupling=False)  # type: ignore[arg-type]
            return hessian.leave_groups_out(groups, residuals, levels)[0]
        known = self._factor_of(D, np.abs(self.coef).sum(axis=0)).engine
        return leave_groups_out(known, groups, D, residuals, levels)[0]

    def _factor_of(self, D: Floats, coef: Floats) -> PenalizedHessian:
        """Ĥ of one score, never sampled; one that is at hand is taken."""
        known = self.hessian if D is self.curvatures else None
        if isinstance(known, PenalizedHessian):
            return known
        side = min(self.shape)
        if side > plan.LARGEST_FACTORIZED_SIDE:
            raise ValueError(
                f"groups need a factorization of side {side}, which would take "
                f"{8 * side**2 / 1e9:.0f} GB; leave groups out, or reduce X to fewer rows or "
                "columns."
            )
        method = "exact" if self.hessian_method == "exact" else "single"
        if not self.has_shared_design:
            found = self._factorized(D, coef, method)
        else:
            options = {"fit_intercept": self.fit_intercept, "method": method}
            found = factorize(self.design, D, self.ridge, **options)  # type: ignore[arg-type]
        assert isinstance(found, PenalizedHessian)
        return found

    def leverages(self, D: Floats) -> Leverages:
        """h_i, and for one score their coupling, under curvatures D, the fit's own or others.

        With K scores each class is a problem of its own (:class:`~angcal.losses.Multinomial`).
        """
        if D.ndim == 1:
            own = D is self.curvatures
            hessian = self.hessian if own else self._factorized(D, self.coef)
            spread = float(np.std(self.scores))
            h = hessian.leverages(np.abs(self.residuals) / spread if own and spread > 0 else None)
            coupling = hessian.coupling(h, remaining_curvature(h, D))
            return Leverages(h, coupling, hessian.side, hessian.relative_error, hessian.remark)
        K, m = len(self.coef), D.shape[1]
        if self.shares_design and m > plan.SAMPLED_CLASSES:
            strengths, method = np.full(m, self.ridge), self.hessian_method
            return many_leverages(self.design, D, strengths, method=method, of_classes=True)
        # A few classes, no penalty, or an active set for each class.
        coefs = self.coef if m == K else [self.coef.any(axis=0) * 1.0] * m
        hessians = [
            self._factorized(np.ascontiguousarray(D[:, k]), coef) for k, coef in enumerate(coefs)
        ]
        found = np.column_stack([hessian.leverages() for hessian in hessians])
        errors = [hessian.relative_error for hessian in hessians]
        worst = hessians[int(np.argmax(errors))]
        return Leverages(found, None, worst.side, max(errors), worst.remark)

    @property
    def shares_design(self) -> bool:
        """Whether all classes have one ridge penalty, which sees inner products of rows alone."""
        return self.ridge > 0 and self.intercept_strength == 0

    @property
    def has_shared_design(self) -> bool:
        """Whether `design` is at hand, or is worth making for all classes."""
        many = self.coef.ndim > 1 and len(self.coef) > plan.SAMPLED_CLASSES
        return self.shares_design and (isinstance(self.X, Rows) or many)

    @property
    def ridge(self) -> float:
        """λ = N·strength of a ridge penalty; 0 for others."""
        penalty = self.penalty
        return self.total_weight * penalty.strength if isinstance(penalty, Ridge) else 0.0

    @cached_property
    def design(self) -> Rows:
        """Rows in few columns, for all classes."""
        if isinstance(self.X, Rows):
            return self.X
        return rotate(self.X, self.weights, self.fit_intercept)

    def newton_step(self) -> tuple[Floats, Any]:
        """−Ĥ·N·∇J: where the quadratic model of J puts the optimum, relative to here.

        With an ℓ₁ part, coordinates that should leave zero take a gradient step. With K scores each
        class takes its own step.
        """
        if self.coef.ndim == 1:
            return self._newton_step(self.hessian, *self.kkt_residual, self.coef, self.curvatures)
        gradient, intercept = self.kkt_residual
        steps = []
        for k, coef in enumerate(self.coef):
            D = np.ascontiguousarray(self.curvatures[:, k])
            hessian = self._factorized(D, coef, "exact")
            steps.append(self._newton_step(hessian, gradient[k], intercept[k], coef, D))
        return np.array([step for step, _ in steps]), np.array([last for _, last in steps])

    def _newton_step(
        self, hessian: Any, gradient: Floats, intercept: Any, coef: Floats, curvatures: Floats
    ) -> tuple[Floats, Any]:
        N = self.total_weight
        step, intercept_step = hessian.solve(-N * gradient, -N * intercept)
        if self.penalty.l1 > 0:
            entering = (coef == 0) & (gradient != 0)
            if entering.any():
                X = self.X[:, entering]
                squares = X.multiply(X) if hasattr(X, "multiply") else X * X
                curvature = np.asarray(squares.T @ curvatures).ravel() / N
                curvature = curvature + np.ravel(self.penalty.curvature(coef)).max()
                step[entering] = -gradient[entering] / np.maximum(curvature, 1e-12)
        return step, intercept_step

    @cached_property
    def distance_to_optimum(self) -> float:
        """rms(x_iᵀδ)/sd(u_i) for the Newton step δ: how far the scores still have to move.

        A share of the scores' own spread, so it reads the same for every loss, scaling and
        penalty. Zero at the optimum.
        """
        if isinstance(self.loss, Multinomial) and self.shares_design:
            return self._joint_distance
        shift = self.image(*self.newton_step())
        spread = float(np.sqrt(np.sum(np.var(self.scores, axis=0))))
        # A step beyond all numbers, or of scores that do not differ, is infinitely far from it.
        with np.errstate(over="ignore"):
            rms = float(np.sqrt(np.sum(shift**2) / len(shift)))
            return 0.0 if rms == 0 else float(np.divide(rms, max(spread, np.finfo(float).tiny)))

    @property
    def _joint_distance(self) -> float:
        """The same by conjugate gradients, which see how the classes are coupled."""
        assert isinstance(self.loss, BlockLoss)
        strengths = np.array([self.ridge])
        solver = solver_for(self.rows, self.labels, self.weights, strengths, self.loss)
        done = np.ones(1, dtype=bool)
        here = Solution(self.coef.T, self.intercept, self.scores, done, np.zeros(1), 0, 0)
        return float(solver.distances(here, solver.LOOSE)[0])

    def with_hessian(self, hessian: Any) -> LinearFit:
        """The same fit, whose Hessian is at hand."""
        return replace(self, known_hessian=hessian)

    def moved_to(self, coef: Floats, intercept: Any, iterations: int = 0) -> LinearFit:
        """The same problem at another point."""
        at = float(intercept) if np.ndim(intercept) == 0 else intercept
        return replace(
            self,
            coef=coef,
            intercept=at,
            iterations=iterations,
            known_scores=None,
            known_hessian=None,
        )


def ridge_fit(solved: RidgeProblems, found: Solution, method: str) -> LinearFit:
    """The fit that a ridge problem's solution is; ``method`` is that of its leverages."""
    coef, intercept, scores = found.problem(0)
    return LinearFit(
        X=solved.rows,
        labels=solved.labels,
        weights=solved.weights,
        coef=coef,
        intercept=intercept,
        loss=solved.loss,
        penalty=Ridge(float(solved.strengths[0]) / solved.total),
        fit_intercept=solved.rows.intercept,
        iterations=found.newton_steps,
        hessian_method=method,
        known_scores=scores,
    )


def check_separable(fit: LinearFit) -> None:
    """Raise if the fit has no finite optimum: perfect separation and no penalty.

    Whatever the loss, a vanishing penalty with all margins positive means that scaling ŵ up keeps
    lowering (or never raises) the loss, so neither ŵ's length nor its curvature carry information.
    """
    if not isinstance(fit.penalty, NoPenalty) and np.any(fit.penalty.curvature(fit.coef)):
        return
    margins = fit.loss.margins(fit.scores, fit.labels)
    if margins.min() > 0 and fit.penalty.l1 == 0 and not _has_target(fit):
        raise SeparableDataError(
            "The classes are linearly separable and the fit has no penalty: its weights have no "
            "finite optimum, so there is no angle to estimate. Add a ridge penalty, for example "
            "LogisticRegression(C=1.0)."
        )


def _has_target(fit: LinearFit) -> bool:
    """Whether the loss pulls every score to a finite target, as the squared loss does."""
    return fit.loss.attains_minimum and bool(np.all(fit.curvatures > 0))
