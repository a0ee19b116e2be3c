r"""The angle between fitted and true weights, estimated from observables.

c = ⟨w*, ŵ⟩_Σ / (‖w*‖_Σ ‖ŵ‖_Σ), by two routes that fail for different reasons:

- *observable* (Bellec): needs Σ⁻¹, not the link. With ũ_i the leave-one-out score about its
  center, N = v̂·‖ŵ‖_Σ² + mean(ψũ) estimates ⟨w*, ŵ⟩_Σ·t, and
  T = ‖Σ^-½Xᵀψ‖²/n² − (1/n²)Σψ_i²x_iᵀΣ⁻¹x_i + 2v̂·mean(ψu) + v̂²·‖ŵ‖_Σ² estimates t².
  The paper has mean(ũ²) for ‖ŵ‖_Σ² and (d/n)r̂² for the diagonal; knowing the first and removing
  the second exactly lowers the error by a sixth to a third (docs/angle.md).
- *loo*: needs the link, not Σ⁻¹. Maximizes the likelihood of the labels at their leave-one-out
  scores, Σ log P(y_i | F_c(s_i)), over c.

Each comes with a standard error; *auto* weighs them by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from angcal import plan
from angcal._typing import Floats
from angcal.covariance import Precision, ScoreScale
from angcal.curve import angular_probability, noise_share
from angcal.links import Link
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.notices import AngleWarning, warn
from angcal.observable_error import Noise, coupling_of_rows, squared_radii
from angcal.observables import Observables, usual_weights
from angcal.problem import LinearFit
from angcal.score_bins import bin_all, bin_scores

# Beyond this cosine the curve no longer changes and derivatives in c degenerate.
LARGEST_COSINE = 0.9995

ERROR_CORRELATION = 0.55
"""Of the sampling errors of the two routes, measured over simulated and real designs."""
LOO_BIAS = 0.03
"""Of a cosine by leave-one-out scores, for each unit of unevenness of the rows; measured."""
DISAGREEMENT = 3.0
"""Routes further apart than this many standard errors do not measure the same thing."""

ROWS_DEPEND = "it takes rows for independent, and rows of a group are not"
"""Why there is no observable angle of groups of two rows or more."""


def warn_if_asked_for(asked: Any, found: Any, are: str = "angle is", ones: str = "one") -> None:
    """Warn where observable angles were asked for by name, and a reason against them was found."""
    if asked != "observable" or not isinstance(found, str):
        return
    depend = found == ROWS_DEPEND
    way_out = "fit one row of each group" if depend else "pass a covariance or a larger pool"
    warn(
        f"angle='observable' is not possible: {found}. The leave-one-out {are} used; {way_out} "
        f"for the observable {ones}.",
        AngleWarning,
    )


class AngleError(ValueError):
    """An angle cannot be estimated; the message is the reason."""


@dataclass(frozen=True)
class Angle:
    """The estimated angle, its uncertainty, and how it was computed.

    With an unknown link the cosine is the mean of the posterior of link and angle and the interval
    is that posterior's. Labels alone determine the probability curve but not the angle: a wide
    interval is then the usual case, and ``reason`` says so.

    Attributes
    ----------
    cosine : float
        cos θ, signed.
    sampling_error : float
        Standard error of the cosine from the draw of the rows; 0 for a given angle.
    systematic_error : float
        Size of the bias that uneven rows may cause.
    interval : (float, float)
        Confidence interval of the cosine, within [−1, 1].
    method : {"observable", "loo", "combined", "given", "fallback"}
        Which estimate it is.
    reason : str
        Why this method, in a sentence.
    confidence : float
        Level of the interval.
    row_error : float
        Standard error by the influence of single rows, which two routes are weighed by; 0 where it
        is not known.
    sides : (float, float) or None
        Standard errors below and above, by the interval of 95 %, where they differ.

    See Also
    --------
    AngleMatrix : The same for three and more classes.
    AngularCalibratedClassifier : Has one as ``angle_``.

    Examples
    --------
    >>> from angcal import Angle
    >>> Angle(0.5, 0.03, 0.04, (0.4, 0.6), "loo", "an example").degrees.__round__()
    60
    """

    cosine: float
    sampling_error: float
    systematic_error: float
    interval: tuple[float, float]
    method: str
    reason: str
    confidence: float = 0.95
    row_error: float = 0.0
    sides: tuple[float, float] | None = None

    @property
    def has_sign(self) -> bool:
        """Whether zero is further away than `angcal.plan.CLEAR` standard errors."""
        below, above = self.sides or (self.standard_error, self.standard_error)
        return abs(self.cosine) > plan.CLEAR * (below if self.cosine > 0 else above)

    @property
    def standard_error(self) -> float:
        """√(sampling² + systematic²)."""
        return float(np.hypot(self.sampling_error, self.systematic_error))

    @property
    def typical_error(self) -> float:
        """As the standard error, by the influence of single rows: for weights and averages."""
        return float(np.hypot(self.row_error or self.sampling_error, self.systematic_error))

    @property
    def degrees(self) -> float:
        """θ in degrees."""
        return float(np.degrees(np.arccos(self.cosine)))

    @property
    def is_fallback(self) -> bool:
        """Whether nothing could be estimated."""
        return self.method == "fallback"


def quantile(confidence: float) -> float:
    """Half-width of a normal interval at this confidence, in standard errors."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def make_angle(
    cosine: float,
    sampling_error: float,
    systematic_error: float,
    method: str,
    reason: str,
    confidence: float,
) -> Angle:
    """Angle with the interval cosine ± z·standard_error, cut to [−1, 1]."""
    half = quantile(confidence) * float(np.hypot(sampling_error, systematic_error))
    center = float(np.clip(cosine, -1.0, 1.0))
    interval = (max(center - half, -1.0), min(center + half, 1.0))
    return Angle(
        center, float(sampling_error), float(systematic_error), interval, method, reason, confidence
    )


def given_angle(cosine: float, confidence: float = 0.95) -> Angle:
    """An angle that the user knows."""
    if not (np.isfinite(cosine) and -1.0 <= cosine <= 1.0):
        raise ValueError(f"angle={cosine!r} is meant as a cosine and must lie in [-1, 1].")
    return make_angle(float(cosine), 0.0, 0.0, "given", "the cosine was given", confidence)


def training_sign(scores: Floats, labels: Floats, case_weights: Floats) -> float:
    """sign Σ ω_i(y_i − ȳ)·z̃_i: the sign of ⟨w*, ŵ⟩_Σ without a holdout."""
    centered = labels - np.average(labels, weights=case_weights)
    return 1.0 if float(np.sum(case_weights * centered * scores)) >= 0 else -1.0


def holdout_sign(scores: Floats, labels: Floats) -> float:
    """sign Σ ŵᵀx_i·y_i over holdout rows: the paper's estimator, on centered scores."""
    return 1.0 if float(scores @ labels) >= 0 else -1.0


def observable_angle(
    fit: LinearFit,
    observables: Observables,
    precision: Precision,
    scale: ScoreScale,
    *,
    sign: float,
    confidence: float = 0.95,
) -> Angle:
    """|c| = N/(√T·‖ŵ‖_Σ), as in the module's docstring; link-free.

    Raises
    ------
    AngleError
        Where T is not positive, or so small against its parts that its square root is noise.
    """
    if not (np.isfinite(scale.norm) and scale.norm > 0 and np.ptp(observables.scores) > 0):
        raise AngleError("the fitted score does not vary")
    parts = _parts(fit, observables, precision, scale)
    square = parts.square
    if not np.isfinite(square) or square <= 1e-3 * parts.size:
        raise AngleError(
            f"the observable estimate has no stable denominator ({square:.2g} against parts of "
            f"size {parts.size:.2g})"
        )
    cosine = parts.numerator / np.sqrt(square) / scale.norm
    near = min(abs(cosine), LARGEST_COSINE)
    error = abs(cosine) * parts.noise.relative_error(parts.numerator, square, near)
    _require_plausible(cosine, error)
    usual = _interval(parts, sign, quantile(0.95))
    center = float(np.clip(sign * abs(cosine), -1.0, 1.0))
    reason = f"Σ⁻¹ from {precision.source}"
    if cosine > 1.0:
        reason += f" (estimate {cosine:.2f} cut to 1)"
    if usual[1] - usual[0] > 1.0:
        reason += "; the signal is so weak for so few rows that the angle is hardly known"
    elif parts.noise.nearly_cancels(near):
        reason += "; N and T nearly cancel, so the interval is longer than its confidence asks"
    # A systematic part grows with the unevenness of the rows, more so where Σ⁻¹ is estimated.
    bias = (0.06 if precision.estimated else 0.03) * observables.unevenness
    z, usual_z = quantile(confidence), quantile(0.95)
    below, above = _reach(_interval(parts, sign, z), center, z * bias)
    ends = (max(center - below, -1.0), min(center + above, 1.0))
    below, above = _reach(usual, center, usual_z * bias)
    sides = (below / usual_z, above / usual_z)
    row_error = abs(cosine) * parts.row_error
    found = (center, error, bias, ends, "observable", reason, confidence)
    return Angle(*found, row_error, sides)


def _reach(ends: tuple[float, float], center: float, bias: float) -> tuple[float, float]:
    """How far an interval goes below and above, its bias included."""
    below, above = np.hypot([min(ends[0] - center, 0.0), max(ends[1] - center, 0.0)], bias)
    return float(below), float(above)


def _interval(parts: _Parts, sign: float, z: float) -> tuple[float, float]:
    low, high = parts.noise.interval(parts.weighed_numerator, parts.weighed_square, z**2)
    if sign * parts.weighed_numerator >= 0:
        return low, high
    # Where the two signs disagree neither is known.
    reach = max(abs(low), abs(high))
    return -reach, reach


@dataclass(frozen=True)
class _Parts:
    """N and T, the size of what T is the difference of, and what their noise is made of.

    The estimate has one v̂ for all rows, which did best on real designs; the interval has N and T
    of a v̂ that weighs rows by their squared radii, which is right where rows differ in length.
    """

    numerator: float
    square: float
    size: float
    row_error: float
    weighed_numerator: float
    weighed_square: float
    noise: Noise


def _parts(fit: LinearFit, o: Observables, precision: Precision, scale: ScoreScale) -> _Parts:
    n, psi, length = o.n_samples, o.residuals, scale.norm**2
    center = np.asarray(fit.X.mean(axis=0)).ravel() if o.has_intercept else None
    along, squares = precision.products(fit.X, center, psi)
    deflation = 1.0
    if precision.estimated and precision.fresh:
        deflation = precision.rank / float(np.mean(squares))
    u = o.linear_scores - (o.linear_scores.mean() if o.has_intercept else 0.0)
    loo = u - o.slope_steps * psi
    # −∂ψ_i/∂ũ_i, times how far row i reaches: rows of unequal length would bias their plain mean.
    radii = squared_radii(squares, precision.rank)
    slopes = (o.curvatures - o.leverages * o.curvatures**2) * radii
    v, share = float(np.mean(slopes)), float(np.mean(psi * u))
    pairs = deflation * float(np.mean(psi * along)) / n
    # The diagonal of the pairs goes, each row's own square, so that rows of unequal length do not
    # bias T.
    diagonal = deflation * float(np.mean(psi**2 * squares)) / n
    overlap = float(np.mean(o.slope_steps * psi**2))
    residuals = float(np.sum(psi**2 * radii))
    step = n * overlap / max(residuals, np.finfo(float).tiny)
    curvatures = float(np.sum(slopes**2))
    noise = Noise(
        *(n, precision.rank, length, v, residuals, curvatures),
        *(coupling_of_rows(fit, o, step, curvatures, precision.rank), step),
        *(overlap, diagonal, share, pairs),
        length_rows={"covariance": 0, "pool": precision.rows}.get(scale.source, n),
        inverse_rows=precision.rows,
        tails=max(0.5 * (_kurtosis(loo) - 1.0), 1.0),
    )
    own = deflation * (psi * along - psi**2 * squares) / n
    row_error = _row_error(o, u, loo, length, own, precision.rank)
    forms = [_forms(o, each, length, pairs - diagonal, loo, share) for each in (o.v, v)]
    size = abs(pairs - diagonal) + abs(2.0 * o.v * share) + o.v**2 * length
    return _Parts(*forms[0], size, row_error, *forms[1], noise)


def _row_error(
    o: Observables, u: Floats, loo: Floats, length: float, pair_rows: Floats, rank: int
) -> float:
    """Standard error of N/√T as a share of it, by the influence of single rows.

    Smaller than what `Noise` says under weak penalties, and what the two routes are weighed by.
    """
    n, v, psi = o.n_samples, o.v, o.residuals
    numerator_rows = v * length + psi * loo
    score_rows = 2.0 * v * psi * u + v**2 * length
    square = float(np.mean(pair_rows + score_rows))
    # A pair share holds half of what moves when row i does, hence its factor 2.
    with np.errstate(divide="ignore", invalid="ignore"):
        influence = numerator_rows / np.mean(numerator_rows)
        influence = influence - 0.5 * (2.0 * pair_rows + score_rows) / square
        # Near an unpenalized optimum the rows' shares cancel, but the noise of Xᵀψ itself stays.
        pair_noise = float(o.residual_variance * np.sqrt(0.5 * rank) / (n * np.float64(square)))
    # Row influences treat rows as independent and fall about a tenth short (docs/angle.md).
    return 1.1 * max(float(np.std(influence)) / np.sqrt(n), pair_noise)


def _forms(
    o: Observables, v: float, length: float, pairs: float, loo: Floats, share: float
) -> tuple[float, float]:
    """N and T for one v̂."""
    numerator = v * length + float(np.mean(o.residuals * loo))
    return numerator, pairs + 2.0 * v * share + v**2 * length


def _kurtosis(scores: Floats) -> float:
    """E s⁴/(E s²)²; in units of the largest, so that no power of it is lost."""
    unit = scores / max(float(np.abs(scores).max()), np.finfo(float).tiny)
    return float(np.mean(unit**4)) / max(float(np.mean(unit**2)) ** 2, np.finfo(float).tiny)


def _require_plausible(cosine: float, error: float) -> None:
    if error > 1.0:  # a cosine lies within [-1, 1]
        raise AngleError(f"the observable estimate {cosine:.2f} has an error of {error:.2g}")
    if cosine > 1.0 + 2.0 * error:
        raise AngleError(
            f"the observable estimate is {cosine:.2f}, beyond 1 by more than its error"
        )


def likelihood_curve(link: Link, cosine: float, scores: Floats) -> Floats:
    """F_c(s), floored on both sides so that one impossible label does not decide everything."""
    if link.mixture is None:
        p = angular_probability(link, cosine, scores)
    else:
        center = link.scale * cosine * scores + link.offset
        p = link.mixture.values(center, link.scale * noise_share(cosine))
    return np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)


def loo_angle(
    observables: Observables,
    labels: Floats,
    case_weights: Floats,
    scale: ScoreScale,
    link: Link,
    *,
    confidence: float = 0.95,
    effect: float = 1.0,
) -> Angle:
    """Argmax over c of Σ ω_i log P(y_i | F_c(s_i)) at leave-one-out scores s_i, link known.

    ``effect`` labels say as much as one independent label.
    """
    scores = scale.standardize(observables.calibration_scores)
    bins = bin_scores(scores, labels, case_weights)

    def loss(cosine: float) -> float:
        p = likelihood_curve(link, cosine, bins.nodes)
        return -float(bins.positive @ np.log(p) + bins.negative @ np.log1p(-p))

    grid = np.linspace(-1.0, 1.0, 21)
    best = grid[int(np.argmin([loss(c) for c in grid]))]
    bounds = (max(best - 0.1, -1.0), min(best + 0.1, 1.0))
    cosine = float(minimize_scalar(loss, bounds=bounds, options={"xatol": 1e-6}).x)
    information = loo_information(observables, labels, case_weights, scale, link, cosine, effect)
    bias = LOO_BIAS * observables.unevenness
    reason = f"likelihood of {len(labels)} leave-one-out scores under the {link.name} link"
    return make_angle(cosine, information.standard_error, bias, "loo", reason, confidence)


@dataclass(frozen=True)
class LooInformation:
    """Fisher information I about c in the leave-one-out labels, and their coupling C."""

    fisher: float
    coupling: float

    @property
    def standard_error(self) -> float:
        """√(I + C)/I, at most 1: a cosine is never known worse than that."""
        if self.fisher <= 0:
            return 1.0
        return min(float(np.sqrt(self.fisher + self.coupling)) / self.fisher, 1.0)

    @property
    def inflation(self) -> float:
        """(I + C)/I: by how much coupling inflates the variance of independent labels."""
        return 1.0 + self.coupling / self.fisher if self.fisher > 0 else 1.0


def loo_information(
    observables: Observables,
    labels: Floats,
    case_weights: Floats,
    scale: ScoreScale,
    link: Link,
    cosine: float,
    effect: float = 1.0,
) -> LooInformation:
    """I = Σ (∂F/∂c)²/(F(1−F)) and C = Σ_{i≠j} b_i A'_ij² b_j, b_i = ∂²log P_i/∂c∂s · ψ_i/‖ŵ‖.

    The scores of rows i and j each depend on the other row: ∂s_i/∂(row j) ∝ A'_ij ψ_j. That adds
    C to the variance of the likelihood's slope and up to doubles it when d rivals n. The squares
    A'_ij² are taken as proportional to c_i c_j, the observables' coupling. Of groups, ``effect``
    labels say as much as one independent label: their slopes vary by effect·I + effect²·C, as
    those of copies do exactly. There b_i is that of the group's weight
    (:meth:`~angcal.leverages.groups.Groups.mass_shares`), as if its rows were copies.
    """
    scores = scale.standardize(observables.calibration_scores)
    c, h = float(np.clip(cosine, -LARGEST_COSINE, LARGEST_COSINE)), 1e-4
    weights = usual_weights(case_weights)
    pulls = observables.residuals * observables.coupling
    pulls *= weights
    pulls /= scale.norm
    if observables.groups is not None:
        pulls *= observables.groups.mass_shares(weights)
    rows, leaning = bin_all(scores, labels, [weights, pulls])
    p = likelihood_curve(link, c, rows.nodes)
    slope = likelihood_curve(link, c + h, rows.nodes) - likelihood_curve(link, c - h, rows.nodes)
    fisher = float(rows.total @ ((slope / (2.0 * h)) ** 2 / (p * (1.0 - p))))
    # ∂²log P/∂c∂s from four corners, for either label.
    lean = 0.0
    for sign_c in (1.0, -1.0):
        for sign_s in (1.0, -1.0):
            corner = likelihood_curve(link, c + sign_c * h, leaning.nodes + sign_s * h)
            gain = leaning.positive @ np.log(corner) + leaning.negative @ np.log1p(-corner)
            lean += sign_c * sign_s * float(gain) / (4.0 * h * h)
    total = max(float(observables.coupling.sum()), np.finfo(float).tiny)
    return LooInformation(fisher / effect, lean**2 / total)


def combine(observable: Angle, loo: Angle) -> Angle:
    """Weigh two angles by their variances, given that their errors are correlated.

    The observable angle errs by a factor, so a low estimate would report a low error and draw
    weight to itself; its error is therefore taken at the other route's cosine. Where the two
    disagree by more than ``DISAGREEMENT`` standard errors the excess counts against the observable
    angle: it has the stronger assumptions (Gaussian rows, an exact Σ⁻¹).
    """
    factor = abs(loo.cosine) / max(abs(observable.cosine), 0.05)
    # An interval counts all noise; a weight needs the part that the routes do not share, which the
    # influence of rows tells: with it the mean error over real designs is smallest.
    typical = factor * (observable.row_error or observable.sampling_error) / 1.3
    so, sl = float(np.hypot(typical, observable.systematic_error)), loo.standard_error
    covariance = ERROR_CORRELATION * so * sl
    spread = so**2 + sl**2 - 2.0 * covariance
    gap = observable.cosine - loo.cosine
    excess = max(gap**2 - DISAGREEMENT**2 * spread, 0.0)
    total = spread + excess
    weight = float(np.clip((so**2 + excess - covariance) / total, 0.0, 1.0)) if total > 0 else 0.5
    rest = 1.0 - weight
    # Its interval is longer than its error says where the signal is weak.
    so = 0.5 * float(np.ptp(observable.interval)) / quantile(observable.confidence)
    mixed = 2.0 * weight * rest * ERROR_CORRELATION * so * sl
    variance = (weight * sl) ** 2 + rest**2 * (so**2 + excess) + mixed
    reason = (
        f"leave-one-out {loo.cosine:.3f} ± {sl:.3f} and observable {observable.cosine:.3f} ± "
        f"{so:.3f} weighed {weight:.0%} to {rest:.0%} by precision"
    )
    if excess > 0:
        reason += "; they disagree, so the observable one counts less"
    cosine = weight * loo.cosine + rest * observable.cosine
    error = float(np.sqrt(variance))
    return make_angle(cosine, error, 0.0, "combined", reason, loo.confidence)


def with_note(angle: Angle, note: str) -> Angle:
    """The same angle with a note added to its reason."""
    return replace(angle, reason=f"{angle.reason}; {note}")
