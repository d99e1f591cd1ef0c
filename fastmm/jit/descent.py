"""Descent by the Numba loops: the counterpart of the compiled core's runs, and the place where users' functions run."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fastmm.arrays import FloatArray, IntArray
from fastmm.config import resolve_threads
from fastmm.jit import gradient, loop, rules, scalar
from fastmm.jit.block import block_of, data_of
from fastmm.jit.compiling import rebound
from fastmm.jit.lanes import WIDTH
from fastmm.jit.twins import twin
from fastmm.jit.user_loss import CustomLoss
from fastmm.jit.user_rule import CustomRule
from fastmm.losses import Loss, get
from fastmm.problem import Problem

_TRAIN = ("p", "v", "pv")
_RULES = {"normalized": rules.NORMALIZED, "gradient": rules.GRADIENT}

# Multiplications of one compiled call, about 10 to 50 ms: Python sees a Ctrl-C between two of them.
_BUDGET = 10_000_000

# Problems of more key entries than this run one at a time, in single numbers: decided by the shape alone.
_LANES_LIMIT = 8192


def run(
    problem: Problem,
    p0: FloatArray,
    v0: FloatArray | None = None,
    steps: int = 1000,
    lr: FloatArray | float = 0.1,
    rule: str | CustomRule = "normalized",
    train: str = "p",
    loss: str | Loss = "logistic",
    records: IntArray | None = None,
    batch: tuple[int, ...] = (),
    threads: int | None = None,
    callback: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Gradient descent on p, v or both for every instance of a batch, in Numba-compiled loops.

    This is what ``descend(..., backend="numba")`` calls after checking its arguments; it takes plain arrays and
    checks names and shapes only.

    Parameters
    ----------
    problem : Problem
        Its blocks are shared between the instances of the batch as `fastmm.arrays.blocks` says, never copied a batch.
    p0 : ndarray, shape (count, d_k)
        Starts, or the fixed query when only v is trained; ``count`` is the number of instances, ``prod(batch)``.
    v0 : ndarray, shape (count, d), optional
        Starts of v, or with ``train="p"`` the fixed head; the problem's head by default.
    steps : int
    lr : float or ndarray, shape (count,) or (count, steps)
        Step sizes, of both groups when two are trained.
    rule : {"normalized", "gradient"} or CustomRule
        ``x - lr grad/||grad||`` or ``x - lr grad`` for each trained group x, or a `custom_rule`.
    train : {"p", "v", "pv"}
        With "pv" both gradients are taken at the same iterate and each group is stepped by its own.
    loss : {"logistic", "exponential", "correlation"} or Loss, custom ones included
    records : ndarray of int64, shape (R,), optional
        Increasing numbers of steps, in 0..steps, after which the iterates are recorded.
    batch : tuple of int
        Batch shape; the problem's broadcasts to it.
    threads : int, optional
        See `fastmm.config.resolve_threads`. Threads take instances; results are the same bits for any number.
    callback : callable, optional
        Told the number of steps done so far, summed over the instances, about 20 times a second.

    Returns
    -------
    dict
        ``p`` (count, d_k) and ``v`` (count, d): end points; ``recorded_p`` (R, count, d_k) and ``recorded_v``
        (R, count, d), NaN where an interrupted run did not get to, the last iterate repeated where a run ended
        before; ``steps_done`` (count,) int64; ``reason`` (count,) int8: 0 steps, 1 zero_gradient (of every trained
        group, exactly), 2 overflow (the next step, or the logits, leave the numbers), 3 interrupted. Floats are of
        the problem's dtype. Groups that are not trained come back as they were given; ``recorded_v`` is (R, count, 0)
        unless v is trained.

    Raises
    ------
    ValueError
        For unknown names and arrays that do not fit.

    Notes
    -----
    The gradients are factored like those of `fastmm.descent_direction`: relative to the token with the largest
    weight, the common exponent apart, exact at any ``||p||``; that of v carries the exponent of the loss slope in the
    same way. All arithmetic is in double precision; float32 problems are copied to float64 and results rounded at
    the end. No fast-math: no sum is reordered, no bits depend on threads or on the batch.

    Ctrl-C ends the call within 0.2 s and returns what was done (a user's own functions permitting: they are not
    interrupted). Numba's thread pool and settings are not touched. A worker needs about the memory of one instance's
    keys, and of its tokens when v is trained.

    Compile times, measured on a slow and busy core: 55 s for the built-in losses and rules, all in one, and as much
    again for problems of more than 8192 key entries, which run in single numbers instead of lanes; both once a
    machine where Numba's cache folder can be written (``NUMBA_CACHE_DIR``; 0.2 s from there), else once a process.
    Each combination of custom loss and rule adds 16 to 18 s once a process, because Numba cannot tell on disk whether
    a user's function has changed; 50 to 70 s where nothing is cached.

    Examples
    --------
    >>> import numpy as np
    >>> import fastmm as mm
    >>> from fastmm import jit
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> out = jit.run(problem, np.zeros((1, 2)), steps=100, lr=0.1)
    >>> out["p"].round(6), out["steps_done"], out["reason"]
    (array([[10.,  0.]]), array([100]), array([0], dtype=int8))
    """
    count = math.prod(batch)
    kind = get(loss)
    if train not in _TRAIN:
        raise ValueError(f"train: got {train!r}; allowed: {', '.join(map(repr, _TRAIN))}")
    if not isinstance(rule, CustomRule) and rule not in _RULES:
        raise ValueError(f"rule: got {rule!r}; allowed: 'normalized', 'gradient', or a custom_rule")
    train_p, train_v = "p" in train, "v" in train
    p = _start("p0", p0, (count, problem.d_k))
    v = _start("v0", np.broadcast_to(problem.v, (*batch, problem.d)) if v0 is None else v0, (count, problem.d))
    rates = np.array(lr, dtype=np.float64)
    rates = np.full((count, 1), rates) if rates.ndim == 0 else rates.reshape(count, -1) if rates.size else rates
    if rates.shape not in ((count, 1), (count, steps)):
        raise ValueError(f"lr: got shape {np.shape(lr)}; allowed: (), ({count},) or ({count}, {steps})")
    rows = np.zeros(0, dtype=np.int64) if records is None else np.array(records, dtype=np.int64)

    scores = problem.scores
    if train == "p" and v0 is not None:
        scores = Problem(problem.X, problem.Y, v.reshape(*batch, problem.d), lengths=problem.lengths).scores
    data = data_of(problem, batch, scores)
    out = _Out(
        p=p,
        v=v,
        recorded_p=np.full((rows.size, count, problem.d_k), np.nan),
        recorded_v=np.full((rows.size, count, problem.d if train_v else 0), np.nan),
        steps_done=np.zeros(count, dtype=np.int64),
        reason=np.full(count, loop.INTERRUPTED, dtype=np.int64),
    )
    job = np.zeros(loop.JOB_ENTRIES, dtype=np.int64)
    job[loop.COUNT], job[loop.MOST_STEPS], job[loop.RATES_EACH], job[loop.RECORDS] = (
        count,
        steps,
        rates.shape[1],
        rows.size,
    )
    job[loop.RULE] = rules.CUSTOM if isinstance(rule, CustomRule) else _RULES[rule]
    job[loop.LOSS] = 0 if isinstance(kind, CustomLoss) else kind.code
    job[loop.TRAIN_P], job[loop.TRAIN_V] = train_p, train_v
    job[loop.DATA :] = [a.ctypes.data for a in (data.addresses, p, v, rates, rows, *out[2:])]
    if count:
        width = WIDTH if problem.n * problem.T * problem.d_k <= _LANES_LIMIT else 1
        crew = _Crew(problem, job, width, kernel_of(kind, rule, width), rule, callback)
        crew.run(min(resolve_threads(threads), -(-count // width)))
    dtype = problem.dtype
    floats = {name: getattr(out, name).astype(dtype, copy=False) for name in ("p", "v", "recorded_p", "recorded_v")}
    return {**floats, "steps_done": out.steps_done, "reason": out.reason.astype(np.int8)}


class _Out(NamedTuple):
    p: Any
    v: Any
    recorded_p: Any
    recorded_v: Any
    steps_done: Any
    reason: Any


def _start(name: str, value: Any, shape: tuple[int, int]) -> Any:
    start = np.array(value, dtype=np.float64)  # a copy: runs move it
    if start.size != math.prod(shape):
        raise ValueError(f"{name}: got shape {np.shape(value)}; allowed: {shape}")
    return np.ascontiguousarray(start.reshape(shape))


def kernel_of(loss: Loss, rule: str | CustomRule, width: int) -> Any:
    """The compiled loop for 8 lanes or 1: the built-in one, or a twin with the user's functions inlined."""
    return _kernel(
        loss if isinstance(loss, CustomLoss) else None, rule if isinstance(rule, CustomRule) else None, width
    )


@lru_cache(maxsize=64)
def _kernel(loss: CustomLoss | None, rule: CustomRule | None, width: int) -> Any:
    if loss is None and rule is None:
        return loop.run_stretch if width == WIDTH else scalar.run_stretch
    names: dict[str, Any] = {}
    if loss is not None:
        names["slopes_of"] = rebound(gradient.slopes_of_custom, parts=loss.parts)
    if rule is not None:
        names["apply_rule"] = rebound(rules.apply_custom, update=rule.compiled)
    return twin(width, names).run_stretch


class _Crew:
    """Workers that take blocks of instances from one list until all are done or the call is interrupted."""

    def __init__(
        self,
        problem: Problem,
        job: IntArray,
        width: int,
        kernel: Any,
        rule: Any,
        callback: Callable[[int], Any] | None,
    ) -> None:
        self._problem, self._job, self._width, self._kernel, self._callback = problem, job, width, kernel, callback
        self._memory = rule.state if isinstance(rule, CustomRule) else 0
        self._count = int(job[loop.COUNT])
        self._stopped = False
        self._cursors: list[IntArray] = []
        self._error: BaseException | None = None

    def run(self, threads: int) -> None:
        blocks = -(-self._count // self._width)
        self._size = self._width * max(1, min(1024, blocks // (8 * threads)))
        self._next = itertools.count(0, self._size)  # its steps are atomic
        try:
            if threads == 1:
                self._work(report=True)
            else:
                self._wait([threading.Thread(target=self._guarded, daemon=True) for _ in range(threads)])
        except KeyboardInterrupt:
            self._stopped = True
        if self._error is not None:
            raise self._error

    def _wait(self, crew: list[threading.Thread]) -> None:
        try:
            for worker in crew:
                worker.start()
            for worker in crew:
                while worker.is_alive():
                    worker.join(0.05)
                    self._report()
        finally:
            self._stopped = True
            for worker in crew:
                if worker.ident is not None:
                    worker.join()

    def _guarded(self) -> None:
        try:
            self._work(report=False)
        except BaseException as error:  # handed to the calling thread
            self._error, self._stopped = error, True

    def _work(self, report: bool) -> None:
        train_v = bool(self._job[loop.TRAIN_V])
        d, e = self._problem.d_k, self._problem.d if train_v else 0
        block = block_of(self._problem, train_v, self._width)
        cursor = np.zeros(loop.CURSOR_ENTRIES, dtype=np.int64)
        points, active = np.zeros((2, d + e)), np.zeros(self._width)
        states = np.zeros((2, self._width, self._memory * max(d, e)))
        self._cursors.append(cursor)
        addresses = [a.ctypes.data for a in (block.table, self._job, cursor)]
        for first in self._next:
            if first >= self._count or self._stopped:
                return
            cursor[:3] = first, min(first + self._size, self._count), -1
            while not self._kernel(*addresses, points, states, active, _BUDGET):
                if report:
                    self._report()
                if self._stopped:
                    return

    def _report(self) -> None:
        if self._callback is not None:
            self._callback(sum(int(cursor[loop.DONE]) for cursor in self._cursors))
