"""The progress bar of the studies: on a terminal only, with the time left."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Bar:
    """A bar that counts steps; nothing at all where standard error is no terminal."""

    def __init__(self, name: str, total: int | None = None, done: int = 0) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task(name, total=total, completed=done)
        self._progress.start()

    @property
    def total(self) -> float | None:
        """Steps in all; a download sets it once the size of the file is known."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, value: float | None) -> None:
        self._progress.update(self._task, total=value)

    def update(self, steps: int = 1) -> None:
        """Count steps."""
        self._progress.update(self._task, advance=steps)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
