"""A matplotlib figure as inline SVG: themed by the page's style sheet, described, with hints.

Artists whose gid begins with "part-" can be found by the page's script, and those with "hints-"
show a text for each point where the mouse rests on it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from xml.etree import ElementTree

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

PART, HINTS = "part-", "hints-"


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


def inline_svg(figure: Any, name: str, title: str, description: str) -> Any:
    """The figure as an ``<svg role="img">`` with title and description for screen readers.

    Ids begin with the name, which is unique in the page.
    """
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None}
    )
    root = ElementTree.fromstring(buffer.getvalue())
    _drop_foreign(root)
    _give_hints(root, getattr(figure, "angcal_hints", {}))
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


def hint(figure: Any, artist: Any, texts: Sequence[str]) -> None:
    """Show these texts where the mouse rests on the markers of an artist, one for each."""
    if not hasattr(figure, "angcal_hints"):
        figure.angcal_hints = {}
    gid = f"{HINTS}{len(figure.angcal_hints)}"
    artist.set_gid(gid)
    figure.angcal_hints[gid] = [clean(text) for text in texts]


def _give_hints(root: ElementTree.Element, hints: dict[str, list[str]]) -> None:
    """A title in every marker; browsers show it on hover, without a script."""
    for element in list(root.iter()):
        texts = hints.get(element.attrib.get("id", ""))
        if texts is None:
            continue
        markers = [child for child in element.iter() if child.tag == "use"]
        for marker, text in zip(markers, texts, strict=True):
            ElementTree.SubElement(marker, "title").text = text


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
                if value.startswith(PART):
                    element.set("data-part", value.removeprefix(PART))
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
