"""Where graphs run: a client's cluster, watched, or the threads of this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any, ClassVar

import dask
from dask.optimization import cull
from threadpoolctl import threadpool_limits

from angcal import plan

LOG = logging.getLogger("angcal.dask")
# For errors such as a flaky read; the death of a worker is not one of them.
RETRIES = 2
FAN_IN = 4


class ClusterError(RuntimeError):
    """A cluster cannot go on: no workers, no progress, no scheduler.

    Attributes
    ----------
    point : array or None
        Where Newton's method was; ``fit(..., resume=error.point)`` goes on from there.

    See Also
    --------
    BlockSizeError : Blocks that would not fit are refused before the start.

    Examples
    --------
    >>> ClusterError("no workers").point is None
    True
    """

    point: Any = None


class BlockSizeError(ValueError):
    """Blocks are too large for the workers' memory; the message has a size that fits.

    See Also
    --------
    ClusterError : What is raised where a cluster fails later.

    Examples
    --------
    >>> isinstance(BlockSizeError("too large"), ValueError)
    True
    """


@dataclass(frozen=True)
class Patience:
    """Seconds after which a pass is given up, and what counts as work until then."""

    workers: float = 30.0  # Without any worker
    work: float = 45.0  # Without a task that starts or ends, while no worker does anything
    progress: float = 300.0  # Without that, whatever workers do
    # Both at least so many times the longest silence that was seen to end well
    longer: float = 10.0
    look: float = 1.0  # Between looks whether there are workers, and at what they do
    ask: float = 5.0
    # Workers that wait take 2 to 5 % of a core and exchange a few kB each second.
    cpu: float = 10.0
    traffic: float = 1e6  # Bytes per second

    def without_progress(self, workers: Iterable[dict[str, Any]], longest: float) -> float:
        """Seconds without a block that starts or ends that are too many, for these workers."""
        works = any(self._works(worker.get("metrics", {})) for worker in workers)
        return max(self.progress if works else self.work, self.longer * longest)

    def _works(self, metrics: dict[str, Any]) -> bool:
        """Whether a worker computes, reads or sends, by what it last told of itself."""
        net, disk = metrics.get("host_net_io", {}), metrics.get("host_disk_io", {})
        moved = max(net.get("read_bps", 0.0), net.get("write_bps", 0.0), disk.get("read_bps", 0.0))
        return bool(metrics.get("cpu", 100.0) > self.cpu or moved > self.traffic)


class Engine:
    """Runs one graph after the other.

    Parameters
    ----------
    client : distributed.Client or None
        None for the client that is current, or for threads where there is none.
    """

    patience: ClassVar[Patience] = Patience()

    def __init__(self, client: Any = None) -> None:
        self.client = _current_client() if client is None else client
        self.block = ""
        self._longest_silence = 0.0

    # -- memory ------------------------------------------------------------------------------

    def _workers(self) -> list[tuple[float, int]]:
        """(memory limit, threads) of every worker; of this machine where there is no client."""
        if self.client is None:
            from dask.system import CPU_COUNT
            from distributed.system import MEMORY_LIMIT

            return [(float(MEMORY_LIMIT), int(CPU_COUNT))]
        found = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return [(float(worker["memory_limit"] or 0.0), int(worker["nthreads"])) for worker in found]

    def persists(self, n_bytes: float, persist: Any) -> bool:
        """Whether rows of so many bytes are kept in memory: at most half of all there is."""
        if persist not in (True, False, "auto"):
            raise ValueError(f"persist={persist!r} must be True, False or 'auto'.")
        if persist != "auto":
            return bool(persist)
        limits = [limit for limit, _ in self._workers()]
        return bool(limits) and (min(limits) == 0 or n_bytes <= 0.5 * sum(limits))

    def check_memory(self, rows: int, row_bytes: float, n_bytes: float, width: int) -> None:
        """Refuse blocks that do not fit a worker, with a number of rows that would.

        Parameters
        ----------
        rows, row_bytes : int, float
            Rows of the largest block, and bytes of each.
        n_bytes : float
            Of all rows that are kept in memory; 0 where none are.
        width : int
            Side of the matrices that a pass brings back; 0 where it brings none.
        """
        workers = self._workers()
        self.block = f"{rows} rows ({rows * row_bytes / 1e6:.0f} MB)"
        limited = [(limit, threads) for limit, threads in workers if limit > 0]
        if not limited:
            return
        limit, threads = min(limited)
        matrix = 8.0 * width**2
        # Dask pauses a worker at 0.8 of its memory, and libraries take 150 MB to begin with.
        room = 0.75 * limit - (150 << 20) - n_bytes / len(workers) - FAN_IN * matrix
        # A block, its copy, and pieces of it in double precision with their products.
        piece = min(8.0 * plan.BLOCK_ENTRIES, rows * row_bytes * 2.0)
        room_for_rows = room / threads - 3.0 * piece - 2.0 * matrix
        if rows * row_bytes * 2.0 <= room_for_rows:
            return
        if room_for_rows <= 0:
            way_out = "give workers more memory or fewer threads"
            if n_bytes:
                way_out += ", or pass persist=False"
        else:
            fitting = max(1, int(room_for_rows / (2.0 * row_bytes)))
            way_out = f"make them smaller: X = X.rechunk(({fitting}, -1))"
        raise BlockSizeError(
            f"Blocks of {self.block} do not fit workers of {limit / 1e6:.0f} MB with {threads} "
            f"threads; {way_out}."
        )

    # -- running -----------------------------------------------------------------------------

    def persist(self, collection: Any) -> Any:
        """The collection, its blocks in the memory of the workers, with the way to make them."""
        if self.client is None:
            return collection.persist(scheduler="threads")
        with _large_graphs():
            kept = self.client.persist(collection, retries=RETRIES)
        self._watch(_futures(kept))
        return kept

    def keep(self, graph: dict[Any, Any], keys: list[Any]) -> list[Any]:
        """What stands for the values of the keys in other graphs: they stay where they are made."""
        if self.client is None:
            return self._run_threads(graph, keys)
        with _large_graphs():
            futures = self.client.get(graph, keys, sync=False, retries=RETRIES)
        self._watch(futures)
        return list(futures)

    def run(self, graph: dict[Any, Any], keys: list[Any], title: str) -> list[Any]:
        """Values of the keys."""
        start = time.monotonic()
        if self.client is None:
            found = self._run_threads(graph, keys)
        else:
            with _large_graphs():
                futures = self.client.get(graph, keys, sync=False, retries=RETRIES)
            found = self._watch(futures, gather=True)
        LOG.info("%s: %.2f s", title, time.monotonic() - start)
        return found

    def _run_threads(self, graph: dict[Any, Any], keys: list[Any]) -> list[Any]:
        from dask.threaded import get

        needed, _ = cull(graph, keys)
        # One thread of BLAS for each task: there are as many tasks at a time as cores.
        with threadpool_limits(1):
            return list(get(needed, keys))

    def _watch(self, futures: list[Any], gather: bool = False) -> list[Any]:
        """Wait for futures; an error that says why where they will never come."""
        from distributed import CancelledError, KilledWorker, wait
        from distributed.comm import CommClosedError

        watchdog = _Watchdog(self.client, self.patience, self._longest_silence)
        pool = ThreadPoolExecutor(1)
        try:
            # A result may be lost with its worker before it is fetched: both are waited for.
            waiting = pool.submit(self.client.gather if gather else wait, futures)
            while not waiting.done():
                watchdog.look()
                wait_for([waiting], timeout=self.patience.look)
            return list(waiting.result()) if gather else []
        except KilledWorker as error:
            self.client.cancel(futures, force=True)
            raise ClusterError(
                f"A block killed its worker again and again, probably for lack of memory. Blocks "
                f"have {self.block}; make them smaller with X.rechunk, or give workers more memory."
            ) from error
        except (CancelledError, CommClosedError, OSError) as error:
            raise ClusterError(
                f"The connection to the scheduler is lost ({error}). Connect again and pass "
                "fit(..., resume=error.point) to go on."
            ) from error
        except _StoppedError as error:
            self.client.cancel(futures, force=True)
            raise ClusterError(f"{error} Blocks have {self.block}.") from None
        finally:
            pool.shutdown(wait=False)
            self._longest_silence = max(self._longest_silence, watchdog.longest)


class _StoppedError(Exception):
    """Nothing will come any more."""


class _Watchdog:
    """Looks whether there are workers, and whether they get on."""

    def __init__(self, client: Any, patience: Patience, longest: float) -> None:
        self._client, self._patience, self.longest = client, patience, longest
        now = time.monotonic()
        self._alive = self._changed = self._asked = self._looked = now
        self._state: Any = None

    def look(self) -> None:
        """Raise where there has been no worker, or no progress, for too long."""
        now, patience = time.monotonic(), self._patience
        if now - self._looked < patience.look:
            return
        self._looked = now
        if self._client.nthreads():
            self._alive = now
        else:
            self._changed = now  # workers that are being started are not a pass that stands still
        if now - self._alive > patience.workers:
            raise _StoppedError(
                f"There has been no worker for {patience.workers:.0f} s. They may have run out of "
                "memory: make blocks smaller with X.rechunk, give workers more memory, or start "
                "new ones and pass fit(..., resume=error.point)."
            )
        if now - self._asked < patience.ask:
            return
        self._asked = now
        state = {worker: tuple(keys) for worker, keys in self._client.processing().items()}
        if state != self._state:
            self.longest = max(self.longest, now - self._changed)
            self._state, self._changed = state, now
        elif now - self._changed > patience.without_progress(self._workers(), self.longest):
            raise _StoppedError(
                f"No block has started or ended for {now - self._changed:.0f} s. Workers may be "
                "paused for lack of memory: make blocks smaller with X.rechunk, or give them more."
            )

    def _workers(self) -> Iterable[dict[str, Any]]:
        return self._client.scheduler_info(n_workers=-1)["workers"].values()


def _current_client() -> Any:
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def _futures(collection: Any) -> list[Any]:
    from distributed import futures_of

    return futures_of(collection)


def _large_graphs() -> Any:
    """Vectors of n numbers are part of graphs here, which Dask would warn of."""
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"})


def flat_keys(keys: Iterable[Any]) -> list[Any]:
    """Keys of blocks in order, out of nested lists."""
    found: list[Any] = []
    for key in keys:
        found.extend(flat_keys(key) if isinstance(key, list) else [key])
    return found
