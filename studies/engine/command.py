"""What the commands of all studies share: their options, running, presenting, exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

from angcal.cli.terminal import number_of, seed
from angcal.files import sweep, write_text
from studies import RESULTS
from studies.datasets import DatasetUnavailableError
from studies.engine.experiment import Result, Trial
from studies.engine.figures import RC, save_figure
from studies.engine.runner import read_tables, run_experiment
from studies.engine.store import StoreError, UnfinishedError

DONE, FAILED, WRONG_USAGE = 0, 1, 2


def say(message: str) -> None:
    """Print a note to standard error, beside what the command prints."""
    print(message, file=sys.stderr)


def add_run_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Describe the options of every command that runs experiments."""
    parser.set_defaults(folder=name)
    parser.add_argument(
        "--quick", action="store_true", help="a smaller version of everything, in minutes"
    )
    parser.add_argument(
        "--jobs",
        type=number_of("processes"),
        default=1,
        help="processes; -1 is one per core (default: 1)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run trials on the workers of this Dask scheduler, in place of --jobs; they need this "
        "repository and the datasets' folder",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder of the files (default: studies/results/{name}, or quick/{name} there)",
    )
    parser.add_argument("--seed", type=seed, help="another seed than the committed one")
    parser.add_argument(
        "--fresh", action="store_true", help="forget earlier rows of what is run and start over"
    )


def add_datasets_argument(parser: argparse.ArgumentParser) -> None:
    """Describe ``--datasets``."""
    parser.add_argument(
        "--datasets",
        nargs="+",
        metavar="DATASET",
        help="run trials of these only, now; tables and pictures show all that was ever run",
    )


def folder_of(options: argparse.Namespace) -> Path:
    """Where the files go: ``--out``, or the study's folder in ``studies/results``."""
    results = RESULTS / "quick" if options.quick else RESULTS
    return options.out or results / options.folder


def datasets_of(results: Sequence[Result], quick: bool) -> list[str]:
    """Datasets that some results are made from, each once."""
    settings = [result.experiment.quick if quick else result.experiment.full for result in results]
    named = [name for found in settings for name in getattr(found, "datasets", ())]
    return list(dict.fromkeys(named))


def known_datasets(options: argparse.Namespace, known: Sequence[str], owner: str) -> bool:
    """Whether ``--datasets`` names datasets of the owner only; says which it does not know."""
    unknown = [name for name in options.datasets or () if name not in known]
    if unknown:
        there = f"there are {', '.join(known)}" if known else "they have none"
        say(f"not a dataset of {owner}: {', '.join(unknown)}; {there}")
    return not unknown


def present_among(here: Collection[str], names: Sequence[str], note: str) -> set[str]:
    """Names that are here; the others go to standard error, in place of ``{}`` in the note."""
    absent = [name for name in names if name not in here]
    if absent:
        say(note.format(", ".join(absent)))
    return set(names) - set(absent)


def carry_out(
    results: Sequence[Result],
    options: argparse.Namespace,
    only: Callable[[Trial], bool] | None = None,
) -> int:
    """`run_and_present` with the options of `add_run_arguments`; returns the exit code.

    An error that a user can do something about becomes a sentence.
    """
    given = {name: getattr(options, name) for name in ("quick", "jobs", "fresh", "seed")}
    try:
        with on_cluster(options.cluster):
            run_and_present(results, folder=folder_of(options), only=only, **given)
    except (StoreError, UnfinishedError, DatasetUnavailableError) as error:
        say(str(error))
        return FAILED
    except OSError as error:
        say(f"cannot write to {error.filename}: {error.strerror}; pass another --out")
        return FAILED
    return DONE


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Trials run on the workers of a Dask scheduler; where they ran before without an address."""
    if address is None:
        yield
        return
    import joblib
    from distributed import Client

    with Client(address) as client, joblib.parallel_config(backend="dask", client=client):
        yield


def run_and_present(
    results: Sequence[Result],
    *,
    folder: Path,
    quick: bool = False,
    jobs: int = 1,
    fresh: bool = False,
    seed: int | None = None,
    only: Callable[[Trial], bool] | None = None,
) -> None:
    """Run the experiments of the results, each once, and present every result."""
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
    for suffix in ("md", "png", "svg"):
        sweep(folder, f"{result.name}.{suffix}")
    frames = read_tables(result.experiment, settings, folder)
    summary = result.summarize(frames, settings).strip() + "\n"
    write_text(folder / f"{result.name}.md", summary)
    told = f"{result.name}: {result.title}\n\n{summary}"
    if result.draw is None:
        return told
    with mpl.rc_context(RC):
        pictures = save_figure(result.draw(frames, settings), folder / result.name)
    return f"{told}\n{', '.join(str(path) for path in pictures)}\n"
