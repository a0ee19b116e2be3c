"""What is claimed of the real-data tables, over all of their datasets, and where it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from studies.datasets import CATALOGUE
from studies.engine.experiment import Frames
from studies.engine.tables import markdown, with_minus, yes_or_no
from studies.paper.semireal import AS_MANY, AUTO, ESTIMATED, ORACLE, OUR_METHODS, PAPER_METHODS
from studies.paper.semireal_tables import (
    PLATT_FEW,
    PLATT_MANY,
    about,
    cosine_errors,
    label,
    means,
    noise_floors,
    per_split,
)

METRICS = {
    "error": "E∣p − F∣",
    "error_best": "E∣p − F°∣",
    "ece": "ECE",
    "ece_debiased": "debiased ECE",
    "kl": "KL to the truth",
    "brier": "Brier to the truth",
}
WORSE = 1.15
"""An estimated angle whose ECE is above this times that of the true one is listed."""
SMALLEST_SAMPLE, LARGEST_RMSE, LARGEST_RATIO = 200, 0.2, 1.1
FEW_LABELS, LOW_COVERAGE = 250, 0.85
FAR = 2.0
"""Standard deviations of one split, beyond which the paper's value is another one than ours."""
PAPER_COMPARED = tuple(
    (method, PAPER_METHODS[method]) for method in ("uncalibrated", ORACLE, PLATT_MANY)
)
Claim = tuple[str, str, float, bool]
"""What is claimed, its bar, what was measured, and whether it holds."""


def overall(every: Sequence[Frames]) -> str:
    """The claims over all runnable datasets, and where they fail."""
    frames = {key: pd.concat([part[key] for part in every]) for key in every[0]}
    values = {metric: means(frames, metric) for metric in METRICS}
    cosines = cosine_errors(frames)
    ratio = cosines["auto"] / cosines[["loo", "observable"]].min(axis=1)
    mean_ece = values["ece"].mean()
    to_oracle = mean_ece[AUTO] / mean_ece[ORACLE]
    claims = [
        *_error_claims(values["error"], "F"),
        *_error_claims(values["error_best"], "F°"),
        ("mean ECE over that of the true angle", "≤ 1.10", to_oracle, to_oracle <= 1.10),
        *_cosine_claims(cosines, ratio),
    ]
    table = markdown(
        ["claim", "bar", "measured", "holds?"],
        [[name, bar, f"{value:.4f}", yes_or_no(bool(holds))] for name, bar, value, holds in claims],
    )
    return "\n\n".join(
        [
            f"Over {len(cosines)} datasets; F is the angular curve at the true angle, F° the one "
            "nearest to the true probabilities:",
            table,
            "Means over datasets:",
            _means_table(values),
            by_sample_size(values["error"], cosines["n"]),
            _losses(values, ratio, cosines["coverage"], about(frames)["standing"]),
            *against_paper(frames),
        ]
    )


def _error_claims(error: pd.DataFrame, curve: str) -> list[Claim]:
    mean = error.mean()
    to_platt = mean[AUTO] / mean[PLATT_MANY]
    unknown = mean[ESTIMATED] / mean[PLATT_MANY]
    limit = mean[AS_MANY] / mean[PLATT_MANY]
    few = float((error[AUTO] < error[PLATT_FEW]).mean())
    many = float((error[AUTO] < error[PLATT_MANY]).mean())
    distance = f"E∣p − {curve}∣"
    return [
        (f"mean {distance}, link known", "≤ 0.016", mean[AUTO], mean[AUTO] <= 0.016),
        (f"mean {distance} over that of {PLATT_MANY}", "≤ 0.7", to_platt, to_platt <= 0.7),
        (f"share of datasets with {distance} below {PLATT_FEW}", "≥ 0.95", few, few >= 0.95),
        (f"share of datasets with {distance} below {PLATT_MANY}", "≥ 0.75", many, many >= 0.75),
        (
            f"link unknown: mean {distance} over {PLATT_MANY} ({AS_MANY}: {limit:.2f})",
            *("≤ 1", unknown, unknown <= 1.0),
        ),
    ]


def _cosine_claims(cosines: pd.DataFrame, ratio: pd.Series) -> list[Claim]:
    share = float((ratio <= LARGEST_RATIO).mean())
    largest = float(cosines[cosines["n"] >= SMALLEST_SAMPLE]["auto"].max())
    name = "share of datasets with RMSE of auto at most 1.1 times the better route's"
    return [
        (name, "≥ 0.9", share, share >= 0.9),
        ("largest RMSE of auto, n ≥ 200", "≤ 0.2", largest, largest <= LARGEST_RMSE),
    ]


def _means_table(values: Mapping[str, pd.DataFrame]) -> str:
    methods = [*PAPER_METHODS, AS_MANY, *OUR_METHODS]
    rows = [
        [method, *(f"{frame[method].mean():.4f}" for frame in values.values())]
        for method in methods
    ]
    return markdown(["method", *METRICS.values()], rows)


def by_sample_size(error: pd.DataFrame, n: pd.Series) -> str:
    """E∣p − F∣ of the larger and of the smaller samples: how much of it is a matter of labels."""
    told = []
    for words, names in (
        ("more than", n.index[n > FEW_LABELS]),
        ("at most", n.index[n <= FEW_LABELS]),
    ):
        mean = error.loc[names].mean()
        told.append(
            f"{mean[AUTO]:.4f} over the {len(names)} datasets with {words} {FEW_LABELS} "
            f"labels ({mean[AUTO] / mean[PLATT_MANY]:.2f} of {PLATT_MANY})"
        )
    return f"Mean E∣p − F∣, link known: {', '.join(told)}."


def _losses(
    values: Mapping[str, pd.DataFrame], ratio: pd.Series, coverage: pd.Series, standings: pd.Series
) -> str:
    """Where a peer wins, or the estimated angle costs much."""
    error, ece, kl = (values[name] for name in ("error", "ece", "kl"))
    found = {
        f"{PLATT_FEW} is nearer to F on": error.index[error[AUTO] >= error[PLATT_FEW]],
        f"{PLATT_MANY} is nearer to F on": error.index[error[AUTO] >= error[PLATT_MANY]],
        "ECE more than 15 % above that of the true angle on": ece.index[
            ece[AUTO] > WORSE * ece[ORACLE]
        ],
        "Nearer to the truth (KL) than the true angle on": kl.index[kl[AUTO] < kl[ORACLE]],
        "RMSE of auto more than 1.1 times the better route's on": ratio.index[
            ratio > LARGEST_RATIO
        ],
        "The 95 % interval of auto holds the true cosine in fewer than 85 % of the splits on": (
            coverage.index[coverage < LOW_COVERAGE]
        ),
    }
    return "\n".join(f"- {words}: {_names(names, standings)}." for words, names in found.items())


def _names(names: Sequence[str], standings: pd.Series) -> str:
    return "; ".join(label(str(name), standings[name]) for name in names) or "none"


# -- the paper's numbers -----------------------------------------------------------------------


def against_paper(frames: Frames) -> list[str]:
    """How far the paper's printed values lie from ours, in standard deviations of one split."""
    values, standings = per_split(frames, "ece"), about(frames)["standing"]
    names = list(standings.index)
    lines = [_distances(values[method], printed, standings) for method, printed in PAPER_COMPARED]
    floors = noise_floors(frames)
    printed = [CATALOGUE[str(name)].printed.get(PAPER_METHODS[ORACLE]) for name in names]
    known = [(name, value) for name, value in zip(names, printed, strict=True) if value is not None]
    below = sum(value < floors[name] for name, value in known)
    half = sum(value < 0.5 * floors[name] for name, value in known)
    return [
        "Beside the paper, whose values come from one split: its distance from our mean, over the "
        "standard deviation of our splits.",
        "\n".join(lines),
        f"Of its {len(known)} values for the true angle, {below} lie below the noise floor and "
        f"{half} below half of it.",
    ]


def _distances(values: pd.Series, printed: str, standings: pd.Series) -> str:
    """One method: how many datasets agree, and which do not."""
    grouped = values.groupby(level="dataset", sort=False)
    spread, mean = grouped.std(), grouped.mean()
    paper = {name: CATALOGUE[str(name)].printed.get(printed) for name in mean.index}
    z = {
        name: (value - mean[name]) / spread[name]
        for name, value in paper.items()
        if value is not None
    }
    off = [
        f"{label(str(name), standings[name])} {z[name]:+.1f}"
        for name in sorted(z, key=lambda name: -abs(z[name]))
        if abs(z[name]) > FAR
    ]
    agreeing = len(z) - len(off)
    told = with_minus("; ".join(off)) or "none"
    return f"- {values.name}: within {FAR:g} on {agreeing} of {len(z)} datasets; others: {told}."
