"""ScoreCalibratedClassifier: the classical calibrators, on a holdout or on leave-one-out scores."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from angcal._typing import Floats
from angcal.baselines import CALIBRATORS
from angcal.estimators.one_fit import OneFitCalibrator, warn_about_repeats
from angcal.observables import observe
from angcal.sklearn_problems import point_of, unwrap


class ScoreCalibratedClassifier(OneFitCalibrator):
    r"""P(y=1|x) = m(ŵᵀx) with m fitted on scores whose labels the fit has not seen.

    The honest alternatives to the angular predictor, with the same interface. With
    ``scores="loo"`` m is fitted on approximate leave-one-out scores and the one fit keeps all
    labels; with ``scores="holdout"`` part of the labels is set aside for m, as is customary.

    Parameters
    ----------
    estimator : as in :class:`AngularCalibratedClassifier`
    method : str or calibrator, default="platt"
        One of "platt", "temperature", "isotonic", "histogram", "beta", or an object with
        ``fit(scores, y, sample_weight)`` and ``predict(scores)``.
    scores : {"loo", "holdout"}, default="loo"
    holdout_size : float, default=0.3
        Share of the rows set aside with ``scores="holdout"``, stratified.
    polish : bool, default=False
    observables : {"auto", "exact", "randomised"}, default="auto"
        As in :class:`AngularCalibratedClassifier`, with ``scores="loo"``.
    random_state : int, RandomState or None, default=None
        Draws the holdout.

    Attributes
    ----------
    curve_ : the fitted calibrator
    observables_ : Observables
        With ``scores="loo"``.

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
        """Fit the base model and the map from its scores to probabilities."""
        calibrator = self._calibrator()
        if self.scores not in ("loo", "holdout"):
            raise ValueError(f"scores={self.scores!r} must be 'loo' or 'holdout'.")
        if not (isinstance(self.holdout_size, Real) and 0.0 < self.holdout_size < 1.0):
            raise ValueError(
                f"holdout_size={self.holdout_size!r} must lie between 0 and 1: it is a share."
            )
        self._check_observables()
        X, labels, weights = self._validate(X, y, sample_weight)
        weighted = sample_weight is not None
        if self.scores == "holdout":
            return self._fit_on_holdout(calibrator, X, labels, weights, weighted)
        self._fit_base(X, labels, weights, weighted)
        fit = self._read(self._training_rows(X), labels, weights)
        self.observables_ = observe(fit)
        warn_about_repeats(fit.X, self.observables_.leverage_shares)
        self.curve_ = calibrator.fit(
            self.observables_.calibration_scores, labels, weights if weighted else None
        )
        return self

    def _calibrator(self) -> Any:
        if isinstance(self.method, str):
            if self.method not in CALIBRATORS:
                raise ValueError(
                    f"method={self.method!r} is unknown; use one of {sorted(CALIBRATORS)}."
                )
            return CALIBRATORS[self.method]()
        return clone(self.method)

    def _fit_on_holdout(
        self, calibrator: Any, X: Any, labels: Floats, weights: Floats, weighted: bool
    ) -> ScoreCalibratedClassifier:
        if self._is_fitted_elsewhere():
            # A frozen model has seen none of these rows by the user's word: all are holdout.
            train, held = np.arange(len(labels)), np.arange(len(labels))
        else:
            train, held = self._split(labels)
        self._fit_base(_safe_indexing(X, train), labels[train], weights[train], weighted)
        # Weights as they are: a holdout asks nothing of the objective.
        rows = self._transform(_safe_indexing(X, held))
        coef, intercept = point_of(unwrap(self.estimator_)[1], rows.shape[1])
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])
        scores = np.asarray(rows @ coef) + intercept
        self.curve_ = calibrator.fit(scores, labels[held], weights[held] if weighted else None)
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
