"""ScoreCalibratedClassifier: the classical calibrators, on a holdout or on leave-one-out scores."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_array

from angcal._typing import Floats, Matrix
from angcal.baselines import CALIBRATORS
from angcal.estimators.base_model import (
    fit_base,
    is_trained_elsewhere,
    read_base,
    takes_raw_rows,
)
from angcal.estimators.options import check_observables
from angcal.estimators.prediction import CalibratedPrediction
from angcal.estimators.training import ARRAY_RULES, Training, validated, warn_about_repeats
from angcal.observables import observe
from angcal.sklearn_problems import point_of, unwrap


class ScoreCalibratedClassifier(CalibratedPrediction):
    r"""P(y=1|x) = m(ŵᵀx) with m fitted on scores whose labels the fit has not seen.

    The honest alternatives to the angular predictor, with the same interface. With
    ``scores="loo"`` m is fitted on approximate leave-one-out scores and the one fit keeps all
    labels; with ``scores="holdout"`` part of the labels is set aside for m, as is customary.

    Parameters
    ----------
    estimator : linear classifier, Pipeline, FrozenEstimator or LinearHead, default=None
        As in :class:`AngularCalibratedClassifier`.
    method : str or calibrator, default="platt"
        One of "platt", "temperature", "isotonic", "histogram", "beta", or an object with
        ``fit(scores, y, sample_weight)`` and ``predict(scores)``.
    scores : {"loo", "holdout"}, default="loo"
    holdout_size : float, default=0.3
        Share of the rows set aside with ``scores="holdout"``, stratified.
    polish : bool, default=False
        Finish the base model's optimization before reading it.
    observables : {"auto", "exact", "randomised"}, default="auto"
        As in :class:`AngularCalibratedClassifier`, with ``scores="loo"``.
    random_state : int, RandomState or None, default=None
        Draws the holdout.

    Attributes
    ----------
    curve_ : the fitted calibrator
    observables_ : Observables
        With ``scores="loo"``.

    See Also
    --------
    AngularCalibratedClassifier : Calibrates by the angle between fitted and true weights.

    Examples
    --------
    >>> from angcal import Logit, ScoreCalibratedClassifier
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 200, link=Logit(scale=3), random_state=0)
    >>> ScoreCalibratedClassifier(method="beta").fit(data.X, data.y).predict_proba(data.X).shape
    (300, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Any = "platt",
        scores: str = "loo",
        holdout_size: float = 0.3,
        polish: bool = False,
        observables: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.scores = scores
        self.holdout_size = holdout_size
        self.polish = polish
        self.observables = observables
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ScoreCalibratedClassifier:
        """Fit the base model and the map from its scores to probabilities.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or dataframe
            Training rows.
        y : (n,) array of two classes
            Their labels.
        sample_weight : (n,) array, optional
            Their weights.

        Returns
        -------
        ScoreCalibratedClassifier
            The fitted estimator.
        """
        calibrator, model = self._calibrator(), self._model()
        if self.scores not in ("loo", "holdout"):
            raise ValueError(f"scores={self.scores!r} must be 'loo' or 'holdout'.")
        if not (isinstance(self.holdout_size, Real) and 0.0 < self.holdout_size < 1.0):
            raise ValueError(
                f"holdout_size={self.holdout_size!r} must lie between 0 and 1: it is a share."
            )
        check_observables(self.observables)
        training = validated(
            self, X, y, sample_weight, raw_rows=takes_raw_rows(model), many_classes=False
        )
        self.classes_ = training.classes
        if self.scores == "holdout":
            return self._fit_on_holdout(calibrator, training)
        self.estimator_ = fit_base(model, training)
        rows = self._rows(training.X)
        (fit,), self.distance_to_optimum_ = read_base(
            self.estimator_, rows, training, method=self.observables, polish=self.polish
        )
        self.coef_, self.intercept_ = fit.coef[None, :], np.array([fit.intercept])
        self.observables_ = observe(fit)
        warn_about_repeats(rows, [self.observables_])
        weights = training.weights if training.weighted else None
        self.curve_ = calibrator.fit(self.observables_.calibration_scores, training.codes, weights)
        return self

    def _model(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _rows(self, X: Any) -> Matrix:
        """Training rows as the linear model sees them."""
        transformer, _ = unwrap(self.estimator_)
        if transformer is None and not takes_raw_rows(self._model()):
            return X
        rows = X if transformer is None else transformer.transform(X)
        return check_array(rows, input_name="X", **ARRAY_RULES)

    def _calibrator(self) -> Any:
        if isinstance(self.method, str):
            if self.method not in CALIBRATORS:
                raise ValueError(
                    f"method={self.method!r} is unknown; use one of {sorted(CALIBRATORS)}."
                )
            return CALIBRATORS[self.method]()
        return clone(self.method)

    def _fit_on_holdout(self, calibrator: Any, training: Training) -> ScoreCalibratedClassifier:
        model, n = self._model(), len(training.codes)
        if is_trained_elsewhere(model):
            # A frozen model has seen none of these rows by the user's word: all are holdout.
            train, held = np.arange(n), np.arange(n)
        else:
            train, held = self._split(training.codes)
        parts = [
            replace(
                training,
                X=_safe_indexing(training.X, part),
                codes=training.codes[part],
                weights=training.weights[part],
            )
            for part in (train, held)
        ]
        self.estimator_ = fit_base(model, parts[0])
        # Weights as they are: a holdout asks nothing of the objective.
        rows = self._rows(parts[1].X)
        coef, intercept = point_of(unwrap(self.estimator_)[1], rows.shape[1])
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])
        scores = np.asarray(rows @ coef) + intercept
        weights = parts[1].weights if training.weighted else None
        self.curve_ = calibrator.fit(scores, parts[1].codes, weights)
        return self

    def _split(self, labels: Floats) -> tuple[Any, Any]:
        """Row numbers of the training and of the held-out part, both with both classes."""
        try:
            return train_test_split(
                np.arange(len(labels)),
                test_size=self.holdout_size,
                stratify=labels,
                random_state=self.random_state,
            )
        except ValueError as error:
            raise ValueError(
                f"holdout_size={self.holdout_size} of {len(labels)} rows, "
                f"{int(labels.sum())} of them positive, cannot be split with both classes in "
                "both parts. Use scores='loo', which needs no split."
            ) from error
