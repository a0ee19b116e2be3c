"""Classifiers around a base model: what they take, and steps (A) and (B) of their fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from angcal._typing import Matrix
from angcal.arrays import placed_like
from angcal.estimators.base_model import (
    fit_base,
    fit_or_read_on_device,
    fit_params_for,
    read_base,
    routing_of,
    takes_many_classes,
    takes_raw_rows,
)
from angcal.estimators.far import far_intercept, fit_far
from angcal.estimators.prediction import CalibratedPrediction
from angcal.estimators.repeats import warn_about_repeats
from angcal.estimators.training import Training, validated
from angcal.estimators.units import warn_about_units
from angcal.observables import Observables, observe
from angcal.problem import LinearFit
from angcal.rows import Rows


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
        warn_about_repeats(training, rows, observed)
        warn_about_units(self, rows, training, getattr(fits[0].penalty, "strength", 0.0))
        if isinstance(rows, Rows):
            self.passes_ = rows.passes
        return rows, fits, observed
