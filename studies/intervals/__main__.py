"""Run what is missing of the five parts, and write their tables."""

from __future__ import annotations

import argparse
import sys

from angcal.files import write_text
from studies import RESULTS
from studies.datasets import DatasetUnavailableError
from studies.engine.store import resumed
from studies.intervals import beside, groups, real, shape, simulated

FOLDER = RESULTS / "intervals"
PARTS = {
    "simulated": simulated,
    "groups": groups,
    "real": real,
    "shape": shape,
    "beside": beside,
}
FILES = {
    "simulated": "intervals",
    "groups": "intervals-groups",
    "real": "intervals-real",
    "shape": "intervals-shape",
    "beside": "intervals-beside",
}


def main() -> None:
    """One table after the other."""
    parser = argparse.ArgumentParser(description="How often intervals hold the truth.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--fresh", action="store_true", help="replace earlier results")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; parts are {', '.join(PARTS)}")
        part = PARTS[name]
        if name == "beside" and beside.missing():
            absent = ", ".join(beside.missing())
            print(f"{absent}: not installed, skipped; pip install 'angcal[peers]'", file=sys.stderr)
        path = FOLDER / f"{FILES[name]}.csv"
        try:
            rows = resumed(path, part.COLUMNS, part.designs(), part.block, options.fresh)
        except DatasetUnavailableError as error:
            print(f"real designs: skipped. {error}", file=sys.stderr)
            continue
        write_text(FOLDER / f"{FILES[name]}.md", part.summary(rows))
        print(part.summary(rows))


if __name__ == "__main__":
    main()
