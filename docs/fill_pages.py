"""Run the code blocks of the pages and write what they print below them.

    python docs/fill_pages.py             # all pages
    python docs/fill_pages.py guide/groups.md multiclass.md

A fenced ``text`` block that follows a ``python`` block holds the output of that block. The tests
compare; this file rewrites, after a change that moves the numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from pages import filled, pages  # noqa: E402


def main() -> None:
    """Rewrite the pages named, or all of them, each under another name first."""
    named = [DOCS / name for name in sys.argv[1:]] or pages()
    for page in named:
        before = page.read_text(encoding="utf-8")
        after = filled(page)
        if after != before:
            unfinished = page.with_name(f".{page.name}.unfinished")
            unfinished.write_text(after, encoding="utf-8")
            unfinished.replace(page)
            print(f"{page.relative_to(DOCS.parent)} changed")


if __name__ == "__main__":
    main()
