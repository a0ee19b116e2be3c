r"""One design for all penalties: rows in few columns, and the penalties that are worth trying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import is_tensor, largest_entry
from angcal.losses import BlockLoss, Logistic, Multinomial
from angcal.penalties import Ridge
from angcal.penalty_path.rarity import scaled_columns
from angcal.penalty_path.spectrum import PenaltyShape
from angcal.problem import LinearFit
from angcal.rows import FarRows, RotatedRows, Rows, ScaledTensorRows, rotate
from angcal.solvers.far_newton import FarNewton, Scatter, Watch, scatter_of, solver_for
from angcal.solvers.newton_cg import NewtonCG, Solution


@dataclass(frozen=True, eq=False)
class Design:
    """Rows that all penalties share, what it takes to come back to X, and moments.

    Attributes
    ----------
    rows : Rows
        Z with ZZᵀ = XXᵀ/unit²; see :func:`angcal.rows.rotate`.
    labels, weights : (n,) arrays
        Labels are 0.0 and 1.0, or the codes of K > 2 classes.
    loss : BlockLoss
    moments : (k,) array
        Σ_i ω_i z_ij².
    spread : float
        Σ_i ω_i ‖x_i − x̄‖², or about 0 without an intercept.
    typical : float
        Median of the moments about that center, of the columns that have any.
    n_features : int
        d.
    unit : float
        What X was divided by, a power of two: 1 unless its entries are very large or very small.
        Strengths and weights that go in and out are those of X.
    scatter : Scatter or None
        Coordinates of steps, for rows that are read anew on every pass.
    factors : (d,) array or None
        By which columns of X were multiplied; see :mod:`angcal.penalty_path.rarity`.
    """

    rows: Rows
    labels: Floats
    weights: Floats
    loss: BlockLoss
    moments: Floats
    spread: float
    typical: float
    n_features: int
    unit: float = 1.0
    scatter: Scatter | None = None
    factors: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, k)."""
        return self.rows.shape

    @property
    def fit_intercept(self) -> bool:
        """Whether there is an intercept."""
        return self.rows.intercept

    @property
    def deviation(self) -> float:
        """About that of a column of X."""
        return float(np.sqrt(self.spread / self.weights.sum() / self.n_features)) * self.unit

    @property
    def constant_curvature(self) -> float:
        """Of a fit without slopes, per unit of weight: p(1 − p), or its mean over classes."""
        q = self.loss.n_scores
        scores = np.broadcast_to(self.loss.constant_scores(self.labels, self.weights), (1, q))
        found = self.loss.hessian(scores if q > 1 else scores[:, 0], np.zeros(1))
        return float(np.mean(found))

    def solver(self, strengths: Floats, watch: Watch | None = None) -> NewtonCG | FarNewton:
        """The problems under these penalties; far rows tell of their steps."""
        scaled = self.scaled(strengths)
        if self.rows.width == 0:
            raise ValueError(
                "X holds nothing but zeros and fit_intercept=False, so there is nothing to fit; "
                "take fit_intercept=True for the prevalence."
            )
        # Beyond, single precision cannot tell a fit from one without slopes or without a penalty.
        low, high = 1e-30 * self.spread, 1e30 * self.spread
        unfit = self.spread > 0 and not np.all((scaled >= low) & (scaled <= high))
        if unfit or not np.all(np.isfinite(scaled)):
            raise ValueError(
                f"Cs={(1.0 / strengths).tolist()} do not suit the scale of X, whose columns have a "
                f"standard deviation of about {self.deviation:.1e}. Scale X, for example with "
                "StandardScaler, or pass Cs as a whole number to have a grid made for X."
            )
        given = (self.rows, self.labels, self.weights, scaled, self.loss)
        return solver_for(*given, self.moments if self.scatter is None else self.scatter, watch)

    def scaled(self, strengths: Any) -> Any:
        """λ/unit²: the strengths for rows of Z that λ are for rows of X."""
        with np.errstate(over="ignore", under="ignore"):
            return strengths / self.unit / self.unit

    def fit_at(self, found: Solution, column: int, strength: float) -> LinearFit:
        """One penalty's fit, of rows of Z."""
        coef, intercept, scores = found.problem(column)
        return LinearFit(
            X=self.rows,
            labels=self.labels,
            weights=self.weights,
            coef=coef,
            intercept=intercept,
            loss=self.loss,
            penalty=Ridge(self.scaled(strength) / float(self.weights.sum())),
            fit_intercept=self.fit_intercept,
            known_scores=scores,
        )

    def restore(self, coef: Floats, intercept: Any) -> tuple[Floats, Any]:
        """(w, b) for rows of X from (v, b) for rows of Z, (k,) and a number, or (K, k) and (K,)."""
        w, center = self.rows.expand(coef.T).T, self.rows.center
        level = intercept - (0.0 if center is None else w @ center)
        return w / self.unit if self.factors is None else w * (self.factors / self.unit), level

    def grid(self, count: int) -> Floats:
        """C from where the fit has about one degree of freedom to where it has nearly all.

        With D̄ the curvature of a constant fit, p(1−p) for two classes, df ≤ D̄·Σω_i‖x_i−x̄‖²/q. The
        grid ends at a hundredth of D̄ times the median moment of Z's columns, in the eigenbasis an
        eigenvalue. It follows the unit of X: columns ten times as large have a grid a hundred
        times as small.
        """
        strongest = self.constant_curvature * self.spread
        if not strongest > 0:
            return np.geomspace(1e-4, 1e4, count)  # no column varies, and any C does the same
        with np.errstate(over="ignore", invalid="ignore"):
            weakest = 1e-2 * strongest * self.typical / self.spread
        if not 0 < weakest < np.inf:
            raise ValueError(
                f"X, whose columns have a standard deviation of about {self.deviation:.1e}, and "
                "sample_weight give a typical column no moment whose square is a number, so that "
                "no C suits them. Scale them to be about 1, for example X with StandardScaler, or "
                "leave out columns that hardly vary."
            )
        grid = np.geomspace(1.0 / strongest, 1.0 / weakest, count)
        with np.errstate(over="ignore", under="ignore"):
            Cs = grid / self.unit / self.unit
        if not np.all(np.isfinite(Cs) & (Cs >= np.finfo(float).tiny)):
            raise ValueError(
                f"X has entries of about {self.unit:.0e}, whose squares are no numbers, so that no "
                "C suits it. Scale X, for example with StandardScaler."
            )
        return Cs


def make_design(
    X: Matrix,
    labels: Floats,
    weights: Floats,
    fit_intercept: bool,
    n_classes: int = 2,
    shape: PenaltyShape | None = None,
    factors: Floats | None = None,
) -> Design:
    """The narrowest design that is worth its making; with a shape, of ridge fits that have it.

    The shape is for columns that have been multiplied by the factors.
    """
    scatter, unit = None, 1.0
    if isinstance(X, FarRows):
        X = X if factors is None else X.in_columns(factors)
        rows = X = X if shape is None else shape.rotate_far(X)
        scatter = scatter_of(X, weights)
        # As for rows in memory, which have orthogonal columns where these are few.
        orthogonal = plan.takes_eigenbasis(X.shape[1]) and scatter.transform is not None
        moments = scatter.columns
        central = scatter.moments[: X.shape[1]] if orthogonal else moments
    else:
        # Large tensors are not copied: their products are multiplied instead.
        copied = not is_tensor(X) or X.shape[0] * X.shape[1] <= plan.PRODUCT_ENTRIES
        X = scaled_columns(X, factors) if copied else X
        unit = unit_of(X)
        own = X if unit == 1.0 else X / unit
        if factors is not None and not copied:
            rows = ScaledTensorRows(own, fit_intercept, factors)
        else:
            narrow = rotate if shape is None else shape.rotate
            rows = narrow(own, weights, fit_intercept)
        moments, _ = rows.column_squares(weights)
        central = _typical_of(X, rows, moments, weights)
    if scatter is None and fit_intercept and not isinstance(rows, RotatedRows):
        central = moments - rows.pull(weights)[:-1] ** 2 / weights.sum()
    moving = central[central > _rounding(rows, moments)]
    return Design(
        rows=rows,
        labels=labels,
        weights=weights,
        loss=Logistic() if n_classes == 2 else Multinomial(n_classes),
        moments=moments,
        spread=float(moving.sum()),
        typical=float(np.median(moving)) if len(moving) else 0.0,
        n_features=X.shape[1],
        unit=unit,
        scatter=scatter,
        factors=factors,
    )


def _rounding(rows: Rows, moments: Floats) -> Any:
    """Moments up to which a column varies by rounding only.

    Centered rows have exact ones, those of an eigenbasis what its eigenvectors leave of the largest
    column; others the difference of two numbers.
    """
    largest = max(float(moments.max(initial=0.0)), 1e-300)
    if isinstance(rows, RotatedRows):
        return plan.RANK_TOLERANCE * largest
    if isinstance(rows, FarRows):
        return 1e-9 * largest
    # Beyond the second number the solver has no penalty for both.
    return np.maximum(1e-9 * moments, 1e-24 * largest)


def _typical_of(X: Matrix, rows: Rows, moments: Floats, weights: Floats) -> Floats:
    """Moments of which the median ends the grid, in units of Z: those of Z's columns.

    Those of X where Z is a long eigenbasis: most eigenvalues of correlated columns are next to
    nothing, and so would be the penalties at the end.
    """
    if not (isinstance(rows, RotatedRows) and rows.correlated):
        return moments
    center = 0.0 if rows.center is None else rows.center
    unit = unit_of(X)
    return weights @ np.square((X - center * unit) / unit)


def unit_of(X: Matrix) -> float:
    """A power of two near the largest |x|; 1 where single precision has room for its squares.

    Dividing by a power of two changes no digit, so that fits follow the unit of X exactly.
    """
    largest = largest_entry(X)
    if largest == 0.0 or 1e-6 <= largest <= 1e6:
        return 1.0
    return float(2.0 ** np.round(np.log2(largest)))
