"""Loss and gradients, and the descent direction that never underflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastmm import _core, arrays, losses
from fastmm.arrays import FloatArray
from fastmm.config import resolve_threads
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.weights import PointCall


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
    call = _Call(problem, p)
    out = call.gradient(losses.get(loss), None, threads)
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
    wrt: str | tuple[str, ...] = "p",
    *,
    threads: int | None = None,
) -> LossAndGrad:
    """Risk ``mean_i ell(Y_i f_i)`` and its gradients in any of p, v and W.

    Parameters
    ----------
    problem : Problem
    p : array_like, shape (..., d_k), optional
        Point in p; 0 by default. Not to be given together with `W`.
    v : array_like, shape (..., d), optional
        Head to use instead of the problem's.
    W : array_like, shape (..., d_q, d), optional
        Key-query matrix; the logits are then ``X_i W' z_i`` with the problem's queries `Z`. By default, when "W" is
        asked for, the problem's W, else 0.
    loss : {"logistic", "exponential", "correlation"}
    wrt : {"p", "v", "W"} or tuple of them
    threads : int, optional
        Number of threads; the answer is the same for any.

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
    One pass over keys and, for v, values. Gradients are formed from their factored form: small ones keep their
    digits down to the smallest subnormal. The paper, section 2 and Lemma 1.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> out = mm.loss_and_grad(problem, [0.0, 0.0], loss="correlation", wrt=("p", "v"))
    >>> float(out.loss), out.grad["p"], out.grad["v"]
    (-0.5, array([-0.25,  0.  ]), array([-0.5,  0. ]))
    """
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt) if isinstance(wrt, (tuple, list)) else ()
    if not names or any(name not in ("p", "v", "W") for name in names):
        raise ValueError(f"wrt: got {wrt!r}; allowed: 'p', 'v', 'W' or a tuple of them")
    matrix = W is not None or "W" in names
    if matrix and (p is not None or "p" in names):
        raise ValueError("p and W: got both; allowed: one of them (the logits are K p, or X W' z)")
    if matrix and W is None:
        W = problem.W
    if v is not None:
        v = arrays.floats("v", v, problem.dtype, ("d",))
        problem = Problem(problem.X, problem.Y, v, K=problem.K, Z=problem.Z, lengths=problem.lengths)
    kind = losses.get(loss)
    values = "v" in names
    if matrix:
        return _matrix_gradient(problem, W, kind, names, threads)
    call = _Call(problem, np.zeros(problem.d_k) if p is None else p)
    out = call.gradient(kind, problem if values else None, threads)
    width = {"p": problem.d_k, "v": problem.d}
    grad = {name: _cast(out[f"natural_{name}"].reshape(*call.batch, width[name]), problem) for name in names}
    return LossAndGrad(_cast(out["loss"].reshape(call.batch), problem), grad)


def _matrix_gradient(problem: Problem, W: Any, kind: Loss, names: tuple[str, ...], threads: int | None) -> LossAndGrad:
    """Every input is a problem of its own with ``p_i = W' z_i``; its gradient g_i gives ``mean_i z_i g_i'``."""
    Z = problem.Z
    if Z is None:
        raise ValueError("W: the problem has no queries; allowed: W with Problem(..., Z=Z)")
    if W is None:
        W = np.zeros((Z.shape[-1], problem.d))
    W = arrays.floats("W", W, np.float64, ("d_q", "d"))
    arrays.need_shape("W", W, ("d_q", "d"), (Z.shape[-1], problem.d), "Z and X")
    n, T, d = problem.n, problem.T, problem.d
    batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("W", W.shape[:-2])])
    p = np.broadcast_to(Z.astype(np.float64) @ W, (*batch, n, d))  # (..., n, d): W' z_i
    lengths = problem.lengths
    single = Problem(
        np.broadcast_to(problem.X, (*problem.X.shape[:-3], n, T, d))[..., None, :, :],
        problem.Y[..., None],
        problem.v[..., None, :],
        lengths=None if lengths is None else lengths[..., None],
    )
    call = _Call(single, p)
    out = call.gradient(kind, single if "v" in names else None, threads)
    loss = out["loss"].reshape(*batch, n).mean(axis=-1)
    grad = {}
    if "W" in names:
        g = out["natural_p"].reshape(*batch, n, d)
        queries = np.broadcast_to(Z, (*batch, n, Z.shape[-1]))
        grad["W"] = _cast(np.swapaxes(queries, -1, -2) @ g / n, problem)
    if "v" in names:
        grad["v"] = _cast(out["natural_v"].reshape(*batch, n, d).mean(axis=-2), problem)
    return LossAndGrad(_cast(loss, problem), grad)


class _Call(PointCall):
    """A compiled call for gradients at a point."""

    def gradient(self, loss: Loss, values: Problem | None, threads: int | None) -> dict[str, Any]:
        keys = arrays.blocks(self.problem.K, 3, self.batch)
        scores, score_index = arrays.blocks(self.problem.scores, 2, self.batch)
        X, X_index = (None, None) if values is None else arrays.blocks(values.X, 3, self.batch)
        Y, Y_index = (None, None) if values is None else arrays.blocks(values.Y, 1, self.batch)
        out = _core.gradient(
            *keys,
            *self.lengths,
            scores=scores,
            score_index=score_index,
            values=X,
            value_index=X_index,
            labels=Y,
            label_index=Y_index,
            p=self.p[0],
            p_index=self.p[1],
            loss=loss.code,
            with_p=True,
            with_v=values is not None,
            threads=resolve_threads(threads),
        )
        if np.isnan(out["log_norm_p"]).any():
            raise ValueError("p: the logits K p leave the range of double precision; allowed: a smaller p")
        return out


def _cast(array: Any, problem: Problem) -> Any:
    return array.astype(problem.dtype, copy=False)[()]
