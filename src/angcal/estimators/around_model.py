"""Classifiers around a base model: what they take, and steps (A) and (B) of their fit.

Rows that are read anew on every pass (memory maps, blocks, a cluster) have a step (A) of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal import plan
from angcal._typing import Floats, Matrix
from angcal.arrays import placed_like
from angcal.estimators.base_model import (
    LARGEST_DISTANCE,
    fit_base,
    fit_or_read_on_device,
    fit_params_for,
    is_ridge,
    is_trained_elsewhere,
    prepared,
    read_base,
    routing_of,
    takes_many_classes,
    takes_raw_rows,
    warn_of_distance,
)
from angcal.estimators.prediction import CalibratedPrediction
from angcal.estimators.training import Training, validated
from angcal.estimators.units import warn_about_units
from angcal.leverages import FarHessian
from angcal.observables import Observables, observe
from angcal.problem import LinearFit, ridge_fit
from angcal.rows import Rows
from angcal.sklearn_problems import problem_of, unwrap
from angcal.solvers.far_matrix import MatrixNewton
from angcal.solvers.far_newton import FarNewton, Watch


class AroundModel(CalibratedPrediction):
    """Fits the base model ``estimator``, unless it is frozen, and observes the fit."""

    estimator: Any
    polish: bool
    observables: str

    def _model(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _takes_many_classes(self) -> bool:
        return takes_many_classes(self._model())

    def get_metadata_routing(self) -> Any:
        """What ``fit`` is handed on to: this classifier itself, and its base model.

        Returns
        -------
        MetadataRouter
            As scikit-learn's metadata routing asks for it.
        """
        return routing_of(self, self._model(), super().get_metadata_routing())

    def _training(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], groups: Any
    ) -> Training:
        """What ``fit`` was given, checked."""
        return validated(
            self,
            X,
            y,
            sample_weight,
            raw_rows=takes_raw_rows(self._model()),
            many_classes=self._takes_many_classes(),
            fit_params=fit_params_for(self, fit_params),
            groups=groups,
            far_intercept=far_intercept(self._model()),
        )

    def _training_rows(self, X: Any) -> Matrix:
        """Checked rows as the linear model sees them."""
        return self._transformed(X, input_name="X") if takes_raw_rows(self._model()) else X

    def _fit_model(self, training: Training) -> tuple[Matrix, list[LinearFit], list[Observables]]:
        """(A), (B) Rows as the linear model sees them, its fits, and what these reveal."""
        if training.is_far:
            rows = training.X
            self.estimator_, fits, self.distance_to_optimum_ = fit_far(
                self._model(), training, self.observables, **self._far_options()
            )
        elif training.on_device:
            self.estimator_, fit = fit_or_read_on_device(self._model(), training)
            rows, fits, self.distance_to_optimum_ = fit.X, [fit], np.nan
        else:
            self.estimator_ = fit_base(self._model(), training)
            rows = self._training_rows(training.X)
            # Groups of two classes ask for a factorization, which then serves all.
            alone = training.groups is None or training.n_classes > 2
            method = self.observables if alone or self.observables == "exact" else "single"
            fits, self.distance_to_optimum_ = read_base(
                self.estimator_, rows, training, method=method, polish=self.polish
            )
        self.coef_ = np.vstack([fit.coef for fit in fits])
        self.intercept_ = np.hstack([fit.intercept for fit in fits])
        if training.on_device:
            self.coef_ = placed_like(self.coef_, training.X)
            self.intercept_ = placed_like(self.intercept_, training.X)
        groups = training.groups_of(rows)
        observed = [observe(fit, groups) for fit in fits]
        self.observables_ = observed[0] if len(observed) == 1 else observed
        warn_about_units(self, rows, training, getattr(fits[0].penalty, "strength", 0.0))
        if isinstance(rows, Rows):
            self.passes_ = rows.passes
        return rows, fits, observed


# -- rows that are read anew on every pass -------------------------------------------------------


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
