r"""The best penalty, and the labels that a target needs.

J(c) = E[G²/(F(1−F))] is what one label says about the unseen part of the signal. At the penalty
that maximizes the cosine,

    c² = max over μ of A(μ)²/(B(μ) + df2(μ)/x),  x = n·J(c)

exactly for weights that prefer no direction, and nearly where they prefer large ones a little, so
that the labels needed for a cosine c are n = x/J(c): no search over n. Isotropic features:
n = d·c²/((1−c²)·J(c)).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from angcal._typing import Floats
from angcal.links import Link, Logit
from angcal.losses import Logistic, Loss
from angcal.theory.channel import Labels, calibrated, grid
from angcal.theory.solve import Problems, slopes, solve
from angcal.theory.spectrum import Spectra, Spectrum
from angcal.theory.state import (
    LARGEST_GAP,
    FitState,
    check,
    cosine_slopes,
    make_problems,
    solve_hard,
    states,
)

MOST_LABELS = 1e9
"""A target that takes more labels is called out of reach."""


def best_state(
    n: float,
    spectrum: Spectrum,
    *,
    link: Link | None = None,
    loss: Loss | None = None,
    fit_intercept: bool = True,
) -> FitState:
    """The state of the fit whose penalty gives the largest cosine, so the lowest calibrated loss.

    Parameters
    ----------
    n : float
        Labels.
    spectrum : Spectrum
        Of the features.
    link, loss : Link and Loss, optional
        As in `state_of_fit`.
    fit_intercept : bool, default=True
        Whether b is free.

    Returns
    -------
    FitState
        ``C`` is the best inverse strength.

    See Also
    --------
    state_of_fit : At a given penalty.

    Examples
    --------
    >>> best = best_state(800, Spectrum.isotropic(400), link=Logit(3.0))
    >>> round(best.cosine, 3)
    0.754
    """
    link, loss = link or Logit(), loss or Logistic()
    check(n, 1.0, loss)

    def problem_at(log_rho: float) -> Problems:
        strength = np.exp(log_rho) * spectrum.trace / n
        return make_problems([n], [strength], spectrum, link, loss, fit_intercept)

    center = _root_of_slope(problem_at, float(np.log(1.4 / link.scale**2)))
    problems = problem_at(center)
    return states(problems, solve_hard(problems))[0]


def _root_of_slope(problem_at: Callable[[float], Problems], center: float) -> float:
    """log ρ at which the cosine has no slope: bracketed from a rule of thumb, then Illinois.

    Every solution, moved along its own derivative, is the start of the next. Where the cosine
    grows without end, as it may where the signal lies in the smallest directions, the weakest
    penalty that could be solved.
    """
    found = solve_hard(problem_at(center))
    last = center

    def slope(at: float) -> float:
        nonlocal found, last
        problems = problem_at(at)
        start = found.x + np.clip((at - last) * slopes(problem_at(last), found), -2.0, 2.0)
        newer = solve(problems, start, rounds=12)
        if newer.residual[0] > LARGEST_GAP:
            return float("nan")
        found, last = newer, at
        return float(cosine_slopes(problems, found)[0])

    low, at_low = center, slope(center)
    step = 1.5 if at_low > 0 else -1.5
    for _ in range(8):
        high = low + step
        at_high = slope(high)
        if np.isnan(at_high):
            return last
        if not at_low * at_high > 0:
            break
        low, at_low = high, at_high
    else:
        return high
    for _ in range(12):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = slope(middle)
        if np.isnan(value) or abs(value) < 1e-6 or abs(high - low) < 1e-4:
            break
        if value * at_high < 0:
            low, at_low = high, at_high
        else:
            at_low *= 0.5
        high, at_high = middle, value
    return middle


# -- the scalar equation -------------------------------------------------------------------------


def information(link: Link, cosine: Floats) -> Floats:
    """J(c) = E[G²/(F(1−F))] at every cosine."""
    c = np.atleast_1d(np.asarray(cosine, dtype=np.float64))
    labels = Labels(link, np.full(len(c), link.scale), np.full(len(c), link.offset), Logistic())
    return information_of(labels, c)


def information_of(labels: Labels, cosine: Floats, step: float = 0.05) -> Floats:
    """J(c) of many problems, each with its own link."""
    s, weights = grid(step)
    F, G = labels.curve(cosine, s)
    return (G**2 / np.maximum(F * (1.0 - F), 1e-12)) @ weights


def reached(spectra: Spectra, x: Floats, mu: Floats) -> Floats:
    """(max over μ of A²/(B + df2/x), the best μ), each for every signal (rows) and x (columns)."""
    kept = spectra.values / (spectra.values + mu[:, None])
    df2 = (kept**2) @ spectra.counts
    A, B = spectra.shares @ kept.T, spectra.shares @ (kept**2).T
    values = A[:, None, :] ** 2 / (B[:, None, :] + df2 / x[:, None])
    # Of equals, as isotropic features have them, the ridge that Bayes' rule would take: tr Σ/x.
    unusual = np.abs(np.log(mu * x[:, None] / float(spectra.counts @ spectra.values)))
    best = (values - 1e-6 * unusual).argmax(axis=2)
    return np.stack([values.max(axis=2), mu[best]])


def mu_grid(spectrum: Spectrum, count: int = 80) -> Floats:
    """Ridges worth trying: from 1e-3 times the smallest eigenvalue to 1e4 times the largest."""
    return np.geomspace(1e-3 * spectrum.values.min(), 1e4 * spectrum.values.max(), count)


def _labels_for_cosine(cosine: float, spectrum: Spectrum, link: Link) -> float:
    """n = x/J(c)."""
    mu = mu_grid(spectrum, 400)
    spectra = Spectra(spectrum.values, spectrum.counts, spectrum.shares[None])

    def gap(log_x: float) -> float:
        return float(reached(spectra, np.array([np.exp(log_x)]), mu)[0, 0, 0]) - cosine**2

    low, high = np.log(1e-9), np.log(1e18)
    if gap(high) < 0:
        return float("inf")
    x = np.exp(brentq(gap, low, high, xtol=1e-10))
    return float(x / information(link, np.array([cosine]))[0])


def labels_needed(
    spectrum: Spectrum,
    *,
    link: Link | None = None,
    cosine: float | None = None,
    log_loss: float | None = None,
    accuracy: float | None = None,
) -> float:
    r"""Labels at which calibrated ridge logistic regression at its best penalty meets a target.

    Parameters
    ----------
    spectrum : Spectrum
        Of the features, with the signal's shares.
    link : Link, optional
        P(y = 1 | x) as a function of w*ᵀx of variance 1, such as `link_for` gives; ``Logit()`` by
        default.
    cosine, log_loss, accuracy : float
        The target, one of the three; log-loss and accuracy are those of calibrated probabilities,
        the log-loss with the 1/n that fitting their map costs.

    Returns
    -------
    float
        Labels, not rounded; infinity where more than 1e9 are needed.

    Raises
    ------
    ValueError
        Where the target lies beyond what the truth itself reaches, or is met without labels.

    See Also
    --------
    link_for : A link from accuracy and prevalence.

    Examples
    --------
    >>> d = 400
    >>> round(labels_needed(Spectrum.isotropic(d), link=Logit(3.0), cosine=0.8) / d, 3)
    2.548
    """
    link = link or Logit()
    targets = {"cosine": cosine, "log_loss": log_loss, "accuracy": accuracy}
    name, target = only_target(targets)
    extra, n = 0.0, float("inf")
    # The 1/n of the map lowers what is asked of the score, which changes n a little.
    for _ in range(30 if name == "log_loss" else 1):
        c = target if name == "cosine" else _cosine_for(name, target - extra, link)
        check_cosine(c, target)
        newer = _labels_for_any(c, spectrum, link)
        if not newer < MOST_LABELS:
            return float("inf")
        settled = abs(newer - n) < 1e-6 * newer
        n, extra = newer, 1.0 / newer
        if settled:
            break
    return n


def only_target(targets: dict[str, float | None]) -> tuple[str, float]:
    """Name and value of the one that is given."""
    given = {name: float(value) for name, value in targets.items() if value is not None}
    if len(given) != 1:
        *others, last = targets
        raise ValueError(f"Give one of {', '.join(others)} and {last}, not {len(given)} of them.")
    (found,) = given.items()
    return found


def _labels_for_any(c: float, spectrum: Spectrum, link: Link) -> float:
    """n from the scalar equation, corrected by the full ones where the signal has a preference."""
    n = _labels_for_cosine(c, spectrum, link)
    plain = spectrum.with_power(1.0).shares
    if not np.isfinite(n) or np.allclose(plain, spectrum.shares, atol=1e-6):
        return n

    def gap(log_n: float) -> float:
        return best_state(np.exp(log_n), spectrum, link=link).cosine - c

    low = high = np.log(max(n, 2.0))
    while gap(high) < 0:
        high += 0.7
        if high > np.log(MOST_LABELS):
            return float("inf")
    while low > np.log(2.0) and gap(low) > 0:
        low = max(low - 0.7, np.log(2.0))
    return float(np.exp(brentq(gap, low, high, xtol=1e-3))) if high > low else float(np.exp(high))


def check_cosine(c: float, target: float) -> None:
    """Raise where no fit reaches the cosine."""
    if not 0.0 < c < 1.0:
        raise ValueError(f"cosine={target!r} must lie between 0 and 1, without either.")


def _cosine_for(name: str, target: float, link: Link) -> float:
    """The cosine at which calibrated probabilities have this log-loss or accuracy."""
    labels = Labels(link, np.array([link.scale]), np.array([link.offset]), Logistic())

    def value(c: float) -> float:
        return float(getattr(calibrated(labels, np.array([c])), name)[0])

    worst, best = value(0.0), value(1.0)
    better = (lambda a, b: a < b) if name == "log_loss" else (lambda a, b: a > b)
    if not better(best, target):
        end = ceiling_sentence(name, best)
        raise ValueError(f"{name}={target:.4g} is beyond reach: {end}. Choose a target below it.")
    if not better(target, worst):
        raise ValueError(
            f"{name}={target:.4g} needs no model: always saying the prevalence has {worst:.4g}."
        )
    return float(brentq(lambda c: value(c) - target, 0.0, 1.0, xtol=1e-10))


def ceiling_sentence(name: str, best: float) -> str:
    """What the truth itself reaches."""
    what = "log-loss" if name == "log_loss" else "accuracy"
    return f"with unlimited labels a linear model here has {what} {best:.4g}"


def link_for(
    accuracy: float | None = None, *, prevalence: float = 0.5, scale: float | None = None
) -> Logit:
    """The logistic link of a given prevalence whose truth has a given accuracy, or a given scale.

    Parameters
    ----------
    accuracy : float, optional
        With unlimited labels; above the larger of prevalence and 1 − prevalence.
    prevalence : float, default=0.5
        Share of class 1.
    scale : float, optional
        κ in place of the accuracy.

    Returns
    -------
    Logit
        The link.

    See Also
    --------
    labels_needed : Takes it.

    Examples
    --------
    >>> round(link_for(0.9, prevalence=0.5).scale, 2)
    5.3
    """
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"prevalence={prevalence!r} must lie between 0 and 1.")
    g, weights = grid(0.02)

    def offset(kappa: float) -> float:
        wide = 40.0 + 8.0 * kappa
        return float(brentq(lambda b: Logit(kappa, b)(g) @ weights - prevalence, -wide, wide))

    if scale is not None:
        return Logit(scale, offset(scale))
    least = max(prevalence, 1.0 - prevalence)
    if accuracy is None or not least < accuracy < 0.9995:
        raise ValueError(
            f"accuracy={accuracy!r} must lie between {least:.4g}, which saying the common class "
            "always has, and 0.9995."
        )

    def gap(log_kappa: float) -> float:
        kappa = float(np.exp(log_kappa))
        p = Logit(kappa, offset(kappa))(g)
        return float(np.maximum(p, 1.0 - p) @ weights) - accuracy

    kappa = float(np.exp(brentq(gap, np.log(1e-3), np.log(3000.0))))
    return Logit(kappa, offset(kappa))
