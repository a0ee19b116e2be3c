"""Finished trials on disk: none is lost when a run is killed, none counted twice when it resumes.

A trial that ends is appended to a journal and synced before the next one is waited for. The CSV
files are written from complete trials only, in the order of the trials, under another name first.
So they do not depend on how many processes ran, in which order trials ended, or how often the run
was stopped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from angcal.files import sweep, write_text
from studies.engine.experiment import Cell, Experiment, Tables

TRIAL = "trial"
Lines = list[list[str]]


class StoreError(RuntimeError):
    """The files cannot be continued; the message says why and what to do."""


class UnfinishedError(RuntimeError):
    """The files can be continued, and have to be before anything can be shown of them."""


def formatted(value: Cell) -> str:
    """Text of a cell: ten significant digits are beyond any Monte Carlo error and any rounding."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return f"{value:.10g}"
    return str(value)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A CSV file of rows; a column for every name in them, empty where a row has it not."""
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of such a file, as text; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Store:
    """The rows of one experiment under one folder.

    Notes
    -----
    ``<name>.json`` holds the settings, ``.<name>.journal`` the trials of an unfinished run, one
    line each: a checksum and the rows as JSON, null for a trial that was forgotten. A line that a
    kill has cut fails its checksum.
    """

    def __init__(self, folder: Path, experiment: Experiment, settings: Any) -> None:
        self.folder = folder
        self.experiment = experiment
        self.settings = {"experiment": experiment.name, **_plain(asdict(settings))}
        self.n_trials = len(experiment.trials(settings))
        self._done: dict[int, dict[str, Lines]] = {}
        self._added = False

    @property
    def journal(self) -> Path:
        """Trials of an unfinished run."""
        return self.folder / f".{self.experiment.name}.journal"

    @property
    def record(self) -> Path:
        """The settings that the rows were made with."""
        return self.folder / f"{self.experiment.name}.json"

    def path(self, table: str) -> Path:
        """The CSV file of a table."""
        suffix = f"-{table}" if table else ""
        return self.folder / f"{self.experiment.name}{suffix}.csv"

    @property
    def pending(self) -> list[int]:
        """Trials that are still to be run, in order."""
        return [index for index in range(self.n_trials) if index not in self._done]

    @contextmanager
    def opened(self, *, fresh: bool = False) -> Iterator[Store]:
        """Find what earlier runs have finished, then keep the folder to oneself while adding to it.

        The CSV files are written at the end, on an interrupt as well; after a kill the journal has
        what they lack.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.journal.open("ab") as self._file:
            _lock(self._file, self.folder)
            self._sweep(fresh)
            try:
                self._load()
                yield self
            finally:
                if self._added:
                    self._write_csv()
                if not self._file.tell() or not self.pending:
                    self.journal.unlink()

    def add(self, index: int, tables: Tables) -> None:
        """Make one finished trial permanent."""
        if index in self._done:
            raise StoreError(f"trial {index} of {self.experiment.name} was run twice")
        self._done[index] = self._lines(index, tables)
        self._append([(index, self._done[index])])
        self._added = True

    def forget(self, indices: Iterable[int]) -> None:
        """Delete finished trials, so that they are pending again; the others stay."""
        forgotten = set(indices) & self._done.keys()
        if not forgotten:
            return
        for index in forgotten:
            del self._done[index]
        # In the journal first: a kill between two files leaves trials with a part of their rows.
        self._append([(index, None) for index in sorted(forgotten)])
        self._write_csv()
        self._file.truncate(0)

    def _append(self, entries: Iterable[tuple[int, dict[str, Lines] | None]]) -> None:
        """Lines of the journal: trials with their rows, or None for trials that are forgotten."""
        for entry in entries:
            body = json.dumps(entry).encode()
            self._file.write(_checksum(body) + b" " + body + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _sweep(self, fresh: bool) -> None:
        """Delete what a kill has left half-written; everything, for a fresh start."""
        files = [*map(self.path, self.experiment.tables), self.record]
        for path in files:
            sweep(self.folder, path.name)
        if fresh:
            self._file.truncate(0)
            for path in files:
                path.unlink(missing_ok=True)

    # -- reading -------------------------------------------------------------------------------

    def _load(self) -> None:
        if not self.record.exists():
            self._file.truncate(0)
            write_text(self.record, json.dumps(self.settings, indent=1) + "\n")
            return
        self._check_settings(_read_json(self.record))
        if all(self.path(table).exists() for table in self.experiment.tables):
            self._load_csv()
        # A kill between two files leaves trials in one of them; the journal has them whole.
        self._load_journal()
        self._check_complete()

    def _check_settings(self, found: Mapping[str, Any]) -> None:
        differing = [
            f"{name} {found.get(name)!r} there and {self.settings.get(name)!r} here"
            for name in dict.fromkeys([*found, *self.settings])
            if found.get(name) != self.settings.get(name)
        ]
        if differing:
            raise StoreError(
                f"{self.record} was made with other settings: {'; '.join(differing)}. Pass --fresh "
                "for all trials to replace it, delete it, or pass --out to write elsewhere."
            )

    def _load_csv(self) -> None:
        numbers = {str(index): index for index in range(self.n_trials)}
        for table, columns in self.experiment.tables.items():
            path = self.path(table)
            header, *rows = _read_csv(path) or [[]]
            if header != [TRIAL, *columns]:
                raise StoreError(
                    f"{path} has the columns {', '.join(header)}, not "
                    f"{', '.join([TRIAL, *columns])}. Pass --fresh to replace it."
                )
            for line in rows:
                if len(line) != len(header) or line[0] not in numbers:
                    raise StoreError(f"{path} has a broken row {line}; pass --fresh.")
                empty: dict[str, Lines] = {name: [] for name in self.experiment.tables}
                self._done.setdefault(numbers[line[0]], empty)[table].append(line)

    def _check_complete(self) -> None:
        """Refuse files that lost the rows of a trial in one table, by an edit or a merge."""
        required = set(self.experiment.tables) - set(self.experiment.optional_tables)
        for index, tables in self._done.items():
            lost = [
                name for name in self.experiment.tables if name in required and not tables[name]
            ]
            if lost:
                raise StoreError(
                    f"{self.path(lost[0])} has lost the rows of trial {index}; restore it, or pass "
                    "--fresh to start over."
                )

    def _load_journal(self) -> None:
        whole = 0
        for line in self.journal.read_bytes().splitlines(keepends=True):
            checksum, _, body = line.rstrip(b"\n").partition(b" ")
            if not line.endswith(b"\n") or checksum != _checksum(body):
                break
            index, tables = json.loads(body)
            if tables is None:
                self._done.pop(index, None)
            else:
                self._done[index] = tables
            self._added, whole = True, whole + len(line)
        # Only a kill in the middle of the last line leaves more than that.
        self._file.truncate(whole)

    # -- writing -------------------------------------------------------------------------------

    def _lines(self, index: int, tables: Tables) -> dict[str, Lines]:
        unknown = set(tables) - set(self.experiment.tables)
        if unknown or not any(tables.values()):
            raise StoreError(f"trial {index} of {self.experiment.name} returned {dict(tables)}")
        return {
            table: [
                [str(index), *(formatted(row[column]) for column in columns)]
                for row in tables.get(table, ())
            ]
            for table, columns in self.experiment.tables.items()
        }

    def _write_csv(self) -> None:
        for table, columns in self.experiment.tables.items():
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow([TRIAL, *columns])
            for index in sorted(self._done):
                writer.writerows(self._done[index][table])
            write_text(self.path(table), text.getvalue())


def _plain(value: Any) -> Any:
    """The value as JSON would give it back: tuples become lists."""
    return json.loads(json.dumps(value))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is not JSON ({error}); pass --fresh to start over.") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path} does not hold settings; pass --fresh to start over.")
    return found


def _read_csv(path: Path) -> Lines:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file, strict=True))
    except (ValueError, csv.Error) as error:
        raise StoreError(f"{path} is not CSV ({error}); pass --fresh to start over.") from error


def _checksum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)


def _lock(file: Any, folder: Path) -> None:
    """Refuse a second run in the same folder; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that ended between opening and locking has deleted the file that is locked now.
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):
            raise FileNotFoundError(file.name)
    except OSError as error:
        raise StoreError(
            f"another run is writing to {folder}; wait for it, or pass --out to write elsewhere."
        ) from error


# -- rows of small studies in one CSV file -------------------------------------------------------

Row = dict[str, str]


def by_cell(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by what stands in these columns, in the order in which cells come first."""
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in names), []).append(row)
    return cells


def numbers(rows: Iterable[Row], name: str) -> np.ndarray:
    """One column."""
    return np.array([float(row[name]) for row in rows])


def printed(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a CSV file; each is printed as soon as it is made, and its warnings are not."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            found.append(row)
            print(row, flush=True)
    write_text(path, as_csv(found))


def resumed(
    path: Path,
    columns: Sequence[str],
    designs: Sequence[tuple[object, ...]],
    trial: Callable[..., list[list[object]]],
    fresh: bool = False,
) -> list[Row]:
    """Rows of all designs; those that were done before are kept."""
    rows = [] if fresh else read_csv(path)
    keys = columns[: len(designs[0])]
    done = {tuple(row[key] for key in keys) for row in rows}
    for design in designs:
        key = tuple(map(str, design))
        if key in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trial(*design)
        for values in found:
            shown = [f"{v:.5g}" if isinstance(v, float) else str(v) for v in values]
            rows.append(dict(zip(columns, [*key, *shown], strict=True)))
        write_text(path, as_csv(rows))
    return rows
