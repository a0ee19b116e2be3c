"""The table of angcal predict, written whole or block by block; text in it is harmless."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from angcal.cli import terminal


def write_table(table: Any, options: argparse.Namespace) -> None:
    """Write a table that is at hand, or print it."""
    from angcal.files import write_text, written

    if options.out.lower().endswith(".parquet"):
        with written(Path(options.out)) as file:
            table.to_parquet(file, index=False, engine="pyarrow")
        return
    if not options.raw_text:
        table = _harmless(table)
    if options.out != "-":
        write_text(Path(options.out), table.to_csv(index=False))
    else:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file: names must not get lost
        table.to_csv(sys.stdout, index=False)


@contextmanager
def blocks_written(options: argparse.Namespace) -> Iterator[Callable[[Any], None]]:
    """A function that adds a block to the result, which has its name once it is complete."""
    from contextlib import ExitStack

    from angcal.files import written

    with ExitStack() as stack:
        file = None if options.out == "-" else stack.enter_context(written(Path(options.out)))
        if options.out.lower().endswith(".parquet"):
            import pyarrow as pa
            from pyarrow.parquet import ParquetWriter

            writers: list[Any] = []

            def write(table: Any) -> None:
                if not writers:
                    schema = pa.Table.from_pandas(table, preserve_index=False).schema
                    writers.append(stack.enter_context(ParquetWriter(file, schema)))
                block = pa.Table.from_pandas(table, writers[0].schema, preserve_index=False)
                writers[0].write_table(block)
        else:
            begun: list[bool] = []

            def write(table: Any) -> None:
                if not options.raw_text:
                    table = _harmless(table)
                text = table.to_csv(index=False, header=not begun)
                begun.append(True)
                if file is None:
                    sys.stdout.write(text)
                else:
                    file.write(text.encode("utf-8"))

        yield write


def _harmless(table: Any) -> Any:
    """The table with text that is neither a formula nor an order to a terminal that shows it."""
    from angcal.files import safe_cell
    from angcal.tables.errors import clean

    changed = 0

    def harmless(entry: Any) -> Any:
        nonlocal changed
        if not isinstance(entry, str):
            return entry
        safe = safe_cell(clean(entry))
        changed += safe != entry
        return safe

    text = [name for name in table.columns if table[name].dtype.kind not in "biuf"]
    table = table.assign(**{name: table[name].map(harmless) for name in text})
    table.columns = [harmless(name) for name in table.columns]
    if changed:
        terminal.tell(
            f"note: {changed} cells that look like formulas or hold control characters were made "
            "harmless; --raw-text leaves them as they are"
        )
    return table
