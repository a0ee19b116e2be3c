"""ScoreCalibratedClassifier: the classical calibrators, on a holdout or on leave-one-out scores."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.multiclass import OneVsRestClassifier

from angcal._typing import Floats
from angcal.baselines import calibrator_for
from angcal.baselines.adapters import check_method
from angcal.estimators.around_model import AroundModel
from angcal.estimators.base_model import fit_base, is_trained_elsewhere
from angcal.estimators.options import check_observables
from angcal.estimators.repeats import warn_about_repeats
from angcal.estimators.training import Training
from angcal.multiclass import class_scores
from angcal.sklearn_problems import is_joint, point_of, unwrap


class ScoreCalibratedClassifier(AroundModel):
    r"""P(y=1|x) = m(ŵᵀx) with m fitted on scores whose labels the fit has not seen.

    The honest alternatives to the angular predictor, with the same interface. With
    ``scores="loo"`` m is fitted on approximate leave-one-out scores and the one fit keeps all
    labels; with ``scores="holdout"`` part of the labels is set aside for m, as is customary. Three
    and more classes have a score each, and m takes all of them to all probabilities.

    Parameters
    ----------
    estimator : linear classifier, Pipeline, FrozenEstimator or LinearHead, default=None
        As in :class:`AngularCalibratedClassifier`.
    method : str or calibrator, default="platt"
        One of "platt", "temperature", "isotonic", "histogram", "beta", "quadratic", "vector",
        "matrix", "structured", "dirichlet" (:mod:`angcal.baselines`), or an object with
        ``fit(scores, y, sample_weight)`` and ``predict(scores)``. Three and more classes are fitted
        jointly by "temperature" and the last four, and one-vs-rest, divided by the sum, by the
        others. An object of your own gets one column of scores for two classes, and one for each
        class for more.
    scores : {"loo", "holdout"}, default="loo"
    holdout_size : float, default=0.3
        Share of the rows set aside with ``scores="holdout"``, stratified; of the groups where there
        are any, which stay whole.
    polish : bool, default=False
        Finish the base model's optimization before reading it; for two classes only.
    observables : {"auto", "exact", "randomised"}, default="auto"
        As in :class:`AngularCalibratedClassifier`, with ``scores="loo"``.
    random_state : int, RandomState or None, default=None
        Draws the holdout.

    Attributes
    ----------
    curve_ : the fitted calibrator
    observables_ : Observables or list of Observables
        With ``scores="loo"``; one-vs-rest heads have one for each class.
    class_counts_ : (K,) array
        Rows of each class that the calibrator was fitted on, by weight where there are weights.
    prevalence_ : Prevalence
        Of a copy by :meth:`with_prevalence` or :meth:`with_prevalence_from` only: the shares of the
        classes that it predicts for.

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

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> ScoreCalibratedClassifier:
        """Fit the base model and the map from its scores to probabilities.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or dataframe
            Training rows.
        y : (n,) array of two or more classes
            Their labels.
        sample_weight : (n,) array, optional
            Their weights.
        groups : (n,) array or "copies", optional
            Which rows belong together, as several of a patient, plate or document do: they are
            left out together, so that probabilities hold for rows of new groups. "copies" takes
            rows of X that are equal for a group.
        **fit_params : dict
            Further arguments of the base model's ``fit``; those of a Pipeline's steps are named
            ``step__argument``. With metadata routing the base model has to request them.

        Returns
        -------
        ScoreCalibratedClassifier
            The fitted estimator.
        """
        self._check_options()
        training = self._training(X, y, sample_weight, fit_params, groups)
        if self.polish and training.n_classes > 2:
            raise ValueError(
                f"polish=True is for two classes, and y has {training.n_classes}; lower the "
                "model's tol instead."
            )
        if self.scores == "holdout":
            return self._fit_on_holdout(training)
        return self._fit_on_left_out(training)

    def _fit_on_left_out(self, training: Training) -> ScoreCalibratedClassifier:
        """One fit of all rows, and the map fitted on its leave-one-out scores."""
        rows, fits, observed = self._fit_model(training)
        warn_about_repeats(training, rows, observed)
        if training.n_classes == 2:
            return self._fit_map(observed[0].calibration_scores, training)
        # Those of a joint fit are about their mean, which would tell a matrix the label.
        return self._fit_map(class_scores(fits, observed).honest, training)

    def _fit_map(self, scores: Floats, training: Training) -> ScoreCalibratedClassifier:
        # Heads that were fitted one-vs-rest have scores that are to be read one by one.
        joint = is_joint(unwrap(self.estimator_)[1])
        calibrator = calibrator_for(self.method, training.n_classes, log_odds=joint)
        codes = training.codes if scores.ndim == 1 else training.codes.astype(np.intp)
        weights = training.weights if training.weighted else None
        self.curve_ = calibrator.fit(scores, codes, weights)
        # Of a holdout those rows alone, as the map has seen no others.
        self.class_counts_ = training.class_counts
        return self

    def _check_options(self) -> None:
        check_method(self.method)
        if self.scores not in ("loo", "holdout"):
            raise ValueError(f"scores={self.scores!r} must be 'loo' or 'holdout'.")
        if not (isinstance(self.holdout_size, Real) and 0.0 < self.holdout_size < 1.0):
            raise ValueError(
                f"holdout_size={self.holdout_size!r} must lie between 0 and 1: it is a share."
            )
        check_observables(self.observables)

    def _fit_on_holdout(self, training: Training) -> ScoreCalibratedClassifier:
        """A fit of part of the rows, and the map fitted on the others."""
        model, n = self._model(), len(training.codes)
        if is_trained_elsewhere(model):
            # A frozen model has seen none of these rows by the user's word: all are holdout.
            train, held = np.arange(n), np.arange(n)
        else:
            train, held = self._split(training)
        self.estimator_ = fit_base(model, training.part(train))
        part = training.part(held)
        # Weights as they are: a holdout asks nothing of the objective.
        rows = self._training_rows(part.X)
        linear, K = unwrap(self.estimator_)[1], training.n_classes
        self.coef_, self.intercept_ = _weights_of(linear, rows.shape[1], K)
        coef = self.coef_[0] if K == 2 else self.coef_.T
        return self._fit_map(np.asarray(rows @ coef) + self.intercept_, part)

    def _split(self, training: Training) -> tuple[Any, Any]:
        """Row numbers of the training and of the held-out part, both with every class."""
        codes, K, groups = training.codes, training.n_classes, training.groups_of(training.X)
        counts = np.bincount(codes.astype(np.intp))
        cause = None
        try:
            options = {"test_size": self.holdout_size, "random_state": self.random_state}
            if groups is None:
                splits = [train_test_split(np.arange(len(codes)), stratify=codes, **options)]
            else:
                # Tries, until every class is on both sides.
                whole = GroupShuffleSplit(n_splits=20, **options)
                splits = list(whole.split(codes, groups=groups.codes))
            for parts in splits:
                if all(len(np.unique(codes[part])) == K for part in parts):
                    return parts
        except ValueError as error:
            cause = error
        smallest = f"{counts[1]} of them positive" if K == 2 else f"{counts.min()} of one class"
        every = "both classes" if K == 2 else f"all {K} classes"
        raise ValueError(
            f"holdout_size={self.holdout_size} of {len(codes)} rows, {smallest}, cannot be split "
            f"with {every} in both parts. Use scores='loo', which needs no split."
        ) from cause


def _weights_of(linear: Any, n_features: int, n_classes: int) -> tuple[Floats, Floats]:
    """(1, d) and (1,) weights of two classes, (K, d) and (K,) of more."""
    heads = [linear]
    if isinstance(linear, OneVsRestClassifier):
        heads = linear.estimators_
    elif n_classes > 2:
        coef, intercept = point_of(linear, n_features, joint=True)
        if len(coef) != n_classes:
            raise ValueError(
                f"{type(linear).__name__} has {len(coef)} rows of weights for {n_classes} classes; "
                "use a model with one row for each class."
            )
        return coef, intercept
    points = [point_of(head, n_features) for head in heads]
    return np.vstack([coef for coef, _ in points]), np.array([shift for _, shift in points])
