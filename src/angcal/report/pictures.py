"""The report's pictures: displays on figures of one style, as inline SVG.

The SVG is themed by the page's style sheet and described for screen readers.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from xml.etree import ElementTree

import numpy as np

from angcal._typing import Floats
from angcal.displays import (
    STYLES,
    AngleDisplay,
    AngleMatrixDisplay,
    ClasswiseReliabilityDisplay,
    ComparisonDisplay,
    PenaltyPathDisplay,
    ReliabilityDisplay,
    SmoothedLinkDisplay,
)
from angcal.metrics import reliability_curve
from angcal.report.comparison import ANGCAL, Comparison
from angcal.report.figures import Diagnostics, LeaveOneOut
from angcal.report.findings import Findings
from angcal.tables.errors import clean

MOST_PANELS = 12
INK = "#1b1c20"
# Colors of figures to variables of the page's style sheet, which has a light and a dark value.
THEME = {
    INK: "--ink",
    "#000000": "--ink",
    "#ffffff": "--paper",
    "#666666": "--muted",
    "#808080": "--muted",
    "#0072b2": "--blue",
    "#d55e00": "--vermilion",
    "#009e73": "--green",
    "#cc79a7": "--pink",
    "#e69f00": "--amber",
    "#56b4e9": "--sky",
}
SETTINGS = {
    # Text stays text: it takes the page's color and font, and can be searched for.
    "svg.fonttype": "none",
    # Ids that depend on the picture alone: the same data give the same file.
    "svg.hashsalt": "angcal",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10.5,
}
REFERENCE = re.compile(r"url\(#([^)]+)\)")

Picture = tuple[Any, str, str, str]
"""Figure, name, title and description, as `inline_svg` takes them."""


def drawn(draw: Callable[..., Picture]) -> Callable[..., Any]:
    """The picture that a function draws, as inline SVG in the report's style."""

    @wraps(draw)
    def in_style(*arguments: Any) -> Any:
        import matplotlib

        with matplotlib.rc_context(), warnings.catch_warnings():
            # Letters that matplotlib's font lacks are measured wrongly but shown by the browser.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(SETTINGS)
            return inline_svg(*draw(*arguments))

    return in_style


def _figure(height: float, width: float = 4.5) -> Any:
    """An empty figure, in inches: small enough to stay readable on a phone."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _style(calibrated: bool) -> dict[str, Any]:
    color, marker, dash = STYLES[0 if calibrated else 1]
    return {"color": color, "marker": marker, "linestyle": dash}


def _short(name: str) -> str:
    """A name that fits above a small picture."""
    name = clean(name).replace("\n", " ").replace("\t", " ")
    return name if len(name) <= 24 else name[:23] + "…"


@drawn
def reliability(figures: LeaveOneOut, kind: str, positive: str) -> Picture:
    """Reliability diagram of "calibrated" or "plain" leave-one-out probabilities of two classes."""
    figure, calibrated = _figure(5.3), kind == "calibrated"
    ReliabilityDisplay.from_predictions(
        figures.codes,
        getattr(figures, kind)[:, 1],
        n_bins=10,
        name="angcal" if calibrated else "plain",
        ax=figure.subplots(),
        histogram=True,
        **_style(calibrated),
    )
    return (
        figure,
        f"reliability-{kind}",
        f"Reliability diagram of the {kind} probabilities",
        f"Observed frequency of {clean(positive)} against the mean predicted probability in 10 "
        "bins, with 95% consistency bands and a histogram of the predictions below. The expected "
        f"calibration error is {figures.side(kind).ece:.3f}.",
    )


@drawn
def angle(model: Any) -> Picture:
    """The angle as an angle."""
    figure = _figure(4.6)
    display = AngleDisplay.from_estimator(model, ax=figure.subplots())
    low, high = display.degree_interval or (0.0, 180.0)
    return (
        figure,
        "angle",
        "The angle between fitted and true weights",
        f"Two arrows {model.angle_.degrees:.0f} degrees apart. The interval, a wedge, goes from "
        f"{low:.0f} to {high:.0f} degrees.",
    )


@drawn
def smoothed_link(model: Any) -> Picture:
    """F against the raw sigmoid."""
    figure = _figure(4.9)
    display = SmoothedLinkDisplay.from_estimator(model, ax=figure.subplots())
    low, high = display.calibrated[[0, -1]]
    raw_low, raw_high = display.raw[[0, -1]]
    return (
        figure,
        "link",
        "From score to probability",
        f"Over the scores of the training rows the calibrated curve rises from {low:.2f} to "
        f"{high:.2f}, the raw sigmoid from {raw_low:.2f} to {raw_high:.2f}. A histogram of the "
        "scores lies below.",
    )


@drawn
def penalty_path(path: Any, metric: str, name: str) -> Picture:
    """Leave-one-out "log_loss", "ece" or "cosine" against C, which the reader knows by `name`."""
    figure = _figure(2.9, 3.5)
    PenaltyPathDisplay(path).plot([figure.subplots()], show=[metric])
    value = getattr(path, metric)[path.index]
    return (
        figure,
        f"path-{metric}",
        f"{name[0].upper()}{name[1:]} under each penalty",
        f"The leave-one-out {name} under {len(path.C)} penalties from C = {path.C[0]:.2g} to "
        f"{path.C[-1]:.2g}. At the chosen C = {path.C[path.index]:.2g} it is {value:.3f}.",
    )


@drawn
def comparison(found: Comparison, metric: str) -> Picture:
    """One metric of every method as dots."""
    figure = _figure(1.0 + 0.36 * len(found.methods))
    values, errors = found.values[metric], found.errors[metric]
    display = ComparisonDisplay(found.names, {metric: values}, {metric: errors})
    display.plot([figure.subplots()])
    return (
        figure,
        f"comparison-{metric}",
        f"{metric} of every method",
        f"Dots with standard errors, lower is better. The lowest {metric} is that of "
        f"{found.names[int(np.argmin(values))]}. The table has the numbers.",
    )


@drawn
def quantiles(found: Diagnostics) -> Picture:
    """Quantiles of the scores against those of a Gaussian."""
    figure = _figure(4.0)
    ax, x, y = figure.subplots(), found.normal_quantiles, found.score_quantiles
    reach = max(1.0, 1.05 * float(np.max(np.abs([x, y]))))
    ax.plot([-reach, reach], [-reach, reach], color="0.4", lw=1, label="Gaussian")
    ax.plot(x, y, color=STYLES[0][0], marker="o", ms=3, ls="", label="scores")
    ax.set(xlabel="Quantiles of a Gaussian", ylabel="Quantiles of the scores")
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.set_aspect("equal", adjustable="box")
    ax.legend(loc="upper left", frameon=False)
    return (
        figure,
        "quantiles",
        "How Gaussian the scores are",
        "Quantiles of the standardized leave-one-out scores against those of a Gaussian; on the "
        f"diagonal they agree. Skewness {found.skewness:.2f}, excess kurtosis "
        f"{found.excess_kurtosis:.2f}.",
    )


@drawn
def angle_matrix(cosines: Floats, classes: Sequence[str]) -> Picture:
    """Cosines of every pair of true and fitted weights."""
    names = [_short(name) for name in classes]
    figure = _figure(1.6 + 0.42 * len(names), 5.6)
    ax = figure.subplots()
    AngleMatrixDisplay(cosines, names, names).plot(ax, colorbar=False)
    ax.tick_params(axis="x", rotation=90 if max(map(len, names)) > 4 else 0)
    diagonal = ", ".join(f"{value:.2f}" for value in np.diag(cosines))
    return (
        figure,
        "angles",
        "Cosines between true and fitted weights",
        "A matrix with one row for the true and one column for the fitted weights of each of "
        f"{len(names)} classes. Along the diagonal: {diagonal}.",
    )


@drawn
def classwise(found: Findings, compared: Comparison, method: str) -> Picture:
    """Small reliability diagrams of out-of-fold probabilities, the most frequent classes."""
    p = compared.probabilities[method][0].clip(0.0, 1.0)
    shown = np.sort(np.argsort(found.counts, kind="stable")[::-1][:MOST_PANELS])
    displays = [
        ReliabilityDisplay(reliability_curve(found.codes == k, p[:, k], n_bins=10)) for k in shown
    ]
    rows = -(-len(shown) // 2)
    figure = _figure(2.4 * rows)
    ClasswiseReliabilityDisplay(displays, [_short(found.classes[k]) for k in shown]).plot(
        figure.subplots(rows, 2, squeeze=False).ravel(), columns=2, **_style(method == ANGCAL)
    )
    return (
        figure,
        f"classwise-{compared.names.index(method)}",
        f"Reliability of each class, {method}",
        f"One small diagram for each of {len(shown)} classes: the frequency of the class against "
        "its mean predicted probability, with 95% consistency bands.",
    )


# -- SVG --------------------------------------------------------------------------------------


def inline_svg(figure: Any, name: str, title: str, description: str) -> Any:
    """The figure as an ``<svg role="img">`` with title and description.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Unique in the page; ids begin with it.
    title, description : str
        What a screen reader says.
    """
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None}
    )
    root = ElementTree.fromstring(buffer.getvalue())
    _drop_foreign(root)
    _rename_ids(root, name)
    for element in root.iter():
        if "style" in element.attrib:
            element.set("style", _themed(element.attrib["style"]))
    width = float(root.attrib["width"].removesuffix("pt")) / 0.75  # points per pixel
    view = root.attrib["viewBox"]
    root.attrib.clear()
    labels = {"title": title, "desc": description}
    for position, (element_name, text) in enumerate(labels.items()):
        label = ElementTree.Element(element_name, {"id": f"{name}-{element_name}"})
        label.text = clean(text)
        root.insert(position, label)
    root.attrib.update(
        {
            "role": "img",
            "class": "drawing",
            "viewBox": view,
            "aria-labelledby": f"{name}-title {name}-desc",
            "style": f"max-width: {1.15 * width:.0f}px",
        }
    )
    from markupsafe import Markup

    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _drop_foreign(root: ElementTree.Element) -> None:
    """Remove namespaces, metadata and style sheets, which would apply to the whole page."""
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        element.attrib = {_local(key): value for key, value in element.attrib.items()}
        for child in list(element):
            if _local(child.tag) in ("metadata", "style", "script"):
                element.remove(child)


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    """Give ids that something refers to the figure's name, and drop the others."""
    used = set()
    for element in root.iter():
        used.update(REFERENCE.findall(" ".join(element.attrib.values())))
        if element.attrib.get("href", "").startswith("#"):
            used.add(element.attrib["href"][1:])
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                if value in used:
                    element.set(key, f"{name}-{value}")
                else:
                    del element.attrib[key]
            elif key == "href" and value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
            else:
                element.set(key, REFERENCE.sub(rf"url(#{name}-\1)", value))


def _themed(style: str) -> str:
    """Known colors as variables; fonts are left to the page."""
    kept = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key in ("", "font-family"):
            continue
        variable = THEME.get(value.lower()) if key in ("fill", "stroke") else None
        kept.append(f"{key}: var({variable})" if variable else f"{key}: {value}")
    return "; ".join(kept)
