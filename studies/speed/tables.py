"""From CSV rows to the tables of docs/speed.md: medians, ratios, floors, and bars met or missed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from studies.speed.cases import CATEGORIES
from studies.speed.contenders import (
    BASE,
    BASE_AT_REST,
    CROSS_FITTED,
    CROSS_FITTED_ONE,
    OUR_PART,
    OURS,
    OURS_EXACT,
)
from studies.speed.floor import base_passes, exact_operations
from studies.speed.gpu_table import gpu_table
from studies.speed.stages import STAGES
from studies.speed.store import MACHINE
from studies.speed.text import mark, markdown, seconds

# What the page holds each figure against.
FIT_BAR, CROSS_FITTED_BAR, PREDICT_BAR, MEMORY_BAR, GROWTH_BAR = 2.0, 0.5, 1.15, 0.5, 1.1
# A fast answer may be worse than the exact one by this many of its own standard errors.
ACCURACY_BAR = 0.1
PATH_BAR = 20.0
LARGE = 10**7
SINGLE, DOUBLE, INDEX = 4, 8, 4


def load(folder: Path, part: str) -> pd.DataFrame:
    """The rows of a part; empty where it was not run."""
    path = folder / f"{part}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def medians(rows: pd.DataFrame, value: str = "wall") -> pd.DataFrame:
    """Median over repeats: a line per case in the order measured, a column per contender."""
    table = rows.pivot_table(index="case", columns="contender", values=value, aggfunc="median")
    return table.reindex(index=rows["case"].unique(), columns=rows["contender"].unique())


def ratios(rows: pd.DataFrame, to: str = BASE) -> pd.DataFrame:
    """Medians over the median of one contender of the same case."""
    table = medians(rows)
    return table.div(table[to], axis=0)


def slope(entries: Sequence[float], seconds: Sequence[float]) -> float:
    """Least-squares slope of log seconds in log entries."""
    return float(np.polyfit(np.log(entries), np.log(seconds), 1)[0])


def machine_table(folder: Path) -> str:
    """Which machine, versions and threads made the results."""
    machine = json.loads((folder / MACHINE).read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"{machine['threads']} BLAS threads ({', '.join(machine['blas'])}); {versions}; "
        f"{machine['date']}.\n"
    )


def bars_table(folder: Path) -> str:
    """Ours against one fit and against cross-fitting, with the bars."""
    table = medians(load(folder, "fit"))
    rows = []
    for case, wall in table.iterrows():
        cross = wall[[CROSS_FITTED, CROSS_FITTED_ONE]]
        rows.append(
            [
                str(case),
                seconds(wall[BASE]),
                seconds(wall[OURS]),
                mark(wall[OURS] / wall[BASE], FIT_BAR),
                mark(wall[OURS] / wall[BASE_AT_REST], FIT_BAR),
                mark(wall[OURS] / cross[CROSS_FITTED], CROSS_FITTED_BAR),
                mark(wall[OURS] / cross[CROSS_FITTED_ONE], CROSS_FITTED_BAR),
            ]
        )
    columns = ["case", "one fit, s", "angular, s", "to one fit", "to one fit at rest", "to CCV"]
    return markdown([*columns, "to CCV, one model"], rows)


def contenders_table(folder: Path) -> str:
    """Medians of wall and process seconds and the final gradient norm, for everybody."""
    fits = load(folder, "fit")
    wall, process = medians(fits), medians(fits, "process")
    norms = fits.groupby(["case", "contender"])["gradient_norm"].first()
    counts = fits.groupby(["case", "contender"])["repeat"].count()
    rows = []
    for case in wall.index:
        for name in wall.columns[wall.loc[case].notna()]:
            key = (case, name)
            rows.append(
                [
                    str(case),
                    str(name),
                    seconds(wall.loc[key]),
                    seconds(process.loc[key]),
                    f"{wall.loc[key] / wall.loc[case, BASE]:.2f}",
                    f"{norms[key]:.1e}",
                    str(counts[key]),
                ]
            )
    columns = ["case", "contender", "wall, s", "process, s", "to one fit", "‖∇J‖∞/n", "repeats"]
    return markdown(columns, rows)


def added_error(gap: float) -> float:
    """√(1 + g²) − 1: what an independent gap of g standard errors adds to the whole error."""
    return float(np.hypot(1.0, gap) - 1.0)


def accuracy_table(folder: Path) -> str:
    """Fast against exact in standard errors, and E|p−F| against the truth."""
    accuracy = load(folder, "accuracy")
    rows = []
    for case, group in accuracy.groupby("case", sort=False):
        by_name = group.set_index("contender")
        error = by_name["error"].reindex([OURS, OURS_EXACT, CROSS_FITTED_ONE, BASE])
        ours = by_name.loc[OURS]
        gaps = [ours.get(name, np.nan) for name in ("cosine_gap", "curve_gap")]
        rows.append(
            [
                str(case),
                str(ours["side"]),
                f"{ours['true_cosine']:.4f}",
                f"{ours['cosine']:.4f} ± {ours['cosine_error']:.4f}",
                *("" if np.isnan(gap) else f"{gap:.2f}" for gap in gaps),
                "" if np.isnan(gaps[1]) else f"{added_error(gaps[1]):.1%}",
                *("" if np.isnan(value) else f"{value:.4f}" for value in error),
            ]
        )
    columns = ["case", "path", "true cosine", "cosine", "gap of the cosine, s.e."]
    columns += ["gap of the curve, s.e.", "adds to the curve's error"]
    columns += ["E∣p−F∣ angular", "exact", "CCV, one model", "LogisticRegression"]
    return markdown(columns, rows)


def draws_table(folder: Path) -> str:
    """What the fast path costs over many draws, in standard errors of the curve."""
    rows = []
    for case, group in load(folder, "draws").groupby("case", sort=False):
        worse = (group["error"] - group["error_exact"]) / group["standard_error"]
        gaps = group["gap"] / group["standard_error"]
        cosine_gaps = (group["cosine"] - group["cosine_exact"]) / group["cosine_error"]
        share = worse.std(ddof=1) / np.sqrt(len(worse))
        rows.append(
            [
                str(case),
                str(group["side"].iloc[0]),
                str(len(group)),
                f"{group['error'].mean():.5f}",
                f"{group['error_exact'].mean():.5f}",
                f"{mark(worse.mean(), ACCURACY_BAR)} (± {share:.2f})",
                f"{np.sqrt(np.mean(gaps**2)):.2f}",
                f"{np.sqrt(np.mean(cosine_gaps**2)):.2f}",
            ]
        )
    columns = ["case", "path", "draws", "E∣p−F∣ auto", "E∣p−F∣ exact", "worse by, s.e."]
    return markdown([*columns, "gap of the curve, s.e.", "gap of the cosine, s.e."], rows)


def floor_seconds(
    stage: pd.Series, rate: Callable[[str, str], float], n: int, d: int, stored: int | None
) -> tuple[float, float]:
    """(floor of the base fit, floor of our part): passes over bandwidth, operations over gemm.

    ``stored`` is the number of entries where X is sparse. Our passes are in single precision.
    """
    entries, index = (n * d, 0) if stored is None else (stored, INDEX)
    base = base_passes(int(stage["iterations"])) * entries * (DOUBLE + index)
    base_floor = base / (1e9 * rate("gemv", "float64"))
    if stage["side"] == "randomised":
        ours = stage["passes"] * entries * (SINGLE + index) / (1e9 * rate("gemv", "float32"))
    else:
        precision = "float32" if "single" in str(stage.get("remark", "")) else "float64"
        ours = exact_operations(n, d, stored is not None) / (1e9 * rate("gemm", precision))
    return base_floor, float(ours)


def case_shape(case: str) -> tuple[int, int]:
    """(n, d) from a case's name.

    >>> case_shape("4000x2000 one-hot C=1")
    (4000, 2000)
    """
    n, d = case.split()[0].split("x")
    return int(n), int(d)


def floor_table(folder: Path) -> str:
    """For each case: what memory and matrix products allow, and the share of it achieved."""
    floors, stages = load(folder, "floor"), load(folder, "stages")
    rates = floors.set_index(["quantity", "dtype"])["rate"]
    wall = medians(load(folder, "fit"))
    rows = []
    for _, stage in stages.iterrows():
        case = str(stage["case"])
        n, d = case_shape(case)
        stored = n * CATEGORIES if "one-hot" in case else None
        base, ours = floor_seconds(stage, lambda q, t: float(rates[q, t]), n, d, stored)
        rows.append(
            [
                case,
                str(stage["side"]),
                str(base_passes(int(stage["iterations"]))),
                str(int(stage["passes"])) if stage["side"] == "randomised" else "",
                seconds(base),
                f"{base / wall.loc[case, BASE]:.0%}",
                seconds(ours),
                f"{ours / wall.loc[case, OUR_PART]:.0%}",
            ]
        )
    columns = ["case", "path", "passes of the fit", "our passes", "floor of the fit, s"]
    columns += ["achieved", "floor of our part, s", "achieved by our part"]
    return markdown(columns, rows)


def rates_table(folder: Path) -> str:
    """Measured rates of memory and of matrix products."""
    rows = load(folder, "floor")
    return markdown(
        ["operation", "precision", "rate"],
        [[r.quantity, r.dtype, f"{r.rate:.1f} {r.unit}"] for r in rows.itertuples()],
    )


def stages_table(folder: Path) -> str:
    """Where a fit's time goes, as shares of one fit under the profiler."""
    rows = []
    for _, stage in load(folder, "stages").iterrows():
        shares = [f"{stage[name] / stage['total']:.0%}" for name in STAGES]
        rows.append([str(stage["case"]), seconds(stage["total"]), *shares])
    return markdown(["case", "total, s", *STAGES], rows)


def predict_table(folder: Path) -> str:
    """predict_proba against LogisticRegression's."""
    predictions = load(folder, "predict")
    table = medians(predictions)
    gaps = predictions.dropna(subset=["table_gap"]).groupby("case")["table_gap"].max()
    sizes = predictions.groupby("case")["bytes"].first()
    rows = []
    for case, wall in table.iterrows():
        rate = sizes[case] / wall[OURS] / 1e9
        ratio = mark(wall[OURS] / wall[BASE], PREDICT_BAR)
        row = [seconds(wall[BASE]), seconds(wall[OURS]), ratio, f"{rate:.1f}", f"{gaps[case]:.1e}"]
        rows.append([str(case), *row])
    columns = ["case", "LogisticRegression, s", "angular, s", "ratio", "angular, GB/s"]
    return markdown([*columns, "largest error of the table"], rows)


def memory_allowance(row: pd.Series) -> float:
    """0.5 × bytes of X, plus the smaller-side square where a matrix is factorised."""
    square = 0.0 if row["side"] == "randomised" else float(row["square_bytes"])
    return MEMORY_BAR * float(row["bytes"]) + square


def memory_table(folder: Path) -> str:
    """Extra memory at the peak, in MB and against the bar."""
    rows = []
    for _, row in load(folder, "memory").fillna({"side": ""}).iterrows():
        ours = row["contender"] != BASE
        rows.append(
            [
                str(row["case"]),
                str(row["contender"]),
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['extra'] / 1e6:.0f}",
                f"{row['extra'] / row['bytes']:.2f}",
                mark(row["extra"] / memory_allowance(row), 1.0) if ours else "",
            ]
        )
    columns = ["case", "what", "X, MB", "extra, MB", "extra to X", "extra to the bar"]
    return markdown(columns, rows)


def growth_slopes(growth: pd.DataFrame) -> pd.DataFrame:
    """Slope of each penalty and contender, over all sizes and over those from 10^7 entries."""
    keys = ["penalty", "contender", "entries"]
    wall = growth.groupby(keys, sort=False)["wall"].median().reset_index()
    rows = []
    for (penalty, contender), group in wall.groupby(["penalty", "contender"], sort=False):
        # Sizes are squares, so that 10^7 entries are some rows short of it.
        large = group[group["entries"] >= 0.9 * LARGE]
        slopes = [
            slope(part["entries"], part["wall"]) if len(part) > 1 else np.nan
            for part in (group, large)
        ]
        rows.append((penalty, contender, *slopes, group["entries"].max(), group["wall"].iloc[-1]))
    return pd.DataFrame(
        rows, columns=["penalty", "contender", "slope", "large", "entries", "seconds"]
    )


def growth_table(folder: Path) -> str:
    """Slopes of time against n·d on log axes."""
    rows = []
    for row in growth_slopes(load(folder, "growth")).itertuples():
        bar = mark if row.contender != BASE else (lambda value, _: f"{value:.2f}")
        both = ["" if np.isnan(v) else bar(v, GROWTH_BAR) for v in (row.slope, row.large)]
        largest = [f"{row.entries:.1e}", seconds(row.seconds)]
        rows.append([row.penalty, row.contender, *both, *largest])
    columns = ["penalty", "contender", "slope", "slope from 10⁷ entries"]
    return markdown([*columns, "largest n·d", "seconds there"], rows)


def path_table(folder: Path) -> str:
    """Tuning and calibrating against the nested route, and the difference in held-out log-loss."""
    rows = []
    for row in load(folder, "path").itertuples():
        verdict = "met" if row.ratio >= PATH_BAR else "**missed**"
        worse = row.difference > 2.0 * row.difference_se
        rows.append(
            [
                str(row.problem),
                str(row.peer),
                str(row.draws),
                f"{row.angcal_ms:.0f}",
                f"{row.nested_ms:.0f}",
                f"{row.ratio:.1f} {verdict}",
                f"{row.angcal_log_loss:.4f}",
                f"{row.nested_log_loss:.4f}",
                f"{row.difference:+.4f} ± {row.difference_se:.4f} "
                f"{'**missed**' if worse else 'met'}",
            ]
        )
    columns = ["problem", "peer picks C by", "draws", "angcal, ms", "nested, ms", "times faster"]
    return markdown([*columns, "log-loss", "nested's", "difference"], rows)


# Table, and the CSV parts it is made of.
TABLES: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "machine": (machine_table, ()),
    "bars": (bars_table, ("fit",)),
    "contenders": (contenders_table, ("fit",)),
    "accuracy": (accuracy_table, ("accuracy",)),
    "draws": (draws_table, ("draws",)),
    "rates": (rates_table, ("floor",)),
    "floor": (floor_table, ("floor", "stages", "fit")),
    "stages": (stages_table, ("stages",)),
    "predict": (predict_table, ("predict",)),
    "memory": (memory_table, ("memory",)),
    "growth": (growth_table, ("growth",)),
    "path": (path_table, ("path",)),
    "gpu": (gpu_table, ()),
}


def table(name: str, folder: Path) -> str:
    """A table by name; a sentence where its part has not been run."""
    if name not in TABLES:
        raise KeyError(f"No table is named {name!r}; there are {', '.join(TABLES)}.")
    build, parts = TABLES[name]
    missing = [part for part in parts if not (folder / f"{part}.csv").exists()]
    if missing or not (folder / MACHINE).exists():
        return f"Not measured yet: {', '.join(missing) or 'nothing has been run'}.\n"
    return build(folder)
