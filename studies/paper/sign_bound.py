r"""The sign of ⟨w*, ŵ⟩ from a holdout: the error that was measured against the paper's bound.

ŝgn = sign Σ ŵᵀx_i·y_i over n_ho labeled rows. The proposition: for some absolute constant κ > 0,
P(ŝgn wrong) ≤ 2 exp(−κx) with x = n_ho (cos θ·E σ′(Z))². In units of ‖ŵ‖_Σ the summands are
H = U·y with U ~ N(0, 1) and P(y = 1 | U) = E_Z σ(cos θ·U + sin θ·Z), so no weights are needed.
The paper gives no κ; Chernoff's P(Σ H ≤ 0) ≤ (min_t E e^(−tH))^n_ho proves one for each link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri
from scipy.stats import norm as normal

from angcal._typing import Floats
from angcal.displays import STYLES
from angcal.links import Link, Logit
from studies.engine.experiment import Experiment, Frames, Row, Tables, Trial
from studies.engine.figures import FULL_WIDTH, legend_below, letter, new_figure
from studies.engine.runner import trial_generator
from studies.engine.tables import HEADER, NOTHING, exact_interval, markdown, yes_or_no
from studies.paper.setting import PAPER_LINKS

NAME = "sign-bound"
SIGN_LINKS: dict[str, Link] = {"sigmoid(3t+1)": PAPER_LINKS["sigmoid"], "sigmoid(3t)": Logit(3.0)}
SUMS = ("paper", "centered")
"""Σ ŵᵀx_i·y_i, and Σ ŵᵀx_i·(y_i − ȳ)."""
PRINTED_ERROR, PRINTED_TRIALS = 0.0089, 5000
"""The paper's: holdouts of 100 rows, a fresh draw of the training data each time."""
DRAWN_SUMMANDS = 2**19
"""Per chunk: 4 MiB for each of the arrays that live at once."""
X_LABEL = r"$n_{\mathrm{ho}}\,(\cos\theta\;\mathrm{E}\,\sigma'(Z))^2$"
QUADRATURE = np.linspace(-9.0, 9.0, 1801)
NORMAL_WEIGHTS = normal.pdf(QUADRATURE) / normal.pdf(QUADRATURE).sum()
STEEPEST_TILT = 3.0
"""Largest t: e^(−tU) moves the normal law by t, and the quadrature must still hold all of it."""


@dataclass(frozen=True)
class SignSettings:
    """Cells (link, cos θ, n_ho), and how often each is simulated."""

    cosines: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5)  # The grid
    sizes: tuple[int, ...] = (5, 9, 16, 29, 53, 95, 171, 309, 556, 1000)
    # One more cell: the mean cosine of the paper's setting, and its holdout
    typical_cosine: float = 0.522
    typical_size: int = 100
    repeats: int = 200_000  # Holdouts per cell
    seed: int = 2025


# --- Rows ------------------------------------------------------------------------------------


def moments(link: Link, cosine: float) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of one summand of each sum, U·y and U·(y − E y).

    Both have the mean cos θ·E σ′(Z); the standard deviations follow from
    E H² = E U²(y − b)² = E U²(F(1 − 2b) + b²) with b = 0 or b = E y.
    """
    weight, probability = NORMAL_WEIGHTS, _probability(link, cosine)
    mean = cosine * float(link.smooth_derivative(0.0, 1.0))
    prevalence = float(weight @ probability)

    def sd(base: float) -> float:
        square = QUADRATURE**2 * (probability * (1.0 - 2.0 * base) + base**2)
        return float(np.sqrt(weight @ square - mean**2))

    return {"paper": (mean, sd(0.0)), "centered": (mean, sd(prevalence))}


def _probability(link: Link, cosine: float) -> Floats:
    """P(y = 1 | U) at the nodes."""
    return link.smooth(cosine * QUADRATURE, np.sqrt(1.0 - cosine**2))


def chernoff_exponent(link: Link, cosine: float) -> float:
    """max_t −log E exp(−tH) with H = U·y, so that P(Σ H ≤ 0) ≤ exp(−n_ho·exponent).

    E exp(−tH) = 1 + E F(U)(e^(−tU) − 1) is convex in t. Every t ≥ 0 gives a valid bound, so
    stopping at `STEEPEST_TILT` could only weaken it.
    """
    weight = NORMAL_WEIGHTS * _probability(link, cosine)

    def log_moment(t: float) -> float:
        return float(np.log1p(weight @ np.expm1(-t * QUADRATURE)))

    best = minimize_scalar(
        log_moment, bounds=(0.0, STEEPEST_TILT), method="bounded", options={"xatol": 1e-9}
    )
    return -float(best.fun)


def count_errors(
    link: Link, cosine: float, size: int, repeats: int, rng: np.random.Generator
) -> dict[str, int]:
    """How many of the holdouts give a sum that is not positive, for cos θ > 0.

    A sum of zero, as from a holdout of one class only, identifies no sign: it counts as an error.
    """
    errors = dict.fromkeys(SUMS, 0)
    sine = np.sqrt(1.0 - cosine**2)
    chunk = max(1, DRAWN_SUMMANDS // size)
    for start in range(0, repeats, chunk):
        shape = (min(chunk, repeats - start), size)
        score = rng.standard_normal(shape)
        signal = rng.standard_normal(shape)
        signal *= sine
        signal += cosine * score
        positive = rng.random(shape) < link(signal)
        plain = np.einsum("ij,ij->i", score, positive)
        centered = plain - positive.mean(axis=1) * score.sum(axis=1)
        # Rounding must not give a sign to a holdout of one class.
        centered[positive.all(axis=1) | ~positive.any(axis=1)] = 0.0
        errors["paper"] += int(np.count_nonzero(plain <= 0.0))
        errors["centered"] += int(np.count_nonzero(centered <= 0.0))
    return errors


def trials(settings: SignSettings) -> list[Trial]:
    """Every cell, and the typical one for each link."""
    cells = [(cosine, size) for cosine in settings.cosines for size in settings.sizes]
    cells.append((settings.typical_cosine, settings.typical_size))
    return [
        {"link": link, "cosine": cosine, "size": size}
        for link in SIGN_LINKS
        for cosine, size in cells
    ]


def run_trial(settings: SignSettings, trial: Trial) -> Tables:
    """Simulate the holdouts of one cell."""
    name, cosine, size = trial["link"], trial["cosine"], trial["size"]
    link = SIGN_LINKS[name]
    rng = trial_generator(settings.seed, NAME, name, cosine, size)
    errors = count_errors(link, cosine, size, settings.repeats, rng)
    rows: list[Row] = []
    for kind, (mean, sd) in moments(link, cosine).items():
        rows.append(
            {
                "link": name,
                "cosine": cosine,
                "size": size,
                "sum": kind,
                "errors": errors[kind],
                "repeats": settings.repeats,
                "mean": mean,
                "sd": sd,
            }
        )
    return {"": rows}


SIGN_EXPERIMENT = Experiment(
    name=NAME,
    full=SignSettings(),
    quick=SignSettings(cosines=(0.2, 0.5), sizes=(5, 16, 53, 171), typical_size=100, repeats=4000),
    tables={"": ("link", "cosine", "size", "sum", "errors", "repeats", "mean", "sd")},
    trials=trials,
    run=run_trial,
)


# --- What follows from the rows --------------------------------------------------------------


def measured(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the error rate, its binomial s.e., x = n_ho·mean² and Φ(−√n_ho·mean/sd)."""
    rate = frame["errors"] / frame["repeats"]
    return frame.assign(
        rate=rate,
        se=np.sqrt(rate * (1.0 - rate) / frame["repeats"]),
        x=frame["size"] * frame["mean"] ** 2,
        gaussian=ndtr(-np.sqrt(frame["size"]) * frame["mean"] / frame["sd"]),
    )


def proven_constant(cells: pd.DataFrame) -> float:
    """κ = min of chernoff_exponent/(cos θ·E σ′(Z))² over the links and cosines of the cells."""
    pairs = cells[["link", "cosine"]].drop_duplicates()
    return min(
        chernoff_exponent(SIGN_LINKS[link], cosine)
        / moments(SIGN_LINKS[link], cosine)["paper"][0] ** 2
        for link, cosine in zip(pairs["link"], pairs["cosine"], strict=True)
    )


def above_bound(cells: pd.DataFrame, constant: float) -> pd.DataFrame:
    """The cells whose error rate exceeds 2 exp(−κx) by the lower end of its 95 % interval."""
    low, _ = exact_interval(cells["errors"], cells["repeats"])
    return cells[low > 2.0 * np.exp(-constant * cells["x"])]


def largest_constant(cells: pd.DataFrame) -> float:
    """max κ with rate ≤ 2 exp(−κx) in every cell: min of log(2/rate)/x where errors were seen."""
    seen = cells[cells["errors"] > 0]
    return float((np.log(2.0 / seen["rate"]) / seen["x"]).min())


def cosine_for(error: float, size: int, link: Link) -> float:
    """The cos θ at which Φ(−√n_ho·mean/sd) of the paper's sum is a given error."""

    def beyond(cosine: float) -> float:
        mean, sd = moments(link, cosine)["paper"]
        return float(np.sqrt(size) * mean / sd + ndtri(error))

    return float(brentq(beyond, 1e-3, 1.0))


def rows_saved(cells: pd.DataFrame) -> pd.Series:
    """How many times fewer rows the centered sum needs: (sd/sd')², one value per link and cos θ."""
    sd = cells.pivot_table(index=["link", "cosine"], columns="sum", values="sd")
    return (sd["paper"] / sd["centered"]) ** 2


# --- Summary ---------------------------------------------------------------------------------


def _percent(row: Any) -> str:
    return f"{100 * row['rate']:.3g} % ± {100 * row['se']:.1g} %"


def summarize(frames: Frames, settings: SignSettings) -> str:
    """The bound's constant, the paper's own cell, and what centering gains."""
    cells = measured(frames[""])
    paper = cells[cells["sum"] == "paper"]
    typical = _typical(cells, settings)
    own = typical.loc["paper"]
    constant = proven_constant(paper)
    above = len(above_bound(paper, constant))
    rows = [
        (
            "P(wrong sign) ≤ 2 exp(−κ·n_ho(cos θ·E σ′(Z))²)",
            "some κ > 0, not given",
            f"{len(paper) - above} of {len(paper)} cells are below it with κ = {constant:.3f}",
            yes_or_no(above == 0),
        ),
        (
            f"error at n_ho = {settings.typical_size}, cos θ = {settings.typical_cosine:g}, "
            f"{own['link']}",
            f"{100 * PRINTED_ERROR:.2f} % over fits of differing cosine",
            _percent(own),
            _agreement(own),
        ),
        ("the same by the centered sum", NOTHING, _percent(typical.loc["centered"]), NOTHING),
    ]
    about = (
        _about_the_constant(paper, settings),
        _about_the_printed_error(settings),
        _about_centering(cells),
    )
    return "\n\n".join((markdown(HEADER, rows), *about)) + "\n"


def _typical(cells: pd.DataFrame, settings: SignSettings) -> pd.DataFrame:
    """The paper's own cell, one row per sum."""
    chosen = (
        (cells["cosine"] == settings.typical_cosine)
        & (cells["size"] == settings.typical_size)
        & (cells["link"] == next(iter(SIGN_LINKS)))
    )
    return cells[chosen].set_index("sum")


def _agreement(row: Any) -> str:
    """Whether the printed error is within two combined standard errors."""
    printed_se = np.sqrt(PRINTED_ERROR * (1.0 - PRINTED_ERROR) / PRINTED_TRIALS)
    if abs(row["rate"] - PRINTED_ERROR) <= 2.0 * np.hypot(row["se"], printed_se):
        return "yes, within 2 s.e."
    return "no, it is higher" if row["rate"] > PRINTED_ERROR else "no, it is lower"


def _about_the_constant(paper: pd.DataFrame, settings: SignSettings) -> str:
    seen = paper[paper["errors"] > 0]
    tightest = seen.loc[(np.log(2.0 / seen["rate"]) / seen["x"]).idxmin()]
    return (
        f"Each cell is {settings.repeats:,} holdouts; standard errors are binomial. The "
        "proposition leaves κ open; the one given is what Chernoff's bound proves for these links "
        "and cosines, the least of max_t −log E exp(−tH)/(cos θ·E σ′(Z))² with H = ŵᵀx·y/‖ŵ‖_Σ. "
        "A cell counts as above the bound if the lower end of its exact 95 % interval is. The "
        f"cells alone would allow κ up to {largest_constant(paper):.3f}, set by "
        f"{tightest['link']}, cos θ = {tightest['cosine']:g}, n_ho = {tightest['size']}, with "
        f"{tightest['errors']} errors; {len(paper) - len(seen)} cells never erred. The Gaussian "
        "approximation Φ(−√n_ho·mean/sd) is off by at most "
        f"{100 * float((paper['rate'] - paper['gaussian']).abs().max()):.1f} percentage points."
    )


def _about_the_printed_error(settings: SignSettings) -> str:
    needed = cosine_for(PRINTED_ERROR, settings.typical_size, next(iter(SIGN_LINKS.values())))
    side = "above" if needed > settings.typical_cosine else "below"
    return (
        f"By the Gaussian approximation {100 * PRINTED_ERROR:.2f} % is the error at the one cosine "
        f"{needed:.3f}, {side} the typical {settings.typical_cosine:g}. The paper averages over "
        "fits of differing cosine, which raises the error, as it is convex in the cosine there."
    )


def _about_centering(cells: pd.DataFrame) -> str:
    gains = rows_saved(cells)
    return (
        "Centered labels, Σ ŵᵀx_i(y_i − ȳ), keep the mean and change the spread: the same error "
        f"takes {gains.min():.1f} to {gains.max():.1f} times fewer rows in the limit."
    )


# --- Picture ---------------------------------------------------------------------------------


def draw(frames: Frames, settings: SignSettings) -> Figure:
    """Measured errors against n_ho(cos θ·E σ′(Z))², one panel per link."""
    cells = measured(frames[""])
    constant = proven_constant(cells)
    farthest = float(cells.loc[cells["errors"] > 0, "x"].max()) * 1.1
    figure = new_figure(FULL_WIDTH, 3.8)
    axes = figure.subplots(1, len(SIGN_LINKS), sharex=True, sharey=True)
    for ax, link in zip(axes, SIGN_LINKS, strict=True):
        _draw_lines(ax, cells[cells["link"] == link], constant, farthest)
        _draw_cells(ax, cells[cells["link"] == link])
        # Equal steps of the square root: the cells with few rows would be a heap otherwise.
        ax.set_xscale("function", functions=(_root, np.square))
        ax.set(xlim=(0.0, farthest), ylim=(0.5 / settings.repeats, 3.0), yscale="log")
        ax.set_xticks([x for x in (0, 0.1, 0.5, 1, 2, 4, 6, 8, 10, 12, 15, 20) if x < farthest])
        ax.set_xticklabels([f"{x:g}" for x in ax.get_xticks()])
        ax.set(xlabel=X_LABEL, title=f"link {link}")
    axes[0].set_ylabel("Probability of the wrong sign")
    letter(axes)
    legend_below(figure, axes[0], 3)
    return figure


def _root(x: Any) -> Any:
    # Matplotlib asks for slightly negative values when it pads the axis.
    return np.sqrt(np.maximum(x, 0.0))


def _draw_cells(ax: Axes, cells: pd.DataFrame) -> None:
    """Filled markers for the paper's sum, hollow ones for the centered, a shape per cosine."""
    seen = cells[cells["errors"] > 0]
    for (cosine, group), (color, marker, _) in zip(seen.groupby("cosine"), STYLES, strict=False):
        for kind in SUMS:
            part = group[group["sum"] == kind]
            low, high = exact_interval(part["errors"], part["repeats"])
            ax.errorbar(
                part["x"],
                part["rate"],
                yerr=(part["rate"] - low, high - part["rate"]),
                color=color,
                marker=marker,
                ms=4.5,
                mfc=color if kind == "paper" else "white",
                ls="none",
                elinewidth=0.8,
                label=f"cos θ = {cosine:g}" if kind == "paper" else None,
            )


def _draw_lines(ax: Axes, cells: pd.DataFrame, constant: float, farthest: float) -> None:
    x = np.linspace(0.0, np.sqrt(farthest), 400) ** 2
    ax.plot(x, 2.0 * np.exp(-constant * x), color="black", label=f"bound with κ = {constant:.2f}")
    for kind, dash, name in (
        ("paper", "-", "Gaussian: paper's sum (filled)"),
        ("centered", (0, (4, 2)), "Gaussian: centered sum (hollow)"),
    ):
        sd = float(cells.loc[cells["sum"] == kind, "sd"].median())
        ax.plot(x, ndtr(-np.sqrt(x) / sd), color="0.4", lw=0.9, ls=dash, label=name, zorder=1)
