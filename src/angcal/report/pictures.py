"""The report's pictures: displays on figures of one style, as inline SVG.

The SVG is themed by the page's style sheet and described for screen readers.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any
from xml.etree import ElementTree

import numpy as np

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
from angcal.report.classes import BINS, ClassFigures
from angcal.report.comparison import Comparison
from angcal.report.figures import Diagnostics, LeaveOneOut
from angcal.tables.errors import clean

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
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10.5,
}
REFERENCE = re.compile(r"url\(#([^)]+)\)")

Words = tuple[str, str, str]
"""Name, title and description of a picture, as `inline_svg` takes them."""


def drawn(draw: Callable[..., Words]) -> Callable[..., Any]:
    """What a function draws on an empty figure, its first argument, as SVG in one style."""

    @wraps(draw)
    def in_style(*arguments: Any) -> Any:
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(), warnings.catch_warnings():
            # Letters that matplotlib's font lacks are measured wrongly but shown by the browser.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(SETTINGS)
            figure = Figure(layout="constrained")
            return inline_svg(figure, *draw(figure, *arguments))

    return in_style


def _axes(figure: Any, height: float, width: float = 4.5) -> Any:
    """The only axes of a figure, in inches: small enough to stay readable on a phone."""
    figure.set_size_inches(width, height)
    return figure.subplots()


def _style(calibrated: bool) -> dict[str, Any]:
    color, marker, dash = STYLES[0 if calibrated else 1]
    return {"color": color, "marker": marker, "linestyle": dash}


def _short(name: str) -> str:
    """A name that fits above a small picture."""
    name = clean(name).replace("\n", " ").replace("\t", " ")
    return name if len(name) <= 24 else name[:23] + "…"


@drawn
def reliability(figure: Any, figures: LeaveOneOut, kind: str, positive: str) -> Words:
    """Reliability diagram of "calibrated" or "plain" leave-one-out probabilities.

    Of `positive`, the second of two classes, or of the likeliest of more.
    """
    P, calibrated = getattr(figures, kind), kind == "calibrated"
    ReliabilityDisplay.from_predictions(
        figures.codes,
        P,
        classes=range(P.shape[1]),
        n_bins=10,
        name="angcal" if calibrated else "plain",
        ax=_axes(figure, 5.3),
        histogram=True,
        **_style(calibrated),
    )
    what = (
        f"Observed frequency of {clean(positive)} against the mean predicted probability"
        if figures.two
        else "Share of rows where the likeliest class is right against its mean probability"
    )
    return (
        f"reliability-{kind}",
        f"Reliability diagram of the {kind} probabilities",
        f"{what} in 10 bins, with 95% consistency bands and a histogram of the predictions below. "
        f"The expected calibration error is {figures.side(kind).ece:.3f}.",
    )


@drawn
def angle(figure: Any, model: Any) -> Words:
    """The angle as an angle."""
    display = AngleDisplay.from_estimator(model, ax=_axes(figure, 4.6))
    low, high = display.degree_interval or (0.0, 180.0)
    mark = (
        f"an arrow {display.degrees:.0f} degrees away for the true ones"
        if display.determined
        else f"a thin line at the posterior mean, {display.degrees:.0f} degrees"
    )
    return (
        "angle",
        "The angle between fitted and true weights",
        f"An arrow for the fitted weights, and {mark}. The interval, a wedge, goes from "
        f"{low:.0f} to {high:.0f} degrees.",
    )


@drawn
def class_angles(figure: Any, model: Any) -> Words:
    """Cosines of classes that each have their own angle."""
    count = len(model.classes_)
    ax = _axes(figure, 1.6 + 0.42 * min(count, 16), 5.6)
    display = AngleMatrixDisplay.from_estimator(model, ax=ax, colorbar=False)
    cosines = np.diagonal(display.matrix)
    return (
        "angle",
        "Cosines between true and fitted weights",
        f"The cosines of {count} classes with their intervals, from {cosines.min():.2f} to "
        f"{cosines.max():.2f}.",
    )


@drawn
def plain_and_calibrated(figure: Any, figures: LeaveOneOut) -> Words:
    """What calibration makes of the plain probability of each row's likeliest class."""
    ax = _axes(figure, 4.9)
    rows, likeliest = np.arange(len(figures.codes)), figures.plain.argmax(axis=1)
    plain, calibrated = figures.plain[rows, likeliest], figures.calibrated[rows, likeliest]
    order = np.argsort(plain, kind="stable")
    # More dots than a thousand show no more, and make a large file.
    shown = order[np.linspace(0, len(order) - 1, min(len(order), 1000)).astype(int)]
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, label="no change", zorder=1)
    look: dict[str, Any] = {"color": STYLES[0][0], "marker": "o", "ms": 3, "ls": "", "alpha": 0.45}
    ax.plot(plain[shown], calibrated[shown], label="a row", **look)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Plain probability of the likeliest class")
    ax.set_ylabel("Calibrated probability of the same class")
    ax.set_aspect("equal", adjustable="box")
    ax.legend(loc="best", frameon=False)
    return (
        "link",
        "From plain to calibrated probability",
        f"A dot for each of {len(shown)} rows. On average the plain probability of the likeliest "
        f"class is {plain.mean():.2f} and the calibrated one {calibrated.mean():.2f}; dots below "
        "the diagonal have become less sure.",
    )


@drawn
def smoothed_link(figure: Any, model: Any) -> Words:
    """F against the raw sigmoid."""
    display = SmoothedLinkDisplay.from_estimator(model, ax=_axes(figure, 4.9))
    low, high = display.calibrated[[0, -1]]
    raw_low, raw_high = display.raw[[0, -1]]
    return (
        "link",
        "From score to probability",
        f"Over the scores of the training rows the calibrated curve rises from {low:.2f} to "
        f"{high:.2f}, the raw sigmoid from {raw_low:.2f} to {raw_high:.2f}. A histogram of the "
        "scores lies below.",
    )


@drawn
def penalty_path(figure: Any, path: Any, metric: str, name: str) -> Words:
    """Leave-one-out "log_loss", "ece" or "cosine" against C, which the reader knows by `name`."""
    PenaltyPathDisplay(path).plot([_axes(figure, 2.9, 3.5)], show=[metric])
    value = getattr(path, metric)[path.index]
    return (
        f"path-{metric}",
        f"{name[0].upper()}{name[1:]} under each penalty",
        f"The leave-one-out {name} under {len(path.C)} penalties from C = {path.C[0]:.2g} to "
        f"{path.C[-1]:.2g}. At the chosen C = {path.C[path.index]:.2g} it is {value:.3f}.",
    )


@drawn
def comparison(figure: Any, found: Comparison, metric: str) -> Words:
    """One metric of every method as dots."""
    ax = _axes(figure, 1.0 + 0.36 * len(found.methods))
    values, errors = found.values[metric], found.errors[metric]
    ComparisonDisplay(found.names, {metric: values}, {metric: errors}).plot([ax])
    return (
        f"comparison-{metric}",
        f"{metric} of every method",
        f"Dots with standard errors, lower is better. The lowest {metric} is that of "
        f"{found.names[int(np.argmin(values))]}. The table has the numbers.",
    )


@drawn
def quantiles(figure: Any, found: Diagnostics) -> Words:
    """Quantiles of the scores against those of a Gaussian."""
    ax, x, y = _axes(figure, 4.0), found.normal_quantiles, found.score_quantiles
    reach = max(1.0, 1.05 * float(np.max(np.abs([x, y]))))
    ax.plot([-reach, reach], [-reach, reach], color="0.4", lw=1, label="Gaussian")
    ax.plot(x, y, color=STYLES[0][0], marker="o", ms=3, ls="", label="scores")
    ax.set(xlabel="Quantiles of a Gaussian", ylabel="Quantiles of the scores")
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.set_aspect("equal", adjustable="box")
    ax.legend(loc="upper left", frameon=False)
    return (
        "quantiles",
        "How Gaussian the scores are",
        "Quantiles of the standardized leave-one-out scores against those of a Gaussian; on the "
        f"diagonal they agree. Skewness {found.skewness:.2f}, excess kurtosis "
        f"{found.excess_kurtosis:.2f}.",
    )


@drawn
def classes(figure: Any, shown: list[ClassFigures]) -> Words:
    """Small reliability diagrams of a few classes."""
    displays = [ReliabilityDisplay(one.curve) for one in shown]
    rows = -(-len(shown) // 2)
    figure.set_size_inches(4.5, 2.4 * rows)
    names = [_short(one.name) for one in shown]
    ClasswiseReliabilityDisplay(displays, names).plot(
        figure.subplots(rows, 2, squeeze=False).ravel(), columns=2, **_style(True)
    )
    return (
        "classes",
        "Reliability class by class",
        f"One small diagram for each of {len(shown)} classes: the frequency of the class against "
        f"its mean calibrated probability in {BINS} bins, with 95% consistency bands.",
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
