"""What sections of the page are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from angcal.report.markup import Markup, join, tag


def section(name: str, heading: str, *children: Any) -> Markup:
    """A section under its heading."""
    return tag("section", tag("h2", heading, id=name), join(list(children)), aria_labelledby=name)


def picture(drawing: Markup, caption: str) -> Markup:
    """A drawing with its caption."""
    return tag("figure", drawing, tag("figcaption", caption))


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[Any]], first: int) -> Markup:
    """A table whose columns from number `first` on hold numbers."""

    def kind(column: int) -> str | None:
        return "number" if column >= first else None

    titles = [tag("th", cell, scope="col", class_=kind(i)) for i, cell in enumerate(header)]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            [tag("td", cell, class_=kind(i)) for i, cell in enumerate(row) if i > 0],
        )
        for row in rows
    ]
    whole = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", titles)), tag("tbody", body)
    )
    # Wide tables scroll by themselves; the keyboard has to reach them.
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
