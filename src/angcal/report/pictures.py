"""The report's pictures: displays on figures of one style, as inline SVG.

The SVG is themed by the page's style sheet and described for screen readers.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def _figure(height: float, width: float = 4.5) -> Any:
    # Inches: small enough to stay readable on a phone.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _short(name: str) -> str:
    """A name that fits above a small picture."""
    name = clean(name).replace("\n", " ").replace("\t", " ")
    return name if len(name) <= 24 else name[:23] + "…"


def reliability(figures: LeaveOneOut, kind: str, positive: str) -> Any:
    """Reliability diagram of "calibrated" or "plain" leave-one-out probabilities of two classes."""
    with drawing():
        figure = _figure(5.3)
        style = STYLES[0 if kind == "calibrated" else 1]
        ReliabilityDisplay.from_predictions(
            figures.codes,
            getattr(figures, kind)[:, 1],
            n_bins=10,
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
            f"10 bins, with 95% consistency bands and a histogram of the predictions below. "
            f"The expected calibration error is {figures.side(kind).ece:.3f}.",
        )


def angle(model: Any) -> Any:
    """The angle as an angle."""
    with drawing():
        figure = _figure(4.6)
        display = AngleDisplay.from_estimator(model, ax=figure.subplots())
        low, high = display.degree_interval or (0.0, 180.0)
        return inline_svg(
            figure,
            "angle",
            "The angle between fitted and true weights",
            f"Two arrows {model.angle_.degrees:.0f} degrees apart. The interval, a wedge, goes "
            f"from {low:.0f} to {high:.0f} degrees.",
        )


def smoothed_link(model: Any) -> Any:
    """F against the raw sigmoid."""
    with drawing():
        figure = _figure(4.9)
        display = SmoothedLinkDisplay.from_estimator(model, ax=figure.subplots())
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


def penalty_path(path: Any, metric: str) -> Any:
    """Leave-one-out "log_loss", "ece" or "cosine" against C."""
    shown = {
        "log_loss": ("Log-loss", "log-loss", path.log_loss),
        "ece": ("Calibration error", "calibration error", path.ece),
        "cosine": ("Cosine of the angle", "cosine of the angle", path.cosine),
    }
    title, name, values = shown[metric]
    with drawing():
        figure = _figure(2.9, 3.5)
        PenaltyPathDisplay(path).plot([figure.subplots()], show=[metric])
        return inline_svg(
            figure,
            f"path-{metric}",
            f"{title} under each penalty",
            f"The leave-one-out {name} under {len(path.C)} penalties from C = {path.C[0]:.2g} to "
            f"{path.C[-1]:.2g}. At the chosen C = {path.C[path.index]:.2g} it is "
            f"{values[path.index]:.3f}.",
        )


def comparison(found: Comparison, metric: str) -> Any:
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


def quantiles(found: Diagnostics) -> Any:
    """Quantiles of the scores against those of a Gaussian."""
    with drawing():
        figure = _figure(4.0)
        ax = figure.subplots()
        reach = 1.05 * float(
            np.max(np.abs(np.concatenate([found.normal_quantiles, found.score_quantiles])))
        )
        reach = max(reach, 1.0)
        ax.plot([-reach, reach], [-reach, reach], color="0.4", lw=1, label="Gaussian")
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
            "Quantiles of the standardized leave-one-out scores against those of a Gaussian; on "
            f"the diagonal they agree. Skewness {found.skewness:.2f}, excess kurtosis "
            f"{found.excess_kurtosis:.2f}.",
        )


def angle_matrix(cosines: Floats, classes: Sequence[str]) -> Any:
    """Cosines of every pair of true and fitted weights."""
    names = [_short(name) for name in classes]
    with drawing():
        figure = _figure(1.6 + 0.42 * len(names), 5.6)
        ax = figure.subplots()
        AngleMatrixDisplay(cosines, names, names).plot(ax, colorbar=False)
        ax.tick_params(axis="x", rotation=90 if max(map(len, names)) > 4 else 0)
        best = ", ".join(f"{value:.2f}" for value in np.diag(cosines))
        return inline_svg(
            figure,
            "angles",
            "Cosines between true and fitted weights",
            f"A matrix with one row for the true and one column for the fitted weights of each of "
            f"{len(names)} classes. Along the diagonal: {best}.",
        )


def classwise(found: Findings, method: str) -> Any:
    """Small reliability diagrams of out-of-fold probabilities, the most frequent classes."""
    compared = found.comparison
    if compared is None:
        raise ValueError("a classwise diagram needs the comparison's probabilities.")
    probabilities = compared.probabilities[method][0].clip(0.0, 1.0)
    shown = np.sort(np.argsort(found.counts, kind="stable")[::-1][:MOST_PANELS])
    with drawing():
        rows = -(-len(shown) // 2)
        figure = _figure(2.4 * rows)
        color, marker, dash = STYLES[0 if method == ANGCAL else 1]
        displays = [
            ReliabilityDisplay(reliability_curve(found.codes == k, probabilities[:, k], n_bins=10))
            for k in shown
        ]
        ClasswiseReliabilityDisplay(displays, [_short(found.classes[k]) for k in shown]).plot(
            figure.subplots(rows, 2, squeeze=False).ravel(),
            columns=2,
            color=color,
            marker=marker,
            linestyle=dash,
        )
        return inline_svg(
            figure,
            f"classwise-{compared.names.index(method)}",
            f"Reliability of each class, {method}",
            f"One small diagram for each of {len(shown)} classes: the frequency of the class "
            "against its mean predicted probability, with 95% consistency bands.",
        )


# -- SVG --------------------------------------------------------------------------------------


@contextmanager
def drawing() -> Iterator[None]:
    """matplotlib's own settings with the report's on top, for the time of a drawing."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Letters that matplotlib's font lacks are measured wrongly but shown by the browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


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
