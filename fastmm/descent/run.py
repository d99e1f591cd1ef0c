"""descend: gradient descent on attention, whole runs in the compiled core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import arrays, losses
from fastmm.arrays import FloatArray
from fastmm.descent import engines, rules, stopping
from fastmm.descent.engines import Job
from fastmm.descent.parameters import Setup, set_up
from fastmm.descent.records import as_count, as_records
from fastmm.descent.rules import Rule
from fastmm.descent.stopping import Stop
from fastmm.descent.trajectory import History, Trajectory
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.progress import progress_bar

_REASONS = ("steps", "zero_gradient", "overflow", "interrupted")
_FIRST_CLAUSE = 16  # codes of the stopping rule's clauses, as in the compiled core
_LONGEST_SCHEDULE = 10**8


def descend(
    problem: Problem,
    p0: Any = None,
    v0: Any = None,
    W0: Any = None,
    steps: int = 1000,
    lr: Any = 0.1,
    rule: str | Rule = "normalized",
    train: str = "p",
    loss: str | Loss = "logistic",
    record: Any = None,
    stop: Stop | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int], object] = False,
    backend: str = "auto",
) -> Trajectory:
    """Run gradient descent on attention for a problem, or for a whole batch of problems.

    Parameters
    ----------
    problem : Problem
    p0 : array_like, shape (..., d_k), optional
        Start of p, 0 by default. Starts are rounded to the problem's dtype; their leading dimensions broadcast with
        the problem's: six starts on one problem are one call. With ``train="v"`` the query that stays.
    v0 : array_like, shape (..., d), optional
        Start of the head, the problem's by default.
    W0 : array_like, shape (..., d_q, d), or pair of them, optional
        Start of W, 0 by default; for ``train="KQ"`` the factors ``(Q0, K0)`` of shapes (..., d_q, m) and (..., d, m)
        with ``W = Q K'``.
    steps : int
        Number of steps.
    lr : float, array_like of shape (...), or callable
        Step size, positive: the length of a normalised step, the factor of the gradient in a plain one. A callable
        is a schedule: ``lr(k)`` is the step size of step k, counted from 0, for at most 1e8 steps.
    rule : str or Rule
        "normalized", "gradient", "polyak", "sign", "momentum", "adam", or a rule of `fastmm.rules` with its own
        settings; ``rule.within(p=R)`` projects every step onto a ball. Your own: `fastmm.custom_rule`.
    train : {"p", "v", "pv", "W", "Wv", "KQ", "KQv"}
        What is trained: the query p, the head v, the key-query matrix W of a problem with queries `Z` (logits
        ``X_i W' z_i``) or its factors. All gradients are taken at the same iterate, and each parameter has a step of
        its own.
    loss : {"logistic", "exponential", "correlation"} or Loss
        Your own: `fastmm.custom_loss`.
    record : int, "log" or array_like of int, optional
        Record the iterates every so many steps (start and end included), about ten times a decade, or after the given
        numbers of steps. Memory: one copy of the trained parameters a record.
    stop : Stop, optional
        Rule of `fastmm.stopping`, such as ``Saturation(0.999) | Time(60)``.
    threads : int, optional
        Number of threads; results are the same for any. See `fastmm.config.resolve_threads`.
    progress : bool or callable
        Show a progress bar, or call a function of your own with the number of steps done, in all runs together, every
        few milliseconds; an exception it raises ends the run and is passed on.
    backend : {"auto", "compiled", "numba"}
        The compiled core, or the Numba loops, which run p, v and both with normalised, plain and custom steps. "auto"
        takes the loops only for custom losses and rules.

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError
        For unknown names, starts that `train` does not use, shapes that do not fit, step sizes that are not positive,
        records outside 0..steps, W or its factors without queries.

    Notes
    -----
    Directions are those of `descent_direction`: they have no epsilon and do not underflow, so that normalised runs
    keep moving and keep turning towards the max-margin direction at any norm. A run stops as "zero_gradient" only
    when every trained parameter's gradient is exactly zero. Ctrl-C ends the call within 0.2 s and returns what was
    done.

    Cost: about ``4 n T d`` fused multiply-adds and ``n T`` exponentials a step (half as many again with a trained
    head), and for W and its factors about ``2 n d_q d``. Problems of at most 8192 key entries, and as many entries in
    every parameter, run one instance a vector lane, with threads over blocks of instances; the fastest of these are
    normalised and plain steps of constant length in p, or in W with one shared query (Lemma 1). Larger problems,
    Polyak's rule and heads whose values are not the keys have their lanes along the rows, with threads over
    instances or, for few instances of more than two million entries, over stretches of inputs. The choice depends on
    the shape and the kind of run alone: the bits of a result depend neither on the number of threads nor on what else
    is in the batch. A run with a stopping rule agrees with the run without it up to rounding. Runs that take other
    steps than normalised and plain ones keep their parameters in double precision and round what they return.

    References
    ----------
    The paper, Algorithm "W-GD/p-GD" and section 2; Theorems 2 and 3 for where runs in p go, section 4 for joint runs.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> run = mm.descend(problem, steps=100, lr=0.1)
    >>> run.direction, round(float(run.norm), 6), run.stop_reason
    (array([1., 0.]), 10.0, 'steps')
    >>> run = mm.descend(problem, train="pv", stop=mm.stopping.Saturation(0.999))
    >>> run.stop_reason, bool(run.saturation >= 0.999)
    ('saturation', True)
    """
    kind, own_rule = losses.get(loss), rules.get(rule)
    engine = engines.choose(backend, kind, own_rule)
    steps = as_count("steps", steps)
    setup = set_up(problem, train, p0, v0, W0, own_rule, keep_matrix=_looks_at_direction(stop))
    if own_rule.name == "polyak" and "v" in setup.names and kind.name == "correlation":
        raise ValueError("rule: got 'polyak' for a trained head and the correlation loss, whose risk has no infimum")
    rates, schedule = _rates(lr, steps, problem)
    named = [("problem", problem.batch_shape), *setup.batches(), ("lr", rates.shape)]
    batch = arrays.broadcast_batch(named)
    records = as_records(record, steps)
    conditions, clauses, names = stopping.compiled(stop, _direction_shape(problem, setup), batch)
    rule_stop = (conditions, clauses)
    job = Job(problem, setup, batch, kind, own_rule, rates, schedule, rule_stop, steps, records, threads)

    with progress_bar(progress, "descend", steps * job.runs) as callback:
        raw = (engines.run_numba if engine == "numba" else engines.run_compiled)(job, callback)
        if callback is not None:
            callback(int(raw.steps_done.sum()))

    history = None
    if record is not None:
        # rows after an interruption were never reached by any run
        some = next(iter(raw.records.values()))
        axes = tuple(range(1, some.ndim))
        reached = ~np.isnan(some).all(axis=axes) if job.runs else np.ones(records.size, dtype=np.bool_)
        paths = _with_matrix({name: path[reached] for name, path in raw.records.items()}, setup)
        fixed = {name: end for name, end in raw.ends.items() if name not in setup.names}
        history = History(records[reached], problem, kind, paths, train, fixed)
    reasons = _reasons(raw.reason, names)
    return Trajectory(
        steps_done=raw.steps_done if batch else int(raw.steps_done),
        stop_reason=reasons if batch else str(reasons),
        history=history,
        problem=problem,
        loss_kind=kind,
        train=train,
        parameters=_with_matrix(raw.ends, setup),
    )


def _rates(lr: Any, steps: int, problem: Problem) -> tuple[FloatArray, npt.NDArray[np.float64] | None]:
    """Step sizes (...), and factors (steps,) when lr is a schedule."""
    if callable(lr):
        if steps > _LONGEST_SCHEDULE:
            raise ValueError(f"lr: got a schedule for {steps} steps; allowed: at most {_LONGEST_SCHEDULE}")
        schedule = np.fromiter((lr(k) for k in range(steps)), dtype=np.float64, count=steps)
        bad = np.flatnonzero(~((schedule > 0) & np.isfinite(schedule)))
        if bad.size:
            raise ValueError(f"lr: the schedule gives {schedule[bad[0]]} at step {bad[0]}; allowed: positive numbers")
        return np.ones((), dtype=problem.dtype), schedule
    rates = arrays.floats("lr", lr, problem.dtype, ())
    if not np.all(rates > 0):
        raise ValueError(f"lr: got {rates[rates <= 0].flat[0]}; allowed: positive numbers")
    return rates, None


def _looks_at_direction(stop: Stop | None) -> bool:
    kinds = (stopping.Norm, stopping.DirectionChange, stopping.Angle)
    return isinstance(stop, Stop) and any(isinstance(c, kinds) for clause in stop.clauses for c in clause)


def _direction_shape(problem: Problem, setup: Setup) -> tuple[int, ...]:
    """Shape of the parameter whose direction stopping rules look at."""
    if "p" in setup.names:
        return (problem.d_k,)
    if setup.names == ("v",):
        return (problem.d,)
    assert problem.Z is not None
    return (problem.Z.shape[-1], problem.d)


def _with_matrix(values: dict[str, FloatArray], setup: Setup) -> dict[str, FloatArray]:
    return values if setup.lift is None else {"W": setup.lift.matrix(values["p"])}


def _reasons(codes: Any, names: tuple[str, ...]) -> Any:
    known = np.array([*_REASONS, *names])
    return known[np.where(codes >= _FIRST_CLAUSE, codes - _FIRST_CLAUSE + len(_REASONS), codes)]
