r"""Observables of every fit of a path: all penalties, and all classes, share one design."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages import Leverages, many_leverages
from angcal.leverages.steps import left_out, put_back
from angcal.losses import Multinomial, curvature_of
from angcal.observables import (
    Observables,
    is_settled,
    mean_curvature,
    observables_from,
    step_ratio,
    typical_classes,
)
from angcal.penalty_path.design import Design
from angcal.problem import LinearFit
from angcal.solvers.newton_cg import Solution


def observe_path(
    design: Design,
    strengths: Floats,
    solution: Solution,
    method: str,
    tolerance: float = plan.STEP_TOLERANCE,
) -> list[Observables]:
    """Observables of every fit.

    Parameters
    ----------
    design, strengths, solution
        The problems, their q, and where they were solved.
    method : {"auto", "exact", "randomised"}
        "auto" is exact where that takes no longer.
    tolerance : float
        Sampled leverages are good to this share over √n.
    """
    fits = [design.fit_at(solution, c, float(q)) for c, q in enumerate(strengths)]
    options = (strengths, method, _order(design), tolerance)
    if not isinstance(design.loss, Multinomial):
        found = _leverages(design, [fit.curvatures for fit in fits], *options)
        return [_of_design(design, fit, each, None) for fit, each in zip(fits, found, strict=True)]
    return _observe_classes(design, design.loss, fits, options)


def _observe_classes(
    design: Design, loss: Multinomial, fits: list[LinearFit], options: tuple[Any, ...]
) -> list[Observables]:
    """As `angcal.observables.observe` does for one fit, all penalties at once."""
    strengths, method, *rest = options
    if method == "auto" and not plan.samples(*design.shape):
        # As for one fit: rows near the border of a class are not told by their sizes.
        options = (strengths, "single", *rest)
    separate = plan.separates_classes(*design.shape, loss.n_classes, len(fits))
    shared = _shared_steps(design, loss, fits, options, separate)
    found, steps = [each[0] for each in shared], [each[1] for each in shared]
    held = [each[2] for each in shared]
    curvatures = [curvature_of(E, step) for E, step in zip(held, steps, strict=True)]
    if separate:
        found = _leverages(design, curvatures, *options)
    else:
        some = [typical_classes(D) for D in curvatures]
        few = [D[:, chosen] for D, chosen in zip(curvatures, some, strict=True)]
        own = [
            left_out(g.values, D)
            for g, D in zip(_leverages(design, few, *options), few, strict=True)
        ]
        ratios = [
            step_ratio(mine, step, fit.residuals[:, chosen])
            for mine, step, fit, chosen in zip(own, steps, fits, some, strict=True)
        ]
        found = [
            replace(each, values=put_back(ratio * step, D))
            for each, ratio, step, D in zip(found, ratios, steps, curvatures, strict=True)
        ]
    parts = zip(fits, found, curvatures, strict=True)
    return [_of_design(design, *part) for part in parts]


def _shared_steps(
    design: Design,
    loss: Multinomial,
    fits: list[LinearFit],
    options: tuple[Any, ...],
    separate: bool,
) -> list[tuple[Leverages, Floats, Floats]]:
    """Leverages, steps and what rows hold back, in as many rounds as each penalty takes."""
    strengths, *others = options
    means = [mean_curvature(fit.curvatures) for fit in fits]
    shared: dict[int, tuple[Leverages, Floats, Floats]] = {}
    left = list(range(len(fits)))
    for done in range(1, plan.MOST_ROUNDS + 1):
        found = _leverages(design, [means[c] for c in left], strengths[left], *others)
        unsettled = []
        for c, each in zip(left, found, strict=True):
            fit, mean = fits[c], means[c]
            step = left_out(each.values, mean)
            held = loss.held_back(loss.probabilities(fit.scores), fit.weights, step)
            shared[c] = each, step, held
            means[c] = curvature_of(mean_curvature(held), step)
            if not is_settled(mean, means[c], done, separate):
                unsettled.append(c)
        left = unsettled
        if not left:
            break
    return [shared[c] for c in range(len(fits))]


def _leverages(
    design: Design,
    curvatures: list[Floats],
    strengths: Floats,
    method: str,
    order: np.ndarray | None,
    tolerance: float,
) -> list[Leverages]:
    """Leverages of every fit, of the shape of its curvatures."""
    shape, m = curvatures[0].shape, len(curvatures)
    per_fit = 1 if len(shape) == 1 else shape[1]
    found = many_leverages(
        design.rows,
        np.column_stack(curvatures),
        np.repeat(strengths, per_fit),
        method=method,
        order=order,
        tolerance=tolerance,
        with_coupling=len(shape) == 1,
    )
    errors = np.broadcast_to(found.step_error, m * per_fit)
    parts = [slice(c * per_fit, (c + 1) * per_fit) for c in range(m)]
    return [
        Leverages(
            np.ascontiguousarray(found.values[:, part]).reshape(shape),
            None
            if found.coupling is None
            else np.ascontiguousarray(found.coupling[:, part]).reshape(shape),
            found.side,
            float(errors[part].max()),
        )
        for part in parts
    ]


def moved_to(found: Observables, design: Design, solution: Solution) -> Observables:
    """The observables of a fit that was finished a little better, its leverages unchanged.

    The leverages follow the weights' own relative accuracy, which is that of the path: far more
    than is asked of them.
    """
    same = Leverages(found.leverages, found.coupling, found.side, found.step_error)
    fit = design.fit_at(solution, 0, 0.0)
    return _of_design(design, fit, same, found.curvatures if found.leverages.ndim > 1 else None)


def _of_design(
    design: Design, fit: LinearFit, found: Leverages, curvatures: Floats | None
) -> Observables:
    return replace(observables_from(fit, found, curvatures), n_features=design.n_features)


def _order(design: Design) -> np.ndarray | None:
    """Rows from the smallest to the largest, the same for every penalty."""
    if design.rows.far:
        return None  # a pass that only samples need, which find an order of their own
    typical = max(design.typical, 1e-30)
    weights = np.zeros(design.shape[0])
    return np.argsort(design.rows.row_sizes(design.moments + typical, design.moments, weights))
