"""From CSV rows to the tables of docs/speed.md: medians, ratios, floors, and bars met or missed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies import RESULTS
from studies.engine.tables import Columns, table_of
from studies.speed import contenders
from studies.speed.cases import CATEGORIES
from studies.speed.contenders import BASE, CROSS_FITTED, CROSS_FITTED_ONE, OURS, OURS_EXACT
from studies.speed.parts import STAGES, base_passes, exact_operations
from studies.speed.store import MACHINE

# What the page holds each figure against.
FIT_BAR, CROSS_FITTED_BAR, PREDICT_BAR, MEMORY_BAR, GROWTH_BAR = 2.0, 0.5, 1.15, 0.5, 1.1
# A fast answer may be worse than the exact one by this many of its own standard errors.
ACCURACY_BAR = 0.1
PATH_BAR = 20.0
LARGE = 10**7
SINGLE, DOUBLE, INDEX = 4, 8, 4
GPU_FOLDER, REAL_FOLDER = RESULTS / "gpu", RESULTS / "speed" / "real"
GPU_SECONDS_BARS = {
    (100_000, 8192, 0.01): 0.06,
    (100_000, 8192, 1.0): 0.06,
    (100_000, 100_000, 0.001): 0.9,
    (100_000, 100_000, 0.01): 1.2,
}
GPU_FLOOR_BAR = 2.0
# Largest memory in all, and the largest gap of the cosine to double precision on the CPU.
GPU_MEMORY_BAR, GPU_GAP_BAR = 100.0, 1e-3
# The files of the GPU have five digits.
SMALLEST_GAP = 1e-5


def listing(rows: Iterable[Any], columns: Columns) -> str:
    """A table that ends with a line end."""
    return table_of(rows, columns) + "\n"


def verdict(value: float, bar: float) -> str:
    """Whether the value keeps below the bar."""
    return "met" if value <= bar else "**missed**"


def mark(value: float, bar: float) -> str:
    """The value, and whether it keeps below the bar."""
    return f"{value:.2f} {verdict(value, bar)}"


def seconds(value: float) -> str:
    """Three digits, or nothing where there is nothing."""
    return shown(value, ".3g")


def shown(value: float, form: str) -> str:
    """The value in a format, or nothing where there is nothing."""
    return "" if np.isnan(value) else format(value, form)


def load(folder: Path, part: str) -> pd.DataFrame:
    """The rows of a part; empty where it was not run."""
    path = folder / f"{part}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def medians(rows: pd.DataFrame, value: str = "wall") -> pd.DataFrame:
    """Median over repeats: a line per case in the order measured, a column per contender."""
    table = rows.pivot_table(index="case", columns="contender", values=value, aggfunc="median")
    return table.reindex(index=rows["case"].unique(), columns=rows["contender"].unique())


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Medians over the median of one fit of the same case."""
    table = medians(rows)
    return table.div(table[BASE], axis=0)


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

    def to(name: str, bar: float) -> Callable[[Any], str]:
        return lambda wall: mark(wall[OURS] / wall[name], bar)

    columns: Columns = {
        "case": lambda wall: str(wall.name),
        "one fit, s": lambda wall: seconds(wall[BASE]),
        "angular, s": lambda wall: seconds(wall[OURS]),
        "to one fit": to(BASE, FIT_BAR),
        "to one fit at rest": to(contenders.BASE_AT_REST, FIT_BAR),
        "to CCV": to(CROSS_FITTED, CROSS_FITTED_BAR),
        "to CCV, one model": to(CROSS_FITTED_ONE, CROSS_FITTED_BAR),
    }
    return listing((wall for _, wall in medians(load(folder, "fit")).iterrows()), columns)


def contenders_table(folder: Path) -> str:
    """Medians of wall and process seconds and the final gradient norm, for everybody."""
    fits = load(folder, "fit")
    wall, process = medians(fits), medians(fits, "process")
    groups = fits.groupby(["case", "contender"])
    norms, counts = groups["gradient_norm"].first(), groups["repeat"].count()
    keys = [(case, name) for case in wall.index for name in wall.columns[wall.loc[case].notna()]]
    columns: Columns = {
        "case": lambda key: str(key[0]),
        "contender": lambda key: str(key[1]),
        "wall, s": lambda key: seconds(wall.loc[key]),
        "process, s": lambda key: seconds(process.loc[key]),
        "to one fit": lambda key: f"{wall.loc[key] / wall.loc[key[0], BASE]:.2f}",
        "‖∇J‖∞/n": lambda key: f"{norms[key]:.1e}",
        "repeats": lambda key: str(counts[key]),
    }
    return listing(keys, columns)


def added_error(gap: float) -> float:
    """√(1 + g²) − 1: what an independent gap of g standard errors adds to the whole error."""
    return float(np.hypot(1.0, gap) - 1.0)


def accuracy_table(folder: Path) -> str:
    """Fast against exact in standard errors, and E|p−F| against the truth."""

    def error(name: str) -> Callable[[Any], str]:
        return lambda group: shown(group["error"].get(name, np.nan), ".4f")

    def ours(column: str, form: str = "") -> Callable[[Any], str]:
        return lambda group: shown(group[column][OURS], form) if form else group[column][OURS]

    accuracy = load(folder, "accuracy").set_index("contender")
    columns: Columns = {
        "case": ours("case"),
        "path": ours("side"),
        "true cosine": ours("true_cosine", ".4f"),
        "cosine": lambda group: f"{group['cosine'][OURS]:.4f} ± {group['cosine_error'][OURS]:.4f}",
        "gap of the cosine, s.e.": ours("cosine_gap", ".2f"),
        "gap of the curve, s.e.": ours("curve_gap", ".2f"),
        "adds to the curve's error": lambda group: shown(
            added_error(group["curve_gap"][OURS]), ".1%"
        ),
        "E∣p−F∣ angular": error(OURS),
        "exact": error(OURS_EXACT),
        "CCV, one model": error(CROSS_FITTED_ONE),
        "LogisticRegression": error(BASE),
    }
    return listing((group for _, group in accuracy.groupby("case", sort=False)), columns)


def draws_table(folder: Path) -> str:
    """What the fast path costs over many draws, in standard errors of the curve."""

    def worse(group: pd.DataFrame) -> str:
        excess = (group["error"] - group["error_exact"]) / group["standard_error"]
        return f"{mark(excess.mean(), ACCURACY_BAR)} (± {excess.sem():.2f})"

    def rms(values: pd.Series) -> str:
        return f"{np.sqrt(np.mean(values**2)):.2f}"

    columns: Columns = {
        "case": lambda group: str(group["case"].iloc[0]),
        "path": lambda group: str(group["side"].iloc[0]),
        "draws": lambda group: str(len(group)),
        "E∣p−F∣ auto": lambda group: f"{group['error'].mean():.5f}",
        "E∣p−F∣ exact": lambda group: f"{group['error_exact'].mean():.5f}",
        "worse by, s.e.": worse,
        "gap of the curve, s.e.": lambda group: rms(group["gap"] / group["standard_error"]),
        "gap of the cosine, s.e.": lambda group: rms(
            (group["cosine"] - group["cosine_exact"]) / group["cosine_error"]
        ),
    }
    groups = load(folder, "draws").groupby("case", sort=False)
    return listing((group for _, group in groups), columns)


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
    rates = load(folder, "floor").set_index(["quantity", "dtype"])["rate"]
    wall = medians(load(folder, "fit"))

    def floors(stage: pd.Series) -> tuple[float, float]:
        n, d = case_shape(stage["case"])
        stored = n * CATEGORIES if "one-hot" in stage["case"] else None
        return floor_seconds(stage, lambda q, t: float(rates[q, t]), n, d, stored)

    def achieved(which: int, name: str) -> Callable[[Any], str]:
        return lambda stage: f"{floors(stage)[which] / wall.loc[stage['case'], name]:.0%}"

    sampled = "randomised"
    columns: Columns = {
        "case": lambda stage: stage["case"],
        "path": lambda stage: stage["side"],
        "passes of the fit": lambda stage: str(base_passes(int(stage["iterations"]))),
        "our passes": lambda stage: str(int(stage["passes"])) if stage["side"] == sampled else "",
        "floor of the fit, s": lambda stage: seconds(floors(stage)[0]),
        "achieved": achieved(0, BASE),
        "floor of our part, s": lambda stage: seconds(floors(stage)[1]),
        "achieved by our part": achieved(1, contenders.OUR_PART),
    }
    return listing((stage for _, stage in load(folder, "stages").iterrows()), columns)


def rates_table(folder: Path) -> str:
    """Measured rates of memory and of matrix products."""
    columns: Columns = {
        "operation": lambda row: row.quantity,
        "precision": lambda row: row.dtype,
        "rate": lambda row: f"{row.rate:.1f} {row.unit}",
    }
    return listing(load(folder, "floor").itertuples(), columns)


def stages_table(folder: Path) -> str:
    """Where a fit's time goes, as shares of one fit under the profiler."""

    def share(name: str) -> Callable[[Any], str]:
        return lambda stage: f"{stage[name] / stage['total']:.0%}"

    columns: Columns = {
        "case": lambda stage: stage["case"],
        "total, s": lambda stage: seconds(stage["total"]),
        **{name: share(name) for name in STAGES},
    }
    return listing((stage for _, stage in load(folder, "stages").iterrows()), columns)


def predict_table(folder: Path) -> str:
    """predict_proba against LogisticRegression's."""
    rows = load(folder, "predict")
    gaps = rows.dropna(subset=["table_gap"]).groupby("case")["table_gap"].max()
    sizes = rows.groupby("case")["bytes"].first()
    columns: Columns = {
        "case": lambda wall: str(wall.name),
        "LogisticRegression, s": lambda wall: seconds(wall[BASE]),
        "angular, s": lambda wall: seconds(wall[OURS]),
        "ratio": lambda wall: mark(wall[OURS] / wall[BASE], PREDICT_BAR),
        "angular, GB/s": lambda wall: f"{sizes[wall.name] / wall[OURS] / 1e9:.1f}",
        "largest error of the table": lambda wall: f"{gaps[wall.name]:.1e}",
    }
    return listing((wall for _, wall in medians(rows).iterrows()), columns)


def memory_allowance(row: pd.Series) -> float:
    """0.5 × bytes of X, plus the smaller-side square where a matrix is factorized."""
    square = 0.0 if row["side"] == "randomised" else float(row["square_bytes"])
    return MEMORY_BAR * float(row["bytes"]) + square


def memory_table(folder: Path) -> str:
    """Extra memory at the peak, in MB and against the bar."""

    def to_the_bar(row: pd.Series) -> str:
        ours = row["contender"] != BASE
        return mark(row["extra"] / memory_allowance(row), 1.0) if ours else ""

    columns: Columns = {
        "case": lambda row: row["case"],
        "what": lambda row: row["contender"],
        "X, MB": lambda row: f"{row['bytes'] / 1e6:.0f}",
        "extra, MB": lambda row: f"{row['extra'] / 1e6:.0f}",
        "extra to X": lambda row: f"{row['extra'] / row['bytes']:.2f}",
        "extra to the bar": to_the_bar,
    }
    rows = load(folder, "memory").fillna({"side": ""}).iterrows()
    return listing((row for _, row in rows), columns)


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

    def judged(row: Any, value: float) -> str:
        if np.isnan(value) or row.contender == BASE:
            return shown(value, ".2f")
        return mark(value, GROWTH_BAR)

    columns: Columns = {
        "penalty": lambda row: row.penalty,
        "contender": lambda row: row.contender,
        "slope": lambda row: judged(row, row.slope),
        "slope from 10⁷ entries": lambda row: judged(row, row.large),
        "largest n·d": lambda row: f"{row.entries:.1e}",
        "seconds there": lambda row: seconds(row.seconds),
    }
    return listing(growth_slopes(load(folder, "growth")).itertuples(), columns)


def path_table(folder: Path) -> str:
    """Tuning and calibrating against the nested route, and the difference in held-out log-loss."""
    columns: Columns = {
        "problem": lambda row: row.problem,
        "peer picks C by": lambda row: row.peer,
        "draws": lambda row: str(row.draws),
        "angcal, ms": lambda row: f"{row.angcal_ms:.0f}",
        "nested, ms": lambda row: f"{row.nested_ms:.0f}",
        "times faster": lambda row: f"{row.ratio:.1f} {verdict(PATH_BAR, row.ratio)}",
        "log-loss": lambda row: f"{row.angcal_log_loss:.4f}",
        "nested's": lambda row: f"{row.nested_log_loss:.4f}",
        "difference": lambda row: (
            f"{row.difference:+.4f} ± {row.difference_se:.4f} "
            f"{verdict(row.difference, 2.0 * row.difference_se)}"
        ),
    }
    return listing(load(folder, "path").itertuples(), columns)


def real_table(folder: Path) -> str:
    """CPU seconds on real rows: over one plain fit, over five folds, and tuned over folds."""
    rows = load(folder if (folder / "real.csv").exists() else REAL_FOLDER, "real")
    if not len(rows):
        return "Not measured yet.\n"
    found = medians(rows, "process")
    sizes = rows.groupby("case")[["n", "d"]].first()

    def over(row: str, ours: str, rival: str, bar: float) -> str:
        if row not in found.index:
            return ""
        return mark(float(found.loc[row, ours] / found.loc[row, rival]), bar)

    columns: Columns = {
        "design": lambda case: f"{case} {sizes.loc[case, 'n']}x{sizes.loc[case, 'd']}",
        "plain, s": lambda case: seconds(found.loc[case, "plain"]),
        "to plain": lambda case: over(case, "angular", "plain", 2.5),
        "to five folds": lambda case: over(case, "angular", "CalibratedClassifierCV", 1.0),
        "tuned to LogisticRegressionCV": lambda case: over(
            f"{case} tuned", "angular, tuned", "LogisticRegressionCV", 1.0
        ),
    }
    return listing([case for case in found.index if not case.endswith(" tuned")], columns)


def real_accuracy_table(folder: Path) -> str:
    """What studies/speed/real_accuracy.py has left: how far fast paths are from exact ones."""
    if not (RESULTS / "speed" / "real-accuracy.csv").exists():
        return "Not measured yet.\n"
    columns: Columns = {
        "design": lambda row: row.design,
        "leave-one-out log-loss": lambda row: f"{row.log_loss:.4f}",
        "largest gap of 20 penalties": lambda row: f"{row.largest_gap:.5f}",
        "in standard errors": lambda row: f"{row.in_standard_errors:.2f}",
        "the choice costs": lambda row: f"{row.choice_costs:.5f}",
        "cosine at C = 1": lambda row: f"{row.cosine:.4f}",
        "exact": lambda row: f"{row.exact_cosine:.4f} ± {row.cosine_se:.4f}",
    }
    return listing(load(RESULTS / "speed", "real-accuracy").itertuples(), columns)


def small_table(folder: Path) -> str:
    """What studies/speed/small.py has left: CPU milliseconds, ratios, and shares of stages."""
    if not (RESULTS / "speed" / "small.csv").exists():
        return "Not measured yet.\n"
    rows = load(RESULTS / "speed", "small")
    columns: Columns = {
        "case": lambda row: row.case,
        "plain, ms": lambda row: f"{row.plain_ms:.1f}",
        "angular, ms": lambda row: f"{row.angular_ms:.1f}",
        "to plain": lambda row: mark(row.to_plain, 1.5),
        "to five folds": lambda row: mark(row.to_five_folds, 0.35),
        "checks": lambda row: f"{row.checks:.2f}",
        "fit": lambda row: f"{row.base_fit:.2f}",
        "factorization": lambda row: f"{row.factorization:.2f}",
        "leverages": lambda row: f"{row.leverages:.2f}",
        "link and curve": lambda row: f"{row.link_and_curve:.2f}",
    }
    return listing(rows.itertuples(), columns)


def before_after_table(folder: Path) -> str:
    """What studies/speed/before_after.py has left: milliseconds of two versions, and ratios."""
    rows = load(RESULTS / "speed", "before-after")
    columns: Columns = {
        "case": lambda row: row.case,
        "before, ms": lambda row: f"{row.before_ms:.1f}",
        "now, ms": lambda row: f"{row.after_ms:.1f}",
        "now over before": lambda row: f"{row.wall:.2f}",
        "of the processor": lambda row: f"{row.process:.2f}",
    }
    return listing(rows.itertuples(), columns)


def gpu_table(folder: Path) -> str:
    """What studies/speed/gpu.py has left: seconds, passes, floor and agreement with the CPU."""
    about = json.loads((GPU_FOLDER / "results.json").read_text(encoding="utf-8"))

    def gap(row: Any) -> str:
        value = abs(row.cosine_known_link - row.cosine_host)
        size = f"below {SMALLEST_GAP:.0e}" if value < SMALLEST_GAP else f"{value:.0e}"
        return "" if np.isnan(value) else f"{size} {verdict(value, GPU_GAP_BAR)}"

    def timed(row: Any) -> str:
        bar = GPU_SECONDS_BARS.get((row.n, row.d, row.C))
        return f"{row.seconds:.4f}" + ("" if bar is None else f" {verdict(row.seconds, bar)}")

    columns: Columns = {
        "case": lambda row: f"{row.n}x{row.d} {row.dtype} C={row.C:g}",
        "seconds": timed,
        "passes (of them in half precision)": lambda row: f"{row.passes} ({row.passes_in_half})",
        "floor, s": lambda row: f"{row.floor_seconds:.4f}",
        "to the floor": lambda row: mark(row.over_floor, GPU_FLOOR_BAR),
        "peak GB (X)": lambda row: (
            f"{row.peak_GB:.1f} ({row.X_GB:.1f}) {verdict(row.peak_GB, GPU_MEMORY_BAR)}"
        ),
        "true cosine": lambda row: f"{row.cosine_true:.4f}",
        "cosine, link known": lambda row: f"{row.cosine_known_link:.4f} ± {row.cosine_se:.4f}",
        "gap to float64 on the CPU": gap,
        "factorized": lambda row: shown(row.cosine_exact, ".4f"),
    }
    versions = f"{about['device']}; torch {about['torch']}, scikit-learn {about['scikit-learn']}"
    rows = pd.read_csv(GPU_FOLDER / "results.csv").itertuples()
    return f"{versions}; median of {about['repeats']}.\n\n{listing(rows, columns)}"


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
    "real": (real_table, ()),
    "real-accuracy": (real_accuracy_table, ()),
    "small": (small_table, ()),
    "before-after": (before_after_table, ()),
    "gpu": (gpu_table, ()),
}


def all_tables(folder: Path) -> str:
    """Every table under its name: the report of a run that no page is made of."""
    return "\n".join(f"## {name}\n\n{table(name, folder)}" for name in TABLES)


def table(name: str, folder: Path) -> str:
    """A table by name; a sentence where its part has not been run."""
    if name not in TABLES:
        raise KeyError(f"No table is named {name!r}; there are {', '.join(TABLES)}.")
    build, parts = TABLES[name]
    missing = [part for part in parts if not (folder / f"{part}.csv").exists()]
    if missing or not (folder / MACHINE).exists():
        return f"Not measured yet: {', '.join(missing) or 'nothing has been run'}.\n"
    return build(folder)
