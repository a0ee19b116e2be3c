"""HTML that is escaped unless it says that it is HTML already."""

from __future__ import annotations

import html
import unicodedata
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Characters that turn the direction of writing and can make a name look like another.
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
KEPT_CONTROLS = frozenset("\t\n")
VOID = frozenset({"meta", "link", "br", "hr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(value: Any) -> str:
    """Text without what XML cannot hold: control characters, halves of characters, turns."""
    return "".join(REPLACEMENT if _is_unfit(letter) else letter for letter in str(value))


def _is_unfit(letter: str) -> bool:
    if letter in KEPT_CONTROLS:
        return False
    nonsense = unicodedata.category(letter) in ("Cc", "Cs") or ord(letter) & 0xFFFE == 0xFFFE
    return nonsense or letter in TURNING


def escape(value: Any) -> Markup:
    """``value`` as HTML text; what is `Markup` already stays as it is.

    Examples
    --------
    >>> escape("<script>")
    '&lt;script&gt;'
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(clean(value), quote=True))


def tag(element: str, *children: Any, **attributes: Any) -> Markup:
    """An element with its children, escaped; lists are spread, None is left out.

    ``class_`` stands for class, and other underscores for hyphens.

    Examples
    --------
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if element in VOID:
        return Markup(f"<{element}{written}>")
    return Markup(f"<{element}{written}>{join(children)}</{element}>")


def join(children: Any) -> Markup:
    """Children one after the other."""
    if children is None:
        return Markup("")
    if isinstance(children, list | tuple):
        return Markup("".join(join(child) for child in children))
    return escape(children)
