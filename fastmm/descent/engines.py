"""The two engines of descent runs, the compiled core and the Numba loops, behind one signature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastmm import _core
from fastmm.arrays import FloatArray, IntArray
from fastmm.config import resolve_threads
from fastmm.descent.parameters import ROLES, Setup, problem_arguments, start_arguments
from fastmm.descent.rules import Rule
from fastmm.losses import Loss
from fastmm.problem import Problem

ENGINES = ("auto", "compiled", "numba")


class Job(NamedTuple):
    """A checked call of `descend`."""

    problem: Problem
    setup: Setup
    batch: tuple[int, ...]
    loss: Loss
    rule: Any  # a Rule, or a custom rule of the Numba loops
    rates: FloatArray  # (...) step sizes
    schedule: npt.NDArray[np.float64] | None  # (steps,) factors of them
    stop: tuple[list[tuple[Any, ...]], list[list[int]]]  # conditions and clauses
    steps: int
    records: IntArray
    threads: int | None

    @property
    def runs(self) -> int:
        """Number of runs."""
        return math.prod(self.batch)


class Raw(NamedTuple):
    """What an engine returns: ends (...) and records (R, ...) by name, steps done and reasons (...)."""

    ends: dict[str, FloatArray]
    records: dict[str, FloatArray]
    steps_done: IntArray
    reason: npt.NDArray[np.int8]


def choose(backend: str, loss: Loss, rule: Any) -> str:
    """The engine for a call: the compiled core, unless a loss or rule is the user's own."""
    if backend not in ENGINES:
        raise ValueError(f"backend: got {backend!r}; allowed: {', '.join(map(repr, ENGINES))}")
    own = [name for name, value, kind in (("loss", loss, Loss), ("rule", rule, Rule)) if _is_custom(value, kind)]
    if backend == "compiled" and own:
        raise ValueError(f"backend: got 'compiled' with a custom {own[0]}; allowed: 'auto' or 'numba'")
    return "numba" if backend == "numba" or own else "compiled"


def _is_custom(value: Any, kind: type) -> bool:
    return type(value) is not Loss if kind is Loss else not isinstance(value, kind)


def run_compiled(job: Job, callback: Callable[[int], object] | None) -> Raw:
    """All runs in the compiled core."""
    setup, problem = job.setup, job.problem
    conditions, clauses = job.stop
    out = _core.descend(
        **problem_arguments(problem, setup, job.batch),
        loss=job.loss.code,
        parameters=start_arguments(setup, job.batch, job.rule.radii),
        lr=np.ascontiguousarray(np.broadcast_to(job.rates * setup.rate, job.batch), problem.dtype).reshape(job.runs),
        schedule=job.schedule,
        rule=job.rule.settings,
        conditions=conditions,
        clauses=clauses,
        steps=job.steps,
        record=job.records,
        threads=resolve_threads(job.threads),
        progress=callback,
    )

    def shaped(found: dict[int, FloatArray], name: str, shape: tuple[int, ...]) -> FloatArray:
        array = found[ROLES[name]]
        return array.reshape(*shape, *array.shape[-2 : array.ndim if setup.core(name) == 2 else -1])

    return Raw(
        {name: shaped(out["end"], name, job.batch) for name in setup.starts},
        {name: shaped(out["recorded"], name, (job.records.size, *job.batch)) for name in setup.names},
        out["steps_done"].reshape(job.batch),
        out["reason"].reshape(job.batch),
    )


def run_numba(job: Job, callback: Callable[[int], object] | None) -> Raw:
    """All runs in the Numba loops: p, v or both, normalised, plain and custom steps."""
    from fastmm import jit

    setup, problem = job.setup, job.problem
    train = "".join(setup.names)
    if train not in ("p", "v", "pv") or setup.lift is not None or "p" not in setup.starts:
        raise ValueError(f"train: got {'W' if setup.lift else train!r}; allowed with backend='numba': 'p', 'v', 'pv'")
    rule = job.rule
    if isinstance(rule, Rule):
        if rule.name not in ("normalized", "gradient") or rule.radii:
            given = f"{rule.name!r}" + (" within balls" if rule.radii else "")
            raise ValueError(
                f"rule: got {given}; allowed with backend='numba': 'normalized', 'gradient' or a custom_rule"
            )
        rule = rule.name
    if job.stop[1]:
        raise ValueError("stop: got a rule; allowed with backend='numba': None")
    rates = np.broadcast_to(job.rates, job.batch).reshape(job.runs).astype(np.float64)
    starts = {k: np.broadcast_to(s, (*job.batch, s.shape[-1])).reshape(job.runs, -1) for k, s in setup.starts.items()}
    out = jit.run(
        problem,
        starts["p"],
        starts.get("v"),
        job.steps,
        rates if job.schedule is None else rates[:, None] * job.schedule,
        rule,
        train,
        job.loss,
        job.records,
        job.batch,
        job.threads,
        callback,
    )
    return Raw(
        {name: out[name].reshape(*job.batch, -1) for name in setup.starts},
        {name: out[f"recorded_{name}"].reshape(job.records.size, *job.batch, out[name].shape[-1]) for name in train},
        out["steps_done"].reshape(job.batch),
        out["reason"].reshape(job.batch),
    )
