"""Loss and gradients, and the descent direction that never underflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastmm import losses
from fastmm.arrays import FloatArray
from fastmm.gradient_call import GradientCall, as_dtype_of
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
    call = GradientCall(problem, losses.get(loss), threads)
    call.at_p(p)
    out = call.evaluate(with_p=True)
    shape = (*call.batch, problem.d_k)
    return Direction(
        as_dtype_of(out["unit_p"].reshape(shape), problem), as_dtype_of(out["log_norm_p"].reshape(call.batch), problem)
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
    call = GradientCall(problem, losses.get(loss), threads)
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
    grad = (
        {name: as_dtype_of(array, problem) for name, array in grad.items()}
        if out is None
        else _filled(out, grad, problem)
    )
    return LossAndGrad(as_dtype_of(raw["loss"].reshape(call.batch), problem), grad)


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
    call = GradientCall(problem, losses.get(loss), threads)
    call.at_p(p)
    call.along(u)
    raw = call.evaluate(with_p=True)
    product: FloatArray = as_dtype_of(call.gradient("p", raw), problem)
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
