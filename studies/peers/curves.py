"""Which curve, where the link is not known: variants of the average, and the best single curve.

Two experiments. ``labels``: the tasks of ``studies benchmark real``, their real labels and their
first splits; the penalty is chosen once, every variant calibrates the same fit, and log-loss and
calibration slope on test rows are compared. ``truth``: the designs of the paper's tables with
simulated labels, where the distance from the curve at the true angle and the divergence from the
true probabilities are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from angcal import AngularLogisticRegressionCV, Logit
from angcal._typing import Floats
from angcal.baselines import PlattScaling
from angcal.calibrate import Calibration, Options, calibrate
from angcal.covariance import ScoreScale
from angcal.curve import AveragedCurve, CalibratedCurve, CurvePart
from angcal.link_posterior import BELIEF, HERMITE, Belief, link_posterior
from angcal.metrics import calibration_line, log_loss
from studies.engine.experiment import Experiment, Frames, Result, Tables, Trial, grid
from studies.engine.runner import trial_generator
from studies.engine.tables import Columns, table_of, with_error
from studies.paper.semireal import LINK, TABLES, SemirealSettings, divide, held_out, judge, prepared
from studies.peers.benchmark import CLIP
from studies.peers.real import FULL as REAL
from studies.peers.real import LABELED
from studies.peers.tasks import SizeError, draw_split, load_task, training_rows

SINGLE, KEPT = "the best single curve", "averaged, as kept"
BELIEFS: Mapping[str, Belief] = {
    KEPT: BELIEF,
    "labels count for 1": Belief(labels_count_for=1.0),
    "labels count for a third": Belief(labels_count_for=1 / 3),
    "logistic shape only": Belief(cosines=(1.0,)),
    "no cosine below 0.3": Belief(cosines=BELIEF.cosines[:8]),
    "six cosines": Belief(cosines=(1.0, 0.85, 0.6, 0.3, 0.1, 0.03)),
    "log κ about log 2": Belief(log_scale=float(np.log(2.0))),
    "log κ about log 5": Belief(log_scale=float(np.log(5.0))),
    "log κ with sd 0.5": Belief(log_scale_sd=0.5),
    "log κ with sd 3": Belief(log_scale_sd=3.0),
    "offset with sd 1": Belief(offset_sd=1.0),
    "offset with sd 10": Belief(offset_sd=10.0),
}
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Settings:
    """Datasets, and splits of each."""

    datasets: tuple[str, ...]
    splits: int
    seed: int = REAL.seed


# -- real labels -------------------------------------------------------------------------------


def variants(
    scores: Floats, labels: Floats, scale: ScoreScale, single: Any
) -> dict[str, Callable[[Floats], Floats]]:
    """Every way from the same leave-one-out scores to a curve."""
    found: dict[str, Callable[[Floats], Floats]] = {SINGLE: single.predict}
    standard, ones = scale.standardize(scores), np.ones(len(labels))
    for name, belief in BELIEFS.items():
        parts = link_posterior(Logit(), standard, labels, ones, None, belief).parts
        found[name] = AveragedCurve(parts, scale).predict
    return found


def run_labels(settings: Settings, trial: Trial) -> Tables:
    """All variants on one split of one task at one size; none where it is too small or large."""
    task = load_task(trial["dataset"])
    try:
        n = training_rows(task, trial["ratio"], REAL)
    except SizeError:
        n = 0
    if not 0 < n * task.X.shape[1] <= MOST_ENTRIES:
        return {"": [{**trial, "n": n, "variant": "none", "log_loss": 0.0, "slope": 0.0}]}
    rng = trial_generator(settings.seed, "real", trial["dataset"], trial["ratio"], trial["split"])
    split = draw_split(task, n, REAL.max_test, rng)
    with warnings.catch_warnings(action="ignore"):
        model = AngularLogisticRegressionCV(REAL.n_penalties).fit(split.X_train, split.y_train)
    scores = np.asarray(split.X_test @ model.coef_[0]) + model.intercept_[0]
    curves = variants(
        model.observables_.calibration_scores,
        split.y_train.astype(float),
        model.scale_,
        CalibratedCurve(model.link_, model.angle_.cosine, model.scale_),
    )
    rows = []
    for name, predict in curves.items():
        p = np.clip(predict(scores), CLIP, 1.0 - CLIP)
        slope = max(calibration_line(split.y_test, p).slope, 0.0)
        loss = log_loss(split.y_test, p)
        rows.append({**trial, "n": n, "variant": name, "log_loss": loss, "slope": slope})
    return {"": rows}


# -- known truth -------------------------------------------------------------------------------


def run_truth(settings: Settings, trial: Trial) -> Tables:
    """Known link with the angle or averaged over its error; unknown link, single and averaged."""
    name, number = trial["dataset"], trial["split"]
    rng = trial_generator(settings.seed, "semireal", name, number)
    split = divide(prepared(name), SemirealSettings((name,), 1), rng)
    ones, u = np.ones(len(split.train)), split.scores[split.test]

    def calibrated(**options: Any) -> Calibration:
        with warnings.catch_warnings(action="ignore"):
            return calibrate(
                split.fit, split.observables, ones, Options(pool=split.X[split.pool], **options)
            )

    known = calibrated(link=LINK, link_known=True, angle="auto")
    c, error = known.angle.cosine, known.angle.standard_error
    spread = tuple(
        CurvePart(share, LINK, float(np.clip(c + step * error, -1.0, 1.0)))
        for step, share in HERMITE
    )
    found = {
        "link known, at the angle": known.curve.predict(u),
        "link known, averaged over the angle's error": AveragedCurve(spread, known.scale).predict(
            u
        ),
        "Platt 500": held_out(PlattScaling(), split, 500),
    }
    for route, angle in (("with the pool's angle", "auto"), ("from labels alone", "loo")):
        free = calibrated(link=Logit(), link_known=False, angle=angle)
        single = CalibratedCurve(free.link, free.angle.cosine, free.scale)
        found[f"link unknown, {route}, single"] = single.predict(u)
        found[f"link unknown, {route}, averaged"] = free.curve.predict(u)
    rows = []
    for variant, p in found.items():
        judged = judge(p, split, 15)
        kept = {key: judged[key] for key in ("error", "error_best", "kl")}
        rows.append({**trial, "variant": variant, **kept})
    return {"": rows}


DESIGNS = tuple(name for table in TABLES.values() for name in table.full.datasets)
QUICK = Settings(("digits", "breast_cancer"), 1)
LABELS = Experiment(
    name="labels",
    full=Settings(LABELED, 5),
    quick=QUICK,
    tables={"": ("dataset", "ratio", "split", "n", "variant", "log_loss", "slope")},
    trials=lambda settings: grid(
        split=range(settings.splits), dataset=settings.datasets, ratio=REAL.ratios
    ),
    run=run_labels,
)
TRUTH = Experiment(
    name="truth",
    full=Settings(DESIGNS, 5),
    quick=QUICK,
    tables={"": ("dataset", "split", "variant", "error", "error_best", "kl")},
    trials=lambda settings: grid(split=range(settings.splits), dataset=settings.datasets),
    run=run_truth,
)


# -- summary -----------------------------------------------------------------------------------


def summarize_labels(frames: Frames, settings: Settings) -> str:
    """Mean log-loss less that of the best single curve, over cells, small ones and large ones."""
    rows = frames[""]
    rows = rows[rows["variant"] != "none"]
    values = rows.pivot(index=["dataset", "ratio", "split"], columns="variant", values="log_loss")
    gaps = values.sub(values[SINGLE], axis=0).groupby(level=["dataset", "ratio"]).mean()
    n = rows.groupby(["dataset", "ratio"])["n"].first()
    few = n[gaps.index] <= 200
    slopes = rows.groupby("variant")["slope"].median()

    def gap(form: Callable[[Any], str]) -> Callable[[str], str]:
        return lambda name: "0" if name == SINGLE else form(gaps[name])

    columns: Columns = {
        "curve": str,
        "log-loss less the best single curve's": gap(lambda g: with_error(g.mean(), g.sem(), None)),
        "n ≤ 200": gap(lambda g: f"{g[few].mean():+.4f}"),
        "n > 200": gap(lambda g: f"{g[~few].mean():+.4f}"),
        "better in": lambda name: "" if name == SINGLE else f"{(gaps[name] < 0).mean():.0%}",
        "median slope": lambda name: f"{slopes[name]:.2f}",
    }
    told = (
        f"Real labels: {len(gaps)} cells of {gaps.index.get_level_values('dataset').nunique()} "
        f"tasks ({int(few.sum())} with n ≤ 200), {rows['split'].nunique()} splits each; ± is the "
        "standard error over cells. The slope is that of a logistic curve through the logits on "
        "test rows: below 1 a curve believes itself too much, above 1 too little."
    )
    return f"{told}\n\n{table_of([SINGLE, *BELIEFS], columns)}"


def summarize_truth(frames: Frames, settings: Settings) -> str:
    """Means over designs, and over those of Platt scaling with 500 labels."""
    rows = frames[""]
    means = rows.groupby("variant", sort=False)[["error", "error_best", "kl"]].mean()
    reference = means.loc["Platt 500"]
    columns: Columns = {
        "curve": lambda row: str(row.name),
        "E∣p − F∣": lambda row: f"{row['error']:.4f}",
        "over Platt 500": lambda row: f"{row['error'] / reference['error']:.2f}",
        "the same to F°": lambda row: f"{row['error_best'] / reference['error_best']:.2f}",
        "KL to the truth": lambda row: f"{row['kl']:.4f}",
    }
    told = (
        f"Known truth: {rows['dataset'].nunique()} designs, {rows['split'].nunique()} splits each. "
        "F° is the curve of the family that is nearest to the true probabilities."
    )
    return f"{told}\n\n{table_of((row for _, row in means.iterrows()), columns)}"


RESULTS = (
    Result("labels", "Variants of the curve on real labels", LABELS, summarize_labels),
    Result("truth", "Variants of the curve where the truth is known", TRUTH, summarize_truth),
)
