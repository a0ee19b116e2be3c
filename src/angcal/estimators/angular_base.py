"""What both angular classifiers do with a fit: calibrate it as asked, and keep what comes out."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from angcal._typing import Floats, Matrix
from angcal.angle import Angle
from angcal.arrays import is_dask, is_tensor, on_host, placed_like
from angcal.calibrate import Calibration, Options, calibrate
from angcal.estimators.options import resolved_link, resolved_softmax
from angcal.estimators.prediction import CalibratedPrediction, lazy_on_dask
from angcal.estimators.training import Training, check_tensor, on_device
from angcal.intervals import Law, check_interval, interval, interval_law
from angcal.multiclass import ClassCalibration, ClassScores, calibrate_classes, class_scores
from angcal.multiclass.observable import asked_angles
from angcal.notices import PoolWarning, warn
from angcal.observables import Observables
from angcal.pools import RowsPool, open_pool
from angcal.problem import LinearFit
from angcal.rows import TensorRows

if TYPE_CHECKING:
    from angcal.planner import Plan


class AngularBase(CalibratedPrediction):
    """Steps (C) and (D) of a fit, and probabilities that rows' own labels have not touched."""

    link: Any
    angle: Any
    covariance: Any
    pool: Any
    confidence: float
    angle_: Any
    link_: Any
    observables_: Any
    interval_law_: Law
    _left_out: Any

    def __sklearn_clone__(self) -> Self:
        """Clone that shares the pool and the covariance, never written to, instead of copies."""
        # "client" and "callback" are parameters of angcal.dask.
        shared = {"pool", "client", "callback"} | (
            {"covariance"} if isinstance(self.covariance, np.ndarray) else set()
        )
        params = {
            name: value if name in shared else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        copy = type(self)(**params)
        for attribute in ("_metadata_request", "_sklearn_output_config", "_unsaved_parameters"):
            if hasattr(self, attribute):
                setattr(copy, attribute, deepcopy(getattr(self, attribute)))
        return copy

    @property
    def loo_proba_(self) -> Floats:
        """(n, K) calibrated probabilities of the training rows, each without its own label.

        Leave-one-out in full: neither the score of a row nor the curve has seen its label. From
        the one fit, by influence; computed when asked for.
        """
        check_is_fitted(self, "curve_")
        return self._left_out.probabilities()

    @property
    def plain_loo_proba_(self) -> Floats:
        """(n, K) probabilities that the base model itself has for rows it has not seen."""
        check_is_fitted(self, "curve_")
        return self._left_out.plain()

    def plan(
        self, n: Any, X: Any = None, y: Any = None, *, pool: Any = None, random_state: int = 0
    ) -> Plan:
        """What more labels are expected to give, from the labels of this fit; two classes.

        The plan is for ridge logistic regression at its best penalty with calibrated probabilities,
        on the features that the linear model of this fit sees.

        Parameters
        ----------
        n : array-like
            Numbers of labels, none below those of the fit.
        X : (n, d) array, optional
            The training rows, where the estimator was loaded from a file or copied: such ones do
            not hold them. Transformed as by the fit.
        y : (n,) array, optional
            Their labels.
        pool : (m, d) array, optional
            Unlabeled rows, which say more about the features; those of the fit by default.
        random_state : int, default=0
            For the parts of the labels that the plan looks at.

        Returns
        -------
        Plan
            Expected ``log_loss``, ``accuracy``, ``ece``, ``cosine`` and ``C`` with intervals.
        """
        from angcal.planner import plan_from_pilot

        check_is_fitted(self, "curve_")
        if len(self.classes_) > 2:
            raise ValueError(
                f"plan is for two classes, and y has {len(self.classes_)}; plan for one class "
                "against the others: clf.fit(X, y == a_class).plan(n)."
            )
        if (X is None) != (y is None):
            raise ValueError("X and y go together: give both, or neither.")
        if is_dask(X) or is_dask(pool):
            raise TypeError(
                "plan would load a Dask collection whole; pass rows in memory, such as some of its "
                "partitions: clf.plan(n, X=X.partitions[0].compute(), y=their_labels)."
            )
        if X is not None:
            rows = self._rows_like_X(X, "X")
            codes = np.searchsorted(self.classes_, np.asarray(y)).astype(np.float64)
        else:
            rows, codes, fitted_pool = self._remembered()
            pool = fitted_pool if pool is None else pool
        # Blocks that can be read once only were used up by the fit.
        others = self._rows_like_X(pool, "pool") if hasattr(pool, "shape") else None
        return plan_from_pilot(rows, codes, n, pool=others, random_state=random_state)

    def _remembered(self) -> tuple[Any, Floats, Any]:
        """(rows, codes, pool) of the last fit."""
        found = vars(self).get("_pilot")
        if found is None:
            raise ValueError(
                "This estimator does not hold its training rows, being loaded, copied or fitted on "
                "a device; pass them: clf.plan(n, X=X, y=y)."
            )
        rows, training, pool = found
        if training.weighted or training.groups is not None:
            raise ValueError(
                "plan counts every label once, and this fit had sample_weight or groups; pass the "
                "rows to plan from: clf.plan(n, X=X, y=y), for groups one row of each."
            )
        return rows, training.codes, pool

    @lazy_on_dask
    def predict_interval(self, X: Any, kind: str = "curve", confidence: float = 0.9) -> Floats:
        r"""Where a probability lies with this confidence: lower and upper end.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, dataframe, tensor or Dask collection
            New rows.
        kind : {"curve", "row"}, default="curve"
            "curve": the calibrated probability of all rows with this score, which n labels tell
            only so well. "row": the row's own probability. Rows of one score differ by what the
            weights have not found, P = σ(κ(c·s + √(1−c²)Z) + β), so that this interval stays wide
            however many rows fitted the curve. It needs the angle; where labels alone leave that
            open it is wider, and a covariance or a pool narrows it.
        confidence : float, default=0.9
            Level of the interval, whose tails are equally likely.

        Returns
        -------
        (n, 2) or (n, K, 2) array
            Of P(y = classes_[1]) for two classes, of each class for more; a tensor where X is one,
            and lazy where X is a Dask collection.

        Notes
        -----
        Intervals of the curve hold `predict_proba`; those of a row need not at low levels, because
        it is a mean, and a row's probability may be near 0 or near 1 more often than near it. Nor
        far out, where `predict_proba` stays within what n labels can know.
        Where probabilities are averages over several models, the interval is that of the mixture
        of theirs. At a cosine that was given, with a known link, nothing of the curve is open but
        where scores are centered. Where there is no signal, intervals of the curve are those of
        the prevalence. Copies by `with_prevalence` have the intervals at their own shares.

        Examples
        --------
        >>> from angcal import AngularCalibratedClassifier, Logit
        >>> from angcal.simulation import simulate
        >>> data = simulate(300, 200, link=Logit(scale=3), random_state=0)
        >>> clf = AngularCalibratedClassifier().fit(data.X, data.y)
        >>> clf.predict_interval(data.X[:5], kind="row", confidence=0.8).shape
        (5, 2)
        """
        check_is_fitted(self, "curve_")
        check_interval(kind, confidence)
        shares, laws, scores = self._interval_models(X)
        moved = self.prevalence_ if hasattr(self, "prevalence_") else None
        two = len(self.classes_) == 2
        factors = None if moved is None or two else moved.factors
        found = interval(shares, laws, scores, kind, float(confidence), factors)
        if moved is not None and two:
            # Probabilities of two classes rise with each other, and so do their ends.
            both = [np.column_stack([1.0 - end, end]) for end in found.T]
            found = np.column_stack([moved.apply(each)[:, 1] for each in both])
        if kind == "curve":
            p = on_host(self.predict_proba(X))
            p = p if found.ndim == 3 else p[:, 1]
            found[..., 0] = np.minimum(found[..., 0], p)
            found[..., 1] = np.maximum(found[..., 1], p)
        return placed_like(found, X) if on_device(X) else found

    def _interval_models(self, X: Any) -> tuple[list[float], list[Law], list[Floats]]:
        """(shares, laws, scores of X) of the models that are averaged; of one otherwise."""
        return [1.0], [self.interval_law_], [on_host(self._scores(X))]

    def _given_pool(self, pool: Any) -> Any:
        """The pool of ``fit``, or the constructor's; warns of data that a file did not keep."""
        pool = self.pool if pool is None else pool
        unsaved = getattr(self, "_unsaved_parameters", ())
        given = {**self.get_params(deep=False), "pool": pool} if unsaved else {}
        missing = [name for name in unsaved if given[name] is None]
        if missing:
            listed = " and ".join(missing)
            warn(
                f"This model was loaded from a file, which does not hold its {listed}, and is now "
                f"fitted without. Give it again: model.set_params({missing[0]}=...).fit(X, y).",
                PoolWarning,
            )
        return pool

    def _options(self, pool: Any, X: Matrix, **more: Any) -> Options:
        """What was asked for; blocks of the pool are checked and transformed as they are read."""
        link, known = resolved_link(self.link)
        opened = None
        if on_device(pool, "pool"):
            check_tensor(pool, X.shape[1], "pool")
            pool = RowsPool(TensorRows(pool, False))
        if pool is not None:
            opened = open_pool(pool, X.shape[1], prepare=self._rows_like_X, min_rows=2)
            given = self.covariance is not None and not isinstance(self.covariance, BaseEstimator)
            if isinstance(self.angle, str) and self.angle != "loo" and not given:
                opened.require_many_passes(f"angle={self.angle!r}")
        return Options(
            link=link,
            link_known=known,
            angle=self.angle,
            # Tensors have the methods that mark an operator.
            covariance=on_host(self.covariance) if is_tensor(self.covariance) else self.covariance,
            pool=opened,
            confidence=self.confidence,
            **more,
        )

    def _rows_like_X(self, rows: Any, name: str) -> Matrix:
        """Unlabeled rows as the linear model sees them; errors name the argument."""
        try:
            # Columns only: entries are checked below, under the argument's own name.
            validate_data(self, rows, reset=False, skip_check_array=True)
        except ValueError as error:
            raise ValueError(
                f"{name} does not fit X: {error} Pass rows with the same columns as X."
            ) from error
        try:
            return self._transformed(rows, input_name=name)
        except ValueError as error:
            # A transformer calls whatever it is given X.
            if name in str(error):
                raise
            raise ValueError(f"{name}: {error}") from error

    def _calibrated(
        self,
        fits: list[LinearFit],
        observed: list[Observables],
        training: Training,
        options: Options,
    ) -> Calibration | ClassCalibration:
        """(C), (D) Angle, link and map of a fit of any number of classes."""
        weights = training.weights
        if training.n_classes == 2:
            return calibrate(fits[0], observed[0], weights, options)
        codes = training.codes.astype(np.intp)
        given = (options.covariance, options.pool, options.confidence)
        angles = asked_angles(options.angle, fits, observed, codes, weights, *given)
        return self._calibrated_scores(class_scores(fits, observed), codes, weights, angles)

    def _calibrated_scores(
        self,
        scores: ClassScores,
        codes: np.ndarray,
        weights: Floats,
        angles: list[Angle] | str | None = None,
    ) -> ClassCalibration:
        softmax = resolved_softmax(self.link, scores.n_classes)
        return calibrate_classes(scores, codes, weights, softmax, self.confidence, angles)

    def _keep(self, result: Calibration | ClassCalibration) -> Self:
        """Set the attributes that a calibration gives."""
        self.angle_, self.link_, self._left_out = result.angle, result.link, result.left_out
        self.interval_law_ = interval_law(result)
        if isinstance(result, Calibration):
            self.curve_, self.scale_ = result.curve, result.scale
        else:
            self.curve_, self.calibration_ = result.map, result.choice
        return self
