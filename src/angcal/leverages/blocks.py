r"""Numbers and blocks alike: what leaving out a row does to its own score, or to its q scores.

With one score, leverages and curvatures are numbers h_i and D_i in arrays of shape (n,); with q
scores they are blocks G_i and D_i in arrays of shape (n, q, q). These few functions are all that
differs between the two.

    Γ_i = G_i (I − D_i G_i)⁻¹        the leverage of row i in the fit without it
    G_i = Γ_i (I + D_i Γ_i)⁻¹        and back
"""

from __future__ import annotations

import numpy as np

from angcal._typing import Floats

SMALLEST_REST = 1e-10
"""A row that determines its own fit has no usable score."""


def remaining_curvature(leverages: Floats, curvatures: Floats) -> Floats:
    """I − D_i G_i, the share of row i's curvature that is not its own doing."""
    if leverages.ndim < 3:
        # Positive in exact arithmetic.
        return np.maximum(1.0 - leverages * curvatures, SMALLEST_REST)
    return np.eye(leverages.shape[-1]) - curvatures @ leverages


def right_divide(blocks: Floats, divisors: Floats) -> Floats:
    """B_i C_i⁻¹."""
    if divisors.ndim < 3:
        return blocks / divisors
    swapped = np.linalg.solve(np.swapaxes(divisors, -1, -2), np.swapaxes(blocks, -1, -2))
    return np.swapaxes(swapped, -1, -2)


def left_out(leverages: Floats, curvatures: Floats) -> Floats:
    """Γ_i = G_i(I − D_iG_i)⁻¹."""
    return right_divide(leverages, remaining_curvature(leverages, curvatures))


def put_back(steps: Floats, curvatures: Floats) -> Floats:
    """G_i = Γ_i(I + D_iΓ_i)⁻¹."""
    if steps.ndim < 3:
        return steps / (1.0 + steps * curvatures)
    return right_divide(steps, np.eye(steps.shape[-1]) + curvatures @ steps)


def apply(blocks: Floats, vectors: Floats) -> Floats:
    """B_i v_i."""
    return blocks * vectors if vectors.ndim < 2 else np.einsum("nab,nb->na", blocks, vectors)


def traces(blocks: Floats) -> Floats:
    """Tr B_i."""
    return blocks if blocks.ndim < 3 else np.trace(blocks, axis1=1, axis2=2)


def products(left: Floats, right: Floats) -> Floats:
    """A_i B_i."""
    return left * right if left.ndim < 3 else left @ right
