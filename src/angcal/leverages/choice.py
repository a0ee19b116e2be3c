"""Which way to Ĥ: factorize it, or sample what is needed of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.leverages.factorized import PenalizedHessian, factorize_exactly
from angcal.leverages.far import FarHessian
from angcal.leverages.sampled import SampledHessian
from angcal.rows import DenseRows, FarRows, Rows, SparseRows, as_rows
from angcal.solvers.conjugate_gradients import NotConvergedError


class HessianOrFallback:
    """Ĥ by sampled rows, or exactly where these do not suffice."""

    def __init__(self, sampled: SampledHessian, exact: Callable[[], Any]) -> None:
        self._sampled, self._make_exact = sampled, exact
        self._exact: PenalizedHessian | FarHessian | None = None
        self._why_exact = ""

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        """The answer of the sampled Hessian, or of the exact one from its first failure on."""
        if self._exact is None:
            try:
                return question(self._sampled)
            except NotConvergedError as error:
                self._require_affordable(error)
                self._why_exact = f"factorized, as {error}"
                self._exact = self._make_exact()
        return question(self._exact)

    def _require_affordable(self, error: NotConvergedError) -> None:
        side = min(self._sampled.shape)
        if side > plan.LARGEST_FACTORIZED_SIDE:
            raise ValueError(
                f"The leverages cannot be sampled: {error}; and a factorization of side {side} "
                f"would take {8 * side**2 / 1e9:.0f} GB. Strengthen the penalty, scale the columns "
                "alike, or reduce X to fewer rows or columns."
            ) from error

    @property
    def remark(self) -> str:
        """What a reader should know of how the leverages were computed."""
        return self._sampled.remark if self._exact is None else self._why_exact

    @property
    def side(self) -> str:
        """How Ĥ was computed."""
        return "randomised" if self._exact is None else self._exact.side

    @property
    def relative_error(self) -> float:
        """Standard error of the common γ as a share of it."""
        return (self._sampled if self._exact is None else self._exact).relative_error

    @property
    def passes(self) -> int:
        """Passes over X so far."""
        return self._sampled.passes

    def solve(self, coef_part: Floats, intercept_part: Any = 0.0) -> tuple[Floats, Any]:
        """As in `PenalizedHessian`; good to a few per cent."""
        return self._ask(lambda hessian: hessian.solve(coef_part, intercept_part))

    def leverages(self, pulls: Floats | None = None) -> Floats:
        """As in `PenalizedHessian`."""
        return self._ask(lambda hessian: hessian.leverages(pulls))

    def coupling(self, leverages: Floats, remaining: Floats) -> Floats:
        """As in `PenalizedHessian`."""
        if self._exact is not None:
            return self._exact.coupling(leverages, remaining)
        return self._sampled.coupling()


def factorize(
    X: Matrix,
    curvatures: Floats,
    penalty_curvature: Any,
    *,
    fit_intercept: bool,
    intercept_curvature: float = 0.0,
    active: np.ndarray | None = None,
    method: str = "exact",
) -> PenalizedHessian | FarHessian | HessianOrFallback:
    """Factorize X̃ᵀDX̃ + N∇²g on the smaller of its two sides, or avoid that.

    Parameters
    ----------
    X : (n, d) array, sparse matrix, tensor or Rows
    curvatures : (n,) array
        D.
    penalty_curvature : float, (d,) or (d, d) array
        N∇²g of the smooth part.
    fit_intercept, intercept_curvature : bool, float
        The latter is N·q₀, zero for a free intercept.
    active : (d,) bool array, optional
        Coordinates that are not pinned at zero by an ℓ₁ penalty.
    method : {"exact", "single", "randomised", "auto"}, default="exact"
        "single" is exact in single precision where that will do. "randomised" needs products with
        X only (:mod:`angcal.leverages.sampled`) and a penalty on every column; "auto" takes it
        where that can be and the smaller side is large, and is "single" otherwise.
    """
    d = X.shape[1]
    columns = np.arange(d) if active is None else np.flatnonzero(active)
    Q = _restrict(penalty_curvature, columns)
    rows = as_rows(X, fit_intercept)

    def exact() -> PenalizedHessian | FarHessian:
        whole = _in_memory(X)
        if isinstance(whole, FarRows):
            if active is not None:
                raise ValueError("an ℓ₁ penalty needs rows in memory; use a ridge penalty.")
            return FarHessian(whole, curvatures, [Q], intercept_curvature)
        X_active = whole if active is None else whole[:, columns]
        common = (X_active, curvatures, Q, fit_intercept, intercept_curvature, columns, d)
        outer = _shared_outer(rows) if X is rows and active is None else None
        if method not in ("auto", "single"):
            return factorize_exactly(*common, outer=outer)
        # Many penalties, and the look at sampled rows before, share one copy.
        shares = active is None and isinstance(rows, DenseRows)
        source = rows if shares else as_rows(X_active, fit_intercept)
        return factorize_exactly(*common, single=source.single, outer=outer)

    if method in ("exact", "single"):
        return exact()
    reason = _why_not_sampled(Q, curvatures, active)
    if method == "randomised" and reason is not None:
        raise ValueError(f"observables='randomised' is not possible: {reason}. Use 'auto'.")
    if reason is not None or (method == "auto" and not _samples(X)):
        return exact()
    sampled = SampledHessian(rows, curvatures, Q, intercept_curvature)
    if method == "auto" and sampled.is_correlated:
        return exact()
    return HessianOrFallback(sampled, exact)


def _in_memory(X: Any) -> Any:
    """X, or the matrix of rows that have one; those in blocks stay where they are."""
    kept = X.in_memory if isinstance(X, Rows) else X
    return X if kept is None else kept


def _shared_outer(rows: Rows) -> Any:
    """XXᵀ for all penalties under which a path factorizes its rows, where these are few."""
    if isinstance(rows, SparseRows) and rows.shape[0] <= plan.MOST_PAIRED_ROWS:
        return rows.outer
    return None


def _samples(X: Any) -> bool:
    """Whether sampled rows are the cheaper way to leverages."""
    if isinstance(X, FarRows):
        return not plan.takes_matrices(X.shape[1], X.streamed)
    return plan.samples(*X.shape)


def _why_not_sampled(Q: Floats, D: Floats, active: np.ndarray | None) -> str | None:
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
