r"""From a pilot, or from assumptions, to the learning curve of a calibrated ridge fit.

The curve is the mean of two forecasts, as neither is best everywhere:

*equations*: :mod:`angcal.theory` at the best penalty, averaged over strength κ of the signal and
exponent p (directions of eigenvalue s hold a share ∝ s^p of it). Their weights are a prior, the
evidence of the labels (:mod:`angcal.planner.evidence`), and how well the pilot's own leave-one-out
loss is met.

*power law*: from the pilot's own leave-one-out loss along b/√n, with b from parts of the pilot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import RectBivariateSpline

from angcal._typing import Floats
from angcal.links import Logit
from angcal.losses import Logistic
from angcal.planner.evidence import directions_of, evidence_grid
from angcal.planner.pilot import Observed, observe_pilot
from angcal.planner.result import MEASURES, Curve, Plan, made_plan
from angcal.theory.channel import Labels, channel
from angcal.theory.labels import best_state, link_for
from angcal.theory.outcomes import calibrated, plain
from angcal.theory.solve import Problems, solve
from angcal.theory.spectrum import Spectra, Spectrum
from angcal.theory.state import spread_and_cosine

SMALLEST_PILOT = 20
MOST_POOL_ROWS = 2000
MOST_EVIDENCE_ROWS = 400
FARTHEST = 64
"""Pilots up to which a curve is drawn."""
KAPPAS = np.geomspace(0.4, 50.0, 7)
POWERS = np.array([0.3, 1.0, 1.8, 3.0, 5.0])
MOST_CELLS = 24
WIDENING = 1.5
"""What deviations are multiplied by, found on half of the real sets: docs/planner.md."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Pairs (κ, p) that the labels leave possible, with weights that sum to 1."""

    kappa: Floats
    power: Floats
    weight: Floats


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
        Unlabeled rows; 2,000 of them are looked at.
    random_state : int, default=0
        For the parts of the pilot and of the pool.

    Returns
    -------
    Plan
        With intervals, and remarks on what the pilot cannot say.

    See Also
    --------
    plan_from_assumptions : Where there are no labels yet.

    Examples
    --------
    >>> from angcal.simulation import simulate
    >>> data = simulate(80, 30, link=Logit(3.0), random_state=0)
    >>> plan = plan_from_pilot(data.X, data.y.astype(float), [80, 320])
    >>> bool(plan.log_loss[1] < plan.log_loss[0])
    True
    """
    n0 = len(labels)
    wanted = checked_numbers(n, n0)
    rng = np.random.default_rng(random_state)
    rows, others = _dense(X), None if pool is None else _some_rows(pool, rng)
    _check_pilot(labels)
    observed = observe_pilot(rows, labels, rng)
    varied = rows if others is None else np.vstack([rows, others])
    spectrum = Spectrum.of_rows(varied)
    prevalence = (labels.sum() + 1.0) / (n0 + 2.0)
    cells = _possible(rows, labels, others)
    grid = n0 * np.array([1.0, 2.0, 4.0, 8.0, FARTHEST])
    forecast = equations(cells, spectrum, prevalence, grid)
    weights = _reweighted(cells, forecast, observed)
    curve = _combined(forecast, weights, observed, grid)
    ceiling = _ceiling(forecast, weights, curve)
    pilot = {"log_loss": float(observed.log_loss[-1]), "accuracy": 1.0 - float(observed.error[-1])}
    remarks = _remarks(observed, prevalence, others, wanted, n0)
    return made_plan(curve, wanted, ceiling, n0, pilot, remarks)


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
    if n0 < SMALLEST_PILOT:
        raise ValueError(
            f"A pilot of {n0} labels says nothing about more of them; take {SMALLEST_PILOT} or "
            "more, or plan from assumptions: angcal plan --columns D --ceiling ACCURACY."
        )


def _dense(X: Any) -> Floats:
    rows = X.toarray() if hasattr(X, "toarray") else X
    return np.asarray(rows, dtype=np.float64)


def _some_rows(pool: Any, rng: np.random.Generator) -> Floats:
    count = pool.shape[0]
    if count > MOST_POOL_ROWS:
        pool = pool[np.sort(rng.choice(count, MOST_POOL_ROWS, replace=False))]
    return _dense(pool)


# -- weights of strength and exponent ------------------------------------------------------------


def _possible(rows: Floats, labels: Floats, others: Floats | None) -> Cells:
    """The likeliest cells of a fine grid: prior times evidence, read between by splines."""
    kept = np.arange(len(labels))
    if len(labels) > MOST_EVIDENCE_ROWS:
        kept = np.random.default_rng(0).choice(len(labels), MOST_EVIDENCE_ROWS, replace=False)
    directions = directions_of(rows[kept], others)
    coarse = evidence_grid(directions, labels[kept], KAPPAS, POWERS)
    smooth = RectBivariateSpline(np.log(KAPPAS), POWERS, coarse, kx=3, ky=3)
    kappa = np.geomspace(KAPPAS[0], KAPPAS[-1], 13)
    power = np.geomspace(POWERS[0] + 0.5, POWERS[-1] + 0.5, 9) - 0.5
    logs = smooth(np.log(kappa), power)
    prior = -0.5 * (np.log(kappa / 3.0))[:, None] ** 2
    prior = prior - 0.5 * (np.log((power + 0.5) / 2.0) / 0.7) ** 2
    total = (logs + prior).ravel()
    order = np.argsort(total)[::-1][:MOST_CELLS]
    weight = np.exp(total[order] - total[order[0]])
    order, weight = order[weight > 1e-3], weight[weight > 1e-3]
    first, second = np.unravel_index(order, logs.shape)
    return Cells(kappa[first], power[second], weight / weight.sum())


def _reweighted(cells: Cells, forecast: Forecast, observed: Observed) -> Floats:
    """Weights once the pilot's own loss has had its say, at a quarter of its usual force."""
    tolerance = 0.45 / np.sqrt(observed.n[-1])
    off = (forecast.values["log_loss"][:, 0] - observed.log_loss[-1]) / tolerance
    logs = np.log(cells.weight) - 0.25 * off**2
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


# -- the equations on many cells -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Forecast:
    """Measures of every cell (rows) at every n (columns), and of the truth."""

    values: dict[str, Floats]
    truth: dict[str, Floats]


def equations(cells: Cells, spectrum: Spectrum, prevalence: float, n: Floats) -> Forecast:
    """What each cell would reach at its best penalty: the best of five, read off a parabola."""
    offsets = np.array([link_for(prevalence=prevalence, scale=k).offset for k in cells.kappa])
    shares = np.stack([spectrum.with_power(float(p)).shares for p in cells.power])
    # ρκ² of the best penalty grows with p; neighbors by factors of six.
    centers = np.log(1.4 * 4.0 ** np.maximum(cells.power - 1.0, 0.0) / cells.kappa**2)
    logs = centers[:, None] + np.log(6.0) * np.arange(-1.0, 2.0)
    cell, place, step = (
        part.ravel()
        for part in np.meshgrid(
            np.arange(len(cells.kappa)), np.arange(len(n)), np.arange(3), indexing="ij"
        )
    )
    strengths = np.exp(logs[cell, step]) * spectrum.trace / n[place]
    labels = Labels(Logit(), cells.kappa[cell], offsets[cell], Logistic())
    spectra = Spectra(spectrum.values, spectrum.counts, shares[cell])
    problems = Problems(n[place], strengths, spectra, labels)
    solution = solve(problems, rounds=8, tolerance=1e-5)
    found = channel(labels, *solution.unknowns)
    q, cosine = spread_and_cosine(problems, found)
    shape = (len(cells.kappa), len(n), 3)
    best_log, best_cosine = _peaks(logs, np.where(solution.residual < 1e-2, cosine, 0.0), shape)
    near = np.argmax(cosine.reshape(shape), axis=2)
    pick = np.ravel_multi_index((*np.indices(shape[:2]), near), shape).ravel()
    at_best = labels.take(pick)
    worth = calibrated(at_best, best_cosine.ravel(), 0.05)
    b_sd = np.sqrt(found.r2 / (problems.n * found.v**2))
    own = plain(at_best, cosine[pick], q[pick], solution.unknowns[3][pick], b_sd[pick], 0.1)
    truth = calibrated(Labels(Logit(), cells.kappa, offsets, Logistic()), np.ones(shape[0]), 0.02)
    values = {
        "log_loss": worth.log_loss.reshape(shape[:2]) + 1.0 / n,
        "accuracy": worth.accuracy.reshape(shape[:2]),
        "ece": own.ece.reshape(shape[:2]),
        "cosine": best_cosine,
        "C": -best_log - np.log(spectrum.trace),
    }
    return Forecast(values, {"log_loss": truth.log_loss, "accuracy": truth.accuracy})


def _peaks(logs: Floats, cosine: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Vertex of the parabola through three penalties, at most one step beyond them."""
    below, at, above = np.moveaxis(cosine.reshape(shape), 2, 0)
    bend = np.minimum(below - 2.0 * at + above, -1e-9)
    shift = np.clip(0.5 * (below - above) / bend, -1.5, 1.5)
    peak = at + 0.5 * shift * (above - below) + 0.5 * shift**2 * bend
    top = np.maximum(np.max(cosine.reshape(shape), axis=2), peak)
    return logs[:, 1][:, None] + np.log(6.0) * shift, np.clip(top, 1e-6, 1.0 - 1e-9)


# -- both together -------------------------------------------------------------------------------


def _combined(forecast: Forecast, weights: Floats, observed: Observed, n: Floats) -> Curve:
    """Means of equations and power law; deviations of what they leave open, widened."""
    means: dict[str, Floats] = {}
    deviations: dict[str, Floats] = {}
    parts: dict[tuple[str, str], Floats] = {}
    laws = {
        "log_loss": (observed.along(observed.law_of_log_loss, n), observed.log_loss_se),
        "accuracy": (1.0 - observed.along(observed.law_of_error, n), observed.error_se),
    }
    for name in MEASURES:
        values = forecast.values[name]
        mean = weights @ values
        variance = weights @ (values - mean) ** 2
        if name in laws:
            law, error = laws[name]
            parts["equations", name], parts["power law", name] = mean, law
            variance = 0.5 * variance + 0.25 * (mean - law) ** 2 + (0.5 * error) ** 2
            mean = 0.5 * (mean + law)
        means[name], deviations[name] = mean, WIDENING * np.sqrt(variance)
    means["log_loss"] = np.minimum.accumulate(means["log_loss"])
    means["accuracy"] = np.maximum.accumulate(means["accuracy"])
    return Curve(n, means, deviations, parts)


def _ceiling(
    forecast: Forecast, weights: Floats, curve: Curve
) -> dict[str, tuple[float, float, float]]:
    """What unlimited labels give: the equations' share beyond the last n added to the curve."""
    found = {}
    for name, values in forecast.truth.items():
        gain = float(weights @ (values - forecast.values[name][:, -1]))
        center = float(curve.means[name][-1]) + gain
        deviation = float(np.sqrt(weights @ (values - weights @ values) ** 2))
        half = 1.2816 * max(WIDENING * deviation, float(curve.deviations[name][-1]))
        top = 1.0 if name == "accuracy" else np.inf
        ends = (center, center - half, center + half)
        found[name] = tuple(float(np.clip(each, 0.0, top)) for each in ends)
    return found  # type: ignore[return-value]


def _remarks(
    observed: Observed, prevalence: float, others: Floats | None, wanted: Floats, n0: int
) -> tuple[str, ...]:
    base = -prevalence * np.log(prevalence) - (1.0 - prevalence) * np.log(1.0 - prevalence)
    found = []
    if observed.log_loss[-1] > base - observed.log_loss_se:
        found.append(
            "The pilot's labels show no clear signal: its loss is within one standard error of "
            "always saying the prevalence. Believe the intervals, not the means."
        )
    if wanted.max() > 8.5 * n0:
        found.append(
            f"Forecasts were checked up to 8 times the pilot, {8 * n0} labels; beyond they are "
            "guesses."
        )
    if others is None:
        found.append("Unlabeled rows (a pool) would say more about the features.")
    return tuple(found)


# -- without a pilot -----------------------------------------------------------------------------


def plan_from_assumptions(
    columns: float | Spectrum,
    *,
    ceiling: float,
    n: ArrayLike,
    prevalence: float = 0.5,
) -> Plan:
    """The plan for features and a signal that are assumed.

    Parameters
    ----------
    columns : float or Spectrum
        Number of features, taken to be independent and equally important, or their spectrum.
    ceiling : float
        Accuracy of a linear model with unlimited labels.
    n : array-like
        Numbers of labels.
    prevalence : float, default=0.5
        Share of the second class.

    Returns
    -------
    Plan
        Its intervals have no width: nothing was estimated.

    See Also
    --------
    angcal.theory.labels_needed : Labels for a target, from assumptions.

    Examples
    --------
    >>> plan = plan_from_assumptions(100, ceiling=0.85, n=[100, 400], prevalence=0.3)
    >>> round(plan.labels_for(accuracy=0.8), -1)
    480.0
    """
    spectrum = columns
    if not isinstance(columns, Spectrum):
        if not (np.isfinite(columns) and columns >= 1):
            raise ValueError(f"columns={columns!r} must be a number of features, 1 or more.")
        spectrum = Spectrum.isotropic(float(columns))
    wanted = checked_numbers(n, 2)
    link = link_for(ceiling, prevalence=prevalence)
    low, high = min(10.0, wanted.min()), max(wanted.max(), 200.0 * spectrum.size)  # type: ignore[union-attr]
    grid = np.unique(np.concatenate([wanted, np.geomspace(low, high, 16)]))
    states = [best_state(float(each), spectrum, link=link) for each in grid]  # type: ignore[arg-type]
    means = {
        "log_loss": np.array([state.calibrated_log_loss + 1.0 / state.n for state in states]),
        "accuracy": np.array([state.calibrated_accuracy for state in states]),
        "ece": np.array([state.ece for state in states]),
        "cosine": np.array([state.cosine for state in states]),
        "C": np.log([state.C for state in states]),
    }
    curve = Curve(grid, means, {name: np.zeros(len(grid)) for name in means})
    best = {
        "log_loss": (states[0].bayes_log_loss,) * 3,
        "accuracy": (states[0].bayes_accuracy,) * 3,
    }
    return made_plan(curve, wanted, best)
