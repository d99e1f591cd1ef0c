"""One call of the compiled gradients: blocks of a problem and a point, checked, and gradients made from the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import _core, arrays
from fastmm.arrays import FloatArray
from fastmm.config import resolve_threads
from fastmm.losses import Loss
from fastmm.problem import Problem


class GradientCall:
    """A compiled call for gradients: the point is set part by part, then evaluated."""

    def __init__(self, problem: Problem, loss: Loss, threads: int | None) -> None:
        self.problem = problem
        self.loss = loss
        self.threads = resolve_threads(threads)
        self.where = "p: the logits K p leave"
        self.remedy = "a smaller p"
        self.head: FloatArray | None = None
        self.keys = problem.K
        self.named: list[tuple[str, tuple[int, ...]]] = []  # batch shapes of what is given with the call
        self.p: FloatArray | None = None  # (..., d_k): one query for all inputs
        self.u: FloatArray | None = None
        self.factors: dict[str, FloatArray] = {}

    @property
    def batch(self) -> tuple[int, ...]:
        """Common leading dimensions; a head given with the call stands for the problem's own."""
        own = self.problem.batch_shape
        if self.head is not None:
            shapes = self.problem.batches(without=("v",))
            own = arrays.broadcast_batch(shapes)
        return arrays.broadcast_batch([("problem", own), *self.named])

    def at_p(self, p: Any) -> None:
        self.p = self._vector("p", p, self.problem.d_k, "d_k", "the keys")

    def along(self, u: Any) -> None:
        self.u = self._vector("u", u, self.problem.d_k, "d_k", "the keys")
        self.where, self.remedy = "p and u: the logits K p or K u leave", "a smaller p or u"

    def at_v(self, v: Any) -> None:
        # in the problem's precision first: a head means the same here and in a Problem
        head = self._vector("v", arrays.floats("v", v, self.problem.dtype, ("d",)), self.problem.d, "d", "X")
        self.head = head

    def at_matrix(self, W: Any) -> None:
        Z = self._queries()
        if W is None:
            W = np.zeros((Z.shape[-1], self.problem.d))
        W = arrays.floats("W", W, np.float64, ("d_q", "d"))
        arrays.need_shape("W", W, ("d_q", "d"), (Z.shape[-1], self.problem.d), "Z and X")
        self.named.append(("W", W.shape[:-2]))
        self.factors = {"W": W}

    def at_factors(self, W: Any) -> None:
        Z = self._queries()
        if len(W) != 2:
            raise ValueError(f"W: got a tuple of {len(W)}; allowed: a matrix, or its factors (Q, K)")
        Q = arrays.floats("Q", W[0], np.float64, ("d_q", "m"))
        K = arrays.floats("K", W[1], np.float64, ("d", "m"))
        arrays.need_extents("Q", Q, ("d_q", "m"))
        arrays.need_shape("Q", Q, ("d_q", "m"), (Z.shape[-1], Q.shape[-1]), "Z")
        arrays.need_shape("K", K, ("d", "m"), (self.problem.d, Q.shape[-1]), "X and Q")
        self.named += [("Q", Q.shape[:-2]), ("K", K.shape[:-2])]
        self.factors = {"Q": Q, "K": K}

    def evaluate(self, *, with_p: bool = False, with_v: bool = False) -> dict[str, Any]:
        """Risk and gradients as the core gives them; ValueError where logits or scores leave the doubles."""
        problem, batch = self.problem, self.batch
        given: dict[str, Any] = {}

        def give(name: str, index: str, array: npt.NDArray[Any], core: int) -> None:
            given[name], given[index] = arrays.blocks(array, core, batch)

        if self.factors:
            given |= self._query_blocks(batch)
        elif self.p is not None:
            give("p", "p_index", self.p, 1)
        if self.u is not None:
            give("along", "along_index", self.u, 1)
        if self.head is not None or with_v:  # values are read anyway: scores are made on the way
            give("values", "value_index", problem.X, 3)
            give("labels", "label_index", problem.Y, 1)
            head = problem.v.astype(np.float64, copy=False) if self.head is None else self.head
            give("v", "v_index", head, 1)
        else:
            give("scores", "score_index", problem.scores, 2)
        out: dict[str, Any] = _core.gradient(
            *arrays.blocks(problem.X if self.factors else self.keys, 3, batch),
            *arrays.length_blocks(problem.lengths, batch),
            **given,
            loss=self.loss.code,
            with_p=with_p,
            with_v=with_v,
            threads=self.threads,
        )
        if not (np.isfinite(out["loss"]).all() and self._are_numbers(out)):
            self._refuse(out)
        return out

    def gradient(self, name: str, out: dict[str, Any]) -> FloatArray:
        """One gradient from what `evaluate` gave, as doubles."""
        batch = self.batch
        if name in ("p", "v"):
            width = self.problem.d_k if name == "p" else self.problem.d
            whole: FloatArray = out[f"natural_{name}"].reshape(*batch, width)
            return whole
        Z = self._of_batch(self._queries(), batch)
        if "pulls" in out:
            pulls, exponents = out["pulls"], out["exponents"]
        else:  # one query for all: one outer product
            pulls, exponents = out["unit_p"][:, None, :], out["log_norm_p"][:, None]
        if name == "W":
            left, right = Z, pulls
        elif name == "Q":
            left, right = Z, _core.rows_times(pulls, self._of_batch(self.factors["K"], batch), False)
        else:
            left, right = pulls, _core.rows_times(Z, self._of_batch(self.factors["Q"], batch), False)
        mean = _core.outer_mean(left, right, exponents, self.threads)["natural"]
        matrix: FloatArray = mean.reshape(*batch, *mean.shape[1:])
        return matrix

    def _vector(self, name: str, value: Any, width: int, axis: str, source: str) -> FloatArray:
        vector = arrays.floats(name, value, np.float64, (axis,))
        arrays.need_shape(name, vector, (axis,), (width,), source)
        self.named.append((name, vector.shape[:-1]))
        return vector

    def _queries(self) -> FloatArray:
        if self.problem.Z is None:
            raise ValueError("W: the problem has no queries; allowed: W with Problem(..., Z=Z)")
        self.where, self.remedy = "W: the logits X W' z leave", "a smaller W"
        return self.problem.Z

    def _query_blocks(self, batch: tuple[int, ...]) -> dict[str, Any]:
        """Queries ``W' z_i`` of all inputs, or the one query that they share as p."""
        Z = self._of_batch(self._queries(), batch)
        if "W" in self.factors:
            queries = _core.rows_times(Z, self._of_batch(self.factors["W"], batch), False)
        else:
            queries = _core.rows_times(Z, self._of_batch(self.factors["Q"], batch), False)
            queries = _core.rows_times(queries, self._of_batch(self.factors["K"], batch), True)
        index = np.arange(len(queries), dtype=np.int64)
        if Z.shape[1] == 1:
            return {"p": queries[:, 0, :], "p_index": index}
        return {"queries": queries, "query_index": index}

    @staticmethod
    def _of_batch(array: FloatArray, batch: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """A matrix for each element of the batch."""
        own = np.broadcast_to(array.astype(np.float64, copy=False), (*batch, *array.shape[-2:]))
        return np.ascontiguousarray(own).reshape(-1, *array.shape[-2:])

    @staticmethod
    def _are_numbers(out: dict[str, Any]) -> bool:
        logs = ("log_norm_p", "log_norm_v", "exponents")
        return not any(np.isnan(out[name]).any() for name in logs if name in out)

    def _refuse(self, out: dict[str, Any]) -> None:
        if self.head is not None:  # perhaps it is the scores: they say so themselves
            head = self.head.astype(self.problem.dtype, copy=False)
            self.problem.with_head(head).scores  # noqa: B018
        else:
            self.problem.scores  # noqa: B018
        if not self._are_numbers(out) or np.isnan(out["loss"]).any():
            raise ValueError(f"{self.where} the range of double precision; allowed: {self.remedy}")


def as_dtype_of(array: Any, problem: Problem) -> Any:
    """The array in the problem's dtype; a scalar for one without axes."""
    return array.astype(problem.dtype, copy=False)[()]
