"""Tasks: what is computed for each instance, the variables it has, and rows for instances that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fastmm.scans.grid import function_name
from fastmm.scans.outcomes import Outcome
from fastmm.scans.streams import Streams

_FIRST_TRIALS = 16  # that a user's function may fail in before it is refused

Row = dict[str, npt.NDArray[Any]]
Check = Callable[[int], object]


class Interrupted(Exception):  # noqa: N818 - not an error
    """Raised inside a running chunk when the scan is told to stop."""


@dataclass(frozen=True)
class Variable:
    """One variable of a scan.

    Attributes
    ----------
    dtype : str
        "float64", "int64", "int8" or "bool".
    text : str
        What it is, for readers of the data.
    units : str
    near : float
        Where quantiles are to be resolved: their error is relative to the distance from this number.
    """

    dtype: str
    text: str = ""
    units: str = "1"
    near: float = 0.0

    @property
    def missing(self) -> Any:
        """What stands where there is no value."""
        return {"f": np.nan, "i": -1, "b": False}[np.dtype(self.dtype).kind]


class Task(Protocol):
    """What `scan` asks of a task; `name`, `variables` and `defaults` are settings, the rest is work."""

    name: str
    variables: dict[str, Variable]
    defaults: Mapping[str, Any]

    def clean(self, name: str, value: Any) -> Any:
        """One grid value, checked and in its own type."""

    def check(self, cell: Mapping[str, Any]) -> None:
        """Refuses a cell that has no instances."""

    def rows(self, streams: Streams, cell: Mapping[str, Any], threads: int, check: Check) -> Row:
        """The variables, "status" included, of all trials of the streams."""


ALWAYS = {
    "status": Variable("int8", "how the instance ended"),
    "seconds": Variable("float64", "time of the instance's chunk divided by its instances", "s"),
}


@dataclass(frozen=True)
class Chunk:
    """Work for one call: consecutive trials of one cell. Small, and pickled to where it is done."""

    task: Task
    cell: dict[str, Any]
    place: tuple[int, ...]
    key: tuple[int, int]
    first: int
    count: int


@dataclass(frozen=True)
class Rows:
    """The variables of a chunk, and the messages of its failures with the trial of each."""

    place: tuple[int, ...]
    first: int
    values: Row
    errors: list[tuple[int, str]] = field(default_factory=list)


def compute(chunk: Chunk, threads: int, check: Check) -> Rows:
    """The rows of a chunk. When it fails as a whole its trials are done one by one, so that only the guilty fail."""
    begin = time.perf_counter()
    errors: list[tuple[int, str]] = []
    values = _rows(chunk, chunk.first, chunk.count, threads, check, errors)
    values["seconds"] = np.full(chunk.count, (time.perf_counter() - begin) / chunk.count)
    return Rows(chunk.place, chunk.first, values, errors)


def _rows(chunk: Chunk, first: int, count: int, threads: int, check: Check, errors: list[tuple[int, str]]) -> Row:
    try:
        return chunk.task.rows(Streams(chunk.key, first, count), chunk.cell, threads, check)
    except (Interrupted, MemoryError):
        raise
    except Exception as error:
        if count > 1:
            parts = [_rows(chunk, trial, 1, threads, check, errors) for trial in range(first, first + count)]
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        errors.append((first, f"{type(error).__name__}: {error}"))
        row = {name: np.array([kind.missing], kind.dtype) for name, kind in chunk.task.variables.items()}
        return row | {"status": np.array([Outcome.error], np.int8)}


def batched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as one of whole batches: ``function(streams, **cell)`` returns arrays, one entry a stream.

    `streams` has a length and gives one `numpy.random.Generator` for each trial when iterated over. The entries of a
    trial must not depend on the others of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> import fastmm as mm
    >>> @mm.scans.batched
    ... def lengths(streams, d):
    ...     return {"length": np.linalg.norm([rng.standard_normal(d) for rng in streams], axis=1)}
    >>> mm.scan(lengths, {"d": [2, 8]}, trials=4, seed=0, progress=False).length.shape
    (2, 4)
    """
    function.batched = True  # type: ignore[attr-defined]
    return function


class FunctionTask:
    """A user's function of one grid cell: numbers, or a mapping of names to numbers, for each trial."""

    defaults: Mapping[str, Any] = {}

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function_name(function)
        self.variables: dict[str, Variable] = {}

    def clean(self, name: str, value: Any) -> Any:
        return value

    def check(self, cell: Mapping[str, Any]) -> None:
        """Any cell will do: what the function refuses are rows of failures."""

    def learn_variables(self, cell: Mapping[str, Any], key: tuple[int, int]) -> None:
        """Finds names and dtypes by computing a trial, which is not kept: the first of some that does not fail."""
        for trial in range(_FIRST_TRIALS):
            try:
                found = self._values(Streams(key, trial, 1), cell)
                break
            except Exception:
                if trial == _FIRST_TRIALS - 1:
                    raise
        for name, array in found.items():
            if name in ALWAYS or name == "trial" or name in cell:
                raise ValueError(f"task: returns the variable {name!r}; allowed: other names, this one is taken")
            self.variables[name] = Variable({"f": "float64", "b": "bool"}.get(array.dtype.kind, "int64"))

    def rows(self, streams: Streams, cell: Mapping[str, Any], threads: int, check: Check) -> Row:
        check(0)
        values = self._values(streams, cell)
        if set(values) != set(self.variables):
            raise ValueError(f"the task returned {sorted(values)}; its first call returned {sorted(self.variables)}")
        bad = np.zeros(len(streams), bool)
        for name, variable in self.variables.items():
            array = values[name]
            if not np.can_cast(array.dtype, variable.dtype, "safe"):
                raise ValueError(f"{name} is {array.dtype}; it was {variable.dtype} in the task's first call")
            values[name] = array.astype(variable.dtype)
            bad |= np.isnan(array) if array.dtype.kind == "f" else False
        return values | {"status": np.where(bad, Outcome.not_a_number, Outcome.ok).astype(np.int8)}

    def _values(self, streams: Streams, cell: Mapping[str, Any]) -> Row:
        if getattr(self.function, "batched", False):
            found = self.function(streams, **cell)
            named = found if isinstance(found, Mapping) else {"value": found}
            arrays = {str(name): np.asarray(value) for name, value in named.items()}
        else:
            results = [self.function(rng, **cell) for rng in streams]
            rows = [one if isinstance(one, Mapping) else {"value": one} for one in results]
            arrays = {str(name): np.array([row[name] for row in rows]) for name in rows[0]}
        for name, array in arrays.items():
            if array.shape != (len(streams),) or array.dtype.kind not in "biuf":
                given = f"{array.dtype} of shape {array.shape}"
                raise ValueError(f"the task's {name} is {given}; allowed: one real number for each trial")
        return arrays
