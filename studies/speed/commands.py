"""Processor seconds of the README's commands on a table of 200 rows and 2000 columns.

python -m studies.speed.commands
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 200, 2000


def write_table(path: Path) -> None:
    """Numbers with a few gaps, a category, an identifier and two classes."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    scores = 3.0 * X[:, :40] @ rng.normal(size=40) / np.sqrt(40)
    frame = pd.DataFrame(X.round(4), columns=[f"gene{j}" for j in range(COLUMNS)])
    frame["stage"] = rng.choice(["I", "II", "III"], ROWS)
    frame.loc[:9, "gene3"] = np.nan
    frame.insert(0, "PatNr", 7 * np.arange(1000, 1000 + ROWS))
    frame["relapse"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-scores)), "yes", "no")
    frame.to_csv(path, index=False)


def seconds_of(arguments: list[str], folder: Path) -> float:
    """User and system time of one command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "angcal.cli", *arguments]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line for each command."""
    table = ["patients.csv", "--target", "relapse"]
    named = [*table, "--id", "PatNr"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "patients.csv")
        for arguments in (
            ["fit", *named, "--out", "model.skops"],
            ["predict", "model.skops", "patients.csv", "--interval", "--out", "p.csv"],
            ["report", *named, "--positive", "yes", "--out", "report.html"],
            ["plan", *table, "--target-accuracy", "0.7"],
        ):
            print(
                f"{seconds_of(arguments, folder):5.1f} s  angcal {' '.join(arguments)}", flush=True
            )
        print(f"{(folder / 'report.html').stat().st_size / 1e6:.2f} MB  report.html")


if __name__ == "__main__":
    main()
