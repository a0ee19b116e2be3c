"""What every calibrator of one linear fit shares: validation, the base fit, reading it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    _safe_indexing,
    check_array,
    check_consistent_length,
    column_or_1d,
    get_tags,
)
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from angcal._typing import Floats, Matrix
from angcal.arrays import on_host, placed_like, product, refuse_dask
from angcal.curve import ConstantCurve, TabulatedCurve
from angcal.estimators.device import check_tensor, classes_on_device, on_device, probabilities
from angcal.estimators.targets import encode_binary, encode_several
from angcal.notices import OptimalityWarning, RepeatedRowsWarning, warn
from angcal.problem import LinearFit, check_separable
from angcal.sklearn_problems import LinearHead, read_fitted, unwrap
from angcal.solvers.minimize import minimize
from angcal.threads import side_pools_at_rest

SMALLEST_SAMPLE = 5
# Scores that still have this share of their spread to move are not those of the optimum. Under a
# weak penalty twice as much already moves the angle by a good part of its standard error.
LARGEST_DISTANCE = 0.02
# Copies of rows bias leave-one-out scores where they are common and the fit follows single rows.
LARGEST_REPEATED_SHARE, LARGEST_FIT_SHARE = 0.25, 0.1
OBSERVABLES = ("auto", "exact", "randomised")
ARRAY_RULES: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_min_samples": 1,
}


class OneFitCalibrator(ClassifierMixin, BaseEstimator):
    """Base of the calibrators: fits or reads one linear model, then maps its score.

    Subclasses have the parameters ``estimator`` and ``polish`` and write ``fit``, which ends by
    setting ``curve_``: an object with ``predict(scores)``.
    """

    estimator: Any
    polish: bool
    observables: str
    curve_: Any
    # Whether this kind of calibrator knows what to do with three and more classes.
    _knows_several = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_several()
        tags.input_tags.sparse = True
        return tags

    # -- validation --------------------------------------------------------------------------

    def _takes_several(self) -> bool:
        """Whether three and more classes are welcome: by this calibrator and by its base model."""
        model = self._model()
        while isinstance(model, FrozenEstimator | Pipeline):
            frozen = isinstance(model, FrozenEstimator)
            model = model.estimator if frozen else model.steps[-1][1]
        if not self._knows_several or not isinstance(model, BaseEstimator):
            return False
        about = get_tags(model).classifier_tags
        return about is not None and about.multi_class

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Floats, Floats]:
        """(X, codes of the classes, weights), rows of zero weight dropped."""
        for name, values in {"X": X, "y": y, "sample_weight": sample_weight}.items():
            refuse_dask(values, name)
        if self._takes_raw_rows():
            # Whatever the pipeline's first step accepts is welcome here too.
            validate_data(self, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(self, X, y, **ARRAY_RULES)
        encode = encode_several if self._takes_several() else encode_binary
        self.classes_, labels = encode(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weights > 0
        if not kept.any():
            raise ValueError("sample_weight is zero everywhere; at least five rows must count.")
        if not kept.all():
            X = _safe_indexing(X, np.flatnonzero(kept))
            labels, weights = labels[kept], weights[kept]
            if len(self.classes_) > 2:
                # A class whose rows all have no weight is as if it had never been there.
                present, places = np.unique(labels, return_inverse=True)
                self.classes_ = self.classes_[present.astype(int)]
                labels = places.astype(np.float64)
        self._require_rows_and_classes(labels)
        return X, labels, weights

    def _require_rows_and_classes(self, labels: Floats) -> None:
        if labels.min() == labels.max():
            present = self.classes_[int(labels[0])]
            raise ValueError(
                f"y has one class only ({present!r}); a classifier needs rows of two classes."
            )
        if len(labels) < SMALLEST_SAMPLE:
            raise ValueError(
                f"X has {len(labels)} rows with positive weight; at least {SMALLEST_SAMPLE} "
                "samples are needed to estimate an angle."
            )

    # -- the base model ----------------------------------------------------------------------

    def _model(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _is_fitted_elsewhere(self) -> bool:
        return isinstance(self._model(), FrozenEstimator | LinearHead)

    def _takes_raw_rows(self) -> bool:
        """Whether rows pass through a pipeline first, so that frames and strings may go in."""
        model = self._model()
        while isinstance(model, FrozenEstimator):
            model = model.estimator
        return isinstance(model, Pipeline)

    def _fit_base(self, X: Any, labels: Floats, weights: Floats, weighted: bool) -> None:
        """Fit a clone of the base model, or take the one that was trained elsewhere."""
        model, y = self._model(), self.classes_[labels.astype(int)]
        if self._is_fitted_elsewhere():
            self.estimator_ = model
            _check_classes(unwrap(model)[1], self.classes_)
            return
        self.estimator_ = _fit_clone(model, X, y, weights if weighted else None)

    def _training_rows(self, X: Any) -> Matrix:
        """The validated X as the linear model sees it; not validated again where it is as given."""
        transformer, _ = unwrap(self.estimator_)
        return X if transformer is None and not self._takes_raw_rows() else self._transform(X)

    def _check_observables(self) -> None:
        if self.observables not in OBSERVABLES:
            raise ValueError(
                f"observables={self.observables!r} must be one of {', '.join(OBSERVABLES)}."
            )

    def _transform(self, X: Any, name: str = "X") -> Matrix:
        """Rows as the linear model sees them: through the pipeline's transformers."""
        transformer, _ = unwrap(self.estimator_)
        rows = X if transformer is None else transformer.transform(X)
        return check_array(rows, input_name=name, **ARRAY_RULES)

    def _read(self, X: Matrix, labels: Floats, weights: Floats) -> LinearFit:
        """The linear fit behind the base model, polished or reported if it is not optimal."""
        _, linear = unwrap(self.estimator_)
        fit = replace(read_fitted(linear, X, labels, weights), hessian_method=self.observables)
        _check_columns(fit)
        check_separable(fit)
        # With all weights at zero the scores have no spread to measure by.
        self.distance_to_optimum_ = fit.distance_to_optimum if np.any(fit.coef) else np.nan
        if self.polish:
            exact = minimize(replace(fit, hessian_method="exact"))
            fit = replace(exact, hessian_method=self.observables)
        elif self.distance_to_optimum_ > LARGEST_DISTANCE:
            warn(
                f"The base model is not at the optimum of its objective: its scores would still "
                f"move by {self.distance_to_optimum_:.1%} of their standard deviation. The "
                f"observables assume the optimum; pass {self._way_to_the_optimum()}.",
                OptimalityWarning,
            )
        self.coef_, self.intercept_ = fit.coef[None, :], np.array([fit.intercept])
        return fit

    def _way_to_the_optimum(self) -> str:
        if self._is_fitted_elsewhere():
            return (
                "the rows it was trained on and its own penalty, or polish=True to finish the fit"
            )
        return "polish=True to finish the fit, or lower the model's tolerance"

    # -- prediction --------------------------------------------------------------------------

    def _scores(self, X: Any) -> Floats:
        """u = xᵀŵ + b̂ of new rows, in double precision whatever theirs is."""
        rows, coef = self._unread_rows(X), self.coef_[0]
        with np.errstate(invalid="ignore", over="ignore"):
            scores = product(rows, coef) + self.intercept_[0]
            # A weight that is not 0 hands NaN and infinity on to the score, so that a finite
            # score vouches for its row and X need not be read twice.
            if not (coef.all() and np.isfinite(scores).all()):
                check_array(rows, estimator=self, input_name="X", **ARRAY_RULES)
        return scores

    def _unread_rows(self, X: Any) -> Matrix:
        """New rows as the linear model sees them, checked but for NaN and infinity."""
        rules = {**ARRAY_RULES, "ensure_all_finite": False}
        if not self._takes_raw_rows():
            return validate_data(self, X, reset=False, **rules)
        validate_data(self, X, reset=False, skip_check_array=True)
        transformer, _ = unwrap(self.estimator_)
        return check_array(X if transformer is None else transformer.transform(X), **rules)

    def _positive(self, X: Any) -> Floats:
        """Calibrated P(y = classes_[1] | x)."""
        check_is_fitted(self, "curve_")
        return self.curve_.predict(self._scores(X))

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated P(y = class | x), one column per class in the order of ``classes_``."""
        if on_device(X):
            return self._probabilities_on_device(X)
        positive = self._positive(X)
        both = np.empty((positive.size, 2))
        np.subtract(1.0, positive, out=both[:, 0])
        both[:, 1] = positive
        return both

    def predict(self, X: Any) -> np.ndarray:
        """The class whose calibrated probability is larger."""
        if on_device(X):
            return classes_on_device(self.classes_, self._probabilities_on_device(X)[:, 1] > 0.5)
        # Before classes_ is looked up: it does not exist either on an unfitted model.
        likely = self._positive(X) > 0.5
        return self.classes_[likely.astype(int)]

    def _probabilities_on_device(self, X: Any) -> Any:
        """As `predict_proba`, a tensor where X is one."""
        check_is_fitted(self, "curve_")
        if self._takes_raw_rows() or not isinstance(self.curve_, TabulatedCurve | ConstantCurve):
            raise TypeError(
                f"{type(self).__name__} with a pipeline or another curve than the angular one does "
                "not take tensors; pass NumPy arrays."
            )
        check_tensor(X, self.n_features_in_)
        coef = placed_like(on_host(self.coef_), X)[0, :]
        return probabilities(self.curve_, X @ coef + float(on_host(self.intercept_)[0]))


def _check_classes(trained: Any, classes: np.ndarray) -> None:
    """Scores of a model trained elsewhere only mean something for the labels it knows."""
    known = np.asarray(getattr(trained, "classes_", classes))
    if np.array_equal(known, classes):
        return
    way_out = "Use the labels it was trained with."
    if isinstance(trained, LinearHead):
        way_out = f"Pass classes={classes.tolist()} to LinearHead, the positive label last"
        if np.array_equal(known[::-1], classes):
            way_out += ", and -coef and -intercept to turn its score around"
        way_out += "."
    raise ValueError(
        f"y holds the classes {classes.tolist()}, but the fitted model knows {known.tolist()}. "
        f"{way_out}"
    )


def warn_about_repeats(X: Matrix, followed: Floats) -> None:
    """Warn if leaving one row out leaves its copies in, where that matters.

    Copies are harmless when the fit does not follow single rows, or only the copied ones have no
    leverage (rows of zeros). Rows are told apart by one random projection: equal rows have equal
    ones, up to rounding.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    followed : (n,) array
        h_iD_i, each row's share of the degrees of freedom.
    """
    if followed.sum() < LARGEST_FIT_SHARE * X.shape[0]:
        return
    marks = product(X, np.random.default_rng(0).normal(size=X.shape[1]))
    grid = 1e-9 * max(float(np.abs(marks).max()), np.finfo(float).tiny)
    _, group, sizes = np.unique(np.round(marks / grid), return_inverse=True, return_counts=True)
    repeated = sizes[group] > 1
    if followed[repeated].sum() > LARGEST_REPEATED_SHARE * followed.sum():
        warn(
            f"{int(repeated.sum())} of {len(marks)} rows of X have exact copies. Leaving a row out "
            "leaves its copies in, so probabilities will be too confident. Drop the copies, or "
            "give each distinct row a sample_weight.",
            RepeatedRowsWarning,
        )


def _fit_clone(model: Any, X: Any, y: Any, sample_weight: Floats | None) -> Any:
    if _leaves_scipy_idle(model):
        with side_pools_at_rest():
            return _fit_weighted_clone(model, X, y, sample_weight)
    return _fit_weighted_clone(model, X, y, sample_weight)


def _leaves_scipy_idle(model: Any) -> bool:
    """Whether a fit asks nothing heavy of SciPy: L-BFGS, perhaps behind scalers and encoders.

    Other solvers and transformers factorise matrices with SciPy and have use for all its threads.
    """
    if isinstance(model, Pipeline):
        front = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        light = all(type(step).__module__.startswith("sklearn.preprocessing") for step in front)
        return light and _leaves_scipy_idle(model.steps[-1][1])
    return isinstance(model, LogisticRegression) and model.solver == "lbfgs"


def _fit_weighted_clone(model: Any, X: Any, y: Any, sample_weight: Floats | None) -> Any:
    if sample_weight is None:
        return clone(model).fit(X, y)
    if isinstance(model, Pipeline):
        return _fit_pipeline(model, X, y, sample_weight)
    if not has_fit_parameter(model, "sample_weight"):
        raise TypeError(
            f"sample_weight was given, but {type(model).__name__}.fit does not take one."
        )
    return clone(model).fit(X, y, sample_weight=sample_weight)


def _fit_pipeline(pipeline: Pipeline, X: Any, y: Any, sample_weight: Floats) -> Pipeline:
    """Fit step by step, so that weights reach the linear model whatever the routing settings."""
    fitted, rows = clone(pipeline), X
    if len(fitted.steps) > 1:
        front = fitted[:-1]
        rows = front.fit_transform(X, y)
        # With a memory the pipeline fits copies of its steps, in the slice only.
        fitted.steps[:-1] = front.steps
    name, last = fitted.steps[-1]
    fitted.steps[-1] = (name, _fit_clone(last, rows, y, sample_weight))
    return fitted


def _check_columns(fit: LinearFit) -> None:
    """Name the constant columns that make an unpenalised fit singular."""
    if np.any(fit.penalty.curvature(fit.coef)) or fit.penalty.l1 > 0:
        return
    X = fit.X
    if sparse.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    constant = np.flatnonzero(low == high)
    if len(constant) and fit.fit_intercept:
        raise ValueError(
            f"X has {len(constant)} constant columns (the first are {constant[:5].tolist()}) and "
            "the fit has no penalty, so its weights there are arbitrary. Drop them, or add a "
            "ridge penalty."
        )
