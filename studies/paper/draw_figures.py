"""Tables and pictures of the paper's printed numbers, from the rows of `studies.paper.draws`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from angcal.displays import STYLES
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, letter, new_figure
from studies.engine.tables import (
    HEADER,
    Columns,
    exact_interval,
    markdown,
    mean_text,
    rmse_text,
    table_of,
    yes_or_no,
)
from studies.paper.draws import Settings
from studies.paper.setting import PROBIT_UNIT

# What the paper prints (its section "Simulations").
PAPER_INNER, PAPER_INNER_ESTIMATE = 0.4526, 0.4356
PAPER_A, PAPER_B, PAPER_A_LIMIT, PAPER_B_LIMIT = 0.3396, -0.1521, 0.2991, -0.1597
PAPER_SIGN_ERROR, PAPER_SIGN_TRIALS = 0.0089, 5000

ESTIMATORS = {
    "inner_paper": "paper's formula, γ̂ = df/(n v̂)",
    "inner_observable": "observable angle",
    "inner_loo": "leave-one-out angle",
    "inner_auto": "both, weighed",
}
STAR = STYLES[1][0]
PRINTED_MARK = {"marker": "*", "ms": 12, "ls": "none", "color": STAR, "mec": "black"}
# A printed value is taken for a draw of the distribution unless it lies this far out in it.
FAR_OUT = 0.01


def tail_share(sample: Any, value: float) -> float:
    """Share of the sample at least as far from its median as the value, on the value's side."""
    values = np.asarray(sample, dtype=float)
    return float(min((values <= value).mean(), (values >= value).mean()))


def where(sample: Any, value: float) -> str:
    """Where a printed value falls in a sample, in words."""
    below = float((np.asarray(sample, dtype=float) <= value).mean())
    return f"{below:.1%} of draws are below"


def bins_for(n_draws: int) -> int:
    """Bins of a histogram: fewer for few draws."""
    return int(np.clip(np.sqrt(n_draws), 8, 40))


def of_draws(settings: Settings) -> str:
    """The sentences that say what was averaged and how a printed value is judged."""
    return (
        f"{settings.draws} training sets of n = {settings.n}, d = {settings.d}; "
        f"seed {settings.seed}. A printed value holds if more than {FAR_OUT:.0%} of the draws lie "
        "as far out on its side."
    )


# -- the inner product -------------------------------------------------------------------------


def summarize_inner(frames: Frames, settings: Settings) -> str:
    """⟨w*, ŵ⟩_Σ: the true one, the estimates, and where the paper's pair of values falls."""
    draws = frames[""]
    gap = PAPER_INNER_ESTIMATE - PAPER_INNER
    errors = draws.inner_paper - draws.inner
    fits = tail_share(draws.inner, PAPER_INNER) > FAR_OUT
    rows = [
        (
            "true ⟨w*, ŵ⟩_Σ",
            f"{PAPER_INNER}",
            f"{mean_text(draws.inner)}, sd {draws.inner.std():.4f}; "
            f"{where(draws.inner, PAPER_INNER)} {PAPER_INNER}",
            yes_or_no(fits),
        ),
        (
            "error of its estimate (paper's formula, γ̂ = df/(n v̂))",
            f"{gap:.4f}",
            f"bias {mean_text(errors)}, "
            f"RMSE {rmse_text(errors)}; "
            f"{(errors.abs() <= abs(gap)).mean():.0%} of draws err by less than {abs(gap):.4f}",
            yes_or_no(tail_share(errors, gap) > FAR_OUT),
        ),
        (
            "the same with γ̂ as printed, Tr(XĤXᵀD)",
            "—",
            f"estimates from {draws.inner_printed_gamma.min():.1f} to "
            f"{draws.inner_printed_gamma.max():.1f}",
            "no: not an estimate of a number below 1"
            if draws.inner_printed_gamma.min() > 1.0
            else "yes",
        ),
    ]
    table = markdown(HEADER, rows)
    return f"{table}\n\n{_table_of_estimators(draws)}\n\n{of_draws(settings)}"


def _table_of_estimators(draws: pd.DataFrame) -> str:
    errors = {column: (draws[column] - draws.inner).dropna() for column in ESTIMATORS}
    columns: Columns = {
        "estimator": ESTIMATORS.__getitem__,
        "bias": lambda column: mean_text(errors[column]),
        "RMSE": lambda column: rmse_text(errors[column]),
        "RMSE of the cosine": lambda column: rmse_text((errors[column] / draws.norm).dropna()),
        "draws without an estimate": lambda column: str(int(draws[column].isna().sum())),
    }
    return table_of(ESTIMATORS, columns)


def draw_inner(frames: Frames, settings: Settings) -> Any:
    """Left: estimates against truth with the paper's pair; right: errors by estimator."""
    draws = frames[""]
    figure = new_figure(FULL_WIDTH, 3.2)
    left, right = figure.subplots(1, 2)
    left.plot(draws.inner, draws.inner_paper, ".", color="0.6", ms=2, rasterized=True, zorder=1)
    ends = [
        draws[["inner", "inner_paper"]].min().min(),
        draws[["inner", "inner_paper"]].max().max(),
    ]
    left.plot(ends, ends, color="black", lw=0.8, zorder=2)
    left.plot(
        PAPER_INNER, PAPER_INNER_ESTIMATE, **PRINTED_MARK, label="printed in the paper", zorder=3
    )
    left.set(xlabel="true ⟨w*, ŵ⟩", ylabel="estimated (paper's formula, γ̂ corrected)")
    low, high = left.get_ylim()
    left.set_ylim(low, high + 0.12 * (high - low))
    left.legend(loc="upper left", frameon=False)
    _errors(right, draws)
    letter((left, right))
    return figure


def _errors(ax: Any, draws: pd.DataFrame) -> None:
    spans = [(draws[column] - draws.inner).dropna() for column in ESTIMATORS]
    low, high = np.quantile(np.concatenate(spans), [0.001, 0.999])
    edges = np.linspace(float(low), float(high), bins_for(len(draws)) + 1)
    for (name, errors), (color, _, dash) in zip(
        zip(ESTIMATORS.values(), spans, strict=True),
        (STYLES[1], STYLES[0], STYLES[2], STYLES[6]),
        strict=True,
    ):
        label = f"{name}: RMSE {np.sqrt((errors**2).mean()):.4f}"
        density, _ = np.histogram(errors, edges, density=True)
        ax.stairs(density, edges, color=color, ls=dash, label=label)
    gap = PAPER_INNER_ESTIMATE - PAPER_INNER
    top = ax.get_ylim()[1]
    ax.vlines(0.0, 0.0, top, color="0.5", lw=0.8)
    ax.plot(gap, 0.03 * top, **PRINTED_MARK)
    ax.set(xlabel="estimate − truth", ylabel="density", ylim=(0.0, 1.45 * top))
    ax.legend(loc="upper left", frameon=False)


# -- Platt's coefficients ----------------------------------------------------------------------


def implied_by_limit(a_limit: float, b_limit: float) -> tuple[float, float, float]:
    """(c, ‖ŵ‖_Σ, ⟨w*, ŵ⟩_Σ) that a printed (A*, B*) presupposes, by inverting its definition."""
    slope, offset = 3.0 * PROBIT_UNIT, PROBIT_UNIT
    shrink = 1.0 + b_limit * slope / offset
    sine_square = (1.0 / shrink**2 - 1.0) / slope**2
    cosine = float(np.sqrt(1.0 - sine_square))
    norm = cosine * shrink / a_limit
    return cosine, norm, cosine * norm


def summarize_platt(frames: Frames, settings: Settings) -> str:
    """Â, B̂ against A*, B*, and whether the printed ones can be of one draw."""
    draws = frames[""]
    labels = f"at {settings.platt_labels} labels"
    rows = [
        _printed_row(name, sample, printed)
        for name, sample, printed in (
            (f"Â {labels}", draws.platt_a, PAPER_A),
            (f"B̂ {labels}", draws.platt_b, PAPER_B),
            ("A*", draws.limit_a, PAPER_A_LIMIT),
            ("B*", draws.limit_b, PAPER_B_LIMIT),
            ("Â − A*", draws.platt_a - draws.limit_a, round(PAPER_A - PAPER_A_LIMIT, 4)),
            ("B̂ − B*", draws.platt_b - draws.limit_b, round(PAPER_B - PAPER_B_LIMIT, 4)),
        )
    ]
    cosine, norm, inner = implied_by_limit(PAPER_A_LIMIT, PAPER_B_LIMIT)
    probit = draws.best_a - draws.limit_a
    text = (
        f"The printed A* and B* presuppose c = {cosine:.4f}, ‖ŵ‖ = {norm:.4f} and so "
        f"⟨w*, ŵ⟩ = {inner:.4f}; the paper prints {PAPER_INNER} for that, so the numbers are not "
        f"of one draw. The limit for the sigmoid link itself, without the probit approximation, "
        f"exceeds A* by {mean_text(probit, 5)}: the approximation "
        "explains "
        f"{probit.mean() / (PAPER_A - PAPER_A_LIMIT):.0%} of the printed difference Â − A*."
    )
    return f"{markdown(HEADER, rows)}\n\n{text}\n\n{of_draws(settings)}"


def _printed_row(name: str, sample: pd.Series, printed: float) -> tuple[str, str, str, str]:
    return (
        name,
        f"{printed:.4f}",
        f"{mean_text(sample)}, sd {sample.std():.4f}; {where(sample, printed)} {printed:.4f}",
        yes_or_no(tail_share(sample, printed) > FAR_OUT),
    )


def draw_platt(frames: Frames, settings: Settings) -> Any:
    """Left: fitted (A, B) and their limits over draws; right: the distribution of Â − A*."""
    draws = frames[""]
    figure = new_figure(FULL_WIDTH, 3.2)
    left, right = figure.subplots(1, 2)
    style: dict[str, Any] = {"markersize": 2, "linestyle": "none", "rasterized": True}
    left.plot(draws.platt_a, draws.platt_b, marker="o", color="0.65", label="(Â, B̂)", **style)
    left.plot(
        draws.limit_a, draws.limit_b, marker="s", color=STYLES[0][0], label="(A*, B*)", **style
    )
    for x, y, marker, name in (
        (PAPER_A, PAPER_B, "*", "printed (Â, B̂)"),
        (PAPER_A_LIMIT, PAPER_B_LIMIT, "X", "printed (A*, B*)"),
    ):
        left.plot(x, y, marker, color=STYLES[1][0], ms=11, mec="black", label=name)
    low, high = left.get_ylim()
    left.set(xlabel="slope A", ylabel="offset B", ylim=(low, high + 0.45 * (high - low)))
    left.legend(loc="upper left", frameon=False, ncols=2, markerscale=1.0)
    difference = draws.platt_a - draws.limit_a
    right.hist(
        difference, bins=bins_for(len(draws)), color="0.8", edgecolor="0.45", lw=0.4, density=True
    )
    top = right.get_ylim()[1]
    right.vlines(
        (draws.best_a - draws.limit_a).mean(),
        0.0,
        top,
        color="black",
        ls="--",
        lw=1,
        label="mean effect of the probit approximation",
    )
    right.plot(PAPER_A - PAPER_A_LIMIT, 0.03 * top, **PRINTED_MARK, label="printed in the paper")
    right.set(xlabel="Â − A*", ylabel="density", ylim=(0.0, 1.3 * top))
    right.legend(loc="upper right", frameon=False)
    letter((left, right))
    return figure


# -- the sign ----------------------------------------------------------------------------------


def sign_errors(frames: Frames) -> dict[str, int]:
    """Number of wrong signs by holdout and by the training rows."""
    draws = frames[""]
    return {name: int((draws[f"sign_{name}"] == 0).sum()) for name in ("holdout", "training")}


def summarize_sign(frames: Frames, settings: Settings) -> str:
    """Share of wrong signs, beside the paper's 0.89 %."""
    total, wrong = len(frames[""]), sign_errors(frames)
    share = wrong["holdout"] / total
    error = np.sqrt(max(share * (1 - share), 1e-12) / total)
    spread = np.hypot(error, np.sqrt(PAPER_SIGN_ERROR * (1 - PAPER_SIGN_ERROR) / PAPER_SIGN_TRIALS))
    rows = []
    for name, title, paper in (
        (
            "holdout",
            f"wrong sign, {settings.sign_labels} holdout labels",
            f"{PAPER_SIGN_ERROR:.2%} of {PAPER_SIGN_TRIALS}",
        ),
        ("training", "wrong sign, training rows alone", "—"),
    ):
        low, high = exact_interval(wrong[name], total)
        verdict = yes_or_no(abs(share - PAPER_SIGN_ERROR) <= 2.0 * spread) if paper != "—" else ""
        rows.append(
            (
                title,
                paper,
                f"{wrong[name]} of {total}: {100 * wrong[name] / total:.2f} % "
                f"(95 % interval {100 * low:.2f} to {100 * high:.2f} %)",
                verdict,
            )
        )
    text = (
        f"{total} training sets of n = {settings.n}, d = {settings.d}; seed {settings.seed}. The "
        "printed share holds if it is within two standard errors of the difference. It is no "
        f"count out of {PAPER_SIGN_TRIALS} ({PAPER_SIGN_ERROR * PAPER_SIGN_TRIALS:g}). "
        f"The true cosine is positive in {int((frames[''].cosine > 0).sum())} of {total} draws."
    )
    return f"{markdown(HEADER, rows)}\n\n{text}"


def draw_sign(frames: Frames, settings: Settings) -> Any:
    """Shares of wrong signs with exact intervals, the paper's beside them."""
    total, wrong = len(frames[""]), sign_errors(frames)
    bars = [
        (
            f"{settings.sign_labels} holdout labels,\nas printed in the paper",
            PAPER_SIGN_ERROR * PAPER_SIGN_TRIALS,
            PAPER_SIGN_TRIALS,
            STYLES[1],
        ),
        (f"{settings.sign_labels} holdout labels,\nhere", wrong["holdout"], total, STYLES[0]),
        ("training rows alone,\nno holdout", wrong["training"], total, STYLES[2]),
    ]
    figure = new_figure(0.65 * FULL_WIDTH, 1.9)
    ax = figure.subplots()
    for height, (_, count, size, (color, marker, _)) in enumerate(bars):
        low, high = exact_interval(count, size)
        share = count / size
        ax.errorbar(
            100 * share,
            height,
            xerr=[[100 * (share - low)], [100 * (high - share)]],
            color=color,
            marker=marker,
            capsize=3,
        )
    ax.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    ax.set(ylim=(len(bars) - 0.5, -0.5), xlabel="wrong signs, per cent (95 % interval)")
    ax.set_xlim(left=-0.03 * ax.get_xlim()[1])
    ax.grid(axis="x", color="0.9")
    return figure
