"""Engines: chunks computed by threads of this process, by any executor, or by a Dask cluster, a few at a time."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol

from fastmm.config import resolve_threads
from fastmm.scans.tasks import Chunk, Interrupted, Rows, compute

_AHEAD = 2  # chunks submitted for each worker: one at work, one waiting
_TRIES = 3  # of a chunk whose worker was lost again and again


class Engine(Protocol):
    """Where chunks are computed."""

    workers: int

    def submit(self, chunk: Chunk) -> Any:
        """A future of the chunk's rows."""

    def stop(self) -> None:
        """Ends what is running as far as that can be done."""

    def close(self) -> None:
        """Frees what the engine made itself."""


def work(chunk: Chunk, sharers: int) -> Rows:
    """A chunk in a worker: its inner threads are what the machine has for each of the `sharers` at work on it."""
    return compute(chunk, max(1, resolve_threads() // sharers), _go_on)


def _go_on(done: int) -> None:
    """Nobody can stop a chunk in another process."""


class Threads:
    """Threads of this process, one chunk each; when there are fewer chunks than threads, a chunk has several."""

    def __init__(self, threads: int, chunks: int) -> None:
        self.workers = max(1, min(threads, chunks))
        self._inner = max(1, threads // self.workers)
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="fastmm-scan")

    def submit(self, chunk: Chunk) -> Any:
        return self._pool.submit(compute, chunk, self._inner, self._check)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._pool.shutdown(wait=not self._stopped.is_set(), cancel_futures=True)

    def _check(self, done: int) -> None:
        if self._stopped.is_set():
            raise Interrupted


class Pool:
    """Any executor of `concurrent.futures` or with its `submit`; the user's own, so it is not shut down."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.workers = int(getattr(executor, "_max_workers", 0) or resolve_threads())

    def submit(self, chunk: Chunk) -> Any:
        return self._executor.submit(work, chunk, self.workers)

    def stop(self) -> None:
        """Chunks that run cannot be reached; they end by themselves."""

    def close(self) -> None:
        """The executor belongs to the user."""


class Cluster:
    """A Dask client. The scheduler gives chunks of a lost worker to others; what it gives up is submitted anew."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sharers = 1
        self.workers = 1
        self._count()

    def _count(self) -> None:
        """Workers come and go: all threads, and the most on one host."""
        hosts: dict[str, int] = {}
        for worker in self._client.scheduler_info(n_workers=-1)["workers"].values():
            hosts[worker["host"]] = hosts.get(worker["host"], 0) + int(worker["nthreads"])
        self.workers = max(1, sum(hosts.values()))
        self._sharers = max(1, *hosts.values(), 1)

    def submit(self, chunk: Chunk) -> Any:
        return self._client.submit(work, chunk, self._sharers, pure=False)

    def stop(self) -> None:
        """Futures are cancelled by the loop; the scheduler forgets them."""

    def close(self) -> None:
        """The client belongs to the user."""


def engine_for(executor: Any, threads: int | None, chunks: int) -> Engine:
    """The engine of what a user gave as `executor`."""
    if executor is None:
        return Threads(resolve_threads(threads), chunks)
    if threads is not None:
        raise ValueError("threads: got a number and an executor; allowed: one of them (executors have their workers)")
    if hasattr(executor, "scheduler_info"):
        return Cluster(executor)
    if isinstance(executor, Executor) or hasattr(executor, "submit"):
        return Pool(executor)
    raise TypeError(
        f"executor: got {type(executor).__name__}; allowed: None, a concurrent.futures executor or a Dask Client"
    )


def needs_pickle(executor: Any) -> bool:
    """Whether chunks travel by plain pickle (Dask's own reaches further)."""
    return isinstance(executor, ProcessPoolExecutor)


def run(engine: Engine, chunks: Iterator[Chunk]) -> Generator[Rows, None, None]:
    """The rows of all chunks, in the order they are done. Only a window of them is ever submitted."""
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pending: dict[Any, tuple[Chunk, int]] = {}

    def submit(chunk: Chunk, attempt: int) -> None:
        future = engine.submit(chunk)
        pending[future] = (chunk, attempt)
        future.add_done_callback(done.put)

    try:
        for chunk in itertools.islice(chunks, _AHEAD * engine.workers):
            submit(chunk, 1)
        while pending:
            future = done.get()
            chunk, attempt = pending.pop(future)
            try:
                rows = future.result()
            except Exception as error:
                if type(error).__name__ not in ("KilledWorker", "FutureCancelledError") or attempt == _TRIES:
                    raise
                submit(chunk, attempt + 1)
                continue
            for following in itertools.islice(chunks, 1):
                submit(following, 1)
            yield rows
    except BaseException:
        engine.stop()
        raise
    finally:
        for future in pending:
            future.cancel()
        engine.close()
