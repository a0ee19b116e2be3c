"""AngularCalibratedClassifier: calibrated probabilities from the one fit you already have."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array

from angcal._typing import Floats, Matrix
from angcal.angle import Angle
from angcal.calibrate import Options, calibrate
from angcal.estimators.base_model import (
    fit_base,
    fit_on_device,
    fit_params_for,
    read_base,
    ridge_strength,
    routing_of,
    solve_on_device,
    takes_many_classes,
    takes_raw_rows,
)
from angcal.estimators.far import far_intercept, fit_far
from angcal.estimators.options import (
    check_options,
    clone_sharing,
    forget,
    is_for_many_classes,
    open_like,
    refuse_options,
    resolved_link,
    resolved_softmax,
    rows_like,
    warn_if_unlike,
)
from angcal.estimators.prediction import CalibratedPrediction, LeaveOneOutMixin
from angcal.estimators.training import ARRAY_RULES, Training, validated, warn_about_repeats
from angcal.multiclass import ClassScores, calibrate_classes, class_scores
from angcal.multiclass.observable import asked_angles
from angcal.multiclass.on_device import scores_on_device
from angcal.observables import Observables, observe
from angcal.problem import LinearFit
from angcal.sklearn_problems import unwrap


class AngularCalibratedClassifier(LeaveOneOutMixin, CalibratedPrediction):
    r"""P(y=1|x) = E_Z σ(c·s + √(1−c²)·Z), s = (ŵᵀx − centre)/‖ŵ‖_Σ: one fit, no holdout.

    The fitted score is blended with just as much Gaussian noise as the angle between fitted and
    true weights calls for. The angle is estimated from the fit's own observables. Three and more
    classes are calibrated jointly, P = E_Z softmax(M·S + LZ), with a matrix of angles.

    Parameters
    ----------
    estimator : linear classifier, Pipeline, FrozenEstimator or LinearHead, default=None
        A linear classifier with a known objective: LogisticRegression, RidgeClassifier,
        LinearSVC, SGDClassifier, :class:`MEstimator`, a Pipeline that ends in one, or weights
        trained elsewhere as a :class:`LinearHead`. A ``FrozenEstimator`` or ``LinearHead`` is
        kept as it is; then X, y must be the rows it was trained on. None means
        ``LogisticRegression()``. Three and more classes take a multinomial LogisticRegression with
        a ridge penalty, or one-vs-rest heads: OneVsRestClassifier, LinearSVC, RidgeClassifier,
        SGDClassifier.
    link : Link, Softmax, callable, str or None, default=None
        σ. A :class:`Link` or a callable is taken as known; a name such as ``"probit"`` is a
        family whose scale and offset are estimated; None is the logit family. For three and more
        classes None is a softmax that is estimated, and :class:`~angcal.links.multiclass.Softmax`
        with its covariance one that is known.
    angle : {"auto", "observable", "loo"} or float, default="auto"
        How the cosine is found; a number is taken as the cosine itself. Three and more classes
        take the names, and neither ``sign_holdout`` nor ``polish``; their probabilities do not
        depend on the angles.
    covariance : (d, d) array, operator or scikit-learn covariance estimator, default=None
        Σ of the features, as the linear model sees them. An operator has ``solve(V)`` = Σ⁻¹V and
        ``norm(w)`` = ‖w‖_Σ, so that a structured Σ need not be written out. An estimator is
        fitted on the pool.
    pool : (m, d) array, sparse matrix, dataframe, memory map or blocks of rows, default=None
        Unlabelled rows from the same population, not the training rows. They give ‖ŵ‖_Σ and,
        if m > d, Σ⁻¹. With a Pipeline as ``estimator`` the pool is raw, like X, and passes
        through the same fitted transformers. A pool that does not fit in memory is a
        ``np.memmap``, or comes in blocks: a list of arrays, any iterable that starts afresh, or a
        callable that returns an iterator of (k, d) blocks. A generator, used up after one pass,
        will do where Σ⁻¹ is not asked of the pool (``angle="loo"`` or a number).
    sign_holdout : (X, y), default=None
        Labelled holdout rows for the paper's estimate of the angle's sign. By default the sign
        comes from the training rows' leave-one-out scores and costs no labels.
    polish : bool, default=False
        Finish the base model's optimisation before reading it.
    observables : {"auto", "exact", "randomised"}, default="auto"
        Leverages from a factorised Hessian, or from sampled rows and products with X alone, which
        cost less than a fit at any size; "auto" samples where both sides of X are long.
        ``observables_.side`` says what was done, ``observables_.step_error`` how exactly.
    confidence : float, default=0.95
        Level of ``angle_.interval``.

    Attributes
    ----------
    angle_ : Angle, or AngleMatrix for three and more classes
        ``cosine``, ``interval``, ``standard_error``, ``method``, ``reason``.
        Those of an :class:`AngleMatrix` are arrays with a row for each class and a column for
        each fitted score.
    link_ : Link, or Softmax for three and more classes
        As given, or with its estimated scale and offset; a softmax with its estimated covariance
        and offset.
    observables_ : Observables or list of Observables
        ``loo_scores``, ``leverages``, ``degrees_of_freedom`` and more. A multinomial fit has blocks
        in place of numbers, one-vs-rest heads have a list of one entry per class.
    loo_proba_ : (n, K) array
        Calibrated probabilities of the training rows, each without its own label: what the
        classifier is worth, without a test set.
    plain_loo_proba_ : (n, K) array
        The same of the base model's own probabilities.
    curve_ : CalibratedCurve, AveragedCurve, ConstantCurve or SeveralPredictor
        The map from score to probability, or from all scores to all probabilities. Where the link
        is estimated it is an average over what the labels leave open.
    calibration_ : MapChoice
        For three and more classes: which map is delivered (``method``), why (``reason``), and the
        leave-one-out log-losses that decided (``losses``). Temperature scaling or the base model's
        own probabilities take the place of the angular map where they clearly beat it.
    scale_ : ScoreScale
        Centre and ‖ŵ‖_Σ of the score; for two classes only.
    estimator_ : the fitted base model
    coef_, intercept_ : ŵ and b̂ as used, after polishing if asked for
        Of the shapes (1, d) and (1,); (K, d) and (K,) for K >= 3 classes.
    distance_to_optimum_ : float
        How far the base model's scores were from those of its optimum, as a share of their
        standard deviation; NaN where all weights are zero, and for tensors, whose solver warns
        if it misses the model's ``tol``.
    passes_ : int
        Products with X that a fit on a device took, or passes over rows that come in blocks; for
        these only.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    AngularLogisticRegressionCV : Chooses the penalty of a logistic regression as well.
    ScoreCalibratedClassifier : Classical calibrators with the same interface.

    Notes
    -----
    ``sample_weight`` and ``class_weight`` are part of the loss: leaving a row out leaves out all
    of its weight. Class weights tilt the fit but not the calibrated probabilities, which follow
    the labels' own frequencies.

    Examples
    --------
    >>> from angcal import AngularCalibratedClassifier, Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 200, link=Logit(scale=3), random_state=0)
    >>> clf = AngularCalibratedClassifier().fit(data.X, data.y)
    >>> clf.predict_proba(data.X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        link: Any = None,
        angle: str | float = "auto",
        covariance: Any = None,
        pool: Any = None,
        sign_holdout: Any = None,
        polish: bool = False,
        observables: str = "auto",
        confidence: float = 0.95,
    ) -> None:
        self.estimator = estimator
        self.link = link
        self.angle = angle
        self.covariance = covariance
        self.pool = pool
        self.sign_holdout = sign_holdout
        self.polish = polish
        self.observables = observables
        self.confidence = confidence

    def __sklearn_clone__(self) -> AngularCalibratedClassifier:
        """Clone that shares the pool and the covariance instead of copying them."""
        return clone_sharing(self)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, pool: Any = None, **fit_params: Any
    ) -> AngularCalibratedClassifier:
        """Fit the base model (unless frozen), estimate angle and link, build the curve.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor, memory map or blocks of rows
            Training rows. What does not fit in memory is a ``np.memmap``, a list of (k, d) blocks
            or a callable that returns an iterator of them, the same each time. Such rows are never
            held whole; they take LogisticRegression with its ridge penalty, which is fitted by
            Newton's method, or a model that was trained elsewhere.
        y : (n,) array of two or more classes
            Their labels.
        sample_weight : (n,) array, optional
            Their weights.
        pool : (m, d) array, optional
            Overrides the constructor's pool. It exists for
            ``Pipeline(..., transform_input=["pool"])`` with metadata routing, which sends it
            through the transformers in front of this classifier.
        **fit_params : dict
            Further arguments of the base model's ``fit``; those of a Pipeline's steps are named
            ``step__argument``. With metadata routing the base model has to request them.

        Returns
        -------
        AngularCalibratedClassifier
            The fitted estimator.
        """
        model, pool = self._model(), self.pool if pool is None else pool
        check_options(self)
        training = validated(
            self,
            X,
            y,
            sample_weight,
            raw_rows=takes_raw_rows(model),
            many_classes=self._takes_many_classes(),
            fit_params=fit_params_for(self, fit_params),
            far_intercept=far_intercept(model),
        )
        return self._fit_training(model, training, pool)

    def _fit_training(
        self, model: Any, training: Training, pool: Any
    ) -> AngularCalibratedClassifier:
        """All steps, from rows that have been checked."""
        self.classes_ = training.classes
        refuse_options(self, training, pool)
        if training.on_device and training.n_classes > 2:
            return self._fit_classes_on_device(model, training)
        rows, fits = self._fit_base(model, training)
        observed = [observe(fit) for fit in fits]
        self.observables_ = observed[0] if len(observed) == 1 else observed
        if not training.on_device:
            warn_about_repeats(rows, training.codes, observed)
        if training.n_classes == 2:
            return self._calibrate(fits[0], rows, training, pool)
        return self._calibrate_classes(fits, observed, rows, training, pool)

    def _fit_base(self, model: Any, training: Training) -> tuple[Matrix, list[LinearFit]]:
        """(A) The fitted base model, rows as its linear part sees them, and its fits."""
        if training.on_device:
            self.estimator_, rows, solution = solve_on_device(model, training)
            self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
            self.distance_to_optimum_ = np.nan
            return training.X, [fit_on_device(model, training, rows, solution)]
        if training.is_far:
            self.estimator_, fits, self.distance_to_optimum_ = fit_far(
                model, training, self.observables, **self._far_options()
            )
            return training.X, fits
        self.estimator_ = fit_base(model, training)
        transformer, _ = unwrap(self.estimator_)
        as_given = transformer is None and not takes_raw_rows(model)
        rows = training.X if as_given else self._transform(training.X)
        fits, self.distance_to_optimum_ = read_base(
            self.estimator_, rows, training, method=self.observables, polish=self.polish
        )
        return rows, fits

    def _far_options(self) -> dict[str, Any]:
        """What a fit to far rows is to be given besides."""
        return {}

    def _calibrate(
        self, fit: LinearFit, rows: Matrix, training: Training, pool: Any
    ) -> AngularCalibratedClassifier:
        """(C), (D) Angle, link and curve of one score."""
        link, known = resolved_link(self.link)
        opened = open_like(self, pool, rows, self._rows_like_X)
        options = Options(
            link=link,
            link_known=known,
            angle=self.angle,
            covariance=self.covariance,
            pool=opened,
            sign_holdout=self._validate_holdout(),
            confidence=self.confidence,
        )
        result = calibrate(fit, self.observables_, training.weights, options)
        warn_if_unlike(opened, rows)
        if not training.on_device:
            self.coef_, self.intercept_ = fit.coef[None, :], np.array([fit.intercept])
        self._set_passes(training, fit)
        self.angle_, self.link_, self.scale_ = result.angle, result.link, result.scale
        self.curve_, self._left_out = result.curve, result.left_out
        forget(self, "calibration_")
        return self

    def _calibrate_classes(
        self,
        fits: list[LinearFit],
        observed: list[Observables],
        rows: Matrix,
        training: Training,
        pool: Any,
    ) -> AngularCalibratedClassifier:
        """(C), (D) Angles, link and map of several scores."""
        scores = class_scores(fits, observed)
        self.coef_, self.intercept_ = scores.coef, scores.intercept
        self._set_passes(training, fits[0])
        opened = open_like(self, pool, rows, self._rows_like_X)
        codes = training.codes.astype(np.intp)
        options = (training.weights, self.covariance, opened, self.confidence)
        angles = asked_angles(self.angle, fits, observed, codes, *options)
        warn_if_unlike(opened, rows)
        return self._calibrate_scores(scores, training.codes, training.weights, angles)

    def _set_passes(self, training: Training, fit: LinearFit) -> None:
        if training.on_device or training.is_far:
            self.passes_ = fit.rows.passes
        else:
            forget(self, "passes_")

    def _calibrate_scores(
        self,
        scores: ClassScores,
        codes: Floats,
        weights: Floats,
        angles: list[Angle] | str | None = None,
    ) -> AngularCalibratedClassifier:
        softmax = resolved_softmax(self.link, scores.n_classes)
        result = calibrate_classes(
            scores, codes.astype(np.intp), weights, softmax, self.confidence, angles
        )
        self.angle_, self.link_, self.curve_ = result.angle, result.link, result.map
        self.calibration_, self._left_out = result.choice, result.left_out
        forget(self, "scale_")
        return self

    def _fit_classes_on_device(self, model: Any, training: Training) -> AngularCalibratedClassifier:
        """All steps for several classes where X is a tensor; some of its rows make the map."""
        self.estimator_, rows, solution = solve_on_device(model, training)
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.distance_to_optimum_ = np.nan
        codes, weights = training.codes.astype(np.intp), training.weights
        scores, taken = scores_on_device(rows, solution, codes, weights, ridge_strength(model))
        self.passes_ = rows.passes
        forget(self, "observables_")
        return self._calibrate_scores(scores, codes[taken], weights[taken])

    def _model(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _takes_many_classes(self) -> bool:
        """Not with a link of one index."""
        return is_for_many_classes(self.link) and takes_many_classes(self._model())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_many_classes()
        return tags

    def get_metadata_routing(self) -> Any:
        """What ``fit`` is handed on to: this classifier itself, and its base model.

        Returns
        -------
        MetadataRouter
            As scikit-learn's metadata routing asks for it.
        """
        return routing_of(self, self._model(), super().get_metadata_routing())

    def _transform(self, X: Any, name: str = "X") -> Matrix:
        """Rows as the linear model sees them: through the pipeline's transformers."""
        transformer, _ = unwrap(self.estimator_)
        rows = X if transformer is None else transformer.transform(X)
        return check_array(rows, input_name=name, **ARRAY_RULES)

    def _rows_like_X(self, rows: Any, name: str) -> Matrix:
        """Unlabelled rows, checked against X's columns and sent through the transformers."""
        return rows_like(self, rows, name, lambda X: self._transform(X, name))

    def _validate_holdout(self) -> tuple[Matrix, Floats] | None:
        if self.sign_holdout is None:
            return None
        try:
            X, y = self.sign_holdout
        except (TypeError, ValueError) as error:
            raise ValueError("sign_holdout must be a pair (X, y) of labelled rows.") from error
        y = np.asarray(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown) or len(y) != np.shape(X)[0]:
            raise ValueError(
                f"sign_holdout needs one label per row, all among {self.classes_.tolist()}; "
                f"got {len(y)} labels for {np.shape(X)[0]} rows, unknown: {unknown.tolist()}."
            )
        return self._rows_like_X(X, "sign_holdout"), (y == self.classes_[1]).astype(np.float64)
