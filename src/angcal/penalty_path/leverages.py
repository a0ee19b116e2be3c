r"""Observables of every fit of a path: all penalties, and all classes, share one design."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages import Leverages, SingularHessianError, many_leverages
from angcal.leverages.groups import Groups
from angcal.observables import Observables, observables_from, observe_all
from angcal.penalty_path.design import Design
from angcal.problem import LinearFit
from angcal.solvers.newton_cg import Solution


def observe_path(
    design: Design,
    strengths: Floats,
    solution: Solution,
    method: str,
    tolerance: float = plan.STEP_TOLERANCE,
    groups: Groups | None = None,
    of: int | None = None,
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
    groups : Groups, optional
        Rows that are left out together.
    of : int, optional
        Penalties of the whole path, where these are some of them.
    """
    fits = [design.fit_at(solution, c, float(q)) for c, q in enumerate(strengths)]
    fits = [replace(fit, hessian_method=method) for fit in fits]
    order = sampling_order(design, fits)

    def leverages(curvatures: list[Floats], places: list[int]) -> list[Leverages]:
        shape, per_fit = curvatures[0].shape, curvatures[0][0].size
        found = many_leverages(
            design.rows,
            np.column_stack(curvatures),
            np.repeat(design.scaled(strengths[places]), per_fit),
            method=method,
            order=order,
            tolerance=tolerance,
            of_classes=len(shape) > 1,
        )
        starts = per_fit * np.arange(len(curvatures))
        return [found.part(slice(start, start + per_fit), shape) for start in starts]

    K = design.loss.n_scores
    separate = plan.separates_classes(*design.shape, K, of or len(fits))
    with naming_cs(strengths):
        found = observe_all(fits, leverages, separate, groups)
    return [replace(each, n_features=design.n_features) for each in found]


@contextmanager
def naming_cs(strengths: Floats) -> Iterator[None]:
    """Let an error of the Hessian name the penalties."""
    try:
        yield
    except SingularHessianError as error:
        raise SingularHessianError(
            f"Cs up to {1.0 / strengths.min():.3g} are so weak for X that the fit is not unique; "
            "pass a list of Cs that ends below."
        ) from error


def moved_to(found: Observables, design: Design, solution: Solution) -> Observables:
    """The observables of a fit that was finished a little better, its leverages unchanged.

    The leverages follow the weights' own relative accuracy, which is that of the path: far more
    than is asked of them.
    """
    same = Leverages(found.leverages, found.coupling, found.side, found.step_error, found.remark)
    fit = design.fit_at(solution, 0, 0.0)
    D = found.curvatures if found.leverages.ndim > 1 else fit.curvatures
    moved = observables_from(fit, same, D)
    return replace(moved, n_features=design.n_features, group_moves=found.group_moves)


def sampling_order(design: Design, fits: list[LinearFit]) -> np.ndarray | None:
    """Rows whose leverages decide, from the smallest to the largest, the same for every penalty.

    Those of the largest residuals: what γ_i moves is γ_iψ_i. Rows in clusters have small residuals
    and, for their size, small leverages: samples of all rows put the leave-one-out loss of text
    up to 40 % too high or low.
    """
    if design.rows.far:
        return None  # a pass that only samples need, which find an order of their own
    typical = max(design.typical, 1e-30)
    n = design.shape[0]
    order = np.argsort(design.rows.row_sizes(design.moments + typical, design.moments, np.zeros(n)))
    pull = np.zeros(n)
    for fit in fits:
        own = np.abs(fit.residuals).reshape(n, -1).sum(axis=1)
        pull += own / max(float(own.sum()), np.finfo(float).tiny)
    return order[pull[order] >= np.quantile(pull, 1.0 - plan.DECISIVE_SHARE)]
