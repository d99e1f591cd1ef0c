"""Estimates: how long a scan will take and how large its store will be, from a measured sample of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm.config import resolve_threads
from fastmm.scans.design import Design
from fastmm.scans.outcomes import Outcome
from fastmm.scans.tasks import compute

_MOST_CELLS = 8
_MOST_TRIALS = 16


@dataclass(frozen=True)
class Estimate:
    """What a scan will need.

    Attributes
    ----------
    instances : int
    sampled : int
        Instances that were computed for the estimate.
    seconds : float
        On all threads of this machine.
    size : int
        Bytes of the store, or of the result in memory.
    failed : int
        Sampled instances that raised an exception.
    """

    instances: int
    sampled: int
    seconds: float
    size: int
    failed: int


def estimate(
    task: Any, grid: Any, trials: int, seed: int, *, chunk: int | None = None, threads: int | None = None
) -> Estimate:
    """Compute a few instances in up to 8 cells spread over the grid, and extrapolate.

    Parameters
    ----------
    task, grid, trials, seed, chunk, threads
        As in `fastmm.scan`.

    Returns
    -------
    Estimate
        The time takes each cell to be as expensive as the nearest sampled ones and all threads to be free.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.scans.estimate("converge", {"n": 2, "T": 3, "d": [2, 5]}, trials=50, seed=0).instances
    100
    """
    design = Design.of(task, grid, trials, seed, chunk)
    picked = np.unique(np.linspace(0, design.grid.size - 1, _MOST_CELLS).round().astype(int))
    count = min(_MOST_TRIALS, design.trials)
    seconds, failed = [], 0
    for place in (np.unravel_index(k, design.grid.shape) if design.grid.shape else () for k in picked):
        chunk_ = design.chunk_at(tuple(int(k) for k in place), 0, count)
        begin = time.perf_counter()
        rows = compute(chunk_, 1, lambda done: None)
        seconds.append((time.perf_counter() - begin) / count)
        failed += int(np.count_nonzero(rows.values["status"] == Outcome.error))
    every = np.interp(np.arange(design.grid.size), picked, seconds)
    total = float(every.sum()) * design.trials / resolve_threads(threads)
    row = sum(np.dtype(variable.dtype).itemsize for variable in design.variables.values())
    chunks = design.grid.size * -(-design.trials // design.chunk)
    size = chunks * (design.chunk * row + 4 * len(design.variables))
    return Estimate(design.instances, count * len(picked), total, size, failed)
