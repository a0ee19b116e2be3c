"""Put the tables of ``studies/results`` into the pages that show them.

Run from anywhere after ``python -m studies``: ``python docs/fill_study.py``. A page holds a table
between ``<!-- table: NAME -->`` and ``<!-- end -->``; everything else is left alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from angcal.files import write_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies import RESULTS  # noqa: E402
from studies.engine.tables import fill  # noqa: E402

# Each page, and where its summaries are looked for.
PAGES: dict[str, tuple[str, ...]] = {
    "study.md": ("paper",),
    "errata.md": ("paper",),
    "real.md": ("paper",),
    "multiclass.md": ("angles", "multiclass"),
    "real_labels.md": ("real",),
    "research.md": ("curves", "golden", "shrinkage", "harm"),
    "intervals.md": ("intervals",),
    "angle.md": ("coverage",),
    "guide/groups.md": ("groups",),
    "planner.md": ("planner",),
    "pool.md": ("pool",),
    "guide/prevalence.md": ("prevalence",),
}
OVERALL = "tables-overall.md"


def filled(page: str, *folders: Path) -> str:
    """The page with every block replaced by the summary of that name, from the first folder."""

    def block(name: str) -> str:
        places = [folder / f"{name}.md" for folder in folders]
        return next(path for path in places if path.exists()).read_text(encoding="utf-8")

    return fill(page, block)


def write_overall(folder: Path) -> None:
    """The claims over all three real-data tables, from their rows, where all of them are there."""
    from studies.engine.runner import read_tables
    from studies.paper.semireal import TABLES
    from studies.paper.semireal_tables import overall

    frames = [read_tables(table, table.full, folder) for table in TABLES.values()]
    write_text(folder / OVERALL, overall(frames) + "\n")


def main() -> None:
    """Rewrite the pages, each under another name first."""
    write_overall(RESULTS / "paper")
    for name, folders in PAGES.items():
        path = ROOT / "docs" / name
        text = filled(path.read_text(encoding="utf-8"), *(RESULTS / folder for folder in folders))
        write_text(path, text)


if __name__ == "__main__":
    main()
