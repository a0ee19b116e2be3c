"""The report's pictures: displays on figures of one style, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from angcal.displays import (
    AngleDisplay,
    AngleMatrixDisplay,
    ClasswiseReliabilityDisplay,
    ComparisonDisplay,
    PenaltyPathDisplay,
    ReliabilityDisplay,
    SmoothedLinkDisplay,
)
from angcal.displays.style import FAINT, STYLES
from angcal.metrics import reliability_curve
from angcal.report.comparison import ANGCAL, Comparison
from angcal.report.diagnostics import Diagnostics
from angcal.report.findings import Findings, SeveralAngles, TwoClasses
from angcal.report.markup import Markup, clean
from angcal.report.svg import drawing, inline_svg

WIDTH = 4.5  # inches: small enough to stay readable on a phone
WIDE = 5.6
NARROW = 3.5  # where three stand side by side
N_BINS = 10
MOST_PANELS, PANELS_IN_A_ROW = 12, 2
LONGEST_NAME, LONGEST_UPRIGHT = 24, 4


def _figure(height: float, width: float = WIDTH) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def short(name: str) -> str:
    """A name that fits above a small picture."""
    name = clean(name).replace("\n", " ").replace("\t", " ")
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def reliability(two: TwoClasses, kind: str, positive: str) -> Markup:
    """Reliability diagram of "calibrated" or "plain" leave-one-out probabilities."""
    with drawing():
        figure = _figure(5.3)
        style = STYLES[0 if kind == "calibrated" else 1]
        ReliabilityDisplay.from_predictions(
            two.labels,
            getattr(two, kind),
            n_bins=N_BINS,
            name="angcal" if kind == "calibrated" else "plain",
            ax=figure.subplots(),
            histogram=True,
            color=style[0],
            marker=style[1],
            linestyle=style[2],
        )
        return inline_svg(
            figure,
            f"reliability-{kind}",
            f"Reliability diagram of the {kind} probabilities",
            f"Observed frequency of {clean(positive)} against the mean predicted probability in "
            f"{N_BINS} bins, with 95 % consistency bands and a histogram of the predictions below. "
            f"The expected calibration error is {two.ece(kind):.3f}.",
        )


def angle(two: TwoClasses) -> Markup:
    """The angle as an angle."""
    found = two.model.angle_
    with drawing():
        figure = _figure(4.6)
        display = AngleDisplay.from_estimator(two.model, ax=figure.subplots())
        low, high = display.degree_interval or (0.0, 180.0)
        return inline_svg(
            figure,
            "angle",
            "The angle between fitted and true weights",
            f"Two arrows {found.degrees:.0f} degrees apart. The interval, drawn as a wedge, goes "
            f"from {low:.0f} to {high:.0f} degrees.",
        )


def smoothed_link(two: TwoClasses) -> Markup:
    """F against the raw sigmoid."""
    with drawing():
        figure = _figure(4.9)
        display = SmoothedLinkDisplay.from_estimator(two.model, ax=figure.subplots())
        low, high = display.calibrated[[0, -1]]
        raw_low, raw_high = display.raw[[0, -1]]
        return inline_svg(
            figure,
            "link",
            "From score to probability",
            f"Over the scores of the training rows the calibrated curve rises from {low:.2f} to "
            f"{high:.2f}, the raw sigmoid from {raw_low:.2f} to {raw_high:.2f}. A histogram of the "
            "scores lies below.",
        )


def penalty_path(two: TwoClasses, metric: str) -> Markup:
    """Leave-one-out "log_loss", "ece" or "cosine" against C."""
    path = two.model.path_
    told = {
        "log_loss": ("Log-loss", "log-loss", path.log_loss),
        "ece": ("Calibration error", "calibration error", path.ece),
        "cosine": ("Cosine of the angle", "cosine of the angle", path.cosine),
    }
    title, name, values = told[metric]
    with drawing():
        figure = _figure(2.9, NARROW)
        PenaltyPathDisplay(path).plot([figure.subplots()], show=[metric])
        return inline_svg(
            figure,
            f"path-{metric}",
            f"{title} under each penalty",
            f"The leave-one-out {name} under {len(path.C)} penalties from C = {path.C[0]:.2g} to "
            f"{path.C[-1]:.2g}. At the chosen C = {path.C[path.index]:.2g} it is "
            f"{values[path.index]:.3f}.",
        )


def comparison(found: Comparison, metric: str) -> Markup:
    """One metric of every method as dots."""
    with drawing():
        figure = _figure(1.0 + 0.36 * len(found.methods))
        display = ComparisonDisplay(
            found.names, {metric: found.values[metric]}, {metric: found.errors[metric]}
        )
        display.plot([figure.subplots()])
        best = found.names[int(np.argmin(found.values[metric]))]
        return inline_svg(
            figure,
            f"comparison-{metric}",
            f"{metric} of every method",
            f"Dots with standard errors, lower is better. The lowest {metric} is that of {best}. "
            "The table has the numbers.",
        )


def quantiles(found: Diagnostics) -> Markup:
    """Quantiles of the scores against those of a Gaussian."""
    with drawing():
        figure = _figure(4.0)
        ax = figure.subplots()
        reach = 1.05 * float(
            np.max(np.abs(np.concatenate([found.normal_quantiles, found.score_quantiles])))
        )
        reach = max(reach, 1.0)
        ax.plot([-reach, reach], [-reach, reach], color=FAINT, lw=1, label="Gaussian")
        ax.plot(
            found.normal_quantiles,
            found.score_quantiles,
            color=STYLES[0][0],
            marker="o",
            ms=3,
            ls="",
            label="scores",
        )
        ax.set(xlabel="Quantiles of a Gaussian", ylabel="Quantiles of the scores")
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
        ax.set_aspect("equal", adjustable="box")
        ax.legend(loc="upper left", frameon=False)
        return inline_svg(
            figure,
            "quantiles",
            "How Gaussian the scores are",
            "Quantiles of the standardised leave-one-out scores against those of a Gaussian; on "
            f"the diagonal they agree. Skewness {found.skewness:.2f}, excess kurtosis "
            f"{found.excess_kurtosis:.2f}.",
        )


def angle_matrix(found: SeveralAngles, classes: Sequence[str]) -> Markup:
    """Cosines of every pair of true and fitted weights."""
    names = [short(name) for name in classes]
    with drawing():
        figure = _figure(1.6 + 0.42 * len(names), WIDE)
        ax = figure.subplots()
        AngleMatrixDisplay(found.cosine, names, names).plot(ax, colorbar=False)
        ax.tick_params(axis="x", rotation=90 if max(map(len, names)) > LONGEST_UPRIGHT else 0)
        best = ", ".join(f"{value:.2f}" for value in np.diag(found.cosine))
        return inline_svg(
            figure,
            "angles",
            "Cosines between true and fitted weights",
            f"A matrix with one row for the true and one column for the fitted weights of each of "
            f"{len(names)} classes. Along the diagonal: {best}.",
        )


def classwise(found: Findings, method: str) -> Markup:
    """Small reliability diagrams of out-of-fold probabilities, the most frequent classes."""
    compared = found.comparison
    if compared is None:
        raise ValueError("a classwise diagram needs the comparison's probabilities.")
    probabilities = compared.probabilities[method][0].clip(0.0, 1.0)
    shown = np.sort(np.argsort(found.counts, kind="stable")[::-1][:MOST_PANELS])
    with drawing():
        rows = -(-len(shown) // PANELS_IN_A_ROW)
        figure = _figure(2.4 * rows)
        color, marker, dash = STYLES[0 if method == ANGCAL else 1]
        displays = [
            ReliabilityDisplay(
                reliability_curve(found.codes == k, probabilities[:, k], n_bins=N_BINS)
            )
            for k in shown
        ]
        ClasswiseReliabilityDisplay(displays, [short(found.classes[k]) for k in shown]).plot(
            figure.subplots(rows, PANELS_IN_A_ROW, squeeze=False).ravel(),
            columns=PANELS_IN_A_ROW,
            color=color,
            marker=marker,
            linestyle=dash,
        )
        return inline_svg(
            figure,
            f"classwise-{compared.names.index(method)}",
            f"Reliability of each class, {method}",
            f"One small diagram for each of {len(shown)} classes: the frequency of the class "
            "against its mean predicted probability, with 95 % consistency bands.",
        )
