"""(A) ŵ where the rows are read anew on every pass: memory maps, blocks, a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from angcal import plan
from angcal._typing import Floats
from angcal.estimators.base_model import (
    LARGEST_DISTANCE,
    fit_base,
    is_ridge,
    is_trained_elsewhere,
    prepared,
    read_base,
    takes_raw_rows,
    warn_of_distance,
)
from angcal.estimators.training import Training
from angcal.leverages import FarHessian
from angcal.problem import LinearFit, ridge_fit
from angcal.sklearn_problems import problem_of, unwrap
from angcal.solvers.far_matrix import MatrixNewton
from angcal.solvers.far_newton import FarNewton, Watch


def takes_far_rows(model: Any) -> bool:
    """Whether the model can be fitted, or read, where the rows are far."""
    if takes_raw_rows(model):
        return False
    if is_trained_elsewhere(model):
        return True
    return is_ridge(model) and bool(np.isfinite(model.C))


def far_intercept(model: Any) -> bool | None:
    """Whether such a model has an intercept; None where it cannot be fitted to far rows."""
    if not takes_far_rows(model):
        return None
    if is_trained_elsewhere(model):
        return bool(problem_of(unwrap(model)[1]).fit_intercept)
    return bool(model.fit_intercept)


def fit_far(
    model: Any,
    training: Training,
    method: str,
    watch: Watch | None = None,
    start: Floats | None = None,
) -> tuple[Any, list[LinearFit], float]:
    """(the fitted model, its fits, how far they were from their optimum).

    Parameters
    ----------
    model : LogisticRegression with a ridge penalty, FrozenEstimator or LinearHead
        The penalty and the tolerance are followed; the solver is always Newton's method.
    training : Training
        With `FarRows` as X.
    method : {"auto", "exact", "randomised"}
        How leverages are computed.
    watch, start
        Called with the point after each Newton step; a point to start from.
    """
    if is_trained_elsewhere(model):
        fits, distance = read_base(
            fit_base(model, training), training.X, training, method=method, polish=False
        )
        return model, fits, distance
    fitted, weights, loss = prepared(model, training)
    strength = 1.0 / float(model.C)
    rows, codes = training.X, training.codes
    by_matrix = training.n_classes == 2 and plan.takes_matrices(rows.shape[1], rows.streamed)
    if by_matrix:
        newton = MatrixNewton(rows, codes, weights, strength, watch=watch)
        found = newton.solve(float(model.tol), start)
        fit = _with_matrix(ridge_fit(newton, found, method), newton, method)
        distance = newton.left
    else:
        solver = FarNewton(rows, codes, weights, np.array([strength]), loss, watch=watch)
        found = solver.solve(0.0, float(model.tol), start)
        fit = ridge_fit(solver, found, method)
        distance = fit.distance_to_optimum if np.any(fit.coef) else np.nan
    fitted.coef_, fitted.intercept_ = found.coef.T, found.intercepts
    fitted.n_iter_ = np.array([found.newton_steps])
    if distance > LARGEST_DISTANCE:
        warn_of_distance(distance, elsewhere=False, can_polish=False)
    return fitted, [fit], distance


def _with_matrix(fit: LinearFit, newton: MatrixNewton, method: str) -> LinearFit:
    """With the matrix of the last step, which moved the scores by next to nothing."""
    if method == "randomised" or newton.left > plan.LARGEST_FAR_STEP:
        return fit
    hessian = FarHessian(
        newton.rows,
        fit.curvatures,
        [newton.strength],
        grams=newton.gram[None],
        single=newton.single,
    )
    return fit.with_hessian(hessian)
