"""Fits under all penalties and what each reveals, for every exponent that a pool allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import on_host, slices
from angcal.calibrate import Options
from angcal.estimators.base_model import LARGEST_DISTANCE, polished
from angcal.estimators.training import Training
from angcal.leverages.groups import Groups
from angcal.links import Link
from angcal.losses import Multinomial
from angcal.multiclass import class_scores
from angcal.notices import PenaltyWarning, warn
from angcal.observables import Observables, observe
from angcal.penalties import Ridge
from angcal.penalty_path import (
    EXPONENTS,
    ClassCurves,
    Design,
    Judged,
    LooCurves,
    apart,
    cosines_of,
    cosines_under,
    criterion,
    exponent_shares,
    factors_of,
    joined,
    judge_path,
    judged,
    make_design,
    moved_to,
    naming_cs,
    observe_path,
    penalty_shares,
    spectrum_of,
    why_without,
)
from angcal.penalty_path.spectrum import PenaltyShape
from angcal.problem import LinearFit
from angcal.rows import FarRows, Rows
from angcal.sklearn_problems.reader import class_factors
from angcal.solvers.far_newton import FarNewton
from angcal.solvers.newton_cg import NewtonCG, Solution

LARGE_SPREAD, LARGEST_MOVE, CLOSE = 10.0, 0.2, 1e-6
"""Standard deviation of scores, in log-odds, beyond which it is asked how far they are from their
optimum; what may be left, which moves no residual by more than a fifth; and the tolerance that
penalties are solved to where it is more."""


@dataclass(frozen=True, eq=False)
class PathFit:
    """A path of penalties under one exponent.

    Attributes
    ----------
    exponent, rarity : float
        p and q; see :mod:`angcal.penalty_path.spectrum` and :mod:`angcal.penalty_path.rarity`.
    design : Design
    Cs : (m,) array
    solution : Solution
    observed : list of Observables
    curves : LooCurves, ClassCurves or Judged
    errors : (m,) array
        What sampled leverages leave open of the score.
    scoring : str
        The score by which C is chosen.
    """

    exponent: float
    rarity: float
    design: Design
    Cs: Floats
    solution: Solution
    observed: list[Observables]
    curves: LooCurves | ClassCurves | Judged
    errors: Floats
    scoring: str

    @cached_property
    def criterion(self) -> Floats:
        """What the chosen penalty minimizes; of equal ones it is the first, the strongest."""
        return self._judged_by(self.scoring)

    @cached_property
    def index(self) -> int:
        """The chosen penalty."""
        return int(np.argmin(self.criterion))

    @property
    def C(self) -> float:
        """The chosen inverse strength."""
        return float(self.Cs[self.index])

    @cached_property
    def restored(self) -> tuple[Floats, Floats]:
        """Weights and intercepts of all penalties, for rows as given."""
        found, m = self.solution, len(self.Cs)
        coefs, levels = self.design.restore(on_host(found.coef).T, on_host(found.intercepts))
        if len(coefs) > m:
            coefs = coefs.reshape(-1, m, coefs.shape[1]).swapaxes(0, 1)
            levels = levels.reshape(-1, m).T
        return np.ascontiguousarray(coefs), levels

    @cached_property
    def losses(self) -> Floats:
        """Leave-one-out log-loss of each penalty, with what sampled leverages leave open."""
        return self._scores("log_loss")

    def _scores(self, scoring: str) -> Floats:
        known = scoring == self.scoring
        errors = self.errors if known else self.curves.sampling_error(scoring, self.observed)
        return np.asarray(getattr(self.curves, scoring) + errors)

    def _judged_by(self, scoring: str) -> Floats:
        scores = self._scores(scoring)
        given = (self.design, self.Cs, self.solution, self.degrees_of_freedom)
        return criterion(scores, *given, self.curves, scoring)

    @property
    def n_labels(self) -> float:
        """What the labels are worth under the chosen penalty."""
        return self.curves.independent_labels(self.index)

    @property
    def penalty_shares(self) -> Floats:
        """π by likelihood of the chosen penalty and those a factor apart; 0 of all others."""
        kept, shares = apart(self.Cs, self.index), np.zeros(len(self.Cs))
        shares[kept] = penalty_shares(self._judged_by("log_loss")[kept], self.n_labels)
        return shares

    @property
    def chosen_alone(self) -> Floats:
        """1 for the chosen penalty and 0 for the others."""
        return (np.arange(len(self.Cs)) == self.index).astype(np.float64)

    @property
    def degrees_of_freedom(self) -> Floats:
        """Of each fit."""
        return np.array([found.degrees_of_freedom for found in self.observed])

    def cosines(self, link: Link, confidence: float) -> tuple[Floats, Floats]:
        """Cosines of two classes' fits and their intervals, given the link."""
        assert isinstance(self.curves, LooCurves)
        given = (self.observed, self.curves.labels, self.curves.weights, confidence)
        return cosines_under(link, *given)

    @property
    def groups(self) -> Groups | None:
        """Rows that were left out together."""
        return self.observed[self.index].groups

    def at(self, k: int) -> Observables:
        """Observables of one of the fits, for rows of the design."""
        return self.observed[k]

    def close_to(self, solution: Solution) -> Observables:
        """Those of the chosen fit, finished a little better."""
        return moved_to(self.observed[self.index], self.design, solution)

    def member(self, k: int, chosen: LinearFit) -> tuple[LinearFit, Observables]:
        """One of the fits with its observables, beside a finished one for the same rows."""
        coefs, intercepts = self.restored
        found = self.at(k)
        fit = replace(
            chosen,
            coef=coefs[k],
            intercept=intercepts[k],
            penalty=Ridge(float(1.0 / (self.Cs[k] * chosen.total_weight))),
            known_scores=found.scores,
        )
        # Without the intercept for rows as given, not for centered ones.
        return fit, replace(found, linear_scores=found.scores - intercepts[k])

    def finished(self, X: Any, tol: float, method: str) -> tuple[LinearFit, Observables, float]:
        """The chosen fit at its optimum, its observables, and its distance to the optimum."""
        design, strength = self.design, np.array([1.0 / self.C])
        solver = design.solver(strength)
        # Its scores are then far closer to the optimum than its angle could notice.
        solution = solver.continued(self.solution.column(self.index), min(tol, 1e-4))
        distance = float(solver.distances(solution)[0])
        even = replace(design.fit_at(solution, 0, 1.0 / self.C), hessian_method=method)
        if distance > LARGEST_DISTANCE and even.coef.ndim == 1:
            # Where products in single precision do not get there, factorizations do.
            even = polished(even if design.rows.far else replace(even, known_scores=None))
            distance, found = even.distance_to_optimum, observe(even, self.groups)
        else:
            found = self.close_to(solution)
        coef, intercept = design.restore(even.coef, even.intercept)
        found = replace(found, linear_scores=found.scores - intercept, n_features=design.n_features)
        # Rows that are far are not read again for scores.
        scores = even.known_scores if design.rows.far else None
        fit = replace(even, X=X, coef=coef, intercept=intercept, known_scores=scores)
        return fit, found, distance


def fit_paths(estimator: Any, training: Training, options: Options) -> tuple[list[PathFit], str]:
    """A path for each exponent, the first of them 1, and why there are no others."""
    pool: Any = options.pool
    off = estimator.spectrum is None
    reason = "spectrum=None" if off else why_without(pool, training.X)
    paths = [fit_path(estimator, training)]
    rarity = paths[0].rarity
    if not reason:
        # Rows so few that shapes matter are soon on the host.
        near = replace(training, X=on_host(training.X)) if training.on_device else training
        factors = paths[0].design.factors
        found = spectrum_of(pool, near.X, bool(estimator.fit_intercept), factors)
        shapes = [found.shape(exponent) for exponent in EXPONENTS[1:]]
        paths += [fit_path(estimator, near, rarity, shape) for shape in shapes]
    return paths, reason


def fit_path(
    estimator: Any,
    training: Training,
    rarity: float | None = None,
    shape: PenaltyShape | None = None,
) -> PathFit:
    """All penalties, and what each fit reveals."""
    given = (estimator.class_weight, training.classes, training.codes, training.weights)
    weights = training.weights * class_factors(*given)
    intercept, K = bool(estimator.fit_intercept), training.n_classes
    exponent = float(estimator.rarity if rarity is None else rarity)
    factors = factors_of(training.X, training.weights, exponent)
    design = make_design(training.X, training.codes, weights, intercept, K, shape, factors)
    Cs = estimator._inverse_strengths(design)
    with np.errstate(over="ignore"):
        strengths = 1.0 / Cs  # the solver refuses infinity, and names Cs
    # What is told of a fit, and where it starts, is of the first path.
    told = estimator._far_options() if rarity is None and design.rows.far else {}
    solver = design.solver(strengths, told.pop("watch", None))
    solution = solver.solve(estimator.tol, **told)
    p, q = 1.0 if shape is None else shape.exponent, 0.0 if factors is None else exponent
    if design.rows.far:
        return far_path(estimator, training, (p, q), design, Cs, solution)
    if K > 2:
        solution = at_their_optimum(solver, solution)
        Cs, strengths = Cs[: len(solution.converged)], strengths[: len(solution.converged)]
        warn_of_left_out(Cs, estimator.Cs)
    groups = training.groups_of(training.X)
    observed = observe_path(design, strengths, solution, estimator.observables, groups=groups)
    curves = path_curves(design, solution, observed, training.weights)
    errors = curves.sampling_error(estimator.scoring, observed)
    return PathFit(p, q, design, Cs, solution, observed, curves, errors, estimator.scoring)


def at_their_optimum(solver: NewtonCG | FarNewton, found: Solution) -> Solution:
    """The penalties from the strongest up to where fits end short of their optimum.

    A step of a thousandth of the scores' spread is of no account where log-odds are of order one.
    Of classes that are hundreds apart it is a good part of every residual, and leave-one-out losses
    are then too low, by up to 1.8 nats.
    """

    def short(solution: Solution) -> np.ndarray:
        deviations = on_host(solver.rows.xp.std(solution.scores, axis=0))
        spreads = np.sqrt(solver.per_problem(deviations[None, :] ** 2)[0])
        if not np.any(spreads > LARGE_SPREAD):
            return np.zeros(len(spreads), dtype=bool)
        return (spreads > LARGE_SPREAD) & (spreads * solver.distances(solution) > LARGEST_MOVE)

    if not short(found).any():
        return found
    found = solver.continued(found, CLOSE)
    left = short(found)
    m = len(left)
    kept = max(int(np.argmax(left)), 1) if left.any() else m
    columns = np.arange(found.coef.shape[1]).reshape(-1, m)[:, :kept].ravel()
    return found.part(slice(0, kept), found.scores[:, columns])


def warn_of_left_out(kept: Floats, Cs: Any) -> None:
    """Say so where penalties that were asked for are none of the path's."""
    left = [] if isinstance(Cs, Integral) else [C for C in np.unique(Cs) if C > kept[-1]]
    if left:
        warn(
            f"Cs above {kept[-1]:.3g} are left out: the classes are separated, and under penalties "
            "so weak the solver ends short of the optimum, where leave-one-out losses are too low.",
            PenaltyWarning,
        )


@dataclass(frozen=True, eq=False)
class FarPathFit(PathFit):
    """A path on rows that are read anew on every pass, of which nothing is kept.

    Attributes
    ----------
    method : {"auto", "exact", "randomised"}
        How leverages are computed.
    groups : Groups or None
        Rows that were left out together.
    """

    method: str = "auto"
    groups: Groups | None = None

    @property
    def degrees_of_freedom(self) -> Floats:
        return self.curves.degrees_of_freedom  # type: ignore[union-attr]

    def cosines(self, link: Link, confidence: float) -> tuple[Floats, Floats]:
        assert isinstance(self.curves, Judged)
        assert self.curves.evidence is not None
        return cosines_of(link, self.curves.evidence, confidence)

    def at(self, k: int) -> Observables:
        """Four passes."""
        one = slice(k, k + 1)
        part = with_scores(self.design.rows, self.solution.part(one))
        return self._observed(1.0 / self.Cs[one], part)

    def close_to(self, solution: Solution) -> Observables:
        return self._observed(np.array([1.0 / self.C]), solution)

    def _observed(self, strengths: Floats, solution: Solution) -> Observables:
        found = observe_path(
            *(self.design, strengths, solution, self.method), groups=self.groups, of=len(self.Cs)
        )
        return found[0]


def far_path(
    estimator: Any,
    training: Training,
    kind: tuple[float, float],
    design: Design,
    Cs: Floats,
    solution: Solution,
) -> FarPathFit:
    """What every fit of an exponent and a rarity reveals, without a vector for each of them.

    Two classes are judged in three passes. Groups, more classes and sampled leverages need vectors:
    of as many penalties at a time as keep them below an eighth of X.
    """
    method, groups = estimator.observables, training.groups_of(training.X)
    rows, strengths, m = design.rows, 1.0 / Cs, len(Cs)
    assert isinstance(rows, FarRows)
    matrices = method == "exact" or (
        method == "auto" and plan.takes_matrices(rows.shape[1], rows.streamed)
    )
    if training.n_classes == 2 and groups is None and matrices:
        with naming_cs(strengths):
            curves = judge_path(design, strengths, solution, training.weights)
    else:
        parts = []
        for part in slices(m, plan.penalties_at_once(*rows.shape, training.n_classes)):
            own = with_scores(rows, solution.part(part))
            observed = observe_path(design, strengths[part], own, method, groups=groups, of=m)
            found = path_curves(design, own, observed, training.weights)
            parts.append(judged(found, observed))
        curves = joined(parts)
    errors = curves.sampling_error(estimator.scoring)
    p, q = kind
    return FarPathFit(
        *(p, q, design, Cs, solution, [], curves, errors, estimator.scoring), method, groups
    )


def with_scores(rows: Rows, part: Solution) -> Solution:
    """The same with scores, by one pass."""
    V = np.vstack([part.coef, part.intercepts]) if rows.intercept else part.coef
    return replace(part, scores=rows.forward(V))


def shares_of_paths(paths: list[PathFit]) -> Floats:
    """π of every exponent by its leave-one-out likelihood and the prior about 1."""
    exponents = np.array([path.exponent for path in paths])
    return exponent_shares([path.losses for path in paths], paths[0].n_labels, exponents)


def path_curves(
    design: Design, solution: Solution, observables: list[Observables], weights: Floats
) -> LooCurves | ClassCurves:
    """What every penalty's fit loses on rows that it has not seen; weights are those of cases."""
    fits = [design.fit_at(solution, c, 0.0) for c in range(len(observables))]
    if isinstance(design.loss, Multinomial):
        pairs = zip(fits, observables, strict=True)
        scores = [class_scores([fit], [found]) for fit, found in pairs]
        return ClassCurves(scores, design.labels, weights)
    return LooCurves.of(fits, observables, weights)
