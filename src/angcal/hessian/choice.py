"""Which way to Ĥ: factorise it, or sample what is needed of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.hessian.block_cg import NotConvergedError
from angcal.hessian.exact import PenalizedHessian, factorize_exactly
from angcal.hessian.iterative import IterativeHessian

# Where the smaller side of X is shorter, a factorisation costs no more than the passes it saves;
# a long other side makes it dearer.
SMALLEST_RANDOMISED_SIDE, SMALLEST_SIDE_OF_MANY, MANY_ENTRIES = 600, 300, 5_000_000
# Beyond this side (13 GB) a factorisation is not begun unasked, where sampling fails.
LARGEST_FACTORISED_SIDE = 40_000


class SampledHessian:
    """Ĥ by conjugate gradients and sampled rows, or exactly where these do not suffice."""

    def __init__(self, iterative: IterativeHessian, exact: Callable[[], PenalizedHessian]) -> None:
        self._iterative, self._make_exact = iterative, exact
        self._exact: PenalizedHessian | None = None
        self._why_exact = ""

    def _try(self, use: Callable[[IterativeHessian], Any]) -> Any:
        if self._exact is not None:
            return None
        try:
            return use(self._iterative)
        except NotConvergedError as error:
            self._require_affordable(error)
            self._why_exact = f"factorised, as {error}"
            self._exact = self._make_exact()
            return None

    def _require_affordable(self, error: NotConvergedError) -> None:
        side = min(self._iterative.shape)
        if side > LARGEST_FACTORISED_SIDE:
            raise ValueError(
                f"The leverages cannot be sampled: {error}; and a factorisation of side {side} "
                f"would take {8 * side**2 / 1e9:.0f} GB. Strengthen the penalty, scale the columns "
                "alike, or reduce X to fewer rows or columns."
            ) from error

    @property
    def remark(self) -> str:
        """What a reader should know of how the leverages were come by."""
        if self._exact is not None or not self._iterative.is_surveyed:
            return self._why_exact
        reached = self._iterative.survey.relative_error
        if reached <= self._iterative.tolerance:
            return ""
        return f"sampled rows leave the leverages a common error of {reached:.1%}"

    @property
    def side(self) -> str:
        """How Ĥ was come by."""
        return "randomised" if self._exact is None else self._exact.side

    @property
    def relative_error(self) -> float:
        """Standard error of the common γ as a share of it."""
        return 0.0 if self._exact is not None else self._iterative.survey.relative_error

    @property
    def passes(self) -> int:
        """Passes over X so far."""
        return self._iterative.passes

    def solve(self, coef_part: Floats, intercept_part: float = 0.0) -> tuple[Floats, float]:
        """As in `PenalizedHessian`; good to a few per cent."""
        found = self._try(lambda engine: engine.solve(coef_part, intercept_part))
        if found is None:
            assert self._exact is not None
            return self._exact.solve(coef_part, intercept_part)
        return found

    def leverages(self) -> Floats:
        """As in `PenalizedHessian`."""
        found = self._try(lambda engine: engine.leverages())
        if found is None:
            assert self._exact is not None
            return self._exact.leverages()
        return found

    def coupling(self, leverages: Floats, remaining: Floats) -> Floats:
        """As in `PenalizedHessian`."""
        if self._exact is not None:
            return self._exact.coupling(leverages, remaining)
        return self._iterative.coupling()


def factorize(
    X: Matrix,
    curvatures: Floats,
    penalty_curvature: Any,
    *,
    fit_intercept: bool,
    intercept_curvature: float = 0.0,
    active: np.ndarray | None = None,
    method: str = "exact",
) -> PenalizedHessian | SampledHessian:
    """Factorise X̃ᵀDX̃ + N∇²g on the smaller of its two sides, or avoid that.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    curvatures : (n,) array
        Diagonal of D.
    penalty_curvature : float, (d,) or (d, d) array
        N∇²g of the smooth part.
    fit_intercept : bool
    intercept_curvature : float, default=0.0
        N·q₀; zero for a free intercept.
    active : (d,) bool array, optional
        Coordinates that are not pinned at zero by an ℓ₁ penalty.
    method : {"exact", "randomised", "auto"}, default="exact"
        "randomised" needs products with X only (:mod:`angcal.hessian.iterative`) and a penalty on
        every column; "auto" takes it where it is possible and the smaller side of X is large, and
        factorises a small well-conditioned matrix in single precision.
    """
    n, d = X.shape
    columns = np.arange(d) if active is None else np.flatnonzero(active)
    Q = _restrict(penalty_curvature, columns)

    def exact() -> PenalizedHessian:
        X_active = X if active is None else X[:, columns]
        common = (X_active, curvatures, Q, fit_intercept, intercept_curvature, columns, d)
        return factorize_exactly(*common, single=method == "auto")

    if method == "exact":
        return exact()
    reason = _why_not_randomised(Q, curvatures, active)
    if method == "randomised" and reason is not None:
        raise ValueError(f"observables='randomised' is not possible: {reason}. Use 'auto'.")
    side = SMALLEST_SIDE_OF_MANY if n * d >= MANY_ENTRIES else SMALLEST_RANDOMISED_SIDE
    if reason is not None or (method == "auto" and min(n, d) < side):
        return exact()
    iterative = IterativeHessian(X, curvatures, Q, fit_intercept, intercept_curvature)
    return SampledHessian(iterative, exact)


def _why_not_randomised(Q: Floats, D: Floats, active: np.ndarray | None) -> str | None:
    if active is not None:
        return "an ℓ₁ penalty leaves an active set"
    if Q.ndim != 1 or not np.all(Q > 0):
        return "the penalty is not a positive diagonal"
    if not np.any(D > 0):
        return "no row has curvature"
    return None


def _restrict(curvature: Any, columns: np.ndarray) -> Floats:
    """Penalty curvature on the active columns, as a diagonal or a full matrix."""
    Q = np.asarray(curvature, dtype=np.float64)
    if Q.ndim == 0:
        return np.full(len(columns), float(Q))
    return Q[columns] if Q.ndim == 1 else Q[np.ix_(columns, columns)]
