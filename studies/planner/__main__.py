"""``python -m studies.planner pilots`` and ``... theory``: run what is missing, write the tables.

The CSV files go on where they were. The tables are in ``studies/results/planner``, from where
docs/fill_study.py puts them into docs/planner.md.
"""

from __future__ import annotations

import argparse

from studies.planner import pilots, simulations


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(prog="studies.planner", description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=["pilots", "theory"])
    parser.add_argument("--splits", type=int, default=10, help="of each real set")
    parser.add_argument(
        "--halves", nargs="*", default=["first", "second"], choices=["first", "second"]
    )
    options = parser.parse_args()
    if options.which == "pilots":
        print(pilots.write_table(options.splits, tuple(options.halves)))
    else:
        print(simulations.write_table())


if __name__ == "__main__":
    main()
