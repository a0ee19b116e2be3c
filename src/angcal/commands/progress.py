"""Progress on the terminal for what takes over two seconds; silent where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE, PERIOD = 2.0, 0.5
FORMAT = "{desc} {bar:20} {n_fmt}/{total_fmt} [{elapsed}]"


@contextmanager
def stages(total: int) -> Iterator[Callable[[str], None]]:
    """A bar over the stages of a command: call the result with the name of each as it begins.

    Parameters
    ----------
    total : int
        How many stages there are.
    """
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from tqdm import tqdm

    bar = tqdm(total=total, leave=False, delay=PATIENCE, bar_format=FORMAT, file=sys.stderr)
    begun = 0

    def begin(name: str) -> None:
        nonlocal begun
        bar.n, begun = begun, begun + 1
        bar.set_description_str(name, refresh=False)

    finished = Event()
    # One call to linear algebra may take minutes: only a thread can keep the clock going.
    clock = Thread(target=_tick, args=(bar, finished), daemon=True)
    clock.start()
    try:
        yield begin
    finally:
        finished.set()
        clock.join()
        bar.close()


def _tick(bar: Any, finished: Event) -> None:
    if finished.wait(PATIENCE):
        return
    while True:
        bar.refresh()
        bar.last_print_t = bar.start_t + PATIENCE  # so that close() clears what was shown
        if finished.wait(PERIOD):
            return


def watched(items: Iterable[T], total: int, name: str) -> Iterable[T]:
    """The items, with a bar once they have taken two seconds."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(
        items, total=total, desc=name, leave=False, delay=PATIENCE, file=sys.stderr
    )
    return bar
