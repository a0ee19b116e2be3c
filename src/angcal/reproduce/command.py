"""``angcal reproduce``: run what is asked for, then draw and summarise it from its CSV files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from angcal.arguments import seed
from angcal.datasets import DatasetUnavailableError, obtainable
from angcal.reproduce.experiment import Result, Trial
from angcal.reproduce.figures import RC, save_figure
from angcal.reproduce.runner import read_tables, run_experiment
from angcal.reproduce.store import StoreError, UnfinishedError, write_text

FULL_FOLDER, QUICK_FOLDER = Path("reproduce"), Path("reproduce-quick")
DESCRIPTION = """\
Re-run the experiments of Li & Sur (NeurIPS 2025) from a seed: rows to CSV files, pictures and
tables from the CSV files. A run that was stopped, however rudely, goes on where it was; a result
whose rows are all there is only drawn again. The real-data tables (table-*) look for their data in
the folder that ANGCAL_DATA names, then in the user's cache, and download what is missing. Sets that
have no download and are not there are left out, and named.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``angcal reproduce``."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="results; all when none is named")
    parser.add_argument("--list", action="store_true", help="name the results and stop")
    parser.add_argument(
        "--datasets",
        nargs="+",
        metavar="DATASET",
        help="run these datasets of the real-data tables only, now; tables and pictures show all "
        "that was ever run",
    )
    add_run_arguments(parser, FULL_FOLDER, QUICK_FOLDER)


def add_run_arguments(parser: argparse.ArgumentParser, full: Path, quick: Path) -> None:
    """Describe the options of every command that runs experiments.

    Parameters
    ----------
    parser : ArgumentParser
    full, quick : Path
        Folders of the files of the whole run and of the small one.
    """
    parser.add_argument(
        "--quick", action="store_true", help="a smaller version of everything, in minutes"
    )
    parser.add_argument(
        "--jobs", type=_jobs, default=1, help="processes; -1 is one per core (default: 1)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder of the files (default: {full}, or {quick} with --quick)",
    )
    parser.add_argument("--seed", type=seed, help="another seed than the committed one")
    parser.add_argument(
        "--fresh", action="store_true", help="forget earlier rows of what is run and start over"
    )


def _jobs(text: str) -> int:
    number = int(text)
    if number < -1 or number == 0:
        raise argparse.ArgumentTypeError("a number of processes from 1 up, or -1 for one per core")
    return number


def execute(options: argparse.Namespace) -> int:
    """Carry out a parsed command line; returns the exit code."""
    if lacks_packages("reproduce"):
        return 3
    from angcal.reproduce.catalogue import RESULTS

    if options.list:
        width = max(map(len, RESULTS))
        print("\n".join(f"{name:<{width}}  {result.title}" for name, result in RESULTS.items()))
        return 0
    unknown = [name for name in options.names if name not in RESULTS]
    if unknown:
        print(
            f"there is no result called {', '.join(unknown)}; angcal reproduce --list names them",
            file=sys.stderr,
        )
        return 2
    results = [RESULTS[name] for name in options.names or RESULTS]
    folder = QUICK_FOLDER if options.quick else FULL_FOLDER
    used = datasets_of(results, options.quick)
    strange = [name for name in options.datasets or () if name not in used]
    if strange:
        told = f"there are {', '.join(used)}" if used else "they have none"
        print(f"not a dataset of these results: {', '.join(strange)}; {told}", file=sys.stderr)
        return 2
    chosen = to_be_had(options.datasets or used)
    results = [result for result in results if _can_be_shown(result, chosen, options, folder)]
    if not results:
        print("none of these datasets is to be had", file=sys.stderr)
        return 1

    def wanted(trial: Trial) -> bool:
        named = options.datasets is not None
        return trial["dataset"] in chosen if "dataset" in trial else not named

    return carry_out(results, options, folder, wanted if used else None)


def _can_be_shown(
    result: Result, chosen: set[str], options: argparse.Namespace, folder: Path
) -> bool:
    """Whether there are rows of a result, or will be."""
    used = datasets_of([result], options.quick)
    if options.datasets is not None:
        return bool(chosen & set(used))
    rows = (options.out or folder) / f"{result.experiment.name}.csv"
    return not used or bool(chosen & set(used)) or rows.exists()


def datasets_of(results: Sequence[Result], quick: bool) -> list[str]:
    """Datasets that some results are made from, each once."""
    settings = [result.experiment.quick if quick else result.experiment.full for result in results]
    named = [name for found in settings for name in getattr(found, "datasets", ())]
    return list(dict.fromkeys(named))


def to_be_had(names: Sequence[str]) -> set[str]:
    """Those that are here or have a download; the others are named on standard error."""
    return those_in(
        obtainable(),
        names,
        "not on this machine and without a download, left out: {}; set ANGCAL_DATA to a folder "
        "with their files",
    )


def those_in(here: Sequence[str], names: Sequence[str], told: str) -> set[str]:
    """Names that are here; the others go to standard error, in the place that ``told`` leaves."""
    absent = [name for name in names if name not in here]
    if absent:
        print(told.format(", ".join(absent)), file=sys.stderr)
    return set(names) - set(absent)


def carry_out(
    results: Sequence[Result],
    options: argparse.Namespace,
    folder: Path,
    only: Callable[[Trial], bool] | None = None,
) -> int:
    """`reproduce` with the options of `add_run_arguments`; returns the exit code, says why not.

    Parameters
    ----------
    results : sequence of Result
    options : Namespace
    folder : Path
        Where the files go unless ``--out`` says otherwise.
    only : callable, optional
        As in `run_experiment`.
    """
    try:
        reproduce(
            results,
            folder=options.out or folder,
            quick=options.quick,
            jobs=options.jobs,
            fresh=options.fresh,
            seed=options.seed,
            only=only,
        )
    except (StoreError, UnfinishedError, DatasetUnavailableError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"cannot write to {error.filename}: {error.strerror}; pass another --out",
            file=sys.stderr,
        )
        return 1
    return 0


def lacks_packages(command: str) -> bool:
    """Whether packages that every run needs are missing; says which, and what to do."""
    missing = _missing_packages()
    if missing:
        needed = " and ".join(missing)
        print(f"angcal {command} needs {needed}; run: pip install 'angcal[cli]'", file=sys.stderr)
    return bool(missing)


def _missing_packages() -> list[str]:
    from importlib.util import find_spec

    return [name for name in ("matplotlib", "pandas", "tqdm") if find_spec(name) is None]


def reproduce(
    results: Sequence[Result],
    *,
    folder: Path,
    quick: bool = False,
    jobs: int = 1,
    fresh: bool = False,
    seed: int | None = None,
    only: Callable[[Trial], bool] | None = None,
) -> None:
    """Run the experiments of the results, each once, and present every result.

    Parameters
    ----------
    results : sequence of Result
    folder : Path
        Where the files go.
    quick : bool
        Take the small settings.
    jobs, fresh, only
        As in `run_experiment`.
    seed : int or None
        In place of the committed one.
    """
    settings: dict[str, Any] = {}
    for result in results:
        experiment = result.experiment
        if experiment.name not in settings:
            chosen = experiment.quick if quick else experiment.full
            chosen = chosen if seed is None else replace(chosen, seed=seed)
            run_experiment(experiment, chosen, folder, jobs=jobs, fresh=fresh, only=only)
            settings[experiment.name] = chosen
        print(present(result, settings[experiment.name], folder), flush=True)


def present(result: Result, settings: Any, folder: Path) -> str:
    """Write picture and summary of a result from its CSV files; returns what to print."""
    import matplotlib as mpl

    for unfinished in folder.glob(f".{result.name}.*.unfinished"):
        unfinished.unlink()  # left by a kill
    frames = read_tables(result.experiment, settings, folder)
    summary = result.summarise(frames, settings).strip() + "\n"
    with mpl.rc_context(RC):
        pictures = save_figure(result.draw(frames, settings), folder / result.name)
    write_text(folder / f"{result.name}.md", summary)
    files = ", ".join(str(path) for path in pictures)
    return f"{result.name}: {result.title}\n\n{summary}\n{files}\n"
