"""AngularCalibratedClassifier: calibrated probabilities from the one fit you already have."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from angcal._typing import Floats, Matrix
from angcal.arrays import on_host
from angcal.calibrate import ANGLE_METHODS, Options, calibrate
from angcal.estimators.device import check_tensor, fit_tensor, on_device
from angcal.estimators.one_fit import warn_about_repeats
from angcal.estimators.several import SeveralClasses
from angcal.estimators.targets import encode_binary
from angcal.links import Link, Logit, as_link
from angcal.links.multiclass import SeveralLink
from angcal.notices import PoolWarning, warn
from angcal.observables import observe
from angcal.pools import Pool, open_pool

# Large unlabelled arrays are shared between clones; they are never written to.
SHARED_PARAMETERS = ("pool", "covariance")
# A pool whose columns typically sit half a standard deviation away was not made like X.
LARGEST_SHIFT, LARGEST_SCALE_RATIO = 0.5, 2.0


class AngularCalibratedClassifier(SeveralClasses):
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
        have "auto" and "loo", which are the same to them, and take neither ``covariance``,
        ``pool``, ``sign_holdout`` nor ``polish``.
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
    observables_ : Observables, SeveralObservables or list of Observables
        ``loo_scores``, ``leverages``, ``degrees_of_freedom`` and more. A multinomial fit has blocks
        in place of numbers, one-vs-rest heads have a list of one entry per class.
    curve_ : CalibratedCurve, AveragedCurve, ConstantCurve or SeveralPredictor
        The map from score to probability, or from all scores to all probabilities. Where a logit or
        probit link is estimated it is an average over what the labels leave open, ``link_`` and
        ``angle_`` being the likeliest; other families have the curve of these two.
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
        Products with X that a fit on a device took; for tensors only.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn

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
        params = {
            name: value if name in SHARED_PARAMETERS else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        if not isinstance(self.covariance, np.ndarray):
            params["covariance"] = clone(self.covariance, safe=False)
        copy = type(self)(**params)
        for attribute in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, attribute):
                setattr(copy, attribute, deepcopy(getattr(self, attribute)))
        return copy

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, pool: Any = None
    ) -> AngularCalibratedClassifier:
        """Fit the base model (unless frozen), estimate angle and link, build the curve.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or dataframe
        y : (n,) array of two or more classes
        sample_weight : (n,) array, optional
        pool : (m, d) array, optional
            Overrides the constructor's pool. It exists for
            ``Pipeline(..., transform_input=["pool"])`` with metadata routing, which sends it
            through the transformers in front of this classifier.

        Returns
        -------
        self
        """
        link, known = self._resolve_link()
        self._check_options()
        self._check_observables()
        if on_device(X):
            self._refuse_on_device(pool)
            return self._fit_on_device(X, y, sample_weight, link, known)
        X, labels, weights = self._validate(X, y, sample_weight)
        several = len(self.classes_) > 2
        if several:
            self._refuse_for_several(pool)
        else:
            self._refuse_several_link()
        self._fit_base(X, labels, weights, weighted=sample_weight is not None)
        rows = self._training_rows(X)
        if several:
            self._fit_several(rows, labels.astype(np.intp), weights)
            return self
        options = Options(
            link=link,
            link_known=known,
            angle=self.angle,
            covariance=self.covariance,
            pool=self._validate_pool(self.pool if pool is None else pool, rows),
            sign_holdout=self._validate_holdout(),
            confidence=self.confidence,
        )
        fit = self._read(rows, labels, weights)
        self.observables_ = observe(fit)
        warn_about_repeats(fit.X, self.observables_.leverage_shares)
        result = calibrate(fit, self.observables_, weights, options)
        _warn_if_unlike(options.pool, rows)
        self.angle_, self.link_, self.scale_ = result.angle, result.link, result.scale
        self.curve_ = result.curve
        # A fit on three or more classes may have left it, and it is theirs alone.
        if hasattr(self, "calibration_"):
            del self.calibration_
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated P(y = class | x), one column per class in the order of ``classes_``."""
        if self._is_several(X):
            return self._several_probabilities(X)
        return super().predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        """The class whose calibrated probability is largest."""
        if self._is_several(X):
            return self.classes_[np.argmax(self._several_probabilities(X), axis=1)]
        return super().predict(X)

    def _is_several(self, X: Any) -> bool:
        """Whether this was fitted on three or more classes; tensors are for two."""
        check_is_fitted(self, "curve_")
        if len(self.classes_) == 2:
            return False
        if on_device(X):
            raise TypeError("Three and more classes do not take tensors; pass NumPy arrays.")
        return True

    def _refuse_on_device(self, pool: Any) -> None:
        """Name an option that a fit on a device cannot follow."""
        given = {name: getattr(self, name) for name in ("covariance", "pool", "sign_holdout")}
        given["pool"] = given["pool"] if pool is None else pool
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} is not taken with tensors; leave it None, or pass NumPy arrays."
                )
        fixed = {"observables": "exact", "angle": "observable", "polish": True}
        for name, value in fixed.items():
            if isinstance(getattr(self, name), type(value)) and getattr(self, name) == value:
                raise ValueError(
                    f"{name}={value!r} is not possible with tensors; leave its default, or pass "
                    "NumPy arrays."
                )

    def _fit_on_device(
        self, X: Any, y: Any, sample_weight: Any, link: Link, known: bool
    ) -> AngularCalibratedClassifier:
        """As `fit`, for a tensor: the base model is fitted and surveyed where X is."""
        check_tensor(X)
        labels, weights = self._validate_targets(X, y, sample_weight)
        model = self._model()
        found = fit_tensor(X, labels, weights, model)
        options = Options(link=link, link_known=known, angle="loo" if known else "auto")
        if not isinstance(self.angle, str):
            options = replace(options, angle=self.angle)
        options = replace(options, confidence=self.confidence)
        result = calibrate(found.fit, found.observables, weights, options)
        self.n_features_in_ = int(X.shape[1])
        self.coef_, self.intercept_ = found.coef, found.intercept
        self.estimator_ = clone(model)
        self.estimator_.coef_, self.estimator_.intercept_ = found.coef, found.intercept
        self.estimator_.classes_ = self.classes_
        self.estimator_.n_iter_ = np.array([found.newton_steps])
        self.observables_, self.passes_ = found.observables, found.passes
        self.distance_to_optimum_ = np.nan
        self.angle_, self.link_, self.scale_ = result.angle, result.link, result.scale
        self.curve_ = result.curve
        return self

    def _validate_targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Floats]:
        """Labels in {0, 1} and weights on the host, one per row of X."""
        y = y.cpu() if hasattr(y, "cpu") else y
        self.classes_, labels = encode_binary(column_or_1d(np.asarray(y), warn=True))
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)} labels; give one each.")
        weights = np.ones(len(labels))
        if sample_weight is not None:
            weights = on_host(sample_weight)
            usable = weights.shape == labels.shape and np.all(np.isfinite(weights) & (weights > 0))
            if not usable:
                raise ValueError(
                    "sample_weight must be finite and positive, one per row of X, for tensors."
                )
        self._require_rows_and_classes(labels)
        return labels, weights

    def _resolve_link(self) -> tuple[Link, bool]:
        """(link, whether it is known): a name or None is a family, anything else is known."""
        if self.link is None or isinstance(self.link, SeveralLink):
            return Logit(), False
        return as_link(self.link), not isinstance(self.link, str)

    def _check_options(self) -> None:
        named = isinstance(self.angle, str) and self.angle in ANGLE_METHODS
        if not named and not isinstance(self.angle, Real):
            raise ValueError(
                f"angle={self.angle!r} is not a method; use one of {list(ANGLE_METHODS)} or the "
                "cosine as a number in [-1, 1]."
            )
        if isinstance(self.angle, Real) and not -1.0 <= self.angle <= 1.0:
            raise ValueError(f"angle={self.angle!r} is meant as a cosine; it must lie in [-1, 1].")
        if not (isinstance(self.confidence, Real) and 0.0 < self.confidence < 1.0):
            raise ValueError(
                f"confidence={self.confidence!r} must lie between 0 and 1; 0.95 means 95 %."
            )

    def _rows_like_X(self, rows: Any, name: str) -> Matrix:
        """Unlabelled rows, checked against X's columns and sent through the transformers."""
        try:
            # Columns only: entries are checked below, under the argument's own name.
            validate_data(self, rows, reset=False, skip_check_array=True)
        except ValueError as error:
            raise ValueError(
                f"{name} does not fit X: {error} Pass rows with the same columns as X."
            ) from error
        try:
            return self._transform(rows, name)
        except ValueError as error:
            # A transformer calls whatever it is given X.
            if name in str(error):
                raise
            raise ValueError(f"{name}: {error}") from error

    def _validate_pool(self, pool: Any, X: Matrix) -> Pool | None:
        """The pool, whose blocks are checked and transformed as they are read."""
        if pool is None:
            return None
        opened = open_pool(pool, X.shape[1], prepare=self._rows_like_X, min_rows=2)
        known = self.covariance is not None and not isinstance(self.covariance, BaseEstimator)
        if isinstance(self.angle, str) and self.angle != "loo" and not known:
            opened.require_many_passes(f"angle={self.angle!r}")
        return opened

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


def _warn_if_unlike(pool: Pool | None, X: Matrix) -> None:
    """Warn where pool and X are typically centred or scaled differently: a missed transformer."""
    if pool is None:
        return
    # What the pass for the scores has found; X is surveyed in the same bounded blocks.
    rows = open_pool(X, X.shape[1]).columns
    pool_mean, pool_sd = pool.columns.mean, pool.columns.deviation
    mean, sd = rows.mean, rows.deviation
    moving = (sd > 0) & (pool_sd > 0)
    if not moving.any():
        return
    shift = np.median(np.abs(pool_mean - mean)[moving] / np.maximum(sd, pool_sd)[moving])
    ratio = np.exp(np.median(np.abs(np.log(pool_sd[moving] / sd[moving]))))
    # The median forgives a few wild columns, the total forgives many rare ones, whose few
    # non-zero entries say little about their spread: only both together tell.
    total = np.exp(np.abs(np.log(np.linalg.norm(pool_sd) / np.linalg.norm(sd))))
    # What two samples of these sizes differ by anyway, twice.
    noise = 2.0 * np.sqrt(1.0 / rows.count + 1.0 / pool.n_rows)
    shifted = shift > LARGEST_SHIFT + noise
    if shifted or min(ratio, total) > LARGEST_SCALE_RATIO * np.exp(noise):
        warn(
            f"The pool does not look like X: its columns are typically {shift:.1f} standard "
            f"deviations away and scaled by a factor {ratio:.1f}. If X went through transformers "
            "first, put the whole Pipeline inside: AngularCalibratedClassifier(make_pipeline("
            "StandardScaler(), LogisticRegression()), pool=raw_pool).",
            PoolWarning,
        )
