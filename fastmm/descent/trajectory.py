"""What a run returns: the end point, what attention looks like there, and the iterates recorded on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from fastmm.arrays import FloatArray, IntArray
from fastmm.attention import attention_of, loss_and_grad
from fastmm.problem import Problem


def norm_of(p: FloatArray) -> Any:
    """Euclidean norm along the last axis, without overflow or underflow."""
    largest = np.abs(p).max(axis=-1, keepdims=True)
    scaled = np.divide(p, largest, out=np.zeros_like(p), where=largest > 0)
    return (largest[..., 0] * np.sqrt((scaled * scaled).sum(axis=-1)))[()]


def direction_of(p: FloatArray) -> FloatArray:
    """p divided by its norm along the last axis; NaN where p is 0."""
    largest = np.abs(p).max(axis=-1, keepdims=True)
    scaled = np.divide(p, largest, out=np.full_like(p, np.nan), where=largest > 0)
    unit: FloatArray = scaled / np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    return unit


@dataclass(frozen=True, eq=False)
class History:
    """Iterates recorded during a run; the recording axis comes first.

    Attributes
    ----------
    steps : ndarray of int, shape (R,)
        Numbers of steps taken when the iterates were recorded; 0 is the start.
    p : ndarray, shape (R, ..., d_k)
        Iterates. Where a run of a batch stopped early its last iterate is repeated, where it was interrupted NaN.
    """

    steps: IntArray
    p: FloatArray
    problem: Problem = field(repr=False)
    loss_name: str = field(repr=False)

    @cached_property
    def norm(self) -> FloatArray:
        """Norms ``||p||``, shape (R, ...)."""
        return np.asarray(norm_of(self.p))

    @cached_property
    def loss(self) -> FloatArray:
        """Risk, shape (R, ...)."""
        return self._at_reached(lambda p: loss_and_grad(self.problem, p, loss=self.loss_name).loss)

    @cached_property
    def saturation(self) -> FloatArray:
        """Smallest over the inputs of the largest attention weight, shape (R, ...)."""
        return self._at_reached(lambda p: attention_of(self.problem, p).max(axis=-1).min(axis=-1))

    def _at_reached(self, function: Any) -> FloatArray:
        """The function of each recorded iterate, one record at a time to bound memory, NaN where none was reached."""
        rows = []
        for p in self.p:
            missing = np.isnan(p).any(axis=-1)
            rows.append(np.where(missing, np.nan, function(np.where(missing[..., None], 0, p))))
        return np.array(rows, dtype=self.p.dtype).reshape(self.p.shape[:-1])


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A finished run of `descend`, or a batch of them.

    Attributes
    ----------
    p : ndarray, shape (..., d_k)
        End point, in the problem's dtype.
    steps_done : int or ndarray of int, shape (...)
        Steps taken.
    stop_reason : str or ndarray of str, shape (...)
        "steps" (all steps were taken), "zero_gradient" (the gradient is exactly zero), "overflow" (the next step
        leaves the range of the dtype) or "interrupted" (Ctrl-C: what was done until then is returned).
    history : History or None
        What was recorded.
    problem : Problem
    loss_name : str
    """

    p: FloatArray
    steps_done: Any
    stop_reason: Any
    history: History | None
    problem: Problem = field(repr=False)
    loss_name: str

    @property
    def v(self) -> FloatArray:
        """The problem's head, which was not trained, shape (..., d)."""
        return self.problem.v

    @property
    def W(self) -> FloatArray | None:  # noqa: N802 - the paper's letter
        """The problem's key-query matrix, which was not trained, or None."""
        return self.problem.W

    @cached_property
    def norm(self) -> Any:
        """Norm ``||p||``, shape (...)."""
        return norm_of(self.p)

    @cached_property
    def direction(self) -> FloatArray:
        """``p / ||p||``, shape (..., d_k); NaN where p is 0."""
        return direction_of(self.p)

    @cached_property
    def loss(self) -> Any:
        """Risk at the end point, shape (...)."""
        return loss_and_grad(self.problem, self.p, loss=self.loss_name).loss

    @cached_property
    def weights(self) -> FloatArray:
        """Attention weights at the end point, shape (..., n, T); 0 at padding."""
        return attention_of(self.problem, self.p)

    @cached_property
    def selected(self) -> IntArray:
        """The token with the largest weight of each input, shape (..., n); says little while `saturation` is small."""
        return np.asarray(self.weights.argmax(axis=-1), dtype=np.int64)

    @cached_property
    def saturation(self) -> Any:
        """``min_i max_t`` of the attention weights, shape (...): near 1 when every input has selected one token."""
        return self.weights.max(axis=-1).min(axis=-1)[()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        same = all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("p", "steps_done", "stop_reason")
        )
        if not same or self.problem != other.problem or self.loss_name != other.loss_name:
            return False
        if self.history is None or other.history is None:
            return self.history is other.history
        return np.array_equal(self.history.steps, other.history.steps) and np.array_equal(
            self.history.p, other.history.p, equal_nan=True
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
