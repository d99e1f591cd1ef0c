"""scan: a task over a grid and many trials, with nothing lost."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.scans import engines
from fastmm.scans.design import Design
from fastmm.scans.results import Memory
from fastmm.scans.seeing import watch
from fastmm.scans.statistics import Aggregates, summarise

if TYPE_CHECKING:
    import xarray as xr


def scan(
    task: Any,
    grid: Any,
    trials: int,
    seed: int,
    store: Any = None,
    executor: Any = None,
    progress: bool = True,
    *,
    reduce: bool = False,
    chunk: int | None = None,
    threads: int | None = None,
    resume: bool = True,
) -> xr.Dataset:
    """Compute a task for every cell of a grid, many random trials each.

    Parameters
    ----------
    task : {"converge"} or callable
        "converge" generates random problems, runs gradient descent, solves the max-margin program of the selected
        tokens and classifies them, whole batches in the compiled core. A function ``f(rng, **cell)`` is called once a
        trial with a `numpy.random.Generator` and returns a number, or a mapping of names to numbers; see
        `fastmm.scans.batched` for functions of many trials.
    grid : mapping
        Names to values; lists (tuples, ranges, arrays) become dimensions. For "converge": n, T, d, and if wanted
        generator ("sphere", "gaussian", "mixture", "benign", a generator of `fastmm.scans`, or a function
        ``f(rng, n, T, d)`` that returns a Problem, ``(X, Y, v)`` or a mapping), loss, rule, lr, steps and train as in
        `fastmm.descend`.
    trials : int
        Instances a cell.
    seed : int
        0 or more. Each instance has a random stream of its own, made of the seed, the cell's settings and the trial.
    store : path, optional
        A Zarr store (format 3) that is made, or continued if it is there with the same settings. Needs Zarr 3.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where to compute; by default in threads of this process. It is not shut down.
    progress : bool
        Show progress: rate, time left, failures.
    reduce : bool
        Return statistics over the trials (`fastmm.scans.summarise`) and keep no instances in memory; a store keeps them
        all the same.
    chunk : int, optional
        Trials computed and stored together; by default about half a second of work.
    threads : int, optional
        Threads of the default engine; see `fastmm.config.resolve_threads`.
    resume : bool
        Whether an existing store is continued or refused.

    Returns
    -------
    xarray.Dataset
        Variables over (axes..., trial), or with `reduce` over (axes..., statistic). `status` has the codes of
        `fastmm.scans.Outcome`: an instance that failed is a row like others. The attribute ``complete`` is 0 after
        Ctrl-C, when what was done until then is returned.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no scan; for a store with other settings, with a list of the differences.
    RuntimeError
        When another scan writes to the store.
    OSError
        When the store cannot be written to (a full disk): what was stored before is whole.

    Notes
    -----
    All variables but `seconds` have the same bits for any chunk length, number of threads, executor and cluster, and
    after any number of interruptions; more trials keep the old ones, and so do more values and axes. Memory: the
    variables of all instances without a store, else a few chunks.

    Examples
    --------
    >>> import fastmm as mm
    >>> data = mm.scan("converge", {"n": 2, "T": 3, "d": [2, 5]}, trials=4, seed=0, progress=False)
    >>> dict(data.sizes)
    {'d': 2, 'trial': 4}
    >>> bool((data.status == mm.scans.Outcome.ok).all())
    True
    """
    if store is not None and chunk is None:
        from fastmm.scans.store import stored_chunk

        chunk = stored_chunk(store)
    design = Design.of(task, grid, trials, seed, chunk)
    _need_flag("progress", progress)
    if engines.needs_pickle(executor):
        _need_picklable(design)
    sink: Any
    if store is not None:
        from fastmm.scans.store import ZarrStore

        sink = ZarrStore(store, design, resume)
    else:
        sink = Aggregates(design) if reduce else Memory(design)
    try:
        complete = _fill(design, sink, executor, progress, threads)
        data: xr.Dataset = sink.dataset()
    finally:
        sink.close()
    if reduce and store is not None:
        data = summarise(data)
    data.attrs = {"errors": sink.errors.text(), **data.attrs, "complete": int(complete)}
    return data


def _fill(design: Design, sink: Any, executor: Any, progress: bool, threads: int | None) -> bool:
    """Computes what is missing; False when Ctrl-C ended it."""
    left = [int(np.count_nonzero(sink.missing(place))) for place, _ in design.grid.cells()] if progress else None
    done = 0 if left is None else design.instances - sum(left)
    chunks = design.grid.size * -(-design.trials // design.chunk)
    engine = engines.engine_for(executor, threads, chunks)
    try:
        results = engines.run(engine, design.chunks(sink.missing))
        with closing(results), watch(progress, design, done) as seen:
            for rows in results:
                sink.write(rows)
                seen(rows)
    except KeyboardInterrupt:
        return False
    return True


def _need_picklable(design: Design) -> None:
    try:
        pickle.dumps((design.task, design.grid))
    except Exception as error:
        raise ValueError(
            f"task or grid: cannot be sent to other processes ({error}); allowed: functions of a module that these "
            "can import, or a Dask Client"
        ) from error


def _need_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: got {value!r}; allowed: True or False")
