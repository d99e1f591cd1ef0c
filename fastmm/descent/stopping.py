"""Stopping rules of descent runs: small conditions, joined by ``|`` (any of) and ``&`` (all of)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fastmm import arrays
from fastmm.arrays import FloatArray

_MOST_CLAUSES = 100  # codes the compiled core has for them


class Stop:
    """A condition, or several joined: ``a | b`` stops when one holds, ``a & b`` when both hold at the same iterate.

    Conditions are looked at before each step, at the iterate the step starts from. `Trajectory.stop_reason` is then
    the name of the rule: "loss", "saturation & angle", ...

    Examples
    --------
    >>> import fastmm as mm
    >>> rule = mm.stopping.Saturation(0.999) & mm.stopping.Loss(0.1) | mm.stopping.Time(60)
    >>> rule.names
    ('saturation & loss', 'time')
    """

    clauses: tuple[tuple[Condition, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What `Trajectory.stop_reason` says, for each clause."""
        return tuple(" & ".join(condition.name for condition in clause) for clause in self.clauses)

    def __or__(self, other: Stop) -> Stop:
        if not isinstance(other, Stop):
            return NotImplemented
        return Joined(self.clauses + other.clauses)

    def __and__(self, other: Stop) -> Stop:
        if not isinstance(other, Stop):
            return NotImplemented
        return Joined(tuple(a + b for a in self.clauses for b in other.clauses))


@dataclass(frozen=True)
class Joined(Stop):
    """Several clauses; made by ``|`` and ``&``."""

    clauses: tuple[tuple[Condition, ...], ...]


@dataclass(frozen=True)
class Condition(Stop):
    """One condition with a bound."""

    bound: float
    name: ClassVar[str]
    code: ClassVar[int]
    least: ClassVar[float] = -math.inf

    def __post_init__(self) -> None:
        value = self.bound
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or math.isnan(value):
            raise ValueError(f"{type(self).__name__}: got {value!r}; allowed: a number")
        if value < self.least:
            raise ValueError(f"{type(self).__name__}: got {value!r}; allowed: {self.least:g} or more")

    @cached_property
    def clauses(self) -> tuple[tuple[Condition, ...], ...]:  # type: ignore[override]
        return ((self,),)


@dataclass(frozen=True)
class Steps(Condition):
    """Stop after so many steps."""

    name, code, least = "steps", 0, 0


@dataclass(frozen=True)
class Loss(Condition):
    """Stop when the risk is at most `bound`."""

    name, code = "loss", 1


@dataclass(frozen=True)
class Saturation(Condition):
    """Stop when every input has a token whose attention weight is at least `bound`."""

    name, code = "saturation", 2


@dataclass(frozen=True)
class Norm(Condition):
    """Stop when the norm of the trained attention parameter (of v when only v is trained) is at least `bound`."""

    name, code, least = "norm", 3, 0


@dataclass(frozen=True)
class DirectionChange(Condition):
    """Stop when the direction turned by at most `bound` radians within `every` steps.

    The direction is that of p, of the matrix W (of ``Q K'`` when the factors are trained), or of v when only v is.
    """

    every: int = 100
    name, code, least = "direction_change", 4, 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.every, bool) or not isinstance(self.every, (int, np.integer)) or self.every < 1:
            raise ValueError(f"every: got {self.every!r}; allowed: an integer, 1 or more")


@dataclass(frozen=True, eq=False)
class Angle(Condition):
    """Stop when the direction is within `bound` radians of that of `to`.

    `to` has the shape of the parameter, ``(..., d_k)`` for p and ``(..., d_q, d)`` for W; leading dimensions broadcast
    with those of the run, so that every run of a batch has its own.
    """

    to: Any = None
    name, code, least = "angle", 5, 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to is None:
            raise ValueError("to: got None; allowed: a vector (or matrix) other than 0")

    def target(self, shape: tuple[int, ...]) -> FloatArray:
        """`to` as doubles (..., size), checked against the shape of the parameter."""
        axes = [f"axis {k}" for k in range(len(shape))]
        to = arrays.floats("to", self.to, np.float64, axes)
        arrays.need_shape("to", to, axes, shape, "the trained parameter")
        flat = to.reshape(*to.shape[: to.ndim - len(shape)], math.prod(shape))
        if not np.all(np.any(flat != 0, axis=-1)):
            raise ValueError("to: got a zero vector; allowed: one with a direction")
        return flat


@dataclass(frozen=True)
class Time(Condition):
    """Stop a run after so many seconds of its own; the one condition whose result depends on the machine."""

    name, code, least = "time", 6, 0


def compiled(
    stop: Any, shape: tuple[int, ...], batch: tuple[int, ...]
) -> tuple[list[tuple[Any, ...]], list[list[int]], tuple[str, ...]]:
    """Conditions and clauses as the compiled core takes them, and the clauses' names."""
    if stop is None:
        return [], [], ()
    if not isinstance(stop, Stop):
        raise ValueError(f"stop: got {stop!r}; allowed: None or a rule of fastmm.stopping")
    if len(stop.clauses) > _MOST_CLAUSES:
        raise ValueError(f"stop: got {len(stop.clauses)} clauses; allowed: at most {_MOST_CLAUSES}")
    conditions: list[Condition] = []
    clauses: list[list[int]] = []
    for clause in stop.clauses:
        clauses.append(list(range(len(conditions), len(conditions) + len(clause))))
        conditions.extend(clause)
    return [_compiled_condition(condition, shape, batch) for condition in conditions], clauses, stop.names


def _compiled_condition(condition: Condition, shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[Any, ...]:
    every = condition.every if isinstance(condition, DirectionChange) else 1
    if not isinstance(condition, Angle):
        return condition.code, float(condition.bound), every, None, None
    target = condition.target(shape)
    if arrays.broadcast_batch([("run", batch), ("to", target.shape[:-1])]) != batch:
        raise ValueError(f"to: got batch {target.shape[:-1]}; allowed: one that broadcasts to the run's {batch}")
    return condition.code, float(condition.bound), every, *arrays.blocks(target, 1, batch)
