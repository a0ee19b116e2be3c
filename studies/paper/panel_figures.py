"""Pictures and summaries of `panels`: Platt's convergence, reliability plots, universality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binom

from angcal._typing import Floats
from angcal.displays import STYLES
from studies.engine.experiment import Frames
from studies.engine.figures import FULL_WIDTH, LOOKS, TICKS, letter, new_figure
from studies.engine.tables import (
    HEADER,
    NOTHING,
    chosen,
    markdown,
    mean_and_error,
    mean_text,
    spelled,
    verdict,
    with_error,
    yes_or_no,
)
from studies.paper.panels import (
    FEW,
    FIRST_OF_RATE,
    MANY,
    Curve,
    PanelSettings,
    angle_distances,
    angular_curve,
    distances,
    expected_ece,
    fitted_rate,
    platt_link,
)
from studies.paper.setting import PAPER_LINKS

CONFIDENCE = 0.95
SPARSE = 20
"""Bins with fewer rows are drawn hollow and without a band, which would span half the plot."""
LINK_TEXT = {"sigmoid": "sigmoid(3t + 1)", "probit": "probit", "clipped": "clip(3t + 0.5)"}
LINK_LOOKS = {"sigmoid": STYLES[0], "probit": STYLES[1]}
# The looks of the two Platt predictors in the reliability plots, and others for other sizes.
SPARE_LOOKS = (STYLES[4], ("#8C510A", "<", (0, (3, 1))))
METHODS = (
    *("uncalibrated", "angular, observable", "angular, leave-one-out", "angular, both"),
    *("angular, true angle", f"Platt {FEW}", f"Platt {MANY}"),
)


# -- summaries -------------------------------------------------------------------------------


def summarize_convergence(frames: Frames, settings: PanelSettings) -> str:
    """What the theorem says of the distance, for the link it is about and for the paper's link."""
    probit, sigmoid = distances(frames, "probit"), distances(frames, "sigmoid")
    observable = distances(frames, "sigmoid", "sup_observable")
    most, limit = max(settings.holdout_sizes), mean_and_error(sigmoid[np.inf])
    slope, _, error = fitted_rate(probit, settings.seed)
    sup, again = "sup_u |Platt − angular|", "the same, infinitely many labels"
    to_estimated = f"sigmoid link: distance to angular with estimated angle, {most:,} labels"
    closed = yes_or_no(probit[np.inf].max() < 1e-6)
    rows = [
        (f"probit link: {sup}, {most:,} labels", "→ 0", mean_text(probit[most]), NOTHING),
        (again, "0", f"{probit[np.inf].max():.1e} at most", closed),
        (
            f"probit link: slope of log distance over log n_ho, n_ho ≥ {FIRST_OF_RATE:,}",
            "−1/2 (implied)",
            with_error(slope, error, 3),
            yes_or_no(abs(slope + 0.5) <= 2.0 * error),
        ),
        (f"sigmoid link: {sup}, {most:,} labels", "→ 0", mean_text(sigmoid[most]), NOTHING),
        (again, "0 (“converge”)", mean_text(sigmoid[np.inf]), verdict(*limit, 0.0, below=True)),
        (to_estimated, "shown, no number", mean_text(observable[most]), NOTHING),
    ]
    mean_limit = distances(frames, "sigmoid", "mean_distance")[np.inf].mean()
    return (
        f"{markdown(HEADER, rows)}\n\nMeans over {len(probit)} draws per link. The slope's "
        "standard error comes from resampling draws; −1/2 holds if it is within two of them.\n\n"
        "The theorem is for probit links. For the sigmoid link F is not in Platt's family: more "
        f"labels bring the distance to {limit[0]:.4f}, not to 0. Averaged over the law of the "
        f"scores that limit is {mean_limit:.4f} from F. To the angular predictor with the "
        "estimated angle, which the paper draws, the distance tends to "
        f"{observable[np.inf].mean():.4f} on average. {_about_the_angle(frames)}\n"
    )


def _about_the_angle(frames: Frames) -> str:
    """The two causes of the distance to the estimated angle's curve, each by itself."""
    angle, family = angle_distances(frames, "sigmoid"), distances(frames, "sigmoid")[np.inf]
    gap, error = mean_and_error(angle - family)
    clear = abs(gap) > 2.0 * error
    larger = ("larger" if gap > 0.0 else "smaller") if clear else "neither larger nor smaller"
    return (
        "It has two causes, whose suprema do not add up: the angle's error alone makes "
        f"sup_u |F_ĉ − F_c| {mean_text(angle)}, Platt's family alone makes {mean_text(family)}; "
        f"the former is {larger}, judged by two standard errors of the difference within draws."
    )


def _claims(frames: Frames, settings: PanelSettings, link: str) -> list[tuple[str, str, str, str]]:
    """One row per method: its ECE on test rows, E|p − F|, and what the paper says of it."""
    said = {
        "uncalibrated": ("poorly calibrated", False),
        "angular, observable": ("good calibration", True),
        f"Platt {FEW}": ("fails to calibrate", False),
        f"Platt {MANY}": ("calibrates correctly", True),
    }
    scores, rows = chosen(frames["scores"], link=link), []
    for method in METHODS:
        ece, exact = (chosen(scores, method=method)[k] for k in ("ece", "mean_distance"))
        claim, below = said.get(method, (NOTHING, True))
        holds = verdict(*mean_and_error(exact), settings.half_bin, below=below)
        quantity = f"{LINK_TEXT[link]}, {spelled(method)}: ECE; E|p − F|"
        measured = f"{mean_text(ece)}; {mean_text(exact)}"
        rows.append((quantity, claim, measured, holds if method in said else NOTHING))
    return rows


def _rule(frames: Frames, settings: PanelSettings, *links: str) -> str:
    exact = chosen(frames["bins"], method="angular, true angle")
    bins = [chosen(exact, link=link) for link in links]
    floors = [f"{expected_ece(part['mean_predicted'], part['count']):.4f}" for part in bins]
    draws = frames["scores"]["draw"].nunique()
    return (
        f"Means over {draws} draws; ECE with {settings.n_bins} equal bins on {settings.n_test:,} "
        f"test rows. A calibrated predictor would read an ECE of {' and '.join(floors)} there, by "
        "sampling noise alone. E|p − F| is the calibration error in the population. The rule: "
        f"calibrated is E|p − F| below half a bin ({settings.half_bin:.3f}), poorly calibrated "
        "is above, each by two standard errors."
    )


def _refit(frames: Frames, settings: PanelSettings, link: str) -> str:
    """What is wrong with the uncalibrated log-odds u, from the fit logit P = A·u + B."""
    most = max(settings.holdout_sizes)
    platt = chosen(frames["platt"], link=link, n_ho=most)
    slope, intercept = mean_and_error(platt["slope"]), mean_and_error(platt["intercept"])
    fault = "under" if slope[0] > 1.0 else "over"
    fault = "right in slope to a tenth" if abs(slope[0] - 1.0) < 0.1 else f"{fault}confident"
    shifted = "but off by the missing" if abs(intercept[0]) > 0.1 else "and needs hardly any"
    return (
        f"{LINK_TEXT[link]}: log-odds refit on {most:,} labels are "
        f"({with_error(*slope, 3)})·u + ({with_error(*intercept, 3)}), so the "
        f"uncalibrated predictor is {fault}, {shifted} intercept."
    )


def summarize_reliability(frames: Frames, settings: PanelSettings) -> str:
    """What the paper says of each predictor in its reliability plots, over many draws."""
    return (
        f"{markdown(HEADER, _claims(frames, settings, 'sigmoid'))}\n\n"
        f"{_rule(frames, settings, 'sigmoid')}\n\n"
        f"{_refit(frames, settings, 'sigmoid')}\n\n"
        f"The paper's caption gives the larger holdout set as 2,000, its text as 20,000; "
        f"{MANY:,} is used here. The picture shows the first draw.\n"
    )


def summarize_universality(frames: Frames, settings: PanelSettings) -> str:
    """The same claims for rows with independent non-Gaussian entries."""
    rows = [row for link in settings.links for row in _claims(frames, settings, link)]
    most, notes = max(settings.holdout_sizes), []
    for link in settings.links:
        wide = distances(frames, link)
        error = chosen(frames["curve"], link=link).eval("cosine_observable - cosine")
        notes.append(
            f"{_refit(frames, settings, link)} Platt on {most:,} labels is "
            f"{mean_text(wide[most])} from the angular predictor at most, with a limit of "
            f"{mean_text(wide[np.inf])}; the observable angle's cosine errs by {mean_text(error)} "
            f"(root mean square {np.sqrt(np.mean(error**2)):.4f})."
        )
    return (
        f"{markdown(HEADER, rows)}\n\n{_rule(frames, settings, *settings.links)} For these rows F "
        "is the limit as d grows, so the ECE with the true angle, beside what a calibrated "
        "predictor would read, is the check of universality.\n\n"
        + "\n\n".join(notes)
        + "\n\nThe picture "
        f"shows the first draw of each link; shades are {CONFIDENCE:.0%} consistency bands, hollow "
        f"markers bins of fewer than {SPARSE} rows.\n"
    )


# -- drawings --------------------------------------------------------------------------------


def _shown_sizes(settings: PanelSettings) -> dict[int, tuple[str, str, Any]]:
    """Four holdout sizes from the smallest to the largest, with their looks."""
    sizes = sorted(settings.holdout_sizes)
    places = np.linspace(0, len(sizes) - 1, 4).round().astype(int)
    spare = iter(SPARE_LOOKS)
    return {sizes[k]: LOOKS.get(f"Platt {sizes[k]}") or next(spare) for k in places}


def _curves(
    frames: Frames, settings: PanelSettings, link: str
) -> tuple[Floats, dict[str, Curve], dict[int, Curve]]:
    """Scores, angular curves by name and Platt curves by holdout size, of the first draw."""
    found = chosen(frames["curve"], link=link, draw=0).iloc[0]
    u = found["norm"] * np.linspace(-4.0, 4.0, 401)
    columns = {"angular, observable": "cosine_observable", "angular, true angle": "cosine"}
    angular = {
        name: angular_curve(PAPER_LINKS[link], found[column], found["norm"])
        for name, column in columns.items()
    }
    platt = chosen(frames["platt"], link=link, draw=0).set_index("n_ho")
    family = platt_link(link)

    def curve(size: int) -> Curve:
        a, b = platt.loc[size, "slope"], platt.loc[size, "intercept"]
        return lambda scores: family(a * scores + b)

    return u, angular, {size: curve(size) for size in _shown_sizes(settings)}


def draw_curves(
    ax: Any, frames: Frames, settings: PanelSettings, link: str, *, differences: bool = False
) -> None:
    """Platt's curves for growing holdout sizes over the angular predictor; or less the true F."""
    u, angular, platt = _curves(frames, settings, link)
    looks = _shown_sizes(settings)
    truth = angular.pop("angular, true angle")(u)
    baseline = truth if differences else 0.0
    named = [(name, LOOKS[name], curve) for name, curve in angular.items()]
    named += [(spelled(f"Platt {size}"), looks[size], curve) for size, curve in platt.items()]
    ax.plot(u, truth - baseline, "k", lw=0.9, label="angular, true angle", zorder=3)
    for place, (name, (color, marker, dash), curve) in enumerate(named):
        # Markers at other scores for each curve, so that none hides another.
        ax.plot(
            *(u, curve(u) - baseline),
            color=color,
            ls=dash,
            marker=marker,
            ms=3.8,
            markevery=(8 + 11 * place, 55),
            lw=1.4 if place else 2.2,
            label=name,
        )
    ax.set(xlim=(u[0], u[-1]), xlabel="Score u")


def _draw_rate(ax: Any, frames: Frames, settings: PanelSettings) -> None:
    for link in ("sigmoid", "probit"):
        wide = distances(frames, link)
        finite = wide[[n for n in wide.columns if np.isfinite(n)]]
        color, marker, dash = LINK_LOOKS[link]
        mean, error = np.array([mean_and_error(finite[n]) for n in finite]).T
        style = {"color": color, "marker": marker, "ls": dash, "markersize": 4.5}
        ax.errorbar(finite.columns, mean, error, capsize=2.5, label=f"{link} link", **style)
    slope, intercept, error = fitted_rate(distances(frames, "probit"), settings.seed)
    n = np.array([FIRST_OF_RATE, max(settings.holdout_sizes)])
    label = f"probit, fitted slope\n{with_error(slope, error, 3)}"
    ax.plot(n, np.exp(intercept) * n**slope, color="k", lw=0.9, label=label)
    limit = mean_and_error(distances(frames, "sigmoid")[np.inf])[0]
    color = LINK_LOOKS["sigmoid"][0]
    ax.axhline(limit, color=color, lw=1.0, ls=(0, (1, 1.5)))
    place = (min(settings.holdout_sizes), 0.97 * limit)
    ax.text(*place, f"sigmoid limit {limit:.4f}", va="top", fontsize=7.5, color=color)
    ax.set(xscale="log", yscale="log", xlabel=r"Holdout labels $n_{\mathrm{ho}}$")
    ax.set_ylabel("sup over u of |Platt − angular, true angle|")
    ax.grid(True, which="major", color="0.9", lw=0.6)
    ax.legend(frameon=False, loc="upper right")


def draw_convergence(frames: Frames, settings: PanelSettings) -> Figure:
    """Curves, their differences, and the distance against the holdout size."""
    figure = new_figure(FULL_WIDTH, 3.9)
    grid = figure.add_gridspec(2, 2, height_ratios=(2.1, 1), width_ratios=(1.1, 1))
    curves, rate = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[:, 1])
    differences = figure.add_subplot(grid[1, 0], sharex=curves)
    draw_curves(curves, frames, settings, "sigmoid")
    draw_curves(differences, frames, settings, "sigmoid", differences=True)
    curves.set(ylim=(0, 1), yticks=TICKS, ylabel="Probability of y = 1", xlabel="")
    curves.tick_params(labelbottom=False)
    differences.set_ylabel("Difference from\nangular, true angle")
    _corner_legends(curves)
    _draw_rate(rate, frames, settings)
    letter((curves, differences, rate))
    return figure


def _corner_legends(ax: Any) -> None:
    """Angular curves in one empty corner, Platt's in the other."""
    lines = ax.get_lines()
    first = ax.legend(handles=lines[:2], frameon=False, loc="upper left", borderaxespad=0.2)
    ax.add_artist(first)
    ax.legend(handles=lines[2:], frameon=False, loc="lower right", borderaxespad=0.2)


def draw_reliability_panel(ax: Any, frames: Frames, link: str, platt: str) -> None:
    """Observed frequency over mean prediction of three predictors, with consistency bands."""
    ax.plot([0, 1], [0, 1], color="0.4", lw=0.9, zorder=1)
    for method in ("uncalibrated", "angular, observable", platt):
        color, marker, dash = LOOKS[method]
        bins = chosen(frames["bins"], link=link, method=method, draw=0)
        _draw_band(ax, bins[bins["count"] >= SPARSE], color)
        x, y, sparse = bins["mean_predicted"], bins["observed"], bins["count"] < SPARSE
        style = {"color": color, "marker": marker, "markersize": 4.2, "clip_on": False, "zorder": 3}
        ax.plot(x, y, ls=dash, label=spelled(method), **style)
        if sparse.any():  # an unclipped line without points would have no place in the layout
            ax.plot(x[sparse], y[sparse], ls="none", mfc="white", **style)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=TICKS, yticks=TICKS)
    ax.set(xlabel="Mean predicted probability", ylabel="Observed frequency")
    ax.set_aspect("equal", adjustable="box")


def _draw_band(ax: Any, bins: pd.DataFrame, color: str) -> None:
    """Where a calibrated predictor's frequencies lie: n_b ȳ_b ~ Binomial(n_b, p̄_b)."""
    p, count = bins["mean_predicted"].to_numpy(), bins["count"].to_numpy()
    tails = (0.5 - 0.5 * CONFIDENCE, 0.5 + 0.5 * CONFIDENCE)
    lower, upper = (binom.ppf(tail, count, p) / count for tail in tails)
    ax.fill_between(p, lower, upper, color=color, alpha=0.18, lw=0, zorder=0)


def _named_handles(ax: Any) -> dict[str, Any]:
    handles, labels = ax.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def _ece_legend(ax: Any, frames: Frames, link: str, *, names: bool, **options: Any) -> None:
    """The ECE of each curve of the panel, with or without the curve's name."""
    handles = _named_handles(ax)
    scores = chosen(frames["scores"], link=link, draw=0).set_index("method")["ece"]
    scores.index = scores.index.map(spelled)
    labels = [(f"{method}: " if names else "") + f"ECE {scores[method]:.3f}" for method in handles]
    ax.legend(handles.values(), labels, frameon=False, **options)


def draw_reliability(frames: Frames, settings: PanelSettings) -> Figure:
    """Two reliability plots: Platt on few and on many labels."""
    figure = new_figure(FULL_WIDTH, 3.6)
    axes = figure.subplots(1, 2)
    note = f"shade: {CONFIDENCE:.0%} consistency band\nhollow: fewer than {SPARSE} rows"
    for ax, size in zip(axes, (FEW, MANY), strict=True):
        draw_reliability_panel(ax, frames, "sigmoid", f"Platt {size}")
        _ece_legend(ax, frames, "sigmoid", names=True, loc="upper left", borderaxespad=0.2)
        ax.text(0.97, 0.04, note, ha="right", va="bottom", fontsize=7.5, color="0.25")
    letter(axes)
    return figure


def draw_universality(frames: Frames, settings: PanelSettings) -> Figure:
    """Rows by link; reliability with few and with many labels, and the curves."""
    figure = new_figure(FULL_WIDTH, 5.1)
    axes = figure.subplots(len(settings.links), 3)
    for row, link in zip(axes, settings.links, strict=True):
        for ax, size in zip(row, (FEW, MANY), strict=False):
            draw_reliability_panel(ax, frames, link, f"Platt {size}")
            _ece_legend(ax, frames, link, names=False, loc="lower right", borderaxespad=0.2)
        row[1].set_ylabel("")
        draw_curves(row[2], frames, settings, link)
        row[2].set(ylim=(0, 1), yticks=TICKS, ylabel="Probability of y = 1", box_aspect=1)
        row[0].set_ylabel(f"Link {LINK_TEXT[link]}\nObserved frequency")
    for ax in axes[:-1].ravel():
        ax.set_xlabel("")
    letter(axes.ravel())
    titles = (f"Platt on {FEW} labels", f"Platt on {MANY:,} labels", "More and more labels")
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    handles = {**_named_handles(axes[0, 0]), **_named_handles(axes[0, 2])}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    return figure
