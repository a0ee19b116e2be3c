r"""Observables of every fit of a path: all penalties, and all classes, share one design."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages import Leverages, many_leverages
from angcal.losses import Multinomial
from angcal.observables import (
    Observables,
    effective_curvatures,
    mean_curvature,
    observables_from,
    shared_by_classes,
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
    curvatures = [fit.curvatures for fit in fits]
    options = (strengths, method, _order(design), tolerance)
    if not isinstance(design.loss, Multinomial):
        found = _leverages(design, curvatures, *options)
    else:
        # As `angcal.observables.observe` does for one fit.
        rough = _leverages(design, [mean_curvature(D) for D in curvatures], *options)
        curvatures = [effective_curvatures(*pair) for pair in zip(fits, rough, strict=True)]
        if plan.separates_classes(*design.shape, len(fits) * design.loss.n_classes):
            found = _leverages(design, curvatures, *options)
        else:
            means = _leverages(design, [mean_curvature(D) for D in curvatures], *options)
            found = [shared_by_classes(*pair) for pair in zip(means, curvatures, strict=True)]
    return [
        _of_design(design, fit, each, D)
        for fit, each, D in zip(fits, found, curvatures, strict=True)
    ]


def _leverages(
    design: Design,
    curvatures: list[Floats],
    strengths: Floats,
    method: str,
    order: np.ndarray,
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


def _order(design: Design) -> np.ndarray:
    """Rows from the smallest to the largest, the same for every penalty."""
    typical = max(design.typical, 1e-30)
    weights = np.zeros(design.shape[0])
    return np.argsort(design.rows.row_sizes(design.moments + typical, design.moments, weights))
