r"""Who calibrates best where: n labels fixed, over n/d and the strength of the ridge.

P(y = 1 | x) = sigmoid(3w*ᵀx + 1) with x ~ N(0, Σ), Σ_kl = 0.5^|k−l|/d, as in the paper; ŵ, b̂
minimize (1/n) Σ log-loss + λ‖w‖²/(2d), with an intercept, as users fit. Every method sees the same
n labels; "Platt 100" alone has 100 more. The scores of all fitted models and the signal are jointly
normal over fresh rows with covariance WᵀΣW, so test rows are drawn as these few numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from angcal import AngleWarning
from angcal._typing import Floats
from angcal.baselines import PlattScaling
from angcal.curve import angular_probability
from angcal.links import Link, Logit
from angcal.metrics import expected_calibration_error, mean_bregman_divergence
from angcal.metrics.scores import PROBABILITY_FLOOR
from angcal.simulation import Simulation, simulate
from studies.engine.experiment import Cell, Experiment, Tables, Trial, grid, significant
from studies.engine.runner import trial_generator
from studies.paper.setting import PAPER_LINKS, FittedDraw

# Name of the method: the angle's route, the family where the link is not known, and Σ.
ROUTES: dict[str, tuple[str, Link | None, str | None]] = {
    "angular, observable": ("observable", None, "known"),
    "angular, leave-one-out": ("loo", None, None),
    "angular, both": ("auto", None, "known"),
    "unknown link, observable": ("observable", Logit(), "known"),
    "unknown link, leave-one-out": ("loo", Logit(), None),
    "unknown link, both": ("auto", Logit(), "known"),
}
SPLIT = "Platt 100 of n"
CV, CV_SINGLE = "CalibratedClassifierCV", "CalibratedClassifierCV, ensemble=False"
METHODS = {
    "uncalibrated": "n labels",
    "angular, true angle": "the truth",
    "angular, observable": "n labels, link, Σ",
    "angular, leave-one-out": "n labels, link",
    "angular, both": "n labels, link, Σ",
    "unknown link, observable": "n labels, Σ",
    "unknown link, leave-one-out": "n labels",
    "unknown link, both": "n labels, Σ",
    "Platt 100": "n + 100 labels",
    SPLIT: "n labels",
    CV: "n labels",
    CV_SINGLE: "n labels",
}
"""What each method is given."""
HOLDOUT = 100
N_BINS = 15


@dataclass(frozen=True)
class PhaseSettings:
    """The grid, and how much is drawn in each of its cells."""

    n_samples: int
    n_per_d: tuple[float, ...]
    ridges: tuple[float, ...]
    draws: int
    n_test: int
    seed: int = 2025


FULL = PhaseSettings(
    n_samples=1000,
    n_per_d=tuple(round(0.25 * 2.0 ** (k / 2), 4) for k in range(11)),
    ridges=tuple(round(10.0 ** (k / 2 - 3), 5) for k in range(9)),
    draws=20,
    n_test=50_000,
)
QUICK = PhaseSettings(
    n_samples=200, n_per_d=(0.25, 1.4142, 8.0), ridges=(0.001, 0.1, 10.0), draws=2, n_test=5000
)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities on the test rows, and how they were computed."""

    probability: Floats
    of_main_score: bool = True  # Whether they are a function of the score of the fit to all n rows
    warnings: int = 0  # How often a solver or an estimate complained


@contextmanager
def counted(category: type[Warning]) -> Iterator[list[int]]:
    """Count the warnings of one category instead of showing them; others are passed on."""
    count = [0]
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield count
    for entry in caught:
        if issubclass(entry.category, category):
            count[0] += 1
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


# -- scikit-learn's side ---------------------------------------------------------------------


Peers = dict[str, tuple[Any, int]]
"""What scikit-learn makes of the n rows, and how often its solver did not converge."""


def unit_variance(X: Floats) -> Floats:
    """√d·x, as a scaler would leave the columns: at one tolerance the solver ends nearer to ŵ."""
    return X * np.sqrt(X.shape[1])


def logistic(n: int, ridge: float) -> LogisticRegression:
    """C = 1/(nλ), which on √d·x is the objective (1/n) Σ log-loss + λ‖w‖²/(2d) on x."""
    return LogisticRegression(C=1.0 / (n * ridge), solver="lbfgs", tol=1e-6, max_iter=10_000)


def fit_peers(data: Simulation, ridge: float) -> Peers:
    """Fit on n − 100 rows and by cross-validation, C kept at that of all n rows, as users do."""
    X, y, n = unit_variance(data.X), data.y, len(data.y)
    peers: Peers = {}
    for name, model, first in (
        (SPLIT, logistic(n, ridge), HOLDOUT),
        (CV_SINGLE, CalibratedClassifierCV(logistic(n, ridge), ensemble=False), 0),
        (CV, CalibratedClassifierCV(logistic(n, ridge)), 0),
    ):
        with counted(ConvergenceWarning) as count:
            model.fit(X[first:], y[first:])
        peers[name] = model, count[0]
    return peers


def cross_validated_probability(classifier: CalibratedClassifierCV, scores: Floats) -> Floats:
    """(1/K) Σ_k sigmoid calibration k of the score of model k: predict_proba from the scores."""
    pairs = classifier.calibrated_classifiers_
    # With two classes there is one calibrator a model, and it gives P(y = 1).
    columns = [pair.calibrators[0].predict(scores[:, k]) for k, pair in enumerate(pairs)]
    return np.mean(columns, axis=0)


# -- fresh rows ------------------------------------------------------------------------------


def joint_scores(
    data: Simulation, coefs: Floats, intercepts: Floats, n: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(signal, scores) of n fresh rows: N(0, WᵀΣW) with W = (w*, ŵ_1, …, ŵ_K), plus intercepts."""
    directions = np.column_stack([data.weights, coefs])
    gram = directions.T @ data.covariance.apply(directions)
    # The symmetric root: models may coincide, and no sign is left to the linear algebra library.
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    rows = rng.standard_normal((n, len(gram))) @ root
    return rows[:, 0], rows[:, 1:] + intercepts


def all_scores(
    data: Simulation, fitted: FittedDraw, peers: Peers, n: int, rng: np.random.Generator
) -> tuple[Floats, dict[str, Floats]]:
    """Signal, and the scores of "main" and of the linear models of each peer, in columns."""
    groups: dict[str, Sequence[Any]] = {
        name: [pair.estimator for pair in getattr(model, "calibrated_classifiers_", ())] or [model]
        for name, (model, _) in peers.items()
    }
    models = [model for group in groups.values() for model in group]
    stretch = np.sqrt(len(data.weights))
    coefs = np.column_stack([fitted.fit.coef, *(stretch * model.coef_[0] for model in models)])
    intercepts = np.array([fitted.fit.intercept, *(float(m.intercept_[0]) for m in models)])
    signal, scores = joint_scores(data, coefs, intercepts, n, rng)
    ends = np.cumsum([1, *map(len, groups.values())])
    columns = np.split(scores, ends[:-1], axis=1)
    return signal, dict(zip(("main", *groups), columns, strict=True))


# -- one trial -------------------------------------------------------------------------------


def angular_predictions(fitted: FittedDraw, main: Floats) -> dict[str, Prediction]:
    """Every route of the library, on the scores of the fit to all rows."""
    predictions = {}
    for name, (angle, family, covariance) in ROUTES.items():
        with counted(AngleWarning) as count:
            calibration = fitted.calibrated(angle, link=family, covariance=covariance)
        predictions[name] = Prediction(calibration.curve.predict(main), warnings=count[0])
    return predictions


def platt(
    scores: Floats, y: ArrayLike, fresh: Floats, of_main: bool, earlier: int = 0
) -> Prediction:
    """Platt scaling fitted on some scores and labels, at fresh scores."""
    with counted(ConvergenceWarning) as count:
        calibrator = PlattScaling().fit(scores, y)
    return Prediction(calibrator.predict(fresh), of_main, count[0] + earlier)


def peer_predictions(
    data: Simulation, peers: Peers, scores: dict[str, Floats]
) -> dict[str, Prediction]:
    """What is made of the same n labels with scikit-learn."""
    model, warned = peers[SPLIT]
    held_out = model.decision_function(unit_variance(data.X[:HOLDOUT]))
    found = {SPLIT: platt(held_out, data.y[:HOLDOUT], scores[SPLIT][:, 0], False, warned)}
    for name in (CV, CV_SINGLE):
        model, warned = peers[name]
        found[name] = Prediction(cross_validated_probability(model, scores[name]), False, warned)
    return found


def predictions_of(
    data: Simulation, fitted: FittedDraw, peers: Peers, scores: dict[str, Floats], holdout: Any
) -> dict[str, Prediction]:
    """Probabilities of every method in METHODS on the test rows."""
    main = scores["main"][:, 0]
    held_scores, held_labels = holdout
    return {
        "uncalibrated": Prediction(expit(main)),
        "angular, true angle": Prediction(true_curve(fitted, main)),
        **angular_predictions(fitted, main),
        "Platt 100": platt(held_scores, held_labels, main, True),
        **peer_predictions(data, peers, scores),
    }


def true_curve(fitted: FittedDraw, scores: Floats) -> Floats:
    """F(u) = P(y = 1 | score = u) by the true angle."""
    standard = (scores - fitted.fit.intercept) / fitted.norm
    return angular_probability(fitted.data.link, fitted.cosine, standard)


def measured(prediction: Prediction, y: Floats, truth: Floats, best: Floats) -> dict[str, Cell]:
    """ECE, debiased ECE, KL to σ(w*ᵀx), and E|p − F| where p is a function of the main score."""
    # KL stays finite where a score saturates the sigmoid.
    p = np.clip(prediction.probability, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
    gap = float(np.mean(np.abs(p - best))) if prediction.of_main_score else float("nan")
    numbers = {
        "ece": expected_calibration_error(y, p, n_bins=N_BINS),
        "ece_debiased": expected_calibration_error(y, p, n_bins=N_BINS, debiased=True),
        "kl": mean_bregman_divergence(truth, p, "kl"),
        "distance": gap,
    }
    rounded = {name: significant(value) for name, value in numbers.items()}
    return {**rounded, "warnings": prediction.warnings}


def run_trial(settings: PhaseSettings, trial: Trial) -> Tables:
    """One draw in one cell: every method's errors, and what the draw was like."""
    n_per_d, ridge = float(trial["n_per_d"]), float(trial["ridge"])
    rng = trial_generator(settings.seed, "phase", n_per_d, ridge, trial["draw"])
    d = round(settings.n_samples / n_per_d)
    data = simulate(settings.n_samples, d, link=PAPER_LINKS["sigmoid"], random_state=rng)
    fitted = FittedDraw.of(data, ridge, intercept=True)
    holdout = fitted.labeled(HOLDOUT, rng)
    peers = fit_peers(data, ridge)
    signal, scores = all_scores(data, fitted, peers, settings.n_test, rng)
    truth = data.link(signal)
    y = (rng.random(settings.n_test) < truth).astype(float)
    predictions = predictions_of(data, fitted, peers, scores, holdout)
    main, best = scores["main"][:, 0], predictions["angular, true angle"].probability
    rows = [{"method": name, **measured(predictions[name], y, truth, best)} for name in METHODS]
    draw = {
        "n_per_d": n_per_d,
        "ridge": ridge,
        "draw": trial["draw"],
        "cosine": fitted.cosine,
        # How much too far apart the raw prediction puts high scores and low ones.
        "overconfidence": float(
            np.mean((expit(main) - best) * np.sign(main - fitted.fit.intercept))
        ),
    }
    return {"": rows, "draws": [draw]}


PHASE = Experiment(
    name="phase",
    full=FULL,
    quick=QUICK,
    tables={
        "": ("method", "ece", "ece_debiased", "kl", "distance", "warnings"),
        "draws": ("n_per_d", "ridge", "draw", "cosine", "overconfidence"),
    },
    trials=lambda settings: grid(
        n_per_d=settings.n_per_d, ridge=settings.ridges, draw=range(settings.draws)
    ),
    run=run_trial,
)
