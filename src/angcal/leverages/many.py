r"""Leverages h_ic = x̃_iᵀĤ_c x̃_i of many problems on one design, Ĥ_c = (X̃ᵀD_cX̃ + λ_cI)⁻¹.

The problems are the penalties of a path, the classes of a fit, or both.

*Batch*: small inverses, all at once.
*Exact*: one factorization for each problem.
*Sampled*: :class:`SampledHessian` for a few problems at a time, with the same rows for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import CubicSpline

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import on_host, slices
from angcal.leverages.choice import factorize
from angcal.leverages.cholesky import TOO_LARGE, SingularHessianError
from angcal.leverages.far import FarHessian
from angcal.leverages.groups import GroupMoves
from angcal.leverages.sampled import SampledHessian
from angcal.leverages.steps import remaining_curvature
from angcal.rows import DenseRows, FarRows, RotatedRows, Rows, SparseRows, TensorRows
from angcal.solvers.conjugate_gradients import NotConvergedError


@dataclass(frozen=True, eq=False)
class Leverages:
    """Leverages of one problem, (n,) arrays, or of m, (n, m) arrays.

    Attributes
    ----------
    values : array
        h.
    coupling : array or None
        Σ_{j≠i} (x_iᵀĤ₍₋ᵢⱼ₎x_j)²; None where it was not asked for.
    side : {"primal", "dual", "randomised"}
        How they were computed.
    step_error : float or (m,) array
        Standard error of the common γ as a share of it; 0 where the leverages are exact.
    remark : str
        What a reader should know of how they were computed; of m problems the worst one's.
    group_moves : GroupMoves or None
        What leaving out a row's group does to its score, where there are groups.
    """

    values: Floats
    coupling: Floats | None
    side: str
    step_error: float | Floats = 0.0
    remark: str = ""
    group_moves: GroupMoves | None = None

    def part(self, columns: slice, shape: tuple[int, ...]) -> Leverages:
        """Those of some problems, as arrays of a shape."""

        def own(values: Floats) -> Floats:
            return np.ascontiguousarray(values[:, columns]).reshape(shape)

        coupling = None if self.coupling is None else own(self.coupling)
        moves = self.group_moves
        if moves is not None:
            moves = GroupMoves(moves.groups, own(moves.all), own(moves.slopes))
        errors = np.broadcast_to(self.step_error, self.values.shape[1])
        worst = float(errors[columns].max())
        return Leverages(own(self.values), coupling, self.side, worst, self.remark, moves)


def many_leverages(
    rows: Rows,
    D: Floats,
    strengths: Floats,
    *,
    method: str = "auto",
    order: np.ndarray | None = None,
    tolerance: float = plan.STEP_TOLERANCE,
    of_classes: bool = False,
) -> Leverages:
    """Leverages of m problems.

    Parameters
    ----------
    rows : Rows
    D : (n, m) array
        Curvatures.
    strengths : (m,) array
        λ.
    method : {"auto", "exact", "single", "randomised"}
        "auto" is exact where that takes no longer, "single" exact in single precision where that
        will do.
    order : (n,) array of int, optional
        Rows by size, for sampling.
    tolerance : float
        Sampled leverages are good to this share over √n.
    of_classes : bool, default=False
        Whether the problems are classes of a softmax, which have no coupling.
    """
    (n, k), m, with_coupling = rows.shape, len(strengths), not of_classes
    if isinstance(rows, FarRows) and (
        method in ("exact", "single")
        or (method == "auto" and plan.takes_matrices(k, rows.streamed))
    ):
        return _far_in_parts(rows, D, strengths, with_coupling)
    if of_classes and method == "auto" and not plan.samples(n, k):
        # Rows near the border of a class reach farther than others of their size, so that sampling
        # takes more of them than a factorization of moderate side is worth.
        method = "single"
    quick = n * k * k <= plan.BATCH_PRODUCTS and method != "randomised"
    if quick and isinstance(rows, TensorRows):
        rows = DenseRows(on_host(rows.whole), rows.intercept)
    if isinstance(rows, DenseRows) and (quick or method == "single"):
        size = max(1, 2 * plan.BLOCK_ENTRIES // (n * (k + 1)))
        single = method == "single" and m * k >= plan.SMALLEST_SINGLE_SIDE
        parts = [(D[:, part], strengths[part]) for part in slices(m, size)]
        return _joined([_batch(rows, *part, with_coupling, single) for part in parts])
    if method in ("exact", "single"):
        return _exact(rows, D, strengths, with_coupling)
    given = (rows, D, strengths, order, tolerance)
    if method == "randomised" or of_classes:
        return _sampled_or_exact(*given, with_coupling, "exact", 4)
    return _at_knots(*given, with_coupling)


def _sampled_or_exact(
    rows: Rows,
    D: Floats,
    strengths: Floats,
    order: np.ndarray | None,
    tolerance: float,
    with_coupling: bool,
    exactly: str,
    at_once: int,
    most: int | None = None,
) -> Leverages:
    """Sampled rows from the strongest penalty on, and factorizations from where these will not do.

    Few problems at a time: strong penalties should not wait for weak ones. At most the first ones
    are sampled, all by default.
    """
    m, remark = len(strengths), ""
    found: list[Leverages] = []
    done, most = 0, m if most is None else most
    for part in slices(most, at_once):
        try:
            found.append(_sampled(rows, D[:, part], strengths[part], order, tolerance))
        except NotConvergedError as error:
            # Weaker penalties, which follow, would only need more steps.
            remark = f"factorized, as {error}"
            break
        done = part.stop
    if done < m:
        exact = _exact(rows, D[:, done:], strengths[done:], with_coupling, exactly)
        found.append(replace(exact, remark=remark))
    return _joined(found)


def _joined(parts: list[Leverages]) -> Leverages:
    if len(parts) == 1:
        return parts[0]
    couplings = [part.coupling for part in parts if part.coupling is not None]
    sides = {part.side for part in parts}
    worst_first = sorted(parts, key=lambda part: -float(np.max(part.step_error)))
    return Leverages(
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate(couplings, axis=1) if len(couplings) == len(parts) else None,
        "randomised" if "randomised" in sides else parts[0].side,
        np.concatenate([np.atleast_1d(part.step_error) for part in parts]),
        next((part.remark for part in worst_first if part.remark), ""),
    )


def _exact(
    rows: Rows, D: Floats, strengths: Floats, with_coupling: bool, method: str = "exact"
) -> Leverages:
    """One factorization after the other."""
    found = []
    for c, strength in enumerate(strengths):
        curvatures = np.ascontiguousarray(D[:, c])
        hessian = factorize(
            rows, curvatures, float(strength), fit_intercept=rows.intercept, method=method
        )
        h = hessian.leverages()[:, None]
        coupling = None
        if with_coupling:
            remaining = remaining_curvature(h[:, 0], curvatures)
            coupling = hessian.coupling(h[:, 0], remaining)[:, None]
        found.append(Leverages(h, coupling, hessian.side, np.zeros(1)))
    return _joined(found)


def _at_knots(
    rows: Rows,
    D: Floats,
    strengths: Floats,
    order: np.ndarray | None,
    tolerance: float,
    with_coupling: bool,
) -> Leverages:
    """Some of the penalties, the others by cubic splines of log t/s in log λ.

    Steps t = (h − h₀)/(1 − hD), h₀ = 1/ΣD the intercept's part, are smooth in the penalty, and
    smoother still in units of the sizes s that rows have by the Hessian's diagonal
    (:meth:`angcal.rows.Rows.row_sizes`).
    """
    places = knots(strengths)
    few, D_few = strengths[places], D[:, places]
    # Rows of rare columns differ more than a few of them can tell: sampled only where they have to.
    rare = isinstance(rows, SparseRows) and not plan.samples(*rows.shape)
    turned = isinstance(rows, RotatedRows) and rows.correlated
    exactly = "exact" if rare else "single"
    given = (rows, D_few, few, order, tolerance, with_coupling, exactly, 3)
    if rare or turned:
        found = _exact(rows, D_few, few, with_coupling, exactly)
    elif not _is_correlated(rows, D, strengths, len(strengths) // 2):
        found = _sampled_or_exact(*given)
    else:
        # Under strong penalties columns hardly matter to each other.
        strong = min(3, len(few))
        found = _sampled_or_exact(
            *given, 0 if _is_correlated(rows, D_few, few, strong - 1) else strong
        )
    if len(places) == len(strengths):
        return found
    levels = np.where(rows.intercept, 1.0 / D.sum(axis=0), 0.0)
    sizes = SampledHessian(rows, D, np.tile(strengths, (rows.shape[1], 1))).sizes - levels
    sizes = np.maximum(sizes, np.finfo(float).tiny)
    x = -np.log(strengths)

    def between(values: Floats, axis: int) -> Floats:
        return np.exp(CubicSpline(x[places], np.log(values), axis=axis)(x))

    # Of sampled rows rounding may have left less than nothing: a hundredth of its size is least.
    own = (found.values - levels[places]) / remaining_curvature(found.values, D_few)
    own = np.maximum(own, 1e-2 * sizes[:, places])
    steps = sizes * between(own / sizes[:, places], 1)
    h = (steps + levels) / (1.0 + steps * D)
    h[:, places] = found.values
    coupling = None
    if found.coupling is not None:
        # Those of single rows are noisy, and only their mean is asked for.
        strength = np.maximum(found.coupling.sum(axis=0), np.finfo(float).tiny) / own.sum(axis=0)
        coupling = between(strength, 0) * steps
        coupling[:, places] = found.coupling
    errors = np.interp(x, x[places], np.broadcast_to(found.step_error, len(places)))
    return Leverages(h, coupling, found.side, errors, found.remark)


def knots(strengths: Floats) -> np.ndarray:
    """Numbers of some of the penalties, the last among them; all where they are few or uneven."""
    m, gaps = len(strengths), -np.diff(np.log(strengths))
    if m < 8 or np.any(gaps <= 0) or np.ptp(gaps) > 0.1:
        return np.arange(m)
    count = int(np.rint(gaps.sum() / plan.KNOT_GAP)) + 1
    # A spline through every other one would save little.
    if 2 * count > m:
        return np.arange(m)
    return np.rint(np.linspace(0, m - 1, max(count, 4))).astype(np.intp)


def _is_correlated(rows: Rows, D: Floats, strengths: Floats, place: int) -> bool:
    """Whether sampled rows would not do under one of the penalties."""
    Q = np.full(rows.shape[1], strengths[place])
    return SampledHessian(rows, np.ascontiguousarray(D[:, place]), Q).is_correlated


def _far_in_parts(rows: FarRows, D: Floats, strengths: Floats, with_coupling: bool) -> Leverages:
    """As many problems at once as their matrices have room for."""
    size = max(1, plan.PRODUCT_ENTRIES // rows.width**2)
    parts = [(D[:, part], strengths[part]) for part in slices(len(strengths), size)]
    return _joined([_far(rows, *part, with_coupling) for part in parts])


def _far(rows: FarRows, D: Floats, strengths: Floats, with_coupling: bool) -> Leverages:
    """Matrices, leverages and couplings of all problems in a pass each."""
    hessian = FarHessian(rows, D, list(strengths), with_coupling=with_coupling)
    h = hessian.leverages()
    coupling = hessian.coupling(h, remaining_curvature(h, D)) if with_coupling else None
    return Leverages(h, coupling, hessian.side, np.zeros(len(strengths)))


def _sampled(
    rows: Rows, D: Floats, strengths: Floats, order: np.ndarray | None, tolerance: float
) -> Leverages:
    """Leverages from sampled rows."""
    Q = np.tile(strengths, (rows.shape[1], 1))
    sampled = SampledHessian(rows, D, Q, order=order, tolerance=tolerance)
    h, coupling = sampled.leverages(), np.reshape(sampled.coupling(), D.shape)
    return Leverages(h, coupling, "randomised", sampled.survey.relative_error, sampled.remark)


def _batch(
    rows: DenseRows, D: Floats, strengths: Floats, with_coupling: bool, single: bool
) -> Leverages:
    """Inverses all at once: what twenty calls would spend on being called is saved."""
    Z, inverse = inverses(rows, D, strengths, single)
    images = Z @ inverse
    h = np.maximum(np.einsum("cij,ij->ic", images, Z), 0.0).astype(np.float64)
    r = remaining_curvature(h, D)
    coupling = batch_coupling(Z, images, h, r) if with_coupling else None
    return Leverages(h, coupling, "primal", np.zeros(len(strengths)))


def inverses(rows: DenseRows, D: Floats, strengths: Floats, single: bool) -> tuple[Floats, Floats]:
    """Z̃ and Ĥ of every problem."""
    Z = (rows.single() if single else rows).lines(np.arange(rows.shape[0]))
    half = np.sqrt(D.T).astype(Z.dtype)[:, :, None] * Z
    with np.errstate(over="ignore", invalid="ignore"):
        H = half.transpose(0, 2, 1) @ half
    if not np.all(np.isfinite(np.einsum("cjj->cj", H))):
        if single:
            return inverses(rows, D, strengths, single=False)
        raise SingularHessianError(TOO_LARGE)
    slopes = np.arange(rows.shape[1])
    H[:, slopes, slopes] += strengths.astype(Z.dtype)[:, None]
    # Unit diagonal before inverting: badly scaled columns are not a singularity.
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("cjj->cj", H), np.finfo(Z.dtype).tiny))
    H *= scale[:, :, None]
    H *= scale[:, None, :]
    try:
        inverse = np.linalg.inv(H)
    except np.linalg.LinAlgError as error:
        raise SingularHessianError(
            "The Hessian of the penalized loss is singular, so the fit is not unique. Add or "
            "strengthen a penalty, or scale the columns of X to be about 1."
        ) from error
    # Up to this diagonal of an inverse, single precision is good to a thousandth.
    if single and not np.einsum("cjj->cj", inverse).max() <= 3e3:
        return inverses(rows, D, strengths, single=False)
    inverse *= scale[:, :, None]
    inverse *= scale[:, None, :]
    return Z, inverse


def batch_coupling(Z: Floats, images: Floats, h: Floats, r: Floats) -> Floats:
    """Σ_{j≠i} A_ij²/(r_i r_j)², A = Z̃ĤZ̃ᵀ, as Σ_j A_ij²/r_j² = z̃_iᵀĤ(Z̃ᵀr⁻²Z̃)Ĥz̃_i."""
    half = Z / r.T[:, :, None]
    sums = np.einsum("cij,cij->ic", images @ (half.transpose(0, 2, 1) @ half), images)
    sums -= (h / r) ** 2
    return np.maximum(sums, 0.0) / r**2
