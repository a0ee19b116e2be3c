"""The classifiers of angcal for Dask arrays and dataframes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from angcal import estimators
from angcal.arrays import is_dask
from angcal.dask.engine import ClusterError, Engine
from angcal.dask.rows import open_rows
from angcal.estimators.far import far_intercept
from angcal.estimators.options import check_options, is_for_many_classes
from angcal.estimators.prediction import states_for_files
from angcal.estimators.training import Training, checked_groups, far_training, refuse_far
from angcal.pools import RowsPool

# What says where rows are, and is no part of a fitted model.
PLACES = ("client", "persist", "callback")


class _OnDask:
    """What the classifiers of this module share."""

    _local: ClassVar[Any]
    client: Any
    persist: Any
    callback: Any

    def __getstate__(self) -> dict[str, Any]:
        # A client is a connection of this process; the others go with it.
        state: Any = super().__getstate__()
        return {**state, **{name: None for name in ("client", "callback") if name in state}}

    def to_local(self) -> Any:
        """The fitted classifier of :mod:`angcal`, small: without anything of the training rows.

        Returns
        -------
        classifier
            Of the class of the same name in :mod:`angcal`, with the same predictions. It can be
            saved by `angcal.persistence.save`.
        """
        with states_for_files(keep_observables=False):
            state = deepcopy(self.__getstate__())
        local = self._local.__new__(self._local)
        local.__setstate__({k: v for k, v in state.items() if k not in PLACES})
        return local

    without_training = to_local

    def _open(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        pool: Any,
        groups: Any,
        intercept: bool,
        many: bool,
    ) -> tuple[Training, Any]:
        """Rows, labels, weights and groups, and the pool."""
        engine, given = Engine(self.client), (y, sample_weight, groups)
        named = [isinstance(v, str) for v in given[:2]]
        named.append(isinstance(groups, str) and groups != "copies")
        columns = [name for name, is_name in zip(given, named, strict=True) if is_name]
        opened = open_rows(X, intercept, engine, self.persist, columns)
        labels, weights, together = (
            opened.named[v] if is_name else _here(v, engine)
            for v, is_name in zip(given, named, strict=True)
        )
        together = checked_groups(together, labels)
        training = far_training(self, opened.rows, labels, weights, many, together)
        if opened.features is not None:
            self.feature_names_in_ = np.array(opened.features, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if is_dask(pool):
            pool = self._open_pool(pool, opened.features, engine)
        return training, pool

    def _open_pool(self, pool: Any, features: list[Any] | None, engine: Engine) -> RowsPool:
        if features is not None and hasattr(pool, "columns"):
            pool = pool[features]
        rows = open_rows(pool, False, engine, self.persist).rows
        if rows.shape[1] != self.n_features_in_:  # type: ignore[attr-defined]
            raise ValueError(
                f"pool has {rows.shape[1]} columns, but X has "
                f"{self.n_features_in_}. Pass rows with the same columns as X."  # type: ignore[attr-defined]
            )
        return RowsPool(rows)


def _here(values: Any, engine: Engine) -> Any:
    """Labels or weights in the memory of this process."""
    if not is_dask(values):
        return values
    if engine.client is None:
        return np.asarray(values.compute(scheduler="threads"))
    return np.asarray(engine.client.compute(values).result())


class AngularCalibratedClassifier(_OnDask, estimators.AngularCalibratedClassifier):
    """As :class:`angcal.AngularCalibratedClassifier`, for rows of a Dask array or dataframe.

    Newton's method and exact leverages in at most nine passes over the rows where columns are few,
    conjugate gradients and sampled rows where they are many. The answers are those of the class of
    the same name, and do not depend on the number of workers.

    Parameters
    ----------
    estimator : LogisticRegression with a ridge penalty, FrozenEstimator or LinearHead, default=None
        None means ``LogisticRegression()``. It is fitted by Newton's method, whatever its solver.
    client : distributed.Client, default=None
        None is the current client, or the threads of this machine where there is none.
    persist : bool or "auto", default="auto"
        Whether blocks are kept in memory between passes; "auto" where an array is at most half of
        it. Partitions of a dataframe are kept where this is True.
    callback : callable, default=None
        Called with the point, an array of weights and intercepts, after each Newton step. What it
        was last called with is what ``resume`` takes.
    link : Link, Softmax, callable, str or None, default=None
        As in :class:`angcal.AngularCalibratedClassifier`, like the following.
    angle : {"auto", "observable", "loo"} or float, default="auto"
        How the cosine is found.
    covariance : (d, d) array, operator or scikit-learn covariance estimator, default=None
        Σ of the features.
    pool : Dask collection, array, memory map or blocks of rows, default=None
        Unlabeled rows from the same population.
    sign_holdout : (X, y), default=None
        Labeled rows for the angle's sign, in memory.
    observables : {"auto", "exact", "randomised"}, default="auto"
        Leverages from matrices, or from sampled rows.
    confidence : float, default=0.95
        Level of ``angle_.interval``.

    Attributes
    ----------
    passes_ : int
        Passes over the rows.
    angle_, link_, observables_, curve_, scale_, loo_proba_, coef_, intercept_, classes_
        As in :class:`angcal.AngularCalibratedClassifier`. What has an entry for each row is in the
        memory of this process.

    See Also
    --------
    AngularLogisticRegressionCV : Chooses the penalty as well.

    Examples
    --------
    >>> import dask.array as da
    >>> from angcal import Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 20, link=Logit(scale=3), random_state=0)
    >>> X = da.from_array(data.X, chunks=(100, 20))
    >>> clf = AngularCalibratedClassifier().fit(X, data.y)
    >>> clf.predict_proba(X).compute().shape
    (300, 2)
    """

    _local = estimators.AngularCalibratedClassifier
    _point: Any
    _resume: Any

    def __init__(
        self,
        estimator: Any = None,
        *,
        client: Any = None,
        persist: Any = "auto",
        callback: Any = None,
        link: Any = None,
        angle: str | float = "auto",
        covariance: Any = None,
        pool: Any = None,
        sign_holdout: Any = None,
        observables: str = "auto",
        confidence: float = 0.95,
    ) -> None:
        super().__init__(
            estimator,
            link=link,
            angle=angle,
            covariance=covariance,
            pool=pool,
            sign_holdout=sign_holdout,
            observables=observables,
            confidence=confidence,
        )
        self.client = client
        self.persist = persist
        self.callback = callback

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        pool: Any = None,
        groups: Any = None,
        resume: Any = None,
    ) -> AngularCalibratedClassifier:
        """Fit the base model, estimate angle and link, build the curve.

        Parameters
        ----------
        X : Dask array or dataframe
            Training rows; an array's in chunks of rows.
        y : (n,) array, Dask array or column of a dataframe, or its name
            Their labels. With a name, all other columns of X are features.
        sample_weight : the same, optional
            Their weights, positive.
        pool : Dask collection, array or blocks of rows, optional
            Overrides the constructor's pool.
        groups : (n,) array, Dask array, name of a column or "copies", optional
            Which rows belong together. Groups whose rows lie in one block take one pass; rows of
            others are brought to this process, so that sorting rows by group pays.
        resume : array, optional
            The point to start from: what ``callback`` got last, or the ``point`` of a
            `ClusterError`.

        Returns
        -------
        AngularCalibratedClassifier
            The fitted estimator.
        """
        check_options(self)
        pool = self._given_pool(pool)
        intercept = far_intercept(self._model())
        if intercept is None:
            refuse_far()
        many = self._takes_many_classes()
        training, pool = self._open(X, y, sample_weight, pool, groups, bool(intercept), many)
        self._point, self._resume = None, resume
        try:
            self._fit_training(training, pool)
        except ClusterError as error:
            error.point = self._point
            raise
        finally:
            del self._point, self._resume
        return self

    def _far_options(self) -> dict[str, Any]:
        def watch(point: Any) -> None:
            self._point = np.array(point)
            if self.callback is not None:
                self.callback(self._point)

        return {"watch": watch, "start": self._resume}


class AngularLogisticRegressionCV(_OnDask, estimators.AngularLogisticRegressionCV):
    """As :class:`angcal.AngularLogisticRegressionCV`, for rows of a Dask array or dataframe.

    All penalties share passes over the rows: one for their scatter, some fifteen for all fits, and
    three for all leverages where columns are few.

    Parameters
    ----------
    Cs : int or sequence of float, default=10
        Inverse strengths.
    client : distributed.Client, default=None
        None is the current client, or the threads of this machine where there is none.
    persist : bool or "auto", default="auto"
        Whether blocks are kept in memory between passes.
    fit_intercept : bool, default=True
        As in :class:`angcal.AngularLogisticRegressionCV`, like the following.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the fits.
    link : Link, callable, str or None, default=None
        Of the chosen fit.
    angle : {"auto", "observable", "loo"} or float, default="auto"
        How the cosine is found.
    covariance : (d, d) array, operator or scikit-learn covariance estimator, default=None
        Σ of the features.
    pool : Dask collection, array, memory map or blocks of rows, default=None
        Unlabeled rows from the same population.
    observables : {"auto", "exact", "randomised"}, default="auto"
        Leverages from matrices, or from sampled rows.
    scoring : {"log_loss", "brier_score"}, default="log_loss"
        What C minimises.
    tol : float, default=1e-3
        Relative accuracy of the weights along the path.
    confidence : float, default=0.95
        Level of ``angle_.interval``.
    average : {None, "penalties"}, default=None
        What probabilities are averaged over.

    Attributes
    ----------
    passes_ : int
        Passes over the rows.
    C_, Cs_, path_, coefs_paths_, angle_, link_, observables_, curve_, coef_, intercept_, classes_
        As in :class:`angcal.AngularLogisticRegressionCV`. What has an entry for each row, some of
        it for each penalty, is in the memory of this process.

    See Also
    --------
    AngularCalibratedClassifier : Calibrates one fit.

    Examples
    --------
    >>> import dask.array as da
    >>> from angcal import Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 20, link=Logit(scale=3), random_state=0)
    >>> X = da.from_array(data.X, chunks=(100, 20))
    >>> clf = AngularLogisticRegressionCV(Cs=5).fit(X, data.y)
    >>> clf.to_local().predict_proba(data.X[:2]).shape
    (2, 2)
    """

    _local = estimators.AngularLogisticRegressionCV

    def __init__(
        self,
        Cs: Any = 10,
        *,
        client: Any = None,
        persist: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        link: Any = None,
        angle: str | float = "auto",
        covariance: Any = None,
        pool: Any = None,
        observables: str = "auto",
        scoring: str = "log_loss",
        tol: float = 1e-3,
        confidence: float = 0.95,
        average: str | None = None,
    ) -> None:
        super().__init__(
            Cs,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            link=link,
            angle=angle,
            covariance=covariance,
            pool=pool,
            observables=observables,
            scoring=scoring,
            tol=tol,
            confidence=confidence,
            average=average,
        )
        self.client = client
        self.persist = persist

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, pool: Any = None, groups: Any = None
    ) -> AngularLogisticRegressionCV:
        """Fit all penalties, choose one, estimate its angle and link, build its curve.

        Parameters
        ----------
        X : Dask array or dataframe
            Training rows; an array's in chunks of rows.
        y : (n,) array, Dask array or column of a dataframe, or its name
            Their labels. With a name, all other columns of X are features.
        sample_weight : the same, optional
            Their weights, positive.
        pool : Dask collection, array or blocks of rows, optional
            Overrides the constructor's pool.
        groups : (n,) array, Dask array, name of a column or "copies", optional
            Which rows belong together.

        Returns
        -------
        AngularLogisticRegressionCV
            The fitted estimator.
        """
        check_options(self)
        self._check_path_options()
        pool = self._given_pool(pool)
        many = is_for_many_classes(self.link)
        given = (X, y, sample_weight, pool, groups)
        training, pool = self._open(*given, bool(self.fit_intercept), many)
        self._fit_training(training, pool)
        return self
