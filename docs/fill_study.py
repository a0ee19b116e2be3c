"""Put the tables of ``reproduce/`` into the pages that show them.

Run from anywhere after ``angcal reproduce``: ``python docs/fill_study.py``. A page holds a table
between ``<!-- result: NAME -->`` and ``<!-- end -->``; everything else is left alone.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "study.md", ROOT / "docs" / "errata.md")
BLOCK = re.compile(r"(<!-- result: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(page: str, folder: Path) -> str:
    """The page with every block replaced by the summary of that name."""

    def block(found: re.Match[str]) -> str:
        summary = (folder / f"{found[2]}.md").read_text(encoding="utf-8")
        return f"{found[1]}{summary}{found[4]}"

    return BLOCK.sub(block, page)


def main() -> None:
    """Rewrite the pages, each under another name first."""
    for path in PAGES:
        text = filled(path.read_text(encoding="utf-8"), ROOT / "reproduce")
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)


if __name__ == "__main__":
    main()
