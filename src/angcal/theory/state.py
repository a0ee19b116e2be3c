"""The state of one ridge fit: what n labels give before they are paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm as normal

from angcal._typing import Floats
from angcal.links import Link, Logit
from angcal.losses import Logistic, Loss, Multinomial
from angcal.problem import SeparableDataError
from angcal.theory.channel import (
    Calibrated,
    Channel,
    Labels,
    Plain,
    calibrated,
    grid,
    in_sample,
    plain,
)
from angcal.theory.solve import Problems, Solution, slopes, solve, unknowns
from angcal.theory.spectrum import Spectra, Spectrum

# -- How a fit scatters over data sets: the law of its weights, and means over it ---------------
#
# In every eigen-direction of Σ, with f_j = s_j/(λ + v s_j) and ξ_j ~ N(0, 1),
#
#     √s_j ŵ_j = f_j·(t·√s_j w*_j + (r/√n)·ξ_j)
#
# so that a = ŵᵀΣw* and Q = ŵᵀΣŵ have, with δ² = r²/n,
#
#     Var a = δ²Σ f_j² e_j    Var Q = Σ f_j⁴(4t²δ²e_j + 2δ⁴m_j)    Cov(a, Q) = 2tδ²Σ f_j³ e_j
#
# Where few directions carry much, this scatter moves means: E[c] is not the c of the mean fit.


@dataclass(frozen=True, eq=False)
class Scatter:
    """Nine places of (cosine, norm) that stand for the law over data sets, (9, B) each."""

    cosine: Floats  # (9, B)
    norm: Floats  # (9, B)
    weights: Floats  # (9,): Their shares

    def mean(self, values: Floats) -> Floats:
        """Mean of values at the nine places, (9, B) to (B,)."""
        return self.weights @ values

    def averaged(self, labels: Labels, b: Floats, b_sd: Floats) -> tuple[Plain, Calibrated]:
        """Losses on new rows, means over the nine places."""
        own = [plain(labels, c, q, b, b_sd) for c, q in zip(self.cosine, self.norm, strict=True)]
        best = [calibrated(labels, c) for c in self.cosine]
        return (
            Plain(*(self._mean_of(own, field.name) for field in fields(Plain))),
            Calibrated(*(self._mean_of(best, field.name) for field in fields(Calibrated))),
        )

    def _mean_of(self, results: Sequence[Any], name: str) -> Floats:
        return self.mean(np.stack([getattr(each, name) for each in results]))

    @property
    def cosine_sd(self) -> Floats:
        """Deviation of the cosine over data sets, (B,)."""
        off = self.cosine - self.mean(self.cosine)
        return np.sqrt(self.mean(off**2))


def scatter_of(spectra: Spectra, n: Floats, mu: Floats, found: Channel) -> Scatter:
    """The law of a and Q of every problem, as a normal and a log-normal variable."""
    f = spectra.values / (spectra.values + mu[:, None]) / found.v[:, None]
    e, t, noise = spectra.shares, found.t, found.r2 / n
    a = t * (f * e).sum(axis=1)
    Q = t**2 * (f**2 * e).sum(axis=1) + noise * (f**2 @ spectra.counts)
    var_a = noise * (f**2 * e).sum(axis=1)
    var_Q = 4.0 * t**2 * noise * (f**4 * e).sum(axis=1) + 2.0 * noise**2 * (f**4 @ spectra.counts)
    cov = 2.0 * t * noise * (f**3 * e).sum(axis=1)
    # log Q is closer to normal, and never without a square root.
    log_var = np.log1p(var_Q / Q**2)
    log_mean = np.log(Q) - 0.5 * log_var
    slope = cov / Q / log_var
    beside = np.sqrt(np.maximum(var_a - slope**2 * log_var, 0.0))
    places, shares = np.polynomial.hermite_e.hermegauss(3)
    first, second = (part.ravel() for part in np.meshgrid(places, places, indexing="ij"))
    shares = np.outer(shares, shares).ravel() / shares.sum() ** 2
    log_Q = log_mean + first[:, None] * np.sqrt(log_var)
    alignment = a + slope * (log_Q - log_mean) + second[:, None] * beside
    norm = np.exp(0.5 * log_Q)
    return Scatter(np.clip(alignment / norm, -1.0, 1.0), norm, shares)


LARGEST_GAP = 1e-6
"""Above it a fixed point is not called one."""


@dataclass(frozen=True)
class FitState:
    """What a ridge fit to n labels is expected to be; every field is a number.

    Attributes
    ----------
    n, C : float
        Labels, and scikit-learn's inverse strength.
    cosine, norm, intercept : float
        Of the angle between fitted and true weights, the deviation of a new row's score, and b.
    intercept_sd, cosine_sd : float
        Their spread over data sets.
    cosine_slope : float
        d cosine/d log C: zero at the best penalty.
    degrees_of_freedom : float
        Without the intercept's one.
    step : float
        γ: a row's own label moves its score by γψ.
    v, r2, t : float
        The observables' expectations.
    training_loss, training_sd : float
        Mean loss and deviation of the scores of rows in the fit.
    log_loss, accuracy, brier, ece : float
        Of the fit's own probabilities on new rows; NaN but for accuracy where the loss has none.
    calibrated_log_loss, calibrated_accuracy, calibrated_brier : float
        Of the best map of the score.
    bayes_log_loss, bayes_accuracy, bayes_brier : float
        Of the truth.
    converged : bool
        Whether the equations were solved.
    residual : float
        How far they are from it.

    See Also
    --------
    state_of_fit : Computes it.

    Examples
    --------
    >>> state = state_of_fit(1000, Spectrum.isotropic(500), C=1.0, link=Logit(3.0))
    >>> round(state.cosine, 3), state.converged
    (0.701, True)
    """

    n: float
    C: float
    cosine: float
    norm: float
    intercept: float
    intercept_sd: float
    cosine_sd: float
    cosine_slope: float
    degrees_of_freedom: float
    step: float
    v: float
    r2: float
    t: float
    training_loss: float
    training_sd: float
    log_loss: float
    accuracy: float
    brier: float
    ece: float
    calibrated_log_loss: float
    calibrated_accuracy: float
    calibrated_brier: float
    bayes_log_loss: float
    bayes_accuracy: float
    bayes_brier: float
    converged: bool
    residual: float


def state_of_fit(
    n: float,
    spectrum: Spectrum,
    *,
    C: float = 1.0,
    link: Link | None = None,
    loss: Loss | None = None,
    fit_intercept: bool = True,
    finite: bool = False,
) -> FitState:
    r"""The expected state of min_{w,b} C·Σ_i ℓ(y_i, x_iᵀw + b) + ½‖w‖² on n labels.

    Parameters
    ----------
    n : float
        Labels.
    spectrum : Spectrum
        Of the features, with the signal's shares.
    C : float, default=1.0
        Inverse strength as in scikit-learn; infinity for no penalty.
    link : Link, optional
        P(y = 1 | x) as a function of w*ᵀx, scaled to variance 1; ``Logit()`` by default. Its scale
        is the signal's strength, its offset says how common the classes are.
    loss : Loss, optional
        What is fitted; logistic by default. Losses with corners take a few times as long.
    fit_intercept : bool, default=True
        Whether b is free or 0.
    finite : bool, default=False
        Whether cosine, norm and what follows from them on new rows are means over data sets, to
        second order. It matters where few directions carry much of the signal.

    Returns
    -------
    FitState
        ``converged`` is False where the equations could not be solved.

    Raises
    ------
    SeparableDataError
        Without a penalty, where so few labels have no finite fit.

    See Also
    --------
    best_state : The same at the best penalty.

    Examples
    --------
    >>> weak, strong = (
    ...     state_of_fit(200, Spectrum.isotropic(400), C=C, link=Logit(3.0)) for C in (10.0, 0.01)
    ... )
    >>> weak.ece > 3 * strong.ece
    True
    """
    link, loss = link or Logit(), loss or Logistic()
    check(n, C, loss)
    if np.isinf(C):
        _refuse_separable(n, spectrum, link, loss, fit_intercept)
    strength = 0.0 if np.isinf(C) else 1.0 / (n * C)
    problems = make_problems([n], [strength], spectrum, link, loss, fit_intercept)
    return states(problems, solve_hard(problems), finite)[0]


def check(n: Any, C: Any, loss: Loss) -> None:
    """Raise for arguments that no fit has."""
    if not (np.isfinite(n) and n >= 2):
        raise ValueError(f"n={n!r} must be a number of labels, 2 or more.")
    if not C > 0:
        raise ValueError(f"C={C!r} must be positive; infinity is no penalty.")
    if isinstance(loss, Multinomial):
        raise ValueError("The equations here are for two classes; pass Logistic() as loss.")


def make_problems(
    n: Any,
    strength: Any,
    spectrum: Spectrum,
    link: Link,
    loss: Loss,
    fit_intercept: bool,
) -> Problems:
    """Problems that share spectrum and link, one for each n and strength."""
    counts, strengths = np.broadcast_arrays(np.atleast_1d(n), np.atleast_1d(strength))
    size = len(counts)
    shares = np.broadcast_to(spectrum.shares, (size, len(spectrum.shares)))
    labels = Labels(link, np.full(size, link.scale), np.full(size, link.offset), loss)
    spectra = Spectra(spectrum.values, spectrum.counts, shares)
    return Problems(counts.astype(float), strengths.astype(float), spectra, labels, fit_intercept)


def solve_hard(problems: Problems) -> Solution:
    """The solution; where Newton's method fails, from that of a penalty eight times as strong."""
    found = solve(problems)
    failed = np.flatnonzero(found.residual > LARGEST_GAP)
    if not len(failed):
        return found
    part = problems.take(failed)
    floor = 1e-6 * part.spectra.values.max()
    strength = 512.0 * np.maximum(part.strength, floor)
    start = None
    for _ in range(4):
        start = solve(replace(part, strength=strength), start, rounds=8).x
        strength = np.maximum(strength / 8.0, part.strength)
    again = solve(part, start)
    x, residual = found.x.copy(), found.residual.copy()
    x[failed], residual[failed] = again.x, again.residual
    return Solution(x, residual)


def spread_and_cosine(problems: Problems, found: Channel) -> tuple[Floats, Floats]:
    """q and c = a/q of a score without its intercept."""
    _, df2, A, B = problems.spectra.functions(problems.mu(found.v))
    ratio = found.t / found.v
    # Not q̃² − σ_b², which is all rounding under strong penalties.
    q = np.sqrt(ratio**2 * B + found.r2 * df2 / (problems.n * found.v**2))
    return q, np.clip(ratio * A / q, -1.0, 1.0)


def cosine_at(problems: Problems, x: Floats) -> Floats:
    """c of every problem at these unknowns."""
    return spread_and_cosine(problems, problems.labels.channel(*unknowns(x)))[1]


def cosine_slopes(problems: Problems, solution: Solution) -> Floats:
    """dc/d log λ of every problem, at its solution."""
    direction, size = slopes(problems, solution), 1e-4
    ends = [
        cosine_at(
            replace(problems, strength=problems.strength * np.exp(shift)),
            solution.x + shift * direction,
        )
        for shift in (size, -size)
    ]
    return (ends[0] - ends[1]) / (2.0 * size)


def states(problems: Problems, solution: Solution, finite: bool = False) -> list[FitState]:
    """Everything that follows from the fixed points."""
    q_wide, c_wide, gamma, b = solution.unknowns
    labels, n = problems.labels, problems.n
    assert isinstance(labels, Labels)
    found = labels.channel(q_wide, c_wide, gamma, b)
    mu = problems.mu(found.v)
    df1, *_ = problems.spectra.functions(mu)
    b_sd = np.sqrt(float(problems.intercept) * found.r2 / n) / found.v
    q, cosine = spread_and_cosine(problems, found)
    scatter = scatter_of(problems.spectra, n, mu, found)
    truth = calibrated(labels, np.ones_like(cosine), 0.005)
    seen = in_sample(labels, c_wide, q_wide, gamma, b)
    seen_sd = in_sample(labels, cosine, q, df1 / (n * found.v), b).score_sd
    if finite:
        own, best = scatter.averaged(labels, b, b_sd)
        q, cosine = scatter.mean(scatter.norm), scatter.mean(scatter.cosine)
    else:
        own, best = plain(labels, cosine, q, b, b_sd), calibrated(labels, cosine)
    strength = mu * found.v
    with np.errstate(divide="ignore"):
        inverse = 1.0 / (n * strength)
    columns: dict[str, Floats] = {
        "n": n,
        "C": inverse,
        "cosine": cosine,
        "norm": q,
        "intercept": b,
        "intercept_sd": b_sd,
        "cosine_sd": scatter.cosine_sd,
        "cosine_slope": -cosine_slopes(problems, solution),
        "degrees_of_freedom": df1,
        "step": gamma,
        "v": found.v,
        "r2": found.r2,
        "t": found.t,
        "training_loss": seen.loss,
        "training_sd": seen_sd,
        "log_loss": own.log_loss,
        "accuracy": own.accuracy,
        "brier": own.brier,
        "ece": own.ece,
        "calibrated_log_loss": best.log_loss,
        "calibrated_accuracy": best.accuracy,
        "calibrated_brier": best.brier,
        "bayes_log_loss": truth.log_loss,
        "bayes_accuracy": truth.accuracy,
        "bayes_brier": truth.brier,
        "residual": solution.residual,
    }
    good = solution.residual <= LARGEST_GAP
    names = [field.name for field in fields(FitState) if field.name != "converged"]
    return [
        FitState(converged=bool(good[k]), **{name: float(columns[name][k]) for name in names})
        for k in range(len(n))
    ]


# -- without a penalty ---------------------------------------------------------------------------


def separability_threshold(link: Link, fit_intercept: bool = True) -> float:
    r"""h: without a penalty a likelihood has a finite maximum only where d/n < h.

    h = min over (t₀, t₁) of E[σ(g)·H(t₀+t₁g) + (1−σ(g))·H(−t₀−t₁g)], H(m) = E(m − Z)₊² (Candès and
    Sur 2020).

    Parameters
    ----------
    link : Link
        P(y = 1) as a function of w*ᵀx of variance 1.
    fit_intercept : bool, default=True
        Whether t₀ is free.

    Returns
    -------
    float
        At most ½.

    See Also
    --------
    state_of_fit : Refuses fits beyond it.

    Examples
    --------
    >>> round(1.0 / separability_threshold(Logit(3.0, 1.0)), 3)
    3.808
    """
    g, weights = grid(0.02)
    p = link(g)

    def squares(m: Floats) -> Floats:
        return (1.0 + m * m) * normal.cdf(m) + m * normal.pdf(m)

    def objective(t: Floats) -> float:
        m = (t[0] if fit_intercept else 0.0) + t[1] * g
        return float((p * squares(m) + (1.0 - p) * squares(-m)) @ weights)

    found = minimize(objective, np.array([0.0, -0.1]), method="BFGS", options={"gtol": 1e-9})
    return float(found.fun)


def _refuse_separable(
    n: float, spectrum: Spectrum, link: Link, loss: Loss, fit_intercept: bool
) -> None:
    d = spectrum.size
    if loss.attains_minimum:
        if d + fit_intercept >= n:
            raise ValueError(
                f"C=inf with n={n:g} labels and {d:g} features has many fits; pass a finite C."
            )
        return
    threshold = separability_threshold(link, fit_intercept)
    if d >= threshold * n:
        raise SeparableDataError(
            f"C=inf: {n:g} labels of {d:g} features are separable under this link, so that there "
            f"is no finite fit. Without a penalty it takes more than {d / threshold:.0f} labels; "
            "pass a finite C."
        )
