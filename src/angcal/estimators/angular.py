"""AngularCalibratedClassifier: calibrated probabilities from the one fit you already have."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from angcal._typing import Floats, Matrix
from angcal.estimators.angular_base import AngularBase
from angcal.estimators.around_model import AroundModel
from angcal.estimators.base_model import is_trained_elsewhere, ridge_strength, solve_on_device
from angcal.estimators.few_labels import warn_if_too_few
from angcal.estimators.options import (
    check_options,
    is_for_many_classes,
    refuse_options,
    warn_if_unlike,
)
from angcal.estimators.repeats import warn_about_repeats
from angcal.estimators.training import Training
from angcal.multiclass import ClassCalibration
from angcal.multiclass.class_scores import scores_on_device
from angcal.rows import Rows, TensorRows


class AngularCalibratedClassifier(AngularBase, AroundModel):
    r"""P(y=1|x) = E_Z σ(c·s + √(1−c²)·Z), s = (ŵᵀx − center)/‖ŵ‖_Σ: one fit, no holdout.

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
        Unlabeled rows from the same population, not the training rows. They give ‖ŵ‖_Σ and,
        if m > d, Σ⁻¹. With a Pipeline as ``estimator`` the pool is raw, like X, and passes
        through the same fitted transformers. A pool that does not fit in memory is a
        ``np.memmap``, or comes in blocks: a list of arrays, any iterable that starts afresh, or a
        callable that returns an iterator of (k, d) blocks. A generator, used up after one pass,
        will do where Σ⁻¹ is not asked of the pool (``angle="loo"`` or a number).
    sign_holdout : (X, y), default=None
        Labeled holdout rows for the paper's estimate of the angle's sign. By default the sign
        comes from the training rows' leave-one-out scores and costs no labels.
    polish : bool, default=False
        Finish the base model's optimization before reading it.
    observables : {"auto", "exact", "randomised"}, default="auto"
        Leverages from a factorized Hessian, or from sampled rows and products with X alone, which
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
    curve_ : CalibratedCurve, AveragedCurve, ConstantCurve or MulticlassPredictor
        The map from score to probability, or from all scores to all probabilities. Where the link
        is estimated it is an average over what the labels leave open.
    interval_law_ : Law
        What `predict_interval` goes by; its size does not depend on the number of rows.
    calibration_ : MapChoice
        For three and more classes: which map is delivered (``method``), why (``reason``), and the
        leave-one-out log-losses that decided (``losses``). Temperature scaling or the base model's
        own probabilities take the place of the angular map where they clearly beat it.
    scale_ : ScoreScale
        Center and ‖ŵ‖_Σ of the score; for two classes only.
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
    class_counts_ : (K,) array
        Rows of each class, by weight where there are weights.
    prevalence_ : Prevalence
        Of a copy by :meth:`with_prevalence` or :meth:`with_prevalence_from` only: the shares of the
        classes that it predicts for.
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        pool: Any = None,
        groups: Any = None,
        **fit_params: Any,
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
        groups : (n,) array or "copies", optional
            Which rows belong together, as several of a patient, plate or document do: they are
            left out together, so that probabilities hold for rows of new groups. "copies" takes
            rows of X that are equal for a group.
        **fit_params : dict
            Further arguments of the base model's ``fit``; those of a Pipeline's steps are named
            ``step__argument``. With metadata routing the base model has to request them.

        Returns
        -------
        AngularCalibratedClassifier
            The fitted estimator.
        """
        check_options(self)
        pool = self._given_pool(pool)
        training = self._training(X, y, sample_weight, fit_params, groups)
        return self._fit_training(training, pool)

    def _fit_training(self, training: Training, pool: Any) -> Self:
        """All steps, from rows that have been checked."""
        refuse_options(self, training, pool)
        many = training.on_device and training.n_classes > 2
        if many and training.groups is None and self._needs_few_rows(pool):
            return self._keep(self._fit_few_rows(training))
        rows, fits, observed = self._fit_model(training)  # (A), (B)
        together = warn_about_repeats(training, rows, observed)
        options = self._options(pool, rows, sign_holdout=self._validated_holdout())
        result = self._calibrated(fits, observed, training, options)  # (C), (D)
        warn_if_unlike(options.pool, rows)
        elsewhere = isinstance(rows, Rows)
        self._pilot = None if elsewhere else (rows, training, pool)
        if elsewhere:
            self.passes_ = rows.passes
        self._keep(result)
        warn_if_too_few(self, training, together)
        return self

    def _needs_few_rows(self, pool: Any) -> bool:
        """Whether some rows tell the map of many classes as well as all: angles ask for all."""
        model = self._model()
        given = (pool, self.covariance, getattr(model, "class_weight", None))
        return all(each is None for each in given) and not is_trained_elsewhere(model)

    def _fit_few_rows(self, training: Training) -> ClassCalibration:
        """All steps where X is a tensor of many classes, of whose rows some make the map."""
        model, weights = self._model(), training.weights
        self.estimator_, problem, solution = solve_on_device(model, training)
        self.coef_, self.intercept_ = self.estimator_.coef_, self.estimator_.intercept_
        self.distance_to_optimum_, self._pilot = np.nan, None
        codes = training.codes.astype(np.intp)
        rows, strength = problem.rows, ridge_strength(model)
        assert isinstance(rows, TensorRows)
        scores, taken = scores_on_device(rows, solution, codes, weights, strength)
        self.passes_ = rows.passes
        return self._calibrated_scores(scores, codes[taken], weights[taken])

    def _takes_many_classes(self) -> bool:
        """Not with a link of one index."""
        return is_for_many_classes(self.link) and super()._takes_many_classes()

    def _validated_holdout(self) -> tuple[Matrix, Floats] | None:
        if self.sign_holdout is None:
            return None
        try:
            X, y = self.sign_holdout
        except (TypeError, ValueError) as error:
            raise ValueError("sign_holdout must be a pair (X, y) of labeled rows.") from error
        y = np.asarray(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown) or len(y) != np.shape(X)[0]:
            raise ValueError(
                f"sign_holdout needs one label per row, all among {self.classes_.tolist()}; "
                f"got {len(y)} labels for {np.shape(X)[0]} rows, unknown: {unknown.tolist()}."
            )
        return self._rows_like_X(X, "sign_holdout"), (y == self.classes_[1]).astype(np.float64)
