"""Conjugate gradients for many right-hand sides that share their products with one matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.arrays import namespace_of, on_host, placed_like

MOST_STEPS = 150


class NotConvergedError(RuntimeError):
    """Conjugate gradients did not converge, or row sizes do not explain the leverages."""


def block_conjugate_gradients(
    apply: Callable[[Any], Any], rhs: Any, inverse_diagonal: Any, tolerances: Floats
) -> tuple[Any, Floats]:
    """(W, bᵀM⁻¹b) with MW = B for every column b of B, preconditioned by the diagonal.

    Each column has its own step lengths; they only share products with M. The quadratic form grows
    by α_k·rᵀz in step k. The steps shrink geometrically in the end, which gives an estimate of
    what is missing. The iteration ends when that share is below the columns' tolerances: each
    column's for a tolerance of its own, on average for columns that have the same.
    """
    xp = namespace_of(rhs)
    W, r = xp.zeros_like(rhs), rhs
    z = inverse_diagonal * r
    p, slope = z, _columns_dot(r, z, xp)
    form, last, before = np.zeros(rhs.shape[1]), None, False
    groups = [(tolerance, tolerances == tolerance) for tolerance in np.unique(tolerances)]
    for _ in range(MOST_STEPS):
        Mp = apply(p)
        active = slope > 0
        curvature = _columns_dot(p, Mp, xp)
        alpha = np.divide(slope, curvature, out=np.zeros_like(slope), where=active)
        step = placed_like(alpha, rhs)
        W, r = W + step * p, r - step * Mp
        gain = alpha * slope
        form = form + gain
        if last is not None:
            shrink = np.clip(np.divide(gain, last, out=np.zeros_like(gain), where=last > 0), 0, 0.9)
            missing = gain * shrink / (1.0 - shrink)
            share = np.divide(missing, form, out=np.zeros_like(form), where=form > 0)
            # Twice in a row: where eigenvalues cluster, a single small step proves little.
            small = all(share[same].mean() < tolerance for tolerance, same in groups)
            if small and before:
                return W, form + missing
            before = small
        z = inverse_diagonal * r
        following = _columns_dot(r, z, xp)
        beta = np.divide(following, slope, out=np.zeros_like(slope), where=active)
        p = z + placed_like(beta, rhs) * p
        slope, last = following, gain
    raise NotConvergedError(
        f"conjugate gradients are not done after {MOST_STEPS} steps: the penalty is too weak for "
        "products in single precision"
    )


def _columns_dot(a: Any, b: Any, xp: Any) -> Floats:
    if xp is np:
        return np.einsum("ij,ij->j", a, b, dtype=np.float64)
    return on_host(xp.sum(a * b, axis=0))
