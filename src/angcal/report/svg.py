"""A matplotlib figure as inline SVG: themed by the page's CSS, described for screen readers."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from angcal.report.markup import Markup, clean

INK = "#1b1c20"
# Colours of figures to variables of the page's style sheet, which has a light and a dark value.
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
    # Text stays text: it takes the page's colour and font, and can be searched for.
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
POINTS_PER_PIXEL = 0.75
REFERENCE = re.compile(r"url\(#([^)]+)\)")


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


def inline_svg(figure: Any, name: str, title: str, description: str) -> Markup:
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
    width = float(root.attrib["width"].removesuffix("pt")) / POINTS_PER_PIXEL
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
    """Known colours as variables; fonts are left to the page."""
    kept = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key in ("", "font-family"):
            continue
        variable = THEME.get(value.lower()) if key in ("fill", "stroke") else None
        kept.append(f"{key}: var({variable})" if variable else f"{key}: {value}")
    return "; ".join(kept)
