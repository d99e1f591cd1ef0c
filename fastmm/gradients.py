"""Loss and gradients, and the descent direction that never underflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastmm import _core, arrays, losses
from fastmm.arrays import FloatArray
from fastmm.config import resolve_threads
from fastmm.losses import Loss
from fastmm.problem import Problem

PARAMETERS = ("p", "v", "W", "Q", "K")


class Direction(NamedTuple):
    """Steepest descent at a point: the unit vector, and the logarithm of the gradient's norm."""

    direction: Any
    log_norm: Any


def descent_direction(
    problem: Problem, p: Any, loss: str | Loss = "logistic", *, threads: int | None = None
) -> Direction:
    """Unit vector along minus the gradient of the risk in p, and the logarithm of the gradient's norm.

    Exact at any size of p, also where the gradient itself underflows: the largest exponent is taken out of the sum
    before anything is exponentiated, and every term is relative to the token with the largest weight, so that
    nothing cancels.

    Parameters
    ----------
    problem : Problem
    p : array_like, shape (..., d_k)
        Leading dimensions broadcast with those of the problem.
    loss : {"logistic", "exponential", "correlation"}
    threads : int, optional
        Number of threads; the answer is the same for any.

    Returns
    -------
    direction : ndarray, shape (..., d_k)
        Of norm 1, or 0 where the gradient is exactly zero (one token, equal scores, equal keys).
    log_norm : ndarray, shape (...)
        ``-inf`` where the gradient is exactly zero.

    Raises
    ------
    ValueError
        For shapes that do not fit, or when the logits ``K p`` leave the double range.

    Notes
    -----
    One pass over the keys. Equation of the gradient: the paper, section 2; the factored form is fastmm's own and is
    written out in `fastmm.reference.descent_direction`.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[3.0, 4.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> direction, log_norm = mm.descent_direction(problem, [96.0, 128.0])
    >>> direction, round(float(log_norm), 6)  # the gradient itself is about 1e-348
    (array([0.6, 0.8]), -800.340537)
    """
    call = _Call(problem, losses.get(loss), threads)
    call.at_p(p)
    out = call.evaluate(with_p=True)
    shape = (*call.batch, problem.d_k)
    return Direction(
        _cast(out["unit_p"].reshape(shape), problem), _cast(out["log_norm_p"].reshape(call.batch), problem)
    )


@dataclass(frozen=True)
class LossAndGrad:
    """Risk and gradients: ``loss`` of shape (...), ``grad[name]`` of the shape of the parameter."""

    loss: Any
    grad: dict[str, FloatArray]


def loss_and_grad(
    problem: Problem,
    p: Any = None,
    v: Any = None,
    W: Any = None,
    loss: str | Loss = "logistic",
    wrt: str | Sequence[str] = "p",
    *,
    threads: int | None = None,
    out: dict[str, FloatArray] | None = None,
) -> LossAndGrad:
    """Risk ``mean_i ell(Y_i f_i)`` and its gradients in any of p, v and W, or the factors of W.

    Parameters
    ----------
    problem : Problem
    p : array_like, shape (..., d_k), optional
        Point in p; 0 by default. Not to be given together with `W`.
    v : array_like, shape (..., d), optional
        Head to use instead of the problem's.
    W : array_like, shape (..., d_q, d), or a tuple (Q, K) of them, optional
        Key-query matrix; the logits are then ``X_i W' z_i`` with the problem's queries `Z`. A tuple of factors Q
        (..., d_q, m) and K (..., d, m) stands for ``W = Q K'``. By default, when "W" is asked for, the problem's W,
        else 0.
    loss : {"logistic", "exponential", "correlation"}
    wrt : {"p", "v", "W", "Q", "K"} or tuple of them
        "Q" and "K" are the factors of W and need `W` to be given as such.
    threads : int, optional
        Number of threads; the answer is the same for any.
    out : dict, optional
        An array for each name of `wrt`, of the gradient's shape and the problem's dtype, C-contiguous and writeable:
        it is filled, and returned in ``.grad``.

    Returns
    -------
    LossAndGrad
        ``.loss`` of shape (...) and ``.grad[name]`` of the shape of the parameter, in the problem's dtype.

    Raises
    ------
    ValueError
        For unknown names, shapes that do not fit, "W" without queries, or logits that leave the double range.

    Notes
    -----
    One pass over keys and values, which are read once where they are the same array; a `v` that is given, too, makes
    its scores in that pass. Gradients are formed from their factored form: small ones keep their digits down to the
    smallest subnormal. The paper, section 2 and Lemma 1.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> out = mm.loss_and_grad(problem, [0.0, 0.0], loss="correlation", wrt=("p", "v"))
    >>> float(out.loss), out.grad["p"], out.grad["v"]
    (-0.5, array([-0.25,  0.  ]), array([-0.5,  0. ]))
    """
    names = wanted_names(wrt)
    factors = isinstance(W, tuple)
    matrix = W is not None or bool({"W", "Q", "K"} & set(names))
    if matrix and (p is not None or "p" in names):
        raise ValueError("p and W: got both; allowed: one of them (the logits are K p, or X W' z)")
    if factors and "W" in names:
        raise ValueError("wrt: got 'W' with factors W=(Q, K); allowed: 'Q' and 'K'")
    if not factors and {"Q", "K"} & set(names):
        raise ValueError(f"wrt: got {wrt!r} without factors; allowed: 'Q' and 'K' with W=(Q, K)")
    call = _Call(problem, losses.get(loss), threads)
    if v is not None:
        call.at_v(v)
    if factors:
        call.at_factors(W)
    elif matrix:
        call.at_matrix(problem.W if W is None else W)
    else:
        call.at_p(np.zeros(problem.d_k) if p is None else p)
    raw = call.evaluate(with_p=bool({"p", "W", "Q", "K"} & set(names)), with_v="v" in names)
    grad = {name: call.gradient(name, raw) for name in names}
    grad = {name: _cast(array, problem) for name, array in grad.items()} if out is None else _filled(out, grad, problem)
    return LossAndGrad(_cast(raw["loss"].reshape(call.batch), problem), grad)


def hessian_vector(
    problem: Problem, p: Any, u: Any, loss: str | Loss = "logistic", *, threads: int | None = None
) -> FloatArray:
    """The Hessian of the risk in p, times a vector.

    Parameters
    ----------
    problem : Problem
    p, u : array_like, shape (..., d_k)
        The point and the vector.
    loss : {"logistic", "exponential", "correlation"}
    threads : int, optional
        Number of threads; the answer is the same for any.

    Returns
    -------
    ndarray, shape (..., d_k)
        ``H u`` in the problem's dtype.

    Raises
    ------
    ValueError
        For shapes that do not fit, or when the logits ``K p`` or ``K u`` leave the double range.

    Notes
    -----
    One pass over the keys, and nothing of the size of H. With weights s, scores gamma and ``b = K_i u`` of an input,
    means ``z = s'gamma`` and ``m = s'b``, and ``c = s'((gamma - z) (b - m))``, it adds
    ``K_i' (s ((gamma - z) (ell''(z) c + ell'(z) (b - m)) - ell'(z) c))``: the derivative along u of
    ``ell'(z) K_i' (s (gamma - z))``, the paper's gradient of section 2. The form is factored as the gradient's is.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> mm.hessian_vector(problem, [0.0, 0.0], [1.0, 5.0], loss="exponential").round(6)
    array([0.037908, 0.      ])
    """
    call = _Call(problem, losses.get(loss), threads)
    call.at_p(p)
    call.along(u)
    raw = call.evaluate(with_p=True)
    product: FloatArray = _cast(call.gradient("p", raw), problem)
    return product


def wanted_names(wrt: Any) -> tuple[str, ...]:
    """The names in `wrt` as a tuple; refuses unknown ones."""
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt) if isinstance(wrt, (tuple, list)) else ()
    if not names or any(name not in PARAMETERS for name in names):
        raise ValueError(f"wrt: got {wrt!r}; allowed: 'p', 'v', 'W' or a tuple of them, or 'Q' and 'K' with W=(Q, K)")
    return names


def _filled(out: Any, grad: dict[str, FloatArray], problem: Problem) -> dict[str, FloatArray]:
    """The arrays of `out`, holding the gradients."""
    if not isinstance(out, dict) or set(out) != set(grad):
        given = sorted(map(str, out)) if isinstance(out, dict) else type(out).__name__
        raise ValueError(f"out: got {given}; allowed: a dict with an array for each of {sorted(grad)}")
    for name, array in grad.items():
        own = out[name]
        if not (
            isinstance(own, np.ndarray)
            and own.shape == array.shape
            and own.dtype == problem.dtype
            and own.flags.c_contiguous
            and own.flags.writeable
        ):
            given = f"{own.dtype} of shape {own.shape}" if isinstance(own, np.ndarray) else type(own).__name__
            raise ValueError(
                f"out[{name!r}]: got {given}; allowed: a C-contiguous, writeable {problem.dtype} array of shape "
                f"{array.shape}"
            )
        own[...] = array
    return {name: out[name] for name in grad}


class _Call:
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


def _cast(array: Any, problem: Problem) -> Any:
    return array.astype(problem.dtype, copy=False)[()]
