"""Plan: one gradient of a fixed problem, evaluated again and again without an allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import _core, arrays, losses
from fastmm.arrays import FloatArray
from fastmm.config import resolve_threads
from fastmm.gradients import wanted_names
from fastmm.losses import Loss
from fastmm.problem import Problem


class Plan:
    """Fixes problem, parameters, loss, threads and workspace once; each call then only runs the kernel.

    Parameters
    ----------
    problem : Problem
        Its batch is the plan's.
    wrt : {"p", "v", "W"} or tuple of them
        Gradients to evaluate. With "W" the point is W and the logits are ``X_i W' z_i``, else it is p.
    loss : {"logistic", "exponential", "correlation"}
    threads : int, optional
        Number of threads for each element of the batch; the answer is the same for any.

    Attributes
    ----------
    grad : dict of ndarray
        Gradient of each parameter, shape (..., size of the parameter). The arrays stay the same and are filled anew by
        each call.
    direction, log_norm : dict of ndarray
        The same gradients as unit directions of steepest descent and logarithms of norms, which never underflow.
    loss : ndarray, shape (...)
        The risk.

    Raises
    ------
    ValueError
        For unknown names, "p" together with "W", "W" without queries; and, from a call, for an array that is not
        C-contiguous, of the problem's dtype and of the plan's shape, or logits that leave the double range.

    Notes
    -----
    A call costs about a microsecond more than the kernel. The data of the problem are read where they are: one pass, in
    which values that are the keys are read once. Two threads may call one plan; they take turns, and the results are
    those of the last. The formulas are those of `fastmm.loss_and_grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastmm as mm
    >>> plan = mm.Plan(mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0]), loss="correlation")
    >>> plan(np.zeros(2)).grad["p"]
    array([-0.25,  0.  ])
    """

    def __init__(
        self,
        problem: Problem,
        wrt: str | Sequence[str] = "p",
        loss: str | Loss = "logistic",
        threads: int | None = None,
    ) -> None:
        names = wanted_names(wrt)
        if {"Q", "K"} & set(names):
            raise ValueError(f"wrt: got {wrt!r}; allowed in a plan: 'p', 'v', 'W' or a tuple of them")
        if {"p", "W"} <= set(names):
            raise ValueError("p and W: got both; allowed: one of them (the logits are K p, or X W' z)")
        self.problem = problem
        batch = problem.batch_shape
        matrix = "W" in names
        Z = self._queries(problem) if matrix else None
        make = _core.Plan64 if problem.dtype == np.float64 else _core.Plan32
        self._core = make(
            *arrays.blocks(problem.X if matrix else problem.K, 3, batch),
            *arrays.length_blocks(problem.lengths, batch),
            *arrays.blocks(problem.scores, 2, batch),
            *arrays.blocks(problem.X, 3, batch),
            *arrays.blocks(problem.Y, 1, batch),
            Z,
            "p" in names,
            "v" in names,
            matrix,
            losses.get(loss).code,
            resolve_threads(threads),
        )
        self._run = self._core.run
        outputs = self._core.outputs()
        self.loss: FloatArray = self._core.loss().reshape((*batch,))

        def shown(kind: str) -> dict[str, FloatArray]:
            return {name: own[kind].reshape((*batch, *own[kind].shape[1:])) for name, own in outputs.items()}

        self.grad = shown("grad")
        self.direction = shown("direction")
        self.log_norm = shown("log_norm")

    def __call__(self, p: Any = None, v: Any = None, W: Any = None) -> Plan:
        """Evaluates at p (..., d_k) or W (..., d_q, d), and with the head v (..., d) if one is given; returns self."""
        if len(self.problem.batch_shape) > 1:
            p, v, W = self._flat(p), self._flat(v), self._flat(W)
        self._run(p, v, W)
        return self

    def _flat(self, value: Any) -> Any:
        """One axis for the batch, as the core has it; what does not fit is left for it to refuse."""
        batch = self.problem.batch_shape
        if isinstance(value, np.ndarray) and value.flags.c_contiguous and value.shape[: len(batch)] == batch:
            return value.reshape((-1, *value.shape[len(batch) :]))
        return value

    @staticmethod
    def _queries(problem: Problem) -> npt.NDArray[np.float64]:
        if problem.Z is None:
            raise ValueError("W: the problem has no queries; allowed: W with Problem(..., Z=Z)")
        Z = np.broadcast_to(problem.Z.astype(np.float64), (*problem.batch_shape, *problem.Z.shape[-2:]))
        return np.ascontiguousarray(Z).reshape(-1, *problem.Z.shape[-2:])
