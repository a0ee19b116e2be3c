r"""From one fit to its observables: traces, leverages, leave-one-out scores.

With ψ_i = −ω_iℓ'(u_i), D_i = ω_iℓ''(u_i), Ĥ = (X̃ᵀDX̃ + N∇²g)⁻¹ and h_i = x̃_iᵀĤx̃_i (X̃ is X with
a column of ones when there is an intercept), for one score:

    df  = Tr(XĤXᵀD)              = Σ h_i D_i
    v̂   = (1/n) Tr(D − DXĤXᵀD)   = (1/n) Σ (D_i − h_i D_i²)
    γ̂   = df / (n v̂)             (the paper prints γ̂ = df; docs/angle.md)
    r̂²  = ‖ψ‖²/n
    ũ_i = u_i − γ_i ψ_i,   γ_i = h_i / (1 − h_i D_i)

ũ_i approximates the score that row i would get from the fit on the other n − 1 rows, with the
penalty's total weight N·g unchanged.

Calibration asks for slightly less: the score of row i under weights that have not seen it, at the
intercept that will be used. Leaving row i out also moves the intercept by about ψ_i/ΣD, always
against its own label; under a strong penalty that push is larger than the scores themselves.
Around the D-weighted mean of the rows, slopes and intercept decouple and
h_i = x_iᵀĤ_ww x_i + 1/(ΣD + Nq₀), so the push is removed by

    z̃_i = u_i − (h_i − 1/(ΣD + Nq₀)) / (1 − h_i D_i) · ψ_i

Rows that belong together are left out together (:mod:`angcal.leverages.groups`); ũ and z̃ are then
the scores of the fit without a row's group.

With one score for each of K classes, every class has its own h_i, D_i and γ_i, and D_i is what of
the joint curvature belongs to it (:meth:`angcal.losses.Multinomial.held_back`). This
module is the only home of these formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import softmax
from angcal.leverages import Leverages
from angcal.leverages.groups import GroupMoves, Groups
from angcal.leverages.many_groups import batch_of_groups, batch_takes_groups, far_groups
from angcal.leverages.shared import (
    ClassRows,
    LeveragesOf,
    SharedSteps,
    corrected_steps,
    shared_steps,
)
from angcal.leverages.steps import left_out, put_back, remaining_curvature
from angcal.losses import Logistic, Multinomial, curvature_of
from angcal.problem import LinearFit
from angcal.rows import FarRows


@dataclass(frozen=True, eq=False)
class Observables:
    """What one fit reveals about itself; arrays (n,) for one score, (n, K) for one of each class.

    Attributes
    ----------
    scores : (n,) or (n, K) array
        u = Xŵ + b̂.
    linear_scores : (n,) or (n, K) array
        Xŵ, without the intercept: the quantity that enters the observable angle.
    residuals : (n,) or (n, K) array
        ψ.
    curvatures, leverages : (n,) or (n, K) arrays
        D and h.
    n_features : int
        d.
    has_intercept : bool
        Whether the fit has one.
    intercept_leverage : float or (K,) array
        (ΣD + Nq₀)⁻¹, the part of each h_i that belongs to the intercept; 0 without one.
    coupling : (n,) array or None
        c_i = Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)², how strongly the leave-one-out scores of other rows lean
        on row i. It makes their errors dependent, and intervals wider. None for K > 2 classes.
    side : {"primal", "dual", "randomised"}
        Which side of the Hessian was factorized, or that none was.
    step_error : float
        Standard error of the common γ as a share of it; 0 where the leverages are exact.
    remark : str
        Why sampled rows were not enough, where they were tried and were not.
    group_moves : GroupMoves or None
        What leaving out a row's group does to its score; None where each row is left out alone.

    See Also
    --------
    AngularCalibratedClassifier : Has them as ``observables_``.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier, Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 200, link=Logit(scale=3), random_state=0)
    >>> found = AngularCalibratedClassifier().fit(data.X, data.y).observables_
    >>> found.loo_scores.shape, found.degrees_of_freedom < 201
    ((300,), True)
    """

    scores: Floats
    linear_scores: Floats
    residuals: Floats
    curvatures: Floats
    leverages: Floats
    coupling: Any
    intercept_leverage: Any
    n_features: int
    has_intercept: bool
    side: str
    step_error: float = 0.0
    remark: str = ""
    group_moves: GroupMoves | None = None

    @property
    def n_samples(self) -> int:
        """n."""
        return len(self.scores)

    @property
    def groups(self) -> Groups | None:
        """Rows that are left out together; None where each is left out alone."""
        return None if self.group_moves is None else self.group_moves.groups

    @property
    def in_groups(self) -> bool:
        """Whether any group has two rows, which are then not independent."""
        return self.groups is not None and bool(self.groups.sizes.max() > 1)

    @property
    def leverage_shares(self) -> Floats:
        """h_iD_i: each row's share of the degrees of freedom, summed over classes."""
        shares = self.leverages * self.curvatures
        # K scores that sum to zero are K − 1.
        return shares if shares.ndim == 1 else shares.sum(axis=1) * (1.0 - 1.0 / shares.shape[1])

    @cached_property
    def degrees_of_freedom(self) -> float:
        """df = Tr(XĤXᵀD) = Σ h_i D_i."""
        return float(self.leverage_shares.sum())

    @cached_property
    def v(self) -> float:
        """v̂ = (1/n) Σ (D_i − h_i D_i²): the mean slope of −ψ in the leave-one-out score."""
        return float(np.mean(self.curvatures - self.leverages * self.curvatures**2))

    @property
    def gamma(self) -> float:
        """γ̂ = df/(n v̂): the common value that every γ_i approaches in theory.

        Where no row has curvature (every margin beyond a hinge's bend), 0/0 is read as mean(h_i),
        its limit.
        """
        if self.v == 0:
            return float(np.mean(self.leverages))
        return self.degrees_of_freedom / (self.n_samples * self.v)

    @cached_property
    def residual_variance(self) -> float:
        """r̂² = ‖ψ‖²/n."""
        return float(np.sum(self.residuals**2) / self.n_samples)

    @property
    def loo_steps(self) -> Floats:
        """γ_i = h_i/(1 − h_i D_i) = x_iᵀĤ₍₋ᵢ₎x_i."""
        return left_out(self.leverages, self.curvatures)

    @cached_property
    def loo_scores(self) -> Floats:
        """ũ_i = u_i − γ_i ψ_i ≈ x_iᵀŵ₍₋ᵢ₎ + b̂₍₋ᵢ₎."""
        if self.group_moves is not None:
            return self.scores - self.group_moves.all
        return self.scores - self.loo_steps * self.residuals

    @property
    def slope_steps(self) -> Floats:
        """(h_i − (ΣD + Nq₀)⁻¹)/(1 − h_i D_i): γ_i without the intercept's share."""
        slope_leverages = np.maximum(self.leverages - self.intercept_leverage, 0.0)
        return slope_leverages / remaining_curvature(self.leverages, self.curvatures)

    @cached_property
    def calibration_scores(self) -> Floats:
        """z̃_i: score of row i under weights that have not seen it, at the fitted intercept."""
        if self.group_moves is not None:
            return self.scores - self.group_moves.slopes
        return self.scores - self.slope_steps * self.residuals

    @cached_property
    def unevenness(self) -> float:
        """sd(γ_i)/mean(γ_i): how far the design is from the theory's equal rows."""
        mean = float(np.mean(self.loo_steps))
        return float(np.std(self.loo_steps)) / mean if mean > 0 else 0.0


def observe(fit: LinearFit, groups: Groups | None = None) -> Observables:
    """Observables of a fit, from one factorization on the smaller side.

    With K scores, steps γ that all classes share come first, from a problem that is held back as
    much as they are on average; then, where that is cheap, those of each class. Rows of a group
    are left out together.

    Examples
    --------
    >>> import numpy as np
    >>> from angcal.problem import LinearFit
    >>> from angcal.solvers.minimize import minimize
    >>> from angcal.losses import Squared
    >>> from angcal.penalties import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(30, 5)), rng.integers(0, 2, 30).astype(float)
    >>> problem = LinearFit(X, y, np.ones(30), np.zeros(5), 0.0, Squared(), Ridge(0.1), True)
    >>> bool(0 < observe(minimize(problem)).degrees_of_freedom < 6)
    True
    """
    n, d = fit.shape
    separate = isinstance(fit.loss, Multinomial) and plan.separates_classes(
        n, min(n, d), fit.loss.n_classes
    )
    leverages = lambda parts, _: [fit.leverages(D) for D in parts]  # noqa: E731
    return observe_all([fit], leverages, separate, groups)[0]


def observe_all(
    fits: list[LinearFit], leverages: LeveragesOf, separate: bool, groups: Groups | None = None
) -> list[Observables]:
    """Observables of fits that share a loss and rows, as the penalties of a path do.

    Parameters
    ----------
    fits : list of LinearFit
    leverages : callable
        (curvatures, places of the fits that they belong to) -> leverages of each.
    separate : bool
        Whether each of K classes has leverages of its own; for one score it does not matter.
    groups : Groups, optional
        Rows that are left out together.
    """
    loss = fits[0].loss
    curvatures = [fit.curvatures for fit in fits]
    if isinstance(loss, Multinomial) and fits[0].penalty.l1 > 0:
        curvatures = [_active_curvatures(fit, loss) for fit in fits]
    elif isinstance(loss, Multinomial):
        rows = [_class_rows(fit, loss) for fit in fits]
        shared = shared_steps(rows, leverages)
        curvatures = [each.curvatures() for each in shared]
        if not separate:
            totals = [D.sum(axis=0) for D in curvatures]
            steps = corrected_steps(rows, shared, totals, leverages)
            found = [
                replace(each.leverages, values=put_back(step, D))
                for each, step, D in zip(shared, steps, curvatures, strict=True)
            ]
            if groups is not None:
                pairs = zip(fits, shared, steps, found, curvatures, strict=True)
                found = [_with_shared_moves(*each, groups) for each in pairs]
            return list(map(observables_from, fits, found, curvatures))
    if groups is None:
        found = leverages(curvatures, list(range(len(fits))))
    else:
        found = _group_leverages(fits, curvatures, groups)
    return list(map(observables_from, fits, found, curvatures))


def _group_leverages(
    fits: list[LinearFit], curvatures: list[Floats], groups: Groups
) -> list[Leverages]:
    """Leverages and moves of groups: of all fits and classes at once where that is quick."""
    pairs = list(zip(fits, curvatures, strict=True))
    levels = [_intercept_leverage(fit, D) for fit, D in pairs]
    shape, per_fit = curvatures[0].shape, curvatures[0][0].size
    rows = fits[0].design if fits[0].has_shared_design else None
    far = isinstance(rows, FarRows) and len(fits) * per_fit > 1
    alone = len(fits) == 1  # a fit of its own is followed further than one step
    if rows is None or not (far or (not alone and batch_takes_groups(rows, groups))):
        return [
            fit.group_leverages(D, groups, c, rounds=alone)
            for (fit, D), c in zip(pairs, levels, strict=True)
        ]
    together: Any = far_groups if far else batch_of_groups
    found = together(
        rows,
        np.column_stack(curvatures),
        np.repeat([fit.ridge for fit in fits], per_fit),
        groups,
        np.column_stack([fit.residuals for fit in fits]),
        np.concatenate([np.atleast_1d(c) for c in levels]),
        len(shape) == 1,
    )
    return [found.part(slice(k * per_fit, (k + 1) * per_fit), shape) for k in range(len(fits))]


def _with_shared_moves(
    fit: LinearFit,
    shared: SharedSteps,
    steps: Floats,
    found: Leverages,
    D: Floats,
    groups: Groups,
) -> Leverages:
    """Moves of groups by the Hessian that all classes share, and by as much more as their steps."""
    h, own = shared.leverages.values[:, 0], shared.steps[:, 0]
    curvature = np.maximum(own - h, 0.0) / np.maximum(own * h, np.finfo(float).tiny)
    ratio = float(steps.sum() / max(float(own.sum()), np.finfo(float).tiny))
    moves = fit.shared_group_moves(curvature, ratio, groups, _intercept_leverage(fit, D))
    return replace(found, group_moves=moves)


def _class_rows(fit: LinearFit, loss: Multinomial) -> ClassRows:
    return ClassRows(loss, softmax(fit.scores), fit.labels.astype(np.intp), fit.weights)


def _active_curvatures(fit: LinearFit, loss: Multinomial) -> Floats:
    """Of an ℓ₁ penalty, which leaves every class columns of its own.

    K/(K − 1)·p(1 − p) is what scores that sum to zero see. A column that one class alone uses sees
    p(1 − p); between the two the number of classes that use a column decides, on average.
    """
    used = np.count_nonzero(fit.coef, axis=0)
    K, classes = loss.n_classes, float(np.mean(used[used > 0])) if used.any() else 1.0
    share = 1.0 - (K - classes) / (K * (K - 1.0))
    curvatures = share * fit.curvatures
    steps = left_out(fit.leverages(curvatures).values, curvatures)
    return curvature_of(share * _class_rows(fit, loss).held_back(steps), steps)


def observables_from(fit: LinearFit, found: Leverages, D: Floats) -> Observables:
    """Observables of a fit whose leverages under curvatures D are at hand."""
    return Observables(
        scores=fit.scores,
        linear_scores=fit.scores - fit.intercept,
        residuals=fit.residuals,
        curvatures=D,
        leverages=found.values,
        coupling=found.coupling,
        intercept_leverage=_intercept_leverage(fit, D),
        n_features=fit.shape[1],
        has_intercept=fit.fit_intercept,
        side=found.side,
        step_error=float(np.max(found.step_error)),
        remark=found.remark,
        group_moves=found.group_moves,
    )


def honest_scores(fit: LinearFit, observables: Observables) -> Floats:
    """Scores of rows that their own labels have not touched: for judging, not for fitting.

    ũ_i, with what a row's absence does to the count of its class given back. At z̃_i the intercept
    has seen the row; where a fit follows single rows closely that lets its label through. Losses
    other than the likelihood of classes say nothing of counts, and keep z̃_i.
    """
    if not fit.fit_intercept:
        return observables.loo_scores
    moves, two = observables.group_moves, isinstance(fit.loss, Logistic)
    if not (two or isinstance(fit.loss, Multinomial)):
        return observables.calibration_scores
    K, codes = 2 if two else fit.loss.n_scores, fit.labels.astype(np.intp)
    if moves is not None:
        shifts = group_count_shifts(codes, fit.weights, K, moves.groups)
        return observables.loo_scores + (shifts @ [-1.0, 1.0] if two else shifts)
    own = count_shifts(codes, fit.weights, K)
    if two:
        return observables.loo_scores + np.where(codes == 1, own, -own)
    return with_shifts(observables.loo_scores, codes, own)


def count_shifts(
    codes: np.ndarray, weights: Floats, n_classes: int, rows: np.ndarray | slice = slice(None)
) -> Floats:
    """(ω_i/W_y)·W/(W − ω_i) of each row, for the score of its class; W_y the class's weight.

    Without row i its class has less weight, and its logit is lower by as much: this is the
    leave-one-out step of a model that has intercepts alone. New rows are judged by the count of
    all, so that the step is to be given back. ``rows`` are those that are asked for.
    """
    totals, total = np.bincount(codes, weights, minlength=n_classes), float(weights.sum())
    return count_shift(weights[rows], totals[codes[rows]], total)


def with_shifts(scores: Floats, codes: np.ndarray, shifts: Floats) -> Floats:
    """(n, K) scores, that of each row's own class moved."""
    moved = scores.copy()
    moved[np.arange(len(codes)), codes] += shifts
    return moved


def usual_weights(case_weights: Floats) -> Floats:
    """Weights of mean one; of one number for all rows nothing is made for each of them."""
    if case_weights.strides == (0,):
        return np.broadcast_to(1.0, case_weights.shape)
    return case_weights / np.mean(case_weights)


def count_shift(weights: Floats, in_class: Floats, total: float) -> Floats:
    """(ω_i/W_y)·W/(W − ω_i)."""
    return weights / in_class * total / (total - weights)


def group_count_shifts(
    codes: np.ndarray, weights: Floats, n_classes: int, groups: Groups
) -> Floats:
    """(W_gk/W_k)·W/(W − W_g), (n, K): the same where a group g with weight W_gk in class k goes."""
    own = np.zeros((len(codes), n_classes))
    own[np.arange(len(codes)), codes] = weights
    in_group = groups.sums(own)
    totals, rest = own.sum(axis=0), weights.sum() - in_group.sum(axis=1, keepdims=True)
    return (in_group / np.maximum(totals, np.finfo(float).tiny) * weights.sum() / rest)[
        groups.codes
    ]


def _intercept_leverage(fit: LinearFit, curvatures: Floats) -> Any:
    total = curvatures.sum(axis=0) + fit.total_weight * fit.intercept_strength
    if not fit.fit_intercept:
        return 0.0 * total
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return inverse if inverse.ndim else float(inverse)
