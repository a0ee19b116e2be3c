"""Sphinx extension: formulas as MathML, by the converter that comes with docutils.

Browsers draw MathML themselves. So a page needs no script and no network, and a build no LaTeX and
no further package.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

SPACE = "{http://www.w3.org/1998/Math/MathML}"
ElementTree.register_namespace("", SPACE[1:-1])
ACCENTS = set("^~ˆ˜¯‾→˙¨ˇ")
NAMED = re.compile(r"&(?!lt;|gt;|amp;|quot;|#)\w+;")


def mended(xml: str) -> str:
    """What the converter misses: bars of a norm do not stretch, an index stands beside an accent.

    It writes the index of an accented letter below the letter, and stretches the left of two
    bars alone.
    """
    tree = ElementTree.fromstring(NAMED.sub(lambda name: html.unescape(name[0]), xml))
    for node in tree.iter():
        if node.tag == f"{SPACE}mo" and node.text in ("‖", "|"):
            node.set("stretchy", "false")
        if node.tag == f"{SPACE}munderover" and node[2].text in ACCENTS:
            letter, index, accent = list(node)
            over = ElementTree.Element(f"{SPACE}mover", accent="true")
            over.extend([letter, accent])
            node.tag, node[:] = f"{SPACE}msub", [over, index]
    return ElementTree.tostring(tree, encoding="unicode")


def mathml(node: Any, as_block: bool) -> str:
    """The formula of a node; one that cannot be read is a warning, and shown as it is written."""
    try:
        return mended(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def visit_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(writer: Any, node: Any) -> None:
    """Write a displayed formula, which scrolls by itself where the page is too narrow for it."""
    writer.body.append(f'<div class="math-block">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer, which ``html_math_renderer = "mathml"`` chooses."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
