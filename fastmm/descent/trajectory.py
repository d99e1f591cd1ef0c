"""What a run returns: the end point, what attention looks like there, and the iterates recorded on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from fastmm.arrays import FloatArray, IntArray
from fastmm.gradients import loss_and_grad
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.weights import attention_by_queries, attention_of


def norm_of(x: FloatArray, axes: int = 1) -> Any:
    """Euclidean norm over the last axes, without overflow or underflow."""
    flat = _flat(x, axes)
    largest = np.abs(flat).max(axis=-1, keepdims=True)
    scaled = np.divide(flat, largest, out=np.zeros_like(flat), where=largest > 0)
    return (largest[..., 0] * np.sqrt((scaled * scaled).sum(axis=-1)))[()]


def direction_of(x: FloatArray, axes: int = 1) -> FloatArray:
    """x divided by its norm over the last axes; NaN where x is 0."""
    flat = _flat(x, axes)
    largest = np.abs(flat).max(axis=-1, keepdims=True)
    scaled = np.divide(flat, largest, out=np.full_like(flat, np.nan), where=largest > 0)
    unit: FloatArray = scaled / np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    return unit.reshape(x.shape)


def _flat(x: FloatArray, axes: int) -> FloatArray:
    return x.reshape(*x.shape[: x.ndim - axes], -1) if axes != 1 else x


class Point:
    """The parameters at one point of a run or at several: p or W (or its factors Q and K), and the head v."""

    problem: Problem
    loss_kind: Loss
    parameters: dict[str, FloatArray]

    @property
    def loss_name(self) -> str:
        """Name of the loss."""
        return self.loss_kind.name

    @property
    def p(self) -> FloatArray | None:
        """The query, shape (..., d_k); None in runs of W or its factors."""
        return self.parameters.get("p")

    @property
    def v(self) -> FloatArray:
        """The head, shape (..., d): the problem's when it was not trained."""
        return self.parameters.get("v", self.problem.v)

    @cached_property
    def W(self) -> FloatArray | None:  # noqa: N802 - the paper's letter
        """The key-query matrix, shape (..., d_q, d): ``Q K'`` of factors; the problem's when p was trained."""
        if "Q" in self.parameters:
            return np.asarray(self.parameters["Q"] @ np.swapaxes(self.parameters["K"], -1, -2))
        return self.parameters.get("W", self.problem.W)

    @property
    def Q(self) -> FloatArray | None:  # noqa: N802
        """The factor Q of ``W = Q K'``, shape (..., d_q, m); None unless it was trained."""
        return self.parameters.get("Q")

    @property
    def K(self) -> FloatArray | None:  # noqa: N802
        """The factor K of ``W = Q K'``, shape (..., d, m); None unless it was trained."""
        return self.parameters.get("K")

    @property
    def _main(self) -> tuple[FloatArray, int]:
        """What norm and direction are about, and its number of axes."""
        if self.train == "v":
            return self.v, 1
        if self.p is not None:
            return self.p, 1
        assert self.W is not None
        return self.W, 2

    train: str

    @cached_property
    def norm(self) -> Any:
        """Norm of p, or Frobenius norm of W; of v when only that was trained. Shape (...)."""
        return norm_of(*self._main)

    @cached_property
    def direction(self) -> FloatArray:
        """p, W or v (as for `norm`) divided by its norm; NaN where it is 0."""
        return direction_of(*self._main)


def risk_at(problem: Problem, loss: Loss, p: FloatArray | None, v: FloatArray | None, W: FloatArray | None) -> Any:
    """Risk at given parameters, shape (...)."""
    if type(loss) is not Loss:  # a user's own: the compiled core does not know it
        return _risk_of_margins(problem, loss, weights_at(problem, p, W), v)
    if p is not None:
        return loss_and_grad(problem, p, v=v, loss=loss).loss
    return loss_and_grad(problem, v=v, W=W, loss=loss, wrt="W").loss


def _risk_of_margins(problem: Problem, loss: Loss, weights: FloatArray, v: FloatArray | None) -> Any:
    scores = problem.scores if v is None else problem.Y[..., None] * (problem.X @ v[..., None, :, None])[..., 0]
    margins = (weights * np.where(problem.real_tokens, scores, 0)).sum(axis=-1)
    return np.asarray(loss.value(margins)).mean(axis=-1)[()]


def weights_at(problem: Problem, p: FloatArray | None, W: FloatArray | None) -> FloatArray:
    """Attention weights at given parameters, shape (..., n, T)."""
    if p is not None:
        return attention_of(problem, p)
    assert W is not None
    assert problem.Z is not None
    queries = problem.Z.astype(np.float64) @ W
    return attention_by_queries(problem, np.broadcast_to(queries, (*queries.shape[:-2], problem.n, problem.d)))


@dataclass(frozen=True, eq=False)
class History(Point):
    """Iterates recorded during a run; the recording axis comes first.

    Attributes
    ----------
    steps : ndarray of int, shape (R,)
        Numbers of steps taken when the iterates were recorded; 0 is the start.
    parameters : dict
        Iterates (R, ...) of each trained parameter; `p`, `v`, `W`, `Q` and `K` name them. Where a run of a batch
        stopped early its last iterate is repeated, where it was interrupted they are NaN.
    """

    steps: IntArray
    problem: Problem = field(repr=False)
    loss_kind: Loss = field(repr=False)
    parameters: dict[str, FloatArray]
    train: str = field(repr=False, default="p")
    fixed: dict[str, FloatArray] = field(repr=False, default_factory=dict)

    @cached_property
    def loss(self) -> FloatArray:
        """Risk, shape (R, ...)."""
        return self._at_reached(lambda **at: risk_at(self.problem, self.loss_kind, **at), heads=True)

    @cached_property
    def saturation(self) -> FloatArray:
        """Smallest over the inputs of the largest attention weight, shape (R, ...)."""
        return self._at_reached(lambda p, W: weights_at(self.problem, p, W).max(axis=-1).min(axis=-1), heads=False)

    def _at_reached(self, function: Any, *, heads: bool) -> FloatArray:
        """The function of each recorded iterate, one record at a time to bound memory, NaN where none was reached."""
        first = next(iter(self.parameters))
        core = 1 if first in ("p", "v") else 2
        rows = []
        for k in range(self.steps.size):
            missing = np.isnan(self.parameters[first][k]).any(axis=tuple(range(-core, 0)))
            point: dict[str, FloatArray | None] = {
                "p": self._one("p", k, missing),
                "W": None if self.p is not None or "p" in self.fixed else self._one("W", k, missing),
            }
            if heads:
                point["v"] = self._one("v", k, missing)
            rows.append(np.where(missing, np.nan, function(**point)))
        dtype, shape = self.parameters[first].dtype, self.parameters[first].shape
        return np.array(rows, dtype=dtype).reshape(shape[: len(shape) - core])

    def _one(self, name: str, k: int, missing: Any) -> FloatArray | None:
        if name in self.fixed:
            return self.fixed[name]
        path = self.W if name == "W" else self.parameters.get(name)
        if path is None or (name == "v" and "v" not in self.parameters):
            return None
        own = missing[..., None] if name != "W" else missing[..., None, None]
        return np.asarray(np.where(own, 0, path[k]))


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Point):
    """A finished run of `descend`, or a batch of them.

    Attributes
    ----------
    parameters : dict
        End points in the problem's dtype; `p`, `v`, `W`, `Q` and `K` name them.
    steps_done : int or ndarray of int, shape (...)
        Steps taken.
    stop_reason : str or ndarray of str, shape (...)
        "steps" (all steps were taken), "zero_gradient" (every trained gradient is exactly zero), "overflow" (the next
        step leaves the range of the dtype), "interrupted" (Ctrl-C: what was done until then is returned), or the name
        of the stopping rule.
    history : History or None
        What was recorded.
    problem : Problem
    loss_kind : Loss
    train : str
    """

    steps_done: Any
    stop_reason: Any
    history: History | None
    problem: Problem = field(repr=False)
    loss_kind: Loss
    train: str
    parameters: dict[str, FloatArray]

    @property
    def _attention(self) -> dict[str, FloatArray | None]:
        return {"p": self.p, "W": None if self.p is not None else self.W}

    @cached_property
    def loss(self) -> Any:
        """Risk at the end point, shape (...)."""
        return risk_at(self.problem, self.loss_kind, v=self.parameters.get("v"), **self._attention)

    @cached_property
    def weights(self) -> FloatArray:
        """Attention weights at the end point, shape (..., n, T); 0 at padding."""
        return weights_at(self.problem, **self._attention)

    @cached_property
    def selected(self) -> IntArray:
        """The token with the largest weight of each input, shape (..., n); says little while `saturation` is small."""
        return np.asarray(self.weights.argmax(axis=-1), dtype=np.int64)

    @cached_property
    def saturation(self) -> Any:
        """``min_i max_t`` of the attention weights, shape (...): near 1 when every input has selected one token."""
        return self.weights.max(axis=-1).min(axis=-1)[()]

    def __repr__(self) -> str:
        if isinstance(self.stop_reason, str):
            return f"<Trajectory of {self.train}: {self.steps_done} steps, {self.stop_reason}, norm {self.norm:.6g}>"
        reasons = Counter(self.stop_reason.ravel().tolist())
        ends = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"<Trajectory of {self.train}, batch {self.stop_reason.shape}: {ends or 'empty'}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("steps_done", "stop_reason"))
        same = same and (self.loss_name, self.train) == (other.loss_name, other.train)
        if not same or self.problem != other.problem or not _equal(self.parameters, other.parameters):
            return False
        if self.history is None or other.history is None:
            return self.history is other.history
        return np.array_equal(self.history.steps, other.history.steps) and _equal(
            self.history.parameters, other.history.parameters
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _equal(a: dict[str, FloatArray], b: dict[str, FloatArray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)
