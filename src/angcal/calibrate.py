r"""From observables to a calibrated curve: which angle, which link, and what if there is none.

Known link: angle by the chosen method, then F(s) = E_Z σ(c·s + √(1−c²)Z).
Unknown link: one posterior of link and angle, whose mean is the curve
(:mod:`angcal.link_posterior`).
Nothing estimable: the prevalence, which is calibrated whatever the angle is, and a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from angcal._typing import Floats, Matrix
from angcal.angle import (
    LOO_BIAS,
    ROWS_DEPEND,
    Angle,
    AngleError,
    combine,
    given_angle,
    holdout_sign,
    loo_angle,
    loo_information,
    observable_angle,
    quantile,
    training_sign,
    warn_if_asked_for,
    with_note,
)
from angcal.covariance import (
    Precision,
    ScoreScale,
    StagnationError,
    check_covariance,
    invert,
    is_operator,
    precision,
    score_scale,
)
from angcal.curve import AveragedCurve, CalibratedCurve, ConstantCurve, tail_floor
from angcal.leverages.groups import Groups, label_effects, prevalence_effect
from angcal.link_posterior import LinkPosterior, link_posterior
from angcal.links import Link
from angcal.notices import AngleWarning, warn
from angcal.observables import Observables, honest_scores, usual_weights
from angcal.problem import LinearFit

ANGLE_METHODS = ("auto", "observable", "loo")


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes
    ----------
    link : Link
        Known link, or the family whose scale and offset are to be estimated.
    link_known : bool
    angle : {"auto", "observable", "loo"} or float
    covariance : None, (d, d) array or scikit-learn covariance estimator
    pool : (m, d) array or sparse matrix, or None
    sign_holdout : (X, labels) or None
        Holdout rows for the paper's sign estimator.
    confidence : float
    """

    link: Link
    link_known: bool
    angle: str | float
    covariance: Any = None
    pool: Matrix | None = None
    sign_holdout: tuple[Matrix, Floats] | None = None
    confidence: float = 0.95


@dataclass(frozen=True, eq=False)
class LeftOut:
    """P(y_i = 1) of each training row without its own label: what a calibrated curve is worth.

    Attributes
    ----------
    curve : CalibratedCurve, AveragedCurve or ConstantCurve
    posterior : LinkPosterior or None
        Where the link was estimated: the curve's own fit counts too, and is undone for each row.
    scores, labels, weights : (n,) arrays
        Scores that their own labels have not touched (:func:`~angcal.observables.honest_scores`).
    own_scores : (n,) array
        ũ, the scores of the model without the row, its intercept included.
    groups : Groups or None
        Rows that were left out together.
    """

    curve: CalibratedCurve | AveragedCurve | ConstantCurve
    posterior: LinkPosterior | None
    scores: Floats
    labels: Floats
    weights: Floats
    own_scores: Floats
    groups: Groups | None = None

    def probabilities(self) -> Floats:
        """(n, 2), one column for each class."""
        if isinstance(self.curve, ConstantCurve):
            # The prevalence of the other rows, one row of each class added as in the curve.
            own, size = self.weights * self.labels, self.weights
            effect = prevalence_effect(self.labels, self.weights, self.groups)
            if self.groups is not None:
                own, size = (self.groups.sums(part)[self.groups.codes] for part in (own, size))
            rest = float(self.weights @ self.labels) - own
            p = (rest / effect + 1.0) / ((len(self.labels) - size) / effect + 2.0)
        elif self.posterior is None:
            p = self.curve.predict(self.scores)
        else:
            standard = self.curve.scale.standardize(self.scores)
            p = self.posterior.leave_one_out(standard, self.labels, self.weights, self.groups)
            p = np.clip(p, self.curve.floor, 1.0 - self.curve.floor)
        return np.column_stack([1.0 - p, p])

    def plain(self) -> Floats:
        """(n, 2) probabilities of a logistic model that takes its scores as they are."""
        p = expit(self.own_scores)
        return np.column_stack([1.0 - p, p])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Angle, link, the curve they make, and what it is worth on rows that it has not seen.

    ``inflation`` is by how much leave-one-out scores that depend on each other inflate the variance
    of the curve's slope; ``effect`` labels say as much as one independent label.
    """

    angle: Angle
    link: Link
    scale: ScoreScale
    curve: CalibratedCurve | AveragedCurve | ConstantCurve
    left_out: LeftOut
    inflation: float = 1.0
    effect: float = 1.0


def calibrate(
    fit: LinearFit, observables: Observables, case_weights: Floats, options: Options
) -> Calibration:
    """Estimate angle and link, and fall back to the prevalence where neither can be."""
    scale = score_scale(
        observables,
        fit.coef,
        fit.intercept,
        case_weights=case_weights,
        covariance=options.covariance,
        pool=options.pool,
    )
    if options.angle not in ("auto", "observable") or scale.norm == 0:
        # Where nothing asks for Σ⁻¹, nothing else would notice that Σ is not a covariance.
        _require_positive(options.covariance, len(fit.coef))
    reason = _why_impossible(fit, scale, options, observables.groups)
    if reason is not None:
        return _fallback(fit, observables, case_weights, options, scale, reason)
    _warn_about_scores(observables, case_weights, scale)
    evidence = _Evidence(fit, observables, case_weights, scale, options)
    posterior: LinkPosterior | None = None
    inflation = 1.0
    curve: CalibratedCurve | AveragedCurve
    if options.link_known:
        angle, link = evidence.known_link()
        # An angle that was given is not judged by labels.
        judged = isinstance(options.angle, str)
        floor = tail_floor(len(fit.labels) / evidence.effect) if judged else 0.0
        curve = CalibratedCurve(link, angle.cosine, scale, floor)
    else:
        angle, posterior = evidence.unknown_link()
        link = posterior.link_at(angle.cosine)
        floor = tail_floor(len(fit.labels) / posterior.effect)
        curve = AveragedCurve(posterior.parts, scale, floor)
        inflation = evidence.inflation(link, angle.cosine)
    left_out = _left_out(fit, observables, case_weights, curve, posterior)
    return Calibration(angle, link, scale, curve, left_out, inflation, evidence.effect)


def _left_out(
    fit: LinearFit,
    observables: Observables,
    case_weights: Floats,
    curve: CalibratedCurve | AveragedCurve | ConstantCurve,
    posterior: LinkPosterior | None,
) -> LeftOut:
    scores = honest_scores(fit, observables)
    weights = usual_weights(case_weights)
    own, groups = observables.loo_scores, observables.groups
    return LeftOut(curve, posterior, scores, fit.labels, weights, own, groups)


def _warn_about_scores(observables: Observables, case_weights: Floats, scale: ScoreScale) -> None:
    """Warn where the scores contradict what is assumed of them: their center, their spread."""
    scores = observables.calibration_scores
    center = float(np.average(scores, weights=case_weights))
    spread = float(np.sqrt(np.average((scores - center) ** 2, weights=case_weights)))
    if not observables.has_intercept and abs(center) > 0.5 * spread:
        warn(
            "The fit has no intercept, which presumes centered features, but its scores have a "
            f"mean of {center / spread:.1f} standard deviations. Fit an intercept, or center X.",
            AngleWarning,
        )
    ratio = scale.norm / max(spread, np.finfo(float).tiny)
    plausible = 1.0 / 3.0 <= ratio <= 3.0
    # A pool is compared with X column by column; a covariance has only its scores to be judged by.
    if scale.source == "covariance" and not plausible:
        warn(
            f"By the covariance the scores should have a standard deviation of {scale.norm:.3g}, "
            f"but leave-one-out scores have {spread:.3g}. The covariance must be that of the "
            "features as the linear model sees them, after any scaling.",
            AngleWarning,
        )


def _require_positive(covariance: Any, n_features: int) -> None:
    if covariance is None or isinstance(covariance, BaseEstimator) or is_operator(covariance):
        return
    matrix = check_covariance(covariance, n_features)
    invert(matrix, source="the given covariance", estimated=False, fresh=True)


def _why_impossible(
    fit: LinearFit, scale: ScoreScale, options: Options, groups: Groups | None
) -> str | None:
    # Not by the scores' spread: rounding leaves a constant score with a little of it.
    if not np.any(fit.coef):
        return "every fitted score is the same (all weights are zero)"
    if not (np.isfinite(scale.norm) and scale.norm > 0):
        return f"the fitted score does not vary (its spread, by {scale.source}, is {scale.norm:g})"
    if options.link_known and not isinstance(options.angle, str):
        return None  # nothing is left to be estimated from labels
    of_class = [np.flatnonzero(fit.labels == label) for label in (0.0, 1.0)]
    smallest = min(len(rows) for rows in of_class)
    if smallest < 3:
        return f"the smaller class has {smallest} rows, fewer than 3"
    if groups is not None:
        fewest = min(len(np.unique(groups.codes[rows])) for rows in of_class)
        if fewest < 3:
            return f"the smaller class has rows in {fewest} groups, fewer than 3"
    return None


def _fallback(
    fit: LinearFit,
    observables: Observables,
    case_weights: Floats,
    options: Options,
    scale: ScoreScale,
    reason: str,
) -> Calibration:
    warn(
        f"No angle can be estimated: {reason}. Every row gets the prevalence, which is calibrated "
        "but the same for every row.",
        AngleWarning,
    )
    # One row of each class is added, so that a rare class is not declared impossible.
    weights = usual_weights(case_weights)
    effect = prevalence_effect(fit.labels, weights, observables.groups)
    prevalence = (float(weights @ fit.labels) / effect + 1.0) / (len(fit.labels) / effect + 2.0)
    angle = Angle(0.0, 1.0, 0.0, (-1.0, 1.0), "fallback", reason, options.confidence)
    curve = ConstantCurve(prevalence)
    left_out = _left_out(fit, observables, case_weights, curve, None)
    return Calibration(angle, options.link, scale, curve, left_out, effect=effect)


NO_BETTER = "leave-one-out scores rank the labels no better than chance"


def warn_without_signal(posterior: Any, instead: str = "the prevalence") -> None:
    """Warn where the posterior, of any number of classes, says that no probability rises."""
    if not posterior.rises:
        warn(
            f"No signal found: {NO_BETTER}, so probabilities stay near {instead}. If the weights "
            "come from elsewhere, check the order of the classes.",
            AngleWarning,
        )


@dataclass(frozen=True, eq=False)
class _Evidence:
    """One fit's evidence about its angle, asked in different ways."""

    fit: LinearFit
    observables: Observables
    case_weights: Floats
    scale: ScoreScale
    options: Options

    @cached_property
    def standard_scores(self) -> Floats:
        """Leave-one-out scores in units of ‖ŵ‖_Σ."""
        return self.scale.standardize(self.observables.calibration_scores)

    def inflation(self, link: Link, cosine: float) -> float:
        """(I + C)/I of the slope, in units of the posterior's variance.

        See :func:`~angcal.angle.loo_information`.
        """
        given = (self.observables, self.fit.labels, self.case_weights, self.scale)
        found = loo_information(*given, link, cosine, self.slope_effect)
        return found.inflation * self.slope_effect / self.effect

    @property
    def effect(self) -> float:
        """Labels that say as much of the offset as one independent label."""
        return self._effects[0]

    @property
    def slope_effect(self) -> float:
        """The same of slope and cosine: labels of a group count apart where its scores differ."""
        return self._effects[1]

    @cached_property
    def _effects(self) -> tuple[float, float]:
        given = (self.standard_scores, self.fit.labels, self.case_weights)
        return label_effects(self.observables.groups, *given)

    def known_link(self) -> tuple[Angle, Link]:
        """The angle by the chosen method, the link as given."""
        options = self.options
        if not isinstance(options.angle, str):
            return given_angle(options.angle, options.confidence), options.link
        if options.angle == "loo":
            return self._loo(), options.link
        observable = self._observable_or_reason()
        if isinstance(observable, str):
            return with_note(self._loo(), f"no observable angle: {observable}"), options.link
        if options.angle == "observable":
            return observable, options.link
        return combine(observable, self._loo()), options.link

    def unknown_link(self) -> tuple[Angle, LinkPosterior]:
        """The angle, and the posterior of link and angle that the curve is the mean of."""
        options = self.options
        if not isinstance(options.angle, str):
            given = given_angle(options.angle, options.confidence)
            return given, self._posterior(given)
        observable = None if options.angle == "loo" else self._observable_or_reason()
        if not isinstance(observable, Angle):
            return self._from_labels_alone(observable)
        if options.angle == "observable":
            exact = replace(observable, sampling_error=0.0, systematic_error=0.0)
            return observable, self._posterior(exact)
        if not observable.has_sign:
            # Neither curves that rise nor those that fall can be left out by it; labels tell more.
            posterior = self._posterior(None)
            warn_without_signal(posterior)
            reason = f"{observable.reason}; zero is so near that labels alone make the curve"
            return replace(observable, reason=reason), posterior
        # The link-free angle settles what labels cannot. The posterior's own mean is further from
        # the truth: what labels say of the curve's shape rests on tails that no score has.
        reason = f"{observable.reason}; the curve averages over its error"
        return replace(observable, reason=reason), self._posterior(observable)

    def _posterior(self, known: Angle | None) -> LinkPosterior:
        given = (self.options.link, self.standard_scores, self.fit.labels, self.case_weights, known)
        return link_posterior(*given, effect=self.effect)

    def _from_labels_alone(self, why_not_observable: str | None) -> tuple[Angle, LinkPosterior]:
        """Without Σ⁻¹; the interval says how little labels know of the angle itself."""
        posterior, confidence = self._posterior(None), self.options.confidence
        cosine, interval = posterior.cosine, self._interval_by_labels(posterior)
        low, high = (float(np.degrees(np.arccos(end))) for end in interval[::-1])
        reason = (
            "posterior of link and angle given leave-one-out scores; its interval allows for any "
            "strength of the signal"
        )
        warn_without_signal(posterior)
        if not posterior.rises:
            cosine = 0.0
            reason = NO_BETTER
        elif high - low > 20.0:
            reason = "the angle is not determined by labels alone; an unlabeled pool would"
        if why_not_observable is not None:
            reason += f"; no observable angle: {why_not_observable}"
        error = posterior.cosine_sd
        return Angle(cosine, error, 0.0, interval, "loo", reason, confidence), posterior

    def _interval_by_labels(self, posterior: LinkPosterior) -> tuple[float, float]:
        """That of the posterior, wider where rows are uneven; without a sign where none is clear.

        Leave-one-out scores depend on each other, which up to doubles the variance of their trend.
        """
        low, high = posterior.interval(self.options.confidence)
        z = quantile(self.options.confidence)
        bias = z * LOO_BIAS * self.observables.unevenness
        low, high = max(low - bias, 0.0), min(high + bias, 1.0)
        return (-high if posterior.trend < np.sqrt(2.0) * z else low), high

    def _loo(self) -> Angle:
        return loo_angle(
            self.observables,
            self.fit.labels,
            self.case_weights,
            self.scale,
            self.options.link,
            confidence=self.options.confidence,
            effect=self.slope_effect,
        )

    def _sign(self) -> float:
        holdout = self.options.sign_holdout
        if holdout is None:
            scores = self.observables.calibration_scores - self.scale.center
            return training_sign(scores, self.fit.labels, self.case_weights)
        X, labels = holdout
        scores = np.asarray(X @ self.fit.coef) + self.fit.intercept - self.scale.center
        return holdout_sign(scores, labels)

    def _observable_or_reason(self) -> Angle | str:
        """The observable angle, or why there is none; a warning if it was asked for by name."""
        options = self.options
        inverse = precision(
            options.covariance,
            options.pool,
            self.fit.X,
            centered=self.observables.has_intercept,
            residuals=self.observables.residuals,
        )
        outcome: Angle | str
        if self.observables.in_groups:
            outcome = ROWS_DEPEND
        elif isinstance(inverse, Precision) and (inverse.fresh or options.angle == "observable"):
            try:
                outcome = observable_angle(
                    self.fit,
                    self.observables,
                    inverse,
                    self.scale,
                    sign=self._sign(),
                    confidence=options.confidence,
                )
            except (AngleError, StagnationError) as error:
                outcome = str(error)
        elif isinstance(inverse, Precision):
            outcome = "the covariance comes from the training rows themselves"
        else:
            outcome = inverse
        warn_if_asked_for(options.angle, outcome)
        return outcome
