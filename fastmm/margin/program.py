"""A validated batch of max-margin programs and the options of a solve: what every solver is given."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fastmm import _core, arrays
from fastmm.arrays import FloatArray, IntArray
from fastmm.config import resolve_threads
from fastmm.margin.result import MaxMargin

SOLVERS = ("auto", "active-set", "osqp")


class Rows(NamedTuple):
    """One program in full: ``A w >= b``, ``E w = e``, and the place of each inequality in the flattened row shape."""

    A: FloatArray
    b: FloatArray
    E: FloatArray
    e: FloatArray
    place: IntArray


class Program(ABC):
    """A batch of programs of one kind."""

    name: str
    solver = "active-set"  # of native()
    row_name = "rows"
    norm = 2.0  # p of the l_p norm that is minimised; native() knows 2 only
    batch: tuple[int, ...]
    row_shape: tuple[int, ...]
    d: int

    @property
    def count(self) -> int:
        """Number of programs."""
        return math.prod(self.batch)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the solution of one program; d is the number of its entries."""
        return (self.d,)

    @abstractmethod
    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled active set."""

    def solved(self, options: Options, start_dual: FloatArray | None) -> tuple[dict[str, Any], str]:
        """All programs solved in the way that suits them, and its name."""
        return self.native(options.settings(self, start_dual)), self.solver

    @abstractmethod
    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch."""

    def describe(self, places: list[int]) -> str:
        """Names rows, given by their places in the flattened row shape, in the terms of this kind of program."""
        return f"{self.row_name} {', '.join(map(str, places))}"


@dataclass(frozen=True)
class Options:
    """How to solve; checked on construction. The time limit runs from there."""

    solver: str = "auto"
    start: Any = None
    max_iter: int | None = None
    time_limit: float | None = None
    threads: int | None = None
    throw: bool = True
    allowed: tuple[str, ...] = SOLVERS
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.solver not in self.allowed:
            allowed = ", ".join(repr(name) for name in self.allowed)
            raise ValueError(f"solver: got {self.solver!r}; allowed: {allowed}")
        limit = self.max_iter
        if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or int(limit) < 1):
            raise ValueError(f"max_iter: got {limit!r}; allowed: None or a positive integer")
        seconds = self.time_limit
        if seconds is not None:
            number = isinstance(seconds, int | float | np.integer | np.floating) and not isinstance(seconds, bool)
            if not number or not seconds > 0:
                raise ValueError(f"time_limit: got {seconds!r}; allowed: None or a positive number of seconds")
        resolve_threads(self.threads)

    @property
    def seconds_left(self) -> float:
        """Time until the limit, at most 0 when it has passed."""
        return math.inf if self.time_limit is None else float(self.time_limit) - (time.monotonic() - self.begun)

    def settings(self, program: Program, start_dual: FloatArray | None = None) -> _core.MarginSettings:
        """The same for the compiled solver; `start_dual` (count, rows) replaces the start the user gave."""
        dual, point = (start_dual, None) if start_dual is not None else starting(self.start, program)
        return _core.MarginSettings(
            start_dual=dual,
            start_point=point,
            max_iter=-1 if self.max_iter is None else int(self.max_iter),
            seconds=self.seconds_left,
            threads=resolve_threads(self.threads),
        )


def starting(start: Any, program: Program) -> tuple[FloatArray | None, FloatArray | None]:
    """Multipliers (count, rows) or points (count, d) to start from, or neither."""
    if start is None:
        return None, None
    is_result = isinstance(start, MaxMargin)
    array = arrays.floats("start", start.dual if is_result else start, np.float64, (), finite=False)
    batch, size = program.batch, math.prod(program.row_shape)
    for shape, wanted in ((program.point_shape, not is_result), (program.row_shape, True)):
        core = len(shape)
        if not wanted or array.ndim < core or array.shape[array.ndim - core :] != shape:
            continue
        try:
            whole = np.broadcast_to(array, (*batch, *shape))
        except ValueError:
            continue
        flat = np.ascontiguousarray(whole).reshape(program.count, math.prod(shape))
        if shape == program.point_shape and not is_result:
            return None, flat
        return flat.reshape(program.count, size), None
    rows, point = (", ".join(map(str, shape)) for shape in (program.row_shape, program.point_shape))
    raise ValueError(
        f"start: got shape {array.shape}; allowed: a MaxMargin of the same rows, a point (..., {point}), or "
        f"multipliers (..., {rows}), broadcasting to the batch {batch}"
    )
