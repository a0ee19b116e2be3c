"""The classifiers of angcal for Dask arrays and dataframes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np

from angcal import estimators
from angcal.arrays import is_dask
from angcal.dask.engine import ClusterError, Engine
from angcal.dask.rows import open_rows
from angcal.estimators.around_model import far_intercept
from angcal.estimators.options import check_options
from angcal.estimators.prediction import states_for_files
from angcal.estimators.training import Training, checked_groups, far_training, refuse_far
from angcal.pools import RowsPool

PLACES = {"client": None, "persist": "auto", "callback": None}
"""What says where rows are, and is no part of a fitted model; with defaults."""

PARAMETERS = """client : distributed.Client, default=None
    None is the current client, or the threads of this machine where there is none.
persist : bool or "auto", default="auto"
    Whether blocks are kept in memory between passes; "auto" where an array is at most half of
    it. Partitions of a dataframe are kept where this is True.
callback : callable, default=None
    Called with the point, an array of weights and intercepts, after each Newton step. What it
    was last called with is what ``resume`` takes."""


class _OnDask:
    """What the classifiers of this module share: a constructor with `PLACES`, and ``fit``."""

    _local: ClassVar[Any]
    client: Any
    persist: Any
    callback: Any
    _point: Any = None
    _resume: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_local" in vars(cls):
            cls.__init__ = _constructor_of(cls._local)  # type: ignore[method-assign]
            cls.__doc__ = _with_parameters(cls.__doc__, cls._local.__doc__)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Replaced by a constructor of the class's own."""

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        pool: Any = None,
        groups: Any = None,
        resume: Any = None,
    ) -> Self:
        """Fit, estimate angle and link, build the curve; where the rows are.

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
            `ClusterError`. Of penalties, those of the first exponent and rarity start there.

        Returns
        -------
        classifier
            The fitted estimator.
        """
        this: Any = self
        check_options(this)
        intercept = self._intercept()
        pool, many = this._given_pool(pool), this._takes_many_classes()
        training, pool = self._open(X, y, sample_weight, pool, groups, intercept, many)
        self._point, self._resume = None, resume
        try:
            this._fit_training(training, pool)
        except ClusterError as error:
            error.point = self._point
            raise
        finally:
            del self._point, self._resume
        return self

    def _intercept(self) -> bool:
        """Whether there is an intercept; refuses models that blocks cannot fit."""
        raise NotImplementedError

    def _far_options(self) -> dict[str, Any]:
        def watch(point: Any) -> None:
            self._point = np.array(point)
            if self.callback is not None:
                self.callback(self._point)

        return {"watch": watch, "start": self._resume}

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


def _constructor_of(local: Any) -> Callable[..., None]:
    """The constructor of a classifier of :mod:`angcal`, with `PLACES`."""
    signature = inspect.signature(local.__init__)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Any)
        for name, default in PLACES.items()
    ]

    def construct(self: Any, *arguments: Any, **options: Any) -> None:
        places = {name: options.pop(name, default) for name, default in PLACES.items()}
        local.__init__(self, *arguments, **options)
        for name, value in places.items():
            setattr(self, name, value)

    own = signature.replace(parameters=[*signature.parameters.values(), *more])
    construct.__signature__ = own  # type: ignore[attr-defined]
    return construct


def _with_parameters(text: str | None, of_local: str | None) -> str:
    """A docstring with the parameters of another one, and `PARAMETERS`, before its attributes."""
    if text is None or of_local is None:
        return ""  # Python was started without docstrings
    title = "Parameters\n----------\n"
    own, parent = inspect.cleandoc(text), inspect.cleandoc(of_local)
    start = parent.index(title)
    parameters = parent[start : parent.index("\n\nAttributes\n")]
    return own.replace("Attributes\n---", f"{parameters}\n{PARAMETERS}\n\nAttributes\n---", 1)


class AngularCalibratedClassifier(  # type: ignore[misc]
    _OnDask, estimators.AngularCalibratedClassifier
):
    """As :class:`angcal.AngularCalibratedClassifier`, for rows of a Dask array or dataframe.

    Newton's method and exact leverages in at most nine passes over the rows where columns are few,
    conjugate gradients and sampled rows where they are many. The answers are those of the class of
    the same name, and do not depend on the number of workers. The estimator is a LogisticRegression
    with a ridge penalty, fitted by Newton's method whatever its solver, or a model that was trained
    elsewhere. A pool may be a Dask collection too.

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

    def _intercept(self) -> bool:
        intercept = far_intercept(self._model())
        if intercept is None:
            refuse_far()
        return bool(intercept)


class AngularLogisticRegressionCV(_OnDask, estimators.AngularLogisticRegressionCV):
    """As :class:`angcal.AngularLogisticRegressionCV`, for rows of a Dask array or dataframe.

    All penalties share passes over the rows: one for the columns' moments, one for their scatter,
    some fifteen for all fits, and three for all leverages where columns are few. A pool, which may
    be a Dask collection too, adds such a path for each exponent that it brings.

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

    def _intercept(self) -> bool:
        self._check_path_options()
        return bool(self.fit_intercept)
