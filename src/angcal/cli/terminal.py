"""The terminal: what a command prints, its progress, its tables, and how it ends.

Text is printed so that it reaches every terminal: control characters from the data are replaced,
and letters that the output's encoding lacks are spelled out in ASCII.
"""

from __future__ import annotations

import io
import os
import sys
import textwrap
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from angcal.cli.interrupts import asked, end_if_asked
from angcal.tables.errors import MissingPackageError, clean

PATIENCE = 2.0  # seconds before a bar appears

COPIES = "copies"
"""What ``--groups`` calls rows that are equal in every feature."""


class Exit(IntEnum):
    """How a command ended, as its exit code."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    PACKAGE_MISSING = 3
    INTERRUPTED = 130


# -- what is printed ---------------------------------------------------------------------------


def say(text: str) -> None:
    """Print the result of a command, also where the output is not UTF-8."""
    text, encoding = clean(text), sys.stdout.encoding or "ascii"
    missing = {x for x in set(text) if x.encode(encoding, "ignore") == b""}
    signs = ("−-", "±+/-", "° deg", "…...", "×x", "ΣSigma", "⁻^-", "¹1")
    in_ascii = {sign[0]: sign[1:] for sign in signs}
    spelled = {ord(x): in_ascii.get(x, f"\\u{ord(x):04x}") for x in missing}
    print(text.translate(spelled))


def tell(message: str) -> None:
    """A note for the person at the terminal, beside what the command prints."""
    print(clean(message), file=sys.stderr)


@contextmanager
def noted() -> Iterator[list[str]]:
    """A list that has, at the end of the block, what was warned about in it."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield notes
    messages = (" ".join(str(entry.message).split()) for entry in caught)
    notes[:0] = dict.fromkeys(messages)


def wrap(text: str, indent: str = "") -> str:
    """A paragraph broken at the width of all that is printed."""
    return textwrap.fill(
        text, 96, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns side by side, without lines; all but the first `left` are aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for position, name in enumerate(header):
        justify: Any = "left" if position < left else "right"
        table.add_column(Text(name), justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=200, color_system=None)
    with console.capture() as printed:
        console.print(table)
    return "\n".join(line.rstrip() for line in printed.get().splitlines())


# -- progress ----------------------------------------------------------------------------------


@contextmanager
def stages(total: int) -> Iterator[Callable[[str], None]]:
    """A bar over `total` stages: call the result with the name of each as it begins.

    The bar appears after two seconds, and only where standard error is a terminal.
    """
    if not sys.stderr.isatty():
        yield end_if_asked
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    columns = (
        text,
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)
    begun = 0

    def begin(name: str) -> None:
        nonlocal begun
        end_if_asked()
        bar.update(task, completed=begun, description=clean(name))
        begun += 1

    patience = Timer(PATIENCE, bar.start)
    patience.daemon = True
    patience.start()
    try:
        yield begin
    finally:
        patience.cancel()
        patience.join()
        if bar.live.is_started:
            bar.stop()


# -- how a command ends ------------------------------------------------------------------------


class UsageError(ValueError):
    """The arguments cannot be meant; the message says why."""


def guarded(name: str, execute: Callable[[Namespace], None]) -> Callable[[Namespace], int]:
    """The named command with its exit code, and every error turned into a sentence.

    ``ANGCAL_DEBUG=1`` shows where an error was raised instead.
    """

    def run(options: Namespace) -> int:
        try:
            execute(options)
            sys.stdout.flush()  # here, where a reader who has left is no error
            return Exit.DONE
        except BrokenPipeError:
            # Whoever read our output has seen enough; Python must not try to flush the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.FAILED
        except Exception as error:
            if asked():
                raise KeyboardInterrupt from error
            if os.environ.get("ANGCAL_DEBUG"):
                raise
            return _ended(name, error)

    return run


def _ended(name: str, error: Exception) -> int:
    sentence = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        sentence = f"angcal {name}: there is not enough memory for this table; take fewer rows."
    elif isinstance(error, OSError) and error.filename is not None:
        sentence = f"cannot read or write {error.filename}: {error.strerror}; name another file."
    elif not isinstance(error, ImportError | ValueError):
        kind = type(error).__name__
        sentence = f"angcal {name} failed: {kind}: {sentence} (ANGCAL_DEBUG=1 shows where.)"
    tell(sentence)
    if isinstance(error, ImportError):
        return Exit.PACKAGE_MISSING
    return Exit.WRONG_USAGE if isinstance(error, UsageError) else Exit.FAILED


def require_packages(name: str, *packages: str) -> None:
    """Raise where a package is missing that the command needs; say which, and what to do."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise MissingPackageError(
            f"angcal {name} needs {' and '.join(missing)}; run: pip install 'angcal[cli]'"
        )


def check_out(path: Path, *suffixes: str, inputs: Sequence[Path] = ()) -> None:
    """Raise where ``--out`` cannot be written: better known before a long fit than after."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"--out {path} must end in {' or '.join(suffixes)}.")
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder; name a file in it.")
    if any(path.resolve() == read.resolve() for read in inputs):
        raise UsageError(
            f"--out {path} would overwrite its own input; name another file, or say --force."
        )
    if folder != path.parent and os.access(folder, os.W_OK):
        tell(f"note: the folder {path.parent} is not there and will be made")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"--out {path} cannot be written: {folder} is no folder that is open to you."
        )


# -- what more than one command takes ----------------------------------------------------------


def at_least(least: int, message: str) -> Callable[[str], int]:
    """A type of argument: whole numbers from `least` up, or the message."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ArgumentTypeError(message)
        return value

    return number


def between_zero_and_one(example: float) -> Callable[[str], float]:
    """A type of argument: numbers between 0 and 1, such as the example."""

    def number(text: str) -> float:
        value = float(text)
        if not 0.0 < value < 1.0:
            raise ArgumentTypeError(f"{text} is not between 0 and 1, as {example:g} is")
        return value

    return number


def seed(text: str) -> int:
    """A type of argument: seeds, which are whole numbers from 0 up."""
    number = int(text)
    if number < 0:
        raise ArgumentTypeError("a seed is a number from 0 up")
    return number


def number_of(what: str) -> Callable[[str], int]:
    """A type of argument: how many threads or processes, -1 for one per core."""

    def jobs(text: str) -> int:
        number = int(text)
        if number < -1 or number == 0:
            raise ArgumentTypeError(f"a number of {what} from 1 up, or -1 for one per core")
        return number

    return jobs


def add_table_arguments(parser: ArgumentParser, *, seed_help: str) -> None:
    """Arguments of the commands that fit a table."""
    parser.add_argument("data", type=Path, help="table with one row for each labeled case")
    parser.add_argument("--target", required=True, help="column with the classes")
    parser.add_argument(
        "--pool",
        type=Path,
        help="table of cases without labels: more rows than columns sharpen the angle",
    )
    parser.add_argument(
        "--groups",
        metavar="COLUMN",
        help="column that says which rows belong together, such as a patient's number: "
        "probabilities are then for rows of new groups; without a column of that name, 'copies' "
        "takes rows that are equal in every feature",
    )
    parser.add_argument(
        "--positive",
        metavar="CLASS",
        help="the class that is asked about; of three and more classes, the others become one",
    )
    parser.add_argument(
        "--id", metavar="COLUMN", help="column that identifies rows; it is no feature"
    )
    for option, what in (
        ("--drop", "leave this column out; repeat it, or put commas between names"),
        ("--keep", "use this column although it looks like an identifier"),
    ):
        parser.add_argument(option, metavar="COLUMN", action="append", default=[], help=what)
    add_reading_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--seed", type=seed, default=0, help=seed_help)
    parser.add_argument(
        "--jobs",
        type=number_of("threads"),
        help="threads of the linear algebra; -1 is one per core",
    )


def add_reading_arguments(parser: ArgumentParser) -> None:
    """Arguments that say how a table is written, where that cannot be seen from the file."""
    parser.add_argument(
        "--sep", metavar="MARK", help="what separates cells of a text file, such as ';' or tab"
    )
    parser.add_argument(
        "--encoding", help="of a text file, such as cp1252 (default: found from the file)"
    )
    parser.add_argument(
        "--sheet", metavar="NAME", help="sheet of a spreadsheet (default: the first)"
    )


def reading_options(options: Namespace) -> dict[str, Any]:
    """What `angcal.tables.read_table` takes of these."""
    return {"separator": options.sep, "encoding": options.encoding, "sheet": options.sheet}


def add_key(parser: ArgumentParser, purpose: str) -> None:
    """The argument ``--key`` of the commands that write or read a model file."""
    parser.add_argument("--key", metavar="FILE", type=Path, help=purpose)


class Tables(NamedTuple):
    """What the arguments of a command name; any but features and labels may be None."""

    large: Any
    features: Any
    y: Any
    pool: Any
    groups: Any
    row_names: list[str] | None


def read_tables(options: Namespace, *, large: bool = False) -> Tables:
    """A table that does not fit in memory, features, labels, pool, groups and names of the rows.

    What may be a mistake in the table is warned about. With ``large`` a Parquet file that does not
    fit in memory stays where it is; features are then those of some rows.
    """
    from angcal.tables.reading import check_file, read_table

    given = reading_options(options)
    if options.pool is not None:
        check_file(options.pool)
    table = _open_large(options) if large else None
    # Each import as late as it can be: what is refused is refused at once.
    if table is None:
        named = [] if options.groups in (None, COPIES) else [options.groups]
        needed = [options.target, *named]
        frame = read_table(options.data, needed=needed, target=options.target, **given)
        from angcal.tables.targets import split_target

        features, y = split_target(frame, options.target, positive=options.positive)
    else:
        features, y = table.sample, table.y
    groups = None
    of_copies = options.groups == COPIES and COPIES not in features.columns
    if options.groups is not None and not of_copies:
        from angcal.tables.targets import split_groups

        features, groups = split_groups(features, options.groups)
    from angcal.tables import choose_columns, warn_about

    row_names = None
    if options.id in features.columns:
        from angcal.tables.columns import as_text

        row_names = as_text(features[options.id])
    features = choose_columns(
        features, drop=options.drop, keep=options.keep, identifier=options.id or ""
    )
    if of_copies:
        groups = (
            features.groupby(list(features.columns), dropna=False, sort=False).ngroup().to_numpy()
        )
    shown = y if table is None else y[table.sampled]
    warn_about(features, shown, options.target, grouped=groups is not None)
    given |= {"sheet": None}  # of the table, not of the pool
    pool = None if options.pool is None else read_table(options.pool, **given)
    return Tables(table, features, y, pool, groups, row_names)


def _open_large(options: Namespace) -> Any:
    """The table where it does not fit in memory."""
    from angcal.tables.reading import is_large

    if not is_large(options.data):
        return None
    if options.groups is not None:
        raise UsageError(
            f"--groups {options.groups} needs the whole table in memory, and {options.data} does "
            "not fit; take fewer rows or columns."
        )
    from angcal.tables.fitting import open_large

    return open_large(options.data, options.target, positive=options.positive)


def threads(number: int | None) -> AbstractContextManager[Any]:
    """At most this many threads of BLAS and OpenMP; no limit for None and -1."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=None if number in (None, -1) else number)
