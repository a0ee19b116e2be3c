r"""From a pilot to the learning curve of a calibrated ridge fit.

The equations of :mod:`angcal.theory` give the curve L_θ(n) of every signal θ = (κ, p): its
strength, and the exponent with which it prefers large directions. What the pilot leaves open of θ
is averaged over: a prior, times how well L_θ(n₀) meets the pilot's own leave-one-out loss L̂ within
its standard error. What the pilot shows beyond that mean fades in the forecast as chance does,

    forecast(n) = E[L_θ(n)] + (L̂ − E[L_θ(n₀)])·√(n₀/n)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import entr

from angcal._typing import Floats
from angcal.arrays import dense
from angcal.links import Logit
from angcal.losses import Logistic
from angcal.penalty_path import LooCurves, make_design, observe_path, penalty_shares
from angcal.planner.result import (
    MEASURES,
    Curve,
    Plan,
    criteria_of_riley,
    half_of_interval,
    made_plan,
)
from angcal.theory.channel import Labels, calibrated, plain
from angcal.theory.labels import best_state, information_of, link_for, mu_grid, reached
from angcal.theory.solve import Problems, solve
from angcal.theory.spectrum import Spectra, Spectrum
from angcal.theory.state import spread_and_cosine

# -- Learning curves of many signals at once: strength κ, and exponent p of where it lies -------
#
# Directions of eigenvalue s hold a share ∝ s^p of the signal. For each κ, p and number of labels
# the ridge that maximizes the cosine is that of one scalar equation, c² = max over μ of
# A(μ)²/(B(μ) + df2(μ)/(n·J(c))) (:mod:`angcal.theory.labels`). The full equations are then solved
# at that μ, from a start that the cosine gives: near the best ridge the cosine hardly depends on
# it.


@dataclass(frozen=True, eq=False)
class Learning:
    """Measures for every κ, p and n, and what the truth of each κ reaches."""

    kappa: Floats  # (K,)
    # (K, P, N) each: ``log_loss``, ``accuracy``, ``ece``, ``cosine``, and ``C`` as
    # a logarithm
    values: dict[str, Floats]
    # (K,) each: ``log_loss`` and ``accuracy`` with unlimited labels
    truth: dict[str, Floats]

    def refined(self, kappa: Floats) -> Learning:
        """The same at other κ, by splines in log κ."""
        at, known = np.log(kappa), np.log(self.kappa)
        values = {name: CubicSpline(known, each)(at) for name, each in self.values.items()}
        truth = {name: CubicSpline(known, each)(at) for name, each in self.truth.items()}
        return Learning(kappa, values, truth)


def learning_of(
    kappa: Floats, power: Floats, spectrum: Spectrum, prevalence: float, n: Floats
) -> Learning:
    """The curves, at the best penalty of each point."""
    shape = (len(kappa), len(power), len(n))
    offsets = np.array([link_for(prevalence=prevalence, scale=float(k)).offset for k in kappa])
    shares = np.stack([spectrum.with_power(float(p)).shares for p in power])
    spectra = Spectra(spectrum.values, spectrum.counts, shares)
    truths = Labels(Logit(), kappa, offsets, Logistic())
    cosine, mu = _scalar_equation(spectra, truths, mu_grid(spectrum, 60), n)
    k, p, place = (part.ravel() for part in np.indices(shape))
    labels = truths.take(k)
    problems = Problems(n[place], mu.ravel(), spectra.take(p), labels, by_mu=True)
    solution = solve(problems, _start(problems, labels, cosine.ravel()), rounds=2, tolerance=1e-3)
    found = labels.channel(*solution.unknowns)
    q, solved = spread_and_cosine(problems, found)
    # Where the gap is larger, the scalar equation's cosine stays.
    solved = np.where(solution.residual < 0.05, solved, cosine.ravel())
    b_sd = np.sqrt(found.r2 / problems.n) / found.v
    worth = calibrated(labels, solved, 0.1)
    own = plain(labels, solved, q, solution.unknowns[3], b_sd, 0.15)
    values = {
        "log_loss": worth.log_loss + 1.0 / n[place],
        "accuracy": worth.accuracy,
        "ece": own.ece,
        "cosine": solved,
        "C": -np.log(problems.n * mu.ravel() * found.v),
    }
    best = calibrated(truths, np.ones(len(kappa)), 0.02)
    return Learning(
        kappa,
        {name: each.reshape(shape) for name, each in values.items()},
        {"log_loss": best.log_loss, "accuracy": best.accuracy},
    )


def _scalar_equation(
    spectra: Spectra, truths: Labels, mu: Floats, n: Floats
) -> tuple[Floats, Floats]:
    """(c, μ) with c² = R_p(n·J(c)) for every κ, p and n, by bisection in c."""
    # Even in log(1 − c²): near c = 1 a strong signal's labels say more and more.
    grid = np.sqrt(-np.expm1(-np.linspace(0.0, 8.0, 25)))
    count = len(truths.scale)
    tiled = truths.take(np.repeat(np.arange(count), len(grid)))
    J = information_of(tiled, np.tile(grid, count), 0.2).reshape(count, -1)
    x = np.geomspace(1e-3 * n.min() * J.min() + 1e-12, 1e1 * n.max() * J.max(), 60)
    squares, ridges = reached(spectra, x, mu)
    cosine = np.empty((count, len(squares), len(n)))
    ridge = np.empty_like(cosine)
    for k, p in np.ndindex(cosine.shape[:2]):
        low, high = np.zeros(len(n)), np.full(len(n), grid[-1])
        for _ in range(20):
            middle = 0.5 * (low + high)
            log_x = np.log(n * np.interp(middle, grid, J[k]))
            above = np.interp(log_x, np.log(x), squares[p]) > middle**2
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        cosine[k, p] = 0.5 * (low + high)
        ridge[k, p] = np.exp(np.interp(log_x, np.log(x), np.log(ridges[p])))
    return np.clip(cosine, 1e-3, grid[-1]), ridge


def _start(problems: Problems, labels: Labels, cosine: Floats) -> Floats:
    """Unknowns of a fit that is calibrated and has this cosine."""
    noise = np.sqrt(1.0 + np.pi / 8.0 * labels.scale**2 * (1.0 - cosine**2))
    q, b = labels.scale * cosine / noise, labels.offset / noise
    # p(1 − p) of a normal score, about; each label of a row takes part of it away.
    flat = 0.25 / np.sqrt(1.0 + np.pi / 8.0 * (q**2 + b**2))
    df1 = problems.spectra.functions(problems.strength)[0] + 1.0
    gamma = df1 / problems.n / flat
    gamma = df1 / problems.n / flat * (1.0 + np.minimum(gamma * flat, 3.0))
    wide = np.sqrt(q**2 + gamma * flat / problems.n)
    c_wide = np.clip(cosine * q / wide, -0.9999, 0.9999)
    return np.column_stack([np.log(wide), np.arctanh(c_wide), np.log(gamma), b])


@dataclass(frozen=True)
class Observed:
    """Calibrated leave-one-out losses of ridge logistic regression, averaged over its penalties."""

    n: int  # Labels
    log_loss: float  # Of probabilities that have seen neither the row's label nor a curve that has
    accuracy: float
    log_loss_se: float  # Their standard errors
    accuracy_se: float


def observe_pilot(X: Floats, labels: Floats) -> Observed:
    """Losses of one path of penalties, which are averaged as far as the labels leave them open."""
    n = len(labels)
    curves = _loo_curves(X, labels)
    p = curves.probabilities @ penalty_shares(curves.log_loss, n)
    own = np.where(labels == 1.0, p, 1.0 - p)
    losses = -np.log(np.maximum(own, 1e-6))
    right = float(np.sum((p > 0.5) == (labels == 1.0)))
    # As if one more had been right and one wrong: ten of ten is not certainty.
    share = (right + 1.0) / (n + 2.0)
    return Observed(
        n=n,
        log_loss=float(losses.mean()),
        accuracy=right / n,
        log_loss_se=float(max(losses.std(), 0.05) / np.sqrt(n)),
        accuracy_se=float(np.sqrt(share * (1.0 - share) / n)),
    )


def _loo_curves(X: Floats, labels: Floats) -> LooCurves:
    weights = np.ones(len(labels))
    design = make_design(X, labels, weights, True)
    strengths = 1.0 / design.grid(8)
    solution = design.solver(strengths).solve(1e-3)
    observed = observe_path(design, strengths, solution, "auto")
    fits = [design.fit_at(solution, c, 0.0) for c in range(len(strengths))]
    return LooCurves.of(fits, observed, weights)


MULTIPLES = np.array([1.0, 2.5, 8.0, 64.0])
"""Of the pilot, at which the equations are solved; the last is as far as a curve is drawn."""
KAPPAS = np.geomspace(0.5, 40.0, 5)
"""κ at which the equations are solved; splines give those in between."""
POWERS = {0.8: 0.4, 1.6: 0.4, 3.0: 0.2}
"""Prior of p; that of κ is log-normal. Found on half of the real sets, docs/planner.md."""
WIDENING = 1.4
"""What deviations are multiplied by, found there as well."""


def plan_from_pilot(
    X: Any, labels: Floats, n: ArrayLike, *, pool: Any = None, random_state: int = 0
) -> Plan:
    """The plan of a pilot of two classes.

    Parameters
    ----------
    X : (n₀, d) array or sparse matrix
        Rows as the linear model sees them.
    labels : (n₀,) array of 0.0 and 1.0
        Their classes.
    n : array-like
        Numbers of labels to plan for, none below n₀.
    pool : (m, d) array or sparse matrix, optional
        Unlabeled rows; 700 of them are looked at.
    random_state : int, default=0
        For the rows of the pool that are looked at.

    Returns
    -------
    Plan
        With intervals, and remarks on what the pilot cannot say.

    See Also
    --------
    plan_from_assumptions : Where there are no labels yet.

    Examples
    --------
    >>> from angcal.links import Logit
    >>> from angcal.simulation import simulate
    >>> data = simulate(80, 30, link=Logit(3.0), random_state=0)
    >>> plan = plan_from_pilot(data.X, data.y.astype(float), [80, 320])
    >>> bool(plan.log_loss[1] < plan.log_loss[0])
    True
    """
    n0 = len(labels)
    wanted = checked_numbers(n, n0)
    _check_pilot(labels)
    rng = np.random.default_rng(random_state)
    rows, others = dense(X), None if pool is None else _some_rows(pool, rng)
    spectrum = Spectrum.of_rows(rows if others is None else np.vstack([rows, others]))
    observed = observe_pilot(rows, labels)
    prevalence = (labels.sum() + 1.0) / (n0 + 2.0)
    coarse = learning_of(KAPPAS, np.array([*POWERS]), spectrum, prevalence, n0 * MULTIPLES)
    learning = coarse.refined(np.geomspace(KAPPAS[0], KAPPAS[-1], 41))
    weights = posterior(learning, observed)
    curve = _curve(learning, weights, observed)
    pilot = {"log_loss": observed.log_loss, "accuracy": observed.accuracy}
    remarks = _remarks(observed, prevalence, others, wanted)
    return made_plan(curve, wanted, _ceiling(learning, weights, curve), n0, pilot, remarks)


def checked_numbers(n: ArrayLike, least: int) -> Floats:
    """n as an array, none below the pilot's."""
    wanted = np.atleast_1d(np.asarray(n, dtype=np.float64)).ravel()
    if not len(wanted) or not np.all(np.isfinite(wanted) & (wanted >= 2)):
        raise ValueError(f"n={n!r} must hold numbers of labels, 2 or more.")
    if np.any(wanted < least):
        raise ValueError(
            f"n={wanted.min():.0f} is below the pilot's {least} labels, which say how well they do "
            "themselves; ask for more labels than there are."
        )
    return wanted


def _check_pilot(labels: Floats) -> None:
    positive, n0 = int(labels.sum()), len(labels)
    if min(positive, n0 - positive) < 3:
        raise ValueError(
            f"A plan needs three labels of each class; the pilot has {positive} of one and "
            f"{n0 - positive} of the other."
        )
    if n0 < 20:
        raise ValueError(
            f"A pilot of {n0} labels says nothing about more of them; take 20 or more, "
            "or plan from assumptions: angcal plan --columns D --ceiling ACCURACY."
        )


def _some_rows(pool: Any, rng: np.random.Generator) -> Floats:
    count, most = pool.shape[0], 700  # enough for a spectrum; the cost grows with their square
    if count > most:
        pool = pool[np.sort(rng.choice(count, most, replace=False))]
    return dense(pool)


def posterior(learning: Learning, observed: Observed) -> Floats:
    """Weights of every κ (rows) and p (columns): prior times the pilot's own loss."""
    prior = -0.5 * np.log(learning.kappa / 2.0) ** 2
    off = (learning.values["log_loss"][:, :, 0] - observed.log_loss) / observed.log_loss_se
    logs = prior[:, None] + np.log([*POWERS.values()]) - 0.5 * off**2
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


def _curve(learning: Learning, weights: Floats, observed: Observed) -> Curve:
    """The forecast on a grid of n, with deviations of what the pilot leaves open, widened."""
    fading = 1.0 / np.sqrt(MULTIPLES)
    levels = {
        "log_loss": (observed.log_loss, observed.log_loss_se),
        "accuracy": (observed.accuracy, observed.accuracy_se),
    }
    means: dict[str, Floats] = {}
    deviations: dict[str, Floats] = {}
    for name in MEASURES:
        values = learning.values[name]
        mean = np.einsum("kp,kpn->n", weights, values)
        variance = np.einsum("kp,kpn->n", weights, (values - mean) ** 2)
        if name in levels:
            level, error = levels[name]
            mean = mean + (level - mean[0]) * fading
            variance = variance + (error * fading) ** 2
        means[name], deviations[name] = mean, WIDENING * np.sqrt(variance)
    means["log_loss"] = np.minimum.accumulate(np.maximum(means["log_loss"], 0.0))
    means["accuracy"] = np.maximum.accumulate(np.minimum(means["accuracy"], 1.0))
    fine = np.geomspace(1.0, MULTIPLES[-1], 40)
    at, known = np.log(fine), np.log(MULTIPLES)
    return Curve(
        observed.n * fine,
        {name: PchipInterpolator(known, each)(at) for name, each in means.items()},
        {name: PchipInterpolator(known, each)(at) for name, each in deviations.items()},
    )


def _ceiling(
    learning: Learning, weights: Floats, curve: Curve
) -> dict[str, tuple[float, float, float]]:
    """What unlimited labels give, with an 80 % interval: at least what the last on the curve do."""
    found = {}
    of_kappa = weights.sum(axis=1)
    for name, values in learning.truth.items():
        center = float(of_kappa @ values)
        spread = float(np.sqrt(of_kappa @ (values - center) ** 2))
        better = max if name == "accuracy" else min
        center = better(center, float(curve.means[name][-1]))
        half = half_of_interval(WIDENING * spread)
        top = 1.0 if name == "accuracy" else np.inf
        ends = np.clip([center, center - half, center + half], 0.0, top)
        found[name] = (float(ends[0]), float(ends[1]), float(ends[2]))
    return found


def _remarks(
    observed: Observed, prevalence: float, others: Floats | None, wanted: Floats
) -> tuple[str, ...]:
    base = -prevalence * np.log(prevalence) - (1.0 - prevalence) * np.log(1.0 - prevalence)
    found = []
    if observed.log_loss > base - observed.log_loss_se:
        found.append(
            "The pilot's labels show no clear signal: its loss is within one standard error of "
            "always saying the prevalence. Believe the intervals, not the means."
        )
    if wanted.max() > 8.5 * observed.n:
        found.append(
            f"Forecasts were checked up to 8 times the pilot, {8 * observed.n} labels; beyond they "
            "are guesses."
        )
    if others is None:
        found.append("Unlabeled rows (a pool) would say more about the features.")
    return tuple(found)


# -- Plans without a pilot: from what is assumed of features, signal and prevalence -------------


def plan_from_assumptions(
    columns: Any,
    *,
    ceiling: float,
    n: ArrayLike,
    prevalence: float = 0.5,
) -> Plan:
    """The plan for features and a signal that are assumed.

    Parameters
    ----------
    columns : float, Spectrum or (m, d) array
        Number of features, taken to be independent and equally important; or their spectrum; or
        unlabeled rows, from which it is estimated.
    ceiling : float
        Accuracy of a linear model with unlimited labels.
    n : array-like
        Numbers of labels.
    prevalence : float, default=0.5
        Share of the second class.

    Returns
    -------
    Plan
        Its intervals have no width: nothing was estimated. ``criteria`` are the sample sizes that
        pmsampsize gives for a model without a penalty.

    See Also
    --------
    angcal.theory.labels_needed : Labels for a target, from assumptions.

    Examples
    --------
    >>> plan = plan_from_assumptions(100, ceiling=0.85, n=[100, 400], prevalence=0.3)
    >>> round(plan.labels_for(accuracy=0.8), -1)
    480.0
    """
    spectrum = _spectrum(columns)
    wanted = checked_numbers(n, 2)
    link = link_for(ceiling, prevalence=prevalence)
    low, high = min(10.0, wanted.min()), max(wanted.max(), 200.0 * spectrum.size)
    grid = np.unique(np.concatenate([wanted, np.geomspace(low, high, 16)]))
    states = [best_state(float(each), spectrum, link=link) for each in grid]
    means = {
        "log_loss": np.array([state.calibrated_log_loss + 1.0 / state.n for state in states]),
        "accuracy": np.array([state.calibrated_accuracy for state in states]),
        "ece": np.array([state.ece for state in states]),
        "cosine": np.array([state.cosine for state in states]),
        "C": np.log([state.C for state in states]),
    }
    curve = Curve(grid, means, {name: np.zeros(len(grid)) for name in means})
    truth = states[0]
    best = {"log_loss": (truth.bayes_log_loss,) * 3, "accuracy": (truth.bayes_accuracy,) * 3}
    base = float(entr(prevalence) + entr(1.0 - prevalence))
    r2 = float(-np.expm1(-2.0 * (base - truth.bayes_log_loss)))
    criteria = criteria_of_riley(spectrum.size, r2, prevalence)
    return made_plan(curve, wanted, best, criteria=criteria)


def _spectrum(columns: Any) -> Spectrum:
    if isinstance(columns, Spectrum):
        return columns
    if np.ndim(columns) == 2:
        return Spectrum.of_rows(columns)
    if not (np.ndim(columns) == 0 and np.isfinite(columns) and columns >= 1):
        raise ValueError(f"columns={columns!r} must be a number of features, 1 or more.")
    return Spectrum.isotropic(float(columns))
