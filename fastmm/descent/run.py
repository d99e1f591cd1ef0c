"""descend: gradient descent on attention, whole runs in the compiled core."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fastmm import _core, arrays, losses
from fastmm.arrays import IntArray
from fastmm.config import resolve_threads
from fastmm.descent.trajectory import History, Trajectory
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.progress import progress_bar

_REASONS = np.array(["steps", "zero_gradient", "overflow", "interrupted"])


def descend(
    problem: Problem,
    p0: Any = None,
    v0: None = None,
    W0: None = None,
    steps: int = 1000,
    lr: Any = 0.1,
    rule: str = "normalized",
    train: str = "p",
    loss: str | Loss = "logistic",
    record: Any = None,
    stop: None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Trajectory:
    """Run gradient descent on the query p of a problem, or of a whole batch of problems.

    Parameters
    ----------
    problem : Problem
    p0 : array_like, shape (..., d_k), optional
        Start, 0 by default; rounded to the problem's dtype. Its leading dimensions broadcast with the problem's: six
        starts on one problem are one call.
    v0, W0 : None
        Starts of parameters that this version does not train.
    steps : int
        Number of steps.
    lr : float or array_like, shape (...)
        Step size, positive: the length of a normalised step, the factor of the gradient in a plain one.
    rule : {"normalized", "gradient"}
        ``p - lr grad/||grad||`` or ``p - lr grad``.
    train : {"p"}
    loss : {"logistic", "exponential", "correlation"}
    record : int or array_like of int, optional
        Record the iterates every so many steps (start and end included), or after the given numbers of steps.
    stop : None
        This version has no stopping rules.
    threads : int, optional
        Number of threads; results are the same for any. See `fastmm.config.resolve_threads`.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError
        For unknown names, shapes that do not fit, step sizes that are not positive, records outside 0..steps.

    Notes
    -----
    The direction is that of `descent_direction`: it has no epsilon and does not underflow, so that normalised runs
    keep moving and keep turning towards the max-margin direction at any ``||p||``. A run whose gradient is exactly
    zero stops with that reason. Ctrl-C ends the call within 0.2 s and returns what was done.

    Cost: about ``4 n T d`` fused multiply-adds and ``n T`` exponentials a step. Problems of at most 8192 key entries
    run one a vector lane, with threads over blocks of instances; larger ones have their lanes along the keys' rows,
    with threads over instances or, for few instances of more than two million entries, over stretches of inputs. The
    choice depends on the shape alone: the bits of a result depend neither on the number of threads nor on what else
    is in the batch.

    References
    ----------
    The paper, Algorithm "W-GD/p-GD" and section 2; Theorems 2 and 3 for where the runs go.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> run = mm.descend(problem, steps=100, lr=0.1)
    >>> run.direction, round(float(run.norm), 6), run.stop_reason
    (array([1., 0.]), 10.0, 'steps')
    """
    if rule not in ("normalized", "gradient"):
        raise ValueError(f"rule: got {rule!r}; allowed: 'normalized', 'gradient'")
    if train != "p":
        raise ValueError(f"train: got {train!r}; allowed in this version: 'p'")
    for name, value in (("v0", v0), ("W0", W0), ("stop", stop)):
        if value is not None:
            raise ValueError(f"{name}: got {type(value).__name__}; allowed in this version: None")
    kind = losses.get(loss)
    steps = _count("steps", steps)
    start = arrays.floats("p0", np.zeros(problem.d_k) if p0 is None else p0, problem.dtype, ("d_k",))
    arrays.need_shape("p0", start, ("d_k",), (problem.d_k,), "the keys")
    rates = arrays.floats("lr", lr, problem.dtype, ())
    if not np.all(rates > 0):
        raise ValueError(f"lr: got {rates[rates <= 0].flat[0]}; allowed: positive numbers")
    batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("p0", start.shape[:-1]), ("lr", rates.shape)])
    records = _records(record, steps)
    count = math.prod(batch)

    with progress_bar(progress, "descend", steps * count) as callback:
        out = _core.descend(
            *arrays.blocks(problem.K, 3, batch),
            *arrays.blocks(problem.scores, 2, batch),
            np.ascontiguousarray(np.broadcast_to(start, (*batch, problem.d_k))).reshape(count, problem.d_k),
            np.ascontiguousarray(np.broadcast_to(rates, batch)).reshape(count),
            kind.code,
            rule == "normalized",
            steps,
            records,
            *arrays.length_blocks(problem.lengths, batch),
            resolve_threads(threads),
            callback,
        )
        if callback is not None:
            callback(int(out["steps_done"].sum()))

    history = None
    if record is not None:
        path = out["recorded"].reshape(records.size, *batch, problem.d_k)
        reached = ~np.isnan(path).reshape(records.size, -1).all(axis=-1) if path.size else np.ones(records.size, bool)
        history = History(records[reached], path[reached], problem, kind.name)
    reasons = _REASONS[out["reason"]].reshape(batch)
    return Trajectory(
        p=out["p"].reshape(*batch, problem.d_k),
        steps_done=out["steps_done"].reshape(batch) if batch else int(out["steps_done"][0]),
        stop_reason=reasons if batch else str(reasons),
        history=history,
        problem=problem,
        loss_name=kind.name,
    )


def _count(name: str, value: Any) -> int:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: got {value!r}; allowed: an integer, 0 or more") from None
    if not 0 <= count < 2**62:
        raise ValueError(f"{name}: got {value!r}; allowed: an integer, 0 or more")
    return count


def _records(record: Any, steps: int) -> IntArray:
    """The step numbers to record: none, every so many with start and end, or those given."""
    if record is None:
        return np.zeros(0, dtype=np.int64)
    if np.ndim(record) == 0:
        every = _count("record", record)
        if every == 0:
            raise ValueError("record: got 0; allowed: a positive integer or increasing step numbers")
        numbers = np.arange(0, steps + 1, every, dtype=np.int64)
        return numbers if numbers[-1] == steps else np.append(numbers, np.int64(steps))
    numbers = arrays.as_steps("record", record)
    if numbers.size and (numbers[0] < 0 or numbers[-1] > steps or np.any(np.diff(numbers) <= 0)):
        raise ValueError(f"record: got {numbers.tolist()[:10]}; allowed: increasing step numbers in 0..{steps}")
    return numbers
