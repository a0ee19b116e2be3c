"""AngularLogisticRegressionCV: the ridge penalty chosen, the probabilities calibrated."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from angcal import plan
from angcal._typing import Floats
from angcal.arrays import placed_like
from angcal.calibrate import Calibration, Options
from angcal.estimators.angular_base import AngularBase
from angcal.estimators.few_labels import warn_if_too_few
from angcal.estimators.fold_average import (
    FoldAverage,
    fit_without_folds,
    folds_of,
    warn_if_one_is_better,
)
from angcal.estimators.options import (
    check_options,
    is_for_many_classes,
    refuse_options,
    warn_if_unlike,
)
from angcal.estimators.path_fits import PathFit, fit_paths, shares_of_paths
from angcal.estimators.prediction import of_each_class
from angcal.estimators.repeats import warn_about_repeats
from angcal.estimators.training import (
    ARRAY_RULES,
    Training,
    check_tensor,
    on_device,
    validated,
)
from angcal.estimators.units import warn_about_units
from angcal.intervals import Law, interval_law
from angcal.leverages.groups import Groups
from angcal.multiclass.calibrate import LeftOutClasses
from angcal.notices import AngleWarning, PenaltyWarning, warn
from angcal.penalty_path import (
    SCORINGS,
    Design,
    LeftOutAverage,
    PenaltyAverage,
    PenaltyPath,
)
from angcal.problem import LinearFit
from angcal.rows import as_rows
from angcal.threads import side_pools_at_rest

LINEAR = ("coef", "intercept")


class AngularLogisticRegressionCV(AngularBase):
    r"""Ĉ = argmin_C of the leave-one-out calibrated log-loss, and its calibrated probabilities.

    Ridge logistic regression, min_{w,b} C·Σ_i ω_i log(1 + exp(−ỹ_i u_i)) + ½‖w‖², multinomial for
    three and more classes, for a path of C without cross-validation: every fit tells the score that
    each row would get had it been left out. The chosen fit is calibrated as by
    :class:`AngularCalibratedClassifier`.

    Parameters
    ----------
    Cs : int or sequence of float, default=10
        Inverse strengths. A number asks for so many, evenly spaced in logarithm, from where the
        fit has about one degree of freedom to where it has nearly all it can have. Where the best
        of a sequence is its first or last, a `PenaltyWarning` says so.
    fit_intercept : bool, default=True
        The intercept is never penalized.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the fits, as in scikit-learn. Probabilities follow the labels' own
        frequencies all the same.
    link : Link, callable, str or None, default=None
        As in :class:`AngularCalibratedClassifier`, for the chosen fit, like the next three.
    angle : {"auto", "observable", "loo"} or float, default="auto"
        How the cosine is found.
    covariance : (d, d) array, operator or scikit-learn covariance estimator, default=None
        Σ of the features.
    pool : (m, d) array, sparse matrix, dataframe, memory map or blocks of rows, default=None
        Unlabeled rows from the same population.
    observables : {"auto", "exact", "randomised"}, default="auto"
        Leverages from factorized Hessians, or from sampled rows; "auto" samples where that is
        faster.
    scoring : {"log_loss", "brier_score"}, default="log_loss"
        What C minimizes, of the calibrated leave-one-out probabilities, with what sampled
        leverages leave open of it and, for two classes, a little of Laplace's evidence
        (:mod:`angcal.penalty_path.evidence`): ``path_.criterion``. Of equal ones the strongest
        penalty is taken. There is no one-standard-error rule: it cost held-out log-loss wherever
        it was tried.
    tol : float, default=1e-3
        Relative accuracy of the weights along the path. The chosen fit is finished to 1e-4.
    confidence : float, default=0.95
        Level of ``angle_.interval``.
    average : {None, "penalties", "folds"}, default=None
        What probabilities are averaged over, which lowers their log-loss where labels are few.
        "penalties": all of the path, each by how well it does. "folds": five classifiers like this
        one, each without a fifth of the rows, with half of the weight, and the one with all rows;
        six paths instead of one, and probabilities that are a little too modest. The price is
        several linear models where there was one: prediction takes as many products, and a pool
        must allow several passes. All other attributes stay those of the one chosen fit.
    spectrum : {"average", "one", None}, default="average"
        How a pool shapes the penalty. A ridge penalty expects the part s of the signal's variance
        along an eigenvector of the features' covariance with eigenvalue s; on real data it is s^p
        with p of 1 to 3. With a pool, fits are made for p = 1 and 2 and weighed by their
        leave-one-out likelihood and a prior about 1. "average": probabilities are averages over
        two linear models, with curves from the labels unless the link is known. "one": the
        model of the likeliest p alone. None: a pool tells the angle and leaves the weights as they
        are. Without a pool p is 1, and also for rows in blocks of more than 1,500 columns, large
        tensors, and a pool that can be gone over once only; ``spectrum_reason_`` says so.
    rarity : float, default=0.5
        q: the squared weight of a column of kurtosis κ above 6 is penalized (κ/6)^q times as much
        as those of others, as such columns are active in few rows and fits follow these too far
        (:mod:`angcal.penalty_path.rarity`). 0 is plain ridge.

    Attributes
    ----------
    C_ : float
        The chosen inverse strength.
    Cs_ : (m,) array
        All of them, increasing.
    path_ : PenaltyPath
        ``C``, ``criterion``, ``log_loss``, ``log_loss_se``, ``ece``, ``cosine``,
        ``cosine_interval``, ``degrees_of_freedom``, ``uncalibrated_log_loss`` and more, one entry
        for each C.
    coefs_paths_ : (m, d) or (m, K, d) array
        Weights under every penalty.
    shares_ : (m,) array
        Of every penalty in the probabilities: 1 for the chosen one, unless averaged over.
    exponent_ : float
        p of the chosen fit; 1 is ridge.
    exponents_, rarities_, exponent_shares_ : (k,) arrays
        Every p and q that was tried, and their share.
    rarity_ : float
        q of the chosen fit; 0 where no column is rare.
    spectrum_reason_ : str
        Why p = 1 alone was tried; empty where others were.
    average_ : PenaltyAverage, FoldAverage or None
        The models that are averaged.
    angle_, link_, scale_, curve_, interval_law_, observables_, loo_proba_, plain_loo_proba_, coef_,
    intercept_, distance_to_optimum_
        As in :class:`AngularCalibratedClassifier`, of the one chosen fit also where probabilities
        are averaged; ``loo_proba_`` is averaged as predictions are. The choice of C and the shares
        have seen all labels, which it does not undo.
    passes_ : int
        Passes over rows that come in blocks; for these only.
    class_counts_ : (K,) array
        Rows of each class, by weight where there are weights.
    prevalence_ : Prevalence
        Of a copy by :meth:`with_prevalence` or :meth:`with_prevalence_from` only: the shares of the
        classes that it predicts for.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    AngularCalibratedClassifier : Calibrates one fit, of any linear classifier.

    Examples
    --------
    >>> from angcal import AngularLogisticRegressionCV, Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(300, 200, link=Logit(scale=3), random_state=0)
    >>> clf = AngularLogisticRegressionCV().fit(data.X, data.y)
    >>> bool(clf.path_.C[clf.path_.index] == clf.C_)
    True
    >>> clf.predict_proba(data.X[:2]).shape
    (2, 2)
    """

    average_: PenaltyAverage | FoldAverage | None

    def __init__(
        self,
        Cs: Any = 10,
        *,
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
        spectrum: str | None = "average",
        rarity: float = 0.5,
    ) -> None:
        self.Cs = Cs
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.link = link
        self.angle = angle
        self.covariance = covariance
        self.pool = pool
        self.observables = observables
        self.scoring = scoring
        self.tol = tol
        self.confidence = confidence
        self.average = average
        self.spectrum = spectrum
        self.rarity = rarity

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, pool: Any = None, groups: Any = None
    ) -> AngularLogisticRegressionCV:
        """Fit all penalties, choose one, estimate its angle and link, build its curve.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or dataframe
            Training rows.
        y : (n,) array of two or more classes
            Their labels.
        sample_weight : (n,) array, optional
            Their weights.
        pool : (m, d) array, optional
            Overrides the constructor's pool.
        groups : (n,) array or "copies", optional
            Which rows belong together, as several of a patient, plate or document do: they are
            left out together, so that probabilities hold for rows of new groups. "copies" takes
            rows of X that are equal for a group.

        Returns
        -------
        AngularLogisticRegressionCV
            The fitted estimator.
        """
        check_options(self)
        self._check_path_options()
        pool, many = self._given_pool(pool), self._takes_many_classes()
        training = validated(
            self,
            X,
            y,
            sample_weight,
            raw_rows=False,
            many_classes=many,
            groups=groups,
            far_intercept=bool(self.fit_intercept),
        )
        return self._fit_training(training, pool)

    def _fit_training(self, training: Training, pool: Any) -> Self:
        """All steps, from rows that have been checked."""
        refuse_options(self, training, None)
        options = self._options(pool, training.X)
        if self.average == "folds":
            folds_of(training)
        if self.average is not None and options.pool is not None:
            options.pool.require_many_passes(f"average={self.average!r}")
        # Small factorizations gain nothing from SciPy's threads, which spin beside NumPy's.
        small = min(training.X.shape) <= plan.SMALL_SIDE
        with side_pools_at_rest() if small else nullcontext():
            together = self._fit_path(training, options)
            if self.average == "folds":
                whole = copy(self).set_params(average=None)
                self.average_, left_out = fit_without_folds(whole, training, options.pool)
                warn_if_one_is_better(left_out, self._left_out, training)
                self._left_out = LeftOutClasses(left_out, self.plain_loo_proba_)
        warn_if_unlike(options.pool, training.X)
        warn_if_too_few(self, training, together)
        elsewhere = training.is_far or training.on_device
        self._pilot = None if elsewhere else (training.X, training, pool)
        if training.is_far:
            self.passes_ = training.X.passes
        if training.on_device:
            self.coef_ = placed_like(self.coef_, training.X)
            self.intercept_ = placed_like(self.intercept_, training.X)
        return self

    def _fit_path(self, training: Training, options: Options) -> Groups | None:
        """All penalties and exponents, the choice, and its calibration; rows that are one label."""
        X = as_rows(training.X, bool(self.fit_intercept)) if training.on_device else training.X
        # (A), (B) Fits under all penalties, and what each reveals.
        paths, self.spectrum_reason_ = fit_paths(self, training, options)
        shares = shares_of_paths(paths)
        path = paths[int(np.argmax(shares))]
        self.exponent_, self.exponent_shares_ = path.exponent, shares
        self.exponents_ = np.array([each.exponent for each in paths])
        self.rarity_ = path.rarity
        self.rarities_ = np.array([each.rarity for each in paths])
        self.Cs_, self.C_ = path.Cs, path.C
        self._warn_if_at_end(path.index)
        warn_about_units(self, X, training, 1.0 / (self.C_ * training.weights.sum()))
        fit, self.observables_, distance = path.finished(X, self.tol, self.observables)
        self.distance_to_optimum_ = distance
        self.coef_, self.intercept_ = np.atleast_2d(fit.coef), np.atleast_1d(fit.intercept)
        together = warn_about_repeats(training, X, [self.observables_])
        # (C), (D) Angle, link and curve of the chosen one.
        self._keep(self._calibrated([fit], [self.observables_], training, options))
        self.path_ = self._report(path)
        self.coefs_paths_ = path.restored[0]
        over_penalties = self.average == "penalties"
        self.shares_ = path.penalty_shares if over_penalties else path.chosen_alone
        self.average_ = None
        used = shares if self.spectrum == "average" else (shares == shares.max()) * 1.0
        if over_penalties or np.sum(used > 0.0) > 1:
            pairs = zip(used, paths, strict=True)
            kept = [
                (share * (each.penalty_shares if over_penalties else each.chosen_alone), each)
                for share, each in pairs
                if share > 0.0
            ]
            self.average_ = self._averaged(kept, fit, training, options)
        return together

    def _warn_if_at_end(self, index: int) -> None:
        """Say so where the best of the given Cs is the first or the last.

        A grid of its own ends where a weaker or stronger penalty would change nothing.
        """
        ends = {0: "smallest", len(self.Cs_) - 1: "largest"}
        if isinstance(self.Cs, Integral) or len(self.Cs_) < 3 or index not in ends:
            return
        warn(
            f"The chosen C={self.C_:.3g} is the {ends[index]} of Cs, so the best may lie beyond. "
            "Widen Cs, or pass a whole number to have a grid made for X.",
            PenaltyWarning,
        )

    def _averaged(
        self,
        shared: list[tuple[Floats, PathFit]],
        chosen: LinearFit,
        training: Training,
        options: Options,
    ) -> PenaltyAverage:
        """The models of all penalties that have a share, each calibrated as the chosen one is.

        Over several exponents, curves are those of the labels alone: with few of them the pool's
        angle made log-losses on real labels worse (docs/pool.md). Intervals keep it.
        """
        shares, fits, curves, laws, left_out = [], [], [], [], []
        guided = options.link_known or options.angle != "auto" or options.covariance is not None
        for_curves = options if guided or len(shared) < 2 else replace(options, pool=None)
        for path_shares, path in shared:
            for k in np.flatnonzero(path_shares).tolist():
                fit, observed = path.member(k, chosen)
                with warnings.catch_warnings():
                    # The chosen penalty has said what there is to say.
                    warnings.simplefilter("ignore", AngleWarning)
                    result = self._calibrated([fit], [observed], training, options)
                    laws.append(interval_law(result))
                    if for_curves is not options:
                        result = self._calibrated([fit], [observed], training, for_curves)
                shares.append(path_shares[k])
                fits.append(fit)
                left_out.append(result.left_out)
                curves.append(result.curve if isinstance(result, Calibration) else result.map)
        coefs, intercepts = (np.array([getattr(fit, name) for fit in fits]) for name in LINEAR)
        own = np.array(shares) / sum(shares)
        self._left_out = LeftOutAverage(own, left_out, self._left_out)
        return PenaltyAverage(own, coefs, intercepts, curves, laws)

    def _probabilities(self, X: Any) -> Any:
        """(n, K) probabilities, of the chosen fit or averaged."""
        # By what was fitted: the parameter may have been set since.
        if self.average_ is None:
            return super()._probabilities(X)
        p = of_each_class(self.average_.predict(self._new_rows(X)))
        return placed_like(p, X) if on_device(X) else p

    def _new_rows(self, X: Any) -> Any:
        """New rows, checked."""
        if not on_device(X):
            return validate_data(self, X, reset=False, **ARRAY_RULES)
        check_tensor(X, self.n_features_in_)
        return X

    def _interval_models(self, X: Any) -> tuple[list[float], list[Law], list[Floats]]:
        if self.average_ is None:
            return super()._interval_models(X)
        rows = self._new_rows(X)
        if isinstance(self.average_, FoldAverage):
            return self.average_.interval_models(rows)
        average = self.average_
        return average.shares.tolist(), average.laws, list(average.scores(rows))

    def _takes_many_classes(self) -> bool:
        return is_for_many_classes(self.link)

    def _check_path_options(self) -> None:
        if self.scoring not in SCORINGS:
            raise ValueError(f"scoring={self.scoring!r} must be one of {', '.join(SCORINGS)}.")
        if self.average not in (None, "penalties", "folds"):
            raise ValueError(f"average={self.average!r} must be None, 'penalties' or 'folds'.")
        if self.spectrum not in (None, "average", "one"):
            raise ValueError(f"spectrum={self.spectrum!r} must be 'average', 'one' or None.")
        if not (isinstance(self.rarity, Real) and 0.0 <= self.rarity <= 2.0):
            raise ValueError(
                f"rarity={self.rarity!r} must lie between 0, which is plain ridge, and 2."
            )
        if not (isinstance(self.tol, Real) and 0.0 < self.tol < 1.0):
            raise ValueError(
                f"tol={self.tol!r} must lie between 0 and 1: it is the relative accuracy of the "
                "weights, for example 1e-3."
            )

    def _inverse_strengths(self, design: Design) -> Floats:
        """Cs as numbers, increasing, each once."""
        if isinstance(self.Cs, Integral) and not isinstance(self.Cs, bool):
            if self.Cs < 1:
                raise ValueError(f"Cs={self.Cs!r} must be at least 1, or a sequence of C > 0.")
            return design.grid(int(self.Cs))
        if not isinstance(self.Cs, Iterable) or isinstance(self.Cs, str):
            raise ValueError(f"Cs={self.Cs!r} must be a whole number, or a sequence of C > 0.")
        values = np.unique(np.asarray(self.Cs, dtype=np.float64))
        if not len(values) or not np.all(np.isfinite(values) & (values > 0)):
            raise ValueError(
                f"Cs={self.Cs!r} must hold positive finite numbers: an inverse strength of "
                "infinity is a fit without penalty, for which use AngularCalibratedClassifier."
            )
        return values

    def _report(self, path: PathFit) -> PenaltyPath:
        curves, cosine = path.curves, np.full(len(self.Cs_), np.nan)
        interval = np.full((len(self.Cs_), 2), np.nan)
        if len(self.classes_) == 2 and not self.angle_.is_fallback:
            cosine, interval = path.cosines(self.link_, self.confidence)
        return PenaltyPath(
            C=self.Cs_,
            log_loss=curves.log_loss,
            log_loss_se=curves.log_loss_se,
            sampling_error=path.errors,
            brier_score=curves.brier_score,
            ece=curves.ece(calibrated=True),
            uncalibrated_log_loss=curves.uncalibrated_log_loss,
            uncalibrated_ece=curves.ece(calibrated=False),
            cosine=cosine,
            cosine_interval=interval,
            degrees_of_freedom=path.degrees_of_freedom,
            index=path.index,
            criterion=path.criterion,
        )
