"""Tune over 20 penalties and calibrate: time and held-out log-loss against the nested route.

The peer is CalibratedClassifierCV(LogisticRegressionCV(Cs=20, cv=5), cv=5, ensemble=False), which
picks C by accuracy, scikit-learn's default, or by log-loss. Times are wall times of ``fit`` alone,
in one run and with the same BLAS threads, after a pause for threads to come to rest; the ratio is
that of medians. Draws are apart from those that angcal's rules were chosen on. Held-out rows are
fresh draws of the simulation, or the digits that were not trained on.
Log-losses come as means over draws, their difference (angcal − nested; negative is better) with the
standard error of its mean over draws. ``studies benchmark speed --full --only path`` runs it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from angcal import AngularLogisticRegressionCV, Logit
from angcal.simulation import simulate
from studies.speed.measure import Row, timed

HELD_OUT = 10_000
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def simulated(n: int, d: int) -> Callable[[int], Split]:
    def draw(seed: int) -> Split:
        data = simulate(n, d, link=Logit(3.0), random_state=seed)
        X_test, y_test = data.sample(HELD_OUT, random_state=10_000 + seed)
        return data.X, data.y, X_test, y_test

    return draw


def digits(n: int) -> Callable[[int], Split]:
    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y % 2

    def draw(seed: int) -> Split:
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n], order[n:]
        return X[train], y[train], X[test], y[test]

    return draw


CASES = {
    "simulated-800x384": simulated(800, 384),
    "simulated-1000x2000": simulated(1000, 2000),
    "digits-100": digits(100),
    "digits-500": digits(500),
}


SCORINGS = {"accuracy": None, "log-loss": "neg_log_loss"}
FIRST_SEED = 5000


def nested(scoring: str) -> CalibratedClassifierCV:
    tuned = LogisticRegressionCV(Cs=20, cv=5, scoring=SCORINGS[scoring])
    return CalibratedClassifierCV(tuned, cv=5, ensemble=False)


def run_case(name: str, draws: int, scoring: str = "log-loss") -> dict[str, object]:
    times, losses = [], []
    # What the first fit of a process does once (tables, imports) is not what is compared.
    AngularLogisticRegressionCV().fit(*CASES[name](draws)[:2])
    for seed in range(FIRST_SEED, FIRST_SEED + draws):
        X, y, X_new, y_new = CASES[name](seed)
        models = AngularLogisticRegressionCV(Cs=20), nested(scoring)
        times.append([timed(partial(model.fit, X, y))[1]["wall"] for model in models])
        losses.append([log_loss(y_new, model.predict_proba(X_new)[:, 1]) for model in models])
    seconds, found = np.median(times, axis=0), np.mean(losses, axis=0)
    gap = np.subtract(*np.transpose(losses))
    return {
        "problem": name,
        "peer": scoring,
        "draws": draws,
        "angcal_ms": round(1e3 * seconds[0], 1),
        "nested_ms": round(1e3 * seconds[1], 1),
        "ratio": round(seconds[1] / seconds[0], 1),
        "angcal_log_loss": round(found[0], 4),
        "nested_log_loss": round(found[1], 4),
        "difference": round(gap.mean(), 4),
        "difference_se": round(gap.std(ddof=1) / np.sqrt(draws), 4) if draws > 1 else np.nan,
    }


def plan(quick: bool) -> list[tuple[str, str, int]]:
    """(case, how the peer picks C, draws): some of it, or all."""
    if quick:
        return [("digits-100", "log-loss", 5)]
    # The peer takes minutes for a draw of the widest.
    draws = {name: 5 if "2000" in name else 10 for name in CASES}
    scorings = {name: ("log-loss",) if "2000" in name else tuple(SCORINGS) for name in CASES}
    return [(name, scoring, draws[name]) for name in CASES for scoring in scorings[name]]


def case_name(name: str, scoring: str, draws: int) -> str:
    return f"{name} by {scoring}"


def rows(name: str, scoring: str, draws: int) -> list[Row]:
    """One line of the table of docs/speed.md."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peer's fits do not all converge within its defaults
        return [{"case": case_name(name, scoring, draws), **run_case(name, draws, scoring)}]
