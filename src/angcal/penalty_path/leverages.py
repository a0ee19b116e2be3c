r"""Leverages h_ic = z̃_iᵀĤ_c z̃_i of every row under every penalty, Ĥ_c = (Z̃ᵀD_cZ̃ + q_c·I)⁻¹.

*Exact*: one factorization for each penalty, all of them in one batch where they are small.
*Sampled*: :class:`angcal.leverages.SampledHessian` for a few penalties at a time, with the same
rows for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.leverages import NotConvergedError, SampledHessian
from angcal.leverages.blocks import remaining_curvature
from angcal.losses import Logistic
from angcal.observables import Observables, observables_from, observe
from angcal.penalty_path.design import Design
from angcal.rows import DenseRows, SparseRows
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
    (n, k), m = design.shape, len(strengths)
    quick = n * k * k <= plan.BATCH_PRODUCTS and m * n * (k + 1) <= plan.BATCH_ENTRIES
    if method != "randomised" and quick and isinstance(design.rows, DenseRows):
        return _observe_batch(design, strengths, solution)
    # Rows of rare columns differ more than a few of them can tell: sampled only where they have to.
    rare = isinstance(design.rows, SparseRows) and not plan.samples(n, k, 1)
    if method == "exact" or (method == "auto" and rare):
        return [_observe_exactly(design, strengths, solution, c) for c in range(m)]
    found: list[Observables] = []
    order = _order(design)
    for start in range(0, m, plan.PENALTIES_AT_ONCE):
        part = slice(start, min(start + plan.PENALTIES_AT_ONCE, m))
        found += _observe_some(design, strengths, solution, part, order, tolerance)
    return found


def _observe_some(
    design: Design,
    strengths: Floats,
    solution: Solution,
    part: slice,
    order: np.ndarray,
    tolerance: float,
) -> list[Observables]:
    """Sampled leverages of a few penalties, or exact ones where sampling fails."""
    scores = solution.scores[:, part]
    D = design.weights[:, None] * Logistic().hessian(scores, design.labels[:, None])
    Q = np.tile(strengths[part], (design.shape[1], 1))
    sampled = SampledHessian(design.rows, D, Q, order=order, tolerance=tolerance)
    columns = range(part.start, part.stop)
    try:
        leverages = sampled.leverages().reshape(D.shape)
        coupling = np.reshape(sampled.coupling(), D.shape)
    except NotConvergedError:
        return [_observe_exactly(design, strengths, solution, c) for c in columns]
    errors = sampled.survey.relative_error
    return [
        _assemble(
            design,
            solution,
            c,
            np.ascontiguousarray(leverages[:, j]),
            np.ascontiguousarray(coupling[:, j]),
            side="randomised",
            step_error=float(errors[j]),
        )
        for j, c in enumerate(columns)
    ]


def moved_to(found: Observables, design: Design, solution: Solution) -> Observables:
    """The observables of a fit that was finished a little better, its leverages unchanged.

    The leverages follow the weights' own relative accuracy, which is that of the path: far more
    than is asked of them.
    """
    return _assemble(
        design,
        solution,
        0,
        found.leverages,
        found.coupling,
        side=found.side,
        step_error=found.step_error,
    )


def _assemble(
    design: Design,
    solution: Solution,
    column: int,
    leverages: Floats,
    coupling: Floats | None,
    *,
    side: str,
    step_error: float = 0.0,
) -> Observables:
    fit = design.fit_at(solution, column, 0.0)
    found = observables_from(fit, leverages, coupling, side=side, step_error=step_error)
    return replace(found, n_features=design.n_features)


def _observe_exactly(
    design: Design, strengths: Floats, solution: Solution, column: int
) -> Observables:
    fit = design.fit_at(solution, column, float(strengths[column]))
    return replace(observe(fit), n_features=design.n_features)


def _observe_batch(design: Design, strengths: Floats, solution: Solution) -> list[Observables]:
    """Small inverses, all at once: what twenty calls would spend on being called is saved."""
    (n, k), m = design.shape, len(strengths)
    Z = design.rows.lines(np.arange(n))
    D = design.weights[:, None] * Logistic().hessian(solution.scores, design.labels[:, None])
    half = np.sqrt(D.T)[:, :, None] * Z
    H = half.transpose(0, 2, 1) @ half
    H[:, np.arange(k), np.arange(k)] += strengths[:, None]
    # Unit diagonal before inverting: badly scaled columns are not a singularity.
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("cjj->cj", H), np.finfo(float).tiny))
    inverse = np.linalg.inv(H * scale[:, :, None] * scale[:, None, :])
    inverse *= scale[:, :, None] * scale[:, None, :]
    images = Z @ inverse
    h = np.maximum(np.einsum("cij,ij->ic", images, Z), 0.0)
    # Σ_{j≠i} A_ij²/(r_i r_j)² with A = Z̃ĤZ̃ᵀ, hence Σ_j A_ij²/r_j² = z̃_iᵀĤ(Z̃ᵀr⁻²Z̃)Ĥz̃_i.
    r = remaining_curvature(h, D)
    half = Z / r.T[:, :, None]
    rows = np.einsum("cij,cij->ic", images @ (half.transpose(0, 2, 1) @ half), images)
    rows -= (h / r) ** 2
    coupling = np.maximum(rows, 0.0) / r**2
    return [
        _assemble(design, solution, c, h[:, c], coupling[:, c], side="primal") for c in range(m)
    ]


def _order(design: Design) -> np.ndarray:
    """Rows from the smallest to the largest, the same for every penalty."""
    typical = max(design.typical, 1e-30)
    weights = np.zeros(design.shape[0])
    return np.argsort(design.rows.row_sizes(design.moments + typical, design.moments, weights))
