"""Derivatives of ATT-SVM solutions and margins with respect to the keys, through the active set."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import arrays, integers
from fastmm.arrays import FloatArray
from fastmm.margin.result import MaxMargin


def margin_vjp(K: Any, selected: Any, result: MaxMargin, grad_w: Any = None, grad_margin: Any = None) -> FloatArray:
    """Gradient in the keys of any function of ``w`` and the margin of `att_svm`, given its gradient in these.

    Parameters
    ----------
    K : array_like, shape (..., n, T, d)
        The keys that were given to `att_svm`.
    selected : array_like of int, shape (..., n)
    result : MaxMargin
        The answer of ``att_svm(K, selected, ...)``, relaxed inputs and lengths included.
    grad_w : array_like, shape (..., d), optional
        Derivatives by the entries of w.
    grad_margin : array_like, shape (...), optional
        Derivative by the margin.

    Returns
    -------
    ndarray, shape (..., n, T, d)
        Derivatives by the keys, with the leading dimensions of `result`; 0 for keys without influence, NaN for
        programs without a certified answer.

    Raises
    ------
    TypeError
        For complex and object arrays.
    ValueError
        When neither gradient is given, or shapes do not fit those of the answer.

    Notes
    -----
    With N the rows that have a multiplier, ``w = N'λ`` and ``N w = b``. For a gradient g of w, ``h`` the least-squares
    solution of ``N'h = g`` and r what it leaves of g, the gradient by N is ``λ r' - h w'``. That is the derivative as
    long as the active set stays as it is under small changes, which holds when every neighbor has a multiplier (strict
    complementarity). Where a neighbor has none, w has a kink there and this is one of its one-sided derivatives; the
    margin still has a derivative when the multipliers are unique. Cost: about ``d q²`` for q active rows.

    References
    ----------
    Amos, Kolter, "OptNet: Differentiable Optimization as a Layer in Neural Networks", ICML 2017.

    Examples
    --------
    >>> import fastmm as mm
    >>> K = [[[2.0, 0.0], [0.0, 0.0]]]
    >>> answer = mm.att_svm(K, [0])
    >>> mm.margin_vjp(K, [0], answer, grad_margin=1.0)
    array([[[ 1.,  0.],
            [-1.,  0.]]])
    """
    keys = arrays.floats("K", K, np.float64, ("n", "T", "d"), finite=False)
    n, T, d = keys.shape[-3:]
    tokens = integers.as_selected("selected", selected, n, T, None)
    batch = result.w.shape[:-1]
    if result.w.shape != (*batch, d) or result.dual.shape != (*batch, n, T):
        raise ValueError(f"result: has rows {result.dual.shape} and w {result.w.shape}; allowed: that of att_svm for K")
    if grad_w is None and grad_margin is None:
        raise ValueError("grad_w and grad_margin: got neither; allowed: one or both")
    upstream = np.zeros((*batch, d))
    try:
        keys = np.broadcast_to(keys, (*batch, n, T, d)).reshape(-1, n, T, d)
        tokens = np.broadcast_to(tokens, (*batch, n)).reshape(-1, n)
        if grad_w is not None:
            upstream = upstream + np.broadcast_to(arrays.floats("grad_w", grad_w, np.float64, ("d",)), (*batch, d))
        if grad_margin is not None:
            by_margin = np.broadcast_to(arrays.floats("grad_margin", grad_margin, np.float64, ()), batch)
            margin = np.asarray(result.margin)
            finite = np.where(np.isfinite(margin), margin, 0.0)  # nothing to separate: no derivative
            own = np.where(np.isnan(result.direction), 0.0, result.direction)
            upstream = upstream - (by_margin * finite**2)[..., None] * own
    except ValueError as error:
        raise ValueError(
            f"K, selected, grad_w, grad_margin: do not broadcast to the batch {batch} of result"
        ) from error
    out = np.zeros((keys.shape[0], n, T, d))
    duals, points, gradients = result.dual.reshape(-1, n, T), result.w.reshape(-1, d), upstream.reshape(-1, d)
    for k, solved in enumerate(np.asarray(result.optimal).reshape(-1)):
        if solved:
            _one(keys[k], tokens[k], duals[k], points[k], gradients[k], out[k])
        else:
            out[k] = np.nan
    return out.reshape(*batch, n, T, d)


def _one(K: FloatArray, selected: Any, dual: FloatArray, w: FloatArray, gradient: FloatArray, out: FloatArray) -> None:
    inputs, tokens = np.nonzero(dual)
    if not len(inputs):
        return
    chosen = selected[inputs]
    N = K[inputs, chosen] - K[inputs, tokens]
    by_rows, _ = active_vjp(N, dual[inputs, tokens], w, gradient)
    np.add.at(out, (inputs, chosen), by_rows)
    np.add.at(out, (inputs, tokens), -by_rows)


def active_vjp(
    N: FloatArray, multipliers: FloatArray, w: FloatArray, gradient: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Derivatives in the active rows N (q, d) and in their right-hand sides (q), given that by ``w = N'λ``."""
    scale = np.linalg.norm(N, axis=1)  # rows of one length: their sizes must not decide what counts as dependent
    Q, R = np.linalg.qr((N / scale[:, None]).T)
    h = np.linalg.solve(R, Q.T @ gradient) / scale
    rest = gradient - Q @ (Q.T @ gradient)
    return np.outer(multipliers, rest) - np.outer(h, w), h
