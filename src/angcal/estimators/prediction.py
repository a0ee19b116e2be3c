"""From new rows to probabilities: what every calibrated classifier does once it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from angcal._typing import Floats, Matrix
from angcal.arrays import is_dask, is_tensor, linear_scores, namespace_of, on_host, placed_like
from angcal.curve import ConstantCurve, TabulatedCurve
from angcal.estimators.base_model import takes_raw_rows
from angcal.estimators.prevalence import (
    LeftOut,
    Prevalence,
    estimated_prevalence,
    given_prevalence,
    warn_if_hardly_known,
)
from angcal.estimators.training import ARRAY_RULES, check_tensor, on_device
from angcal.multiclass import ClassMap
from angcal.sklearn_problems import unwrap

# -- on Dask collections -------------------------------------------------------------------------


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of rows that returns a lazy Dask array where its rows are a Dask collection.

    Predictions go row by row, so that they need no client and no more memory than a block. What
    travels to the workers is the classifier without anything that grows with its training rows.
    """

    @wraps(method)
    def predict(self: Any, X: Any, *options: Any, **named: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *options, **named)
        return _block_by_block(self, method.__name__, X, *options, **named)

    return predict


def _block_by_block(classifier: Any, name: str, X: Any, *options: Any, **named: Any) -> Any:
    check_is_fitted(classifier, "curve_")
    own = getattr(classifier.without_training(), name)
    shape = _shape_of_row(name, len(classifier.classes_))
    dtype = classifier.classes_.dtype if name == "predict" else np.dtype(np.float64)

    def predict(rows: Any) -> Any:
        return own(rows, *options, **named)

    if not hasattr(X, "map_blocks"):
        return X.map_partitions(predict, meta=np.empty((0, *shape), dtype=dtype))
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix; got {X.ndim} dimensions. Reshape it to (n, d).")
    rows = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    chunks = (rows.chunks[0], *((size,) for size in shape))
    axes = {0: {"drop_axis": 1}, 1: {}, 2: {"new_axis": 2}}[len(shape)]
    meta = np.empty((0,) * (1 + len(shape)), dtype=dtype)
    return rows.map_blocks(predict, dtype=dtype, meta=meta, chunks=chunks, **axes)


def _shape_of_row(name: str, K: int) -> tuple[int, ...]:
    """What a method returns for a row."""
    if name == "predict_interval":
        return (2,) if K == 2 else (K, 2)
    wide = name in ("predict_proba", "predict_log_proba") or (name != "predict" and K > 2)
    return (K,) if wide else ()


# Arrays that grow with the training rows; predictions need none of them.
OF_TRAINING = ("observables_", "_left_out")
# Names that are left out of states, or None in them.
_left_out_of_states: ContextVar[tuple[str, ...]] = ContextVar("left out of states", default=())


@contextmanager
def states_for_files(keep_observables: bool) -> Iterator[None]:
    """Within it, states of classifiers, wherever they are nested, hold no rows of data.

    With `keep_observables` they hold ``observables_`` and leave-one-out probabilities all the same.
    """
    # Arguments that hold rows or a matrix of the data. A covariance estimator has neither yet.
    names = ("pool", "sign_holdout", "covariance")
    token = _left_out_of_states.set(names if keep_observables else names + OF_TRAINING)
    try:
        yield
    finally:
        _left_out_of_states.reset(token)


def _of_arrays(fitted: Any) -> Any:
    """A fitted model whose attributes are arrays instead of tensors."""
    found = copy(fitted)
    vars(found).update((k, on_host(v)) for k, v in vars(fitted).items() if is_tensor(v))
    return found


class CalibratedPrediction(ClassifierMixin, BaseEstimator):
    """P(y | x) = F(xᵀŵ + b̂) of a fitted classifier with ``coef_``, ``intercept_`` and ``curve_``.

    ``curve_`` maps scores to probabilities: one score of each row to P(y = classes_[1]), or (n, K)
    scores to (n, K) probabilities. A base model in ``estimator_`` that is a pipeline transforms
    the rows first. A copy by `with_prevalence` has ``prevalence_``, and is for other shares of the
    classes than those of the training labels, which ``curve_`` itself is for.
    """

    estimator_: Any
    curve_: Any
    class_counts_: Floats
    prevalence_: Prevalence
    coef_: Any
    intercept_: Any
    classes_: np.ndarray

    def _far_options(self) -> dict[str, Any]:
        """What a fit to rows in blocks is to be given besides."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # Rows that ``plan`` reads: no file and no copy is to grow by them.
        state.pop("_pilot", None)
        unsaved = set(state.pop("_unsaved_parameters", ()))
        if _left_out_of_states.get():
            # A file knows no device: what was fitted to a tensor is loaded as arrays.
            state.update((k, on_host(v)) for k, v in state.items() if is_tensor(v))
            if is_tensor(getattr(state.get("estimator_"), "coef_", None)):
                state["estimator_"] = _of_arrays(state["estimator_"])
        for name in _left_out_of_states.get():
            if name in OF_TRAINING and name in state:
                del state[name]
                state["_saved_without_training"] = True
            elif state.get(name) is not None and not isinstance(state[name], BaseEstimator):
                state[name] = None
                unsaved.add(name)
        return {**state, "_unsaved_parameters": sorted(unsaved)} if unsaved else state

    if not TYPE_CHECKING:  # To a type checker it would be every attribute.

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            of_training = (*OF_TRAINING, "loo_proba_", "plain_loo_proba_")
            if name in of_training and "_saved_without_training" in vars(self):
                message = (
                    f"{name} was not saved with this model, so that its file does not grow with "
                    "the training rows; save it with angcal.persistence.save(model, path, "
                    "keep_observables=True), or fit it again."
                )
            raise AttributeError(message, name=name, obj=self)

    def without_training(self) -> Any:
        """The same classifier without its pool and what grows with the training rows.

        Returns
        -------
        classifier
            Of the same class, with the same predictions; what `angcal.persistence.save` writes.
        """
        with states_for_files(keep_observables=False):
            return deepcopy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_many_classes()
        tags.input_tags.sparse = True
        return tags

    def _takes_many_classes(self) -> bool:
        """Whether three and more classes are welcome."""
        raise NotImplementedError

    @lazy_on_dask
    def predict_proba(self, X: Any) -> Floats:
        """Calibrated P(y = class | x).

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor or Dask collection
            New rows.

        Returns
        -------
        (n, K) array
            One column for each class, in the order of ``classes_``; a tensor where X is one, and
            a Dask array, not yet computed, where X is a Dask array or dataframe.
        """
        check_is_fitted(self, "curve_")
        p = self._probabilities(X)
        return self.prevalence_.apply(p) if hasattr(self, "prevalence_") else p

    def with_prevalence(self, prevalence: Any) -> Self:
        """A copy for known shares of the classes, p'_k ∝ p_k·π'_k/π_k with π those of training.

        It holds where rows of a class look as in training, and only their shares have moved.

        Parameters
        ----------
        prevalence : float, array-like of shape (K,) or mapping
            Share of ``classes_[1]`` for two classes; one share for each class, in the order of
            ``classes_``; or a mapping from class to share.

        Returns
        -------
        fitted classifier
            With ``prevalence_``; this one stays as it is.
        """
        check_is_fitted(self, "curve_")
        return self._copy_for(given_prevalence(prevalence, self.classes_, self.class_counts_))

    def with_prevalence_from(self, X_target: Any) -> Self:
        """A copy for the shares of the classes that rows without labels are likeliest to have.

        They maximize Σ_i log Σ_k π'_k p_k(x_i)/π_k, found by EM [1]_.

        Parameters
        ----------
        X_target : (n, d) array, sparse matrix, dataframe or tensor
            Rows of the kind that are to be predicted, at least ten.

        Returns
        -------
        fitted classifier
            With ``prevalence_``: the shares, their standard errors, and the p-value of a test of
            whether they are those of training. This one stays as it is.

        References
        ----------
        .. [1] Saerens, Latinne, Decaestecker (2002), Adjusting the outputs of a classifier to new a
           priori probabilities, Neural Computation 14.
        """
        as_trained = copy(self)
        as_trained.__dict__.pop("prevalence_", None)
        p = on_host(as_trained.predict_proba(X_target))
        found = estimated_prevalence(p, self.class_counts_, self._training_left_out())
        warn_if_hardly_known(found, self.class_counts_, self.classes_)
        return self._copy_for(found)

    def _training_left_out(self) -> LeftOut | None:
        """The training rows as the model left them out, where they are in memory."""
        pilot, p = vars(self).get("_pilot"), getattr(self, "loo_proba_", None)
        if pilot is None or p is None or len(p) != len(pilot[1].codes):
            return None
        rows, training, _ = pilot
        codes = training.codes.astype(np.intp)
        return LeftOut(p, codes, training.weights, training.groups_of(rows))

    def _copy_for(self, prevalence: Prevalence) -> Self:
        other = copy(self)
        other.prevalence_ = prevalence
        # The training rows of the original, which other shares are estimated with.
        other._pilot = vars(self).get("_pilot")
        return other

    @lazy_on_dask
    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y = class | x), −∞ where a calibrator says 0.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor or Dask collection
            New rows.

        Returns
        -------
        (n, K) array
            Logarithms of `predict_proba`.
        """
        p = self.predict_proba(X)
        if on_device(X):
            return namespace_of(p).log(p)
        with np.errstate(divide="ignore"):
            return np.log(p)

    @lazy_on_dask
    def decision_function(self, X: Any) -> Floats:
        """Calibrated log-odds log P₁ − log P₀ for two classes, log P of each class for more.

        `predict` takes the second of two classes where it is above 0, and the largest of more.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor or Dask collection
            New rows.

        Returns
        -------
        (n,) or (n, K) array
            One column for each class where there are more than two.
        """
        logs = self.predict_log_proba(X)
        # Isotonic curves may give 0; a score has to be a number.
        logs = namespace_of(logs).clip(logs, -700.0, 0.0)
        return logs if len(self.classes_) > 2 else logs[:, 1] - logs[:, 0]

    @lazy_on_dask
    def predict(self, X: Any) -> np.ndarray:
        """The class whose calibrated probability is largest.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor or Dask collection
            New rows.

        Returns
        -------
        (n,) array
            Entries of ``classes_``.
        """
        p = self.predict_proba(X)
        xp, many = namespace_of(p), len(self.classes_) > 2
        place = xp.argmax(p, axis=1) if many else p[:, 1] > 0.5
        if many or not on_device(X) or self.classes_.dtype.kind not in "iufb":
            return self.classes_[on_host(place).astype(np.intp)]
        both = xp.asarray(self.classes_, device=place.device)
        return xp.where(place, both[1], both[0])

    def _probabilities(self, X: Any) -> Any:
        """(n, K) probabilities, a tensor where X is one."""
        scores = self._scores(X)
        works_anywhere = isinstance(self.curve_, ClassMap | TabulatedCurve | ConstantCurve)
        if works_anywhere or not is_tensor(scores):
            return of_each_class(self.curve_.predict(scores))
        return placed_like(of_each_class(self.curve_.predict(on_host(scores))), X)

    def _scores(self, X: Any) -> Any:
        """u = xᵀŵ + b̂ of new rows, (n,) or (n, K): a tensor where X is one, doubles elsewhere."""
        if on_device(X):
            return self._device_scores(X)
        rows = self._unread_rows(X)
        coef = self.coef_[0] if len(self.coef_) == 1 else self.coef_.T
        with np.errstate(invalid="ignore", over="ignore"):
            scores = linear_scores(rows, coef, self.intercept_)
            # A weight that is not 0 hands NaN and infinity on to the score, so that a finite
            # score vouches for its row and X need not be read twice.
            if not (coef.all() and np.isfinite(scores).all()):
                check_array(rows, estimator=self, input_name="X", **ARRAY_RULES)
        return scores

    def _unread_rows(self, X: Any) -> Matrix:
        """New rows as the linear model sees them, checked but for NaN and infinity."""
        rules = {**ARRAY_RULES, "ensure_all_finite": False}
        if not takes_raw_rows(getattr(self, "estimator_", None)):
            return validate_data(self, X, reset=False, **rules)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._transformed(X, **rules)

    def _transformed(self, X: Any, **rules: Any) -> Matrix:
        """Rows as the linear model sees them: through the pipeline's transformers, and checked."""
        transformer, _ = unwrap(getattr(self, "estimator_", None))
        rows = X if transformer is None else transformer.transform(X)
        return check_array(rows, **{**ARRAY_RULES, **rules})

    def _device_scores(self, X: Any) -> Any:
        """Scores of a tensor, one too."""
        if takes_raw_rows(getattr(self, "estimator_", None)):
            raise TypeError(
                f"{type(self).__name__} with a pipeline does not take tensors; pass NumPy arrays."
            )
        check_tensor(X, self.n_features_in_)
        weights, intercept = (placed_like(on_host(v), X) for v in (self.coef_, self.intercept_))
        scores = X @ weights.T + intercept
        return scores if len(self.classes_) > 2 else scores[:, 0]


def of_each_class(found: Any) -> Any:
    """(n, K) probabilities, of which two classes have the second only; where they are."""
    if found.ndim == 2:
        return found
    if is_tensor(found):
        return namespace_of(found).stack([1.0 - found, found], axis=1)
    both = np.empty((found.size, 2))
    np.subtract(1.0, found, out=both[:, 0])
    both[:, 1] = found
    return both
