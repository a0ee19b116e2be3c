r"""Leverages of many problems on one design, with groups of rows that are left out together.

As :mod:`angcal.leverages.many`, for the penalties of a path, the classes of a fit, or both: in a
batch where rows are few, in common passes where they are read anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import slices
from angcal.leverages.far import FarHessian
from angcal.leverages.groups import Blocks, GroupMoves, Groups, leave_groups_out, stacked_moves
from angcal.leverages.many import Leverages, batch_coupling, inverses
from angcal.rows import DenseRows, FarRows, Rows


class _Images(Blocks):
    """X̃_SĤ_cX̃_Sᵀ of m problems; row i of problem c has the number i + n·c."""

    def __init__(self, Z: Floats, images: Floats) -> None:
        self._Z, self._images = Z, images

    @property
    def columns(self) -> int:
        return len(self._Z)  # no group has more rows

    def lines(self, rows: np.ndarray) -> Any:
        raise NotImplementedError("a batch is small enough to have all groups as blocks")

    def blocks(self, rows: np.ndarray) -> Floats:
        problem, own = np.divmod(rows, len(self._Z))
        return self._images[problem, own] @ self._Z[own].transpose(0, 2, 1)


def batch_takes_groups(rows: Rows, groups: Groups) -> bool:
    """Whether groups of these rows are small enough to be left out in a batch."""
    (n, k), largest = rows.shape, int(groups.sizes.max())
    quick = n * k * k <= plan.BATCH_PRODUCTS
    return isinstance(rows, DenseRows) and quick and n * largest <= plan.BLOCK_ENTRIES


def batch_of_groups(
    rows: DenseRows,
    D: Floats,
    strengths: Floats,
    groups: Groups,
    residuals: Floats,
    intercept_leverages: Floats,
    with_coupling: bool,
) -> Leverages:
    """As `many_leverages` where rows are few, with the moves of rows whose groups are left out.

    Parameters
    ----------
    rows, D, strengths
        As there.
    groups : Groups
    residuals : (n, m) array
        ψ of every problem.
    intercept_leverages : (m,) array
    with_coupling : bool
    """
    n, m = D.shape
    size = max(1, 4_000_000 // (n * (rows.shape[1] + 1)))
    values, moves, couplings = np.empty((n, m)), [], []
    for part in slices(m, size):
        count = part.stop - part.start
        Z, inverse = inverses(rows, D[:, part], strengths[part], single=False)
        images = Z @ inverse
        codes = groups.codes + groups.count * np.arange(count)[:, None]
        given = (Groups(codes.ravel()), D[:, part].T.ravel(), residuals[:, part].T.ravel())
        levels = np.repeat(intercept_leverages[part], n)[:, None]
        found, h = leave_groups_out(_Images(Z, images), *given, levels)
        values[:, part] = h.reshape(count, n).T
        of_rows = (found.all, found.slopes, found.within, found.remaining)
        *both, within, r = (np.asarray(v).reshape(count, n).T for v in of_rows)
        moves.append(GroupMoves(groups, *both))
        if with_coupling:
            couplings.append(batch_coupling(Z, images, within, r))
    coupling = np.hstack(couplings) if with_coupling else None
    return Leverages(values, coupling, "primal", np.zeros(m), group_moves=stacked_moves(moves))


def far_groups(
    rows: FarRows,
    D: Floats,
    strengths: Floats,
    groups: Groups,
    residuals: Floats,
    intercept_leverages: Floats,
    with_coupling: bool,
) -> Leverages:
    """The same where rows are read anew: as many problems share passes as matrices fit."""
    found = []
    for part in slices(len(strengths), plan.PRODUCT_ENTRIES, rows.width**2):
        own = np.ascontiguousarray(D[:, part])
        hessian = FarHessian(rows, own, list(strengths[part]))
        given = (groups, residuals[:, part], intercept_leverages[part])
        found.append(leverages_of_far(hessian, *given, with_coupling))
    couplings = [each.coupling for each in found if each.coupling is not None]
    moves = [each.group_moves for each in found if each.group_moves is not None]
    return Leverages(
        np.hstack([each.values for each in found]),
        np.hstack(couplings) if with_coupling else None,
        "primal",
        np.zeros(len(strengths)),
        group_moves=stacked_moves(moves),
    )


def leverages_of_far(
    hessian: FarHessian,
    groups: Groups,
    residuals: Floats,
    intercept_leverages: Any,
    with_coupling: bool,
) -> Leverages:
    """Leverages, couplings and moves in a pass each."""
    moves, h = hessian.leave_groups_out(groups, residuals, intercept_leverages)
    given = (moves.within, moves.remaining)
    coupling = hessian.group_coupling(*given) if with_coupling else None
    return Leverages(h, coupling, hessian.side, group_moves=moves)
