"""Fits and predictions where X is: tensors in, tensors out, following scikit-learn's dispatch.

With ``sklearn.set_config(array_api_dispatch=True)`` a tensor of a library that follows the array
API (PyTorch, say, on a CPU or a GPU) stays on its device: the fit, the survey of its rows and the
scores are products with it. Vectors of length n and d come to the host, where the link is fitted on
gathered scores in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from angcal._typing import Floats
from angcal.arrays import is_tensor, namespace_of, on_host, placed_like, refuse_dask
from angcal.curve import ConstantCurve, TabulatedCurve
from angcal.leverages import NotConvergedError, SampledHessian
from angcal.losses import Logistic
from angcal.notices import warn
from angcal.observables import Observables, observables_from
from angcal.penalties import Ridge
from angcal.problem import LinearFit
from angcal.rows import TensorRows
from angcal.solvers.newton_cg import NewtonCG

BLOCK_ENTRIES = 1 << 28
LARGEST_EXCESS = 10.0


def on_device(X: Any) -> bool:
    """Whether X is to stay where it is: a tensor, and scikit-learn's dispatch is on."""
    refuse_dask(X, "X")
    return bool(get_config()["array_api_dispatch"]) and is_tensor(X)


def check_tensor(X: Any, n_features: int | None = None) -> None:
    """Raise unless X is a finite floating-point matrix, of so many columns if that is known."""
    xp = namespace_of(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"X has the type {X.dtype}; make it float32 or float64.")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the fit was made with {n_features}.")
    rows = max(1, BLOCK_ENTRIES // max(int(X.shape[1]), 1))
    for start in range(0, int(X.shape[0]), rows):
        block = X[start : start + rows, :]
        # A finite sum proves its terms finite, without an array of flags.
        if not bool(xp.isfinite(xp.sum(block))) and not bool(xp.all(xp.isfinite(block))):
            raise ValueError("X contains NaN or infinity; impute or drop those rows first.")


def ridge_strength(model: Any) -> float:
    """q = 1/C of a ridge LogisticRegression; others are refused."""
    plain = isinstance(model, LogisticRegression) and model.class_weight is None
    l1_ratio = getattr(model, "l1_ratio", None)
    penalty = getattr(model, "penalty", "l2")
    if not plain or l1_ratio not in (None, 0, 0.0) or penalty not in ("l2", "deprecated"):
        raise TypeError(
            f"estimator={model!r} cannot be fitted on a device; use LogisticRegression with its "
            "ridge penalty, or pass NumPy arrays."
        )
    if not np.isfinite(model.C):
        raise ValueError(
            f"C={model.C} leaves no penalty, which a fit on a device needs; pass a finite C, or "
            "NumPy arrays."
        )
    return 1.0 / float(model.C)


@dataclass(frozen=True, eq=False)
class DeviceFit:
    """A fit, what is observed of it, and what it took.

    Attributes
    ----------
    fit : LinearFit
        With coefficients on the host.
    coef, intercept
        The same on the device, of shapes (1, d) and (1,).
    observables : Observables
    newton_steps, passes : int
        Steps of the solver; products with X or its transpose in all.
    """

    fit: LinearFit
    coef: Any
    intercept: Any
    observables: Observables
    newton_steps: int
    passes: int


def fit_tensor(X: Any, labels: Floats, weights: Floats, model: LogisticRegression) -> DeviceFit:
    """Fit, and survey the rows of X for its leverages."""
    strength = ridge_strength(model)
    rows = TensorRows(X, bool(model.fit_intercept))
    problem = NewtonCG(rows, labels, weights, np.array([strength]))
    solution = problem.solve(tol=0.0, gradient_tol=model.tol)
    # Rounding of single precision alone can keep a gradient somewhat above a small tol.
    gradient = float(solution.gradient[0])
    if gradient > LARGEST_EXCESS * model.tol:
        warn(
            f"The fit stopped at a gradient of {gradient:.1e}, above tol={model.tol:g}; "
            "raise tol, strengthen the penalty, or pass a tensor of type float64.",
            ConvergenceWarning,
        )
    total = float(weights.sum())
    intercept = on_host(solution.intercepts)
    fit = LinearFit(
        X=rows,
        labels=labels,
        weights=weights,
        coef=on_host(solution.coef)[:, 0],
        intercept=float(intercept[0]),
        loss=Logistic(),
        penalty=Ridge(strength / total),
        fit_intercept=bool(model.fit_intercept),
        iterations=solution.newton_steps,
        known_scores=on_host(solution.scores)[:, 0],
    )
    hessian = SampledHessian(rows, fit.curvatures, np.full(X.shape[1], strength))
    try:
        leverages = hessian.leverages()
    except NotConvergedError as error:
        raise ValueError(
            f"The leverages cannot be had on this device: {error}. Strengthen the penalty, or pass "
            "NumPy arrays, which are factorised then."
        ) from error
    observables = observables_from(
        fit,
        leverages,
        hessian.coupling(),
        side="randomised",
        step_error=hessian.relative_error,
    )
    return DeviceFit(
        fit,
        solution.coef.T,
        placed_like(intercept, X),
        observables,
        solution.newton_steps,
        rows.passes,
    )


def probabilities(curve: TabulatedCurve | ConstantCurve, scores: Any) -> Any:
    """F(u) of scores on a device, from the curve's table; (n, 2) with the complement first."""
    xp = namespace_of(scores)
    positive = _positive(curve, scores, xp)
    return xp.stack([1.0 - positive, positive], axis=1)


def classes_on_device(classes: np.ndarray, likely: Any) -> Any:
    """The class of each row: a tensor where classes are numbers, names as a NumPy array."""
    if classes.dtype.kind not in "iufb":
        return classes[on_host(likely).astype(int)]
    xp = namespace_of(likely)
    both = xp.asarray(classes, device=likely.device)
    return xp.where(likely, both[1], both[0])


def _positive(curve: TabulatedCurve | ConstantCurve, scores: Any, xp: Any) -> Any:
    if isinstance(curve, ConstantCurve):
        return xp.zeros_like(scores) + curve.prevalence
    table, scale = curve.table, curve.scale
    if table is None:
        return placed_like(curve.predict(on_host(scores)), scores)
    place = (scores - scale.center) / (scale.norm * table.spacing) + 0.5 * table.cells
    cell = xp.clip(xp.floor(place), 0.0, float(table.cells - 1))
    t = place - cell
    index = xp.astype(cell, xp.int64)
    p = xp.zeros_like(scores)
    for coefficient in placed_like(table.coefficients[::-1].copy(), scores):
        p = p * t + xp.take(coefficient, index)
    p = xp.clip(p, curve.floor, 1.0 - curve.floor)
    # Scores beyond the table, if any, are few: they go by the formula on the host.
    far = xp.abs(scores - scale.center) > table.reach * scale.norm
    if bool(xp.any(far)):
        p[far] = placed_like(curve.predict(on_host(scores[far])), scores)
    return p
