r"""The observable angle of every class, where a covariance or a pool gives Σ⁻¹.

Class k of a fit is one score with residuals ψ_k. By Stein's lemma E[xψ_k] = Σ(b_k − Σ_l v_kl ŵ_l)
with b_k = Σ_l E[∂ψ_k/∂G_l]·w*_l, the true direction that class k rises in. With v taken as
diagonal, as the leverages of the classes are, the estimate for two classes
(:func:`~angcal.angle.observable_angle`) is that of the angle between ŵ_k and b_k.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from angcal._typing import Floats
from angcal.angle import (
    ROWS_DEPEND,
    Angle,
    AngleError,
    observable_angle,
    training_sign,
    warn_if_asked_for,
)
from angcal.covariance import Precision, StagnationError, precision, score_scale
from angcal.observables import Observables
from angcal.problem import LinearFit


def asked_angles(
    angle: Any,
    fits: list[LinearFit],
    observed: list[Observables],
    codes: np.ndarray,
    weights: Floats,
    covariance: Any,
    pool: Any,
    confidence: float,
) -> list[Angle] | str | None:
    """`observable_angles` where asked for; warns where ``angle`` insists on them in vain."""
    nothing_given = covariance is None and pool is None
    if angle == "loo" or (nothing_given and angle == "auto"):
        return None
    found = observable_angles(fits, observed, codes, weights, covariance, pool, confidence)
    warn_if_asked_for(angle, found, "angles are", "ones")
    return found


def observable_angles(
    fits: list[LinearFit],
    observed: list[Observables],
    codes: np.ndarray,
    weights: Floats,
    covariance: Any,
    pool: Any,
    confidence: float,
) -> list[Angle] | str:
    """The angle of each class of a joint fit or of one-vs-rest heads, or why there is none.

    Covariance and pool are as in :class:`~angcal.AngularCalibratedClassifier`.
    """
    if observed[0].in_groups:
        return ROWS_DEPEND
    inverse = precision(covariance, pool, fits[0].X, centered=observed[0].has_intercept)
    if not isinstance(inverse, Precision):
        return inverse
    if not inverse.fresh:
        return "the covariance comes from the training rows themselves"
    angles = []
    for k, (fit, found) in enumerate(_by_class(fits, observed)):
        scale = score_scale(
            found,
            fit.coef,
            fit.intercept,
            case_weights=weights,
            covariance=covariance,
            pool=pool,
        )
        sign = training_sign(
            found.calibration_scores - scale.center, (codes == k).astype(np.float64), weights
        )
        try:
            angles.append(
                observable_angle(fit, found, inverse, scale, sign=sign, confidence=confidence)
            )
        except (AngleError, StagnationError) as error:
            return f"class {k}: {error}"
    return angles


def _by_class(
    fits: list[LinearFit], observed: list[Observables]
) -> list[tuple[LinearFit, Observables]]:
    """Every class as a fit of one score."""
    if len(fits) > 1:
        return list(zip(fits, observed, strict=True))
    fit, found = fits[0], observed[0]
    names = ("scores", "linear_scores", "residuals", "curvatures", "leverages")
    parts = []
    for k, coef in enumerate(fit.coef):
        arrays = {name: getattr(found, name)[:, k] for name in names}
        own = np.broadcast_to(found.intercept_leverage, len(fit.coef))[k]
        one = replace(found, intercept_leverage=float(own), **arrays)
        parts.append((replace(fit, coef=coef, intercept=float(fit.intercept[k])), one))
    return parts
