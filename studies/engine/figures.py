"""What the pictures share: styles that differ without color, and files written whole."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from angcal.displays import STYLES
from angcal.files import write_text, written

FULL_WIDTH = 7.2
"""Inches; the text width of a page."""
DPI = 200
"""Of PNG files, and of what is drawn as dots inside SVG files."""
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

# One look per method in every picture: color, marker, dash of `angcal.displays.STYLES`.
LOOKS: dict[str, tuple[str, str, Any]] = {
    "uncalibrated": STYLES[1],
    "angular": STYLES[0],
    "angular, true angle": STYLES[6],
    "angular, observable": STYLES[0],
    "angular, leave-one-out": STYLES[5],
    "angular, both": STYLES[0],
    "Platt 100": STYLES[2],
    "Platt 20000": STYLES[3],
}

RC = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.4,
    "svg.hashsalt": "angcal",
    "svg.fonttype": "path",
}
"""Set around drawing and saving; with fixed ids and no date the same picture is the same file."""


def new_figure(width: float, height: float) -> Any:
    """A figure that no global state knows of, laid out without overlaps."""
    return Figure(figsize=(width, height), layout="constrained")


def legend_below(figure: Any, ax: Any, ncols: int, **options: Any) -> None:
    """A legend under all panels, of the lines that one of them has."""
    handles = ax.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=ncols, frameon=False, **options)


def letter(axes: Any) -> None:
    """Name the panels a, b, c, … in bold."""
    for ax, name in zip(axes, "abcdefghijklmnop", strict=False):
        ax.set_title(name, loc="left", fontweight="bold")


def settle_layout(figure: Any) -> None:
    """Lay the axes out once, at rounded places.

    The solver behind the layout ends at places that differ in their last bits from run to run, and
    an SVG file has them in its ids.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        for which in ("original", "active"):
            place = ax.get_position(original=which == "original")
            ax.set_position([round(value, 5) for value in place.bounds], which=which)


def with_numbered_clips(svg: str) -> str:
    """The same picture with clip paths called clip1, clip2, … in order of their first use.

    Their ids are checksums of places to the last bit, which differ from run to run even where
    every written digit is the same.
    """
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        name = numbers.setdefault(found[2], f"clip{len(numbers) + 1}")
        return f"{found[1]}{name}{found[3]}"

    return re.sub(r'((?:url\(#|clipPath id="))(p[0-9a-f]{10})(\)|")', numbered, svg)


def save_figure(figure: Any, stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``; the same digits give the same bytes."""
    settle_layout(figure)
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=DPI)
    # Ids in the file come from this salt; without it they are random.
    with mpl.rc_context({"svg.hashsalt": RC["svg.hashsalt"]}):
        figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None})
    pictures = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    with written(pictures[0]) as file:
        file.write(png.getvalue())
    write_text(pictures[1], with_numbered_clips(svg.getvalue()))
    return pictures
