"""Design: all that fixes a scan's results, checked once, and the chunks it is cut into."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import fastmm
from fastmm.scans.converge import Converge
from fastmm.scans.grid import Grid, identity
from fastmm.scans.streams import cell_key
from fastmm.scans.tasks import ALWAYS, Chunk, FunctionTask, Task, Variable

_CHUNK_BYTES = 1 << 25  # of tokens, at most
_CHUNK_SECONDS = 0.5  # of one core, about
_SECONDS_PER_TOKEN_STEP = 1e-9  # times d: a slow core's time, only for the size of chunks


@dataclass(frozen=True)
class Design:
    """Task, grid, number of trials, seed and chunk length of a scan."""

    task: Task
    grid: Grid
    trials: int
    seed: int
    chunk: int
    variables: dict[str, Variable] = field(repr=False)

    @classmethod
    def of(cls, task: Any, grid: Any, trials: Any, seed: Any, chunk: Any) -> Design:
        """Checks the arguments of `scan`."""
        known = _as_task(task)
        trials = _integer("trials", trials, 1)
        seed = _integer("seed", seed, 0)
        cells = Grid.of(grid, known.clean, known.defaults)
        for _, cell in cells.cells():
            known.check(cell)
        if isinstance(known, FunctionTask):
            first = cells.at((0,) * len(cells.axes))
            known.learn_variables(first, cell_key(seed, identity(first)))
        for name in cells.axes:
            if name in known.variables:
                raise ValueError(f"grid: {name} is a variable of the task; allowed: other names")
        chunk = _default_chunk(cells, trials) if chunk is None else _integer("chunk", chunk, 1)
        return cls(known, cells, trials, seed, chunk, ALWAYS | known.variables)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the variables: axes, then trials."""
        return (*self.grid.shape, self.trials)

    @property
    def instances(self) -> int:
        """Number of instances."""
        return math.prod(self.shape)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What a store must agree in to be continued: all that decides on the results, and the chunk length."""
        return {
            "task": self.task.name,
            "seed": self.seed,
            **self.grid.described(),
            "chunk": self.chunk,
            "fastmm": fastmm.__version__,
        }

    def chunk_at(self, place: tuple[int, ...], first: int, count: int) -> Chunk:
        """One piece of work."""
        cell = self.grid.at(place)
        return Chunk(self.task, cell, place, cell_key(self.seed, identity(cell)), first, count)

    def chunks(self, missing: Any) -> Iterator[Chunk]:
        """The work left, made one piece at a time; ``missing(place)`` is a mask (trials,) of a cell's trials."""
        for place, _ in self.grid.cells():
            left = missing(place)
            for first in range(0, self.trials, self.chunk):
                wanted = np.flatnonzero(left[first : first + self.chunk])
                if wanted.size:  # from the first to the last one missing
                    yield self.chunk_at(place, first + int(wanted[0]), int(wanted[-1] - wanted[0]) + 1)


def _as_task(task: Any) -> Task:
    if task == "converge":
        return Converge()
    if callable(task) and hasattr(task, "__qualname__"):
        return FunctionTask(task)
    raise ValueError(f"task: got {task!r}; allowed: 'converge' or a function")


def _integer(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: got {value!r}; allowed: an integer, {least} or more")
    return int(value)


def _default_chunk(grid: Grid, trials: int) -> int:
    """About half a second of work in the most expensive cell, a power of two, with bounded memory."""
    sizes = []
    for _, cell in grid.cells():
        if not {"n", "T", "d", "steps"} <= set(cell):
            return min(trials, 256)
        entries = cell["n"] * cell["T"] * cell["d"]
        seconds = entries * (1000 + cell["steps"]) * _SECONDS_PER_TOKEN_STEP
        sizes.append(min(_CHUNK_SECONDS / seconds, _CHUNK_BYTES / (8 * entries)))
    power = int(math.log2(max(1.0, min(sizes))))
    return min(trials, 1 << min(power, 12))
